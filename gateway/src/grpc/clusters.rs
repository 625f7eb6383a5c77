//! ClusterService.

use super::{page, shown};
use crate::context::Gateway;
use crate::error::missing;
use crate::show::show_cluster;
use echelon_core_gateway::clusters::{
    ClusterChange, ClusterView, NewCluster, accept_loss, add_cluster, get_cluster, list_clusters,
    update_cluster,
};
use echelon_core_gateway::{ApiError, resource};
use echelon_core_model::cluster::Wish;
use echelon_proto::convert::cluster::read_wish;
use echelon_proto::convert::shard::Changed;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::cluster_service_server::ClusterService;

impl Gateway {
    fn show(&self, view: &ClusterView) -> v1::Cluster {
        show_cluster(view, &self.leaders, self.clock.now())
    }
}

#[tonic::async_trait]
impl ClusterService for Gateway {
    async fn get_cluster(
        &self,
        request: Request<v1::GetClusterRequest>,
    ) -> Result<Response<v1::GetClusterResponse>, Status> {
        self.call("ClusterService/GetCluster", async {
            let name = request.into_inner().name;
            let found = get_cluster(&self.facts, resource::cluster(&name, "name")?).await?;
            Ok(v1::GetClusterResponse {
                cluster: Some(self.show(&found)),
            })
        })
        .await
    }

    async fn list_clusters(
        &self,
        request: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        self.call("ClusterService/ListClusters", async {
            let r = request.into_inner();
            let found = list_clusters(&self.facts, page(r.page_size, r.page_token)).await?;
            let (clusters, next_page_token) = shown(found, |view| self.show(view));
            Ok(v1::ListClustersResponse {
                clusters,
                next_page_token,
            })
        })
        .await
    }

    async fn add_cluster(
        &self,
        request: Request<v1::AddClusterRequest>,
    ) -> Result<Response<v1::AddClusterResponse>, Status> {
        self.call("ClusterService/AddCluster", async {
            let wanted = request.into_inner().cluster.ok_or_else(|| missing("cluster"))?;
            let added = add_cluster(&self.facts, &read_new(wanted)?).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::AddClusterResponse {
                cluster: Some(self.show(&added)),
            })
        })
        .await
    }

    async fn update_cluster(
        &self,
        request: Request<v1::UpdateClusterRequest>,
    ) -> Result<Response<v1::UpdateClusterResponse>, Status> {
        self.call("ClusterService/UpdateCluster", async {
            let r = request.into_inner();
            let wanted = r.cluster.ok_or_else(|| missing("cluster"))?;
            let name = resource::cluster(&wanted.name, "cluster.name")?;
            let mask = r.update_mask.map(|m| m.paths).unwrap_or_default();
            let after = update_cluster(&self.facts, name, read_change(&wanted, &mask)?).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::UpdateClusterResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }

    async fn accept_cluster_loss(
        &self,
        request: Request<v1::AcceptClusterLossRequest>,
    ) -> Result<Response<v1::AcceptClusterLossResponse>, Status> {
        self.call("ClusterService/AcceptClusterLoss", async {
            let r = request.into_inner();
            let name = resource::cluster(&r.name, "name")?;
            let after = accept_loss(&self.facts, name, r.loss_number).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::AcceptClusterLossResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }
}

fn read_new(wanted: v1::Cluster) -> Result<NewCluster, ApiError> {
    let wish = match wanted.wish {
        0 => Wish::Active,
        given => {
            read_wish(given).ok_or_else(|| ApiError::field("cluster.wish", "must be active or cordoned"))?
        }
    };
    Ok(NewCluster {
        name: wanted.display_name,
        wish,
        labels: wanted.labels,
    })
}

fn read_change(wanted: &v1::Cluster, mask: &[String]) -> Result<ClusterChange, ApiError> {
    if let Some(unknown) = mask
        .iter()
        .find(|p| !["wish", "labels", "*"].contains(&p.as_str()))
    {
        return Err(ApiError::field(
            "update_mask",
            format!("`{unknown}` cannot be changed; name wish or labels"),
        ));
    }
    let named = |field: &str, given: bool| {
        if mask.is_empty() {
            given
        } else {
            mask.iter().any(|p| p == field || p == "*")
        }
    };
    let wish =
        if named("wish", wanted.wish != 0) {
            let wish = read_wish(wanted.wish);
            Some(wish.ok_or_else(|| {
                ApiError::field("cluster.wish", "must be active, cordoned, draining or left")
            })?)
        } else {
            None
        };
    Ok(ClusterChange {
        wish,
        labels: named("labels", !wanted.labels.is_empty()).then(|| wanted.labels.clone()),
        etag: wanted.etag.clone(),
    })
}
