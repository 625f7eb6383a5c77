//! Phases with their durations, and the commands that they run.
//!
//! The first phase that fails ends the run; the summary says what passed, what failed and what was not reached.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What has been run so far.
#[derive(Default)]
pub struct Phases {
    ended: Vec<Ended>,
}

struct Ended {
    name: &'static str,
    took: Duration,
    passed: bool,
}

impl Phases {
    /// Runs `phases` and prints the summary, whatever they end with.
    ///
    /// # Errors
    /// That of the phase that failed.
    pub fn all(&mut self, phases: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let started = Instant::now();
        let done = phases(self);
        println!("\n{}", self.summary(started.elapsed()));
        done
    }

    /// Runs one phase.
    ///
    /// # Errors
    /// The phase's, named after it.
    pub fn run(&mut self, name: &'static str, phase: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n==> {name}");
        let started = Instant::now();
        let done = phase();
        self.ended.push(Ended {
            name,
            took: started.elapsed(),
            passed: done.is_ok(),
        });
        done.with_context(|| format!("phase \"{name}\" failed"))
    }

    fn summary(&self, took: Duration) -> String {
        let line = |name: &str, took: Duration, word: &str| {
            format!("{name:<16}{:>8.1} s  {word}", took.as_secs_f64())
        };
        let lines = self.ended.iter().map(|phase| {
            line(
                phase.name,
                phase.took,
                if phase.passed { "passed" } else { "FAILED" },
            )
        });
        let whole = if self.ended.iter().all(|phase| phase.passed) {
            "all passed"
        } else {
            "FAILED, later phases were not run"
        };
        lines
            .chain([line("whole", took, whole)])
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Runs this toolchain's cargo at the root of the workspace, with its output passed on.
///
/// # Errors
/// It ends with another status than 0.
pub fn cargo(arguments: &[&str], env: &[(&str, &str)]) -> Result<()> {
    let status = command(&cargo_path())
        .args(arguments)
        .envs(env.iter().copied())
        .status()
        .context("run cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

/// Whether the cargo subcommand `name` is installed.
pub fn cargo_has(name: &str) -> bool {
    let asked = command(&cargo_path())
        .args([name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

/// `program` at the root of the workspace, with nothing to read.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stdin(Stdio::null());
    command
}

fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_is_named() {
        let mut phases = Phases::default();
        let done = phases.all(|phases| {
            phases.run("good", || Ok(()))?;
            phases.run("bad", || bail!("no such file"))?;
            phases.run("never", || Ok(()))
        });
        assert_eq!(
            format!("{:#}", done.unwrap_err()),
            "phase \"bad\" failed: no such file"
        );
        let summary = phases.summary(Duration::ZERO);
        assert!(
            summary.contains("good") && summary.contains("FAILED") && !summary.contains("never"),
            "{summary}"
        );
    }

    #[test]
    fn a_failing_cargo_is_an_error() {
        let error = cargo(&["no-such-subcommand"], &[]).unwrap_err();
        assert!(error.to_string().contains("cargo no-such-subcommand"), "{error}");
    }
}
