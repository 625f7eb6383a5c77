//! The outside crates that the product is built from, on this machine's platform.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{array, metadata, text};

/// An outside crate in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence as an SPDX expression, empty when it tells none.
    pub licence: String,
}

/// All of them, by name and version. Others stand in Cargo.lock for other platforms only.
///
/// # Errors
/// Cargo cannot tell, without network, what the workspace is built from.
pub fn all(root: &Path) -> Result<Vec<Crate>> {
    let metadata = metadata(root, &["--locked", "--filter-platform", &host()?])?;
    let outside = array(&metadata, "packages")?
        .iter()
        .filter(|package| !package.get("source").is_none_or(Value::is_null));
    let mut crates = outside
        .map(|package| {
            let licence = text(package, "license").unwrap_or_default();
            Ok(Crate {
                name: text(package, "name")?,
                version: text(package, "version")?,
                licence,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    crates.sort();
    Ok(crates)
}

/// This machine's platform as Rust names it.
fn host() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("run rustc -vV")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}
