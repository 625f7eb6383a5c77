//! The gateway's shell: one port with the public API over gRPC and as JSON over HTTP, pages for people, metrics and
//! health. It turns requests into methods of `core/gateway`, performs their operations on storage, and passes plans and
//! logs on to the resource manager and the shards. It keeps nothing: any gateway answers any request.
#![forbid(unsafe_code)]

mod access;
mod changes;
mod cluster_health;
mod config;
mod context;
mod deadline;
mod endpoints;
mod error;
mod facts;
mod feeds;
mod grpc;
mod guard;
mod health;
mod http_sd;
mod json;
mod leaders;
mod links;
mod pages;
mod serve;
mod show;
mod status;
mod switches;
mod telemetry;
mod unconfirmed;

pub use config::{Config, MOST_REQUESTS, REQUEST_TIME, WATCH_ROUND};
pub use serve::{Running, ServeError, serve};
