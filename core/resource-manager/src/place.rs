//! Where new instances go (a cycle's routing step), and where those go that wait or must leave. Marks are decided here and stored
//! before any shard hears of them.

use crate::candidates::Candidates;
use crate::entry::{is_unplaced, lines};
use crate::marks::{MAX_RANGES, is_of, mark_some, markable, tries, withdraw, withdraw_idle};
use crate::moves::{assign, mark, missing};
use crate::picture::{JobView, Picture, SliceKey};
use crate::refused::refused;
use crate::rollouts;
use crate::{daemons, gangs};
use echelon_core_model::assignment::{AssignedRange, Releasing};
use echelon_core_model::cluster::Wish;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::reason::Layer;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{
    ClusterId, GroupName, JobId, RangeSet, Reason, ReasonCode, Resources, Span, Timestamp,
};
use echelon_core_routing::{Demand, Share, place_elsewhere, route};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What routing needs to know of a group.
#[must_use]
pub fn demand<'a>(id: JobId, spec: &'a JobSpec, group: &GroupSpec) -> Demand<'a> {
    Demand {
        job: id,
        choice: &spec.clusters,
        shape: group.room(),
    }
}

/// Gives every number of a job that has no holder one, or notes why not.
pub fn route_missing(
    picture: &Picture,
    (id, job): (JobId, &mut JobView),
    pool_known: bool,
    clusters: &mut Candidates,
) {
    job.unrouted.clear();
    let Some(spec) = job.running() else {
        return;
    };
    if let Some(reason) = &picture.awaiting {
        let lacking = spec.groups.iter().filter(|g| missing(job, &g.name) > 0);
        let lacking: Vec<GroupName> = lacking.map(|g| g.name.clone()).collect();
        for group in lacking {
            job.unrouted.insert(group, reason.clone());
        }
        return;
    }
    if spec.gang.is_some() && pool_known {
        gangs::route_missing(id, job, &spec, clusters);
        return;
    }
    if spec.kind == JobKind::Daemon && pool_known {
        daemons::assign_missing(picture, id, job, &spec);
        return;
    }
    for group in &spec.groups {
        let n = missing(job, &group.name);
        if n == 0 {
            continue;
        }
        if !pool_known {
            let reason = Reason::new(ReasonCode::PoolNotFound).at(&spec.pool);
            job.unrouted.insert(group.name.clone(), reason);
            continue;
        }
        let mut have: BTreeMap<ClusterId, u64> = BTreeMap::new();
        for r in job.decided.ranges(&group.name) {
            *have.entry(r.cluster.clone()).or_default() += r.range.count();
        }
        let routed = route(
            &demand(id, &spec, group),
            n,
            &have,
            clusters.of(clusters.asker(&spec, group)),
            clusters.homes(),
        );
        if let Some(reason) = routed.refused {
            job.unrouted.insert(group.name.clone(), reason);
            continue;
        }
        let shares: Vec<(ClusterId, u64)> = routed.shares.into_iter().map(|s| (s.cluster, s.count)).collect();
        let asker = clusters.asker(&spec, group);
        for (cluster, n) in &shares {
            clusters.take(
                cluster,
                asker,
                group.room().times((*n).min(u64::from(group.most_active()))),
            );
        }
        let withdrawn = spec.rules.withdrawn(&group.name);
        assign(Arc::make_mut(&mut job.decided), &group.name, &withdrawn, &shares);
    }
}

/// Moves on what cannot run where it is, and what is on a cluster that is to be emptied.
#[derive(Debug)]
pub struct Leave<'a> {
    /// What is known.
    pub picture: &'a Picture,
    /// The time.
    pub now: Timestamp,
    /// Waiting instances that cannot run for this long go elsewhere.
    pub spill_after: Span,
    /// How many more instances may leave draining clusters now.
    pub drain_left: u64,
    /// Clusters with the room that admission has left.
    pub clusters: Candidates,
    /// Whether the last job was changed.
    pub changed: bool,
}

impl Leave<'_> {
    /// Marks what of a job is to leave.
    pub fn run(&mut self, id: JobId, job: &mut JobView) {
        let stuck = job.stuck.len();
        self.changed = false;
        self.mark(id, job);
        self.changed |= stuck != job.stuck.len();
    }

    fn mark(&mut self, id: JobId, job: &mut JobView) {
        let Some(spec) = job.running() else {
            job.stuck.clear();
            return;
        };
        if spec.gang.is_some() {
            self.mark_gang(id, job, &spec);
            return;
        }
        let slices: Vec<SliceKey> = job.slices().into_keys().collect();
        job.stuck.retain(|key, _| slices.contains(key));
        for key in slices {
            let (Some(group), Some(report)) = (spec.group(&key.group), self.picture.report(id, &key)) else {
                continue;
            };
            let report = report.clone();
            if spec.kind != JobKind::Daemon {
                self.changed |= withdraw_idle(job, &key, &report);
            }
            let draining = self
                .picture
                .clusters
                .get(&key.cluster)
                .is_some_and(|c| c.wish() == Wish::Draining);
            if job.durable != job.decided || job.decided.ranges(&key.group).len() > MAX_RANGES {
                continue;
            }
            if spec.kind == JobKind::Daemon {
                self.give_back(id, (job, &key));
                continue;
            }
            if draining {
                self.drain(&demand(id, &spec, group), group, (job, &key), &report);
            } else {
                self.spill(&demand(id, &spec, group), (job, &key), &report);
            }
        }
    }

    /// Takes numbers of a daemon back for which there is no host: of those that wait, which are the ones without. In which range these
    /// are only the shard knows, so each is asked for as many: who gives too many gets others.
    fn give_back(&mut self, id: JobId, (job, key): (&mut JobView, &SliceKey)) {
        let surplus = daemons::surplus(self.picture, id, job, key);
        if surplus == 0 {
            self.changed |= withdraw(job, key);
            return;
        }
        let open = markable(job.decided.ranges(&key.group), key, 0);
        let decided = (!open.is_empty()).then(|| Arc::make_mut(&mut job.decided));
        let Some(ranges) = decided.and_then(|d| d.groups.get_mut(&key.group)) else {
            return;
        };
        for at in open {
            if let Some(r) = ranges.get_mut(at) {
                r.releasing = Some(Releasing {
                    to: None,
                    why: ReasonCode::ScaledDown,
                    count: Some(surplus.min(r.range.count())),
                });
                self.changed = true;
            }
        }
    }

    fn spill(&mut self, demand: &Demand<'_>, (job, key): (&mut JobView, &SliceKey), report: &SliceReport) {
        let refused = self.refused(job, key);
        let (stuck, placed_by_rule) = stuck_count(refused, report);
        if stuck == 0 {
            self.doubt_marks(job, key);
            return;
        }
        let since = *job.stuck.get_or_insert_with(key.clone(), || self.now);
        if self.now.since(since) < self.spill_after {
            return;
        }
        let mut from = vec![key.cluster.clone()];
        // Where a rule about hosts was not met, going back would only meet it again.
        if placed_by_rule {
            let formers = job.durable.ranges(&key.group).iter();
            from.extend(
                formers
                    .filter(|r| is_of(r, key))
                    .filter_map(|r| r.former.clone())
                    .map(|f| f.0),
            );
        }
        let shares = place_elsewhere(
            demand,
            stuck,
            &from,
            self.clusters.of(self.clusters.asker_of(job, key)),
            self.clusters.homes(),
        );
        self.mark_waiting(demand.shape, (job, key), shares, report.unstarted);
    }

    /// A mark by count asks for unstarted numbers of its range. When these have begun meanwhile, while those of other ranges wait, it
    /// asks for ever what nobody can give: it is taken back after a while.
    fn doubt_marks(&mut self, job: &mut JobView, key: &SliceKey) {
        let marked =
            |r: &AssignedRange| is_of(r, key) && r.releasing.as_ref().is_some_and(|m| m.count.is_some());
        if !job.decided.ranges(&key.group).iter().any(marked) {
            job.stuck.remove(key);
            return;
        }
        let since = *job.stuck.get_or_insert_with(key.clone(), || self.now);
        if self.now.since(since) >= Span(self.spill_after.0.saturating_mul(2)) {
            self.changed |= withdraw(job, key);
            job.stuck.remove(key);
        }
    }

    /// How many instances of a slice want more room of its cluster than that has.
    fn refused(&self, job: &JobView, key: &SliceKey) -> u64 {
        let spec = job.running_spec();
        let Some((spec, group)) = spec.and_then(|s| Some((s, s.group(&key.group)?))) else {
            return 0;
        };
        let lines = lines(self.picture, job.decided.job, job);
        let refused = refused(
            self.picture,
            &self.picture.division.rooms,
            job,
            (spec, group),
            &lines,
        )
        .into_iter();
        let of_slice = refused.filter(|r| r.key == *key && goes_elsewhere(r.reason.code));
        of_slice.map(|r| r.count).sum()
    }

    fn drain(
        &mut self,
        demand: &Demand<'_>,
        group: &GroupSpec,
        (job, key): (&mut JobView, &SliceKey),
        report: &SliceReport,
    ) {
        let from = [key.cluster.clone()];
        if report.unstarted > 0 {
            let n = report.unstarted.min(self.drain_left);
            let shares = place_elsewhere(
                demand,
                n,
                &from,
                self.clusters.of(self.clusters.asker_of(job, key)),
                self.clusters.homes(),
            );
            self.drain_left -= shares.iter().map(|s| s.count).sum::<u64>().min(self.drain_left);
            self.mark_waiting(demand.shape, (job, key), shares, report.unstarted);
            return;
        }
        // What has a volume stays with it: moving it would lose what is in it.
        let most = u64::from(rollouts::may_be_down(job, group).max(1));
        let budget = most.saturating_sub(self.unavailable(job, &key.group));
        if group.volume.is_some() || report.active == 0 || budget == 0 {
            return;
        }
        let n = budget.min(self.drain_left);
        let Some(share) = place_elsewhere(
            demand,
            n,
            &from,
            self.clusters.of(self.clusters.asker_of(job, key)),
            self.clusters.homes(),
        )
        .into_iter()
        .next() else {
            return;
        };
        let Some(ranges) = Arc::make_mut(&mut job.decided).groups.get_mut(&key.group) else {
            return;
        };
        let unmarked: RangeSet = ranges
            .iter()
            .filter(|r| is_of(r, key) && r.releasing.is_none())
            .map(|r| r.range)
            .collect();
        let numbers = unmarked.highest(share.count);
        let with = Releasing {
            to: Some(share.cluster.clone()),
            why: ReasonCode::Moved,
            count: None,
        };
        mark(ranges, &numbers, &with);
        self.changed = true;
        self.drain_left -= numbers.count().min(self.drain_left);
        let asker = self.clusters.asker_of(job, key);
        self.clusters
            .take(&share.cluster, asker, demand.shape.times(numbers.count()));
    }

    /// Instances of a group that are being moved and do not run yet: about to be stopped, on their way, or granted and not begun.
    /// What waits for quota is nobody's disruption.
    fn unavailable(&self, job: &JobView, group: &GroupName) -> u64 {
        let id = job.decided.job;
        let slices = job.slices();
        let of_group = slices.iter().filter(|(k, _)| k.group == *group);
        of_group
            .map(|(k, ranges)| {
                let count = self.picture.count(id, k, ranges);
                let granted = job.grants.get(k).map_or(0, |g| g.granted());
                let unheard = if count.reported { 0 } else { count.assigned };
                count.leaving + unheard.max(granted.saturating_sub(count.active))
            })
            .sum()
    }

    /// Puts marks by count on the unmarked ranges of a slice.
    fn mark_waiting(
        &mut self,
        shape: Resources,
        (job, key): (&mut JobView, &SliceKey),
        shares: Vec<Share>,
        unstarted: u64,
    ) {
        let asker = self.clusters.asker_of(job, key);
        let ranges = job.decided.ranges(&key.group).iter();
        let marked: u64 = ranges
            .filter(|r| is_of(r, key))
            .filter_map(|r| r.releasing.as_ref()?.count)
            .sum();
        let mut left = unstarted.saturating_sub(marked);
        let tries = tries(self.now, self.spill_after);
        for share in shares {
            let n = mark_some(job, key, (&share.cluster, share.count.min(left)), tries);
            self.changed |= n > 0;
            self.clusters.take(&share.cluster, asker, shape.times(n));
            left -= n;
        }
    }
}

/// Whether work that waits for this may find elsewhere what it needs.
fn goes_elsewhere(code: ReasonCode) -> bool {
    matches!(code, ReasonCode::NoClusterCapacity | ReasonCode::ClusterCordoned)
        || code.layer() == Layer::Placement
}

/// How many unstarted instances cannot run where they are, and whether a rule about hosts is why.
fn stuck_count(refused: u64, report: &SliceReport) -> (u64, bool) {
    let unplaced = report.waiting.iter().filter(|(r, _, _)| is_unplaced(r.code));
    let unplaced_count: u64 = unplaced.clone().map(|(_, n, _)| n).sum();
    let by_rule = unplaced.clone().any(|(r, _, _)| is_rule(r.code));
    let stuck = unplaced_count.saturating_add(refused);
    (stuck.min(report.unstarted), by_rule)
}

/// Whether a rule about hosts is in the way, and not only room.
fn is_rule(code: ReasonCode) -> bool {
    matches!(
        code,
        ReasonCode::HostConstraint
            | ReasonCode::HostPool
            | ReasonCode::HostKept
            | ReasonCode::HostMaxPer
            | ReasonCode::HostAffinity
            | ReasonCode::HostAntiAffinity
            | ReasonCode::HostExclusive
    )
}
