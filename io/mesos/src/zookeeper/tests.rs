//! A group in memory: what servers would tell, in the order in which a test says it.

use super::follow::begin;
use super::session::{Begin, Group};
use crate::leaders::Sighting;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::time::Instant;

/// What the servers hold; none while they do not answer.
type Held = Option<BTreeMap<String, String>>;

/// Servers of a test; clones are the same.
#[derive(Clone)]
struct Fake {
    held: watch::Sender<Held>,
    /// Data of these children is gone when it is read.
    vanished: Arc<Mutex<Vec<String>>>,
    begun: Arc<Mutex<Vec<Instant>>>,
}

struct InMemory(watch::Receiver<Held>, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Begin for Fake {
    async fn begin(&self) -> Result<Box<dyn Group>, String> {
        self.begun.lock().unwrap().push(Instant::now());
        let mut seen = self.held.subscribe();
        if seen.borrow_and_update().is_none() {
            return Err("no answer".to_owned());
        }
        Ok(Box::new(InMemory(seen, self.vanished.clone())))
    }
}

#[async_trait]
impl Group for InMemory {
    async fn children(&mut self) -> Result<Option<Vec<String>>, String> {
        let held = self.0.borrow_and_update().clone().ok_or("connection lost")?;
        let named = held.keys().filter(|name| !name.is_empty()).cloned().collect();
        Ok((!held.is_empty()).then_some(named))
    }

    async fn data(&mut self, child: &str) -> Result<Option<Vec<u8>>, String> {
        let held = self.0.borrow().clone().ok_or("connection lost")?;
        let gone = self.1.lock().unwrap().iter().any(|name| name == child);
        Ok(held
            .get(child)
            .filter(|_| !gone)
            .map(|data| data.clone().into_bytes()))
    }

    async fn changed(&mut self) -> Result<(), String> {
        self.0.changed().await.map_err(|e| e.to_string())
    }
}

impl Fake {
    fn empty() -> Self {
        Self {
            held: watch::Sender::new(Some(BTreeMap::new())),
            vanished: Arc::default(),
            begun: Arc::default(),
        }
    }

    /// The node holds these masters: sequence number and port.
    fn hold(&self, masters: &[(u32, u32)]) {
        let log = ("log_replicas".to_owned(), String::new());
        let nodes = masters.iter().map(|(number, port)| {
            let info = format!(r#"{{"address":{{"ip":"10.0.0.1","port":{port}}}}}"#);
            (format!("json.info_{number:010}"), info)
        });
        self.held.send_replace(Some(nodes.chain([log]).collect()));
    }

    fn follow(&self) -> watch::Receiver<Sighting> {
        begin(Box::new(self.clone()), 7)
    }
}

async fn next(seen: &mut watch::Receiver<Sighting>) -> String {
    seen.changed().await.unwrap();
    seen.borrow_and_update().to_string()
}

#[tokio::test(start_paused = true)]
async fn elections_are_followed() {
    let zookeeper = Fake::empty();
    let mut seen = zookeeper.follow();
    assert!(next(&mut seen).await.contains("no such node"));
    zookeeper.hold(&[]);
    assert!(next(&mut seen).await.contains("none contends"));
    zookeeper.hold(&[(1, 5051)]);
    assert_eq!(
        next(&mut seen).await,
        "10.0.0.1:5051 leads (json.info_0000000001)"
    );
    // A candidate more is no news; the death of the leader is.
    zookeeper.hold(&[(1, 5051), (2, 5052)]);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!seen.has_changed().unwrap());
    zookeeper.hold(&[(2, 5052), (3, 5051)]);
    assert_eq!(
        next(&mut seen).await,
        "10.0.0.1:5052 leads (json.info_0000000002)"
    );
    assert_eq!(zookeeper.begun.lock().unwrap().len(), 1, "one session for all");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_cannot_be_read_leads_nobody_astray() {
    let zookeeper = Fake::empty();
    let unreadable = BTreeMap::from([("json.info_0000000001".to_owned(), "{}".to_owned())]);
    zookeeper.held.send_replace(Some(unreadable));
    let mut seen = zookeeper.follow();
    assert_eq!(
        next(&mut seen).await,
        "ZooKeeper's node json.info_0000000001 does not say where its master is"
    );
    zookeeper
        .vanished
        .lock()
        .unwrap()
        .push("json.info_0000000002".to_owned());
    zookeeper.hold(&[(2, 5052)]);
    assert!(next(&mut seen).await.contains("has just left"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_forgets_the_leader_and_begins_another_with_growing_waits() {
    let zookeeper = Fake::empty();
    zookeeper.hold(&[(1, 5051)]);
    let mut seen = zookeeper.follow();
    assert!(next(&mut seen).await.contains("10.0.0.1:5051 leads"));
    zookeeper.held.send_replace(None);
    assert_eq!(next(&mut seen).await, "ZooKeeper: connection lost");
    assert_eq!(next(&mut seen).await, "ZooKeeper: no answer");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    zookeeper.hold(&[(2, 5052)]);
    assert!(next(&mut seen).await.contains("10.0.0.1:5052 leads"));
    let begun = zookeeper.begun.lock().unwrap().clone();
    let waits: Vec<_> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!((8..60).contains(&waits.len()), "{waits:?}");
    assert!(waits.iter().all(|w| w.as_secs() <= 10), "{waits:?}");
    assert!(
        waits[1].as_millis() <= 200 && waits.iter().any(|w| w.as_secs() >= 3),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_last_listener() {
    let zookeeper = Fake::empty();
    let mut seen = zookeeper.follow();
    next(&mut seen).await;
    assert_eq!(zookeeper.held.receiver_count(), 1);
    drop(seen);
    while zookeeper.held.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
}
