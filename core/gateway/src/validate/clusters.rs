//! Checks that the clusters which a spec names are there: a job that names another waits for ever.

use super::Violations;
use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::cluster_choice::matches_selector;
use echelon_core_model::nearest;
use echelon_core_model::spec::JobSpec;

/// Most names of clusters in a message.
const TOLD: usize = 10;

/// Checks that each selector of a spec matches a cluster that has not left.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn in_clusters<F: Facts>(
    facts: &F,
    spec: &JobSpec,
    path: &str,
    out: &mut Violations,
) -> Result<(), ApiError> {
    let selectors = spec.clusters.selectors();
    if selectors.is_empty() {
        return Ok(());
    }
    let mut known = ask::settled_clusters(facts).await?;
    known.retain(|c| c.desired_state != DesiredState::Removed);
    for (field, selector) in selectors {
        let found = known.iter().any(|c| matches_selector(selector, c.identity()));
        // A text that selects nothing whatever clusters there are is refused by another rule.
        if !found && !selector.is_empty() {
            out.check(
                false,
                format!("{path}.clusters.{field}"),
                unknown(selector, &known),
            );
        }
    }
    Ok(())
}

fn unknown(wanted: &str, known: &[Cluster]) -> String {
    if let Some((key, value)) = wanted.split_once('=') {
        return format!("no cluster has the label `{key}` with the value `{value}`");
    }
    let names: Vec<&str> = known.iter().map(|c| c.name.as_str()).collect();
    if names.is_empty() {
        return format!(
            "there is no cluster `{wanted}`, nor any other; `echelon cluster add {wanted}` adds it"
        );
    }
    let told = names.iter().take(TOLD).copied().collect::<Vec<_>>().join(", ");
    match nearest(wanted, names) {
        Some(near) => {
            format!("there is no cluster `{wanted}`; did you mean `{near}`? There are: {told}")
        }
        None => format!("there is no cluster `{wanted}`; there are: {told}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, run};
    use echelon_core_testkit::build::JobBuilder;

    fn told(only: &[&'static str]) -> Vec<(String, String)> {
        let mut store = Memory::new();
        for name in ["east", "west"] {
            store.add_cluster(name);
        }
        let left = store.add_cluster("north");
        if let Some(c) = store.clusters.get_mut(&left) {
            c.desired_state = DesiredState::Removed;
        }
        if let Some(c) = store.clusters.values_mut().find(|c| c.name == "east") {
            "orient".clone_into(&mut c.name);
        }
        let spec = JobBuilder::batch("hello", 1).only(only).build();
        let out = run(&mut store, move |facts| async move {
            let mut out = Violations::default();
            in_clusters(&facts, &spec, "spec", &mut out).await.map(|()| out)
        });
        let out = out.unwrap().kept.into_iter();
        out.map(|v| (v.field, v.problem)).collect()
    }

    #[test]
    fn clusters_that_are_there_are_right_by_name_and_by_id() {
        assert_eq!(told(&[]), []);
        assert_eq!(told(&["orient", "east", "west"]), []);
    }

    #[test]
    fn an_unknown_cluster_is_told_with_its_place_and_the_nearest_name() {
        let field = |n| format!("spec.clusters.only[{n}]");
        let there =
            |wanted: &str, more: &str| format!("there is no cluster `{wanted}`; {more}: orient, west");
        assert_eq!(
            told(&["west", "wset"]),
            [(field(1), there("wset", "did you mean `west`? There are"))]
        );
        assert_eq!(
            told(&["north", "somewhere"]),
            [
                (field(0), there("north", "there are")),
                (field(1), there("somewhere", "there are")),
            ]
        );
    }

    #[test]
    fn without_any_cluster_it_is_said_how_to_add_one() {
        assert!(unknown("east", &[]).ends_with("`echelon cluster add east` adds it"));
    }
}
