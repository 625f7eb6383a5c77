//! `file:PATH`: rows in one embedded file (redb), the default of `standalone`. One process has it open at a time. Reads
//! see a snapshot and never wait for the writer; writes go through the one thread of `writer`.

mod maps;
mod writer;

use crate::kv::{KvRows, ready};
use crate::layout::{check_batch, check_decision};
use crate::read::read;
use crate::{Durability, Finding, Standing, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query, Reading};
use maps::Snapshot;
use redb::{Database, ReadableDatabase};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use writer::Writer;

/// Pages kept in memory: enough for a hundred thousand instances, small beside the process itself.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// A storage in a file. Dropping it lets the file go, once what was handed to it is written.
pub struct FileStore {
    path: PathBuf,
    level: u32,
    writer: Writer,
    file: Arc<Database>,
}

impl FileStore {
    /// Opens the file, or makes it. What a killed process left behind is good at once: the last answered write is there.
    ///
    /// # Errors
    /// It cannot be opened, another process has it open, or it is no such file. One of another level is opened, for
    /// `Store::status` alone.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let what = || format!("opening {}", path.display());
        let file = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(path)
            .map_err(|e| match e {
                redb::DatabaseError::DatabaseAlreadyOpen => StoreError::undone(
                    what(),
                    "another process has it open; stop that one, or give this one a file of its own",
                ),
                other => StoreError::undone(what(), other),
            })?;
        let file = Arc::new(file);
        let level = maps::prepare(&file).map_err(|e| StoreError::undone(what(), e))?;
        Ok(Self {
            path: path.to_owned(),
            level,
            writer: Writer::start(Arc::clone(&file))?,
            file,
        })
    }

    fn found(&self) -> Status {
        Status::new(format!("file:{}", self.path.display()), self.level)
    }
}

#[async_trait]
impl Store for FileStore {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        const WHAT: &str = "reading the file";
        self.found().check()?;
        let file = Arc::clone(&self.file);
        let reading = tokio::task::spawn_blocking(move || {
            let snapshot = file.begin_read().map_err(|e| StoreError::undone(WHAT, e))?;
            ready(read(&KvRows(&Snapshot(snapshot)), &query, consistency))
        });
        reading.await.map_err(|e| StoreError::undone(WHAT, e))?
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        self.found().check()?;
        let plan = check_decision(&decision)?;
        self.writer.decide(decision, plan).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.found().check()?;
        let rows = check_batch(&batch)?;
        self.writer.commit(batch.stamp, rows).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        Ok(self.found())
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        // Opening the file did it.
        self.found().check().map(|()| self.found())
    }

    async fn durability(&self) -> Durability {
        let commit = Finding::new(
            "commit-log",
            Standing::Durable,
            "a write is on this machine's disk before it is acknowledged",
        );
        let copies = Finding::new(
            "copies",
            Standing::Weak,
            "there is one copy, and it is lost with this disk; keep backups, or use Cassandra",
        );
        Durability {
            findings: vec![commit, copies],
        }
    }
}
