//! A run that was given up and whose host is back in time is adopted. It is available anew since the update
//! that shows it well.

use crate::world::{Storage, World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::RunState;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;
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
    w.cluster.silent.push(before.host.clone());
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(seconds(50));
    // The intent of the next run is not stored, so that nothing of it is launched.
    w.storage = Storage::StallsCommits;
    for _ in 0..15 {
        w.run(seconds(1));
        if !w.record(0).unwrap().older.is_empty() {
            break;
        }
    }
    assert_eq!(w.record(0).unwrap().older.len(), 1, "it was given up");
    w.cluster.silent.clear();
    w.cluster.ready(&task(0, 1, 1), true);
    w.run(seconds(1));
    w.unstall();
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
