//! The real servers that tests run against: Cassandra, ZooKeeper and Prometheus, on loopback networks of their own.
//!
//! Each test takes the one shared by its binary (`Cassandra::shared()`) and a keyspace or path of its own in it; a test that
//! disturbs a server starts its own.

mod cassandra;
mod jars;
mod mesos;
mod prometheus;
mod zookeeper;

pub use cassandra::Cassandra;
pub use jars::fetch_all as fetch_jars;
pub use mesos::{Executors, MESOS, Mesos, MesosMember, MesosPrograms};
pub use prometheus::{Prometheus, Sample, promtool};
pub use zookeeper::ZooKeeper;

use std::fmt;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

/// The value that `shared` holds, started by the first caller; a failed start is told to every caller.
fn share<T>(
    shared: &'static OnceLock<Result<T, String>>,
    start: impl FnOnce() -> Result<T>,
) -> Result<&'static T> {
    let started = shared.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    started.as_ref().map_err(|error| anyhow!("{error}"))
}

/// `template` with each `@WORD@` replaced.
fn filled(template: &str, words: &[(&str, &dyn fmt::Display)]) -> String {
    words.iter().fold(template.to_owned(), |text, (word, value)| {
        text.replace(&format!("@{word}@"), &value.to_string())
    })
}
