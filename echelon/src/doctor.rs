//! `echelon doctor`: looks at what Echelon stands on and says what is wrong with it. A part of the system adds a function
//! that gives checks to [`run`].

use crate::process::watch_panics;
use clap::Args;
use echelon_cli::Failure;
use echelon_cli::exit::Exit;
use echelon_cli::output::{self, Format, Listing};
use echelon_io_storage::{Durability, Finding, Standing, Store, StoreError};
use std::sync::Arc;

/// What to look at.
#[derive(Debug, Args)]
pub struct Doctor {
    /// file:PATH or cassandra://HOST:PORT,.../KEYSPACE
    #[arg(long, env = "ECHELON_STORAGE", value_name = "URL")]
    storage: String,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// All is well.
    Good,
    /// Echelon works, and something may be lost or is not known.
    Warning,
    /// Echelon does not work.
    Failed,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}

/// A check that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Check {
    name: String,
    verdict: Verdict,
    finding: String,
}

impl Check {
    fn new(name: impl Into<String>, verdict: Verdict, finding: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            verdict,
            finding: finding.into(),
        }
    }
}

/// Makes all checks and prints them.
///
/// # Errors
/// A check failed.
pub async fn run(doctor: Doctor, format: Format) -> Result<(), Failure> {
    watch_panics();
    let checks = storage(&doctor.storage).await?;
    output::print(output::list(&listing(&checks), format));
    match checks.iter().filter(|c| c.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        n => Err(Failure::new(Exit::Failed, format!("checks that failed: {n}"))),
    }
}

fn listing(checks: &[Check]) -> Listing {
    let cells = |c: &Check| vec![c.name.clone(), c.verdict.word().to_owned(), c.finding.clone()];
    let value = |c: &Check| {
        serde_json::json!({
            "check": c.name,
            "verdict": c.verdict.word(),
            "finding": c.finding,
        })
    };
    Listing {
        columns: &["CHECK", "VERDICT", "FINDING"],
        narrow: 3,
        rows: checks.iter().map(cells).collect(),
        names: checks.iter().map(|c| c.name.clone()).collect(),
        values: checks.iter().map(value).collect(),
    }
}

/// Looks at the storage: whether it answers, its level, and what a write there survives.
async fn storage(url: &str) -> Result<Vec<Check>, Failure> {
    let exists = |path: &str| std::path::Path::new(path).exists();
    let missing = url
        .strip_prefix("file:")
        .is_some_and(|path| !path.is_empty() && !exists(path) && !exists(&format!("{path}.card")));
    if missing {
        let finding = format!("{url} is not there");
        return Ok(vec![Check::new("storage", Verdict::Failed, finding)]);
    }
    let store = match echelon_io_storage::open(url).await {
        Ok(store) => store,
        Err(error @ StoreError::Url { .. }) => return Err(Failure::wrong(error.chain())),
        Err(error) => return Ok(vec![Check::new("storage", Verdict::Failed, error.chain())]),
    };
    Ok(opened(&store).await)
}

async fn opened(store: &Arc<dyn Store>) -> Vec<Check> {
    let status = match store.status().await {
        Ok(status) => status,
        Err(error) => return vec![Check::new("storage", Verdict::Failed, error.chain())],
    };
    let level = match status.check() {
        Ok(()) => Check::new(
            "storage-level",
            Verdict::Good,
            format!("level {}, as this program needs it", status.level),
        ),
        Err(error) => Check::new("storage-level", Verdict::Failed, error.chain()),
    };
    let answers = Check::new("storage", Verdict::Good, format!("{} answers", status.place));
    let durable = durability(&store.durability().await);
    [answers, level].into_iter().chain(durable).collect()
}

fn durability(found: &Durability) -> Vec<Check> {
    let check = |f: &Finding| {
        let verdict = match f.standing {
            Standing::Durable => Verdict::Good,
            Standing::Weak | Standing::Unknown => Verdict::Warning,
        };
        Check::new(format!("storage-{}", f.property), verdict, f.text.clone())
    };
    found.findings.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_storage_that_is_missing_fails_and_one_copy_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}/storage", folder.path().display());
        let verdicts = |checks: &[Check]| -> Vec<(String, &str)> {
            let all = checks.iter().map(|c| (c.name.clone(), c.verdict.word()));
            all.collect()
        };
        let missing = storage(&url).await.unwrap();
        assert_eq!(verdicts(&missing), [("storage".to_owned(), "failed")]);
        drop(echelon_io_storage::open(&url).await.unwrap());
        let there = storage(&url).await.unwrap();
        let expected = [
            ("storage", "ok"),
            ("storage-level", "ok"),
            ("storage-commit-log", "ok"),
            ("storage-copies", "warning"),
        ];
        let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict));
        assert_eq!(verdicts(&there), expected);
        assert_eq!(storage("redis://x").await.unwrap_err().exit, Exit::Wrong);
    }
}
