//! A run that was given up and whose host is back in time is adopted. It is available anew since the update
//! that shows it well.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, RunState};
use echelon_core_testkit::build::JobBuilder;

#[test]
fn an_adopted_run_is_available_since_the_update_that_shows_it_well() {
    let mut w = World::serving();
    let mut spec = JobBuilder::service("web", 1).build();
    spec.on_unreachable = OnSilence::Replace(Span::minutes(1));
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    w.cluster.ready(&task(0, 1, 1), true);
    w.run(seconds(1));
    let before = w.stored(0).unwrap().run.unwrap();
    assert!(before.is_available() && before.ready == Some(true));
    // No host is left, so that nothing newer is launched.
    let hosts: Vec<HostId> = w.cluster.hosts.keys().cloned().collect();
    w.cluster.silent = hosts;
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(seconds(70));
    let record = w.stored(0).unwrap();
    assert_eq!(
        (record.run.is_none(), record.older.len()),
        (true, 1),
        "it was given up"
    );
    w.cluster.silent.clear();
    w.cluster.ready(&task(0, 1, 1), true);
    w.run(seconds(1));
    let record = w.stored(0).unwrap();
    let run = record.run.unwrap();
    assert_eq!(
        (run.number.0, run.state, run.ready),
        (1, RunState::Running, Some(true))
    );
    assert!(record.older.is_empty());
    assert!(run.available_at > before.available_at, "{:?}", run.available_at);
    assert_eq!(w.kills().len(), 0);
}
