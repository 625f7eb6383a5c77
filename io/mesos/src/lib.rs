//! Mesos over HTTP: the v1 scheduler API of a master as `hosts::Event` and `hosts::Call`, and flags of agents
//! and files of their sandboxes.
//!
//! It decides nothing: it opens the stream when it is told to, keeps calls in order, and says truly what became of each. It
//! never tries a call again, and never subscribes by itself. Its caller is the shard's host manager.

mod agents;
mod caller;
pub mod config;
mod connection;
mod dial;
pub mod files;
mod flags;
mod http;
mod leaders;
mod master;
mod open;
mod operator;
mod outbox;
mod outgoing;
mod probe;
mod reader;
mod stream;
#[cfg(test)]
mod tests;
mod zookeeper;

pub use config::{Config, Credential, Limits, Timing};
pub use connection::{spawn, spawn_over};
pub use dial::{Dial, Io, Tcp};
pub use echelon_proto::convert::mesos::Framework;
pub use files::{FilesError, Piece, pod_file, read_file, sandbox_file};
pub use master::{Endpoint, Masters, MastersError};
pub use outgoing::Outgoing;
pub use probe::{MasterAnswer, Probe};
pub use zookeeper::Url as ZooKeeperUrl;
