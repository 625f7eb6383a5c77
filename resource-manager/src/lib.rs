//! The resource manager as a process: one loop around the driver of `core/resource-manager`, storage operations as tasks, one
//! stream to each shard's leader, and the service that gateways call. It performs and observes; what to do about jobs is
//! decided in the driver alone. Started by `echelon`.
#![forbid(unsafe_code)]

mod admission;
mod cluster_work;
mod coverage;
mod figures;
mod grpc;
mod link;
mod measure;
mod plan;
mod query;
mod run;
mod serve;

pub use echelon_core_resource_manager::Config as DriverConfig;
pub use serve::{Config, Parts, Running, ServeError, serve};
