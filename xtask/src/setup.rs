//! Provides what the checks need and this machine lacks; says what is missing where it cannot provide it.
//!
//! Packages come from the system (Debian and Ubuntu, as root), everything else is pinned and kept in a cache outside the
//! clone. Nothing is fetched twice.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use echelon_tests::{cache, java, servers};

use crate::phases::command;

/// Version of buf, which checks `proto/`.
const BUF: &str = "1.75.0";

/// A program that the checks or tests start, and what brings it.
struct Program {
    name: &'static str,
    why: &'static str,
    is_there: fn() -> bool,
    /// Debian's and Ubuntu's packages.
    packages: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "a JDK 17",
        why: "runs Cassandra and ZooKeeper",
        is_there: || java::find().is_ok(),
        packages: &["openjdk-17-jdk-headless"],
    },
    Program {
        name: "mvn",
        why: "fetches the servers' jars",
        is_there: || runs("mvn"),
        packages: &["maven"],
    },
    Program {
        name: "prometheus",
        why: "evaluates the dashboards' expressions",
        is_there: || runs("prometheus"),
        packages: &["prometheus"],
    },
    Program {
        name: "promtool",
        why: "checks rules",
        is_there: || runs("promtool"),
        packages: &["prometheus"],
    },
    Program {
        name: "python3",
        why: "is the web server of an example job",
        is_there: || runs("python3"),
        packages: &["python3"],
    },
    Program {
        name: "node",
        why: "starts buf",
        is_there: || runs("node"),
        packages: &["nodejs"],
    },
    Program {
        name: "npm",
        why: "fetches buf",
        is_there: || runs("npm"),
        packages: &["npm"],
    },
    Program {
        name: "curl",
        why: "asks the API as a user would",
        is_there: || runs("curl"),
        packages: &["curl"],
    },
];

/// Everything: packages, jars, buf.
///
/// # Errors
/// Something is missing and cannot be provided here; the error names the command that does.
pub fn all() -> Result<()> {
    packages()?;
    println!("jars of Cassandra and ZooKeeper");
    servers::fetch_jars()?;
    println!("buf {BUF}");
    buf()?;
    println!(
        "everything is there; fetched files are in {}",
        cache::folder()?.display()
    );
    Ok(())
}

/// Lints `proto/`.
///
/// # Errors
/// buf cannot be had, or finds a fault.
pub fn buf_lint() -> Result<()> {
    let buf = buf()?;
    let status = command(&buf.to_string_lossy()).args(["lint", "proto"]).status();
    let status = status.with_context(|| format!("run {}", buf.display()))?;
    if !status.success() {
        bail!("`buf lint proto` ended with {status}");
    }
    Ok(())
}

/// Path of the pinned buf, fetched when it is not in the cache.
fn buf() -> Result<PathBuf> {
    let folder = cache::entry(&format!("buf-{BUF}"), |folder| {
        let package = format!("@bufbuild/buf@{BUF}");
        let prefix = folder.to_string_lossy();
        cache::fetch_with(
            "npm",
            [
                "install",
                "--no-audit",
                "--no-fund",
                "--prefix",
                &*prefix,
                &*package,
            ],
        )
    })?;
    Ok(folder.join("node_modules/.bin/buf"))
}

fn packages() -> Result<()> {
    let missing: Vec<&Program> = PROGRAMS.iter().filter(|program| !(program.is_there)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing
        .iter()
        .flat_map(|program| program.packages)
        .copied()
        .collect();
    packages.sort_unstable();
    packages.dedup();
    let lacks: Vec<String> = missing
        .iter()
        .map(|program| format!("  {} ({})", program.name, program.why))
        .collect();
    let lacks = lacks.join("\n");
    let install = format!(
        "apt-get update && apt-get install --no-install-recommends --yes {}",
        packages.join(" ")
    );
    if !Path::new("/etc/debian_version").exists() {
        bail!(
            "this machine lacks\n{lacks}\nInstall them and try again; on Debian or Ubuntu it would be\n  {install}"
        );
    }
    if !is_root() {
        bail!("this machine lacks\n{lacks}\nInstall them and try again:\n  sudo sh -c '{install}'");
    }
    println!("this machine lacks\n{lacks}\n{install}");
    apt(&["update"])?;
    apt(&[&["install", "--no-install-recommends", "--yes"], &packages[..]].concat())?;
    match missing.iter().find(|program| !(program.is_there)()) {
        Some(program) => bail!("{} is still missing after\n  {install}", program.name),
        None => Ok(()),
    }
}

/// Quietly: what apt-get writes is shown only when it fails. Another one at work is waited for.
fn apt(arguments: &[&str]) -> Result<()> {
    let quiet = [
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-qq",
        "-o",
        "DPkg::Lock::Timeout=300",
    ];
    cache::fetch_with("env", quiet.iter().chain(arguments))
}

fn runs(program: &str) -> bool {
    let asked = command(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// Whether the files that this process makes are root's.
fn is_root() -> bool {
    let asked = command("id").arg("-u").output();
    asked.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_does_not_run() {
        assert!(runs("sh") || runs("cargo"));
        assert!(!runs("no-such-program"));
    }

    #[test]
    fn every_program_says_what_brings_it() {
        for program in PROGRAMS {
            assert!(!program.packages.is_empty(), "{}", program.name);
        }
    }
}
