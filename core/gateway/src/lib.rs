//! What the gateway does next, for each method of the public API: which facts it reads, what it decides, and what it
//! answers. A method is an async function over a port to storage ([`port::Facts`]): the shell in `gateway/` performs each
//! operation, the simulation and the tests step through it with [`call::Call`], and may drop it anywhere.
//!
//! Nothing here knows the wire, a clock, randomness or another process: time and chance are arguments.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod access;
pub mod apply;
pub mod ask;
pub mod bounds;
pub mod call;
pub mod change;
pub mod cluster_removal;
pub mod clusters;
pub mod control;
pub mod create;
pub mod declare;
pub mod drains;
pub mod ending;
pub mod error;
pub mod event_feed;
pub mod events;
pub mod explain;
pub mod host_forget;
pub mod host_moves;
pub mod host_pools;
pub mod host_sets;
pub mod hosts;
pub mod instance_limits;
pub mod instances;
pub mod jobs;
pub mod logs;
pub mod lookup;
pub mod never_fits;
pub mod page;
pub mod pools;
pub mod port;
pub mod progress;
pub mod replace;
pub mod resource;
pub mod restart;
pub mod rollouts;
pub mod schedules;
pub mod sightings;
pub mod update;
pub mod validate;
pub mod view;
pub mod volumes;
mod wishes;

pub use error::{ApiError, Code, ErrorReason, Violation};
pub use port::Facts;

#[cfg(test)]
mod testing;
