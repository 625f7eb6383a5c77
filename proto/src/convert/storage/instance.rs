//! Blocks of instances. Ids and names of hosts, and names of ports and sidecars, repeat within a block, so records hold indexes
//! into the block's lists, in order of first use: the same block has the same bytes.

use crate::convert::fields::{
    WireEnum as _, group, job_bytes, job_id, moment, optional, platform_cause, required, run_state,
    wire_enum, word,
};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::gone::{AgentTimes, Gone, GoneCause};
use echelon_core_model::instance::{Block, BlockKey, Ended, Ending, InstanceRecord, Probes, Run, Stopping};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::pod::Member;
use echelon_core_model::runtime::Port;
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{
    Generation, HostId, InstanceNumber, Resources, RunNumber, SidecarName, Span, Timestamp, Version, VolumeId,
};
use std::collections::HashMap;
use std::sync::Arc;

wire_enum!(Ended, wire::Ended, Succeeded, Failed, Stopped);
wire_enum!(GoneCause, wire::GoneCause, Replaced, Operator);

impl Wire for Gone {
    type Message = wire::Gone;

    fn to_wire(&self) -> Self::Message {
        let Self {
            cause,
            observed_at,
            times: AgentTimes { recovery, shutdown },
        } = self;
        wire::Gone {
            cause: cause.number(),
            observed_at_ms: observed_at.0,
            recovery_ms: recovery.map(|span| span.0),
            shutdown_ms: shutdown.map(|span| span.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            cause: word("cause", message.cause)?,
            observed_at: Span(message.observed_at_ms),
            times: AgentTimes {
                recovery: message.recovery_ms.map(Span),
                shutdown: message.shutdown_ms.map(Span),
            },
        })
    }
}

impl Wire for Stopping {
    type Message = wire::Stopping;

    fn to_wire(&self) -> Self::Message {
        let Self { reason, grace, since } = self;
        wire::Stopping {
            reason: Some(reason.to_wire()),
            grace_ms: grace.0,
            since_ms: since.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            reason: required("reason", message.reason)?,
            grace: Span(message.grace_ms),
            since: Timestamp(message.since_ms),
        })
    }
}

impl Wire for Ending {
    type Message = wire::Ending;

    fn to_wire(&self) -> Self::Message {
        let Self {
            state,
            reason,
            exit_code,
        } = self;
        wire::Ending {
            state: state.number().into(),
            reason: Some(reason.to_wire()),
            exit_code: *exit_code,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            state: run_state("state", message.state)?,
            reason: required("reason", message.reason)?,
            exit_code: message.exit_code,
        })
    }
}

/// The texts of one list in order of first use.
#[derive(Default)]
struct Texts<'a> {
    index: HashMap<&'a str, u32>,
    list: Vec<String>,
}

impl<'a> Texts<'a> {
    fn index(&mut self, text: &'a str) -> u32 {
        if let Some(index) = self.index.get(text) {
            return *index;
        }
        // A block has 256 instances with a few runs each, so the list is far shorter than 2^32.
        let index = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.index.insert(text, index);
        self.list.push(text.to_owned());
        index
    }
}

#[derive(Default)]
struct BlockOut<'a> {
    ids: Texts<'a>,
    hostnames: Texts<'a>,
    /// Of ports and sidecars.
    names: Texts<'a>,
}

impl<'a> BlockOut<'a> {
    fn run(&mut self, run: &'a Run) -> wire::Run {
        let Run {
            generation,
            number,
            state,
            since,
            observed_at,
            reason,
            host,
            hostname,
            spec_version,
            restarts,
            head_version,
            replaces,
            started_at,
            ended_at,
            exit_code,
            stopping,
            ports,
            revocable,
            healthy,
            ready,
            probes,
            available_at,
            members,
            ending,
            gang_try,
            fault,
            gone,
        } = run;
        wire::Run {
            generation: generation.0,
            number: number.0,
            state: state.number().into(),
            since_ms: since.0,
            observed_at_ms: observed_at.0,
            reason: Some(reason.to_wire()),
            host: self.ids.index(host.as_str()),
            hostname: self.hostnames.index(hostname),
            spec_version: *spec_version,
            restarts: *restarts,
            head_version: head_version.0,
            replaces: *replaces,
            started_at_ms: started_at.map(|t| t.0),
            ended_at_ms: ended_at.map(|t| t.0),
            exit_code: *exit_code,
            stopping: stopping.as_deref().map(Wire::to_wire),
            ports: ports.iter().map(|p| self.port(p)).collect(),
            revocable: revocable.as_deref().map(Wire::to_wire),
            healthy: *healthy,
            ready: *ready,
            members: members.iter().map(|m| self.member(m)).collect(),
            ending: ending.as_deref().map(Wire::to_wire),
            health: probes.health,
            readiness: probes.readiness,
            available_at_ms: available_at.map(|t| t.0),
            gang_try: *gang_try,
            fault: fault.map(PlatformCause::number),
            gone: gone.as_deref().map(Wire::to_wire),
        }
    }

    fn port(&mut self, port: &'a Port) -> wire::Port {
        let Port { name, number } = port;
        wire::Port {
            name: self.names.index(name),
            number: (*number).into(),
        }
    }

    fn member(&mut self, member: &'a Member) -> wire::Member {
        let Member {
            sidecar,
            state,
            exit_code,
            healthy,
        } = member;
        wire::Member {
            sidecar: sidecar.as_ref().map(|name| self.names.index(name.as_str())),
            state: state.number().into(),
            exit_code: *exit_code,
            healthy: *healthy,
        }
    }

    fn volume(&mut self, volume: &'a HeldVolume) -> wire::HeldVolume {
        let HeldVolume {
            id,
            host,
            hostname,
            size,
            used,
        } = volume;
        wire::HeldVolume {
            id: id.to_string(),
            host: self.ids.index(host.as_str()),
            hostname: self.hostnames.index(hostname),
            size_mib: *size,
            used: *used,
        }
    }

    fn record(&mut self, number: InstanceNumber, record: &'a InstanceRecord) -> wire::InstanceRecord {
        let InstanceRecord {
            generation,
            run,
            older,
            attempts,
            platform_failures,
            not_before,
            ended,
            unsettled,
            avoid,
            volume,
            failed_version,
            failure,
        } = record;
        wire::InstanceRecord {
            number: number.0,
            generation: generation.0,
            run: run.as_ref().map(|r| self.run(r)),
            older: older.iter().map(|r| self.run(r)).collect(),
            attempts: *attempts,
            platform_failures: (*platform_failures).into(),
            not_before_ms: not_before.0,
            ended: ended.map_or(0, |e| e.number()),
            avoid: avoid.iter().map(|h| self.ids.index(h.as_str())).collect(),
            volume: volume.as_ref().map(|v| self.volume(v)),
            failed_version: *failed_version,
            unsettled: *unsettled,
            failure: failure.as_deref().map(Wire::to_wire),
        }
    }
}

struct BlockIn {
    ids: Vec<HostId>,
    hostnames: Vec<Arc<str>>,
    names: Vec<String>,
}

fn pick<T: Clone>(field: &str, list: &[T], index: u32) -> Result<T, FieldError> {
    let found = usize::try_from(index).ok().and_then(|i| list.get(i));
    found.cloned().ok_or_else(|| {
        let problem = FieldProblem::OutOfRange {
            number: index.into(),
            first: 0,
            last: list.len() as i128 - 1,
        };
        FieldError::new(field, problem)
    })
}

/// A number of 16 bits.
fn short(field: &str, number: u32) -> Result<u16, FieldError> {
    let problem = FieldProblem::OutOfRange {
        number: number.into(),
        first: 0,
        last: u16::MAX.into(),
    };
    number.try_into().map_err(|_| FieldError::new(field, problem))
}

/// Each item of a list; an error names the item.
fn each<M, T>(
    field: &str,
    items: Vec<M>,
    one: impl Fn(M) -> Result<T, FieldError>,
) -> Result<Vec<T>, FieldError> {
    let items = items.into_iter().enumerate();
    items
        .map(|(i, item)| one(item).map_err(|e| e.within_item(field, i)))
        .collect()
}

impl BlockIn {
    fn run(&self, message: wire::Run) -> Result<Run, FieldError> {
        Ok(Run {
            generation: Generation(message.generation),
            number: RunNumber(message.number),
            state: run_state("state", message.state)?,
            since: Timestamp(message.since_ms),
            observed_at: Span(message.observed_at_ms),
            reason: required("reason", message.reason)?,
            host: pick("host", &self.ids, message.host)?,
            hostname: pick("hostname", &self.hostnames, message.hostname)?,
            spec_version: message.spec_version,
            restarts: message.restarts,
            head_version: Version(message.head_version),
            replaces: message.replaces,
            started_at: moment(message.started_at_ms),
            ended_at: moment(message.ended_at_ms),
            exit_code: message.exit_code,
            stopping: optional("stopping", message.stopping)?.map(Box::new),
            ports: each("ports", message.ports, |p| self.port(&p))?.into(),
            revocable: optional("revocable", message.revocable)?
                .filter(|r: &Resources| !r.is_zero())
                .map(Box::new),
            healthy: message.healthy,
            ready: message.ready,
            probes: Probes {
                health: message.health,
                readiness: message.readiness,
            },
            available_at: moment(message.available_at_ms),
            members: each("members", message.members, |m| self.member(&m))?.into(),
            ending: optional("ending", message.ending)?.map(Box::new),
            gang_try: message.gang_try,
            fault: platform_cause("fault", message.fault)?,
            gone: optional("gone", message.gone)?.map(Box::new),
        })
    }

    fn port(&self, message: &wire::Port) -> Result<Port, FieldError> {
        Ok(Port {
            number: short("number", message.number)?,
            name: pick("name", &self.names, message.name)?,
        })
    }

    fn member(&self, message: &wire::Member) -> Result<Member, FieldError> {
        let name = message.sidecar.map(|i| pick("sidecar", &self.names, i));
        Ok(Member {
            sidecar: name.transpose()?.map(SidecarName::new),
            state: run_state("state", message.state)?,
            exit_code: message.exit_code,
            healthy: message.healthy,
        })
    }

    fn volume(&self, message: wire::HeldVolume) -> Result<HeldVolume, FieldError> {
        Ok(HeldVolume {
            id: VolumeId::new(message.id),
            host: pick("host", &self.ids, message.host)?,
            hostname: pick("hostname", &self.hostnames, message.hostname)?,
            size: message.size_mib,
            used: message.used,
        })
    }

    fn record(&self, message: wire::InstanceRecord) -> Result<InstanceRecord, FieldError> {
        let run = message.run.map(|r| self.run(r).map_err(|e| e.within("run")));
        let older = message.older.into_iter().enumerate();
        let older = older.map(|(i, r)| self.run(r).map_err(|e| e.within_item("older", i)));
        let avoid = message.avoid.iter().map(|h| pick("avoid", &self.ids, *h));
        let volume = message
            .volume
            .map(|v| self.volume(v).map_err(|e| e.within("volume")));
        let ended = (message.ended != 0).then(|| word("ended", message.ended));
        Ok(InstanceRecord {
            generation: Generation(message.generation),
            run: run.transpose()?,
            older: older.collect::<Result<_, _>>()?,
            attempts: message.attempts,
            platform_failures: short("platform_failures", message.platform_failures)?,
            not_before: Timestamp(message.not_before_ms),
            ended: ended.transpose()?,
            unsettled: message.unsettled,
            avoid: avoid.collect::<Result<_, _>>()?,
            volume: volume.transpose()?.map(Box::new),
            failed_version: message.failed_version,
            failure: optional("failure", message.failure)?.map(Box::new),
        })
    }
}

impl Wire for Block {
    type Message = wire::Block;

    fn to_wire(&self) -> Self::Message {
        let Self { key, instances } = self;
        let mut out = BlockOut::default();
        let instances = instances.iter().map(|(n, record)| out.record(*n, record));
        let instances = instances.collect();
        wire::Block {
            job: job_bytes(key.job),
            group: key.group.to_string(),
            number: key.number,
            host_ids: out.ids.list,
            hostnames: out.hostnames.list,
            names: out.names.list,
            instances,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let lists = BlockIn {
            ids: message.host_ids.iter().map(HostId::new).collect(),
            hostnames: message.hostnames.into_iter().map(Arc::from).collect(),
            names: message.names,
        };
        let mut records = Vec::with_capacity(message.instances.len());
        for (i, record) in message.instances.into_iter().enumerate() {
            let number = InstanceNumber(record.number);
            records.push((
                number,
                lists.record(record).map_err(|e| e.within_item("instances", i))?,
            ));
        }
        records.sort_by_key(|(number, _)| *number);
        if let Some(number) = records.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(*a),
            _ => None,
        }) {
            let twice = FieldProblem::Repeated(number.to_string());
            return Err(FieldError::new("instances", twice));
        }
        // Made of all at once a map takes half the room of one to which they come one by one.
        let instances = records.into_iter().collect();
        Ok(Self {
            key: BlockKey {
                job: job_id("job", &message.job)?,
                group: group("group", &message.group)?,
                number: message.number,
            },
            instances,
        })
    }
}
