//! `echelon storage ...`: sets a storage up, shows its level, accepts a file that its card does not belong
//! to, and resumes a storage after a backup was put back.

use crate::process::{exit_of, watch_panics};
use anyhow::Context;
use clap::{Args, Subcommand};
use echelon_cli::Failure;
use echelon_cli::exit::Exit;
use echelon_cli::output::{self, Format};
use echelon_io_storage::{LEVEL, Status, Store, StoreError};
use std::sync::Arc;

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
    /// Go on with the storage file that is there, or with an empty one, although its card says that another
    /// copy was used last
    Accept(Which),
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
    watch_panics();
    let asked = match storage {
        Storage::Resume(resume) => return crate::resume::run(&resume, format).await,
        Storage::Migrate(Which { storage: url }) => migrated(&url).await,
        Storage::Status(Which { storage: url }) => status_of(&url).await,
        Storage::Accept(Which { storage: url }) => accepted(&url).await,
    };
    let status = asked.map_err(|error| Failure::new(exit_of(&error), format!("{error:#}")))?;
    output::print(shown(&status, format));
    status
        .check()
        .map_err(|error: StoreError| Failure::new(Exit::Failed, error.chain()))
}

async fn migrated(url: &str) -> anyhow::Result<Status> {
    opened(url).await?.migrate().await.context("set the storage up")
}

async fn status_of(url: &str) -> anyhow::Result<Status> {
    if let Some(missing) = missing_file(url) {
        return Ok(missing);
    }
    opened(url)
        .await?
        .status()
        .await
        .context("ask for the storage's level")
}

async fn accepted(url: &str) -> anyhow::Result<Status> {
    let accepted = echelon_io_storage::accept(url).await;
    let store = accepted.with_context(|| format!("accept {}", echelon_io_storage::without_login(url)))?;
    store.status().await.context("ask for the storage's level")
}

async fn opened(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let opened = echelon_io_storage::open(url).await;
    opened.with_context(|| format!("open {}", echelon_io_storage::without_login(url)))
}

/// The status of a file that was never there: asking for it makes none.
pub(crate) fn missing_file(url: &str) -> Option<Status> {
    let path = url.strip_prefix("file:")?;
    let status = Status {
        place: url.to_owned(),
        level: 0,
        known: LEVEL,
    };
    let exists = |path: &str| std::path::Path::new(path).exists();
    (!path.is_empty() && !exists(path) && !exists(&format!("{path}.card"))).then_some(status)
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
