//! Why an operation on storage has no result, told apart by what may be concluded from it.

use std::fmt;

/// Why an operation has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpFailure {
    /// It was not done. The same operation may succeed later.
    NotDone(Trouble),
    /// It may have been done, or may still be. The same operation again settles it.
    Unknown(Trouble),
    /// Storage takes it never, whoever asks. Nothing of it was done.
    Refused(Refusal),
}

/// What is wrong with storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Of which kind it is.
    pub kind: TroubleKind,
    /// What was tried and what went wrong, for people.
    pub text: String,
}

/// Kinds of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TroubleKind {
    /// No answer came in time.
    NoAnswer,
    /// This process reaches no node.
    CutOff,
    /// It has too much to do.
    Overloaded,
    /// It has no room left.
    Full,
    /// It has another schema than is needed, or holds a row that cannot be understood.
    Schema,
}

impl TroubleKind {
    /// Whether another process might get the answer that this one does not get. Only then it helps to give a leadership up.
    #[must_use]
    pub const fn may_spare_others(self) -> bool {
        matches!(self, Self::NoAnswer | Self::CutOff)
    }
}

/// What storage refuses for good: at least one row, each with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Every row of the operation that is refused.
    pub rows: Vec<RefusedRow>,
}

/// A row that storage refuses for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Which row, for people.
    pub row: String,
    /// Which write of a batch, or which assignment among those that are put; `None`: the operation as a whole.
    pub place: Option<usize>,
    /// Why.
    pub why: RefusedWhy,
}

/// Why a row is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedWhy {
    /// It is too large.
    TooLarge {
        /// Its encoded bytes.
        bytes: usize,
        /// As many as it may have.
        limit: usize,
    },
    /// A number of it is outside its range, or a value does not belong there.
    OutOfRange(String),
    /// It belongs to another writer.
    NotOwner(String),
}

impl OpFailure {
    /// A failure after which nothing was done.
    #[must_use]
    pub fn not_done(kind: TroubleKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::NotDone(Trouble { kind, text })
    }

    /// A failure after which it is not known whether it was done: no answer came.
    #[must_use]
    pub fn unknown(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Unknown(Trouble {
            kind: TroubleKind::NoAnswer,
            text,
        })
    }

    /// Whether it may have taken effect, or may still.
    #[must_use]
    pub const fn may_be_done(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

impl fmt::Display for OpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDone(trouble) | Self::Unknown(trouble) => f.write_str(&trouble.text),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, row) in self.rows.iter().enumerate() {
            write!(f, "{}{row}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl fmt::Display for RefusedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, why, .. } = self;
        match why {
            RefusedWhy::TooLarge { bytes, limit } => {
                write!(f, "{row} has {bytes} bytes and may have {limit}")
            }
            RefusedWhy::OutOfRange(why) | RefusedWhy::NotOwner(why) => write!(f, "{row}: {why}"),
        }
    }
}
