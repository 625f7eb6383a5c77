use super::*;
use crate::resource::JobRef;
use crate::testing::{Memory, NOW, run, web};
use echelon_core_model::job::JobState;
use echelon_core_model::restart::RestartProgress;
use echelon_core_model::{InstanceNumber, InstanceRange, JobId, Span};

const LATER: Timestamp = NOW.plus(Span::seconds(60));

fn restart(store: &mut Memory, wanted: Restart) -> Result<Head, ApiError> {
    let change = Change {
        job: JobRef::Name("web".into()),
        etag: String::new(),
    };
    let view = run(store, move |facts| async move {
        restart_job(&facts, change, &wanted, LATER).await
    });
    view.map(|v| v.head)
}

fn some(ranges: &[(u32, u32)]) -> Restart {
    let ranges = ranges.iter().map(|(first, last)| InstanceRange {
        first: *first,
        last: *last,
    });
    Restart {
        numbers: Some(ranges.collect()),
        ..Restart::default()
    }
}

/// `web` with so many instances.
fn with(instances: u32) -> (Memory, JobId) {
    let (mut store, job) = web();
    let spec = store.specs.get_mut(&(job, 1)).unwrap();
    spec.groups[0].instances = instances;
    (store, job)
}

#[test]
fn a_restart_of_some_leaves_the_goal_and_names_the_head_that_brought_it() {
    let (mut store, _) = with(10);
    let head = restart(
        &mut store,
        Restart {
            batch: Some(2),
            ..some(&[(3, 3), (7, 9)])
        },
    )
    .unwrap();
    assert_eq!((head.goal.restarts, head.version.0), (0, 2));
    let wish = head.restarts.unwrap();
    assert_eq!(
        (wish.version, wish.batch, wish.since),
        (head.version, Some(2), LATER)
    );
    let of = wish.of_group(&GroupName::new("main"));
    let wanted = |n| of.wanted(InstanceNumber(n)).0;
    assert_eq!([0, 3, 4, 7, 9].map(wanted), [0, 2, 0, 2, 2]);
    let head = restart(&mut store, some(&[(9, 9)])).unwrap();
    let of = head.restarts.unwrap().of_group(&GroupName::new("main"));
    let wanted = |n| of.wanted(InstanceNumber(n)).0;
    assert_eq!(
        [3, 7, 9].map(wanted),
        [2, 2, 3],
        "the first goes on beside the second"
    );
}

#[test]
fn a_restart_of_all_takes_in_those_of_parts_and_one_of_a_group_has_all_of_its_numbers() {
    let (mut store, _) = with(10);
    restart(&mut store, some(&[(0, 4)])).unwrap();
    let group = Restart {
        group: Some(GroupName::new("main")),
        ..Restart::default()
    };
    let head = restart(&mut store, group).unwrap();
    let wish = head.restarts.unwrap();
    assert_eq!((head.goal.restarts, wish.parts.len()), (0, 1));
    assert_eq!(
        wish.parts[0].numbers,
        all_numbers(),
        "those that are added later, too"
    );
    let head = restart(&mut store, Restart::default()).unwrap();
    assert_eq!((head.goal.restarts, head.restarts.unwrap().parts.len()), (1, 0));
}

#[test]
fn what_is_over_takes_no_room_in_the_head() {
    let (mut store, job) = with(1000);
    let every_other: Vec<(u32, u32)> = (0..200).map(|n| (2 * n, 2 * n)).collect();
    let version = restart(&mut store, some(&every_other)).unwrap().version;
    let far: Vec<(u32, u32)> = (300..400).map(|n| (2 * n, 2 * n)).collect();
    let told = restart(&mut store, some(&far)).unwrap_err();
    assert!(
        told.message
            .contains("would name 300 ranges of instances, more than 256"),
        "{told:?}"
    );
    store.ended(job, JobState::Running);
    store.progress.get_mut(&job).unwrap().restart = Some(RestartProgress {
        version,
        left: 0,
        done_at: Some(NOW),
    });
    let head = restart(&mut store, some(&far)).unwrap();
    assert_eq!(head.restarts.unwrap().ranges(), 100);
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let (mut store, job) = with(8);
    let told = |store: &mut Memory, wanted| {
        let error = restart(store, wanted).unwrap_err();
        error
            .violations
            .first()
            .map_or(error.message, |v| format!("{}: {}", v.field, v.problem))
    };
    let beyond = told(&mut store, some(&[(3, 3), (7, 9)]));
    assert_eq!(beyond, "instances: group main has instances 0 to 7, and no 8");
    let other = Restart {
        group: Some(GroupName::new("db")),
        ..Restart::default()
    };
    assert_eq!(told(&mut store, other), "group: `db` is none of main");
    let none = Restart {
        batch: Some(0),
        ..Restart::default()
    };
    assert_eq!(told(&mut store, none), "batch: must be at least 1");
    store.ended(job, JobState::Stopped);
    let ended = restart(&mut store, some(&[(0, 0)])).unwrap_err();
    assert_eq!(ended.reason, ErrorReason::JobEnded);
}
