//! Whether a process can do its work: a set of named conditions, each with a reason while it does not hold.
//!
//! Being alive and being ready differ: `/healthz` says that the process answers, `/readyz` that it may be sent work.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

type States = BTreeMap<String, State>;

/// A condition as it was set last.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    /// Why it does not hold.
    reason: Option<String>,
    /// Whether the process is ready only while it holds.
    required: bool,
}

/// All conditions of a process; clones share them. Ready when every required condition holds.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    states: Mutex<States>,
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
    /// Whether every required condition holds.
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
    /// Whether the process is ready only while it holds.
    #[serde(skip_serializing_if = "is_true")]
    pub required: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_true(value: &bool) -> bool {
    *value
}

impl Readiness {
    /// Adds a condition that does not hold yet, for `reason`. A name added twice is one condition.
    pub fn condition(&self, name: &str, reason: &str) -> Condition {
        self.add(name, reason, true)
    }

    /// Adds what is told beside the conditions: the process is ready without it. A condition of this name
    /// stays one.
    pub fn notice(&self, name: &str, reason: &str) -> Condition {
        self.add(name, reason, false)
    }

    fn add(&self, name: &str, reason: &str, required: bool) -> Condition {
        self.set(name, Some(reason.to_owned()), required);
        Condition {
            all: self.clone(),
            name: name.to_owned(),
        }
    }

    /// The state of all conditions.
    #[must_use]
    pub fn report(&self) -> Report {
        let conditions: Vec<_> = self
            .states()
            .iter()
            .map(|(name, state)| ConditionReport {
                name: name.clone(),
                ready: state.reason.is_none(),
                required: state.required,
                reason: state.reason.clone(),
            })
            .collect();
        Report {
            ready: conditions.iter().all(|c| c.ready || !c.required),
            conditions,
        }
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.0.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each change of a condition; what it is then, [`Readiness::report`] says.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// What is required once stays required.
    fn set(&self, name: &str, reason: Option<String>, required: bool) {
        let mut states = self.states();
        let before = states.get(name).cloned();
        let required = required || before.as_ref().is_some_and(|before| before.required);
        let state = State { reason, required };
        if before.as_ref() != Some(&state) {
            states.insert(name.to_owned(), state);
            drop(states);
            self.0.changed.send_replace(());
        }
    }
}

impl Report {
    /// The same if a condition is required, too. One that is not known does not hold.
    pub fn require(&mut self, name: &str) {
        match self.conditions.iter_mut().find(|c| c.name == name) {
            Some(condition) => condition.required = true,
            None => self.conditions.push(ConditionReport {
                name: name.to_owned(),
                ready: false,
                required: true,
                reason: Some("it is not known here".to_owned()),
            }),
        }
        self.ready = self.conditions.iter().all(|c| c.ready || !c.required);
    }
}

impl Condition {
    /// The condition holds.
    pub fn ready(&self) {
        self.all.set(&self.name, None, false);
    }

    /// The condition does not hold; `reason` is for a person: what is awaited.
    pub fn not_ready(&self, reason: &str) {
        self.all.set(&self.name, Some(reason.to_owned()), false);
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

    #[test]
    fn a_notice_is_told_and_does_not_count() {
        let readiness = Readiness::default();
        let membership = readiness.notice("membership", "no answer for 3 s");
        readiness.condition("storage", "not opened yet").ready();
        let text = serde_json::to_string(&readiness.report()).unwrap();
        assert_eq!(
            text,
            r#"{"ready":true,"conditions":[{"name":"membership","ready":false,"required":false,"reason":"no answer for 3 s"},{"name":"storage","ready":true}]}"#
        );
        // Another role of the process needs it.
        readiness.condition("membership", "not known yet");
        membership.not_ready("no answer for 3 s");
        assert!(!readiness.report().ready, "what is required stays required");
    }
}
