//! The figures of what hosts lend, in the shape of those of ordinary room, so that both are shown and checked by the same code.

use echelon_clients_rust::v1;
use echelon_proto::convert::quantity::read_resources;

/// How the pools stand in what hosts lend: nobody has reserved any of it, and limits are those of it. `None` when nothing is lent and
/// nobody wants or has any.
pub fn of_lent_room(told: &v1::PoolFigures) -> Option<v1::PoolFigures> {
    let figure = |f: &v1::PoolFigure| {
        let lent = f.lent.clone().unwrap_or_default();
        v1::PoolFigure {
            pool: f.pool.clone().map(|pool| v1::Pool {
                reservation: None,
                limit: pool.revocable_limit,
                kind: v1::PoolKind::Elastic.into(),
                ..pool
            }),
            demand: lent.demand,
            allocated: lent.allocated,
            cap: lent.cap,
            entitlement: lent.entitlement,
            divisions: lent.divisions,
            usable: lent.usable,
            final_entitlement: lent.final_entitlement,
            ..v1::PoolFigure::default()
        }
    };
    let out = v1::PoolFigures {
        tree_version: told.tree_version,
        capacity: told.lent_capacity,
        pools: told.pools.iter().map(figure).collect(),
        ..v1::PoolFigures::default()
    };
    let there = [out.capacity].into_iter();
    let wanted = out.pools.iter().flat_map(|f| [f.demand, f.allocated]);
    let any = there.chain(wanted).any(|r| !read_resources(r).is_zero());
    any.then_some(out)
}
