//! What a pool and those above it allow its jobs: how large an instance may be, and at which priority. What never fits is said at
//! once (law 11). Only what a change changes is judged: who has more than a bound that was lowered later keeps it.

use crate::validate::Violations;
use echelon_core_model::Resources;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::Kind;
use echelon_core_model::spec::JobSpec;

/// Judges a spec that stands at `path` in its request by the bounds of its pool. `before`: what it is to replace.
pub fn check(spec: &JobSpec, before: Option<&JobSpec>, tree: &PoolTree, path: &str, out: &mut Violations) {
    if before.is_none_or(|b| b.priority != spec.priority) {
        priority(spec, tree, &format!("{path}.priority"), out);
    }
    for (i, group) in spec.groups.iter().enumerate() {
        let was = before.and_then(|b| b.group(&group.name)).map(|g| g.room());
        if was != Some(group.room()) {
            shape(
                spec,
                group.room(),
                tree,
                &format!("{path}.groups[{i}].resources"),
                out,
            );
        }
    }
}

/// Of each kind that is too much, the pool nearest to the root's end of the path that forbids it most: the smallest bound there is.
fn shape(spec: &JobSpec, room: Resources, tree: &PoolTree, path: &str, out: &mut Violations) {
    for kind in Kind::ALL {
        let asked = room.get(kind);
        let bounds = tree.lineage(&spec.pool).flat_map(|pool| {
            let largest = (pool, "max_instance", pool.max_instance.get(kind));
            // What runs on lent room does not count against limits.
            let limit = (pool, "limit", pool.limit.get(kind));
            // What is not preemptible runs within reservations.
            let reserved = (pool, "reservation", pool.reservation.get(kind));
            let of_controllers = (pool, "controller_limit", pool.controller_limit.get(kind));
            // Processor time is always taken from what is lent, other kinds only where any is.
            let of_lent = (pool, "revocable_limit", pool.revocable_limit.get(kind));
            let is_of_lent = spec.revocable && kind == Kind::Cpus;
            std::iter::once(largest)
                .chain(is_of_lent.then_some(of_lent))
                .chain((!spec.revocable).then_some(limit))
                .chain((!spec.preemptible).then_some(reserved))
                .chain((spec.controller && !spec.revocable).then_some(of_controllers))
        });
        let Some((pool, of, most)) = bounds.min_by_key(|(.., most)| *most) else {
            return;
        };
        out.check(
            asked <= most,
            format!("{path}.{}", kind.field()),
            format!(
                "an instance, sidecars included, asks for {} {kind}; pool `{}` allows at most {} (`{of}`)",
                kind.show(asked),
                pool.path,
                kind.show(most)
            ),
        );
    }
}

fn priority(spec: &JobSpec, tree: &PoolTree, path: &str, out: &mut Violations) {
    let bounds = tree.priority_of(&spec.pool);
    let whose = |is: &dyn Fn(&Pool) -> bool| {
        let pool = tree.lineage(&spec.pool).find(|p| is(p));
        pool.map_or(spec.pool.clone(), |p| p.path.clone())
    };
    let (n, least, most) = (spec.priority, bounds.min, bounds.max);
    out.check(
        n >= least,
        path,
        format!(
            "{n} is below {least}, the least that pool `{}` allows",
            whose(&|p| p.priority.min == least)
        ),
    );
    out.check(
        n <= most,
        path,
        format!(
            "{n} is above {most}, the most that pool `{}` allows",
            whose(&|p| p.priority.max == most)
        ),
    );
}

#[cfg(test)]
#[path = "bounds_tests.rs"]
mod tests;
