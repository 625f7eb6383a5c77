//! What agents reserve for the role of a shard: half of their processors and memory, and most of their disk.

use crate::marks::Marks;
use crate::pair::row;
use crate::{N_AGENTS, PATIENCE, SUCCEEDED, World};
use echelon_tests::wait;
use serde_json::{Value, json};

/// Each instance needs more than the unreserved resources of an agent, and more than the reserved ones.
fn large(marks: &Marks, name: &str) -> Value {
    let mut job = marks.batch(name, N_AGENTS.into(), 1);
    job["spec"]["groups"][0]["resources"] =
        json!({"cpusMilli": "7000", "memoryMib": "3000", "diskMib": "100"});
    job
}

#[test]
fn what_agents_reserve_for_the_role_is_counted_and_used() {
    let world = World::start();
    let each = usize::from(N_AGENTS);
    let federation = &world.federation;
    wait::until("the capacity of all agents", PATIENCE, || {
        let capacity = row(federation, "east")?["capacity"].clone();
        let all = json!({
            "cpusMilli": (8000 * each).to_string(),
            "memoryMib": (4096 * each).to_string(),
            "diskMib": (4096 * each).to_string(),
        });
        Ok((capacity == all).then_some(()))
    })
    .unwrap();

    let job = federation.submit(&large(&world.marks, "large")).unwrap();
    federation.wait_for(&job, SUCCEEDED).unwrap();
    assert_eq!(world.marks.done("large"), each);

    let mut pod = large(&world.marks, "pod");
    pod["spec"]["groups"][0]["resources"] = json!({"cpusMilli": "3000", "memoryMib": "1000"});
    pod["spec"]["groups"][0]["sidecars"] = json!([{
        "name": "beside",
        "command": "sleep 1000",
        "resources": {"cpusMilli": "4000", "memoryMib": "1500"},
    }]);
    let job = federation.submit(&pod).unwrap();
    federation.wait_for(&job, SUCCEEDED).unwrap();
    assert_eq!(world.marks.done("pod"), each);

    // Only reserved disk is large enough for its volumes. The second job gets it when the first is gone.
    for name in ["first", "second"] {
        let end = "test -e data/kept && echo done >> \"$me.done\"; touch data/kept; rmdir \"$me.lock\"; exec sleep 100000";
        let mut job = world.marks.job(name, ("JOB_KIND_STATEFUL", N_AGENTS.into()), end);
        let group = &mut job["spec"]["groups"][0];
        group["volume"] = json!({"path": "data", "sizeMib": "3000", "reclaim": "RECLAIM_DELETE"});
        let job = federation.submit(&job).unwrap();
        federation.all_running(&job, each).unwrap();
        wait::until("each run to have begun", PATIENCE, || {
            Ok((world.marks.begun(name) == each).then_some(()))
        })
        .unwrap();
        federation.command(&["job", "restart", name, "--wait"]).unwrap();
        wait::until(
            "each run to find what the one before has written",
            PATIENCE,
            || Ok((world.marks.done(name) == each).then_some(())),
        )
        .unwrap();
        federation.command(&["job", "stop", name, "--wait"]).unwrap();
    }
    assert_eq!(world.marks.twice(), Vec::<String>::new());
}
