//! Job files: YAML to a specification. Every error names the field's path or the line, and the nearest known field.
//! The gateway checks the specification again; this module only reads what people write.

mod file;
mod gang;
mod rules;
mod runtime;
mod runtime_file;
mod scalar;
mod siting;
mod siting_file;
mod spec;
mod update;

pub use scalar::Scalar;

use crate::exit::Failure;
use echelon_clients_rust::v1;
use echelon_core_model::nearest;
use echelon_core_model::spec::JobSpec;
use echelon_proto::convert;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::Read;
use std::path::Path;
use thiserror::Error;

/// Largest job file read: four times the largest stored spec.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;
/// Deepest nesting of a job file; a real one has four levels.
const MAX_DEPTH: usize = 32;
/// Most nodes of one: a tree of 10,000 pools that names most fields of each.
const MAX_NODES: usize = 300_000;

/// A wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Path of its field: `groups.worker.resources.cpus`.
    pub path: String,
    /// What is wrong, and what to write.
    pub message: String,
}

/// Every wrong value of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Problem { path, message }) in self.0.iter().enumerate() {
            write!(f, "{}{path}: {message}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Why a file is not a job.
#[derive(Debug, Error)]
pub enum JobFileError {
    /// Too large to be one.
    #[error("the file is larger than {MAX_FILE_BYTES} bytes, the most that it may have")]
    TooLarge,
    /// Not text.
    #[error("the file is not UTF-8: byte {0} begins no character")]
    NotUtf8(usize),
    /// A field that job files do not have.
    #[error("line {line}: unknown field `{field}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownField {
        /// Where.
        line: u64,
        /// What was written.
        field: String,
        /// The known field that looks most like it.
        nearest: Option<String>,
    },
    /// Not YAML, or not of a job file's shape.
    #[error("line {line}: {message}")]
    Syntax {
        /// Where.
        line: u64,
        /// What the parser says.
        message: String,
    },
    /// Wrong values.
    #[error("{0}")]
    Values(Problems),
}

/// Reads a job file.
///
/// # Errors
/// What is wrong with it; see `JobFileError`.
pub fn parse(bytes: &[u8]) -> Result<JobSpec, JobFileError> {
    spec::spec(shape(bytes)?).map_err(JobFileError::Values)
}

/// Reads a job file as it is asked for: a priority that it does not name is the pool's to choose.
///
/// # Errors
/// As [`parse`].
pub fn wanted(bytes: &[u8]) -> Result<v1::JobSpec, JobFileError> {
    let file: file::JobFile = shape(bytes)?;
    let names_priority = file.priority.is_some();
    let spec = spec::spec(file).map_err(JobFileError::Values)?;
    let mut wanted = convert::spec::spec(&spec);
    wanted.priority = wanted.priority.filter(|_| names_priority);
    Ok(wanted)
}

/// The YAML of a file in a shape.
///
/// # Errors
/// What is wrong with it.
pub fn shape<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JobFileError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(JobFileError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|e| JobFileError::NotUtf8(e.valid_up_to()))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES, max_aliases: 100 },
        no_schema: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| shape_error(&e))
}

/// Reads a file, or standard input for `-`, never more than a file may have.
///
/// # Errors
/// What is wrong with it, each line with the file's name.
pub fn read_as<T>(file: &Path, parse: impl Fn(&[u8]) -> Result<T, JobFileError>) -> Result<T, Failure> {
    let shown = file.display();
    let most = MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|f| f.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|e| Failure::wrong(format!("{shown} cannot be read: {e}")))?;
    parse(&bytes).map_err(|e| {
        Failure::wrong(format!(
            "{shown}: {}",
            e.to_string().replace('\n', &format!("\n{shown}: "))
        ))
    })
}

fn shape_error(error: &serde_saphyr::Error) -> JobFileError {
    let plain = error.without_snippet();
    let line = error.location().map_or(1, |l| l.line());
    if let serde_saphyr::Error::SerdeUnknownField { field, expected, .. } = plain {
        return JobFileError::UnknownField {
            line,
            field: field.clone(),
            nearest: nearest(field, expected.iter().copied()).map(str::to_owned),
        };
    }
    let message = plain.to_string();
    let message = message.lines().next().unwrap_or("is not YAML").to_owned();
    JobFileError::Syntax { line, message }
}

#[cfg(test)]
mod tests;
