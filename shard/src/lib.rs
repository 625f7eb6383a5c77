//! A shard as a process: one loop around the driver of `core/shard`, a connection to its cluster's Mesos, placement on a
//! worker thread, storage operations as tasks, and the service for the resource manager and gateways. It performs and
//! observes; what to do about jobs is decided in the driver alone. Started by `echelon`.
#![forbid(unsafe_code)]

mod gateways;
mod grpc;
mod host_manager;
mod job_manager;
mod links;
mod log;
mod measure;
mod placement_engine;
mod probing;
mod register;
mod serve;
mod tails;

pub use echelon_core_shard::{LogLimits, Timing as DriverTiming};
pub use echelon_io_mesos as mesos;
pub use host_manager::Mesos;
pub use serve::{Config, Parts, Running, ServeError, serve};
