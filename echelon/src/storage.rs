//! `echelon storage ...`: sets a storage up, shows its level, and resumes it after a backup was put back.

use crate::process::exit_of;
use anyhow::Context;
use clap::{Args, Subcommand};
use echelon_cli::Failure;
use echelon_cli::exit::Exit;
use echelon_cli::output::{self, Format};
use echelon_io_storage::{LEVEL, Status, StoreError};

/// What to do with a storage.
#[derive(Debug, Subcommand)]
pub enum Storage {
    /// Set an empty storage up for this program
    Migrate(Which),
    /// Show the storage's level; exit code 1 when this program does not work on it
    Status(Which),
    /// Resume a storage that is behind its clusters after a backup was put back; what Mesos runs becomes the
    /// latest
    Resume(crate::resume::Resume),
}

/// Which storage.
#[derive(Debug, Args)]
pub struct Which {
    /// file:PATH or cassandra://HOST:PORT,.../KEYSPACE
    #[arg(long, env = "ECHELON_STORAGE", value_name = "URL")]
    pub(crate) storage: String,
}

/// Runs a verb.
///
/// # Errors
/// The storage cannot be reached, or this program does not work on it.
pub async fn run(storage: Storage, format: Format) -> Result<(), Failure> {
    let which = match &storage {
        Storage::Migrate(which) | Storage::Status(which) => which,
        Storage::Resume(resume) => return crate::resume::run(resume, format).await,
    };
    let wants_status = matches!(storage, Storage::Status(_));
    let asked = async {
        if let Some(missing) = missing_file(&which.storage).filter(|_| wants_status) {
            return Ok(missing);
        }
        let store = echelon_io_storage::open(&which.storage)
            .await
            .with_context(|| format!("open {}", which.storage))?;
        if wants_status {
            return store.status().await.context("ask for the storage's level");
        }
        store.migrate().await.context("set the storage up")
    };
    let status = asked
        .await
        .map_err(|error| Failure::new(exit_of(&error), format!("{error:#}")))?;
    output::print(shown(&status, format));
    status
        .check()
        .map_err(|error: StoreError| Failure::new(Exit::Failed, error.chain()))
}

/// The status of a file that is not there: asking for it makes none.
pub(crate) fn missing_file(url: &str) -> Option<Status> {
    let path = url.strip_prefix("file:")?;
    let status = Status {
        place: url.to_owned(),
        level: 0,
        known: LEVEL,
    };
    (!path.is_empty() && !std::path::Path::new(path).exists()).then_some(status)
}

fn shown(status: &Status, format: Format) -> String {
    let value = serde_json::json!({
        "storage": status.place,
        "level": status.level,
        "known_level": status.known,
        "usable": status.is_current(),
    });
    let level = match status.level {
        0 => "none: it is not set up".to_owned(),
        n => n.to_string(),
    };
    let people = format!(
        "storage:      {}\nlevel:        {level}\nthis program: works on level {}\n",
        status.place, status.known
    );
    output::one(&value, &status.place, &people, format)
}
