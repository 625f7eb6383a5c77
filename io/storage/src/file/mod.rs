//! `file:PATH`: rows in one embedded file (redb), the default of `standalone`. One process has it open at a
//! time. Reads see a snapshot and never wait for the writer; writes go through the one thread of `writer`.
//! A card beside the file says which storage it is and how often it was written.

mod card;
mod contained;
mod handle;
mod maps;
mod opening;
mod problem;
mod writer;

pub use contained::panics_are_contained;
pub use problem::FileProblem;

use crate::kv::{KvRows, ready};
use crate::layout::{check_batch, check_decision};
use crate::read::{TreeCache, read};
use crate::{Durability, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query, Reading};
use handle::Handle;
use maps::Snapshot;
use opening::{Doubt, Opened};
use redb::ReadableDatabase;
use std::path::Path;
use std::sync::Arc;
use writer::Writer;

/// A storage in a file. Dropping it lets the file go, once what was handed to it is written.
pub struct FileStore {
    level: u32,
    writer: Writer,
    file: Arc<Handle>,
    trees: Arc<TreeCache>,
}

impl FileStore {
    /// Opens the file, or makes it. What a killed process left behind is good at once: the last answered write is there.
    ///
    /// # Errors
    /// It cannot be opened, is damaged, or does not belong to its card. One of another level is opened, for
    /// `Store::status` alone.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::serve(path, opening::open(path, Doubt::Refuse)?)
    }

    /// Opens the file that is there, or makes an empty one, whatever its card says, and writes a card that
    /// belongs to it. From then on `open` takes it.
    ///
    /// # Errors
    /// It cannot be opened, or is damaged.
    pub fn accept(path: &Path) -> Result<Self, StoreError> {
        Self::serve(path, opening::open(path, Doubt::Accept)?)
    }

    /// Whether a file was never written to since it was made, as its card says.
    #[must_use]
    pub fn is_new(path: &Path) -> bool {
        matches!(card::read(&card::path_of(path)), Ok(Some(said)) if said.writes == 0)
    }

    fn serve(path: &Path, opened: Opened) -> Result<Self, StoreError> {
        let Opened {
            database,
            level,
            card,
        } = opened;
        let file = Arc::new(Handle::new(path, database));
        Ok(Self {
            level,
            writer: Writer::start(Arc::clone(&file), card)?,
            file,
            trees: Arc::default(),
        })
    }

    fn found(&self) -> Status {
        Status::new(format!("file:{}", self.file.path().display()), self.level)
    }
}

#[async_trait]
impl Store for FileStore {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        const WHAT: &str = "reading the file";
        self.found().check()?;
        let (file, trees) = (Arc::clone(&self.file), Arc::clone(&self.trees));
        let reading = tokio::task::spawn_blocking(move || {
            file.with(|database| {
                let snapshot = database
                    .begin_read()
                    .map_err(|e| StoreError::undone(WHAT, redb::Error::from(e)))?;
                ready(read(&KvRows(&Snapshot(snapshot)), &query, consistency, &trees))
            })
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
        Durability::of_file()
    }
}
