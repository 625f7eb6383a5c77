use super::*;
use crate::jobs::get_job;
use crate::resource::JobRef;
use crate::restart::{Restart, restart_job};
use crate::testing::{Memory, NOW, run};
use crate::update::update_job;
use echelon_core_model::Span;
use echelon_core_model::schedule::{CatchUp, Overlap, Schedule};
use echelon_core_model::spec::JobKind;
use echelon_core_testkit::build::JobBuilder;

const LATER: Timestamp = NOW.plus(Span::minutes(90));

fn hourly() -> Schedule {
    Schedule {
        cron: "0 * * * *".to_owned(),
        time_zone: Schedule::UTC.to_owned(),
        overlap: Overlap::Skip,
        catch_up: CatchUp::One,
        within: Schedule::WITHIN,
        keep_last: 9,
    }
}

fn creating(spec: JobSpec, request: &str) -> CreateJob {
    CreateJob {
        spec,
        named: NamedFields::default(),
        violations: vec![],
        bytes: 1,
        hash: 1,
        request_id: request.to_owned(),
        origin: None,
    }
}

fn create(store: &mut Memory, spec: JobSpec, request: &str) -> Result<JobView, ApiError> {
    let request = creating(spec, request);
    run(
        store,
        |facts| async move { create_job(&facts, request, 1, NOW).await },
    )
}

fn template() -> (Memory, JobId) {
    let mut store = Memory::new();
    let spec = JobBuilder::batch("backup", 2).schedule(hourly()).build();
    let id = create(&mut store, spec, "r").unwrap().head.job;
    (store, id)
}

fn named() -> Change {
    Change {
        job: JobRef::Name("backup".into()),
        etag: String::new(),
    }
}

fn wish(store: &mut Memory, wish: Steer) -> Result<ScheduleState, ErrorReason> {
    let view = run(store, move |facts| async move {
        steer(&facts, named(), wish, LATER).await
    });
    view.map(|v| *v.head.schedule.unwrap()).map_err(|e| e.reason)
}

fn trigger(store: &mut Memory, request: &'static str, chance: u128) -> Result<JobView, ErrorReason> {
    let trigger = Trigger {
        request_id: request.to_owned(),
        chance,
    };
    let view = run(store, move |facts| async move {
        trigger_job(&facts, named(), trigger, LATER).await
    });
    view.map_err(|e| e.reason)
}

#[test]
fn a_template_begins_with_what_is_due_after_it_was_made() {
    let (mut store, job) = template();
    let state = store.heads[&job].schedule.clone().unwrap();
    assert_eq!(*state, ScheduleState::from(NOW));
    let view = run(&mut store, move |facts| async move {
        get_job(&facts, &JobRef::Id(job), LATER).await
    });
    let due: Vec<String> = view.unwrap().due.iter().map(ToString::to_string).collect();
    assert_eq!(due.len(), TOLD);
    assert_eq!(due[0], "1970-01-01T02:00:00Z", "nothing that is over");
}

#[test]
fn a_paused_schedule_goes_on_from_when_it_is_resumed() {
    let (mut store, job) = template();
    let paused = wish(&mut store, Steer::Pause).unwrap();
    assert_eq!((paused.paused, paused.handled), (true, NOW));
    let version = store.heads[&job].version;
    wish(&mut store, Steer::Pause).unwrap();
    assert_eq!(store.heads[&job].version, version, "it is paused already");
    let view = run(&mut store, move |facts| async move {
        get_job(&facts, &JobRef::Id(job), LATER).await
    });
    assert!(view.unwrap().due.is_empty());
    let resumed = wish(&mut store, Steer::Resume).unwrap();
    assert_eq!((resumed.paused, resumed.handled), (false, LATER));
}

#[test]
fn a_job_by_command_is_made_once_for_a_request_and_says_of_what() {
    let (mut store, template) = template();
    wish(&mut store, Steer::Pause).unwrap();
    let made = trigger(&mut store, "t1", 5).unwrap();
    let again = trigger(&mut store, "t1", 6).unwrap();
    assert_eq!(made.head.job, again.head.job);
    let other = trigger(&mut store, "t2", 7).unwrap();
    assert_ne!(made.head.job, other.head.job);
    assert!(made.head.name.starts_with("backup-now-"), "{}", made.head.name);
    let origin = made.head.origin.unwrap();
    assert_eq!((origin.template, origin.due), (template, LATER));
    let spec = made.spec.unwrap();
    assert!(!spec.is_template() && made.head.schedule.is_none());
    assert_eq!(spec.instances(), 2);
}

#[test]
fn what_has_no_schedule_cannot_be_steered_or_triggered() {
    let mut store = Memory::new();
    create(&mut store, JobBuilder::batch("backup", 2).build(), "r").unwrap();
    assert_eq!(wish(&mut store, Steer::Pause), Err(ErrorReason::NotATemplate));
    assert_eq!(
        trigger(&mut store, "t", 1).unwrap_err(),
        ErrorReason::NotATemplate
    );
}

fn update(store: &mut Memory, edit: impl Fn(&mut JobSpec) + 'static) -> Result<Head, ErrorReason> {
    let edit = move |present: &JobSpec| {
        let mut spec = present.clone();
        edit(&mut spec);
        Ok((spec, 0))
    };
    let view = run(store, move |facts| async move {
        update_job(&facts, named(), edit, LATER).await
    });
    view.map(|v| v.head).map_err(|e| e.reason)
}

#[test]
fn another_timetable_counts_from_its_change_and_other_changes_do_not_touch_it() {
    let (mut store, _) = template();
    let head = update(&mut store, |s| s.groups[0].instances = 5).unwrap();
    assert_eq!(head.schedule.unwrap().handled, NOW);
    let head = update(&mut store, |s| {
        let schedule = s.rules.schedule.as_mut().unwrap();
        schedule.cron = "*/5 * * * *".to_owned();
    });
    assert_eq!(head.unwrap().schedule.unwrap().handled, LATER);
    let gone = update(&mut store, |s| s.rules.schedule = None);
    assert_eq!(gone, Err(ErrorReason::FieldImmutable));
}

#[test]
fn what_is_wrong_with_a_schedule_is_told_with_its_field() {
    let spec = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = JobBuilder::batch("backup", 2).schedule(hourly()).build();
        change(&mut spec);
        spec
    };
    let with =
        |change: fn(&mut Schedule)| spec(&move |s: &mut JobSpec| change(s.rules.schedule.as_mut().unwrap()));
    for (spec, field, words) in [
        (with(|s| s.cron = "0 25 * * *".into()), "schedule.cron", ""),
        (
            with(|s| s.cron = "0 3 * *".into()),
            "schedule.cron",
            "five fields",
        ),
        (with(|s| s.cron = "0 3 31 2 *".into()), "schedule.cron", "never"),
        (
            with(|s| s.time_zone = "Mars/Base".into()),
            "schedule.time_zone",
            "Mars/Base",
        ),
        (
            with(|s| s.within = Span::seconds(1)),
            "schedule.within",
            "31 days",
        ),
        (with(|s| s.keep_last = 0), "schedule.keep_last", "1 to 1000"),
        (
            with(|s| s.catch_up = CatchUp::All),
            "schedule.catch_up",
            "overlap is skip",
        ),
        (spec(&|s| s.name = "x".repeat(41)), "name", "40 characters"),
        (spec(&|s| s.kind = JobKind::Service), "schedule", "kind batch"),
    ] {
        let wrong = create(&mut Memory::new(), spec, "r").unwrap_err();
        let found = wrong
            .violations
            .iter()
            .find(|v| v.field == format!("job.spec.{field}"));
        assert!(
            found.is_some_and(|v| v.problem.contains(words)),
            "{field}: {wrong}"
        );
    }
}

#[test]
fn a_template_has_nothing_that_could_be_restarted() {
    let (mut store, id) = template();
    let done = run(&mut store, |facts| async move {
        restart_job(&facts, named(), &Restart::default(), LATER).await
    });
    let wrong = done.unwrap_err();
    assert_eq!(wrong.reason, ErrorReason::IsATemplate);
    assert!(wrong.message.contains("echelon job trigger backup"), "{wrong}");
    assert_eq!(store.heads[&id].version.0, 1, "nothing was written");
}
