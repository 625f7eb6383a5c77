//! Why a storage file is not used. Each text says what to do.

use thiserror::Error;

/// Why a storage file is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FileProblem {
    /// What it holds contradicts itself.
    #[error(
        "is damaged ({0}); stop what uses it, put the last backup in its place, and run `echelon storage accept`"
    )]
    Damaged(String),
    /// It does not begin as a storage file does.
    #[error(
        "is no storage file, or its beginning is damaged; give the right path, or put the last backup in its place and run \
         `echelon storage accept`"
    )]
    NotStorage,
    /// It is a folder.
    #[error("is a folder; give the path of a file")]
    Folder,
    /// The system does not let this user use it.
    #[error("may not be read and written by this user; give this user both rights to it and to its folder")]
    Forbidden,
    /// The folder that it should be in is not there.
    #[error("has no folder to be in; make its folder, or give another path")]
    NoFolder,
    /// Another process has it open.
    #[error("is in use: another process has it open; stop that one, or give this one a file of its own")]
    InUse,
    /// It is not there, or has nothing in it, and its card says that it was written.
    #[error(
        "is missing or empty, and its card says that it was written {0} times: what it held would be forgotten and its tasks \
         left alone; put the file back, or run `echelon storage accept` to begin with an empty one"
    )]
    Missing(u64),
    /// It is there, and its card is not.
    #[error(
        "has no card beside it (the same name with `.card`), so it is not known whether it is the newest copy; put the card \
         back, or run `echelon storage accept` to go on with this file"
    )]
    NoCard,
    /// The card cannot be read.
    #[error(
        "has a card beside it (the same name with `.card`) that cannot be read; put the card back, or run `echelon storage \
         accept` to go on with this file"
    )]
    UnreadCard,
    /// It is an older copy of itself.
    #[error(
        "is older than its card: it was written {file} times and the card says {card}, so what was acknowledged since is \
         missing; put the newest copy back, or run `echelon storage accept` to go on with this one"
    )]
    Behind {
        /// Writes that the file has.
        file: u64,
        /// Writes that the card says.
        card: u64,
    },
    /// It is another storage than the one that the card belongs to.
    #[error(
        "is another storage than the one that its card belongs to; put the right file back, or run `echelon storage accept` \
         to go on with this one"
    )]
    Other,
}
