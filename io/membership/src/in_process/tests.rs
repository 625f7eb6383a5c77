//! The contract in virtual time, and what only this backend can show.

use super::Hub;
use crate::contract::{CASES, Ground};
use crate::{Member, Membership, Role, Standing, Timeouts};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

fn hub() -> Hub {
    Hub::new(Timeouts::new(Duration::from_secs(10), None).unwrap())
}

#[async_trait]
impl Ground for Hub {
    async fn connect(&self, name: &str) -> Arc<dyn Membership> {
        Arc::new(Hub::connect(self, name))
    }

    async fn cut(&self, name: &str) {
        Hub::cut(self, name);
    }

    async fn heal(&self, name: &str) {
        Hub::heal(self, name);
    }
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds() {
    for (name, case) in CASES {
        println!("case: {name}");
        case(&hub()).await;
    }
}

fn member(name: &str) -> Member {
    Member {
        id: name.into(),
        address: format!("http://{name}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_runs_suspended_then_lost_then_replaced() {
    let hub = hub();
    let a = hub
        .connect("a")
        .campaign(Role::ResourceManager, member("a"))
        .await
        .unwrap();
    let b = hub
        .connect("b")
        .campaign(Role::ResourceManager, member("b"))
        .await
        .unwrap();
    let term = a.standing().leads().unwrap();
    hub.cut("a");
    // (time after the cut in seconds, a's standing, whether b leads)
    let timeline = [
        (0, Standing::Suspended(term), false),
        (7, Standing::Suspended(term), false),
        (9, Standing::Lost(term), false),
        (11, Standing::Lost(term), true),
    ];
    let start = tokio::time::Instant::now();
    for (at, standing, replaced) in timeline {
        tokio::time::sleep_until(start + Duration::from_secs(at)).await;
        assert_eq!(
            (a.standing(), b.standing().leads().is_some()),
            (standing, replaced),
            "after {at} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_an_old_cut_does_nothing_to_a_newer_one() {
    let hub = hub();
    let a = hub
        .connect("a")
        .campaign(Role::ResourceManager, member("a"))
        .await
        .unwrap();
    let term = a.standing().leads().unwrap();
    hub.cut("a");
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.heal("a");
    assert_eq!(a.standing(), Standing::Leader(term));
    hub.cut("a");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        a.standing(),
        Standing::Suspended(term),
        "9 s after the first cut, 4 s after the second"
    );
}

#[tokio::test]
async fn an_expired_leader_stands_again_behind_the_others() {
    let hub = hub();
    let a = hub
        .connect("a")
        .campaign(Role::Gateway, member("a"))
        .await
        .unwrap();
    let b = hub
        .connect("b")
        .campaign(Role::Gateway, member("b"))
        .await
        .unwrap();
    let first = a.standing().leads().unwrap();
    hub.expire("a");
    assert_eq!(
        (a.standing(), b.standing().leads() > Some(first)),
        (Standing::Follower, true)
    );
    hub.expire("b");
    assert_eq!(
        (a.standing().leads() > b.standing().leads(), b.standing()),
        (true, Standing::Follower)
    );
}
