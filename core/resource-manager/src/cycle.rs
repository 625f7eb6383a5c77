//! One cycle (section 3): what was released is settled, goals are followed, new numbers are routed, quota is divided, waiting and
//! leaving work is marked; then what was decided is stored, and what is stored is ordered. Runs after events, at most every
//! `cycle`, and once a second in any case. Deciding twice on the same picture changes nothing.

use crate::contact::{changed_state, contact};
use crate::effect::Effect;
use crate::grants::{grants, taken_back};
use crate::manager::{Phase, ResourceManager};
use crate::orders::{has_confirmed, listeners, orders, say_the_same};
use crate::parts::parts;
use crate::picture::ClusterView;
use crate::place::{Leave, route_missing, spoken_for};
use crate::quota::{admissions, apart, entitlements, requests, rooms, rooms_with_slack, totals};
use crate::room::Candidates;
use crate::{moves, ops};
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::cluster::Contact;
use echelon_core_model::directive::{Order, SliceOrder};
use echelon_core_model::job::Desired;
use echelon_core_model::store::Write;
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use std::collections::BTreeMap;

/// Most orders in one directive.
const ORDERS: usize = 200;
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
            && !self.ops.has(&ops::Purpose::ReadLeadership)
        {
            self.read_leadership(now, out);
        }
        self.confirm_epoch(now, out);
        self.recover_on(now, out);
        if self.phase != Phase::Leading {
            return;
        }
        self.reread(now, out);
        if now.since(self.timers.full_cycle) >= FULL_CYCLE {
            self.timers.full_cycle = now;
            self.due = true;
            self.contacts(now, out);
            self.remove_tombstones(now, out);
            self.dirty.extend(self.picture.live().map(|(id, _)| id));
        }
        if self.due && now.since(self.timers.cycle) >= self.config.cycle {
            self.timers.cycle = now;
            self.due = false;
            self.cycle(now, out);
        }
    }

    /// When `Event::Wake` is wanted next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        let mut at: Vec<Timestamp> = self.ops.next_due().into_iter().collect();
        match self.phase {
            Phase::Follower => return None,
            // While the read is under way, what is due next is its repetition.
            Phase::Frozen(_) if self.ops.has(&ops::Purpose::ReadLeadership) => {}
            Phase::Frozen(since) => at.push(since.plus(self.config.reread)),
            Phase::Taking => {}
            Phase::Recovering | Phase::Leading => {
                at.push(self.timers.confirmed.plus(self.config.lease));
                if !self.ops.has(&ops::Purpose::ConfirmEpoch) {
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
                at.push(self.timers.cycle.plus(self.config.cycle));
            }
        }
        at.into_iter().min()
    }

    fn cycle(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.follow_goals();
        self.divide_quota(now);
        self.leave(now);
        self.flush_assignments(now, out);
        self.order(now, out);
        self.follow_ends(now, out);
        self.flush_progress(now, out);
    }

    /// Settles releases, scales and routes the jobs that changed.
    fn follow_goals(&mut self) {
        let mut clusters = Candidates::new(&self.picture, &spoken_for(&self.picture));
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            let Some(mut job) = self.picture.jobs.remove(&id) else {
                continue;
            };
            let pool = job.spec.as_ref().map(|s| s.pool.as_str()).unwrap_or_default();
            let pool_known = self.picture.hierarchy.leaf(pool).is_some();
            if job.is_live() && (job.spec.is_some() || job.desired() != Desired::Running) {
                moves::settle_released(&self.picture, id, &mut job);
                moves::scale(&mut job);
                route_missing(id, &mut job, pool_known, &mut clusters);
            }
            self.picture.jobs.insert(id, job);
        }
    }

    /// Demand, entitlement, admission, grants.
    fn divide_quota(&mut self, now: Timestamp) {
        for (id, key, active, reason) in taken_back(&self.picture, now, self.config.spill_after) {
            let number = self.grant_number();
            let until = now.plus(Span(self.config.spill_after.0.saturating_mul(2)));
            if let Some(job) = self.picture.jobs.get_mut(&id) {
                job.grants.entry(key.clone()).or_default().send(number, active);
                job.held_back.insert(key, (until, reason));
                self.dirty.insert(id);
            }
        }
        let totals = totals(&self.picture);
        let entitled = entitlements(&self.picture, &totals);
        let mut rooms = rooms(&self.picture, &totals, &entitled);
        let asked = requests(&mut self.picture, now);
        let patience = (now, self.config.spill_after);
        let (revocable, ordinary) = apart(&self.picture, asked);
        let mut admitted = admissions(&mut self.picture, &ordinary, &mut rooms, patience);
        if !revocable.is_empty() {
            let mut rooms = rooms_with_slack(&self.picture, &totals, &rooms);
            let more = admissions(&mut self.picture, &revocable, &mut rooms, patience);
            admitted.extend(more);
        }
        for a in admitted.iter().filter(|a| !a.more.is_empty()) {
            if let Some(spec) = self.picture.jobs.get(&a.job).and_then(|j| j.spec.as_ref()) {
                self.picture.raised.insert(spec.pool.clone());
            }
        }
        for ((id, key), active) in grants(&self.picture, &admitted) {
            // Only a shard that is known to obey this leader is told a number; before, it keeps what it has.
            if self.picture.clusters.get(&key.cluster).is_none_or(|c| !c.settled) {
                continue;
            }
            let number = self.grant_number();
            if let Some(job) = self.picture.jobs.get_mut(&id) {
                job.grants.entry(key).or_default().send(number, active);
                self.dirty.insert(id);
            }
        }
    }

    /// Marks what cannot run where it is, and what draining clusters are to give up.
    fn leave(&mut self, now: Timestamp) {
        let mut taken = totals(&self.picture).taken;
        for (id, view) in &self.picture.clusters {
            let of_cluster = taken.entry(id.clone()).or_default();
            *of_cluster = of_cluster.or_used(view);
        }
        let clusters = Candidates::new(&self.picture, &taken);
        let ids: Vec<JobId> = self.picture.live().map(|(id, _)| id).collect();
        let mut left = self.config.drain_batch;
        let mut room = clusters;
        for id in ids {
            let Some(mut job) = self.picture.jobs.remove(&id) else {
                continue;
            };
            let mut leave = Leave {
                picture: &self.picture,
                now,
                spill_after: self.config.spill_after,
                drain_left: left,
                clusters: std::mem::take(&mut room),
            };
            leave.run(id, &mut job);
            left = leave.drain_left;
            room = leave.clusters;
            self.picture.jobs.insert(id, job);
        }
    }

    /// Sends what changed, and renews what has to be.
    fn order(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let renew_after = Span(self.config.grant_lease.0 / 3);
        let mut due: BTreeMap<ClusterId, Vec<SliceOrder>> = BTreeMap::new();
        let ids: Vec<JobId> = self.dirty.iter().copied().collect();
        for id in ids {
            self.lease_parts(id);
            let Some(job) = self.picture.jobs.get(&id).filter(|j| j.is_live()) else {
                continue;
            };
            for cluster in listeners(job) {
                if self
                    .picture
                    .clusters
                    .get(&cluster)
                    .is_none_or(|c| c.link.is_none())
                {
                    continue;
                }
                let stamp = (self.epoch, self.config.grant_lease);
                let Some(job) = self.picture.jobs.get(&id) else {
                    continue;
                };
                let mut next = orders(&self.picture, id, job, &cluster, stamp);
                let before = job.sent.get(&cluster);
                let same = before.is_some_and(|(sent, _)| say_the_same(sent, &next));
                let old = before.is_none_or(|(_, at)| now.since(*at) >= renew_after);
                let confirmed =
                    job.desired() != Desired::Running && has_confirmed(&self.picture, id, job, &cluster);
                if next.is_empty() || (same && (!old || confirmed)) {
                    continue;
                }
                if same {
                    self.renew(id, &cluster, &mut next);
                }
                if let Some(job) = self.picture.jobs.get_mut(&id) {
                    job.sent.insert(cluster.clone(), (next.clone(), now));
                }
                due.entry(cluster).or_default().extend(next);
            }
        }
        for (cluster, orders) in due {
            for part in orders.chunks(ORDERS) {
                self.send(&cluster, Order::Slices(part.to_vec()), out);
            }
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
            if let Some(job) = self.picture.jobs.get_mut(&id) {
                job.parts.entry(key).or_default().send(number, part);
            }
        }
    }

    /// The same grants under new numbers: their lease begins again when they arrive.
    fn renew(&mut self, id: JobId, cluster: &ClusterId, orders: &mut [SliceOrder]) {
        for order in orders {
            for (generation, grant) in &mut order.grants {
                grant.number = self.grant_number();
                let key = crate::picture::SliceKey {
                    group: order.group.clone(),
                    cluster: cluster.clone(),
                    generation: *generation,
                };
                if let Some(job) = self.picture.jobs.get_mut(&id) {
                    job.grants
                        .entry(key)
                        .or_default()
                        .send(grant.number, grant.active);
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
                    view.state = Some(next.clone());
                    self.writes.push(Write::ClusterState(next));
                }
            }
            let since = |at: Option<Timestamp>, span: Span| at.is_none_or(|at| now.since(at) >= span);
            let is_quiet = since(view.heard_at.max(view.asked_at), third);
            let lacks = (view.missed || !view.settled) && since(view.asked_at, FULL_CYCLE);
            accepted.extend(accepted_loss(view).map(|number| (id.clone(), number)));
            if rested && view.link.is_some() {
                wishes.extend(wishes_for(view).map(|order| (id.clone(), order)));
            }
            if view.link.is_some() && (is_quiet || lacks) {
                quiet.push(id.clone());
            }
        }
        for id in quiet {
            self.ask(&id, now, out);
        }
        // Repeated until the shard says that nothing waits for it any more.
        for (id, number) in accepted {
            self.send(&id, Order::AcceptLoss(number), out);
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
    let volumes = volumes.map(|r| Order::Volumes(r.volumes.clone()));
    volumes
        .into_iter()
        .chain(drains.map(|r| Order::Drains(r.drains.clone())))
}

/// The mass loss for which a shard says that it waits, if an operator has accepted it.
fn accepted_loss(view: &ClusterView) -> Option<u64> {
    let waits = view.capacity.as_ref().and_then(|c| c.loss)?;
    let accepted = view.row.as_ref().map_or(0, |r| r.accepted_loss);
    (waits <= accepted).then_some(waits)
}
