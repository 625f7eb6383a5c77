//! What counts of a former holder's record.

use crate::{NOW, record};
use echelon_core_jobs::{Takeover, take_over};
use echelon_core_model::instance::{Ended, InstanceRecord};
use echelon_core_model::time::Span;
use echelon_core_model::{Generation, HostId, RunState};

fn take(own: Option<&InstanceRecord>, former: Option<&InstanceRecord>) -> Option<InstanceRecord> {
    take_over(&Takeover {
        generation: Generation(3),
        own,
        former,
        wait_until: NOW.plus(Span::minutes(5)),
    })
}

#[test]
fn nothing_known_is_nothing_stored() {
    assert_eq!(take(None, None), None);
    assert_eq!(take(None, Some(&InstanceRecord::default())), None);
}

#[test]
fn a_wait_by_a_clock_that_is_ahead_is_cut() {
    let mut former = record(RunState::Failed);
    for (ahead, counts) in [
        (Span::seconds(9), Span::seconds(9)),
        (Span::minutes(60), Span::minutes(5)),
    ] {
        former.not_before = NOW.plus(ahead);
        let taken = take(None, Some(&former)).unwrap();
        assert_eq!(taken.not_before, NOW.plus(counts));
    }
}

#[test]
fn attempts_waits_hosts_and_ends_come_along() {
    let mut former = record(RunState::Failed);
    former.attempts = 2;
    former.avoid = [HostId::new("bad")].into_iter().collect();
    let taken = take(None, Some(&former)).unwrap();
    assert_eq!(
        (taken.generation, taken.run, taken.attempts),
        (Generation(3), None, 2)
    );
    assert_eq!(taken.avoid, former.avoid);
    for (ended, expected) in [
        (Ended::Succeeded, Some(Ended::Succeeded)),
        (Ended::Failed, Some(Ended::Failed)),
        (Ended::Stopped, None),
    ] {
        former.ended = Some(ended);
        assert_eq!(take(None, Some(&former)).unwrap().ended, expected);
    }
}

#[test]
fn our_own_live_run_goes_on() {
    let own = record(RunState::Running);
    let taken = take(Some(&own), Some(&InstanceRecord::default())).unwrap();
    assert_eq!((taken.generation, taken.run), (Generation(3), own.run));
}

#[test]
fn our_own_ended_run_does_not_stand_for_the_new_generation() {
    let own = record(RunState::Killed);
    assert_eq!(take(Some(&own), None).unwrap().run, None);
}

#[test]
fn taking_over_twice_is_taking_over_once() {
    let own = record(RunState::Running);
    let once = take(Some(&own), Some(&record(RunState::Failed)));
    assert_eq!(take(once.as_ref(), Some(&record(RunState::Failed))), once);
}
