//! A shard that begins at once what it is granted, as many instances as the grant says and its capacity
//! holds, and ends it when an order says so, or for a preemption request. Its cluster is one host with all
//! capacity, which lends nothing.
//!
//! What runs stays where capacity shrinks below it. What is granted and does not fit is reported as waiting
//! for hosts.

use crate::claims::Claims;
use crate::jobs::{kind, number};
use crate::trace::Trace;
use echelon_core_model::class::{ClassFit, MOST_A_CLUSTER};
use echelon_core_model::directive::{
    Capacity, ClassFits, Directive, NamedClasses, Order, Part, RETURNABLE, Report, ReportPart, SliceOrder,
    SliceReport,
};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, JobId, RangeSet, ReasonCode, Resources, RunState, Span,
    Timestamp, Version,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Slices a report part, as a real shard sends them.
const SLICES_A_PART: usize = 256;

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
    /// Nothing begins under it.
    is_expired: bool,
    part: (u32, u64),
    /// How many were ever preempted, and how many of these the grant leaves out.
    preempted: u64,
    counted: u64,
    /// Since when something of it is granted that does not fit.
    unplaced: Option<Timestamp>,
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

/// The classes that a shard was asked about.
#[derive(Debug)]
struct AskedClasses {
    named: NamedClasses,
    /// The capacity by which it has answered last.
    answered: Option<Resources>,
}

/// A shard.
#[derive(Debug)]
pub struct Shard<'a> {
    trace: &'a Trace,
    /// Its cluster.
    pub cluster: ClusterId,
    /// All that there is.
    capacity: Resources,
    /// Taken by active instances.
    used: Resources,
    sequence: u64,
    slices: BTreeMap<SliceId, Slice>,
    /// Slices with a grant that does not fit.
    unplaced: BTreeSet<SliceId>,
    untold: BTreeSet<SliceId>,
    is_capacity_untold: bool,
    is_full_asked: bool,
    classes: Option<AskedClasses>,
    pub(crate) claims: Claims,
}

impl<'a> Shard<'a> {
    /// One of a cluster that has nothing yet.
    pub fn new(trace: &'a Trace, cluster: ClusterId) -> Self {
        Self {
            trace,
            cluster,
            capacity: Resources::ZERO,
            used: Resources::ZERO,
            sequence: 0,
            slices: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            untold: BTreeSet::new(),
            is_capacity_untold: false,
            is_full_asked: false,
            classes: None,
            claims: Claims::default(),
        }
    }

    fn numbered(&mut self, part: ReportPart) -> Report {
        self.sequence += 1;
        Report {
            cluster: self.cluster.clone(),
            epoch: Epoch(1),
            sequence: self.sequence,
            part,
        }
    }

    /// Has another capacity from now on; the one that it had.
    pub fn set_capacity(&mut self, to: Resources, now: Timestamp, done: &mut Vec<Change>) -> Resources {
        self.is_capacity_untold = true;
        let before = std::mem::replace(&mut self.capacity, to);
        self.place_unplaced(now, done);
        before
    }

    /// Does what a directive orders.
    pub fn obey(&mut self, directive: Directive, now: Timestamp, done: &mut Vec<Change>) {
        match directive.order {
            Order::Report => self.is_full_asked = true,
            Order::Slices(orders) => {
                for order in &orders {
                    self.follow(order, now, done);
                }
            }
            Order::Classes(named) => {
                self.classes = Some(AskedClasses {
                    named,
                    answered: None,
                });
            }
            Order::Claims { claims, .. } => self.obey_claims(&claims, done),
            Order::Archive(job) => {
                self.slices.retain(|(of, ..), _| *of != job);
                self.unplaced.retain(|(of, ..)| *of != job);
                self.untold.retain(|(of, ..)| *of != job);
            }
            _ => {}
        }
        self.place_unplaced(now, done);
    }

    /// Does what is ordered of a group.
    fn follow(&mut self, order: &SliceOrder, now: Timestamp, done: &mut Vec<Change>) {
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
                self.unplaced.remove(&id);
                self.leave(&id, stopped);
                done.extend((stopped > 0).then(|| Change::Stopped(id.clone(), stopped)));
            } else {
                slice.release(order, generation);
                if let Some((_, grant)) = grant {
                    slice.grant = (grant.number, grant.active);
                    slice.is_expired = grant.lease == Span::ZERO;
                    slice.counted = grant.counted;
                }
                self.begin(&id, now, done);
            }
            self.untold.insert(id);
        }
    }

    /// Begins what is granted, not active and fits, into capacity that is held for it first.
    fn begin(&mut self, id: &SliceId, now: Timestamp, done: &mut Vec<Change>) {
        let shape = self.shape(id.0, &id.1);
        let free = self.spare().plus(shape.times(self.claims.held_for(id)));
        let Some(slice) = self.slices.get_mut(id) else {
            return;
        };
        let wanted = slice.startable();
        let n = wanted.min(shape.count_in(free));
        slice.begin(n);
        if wanted > n {
            slice.unplaced = slice.unplaced.or(Some(now));
            self.unplaced.insert(id.clone());
        } else if slice.unplaced.take().is_some() {
            self.unplaced.remove(id);
        }
        if n > 0 {
            self.used = self.used.plus(shape.times(n));
            self.claims.begun(id, n);
            self.untold.insert(id.clone());
            done.push(Change::Begun(id.clone(), n));
        }
    }

    /// Begins what is granted and did not fit, as far as it fits by now: the largest priority first, then the
    /// oldest job.
    fn place_unplaced(&mut self, now: Timestamp, done: &mut Vec<Change>) {
        if self.unplaced.is_empty() {
            return;
        }
        let mut all: Vec<SliceId> = self.unplaced.iter().cloned().collect();
        all.sort_by_key(|id| Reverse(self.trace.jobs.get(number(id.0)).map(|j| j.priority)));
        for id in all {
            self.begin(&id, now, done);
        }
    }

    /// So many instances of a slice are not active any more.
    fn leave(&mut self, id: &SliceId, n: u64) {
        let shape = self.shape(id.0, &id.1);
        self.used = self.used.minus(shape.times(n));
    }

    /// So many active instances of a slice succeed, as far as there are any; tells how many. Others begin by
    /// the same grant.
    pub fn end(&mut self, id: &SliceId, n: u64, now: Timestamp, done: &mut Vec<Change>) -> u64 {
        let Some(slice) = self.slices.get_mut(id) else {
            return 0;
        };
        let n = n.min(slice.active);
        slice.active -= n;
        slice.succeeded += n;
        self.leave(id, n);
        self.begin(id, now, done);
        self.place_unplaced(now, done);
        self.untold.insert(id.clone());
        n
    }

    /// So many of a slice, that are active, give their room and their numbers up.
    pub(crate) fn preempt(&mut self, id: &SliceId, n: u64) -> Option<Change> {
        let slice = self.slices.get_mut(id)?;
        slice.begun = slice.begun.minus(&slice.begun.highest(n));
        slice.active = slice.active.saturating_sub(n);
        slice.preempted += n;
        self.leave(id, n);
        self.untold.insert(id.clone());
        Some(Change::Preempted(id.clone(), n))
    }

    /// How many of a slice may be stopped for others: of a service no more at once than its part of
    /// `max_unavailable`.
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
        let held = self.claims.held();
        held.fold(self.capacity.minus(self.used), |left, ((job, group, _), n)| {
            left.minus(self.shape(*job, group).times(n))
        })
    }

    /// Whether there is something to report.
    pub fn has_news(&self) -> bool {
        let of_all = self.is_full_asked || self.is_capacity_untold;
        let are_fits_due = self
            .classes
            .as_ref()
            .is_some_and(|c| c.answered != Some(self.capacity));
        of_all || are_fits_due || self.claims.has_news() || !self.untold.is_empty()
    }

    /// Everything, where that was asked for, or what has changed since the last report. Preemption requests
    /// come first, so that no capacity counts as held for an instance that has begun.
    pub fn report(&mut self, now: Timestamp) -> Vec<Report> {
        let mut parts: Vec<ReportPart> = self.claims.news().into_iter().collect();
        let untold = std::mem::take(&mut self.untold);
        let is_capacity_untold = std::mem::take(&mut self.is_capacity_untold);
        let is_full = std::mem::take(&mut self.is_full_asked);
        let slices: Vec<SliceReport> = if is_full {
            self.slices.iter().map(|(id, s)| s.report(id)).collect()
        } else {
            let changed = untold.iter().filter_map(|id| Some((id, self.slices.get(id)?)));
            changed.map(|(id, s)| s.report(id)).collect()
        };
        let slices = slices
            .chunks(SLICES_A_PART)
            .map(|c| ReportPart::Slices(c.to_vec()));
        let capacity = || ReportPart::Capacity(Box::new(self.total(now)));
        if is_full {
            parts.push(ReportPart::FullStart);
            parts.extend(slices);
            parts.extend([capacity(), ReportPart::FullEnd]);
        } else {
            parts.extend(is_capacity_untold.then(capacity));
            parts.extend(slices);
        }
        parts.extend(self.fits().map(ReportPart::Fits));
        parts.into_iter().map(|part| self.numbered(part)).collect()
    }

    /// How many instances of each class fit on its one host, where that was asked, or its capacity is another since.
    fn fits(&mut self) -> Option<ClassFits> {
        let (capacity, spare) = (self.capacity, self.spare());
        let asked = self.classes.as_mut()?;
        if asked.answered.replace(capacity) == Some(capacity) {
            return None;
        }
        let named = &asked.named;
        let fits = named.classes.iter().map(|(digest, class)| {
            let count = |room| class.shape.count_in(room).min(MOST_A_CLUSTER);
            let ever = count(capacity);
            let now = count(spare).min(ever);
            (*digest, ClassFit { now, ever })
        });
        Some(ClassFits {
            // Its host is another one each time that this is reported.
            revision: self.sequence,
            fits: fits.collect(),
            left_out: named.left_out,
        })
    }

    /// What is used follows from the slices: the resource manager counts what it granted.
    fn total(&self, now: Timestamp) -> Capacity {
        let total = self.capacity;
        Capacity {
            total,
            used: Resources::ZERO,
            closed: Resources::ZERO,
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

/// The highest indexes, in as many ranges as a report names.
fn returnable(waiting: &RangeSet) -> RangeSet {
    let ranges = waiting.ranges().iter().rev();
    ranges.take(RETURNABLE).copied().collect()
}

impl Slice {
    /// Ends everything; tells how many were active.
    fn stop(&mut self) -> u64 {
        self.grant.1 = 0;
        self.unplaced = None;
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

    /// How many may be active, as far as one may begin now.
    fn allowed(&self) -> u64 {
        if self.is_expired {
            return 0;
        }
        let lost = self.preempted.saturating_sub(self.counted);
        self.grant.1.saturating_sub(lost)
    }

    /// How many are granted and neither active nor begun before.
    fn startable(&self) -> u64 {
        let more = self.allowed().saturating_sub(self.active);
        if more == 0 {
            return 0;
        }
        more.min(self.held.minus(&self.begun).count())
    }

    /// Begins so many, the lowest first.
    fn begin(&mut self, n: u64) {
        if n > 0 {
            let next = self.held.minus(&self.begun).lowest(n);
            self.begun = self.begun.union(&next);
            self.active += n;
        }
    }

    fn report(&self, (job, group, generation): &SliceId) -> SliceReport {
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
            returnable: returnable(&self.held.minus(&self.begun)),
            counts,
            succeeded: self.succeeded,
            failed: 0,
            stopped: self.stopped,
            live: self.active,
            waiting: self
                .unplaced
                .map(|since| (ReasonCode::HostResources.into(), self.startable(), since))
                .into_iter()
                .collect(),
            outdated: 0,
            max_unavailable: self.part.0,
            part_number: self.part.1,
            preempted: self.preempted,
            preempting: 0,
            granted: self.allowed(),
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
