//! What `/readyz` says while storage or the membership servers do not answer.

use crate::limits::Hanging;
use crate::world::{MEMBER, World};
use echelon_io_storage::Store;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Silence is told after 3 s; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition is as expected, and gives the status of the answer with it.
async fn until(world: &World, name: &str, ready: bool) -> (u16, Value) {
    let began = Instant::now();
    loop {
        let answer = world.get("/readyz").await;
        let found = answer.json();
        let all = found["conditions"].as_array().unwrap();
        let condition = all.iter().find(|c| c["name"] == name).unwrap();
        if condition["ready"] == ready {
            return (answer.status, condition.clone());
        }
        assert!(began.elapsed() < PATIENCE, "{name}: {}", answer.body);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn metric(world: &World, name: &str) -> String {
    let shown = world.get("/metrics").await.body;
    let line = shown.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.rsplit(' ').next())
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn a_storage_that_hangs_is_told_until_it_answers() {
    let store = Hanging::new(false);
    let world = World::over(Arc::clone(&store) as Arc<dyn Store>, |_| {}).await;
    world.until_ready().await;
    assert_eq!(metric(&world, "echelon_storage_reachable").await, "1");
    store.hangs.send_replace(true);
    let (status, condition) = until(&world, "storage", false).await;
    assert_eq!((status, &condition["reason"]), (503, &"no answer for 3 s".into()));
    assert_eq!(metric(&world, "echelon_storage_reachable").await, "0");
    store.hangs.send_replace(false);
    assert_eq!(until(&world, "storage", true).await.0, 200);
    assert_eq!(metric(&world, "echelon_storage_reachable").await, "1");
}

#[tokio::test]
async fn a_gateway_without_membership_is_ready_and_says_what_is_away() {
    let world = World::start().await;
    until(&world, "membership", true).await;
    world.hub.cut(MEMBER);
    let (status, condition) = until(&world, "membership", false).await;
    assert_eq!((status, &condition["required"]), (200, &false.into()));
    let reason = condition["reason"].as_str().unwrap();
    assert!(reason.contains("do not answer"), "{reason}");
    assert_eq!(metric(&world, "echelon_membership_connected").await, "0");
    assert_eq!(world.get("/v1/jobs").await.status, 200, "it answers from storage");
    world.hub.heal(MEMBER);
    assert_eq!(until(&world, "membership", true).await.0, 200);
}
