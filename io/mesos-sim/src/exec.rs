//! Tasks as real processes: each under a supervisor in a session of its own, so that it outlives this process, and with
//! a sandbox folder that tells all about it.

mod account;
mod fetch;
mod http;
mod power_off;
mod probe;
mod process;
mod refusal;
mod run_log;
mod runner;
mod sandbox;
mod supervise;

pub(crate) use power_off::kill_all;
pub(crate) use runner::Runner;
pub(crate) use sandbox::Sandbox;
pub use supervise::supervise;
