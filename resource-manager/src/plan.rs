//! The driver's plan as the public API says it.

use echelon_core_model::ReasonCode;
use echelon_core_model::class::warning;
use echelon_core_resource_manager::{GroupPlan, Plan, PoolPlan};
use echelon_proto::convert::{quantity, reason};
use echelon_proto::echelon::v1;

/// To the wire. The spec and the time are the gateway's to fill in.
pub(crate) fn to_wire(plan: &Plan) -> v1::PlanJobResponse {
    v1::PlanJobResponse {
        spec: None,
        pool: Some(pool(&plan.pool)),
        clusters: plan.groups.iter().flat_map(clusters).collect(),
        startable: plan.groups.iter().map(|group| group.could_start).sum(),
        waiting: plan.groups.iter().flat_map(waiting).collect(),
        as_of: None,
        next_times: Vec::new(),
        warnings: plan.groups.iter().filter_map(never_fits).collect(),
    }
}

fn never_fits(group: &GroupPlan) -> Option<String> {
    let why = group.fits_nowhere.as_ref()?;
    Some(warning(&group.group, why))
}

fn pool(pool: &PoolPlan) -> v1::PoolPlan {
    let missing = |reason: &echelon_core_model::Reason| reason.code == ReasonCode::PoolNotFound;
    v1::PoolPlan {
        path: pool.path.clone(),
        found: !pool.problem.as_ref().is_some_and(missing),
        limit: Some(quantity::limit(&pool.limit)),
        entitlement: Some(quantity::resources(&pool.entitlement)),
        allocated: Some(quantity::resources(&pool.allocated)),
    }
}

fn clusters(group: &GroupPlan) -> impl Iterator<Item = v1::ClusterPlan> + '_ {
    let chosen = group.clusters.iter().map(|share| v1::ClusterPlan {
        cluster: share.name.clone(),
        cluster_id: share.cluster.to_string(),
        instances: share.instances,
        reason: None,
        group: group.group.to_string(),
    });
    let dropped = group.dropped.iter().map(|dropped| v1::ClusterPlan {
        cluster: dropped.name.clone(),
        cluster_id: dropped.cluster.to_string(),
        instances: 0,
        reason: Some(reason::reason(&dropped.reason)),
        group: group.group.to_string(),
    });
    chosen.chain(dropped)
}

fn waiting(group: &GroupPlan) -> impl Iterator<Item = v1::Waiting> + '_ {
    group.waiting.iter().map(|(why, count)| v1::Waiting {
        group: group.group.to_string(),
        cluster: String::new(),
        reason: Some(reason::reason(why)),
        count: *count,
        since: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{ClusterId, GroupName, Reason, Resources};
    use echelon_core_resource_manager::{ClusterShare, Dropped};

    #[test]
    fn every_part_of_a_plan_is_told() {
        let group = GroupPlan {
            group: GroupName::new("main"),
            instances: 8,
            could_start: 5,
            clusters: vec![ClusterShare {
                cluster: ClusterId::new("e"),
                name: "east".into(),
                instances: 8,
            }],
            dropped: vec![Dropped {
                cluster: ClusterId::new("w"),
                name: "west".into(),
                reason: Reason::new(ReasonCode::ClusterCordoned),
            }],
            waiting: vec![(Reason::new(ReasonCode::PoolLimit), 3)],
            fits_nowhere: Some(Reason::new(ReasonCode::NoClusterCapacity)),
        };
        let plan = Plan {
            pool: PoolPlan {
                path: "/default".into(),
                problem: None,
                reservation: Resources::default(),
                limit: Resources::default(),
                entitlement: Resources::default(),
                allocated: Resources::default(),
            },
            groups: vec![group],
        };
        let told = to_wire(&plan);
        assert_eq!(told.startable, 5);
        assert_eq!(
            told.warnings,
            ["group `main` fits on no host and waits until one can hold it: no cluster has room for it"]
        );
        assert_eq!(told.waiting.iter().map(|w| w.count).collect::<Vec<_>>(), [3]);
        let clusters: Vec<_> = told
            .clusters
            .iter()
            .map(|c| {
                (
                    c.cluster.as_str(),
                    c.instances,
                    c.reason.as_ref().map(|r| r.code.as_str()),
                )
            })
            .collect();
        assert_eq!(
            clusters,
            [("east", 8, None), ("west", 0, Some("CLUSTER_CORDONED"))]
        );
        assert!(told.pool.is_some_and(|pool| pool.found));
    }
}
