//! A shard that begins at once what it is granted, as far as its hosts hold it, and ends it when an order
//! says so, or for a preemption request. Hosts are chosen by the placement of production, victims too.
//!
//! All members of a gang begin together or none. An instance with a volume begins again on the host that has
//! it. What runs stays where capacity shrinks below it. What is granted and does not fit is reported as
//! waiting, with the reason of placement.

use crate::claims::Claims;
use crate::hosts::{ClusterHosts, Taken};
use crate::jobs::number;
use crate::trace::{ClusterCapacity, Group, Job, Trace};
use echelon_core_model::directive::{
    ClassFits, Directive, NamedClasses, Order, OwnChanges, RETURNABLE, Report, ReportPart, SliceOrder,
    SliceReport,
};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, HostId, JobId, RangeSet, Reason, Resources, RunState, Span,
    Timestamp, Version,
};
use echelon_core_placement::fits::{FitCounts, FitHost};
use std::collections::{BTreeMap, BTreeSet};

/// Slices a report part, as a real shard sends them.
const SLICES_A_PART: usize = 256;

/// A slice of the shard's cluster.
pub type SliceId = (JobId, GroupName, Generation);

/// How one stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slice {
    held: RangeSet,
    released: RangeSet,
    begun: RangeSet,
    active: u64,
    /// Those that are active, in the order in which they began.
    on: Vec<OnHost>,
    /// How many volumes it has on each host, of instances that are active and of others.
    volumes: BTreeMap<HostId, u64>,
    succeeded: u64,
    stopped: u64,
    head_version: Version,
    /// Number and size of its grant.
    grant: (u64, u64),
    /// Nothing begins under it.
    is_expired: bool,
    part: (u32, u64),
    /// What the shard has changed beside the grants, and what of it the grant takes into account.
    own: OwnChanges,
    known: OwnChanges,
    /// Since when something of it is granted that does not fit, and why it does not.
    unplaced: Option<(Timestamp, Reason)>,
}

/// Instances of a slice that began at one moment on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OnHost {
    pub host: HostId,
    pub began: Timestamp,
    pub count: u64,
}

/// How many instances of a slice begin on a host.
#[derive(Debug, Clone, Copy)]
struct BeginCount {
    count: u64,
    /// Of these, how many have a volume there.
    with_volume: u64,
    /// How many get a volume.
    fresh_volumes: u64,
}

/// Instances that have begun, or were stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// So many have begun on a host.
    Begun(SliceId, HostId, u64),
    /// So many that were active are not any more.
    Stopped(SliceId, u64),
    /// The same on a host, for others: they are to begin again.
    Preempted(SliceId, HostId, u64),
}

/// The classes that a shard was asked about.
#[derive(Debug)]
struct AskedClasses {
    counts: FitCounts,
    left_out: u32,
    /// The revision of the hosts by which it has answered last.
    answered: Option<u64>,
}

/// A shard.
#[derive(Debug)]
pub struct Shard<'a> {
    pub(crate) trace: &'a Trace,
    /// Its cluster.
    pub cluster: ClusterId,
    pub(crate) hosts: ClusterHosts,
    /// Whether hosts of any cluster lend something. Where none does, revocable work runs on ordinary
    /// capacity.
    lends: bool,
    sequence: u64,
    slices: BTreeMap<SliceId, Slice>,
    /// Slices with a grant that is not used up.
    pub(crate) pending: BTreeSet<SliceId>,
    untold: BTreeSet<SliceId>,
    is_capacity_untold: bool,
    is_full_asked: bool,
    classes: Option<AskedClasses>,
    pub(crate) claims: Claims,
}

impl<'a> Shard<'a> {
    /// One of a cluster that has nothing yet.
    pub fn new(trace: &'a Trace, cluster: ClusterId) -> Self {
        let lends = trace.capacities.iter().any(|c| match &c.capacity {
            ClusterCapacity::Sum(_) => false,
            ClusterCapacity::Hosts(classes) => classes.iter().any(|class| !class.lent.is_zero()),
        });
        Self {
            trace,
            hosts: ClusterHosts::new(cluster.clone()),
            cluster,
            lends,
            sequence: 0,
            slices: BTreeMap::new(),
            pending: BTreeSet::new(),
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

    /// Has another capacity from now on.
    pub fn set_capacity(&mut self, to: &ClusterCapacity, now: Timestamp, done: &mut Vec<Change>) {
        self.is_capacity_untold = true;
        self.hosts.set(to);
        self.place_pending(now, done);
    }

    /// Does what a directive orders.
    pub fn obey(&mut self, directive: Directive, now: Timestamp, done: &mut Vec<Change>) {
        match directive.order {
            Order::Report => self.is_full_asked = true,
            Order::Slices(orders) => {
                for order in &orders {
                    self.follow(order, done);
                }
            }
            Order::Classes(named) => self.count_classes(named),
            Order::Claims { claims, .. } => self.obey_claims(&claims, done),
            Order::Archive(job) => {
                self.slices.retain(|(of, ..), _| *of != job);
                self.pending.retain(|(of, ..)| *of != job);
                self.untold.retain(|(of, ..)| *of != job);
            }
            _ => {}
        }
        self.place_pending(now, done);
    }

    /// Counts these classes from now on. Where no host lends, none of them is revocable.
    fn count_classes(&mut self, named: NamedClasses) {
        let mut classes = named.classes;
        for class in classes.values_mut() {
            class.revocable &= self.lends;
        }
        let mut counts = FitCounts::default();
        counts.set_classes(classes);
        self.classes = Some(AskedClasses {
            counts,
            left_out: named.left_out,
            answered: None,
        });
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
                let stopped = self.stop(&id);
                done.extend((stopped > 0).then(|| Change::Stopped(id.clone(), stopped)));
            } else {
                slice.release(order, generation);
                if let Some((_, grant)) = grant {
                    slice.grant = (grant.number, grant.active);
                    slice.is_expired = grant.lease == Span::ZERO;
                    slice.known = grant.known;
                }
                self.pending.insert(id.clone());
            }
            self.untold.insert(id);
        }
    }

    /// Ends everything of a slice, with its volumes unless they are to stay; tells how many were active.
    fn stop(&mut self, id: &SliceId) -> u64 {
        self.pending.remove(id);
        let Some(slice) = self.slices.get_mut(id) else {
            return 0;
        };
        let on = slice.stop();
        let volumes = std::mem::take(&mut slice.volumes);
        for batch in &on {
            self.leave(id, &batch.host, batch.count);
        }
        let group = self.group(id);
        let volume = group.and_then(|g| g.volume).filter(|v| !v.is_kept);
        let held = group.map(Group::held).filter(|_| volume.is_some());
        for (host, n) in &volumes {
            self.give_back(host, held.unwrap_or_default().times(*n));
        }
        on.iter().map(|batch| batch.count).sum()
    }

    /// So many instances of a slice are not active any more on a host. Their volumes stay there.
    fn leave(&mut self, id: &SliceId, host: &HostId, n: u64) {
        let taken = self.taken(id, host);
        let held = self.group(id).map(Group::held).unwrap_or_default();
        let left = Taken {
            own: taken.own.minus(held).times(n),
            lent: taken.lent.times(n),
        };
        self.free(host, left);
    }

    fn give_back(&mut self, host: &HostId, own: Resources) {
        let lent = Resources::ZERO;
        self.free(host, Taken { own, lent });
    }

    fn free(&mut self, host: &HostId, taken: Taken) {
        // What a host that leaves still has counts as capacity.
        self.is_capacity_untold |= self.hosts.view(host).is_some_and(|v| v.draining);
        self.hosts.give_back(host, taken);
    }

    /// What one instance of a slice takes of a host.
    pub(crate) fn taken(&self, id: &SliceId, host: &HostId) -> Taken {
        let shape = self.group(id).map(|g| g.shape).unwrap_or_default();
        self.hosts.parts(host, shape, self.runs_on_lent(id.0))
    }

    /// Whether a job runs on what hosts lend.
    pub(crate) fn runs_on_lent(&self, job: JobId) -> bool {
        self.lends && self.job(job).is_some_and(|j| j.revocable)
    }

    /// Instances of a slice begin on a host; of these so many have a volume there.
    pub(crate) fn begin_on(&mut self, id: &SliceId, host: &HostId, n: u64, with_volume: u64, now: Timestamp) {
        let taken = self.taken(id, host);
        let held = self.group(id).map(Group::held).unwrap_or_default();
        let count = BeginCount {
            count: n,
            with_volume,
            fresh_volumes: if held.is_zero() {
                0
            } else {
                n.saturating_sub(with_volume)
            },
        };
        let Some(slice) = self.slices.get_mut(id) else {
            return;
        };
        slice.begin(host, count, now);
        let own = taken.own.times(n).minus(held.times(with_volume));
        let lent = taken.lent.times(n);
        self.hosts.take(host, Taken { own, lent });
        self.untold.insert(id.clone());
    }

    /// So many active instances of a slice, which began at a moment on a host, succeed, as far as there are
    /// any; tells how many. Others begin by the same grant.
    pub fn end(&mut self, id: &SliceId, batch: &OnHost, now: Timestamp, done: &mut Vec<Change>) -> u64 {
        let Some(slice) = self.slices.get_mut(id) else {
            return 0;
        };
        let n = slice.end(batch);
        self.leave(id, &batch.host, n);
        self.pending.insert(id.clone());
        self.place_pending(now, done);
        self.untold.insert(id.clone());
        n
    }

    /// So many of a slice that are active on a host give their capacity up, those that began last; those
    /// without a volume give their indexes up, too.
    pub(crate) fn preempt(&mut self, id: &SliceId, host: &HostId, n: u64) -> Option<Change> {
        let has_volume = self.group(id).is_some_and(|g| g.volume.is_some());
        let slice = self.slices.get_mut(id)?;
        let n = slice.preempt(host, n, has_volume);
        self.leave(id, host, n);
        self.untold.insert(id.clone());
        self.pending.insert(id.clone());
        (n > 0).then(|| Change::Preempted(id.clone(), host.clone(), n))
    }

    /// How many of a slice may be stopped for others: of a service no more at once than its part of
    /// `max_unavailable`.
    pub(crate) fn may_lose(&self, id: &SliceId) -> u64 {
        let (Some(job), Some(slice)) = (self.job(id.0), self.slices.get(id)) else {
            return 0;
        };
        match job.kind() {
            JobKind::Batch => slice.active,
            _ => slice.active.min(u64::from(slice.part.0)),
        }
    }

    /// What batch work has of each host: it ends by itself.
    pub(crate) fn ending(&self) -> BTreeMap<HostId, Resources> {
        let mut out: BTreeMap<HostId, Resources> = BTreeMap::new();
        for (id, slice) in &self.slices {
            let is_batch = self.job(id.0).is_some_and(|job| job.kind() == JobKind::Batch);
            let Some(group) = self.group(id).filter(|_| is_batch) else {
                continue;
            };
            for (host, n) in slice.present() {
                let sum = out.entry(host).or_default();
                *sum = sum.plus(group.shape.times(n));
            }
        }
        out
    }

    /// Those of a slice that are active, in the order in which they began.
    pub(crate) fn on(&self, id: &SliceId) -> &[OnHost] {
        self.slices.get(id).map_or(&[], |s| s.on.as_slice())
    }

    /// How many of a slice may begin, whether they are granted or not.
    pub(crate) fn waiting(&self, id: &SliceId) -> u64 {
        self.slices.get(id).map_or(0, Slice::unstarted)
    }

    /// A slice.
    pub(crate) fn slice(&self, id: &SliceId) -> Option<&Slice> {
        self.slices.get(id)
    }

    /// The slices of a job here.
    pub(crate) fn slices_of(&self, job: JobId) -> impl Iterator<Item = (&SliceId, &Slice)> {
        let from = (job, GroupName::new(""), Generation(0));
        self.slices
            .range(from..)
            .take_while(move |((of, ..), _)| *of == job)
    }

    /// Something of a slice waits for a host, or nothing does any more.
    pub(crate) fn note_unplaced(&mut self, id: &SliceId, why: Option<Reason>, now: Timestamp) {
        let Some(slice) = self.slices.get_mut(id) else {
            return;
        };
        let since = slice.unplaced.as_ref().map_or(now, |(since, _)| *since);
        let next = why.map(|why| (since, why));
        if next.is_none() {
            self.pending.remove(id);
        }
        if slice.unplaced.is_some() != next.is_some() {
            self.untold.insert(id.clone());
        }
        slice.unplaced = next;
    }

    /// A job of the trace.
    pub(crate) fn job(&self, job: JobId) -> Option<&'a Job> {
        self.trace.jobs.get(number(job))
    }

    /// The group of a slice.
    pub(crate) fn group(&self, id: &SliceId) -> Option<&'a Group> {
        let mut groups = self.job(id.0)?.groups.iter();
        groups.find(|g| g.name == id.1.as_str())
    }

    /// Whether there is something to report.
    pub fn has_news(&self) -> bool {
        let of_all = self.is_full_asked || self.is_capacity_untold;
        let are_fits_due = self
            .classes
            .as_ref()
            .is_some_and(|c| c.answered != Some(self.hosts.revision()));
        of_all || are_fits_due || self.claims.has_news() || !self.untold.is_empty()
    }

    /// Everything, where that was asked for, or what has changed since the last report. Preemption requests
    /// come first, so that no capacity counts as held for an instance that has begun.
    pub fn report(&mut self) -> Vec<Report> {
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
        let capacity = || ReportPart::Capacity(Box::new(self.hosts.capacity()));
        if is_full {
            let signs = ShardSigns {
                subscribed: true,
                ..ShardSigns::default()
            };
            parts.extend([ReportPart::FullStart, ReportPart::Signs(signs)]);
            parts.extend(slices);
            parts.extend([capacity(), ReportPart::FullEnd]);
        } else {
            parts.extend(is_capacity_untold.then(capacity));
            parts.extend(slices);
        }
        parts.extend(self.fits().map(ReportPart::Fits));
        parts.into_iter().map(|part| self.numbered(part)).collect()
    }

    /// How many instances of each class fit on its hosts, where that was asked, or they are others since.
    fn fits(&mut self) -> Option<ClassFits> {
        let revision = self.hosts.revision();
        let asked = self.classes.as_mut()?;
        if asked.answered.replace(revision) == Some(revision) {
            return None;
        }
        let host = |view: &echelon_core_model::cluster::HostView| FitHost {
            view: view.clone(),
            ports: None,
        };
        asked
            .counts
            .set_hosts(self.hosts.views().iter().map(host).collect());
        Some(ClassFits {
            revision: self.sequence,
            fits: asked.counts.fits(),
            left_out: asked.left_out,
        })
    }
}

/// The highest indexes, in as many ranges as a report names.
fn returnable(waiting: &RangeSet) -> RangeSet {
    let ranges = waiting.ranges().iter().rev();
    ranges.take(RETURNABLE).copied().collect()
}

impl Slice {
    /// Ends everything; what was active.
    fn stop(&mut self) -> Vec<OnHost> {
        self.grant.1 = 0;
        self.unplaced = None;
        let ended = self.succeeded + self.stopped;
        self.stopped += self.held.count().saturating_sub(ended);
        self.active = 0;
        std::mem::take(&mut self.on)
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
        self.own.since(self.known, self.grant.1)
    }

    /// How many have never begun, or are to begin again.
    pub(crate) fn unstarted(&self) -> u64 {
        let idle: u64 = self.idle_volumes().map(|(_, n)| n).sum();
        self.held.minus(&self.begun).count().saturating_add(idle)
    }

    /// How many are granted and may begin.
    pub(crate) fn startable(&self) -> u64 {
        let more = self.allowed().saturating_sub(self.active);
        if more == 0 { 0 } else { more.min(self.unstarted()) }
    }

    /// How many are active.
    pub(crate) const fn active(&self) -> u64 {
        self.active
    }

    /// How many instances it has been given.
    pub(crate) fn held(&self) -> u64 {
        self.held.count()
    }

    /// How many are active on each host.
    pub(crate) fn present(&self) -> BTreeMap<HostId, u64> {
        let mut out: BTreeMap<HostId, u64> = BTreeMap::new();
        for batch in &self.on {
            *out.entry(batch.host.clone()).or_default() += batch.count;
        }
        out
    }

    /// Volumes of instances that do not run, by host.
    pub(crate) fn idle_volumes(&self) -> impl Iterator<Item = (&HostId, u64)> {
        let active = if self.volumes.is_empty() {
            BTreeMap::new()
        } else {
            self.present()
        };
        self.volumes.iter().filter_map(move |(host, n)| {
            let idle = n.saturating_sub(active.get(host).copied().unwrap_or_default());
            (idle > 0).then_some((host, idle))
        })
    }

    /// So many begin on a host, of which so many have a volume there: the others begin for the first time,
    /// the lowest indexes first.
    fn begin(&mut self, host: &HostId, begins: BeginCount, now: Timestamp) {
        let n = begins.count;
        let fresh = n.saturating_sub(begins.with_volume);
        let next = self.held.minus(&self.begun).lowest(fresh);
        self.begun = self.begun.union(&next);
        self.active += n;
        if begins.fresh_volumes > 0 {
            *self.volumes.entry(host.clone()).or_default() += begins.fresh_volumes;
        }
        match self.on.last_mut().filter(|b| b.host == *host && b.began == now) {
            Some(batch) => batch.count += n,
            None => self.on.push(OnHost {
                host: host.clone(),
                began: now,
                count: n,
            }),
        }
    }

    /// Some of those that began at a moment on a host succeed; tells how many.
    fn end(&mut self, batch: &OnHost) -> u64 {
        let mut left = batch.count;
        let mut of_batch = self.on.iter_mut();
        while left > 0
            && let Some(at) = of_batch.find(|b| (&b.host, b.began) == (&batch.host, batch.began))
        {
            let n = at.count.min(left);
            at.count -= n;
            left -= n;
        }
        self.on.retain(|b| b.count > 0);
        let n = batch.count - left;
        self.active = self.active.saturating_sub(n);
        self.succeeded += n;
        n
    }

    /// So many that are active on a host go, those that began last; tells how many. Without a volume their
    /// indexes may go elsewhere.
    fn preempt(&mut self, host: &HostId, most: u64, has_volume: bool) -> u64 {
        let mut left = most;
        for batch in self.on.iter_mut().rev().filter(|b| b.host == *host) {
            let n = batch.count.min(left);
            batch.count -= n;
            left -= n;
        }
        self.on.retain(|b| b.count > 0);
        let n = most - left;
        if !has_volume {
            self.begun = self.begun.minus(&self.begun.highest(n));
        }
        self.active = self.active.saturating_sub(n);
        self.own.preempted += n;
        n
    }

    fn report(&self, (job, group, generation): &SliceId) -> SliceReport {
        let held = self.held.count();
        let pending = held.saturating_sub(self.active + self.succeeded + self.stopped);
        // What has a volume goes nowhere else.
        let idle: u64 = self.idle_volumes().map(|(_, n)| n).sum();
        let unstarted = pending.saturating_sub(idle);
        let mut counts = Counts::default();
        counts.add(RunState::Pending, pending);
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
            between_runs: 0,
            returnable: returnable(&self.held.minus(&self.begun)),
            counts,
            succeeded: self.succeeded,
            failed: 0,
            stopped: self.stopped,
            live: self.active,
            waiting: self
                .unplaced
                .iter()
                .map(|(since, why)| (why.clone(), self.startable(), *since))
                .collect(),
            outdated: 0,
            max_unavailable: self.part.0,
            part_number: self.part.1,
            own: self.own,
            preempting: 0,
            granted: self.allowed(),
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
