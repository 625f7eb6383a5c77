//! Options: a flag, else the configuration file, else a default. Each role has one struct that is both the flags and the
//! file; what every process has stands in the file's section `[process]`.

use anyhow::Result;
use clap::Args;
use echelon_io_process::config::{self, Common};
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// An option that is missing, or cannot be.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct WrongOption(pub String);

/// What a role is told.
pub trait Options: Args + DeserializeOwned + Default {
    /// These, and where they are silent the file's.
    #[must_use]
    fn over(self, file: Self) -> Self;

    /// What every process has; never given as a flag of this struct.
    fn process(&mut self) -> &mut Common;
}

/// A role's flags with those of every process.
#[derive(Debug, Args)]
pub struct Configured<O: Args> {
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE", env = "ECHELON_CONFIG")]
    config: Option<PathBuf>,
    /// Address to serve on; a port of 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Which log lines are written: `info`, or `info,echelon_shard=debug`
    #[arg(long, value_name = "FILTER", env = "ECHELON_LOG")]
    log: Option<String>,
    #[command(flatten)]
    options: O,
}

impl<O: Options> Configured<O> {
    /// The options that hold.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn resolve(self) -> Result<O> {
        let file = match &self.config {
            Some(path) => config::load(path)?,
            None => O::default(),
        };
        let mut file = file;
        let mut common = std::mem::take(file.process());
        if let Some(listen) = self.listen {
            common.listen = listen;
        }
        if let Some(log) = self.log {
            common.log = log;
        }
        let mut options = self.options.over(file);
        *options.process() = common;
        Ok(options)
    }
}

/// An option that must be there.
///
/// # Errors
/// It is not; the error says how to give it.
pub fn required<T>(value: Option<T>, name: &str, example: &str) -> Result<T, WrongOption> {
    value.ok_or_else(|| {
        WrongOption(format!(
            "`--{name}` is missing: give it as a flag, or write `{} = \"{example}\"` in the configuration file",
            name.replace('-', "_")
        ))
    })
}

/// The storage that is meant.
///
/// # Errors
/// None is named.
pub fn storage(url: Option<String>) -> Result<String, WrongOption> {
    required(url, "storage", "cassandra://host:9042/echelon?replication=3")
}

/// The membership that is meant.
///
/// # Errors
/// None is named.
pub fn membership(url: Option<String>) -> Result<String, WrongOption> {
    required(url, "membership", "zookeeper://host:2181/echelon")
}
