//! Capacity that is left in pools and clusters.

use crate::demand::ledger::Ledger;
use crate::demand::moving::take_for_those_under_way;
use crate::division::Entitled;
use crate::facts::FederationFacts;
use crate::facts::capacity::left;
use echelon_core_pools::{HostPoolIdx, PoolSums, Rooms};
use std::sync::Arc;

/// What is left in pools and clusters within what pools are entitled to. `sums` is what the jobs of the ledger
/// have.
#[must_use]
pub fn rooms(facts: &FederationFacts, ledger: &Ledger, sums: &PoolSums, entitled: &Entitled) -> Rooms {
    let clusters = facts.clusters.iter().map(|(id, c)| {
        let taken = |on: Option<HostPoolIdx>| {
            let taken = ledger.use_on(id, on);
            if on.is_none() { taken.or_used(c) } else { taken }
        };
        let room = c.takes_work().then(|| left(c, &facts.host_pools, taken));
        (id.clone(), room)
    });
    let hierarchy = Arc::clone(&facts.hierarchy);
    let mut out = Rooms::new(hierarchy, facts.lent_kinds(), clusters.collect());
    out.take_sums(sums);
    for (pool, user, has) in ledger.users() {
        out.user_takes(pool, user, has);
    }
    out.entitle(&entitled.ordinary, &entitled.lent);
    take_for_those_under_way(facts, ledger, &mut out);
    out
}
