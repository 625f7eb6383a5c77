//! One cycle (section 3). Releases are settled and goals followed. Quota is divided, and what is admitted is bound. Capacity
//! is made for what is entitled to it, and what is to leave is marked. What was decided is stored, and what is stored is
//! ordered. A cycle runs after events, once in each `cycle` on average, and once a second in any case. It looks at what has
//! changed, at waiting work that could get something, and at some other jobs in turn, never at all jobs. Deciding twice on the
//! same picture changes nothing.

use crate::admission::binding;
use crate::admission::grants::grants;
use crate::admission::router::Router;
use crate::assignment::{release, scale};
use crate::demand::found::take_found;
use crate::demand::{daemons, ledger};
use crate::division::divide;
use crate::effect::Effect;
use crate::facts::cluster::ClusterView;
use crate::facts::connection::{changed_state, contact};
use crate::facts::job::{JobView, Sent};
use crate::facts::slice::SliceKey;
use crate::manager::{Phase, ResourceManager, Turns};
use crate::orders::allotments::parts;
use crate::orders::kill_switch::kills;
use crate::orders::slice_orders::{digest, has_confirmed, listeners, orders};
use crate::preemption::claimants;
use crate::returns::Returns;
use crate::storage::operations::Purpose;
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::cluster::Contact;
use echelon_core_model::directive::{Order, SliceOrder};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobKind;
use echelon_core_model::store::Write;
use echelon_core_model::{ClusterId, GroupName, JobId, Span, Timestamp};
use echelon_core_pools::Admission;
use std::collections::{BTreeMap, BTreeSet};

/// Most orders in one directive.
const ORDERS: usize = 200;
/// Most jobs whose grants are renewed in one cycle: a lease lasts many times as long as it takes to come to everybody.
const RENEWALS: usize = 1_000;
/// A cycle runs at least this often, for what only time changes.
const FULL_CYCLE: Span = Span::seconds(1);

impl ResourceManager {
    /// What time asks for, after every event.
    pub(crate) fn tick(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.phase == Phase::Follower {
            return;
        }
        self.ops.repeat_due(now, out);
        if let Phase::Frozen(since) = self.phase
            && now.since(since) >= self.config.reread
            && !self.reads_evidence()
        {
            self.read_leadership(now, out);
        }
        self.confirm_epoch(now, out);
        if self.is_suspended() {
            return;
        }
        self.recover_on(now, out);
        if self.phase != Phase::Leading {
            return;
        }
        self.reread(now, out);
        if now.since(self.timers.full_cycle) >= FULL_CYCLE {
            self.timers.full_cycle = now;
            self.due = true;
            self.contacts(now, out);
            self.ask_about_classes(out);
            self.settle_resume(now, out);
            self.remove_tombstones(now, out);
            self.read_aside_specs(now, out);
        }
        if self.due && now >= self.next_cycle() {
            let paid = self.timers.cycle.max(now);
            self.timers.cycle = paid.plus(self.config.cycle);
            self.due = false;
            self.cycle(now, out);
        }
    }

    /// Whether what may show an old storage is being read.
    fn reads_evidence(&self) -> bool {
        use Purpose::{ReadLeadership, ReadMark, ReadSwitches};
        [ReadLeadership, ReadMark, ReadSwitches]
            .iter()
            .any(|purpose| self.ops.has(purpose))
    }

    /// When `Event::Wake` is wanted next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.is_suspended() {
            return self.next_resumption();
        }
        let mut at: Vec<Timestamp> = self.ops.next_due().into_iter().collect();
        match self.phase {
            Phase::Follower => return None,
            // While the read is under way, what is due next is its repetition.
            Phase::Frozen(_) if self.reads_evidence() => {}
            Phase::Frozen(since) => at.push(since.plus(self.config.reread)),
            Phase::Taking => {}
            Phase::Recovering | Phase::Leading => {
                at.push(self.timers.confirmed.plus(self.config.lease));
                if !self.ops.has(&Purpose::ConfirmEpoch) {
                    let third = Span(self.config.lease.0 / 3);
                    at.push(self.timers.confirm_asked.plus(third));
                }
            }
        }
        if self.phase == Phase::Leading {
            let bucket = Span((self.config.heads_within.0 / u64::from(JOB_BUCKETS)).max(1));
            at.push(self.timers.bucket.plus(bucket));
            at.push(self.timers.reread.plus(self.config.reread));
            at.push(self.timers.full_cycle.plus(FULL_CYCLE));
            if self.due {
                at.push(self.next_cycle());
            }
        }
        at.into_iter().min()
    }

    /// When a cycle may run: one in each `cycle` on average, and after a rest two at once, so that a job that is submitted to an idle
    /// federation is assigned and, as soon as that is stored, granted.
    fn next_cycle(&self) -> Timestamp {
        Timestamp(self.timers.cycle.0.saturating_sub(self.config.cycle.0))
    }

    fn cycle(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.picture.revision += 1;
        self.gather(now);
        self.count_daemons();
        self.follow_goals();
        self.refresh();
        self.divide_quota(now);
        self.claim(now, out);
        self.refresh();
        self.leave(now);
        self.refresh();
        self.file_assignments(now, out);
        self.flush_assignments(now, out);
        self.order(now, out);
        self.follow_bids(now, out);
        self.follow_openings(now, out);
        self.follow_ends(now, out);
        let looked_at = std::mem::take(&mut self.dirty);
        self.unwritten.extend(looked_at);
        self.flush_progress(now, out);
    }

    /// Brings the sums up to date, and keeps in mind whose grants may follow.
    pub(crate) fn refresh(&mut self) {
        self.picture.settle_homes();
        let changed = ledger::refresh(&mut self.picture);
        self.picture.revision += u64::from(!changed.is_empty());
        self.regrant.extend(changed);
    }

    /// What to look at beside what has changed: grants to renew, clusters that are not avoided any more, and some jobs in their turn,
    /// for reasons that are told with figures of others.
    fn gather(&mut self, now: Timestamp) {
        let due = self.renewals.iter().take_while(|(at, _)| *at <= now);
        let due: Vec<(Timestamp, JobId)> = due.take(RENEWALS).copied().collect();
        self.due |= due.len() == RENEWALS;
        for renewal in due {
            self.renewals.remove(&renewal);
            self.dirty.insert(renewal.1);
        }
        self.dirty.extend(self.agenda.take_due(now));
        for id in self.picture.ledger.avoided_until(now) {
            if let Some(job) = self.picture.jobs.get_mut(&id) {
                let over = job.avoid.values_mut().filter(|avoided| avoided.until <= now);
                over.for_each(|avoided| avoided.is_over = true);
            }
        }
        let jobs = self.picture.jobs.after(self.turns.all.0);
        let next: Vec<JobId> = jobs
            .filter(|(_, job)| job.is_live())
            .map(|(id, _)| *id)
            .take(self.config.turns)
            .collect();
        self.turns.all = Turns(
            next.last()
                .copied()
                .filter(|_| next.len() == self.config.turns)
                .unwrap_or(JobId(0)),
        );
        self.dirty.extend(next);
        self.refresh();
    }

    /// Settles releases and scales the jobs that changed.
    fn follow_goals(&mut self) {
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let live = |j: &&JobView| j.is_live() && (j.spec.is_some() || j.desired() != Desired::Running);
            let live = self.picture.jobs.get(&id).filter(live);
            if live.is_none_or(JobView::is_refused) {
                continue;
            }
            let Some(mut job) = self.picture.jobs.lend(&id) else {
                continue;
            };
            let before = job.decided.clone();
            if self.picture.awaiting.is_none() {
                take_found(&self.picture, id, &mut job);
            }
            if self.picture.awaiting.is_none() || job.running_spec().is_none() {
                release::settle_released(&self.picture, id, &mut job);
            }
            scale::scale(&mut job);
            let spec = job.running().filter(|s| s.kind == JobKind::Daemon);
            let bound = spec.filter(|s| self.picture.hierarchy.leaf(&s.pool).is_some());
            if let (Some(spec), true) = (bound, self.picture.awaiting.is_none()) {
                daemons::assign_missing(&self.picture, id, &mut job, &spec);
            }
            let changed = before != job.decided;
            self.picture.jobs.give_back(id, job, changed);
        }
    }

    /// Demand, entitlement, admission, grants.
    fn divide_quota(&mut self, now: Timestamp) {
        let preemption = self.config.preemption;
        claimants::tidy(&mut self.picture, now, preemption);
        let patience = Span(self.config.spill_after.0.saturating_mul(2));
        let admitted = divide(&mut self.picture, now, patience);
        self.picture.claims.admitted(&admitted);
        for a in &admitted {
            let counted = self.picture.ledger.counts(a.job);
            self.picture.raised.insert(a.job, counted);
        }
        let more = self.bind(&admitted);
        let mut ids = std::mem::take(&mut self.regrant);
        ids.extend(admitted.iter().map(|a| a.job));
        self.grant(&ids, &more);
        self.bind_ahead(&ids);
    }

    /// Binds what is admitted and bound nowhere. Returns how many more each slice may begin.
    fn bind(&mut self, admitted: &[Admission]) -> BTreeMap<(JobId, SliceKey), u64> {
        let mut more: BTreeMap<(JobId, SliceKey), u64> = BTreeMap::new();
        let mut add = |id, key, n| {
            let count = more.entry((id, key)).or_default();
            *count = u64::saturating_add(*count, n);
        };
        for admission in admitted {
            for (cluster, generation, n) in &admission.more {
                let key = SliceKey {
                    group: admission.group.clone(),
                    cluster: cluster.clone(),
                    generation: *generation,
                };
                add(admission.job, key, *n);
            }
            for (key, n) in self.bind_to(admission.job, &admission.group, &admission.bind) {
                add(admission.job, key, n);
            }
        }
        more
    }

    fn bind_to(&mut self, id: JobId, group: &GroupName, shares: &[(ClusterId, u64)]) -> Vec<(SliceKey, u64)> {
        if shares.is_empty() {
            return Vec::new();
        }
        let Some(mut job) = self.picture.jobs.lend(&id) else {
            return Vec::new();
        };
        let bound = job
            .running()
            .map(|spec| binding::bind(&mut job, &spec, group, shares));
        self.picture.jobs.give_back(id, job, true);
        self.dirty.insert(id);
        bound.unwrap_or_default()
    }

    /// Batch work that runs has indexes bound ahead.
    fn bind_ahead(&mut self, ids: &BTreeSet<JobId>) {
        for id in ids {
            let job = self.picture.jobs.get(id);
            let ahead = job.map(|job| binding::ahead(&self.picture, *id, job));
            for (group, cluster, n) in ahead.unwrap_or_default() {
                self.bind_to(*id, &group, &[(cluster, n)]);
            }
        }
    }

    /// Sends the grants that change.
    fn grant(&mut self, ids: &BTreeSet<JobId>, more: &BTreeMap<(JobId, SliceKey), u64>) {
        for ((id, key), active) in grants(&self.picture, ids, more) {
            // Only a shard that is known to obey this leader is told a number; before, it keeps what it has.
            if self.picture.clusters.get(&key.cluster).is_none_or(|c| !c.settled) {
                continue;
            }
            // Nothing becomes smaller before the marks are stored that say which instances go: the shard would stop
            // whatever it has most of.
            let job = self
                .picture
                .jobs
                .get(&id)
                .filter(|job| job.decided != job.durable);
            let granted = job.and_then(|job| job.grants.get(&key)).map(|g| g.granted());
            if granted.is_some_and(|granted| active < granted) {
                continue;
            }
            let number = self.grant_number();
            self.picture.send_grant(id, &key, (number, active));
            self.dirty.insert(id);
        }
    }

    /// Marks what is to leave the cluster to which it is bound.
    fn leave(&mut self, now: Timestamp) {
        let mut ids: BTreeSet<JobId> = self.dirty.clone();
        ids.extend(self.turns.restless.next(self.picture.ledger.restless()));
        ids.retain(|id| self.picture.jobs.get(id).is_some_and(JobView::is_live));
        let mut lowered = Vec::new();
        let (mut rooms, mut contended) = (self.picture.division.rooms.clone(), None);
        let mut drain_left = self.config.drain_batch;
        for id in ids {
            let Some(mut job) = self.picture.jobs.lend(&id) else {
                continue;
            };
            let mut returns = Returns {
                picture: &self.picture,
                router: Router::of_last(&self.picture),
                rooms,
                now,
                spill_after: self.config.spill_after,
                drain_left,
                contended,
                lowered,
                changed: false,
            };
            returns.run(id, &mut job);
            let changed = returns.changed;
            Returns {
                rooms,
                drain_left,
                contended,
                lowered,
                ..
            } = returns;
            self.picture.jobs.give_back(id, job, changed);
        }
        for (id, key, active) in lowered {
            let number = self.grant_number();
            self.picture.send_grant(id, &key, (number, active));
            self.dirty.insert(id);
        }
    }

    /// Sends what changed, and renews what has to be.
    fn order(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let mut due: BTreeMap<ClusterId, Vec<SliceOrder>> = BTreeMap::new();
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            self.lease_parts(id);
            let Some(job) = self.picture.jobs.get(&id).filter(|j| j.is_live()) else {
                continue;
            };
            for cluster in listeners(job) {
                if let Some(orders) = self.orders_due(id, &cluster, now) {
                    due.entry(cluster).or_default().extend(orders);
                }
            }
            self.schedule_renewal(id, now);
        }
        for (cluster, orders) in due {
            for part in orders.chunks(ORDERS) {
                self.send(&cluster, Order::Slices(part.to_vec()), out);
            }
        }
    }

    /// What a cluster is to be told of a job, unless it was told just that over the stream that is open, not long ago.
    fn orders_due(&mut self, id: JobId, cluster: &ClusterId, now: Timestamp) -> Option<Vec<SliceOrder>> {
        let renew_after = self.config.renew;
        let link = self.picture.clusters.get(cluster)?.link?;
        let job = self.picture.jobs.get(&id)?;
        let stamp = (self.epoch, self.config.grant_lease);
        let mut next = orders(&self.picture, id, job, cluster, stamp);
        let digest = digest(&next);
        let before = job.sent.get(cluster).filter(|sent| sent.link == link);
        let same = before.is_some_and(|sent| sent.digest == digest);
        let old = before.is_none_or(|sent| now.since(sent.at) >= renew_after);
        let confirmed = job.desired() != Desired::Running && has_confirmed(&self.picture, id, job, cluster);
        if next.is_empty() || (same && (!old || confirmed)) {
            return None;
        }
        if same {
            self.renew(id, cluster, &mut next);
        }
        let sent = Sent {
            link,
            digest,
            at: now,
        };
        if let Some(job) = self.picture.jobs.get_aside(&id) {
            job.sent.insert(cluster.clone(), sent);
        }
        Some(next)
    }

    /// When a job's grants are renewed next.
    fn schedule_renewal(&mut self, id: JobId, now: Timestamp) {
        let renew_after = self.config.renew;
        let Some(job) = self.picture.jobs.get_aside(&id) else {
            return;
        };
        let first = job.sent.values().map(|sent| sent.at.plus(renew_after)).min();
        // What could not be sent, or needs no more, is looked at again later, not at once.
        let next = first.map(|at| at.max(now.plus(FULL_CYCLE)));
        let before = std::mem::replace(&mut job.renew_at, next);
        if before != next {
            before.map(|at| self.renewals.remove(&(at, id)));
            self.renewals.extend(next.map(|at| (at, id)));
        }
    }

    /// Gives each cluster its part of each group's `max_unavailable`; a part that changes gets a new number.
    fn lease_parts(&mut self, id: JobId) {
        let Some(job) = self.picture.jobs.get(&id).filter(|j| j.is_live()) else {
            return;
        };
        let mut changed = Vec::new();
        for group in job.groups() {
            for (cluster, part) in parts(&self.picture, id, job, &group) {
                let key = (group.clone(), cluster);
                let line = job.parts.get(&key);
                if line.is_none_or(|l| l.granted() != part) {
                    changed.push((key, part));
                }
            }
        }
        for (key, part) in changed {
            let number = self.grant_number();
            if let Some(job) = self.picture.jobs.get_aside(&id) {
                job.parts.get_or_default(key).send(number, part);
            }
        }
    }

    /// The same grants under new numbers: their lease begins again when they arrive.
    fn renew(&mut self, id: JobId, cluster: &ClusterId, orders: &mut [SliceOrder]) {
        for order in orders {
            for (generation, grant) in &mut order.grants {
                grant.number = self.grant_number();
                let key = SliceKey {
                    group: order.group.clone(),
                    cluster: cluster.clone(),
                    generation: *generation,
                };
                // The same number of instances: no sum follows from it.
                if let Some(job) = self.picture.jobs.get_aside(&id) {
                    job.grants.get_or_default(key).send(grant.number, grant.active);
                }
            }
        }
    }

    /// An order of nothing: a shard that hears none believes itself alone and reads all assignments again.
    fn give_sign_of_life(&mut self, out: &mut Vec<Effect>) {
        let linked = self.picture.clusters.iter().filter(|(_, c)| c.link.is_some());
        for cluster in linked.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.send(&cluster, Order::Slices(Vec::new()), out);
        }
    }

    /// How each cluster is heard: stored when it changes, asked when it is quiet.
    fn contacts(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let third = Span(self.config.silent_after.0 / 3);
        let (mut quiet, mut accepted, mut wishes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut claimed, mut changed) = (Vec::new(), Vec::new());
        let rested = now.since(self.timers.numbers) >= self.config.reread;
        if rested {
            self.timers.numbers = now;
        }
        for (id, view) in self.picture.clusters.iter_mut().filter(|(_, c)| c.row.is_some()) {
            let contact = contact(view, &self.config, self.timers.leading, now);
            let capacity_only = view.state.as_ref().is_some_and(|s| s.contact == contact);
            if let Some(next) = changed_state(id, view, contact, now) {
                // Numbers alone are worth a write now and then; a contact that changes is worth one at once.
                if (contact != Contact::Joining || view.state.is_some()) && (!capacity_only || rested) {
                    if !capacity_only && !view.is_heard() {
                        changed.push(id.clone());
                    }
                    view.state = Some(next.clone());
                    self.writes.push(Write::ClusterState(next));
                }
            }
            let since = |at: Option<Timestamp>, span: Span| at.is_none_or(|at| now.since(at) >= span);
            let is_quiet = since(view.heard_at.max(view.asked_at), third);
            let lacks = (view.missed || !view.settled) && since(view.asked_at, FULL_CYCLE);
            accepted.extend(accepted_loss(view).map(|number| (id.clone(), number)));
            if rested && view.link.is_some() {
                claimed.push(id.clone());
                wishes.extend(wishes_for(view).map(|order| (id.clone(), order)));
                wishes.extend(kills(&self.picture.control).map(|order| (id.clone(), order)));
            }
            if view.link.is_some() && (is_quiet || lacks) {
                quiet.push(id.clone());
            }
        }
        for id in quiet {
            self.ask(&id, now, out);
        }
        changed.iter().for_each(|id| self.write_held_by(id));
        // Repeated until the shard says that nothing waits for it any more.
        for (id, number) in accepted {
            self.send(&id, Order::AcceptLoss(number), out);
        }
        // Their leases begin again.
        for id in claimed {
            if self.picture.claims.at(&id).next().is_some() {
                self.tell_claims(&id, out);
            }
        }
        // Repeated as long as the wishes stand: what is done already changes nothing.
        for (id, order) in wishes {
            self.send(&id, order, out);
        }
        if rested {
            self.give_sign_of_life(out);
        }
    }
}

/// What operators want of a cluster's volumes and hosts.
fn wishes_for(view: &ClusterView) -> impl Iterator<Item = Order> {
    let row = view.row.as_ref();
    let volumes = row.filter(|r| !r.volumes.is_empty());
    let drains = row.filter(|r| r.drains.version > 0);
    let moves = row.map(|r| &r.host_pools.moves).filter(|m| m.version > 0);
    let volumes = volumes.map(|r| Order::Volumes(r.volumes.clone()));
    let forgotten = row.map(|r| &r.forgotten).filter(|f| f.version > 0);
    volumes
        .into_iter()
        .chain(drains.map(|r| Order::Drains(r.drains.clone())))
        .chain(moves.map(|m| Order::HostMoves(m.clone())))
        .chain(forgotten.map(|f| Order::ForgetHosts(f.clone())))
}

/// The mass loss for which a shard says that it waits, if an operator has accepted it.
fn accepted_loss(view: &ClusterView) -> Option<u64> {
    let waits = view.capacity.as_ref().and_then(|c| c.loss)?;
    let accepted = view.row.as_ref().map_or(0, |r| r.accepted_loss);
    (waits <= accepted).then_some(waits)
}
