//! What can be wrong with a message, with the path of the field.

use echelon_core_model::id::IdError;
use thiserror::Error;

/// A field that says nothing sensible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("field `{path}` {problem}")]
pub struct FieldError {
    /// From the outermost message: `instances[3].run.host`.
    pub path: String,
    /// What is wrong there.
    pub problem: FieldProblem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldProblem {
    /// It must be there.
    #[error("is missing")]
    Missing,
    /// A number that this build gives no meaning, perhaps written by a newer one.
    #[error("has the value {0}, which this build does not know; is the writer newer?")]
    Unknown(i64),
    /// A number outside what the field may hold.
    #[error("has the value {number}, outside {first} to {last}")]
    OutOfRange {
        /// The number.
        number: i128,
        /// The smallest that it may be.
        first: i128,
        /// The largest that it may be.
        last: i128,
    },
    /// A list or map with more entries than it may have.
    #[error("has more than {most} entries, which is the most there may be")]
    TooMany {
        /// The most.
        most: usize,
    },
    /// Parts so many and so small that they would take far more memory than their request.
    #[error(
        "has so many small parts, with what stands before it, that the request would take many times its size; send fewer, or several requests"
    )]
    TooDense,
    /// A message in a message that stands there more than once.
    #[error("is given twice")]
    Twice,
    /// Bytes that are no fields.
    #[error("cannot be read")]
    Malformed,
    /// A job id of another length.
    #[error("has {0} bytes where a job id has 16")]
    JobId(usize),
    /// A digest of another length.
    #[error("has {0} bytes where a digest has 16")]
    Digest(usize),
    /// A malformed id.
    #[error("is malformed: {0}")]
    Id(IdError),
    /// A range whose first number is above its last.
    #[error("is a range from {first} to {last}, which is empty")]
    Range {
        /// First number.
        first: u32,
        /// Last number.
        last: u32,
    },
    /// What the rules of a stored spec say of it.
    #[error("is wrong: {0}")]
    Spec(String),
    /// The same key twice.
    #[error("repeats `{0}`")]
    Repeated(String),
}

impl FieldError {
    /// An error at a field of the message at hand.
    #[must_use]
    pub fn new(field: &str, problem: FieldProblem) -> Self {
        Self {
            path: field.to_owned(),
            problem,
        }
    }

    /// The same, seen from the message that has the message at hand as `field`.
    #[must_use]
    pub fn within(mut self, field: &str) -> Self {
        self.path = format!("{field}.{}", self.path);
        self
    }

    /// The same, seen from the message that has the message at hand as item `index` of `field`.
    #[must_use]
    pub fn within_item(self, field: &str, index: usize) -> Self {
        self.within(&format!("{field}[{index}]"))
    }
}

/// Why stored or received bytes could not be read.
#[derive(Debug, Clone, Error)]
pub enum DecodeError {
    /// Not the bytes of such a message.
    #[error("malformed message")]
    Malformed(#[source] prost::DecodeError),
    /// A field says nothing sensible.
    #[error(transparent)]
    Field(#[from] FieldError),
}
