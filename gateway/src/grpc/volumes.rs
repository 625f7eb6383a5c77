//! VolumeService.

use super::{page, shown};
use crate::context::Gateway;
use echelon_core_gateway::resource;
use echelon_core_gateway::volumes::{VolumeView, adopt_volume, destroy_volume, list_volumes};
use echelon_core_model::InstanceId;
use echelon_core_model::volume::VolumeWish;
use echelon_proto::convert::quantity::timestamp;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::volume_service_server::VolumeService;

fn show(view: &VolumeView) -> v1::HostVolume {
    let instance = |i: &InstanceId| format!("jobs/{}/groups/{}/instances/{}", i.job, i.group, i.number);
    let named = |i: Option<&InstanceId>| i.map(instance).unwrap_or_default();
    let holder = view.holder.as_ref().map(|h| &h.instance);
    let adopting = match &view.wish {
        Some(VolumeWish::Adopt(i)) if holder != Some(i) => Some(i),
        _ => None,
    };
    v1::HostVolume {
        name: format!("clusters/{}/volumes/{}", view.cluster, view.volume.id),
        volume_id: view.volume.id.to_string(),
        host_id: view.host.to_string(),
        hostname: view.hostname.clone(),
        size_mib: view.volume.size,
        path: view.volume.path.clone(),
        seen_time: Some(timestamp(view.volume.seen_at)),
        holder: named(holder),
        holder_job: view
            .holder
            .as_ref()
            .map(|h| h.job_name.clone())
            .unwrap_or_default(),
        maker: named(view.volume.id.maker().as_ref()),
        destroying: view.wish == Some(VolumeWish::Destroy),
        adopting: named(adopting),
        cluster_id: view.cluster.to_string(),
        cluster: view.cluster_name.clone(),
        heard: view.heard,
    }
}

#[tonic::async_trait]
impl VolumeService for Gateway {
    async fn list_volumes(
        &self,
        request: Request<v1::ListVolumesRequest>,
    ) -> Result<Response<v1::ListVolumesResponse>, Status> {
        self.call("VolumeService/ListVolumes", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let found = list_volumes(&self.facts, cluster, page(r.page_size, r.page_token)).await?;
            let (volumes, next_page_token) = shown(found, show);
            Ok(v1::ListVolumesResponse {
                volumes,
                next_page_token,
            })
        })
        .await
    }

    async fn destroy_volume(
        &self,
        request: Request<v1::DestroyVolumeRequest>,
    ) -> Result<Response<v1::DestroyVolumeResponse>, Status> {
        self.call("VolumeService/DestroyVolume", async {
            let name = request.into_inner().name;
            let (cluster, id) = resource::volume(&name, "name")?;
            let found = destroy_volume(&self.facts, cluster, &id).await?;
            Ok(v1::DestroyVolumeResponse {
                volume: Some(show(&found)),
            })
        })
        .await
    }

    async fn adopt_volume(
        &self,
        request: Request<v1::AdoptVolumeRequest>,
    ) -> Result<Response<v1::AdoptVolumeResponse>, Status> {
        self.call("VolumeService/AdoptVolume", async {
            let r = request.into_inner();
            let (cluster, id) = resource::volume(&r.name, "name")?;
            let instance = resource::instance(&r.instance, "instance")?;
            let found = adopt_volume(&self.facts, cluster, &id, instance).await?;
            Ok(v1::AdoptVolumeResponse {
                volume: Some(show(&found)),
            })
        })
        .await
    }
}
