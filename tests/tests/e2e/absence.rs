//! What every sign says while the membership servers are away, and after they came back.

use crate::federation::Federation;
use echelon_tests::wait;
use std::time::Duration;

/// Silence is told after 3 s; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const LEADERS: [&str; 3] = ["resource-manager", "shard-east", "shard-west"];

/// Waits until a process answers `/readyz` with this status and names, or does not name, the membership.
fn until(federation: &Federation, process: &str, status: u16, away: bool) {
    let what = format!("{process} to answer {status}");
    wait::until(&what, PATIENCE, || {
        let (found, conditions) = federation.conditions(process)?;
        let named = conditions.iter().any(|name| name == "membership");
        Ok((found == status && named == away).then_some(()))
    })
    .unwrap();
}

#[test]
fn every_sign_tells_that_the_membership_servers_are_away() {
    let federation = Federation::start().unwrap();
    federation.silence_membership(true);
    for leader in LEADERS {
        until(&federation, leader, 503, true);
    }
    until(&federation, "gateway", 200, true);
    federation.silence_membership(false);
    for process in LEADERS.into_iter().chain(["gateway"]) {
        until(&federation, process, 200, false);
    }
}
