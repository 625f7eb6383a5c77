//! Whether a process has contact with something that it needs: asks again and again, and shows the answer
//! as a condition and as a metric. A peer that hangs is silent, as one that refuses is.

use crate::Clock;
use crate::health::Condition;
use crate::metrics::{MetricError, Metrics};
use echelon_core_model::role_state::{RoleState, ServerContact};
use echelon_core_model::time::Timestamp;
use prometheus::IntGauge;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// After so long without an answer the contact is lost. One lost answer is no loss.
const PATIENCE: Duration = Duration::from_secs(3);

/// The contacts of a role, as it sees them now.
#[derive(Debug, Clone)]
pub struct Contacts {
    /// With the membership servers.
    pub membership: watch::Receiver<ServerContact>,
    /// With storage.
    pub storage: watch::Receiver<ServerContact>,
}

impl Contacts {
    /// What a process says of its role, with its contacts as they are now.
    #[must_use]
    pub fn within(&self, state: &RoleState) -> RoleState {
        RoleState {
            membership: self.membership.borrow().clone(),
            storage: self.storage.borrow().clone(),
            ..state.clone()
        }
    }
}

impl Default for Contacts {
    /// Nothing is known, and never will be.
    fn default() -> Self {
        let unknown = || watch::Sender::default().subscribe();
        Self {
            membership: unknown(),
            storage: unknown(),
        }
    }
}

/// Keeps one [`ServerContact`].
#[derive(Debug)]
pub struct ContactWatch {
    condition: Condition,
    connected: IntGauge,
    contact: watch::Sender<ServerContact>,
}

/// When something answered last.
#[derive(Debug, Clone, Copy)]
struct Last {
    at: Instant,
    /// For people.
    date: Timestamp,
}

impl Last {
    fn now(clock: &Clock) -> Self {
        Self {
            at: Instant::now(),
            date: clock.now(),
        }
    }
}

impl ContactWatch {
    /// The contact with the membership servers.
    ///
    /// # Errors
    /// The metric's name is taken: a mistake in the program.
    pub fn of_membership(condition: Condition, metrics: &Metrics) -> Result<Self, MetricError> {
        let connected = metrics.gauge(
            "echelon_membership_connected",
            "1 while the membership servers answer this role; 0 after 3 s without an answer.",
        )?;
        Ok(Self::new(condition, connected))
    }

    /// The contact with storage.
    ///
    /// # Errors
    /// The metric's name is taken: a mistake in the program.
    pub fn of_storage(condition: Condition, metrics: &Metrics) -> Result<Self, MetricError> {
        let connected = metrics.gauge(
            "echelon_storage_reachable",
            "1 while storage answers this role; 0 after 3 s without an answer.",
        )?;
        Ok(Self::new(condition, connected))
    }

    /// A contact that is not known yet. The condition does not hold, and the metric is 0, until the first
    /// answer.
    fn new(condition: Condition, connected: IntGauge) -> Self {
        connected.set(0);
        Self {
            condition,
            connected,
            contact: watch::Sender::default(),
        }
    }

    /// Follows the contact.
    #[must_use]
    pub fn contact(&self) -> watch::Receiver<ServerContact> {
        self.contact.subscribe()
    }

    /// Asks until it is dropped. `ask` gives an answer, or says why there is none; it may be dropped while
    /// it waits.
    pub async fn keep<F: Future<Output = Result<(), String>>>(
        self,
        clock: Clock,
        mut ask: impl FnMut() -> F,
    ) {
        let mut last = Last::now(&clock);
        let mut asks = tokio::time::interval(ASK_EVERY);
        asks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            asks.tick().await;
            let left = PATIENCE.saturating_sub(last.at.elapsed());
            // What is silent already is asked with patience, so that a slow answer is heard.
            let within = if left.is_zero() { PATIENCE } else { left };
            let reason = match tokio::time::timeout(within, ask()).await {
                Ok(Ok(())) => {
                    last = Last::now(&clock);
                    self.connected();
                    continue;
                }
                Ok(Err(reason)) => reason,
                Err(_) => format!("no answer for {} s", PATIENCE.as_secs()),
            };
            if last.at.elapsed() >= PATIENCE {
                self.silent(last.date, reason);
            }
        }
    }

    fn connected(&self) {
        self.condition.ready();
        self.connected.set(1);
        self.contact.send_if_modified(|contact| {
            let before = std::mem::replace(contact, ServerContact::Connected);
            before != *contact
        });
    }

    fn silent(&self, since: Timestamp, reason: String) {
        self.condition.not_ready(&reason);
        self.connected.set(0);
        self.contact.send_if_modified(|contact| {
            let silent = ServerContact::Silent { since, reason };
            let before = std::mem::replace(contact, silent);
            before != *contact
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Readiness;
    use std::sync::{Arc, Mutex};

    /// What stands at the other end.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Peer {
        Answers,
        Refuses,
        Hangs,
    }

    struct Ground {
        peer: Arc<Mutex<Peer>>,
        readiness: Readiness,
        connected: IntGauge,
        contact: watch::Receiver<ServerContact>,
        began: Instant,
    }

    impl Ground {
        fn start(peer: Peer) -> Self {
            let (peer, readiness) = (Arc::new(Mutex::new(peer)), Readiness::default());
            let connected = IntGauge::new("connected", "test").unwrap();
            let condition = readiness.condition("storage", "not opened yet");
            let watch = ContactWatch::new(condition, connected.clone());
            let contact = watch.contact();
            let asked = peer.clone();
            tokio::spawn(watch.keep(Clock::new(), move || {
                let peer = *asked.lock().unwrap();
                async move {
                    match peer {
                        Peer::Answers => Ok(()),
                        Peer::Refuses => Err("refused".to_owned()),
                        Peer::Hangs => std::future::pending().await,
                    }
                }
            }));
            Self {
                peer,
                readiness,
                connected,
                contact,
                began: Instant::now(),
            }
        }

        fn set(&mut self, peer: Peer) {
            *self.peer.lock().unwrap() = peer;
            self.began = Instant::now();
        }

        /// Waits for the next change; how long it took, whether the process is ready then, and why not.
        async fn changed(&mut self) -> (Duration, bool, Option<String>) {
            self.contact.changed().await.unwrap();
            let report = self.readiness.report();
            assert_eq!(self.connected.get(), i64::from(report.ready));
            let reason = report.conditions.first().and_then(|c| c.reason.clone());
            (self.began.elapsed(), report.ready, reason)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_told_after_three_seconds_and_its_end_at_the_next_answer() {
        for (peer, reason) in [(Peer::Refuses, "refused"), (Peer::Hangs, "no answer for 3 s")] {
            let mut ground = Ground::start(Peer::Answers);
            let (_, ready, why) = ground.changed().await;
            assert_eq!((ready, why), (true, None), "{peer:?}");
            ground.set(peer);
            let (took, ready, why) = ground.changed().await;
            assert_eq!((ready, why.as_deref()), (false, Some(reason)), "{peer:?}");
            let patient = Duration::from_secs(2)..Duration::from_secs(5);
            assert!(patient.contains(&took), "{peer:?}: {took:?}");
            ground.set(Peer::Answers);
            let (took, ready, _) = ground.changed().await;
            assert!(ready && took < Duration::from_secs(5), "{peer:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_answered_is_no_contact() {
        let mut ground = Ground::start(Peer::Hangs);
        assert_eq!(*ground.contact.borrow(), ServerContact::Unknown);
        let report = ground.readiness.report();
        let why = report.conditions.first().and_then(|c| c.reason.as_deref());
        assert_eq!((report.ready, why), (false, Some("not opened yet")));
        let (_, ready, _) = ground.changed().await;
        assert!(!ready && matches!(*ground.contact.borrow(), ServerContact::Silent { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn one_lost_answer_is_no_loss() {
        let mut ground = Ground::start(Peer::Answers);
        ground.changed().await;
        ground.set(Peer::Refuses);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        ground.set(Peer::Answers);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(!ground.contact.has_changed().unwrap(), "{:?}", ground.contact);
    }
}
