//! The gateway as its callers see it: a real port, gRPC and JSON, a storage in memory, a resource manager and a shard that
//! answer as told.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod access;
mod ages;
mod control;
mod grpc;
mod host_pools;
mod http;
mod json;
mod limits;
mod links;
mod log;
mod pages;
mod ready;
mod status;
mod watches;
mod world;
