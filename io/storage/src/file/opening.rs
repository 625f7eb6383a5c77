//! Opens a storage file: looks at its card, at what it holds, and at its level, before it is used.

use super::card::{self, Card, Identity};
use super::contained::contained;
use super::{FileProblem, maps};
use crate::{LEVEL, StoreError};
use redb::{Database, DatabaseError};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::Path;

/// Pages kept in memory: enough for a hundred thousand instances, small beside the process itself.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// What each file of the library begins with.
const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// An open file.
pub(super) struct Opened {
    pub database: Database,
    pub level: u32,
    /// How often it was written, with its card; `None` when it is of another level and stays as it is.
    pub card: Option<(Card, u64)>,
}

/// What is to be done where the file and its card do not belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The file is refused.
    Refuse,
    /// An operator says that this file is to be used.
    Accept,
}

/// Opens a file, or makes it, and checks all of it.
pub(super) fn open(path: &Path, doubt: Doubt) -> Result<Opened, StoreError> {
    let problem = |problem| StoreError::File {
        path: path.to_owned(),
        problem,
    };
    let card_path = card::path_of(path);
    let accepts = doubt == Doubt::Accept;
    let is_absent = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(problem(FileProblem::Folder)),
        Ok(found) => found.len() == 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(of_io(path, error)),
    };
    let said = match card::read(&card_path) {
        Err(_) if accepts => None,
        said => said.map_err(problem)?,
    };
    let said = match said {
        Some(said) if is_absent && said.writes > 0 => {
            if !accepts {
                return Err(problem(FileProblem::Missing(said.writes)));
            }
            None
        }
        said => said,
    };
    // The card is there before the file: a file without one was not left so by a crash.
    let said = match said {
        None if is_absent => {
            let fresh = Identity {
                id: new_id(),
                writes: 0,
            };
            Card::write(&card_path, &fresh).map_err(|e| of_io(path, e))?;
            Some(fresh)
        }
        said => said,
    };
    let mut database = open_database(path)?;
    let (level, found) = match guarded(path, || check(&mut database, said.as_ref(), doubt))? {
        Checked::Current(found) => (LEVEL, found),
        Checked::Another(level) => {
            return Ok(Opened {
                database,
                level,
                card: None,
            });
        }
    };
    if let Some(doubts) = doubts(said.as_ref(), &found).filter(|_| !accepts) {
        return Err(problem(doubts));
    }
    let card = Card::write(&card_path, &found).map_err(|e| of_io(path, e))?;
    Ok(Opened {
        database,
        level,
        card: Some((card, found.writes)),
    })
}

/// Opens a file again that was open in this process, after an error of the system. It has to be the same
/// one and to have every acknowledged write; how often it was written is given back.
pub(super) fn reopen(path: &Path, said: &Identity) -> Result<(Database, u64), StoreError> {
    let problem = |problem| StoreError::File {
        path: path.to_owned(),
        problem,
    };
    if !path.exists() {
        return Err(problem(FileProblem::Missing(said.writes)));
    }
    let database = open_database(path)?;
    let found = guarded(path, || Ok(maps::identity(&database)?))?;
    let found = found.ok_or_else(|| problem(FileProblem::Other))?;
    match doubts(Some(said), &found) {
        None => Ok((database, found.writes)),
        Some(doubts) => Err(problem(doubts)),
    }
}

fn doubts(said: Option<&Identity>, found: &Identity) -> Option<FileProblem> {
    match said {
        None => Some(FileProblem::NoCard),
        Some(said) if said.id != found.id => Some(FileProblem::Other),
        Some(said) if said.writes > found.writes => Some(FileProblem::Behind {
            file: found.writes,
            card: said.writes,
        }),
        Some(_) => None,
    }
}

/// What a file is.
enum Checked {
    /// A storage of this build's level, whole.
    Current(Identity),
    /// A storage of another level. It is not looked at any further.
    Another(u32),
}

/// Why a file is not used.
enum Failure {
    Problem(FileProblem),
    Library(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Library(error.into())
    }
}

fn check(file: &mut Database, said: Option<&Identity>, doubt: Doubt) -> Result<Checked, Failure> {
    match (maps::level(file)?, said) {
        (Some(level), _) if level != LEVEL => return Ok(Checked::Another(level)),
        (Some(_), _) => {
            if !file.check_integrity()? {
                tracing::warn!("the storage file was not closed well; its list of free pages was made again");
            }
        }
        (None, Some(said)) if said.writes == 0 => maps::prepare(file, &said.id)?,
        (None, _) => return Err(Failure::Problem(FileProblem::NotStorage)),
    }
    if doubt == Doubt::Accept {
        maps::count_write(file)?;
    }
    let found = maps::identity(file)?.ok_or_else(|| {
        let why = "it does not say which storage it is".to_owned();
        Failure::Problem(FileProblem::Damaged(why))
    })?;
    Ok(Checked::Current(found))
}

fn open_database(path: &Path) -> Result<Database, StoreError> {
    let begins_well = begins_well(path).map_err(|e| of_io(path, e))?;
    if !begins_well {
        return Err(StoreError::File {
            path: path.to_owned(),
            problem: FileProblem::NotStorage,
        });
    }
    guarded(path, || {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        builder.create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => Failure::Problem(FileProblem::InUse),
            other => other.into(),
        })
    })
}

/// Whether a file is empty, or begins as the library's files do.
fn begins_well(path: &Path) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut begin = Vec::with_capacity(MAGIC.len());
    file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin.is_empty() || begin == MAGIC)
}

/// Does something with a file; what its library says or panics with becomes an error that names the file.
fn guarded<R>(path: &Path, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, StoreError> {
    let problem = |problem| StoreError::File {
        path: path.to_owned(),
        problem,
    };
    match contained(work) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(Failure::Problem(found))) => Err(problem(found)),
        Ok(Err(Failure::Library(redb::Error::Io(error)))) => Err(of_io(path, error)),
        Ok(Err(Failure::Library(error))) => Err(problem(FileProblem::Damaged(error.to_string()))),
        Err(panic) => Err(problem(FileProblem::Damaged(panic))),
    }
}

/// What an error of the system says about a file.
pub(super) fn of_io(path: &Path, error: io::Error) -> StoreError {
    let problem = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FileProblem::Forbidden,
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileProblem::NoFolder,
        io::ErrorKind::IsADirectory => FileProblem::Folder,
        // The library reads pages where the file should have them.
        io::ErrorKind::UnexpectedEof => FileProblem::Damaged("it ends too early".to_owned()),
        io::ErrorKind::InvalidData => FileProblem::Damaged(error.to_string()),
        _ => return StoreError::undone(format!("using {}", path.display()), error),
    };
    StoreError::File {
        path: path.to_owned(),
        problem,
    }
}

/// A name that no other storage has.
fn new_id() -> String {
    // The standard library draws a random key for each of these.
    let draw = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}
