//! Without a resource manager (law 7). Once none was heard for as long as grants hold, instances are begun inside the stored parts of
//! pool reservations and nowhere else: those of a pool by priority, then age, while what is active here of it, and of every pool
//! above it, stays inside its part. What is begun so is counted for ever in the slice's row: grants that do not know of it yet, late or
//! of an earlier size, stop none of it.

use crate::group::Group;
use crate::journal::Lane;
use crate::{Phase, Shard};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::job::Desired;
use echelon_core_model::part::PoolParts;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::time::Span;
use echelon_core_model::{Generation, JobId, RangeSet, Reason, ReasonCode, Resources, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// While alone, what has become free is given out this often.
const EVERY: Span = Span::seconds(1);

/// Being without a resource manager.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    /// Since when this leadership listens: silence from before was our own.
    pub(crate) since: Timestamp,
    /// When parts are looked at next, while alone.
    look_at: Option<Timestamp>,
}

/// What a pool has here while its shard is alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolHere {
    /// Its path.
    pub path: String,
    /// Ordinary room of its active instances, and of those of pools below it.
    pub active: Resources,
    /// Its part.
    pub part: Resources,
}

impl Shard {
    /// Takes parts in. They are in use at once: until they are stored, and told, the resource manager counts both these and the ones before.
    pub(crate) fn obey_parts(&mut self, parts: PoolParts) {
        if parts.number > self.own.parts.number {
            self.own.parts = parts;
            self.journal.touch(Lane::OWN, self.now, Span::ZERO);
        }
        let obeyed = self.parts_obeyed();
        let links = self.links.proven();
        self.enqueue(links.into_iter().map(|l| (l, obeyed.clone())).collect());
    }

    pub(crate) fn parts_obeyed(&self) -> ReportPart {
        ReportPart::Parts(self.own.parts.clone())
    }

    /// From when on parts are of use, unless a resource manager is heard before.
    pub(crate) fn alone_from(&self) -> Option<Timestamp> {
        let heard = self.orders.heard_at.unwrap_or_default().max(self.alone.since);
        let serving = self.phase == Phase::Serving && !self.is_recovering();
        (serving && self.own.parts.number > 0).then(|| heard.plus(self.own.parts.after))
    }

    /// Whether no resource manager was heard for so long that every grant has expired.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone_from().is_some_and(|at| self.now >= at)
    }

    pub(crate) fn next_alone(&self) -> Option<Timestamp> {
        let from = self.alone_from()?;
        Some(self.alone.look_at.map_or(from, |at| at.max(from)))
    }

    /// Gives out what parts leave, when it is time; and nothing more once a resource manager is heard.
    pub(crate) fn keep_alone(&mut self) {
        if !self.is_alone() {
            if self.alone.look_at.take().is_some() {
                self.set_in_part(&BTreeMap::new());
            }
            return;
        }
        if self.alone.look_at.is_some_and(|at| self.now < at) {
            return;
        }
        self.alone.look_at = Some(self.now.plus(EVERY));
        let shares = self.shares();
        self.set_in_part(&shares);
    }

    /// Puts what each group may have in force. A group that is not named may begin nothing.
    fn set_in_part(&mut self, shares: &BTreeMap<u32, Share>) {
        let none = Share::default();
        let mut changed = BTreeSet::new();
        for (number, group) in &mut self.picture.groups {
            let share = shares.get(number).unwrap_or(&none);
            if group.in_part != *share {
                group.in_part = share.clone();
                changed.insert(*number);
            }
        }
        if !changed.is_empty() {
            self.placing.hungrier(self.now, self.config.timing.commit_delay);
        }
        self.picture.restless.extend(&changed);
        self.picture.unreported.extend(changed);
    }

    /// What every group may have. `O(groups)`.
    fn shares(&self) -> BTreeMap<u32, Share> {
        let mut out = BTreeMap::new();
        // What is active of an unknown pool may be of any.
        let Some(active) = self.active_by_pool() else {
            return out;
        };
        let parts = self.own.parts.room.iter();
        let mut left: BTreeMap<&str, Resources> = parts
            .map(|(path, part)| {
                let active = active.get(path.as_str()).copied().unwrap_or_default();
                (path.as_str(), part.minus(active))
            })
            .collect();
        for (_, _, number) in self.waiting_in_order() {
            let group = self.picture.groups.get(&number);
            let known = group.and_then(|g| Some((g, g.spec.as_deref()?, g.group_spec()?)));
            if let Some(of) = known {
                out.insert(number, share(of, &mut left));
            }
        }
        out
    }

    /// Groups with instances that wait to be granted: priority, age.
    fn waiting_in_order(&self) -> BTreeSet<(Reverse<u32>, JobId, u32)> {
        let groups = self.picture.groups.iter();
        let waiting = groups.filter(|(_, g)| {
            let running = g
                .wish
                .as_ref()
                .is_some_and(|w| w.goal.desired == Desired::Running);
            running && g.startable.values().any(|set| !set.is_empty())
        });
        waiting
            .filter_map(|(n, g)| Some((Reverse(g.spec.as_ref()?.precedence()), g.job(), *n)))
            .collect()
    }

    /// Ordinary room of what is active here, by pool and by every pool above; `None` while that is not known of something.
    fn active_by_pool(&self) -> Option<BTreeMap<&str, Resources>> {
        let mut out: BTreeMap<&str, Resources> = BTreeMap::new();
        let lends = self.hosts.capacity(self.now).slack.total;
        for group in self.picture.groups.values() {
            let active: u64 = group.tallies.values().map(|t| t.active).sum();
            if active == 0 {
                continue;
            }
            let (job, spec) = (group.spec.as_deref()?, group.group_spec()?);
            let room = if job.revocable {
                spec.room().minus(spec.room().lent_part(lends))
            } else {
                spec.room()
            };
            for path in lineage(&job.pool) {
                let sum = out.entry(path).or_default();
                *sum = sum.plus(room.times(active));
            }
        }
        Some(out)
    }

    /// What pools have here of their parts, for checkers; `None` while the spec of something is not read. `O(groups)`.
    #[must_use]
    pub fn pools_here(&self) -> Option<Vec<PoolHere>> {
        let active = self.active_by_pool()?;
        let parts = self.own.parts.room.iter();
        let here = parts
            .map(|(path, part)| PoolHere {
                path: path.clone(),
                active: active.get(path.as_str()).copied().unwrap_or_default(),
                part: *part,
            })
            .collect();
        Some(here)
    }

    /// The parts of pool reservations that it obeys.
    #[must_use]
    pub const fn pool_parts(&self) -> &PoolParts {
        &self.own.parts
    }
}

/// What parts allow of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Share {
    /// How many may be active, by generation; of one that is not named no more than are.
    pub(crate) active: BTreeMap<Generation, u64>,
    /// Why the others wait.
    pub(crate) why: Option<Reason>,
}

/// A pool's path and those of the pools above it.
fn lineage(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |p| Some(PoolTree::parent(p)).filter(|p| *p != "/"))
}

/// Takes out of `left` what more of a group may begin.
fn share((group, job, spec): (&Group, &JobSpec, &GroupSpec), left: &mut BTreeMap<&str, Resources>) -> Share {
    let mut out = Share::default();
    if !may_be_added(job) {
        out.why = Some(Reason::new(ReasonCode::NoResourceManager));
        return out;
    }
    let there = |left: &BTreeMap<&str, Resources>| {
        let of = |path: &str| left.get(path).copied().unwrap_or_default();
        lineage(&job.pool)
            .map(of)
            .fold(Resources::MAX, Resources::min_each)
    };
    let mut most = most_more(group, spec);
    for (generation, set) in &group.startable {
        let active = group.tallies.get(generation).map_or(0, |t| t.active);
        let fits = spec.room().count_in(there(left));
        let n = set.count().min(most(*generation, active)).min(fits);
        for path in lineage(&job.pool) {
            if let Some(room) = left.get_mut(path) {
                *room = room.minus(spec.room().times(n));
            }
        }
        out.active.insert(*generation, active.saturating_add(n));
    }
    let reason = Reason::new(ReasonCode::NoResourceManager).at(format!("part of pool {}", job.pool));
    let there = there(left);
    out.why = Some(match spec.room().first_lack(there) {
        Some(kind) => reason.short(Shortfall {
            kind,
            have: there.get(kind),
            need: spec.room().get(kind),
        }),
        None => reason,
    });
    out
}

/// Work that parts are for: ordinary room is reserved, not lent room; bounds on controllers are not given out in parts; and a part of a
/// gang is of no use.
const fn may_be_added(job: &JobSpec) -> bool {
    !job.revocable && !job.controller && job.gang.is_none()
}

/// How many more may begin of a slice by its group's `max_running`: all of that where the whole group is here, else no more than was
/// granted, as others may have the rest.
fn most_more<'a>(group: &'a Group, spec: &GroupSpec) -> impl FnMut(Generation, u64) -> u64 + use<'a> {
    let (most, all) = if group.homes.is_some() {
        // A daemon's numbers are bounded by its hosts.
        (u64::MAX, u64::MAX)
    } else {
        (u64::from(spec.most_active()), u64::from(spec.instances))
    };
    let here: u64 = group.row.ranges.iter().map(|r| r.range.count()).sum();
    let active: u64 = group.tallies.values().map(|t| t.active).sum();
    let mut left = most.saturating_sub(active);
    move |generation, active| {
        if most < all && here < all {
            return group.granted(generation).saturating_sub(active);
        }
        let waiting = group.startable.get(&generation).map_or(0, RangeSet::count);
        let n = left.min(waiting);
        left -= n;
        n
    }
}
