//! HostService.

use super::{page, shown};
use crate::context::Gateway;
use echelon_core_gateway::hosts::{HostView, get_host, list_hosts};
use echelon_core_gateway::resource;
use echelon_proto::convert::host::host;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::host_service_server::HostService;

fn show(view: &HostView) -> v1::Host {
    host(&view.host, &view.cluster, &view.cluster_name)
}

#[tonic::async_trait]
impl HostService for Gateway {
    async fn get_host(
        &self,
        request: Request<v1::GetHostRequest>,
    ) -> Result<Response<v1::GetHostResponse>, Status> {
        self.call("HostService/GetHost", async {
            let name = request.into_inner().name;
            let (cluster, wanted) = resource::host(&name, "name")?;
            let found = get_host(&self.facts, cluster, wanted).await?;
            Ok(v1::GetHostResponse {
                host: Some(show(&found)),
            })
        })
        .await
    }

    async fn list_hosts(
        &self,
        request: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        self.call("HostService/ListHosts", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let found = list_hosts(&self.facts, cluster, page(r.page_size, r.page_token)).await?;
            let (hosts, next_page_token) = shown(found, show);
            Ok(v1::ListHostsResponse {
                hosts,
                next_page_token,
            })
        })
        .await
    }
}
