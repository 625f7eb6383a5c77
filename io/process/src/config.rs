//! Configuration files: TOML into any serde struct, with errors that name the file, the line and the nearest field.
//!
//! Structs must say `#[serde(deny_unknown_fields)]`, else serde drops what it does not know. Environment variables and
//! flags are the command line's business; a role's own struct holds [`Common`] as a section `[process]`.

use crate::logs::LogFormat;
use echelon_core_model::nearest;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Largest configuration file, in bytes: a thousand times what any role needs.
pub const MAX_BYTES: u64 = 1 << 20;

/// Settings that every role has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Common {
    /// Address to serve on. Loopback with a free port unless told.
    pub listen: SocketAddr,
    /// Which log lines are written, in `tracing`'s filter syntax: `info,echelon_shard=debug`.
    pub log: String,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Seconds that work under way gets to end after the first signal.
    pub grace_s: u32,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            log: "info".into(),
            log_format: LogFormat::Auto,
            grace_s: 20,
        }
    }
}

/// Why a configuration file cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: check that it exists and that this user may read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than [`MAX_BYTES`].
    #[error("the configuration file {} has {bytes} bytes, at most {MAX_BYTES} are allowed: is it the right file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The text does not fit the settings.
    #[error("{origin}:{line}: {message}")]
    Invalid {
        /// Where the text came from.
        origin: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong and what to write instead.
        message: String,
    },
}

/// Reads a configuration file.
///
/// # Errors
/// When it cannot be read, is too large, is not TOML in UTF-8, or does not fit `T`.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let read = |source| ConfigError::Read {
        path: path.to_path_buf(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(read)?.len();
    if bytes > MAX_BYTES {
        return Err(ConfigError::TooLarge {
            path: path.to_path_buf(),
            bytes,
        });
    }
    parse(
        &std::fs::read_to_string(path).map_err(read)?,
        &path.display().to_string(),
    )
}

/// Reads configuration from a text; `origin` is what errors call it.
///
/// # Errors
/// When the text is not TOML or does not fit `T`.
pub fn parse<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| ConfigError::Invalid {
        origin: origin.to_owned(),
        line: line_of(text, error.span().map_or(0, |span| span.start)),
        message: explain(error.message()),
    })
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|b| *b == b'\n').count()
}

/// Serde says "unknown field `a`, expected one of `b`, `c`"; the nearest of these is named first.
fn explain(message: &str) -> String {
    let message = message.trim_end().replace('\n', " ");
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message;
    };
    let mut quoted = rest.split('`').step_by(2);
    let Some(unknown) = quoted.next() else {
        return message;
    };
    let known: Vec<&str> = quoted.filter(|name| !name.is_empty()).collect();
    match nearest(unknown, known.iter().copied()) {
        Some(name) => format!("unknown field `{unknown}`, did you mean `{name}`?"),
        None if known.is_empty() => format!("unknown field `{unknown}`, none is allowed here"),
        None => format!("unknown field `{unknown}`, known here: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Role {
        #[serde(default)]
        process: Common,
        storage: String,
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let role: Role = parse("storage = 'memory:'\n[process]\nlisten = '127.0.0.1:80'", "t").unwrap();
        let process = Common {
            listen: SocketAddr::from(([127, 0, 0, 1], 80)),
            ..Common::default()
        };
        assert_eq!(
            role,
            Role {
                process,
                storage: "memory:".into()
            }
        );
        assert!(Common::default().listen.ip().is_loopback());
    }

    #[test]
    fn errors_name_file_line_and_remedy() {
        let table = [
            (
                "storage = 's'\n[process]\nlisen = ''",
                "f.toml:3: unknown field `lisen`, did you mean `listen`?",
            ),
            (
                "\n\nstorag = 's'",
                "f.toml:3: unknown field `storag`, did you mean `storage`?",
            ),
            (
                "colour = 1\nstorage = 's'",
                "f.toml:1: unknown field `colour`, known here: process, storage",
            ),
            (
                "storage = 5",
                "f.toml:1: invalid type: integer `5`, expected a string",
            ),
            ("[process]", "f.toml:1: missing field `storage`"),
            (
                "storage = 's'\n[process]\nlisten = 'here'",
                "f.toml:3: invalid socket address syntax",
            ),
            (
                "storage = 's'\n[process]\nlog_format = 'xml'",
                "f.toml:3: unknown variant `xml`, expected one of `auto`, `text`, `json`",
            ),
            (
                "storage = 's'\n[process]\ngrace_s = -1",
                "f.toml:3: invalid value: integer `-1`, expected u32",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(
                parse::<Role>(text, "f.toml").unwrap_err().to_string(),
                expected,
                "{text}"
            );
        }
        for text in [
            "storage = ",
            "= 3",
            "storage = 's'\nstorage = 't'",
            "a = [[[[[[",
            "\u{0}",
        ] {
            assert!(
                matches!(parse::<Role>(text, "f.toml"), Err(ConfigError::Invalid { .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("role.toml");
        assert!(load::<Role>(&path).unwrap_err().to_string().contains("role.toml"));
        std::fs::write(&path, b"storage = '\xff'").unwrap();
        assert!(matches!(load::<Role>(&path), Err(ConfigError::Read { .. })));
        std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(matches!(
            load::<Role>(&path),
            Err(ConfigError::TooLarge { bytes: 2_097_152, .. })
        ));
        std::fs::write(&path, b"storage = 'memory:'").unwrap();
        assert_eq!(load::<Role>(&path).unwrap().storage, "memory:");
    }
}
