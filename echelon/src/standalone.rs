//! A whole federation in one process: storage in a file, membership within the process, simulated or real clusters, one
//! gateway, one resource manager and a shard for each cluster. They meet by the same protocols as apart, on loopback.

mod clusters;
mod config;
mod folder;
mod masters;
mod start;

pub use config::{Cluster, Config, Tasks};
pub use folder::FolderError;
pub use start::{Running, start, start_in};
