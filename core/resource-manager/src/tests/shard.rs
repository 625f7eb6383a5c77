//! A shard as the resource manager sees it: what it was ordered, what it has begun, ended and released for good. It starts only what
//! its grants allow, releases only what is marked, and its memory survives its process.

use crate::tests::claims::Promise;
use echelon_core_model::claim::ClaimId;
use echelon_core_model::class::ClassFit;
use echelon_core_model::directive::{
    Capacity, ClassFits, Directive, Found, FoundSlice, NamedClasses, Order, OwnChanges, Part, Report,
    ReportPart, SliceOrder, SliceReport,
};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::Desired;
use echelon_core_model::resources::Kind;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, HostPoolName, InstanceNumber, JobId, RangeSet, Reason,
    ReasonCode, Resources, RunState, Span, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

pub type Key = (JobId, GroupName, Generation);

#[derive(Debug, Clone, Default)]
pub struct Slice {
    pub active: RangeSet,
    pub succeeded: RangeSet,
    pub failed: RangeSet,
    pub stopped: RangeSet,
    pub released: RangeSet,
    grant: u64,
    granted: u64,
    /// Nothing begins under the grant.
    expired: bool,
    grant_epoch: Epoch,
    waits_since: Option<Timestamp>,
    /// What the shard has changed beside the grants, and what of it the grant takes into account.
    pub own: OwnChanges,
    known: OwnChanges,
    /// When the last of them began.
    pub last_begun: Option<Timestamp>,
    /// When the first of them began, and the last one ended.
    pub first_begun: Option<Timestamp>,
    pub last_ended: Option<Timestamp>,
    /// Active numbers that are being stopped to make room.
    pub dying: RangeSet,
    /// Numbers that have run and wait for a host. They are reported as active.
    pub between_runs: RangeSet,
    /// Active numbers that run as the last restart asked for wants it.
    pub renewed: (u32, RangeSet),
}

impl Slice {
    /// How many may be active.
    pub fn allowed(&self) -> u64 {
        self.own.since(self.known, self.granted)
    }

    /// How many may be active, as far as one may begin now.
    pub fn in_force(&self) -> u64 {
        if self.expired { 0 } else { self.allowed() }
    }

    pub fn ended(&self) -> RangeSet {
        self.succeeded.union(&self.failed).union(&self.stopped)
    }
}

#[derive(Debug, Clone)]
pub struct ModelShard {
    pub id: ClusterId,
    pub epoch: Epoch,
    pub obeyed: Epoch,
    pub orders: BTreeMap<(JobId, GroupName), SliceOrder>,
    pub slices: BTreeMap<Key, Slice>,
    pub archived: BTreeSet<JobId>,
    /// Whether it says so.
    pub tells_archived: bool,
    /// Cores of its hosts.
    pub cores: u64,
    /// Cores of an instance, by job, where that is not one.
    pub sizes: BTreeMap<JobId, u64>,
    /// Cores of its largest host.
    pub host_cores: u64,
    /// Of these, on hosts that are kept for work with GPUs.
    pub kept_cores: u64,
    /// Cores of hosts that take nothing new, and how many of these were in use when they were closed.
    pub closed: (u64, u64),
    /// Cores that its hosts lend beside these, and the jobs that run there.
    pub lent_cores: u64,
    pub revocable: BTreeSet<JobId>,
    /// Its hosts by host pools, where they are not all in `default`.
    pub host_pools: BTreeMap<HostPoolName, Part>,
    /// Jobs that are gangs.
    pub gangs: BTreeSet<JobId>,
    /// Places nothing, whatever room it has, for this reason; but for those for whom room was made.
    pub unplaceable: Option<ReasonCode>,
    /// How it is shared with other frameworks.
    pub sharing: Sharing,
    /// The most cores that one host has free, where that is less than what is free in all.
    pub largest_piece: Option<u64>,
    /// Stops nothing: a kill takes for ever.
    pub stubborn: bool,
    /// It reads its storage: what it has is not reported yet.
    pub reads: bool,
    /// By group: number and units of the part of `max_unavailable`; not stored.
    pub parts: BTreeMap<(JobId, GroupName), (u64, u32)>,
    /// What a restart has stopped, and when.
    pub down: BTreeMap<(Key, InstanceNumber), Timestamp>,
    /// The mass loss for which it waits.
    pub loss: Option<u64>,
    /// What it observes.
    pub signs: ShardSigns,
    /// What it holds for claims.
    pub claims: BTreeMap<ClaimId, Promise>,
    /// Whether it says that a core in use takes its part of memory. Otherwise the shapes of instances decide.
    pub tells_memory: bool,
    /// It has hosts on which work ends soon: it keeps the capacity of one where it is asked to.
    pub keeps_hosts: bool,
    /// Those who are preempted die at once.
    pub dies_at_once: bool,
    /// It makes room for so many fewer than a claim asks for.
    pub holds_back: u64,
    /// Hosts on which daemons belong, as it tells.
    pub hosts_of_daemons: Option<u32>,
    /// Active numbers of jobs that are unavailable until they are restarted.
    pub unready: BTreeMap<JobId, RangeSet>,
    /// Instances of each group that it says fail again and again.
    pub crash_looping: u64,
    /// It says that it kills nothing.
    pub kills_off: bool,
    /// What it tells of the version that instances of a job run.
    pub versions: BTreeMap<JobId, Versions>,
    /// What it has found since storage was resumed; `None` while its cluster has not listed all.
    pub found: Option<BTreeMap<Key, RangeSet>>,
    /// The classes that it was asked about, and whether it answers.
    pub classes: Option<NamedClasses>,
    pub answers_classes: bool,
    /// Cores of the hosts that meet any constraint; `None`: all of them do.
    pub constrained_cores: Option<u64>,
    /// Jobs that have constraints.
    pub constrained: BTreeSet<JobId>,
    /// Cores in use when its capacity was told last.
    told_used: u64,
    sequence: u64,
    last_directive: (Epoch, u64),
    reported: BTreeMap<Key, SliceReport>,
}

/// What a shard tells of the version of a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Versions {
    pub revision: u32,
    pub updated: u64,
    pub failed: u64,
    /// The lowest number that is not of it.
    pub behind: Option<u32>,
}

impl ModelShard {
    pub fn new(id: ClusterId, cores: u64) -> Self {
        Self {
            id,
            epoch: Epoch(1),
            obeyed: Epoch(0),
            orders: BTreeMap::new(),
            slices: BTreeMap::new(),
            archived: BTreeSet::new(),
            tells_archived: true,
            cores,
            sizes: BTreeMap::new(),
            host_cores: cores.clamp(1, 4),
            kept_cores: 0,
            closed: (0, 0),
            host_pools: BTreeMap::new(),
            lent_cores: 0,
            revocable: BTreeSet::new(),
            gangs: BTreeSet::new(),
            unplaceable: None,
            sharing: Sharing::default(),
            largest_piece: None,
            stubborn: false,
            reads: false,
            parts: BTreeMap::new(),
            down: BTreeMap::new(),
            loss: None,
            signs: ShardSigns {
                subscribed: true,
                ..ShardSigns::default()
            },
            claims: BTreeMap::new(),
            tells_memory: true,
            keeps_hosts: false,
            dies_at_once: true,
            holds_back: 0,
            kills_off: false,
            hosts_of_daemons: None,
            unready: BTreeMap::new(),
            crash_looping: 0,
            versions: BTreeMap::new(),
            found: Some(BTreeMap::new()),
            classes: None,
            answers_classes: true,
            constrained_cores: None,
            constrained: BTreeSet::new(),
            told_used: 0,
            sequence: 0,
            last_directive: (Epoch(0), 0),
            reported: BTreeMap::new(),
        }
    }

    pub(super) fn report(&mut self, part: ReportPart) -> Report {
        self.sequence += 1;
        Report {
            cluster: self.id.clone(),
            epoch: self.epoch,
            sequence: self.sequence,
            part,
        }
    }

    /// Another leader of the same shard: what is stored stays.
    pub fn fail_over(&mut self) {
        self.epoch = self.epoch.next();
        self.sequence = 0;
        self.parts.clear();
        self.claims.clear();
        self.last_directive = (Epoch(0), 0);
    }

    pub fn on_directive(&mut self, d: Directive, now: Timestamp) -> Vec<Report> {
        if d.epoch < self.obeyed {
            let newer = self.obeyed;
            return vec![self.report(ReportPart::Superseded(newer))];
        }
        if (d.epoch, d.sequence) <= self.last_directive {
            return Vec::new();
        }
        self.obeyed = d.epoch;
        self.last_directive = (d.epoch, d.sequence);
        match d.order {
            Order::Report => self.full(now),
            Order::Archive(job) => {
                self.archived.insert(job);
                self.orders.retain(|(j, _), _| *j != job);
                self.slices.retain(|(j, _, _), _| *j != job);
                self.parts.retain(|(j, _), _| *j != job);
                self.down.retain(|((j, _, _), _), _| *j != job);
                self.reported.retain(|(j, _, _), _| *j != job);
                if self.tells_archived {
                    vec![self.report(ReportPart::Archived(vec![job]))]
                } else {
                    Vec::new()
                }
            }
            Order::Hello(_)
            | Order::Volumes(_)
            | Order::Drains(_)
            | Order::HostMoves(_)
            | Order::ForgetHosts(_)
            | Order::Kills { .. } => Vec::new(),
            Order::Classes(named) => {
                self.classes = Some(named);
                self.fits_told().into_iter().collect()
            }
            Order::TearDown => {
                self.signs.torn_down = true;
                vec![self.observed()]
            }
            Order::Claims { claims, .. } => self.obey_claims(claims, now),
            Order::AcceptLoss(number) => {
                self.loss = self.loss.filter(|n| *n > number);
                vec![self.capacity_told()]
            }
            Order::Slices(orders) => {
                let mut adopted = false;
                for order in orders {
                    adopted |= self.adopt(&order);
                    self.obey(order);
                }
                let mut out = self.work(now);
                if adopted {
                    out.extend(self.found_told());
                }
                out
            }
        }
    }

    /// What it has found and is assigned to it now runs as any other.
    fn adopt(&mut self, order: &SliceOrder) -> bool {
        let Some(found) = &mut self.found else {
            return false;
        };
        let mut adopted = false;
        for r in &order.ranges {
            let key = (order.job, order.group.clone(), r.generation);
            let Some(numbers) = found.get_mut(&key) else {
                continue;
            };
            let here = numbers.intersect(&std::iter::once(r.range).collect());
            *numbers = numbers.minus(&here);
            let slice = self.slices.entry(key).or_default();
            slice.active = slice.active.union(&here);
            slice.own.taken_over += here.count();
            adopted |= !here.is_empty();
        }
        found.retain(|_, numbers| !numbers.is_empty());
        adopted
    }

    /// Tells what it has found, each slice in a part of its own.
    pub fn found_told(&mut self) -> Vec<Report> {
        let Some(found) = self.found.clone() else {
            return Vec::new();
        };
        let n = found.len().max(1);
        let slices = found
            .into_iter()
            .map(|((job, group, generation), numbers)| FoundSlice {
                job,
                group,
                generation,
                numbers,
            });
        let mut slices = slices.map(|s| vec![s]);
        let parts = (0..n).map(|i| Found {
            begins: i == 0,
            ends: i + 1 == n,
            slices: slices.next().unwrap_or_default(),
        });
        let parts: Vec<Found> = parts.collect();
        parts
            .into_iter()
            .map(|p| self.report(ReportPart::Found(p)))
            .collect()
    }

    fn obey(&mut self, order: SliceOrder) {
        for (generation, grant) in &order.grants {
            let slice = self
                .slices
                .entry((order.job, order.group.clone(), *generation))
                .or_default();
            if (grant.epoch, grant.number) >= (slice.grant_epoch, slice.grant) {
                slice.grant = grant.number;
                slice.granted = grant.active;
                slice.expired = grant.lease == Span::ZERO;
                slice.known = grant.known;
                slice.grant_epoch = grant.epoch;
            }
        }
        for r in &order.ranges {
            self.slices
                .entry((order.job, order.group.clone(), r.generation))
                .or_default();
        }
        if order.ranges.is_empty()
            && !self
                .slices
                .keys()
                .any(|(j, g, _)| *j == order.job && *g == order.group)
        {
            self.slices
                .insert((order.job, order.group.clone(), Generation(0)), Slice::default());
        }
        let key = (order.job, order.group.clone());
        let part = self.parts.entry(key.clone()).or_default();
        if order.part_number >= part.0 {
            *part = (order.part_number, order.max_unavailable);
        }
        self.orders.insert(key, order);
    }

    pub fn full(&mut self, now: Timestamp) -> Vec<Report> {
        let signs = ReportPart::Signs(self.signs);
        let mut out = vec![self.report(ReportPart::FullStart), self.report(signs)];
        if self.reads {
            return out;
        }
        self.reported.clear();
        out.extend(self.work(now));
        let claims = self.claims_told();
        out.push(self.report(claims));
        out.extend(self.found_told());
        out.extend(self.fits_told());
        out.push(self.capacity_told());
        out.push(self.report(ReportPart::FullEnd));
        out
    }

    /// Takes over more of a job, beyond what is granted.
    pub fn add(&mut self, job: JobId, n: u64) {
        let ranges = self.orders.iter().filter(|((of, _), _)| *of == job);
        let all: RangeSet = ranges.flat_map(|(_, o)| &o.ranges).map(|r| r.range).collect();
        for (_, slice) in self.slices.iter_mut().filter(|((of, ..), _)| *of == job) {
            slice.active = slice.active.union(&all.minus(&slice.active).lowest(n));
            slice.own.taken_over += n;
        }
    }

    /// Hosts with so many cores take nothing new from now on; what is active fills them first.
    pub fn close(&mut self, cores: u64, now: Timestamp) -> Vec<Report> {
        self.closed = (cores, cores.min(self.active_of(false)));
        self.full(now)
    }

    /// Cores of closed hosts that are still in use, and those that nothing can use.
    fn closed_now(&self) -> (u64, u64) {
        let (cores, used) = self.closed;
        let used = used.min(self.active_of(false));
        (used, cores - used)
    }

    /// What it observes, as it reports that by itself.
    pub fn observed(&mut self) -> Report {
        self.report(ReportPart::Signs(self.signs))
    }

    fn capacity_told(&mut self) -> Report {
        self.told_used = self.used();
        let capacity = self.capacity();
        self.report(ReportPart::Capacity(Box::new(capacity)))
    }

    /// How many instances of each class fit, by their cores alone.
    pub fn fits_told(&mut self) -> Option<Report> {
        let named = self.classes.as_ref().filter(|_| self.answers_classes)?;
        let fits = named.classes.iter().map(|(digest, class)| {
            let cores = match &class.host_pool {
                _ if class.revocable => self.lent_cores,
                HostPoolChoice::Only(name) if !self.host_pools.is_empty() => {
                    self.host_pools.get(name).map_or(0, |part| part.total.cpus / 1000)
                }
                _ => self.cores - self.kept_cores,
            };
            let cores = match self.constrained_cores {
                Some(some) if !class.constraints.is_empty() => some.min(cores),
                _ => cores,
            };
            let on = |cores: u64| (cores * 1000).checked_div(class.shape.cpus).unwrap_or(1_000_000);
            let host = self.host_cores.min(cores);
            let whole = cores.checked_div(host).unwrap_or(0);
            let ever = if class.revocable {
                on(cores)
            } else {
                on(host) * whole + on(cores - host * whole)
            };
            let has_piece = class.shape.cpus <= self.piece().saturating_mul(1000);
            let free = if has_piece {
                cores.saturating_sub(self.used())
            } else {
                0
            };
            let now = ever.min(on(free));
            (*digest, ClassFit { now, ever })
        });
        let fits = ClassFits {
            revision: self.cores + self.host_cores,
            fits: fits.collect(),
            left_out: named.left_out,
        };
        Some(self.report(ReportPart::Fits(fits)))
    }

    /// The most cores that one host has free.
    fn piece(&self) -> u64 {
        let most = self.largest_piece.unwrap_or(u64::MAX);
        let has_none = self.unplaceable == Some(ReasonCode::HostResources);
        if has_none { 0 } else { most }
    }

    fn capacity(&self) -> Capacity {
        let of = |cores: u64| Resources {
            cpus: cores * 1000,
            memory: cores * 10_000,
            disk: 0,
            gpus: 0,
        };
        let used = self.active_of(false);
        let usable = self.cores - self.closed_now().1;
        let lent = |cores: u64| Resources {
            cpus: cores * 1000,
            ..Resources::ZERO
        };
        let in_use = if self.tells_memory {
            of(used)
        } else {
            of(used).with(Kind::Memory, 0)
        };
        Capacity {
            total: of(usable),
            used: in_use,
            closed: of(self.closed_now().1),
            largest_free: of(self.host_cores.min(self.piece()).min(usable.saturating_sub(used))),
            largest_host: of(self.host_cores),
            without_gpus: Part {
                total: of(usable - self.kept_cores),
                used: in_use,
                largest_host: of(self.host_cores.min(self.cores - self.kept_cores)),
            },
            slack: Part {
                total: lent(self.lent_cores),
                used: lent(self.active_of(true)),
                largest_host: lent(self.lent_cores),
            },
            host_pools: self.host_pools.clone(),
            sharing: self.sharing.clone(),
            hosts: u32::try_from(self.cores.div_ceil(self.host_cores)).unwrap(),
            loss: self.loss,
        }
    }

    pub fn active(&self) -> u64 {
        self.slices.values().map(|s| s.active.count()).sum()
    }

    /// Active instances of a job.
    pub fn active_of_job(&self, job: JobId) -> u64 {
        let of = self.slices.iter().filter(|((id, ..), _)| *id == job);
        of.map(|(_, s)| s.active.count()).sum()
    }

    /// Cores of an instance of a job.
    pub fn size(&self, job: JobId) -> u64 {
        self.sizes.get(&job).copied().unwrap_or(1)
    }

    /// Cores in use.
    pub fn used(&self) -> u64 {
        self.active_of(false) + self.active_of(true)
    }

    /// Cores in use by revocable jobs, or by the others.
    fn active_of(&self, revocable: bool) -> u64 {
        let of = self
            .slices
            .iter()
            .filter(|((job, ..), _)| self.revocable.contains(job) == revocable);
        of.map(|((job, ..), s)| s.active.count() * self.size(*job)).sum()
    }

    /// Does what its orders say, and tells what changed.
    pub fn work(&mut self, now: Timestamp) -> Vec<Report> {
        let keys: Vec<Key> = self.slices.keys().cloned().collect();
        for key in &keys {
            self.stop_and_release(key);
        }
        for key in &keys {
            self.start(key, now);
        }
        for key in &keys {
            self.restart(key, now);
        }
        let mut changed = Vec::new();
        for key in keys {
            let report = self.slice_report(&key);
            if self.reported.get(&key) != Some(&report) {
                self.reported.insert(key, report.clone());
                changed.push(report);
            }
        }
        let mut out = Vec::new();
        if !changed.is_empty() {
            out.push(self.report(ReportPart::Slices(changed)));
        }
        if self.told_used != self.used() {
            out.push(self.capacity_told());
        }
        out
    }

    fn stop_and_release(&mut self, key: &Key) {
        let Some(order) = self.orders.get(&(key.0, key.1.clone())) else {
            return;
        };
        let slice = self.slices.get_mut(key).unwrap();
        let ranges = order.ranges.iter().filter(|r| r.generation == key.2);
        if order.goal.desired != Desired::Running {
            let all: RangeSet = ranges.map(|r| r.range).collect();
            let open = all.minus(&slice.ended()).minus(&slice.released);
            if !self.stubborn {
                slice.stopped = slice.stopped.union(&open);
                slice.active = RangeSet::new();
                slice.between_runs = RangeSet::new();
            }
            return;
        }
        for r in ranges {
            let held: RangeSet = std::iter::once(r.range).collect();
            match r.releasing.as_ref().map(|m| m.count) {
                Some(None) if !self.stubborn => {
                    slice.active = slice.active.minus(&held);
                    slice.between_runs = slice.between_runs.minus(&held);
                    slice.released = slice.released.union(&held);
                }
                Some(Some(n)) => {
                    let done = held.intersect(&slice.released).count();
                    let unstarted = held
                        .minus(&slice.released)
                        .minus(&slice.active)
                        .minus(&slice.between_runs)
                        .minus(&slice.ended());
                    let go = unstarted.highest(n.saturating_sub(done));
                    slice.released = slice.released.union(&go);
                }
                _ => {}
            }
        }
        // Only a smaller grant of the newest epoch stops anything.
        if slice.grant_epoch == self.obeyed && slice.grant > 0 {
            let staying = slice.active.minus(&slice.dying);
            let surplus = staying.count() + slice.between_runs.count();
            let surplus = surplus.saturating_sub(slice.allowed());
            let resting = slice.between_runs.highest(surplus);
            slice.between_runs = slice.between_runs.minus(&resting);
            slice.active = slice.active.minus(&staying.highest(surplus - resting.count()));
        }
    }

    fn start(&mut self, key: &Key, now: Timestamp) {
        let revocable = self.revocable.contains(&key.0);
        let usable = self.cores - self.closed_now().1;
        let cores = if revocable { self.lent_cores } else { usable };
        let free = cores.saturating_sub(self.active_of(revocable) + self.held_for_others(key));
        let free = free / self.size(key.0);
        let is_too_large = self.largest_piece.is_some_and(|most| self.size(key.0) > most);
        let (unplaceable, made) = (self.unplaceable, self.held_for(key));
        let Some(order) = self.orders.get(&(key.0, key.1.clone())) else {
            return;
        };
        if order.goal.desired != Desired::Running {
            return;
        }
        let slice = self.slices.get_mut(key).unwrap();
        let may = order
            .ranges
            .iter()
            .filter(|r| r.generation == key.2 && r.releasing.is_none());
        let may: RangeSet = may.map(|r| r.range).collect();
        let may = may
            .minus(&slice.released)
            .minus(&slice.active)
            .minus(&slice.between_runs)
            .minus(&slice.ended());
        // Whichever leader gave the grant.
        let allowed = slice.in_force();
        let hosts = self.hosts_of_daemons.map_or(u64::MAX, u64::from);
        let allowed = allowed.min(hosts);
        let resting = slice.between_runs.count();
        let begun = slice.active.count() + resting;
        let wanted = allowed.saturating_sub(begun).min(may.count()) + resting;
        let met = self
            .constrained_cores
            .filter(|_| self.constrained.contains(&key.0));
        let free = met.map_or(free, |cores| free.min(cores.saturating_sub(slice.active.count())));
        let n = if is_too_large {
            0
        } else if unplaceable.is_some() {
            wanted.min(free).min(made)
        } else {
            wanted.min(free)
        };
        let resumed = slice.between_runs.lowest(n);
        slice.between_runs = slice.between_runs.minus(&resumed);
        let begun = may.lowest(n - resumed.count()).union(&resumed);
        if !begun.is_empty() {
            slice.first_begun.get_or_insert(now);
            slice.last_begun = Some(now);
        }
        slice.active = slice.active.union(&begun);
        slice.dying = slice.dying.intersect(&slice.active);
        if slice.renewed.0 != order.goal.restarts {
            slice.renewed = (order.goal.restarts, RangeSet::new());
        }
        slice.renewed.1 = slice.renewed.1.union(&begun);
        let begun = begun.count();
        slice.waits_since = (n < wanted).then(|| slice.waits_since.unwrap_or(now));
        self.settle_claims(key, begun);
    }

    /// How many of a slice have not begun and may.
    pub fn startable(&self, key: &Key) -> u64 {
        let Some(slice) = self.slices.get(key) else {
            return 0;
        };
        let order = self.orders.get(&(key.0, key.1.clone()));
        let ranges = order.into_iter().flat_map(|o| &o.ranges);
        let may = ranges.filter(|r| r.generation == key.2 && r.releasing.is_none());
        let may: RangeSet = may.map(|r| r.range).collect();
        let may = may.minus(&slice.released).minus(&slice.active);
        let may = may.minus(&slice.between_runs);
        may.minus(&slice.ended()).count()
    }

    fn slice_report(&self, key: &Key) -> SliceReport {
        let slice = &self.slices[key];
        let order = self.orders.get(&(key.0, key.1.clone()));
        let ranges = order
            .into_iter()
            .flat_map(|o| &o.ranges)
            .filter(|r| r.generation == key.2);
        let held: RangeSet = ranges.map(|r| r.range).collect();
        let held = held.minus(&slice.released);
        let count = |set: &RangeSet| set.intersect(&held).count();
        let resting = slice.between_runs.count();
        let returnable = held.minus(&slice.active).minus(&slice.ended());
        let unstarted = returnable.count() - resting;
        let mut counts = Counts::default();
        counts.add(RunState::Pending, unstarted + resting);
        counts.add(RunState::Running, slice.active.count());
        counts.add(RunState::Succeeded, count(&slice.succeeded));
        counts.add(RunState::Failed, count(&slice.failed));
        counts.add(RunState::Killed, count(&slice.stopped));
        let why = Reason::new(self.unplaceable.unwrap_or(ReasonCode::HostResources));
        let open = slice.granted.saturating_sub(slice.active.count() + resting);
        let waits = open.min(unstarted) + resting;
        let (part_number, _) = self.part(key.0, &key.1);
        SliceReport {
            job: key.0,
            group: key.1.clone(),
            generation: key.2,
            head_version: order.map(|o| o.head_version).unwrap_or_default(),
            grant_number: slice.grant,
            held: held.clone(),
            released: slice.released.clone(),
            active: slice.active.count() + resting,
            unstarted,
            between_runs: resting,
            returnable,
            counts,
            succeeded: count(&slice.succeeded),
            failed: count(&slice.failed),
            stopped: count(&slice.stopped),
            live: slice.active.count(),
            waiting: slice
                .waits_since
                .map(|since| (why, waits, since))
                .into_iter()
                .chain(self.kills_off.then(|| {
                    let all = slice.active.count();
                    (ReasonCode::KillsOff.into(), all, Timestamp(1))
                }))
                .chain(self.loss.map(|_| {
                    let all = slice.active.count();
                    (ReasonCode::MassLoss.into(), all, Timestamp(1))
                }))
                .collect(),
            outdated: self.outdated(key.0, &key.1),
            max_unavailable: self.in_force(key.0, &key.1),
            part_number,
            own: slice.own,
            preempting: slice.dying.intersect(&slice.active).count(),
            granted: slice.in_force(),
            first_begun: slice.first_begun,
            last_begun: slice.last_begun,
            last_ended: slice.last_ended,
            revision: self.versions.get(&key.0).map_or(0, |v| v.revision),
            updated: self.versions.get(&key.0).map_or(0, |v| v.updated),
            update_failures: self.versions.get(&key.0).map_or(0, |v| v.failed),
            hosts: self.hosts_of_daemons,
            crash_looping: self.crash_looping,
            unavailable: u64::from(self.unavailable(key.0, &key.1)),
            first_behind: self.versions.get(&key.0).and_then(|v| v.behind),
            restarting: self.outdated(key.0, &key.1) + u64::from(self.stopped_by_restart(key.0, &key.1)),
        }
    }

    /// Some hosts are gone, with the lowest instances of daemons that are on them.
    pub fn lose_hosts(&mut self, n: u32, now: Timestamp) -> Vec<Report> {
        self.hosts_of_daemons = self.hosts_of_daemons.map(|hosts| hosts - n);
        for slice in self.slices.values_mut() {
            let gone = slice.active.lowest(n.into());
            slice.active = slice.active.minus(&gone);
        }
        self.work(now)
    }

    /// A host is gone on which the highest instances of a job ran, and has no other.
    pub fn lose_host_of(&mut self, job: JobId, n: u64, now: Timestamp) -> Vec<Report> {
        self.cores -= n * self.size(job);
        for (_, slice) in self.slices.iter_mut().filter(|((of, ..), _)| *of == job) {
            let gone = slice.active.highest(n);
            slice.active = slice.active.minus(&gone);
            slice.between_runs = slice.between_runs.union(&gone);
        }
        self.work(now)
    }

    /// Daemons belong on so many hosts.
    pub fn count_hosts(&mut self, n: u32, now: Timestamp) -> Vec<Report> {
        self.hosts_of_daemons = Some(n);
        self.work(now)
    }

    /// Ends up to `n` active instances, the lowest numbers first.
    /// So many of the lowest active numbers come to their end.
    pub fn finish(&mut self, n: u64, state: RunState, now: Timestamp) -> Vec<Report> {
        self.finish_some(|_| true, n, state, now)
    }

    /// The same of one job.
    pub fn finish_of(&mut self, job: JobId, n: u64, state: RunState, now: Timestamp) -> Vec<Report> {
        self.finish_some(|key| key.0 == job, n, state, now)
    }

    fn finish_some(
        &mut self,
        of: impl Fn(&Key) -> bool,
        n: u64,
        state: RunState,
        now: Timestamp,
    ) -> Vec<Report> {
        let mut left = n;
        for (_, slice) in self.slices.iter_mut().filter(|(key, _)| of(key)) {
            let done = slice.active.lowest(left);
            left -= done.count();
            slice.active = slice.active.minus(&done);
            if !done.is_empty() {
                slice.last_ended = Some(now);
            }
            match state {
                RunState::Succeeded => slice.succeeded = slice.succeeded.union(&done),
                _ => slice.failed = slice.failed.union(&done),
            }
        }
        self.work(now)
    }

    /// The numbers of a job that are active, with their generations.
    pub fn running(&self, job: JobId) -> Vec<(InstanceNumber, Generation)> {
        let of_job = self.slices.iter().filter(|((j, _, _), _)| *j == job);
        of_job
            .flat_map(|((_, _, g), s)| s.active.numbers().map(|n| (n, *g)).collect::<Vec<_>>())
            .collect()
    }
}
