//! Routing for admission: which clusters get the instances that are admitted. `binding` chooses their
//! indexes.
//!
//! Admission asks the [`Router`] for clusters within its remaining capacity. What it admits is bound at once,
//! and its grant is sent when the binding is stored. Beside that, only running batch work has indexes bound
//! ahead. So the next instance follows one that ends without a write. Indexes are bound ahead in chunks that
//! halve, so the number of writes grows with the logarithm of the count.

use crate::admission::candidates::Candidates;
use crate::demand::ledger::Ledger;
use crate::demand::request::unit_of;
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::class::InstanceClass;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, JobId, Reason, ReasonCode, Resources};
use echelon_core_pools::{Request, Rooms, Route, Side, Unit};
use echelon_core_routing::{Candidate, Demand, HomeKey, Part, Share, filter, refusal, route, route_whole};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What routing needs to know of a group.
#[must_use]
pub fn demand<'a>(home: HomeKey, spec: &'a JobSpec, group: &GroupSpec) -> Demand<'a> {
    Demand {
        home,
        choice: &spec.clusters,
        shape: group.room(),
        instances: u64::from(group.instances),
    }
}

/// A group with instances that need clusters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupOf<'a> {
    pub(crate) id: JobId,
    pub(crate) spec: &'a JobSpec,
    pub(crate) group: &'a GroupSpec,
}

/// Which clusters a group may get, and how much of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within<'a> {
    /// How much of the group each has already.
    pub(crate) have: &'a [(ClusterId, u64)],
    /// None of these.
    pub(crate) avoid: &'a [ClusterId],
    /// The capacity that is left.
    pub(crate) rooms: &'a Rooms,
    /// Into how many parts it is divided, of which the group gets one.
    pub(crate) parts: u64,
}

/// Chooses clusters for instances that are bound nowhere, or that are to leave a cluster.
#[derive(Debug)]
pub(crate) struct Router<'a> {
    facts: &'a FederationFacts,
    ledger: &'a Ledger,
    /// A job that is not submitted: the one of a plan.
    planned: Option<(JobId, &'a JobView)>,
    candidates: Arc<Candidates>,
}

impl<'a> Router<'a> {
    /// One over the clusters of a snapshot.
    pub(crate) fn new(facts: &'a FederationFacts, ledger: &'a Ledger) -> Self {
        Self::of(facts, ledger, &Arc::new(Candidates::new(facts, ledger)))
    }

    /// One over clusters that are known.
    pub(crate) fn of(facts: &'a FederationFacts, ledger: &'a Ledger, candidates: &Arc<Candidates>) -> Self {
        Self {
            facts,
            ledger,
            planned: None,
            candidates: Arc::clone(candidates),
        }
    }

    /// The same, which knows one more job.
    pub(crate) fn with(self, id: JobId, job: &'a JobView) -> Self {
        Self {
            planned: Some((id, job)),
            ..self
        }
    }

    /// What is known.
    pub(crate) const fn facts(&self) -> &'a FederationFacts {
        self.facts
    }

    /// The sums that it uses.
    pub(crate) const fn ledger(&self) -> &'a Ledger {
        self.ledger
    }

    pub(crate) fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    fn job(&self, id: JobId) -> Option<&'a JobView> {
        let planned = self.planned.filter(|(of, _)| *of == id).map(|(_, job)| job);
        planned.or_else(|| self.facts.jobs.get(&id))
    }

    fn spec(&self, id: JobId) -> Option<&'a JobSpec> {
        self.job(id)?.spec.as_deref()
    }

    fn demand<'s>(&self, id: JobId, spec: &'s JobSpec, group: &GroupSpec) -> Demand<'s> {
        demand(self.job(id).map(JobView::home).unwrap_or_default(), spec, group)
    }

    /// The clusters that have capacity for a group. Each has one of `parts` of the capacity that `rooms`
    /// leaves it, and no more than its hosts can hold beside what the group has there.
    fn with_capacity(&self, of: GroupOf<'_>, parts: u64, rooms: &Rooms) -> Vec<Candidate> {
        let GroupOf { id, spec, group } = of;
        let unit = unit_of(self.facts, group);
        let side = side(spec);
        let class = InstanceClass::of(spec, group).map(|class| (class.digest(), class));
        let index = spec.groups.iter().position(|g| g.name == group.name);
        let limits = self.candidates.limits();
        let (passed, _) = filter(
            &self.demand(id, spec, group),
            self.candidates.of(self.candidates.asker(spec, group)),
        );
        let all = passed.into_iter().map(|c| {
            let left = rooms.cluster(&c.id, side, unit);
            let load = self.candidates.load(&c.id, unit.shape, left);
            let count = unit.shape.count_in(left) / parts.max(1);
            let there = index.map_or(0, |i| self.ledger.allocated(id, &c.id, i));
            let more = class
                .as_ref()
                .and_then(|(digest, class)| limits.more(&c.id, *digest, class, there));
            (c, load, more.map_or(count, |more| count.min(more)))
        });
        all.filter(|(_, _, count)| *count > 0)
            .map(|(c, load, count)| Candidate {
                room: unit.shape.times(count),
                load,
                ..c.clone()
            })
            .collect()
    }

    /// The clusters of a group of a gang, with the capacity that `rooms` leaves it. A cluster has none if its
    /// hosts cannot hold `n` instances of the group.
    fn with_all_of(&self, of: GroupOf<'_>, n: u64, rooms: &Rooms) -> Vec<Candidate> {
        let GroupOf { spec, group, .. } = of;
        let (unit, side) = (unit_of(self.facts, group), side(spec));
        let class = InstanceClass::of(spec, group).map(|class| (class.digest(), class));
        let clusters = self.candidates.of(self.candidates.asker(spec, group)).iter();
        let capacity = |c: &Candidate| {
            let limits = self.candidates.limits();
            let more = class
                .as_ref()
                .and_then(|(digest, class)| limits.more(&c.id, *digest, class, 0));
            let holds_all = more.is_none_or(|more| n <= more);
            if holds_all {
                rooms.cluster(&c.id, side, unit)
            } else {
                Resources::ZERO
            }
        };
        clusters
            .map(|c| Candidate {
                room: capacity(c),
                load: self
                    .candidates
                    .load(&c.id, unit.shape, rooms.cluster(&c.id, side, unit)),
                ..c.clone()
            })
            .collect()
    }

    /// Clusters for at most `n` instances of a group.
    pub(crate) fn places(&self, of: GroupOf<'_>, n: u64, within: Within<'_>) -> Vec<Share> {
        let unit = unit_of(self.facts, of.group);
        // Mostly all clusters are full.
        let may_fit = || unit.shape.fits(within.rooms.most_left(side(of.spec)));
        if n == 0 || !may_fit() {
            return Vec::new();
        }
        let clusters = self.with_capacity(of, within.parts, within.rooms);
        if clusters.is_empty() {
            return Vec::new();
        }
        let have: BTreeMap<ClusterId, u64> = within.have.iter().cloned().collect();
        let order = self.candidates.order();
        route(
            &self.demand(of.id, of.spec, of.group),
            n,
            &have,
            within.avoid,
            &clusters,
            order,
        )
        .shares
    }

    /// Whether a group may use a cluster beside these, with capacity or without.
    pub(crate) fn may_use_others(&self, of: GroupOf<'_>, but: &[ClusterId]) -> bool {
        let clusters = self.candidates.of(self.candidates.asker(of.spec, of.group));
        let (passed, _) = filter(&self.demand(of.id, of.spec, of.group), clusters);
        passed.iter().any(|c| !but.contains(&c.id))
    }

    /// Why a group may use no cluster beside these.
    pub(crate) fn refusal_but(&self, of: GroupOf<'_>, but: &[ClusterId]) -> Reason {
        let clusters = self.candidates.of(self.candidates.asker(of.spec, of.group));
        let others = clusters.iter().filter(|c| !but.contains(&c.id));
        let others: Vec<Candidate> = others.cloned().collect();
        let refusal = refusal(&self.demand(of.id, of.spec, of.group), &others);
        refusal.unwrap_or_else(|| Reason::new(ReasonCode::NoCluster))
    }

    /// A cluster for that many instances of each group together, none of `avoid`. With `rooms` it must have
    /// the capacity that `rooms` leaves. Without `rooms`, any cluster counts that could ever hold all of it.
    pub(crate) fn place_whole(
        &self,
        id: JobId,
        spec: &JobSpec,
        count: impl Fn(&GroupSpec) -> u64,
        avoid: &[ClusterId],
        rooms: Option<&Rooms>,
    ) -> Result<Option<ClusterId>, Reason> {
        let lists: Vec<Vec<Candidate>> = spec
            .groups
            .iter()
            .map(|g| match rooms {
                Some(rooms) => self.with_all_of(GroupOf { id, spec, group: g }, count(g), rooms),
                None => self.candidates.of(self.candidates.asker(spec, g)).to_vec(),
            })
            .collect();
        let parts: Vec<Part<'_>> = spec
            .groups
            .iter()
            .zip(&lists)
            .map(|(g, clusters)| Part {
                demand: self.demand(id, spec, g),
                count: count(g),
                clusters,
            })
            .collect();
        let capacity = self.candidates.capacity();
        let whole = route_whole(&parts, capacity, avoid, self.candidates.order())?;
        Ok((whole.has_room || rooms.is_none()).then_some(whole.cluster))
    }

    /// All clusters that could take the unbound part of a request, in the order that its job prefers. Those
    /// that have their share of the group already are left out.
    pub(crate) fn all_places(&self, request: &Request) -> Vec<ClusterId> {
        let Some(spec) = self.spec(request.job) else {
            return Vec::new();
        };
        if request.gang.is_empty() {
            let Some(group) = spec.group(&request.group) else {
                return Vec::new();
            };
            let demand = self.demand(request.job, spec, group);
            let clusters = self.candidates.of(self.candidates.asker(spec, group));
            let (passed, _) = filter(&demand, clusters);
            let ordered = self.candidates.order().sort(&demand, &passed);
            let takes =
                |c: &&Candidate| !request.avoid.contains(&c.id) && more_by_share(&demand, request, &c.id) > 0;
            return ordered.into_iter().filter(takes).map(|c| c.id.clone()).collect();
        }
        let count = |group: &GroupSpec| count_of(request, group);
        let mut out = Vec::new();
        let mut avoid = request.avoid.clone();
        // Skip clusters that could not hold all of a group.
        for group in &spec.groups {
            let n = count(group);
            let class = InstanceClass::of(spec, group).map(|class| (class.digest(), class));
            let clusters = self.candidates.of(self.candidates.asker(spec, group)).iter();
            avoid.extend(clusters.map(|c| c.id.clone()).filter(|id| {
                let held = class
                    .as_ref()
                    .and_then(|(digest, class)| self.candidates.limits().more(id, *digest, class, 0));
                held.is_some_and(|held| held < n)
            }));
        }
        while let Ok(Some(cluster)) = self.place_whole(request.job, spec, count, &avoid, None) {
            avoid.push(cluster.clone());
            out.push(cluster);
        }
        out
    }

    /// How many more of a group a cluster could hold if nothing else ran there, by its hosts and by the job's
    /// own rules of division. `None`: no bound is known.
    pub(crate) fn most_there(&self, request: &Request, cluster: &ClusterId) -> Option<u64> {
        let spec = self.spec(request.job)?;
        let group = spec.group(&request.group)?;
        let by_hosts = self.most_on_hosts(request, cluster);
        if !spec.clusters.bounds_clusters() {
            return by_hosts;
        }
        let by_share = more_by_share(&self.demand(request.job, spec, group), request, cluster);
        Some(by_hosts.map_or(by_share, |more| more.min(by_share)))
    }

    fn most_on_hosts(&self, request: &Request, cluster: &ClusterId) -> Option<u64> {
        let spec = self.spec(request.job)?;
        let index = spec.groups.iter().position(|g| g.name == request.group)?;
        let class = InstanceClass::of(spec, spec.groups.get(index)?)?;
        let there = self.ledger.allocated(request.job, cluster, index);
        let limits = self.candidates.limits();
        limits.more(cluster, class.digest(), &class, there)
    }

    /// Whether every cluster that could take more of a group has its share of it.
    pub(crate) fn is_share_used(&self, request: &Request) -> bool {
        let found = self
            .spec(request.job)
            .and_then(|spec| Some((spec, spec.group(&request.group)?)));
        let Some((spec, group)) = found.filter(|(spec, _)| spec.clusters.bounds_clusters()) else {
            return false;
        };
        let demand = self.demand(request.job, spec, group);
        let clusters = self.candidates.of(self.candidates.asker(spec, group));
        let (passed, _) = filter(&demand, clusters);
        let mut open = passed.iter().filter(|c| !request.avoid.contains(&c.id));
        open.all(|c| more_by_share(&demand, request, &c.id) == 0)
    }

    /// Why no cluster can ever take what a group requests; `None` where one can.
    pub(crate) fn refusal(&self, id: JobId, spec: &JobSpec, group: &GroupSpec) -> Option<Reason> {
        if spec.gang.is_some() {
            let whole = self.place_whole(id, spec, |g| u64::from(g.instances), &[], None);
            return whole.err();
        }
        let clusters = self.candidates.of(self.candidates.asker(spec, group));
        refusal(&self.demand(id, spec, group), clusters)
    }
}

/// How many more instances of a group a cluster may get by the job's own rules of division.
fn more_by_share(demand: &Demand<'_>, request: &Request, cluster: &ClusterId) -> u64 {
    let have = request.have.iter().find(|(id, _)| id == cluster);
    let have = have.map_or(0, |(_, n)| *n);
    demand.choice.most_on_one(demand.instances).saturating_sub(have)
}

/// How many of a group a gang's request is about.
fn count_of(request: &Request, group: &GroupSpec) -> u64 {
    let of_group = request.gang.iter().filter(|m| m.group == group.name);
    of_group.map(|m| m.more.saturating_add(m.unbound)).sum()
}

impl Route for Router<'_> {
    fn route(&self, request: &Request, n: u64, parts: u64, rooms: &Rooms) -> Vec<(ClusterId, u64)> {
        let Some(spec) = self.spec(request.job) else {
            return Vec::new();
        };
        if !request.gang.is_empty() {
            let count = |group: &GroupSpec| count_of(request, group);
            let whole = self.place_whole(request.job, spec, count, &request.avoid, Some(rooms));
            let cluster = whole.ok().flatten();
            return cluster.map(|c| (c, 1)).into_iter().collect();
        }
        let Some(group) = spec.group(&request.group) else {
            return Vec::new();
        };
        let of = GroupOf {
            id: request.job,
            spec,
            group,
        };
        let within = Within {
            have: &request.have,
            avoid: &request.avoid,
            rooms,
            parts,
        };
        let shares = self.places(of, n, within);
        shares.into_iter().map(|s| (s.cluster, s.count)).collect()
    }
}

pub(crate) const fn side(spec: &JobSpec) -> Side {
    if spec.revocable {
        Side::Revocable
    } else {
        Side::Ordinary
    }
}

/// Takes the capacity of so many instances out of a cluster.
pub(crate) fn take(rooms: &mut Rooms, cluster: &ClusterId, spec: &JobSpec, unit: Unit, n: u64) {
    rooms.take_cluster(cluster, side(spec), unit, n);
}
