//! What was kept of a run's logs when it ended, for when its sandbox cannot be read; and where nothing was kept, why.

use crate::ask;
use crate::error::ApiError;
use crate::instances::InstanceSeen;
use crate::port::Facts;
use echelon_core_model::instance::Run;
use echelon_core_model::log::{KeptLog, KeptRuns, LogGap, Tail};
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{ClusterId, MemberId, RunState, SidecarName, TaskId};

const WHAT: &str = "what was kept of the log";

/// Which output of which task is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedLog {
    /// The task.
    pub task: MemberId,
    /// Standard error, or standard output.
    pub stderr: bool,
    /// Begin at this byte of the whole output.
    pub offset: u64,
    /// Begin so many bytes before its end instead.
    pub tail_bytes: Option<u64>,
    /// So many bytes at most.
    pub limit_bytes: Option<u64>,
}

/// What is kept of an output, from where it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// The row that it comes from.
    pub log: KeptLog,
    /// Where `bytes` begin in the whole output.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Bytes at the beginning of the output that are not kept.
    pub cut: u64,
    /// Length of the whole output.
    pub size: u64,
}

/// What is kept of an output, or why nothing is, in a sentence.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn kept_output<F: Facts>(
    facts: &F,
    seen: &InstanceSeen,
    asked: &AskedLog,
) -> Result<Result<KeptOutput, String>, ApiError> {
    let query = Query::KeptRuns(seen.job);
    let lists = match ask::read(facts, query, Consistency::Quorum, WHAT).await? {
        Answer::KeptRuns(lists) => lists,
        _ => Vec::new(),
    };
    let run = &asked.task.run;
    let Some(list) = lists.iter().find(|list| list.has(run)) else {
        return Ok(Err(why_not(facts, seen, run, &lists).await?));
    };
    let query = Query::KeptLog(list.cluster.clone(), asked.task.clone());
    match ask::read(facts, query, Consistency::Quorum, WHAT).await? {
        Answer::KeptLog(Some(log)) => Ok(output(log, asked)),
        _ => Ok(Err(absent(list, asked))),
    }
}

/// The part of an output that is asked for.
fn output(log: KeptLog, asked: &AskedLog) -> Result<KeptOutput, String> {
    let tail = if asked.stderr {
        &log.tails.stderr
    } else {
        &log.tails.stdout
    };
    let (bytes, size) = match tail {
        Tail::Read { bytes, size } => (bytes, *size),
        Tail::Missing(why) => {
            return Err(format!("nothing was kept of it when it ended, since {why}"));
        }
    };
    let cut = size.saturating_sub(tail.len());
    let wanted = asked
        .tail_bytes
        .map_or(asked.offset, |tail| size.saturating_sub(tail));
    let offset = wanted.max(cut).min(size);
    let skipped = usize::try_from(offset - cut).unwrap_or(usize::MAX);
    let limit = usize::try_from(asked.limit_bytes.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let rest = bytes.get(skipped..).unwrap_or_default();
    let bytes = rest.get(..limit.min(rest.len())).unwrap_or_default().to_vec();
    Ok(KeptOutput {
        log,
        offset,
        bytes,
        cut,
        size,
    })
}

/// The run is listed and the task is not there.
fn absent(list: &KeptRuns, asked: &AskedLog) -> String {
    let kept = list.runs.iter().find(|kept| kept.run == asked.task.run);
    let sidecars = kept.map_or(&[][..], |kept| &kept.sidecars);
    match &asked.task.sidecar {
        Some(name) if !sidecars.contains(name) => {
            let known: Vec<&str> = sidecars.iter().map(SidecarName::as_str).collect();
            let known = if known.is_empty() {
                "it is one task".to_owned()
            } else {
                format!("only {}", known.join(", "))
            };
            format!("that run has no sidecar `{name}`; {known}")
        }
        _ => "what was kept of it is gone: logs are kept for 7 days".to_owned(),
    }
}

/// Why nothing is kept of a run, as far as storage tells.
async fn why_not<F: Facts>(
    facts: &F,
    seen: &InstanceSeen,
    asked: &TaskId,
    lists: &[KeptRuns],
) -> Result<String, ApiError> {
    let run = known(seen, asked);
    if let Some(told) = run.and_then(by_state) {
        return Ok(told.to_owned());
    }
    if let (Some(run), Some(cluster)) = (run, &seen.instance.cluster)
        && let Some(gap) = gap_of(facts, &cluster.id, run).await?
    {
        return Ok(by_gap(gap, &cluster.name));
    }
    let displaced: u64 = lists.iter().map(|list| list.displaced).sum();
    if displaced > 0 {
        return Ok(format!(
            "nothing is kept of it any more: the logs of {displaced} runs of this job made room for others, those that failed last (`runs_per_job` of the shard)"
        ));
    }
    Ok(
        "nothing was kept of it: it ended more than 7 days ago, or while its shard changed leaders, or the shard keeps no logs (`keep_bytes = 0`)"
            .to_owned(),
    )
}

/// The run, if it is still in its instance's record.
fn known<'a>(seen: &'a InstanceSeen, asked: &TaskId) -> Option<&'a Run> {
    let record = seen.instance.record.as_ref()?;
    let mut runs = record.run.iter().chain(&record.older);
    runs.find(|r| (r.generation, r.number) == (asked.generation, asked.run))
}

/// Where the run's state tells it.
const fn by_state(run: &Run) -> Option<&'static str> {
    match run.state {
        RunState::Lost => {
            Some("nothing was kept of it, since its host was lost before what it wrote could be read")
        }
        RunState::Rejected => Some("it never ran, so it has written nothing"),
        state if !state.is_ended() => {
            Some("nothing is kept of it yet: the end of a log is kept when its run ends")
        }
        _ => None,
    }
}

async fn gap_of<F: Facts>(facts: &F, cluster: &ClusterId, run: &Run) -> Result<Option<LogGap>, ApiError> {
    let Some(ended) = run.ended_at else {
        return Ok(None);
    };
    let query = Query::Shard(cluster.clone());
    Ok(
        match ask::read(facts, query, Consistency::Quorum, "the shard's row").await? {
            Answer::Shard(row) => LogGap::around(&row.log_gaps, ended),
            _ => None,
        },
    )
}

fn by_gap(gap: LogGap, cluster: &str) -> String {
    let seconds = gap.to.since(gap.from).0.div_ceil(1000).max(1);
    let when = if seconds == 1 {
        "that ended in that second".to_owned()
    } else {
        format!("that ended in those {seconds} seconds")
    };
    format!(
        "not kept: {} runs {when} were too many for what cluster {cluster} keeps a second (`bytes_per_second` of its shard)",
        gap.runs
    )
}

#[cfg(test)]
#[path = "logs_tests.rs"]
mod tests;
