//! HostPoolService.

use super::hosts::{batch_for, show};
use crate::context::Gateway;
use echelon_core_gateway::host_moves::{Plan, Wanted, move_hosts, plan_host_moves, undo_host_moves};
use echelon_core_gateway::host_pools::{HostPoolView, create_host_pool, delete_host_pool, list_host_pools};
use echelon_core_gateway::host_sets::HostSet;
use echelon_core_gateway::{hosts, resource};
use echelon_core_model::cluster::Cluster;
use echelon_proto::convert::quantity::resources;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::host_pool_service_server::HostPoolService;

/// Most names of hosts that a plan leaves out, for each reason.
const LISTED: usize = 20;

fn pool(view: &HostPoolView) -> v1::HostPool {
    v1::HostPool {
        name: format!("clusters/{}/hostPools/{}", view.cluster, view.name),
        host_pool: view.name.to_string(),
        cluster: view.cluster_name.clone(),
        cluster_id: view.cluster.to_string(),
        hosts: view.hosts,
        unreachable: view.unreachable,
        leaving: view.leaving,
        coming: view.coming,
        tasks: view.tasks,
        capacity: Some(resources(&view.capacity)),
        used: Some(resources(&view.used)),
    }
}

fn planned(cluster: &Cluster, plan: Plan) -> v1::PlanHostMovesResponse {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let chosen = plan.chosen.into_iter().map(|chosen| v1::PlannedHostMove {
        why: chosen.why.to_string(),
        volumes: count(chosen.host.volumes.len()),
        host: Some(show(&hosts::view(cluster, chosen.host))),
    });
    let left_out = plan.left_out.into_iter().map(|(why, hosts)| v1::HostsLeftOut {
        why: why.to_string(),
        hosts: count(hosts.len()),
        hostnames: hosts.into_iter().take(LISTED).collect(),
    });
    v1::PlanHostMovesResponse {
        hosts: chosen.collect(),
        left_out: left_out.collect(),
    }
}

#[tonic::async_trait]
impl HostPoolService for Gateway {
    async fn list_host_pools(
        &self,
        request: Request<v1::ListHostPoolsRequest>,
    ) -> Result<Response<v1::ListHostPoolsResponse>, Status> {
        self.call("HostPoolService/ListHostPools", async {
            let parent = request.into_inner().parent;
            let cluster = resource::cluster(&parent, "parent")?;
            let found = list_host_pools(&self.facts, cluster).await?;
            Ok(v1::ListHostPoolsResponse {
                host_pools: found.iter().map(pool).collect(),
            })
        })
        .await
    }

    async fn create_host_pool(
        &self,
        request: Request<v1::CreateHostPoolRequest>,
    ) -> Result<Response<v1::CreateHostPoolResponse>, Status> {
        self.call("HostPoolService/CreateHostPool", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let made = create_host_pool(&self.facts, cluster, &r.host_pool).await?;
            Ok(v1::CreateHostPoolResponse {
                host_pool: Some(pool(&made)),
            })
        })
        .await
    }

    async fn delete_host_pool(
        &self,
        request: Request<v1::DeleteHostPoolRequest>,
    ) -> Result<Response<v1::DeleteHostPoolResponse>, Status> {
        self.call("HostPoolService/DeleteHostPool", async {
            let name = request.into_inner().name;
            let (cluster, wanted) = resource::host_pool(&name, "name")?;
            delete_host_pool(&self.facts, cluster, wanted).await?;
            Ok(v1::DeleteHostPoolResponse {})
        })
        .await
    }

    async fn plan_host_moves(
        &self,
        request: Request<v1::PlanHostMovesRequest>,
    ) -> Result<Response<v1::PlanHostMovesResponse>, Status> {
        self.call("HostPoolService/PlanHostMoves", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let set = HostSet {
                hosts: r.hosts,
                attributes: r.attributes,
            };
            let wanted = Wanted::new(&r.from, &r.to, set, (r.count, r.size))?;
            let (cluster, plan) = plan_host_moves(&self.facts, cluster, &wanted).await?;
            Ok(planned(&cluster, plan))
        })
        .await
    }

    async fn move_hosts(
        &self,
        request: Request<v1::MoveHostsRequest>,
    ) -> Result<Response<v1::MoveHostsResponse>, Status> {
        self.call("HostPoolService/MoveHosts", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let set = HostSet {
                hosts: r.hosts,
                ..HostSet::default()
            };
            let wanted = Wanted::new(&r.from, &r.to, set, (0, 0))?;
            let how = (batch_for(r.batch_for.as_ref())?, self.now());
            let found = move_hosts(&self.facts, cluster, &wanted, how).await?;
            Ok(v1::MoveHostsResponse {
                hosts: found.iter().map(show).collect(),
            })
        })
        .await
    }

    async fn undo_host_moves(
        &self,
        request: Request<v1::UndoHostMovesRequest>,
    ) -> Result<Response<v1::UndoHostMovesResponse>, Status> {
        self.call("HostPoolService/UndoHostMoves", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let found = undo_host_moves(&self.facts, cluster, (&r.hosts, &r.to)).await?;
            Ok(v1::UndoHostMovesResponse {
                hosts: found.iter().map(show).collect(),
            })
        })
        .await
    }
}
