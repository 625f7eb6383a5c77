//! Job files: YAML to a specification. Every error names the field's path or the line, and the nearest known field.
//! The gateway checks the specification again; this module only reads what people write.

mod cluster_choice;
mod file;
mod form;
mod gang;
mod overrides;
mod parts_file;
mod place;
mod refused;
mod rules;
mod runtime;
mod runtime_file;
mod scalar;
mod schema;
mod shape;
mod siting;
mod siting_file;
mod spec;
mod update;
mod words;
mod write;

pub use refused::Wanted;
pub use scalar::Scalar;
pub use schema::text as schema_text;
pub use spec::on_silence;

use crate::exit::Failure;
use crate::output::{self, Format};
use echelon_clients_rust::v1;
use echelon_core_model::nearest;
use echelon_core_model::pool::MAX_POOL_DEPTH;
use echelon_core_model::spec::JobSpec;
use echelon_proto::convert;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::Read;
use std::path::Path;
use thiserror::Error;

/// Largest file read: a tree of 10,000 pools with all fields of each. A stored spec has at most 256 KiB.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting: two levels for each level of a pool tree, and the fields of a pool.
const MAX_DEPTH: usize = 2 * MAX_POOL_DEPTH + 8;
/// Most nodes: a tree of 10,000 pools with all fields of each.
const MAX_NODES: usize = 600_000;

/// A wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, once that was looked for.
    pub line: Option<u64>,
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
        for (i, Problem { line, path, message }) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "\n" })?;
            if let Some(line) = line {
                write!(f, "line {line}: ")?;
            }
            write!(f, "{path}: {message}")?;
        }
        Ok(())
    }
}

impl Problems {
    /// The same with the lines of a file's text.
    pub fn found_in(mut self, bytes: &[u8]) -> JobFileError {
        let tree = std::str::from_utf8(bytes).ok().and_then(place::tree);
        for problem in &mut self.0 {
            problem.line = tree.as_ref().map(|t| t.line(&problem.path)).filter(|l| *l > 0);
        }
        JobFileError::Values(self)
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
    spec::spec(shape(bytes)?).map_err(|wrong| wrong.found_in(bytes))
}

/// Reads a job file as it is asked for. Where it does not name `priority` or `on_cluster_loss`, its pool does.
///
/// # Errors
/// As [`parse`].
pub fn wanted(bytes: &[u8]) -> Result<v1::JobSpec, JobFileError> {
    let file: file::JobFile = shape(bytes)?;
    let names_priority = file.priority.is_some();
    let names_loss = file.on_cluster_loss.is_some();
    let spec = spec::spec(file).map_err(|wrong| wrong.found_in(bytes))?;
    let mut wanted = convert::spec::spec(&spec);
    wanted.priority = wanted.priority.filter(|_| names_priority);
    wanted.on_cluster_loss = wanted.on_cluster_loss.filter(|_| names_loss);
    Ok(wanted)
}

/// Reads what a job file asks for, or standard input for `-`, with the places that errors are about.
///
/// # Errors
/// As [`read_as`].
pub fn read(file: &Path) -> Result<Wanted, Failure> {
    read_as(file, |bytes| Ok(Wanted::new(wanted(bytes)?, bytes, file)))
}

/// The job file of a specification, with every default written out: as YAML, unless JSON or the name alone is asked for.
pub fn write(spec: &JobSpec, format: Format) -> String {
    let file = write::file(spec);
    match format {
        Format::Json => as_yaml(&serde_json::to_string_pretty(&file).unwrap_or_default()) + "\n",
        Format::Name => format!("{}\n", output::escape(&spec.name)),
        Format::Table | Format::Wide | Format::Yaml => serde_saphyr::to_string(&file).unwrap_or_default(),
    }
}

/// JSON as YAML takes it: a few characters that it allows inside texts have to be escaped there.
fn as_yaml(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => out.push(c),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
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
    serde_saphyr::from_str_with_options(text, options()).map_err(|e| shape_error(&e, text))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES, max_aliases: 100 },
        no_schema: false,
    }
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

fn shape_error(error: &serde_saphyr::Error, text: &str) -> JobFileError {
    use serde_saphyr::Error as Yaml;
    let plain = error.without_snippet();
    let location = error.location();
    let line = location.map_or(1, |l| l.line());
    if let Yaml::SerdeUnknownField { field, expected, .. } = plain {
        return unknown_field(line, field, expected);
    }
    let place = || place::tree(text)?.at(line, location?.column());
    let (path, found) = place().unwrap_or_else(|| (String::new(), "is something else"));
    let what = match plain {
        Yaml::Unexpected {
            expected: "mapping start",
            ..
        } => format!("takes fields, like `{{name: value}}`; there {found}"),
        Yaml::Unexpected {
            expected: "sequence start",
            ..
        } => format!("takes a list, like `[a, b]`; there {found}"),
        Yaml::Unexpected { .. } if found != "is something else" => {
            format!("takes a single value; there {found}")
        }
        Yaml::NullIntoString { .. } => "has no value; write '' for an empty text".to_owned(),
        Yaml::SerdeMissingField { field, .. } => format!("needs `{field}`"),
        _ => {
            let message = plain.to_string();
            let message = message.lines().next().unwrap_or("is not YAML").to_owned();
            return JobFileError::Syntax { line, message };
        }
    };
    let message = if path.is_empty() {
        what
    } else {
        format!("{path}: {what}")
    };
    JobFileError::Syntax { line, message }
}

fn unknown_field(line: u64, field: &str, expected: &[&'static str]) -> JobFileError {
    let of_groups = shape::fields::<file::GroupFile>();
    if expected == shape::fields::<parts_file::OverrideFile>() && of_groups.contains(&field) {
        let message = format!(
            "`{field}` cannot differ between instances of a group; make a group of those that need another, below `groups`"
        );
        return JobFileError::Syntax { line, message };
    }
    JobFileError::UnknownField {
        line,
        field: field.to_owned(),
        nearest: nearest(field, expected.iter().copied()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests;
