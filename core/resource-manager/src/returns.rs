//! Instances that leave the cluster to which they are bound: the way back.
//!
//! There is one way. A mark is stored and then ordered. It asks the shard for a number of indexes that have
//! not begun. The shard stores which indexes it releases. Only then may they be bound again. Work returns
//! that is bound without a grant. Work also returns that is granted and finds no host while another cluster
//! has capacity. Running work leaves only a draining cluster, and only to a cluster that has capacity for it.

mod contention;
mod drains;
pub(crate) mod start_bans;
pub(crate) mod stored_releases;
pub(crate) mod unbegun;
mod unplaced;
mod unreported;

use crate::admission::binding::{allowance, quota_elsewhere};
use crate::admission::router::{GroupOf, Router, Within, take};
use crate::admission::{GrantChange, GrantTarget};
use crate::assignment::indexes::{mark, missing};
use crate::assignment::ranges::{Cut, change};
use crate::demand::daemons;
use crate::demand::moving::{is_of, still_moving};
use crate::demand::request::{avoided, have, terms_of, unit_of};
use crate::demand::slices::{Line, keeps_from_beginning, lines};
use crate::facts::job::{GroupMoves, JobView};
use crate::facts::slice::SliceKey;
use crate::picture::Picture;
use crate::returns::contention::Contention;
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::{RETURNABLE, SliceReport};
use echelon_core_model::health::NewWork;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId, RangeSet, ReasonCode, Resources, Span, Timestamp};
use echelon_core_pools::Rooms;
use echelon_core_routing::Share;
use std::collections::{BTreeMap, BTreeSet};

/// Most ranges of one group that marks are made in: of 64 groups they have their place in one write.
const MAX_RANGES: usize = 400;
/// In this time what is asked back is released, bound to another cluster and granted there.
const SENT_ON: Span = Span::seconds(20);
/// How many times longer a gang waits for offers than for a host before it goes elsewhere.
const UNOFFERED: u64 = 4;

/// How long what cannot begin stays, and how much leaves at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReturnRules {
    /// Instances that wait so long without a grant or a host go back.
    pub(crate) spill_after: Span,
    /// How many instances may leave draining clusters in one cycle.
    pub(crate) drain_batch: u64,
}

/// What this cycle takes back.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReturnsReport {
    /// Jobs of which something was marked, or a mark taken back.
    pub marked: BTreeSet<JobId>,
    /// Grants that become smaller, since no host takes what they allow.
    pub lowered: Vec<GrantChange>,
    /// Instances that leave draining clusters.
    pub drained: u64,
    /// Jobs of which allotments of `max_unavailable` change, since other groups than before can leave such
    /// clusters.
    pub reallotted: BTreeSet<JobId>,
}

/// Marks what is to leave the cluster to which it is bound.
pub(crate) fn give_back(
    picture: &mut Picture,
    jobs: &BTreeSet<JobId>,
    rules: ReturnRules,
    now: Timestamp,
    mut number: impl FnMut() -> u64,
) -> ReturnsReport {
    let mut report = ReturnsReport::default();
    let mut lowered = Vec::new();
    let (mut rooms, mut contention) = (Rooms::clone(&picture.admission.rooms), None);
    let mut drain_left = rules.drain_batch;
    for id in jobs {
        let may_return =
            |job: &JobView| !(job.is_unbound() && job.idle.is_empty() && job.rare.moves.is_empty());
        if !picture.facts.jobs.get(id).is_some_and(may_return) {
            continue;
        }
        let Some(mut job) = picture.facts.jobs.lend(id) else {
            continue;
        };
        let mut returns = Returns {
            picture,
            router: picture.router(),
            rooms,
            now,
            spill_after: rules.spill_after,
            drain_left,
            contention,
            lowered,
            changed: false,
            moves: sent_on_before(&job, now),
        };
        returns.run(*id, &mut job);
        if job.rare.moves != returns.moves {
            job.rare.moves = std::mem::take(&mut returns.moves);
            returns.changed = true;
            report.reallotted.insert(*id);
        }
        let changed = returns.changed;
        Returns {
            rooms,
            drain_left,
            contention,
            lowered,
            ..
        } = returns;
        picture.facts.jobs.give_back(*id, job, changed);
        report.marked.extend(changed.then_some(*id));
    }
    report.drained = rules.drain_batch.saturating_sub(drain_left);
    for (job, slice, active) in lowered {
        let number = number();
        picture.facts.send_grant(job, &slice, number, active);
        report.lowered.push(GrantChange {
            job,
            slice,
            number,
            target: GrantTarget::Amount(active),
        });
    }
    report
}

/// What was sent on before, and may not be granted yet.
fn sent_on_before(job: &JobView, now: Timestamp) -> BTreeMap<GroupName, GroupMoves> {
    let open = job.rare.moves.iter().filter(|(_, moves)| moves.until > now);
    open.map(|(group, moves)| {
        let moves = GroupMoves {
            drains: false,
            moving: RangeSet::new(),
            ..*moves
        };
        (group.clone(), moves)
    })
    .collect()
}

/// Decides what leaves, one job after another.
struct Returns<'a> {
    picture: &'a Picture,
    router: Router<'a>,
    /// The capacity that admission has left, and what leaving instances have not taken of it.
    rooms: Rooms,
    now: Timestamp,
    /// Instances that wait so long without a grant or a host go back.
    spill_after: Span,
    /// How many more instances may leave draining clusters in this cycle.
    drain_left: u64,
    /// What waiting work lacks. Computed on first use.
    contention: Option<Contention>,
    /// Grants that become smaller, since no host takes what they allow.
    lowered: Vec<(JobId, SliceKey, u64)>,
    /// Whether the last job was changed.
    changed: bool,
    /// What the groups of the last job need of `max_unavailable` for what leaves clusters.
    moves: BTreeMap<GroupName, GroupMoves>,
}

/// Instances of a slice that are bound without a grant.
#[derive(Clone, Copy)]
struct Idle<'a> {
    line: &'a Line,
    report: &'a SliceReport,
    /// How many more of the group may be active.
    most: u64,
}

impl Returns<'_> {
    /// Decides what of a job leaves.
    fn run(&mut self, id: JobId, job: &mut JobView) {
        self.changed = false;
        let Some(spec) = job.running() else {
            self.changed = !job.idle.is_empty();
            job.idle.clear();
            return;
        };
        let lines = lines(&self.picture.facts, id, job);
        let allocated_of = |group: &GroupName| {
            let of_group = lines.iter().filter(|l| l.key.group == *group);
            of_group.map(|l| l.allocated).fold(0, u64::saturating_add)
        };
        let (before, keys) = (job.idle.len(), lines.iter().map(|l| &l.key));
        let keys: BTreeSet<&SliceKey> = keys.collect();
        job.idle.retain(|key, _| keys.contains(key));
        self.changed = before != job.idle.len();
        self.note_unbegun(job, &lines);
        self.note_moving(job, &lines);
        if spec.gang.is_some() {
            if !self.lost(id, job, &spec, &lines) {
                self.gang(id, job, &spec, &lines);
            }
            return;
        }
        self.lost(id, job, &spec, &lines);
        for line in &lines {
            let key = &line.key;
            let Some(group) = spec.group(&key.group) else {
                continue;
            };
            let of = GroupOf {
                id,
                spec: &spec,
                group,
            };
            let Some(report) = line.report.as_deref() else {
                if spec.kind != JobKind::Daemon && job.durable == job.decided {
                    self.unreported(of, job, line);
                }
                continue;
            };
            if line.count.on_hosts() > 0 {
                // It finds hosts again.
                let key = (key.group.clone(), key.cluster.clone());
                let is_over = job.avoid.get(&key).is_some_and(|avoided| avoided.is_over);
                self.changed |= is_over && job.avoid.remove(&key).is_some();
            }
            if spec.kind != JobKind::Daemon {
                self.changed |= withdraw_idle(job, key, report);
            }
            if job.durable != job.decided || job.decided.ranges(&key.group).len() > MAX_RANGES {
                self.drains_on(job, key);
                continue;
            }
            if spec.kind == JobKind::Daemon {
                self.daemon(id, job, key);
            } else if self.drains(&key.cluster) {
                // A cluster out of reach empties nothing, and takes none of what others may empty at once.
                if !self.is_heard(&key.cluster) {
                    self.drains_on(job, key);
                    continue;
                }
                self.drain(of, job, key, report);
            } else if self.cannot_start(&key.cluster) {
                self.stranded(of, job, line, report);
            } else {
                self.unplaced(of, job, line, report);
                let most = u64::from(group.most_active()).saturating_sub(allocated_of(&group.name));
                let idle = Idle { line, report, most };
                self.idle(of, job, &idle);
            }
        }
    }

    /// All clusters with their remaining capacity, except those that are avoided.
    fn within<'b>(&'b self, have: &'b [(ClusterId, u64)], avoid: &'b [ClusterId]) -> Within<'b> {
        Within {
            have,
            avoid,
            rooms: &self.rooms,
            parts: 1,
        }
    }

    /// Whether the last report of a cluster's shard is current. An older report does not show what has begun
    /// since.
    fn is_heard(&self, cluster: &ClusterId) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.is_some_and(|c| c.takes_grants() && c.fulls > 0)
    }

    fn drains(&self, cluster: &ClusterId) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.is_some_and(|c| c.desired_state().moves_work_off())
    }

    fn is_removing(&self, cluster: &ClusterId) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.is_some_and(|c| c.desired_state() == DesiredState::Removing)
    }

    /// Whether a cluster takes no new work, as far as its health goes, while its shard reports, or is asked and answers
    /// by storage. The last report of such a shard may be old, so it is asked for what has not begun by its own word.
    fn cannot_start(&self, cluster: &ClusterId) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.is_some_and(|view| {
            let answers = self.is_heard(cluster) || view.epoch_without_manager().is_some();
            answers && view.new_work() == NewWork::Refused
        })
    }

    /// What has not begun at a cluster that cannot start work goes elsewhere, with a grant or without, if
    /// another cluster may take it.
    fn stranded(&mut self, of: GroupOf<'_>, job: &mut JobView, line: &Line, report: &SliceReport) {
        let GroupOf { id, .. } = of;
        let key = &line.key;
        let count = report.unstarted.saturating_add(report.between_runs);
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        if count == 0 || !self.router.may_use_others(of, &avoid) {
            self.changed |= job.idle.remove(key).is_some();
            return;
        }
        self.changed |= !job.idle.contains_key(key);
        let since = *job.idle.get_or_insert_with(key.clone(), || self.now);
        if self.now.since(since) < self.spill_after {
            return;
        }
        let granted = job.grants.get(key).map_or(0, |g| g.granted());
        let stays = report.active.saturating_sub(report.between_runs);
        if granted > stays {
            self.lowered.push((id, key.clone(), stays));
        }
        self.send_on(of, count.min(granted));
        self.give_back(job, key, count, report);
        job.idle.remove(key);
    }

    /// Instances that were to run here are asked back. No cluster counts them as unavailable until they are granted
    /// elsewhere. So their group keeps units of `max_unavailable` for them.
    fn send_on(&mut self, of: GroupOf<'_>, count: u64) {
        if count > 0 && of.group.runs_for_ever(of.spec.kind) {
            let moves = self.moves.entry(of.group.name.clone()).or_default();
            moves.sent_on = moves.sent_on.saturating_add(count);
            moves.until = self.now.plus(SENT_ON);
        }
    }

    /// Notes what was moving before and has not begun again.
    fn note_moving(&mut self, job: &JobView, lines: &[Line]) {
        for (group, before) in &job.rare.moves {
            let moving = still_moving(job, group, &before.moving, lines);
            if !moving.is_empty() {
                self.moves.entry(group.clone()).or_default().moving = moving;
            }
        }
    }

    /// Asks shards for everything of a job that has not ended where their clusters are without Mesos for so long that
    /// they are lost to the job. Such a request is withdrawn once Mesos is back. Returns whether the job is
    /// asked for anywhere. A cluster that is cut off is not asked: `unbegun.rs` releases without its shard.
    fn lost(&mut self, id: JobId, job: &mut JobView, spec: &JobSpec, lines: &[Line]) -> bool {
        let is_lost = |key: &SliceKey| {
            let view = self.picture.facts.clusters.get(&key.cluster);
            self.is_heard(&key.cluster) && view.is_some_and(|view| view.is_lost_to(spec))
        };
        let (gone, there): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| is_lost(&line.key));
        let mut changed = false;
        for line in there {
            changed |= withdraw_lost(job, &line.key);
        }
        let is_settled = job.durable == job.decided;
        let mut is_asked = false;
        for line in gone {
            let key = &line.key;
            let avoid = std::slice::from_ref(&key.cluster);
            let group = spec.group(&key.group).map(|group| GroupOf { id, spec, group });
            if !group.is_some_and(|of| self.router.may_use_others(of, avoid)) {
                continue;
            }
            is_asked = true;
            let leaves = Releasing {
                to: None,
                why: ReasonCode::ClusterLost,
                count: None,
            };
            changed |= is_settled && mark_slice(job, key, &leaves);
        }
        self.changed |= changed;
        is_asked
    }

    /// Takes indexes of a daemon back that have no host. Those are indexes that wait. Only the shard knows in
    /// which ranges they are, so every range is asked for the whole surplus, up to its size.
    fn daemon(&mut self, id: JobId, job: &mut JobView, key: &SliceKey) {
        if self.is_removing(&key.cluster) {
            // A cluster out of reach obeys no mark. If it is removed as lost, the index leaves without one.
            if !self.is_heard(&key.cluster) {
                return;
            }
            let ends = Releasing {
                to: None,
                why: ReasonCode::ScaledDown,
                count: None,
            };
            self.changed |= mark_slice(job, key, &ends);
            return;
        }
        let surplus = daemons::surplus(&self.picture.facts, id, job, key);
        if surplus == 0 {
            self.changed |= withdraw(job, key, |_| true);
            return;
        }
        let unmarked = |r: &AssignedRange| is_of(r, key) && r.releasing.is_none();
        if !job.decided.ranges(&key.group).iter().any(unmarked) {
            return;
        }
        let ranges = job.decided.ranges_mut(&key.group);
        for r in ranges.into_iter().flatten().filter(|r| unmarked(r)) {
            r.releasing = Some(Releasing {
                to: None,
                why: ReasonCode::ScaledDown,
                count: Some(surplus.min(r.range.count())),
            });
            self.changed = true;
        }
    }

    /// What waiting work lacks.
    fn contention(&mut self) -> &Contention {
        let picture = self.picture;
        self.contention.get_or_insert_with(|| Contention::new(picture))
    }

    /// Whether smaller work would use so much that is granted at a cluster.
    fn is_wanted_in_pieces(&mut self, cluster: &ClusterId, freed: Resources) -> bool {
        let picture = self.picture;
        self.contention().is_about_cluster(picture, cluster, freed)
    }

    /// Work that is bound without a grant goes back after a while.
    fn idle(&mut self, of: GroupOf<'_>, job: &mut JobView, idle: &Idle<'_>) {
        let GroupOf { id, spec, .. } = of;
        let Idle { line, report, .. } = *idle;
        let key = &line.key;
        let waiting = line.count.startable().saturating_sub(line.allocated);
        // What was bound before has an older generation, and so a grant of its own.
        let there = |k: &SliceKey| k.group == key.group && k.cluster == key.cluster;
        let grants = job.grants.iter().filter(|(k, _)| there(k));
        let granted = grants.map(|(_, g)| g.granted()).fold(0, u64::saturating_add);
        let surplus = waiting.saturating_sub(allowance(spec, line, granted));
        let shares = self.stock_for_others(of, job, idle, waiting);
        let surplus = surplus.max(shares.iter().map(|s| s.count).sum());
        let surplus = surplus.max(self.stock_to_request(of, job, idle, waiting));
        if surplus == 0 || !self.is_heard(&key.cluster) || self.is_claimant(id, &key.cluster) {
            self.changed |= job.idle.remove(key).is_some();
            return;
        }
        let new = !job.idle.contains_key(key);
        let since = *job.idle.get_or_insert_with(key.clone(), || self.now);
        self.changed |= new;
        if self.now.since(since) >= self.spill_after {
            self.give_back(job, key, surplus, report);
            job.idle.remove(key);
            let unit = unit_of(&self.picture.facts, of.group);
            for share in shares {
                take(&mut self.rooms, &share.cluster, spec, unit, share.count);
            }
        }
    }

    /// For indexes of a slice that are bound without a grant: which other clusters could begin them, and how
    /// many each. Indexes that are bound nowhere come first.
    fn stock_for_others(&self, of: GroupOf<'_>, job: &JobView, idle: &Idle<'_>, stock: u64) -> Vec<Share> {
        let GroupOf { spec, group, .. } = of;
        let key = &idle.line.key;
        if stock == 0 || missing(job, &key.group) > 0 {
            return Vec::new();
        }
        let Some(pool) = self.picture.facts.hierarchy.find(&spec.pool) else {
            return Vec::new();
        };
        let unit = unit_of(&self.picture.facts, group);
        let quota = quota_elsewhere(&self.rooms, &key.cluster, pool, terms_of(spec), unit);
        let n = stock.min(quota).min(idle.most);
        let have = have(job, &key.group);
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        self.router.places(of, n, self.within(&have, &avoid))
    }

    /// How many indexes that are bound without a grant to a full cluster could be requested elsewhere: as many
    /// as their pool is entitled to. Preemption makes capacity for them at any cluster.
    fn stock_to_request(&self, of: GroupOf<'_>, job: &JobView, idle: &Idle<'_>, stock: u64) -> u64 {
        let GroupOf { spec, group, .. } = of;
        let key = &idle.line.key;
        if stock == 0 || missing(job, &key.group) > 0 {
            return 0;
        }
        let Some(pool) = self.picture.facts.hierarchy.find(&spec.pool) else {
            return 0;
        };
        let (terms, unit) = (terms_of(spec), unit_of(&self.picture.facts, group));
        let is_full = !unit
            .shape
            .fits(self.rooms.cluster(&key.cluster, terms.side, unit));
        if !is_full {
            return 0;
        }
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        if !self.router.may_use_others(of, &avoid) {
            return 0;
        }
        let admission = &self.picture.admission;
        let entitled = admission.entitled_units((of.id, &group.name), pool, terms, unit);
        stock.min(entitled).min(idle.most)
    }

    /// Whether capacity is being made at a cluster for a job.
    fn is_claimant(&self, id: JobId, cluster: &ClusterId) -> bool {
        let mut claims = self.picture.preemption.all.values();
        claims.any(|c| c.claim.job == id && c.claim.waits == *cluster)
    }

    /// Asks a shard for so many indexes that have not begun, the highest first. Returns how many were marked.
    fn give_back(&mut self, job: &mut JobView, key: &SliceKey, count: u64, report: &SliceReport) -> u64 {
        let in_range = |r: &AssignedRange| {
            let range: RangeSet = std::iter::once(r.range).collect();
            range.intersect(&report.returnable).count()
        };
        let open = |r: &AssignedRange| is_of(r, key) && r.releasing.is_none() && in_range(r) > 0;
        if count == 0 || !job.decided.ranges(&key.group).iter().any(open) {
            return 0;
        }
        let Some(ranges) = job.decided.ranges_mut(&key.group) else {
            return 0;
        };
        let mut left = count;
        for r in ranges.iter_mut().rev().filter(|r| open(r)) {
            let n = in_range(r).min(left);
            if n == 0 {
                break;
            }
            left -= n;
            r.releasing = Some(Releasing {
                to: None,
                why: ReasonCode::Moved,
                count: Some(n),
            });
        }
        self.changed = true;
        count.saturating_sub(left)
    }

    /// A gang leaves as a whole. It leaves a draining cluster. It also leaves when nothing of it has begun
    /// and it finds no hosts or gets no grant.
    fn gang(&mut self, id: JobId, job: &mut JobView, spec: &JobSpec, lines: &[Line]) {
        let Some(first) = lines.first().map(|l| l.key.clone()) else {
            return;
        };
        let marked = |l: &Line| {
            let ranges = job.decided.ranges(&l.key.group).iter();
            ranges.into_iter().any(|r| r.releasing.is_some())
        };
        if job.durable != job.decided || lines.iter().any(marked) {
            return;
        }
        if lines.iter().any(|l| l.key.cluster != first.cluster) {
            // It is at several clusters, for example because a mark was withdrawn for a part of it. All of it
            // goes to the first of these clusters that takes work.
            let takes = |c: &ClusterId| {
                let view = self.picture.facts.clusters.get(c);
                view.is_some_and(|v| v.desired_state() == DesiredState::Active)
            };
            let to = lines.iter().map(|l| &l.key.cluster).find(|c| takes(c));
            self.changed |= mark_all(job, to);
            return;
        }
        let ended = |group: &GroupName| {
            let of_group = lines.iter().filter(|l| l.key.group == *group);
            of_group.map(|l| l.count.ended).fold(0, u64::saturating_add)
        };
        let count = |g: &GroupSpec| u64::from(g.instances).saturating_sub(ended(&g.name));
        // All of it has ended, which its job's end follows. Nothing of it lives, as if it had not begun.
        if spec.groups.iter().all(|g| count(g) == 0) {
            return;
        }
        let mut avoid = vec![first.cluster.clone()];
        for group in &spec.groups {
            avoid.extend(avoided(job, &group.name));
            avoid.extend(self.without_hosts(GroupOf { id, spec, group }, job, count(group)));
        }
        let elsewhere = self
            .router
            .place_whole(id, spec, count, &avoid, Some(&self.rooms))
            .ok()
            .flatten();
        let reports = lines.iter().map(|l| (l, self.picture.facts.report(id, &l.key)));
        let reports: Vec<(&Line, Option<&SliceReport>)> = reports.collect();
        // What is not known may have begun.
        let may_live = |r: &Option<&SliceReport>| r.is_none_or(|r| r.live > 0);
        let has_begun = !self.is_heard(&first.cluster) || reports.iter().any(|(_, r)| may_live(r));
        if self.drains(&first.cluster) && !has_begun {
            self.changed |= mark_all(job, None);
            return;
        }
        if self.drains(&first.cluster) {
            let Some(to) = elsewhere.filter(|_| self.drain_left > 0) else {
                return;
            };
            for group in &spec.groups {
                let unit = unit_of(&self.picture.facts, group);
                take(&mut self.rooms, &to, spec, unit, count(group));
            }
            self.drain_left = self.drain_left.saturating_sub(spec.instances());
            self.changed |= mark_all(job, Some(&to));
            return;
        }
        if has_begun {
            self.changed |= job.idle.remove(&first).is_some();
            return;
        }
        if self.cannot_start(&first.cluster) {
            let other = self.router.place_whole(id, spec, count, &avoid, None);
            if other.is_ok_and(|other| other.is_some()) {
                self.strand_gang(id, job, lines);
            } else {
                self.changed |= job.idle.remove(&first).is_some();
            }
            return;
        }
        let is_stuck = |(line, report): &(&Line, Option<&SliceReport>)| {
            let stuck = report.and_then(|r| self.stuck(id, job, &line.key, r));
            stuck.is_some_and(|stuck| stuck.unplaced > 0 && (!stuck.hopeful || elsewhere.is_some()))
        };
        let stuck = reports.iter().any(is_stuck);
        let granted = lines.iter().any(|l| l.allocated > 0);
        // A gang's shard declines offers that do not suffice for all of it. Where capacity is short, the gang
        // waits for offers most of the time, and for hosts in between.
        let mut waiting = reports.iter().filter_map(|(_, r)| *r).flat_map(|r| &r.waiting);
        let unplaced = waiting.any(|(r, ..)| keeps_from_beginning(r.code));
        if self.is_claimant(id, &first.cluster) || granted && !unplaced {
            self.changed |= job.idle.remove(&first).is_some();
            return;
        }
        let patience = if granted {
            Span(self.spill_after.0.saturating_mul(UNOFFERED))
        } else {
            self.spill_after
        };
        self.changed |= !job.idle.contains_key(&first);
        let since = *job.idle.get_or_insert_with(first.clone(), || self.now);
        if !stuck && self.now.since(since) < patience {
            return;
        }
        if granted {
            // A gang waits for offers of several hosts at once. Smaller work does not take its grant meanwhile.
            if elsewhere.is_none() && !self.contention().is_about_pool(&spec.pool) {
                return;
            }
            for line in lines {
                self.lowered.push((id, line.key.clone(), 0));
            }
            for group in &spec.groups {
                self.avoid(GroupOf { id, spec, group }, job, &first.cluster);
            }
        }
        job.idle.remove(&first);
        self.changed |= mark_all(job, None);
    }

    /// A gang that has not begun leaves a cluster that cannot start work.
    fn strand_gang(&mut self, id: JobId, job: &mut JobView, lines: &[Line]) {
        let Some(first) = lines.first().map(|l| &l.key) else {
            return;
        };
        self.changed |= !job.idle.contains_key(first);
        let since = *job.idle.get_or_insert_with(first.clone(), || self.now);
        if self.now.since(since) < self.spill_after {
            return;
        }
        let granted = lines.iter().filter(|l| l.allocated > 0);
        self.lowered.extend(granted.map(|l| (id, l.key.clone(), 0)));
        job.idle.remove(first);
        self.changed |= mark_all(job, None);
    }
}

/// Takes back marks by count in ranges where nothing is left to give back. Returns whether there were any.
fn withdraw_idle(job: &mut JobView, key: &SliceKey, report: &SliceReport) -> bool {
    let is_cut = report.returnable.ranges().len() >= RETURNABLE;
    // The highest are named: of lower ones nothing is known.
    let lowest = report.returnable.ranges().first().map(|range| range.first);
    let idle = |r: &AssignedRange| {
        let range: RangeSet = std::iter::once(r.range).collect();
        let is_unknown = is_cut && lowest.is_some_and(|lowest| r.range.first < lowest);
        !is_unknown && range.intersect(&report.returnable).is_empty()
    };
    withdraw(job, key, idle)
}

/// Takes back marks by count of a slice. Returns whether there were any.
fn withdraw(job: &mut JobView, key: &SliceKey, which: impl Fn(&AssignedRange) -> bool) -> bool {
    let by_count = |r: &&AssignedRange| {
        is_of(r, key) && r.releasing.as_ref().is_some_and(|m| m.count.is_some()) && which(r)
    };
    let ranges = job.decided.ranges(&key.group).iter();
    let marked: RangeSet = ranges.filter(by_count).map(|r| r.range).collect();
    if marked.is_empty() {
        return false;
    }
    let Some(ranges) = job.decided.ranges_mut(&key.group) else {
        return false;
    };
    change(ranges, &marked, Cut::Kept, |r| {
        Some(AssignedRange { releasing: None, ..r })
    });
    true
}

/// Takes back that a slice is to leave since its cluster is lost. Returns whether it was to.
fn withdraw_lost(job: &mut JobView, key: &SliceKey) -> bool {
    let is_lost = |r: &AssignedRange| {
        is_of(r, key)
            && r.releasing
                .as_ref()
                .is_some_and(|m| m.why == ReasonCode::ClusterLost)
    };
    if !job.decided.ranges(&key.group).iter().any(is_lost) {
        return false;
    }
    let ranges = job.decided.ranges_mut(&key.group);
    for r in ranges.into_iter().flatten().filter(|r| is_lost(r)) {
        r.releasing = None;
    }
    true
}

/// Marks all of a slice that is not marked as a whole yet. Returns whether anything was marked.
fn mark_slice(job: &mut JobView, key: &SliceKey, with: &Releasing) -> bool {
    let stays =
        |r: &&AssignedRange| is_of(r, key) && r.releasing.as_ref().is_none_or(|mark| mark.count.is_some());
    let ranges = job.decided.ranges(&key.group).iter();
    let numbers: RangeSet = ranges.filter(stays).map(|r| r.range).collect();
    if numbers.is_empty() {
        return false;
    }
    let Some(ranges) = job.decided.ranges_mut(&key.group) else {
        return false;
    };
    mark(ranges, &numbers, with);
    true
}

/// Marks all of a gang to leave: to a cluster, or to be bound nowhere. Returns whether anything was marked.
fn mark_all(job: &mut JobView, to: Option<&ClusterId>) -> bool {
    let with = Releasing {
        to: to.cloned(),
        why: ReasonCode::Moved,
        count: None,
    };
    let mut changed = false;
    for group in job.groups() {
        let Some(ranges) = job.decided.ranges_mut(&group) else {
            continue;
        };
        let there = ranges.iter().filter(|r| Some(&r.cluster) != to).map(|r| r.range);
        let numbers: RangeSet = there.collect();
        mark(ranges, &numbers, &with);
        changed |= !numbers.is_empty();
    }
    changed
}
