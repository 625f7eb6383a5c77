//! Whether a process can do its work: a set of named conditions, each with a reason while it does not hold.
//!
//! Being alive and being ready differ: `/healthz` says that the process answers, `/readyz` that it may be sent work.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

type Reasons = BTreeMap<String, Option<String>>;

/// All conditions of a process; clones share them. Ready when every condition holds.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    reasons: Mutex<Reasons>,
    changed: watch::Sender<()>,
}

/// One condition's handle. The condition stays as it was last set when the handle goes.
#[derive(Debug, Clone)]
pub struct Condition {
    all: Readiness,
    name: String,
}

/// The state of all conditions, as `/readyz` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every condition holds.
    pub ready: bool,
    /// The conditions by name.
    pub conditions: Vec<ConditionReport>,
}

/// One condition's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConditionReport {
    /// Which condition: `storage`, `leadership`.
    pub name: String,
    /// Whether it holds.
    pub ready: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Readiness {
    /// Adds a condition that does not hold yet, for `reason`. A name added twice is one condition.
    pub fn condition(&self, name: &str, reason: &str) -> Condition {
        let condition = Condition {
            all: self.clone(),
            name: name.to_owned(),
        };
        condition.not_ready(reason);
        condition
    }

    /// The state of all conditions.
    #[must_use]
    pub fn report(&self) -> Report {
        let conditions: Vec<_> = self
            .reasons()
            .iter()
            .map(|(name, reason)| ConditionReport {
                name: name.clone(),
                ready: reason.is_none(),
                reason: reason.clone(),
            })
            .collect();
        Report {
            ready: conditions.iter().all(|c| c.ready),
            conditions,
        }
    }

    fn reasons(&self) -> MutexGuard<'_, Reasons> {
        self.0.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each change of a condition; what it is then, [`Readiness::report`] says.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    fn set(&self, name: &str, reason: Option<String>) {
        let before = self.reasons().insert(name.to_owned(), reason.clone());
        if before.is_none_or(|before| before != reason) {
            self.0.changed.send_replace(());
        }
    }
}

impl Condition {
    /// The condition holds.
    pub fn ready(&self) {
        self.all.set(&self.name, None);
    }

    /// The condition does not hold; `reason` is for a person: what is awaited.
    pub fn not_ready(&self, reason: &str) {
        self.all.set(&self.name, Some(reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_every_condition_holds() {
        let readiness = Readiness::default();
        let storage = readiness.condition("storage", "not connected to memory: yet");
        let mesos = readiness.condition("mesos", "not subscribed");
        storage.ready();
        let text = serde_json::to_string(&readiness.report()).unwrap();
        assert_eq!(
            text,
            r#"{"ready":false,"conditions":[{"name":"mesos","ready":false,"reason":"not subscribed"},{"name":"storage","ready":true}]}"#
        );
        mesos.ready();
        assert!(readiness.report().ready);
        drop(storage.clone());
        storage.not_ready("no answer for 5 s");
        assert!(!readiness.report().ready);
    }
}
