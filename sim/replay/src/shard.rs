//! A shard that begins at once what it is granted, as many instances as the grant says, and ends it when it is told to, or to make room
//! for a claim. Its cluster is one host with all that there is, which lends nothing.

use crate::claims::Claims;
use crate::jobs::{kind, number};
use crate::trace::Trace;
use echelon_core_model::directive::{
    Capacity, Directive, Order, Part, Report, ReportPart, SliceOrder, SliceReport,
};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, JobId, RangeSet, Resources, RunState, Timestamp, Version,
};
use std::collections::{BTreeMap, BTreeSet};

/// A slice of the shard's cluster.
pub type SliceId = (JobId, GroupName, Generation);

/// How one stands.
#[derive(Debug, Clone, Default)]
struct Slice {
    held: RangeSet,
    released: RangeSet,
    begun: RangeSet,
    active: u64,
    succeeded: u64,
    stopped: u64,
    head_version: Version,
    /// Number and size of its grant.
    grant: (u64, u64),
    part: (u32, u64),
    /// How many were ever preempted, and how many of these the grant leaves out.
    preempted: u64,
    counted: u64,
}

/// Instances that have begun, or were stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// So many have begun.
    Begun(SliceId, u64),
    /// So many that were active are not any more.
    Stopped(SliceId, u64),
    /// The same, for others: they are to begin again.
    Preempted(SliceId, u64),
}

/// A shard.
#[derive(Debug)]
pub struct Shard<'a> {
    trace: &'a Trace,
    /// Its cluster.
    pub cluster: ClusterId,
    /// All that there is.
    pub capacity: Resources,
    sequence: u64,
    slices: BTreeMap<SliceId, Slice>,
    untold: BTreeSet<SliceId>,
    pub(crate) claims: Claims,
}

impl<'a> Shard<'a> {
    /// One of a cluster that has nothing yet.
    pub fn new(trace: &'a Trace, cluster: ClusterId) -> Self {
        Self {
            trace,
            cluster,
            capacity: Resources::ZERO,
            sequence: 0,
            slices: BTreeMap::new(),
            untold: BTreeSet::new(),
            claims: Claims::default(),
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

    /// What it says to an order, and what it does.
    pub fn obey(&mut self, directive: Directive, now: Timestamp, done: &mut Vec<Change>) -> Vec<Report> {
        match directive.order {
            Order::Report => {
                let all = self.slices.iter().map(|(id, s)| s.told(id)).collect();
                let capacity = ReportPart::Capacity(Box::new(self.room(now)));
                let parts = [
                    ReportPart::FullStart,
                    ReportPart::Slices(all),
                    capacity,
                    ReportPart::FullEnd,
                ];
                parts.into_iter().map(|part| self.report(part)).collect()
            }
            Order::Slices(orders) => {
                for order in &orders {
                    self.follow(order, done);
                }
                Vec::new()
            }
            Order::Claims { claims, .. } => {
                self.obey_claims(&claims, done);
                Vec::new()
            }
            Order::Archive(job) => {
                self.slices.retain(|(of, ..), _| *of != job);
                self.untold.retain(|(of, ..)| *of != job);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Does what is ordered of a group.
    fn follow(&mut self, order: &SliceOrder, done: &mut Vec<Change>) {
        let mut held: BTreeMap<Generation, RangeSet> = BTreeMap::new();
        for r in &order.ranges {
            held.entry(r.generation).or_default().insert(r.range);
        }
        if held.is_empty() {
            // Even where nothing is held somebody waits for the word that nothing lives.
            held.insert(Generation(0), RangeSet::new());
        }
        for (generation, held) in held {
            let id = (order.job, order.group.clone(), generation);
            let slice = self.slices.entry(id.clone()).or_default();
            slice.head_version = order.head_version;
            slice.part = (order.max_unavailable, order.part_number);
            slice.held = held.minus(&slice.released);
            let grant = order.grants.iter().find(|(g, _)| *g == generation);
            if order.goal.desired != Desired::Running {
                let stopped = slice.stop();
                done.extend((stopped > 0).then(|| Change::Stopped(id.clone(), stopped)));
            } else {
                slice.release(order, generation);
                if let Some((_, grant)) = grant {
                    slice.grant = (grant.number, grant.active);
                    slice.counted = grant.counted;
                }
                begin(slice, &id, &mut self.claims, done);
            }
            self.untold.insert(id);
        }
    }

    /// So many active instances of a slice succeed, as far as there are any; tells how many. Others begin by the same grant.
    pub fn end(&mut self, id: &SliceId, n: u64, done: &mut Vec<Change>) -> u64 {
        let Some(slice) = self.slices.get_mut(id) else {
            return 0;
        };
        let n = n.min(slice.active);
        slice.active -= n;
        slice.succeeded += n;
        begin(slice, id, &mut self.claims, done);
        self.untold.insert(id.clone());
        n
    }

    /// So many of a slice, that are active, give their room and their numbers up.
    pub(crate) fn preempt(&mut self, id: &SliceId, n: u64) -> Option<Change> {
        let slice = self.slices.get_mut(id)?;
        slice.begun = slice.begun.minus(&slice.begun.highest(n));
        slice.active = slice.active.saturating_sub(n);
        slice.preempted += n;
        self.untold.insert(id.clone());
        Some(Change::Preempted(id.clone(), n))
    }

    /// How many of a slice may be stopped for others: of a service no more at once than its part of `max_unavailable`.
    pub(crate) fn may_lose(&self, id: &SliceId) -> u64 {
        let job = self.trace.jobs.get(number(id.0));
        let slice = self.slices.get(id);
        let (Some(job), Some(slice)) = (job, slice) else {
            return 0;
        };
        match kind(job) {
            JobKind::Batch => slice.active,
            _ => slice.active.min(u64::from(slice.part.0)),
        }
    }

    /// How many of a slice have not begun.
    pub(crate) fn waiting(&self, id: &SliceId) -> u64 {
        self.slices.get(id).map_or(0, |s| s.held.minus(&s.begun).count())
    }

    /// Room of an instance.
    pub(crate) fn shape(&self, job: JobId, group: &GroupName) -> Resources {
        let groups = self
            .trace
            .jobs
            .get(number(job))
            .into_iter()
            .flat_map(|j| &j.groups);
        let mut found = groups.filter(|g| g.name == group.as_str());
        found.next().map(|g| g.shape).unwrap_or_default()
    }

    /// What is neither used nor held.
    pub(crate) fn spare(&self) -> Resources {
        let active = self.slices.iter().map(|(id, s)| (id, s.active));
        let taken = active.chain(self.claims.held());
        taken.fold(self.capacity, |left, ((job, group, _), n)| {
            left.minus(self.shape(*job, group).times(n))
        })
    }

    /// What has changed since it last said anything: of claims first, so that nobody counts room as held for who has begun.
    pub fn tell(&mut self) -> Vec<Report> {
        let claims = self.claims.news().map(|part| self.report(part));
        claims.into_iter().chain(self.tell_slices()).collect()
    }

    fn tell_slices(&mut self) -> Option<Report> {
        let untold = std::mem::take(&mut self.untold);
        let told = untold.iter().filter_map(|id| Some(self.slices.get(id)?.told(id)));
        let told: Vec<SliceReport> = told.collect();
        (!told.is_empty()).then(|| self.report(ReportPart::Slices(told)))
    }

    /// What it says of its room.
    pub fn tell_room(&mut self, now: Timestamp) -> Report {
        let room = self.room(now);
        self.report(ReportPart::Capacity(Box::new(room)))
    }

    /// What is used follows from the slices: the resource manager counts what it granted.
    fn room(&self, now: Timestamp) -> Capacity {
        let total = self.capacity;
        Capacity {
            total,
            used: Resources::ZERO,
            largest_free: total,
            largest_host: total,
            without_gpus: Part {
                total,
                used: Resources::ZERO,
                largest_host: total,
            },
            slack: Part::default(),
            host_pools: BTreeMap::new(),
            hosts: 1,
            mesos_contact: Some(now),
            loss: None,
        }
    }
}

/// Begins what is granted and not active, into room that is held for it first.
fn begin(slice: &mut Slice, id: &SliceId, claims: &mut Claims, done: &mut Vec<Change>) {
    let n = slice.begin();
    if n > 0 {
        claims.begun(id, n);
        done.push(Change::Begun(id.clone(), n));
    }
}

impl Slice {
    /// Ends everything; tells how many were active.
    fn stop(&mut self) -> u64 {
        self.grant.1 = 0;
        let ended = self.succeeded + self.stopped;
        self.stopped += self.held.count().saturating_sub(ended);
        std::mem::take(&mut self.active)
    }

    /// Gives numbers away that have not begun, as many as are marked, the highest first.
    fn release(&mut self, order: &SliceOrder, generation: Generation) {
        for r in order.ranges.iter().filter(|r| r.generation == generation) {
            let marked = r.releasing.as_ref().map(|m| m.count.unwrap_or(u64::MAX));
            let Some(most) = marked else { continue };
            let range: RangeSet = std::iter::once(r.range).collect();
            let gone = range.intersect(&self.released).count();
            let waiting = range.intersect(&self.held).minus(&self.begun);
            let go = waiting.highest(most.saturating_sub(gone));
            self.released = self.released.union(&go);
            self.held = self.held.minus(&go);
        }
    }

    /// Begins what is granted and not active, the lowest first; tells how many.
    fn begin(&mut self) -> u64 {
        let waiting = self.held.minus(&self.begun);
        let granted = self
            .grant
            .1
            .saturating_sub(self.preempted.saturating_sub(self.counted));
        let next = waiting.lowest(granted.saturating_sub(self.active));
        let n = next.count();
        self.begun = self.begun.union(&next);
        self.active += n;
        n
    }

    fn told(&self, (job, group, generation): &SliceId) -> SliceReport {
        let held = self.held.count();
        let unstarted = held.saturating_sub(self.active + self.succeeded + self.stopped);
        let mut counts = Counts::default();
        counts.add(RunState::Pending, unstarted);
        counts.add(RunState::Running, self.active);
        counts.add(RunState::Succeeded, self.succeeded);
        counts.add(RunState::Killed, self.stopped);
        SliceReport {
            job: *job,
            group: group.clone(),
            generation: *generation,
            head_version: self.head_version,
            grant_number: self.grant.0,
            held: self.held.clone(),
            released: self.released.clone(),
            active: self.active,
            unstarted,
            counts,
            succeeded: self.succeeded,
            failed: 0,
            stopped: self.stopped,
            live: self.active,
            waiting: Vec::new(),
            outdated: 0,
            max_unavailable: self.part.0,
            part_number: self.part.1,
            preempted: self.preempted,
            preempting: 0,
            first_begun: None,
            last_begun: None,
            last_ended: None,
            added: 0,
            revision: 0,
            update_failures: 0,
            restarting: 0,
            crash_looping: 0,
            first_behind: None,
            updated: 0,
            hosts: None,
        }
    }
}
