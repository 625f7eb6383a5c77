//! Which version the next run of an instance is of, and which runs are to be replaced.

use crate::{NOW, begun, record};
use echelon_core_jobs::Course;
use echelon_core_jobs::rollout::{fails_at, settles_at};
use echelon_core_model::instance::{InstanceRecord, Run, Stopping};
use echelon_core_model::pause::Pause;
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, ReasonCode, RunState, Timestamp};

const COURSE: Course = Course {
    target: 3,
    rolls: true,
    base: 1,
    below: 4,
};

fn of_version(state: RunState, version: u32) -> InstanceRecord {
    let mut record = record(state);
    edit(&mut record, |run| run.spec_version = version);
    record
}

fn edit(record: &mut InstanceRecord, change: impl FnOnce(&mut Run)) {
    change(record.run.as_mut().expect("a run"));
}

fn stopped(version: u32, code: ReasonCode) -> InstanceRecord {
    let mut record = of_version(RunState::Killed, version);
    edit(&mut record, |run| {
        run.stopping = Some(Box::new(Stopping {
            reason: code.into(),
            grace: Span::ZERO,
            since: NOW,
        }));
    });
    record
}

fn next(n: u32, record: &InstanceRecord, more: bool) -> (u32, bool) {
    let next = COURSE.next(InstanceNumber(n), Some(record), more);
    (next.version, next.updates)
}

#[test]
fn what_fails_before_its_turn_keeps_its_version() {
    assert_eq!(next(2, &of_version(RunState::Failed, 1), false), (1, false));
    let beyond = next(7, &of_version(RunState::Failed, 1), true);
    assert_eq!(beyond, (1, false), "7 is no canary");
}

#[test]
fn what_is_down_anyway_is_updated_when_one_more_may_be() {
    assert_eq!(next(2, &of_version(RunState::Failed, 1), true), (3, true));
    assert_eq!(next(2, &of_version(RunState::Lost, 2), true), (3, true));
}

#[test]
fn a_turn_that_has_begun_goes_on_whatever_is_allowed_by_now() {
    assert_eq!(next(7, &stopped(1, ReasonCode::RolloutUpdate), false), (3, false));
    assert_eq!(next(7, &of_version(RunState::Failed, 3), false), (3, false));
    assert_eq!(
        next(7, &stopped(1, ReasonCode::RestartRequested), false),
        (1, false)
    );
}

#[test]
fn what_fails_again_and_again_with_a_version_of_the_past_need_not_wait_for_its_turn() {
    let looping = |version| {
        let mut record = of_version(RunState::Failed, version);
        record.attempts = 3;
        record
    };
    assert_eq!(next(7, &looping(2), false), (3, false));
    assert_eq!(
        next(7, &looping(1), false),
        (1, false),
        "the base may be good yet"
    );
    let held = Course { below: 0, ..COURSE };
    let next = held.next(InstanceNumber(7), Some(&looping(2)), false);
    assert_eq!(next.version, 2, "nothing is updated while the rollout is held");
}

#[test]
fn what_never_ran_begins_with_what_its_place_has() {
    assert_eq!(COURSE.next(InstanceNumber(3), None, false).version, 3);
    assert_eq!(COURSE.next(InstanceNumber(4), None, true).version, 1);
}

#[test]
fn where_nothing_is_rolled_out_what_runs_stays_and_what_begins_is_new() {
    let still = Course {
        rolls: false,
        ..COURSE
    };
    let old = of_version(RunState::Running, 1);
    let run = old.run.as_ref().expect("a run");
    assert!(!still.outdates(InstanceNumber(0), run));
    assert!(COURSE.outdates(InstanceNumber(0), run));
    assert!(!COURSE.outdates(InstanceNumber(4), run));
    assert_eq!(still.next(InstanceNumber(9), Some(&old), false).version, 3);
}

#[test]
fn a_run_counts_as_good_some_time_after_it_is_available() {
    let mut record = of_version(RunState::Running, 3);
    edit(&mut record, |run| {
        run.probes.readiness = true;
        run.note_availability(NOW);
    });
    let five = Span::seconds(5);
    assert_eq!(
        settles_at(record.run.as_ref().expect("a run"), five, &Pause::default(), NOW),
        None,
        "it is not ready"
    );
    assert_eq!(
        fails_at(&record, 3, five, &Pause::default(), NOW),
        Some(NOW.plus(five))
    );
    edit(&mut record, |run| {
        run.ready = Some(true);
        run.note_availability(Timestamp(NOW.0 + 1));
    });
    let good = settles_at(record.run.as_ref().expect("a run"), five, &Pause::default(), NOW);
    assert_eq!(good, Some(Timestamp(NOW.0 + 1).plus(five)));
    assert_eq!(fails_at(&record, 3, five, &Pause::default(), NOW), None);
}

#[test]
fn what_replaces_another_is_watched_and_so_is_the_version_that_is_rolled_out() {
    let watched = |version: u32, replaces: bool, course: Course| {
        let mut record = of_version(RunState::Running, version);
        edit(&mut record, |run| run.replaces = replaces);
        course.watches(record.run.as_ref().expect("a run"))
    };
    let still = Course {
        rolls: false,
        ..COURSE
    };
    assert!(watched(3, false, COURSE) && watched(1, true, COURSE) && watched(3, true, still));
    assert!(!watched(1, false, COURSE) && !watched(3, false, still));
}

#[test]
fn what_fails_before_it_is_good_is_followed_by_another_replacement() {
    let after = |available: u64, ended: u64| {
        let mut record = of_version(RunState::Failed, 3);
        edit(&mut record, |run| {
            run.replaces = true;
            run.available_at = Some(Timestamp(available));
            run.ended_at = Some(Timestamp(ended));
        });
        begun(&mut record);
        record.run.expect("a run").replaces
    };
    assert!(after(1_000, 3_000), "two seconds of five");
    assert!(!after(1_000, 6_000));
}
