//! The gateway as its callers see it: a real port, gRPC and JSON, a storage in memory, a resource manager and a shard that
//! answer as told.

mod grpc;
mod http;
mod json;
mod links;
mod pages;
mod world;
