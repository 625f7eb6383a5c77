//! HostService.

use super::{host_runs, page, shown};
use crate::context::Gateway;
use crate::error::violations;
use echelon_core_gateway::drains::{Leave, drain_host, undrain_host};
use echelon_core_gateway::error::ApiError;
use echelon_core_gateway::host_forget::forget_host;
use echelon_core_gateway::host_sets::{HostSet, drain_hosts, undrain_hosts};
use echelon_core_gateway::hosts::{HostView, get_host, list_hosts};
use echelon_core_gateway::resource;
use echelon_core_model::Span;
use echelon_proto::convert::Problems;
use echelon_proto::convert::host::host;
use echelon_proto::convert::quantity::read_duration;
use echelon_proto::convert::shard::Changed;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::host_service_server::HostService;

pub(super) fn show(view: &HostView) -> v1::Host {
    let (drain, to) = (view.drain.as_ref(), view.to.as_ref());
    host(&view.host, drain, to, &view.cluster, &view.cluster_name)
}

pub(super) fn batch_for(sent: Option<&prost_types::Duration>) -> Result<Span, ApiError> {
    let mut problems = Problems::default();
    let span = sent.map(|s| read_duration(s, || "batch_for".to_owned(), &mut problems));
    if problems.0.is_empty() {
        Ok(span.unwrap_or_default())
    } else {
        Err(ApiError::fields(violations(problems)))
    }
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

    async fn drain_host(
        &self,
        request: Request<v1::DrainHostRequest>,
    ) -> Result<Response<v1::DrainHostResponse>, Status> {
        self.call("HostService/DrainHost", async {
            let r = request.into_inner();
            let (cluster, wanted) = resource::host(&r.name, "name")?;
            let leave = Leave {
                batch_for: batch_for(r.batch_for.as_ref())?,
                agent: r.agent,
                now: self.now(),
            };
            let found = drain_host(&self.facts, cluster, wanted, leave).await?;
            Ok(v1::DrainHostResponse {
                host: Some(show(&found)),
            })
        })
        .await
    }

    async fn drain_hosts(
        &self,
        request: Request<v1::DrainHostsRequest>,
    ) -> Result<Response<v1::DrainHostsResponse>, Status> {
        self.call("HostService/DrainHosts", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let leave = Leave {
                batch_for: batch_for(r.batch_for.as_ref())?,
                agent: r.agent,
                now: self.now(),
            };
            let set = HostSet {
                hosts: r.hosts,
                attributes: r.attributes,
            };
            let found = drain_hosts(&self.facts, cluster, &set, (leave, !r.validate_only)).await?;
            Ok(v1::DrainHostsResponse {
                hosts: found.iter().map(show).collect(),
            })
        })
        .await
    }

    async fn undrain_hosts(
        &self,
        request: Request<v1::UndrainHostsRequest>,
    ) -> Result<Response<v1::UndrainHostsResponse>, Status> {
        self.call("HostService/UndrainHosts", async {
            let r = request.into_inner();
            let cluster = resource::cluster(&r.parent, "parent")?;
            let set = HostSet {
                hosts: r.hosts,
                attributes: r.attributes,
            };
            let found = undrain_hosts(&self.facts, cluster, &set).await?;
            Ok(v1::UndrainHostsResponse {
                hosts: found.iter().map(show).collect(),
            })
        })
        .await
    }

    async fn undrain_host(
        &self,
        request: Request<v1::UndrainHostRequest>,
    ) -> Result<Response<v1::UndrainHostResponse>, Status> {
        self.call("HostService/UndrainHost", async {
            let name = request.into_inner().name;
            let (cluster, wanted) = resource::host(&name, "name")?;
            let found = undrain_host(&self.facts, cluster, wanted).await?;
            Ok(v1::UndrainHostResponse {
                host: Some(show(&found)),
            })
        })
        .await
    }

    async fn forget_host(
        &self,
        request: Request<v1::ForgetHostRequest>,
    ) -> Result<Response<v1::ForgetHostResponse>, Status> {
        self.call("HostService/ForgetHost", async {
            let name = request.into_inner().name;
            let (cluster, wanted) = resource::host(&name, "name")?;
            let found = forget_host(&self.facts, cluster, wanted).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::ForgetHostResponse {
                host: found.as_ref().map(show),
            })
        })
        .await
    }

    async fn list_host_runs(
        &self,
        request: Request<v1::ListHostRunsRequest>,
    ) -> Result<Response<v1::ListHostRunsResponse>, Status> {
        self.call(
            "HostService/ListHostRuns",
            host_runs::list(self, request.into_inner()),
        )
        .await
    }
}
