//! `echelon doctor`: looks at what Echelon stands on and says what is wrong with it. A part of the system adds a function
//! that gives checks to [`run`].

use crate::process::watch_panics;
use crate::roles::TimeoutOptions;
use clap::Args;
use echelon_cli::Failure;
use echelon_cli::exit::Exit;
use echelon_cli::output::{self, Format, Listing};
use echelon_io_membership::Timeouts;
use echelon_io_storage::{Durability, FileProblem, Finding, Standing, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// What to look at.
#[derive(Debug, Args)]
pub struct Doctor {
    /// file:PATH or cassandra://HOST:PORT,.../KEYSPACE
    #[arg(long, env = "ECHELON_STORAGE", value_name = "URL")]
    storage: String,
    /// zookeeper://HOST:PORT,.../PATH; nothing is checked of it when it is left out
    #[arg(long, env = "ECHELON_MEMBERSHIP", value_name = "URL")]
    membership: Option<String>,
    #[command(flatten)]
    timeouts: TimeoutOptions,
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
    let mut checks = storage(&doctor.storage).await?;
    if let Some(url) = &doctor.membership {
        let timeouts = doctor.timeouts.timeouts();
        let timeouts = timeouts.map_err(|why| Failure::wrong(why.to_string()))?;
        checks.extend(membership(url, timeouts).await?);
    }
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

/// Looks at the membership servers: whether they answer, and how soon a leader that is gone is replaced.
async fn membership(url: &str, timeouts: Timeouts) -> Result<Vec<Check>, Failure> {
    let membership = match echelon_io_membership::open(url, timeouts) {
        Ok(membership) => membership,
        Err(error) => return Err(Failure::wrong(error.to_string())),
    };
    Ok(match membership.granted_session().await {
        Err(error) => vec![Check::new("membership", Verdict::Failed, error.to_string())],
        Ok(granted) => vec![
            Check::new("membership", Verdict::Good, format!("{url} answers")),
            session(timeouts.session(), granted),
        ],
    })
}

fn session(asked: Duration, granted: Duration) -> Check {
    let (verdict, finding) = if granted > asked {
        let finding = format!(
            "a session of {granted:?} is granted where {asked:?} was asked for, so a leader that is gone is replaced later: \
             ZooKeeper grants at least two ticks, lower its `tickTime`"
        );
        (Verdict::Warning, finding)
    } else if granted < asked {
        let finding = format!(
            "a session of {granted:?} is granted where {asked:?} was asked for: ZooKeeper grants at most twenty ticks"
        );
        (Verdict::Warning, finding)
    } else {
        (
            Verdict::Good,
            format!("a session of {granted:?} is granted, as asked for"),
        )
    };
    Check::new("membership-session", verdict, finding)
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
        Err(StoreError::File {
            problem: FileProblem::InUse,
            ..
        }) => return Ok(in_use(url)),
        Err(error) => return Ok(vec![Check::new("storage", Verdict::Failed, error.chain())]),
    };
    Ok(opened(&store).await)
}

/// Of a file that another process has open only what holds of every file is known.
fn in_use(url: &str) -> Vec<Check> {
    let finding = format!(
        "{url} is open in another process, so its level is not looked at; each role checks it at its start"
    );
    let open = Check::new("storage", Verdict::Warning, finding);
    std::iter::once(open)
        .chain(durability(&Durability::of_file()))
        .collect()
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
    async fn the_session_that_is_granted_is_compared_with_the_one_asked_for() {
        let s = Duration::from_secs;
        assert_eq!(session(s(4), s(4)).verdict, Verdict::Good);
        let longer = session(s(3), s(4));
        assert_eq!(longer.verdict, Verdict::Warning);
        let finding = longer.finding;
        assert!(
            finding.contains("4s") && finding.contains("tickTime"),
            "{finding}"
        );
        assert_eq!(session(s(60), s(40)).verdict, Verdict::Warning);

        let found = membership("in-process:", Timeouts::default()).await.unwrap();
        let verdicts: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.verdict)).collect();
        let expected = [
            ("membership", Verdict::Good),
            ("membership-session", Verdict::Good),
        ];
        assert_eq!(verdicts, expected);
        let wrong = membership("etcd://h:1/x", Timeouts::default()).await;
        assert_eq!(wrong.unwrap_err().exit, Exit::Wrong);
    }

    #[tokio::test]
    async fn membership_servers_that_do_not_answer_are_a_failed_check() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("zookeeper://{}/x", listener.local_addr().unwrap());
        let soon = Timeouts::new(Timeouts::SHORTEST_SESSION, None).unwrap();
        let found = membership(&url, soon).await.unwrap();
        let verdicts: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.verdict)).collect();
        assert_eq!(verdicts, [("membership", Verdict::Failed)]);
    }

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
        let open = echelon_io_storage::open(&url).await.unwrap();
        let in_use = storage(&url).await.unwrap();
        let expected = [
            ("storage", "warning"),
            ("storage-commit-log", "ok"),
            ("storage-copies", "warning"),
        ];
        let expected = expected.map(|(name, verdict)| (name.to_owned(), verdict));
        assert_eq!(verdicts(&in_use), expected);
        drop(open);
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
