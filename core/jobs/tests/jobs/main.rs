//! Rules about single instances as tables.

#[cfg(test)]
mod availability;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod hearing;
#[cfg(test)]
mod next;
#[cfg(test)]
mod platform;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod states;
#[cfg(test)]
mod takeover;

use echelon_core_jobs::{News, Policy, Start, Told, Whom, begin};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::rules::Restart;
use echelon_core_model::spec::{JobKind, defaults};
use echelon_core_model::time::Span;
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, JobId, Reason, ReasonCode, Resources,
    RunNumber, RunState, SidecarName, Timestamp, Version,
};
use std::sync::Arc;

/// The moment of all tests.
pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

/// All that can be told of a task.
pub(crate) const ALL_TOLD: [Told; 10] = [
    Told::Preparing,
    Told::Running,
    Told::Ending,
    Told::Succeeded,
    Told::Failed,
    Told::Killed,
    Told::Invalid,
    Told::Dropped,
    Told::Gone,
    Told::Silent,
];

pub(crate) fn policy(kind: JobKind) -> Policy {
    Policy {
        kind,
        retry: defaults::retry(kind),
        platform_retry: defaults::platform_retry(kind),
        restart: Restart::OnFailure,
        gang: OnMemberFailure::Member,
        healthy_after: Span::minutes(5),
        jitter: 0,
    }
}

pub(crate) fn news(told: Told) -> News {
    News {
        told,
        reason: Reason::new(ReasonCode::Failed),
        of: Whom::Main,
        exit_code: None,
        healthy: None,
        ready: None,
        fault: None,
        at: None,
    }
}

/// A record whose first run of generation 1 is in a state.
pub(crate) fn record(state: RunState) -> InstanceRecord {
    let mut record = InstanceRecord::default();
    begun(&mut record);
    if let Some(run) = &mut record.run {
        run.state = state;
    }
    record
}

pub(crate) fn instance() -> InstanceId {
    InstanceId {
        job: JobId(1),
        group: GroupName::new("main"),
        number: InstanceNumber(0),
    }
}

/// A record with the intent of a pod with these sidecars.
pub(crate) fn begun_pod(sidecars: &[&str]) -> InstanceRecord {
    let mut record = InstanceRecord::default();
    begun_with(&mut record, sidecars.iter().map(SidecarName::new).collect());
    record
}

pub(crate) fn begun(record: &mut InstanceRecord) {
    begun_with(record, Vec::new());
}

fn begun_with(record: &mut InstanceRecord, sidecars: Vec<SidecarName>) {
    let start = Start {
        generation: Generation(1),
        host: HostId::new("host"),
        hostname: Arc::from("host"),
        spec_version: 1,
        updates: false,
        min_healthy: Span::seconds(5),
        probes: echelon_core_model::instance::Probes::default(),
        restarts: 0,
        head_version: Version(1),
        ports: Vec::new(),
        revocable: Resources::ZERO,
        volume: None,
        sidecars,
        gang_try: 0,
    };
    begin(record, &instance(), start, NOW);
}

pub(crate) const FIRST: (Generation, RunNumber) = (Generation(1), RunNumber(1));
