//! Problems of a pool tree as violations of a request. The rules are those of `core/pools`.

use super::Violations;
use echelon_core_model::pool::PoolTree;
use echelon_core_pools::tree::{TreeProblem, new_problems};

/// Notes the problems that a change of the pool `pool` of the request brings to the tree.
pub fn check(before: &PoolTree, after: &PoolTree, out: &mut Violations) {
    let found = new_problems(before, after);
    for problem in found.iter().take(MOST_REPORTED) {
        out.check(false, format!("pool.{}", problem.field()), problem.to_string());
    }
    let more = found.len().saturating_sub(MOST_REPORTED);
    out.check(more == 0, "pool", format!("{more} more problems are not shown"));
}

/// Most problems of a whole tree in one answer: an error of the API has no more than 16 KiB.
pub(crate) const MOST_REPORTED: usize = 8;

/// Notes the first problems of a whole tree, and how many more there are. `index` gives the place in the
/// request of the pool at a path.
pub fn note(problems: &[TreeProblem], index: impl Fn(&str) -> Option<usize>, out: &mut Violations) {
    for problem in problems.iter().take(MOST_REPORTED) {
        let field = match problem.path().and_then(&index) {
            Some(i) if problem.is_of_origin() => format!("pools[{i}].{}", problem.field()),
            Some(i) => format!("pools[{i}].pool.{}", problem.field()),
            None => "pools".to_owned(),
        };
        out.check(false, field, problem.to_string());
    }
    let more = problems.len().saturating_sub(MOST_REPORTED);
    out.check(more == 0, "pools", format!("{more} more problems are not shown"));
}
