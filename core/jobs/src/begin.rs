//! The next run of an instance as an intent: what is stored before its ACCEPT.

use crate::older::give_up;
use crate::rollout::had_settled;
use echelon_core_model::instance::{InstanceRecord, Probes, Run};
use echelon_core_model::pod::Member;
use echelon_core_model::runtime::Port;
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{
    Generation, HostId, InstanceId, ReasonCode, Resources, RunNumber, RunState, SidecarName, Span, TaskId,
    ThinVec, Timestamp, Version, VolumeId,
};
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
    /// The spec version that first had what it runs.
    pub spec_version: u32,
    /// Its turn in a rollout has come with this run.
    pub updates: bool,
    /// For so long the run before must have been available to need no further watching, if it replaced another.
    pub min_healthy: Span,
    /// What must be told of it before it is available.
    pub probes: Probes,
    /// Restarts asked for so far.
    pub restarts: u32,
    /// The head by which it begins.
    pub head_version: Version,
    /// Its ports on the host.
    pub ports: Vec<Port>,
    /// What runs beside its main task.
    pub sidecars: Vec<SidecarName>,
    /// The part of its room that the host only lends.
    pub revocable: Resources,
    /// What it uses or makes of a volume, where its group asks for one.
    pub volume: Option<VolumeStart>,
    /// To which try of its gang it belongs, where that is tried again as a whole; 0: to none.
    pub gang_try: u32,
}

/// The volume of a run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeStart {
    /// The one that the instance holds.
    Held,
    /// A new one of this size in MiB, made with the run.
    New(u64),
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
pub fn begin(record: &mut InstanceRecord, instance: &InstanceId, start: Start, now: Timestamp) {
    let number = next_number(record, start.generation);
    if record.run.as_ref().is_some_and(Run::may_have_task) {
        give_up(record, now);
    }
    let replaces = start.updates
        || record
            .run
            .as_ref()
            .is_some_and(|r| is_to_be_replaced(r, start.min_healthy));
    record.volume = volume(record, &start, instance, number);
    record.generation = start.generation;
    record.run = Some(Run {
        generation: start.generation,
        number,
        state: RunState::Launching,
        since: now,
        // Noted where the change is stored.
        observed_at: Span::ZERO,
        reason: ReasonCode::Launching.into(),
        host: start.host,
        hostname: start.hostname,
        spec_version: start.spec_version,
        restarts: start.restarts,
        head_version: start.head_version,
        replaces,
        started_at: None,
        ended_at: None,
        exit_code: None,
        stopping: None,
        ports: start.ports.into(),
        revocable: (!start.revocable.is_zero()).then(|| Box::new(start.revocable)),
        healthy: None,
        ready: None,
        probes: start.probes,
        available_at: None,
        members: members(start.sidecars),
        ending: None,
        gang_try: start.gang_try,
        fault: None,
        gone: None,
    });
}

/// What is known of a task that the cluster lists and storage does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The host's agent.
    pub host: HostId,
    /// The host's name.
    pub hostname: Arc<str>,
    /// The spec version that it is taken for.
    pub spec_version: u32,
    /// Restarts asked for so far.
    pub restarts: u32,
    /// The head by which it is taken over.
    pub head_version: Version,
    /// Its sidecars, as far as the cluster has told of them.
    pub sidecars: Vec<SidecarName>,
}

/// Makes a task the latest run of its instance: storage was put back to a time before it began, and an
/// operator has resumed it. The stored latest run is kept as an older one until it is known dead. What was
/// stored of the instance's end holds no longer.
pub fn adopt(record: &mut InstanceRecord, task: &TaskId, listed: Listed, now: Timestamp) {
    if record.run.as_ref().is_some_and(Run::may_have_task) {
        give_up(record, now);
    }
    record.ended = None;
    record.unsettled = false;
    record.generation = task.generation;
    record.run = Some(Run {
        generation: task.generation,
        number: task.run,
        state: RunState::Starting,
        since: now,
        observed_at: Span::ZERO,
        reason: ReasonCode::Starting.into(),
        host: listed.host,
        hostname: listed.hostname,
        spec_version: listed.spec_version,
        restarts: listed.restarts,
        head_version: listed.head_version,
        replaces: false,
        started_at: None,
        ended_at: None,
        exit_code: None,
        stopping: None,
        ports: ThinVec::new(),
        revocable: None,
        healthy: None,
        ready: None,
        probes: Probes::default(),
        available_at: None,
        members: members(listed.sidecars),
        ending: None,
        gang_try: 0,
        fault: None,
        gone: None,
    });
}

/// The volume that the instance holds from now on. One that no run has reached is left for a new one without a word: nothing can be
/// in it.
fn volume(
    record: &InstanceRecord,
    start: &Start,
    instance: &InstanceId,
    number: RunNumber,
) -> Option<Box<HeldVolume>> {
    let (host, hostname) = (start.host.clone(), Arc::clone(&start.hostname));
    let Some(wanted) = &start.volume else {
        return record.volume.clone();
    };
    match (wanted, &record.volume) {
        (VolumeStart::Held, Some(held)) => Some(Box::new(HeldVolume {
            host,
            hostname,
            ..(**held).clone()
        })),
        (VolumeStart::Held, None) => None,
        (VolumeStart::New(size), _) => Some(Box::new(HeldVolume {
            id: VolumeId::of(&TaskId {
                instance: instance.clone(),
                generation: start.generation,
                run: number,
            }),
            host,
            hostname,
            size: *size,
            used: false,
        })),
    }
}

/// Of a pod only: a run of one task is that task.
fn members(sidecars: Vec<SidecarName>) -> ThinVec<Member> {
    if sidecars.is_empty() {
        return ThinVec::new();
    }
    let all = std::iter::once(None).chain(sidecars.into_iter().map(Some));
    all.map(Member::new).collect()
}

/// Whether what follows a run counts as down because of us until it is good.
fn is_to_be_replaced(run: &Run, min_healthy: Span) -> bool {
    let stopped = run
        .stopping
        .as_ref()
        .is_some_and(|s| s.reason.code.is_replacement());
    stopped || (run.replaces && !had_settled(run, min_healthy))
}
