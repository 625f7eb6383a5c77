//! PoolService.

use super::{apply, page, shown};
use crate::context::Gateway;
use crate::error::{missing, violations};
use echelon_core_gateway::apply::{apply_pools, plan_pools};
use echelon_core_gateway::pools::{
    PoolChange, create_pool, delete_pool, get_pool, list_pools, undelete_pool, update_pool,
};
use echelon_core_gateway::{ApiError, resource};
use echelon_core_model::pool::{Pool, PoolKind, PreemptWithin};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::spec::OnSilence;
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::{pool, read_bounds, read_kind, read_pool, read_preempt_within};
use echelon_proto::convert::quantity::{read_limit, read_resources, timestamp};
use echelon_proto::convert::shard::Changed;
use echelon_proto::convert::spec::read_silence;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::pool_service_server::PoolService;

#[tonic::async_trait]
impl PoolService for Gateway {
    async fn create_pool(
        &self,
        request: Request<v1::CreatePoolRequest>,
    ) -> Result<Response<v1::CreatePoolResponse>, Status> {
        self.call("PoolService/CreatePool", async {
            let wanted = request.into_inner().pool.ok_or_else(|| missing("pool"))?;
            let made = create_pool(&self.facts, read_new(&wanted)?, Self::chance()).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::CreatePoolResponse {
                pool: Some(pool(&made)),
            })
        })
        .await
    }

    async fn get_pool(
        &self,
        request: Request<v1::GetPoolRequest>,
    ) -> Result<Response<v1::GetPoolResponse>, Status> {
        self.call("PoolService/GetPool", async {
            let path = resource::pool(&request.into_inner().name, "name")?;
            let found = get_pool(&self.facts, &path).await?;
            Ok(v1::GetPoolResponse {
                pool: Some(pool(&found)),
            })
        })
        .await
    }

    async fn list_pools(
        &self,
        request: Request<v1::ListPoolsRequest>,
    ) -> Result<Response<v1::ListPoolsResponse>, Status> {
        self.call("PoolService/ListPools", async {
            let r = request.into_inner();
            let found = list_pools(&self.facts, page(r.page_size, r.page_token)).await?;
            let (pools, next_page_token) = shown(found, pool);
            Ok(v1::ListPoolsResponse {
                pools,
                next_page_token,
            })
        })
        .await
    }

    async fn update_pool(
        &self,
        request: Request<v1::UpdatePoolRequest>,
    ) -> Result<Response<v1::UpdatePoolResponse>, Status> {
        self.call("PoolService/UpdatePool", async {
            let r = request.into_inner();
            let wanted = r.pool.ok_or_else(|| missing("pool"))?;
            let path = resource::pool(&wanted.name, "pool.name")?;
            let mask = r.update_mask.map(|m| m.paths).unwrap_or_default();
            let after = update_pool(&self.facts, &path, read_change(&wanted, &mask)?).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::UpdatePoolResponse {
                pool: Some(pool(&after)),
            })
        })
        .await
    }

    async fn delete_pool(
        &self,
        request: Request<v1::DeletePoolRequest>,
    ) -> Result<Response<v1::DeletePoolResponse>, Status> {
        self.call("PoolService/DeletePool", async {
            let r = request.into_inner();
            let path = resource::pool(&r.name, "name")?;
            let goes = delete_pool(&self.facts, &path, &r.etag).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::DeletePoolResponse {
                pool: goes.as_ref().map(pool),
            })
        })
        .await
    }

    async fn undelete_pool(
        &self,
        request: Request<v1::UndeletePoolRequest>,
    ) -> Result<Response<v1::UndeletePoolResponse>, Status> {
        self.call("PoolService/UndeletePool", async {
            let r = request.into_inner();
            let path = resource::pool(&r.name, "name")?;
            let kept = undelete_pool(&self.facts, &path, &r.etag).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::UndeletePoolResponse {
                pool: Some(pool(&kept)),
            })
        })
        .await
    }

    async fn apply_pools(
        &self,
        request: Request<v1::ApplyPoolsRequest>,
    ) -> Result<Response<v1::ApplyPoolsResponse>, Status> {
        self.call("PoolService/ApplyPools", async {
            let r = request.into_inner();
            let only_told = r.validate_only;
            let wanted = apply::read(r)?;
            if only_told {
                let planned = plan_pools(&self.facts, &wanted, Self::chance()).await?;
                let before = self.links.pool_figures(None).await?;
                let after = self.links.pool_figures(Some(&planned.after)).await?;
                return Ok(apply::planned(&planned, &before, &after));
            }
            let applied = apply_pools(&self.facts, &wanted, Self::chance()).await?;
            self.links.hint(Changed::Pools);
            Ok(apply::applied(&applied))
        })
        .await
    }

    async fn get_pool_figures(
        &self,
        _: Request<v1::GetPoolFiguresRequest>,
    ) -> Result<Response<v1::GetPoolFiguresResponse>, Status> {
        self.call("PoolService/GetPoolFigures", async {
            let figures = self.links.pool_figures(None).await?;
            Ok(v1::GetPoolFiguresResponse {
                figures: Some(v1::PoolFigures {
                    as_of: Some(timestamp(self.now())),
                    ..figures
                }),
            })
        })
        .await
    }
}

fn read_pool_kind(number: i32) -> Result<PoolKind, ApiError> {
    let mut problems = Problems::default();
    let kind = read_kind(number, "pool.kind", &mut problems);
    problems.or(kind).map_err(|p| ApiError::fields(violations(p)))
}

fn read_within(number: i32) -> Result<PreemptWithin, ApiError> {
    let mut problems = Problems::default();
    let within = read_preempt_within(number, "pool.preempt_within", &mut problems);
    problems.or(within).map_err(|p| ApiError::fields(violations(p)))
}

fn read_loss(on: Option<v1::OnSilence>) -> Result<Option<OnSilence>, ApiError> {
    let mut problems = Problems::default();
    let on = read_silence(on, "pool.on_cluster_loss", &mut problems);
    problems.or(on).map_err(|p| ApiError::fields(violations(p)))
}

fn read_new(wanted: &v1::Pool) -> Result<Pool, ApiError> {
    let mut problems = Problems::default();
    let new = read_pool(wanted, "pool", &mut problems);
    problems.or(new).map_err(|p| ApiError::fields(violations(p)))
}

/// Refuses a mask that names what cannot be changed.
fn check_mask(mask: &[String]) -> Result<(), ApiError> {
    let all = [
        "reservation",
        "limit",
        "share",
        "max_instance",
        "controller_limit",
        "revocable_limit",
    ];
    let known = |path: &String| {
        path == "*"
            || path == "kind"
            || [
                "priority",
                "max_jobs",
                "max_instances",
                "fair_users",
                "preempt_within",
                "on_cluster_loss",
            ]
            .iter()
            .any(|f| path == f)
            || all
                .iter()
                .any(|f| path == f || Kind::ALL.iter().any(|k| *path == format!("{f}.{}", k.field())))
    };
    if let Some(unknown) = mask.iter().find(|p| !known(p)) {
        return Err(ApiError::field(
            "update_mask",
            format!(
                "`{unknown}` cannot be changed; name kind, priority, max_jobs, max_instances, fair_users, preempt_within, on_cluster_loss, reservation, limit, share, max_instance, controller_limit or revocable_limit, the last six whole or by kind of resource (limit.cpus_milli)"
            ),
        ));
    }
    Ok(())
}

fn read_change(wanted: &v1::Pool, mask: &[String]) -> Result<PoolChange, ApiError> {
    check_mask(mask)?;
    let pick = |field: &str, from: Resources, given: bool| -> Vec<(Kind, u64)> {
        let named = |kind: &Kind| {
            mask.iter()
                .any(|p| p == "*" || p == field || *p == format!("{field}.{}", kind.field()))
        };
        Kind::ALL
            .into_iter()
            .filter(|k| if mask.is_empty() { given } else { named(k) })
            .map(|k| (k, from.get(k)))
            .collect()
    };
    let whole = |field: &str, given: bool| {
        if mask.is_empty() {
            given
        } else {
            mask.iter().any(|p| p == "*" || p == field)
        }
    };
    Ok(PoolChange {
        reservation: pick(
            "reservation",
            read_resources(wanted.reservation),
            wanted.reservation.is_some(),
        ),
        limit: pick("limit", read_limit(wanted.limit), wanted.limit.is_some()),
        share: pick("share", read_resources(wanted.share), wanted.share.is_some()),
        kind: if whole("kind", wanted.kind != 0) {
            Some(read_pool_kind(wanted.kind)?)
        } else {
            None
        },
        max_instance: pick(
            "max_instance",
            read_limit(wanted.max_instance),
            wanted.max_instance.is_some(),
        ),
        priority: whole("priority", wanted.priority.is_some()).then(|| read_bounds(wanted.priority)),
        controller_limit: pick(
            "controller_limit",
            read_limit(wanted.controller_limit),
            wanted.controller_limit.is_some(),
        ),
        revocable_limit: pick(
            "revocable_limit",
            read_limit(wanted.revocable_limit),
            wanted.revocable_limit.is_some(),
        ),
        fair_users: whole("fair_users", wanted.fair_users).then_some(wanted.fair_users),
        preempt_within: if whole("preempt_within", wanted.preempt_within != 0) {
            Some(read_within(wanted.preempt_within)?)
        } else {
            None
        },
        on_cluster_loss: if whole("on_cluster_loss", wanted.on_cluster_loss.is_some()) {
            Some(read_loss(wanted.on_cluster_loss)?)
        } else {
            None
        },
        max_jobs: whole("max_jobs", wanted.max_jobs.is_some()).then(|| wanted.max_jobs.unwrap_or(u64::MAX)),
        max_instances: whole("max_instances", wanted.max_instances.is_some())
            .then(|| wanted.max_instances.unwrap_or(u64::MAX)),
        etag: wanted.etag.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_proto::convert::spec::silence;

    #[test]
    fn masks_name_whole_bounds_or_single_kinds() {
        let wanted = v1::Pool {
            limit: Some(v1::ResourceLimit {
                cpus_milli: Some(5),
                ..Default::default()
            }),
            ..Default::default()
        };
        let change = |mask: &[&str]| {
            let mask: Vec<String> = mask.iter().map(|m| (*m).to_owned()).collect();
            read_change(&wanted, &mask)
        };
        assert_eq!(change(&["limit.cpus_milli"]).unwrap().limit, [(Kind::Cpus, 5)]);
        assert_eq!(change(&["limit"]).unwrap().limit[1], (Kind::Memory, u64::MAX));
        let all = change(&[]).unwrap();
        assert_eq!(
            (all.limit.len(), all.reservation.len(), all.share.len()),
            (4, 0, 0)
        );
        assert!(change(&["path"]).is_err());
        assert_eq!((all.max_jobs, all.max_instances), (None, None));
        assert_eq!(all.fair_users, None);
        assert_eq!(change(&["fair_users"]).unwrap().fair_users, Some(false));
        assert_eq!(all.preempt_within, None);
        let within = change(&["preempt_within"]).unwrap().preempt_within;
        assert_eq!(within, Some(PreemptWithin::Auto));
        assert_eq!(all.on_cluster_loss, None);
        let cleared = change(&["on_cluster_loss"]).unwrap().on_cluster_loss;
        assert_eq!(cleared, Some(None));
        let waits = v1::Pool {
            on_cluster_loss: Some(silence(OnSilence::Wait)),
            ..Default::default()
        };
        let set = read_change(&waits, &[]).unwrap().on_cluster_loss;
        assert_eq!(set, Some(Some(OnSilence::Wait)));
        let nothing = v1::Pool {
            on_cluster_loss: Some(v1::OnSilence { action: None }),
            ..Default::default()
        };
        assert!(read_change(&nothing, &[]).is_err());
        assert_eq!(change(&["max_jobs"]).unwrap().max_jobs, Some(u64::MAX));
        assert_eq!(change(&["max_instances"]).unwrap().max_instances, Some(u64::MAX));
        assert_eq!(change(&["controller_limit"]).unwrap().controller_limit.len(), 4);
        assert_eq!(change(&["revocable_limit"]).unwrap().revocable_limit.len(), 4);
        assert_eq!(all.kind, None);
        assert_eq!(change(&["kind"]).unwrap().kind, Some(PoolKind::Elastic));
        let unknown = v1::Pool {
            kind: 7,
            ..Default::default()
        };
        assert!(read_change(&unknown, &[]).is_err());
    }
}
