//! Reports: from a shard to the resource manager.

use crate::convert::fields::{cluster, group, job_bytes, job_id, list, messages, optional, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::shard::v1 as wire;
use crate::echelon::storage::v1 as stored;
use echelon_core_model::directive::{
    Capacity, ClassFits, Found, FoundSlice, Part, RETURNABLE, Report, ReportPart, SliceReport,
};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::starts::StartCounts;
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_model::{
    Epoch, Generation, HostPoolName, Kind, RangeSet, Reason, Resources, Timestamp, Version,
};
use std::collections::BTreeMap;

impl Wire for Report {
    type Message = wire::DirectResponse;

    fn to_wire(&self) -> Self::Message {
        use wire::direct_response::Part as Sent;
        let Self {
            cluster,
            epoch,
            sequence,
            part,
        } = self;
        let part = match part {
            ReportPart::FullStart => Sent::FullStart(wire::FullReportStart {}),
            ReportPart::Slices(slices) => Sent::Slices(wire::SlicesReport {
                slices: messages(slices),
            }),
            ReportPart::FullEnd => Sent::FullEnd(wire::FullReportEnd {}),
            ReportPart::Capacity(capacity) => Sent::Capacity(capacity.to_wire()),
            ReportPart::Claims(claims) => Sent::Claims(wire::ClaimsReport {
                claims: messages(claims),
            }),
            ReportPart::Archived(jobs) => Sent::Archived(wire::ArchivedReport {
                jobs: jobs.iter().copied().map(job_bytes).collect(),
            }),
            ReportPart::Found(found) => Sent::Found(found.to_wire()),
            ReportPart::Fits(fits) => Sent::Fits(fits.to_wire()),
            ReportPart::Signs(signs) => Sent::Signs(signs.to_wire()),
            ReportPart::Starts(starts) => Sent::Starts(starts.to_wire()),
            ReportPart::Superseded(epoch) => Sent::Superseded(epoch.0),
        };
        wire::DirectResponse {
            cluster: cluster.to_string(),
            epoch: epoch.0,
            sequence: *sequence,
            part: Some(part),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        use wire::direct_response::Part as Sent;
        let missing = || FieldError::new("part", FieldProblem::Missing);
        let part = match message.part.ok_or_else(missing)? {
            Sent::FullStart(wire::FullReportStart {}) => ReportPart::FullStart,
            Sent::Slices(sent) => {
                ReportPart::Slices(list("slices", sent.slices).map_err(|e| e.within("slices"))?)
            }
            Sent::FullEnd(wire::FullReportEnd {}) => ReportPart::FullEnd,
            Sent::Capacity(sent) => ReportPart::Capacity(Box::new(required("capacity", Some(sent))?)),
            Sent::Claims(sent) => {
                ReportPart::Claims(list("claims", sent.claims).map_err(|e| e.within("claims"))?)
            }
            Sent::Archived(sent) => {
                let jobs = sent.jobs.iter().map(|bytes| job_id("archived.jobs", bytes));
                ReportPart::Archived(jobs.collect::<Result<_, _>>()?)
            }
            Sent::Found(sent) => {
                ReportPart::Found(Found::from_wire(sent).map_err(|e: FieldError| e.within("found"))?)
            }
            Sent::Fits(sent) => {
                ReportPart::Fits(ClassFits::from_wire(sent).map_err(|e: FieldError| e.within("fits"))?)
            }
            Sent::Signs(sent) => {
                ReportPart::Signs(ShardSigns::from_wire(sent).map_err(|e: FieldError| e.within("signs"))?)
            }
            Sent::Starts(sent) => {
                ReportPart::Starts(StartCounts::from_wire(sent).map_err(|e: FieldError| e.within("starts"))?)
            }
            Sent::Superseded(epoch) => ReportPart::Superseded(Epoch(epoch)),
        };
        Ok(Self {
            cluster: cluster("cluster", &message.cluster)?,
            epoch: Epoch(message.epoch),
            sequence: message.sequence,
            part,
        })
    }
}

impl Wire for Found {
    type Message = wire::FoundReport;

    fn to_wire(&self) -> Self::Message {
        let Self { begins, ends, slices } = self;
        wire::FoundReport {
            begins: *begins,
            ends: *ends,
            slices: messages(slices),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            begins: message.begins,
            ends: message.ends,
            slices: list("slices", message.slices)?,
        })
    }
}

impl Wire for FoundSlice {
    type Message = wire::FoundSlice;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            group,
            generation,
            numbers,
        } = self;
        wire::FoundSlice {
            job: job_bytes(*job),
            group: group.to_string(),
            generation: generation.0,
            numbers: Some(numbers.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            numbers: required("numbers", message.numbers)?,
        })
    }
}

impl Wire for Capacity {
    type Message = wire::Capacity;

    fn to_wire(&self) -> Self::Message {
        let Self {
            total,
            used,
            closed,
            largest_free,
            largest_host,
            without_gpus,
            slack,
            host_pools,
            hosts,
            loss,
            sharing,
        } = self;
        wire::Capacity {
            total: Some(total.to_wire()),
            used: Some(used.to_wire()),
            closed: Some(closed.to_wire()),
            largest_free: Some(largest_free.to_wire()),
            largest_host: Some(largest_host.to_wire()),
            without_gpus: Some(without_gpus.to_wire()),
            slack: Some(slack.to_wire()),
            host_pools: by_host_pool_to_wire(host_pools),
            hosts: *hosts,
            loss: *loss,
            sharing: (*sharing != Sharing::default()).then(|| sharing.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let all = wire::Part {
            total: message.total,
            used: message.used,
            largest_host: message.largest_host,
        };
        Ok(Self {
            total: amount("total", message.total)?,
            used: amount("used", message.used)?,
            closed: amount("closed", message.closed)?,
            largest_free: amount("largest_free", message.largest_free)?,
            largest_host: amount("largest_host", message.largest_host)?,
            without_gpus: required("without_gpus", message.without_gpus.or(Some(all)))?,
            slack: optional("slack", message.slack)?.unwrap_or_default(),
            host_pools: by_host_pool("host_pools", message.host_pools)?,
            hosts: message.hosts,
            loss: message.loss,
            sharing: optional("sharing", message.sharing)?.unwrap_or_default(),
        })
    }
}

fn by_host_pool_to_wire(parts: &BTreeMap<HostPoolName, Part>) -> BTreeMap<String, wire::Part> {
    let parts = parts.iter();
    parts
        .map(|(name, part)| (name.to_string(), part.to_wire()))
        .collect()
}

fn by_host_pool(
    field: &str,
    parts: BTreeMap<String, wire::Part>,
) -> Result<BTreeMap<HostPoolName, Part>, FieldError> {
    let parts = parts.into_iter().map(|(name, part)| {
        let of = HostPoolName::parse(&name).map_err(|e| FieldError::new(field, FieldProblem::Id(e)))?;
        let part = Part::from_wire(part).map_err(|e| e.within(&name).within(field))?;
        Ok((of, part))
    });
    parts.collect()
}

/// An amount of a cluster: sums over all clusters stay within 64 bits.
fn amount(field: &str, message: Option<stored::Resources>) -> Result<Resources, FieldError> {
    let amount: Resources = required(field, message)?;
    let too_much = Kind::ALL
        .into_iter()
        .find(|kind| amount.get(*kind) > MOST_COUNTED);
    too_much.map_or(Ok(amount), |kind| {
        let problem = FieldProblem::OutOfRange {
            number: amount.get(kind).into(),
            first: 0,
            last: MOST_COUNTED.into(),
        };
        Err(FieldError::new(kind.word(), problem).within(field))
    })
}

impl Wire for Part {
    type Message = wire::Part;

    fn to_wire(&self) -> Self::Message {
        let Self {
            total,
            used,
            largest_host,
        } = self;
        wire::Part {
            total: Some(total.to_wire()),
            used: Some(used.to_wire()),
            largest_host: Some(largest_host.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            total: amount("total", message.total)?,
            used: amount("used", message.used)?,
            largest_host: amount("largest_host", message.largest_host)?,
        })
    }
}

/// A reason with how many wait for it and since when.
struct Waiting(Reason, u64, Timestamp);

impl Wire for Waiting {
    type Message = wire::SliceWaiting;

    fn to_wire(&self) -> Self::Message {
        wire::SliceWaiting {
            reason: Some(self.0.to_wire()),
            count: self.1,
            since_ms: self.2.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let reason = required("reason", message.reason)?;
        Ok(Self(reason, message.count, Timestamp(message.since_ms)))
    }
}

/// Numbers in no more ranges than a report may name.
fn returnable(message: Option<stored::RangeSet>) -> Result<RangeSet, FieldError> {
    let all: RangeSet = required("returnable", message)?;
    let count = all.ranges().len();
    if count > RETURNABLE {
        let problem = FieldProblem::OutOfRange {
            number: i128::try_from(count).unwrap_or(i128::MAX),
            first: 0,
            last: i128::try_from(RETURNABLE).unwrap_or(i128::MAX),
        };
        return Err(FieldError::new("returnable", problem));
    }
    Ok(all)
}

impl Wire for SliceReport {
    type Message = wire::SliceReport;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            group,
            generation,
            head_version,
            grant_number,
            granted,
            held,
            released,
            active,
            unstarted,
            between_runs,
            returnable,
            counts,
            succeeded,
            failed,
            stopped,
            live,
            waiting,
            outdated,
            max_unavailable,
            part_number,
            own,
            preempting,
            first_begun,
            last_begun,
            last_ended,
            revision,
            updated,
            update_failures,
            hosts,
            restarting,
            crash_looping,
            unavailable,
            first_behind,
        } = self;
        let waiting = waiting.iter().map(|(reason, count, since)| {
            let reason = Some(reason.to_wire());
            let (count, since_ms) = (*count, since.0);
            wire::SliceWaiting {
                reason,
                count,
                since_ms,
            }
        });
        wire::SliceReport {
            job: job_bytes(*job),
            group: group.to_string(),
            generation: generation.0,
            head_version: head_version.0,
            grant_number: *grant_number,
            granted: *granted,
            held: Some(held.to_wire()),
            released: Some(released.to_wire()),
            active: *active,
            unstarted: *unstarted,
            between_runs: *between_runs,
            returnable: Some(returnable.to_wire()),
            counts: Some(counts.to_wire()),
            succeeded: *succeeded,
            failed: *failed,
            stopped: *stopped,
            live: *live,
            waiting: waiting.collect(),
            outdated: *outdated,
            max_unavailable: *max_unavailable,
            part_number: *part_number,
            own: Some(own.to_wire()),
            preempting: *preempting,
            first_begun_ms: first_begun.map(|at| at.0),
            last_begun_ms: last_begun.map(|at| at.0),
            last_ended_ms: last_ended.map(|at| at.0),
            revision: *revision,
            updated: *updated,
            update_failures: *update_failures,
            hosts: *hosts,
            restarting: *restarting,
            crash_looping: *crash_looping,
            unavailable: *unavailable,
            first_behind: *first_behind,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let waiting = list::<Waiting>("waiting", message.waiting)?;
        Ok(Self {
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            generation: Generation(message.generation),
            head_version: Version(message.head_version),
            grant_number: message.grant_number,
            granted: message.granted,
            held: required("held", message.held)?,
            released: required("released", message.released)?,
            active: message.active,
            unstarted: message.unstarted,
            between_runs: message.between_runs,
            returnable: returnable(message.returnable)?,
            counts: required("counts", message.counts)?,
            succeeded: message.succeeded,
            failed: message.failed,
            stopped: message.stopped,
            live: message.live,
            waiting: waiting.into_iter().map(|w| (w.0, w.1, w.2)).collect(),
            outdated: message.outdated,
            max_unavailable: message.max_unavailable,
            part_number: message.part_number,
            own: required("own", message.own)?,
            preempting: message.preempting,
            first_begun: message.first_begun_ms.map(Timestamp),
            last_begun: message.last_begun_ms.map(Timestamp),
            last_ended: message.last_ended_ms.map(Timestamp),
            revision: message.revision,
            updated: message.updated,
            update_failures: message.update_failures,
            hosts: message.hosts,
            restarting: message.restarting,
            crash_looping: message.crash_looping,
            unavailable: message.unavailable,
            first_behind: message.first_behind,
        })
    }
}
