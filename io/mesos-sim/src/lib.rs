//! A simulated Mesos cluster behind the real HTTP APIs: the scheduler API and a part of the operator API on the master's
//! port, state and files on each agent's own. Tasks are real processes or virtual ones.
//!
//! What Mesos does is decided in `sim/mesos`; here bytes, processes and files meet it. It is a stand-in for
//! development and tests: the product drives real Mesos. [`serve`] starts it, [`supervise`] is what each task's
//! supervisor process runs, and [`power_off`] is the loss of all its hosts.
#![forbid(unsafe_code)]

mod agent;
mod authentication;
mod codec;
mod config;
mod engine;
mod exec;
mod faults;
mod files;
mod host_ports;
mod http;
mod journal;
mod operator;
mod scheduler;
mod server;

pub use config::{AgentShape, Config, Exec, Mode, ServeError};
pub use echelon_sim_mesos::{AgentId, Bundle, Span, Virtual};
pub use exec::supervise;
pub use server::{Running, power_off, serve};
