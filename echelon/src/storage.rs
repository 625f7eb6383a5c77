//! `echelon storage ...`: numbered migrations of a storage, and how it stands.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use echelon_cli::output;

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

/// Runs a verb.
///
/// # Errors
/// When the storage cannot be reached, or was written by a newer program.
pub async fn run(storage: Storage) -> Result<()> {
    let (Storage::Migrate(which) | Storage::Status(which)) = &storage;
    let store = echelon_io_storage::open(&which.storage)
        .await
        .with_context(|| format!("open {}", which.storage))?;
    let status = match &storage {
        Storage::Migrate(_) => store.migrate().await.context("carry out the migrations")?,
        Storage::Status(_) => store.status().await.context("ask how the storage stands")?,
    };
    output::line(format_args!(
        "storage:   {}\nmigration: {} of {}",
        status.place, status.version, status.latest
    ));
    if status.version < status.latest {
        output::line(format_args!(
            "to do:     echelon storage migrate --storage {}",
            which.storage
        ));
    }
    Ok(())
}
