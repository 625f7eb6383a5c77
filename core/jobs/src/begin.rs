//! The next run of an instance as an intent: what is stored before its ACCEPT.

use crate::older::give_up;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::runtime::Port;
use echelon_core_model::{Generation, HostId, ReasonCode, Resources, RunNumber, RunState, Timestamp};
use std::sync::Arc;

/// Where and as what a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The generation of the instance's range.
    pub generation: Generation,
    /// The host's agent.
    pub host: HostId,
    /// The host's name.
    pub hostname: Arc<str>,
    /// The spec version that it runs.
    pub spec_version: u32,
    /// Restarts asked for so far.
    pub restarts: u32,
    /// Its ports on the host.
    pub ports: Vec<Port>,
    /// The part of its room that the host only lends.
    pub revocable: Resources,
}

/// The number that the next run of a generation gets: larger than that of any run of it in the record.
#[must_use]
pub fn next_number(record: &InstanceRecord, generation: Generation) -> RunNumber {
    record
        .run
        .iter()
        .chain(&record.older)
        .filter(|r| r.generation == generation)
        .map(|r| r.number)
        .max()
        .unwrap_or_default()
        .next()
}

/// Puts the next run into the record as `Launching`. A latest run that is silent is given up as lost by this, so that the
/// giving up and what follows it are one write.
pub fn begin(record: &mut InstanceRecord, start: Start, now: Timestamp) {
    let number = next_number(record, start.generation);
    if record.run.as_ref().is_some_and(Run::may_have_task) {
        give_up(record, now);
    }
    let replaces = record.run.as_ref().is_some_and(is_to_be_replaced);
    record.generation = start.generation;
    record.run = Some(Run {
        generation: start.generation,
        number,
        state: RunState::Launching,
        since: now,
        reason: ReasonCode::Launching.into(),
        host: start.host,
        hostname: start.hostname,
        spec_version: start.spec_version,
        restarts: start.restarts,
        replaces,
        started_at: None,
        ended_at: None,
        exit_code: None,
        stopping: None,
        ports: start.ports,
        revocable: start.revocable,
        healthy: None,
        ready: None,
    });
}

/// Whether what follows a run counts as down because of us until it runs.
fn is_to_be_replaced(run: &Run) -> bool {
    let stopped = run
        .stopping
        .as_ref()
        .is_some_and(|s| s.reason.code.is_replacement());
    stopped || (run.replaces && run.started_at.is_none())
}
