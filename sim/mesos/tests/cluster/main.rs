//! The simulated cluster under faults and load, in virtual time: what the recordings do not show.
#![cfg(test)]
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test says what it counted, and is asked for more by the nightly run"
)]

mod executors;
mod fairness;
mod faults;
mod framework;
mod laws;
mod leaks;
mod operations;
mod operators;
mod probes;
mod waiting_executors;
