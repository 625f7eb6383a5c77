//! Rollouts over all clusters: how far each is, by what shards report of their slices; which instances may be
//! updated while canaries wait; and what follows when too many fail. Shards replace instances by themselves,
//! within their allotments of `max_unavailable`.

use crate::facts::FederationFacts;
use crate::facts::group_reports::reports;
use crate::facts::job::JobView;
use crate::lifecycle::head_change::Bid;
use crate::lifecycle::restarts;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::job::Desired;
use echelon_core_model::rollout::{OnFailure, Rollout, RolloutProgress, RolloutState};
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{Few, GroupName, JobId, RangeSet, Reason, ReasonCode, Timestamp};

/// What shards report of a group, as far as it is of the version that is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Told {
    updated: u64,
    failed: u64,
}

/// The rollout of a job that is under way.
fn wish_under_way(job: &JobView) -> Option<&Rollout> {
    let head = job.head.as_ref()?;
    let wish = head.rare.rollout.as_deref()?;
    let known = job
        .progress
        .as_ref()
        .and_then(|p| p.row.as_ref()?.rollout.as_deref());
    let wanted = head.goal.desired == Desired::Running && wish.is_under_way(known);
    wanted.then_some(wish)
}

/// The same with the spec that it goes to.
#[must_use]
pub fn under_way(job: &JobView) -> Option<(&Rollout, &JobSpec)> {
    let wish = wish_under_way(job)?;
    let version = job.head.as_ref()?.spec_version;
    let spec = job.spec.as_deref().filter(|_| version == job.spec_version)?;
    Some((wish, spec))
}

/// Gives a spec the instances that its groups have beyond their number while a rollout is under way.
/// Returns how many these are. Everything else, from quota to hosts, treats them as any others.
/// When the rollout is over they are scaled away.
pub fn add_surge(job: &JobView, spec: &mut JobSpec) -> Few<GroupName, u32> {
    let mut out = Few::new();
    if wish_under_way(job).is_none() || !spec.kind.runs_for_ever() {
        return out;
    }
    for group in &mut spec.groups {
        let more = spec.update.max_surge.of(group.instances);
        if more > 0 {
            group.instances = group.instances.saturating_add(more);
            out.insert(group.name.clone(), more);
        }
    }
    out
}

/// Instances of a group that are asked for.
fn asked(job: &JobView, group: &GroupSpec) -> u64 {
    let more = job.rare.surge.get(&group.name).copied().unwrap_or_default();
    u64::from(group.instances.saturating_sub(more))
}

/// Active instances of a group beyond those that are asked for, as shards report, as far as a rollout has
/// more than asked for: as many more may be down.
fn surplus(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupSpec) -> u64 {
    let Some(surge) = job.rare.surge.get(&group.name) else {
        return 0;
    };
    let clusters = job.durable.holders.keys();
    let active = clusters.flat_map(|c| reports(facts, id, c, &group.name).map(|r| r.active));
    let more = active.sum::<u64>().saturating_sub(asked(job, group));
    more.min(u64::from(*surge))
}

fn told(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupSpec) -> Told {
    let mut out = Told::default();
    for cluster in job.durable.holders.keys() {
        for report in reports(facts, id, cluster, &group.name).filter(|r| is_about(r, group)) {
            out.updated = out.updated.saturating_add(report.updated);
            out.failed = out.failed.saturating_add(report.update_failures);
        }
    }
    out
}

const fn is_about(report: &SliceReport, group: &GroupSpec) -> bool {
    group.revision != 0 && report.revision == group.revision
}

/// Whether as many instances of a group as are asked for are of the version that is wanted, and available,
/// and no run is of another. While a rollout is paused nothing is due to be replaced, so runs of another
/// version are known by not being counted as updated: an instance beyond the number may be of the new version
/// while one within it is not.
fn is_whole(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupSpec, told: Told) -> bool {
    let clusters = job.durable.holders.keys();
    let mut said = clusters.flat_map(|c| reports(facts, id, c, &group.name));
    let is_new = |r: &SliceReport| is_about(r, group) && r.outdated == 0 && r.live <= r.updated;
    told.updated >= asked(job, group) && said.all(|r| r.live == 0 || is_new(r))
}

/// What became of a job's rollout, with what is over as it was at its end.
#[must_use]
pub fn progress(
    facts: &FederationFacts,
    id: JobId,
    job: &JobView,
    now: Timestamp,
) -> Option<RolloutProgress> {
    let wish = job.head.as_ref()?.rare.rollout.as_deref()?;
    let known = job
        .progress
        .as_ref()
        .and_then(|p| p.row.as_ref()?.rollout.as_deref());
    let before = known.filter(|p| p.number == wish.number);
    let Some((_, spec)) = under_way(job) else {
        return before.cloned();
    };
    let all: Vec<(&GroupSpec, Told)> = spec.groups.iter().map(|g| (g, told(facts, id, job, g))).collect();
    let settled = job.durable == job.decided && job.next_head.is_none();
    let done = settled
        && all
            .iter()
            .all(|(group, told)| is_whole(facts, id, job, group, *told));
    let waits = |(g, told): &(&GroupSpec, Told)| gate((wish, job, spec), g, *told) == Gate::Canaries;
    let waits = all.iter().any(waits);
    let state = match (done, wish.back.is_some(), wish.held.is_some()) {
        (true, true, _) => RolloutState::RolledBack,
        (true, false, _) => RolloutState::Done,
        (false, _, true) => RolloutState::Paused,
        (false, true, false) => RolloutState::RollingBack,
        (false, false, false) if waits => RolloutState::Canary,
        (false, false, false) => RolloutState::Running,
    };
    let why = wish.held.or(wish.back);
    let why = why.or_else(|| (state == RolloutState::Canary).then_some(ReasonCode::RolloutCanary));
    Some(RolloutProgress {
        number: wish.number,
        state,
        since: before.filter(|p| p.state == state).map_or(now, |p| p.since),
        updated: all.iter().map(|(_, t)| t.updated).sum(),
        failed: all.iter().map(|(_, t)| t.failed).sum(),
        reason: why.map(Reason::new),
    })
}

/// How far a rollout reaches within a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// To all.
    Open,
    /// To its canaries, which are not all good yet.
    Closed,
    /// To its canaries, which are good and wait to be accepted.
    Canaries,
}

fn gate((wish, job, spec): (&Rollout, &JobView, &JobSpec), group: &GroupSpec, told: Told) -> Gate {
    let canaries = canaries(job, spec, group);
    let good = told.updated >= u64::from(canaries);
    if canaries == 0 || wish.promoted || wish.back.is_some() || (good && spec.update.auto_promote) {
        Gate::Open
    } else if good {
        Gate::Canaries
    } else {
        Gate::Closed
    }
}

/// How many instances of a group are updated first.
fn canaries(job: &JobView, spec: &JobSpec, group: &GroupSpec) -> u32 {
    let all = u32::try_from(asked(job, group)).unwrap_or(u32::MAX);
    spec.update.canaries.of(all).min(all)
}

/// Instances of a group with smaller indexes may be updated now.
#[must_use]
pub fn reach(facts: &FederationFacts, id: JobId, job: &JobView, name: &GroupName) -> u32 {
    let found = under_way(job).and_then(|(wish, spec)| Some((wish, spec, spec.group(name)?)));
    let Some((wish, spec, group)) = found else {
        return u32::MAX;
    };
    let ordered = if spec.kind == JobKind::Stateful {
        in_order(facts, id, job, group)
    } else {
        u32::MAX
    };
    if gate((wish, job, spec), group, told(facts, id, job, group)) == Gate::Open {
        return ordered;
    }
    let first: RangeSet = job
        .durable
        .assigned(name)
        .lowest(canaries(job, spec, group).into());
    let canaries = first.ranges().last().map_or(0, |r| r.last.saturating_add(1));
    canaries.min(ordered)
}

/// How far stateful instances may be updated: as many as may be down, in the order of their indexes, from the
/// lowest that is not good with the new version. Of a cluster without a report of this
/// version the lowest index counts.
fn in_order(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupSpec) -> u32 {
    let clusters = job.durable.holders.keys();
    let first = clusters.filter_map(|cluster| {
        let ranges = job.durable.ranges(&group.name).iter();
        let lowest = ranges
            .filter(|r| r.cluster == *cluster)
            .map(|r| r.range.first)
            .min()?;
        let view = facts.clusters.get(cluster);
        let word = view.and_then(|v| v.words.get(&(id, group.name.clone())));
        match word.filter(|w| w.revision == group.revision) {
            Some(word) => word.first_behind,
            None => Some(lowest),
        }
    });
    let first = first.min();
    let all = u32::try_from(asked(job, group)).unwrap_or(u32::MAX);
    first.map_or(u32::MAX, |n| n.saturating_add(group.most_unavailable(all).max(1)))
}

/// What a group's `max_unavailable` allows, of the instances that are asked for.
#[must_use]
pub fn may_be_down(job: &JobView, group: &GroupSpec) -> u32 {
    group.most_unavailable(u32::try_from(asked(job, group)).unwrap_or(u32::MAX))
}

/// Most instances of a group that may be down at once, for any reason of ours.
/// An instance that runs beyond the number while the group is updated makes up for one.
#[must_use]
pub fn most_down(facts: &FederationFacts, id: JobId, job: &JobView, group: &GroupSpec) -> u64 {
    let least = u32::from(job.rare.surge.get(&group.name).is_none());
    let most = u64::from(may_be_down(job, group).max(least));
    let most = most.saturating_add(surplus(facts, id, job, group));
    let batch = under_way(job).and_then(|(_, spec)| spec.update.batch);
    let all = u32::try_from(asked(job, group)).unwrap_or(u32::MAX);
    let most = batch.map_or(most, |b| most.min(b.of(all).max(1).into()));
    restarts::batch(job).map_or(most, |b| most.min(b.max(1).into()))
}

/// A rollout that is over blocks nothing, also when it was paused in the moment in which it ended.
pub(crate) fn on_end(job: &JobView) -> Option<Bid> {
    let head = job
        .head
        .as_ref()
        .filter(|_| job.is_live() && job.next_head.is_none())?;
    let wish = head.rare.rollout.as_deref().filter(|wish| wish.held.is_some())?;
    let known = job.progress.as_ref()?.row.as_ref()?.rollout.as_deref();
    let over = known.is_some_and(|p| p.number == wish.number && p.state.is_over());
    (over && head.goal.desired == Desired::Running).then_some(Bid::LetGo)
}

/// What follows when more instances have failed with the new version than may.
/// A newer head that waits for its spec decides first.
pub(crate) fn on_failures(facts: &FederationFacts, id: JobId, job: &JobView) -> Option<Bid> {
    let (wish, spec) = under_way(job).filter(|_| job.is_live() && job.next_head.is_none())?;
    if wish.back.is_some() || wish.held.is_some() || spec.update.on_failure == OnFailure::Continue {
        return None;
    }
    let failed: u64 = spec.groups.iter().map(|g| told(facts, id, job, g).failed).sum();
    let all: u64 = spec.groups.iter().map(|g| asked(job, g)).sum();
    let all = u32::try_from(all).unwrap_or(u32::MAX);
    let most = wish
        .forgiven
        .saturating_add(spec.update.max_failures.of(all).into());
    if failed <= most {
        return None;
    }
    Some(match spec.update.on_failure {
        OnFailure::RollBack => Bid::RollBack(wish.base),
        OnFailure::Pause | OnFailure::Continue => Bid::Hold,
    })
}
