//! The whole tree of pools between wire and methods.

use crate::error::violations;
use echelon_core_gateway::apply::{AppliedTree, PoolDifference, WantedPool, WantedTree, check_count};
use echelon_core_gateway::error::ApiError;
use echelon_core_gateway::validate::Violations;
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::{pool, read_pool};
use echelon_proto::echelon::v1;
use std::collections::{BTreeMap, BTreeSet};

/// # Errors
/// More pools than a tree has: they are not read.
pub(super) fn read(request: v1::ApplyPoolsRequest) -> Result<WantedTree, ApiError> {
    check_count(request.pools.len())?;
    let mut problems = Problems::default();
    let one = |(i, wish): (usize, v1::PoolWish)| WantedPool {
        pool: read_pool(
            &wish.pool.unwrap_or_default(),
            &format!("pools[{i}].pool"),
            &mut problems,
        ),
        moved_from: wish.moved_from,
    };
    Ok(WantedTree {
        pools: request.pools.into_iter().enumerate().map(one).collect(),
        etag: request.etag,
        violations: Violations::of(violations(problems)),
    })
}

pub(super) fn applied(done: &AppliedTree) -> v1::ApplyPoolsResponse {
    v1::ApplyPoolsResponse {
        differences: done.differences.iter().map(difference).collect(),
        effects: Vec::new(),
        etag: done.after.version.to_string(),
    }
}

/// With who would gain and lose, by the figures of both trees.
pub(super) fn planned(
    done: &AppliedTree,
    before: &v1::PoolFigures,
    after: &v1::PoolFigures,
) -> v1::ApplyPoolsResponse {
    v1::ApplyPoolsResponse {
        effects: effects(before, after),
        etag: done.before.version.to_string(),
        ..applied(done)
    }
}

fn difference(d: &PoolDifference) -> v1::PoolDifference {
    let action = match (&d.before, &d.after) {
        (None, _) => v1::PoolAction::Added,
        (_, None) => v1::PoolAction::Deleted,
        (Some(before), Some(after)) if after.deleting && !before.deleting => v1::PoolAction::Deleting,
        (Some(before), Some(after)) if before.path != after.path => v1::PoolAction::Moved,
        _ => v1::PoolAction::Changed,
    };
    v1::PoolDifference {
        action: action.into(),
        before: d.before.as_ref().map(pool),
        after: d.after.as_ref().map(pool),
    }
}

/// The pools whose entitlement differs, found by id, since some may have moved.
fn effects(before: &v1::PoolFigures, after: &v1::PoolFigures) -> Vec<v1::PoolEffect> {
    let (before, after) = (by_id(before), by_id(after));
    let all: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let one = |id: &str| {
        let (old, new) = (before.get(id), after.get(id));
        let amount = |of: Option<&(&str, v1::Resources)>| of.map_or(v1::Resources::default(), |(_, r)| *r);
        let path = new.or(old).map(|(path, _)| (*path).to_owned())?;
        (amount(old) != amount(new)).then(|| v1::PoolEffect {
            path,
            before: Some(amount(old)),
            after: Some(amount(new)),
        })
    };
    let mut out: Vec<v1::PoolEffect> = all.into_iter().filter_map(one).collect();
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

fn by_id(figures: &v1::PoolFigures) -> BTreeMap<&str, (&str, v1::Resources)> {
    let pools = figures.pools.iter().filter_map(|f| Some((f.pool.as_ref()?, f)));
    let not_root = pools.filter(|(p, _)| !p.pool_id.is_empty());
    not_root
        .map(|(p, f)| {
            (
                p.pool_id.as_str(),
                (p.path.as_str(), f.entitlement.unwrap_or_default()),
            )
        })
        .collect()
}
