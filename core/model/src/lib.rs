//! The words that every room of Echelon shares: ids, quantities, specs, states, reasons, stored facts and the
//! messages between the resource manager and a shard.
//!
//! Nothing here serialises, reads a clock or does I/O; wire and row formats live in `proto`. A type that only one room
//! uses belongs to that room. Section numbers in the docs point at ARCHITECTURE.md.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod amount;
pub mod assignment;
pub mod bucket;
pub mod change;
pub mod claim;
pub mod class;
pub mod cluster;
pub mod cluster_choice;
pub mod cluster_labels;
pub mod control;
pub mod directive;
pub mod drain;
pub mod environment;
pub mod failure;
pub mod few;
pub mod forgotten;
pub mod gang;
pub mod gone;
pub mod health;
pub mod host_pool;
pub mod id;
pub mod instance;
pub mod instance_limit;
pub mod job;
pub mod job_defaults;
pub mod limits;
pub mod log;
pub mod nearest;
pub mod overrides;
pub mod pause;
pub mod platform;
pub mod pod;
pub mod pool;
pub mod ports;
pub mod range;
pub mod reason;
pub mod resources;
pub mod restart;
pub mod revision;
pub mod role_state;
pub mod rollout;
pub mod rules;
pub mod run;
pub mod runtime;
pub mod schedule;
pub mod seldom;
pub mod sharing;
pub mod siting;
pub mod spec;
pub mod spec_digest;
pub mod start_ban;
pub mod starts;
pub mod store;
pub mod sum;
pub mod time;
pub mod timetable;
pub mod token;
pub mod unconfirmed;
pub mod volume;
mod weight;

pub use amount::Amount;
pub use assignment::{AssignedRange, Assignment, Releasing};
pub use few::Few;
pub use id::{
    ClusterId, Epoch, Generation, GroupName, HostId, HostPoolName, InstanceId, InstanceNumber, JobId, PoolId,
    RequestId, RunNumber, SidecarName, TaskId, Version, VolumeId,
};
pub use nearest::nearest;
pub use pod::MemberId;
pub use ports::PortSet;
pub use range::{InstanceRange, RangeSet};
pub use reason::{Reason, ReasonCode};
pub use resources::{Kind, Resources};
pub use run::RunState;
pub use seldom::{Nothing, Seldom};
pub use sum::ResourceSum;
/// A list that is mostly empty: no more than a pointer while it is.
pub use thin_vec::ThinVec;
pub use time::{Span, Timestamp};
