//! `echelon storage ...`: numbered migrations of a storage, and how it stands.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

/// What to do with a storage.
#[derive(Debug, Subcommand)]
pub enum Storage {
    /// Bring the schema to this program's version
    Migrate(Which),
    /// Show the schema's version and whether this program can use it
    Status(Which),
}

/// Which storage.
#[derive(Debug, Args)]
pub struct Which {
    /// file:PATH or cassandra://HOST:PORT,.../KEYSPACE
    #[arg(long, env = "ECHELON_STORAGE", value_name = "URL")]
    storage: String,
}
