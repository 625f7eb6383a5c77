//! The host manager's contact with Mesos: a connection that stands while this process leads. What to call and what an
//! event means is decided in `core/hosts`.

use echelon_core_hosts::{Call, Event};
use echelon_core_model::HostId;
use echelon_core_shard::CallCredit;
use echelon_io_credit::Credit;
use echelon_io_mesos::{Config, Credential, Framework, Limits, Masters, Outgoing, Probe, Tcp, Timing};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Calls that may wait for the connection; with more they count as not made, and the driver makes them again. As many
/// acknowledgements as a great burst of updates brings, about 20 MiB: one that is not made costs its task ten seconds.
const CALLS: usize = 100_000;

/// Bytes of launches under way, from the loop to the master's answers. With this no further one is begun.
pub(crate) const LAUNCH_BYTES: usize = 16 << 20;

/// Bytes of all other calls: acknowledgements, kills and questions do not wait for launches. With more a call
/// counts as not made, too.
pub(crate) const OTHER_CALL_BYTES: usize = 32 << 20;

/// The driver is told what has left once this much less is under way than it knows of, or something waits for
/// it.
const TOLD_BYTES: usize = LAUNCH_BYTES / 4;

/// Events that may wait for the loop; the connection itself holds more.
const EVENTS: usize = 1024;

/// A cluster's Mesos, and who we are there.
#[derive(Debug, Clone)]
pub struct Mesos {
    /// Its masters.
    pub masters: Masters,
    /// What our framework says of itself.
    pub framework: Framework,
    /// For masters that authenticate frameworks.
    pub credential: Option<Credential>,
    /// For the operator API of masters and agents, where that is another one.
    pub operator: Option<Credential>,
    /// Bounds in time.
    pub timing: Timing,
    /// Bounds in size.
    pub limits: Limits,
    /// A removed framework that an operator gives up for a new one.
    pub replaced_framework: Option<String>,
}

/// Where agents listen, as their offers or the list of all of them told. Clones share it; logs are read there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<BTreeMap<HostId, String>>>);

impl Addresses {
    /// Where a host's agent listens, if it was heard.
    pub(crate) fn get(&self, host: &HostId) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(host)
            .cloned()
    }

    fn learn(&self, events: &[Event]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut learn = |host: &HostId, address: &String| {
            if !address.is_empty() && known.get(host) != Some(address) {
                known.insert(host.clone(), address.clone());
            }
        };
        for event in events {
            match event {
                Event::Offers(offers) => offers.iter().for_each(|o| learn(&o.host, &o.address)),
                Event::Agents { agents, .. } => agents.iter().for_each(|a| learn(&a.host, &a.address)),
                _ => {}
            }
        }
    }
}

/// Whether launches wait for room on the way to Mesos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IsAwaited {
    Yes,
    No,
}

/// The connection.
pub(crate) struct HostManager {
    config: Config,
    addresses: Addresses,
    open: Option<(mpsc::Sender<Outgoing>, mpsc::Receiver<Event>)>,
    launches: Credit,
    other_calls: Credit,
    /// Bytes of launches under way, as the driver knows them.
    known: usize,
}

impl HostManager {
    pub(crate) fn new(mesos: Mesos, seed: u64, addresses: Addresses) -> Self {
        let Mesos {
            masters,
            framework,
            credential,
            operator,
            timing,
            limits,
            replaced_framework: _,
        } = mesos;
        let config = Config {
            masters,
            framework,
            credential,
            operator,
            timing,
            limits,
            seed,
        };
        Self {
            config,
            addresses,
            open: None,
            launches: Credit::new(LAUNCH_BYTES),
            other_calls: Credit::new(OTHER_CALL_BYTES),
            known: 0,
        }
    }

    /// Bytes of launches under way, and of other calls.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        (self.launches.under_way(), self.other_calls.under_way())
    }

    /// The launches under way, for the driver.
    pub(crate) fn call_credit(&mut self) -> CallCredit {
        self.known = self.launches.under_way();
        CallCredit {
            under_way: self.known,
            bound: LAUNCH_BYTES,
        }
    }

    /// Waits until the driver is to be told that calls have left. While nothing waits for that it need not
    /// know of small ones.
    pub(crate) fn emptied(&self, is_awaited: IsAwaited) -> impl Future<Output = ()> + use<> {
        let (credit, known) = (self.launches.clone(), self.known);
        async move {
            if known == 0 || (is_awaited == IsAwaited::No && known < TOLD_BYTES) {
                std::future::pending::<()>().await;
            }
            credit.at_most(known / 2).await;
        }
    }

    /// What asks the same masters for a sign of life.
    pub(crate) fn probe(&self) -> Probe {
        Probe::new(&self.config, Arc::new(Tcp))
    }

    /// Hands a call over without waiting; what cannot be handed over comes back as an event. A subscription makes the
    /// connection.
    pub(crate) fn call(&mut self, call: Call) -> Option<Event> {
        if matches!(call, Call::Subscribe { .. }) && self.open.is_none() {
            let (calls, called) = mpsc::channel(CALLS);
            let (told, events) = mpsc::channel(EVENTS);
            // It ends when the sender is dropped.
            let _detached = echelon_io_mesos::spawn(self.config.clone(), called, told);
            self.open = Some((calls, events));
        }
        let failed = |call, why: &str| Event::CallFailed {
            call,
            why: why.to_owned(),
            refused: true,
        };
        let Some((calls, _)) = &self.open else {
            return Some(failed(call, "there is no connection to Mesos"));
        };
        const FULL: &str = "too many calls wait for Mesos";
        let bytes = call.weight();
        let is_launch = matches!(call, Call::Accept { .. });
        let held = if is_launch {
            // The driver knows of what is under way: it makes launches only where there is room for them.
            self.known = self.known.saturating_add(bytes);
            Some(self.launches.take(bytes))
        } else {
            self.other_calls.try_take(bytes)
        };
        let Some(held) = held else {
            return Some(failed(call, FULL));
        };
        let held = Some(held);
        let refused = calls.try_send(Outgoing { call, held }).err();
        refused.map(|error| failed(error.into_inner().call, FULL))
    }

    /// Waits for events and appends them; for ever while there is no connection.
    pub(crate) async fn events(&mut self, batch: &mut Vec<Event>, most: usize) {
        let Some((_, events)) = &mut self.open else {
            return std::future::pending().await;
        };
        if events.recv_many(batch, most).await == 0 {
            self.open = None;
            batch.push(Event::Disconnected {
                why: "the connection to Mesos broke off".to_owned(),
            });
        }
        self.addresses.learn(batch);
    }

    /// Ends the connection at once, without a word to Mesos: our tasks run on.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests;
