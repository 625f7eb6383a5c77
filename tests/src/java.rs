//! Finds the Java that runs the servers: Cassandra 5.0 runs on 11 and 17 only, so the newest on PATH may be the wrong one.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Versions that Cassandra 5.0 runs on, the better one first.
const FIT: [u32; 2] = [17, 11];

/// Path of a fitting `java`: in `JAVA_HOME`, on PATH, or below `/usr/lib/jvm`.
///
/// # Errors
/// None fits; the error says how to get one.
pub fn find() -> Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = candidates()
        .into_iter()
        .filter_map(|java| Some((version(&java)?, java)))
        .collect();
    found.sort();
    FIT.iter()
        .find_map(|fit| found.iter().find(|(version, _)| version == fit))
        .map(|(_, java)| java.clone())
        .with_context(|| {
            let seen: Vec<String> = found
                .iter()
                .map(|(v, java)| format!("{v} at {}", java.display()))
                .collect();
            format!(
                "no Java 17 for Cassandra and ZooKeeper (found: {}). Install one, on Debian or Ubuntu with \
                 `apt-get install openjdk-17-jdk-headless`, or set JAVA_HOME to one",
                if seen.is_empty() {
                    "none".to_owned()
                } else {
                    seen.join(", ")
                }
            )
        })
}

fn candidates() -> Vec<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let installed = installed
        .map(|entry| entry.path().join("bin/java"))
        .filter(|java| java.is_file());
    home.into_iter()
        .chain([PathBuf::from("java")])
        .chain(installed)
        .collect()
}

/// Major version that `java -version` tells on stderr, none when it does not run.
fn version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    major(&String::from_utf8_lossy(&output.stderr))
}

fn major(said: &str) -> Option<u32> {
    let quoted = said.split('"').nth(1)?;
    let mut parts = quoted.split(['.', '-', '+']);
    match parts.next()?.parse().ok()? {
        // "1.8.0_392" is version 8
        1 => parts.next()?.parse().ok(),
        major => Some(major),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_major_version() {
        for (said, expected) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK", Some(17)),
            ("java version \"1.8.0_392\"", Some(8)),
            ("openjdk version \"25\" 2025-09-16", Some(25)),
            ("openjdk version \"26-ea\" 2026-03-17", Some(26)),
            ("command not found", None),
        ] {
            assert_eq!(major(said), expected, "{said}");
        }
    }
}
