//! The services of the public API: each method reads its message, calls `core/gateway`, and shows the answer.

mod apply;
mod clusters;
mod control;
mod edit;
mod events;
mod host_pools;
mod host_runs;
mod hosts;
mod instances;
mod jobs;
mod log;
mod pools;
mod schedules;
mod status;
mod volumes;
mod watch;

use crate::context::Gateway;
use echelon_core_gateway::page::{Page, PageRequest};
use echelon_core_model::limits::{REQUEST_BYTES, TREE_REQUEST_BYTES};
use echelon_proto::FILE_DESCRIPTOR_SET;
use echelon_proto::convert::control::UNREAD_ROWS;
use echelon_proto::echelon::v1::cluster_service_server::ClusterServiceServer;
use echelon_proto::echelon::v1::control_service_server::ControlServiceServer;
use echelon_proto::echelon::v1::event_service_server::EventServiceServer;
use echelon_proto::echelon::v1::host_pool_service_server::HostPoolServiceServer;
use echelon_proto::echelon::v1::host_service_server::HostServiceServer;
use echelon_proto::echelon::v1::instance_service_server::InstanceServiceServer;
use echelon_proto::echelon::v1::job_service_server::JobServiceServer;
use echelon_proto::echelon::v1::pool_service_server::PoolServiceServer;
use echelon_proto::echelon::v1::status_service_server::StatusServiceServer;
use echelon_proto::echelon::v1::volume_service_server::VolumeServiceServer;
use echelon_proto::role::role_service;
use tonic::Response;
use tonic::metadata::MetadataValue;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;

/// Why the services cannot be made: a mistake in the build.
pub(crate) type ReflectionError = tonic_reflection::server::Error;

/// Only the public API: without health and reflection. JSON and the pages go through this.
pub(crate) fn api(gateway: &Gateway) -> Routes {
    let g = || gateway.clone();
    Routes::new(JobServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(InstanceServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(PoolServiceServer::new(g()).max_decoding_message_size(TREE_REQUEST_BYTES))
        .add_service(ClusterServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(HostServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(HostPoolServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(VolumeServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(ControlServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(EventServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
        .add_service(StatusServiceServer::new(g()).max_decoding_message_size(REQUEST_BYTES))
}

/// The services of the public API.
pub(crate) const SERVICES: [&str; 10] = [
    "echelon.v1.JobService",
    "echelon.v1.InstanceService",
    "echelon.v1.PoolService",
    "echelon.v1.ClusterService",
    "echelon.v1.HostService",
    "echelon.v1.HostPoolService",
    "echelon.v1.VolumeService",
    "echelon.v1.ControlService",
    "echelon.v1.EventService",
    "echelon.v1.StatusService",
];

/// All services with what gateways ask each other, reflection of both versions and health, and what sets the health.
pub(crate) fn routes(gateway: &Gateway) -> Result<(Routes, HealthReporter), ReflectionError> {
    let reflection = || {
        SERVICES.into_iter().chain(["grpc.health.v1.Health"]).fold(
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET),
            tonic_reflection::server::Builder::with_service_name,
        )
    };
    let (health, health_service) = tonic_health::server::health_reporter();
    let gateway = gateway.clone();
    let routes = api(&gateway)
        .add_service(role_service(move || gateway.role_state()))
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    Ok((routes, health))
}

fn page(size: i32, token: String) -> PageRequest {
    PageRequest { size, token }
}

/// How many there are on all pages, where that was counted.
fn total<T>(page: &Page<T>) -> Option<i64> {
    page.total.map(|n| i64::try_from(n).unwrap_or(i64::MAX))
}

/// Bytes of metadata that name rows: the rest is counted.
const NAMES_BYTES: usize = 1024;

/// Names the rows of a list that cannot be understood beside the answer.
fn name_unread<T>(answer: &mut Response<T>, rows: &[String]) {
    let mut said = String::new();
    for (i, row) in rows.iter().enumerate() {
        if said.len() + row.len() > NAMES_BYTES && i > 0 {
            said.push_str(&format!(" And {} more.", rows.len() - i));
            break;
        }
        let space = if i == 0 { "" } else { " " };
        let visible = row
            .chars()
            .map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' });
        said.push_str(space);
        said.extend(visible.take(NAMES_BYTES));
    }
    if let Some(value) = MetadataValue::try_from(said).ok().filter(|v| !v.is_empty()) {
        answer.metadata_mut().insert(UNREAD_ROWS, value);
    }
}

/// A page's items shown, with the token of the next.
fn shown<T, W>(page: Page<T>, show: impl Fn(&T) -> W) -> (Vec<W>, String) {
    (
        page.items.iter().map(show).collect(),
        page.next.unwrap_or_default(),
    )
}
