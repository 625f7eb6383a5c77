//! A Mesos master with its agents as a state machine: calls, reports and the time go in, answers, events and commands
//! come out. No clock, no sockets, no processes; the same seed and inputs give the same outputs. [`Cluster`] is all there
//! is to hold; `io/mesos-sim` serves it over HTTP, `sim/world` calls it in virtual time. Rule numbers (R1, S1, H1) are
//! those of the facts about Mesos that recordings of a real master confirm.
//!
//! Simulated: subscription, failover, streams and heartbeats; offers by role with filters, SUPPRESS and REVIVE; LAUNCH of
//! command tasks, their updates, retries, acknowledgements, KILL; reconciliation; agents that disconnect, fall silent,
//! return or are marked gone; master failover and redirects; UPDATE_FRAMEWORK; TEARDOWN.
//!
//! Deliberately left out, refused in the way a master refuses what it cannot do: task groups and custom executors,
//! reservations, volumes and their operations, revocable resources, quota and weights, health checks (they are validated,
//! not run), `max_completion_time`, offer constraints and time-outs, maintenance and inverse offers, draining,
//! authentication, and the closing time of executors (rule R75).
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod accept;
mod agent;
mod allocate;
mod bundle;
mod call;
mod check;
mod cluster;
mod config;
mod event;
mod executor;
mod failover;
mod framework;
mod framework_info;
mod id;
mod kill;
mod launch;
mod membership;
mod offer;
mod output;
mod random;
mod reconcile;
mod refuse;
mod registration;
mod request;
mod store;
mod subscribe;
mod timers;
mod truth;
mod update;
mod validate;
mod view;

pub use bundle::{Bundle, text_attribute};
pub use cluster::{Cluster, Leadership};
pub use config::{AgentSpec, Config, Executors, Virtual};
pub use echelon_core_model::time::{Span, Timestamp};
pub use executor::Exit;
pub use id::{AgentId, Container, FrameworkId, Run, StreamId, TaskId};
pub use membership::Tasks;
pub use output::{Launch, Output, StreamEnd};
pub use random::{Random, uuid_text};
pub use request::{Accept, Body, Request, Response};
pub use store::RecoverError;
