//! Keeps a session and tells who leads. While servers cannot be reached the last leader counts as long as the session may
//! last, and not longer (R16).

use super::candidate::{endpoint, leading};
use super::session::{Begin, Group};
use crate::leaders::{Leader, Sighting};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Upper bounds of the waits between sessions: the first, doubled up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LAST_WAIT: Duration = Duration::from_secs(10);

/// Follows in a task of its own until nobody listens.
pub(super) fn begin(servers: Box<dyn Begin>, seed: u64) -> watch::Receiver<Sighting> {
    let (seen, receiver) = watch::channel(Sighting::looking("ZooKeeper has not answered yet"));
    tokio::spawn(async move {
        let random = SmallRng::seed_from_u64(seed);
        tokio::select! {
            () = seen.closed() => {}
            never = follow(servers.as_ref(), &seen, random) => match never {},
        }
    });
    receiver
}

async fn follow(servers: &dyn Begin, seen: &watch::Sender<Sighting>, mut random: SmallRng) -> Infallible {
    let mut bound = FIRST_WAIT;
    loop {
        let (why, answered) = match servers.begin().await {
            Err(why) => (why, false),
            Ok(mut group) => observe(group.as_mut(), seen).await,
        };
        tracing::warn!(
            why,
            "ZooKeeper does not tell which Mesos master leads; trying again"
        );
        tell(seen, Sighting::looking(format!("ZooKeeper: {why}")));
        if answered {
            bound = FIRST_WAIT;
        }
        sleep(bound.mul_f64(random.random_range(0.0..=1.0))).await;
        bound = bound.saturating_mul(2).min(LAST_WAIT);
    }
}

/// Observes until the session ends: why, and whether it has answered anything.
async fn observe(group: &mut dyn Group, seen: &watch::Sender<Sighting>) -> (String, bool) {
    let mut answered = false;
    loop {
        match look(group).await {
            Ok(sighting) => tell(seen, sighting),
            Err(why) => return (why, answered),
        }
        answered = true;
        if let Err(why) = group.changed().await {
            return (why, answered);
        }
    }
}

async fn look(group: &mut dyn Group) -> Result<Sighting, String> {
    let Some(children) = group.children().await? else {
        return Ok(Sighting::looking(
            "ZooKeeper has no such node: no master has started with this path",
        ));
    };
    let Some(candidate) = leading(&children) else {
        return Ok(Sighting::looking(
            "ZooKeeper knows no leading master: none contends",
        ));
    };
    // Gone between listing and reading: the watch tells of it.
    let Some(data) = group.data(&candidate.name).await? else {
        return Ok(Sighting::looking("the leading master has just left ZooKeeper"));
    };
    let name = candidate.name;
    Ok(match endpoint(candidate.form, &data) {
        Some(endpoint) => Sighting::Led(Leader { node: name, endpoint }),
        None => Sighting::looking(format!(
            "ZooKeeper's node {name} does not say where its master is"
        )),
    })
}

fn tell(seen: &watch::Sender<Sighting>, sighting: Sighting) {
    seen.send_if_modified(|last| {
        let news = *last != sighting;
        if news {
            tracing::info!(%sighting, "ZooKeeper tells of the Mesos masters");
            *last = sighting;
        }
        news
    });
}
