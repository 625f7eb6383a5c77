//! `echelon storage resume`: the way out of the freeze that follows a backup that was put back.
//!
//! It raises the stored epoch of each role above all that storage and membership have seen, and marks it as
//! resumed. Leaders see that and give way to new ones. A new shard leader takes what Mesos lists over as the
//! latest runs of the stored jobs, and numbers on from there.

use crate::process;
use crate::storage::{Which, missing_file};
use anyhow::{Context, bail};
use clap::Args;
use echelon_cli::Failure;
use echelon_cli::output::{self, Format, Listing};
use echelon_core_model::Epoch;
use echelon_core_model::store::{
    Answer, Consistency, Decided, Decision, Leadership, Op, OpResult, Query, Role,
};
use echelon_io_membership::{self as membership, Membership, Timeouts};
use echelon_io_storage::Store;
use std::sync::Arc;

/// A name in the leadership rows that no process has.
const HOLDER: &str = "echelon storage resume";

/// Which storage, and how surely.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    which: Which,
    /// zookeeper://HOST:PORT,.../PATH as the roles have it; left out for `standalone`, which has its own
    #[arg(long, env = "ECHELON_MEMBERSHIP", value_name = "URL")]
    membership: Option<String>,
    /// Do it; without this it only shows what it would do
    #[arg(long)]
    yes: bool,
}

/// What becomes of a role.
#[derive(Debug)]
struct Step {
    role: Role,
    /// As stored.
    stored: Leadership,
    /// The largest epoch that the membership has seen, or that something was stored under; none where
    /// there is neither.
    seen: Option<Epoch>,
    /// The epoch that is stored next.
    next: Epoch,
}

impl Step {
    fn name(&self) -> String {
        match &self.role {
            Role::ResourceManager => "resource-manager".to_owned(),
            Role::Shard(cluster) => format!("shard/{cluster}"),
        }
    }
}

/// Resumes a storage.
///
/// # Errors
/// Storage or membership does not answer.
pub async fn run(resume: &Resume, format: Format) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::new(process::exit_of(&error), format!("{error:#}"));
    let (store, steps) = plan(resume).await.map_err(failed)?;
    output::print(output::list(&listing(&steps), format));
    if !resume.yes {
        output::remark(format_args!(
            "What Mesos runs would become the latest; what was submitted, ended or stopped after the backup is forgotten. \
             Nothing was changed; say --yes to do it"
        ));
        return Ok(());
    }
    for step in steps {
        take(&*store, &step).await.map_err(failed)?;
    }
    output::remark(format_args!(
        "resumed: new leaders take over what Mesos runs; `echelon cluster list` shows whether any is frozen still"
    ));
    Ok(())
}

async fn plan(resume: &Resume) -> anyhow::Result<(Arc<dyn Store>, Vec<Step>)> {
    let url = &resume.which.storage;
    if missing_file(url).is_some() {
        bail!("{url} is not there");
    }
    if url.starts_with("cassandra:") && resume.membership.is_none() {
        bail!("give --membership, too: epochs are raised above all that it has seen");
    }
    let store = echelon_io_storage::open(url)
        .await
        .with_context(|| format!("open {}", echelon_io_storage::without_login(url)))?;
    store
        .status()
        .await
        .context("ask for the storage's level")?
        .check()?;
    let met = resume.membership.as_ref();
    let met = met
        .map(|url| process::membership(url, Timeouts::default()))
        .transpose()?;
    let mut roles = Vec::new();
    match read(&*store, Query::Clusters).await? {
        Answer::Clusters(all) => roles.extend(all.into_iter().map(|c| Role::Shard(c.id))),
        other => bail!("internal error: asked for clusters, storage answered {other:?}"),
    }
    // The last: its new leader waits for shards that lead after they were resumed.
    roles.push(Role::ResourceManager);
    let mut steps = Vec::new();
    for role in roles {
        let stored = match read(&*store, Query::Leadership(role.clone())).await? {
            Answer::Leadership(stored) => stored,
            other => bail!("internal error: asked for a leadership, storage answered {other:?}"),
        };
        let seen = match &met {
            Some(met) => seen(&**met, &role).await?,
            None => None,
        };
        // Where the rows of leaderships are older than the others, what was stored has a larger epoch.
        let marked = match read(&*store, Query::Mark(role.clone())).await? {
            Answer::Mark(mark) => mark.map(|mark| mark.stamp.epoch),
            other => bail!("internal error: asked for a mark, storage answered {other:?}"),
        };
        let seen = seen.max(marked);
        let next = seen.map_or(stored.epoch, |seen| stored.epoch.max(seen)).next();
        if next.0 + 1 >= Epoch::END {
            bail!("epoch {next} of {role:?} is beyond the last one that storage can order");
        }
        steps.push(Step {
            role,
            stored,
            seen,
            next,
        });
    }
    Ok((store, steps))
}

async fn seen(met: &dyn Membership, role: &Role) -> anyhow::Result<Option<Epoch>> {
    let role = match role {
        Role::ResourceManager => membership::Role::ResourceManager,
        Role::Shard(cluster) => membership::Role::Shard(cluster.clone()),
    };
    met.highest_epoch(&role)
        .await
        .context("ask the membership servers for the largest epoch")
}

async fn read(store: &dyn Store, query: Query) -> anyhow::Result<Answer> {
    match store.perform(Op::Read(query, Consistency::Serial)).await {
        OpResult::Answer(answer) => Ok(answer),
        OpResult::Partial(_, unread) => bail!("storage has rows that cannot be read: {unread:?}"),
        OpResult::Failed(failure) => bail!("storage: {failure}"),
        other => bail!("internal error: unexpected reply to a read: {other:?}"),
    }
}

/// Stores the epoch of a step. A leader that took one meanwhile is passed, too.
async fn take(store: &dyn Store, step: &Step) -> anyhow::Result<()> {
    let (mut expected, mut epoch) = (step.stored.epoch, step.next);
    loop {
        let decision = Decision::TakeEpoch {
            role: step.role.clone(),
            next: Leadership {
                resumed: epoch,
                ..Leadership::taken(epoch, HOLDER, u64::from(std::process::id()))
            },
            expected,
        };
        match store.perform(Op::Decide(decision)).await {
            OpResult::Decided(Decided::Applied) => return Ok(()),
            OpResult::Decided(Decided::Conflict(present)) => match *present {
                Answer::Leadership(there) if there.resumed == epoch => return Ok(()),
                Answer::Leadership(there) => {
                    expected = there.epoch;
                    epoch = epoch.max(there.epoch.next());
                }
                other => bail!("internal error: unexpected reply to a decision: {other:?}"),
            },
            OpResult::Failed(failure) => bail!("{}: {failure}; repeat the command", step.name()),
            other => bail!("internal error: unexpected reply to a decision: {other:?}"),
        }
    }
}

fn listing(steps: &[Step]) -> Listing {
    let seen = |s: &Step| s.seen.map_or_else(|| "-".to_owned(), |e| e.to_string());
    let cells = |s: &Step| vec![s.name(), s.stored.epoch.to_string(), seen(s), s.next.to_string()];
    let value = |s: &Step| {
        serde_json::json!({
            "role": s.name(),
            "stored_epoch": s.stored.epoch.0,
            "seen_epoch": s.seen.map(|e| e.0),
            "next_epoch": s.next.0,
        })
    };
    Listing {
        columns: &["ROLE", "STORED", "SEEN", "NEXT"],
        narrow: 4,
        rows: steps.iter().map(cells).collect(),
        names: steps.iter().map(Step::name).collect(),
        values: steps.iter().map(value).collect(),
    }
}
