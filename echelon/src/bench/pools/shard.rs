//! A shard that begins what it is granted at once, and of which something ends now and then.

use echelon_core_model::directive::{
    Capacity, Directive, Order, OwnChanges, Part, Report, ReportPart, SliceOrder, SliceReport,
};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::instance::Counts;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, JobId, RangeSet, Resources, RunState, Span, Version,
};
use std::collections::BTreeMap;

const HOSTS: u32 = 1_000;
/// Slices of one part of a report, as of a real shard.
const SLICES_A_PART: usize = 256;

/// A shard that begins what it is granted at once.
pub(super) struct Shard {
    pub(super) cluster: ClusterId,
    sequence: u64,
    instances: u64,
    pub(super) slices: BTreeMap<JobId, Slice>,
    next_ending: JobId,
    /// The largest grant it ever had.
    pub(super) granted: u64,
}

/// What it has of a job, in as little room as that takes: the memory that is measured is the resource manager's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    head_version: Version,
    generation: Generation,
    held: RangeSet,
    grant_number: u64,
    max_unavailable: u32,
    part_number: u64,
    pub(super) active: u64,
    succeeded: u64,
}

impl Slice {
    fn unstarted(&self) -> u64 {
        self.held.count() - self.succeeded - self.active
    }

    fn report(&self, job: JobId) -> SliceReport {
        let mut counts = Counts::default();
        counts.add(RunState::Running, self.active);
        counts.add(RunState::Succeeded, self.succeeded);
        counts.add(RunState::Pending, self.unstarted());
        SliceReport {
            job,
            group: GroupName::new(GroupName::DEFAULT),
            generation: self.generation,
            head_version: self.head_version,
            grant_number: self.grant_number,
            held: self.held.clone(),
            released: RangeSet::new(),
            active: self.active,
            unstarted: self.unstarted(),
            between_runs: 0,
            returnable: self.held.highest(self.unstarted()),
            counts,
            succeeded: self.succeeded,
            failed: 0,
            stopped: 0,
            live: self.active,
            waiting: Vec::new(),
            outdated: 0,
            max_unavailable: self.max_unavailable,
            part_number: self.part_number,
            own: OwnChanges::default(),
            preempting: 0,
            granted: self.active,
            first_begun: None,
            last_begun: None,
            last_ended: None,
            revision: 0,
            update_failures: 0,
            restarting: 0,
            crash_looping: 0,
            unavailable: 0,
            first_behind: None,
            updated: 0,
            hosts: None,
        }
    }
}

/// What an instance takes.
pub(super) const fn one() -> Resources {
    Resources {
        cpus: 1_000,
        memory: 1_024,
        disk: 0,
        gpus: 0,
    }
}

impl Shard {
    /// With room for so many instances.
    pub(super) const fn new(cluster: ClusterId, instances: u64) -> Self {
        Self {
            cluster,
            sequence: 0,
            instances,
            slices: BTreeMap::new(),
            next_ending: JobId(0),
            granted: 0,
        }
    }

    fn report(&mut self, part: ReportPart) -> Report {
        self.sequence += 1;
        Report {
            cluster: self.cluster.clone(),
            epoch: Epoch(1),
            sequence: self.sequence,
            part,
        }
    }

    /// What it says to an order.
    pub(super) fn obey(&mut self, directive: Directive) -> Vec<Report> {
        match directive.order {
            Order::Report => {
                let all: Vec<SliceReport> = self.slices.iter().map(|(id, s)| s.report(*id)).collect();
                let slices = all
                    .chunks(SLICES_A_PART)
                    .map(|part| ReportPart::Slices(part.to_vec()));
                let capacity = ReportPart::Capacity(Box::new(self.capacity()));
                let signs = ShardSigns {
                    subscribed: true,
                    ..ShardSigns::default()
                };
                let parts = [ReportPart::FullStart, ReportPart::Signs(signs)];
                let parts = parts.into_iter().chain(slices);
                let parts: Vec<ReportPart> = parts.chain([capacity, ReportPart::FullEnd]).collect();
                parts.into_iter().map(|part| self.report(part)).collect()
            }
            Order::Slices(orders) => {
                let said: Vec<SliceReport> = orders.iter().filter_map(|o| self.begin(o)).collect();
                self.changed(&said)
            }
            _ => Vec::new(),
        }
    }

    /// Begins what is granted; the slice's report, if it says anything new.
    fn begin(&mut self, order: &SliceOrder) -> Option<SliceReport> {
        let generation = order.ranges.first()?.generation;
        let grant = order.grants.iter().find(|(g, _)| *g == generation);
        // Nothing begins under an expired grant.
        let granted = grant
            .filter(|(_, g)| g.lease > Span::ZERO)
            .map_or(0, |(_, g)| g.active);
        self.granted = self.granted.max(granted);
        let before = self.slices.get(&order.job);
        let (succeeded, active) = before.map_or((0, 0), |s| (s.succeeded, s.active));
        let held: RangeSet = order.ranges.iter().map(|r| r.range).collect();
        let next = Slice {
            head_version: order.head_version,
            generation,
            grant_number: grant.map_or(0, |(_, g)| g.number),
            max_unavailable: order.max_unavailable,
            part_number: order.part_number,
            active: active.max(granted).min(held.count() - succeeded),
            succeeded,
            held,
        };
        if before == Some(&next) {
            return None;
        }
        let said = next.report(order.job);
        self.slices.insert(order.job, next);
        Some(said)
    }

    /// Half of what is active of the next slice succeeds.
    pub(super) fn end_half(&mut self) -> Vec<Report> {
        self.end(1, |active| active / 2)
    }

    /// One instance of each of the next slices succeeds.
    pub(super) fn end_one_each(&mut self, slices: u32) -> Vec<Report> {
        self.end(slices, |_| 1)
    }

    /// A part of what is active of the next slices succeeds.
    fn end(&mut self, slices: u32, part: impl Fn(u64) -> u64) -> Vec<Report> {
        let mut said = Vec::new();
        for _ in 0..slices {
            let from = JobId(self.next_ending.0 + 1);
            let Some((id, slice)) = self.slices.range_mut(from..).find(|(_, s)| s.active > 1) else {
                self.next_ending = JobId(0);
                break;
            };
            let n = part(slice.active);
            slice.active -= n;
            slice.succeeded += n;
            said.push(slice.report(*id));
            self.next_ending = *id;
        }
        self.changed(&said)
    }

    /// Slices that have changed, and then the capacity, which has changed with them.
    fn changed(&mut self, slices: &[SliceReport]) -> Vec<Report> {
        if slices.is_empty() {
            return Vec::new();
        }
        let parts = slices.chunks(SLICES_A_PART);
        let parts = parts.map(|part| ReportPart::Slices(part.to_vec()));
        let capacity = ReportPart::Capacity(Box::new(self.capacity()));
        let parts: Vec<ReportPart> = parts.chain([capacity]).collect();
        parts.into_iter().map(|part| self.report(part)).collect()
    }

    fn capacity(&self) -> Capacity {
        let active = self.slices.values().map(|s| s.active).sum();
        let (total, used) = (one().times(self.instances), one().times(active));
        let largest_host = one().times(self.instances.div_ceil(u64::from(HOSTS)));
        Capacity {
            total,
            used,
            closed: Resources::ZERO,
            largest_free: largest_host,
            sharing: echelon_core_model::sharing::Sharing::default(),
            largest_host,
            without_gpus: Part {
                total,
                used,
                largest_host,
            },
            slack: Part::default(),
            host_pools: BTreeMap::new(),
            hosts: HOSTS,
            loss: None,
        }
    }
}
