//! Builds what a soak starts, and starts it.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use echelon_tests::servers;

use crate::phases::{cargo, command};

/// What CI plays, and what is played when no option is given. One Cassandra node and few watchers leave the
/// machine to the processes. A recovery may take three times as long as promised, since a machine of CI may
/// be busy.
const CI: [&str; 10] = [
    "--minutes",
    "5",
    "--faults",
    "ci",
    "--cassandra",
    "1",
    "--watchers",
    "10",
    "--clocks-apart",
    "5",
];

/// The same command as that of `cargo xtask test`: without its tests crates would have other features, and
/// all of them would be built a second time.
pub const BUILD: [&str; 6] = [
    "build",
    "--bins",
    "--tests",
    "--workspace",
    "--features",
    "echelon-tests/servers",
];

/// Plays a soak with these options, or the one of CI.
///
/// # Errors
/// Something is missing, does not build, or a promise was broken.
pub fn run(options: &[String]) -> Result<()> {
    servers::fetch_jars()?;
    cargo(&BUILD, &[])?;
    let program = program()?;
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    if options.is_empty() {
        options.extend(CI);
    }
    let status = command(&program.to_string_lossy()).args(options).status();
    let status = status.with_context(|| format!("run {}", program.display()))?;
    if !status.success() {
        bail!("the soak ended with {status}: see above");
    }
    Ok(())
}

/// It stands beside this program.
fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    Ok(own.with_file_name("echelon-soak"))
}
