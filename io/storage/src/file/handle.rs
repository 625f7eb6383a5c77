//! The open file, as readers and the writer share it. After an error of the system the library does nothing
//! more with a file: it is closed then and opened again, and what needs it waits for that moment.

use super::card::Identity;
use super::contained::contained;
use super::{FileProblem, opening};
use crate::StoreError;
use echelon_core_model::store::TroubleKind;
use redb::Database;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Why a file is not open.
#[derive(Debug, Clone)]
pub(super) enum Closed {
    /// The system refused something. Later it may not.
    Trouble(TroubleKind, String),
    /// The file itself is not as it should be.
    Problem(FileProblem),
}

impl Closed {
    pub fn of(error: StoreError) -> Self {
        match error {
            StoreError::File { problem, .. } => Self::Problem(problem),
            StoreError::Unavailable { kind, .. } => Self::Trouble(kind, error.chain()),
            other => Self::Trouble(TroubleKind::Schema, other.chain()),
        }
    }

    pub fn error(&self, path: &Path) -> StoreError {
        match self.clone() {
            Self::Trouble(kind, text) => StoreError::undone("using the file", text).of_kind(kind),
            Self::Problem(problem) => StoreError::File {
                path: path.to_owned(),
                problem,
            },
        }
    }

    pub const fn kind(&self) -> TroubleKind {
        match self {
            Self::Trouble(kind, _) => *kind,
            Self::Problem(_) => TroubleKind::Schema,
        }
    }

    /// Whether the disk has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Trouble(TroubleKind::Full, _))
    }
}

/// The file, open or not.
pub(super) struct Handle {
    path: PathBuf,
    slot: RwLock<Result<Database, Closed>>,
}

impl Handle {
    pub fn new(path: &Path, database: Database) -> Self {
        Self {
            path: path.to_owned(),
            slot: RwLock::new(Ok(database)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something with the file. A panic of the library becomes an error.
    pub fn with<R>(&self, work: impl FnOnce(&Database) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let slot = self.slot.read().unwrap_or_else(PoisonError::into_inner);
        let database = slot.as_ref().map_err(|closed| closed.error(&self.path))?;
        let done = contained(|| work(database));
        done.map_err(|panic| Closed::Problem(FileProblem::Damaged(panic)).error(&self.path))?
    }

    /// Closes the file and opens it again. It waits for those that read. How often it was written is given
    /// back.
    pub fn reopen(&self, said: &Identity, why: Closed) -> Result<u64, Closed> {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *slot, Err(why));
        // After a panic inside it, closing it may panic as well.
        let _ = contained(|| drop(before));
        match opening::reopen(&self.path, said) {
            Ok((database, writes)) => {
                *slot = Ok(database);
                Ok(writes)
            }
            Err(error) => {
                let why = Closed::of(error);
                *slot = Err(why.clone());
                Err(why)
            }
        }
    }
}
