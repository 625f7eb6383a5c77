//! The attempts to make capacity for a shortage, in order of harm.

use crate::preemption::capacity_left::{CapacityLeft, PoolsLeft, PressedPool};
use crate::preemption::limits::RequestLimits;
use crate::preemption::shortage::{HostsShortage, ShortPlace, Shortage};
use crate::preemption::victims::{VictimCandidates, VictimSource};
use echelon_core_model::{ClusterId, Resources};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Request, SliceRequest};
use std::collections::BTreeSet;

/// One way to make capacity.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The slice that gets the capacity.
    pub(crate) slice: SliceRequest,
    /// For how many units.
    pub(crate) count: u64,
    /// What is stopped. `None`: nothing; one host's capacity is kept as what is there ends.
    pub(crate) stop: Option<StopAttempt>,
}

impl Attempt {
    const fn stop(slice: SliceRequest, count: u64, stop: StopAttempt) -> Self {
        Self {
            slice,
            count,
            stop: Some(stop),
        }
    }
}

/// What an attempt stops.
#[derive(Debug)]
pub(crate) struct StopAttempt {
    /// Where. What the first lacks of victims the next make up for.
    pub(crate) clusters: Vec<ClusterId>,
    pub(crate) lacking: Resources,
    /// Up to so much more is offered, so that the shard has a choice.
    pub(crate) choice: Resources,
    pub(crate) from: VictimSource,
    /// What pools leave, if they lack the capacity. Then it does not matter on which hosts it becomes free.
    pub(crate) left_in_pools: Option<PoolsLeft>,
    /// All that is lacking must become free, or nothing is stopped.
    pub(crate) is_whole: bool,
    /// For how many units capacity is wanted here in the end.
    pub(crate) wanted: u64,
}

/// What may be tried now.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// The first that succeeds is made.
    pub(crate) list: Vec<Attempt>,
    /// More could be tried later: a limit is reached, or there is capacity already.
    pub(crate) more_later: bool,
}

/// Units for which something is stopped at a full cluster.
struct FullClusterUnits<'a> {
    slice: &'a SliceRequest,
    count: u64,
    /// What pools leave.
    left: PoolsLeft,
    from: VictimSource,
    /// For how many units capacity is wanted there in the end.
    wanted: u64,
}

/// What attempts go by.
pub(crate) struct AttemptInputs<'a, 'k> {
    pub(crate) left: &'a CapacityLeft<'k>,
    pub(crate) victims: &'a VictimCandidates<'k>,
    pub(crate) limits: &'a RequestLimits,
    /// Pools within which work is being stopped for other work of them. They get one request at a time:
    /// nothing is offered twice.
    pub(crate) within: &'a BTreeSet<PoolIdx>,
}

impl AttemptInputs<'_, '_> {
    /// The attempts for a shortage.
    pub(crate) fn attempts(&self, shortage: &Shortage) -> Attempts {
        match &shortage.place {
            ShortPlace::Cluster => self.at_clusters(shortage),
            ShortPlace::Pool(pressed) => self.below_pool(shortage, pressed),
            ShortPlace::OwnPool => self.within_pool(shortage),
            ShortPlace::Hosts(of) => self.on_hosts(shortage, *of),
        }
    }

    /// Whether instances may be stopped at a cluster now.
    fn may_stop_at(&self, cluster: &ClusterId) -> bool {
        self.limits.left() > 0 && self.victims.may_look() && self.limits.may_ask(cluster)
    }

    /// How much more than is lacking for so many units is offered.
    fn choice(&self, request: &Request, count: u64) -> Resources {
        let more = count.saturating_mul(7).min((count / 4).max(64));
        let factor = self.left.known.requests.choice_factor(request);
        request.unit.shape.times(more.saturating_mul(factor))
    }

    fn is_within(&self, pool: PoolIdx) -> bool {
        self.left.known.facts.hierarchy.preempts_within(pool) && !self.within.contains(&pool)
    }

    /// Others have more than their own at a full cluster. A part of what a group wants is of use, a part of a
    /// gang is not.
    fn at_clusters(&self, shortage: &Shortage) -> Attempts {
        let request = &shortage.request;
        let mut out = Attempts::default();
        for slice in self.left.places(request) {
            if !self.may_stop_at(&slice.cluster) {
                out.more_later = true;
                continue;
            }
            if !self.left.takes(&slice.cluster) {
                continue;
            }
            let wanted = slice.more.min(shortage.most);
            let count = wanted.min(self.limits.left());
            if count == 0 || self.left.fits_at(&slice.cluster, request.unit) {
                out.more_later = true;
                continue;
            }
            let there = self.left.at(&slice.cluster, request.unit);
            let stop = StopAttempt {
                clusters: vec![slice.cluster.clone()],
                lacking: request.unit.shape.times(count).minus(there),
                choice: self.choice(request, count),
                from: VictimSource::Surplus,
                left_in_pools: None,
                is_whole: !request.gang.is_empty(),
                wanted,
            };
            out.list.push(Attempt::stop(slice, count, stop));
        }
        out
    }

    /// What is stopped at a full cluster for so many units that pools lack as well.
    /// If the pools lack more than the cluster, it may be on any host.
    /// Otherwise hosts must have capacity for the units in the end.
    /// `None`: nothing is lacking.
    fn stop_at_full(&self, shortage: &Shortage, units: FullClusterUnits<'_>) -> Option<StopAttempt> {
        let FullClusterUnits {
            slice,
            count,
            left,
            from,
            wanted,
        } = units;
        let request = &shortage.request;
        let all = request.unit.shape.times(count);
        let there = self.left.at(&slice.cluster, request.unit);
        let (in_pools, at_cluster) = (left.lacking(all), all.minus(there));
        if in_pools.is_zero() && at_cluster.is_zero() {
            return None;
        }
        let left = left.within_cluster(there);
        let left_in_pools = (!in_pools.fits(at_cluster)).then_some(left);
        Some(StopAttempt {
            clusters: vec![slice.cluster.clone()],
            lacking: left_in_pools.map_or(at_cluster, |left| left.lacking(all)),
            choice: match left_in_pools {
                Some(_) => Resources::ZERO,
                None => self.choice(request, count),
            },
            from,
            left_in_pools,
            is_whole: true,
            wanted,
        })
    }

    /// Others below a pool have more than their own, at whatever cluster. All that is wanted comes from one
    /// cluster, or one unit does, or one unit comes from several. If each cluster is full, victims must be
    /// where the group waits: there they release what the cluster lacks, too.
    fn below_pool(&self, shortage: &Shortage, pressed: &PressedPool) -> Attempts {
        let request = &shortage.request;
        let mut out = Attempts::default();
        if self.limits.left() == 0 || !self.victims.may_look() {
            out.more_later = true;
            return out;
        }
        let places = self.left.places(request);
        let (with_capacity, full): (Vec<SliceRequest>, Vec<SliceRequest>) = places
            .into_iter()
            .filter(|s| self.left.takes(&s.cluster))
            .partition(|s| self.left.fits_at(&s.cluster, request.unit));
        let unit = request.unit.shape;
        let left = pressed.left;
        let wanted = |slice: &SliceRequest| slice.more.min(shortage.most).min(pressed.most);
        let mut stop_at = |slice: &SliceRequest, clusters: &[ClusterId], most: u64| {
            let wanted = wanted(slice);
            for count in counts(wanted, left.at_once(most)) {
                let stop = StopAttempt {
                    clusters: clusters.to_vec(),
                    lacking: left.lacking(unit.times(count)),
                    choice: Resources::ZERO,
                    from: VictimSource::SurplusBelow(pressed.pool),
                    left_in_pools: Some(left),
                    is_whole: true,
                    wanted,
                };
                out.list.push(Attempt::stop(slice.clone(), count, stop));
            }
        };
        if let Some(slice) = with_capacity.first() {
            let clusters = self.clusters_below(request, pressed.pool);
            let most = unit.count_in(self.left.at(&slice.cluster, request.unit));
            for cluster in clusters.chunks(1) {
                stop_at(slice, cluster, self.limits.left().min(most));
            }
            if clusters.len() > 1 {
                stop_at(slice, &clusters, 1);
            }
            return out;
        }
        let mut more_later = false;
        for slice in &full {
            if !self.may_stop_at(&slice.cluster) {
                more_later = true;
                continue;
            }
            let wanted = wanted(slice);
            for count in counts(wanted, left.at_once(self.limits.left())) {
                let units = FullClusterUnits {
                    slice,
                    count,
                    left,
                    from: VictimSource::SurplusBelow(pressed.pool),
                    wanted,
                };
                let stop = self.stop_at_full(shortage, units);
                out.list
                    .extend(stop.map(|stop| Attempt::stop(slice.clone(), count, stop)));
            }
        }
        out.more_later = more_later;
        out
    }

    /// Clusters with candidates below a pool, ordered by the rank of the first candidate of each.
    fn clusters_below(&self, request: &Request, pool: PoolIdx) -> Vec<ClusterId> {
        let pools = self.victims.with_surplus(request, Some(pool));
        let clusters = self.left.known.facts.clusters.iter();
        let open = clusters.filter(|(id, view)| view.takes_grants() && self.may_stop_at(id));
        let ranks = open.filter_map(|(id, _)| Some((self.victims.first_at(id, &pools)?, id.clone())));
        let mut out: Vec<_> = ranks.collect();
        out.sort();
        out.into_iter().map(|(_, id)| id).collect()
    }

    /// The pool itself has given its capacity to work of less precedence: all that is wanted, or one unit.
    fn within_pool(&self, shortage: &Shortage) -> Attempts {
        let request = &shortage.request;
        let mut out = Attempts {
            list: Vec::new(),
            more_later: true,
        };
        if !self.is_within(request.pool) {
            return out;
        }
        let left = self.left.left_for(request, self.victims);
        for slice in self.left.places(request) {
            if !self.may_stop_at(&slice.cluster) || !self.left.takes(&slice.cluster) {
                continue;
            }
            let wanted = slice.more.min(shortage.most);
            for count in counts(wanted, left.at_once(self.limits.left())) {
                let units = FullClusterUnits {
                    slice: &slice,
                    count,
                    left,
                    from: VictimSource::OwnPool(shortage.precedence),
                    wanted,
                };
                let stop = self.stop_at_full(shortage, units);
                out.list
                    .extend(stop.map(|stop| Attempt::stop(slice.clone(), count, stop)));
            }
        }
        out
    }

    /// In sum nothing is lacking, and hosts for all of it are. Others lose first, then work of the own pool;
    /// if that is not possible, a host's capacity is kept as what is there ends.
    fn on_hosts(&self, shortage: &Shortage, of: HostsShortage) -> Attempts {
        let request = &shortage.request;
        let mut out = Attempts::default();
        let Some(slice) = request.slices.first() else {
            return out;
        };
        if of.may_stop && !(self.may_stop_at(&slice.cluster) && self.left.takes(&slice.cluster)) {
            out.more_later = true;
            return out;
        }
        let count = shortage.most.min(self.limits.left());
        let own = VictimSource::OwnPool(shortage.precedence);
        let own = self.is_within(request.pool).then_some(own);
        let sources = std::iter::once(VictimSource::Surplus).chain(own);
        for from in sources.filter(|_| of.may_stop) {
            let stop = StopAttempt {
                clusters: vec![slice.cluster.clone()],
                lacking: request.unit.shape.times(count),
                choice: self.choice(request, count),
                from,
                left_in_pools: None,
                is_whole: false,
                wanted: shortage.most,
            };
            out.list.push(Attempt::stop(slice.clone(), count, stop));
        }
        if of.may_keep && self.left.takes(&slice.cluster) && self.limits.may_ask(&slice.cluster) {
            out.list.push(Attempt {
                slice: slice.clone(),
                count: 1,
                stop: None,
            });
        } else {
            out.more_later = of.may_keep;
        }
        out
    }
}

/// For how many units capacity is tried: for as many as may be, or else for one.
fn counts(wanted: u64, left: u64) -> Vec<u64> {
    let mut out = vec![wanted.min(left), 1];
    out.dedup();
    out.retain(|n| (1..=wanted).contains(n));
    out
}
