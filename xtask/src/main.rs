//! `cargo xtask VERB`: everything that is done to this source tree, in one place, with nothing to install first.
//!
//! `.ci/run` calls `cargo xtask test` and nothing else, so no rule lives only in CI. The rules themselves are tests
//! (`tests/tests/architecture.rs`), lints and formats; this program only calls them in order.

mod golden;
mod nightly;
mod phases;
mod servers;
mod setup;
mod soak;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use phases::Phases;

/// Work on Echelon's source tree.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Set up what is missing, then run every check and every test, those with real servers included
    Test,
    /// Set up what is missing: packages (on Debian or Ubuntu, as root), servers' jars, pinned tools
    Setup,
    /// Formatting, clippy, documentation, buf lint, and cargo-deny where it is installed
    Lint,
    /// Accept what the tests print now as their goldens; read the difference before you commit it
    Golden,
    /// Print the table of file, function and crate sizes
    Sizes,
    /// Start Cassandra and ZooKeeper for a developer, print their addresses, end them on Ctrl-C
    Servers {
        /// Nodes of each, 1 or 3
        #[arg(long, default_value_t = 1)]
        nodes: u8,
    },
    /// Play faults on real servers and processes, and judge from outside what was lost or doubled; without options the few of CI
    Soak {
        /// Options of the soak; `--help` as the only one lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// One part of the nightly run, each at most 100 minutes long; without a part: list them
    Nightly {
        /// The part
        part: Option<String>,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Test => test(),
        Verb::Setup => setup::all(),
        Verb::Lint => lint(),
        Verb::Golden => golden::accept(),
        Verb::Sizes => tree::print_sizes(),
        Verb::Servers { nodes } => servers::run(nodes),
        Verb::Soak { options } => soak::run(&options),
        Verb::Nightly { part } => nightly::run(part.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> anyhow::Result<()> {
    let mut phases = Phases::default();
    phases.all(|phases| {
        phases.run("set-up", setup::all)?;
        lints(phases)?;
        tests(phases, &[("PROPTEST_RNG_SEED", &seed_of_properties("1"))])?;
        phases.run("soak", || soak::run(&[]))
    })
}

fn lint() -> anyhow::Result<()> {
    let mut phases = Phases::default();
    phases.all(|phases| {
        lints(phases)?;
        phases.run("cargo-deny", || deny(&["check", "licenses", "bans", "sources"]))
    })
}

/// The seed of all random cases: a change is judged by the same ones wherever it is tested, each night by others.
fn seed_of_properties(usual: &str) -> String {
    std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| usual.to_owned())
}

/// What holds without running anything.
fn lints(phases: &mut Phases) -> anyhow::Result<()> {
    let whole = ["--workspace", "--all-features"];
    phases.run("format", || phases::cargo(&["fmt", "--all", "--check"], &[]))?;
    phases.run("clippy", || {
        phases::cargo(
            &[
                &["clippy"],
                &whole[..],
                &["--all-targets", "--", "-D", "warnings"],
            ]
            .concat(),
            &[],
        )
    })?;
    phases.run("documentation", || {
        phases::cargo(
            &[&["doc", "--no-deps"], &whole[..]].concat(),
            &[("RUSTDOCFLAGS", "-D warnings")],
        )
    })?;
    phases.run("buf lint", setup::buf_lint)
}

/// Every test. Binaries come first: the tests with real processes start `echelon` as it is in the target folder.
fn tests(phases: &mut Phases, env: &[(&str, &str)]) -> anyhow::Result<()> {
    let features = ["--workspace", "--features", "echelon-tests/servers"];
    phases.run("build", || {
        phases::cargo(&[&["build", "--bins", "--tests"], &features[..]].concat(), &[])
    })?;
    phases.run("tests", || {
        phases::cargo(&[&["test", "--no-fail-fast"], &features[..]].concat(), env)
    })
}

/// cargo-deny is the one tool that is not set up: building it takes as long as building the project. What it says about
/// licences and duplicates is also checked by `tests/tests/architecture.rs`.
fn deny(arguments: &[&str]) -> anyhow::Result<()> {
    if phases::cargo_has("deny") {
        return phases::cargo(&[&["deny"], arguments].concat(), &[]);
    }
    println!(
        "cargo-deny is not installed, so advisories and sources were NOT checked: `cargo install --locked cargo-deny`"
    );
    Ok(())
}
