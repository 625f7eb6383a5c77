//! Wire to model and back. Reading never stops at the first problem: it gives what could be read and a list of what is
//! wrong, each with the path of its field. Rules about meaning (unknown pool, too many instances) are not here; they
//! belong to `core/gateway`. Its callers are the gateway, the storage backends and the clients' tests.

pub mod bounds;
pub mod cluster;
mod cluster_choice;
pub mod control;
mod error;
pub mod event;
mod fields;
mod gang;
pub mod host;
pub mod instance;
pub mod job;
pub mod mesos;
pub mod pool;
pub mod quantity;
pub mod ranges;
pub mod reason;
pub mod restart;
pub mod role_state;
pub mod rollout;
pub mod rules;
mod runtime;
pub mod schedule;
pub mod shard;
mod siting;
pub mod spec;
pub mod storage;
pub mod wire;

use echelon_core_model::limits::VIOLATIONS;
pub use error::{DecodeError, FieldError, FieldProblem};
use std::fmt;
pub use wire::{Wire, decode, encode, wire_bytes};

/// What is wrong with one field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its path: `spec.groups[0].grace`.
    pub field: String,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

/// What is wrong with a message, in order of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Violation>);

impl Problems {
    /// Notes one, up to as many as an answer names.
    pub fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        if self.0.len() < VIOLATIONS {
            self.0.push(Violation {
                field: field.into(),
                problem: problem.into(),
            });
        }
    }

    /// The value, if nothing was wrong.
    ///
    /// # Errors
    /// Itself when anything was.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Violation { field, problem }) in self.0.iter().enumerate() {
            write!(f, "{}{field}: {problem}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// The path of a field within a message at `path`.
#[must_use]
pub fn at(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}
