//! What every process of Echelon has, whatever its role: configuration, clock, logs, metrics, health, shutdown and
//! backoff.
//!
//! Nothing here knows a role, a job or a store; the shells (`gateway`, `resource-manager`, `shard`, `mesos-sim`) and
//! `echelon` build on it. Deciding crates never depend on it: they get time and randomness as arguments.

pub mod backoff;
pub mod clock;
pub mod config;
mod contact;
pub mod descriptors;
mod fold;
pub mod health;
pub mod http;
pub mod listener;
pub mod logs;
pub mod metrics;
pub mod shutdown;

pub use backoff::Backoff;
pub use clock::Clock;
pub use config::Common;
pub use contact::{ContactWatch, Contacts};
pub use health::{Condition, Readiness};
pub use metrics::Metrics;
pub use shutdown::Shutdown;
