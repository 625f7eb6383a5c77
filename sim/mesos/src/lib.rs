//! A Mesos master with its agents as a state machine: calls, reports and the time go in, answers, events and commands
//! come out. No clock, no sockets, no processes; the same seed and inputs give the same outputs. [`Cluster`] is all there
//! is to hold; `io/mesos-sim` serves it over HTTP, `sim/world` calls it in virtual time. Rule numbers (R1, S1, H1) are
//! those of the facts about Mesos that recordings of a real master confirm.
//!
//! Simulated: subscription, failover, streams and heartbeats; offers by role with filters, SUPPRESS and REVIVE, shared
//! fairly (dominant resources, tree of roles) within quota limits, with time-outs; command tasks, task groups and custom
//! executors, their updates, retries, acknowledgements, KILL, SHUTDOWN, MESSAGE; what follows from the results of health
//! checks, and `max_completion_time`; reservations, persistent and shared volumes and revocable resources, operations with
//! feedback; reconciliation; agents that disconnect, fall silent, return, are marked gone, drained, deactivated, removed;
//! maintenance with inverse offers; master failover and redirects; UPDATE_FRAMEWORK; TEARDOWN; the death of a master whose
//! framework triggers one of its assertions.
//!
//! Deliberately left out, refused in the way a master refuses what it cannot do: custom executors of task groups, disks
//! and operations of resource providers, quota guarantees and weights, offer constraints. Estimators and QoS controllers
//! say and do what they are told ([`Cluster::lend`]).
//! Nobody runs health checks and checks unless whoever runs tasks does and reports the results ([`Cluster::checked`],
//! [`Cluster::check_said`]), and an agent that starts again has forgotten them and `max_completion_time`. What is in an image,
//! a volume or a secret is nobody's business here. A shutdown that a custom executor does not heed is not
//! enforced. An operation on an agent that is cut off arrives at once; only its feedback waits. Who calls is judged by
//! [`Request::principal`]; asking for secrets is the shell's part.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod accept;
mod agent;
mod allocate;
mod amount;
mod bundle;
mod call;
mod check;
mod closing;
mod cluster;
mod config;
mod containment;
mod conversion;
mod crash;
mod departure;
mod drain;
mod event;
mod executor;
mod executor_info;
mod failover;
mod fault;
mod feedback;
mod framework;
mod framework_info;
mod group;
mod health;
mod id;
mod inverse_offer;
mod kill;
mod launch;
mod maintenance;
mod membership;
mod offer;
mod operation;
mod operator;
mod output;
mod quota;
mod random;
mod reconcile;
mod refuse;
mod registration;
mod request;
mod resource;
mod resource_text;
mod revocable;
mod share;
mod shared_executor;
mod store;
mod subscribe;
mod task_record;
mod timers;
mod truth;
mod update;
mod validate;
mod validate_container;
mod validate_probe;
mod view;

pub use bundle::{Bundle, text_attribute};
pub use cluster::{Cluster, Leadership};
pub use config::{AgentSpec, Config, Executors, Virtual};
pub use echelon_core_model::time::{Span, Timestamp};
pub use executor::Exit;
pub use fault::{Fault, Registry, UnknownAgent, Updates};
pub use id::{AgentId, Container, ExecutorId, ExecutorRun, FrameworkId, Run, StreamId, TaskId};
pub use membership::Tasks;
pub use output::{Launch, Output, StreamEnd};
pub use random::{Random, uuid_text};
pub use request::{Accept, Body, Request, Response};
pub use store::RecoverError;
