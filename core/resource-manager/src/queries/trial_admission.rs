//! Admission on a copy of the facts: what would begin now, and what would begin once preemptible work has given way.

use crate::admission::WithheldCapacity;
use crate::admission::capacity::rooms;
use crate::admission::rounds::{AdmissionRounds, Admitted, admissions, round};
use crate::admission::router::Router;
use crate::admission::second_round::{EnforcedAmounts, SustainedAmounts};
use crate::demand::ask::ask;
use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::division::{Entitled, entitled};
use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use echelon_core_model::class::InstanceClass;
use echelon_core_model::{ClusterId, Kind, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Admission, Held, HoldScope, Holds, Rooms, Turn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Work for which capacity is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialClaimant {
    /// Its pool.
    pub(crate) pool: PoolIdx,
    /// 1 of each kind that it needs.
    pub(crate) needed: Resources,
}

/// The copy, and what is kept from other work.
pub(crate) struct TrialAdmission<'a> {
    pub(crate) facts: &'a FederationFacts,
    pub(crate) ledger: &'a Ledger,
    pub(crate) holds: &'a Holds,
    pub(crate) withheld: &'a [WithheldCapacity],
}

/// What was admitted, and what is left then.
pub(crate) struct TrialAdmitted {
    pub(crate) admissions: Vec<Admission>,
    pub(crate) rooms: Rooms,
}

/// Capacity that preemption would make.
pub(crate) struct FreedCapacity {
    /// Of each pool at each cluster.
    pub(crate) freed: BTreeMap<(ClusterId, PoolIdx), Resources>,
    rooms: Rooms,
}

impl<'a> TrialAdmission<'a> {
    /// Routing on the copy.
    pub(crate) fn router(&self) -> Router<'a> {
        Router::new(self.facts, self.ledger)
    }

    /// What pools are entitled to on the copy.
    pub(crate) fn entitled(&self) -> Entitled {
        entitled(self.facts, self.ledger)
    }

    /// What is left in pools and clusters before anything is admitted.
    pub(crate) fn rooms(&self, first: &Entitled) -> Rooms {
        let sums = self.ledger.pool_sums(self.facts);
        let mut rooms = rooms(self.facts, self.ledger, &sums, first);
        let ledger = self.ledger;
        let closed = HostLimits::of(self.facts, ledger).closed(ledger, |id| ledger.basis().index(id));
        rooms.close(&Arc::new(closed));
        rooms
    }

    /// Admits what there is capacity for.
    pub(crate) fn admit(&self, router: &Router<'_>, first: &Entitled) -> TrialAdmitted {
        let mut rooms = self.rooms(first);
        let asked = |turn: &Turn| ask(self.facts, router.candidates().limits(), turn);
        // What another tree or other clusters would give has not lasted.
        let sustained = SustainedAmounts::default();
        let rounds = AdmissionRounds {
            facts: self.facts,
            ledger: self.ledger,
            holds: self.holds,
            withheld: self.withheld,
            enforced: EnforcedAmounts {
                first,
                sustained: &sustained,
            },
            is_full: false,
            with_rest: false,
            most_jobs: usize::MAX,
        };
        let admissions = admissions(rounds, &mut rooms, (asked, router), |_, _| true).admitted;
        TrialAdmitted { admissions, rooms }
    }

    /// Admits into what preemption has freed. It makes capacity for what pools are entitled to, and for no more.
    pub(crate) fn admit_into(&self, router: &Router<'_>, freed: FreedCapacity) -> TrialAdmitted {
        let mut rooms = freed.rooms;
        let asked = |turn: &Turn| ask(self.facts, router.candidates().limits(), turn);
        let mut first = Admitted::default();
        round(
            self.ledger.queue(),
            (self.holds, HoldScope::Later),
            &mut rooms,
            (&asked, router),
            &mut first,
        );
        TrialAdmitted {
            admissions: first.into_admissions(),
            rooms,
        }
    }

    /// What preemption could free for some work: what other pools have beyond their entitlement at each level up to the
    /// one that is above the work's pool, too, as far as it is preemptible. It is a sum: whole instances free that
    /// much or more, of all kinds that they have.
    pub(crate) fn freed_for(&self, claimants: &[TrialClaimant], first: &Entitled) -> FreedCapacity {
        let mut out = FreedCapacity {
            freed: BTreeMap::new(),
            rooms: self.rooms(first),
        };
        for claimant in claimants {
            self.free(*claimant, first, &mut out);
        }
        out
    }

    fn free(&self, claimant: TrialClaimant, first: &Entitled, out: &mut FreedCapacity) {
        let hierarchy = &self.facts.hierarchy;
        let rooms = &mut out.rooms;
        let chain = |pool: PoolIdx| std::iter::once(pool).chain(hierarchy.above(pool));
        let above: BTreeSet<PoolIdx> = chain(claimant.pool).collect();
        let firm: BTreeMap<PoolIdx, Resources> = self
            .ledger
            .known()
            .map(|(pool, of)| (pool, of.held().firm))
            .collect();
        let clusters: BTreeSet<&ClusterId> = self.facts.clusters.keys().collect();
        let takes_work = |cluster: &ClusterId| {
            self.facts
                .clusters
                .get(cluster)
                .is_some_and(ClusterView::takes_work)
        };
        // Capacity of a cluster that takes no work is of use to pools only.
        let held = self.ledger.held_at(&clusters).into_iter();
        let (useful, others): (Vec<_>, Vec<_>) = held.partition(|((cluster, _), _)| takes_work(cluster));
        for ((cluster, pool), there) in useful.into_iter().chain(others) {
            if above.contains(&pool) {
                continue;
            }
            let between = chain(pool).take_while(|i| !above.contains(i));
            let beyond = between.fold(Resources::MAX, |least, i| {
                least.min_each(rooms.taken(i).0.minus(first.ordinary.amount(i)))
            });
            let firm = firm.get(&pool).copied().unwrap_or_default();
            let may_go = rooms.taken(pool).0.minus(firm);
            let before = out.freed.get(&(cluster.clone(), pool)).copied();
            let there = there.minus(before.unwrap_or_default());
            let freed = part_of(there, beyond.min_each(may_go), claimant.needed).min_each(may_go);
            if !freed.is_zero() {
                rooms.release_pool(pool, Held::plain(freed, Resources::ZERO));
                rooms.release_cluster(&cluster, freed);
                let sum = out.freed.entry((cluster, pool)).or_default();
                *sum = sum.plus(freed);
            }
        }
    }

    /// How many of what was admitted the hosts of each cluster hold, as far as shards have reported that.
    /// Several rounds may have admitted together more than that.
    pub(crate) fn on_hosts(&self, router: &Router<'_>, admission: &Admission) -> BTreeMap<ClusterId, u64> {
        let mut at: BTreeMap<ClusterId, u64> = BTreeMap::new();
        let more = admission.more.iter().map(|(cluster, _, n)| (cluster, *n));
        for (cluster, n) in more.chain(admission.bind.iter().map(|(cluster, n)| (cluster, *n))) {
            let sum = at.entry(cluster.clone()).or_default();
            *sum = sum.saturating_add(n);
        }
        let job = self.facts.jobs.get(&admission.job);
        let spec = job
            .and_then(|job| job.spec.as_deref())
            .filter(|spec| spec.gang.is_none());
        let index = spec.and_then(|spec| spec.groups.iter().position(|g| g.name == admission.group));
        let class = spec.zip(index).and_then(|(spec, index)| {
            let class = InstanceClass::of(spec, spec.groups.get(index)?)?;
            Some((index, class))
        });
        let Some((index, class)) = class else {
            return at;
        };
        for (cluster, n) in &mut at {
            let there = self.ledger.allocated(admission.job, cluster, index);
            let limits = router.candidates().limits();
            if let Some(most) = limits.more(cluster, class.digest(), &class, there) {
                *n = most.min(*n);
            }
        }
        at
    }
}

/// The part of `there` that is gone when the pool has lost what is `beyond` its own, in one of the kinds that
/// are needed: instances release all kinds that they have.
fn part_of(there: Resources, beyond: Resources, needed: Resources) -> Resources {
    let share = |kind: Kind| {
        let (gone, all) = (beyond.get(kind).min(there.get(kind)), there.get(kind));
        (needed.get(kind) > 0 && all > 0).then_some((gone, all))
    };
    let larger = |a: &(u64, u64), b: &(u64, u64)| {
        let product = |x: u64, y: u64| u128::from(x).saturating_mul(u128::from(y));
        product(a.0, b.1).cmp(&product(b.0, a.1))
    };
    let Some((gone, all)) = Kind::ALL.into_iter().filter_map(share).max_by(larger) else {
        return Resources::ZERO;
    };
    Kind::ALL.into_iter().fold(Resources::ZERO, |out, kind| {
        let part = u128::from(there.get(kind)).saturating_mul(u128::from(gone));
        let part = part.checked_div(u128::from(all)).unwrap_or_default();
        out.with(kind, u64::try_from(part).unwrap_or(u64::MAX))
    })
}
