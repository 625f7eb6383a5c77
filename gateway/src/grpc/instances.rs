//! InstanceService.

use super::{log, page, shown};
use crate::access::caller;
use crate::context::Gateway;
use crate::endpoints;
use crate::error::missing;
use crate::show::{show_endpoint, show_instance, show_part};
use echelon_core_gateway::instances::{InstanceFilter, get_instance, list_endpoints, list_instances};
use echelon_core_gateway::replace::replace_instance;
use echelon_core_gateway::view::Part;
use echelon_core_gateway::{ApiError, resource};
use echelon_core_model::VolumeId;
use echelon_proto::convert::instance::read_run_state;
use echelon_proto::echelon::v1;
use tonic::{Request, Response, Status};
use v1::instance_service_server::InstanceService;

impl Gateway {
    fn part(&self, part: &Part) -> v1::Part {
        show_part(part, self.leaders.manager_absent_since())
    }
}

#[tonic::async_trait]
impl InstanceService for Gateway {
    type ReadLogStream = log::Reading;
    type WatchEndpointsStream = endpoints::Watching;

    async fn get_instance(
        &self,
        request: Request<v1::GetInstanceRequest>,
    ) -> Result<Response<v1::GetInstanceResponse>, Status> {
        self.call("InstanceService/GetInstance", async {
            let (job, group, number) = resource::instance(&request.into_inner().name, "name")?;
            let seen = get_instance(&self.facts, &job, &group, number, self.now()).await?;
            Ok(v1::GetInstanceResponse {
                instance: Some(show_instance(&seen.instance, seen.job)),
                parts: seen.parts.iter().map(|part| self.part(part)).collect(),
            })
        })
        .await
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<v1::ListInstancesResponse>, Status> {
        let caller = caller(&request);
        self.call("InstanceService/ListInstances", async {
            let r = request.into_inner();
            self.admit(caller, &r.parent).await?;
            let (job, group) = resource::job_or_group(&r.parent, "parent")?;
            let states: Option<_> = r.states.iter().map(|s| read_run_state(*s)).collect();
            let filter = InstanceFilter {
                group,
                states: states.ok_or_else(|| {
                    ApiError::field("states", "must be states of instances, such as RUN_STATE_RUNNING")
                })?,
                cluster: r.cluster,
                available: false,
            };
            let asked = page(r.page_size, r.page_token);
            let found = list_instances(&self.facts, &job, filter, asked, self.now()).await?;
            let id = found.job;
            let (instances, next_page_token) = shown(found.page, |i| show_instance(i, id));
            Ok(v1::ListInstancesResponse {
                instances,
                next_page_token,
                parts: found.parts.iter().map(|part| self.part(part)).collect(),
            })
        })
        .await
    }

    async fn list_endpoints(
        &self,
        request: Request<v1::ListEndpointsRequest>,
    ) -> Result<Response<v1::ListEndpointsResponse>, Status> {
        let caller = caller(&request);
        self.call("InstanceService/ListEndpoints", async {
            let r = request.into_inner();
            self.admit(caller, &r.parent).await?;
            let (job, group) = resource::job_or_group(&r.parent, "parent")?;
            let filter = InstanceFilter {
                group,
                cluster: r.cluster,
                ..InstanceFilter::default()
            };
            let asked = page(r.page_size, r.page_token);
            let found = list_endpoints(&self.facts, &job, filter, asked, self.now()).await?;
            let id = found.job;
            let (endpoints, next_page_token) = shown(found.page, |i| show_endpoint(i, id));
            Ok(v1::ListEndpointsResponse {
                endpoints: endpoints.into_iter().flatten().collect(),
                next_page_token,
            })
        })
        .await
    }

    async fn watch_endpoints(
        &self,
        request: Request<v1::WatchEndpointsRequest>,
    ) -> Result<Response<Self::WatchEndpointsStream>, Status> {
        let caller = caller(&request);
        self.call("InstanceService/WatchEndpoints", async {
            let r = request.into_inner();
            self.admit(caller, &r.parent).await?;
            endpoints::watch(self.clone(), r).await
        })
        .await
    }

    async fn replace_instance(
        &self,
        request: Request<v1::ReplaceInstanceRequest>,
    ) -> Result<Response<v1::ReplaceInstanceResponse>, Status> {
        self.call("InstanceService/ReplaceInstance", async {
            let r = request.into_inner();
            let (job, group, number) = resource::instance(&r.name, "name")?;
            if r.volume_id.is_empty() {
                return Err(missing("volume_id"));
            }
            let volume = VolumeId::new(r.volume_id);
            let seen = replace_instance(&self.facts, (&job, &group, number), &volume, self.now()).await?;
            Ok(v1::ReplaceInstanceResponse {
                instance: Some(show_instance(&seen.instance, seen.job)),
            })
        })
        .await
    }

    async fn read_log(
        &self,
        request: Request<v1::ReadLogRequest>,
    ) -> Result<Response<Self::ReadLogStream>, Status> {
        self.call(
            "InstanceService/ReadLog",
            log::start(self.clone(), request.into_inner()),
        )
        .await
    }
}
