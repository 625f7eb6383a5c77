//! The pools that use the clusters where a group waits in vain: its pool is entitled to capacity there,
//! there is none, and no pool that has some of it exceeds its own entitlement.
//! It is shown with the reason why the group waits.

use crate::facts::FederationFacts;
use crate::preemption::PreemptionInputs;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, GroupName, JobId};
use echelon_core_pools::hierarchy::PoolIdx;
use echelon_core_pools::{Request, Rooms, Side};
use std::collections::{BTreeMap, BTreeSet};

/// Most pools that are named.
const NAMED: usize = 3;

/// The pools that use each cluster where a group waits in vain, as text.
pub(crate) type Holders = BTreeMap<ClusterId, Box<str>>;

/// What is shown to groups that wait in vain. `O(jobs)`, and only when there are such groups.
pub(crate) fn holders(
    known: PreemptionInputs<'_>,
    rooms: &Rooms,
    in_vain: &[Request],
) -> BTreeMap<(JobId, GroupName), Holders> {
    let slices = in_vain.iter().flat_map(|r| &r.slices);
    let clusters: BTreeSet<&ClusterId> = slices.map(|s| &s.cluster).collect();
    if clusters.is_empty() {
        return BTreeMap::new();
    }
    let held = known.ledger.held_at(&clusters);
    let mut out = BTreeMap::new();
    for request in in_vain {
        let slices = request.slices.iter().map(|s| &s.cluster);
        let told = slices.filter_map(|c| Some((c.clone(), told(known.facts, rooms, &held, request, c)?)));
        let told: Holders = told.collect();
        // All groups of a gang wait as one.
        let groups = request.gang.iter().map(|m| &m.group).chain([&request.group]);
        out.extend(groups.map(|group| ((request.job, group.clone()), told.clone())));
    }
    out
}

/// The pools that have most of the first kind of which there is too little.
fn told(
    facts: &FederationFacts,
    rooms: &Rooms,
    held: &BTreeMap<(ClusterId, PoolIdx), Resources>,
    request: &Request,
    cluster: &ClusterId,
) -> Option<Box<str>> {
    let left = rooms.cluster(cluster, Side::Ordinary, request.unit);
    let kind = request.unit.shape.first_lack(left)?;
    let there = held.range((cluster.clone(), 0)..=(cluster.clone(), PoolIdx::MAX));
    let mut pools: Vec<(u64, &str)> = there
        .filter_map(|((_, pool), has)| {
            let pool = facts.hierarchy.pool(*pool)?;
            Some((has.get(kind), pool.path.as_str()))
        })
        .filter(|(has, _)| *has > 0)
        .collect();
    pools.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    let named = pools.iter().take(NAMED);
    let mut words: Vec<String> = named
        .map(|(has, path)| format!("{path} has {} {kind}", kind.show(*has)))
        .collect();
    let others: u64 = pools.iter().skip(NAMED).map(|(has, _)| *has).sum();
    if others > 0 {
        let n = pools.len() - NAMED;
        words.push(format!("{n} more have {} {kind}", kind.show(others)));
    }
    let row = facts.clusters.get(cluster).and_then(|c| c.row.as_ref());
    let name = row.map_or(cluster.as_str(), |row| row.name.as_str());
    (!words.is_empty()).then(|| format!("{name}: {}", words.join(", ")).into())
}
