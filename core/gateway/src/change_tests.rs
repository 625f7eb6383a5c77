use super::*;
use crate::error::Code;
use crate::restart::{Restart, restart_job};
use crate::testing::{Memory, NOW, Running, run, web};
use crate::update::{scale_job, update_job};
use echelon_core_model::Span;
use echelon_core_model::job::JobState;
use echelon_core_testkit::build::JobBuilder;

const LATER: Timestamp = NOW.plus(Span::seconds(60));

fn by_name(etag: &str) -> Change {
    Change {
        job: JobRef::Name("web".into()),
        etag: etag.into(),
    }
}

fn wish(store: &mut Memory, wish: Wish, etag: &str) -> Result<JobView, ErrorReason> {
    let change = by_name(etag);
    run(store, move |facts| async move {
        change_goal(&facts, change, wish, LATER).await
    })
    .map_err(|e| e.reason)
}

fn restart(store: &mut Memory, etag: &str) -> Result<JobView, ErrorReason> {
    let change = by_name(etag);
    run(store, move |facts| async move {
        restart_job(&facts, change, &Restart::default(), LATER).await
    })
    .map_err(|e| e.reason)
}

fn scale(store: &mut Memory, instances: u32) -> Result<JobView, ErrorReason> {
    run(store, move |facts| async move {
        scale_job(&facts, by_name(""), None, instances, LATER).await
    })
    .map_err(|e| e.reason)
}

#[test]
fn wishes_change_the_goal_and_the_etag() {
    let (mut store, job) = web();
    let head = restart(&mut store, "1").unwrap().head;
    assert_eq!(
        (head.goal.restarts, head.version.0, head.updated_at),
        (1, 2, LATER)
    );
    assert_eq!(
        wish(&mut store, Wish::Stop, "1").unwrap_err(),
        ErrorReason::EtagStale
    );
    assert_eq!(
        wish(&mut store, Wish::Stop, "\"2\"").unwrap().head.goal.desired,
        Desired::Stopped
    );
    assert_eq!(store.heads[&job].version.0, 3);
    assert_eq!(
        wish(&mut store, Wish::Stop, "").unwrap().head.version.0,
        3,
        "stopping twice is one wish"
    );
    for refused in [restart(&mut store, "").map(drop), scale(&mut store, 5).map(drop)] {
        assert_eq!(refused, Err(ErrorReason::JobStopping));
    }
    assert_eq!(wish(&mut store, Wish::Delete, "").unwrap().head.version.0, 4);
    assert_eq!(wish(&mut store, Wish::Delete, "").unwrap().head.version.0, 4);
    assert_eq!(
        wish(&mut store, Wish::Stop, "").unwrap_err(),
        ErrorReason::JobDeleted
    );
}

#[test]
fn an_ended_job_takes_no_wish_but_delete() {
    for state in JobState::ALL.into_iter().filter(|s| s.is_ended()) {
        let (mut store, job) = web();
        store.ended(job, state);
        for refused in [
            restart(&mut store, "").map(drop),
            wish(&mut store, Wish::Stop, "").map(drop),
            scale(&mut store, 1).map(drop),
        ] {
            assert_eq!(refused, Err(ErrorReason::JobEnded), "{state}");
        }
        assert_eq!(store.heads[&job].version.0, 1);
        assert!(wish(&mut store, Wish::Delete, "").is_ok(), "{state}");
    }
}

#[test]
fn a_wish_that_lost_its_race_with_the_end_is_told_as_too_late() {
    let (mut store, job) = web();
    restart(&mut store, "").unwrap();
    store.ended(job, JobState::Stopped);
    store.progress.get_mut(&job).unwrap().ended_version = Some(Version(1));
    let view = run(&mut store, |facts| async move {
        crate::jobs::get_job(&facts, &JobRef::Name("web".into()), NOW).await
    });
    assert!(view.unwrap().wish_is_too_late());
}

#[test]
fn scaling_writes_a_new_version_and_keeps_the_old() {
    let (mut store, job) = web();
    let head = scale(&mut store, 0).unwrap().head;
    assert_eq!((head.instances, head.spec_version, head.version.0), (0, 2, 2));
    assert_eq!(store.specs[&(job, 1)].instances(), 3);
    assert_eq!(
        scale(&mut store, 0).unwrap().head.version.0,
        2,
        "no change, no version"
    );
    assert_eq!(
        scale(&mut store, 10_000_001).unwrap_err(),
        ErrorReason::FieldInvalid
    );
}

#[test]
fn what_cannot_be_changed_is_refused_by_name() {
    type Spoil = fn(&mut JobSpec);
    let changes: [(Spoil, &str); 5] = [
        (|s| s.name = "other".into(), "job.spec.name"),
        (|s| s.pool = "/other".into(), "job.spec.pool"),
        (
            |s| s.kind = echelon_core_model::spec::JobKind::Batch,
            "job.spec.kind",
        ),
        (|s| s.clusters.only = vec!["c".into()], "job.spec.clusters"),
        (|s| s.groups.clear(), "job.spec.groups"),
    ];
    for (change, field) in changes {
        let (mut store, _) = web();
        let edit = move |present: &JobSpec| {
            let mut spec = present.clone();
            change(&mut spec);
            Ok((spec, 1))
        };
        let refused = run(&mut store, move |facts| async move {
            update_job(&facts, by_name(""), edit, LATER).await
        })
        .unwrap_err();
        assert_eq!(
            (refused.code(), refused.violations[0].field.as_str()),
            (Code::FailedPrecondition, field)
        );
    }
}

#[test]
fn a_spec_version_that_a_dead_gateway_left_is_stepped_over() {
    let (mut store, job) = web();
    store
        .specs
        .insert((job, 2), JobBuilder::service("web", 99).build());
    let head = scale(&mut store, 5).unwrap().head;
    assert_eq!(head.spec_version, 3);
    assert_eq!(store.specs[&(job, 3)].instances(), 5);
}

#[test]
fn two_changes_at_once_both_count_unless_one_has_an_etag() {
    // At the same moment the same wish would be the same change.
    let start = |etag: &'static str, now: u64| {
        Running::start(move |facts| async move {
            restart_job(&facts, by_name(etag), &Restart::default(), Timestamp(now)).await
        })
    };
    for first_steps in 0..8 {
        let (mut store, job) = web();
        let mut slow = start("", 1);
        let mut guarded = start("1", 2);
        for _ in 0..first_steps {
            slow.step(&mut store, false);
            guarded.step(&mut store, false);
        }
        let mut quick = start("", 3);
        while !quick.is_done() {
            quick.step(&mut store, false);
        }
        while !slow.is_done() {
            slow.step(&mut store, false);
        }
        while !guarded.is_done() {
            guarded.step(&mut store, false);
        }
        let done = guarded.answer().unwrap();
        let wanted = 2 + u32::from(done.is_ok());
        assert_eq!(store.heads[&job].goal.restarts, wanted, "{first_steps}");
        if let Err(error) = done {
            assert_eq!(error.reason, ErrorReason::EtagStale);
        }
    }
}

#[test]
fn a_lost_answer_is_settled_by_the_same_decision() {
    let (mut store, job) = web();
    let mut call =
        Running::start(
            |facts| async move { restart_job(&facts, by_name(""), &Restart::default(), LATER).await },
        );
    let mut losses = 0;
    while !call.is_done() {
        let before = store.heads[&job].version;
        let lose = losses < 3;
        call.step(&mut store, lose);
        losses += u32::from(store.heads[&job].version != before);
        losses += u32::from(lose);
    }
    assert!(call.answer().unwrap().is_ok());
    assert_eq!(store.heads[&job].goal.restarts, 1, "asked once, done once");
}

#[test]
fn what_cannot_be_changed_is_told_with_what_it_must_stay() {
    let (mut store, _) = web();
    let mut told = |edit: fn(&mut JobSpec)| {
        let done = run(&mut store, move |facts| async move {
            let edit = |present: &JobSpec| {
                let mut spec = present.clone();
                edit(&mut spec);
                Ok((spec, 0))
            };
            update_job(&facts, by_name(""), edit, LATER).await
        });
        let violation = done.unwrap_err().violations.remove(0);
        format!("{} {}", violation.field, violation.problem)
    };
    let driver = told(|spec| spec.rules.driver = spec.groups.first().map(|g| g.name.clone()));
    assert_eq!(driver, "job.spec.driver cannot be changed and must stay away");
    let revocable = told(|spec| spec.revocable = true);
    assert_eq!(
        revocable,
        "job.spec.revocable cannot be changed and must stay `false`"
    );
    let clusters = told(|spec| spec.clusters.only = vec!["east".to_owned()]);
    assert_eq!(
        clusters,
        "job.spec.clusters cannot be changed and must stay as it was"
    );
}

#[test]
fn a_group_that_is_not_there_or_not_named_is_told_with_those_that_are() {
    let (mut store, job) = web();
    let spec = JobBuilder::service("web", 2)
        .with_group("db", 1, echelon_core_model::Resources::ZERO)
        .build();
    store.specs.insert((job, 1), spec);
    let mut told = |group: Option<&'static str>| {
        let done = run(&mut store, move |facts| async move {
            let group = group.map(echelon_core_model::GroupName::new);
            scale_job(&facts, by_name(""), group, 3, LATER).await
        });
        let violation = done.unwrap_err().violations.remove(0);
        format!("{} {}", violation.field, violation.problem)
    };
    assert_eq!(told(Some("dbb")), "group `dbb` is none of main, db");
    assert_eq!(
        told(None),
        "group has to be named, since the job has several: main, db"
    );
}
