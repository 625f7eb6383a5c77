//! Asking storage: repeats what failed a few times, unchanged, and turns the general answer into the one that belongs to
//! the question. Every method reads and decides through this.

use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::cluster::{Cluster, ClusterState, Heartbeat};
use echelon_core_model::control::Control;
use echelon_core_model::job::{Head, Progress};
use echelon_core_model::pool::{PoolPaths, PoolTree};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{
    Answer, Consistency, Decided, Decision, NameHolder, Op, OpFailure, OpResult, Query, TroubleKind,
    UnreadRow, rows_told,
};
use echelon_core_model::{JobId, Span};

/// Waits before the second, third and fourth try: a lost leader of a storage partition is back within a second.
const PAUSES: [Span; 3] = [Span::millis(50), Span::millis(250), Span::millis(1000)];

fn broken(asked: &str) -> ApiError {
    ApiError::new(
        ErrorReason::BrokenPromise,
        format!("storage gave an answer to another question than {asked}; report this"),
    )
}

fn failed(tried: &str, failure: &OpFailure) -> ApiError {
    if let OpFailure::Refused(refusal) = failure {
        return ApiError::new(
            ErrorReason::StorageRefused,
            format!(
                "storage refuses this for good when {tried}: {refusal}; make it smaller, nothing was changed"
            ),
        );
    }
    let done = if failure.may_be_done() {
        "it may or may not have been done; repeat the request unchanged (a create with the same request id)"
    } else {
        "nothing was changed; repeat the request"
    };
    let what = match failure {
        OpFailure::NotDone(trouble) | OpFailure::Unknown(trouble) if trouble.kind == TroubleKind::Full => {
            "storage is full"
        }
        _ => "storage did not answer",
    };
    ApiError::new(
        ErrorReason::StorageUnavailable,
        format!("{what} when {tried}: {done}"),
    )
    .behind(failure.to_string())
}

/// The error of rows that cannot be understood: the same question has the same answer until another build asks it.
#[must_use]
pub fn unreadable(what: &str, rows: &[UnreadRow]) -> ApiError {
    let row = rows_told(rows);
    ApiError::new(
        ErrorReason::RowUnread,
        format!(
            "{what} cannot be told: {row} Use the build that wrote it, or delete the row if it is damaged"
        ),
    )
}

/// Whether people are served by what can be read of a list. To decide something all of it is needed.
const fn goes_on(query: &Query, how: Consistency) -> bool {
    matches!(how, Consistency::Quorum)
        && matches!(
            query,
            Query::Clusters
                | Query::ClusterStates
                | Query::Heartbeats
                | Query::Hosts { .. }
                | Query::Shard(_)
                | Query::Events { .. }
                | Query::KeptRuns(_)
        )
}

/// Performs an operation, up to four times. What is refused is refused at once: it would be each time.
async fn perform<F: Facts>(facts: &F, op: Op) -> Result<OpResult, OpFailure> {
    let mut may_be_done = false;
    let mut pauses = PAUSES.iter();
    loop {
        let failure = match facts.perform(op.clone()).await {
            OpResult::Failed(failure) => failure,
            other => return Ok(other),
        };
        may_be_done |= failure.may_be_done();
        match (failure, pauses.next()) {
            (OpFailure::Refused(refusal), _) => return Err(OpFailure::Refused(refusal)),
            // Room is not made within a second.
            (OpFailure::NotDone(trouble), _) if trouble.kind == TroubleKind::Full && !may_be_done => {
                return Err(OpFailure::NotDone(trouble));
            }
            (_, Some(pause)) => facts.pause(*pause).await,
            (OpFailure::NotDone(trouble), None) if may_be_done => return Err(OpFailure::Unknown(trouble)),
            (failure, None) => return Err(failure),
        }
    }
}

/// Reads; `None` when storage answered something that is no answer to a read.
///
/// # Errors
/// When storage did not answer: an unknown, never an absence.
pub async fn try_read<F: Facts>(
    facts: &F,
    query: Query,
    how: Consistency,
) -> Result<Option<Answer>, OpFailure> {
    let goes_on = goes_on(&query, how);
    match perform(facts, Op::Read(query, how)).await? {
        OpResult::Answer(answer) => Ok(Some(answer)),
        OpResult::Partial(answer, _) if goes_on => Ok(Some(answer)),
        OpResult::Partial(_, rows) => Err(unknown(&rows)),
        OpResult::Unread(row) => Err(unknown(std::slice::from_ref(&*row))),
        _ => Ok(None),
    }
}

fn unknown(rows: &[UnreadRow]) -> OpFailure {
    OpFailure::not_done(TroubleKind::Schema, rows_told(rows))
}

/// Reads.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn read<F: Facts>(
    facts: &F,
    query: Query,
    how: Consistency,
    what: &str,
) -> Result<Answer, ApiError> {
    let goes_on = goes_on(&query, how);
    let (answer, unread) = read_some(facts, query, how, what).await?;
    if unread.is_empty() || goes_on {
        return Ok(answer);
    }
    Err(unreadable(what, &unread))
}

/// Reads several rows: what can be understood, and the rows that cannot.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer; `RowUnread` when the only row cannot be understood.
pub async fn read_some<F: Facts>(
    facts: &F,
    query: Query,
    how: Consistency,
    what: &str,
) -> Result<(Answer, Vec<UnreadRow>), ApiError> {
    let done = perform(facts, Op::Read(query, how)).await;
    match done.map_err(|failure| failed(&format!("{what} was read"), &failure))? {
        OpResult::Answer(answer) => Ok((answer, Vec::new())),
        OpResult::Partial(answer, unread) => Ok((answer, unread)),
        OpResult::Unread(row) => Err(unreadable(what, std::slice::from_ref(&*row))),
        _ => Err(broken(what)),
    }
}

/// Decides.
///
/// # Errors
/// `StorageRefused` when storage never takes it; `StorageUnavailable` when the outcome stayed unknown: the same request settles
/// it then.
pub async fn decide<F: Facts>(facts: &F, decision: Decision, what: &str) -> Result<Decided, ApiError> {
    match perform(facts, Op::Decide(decision)).await {
        Ok(OpResult::Decided(decided)) => Ok(decided),
        Ok(OpResult::Unread(row)) => Err(unreadable(what, std::slice::from_ref(&*row))),
        Ok(_) => Err(broken(what)),
        Err(failure) => Err(failed(&format!("{what} was written"), &failure)),
    }
}

macro_rules! reads {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $query:expr => $variant:ident as $out:ty, $how:ident, $what:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `StorageUnavailable` when storage did not answer.
        pub async fn $name<F: Facts>(facts: &F, $($arg: $ty),*) -> Result<$out, ApiError> {
            match read(facts, $query, Consistency::$how, $what).await? {
                Answer::$variant(found) => Ok(found),
                _ => Err(broken($what)),
            }
        }
    )*};
}

reads! {
    /// A head, for display.
    head(job: JobId) = Query::Head(job) => Head as Option<Head>, Quorum, "the job";
    /// A head, to decide by.
    settled_head(job: JobId) = Query::Head(job) => Head as Option<Head>, Serial, "the job";
    /// A spec version.
    spec(job: JobId, version: u32) = Query::Spec(job, version) => Spec as Option<JobSpec>, Quorum, "the spec";
    /// A name's holder.
    name(name: &str) = Query::Name(name.to_owned()) => Name as Option<NameHolder>, Quorum, "the name";
    /// The pool tree, to decide by.
    pools() = Query::Pools => Pools as PoolTree, Serial, "the pools";
    /// The pool tree, for display.
    shown_pools() = Query::Pools => Pools as PoolTree, Quorum, "the pools";
    /// All clusters, to decide by.
    settled_clusters() = Query::Clusters => Clusters as Vec<Cluster>, Serial, "the clusters";
    /// All clusters.
    clusters() = Query::Clusters => Clusters as Vec<Cluster>, Quorum, "the clusters";
    /// The switches, to decide by.
    settled_control() = Query::Control => Control as Control, Serial, "the switches";
    /// The switches.
    control() = Query::Control => Control as Control, Quorum, "the switches";
    /// Health of all clusters.
    cluster_states() = Query::ClusterStates => ClusterStates as Vec<ClusterState>, Quorum, "the clusters' health";
    /// Signs of life of all shards.
    heartbeats() = Query::Heartbeats => Heartbeats as Vec<Heartbeat>, Quorum, "the shards' heartbeats";
}

/// Where pools are, as far as a job needs it.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn paths_of<F: Facts>(facts: &F, head: &Head) -> Result<PoolPaths, ApiError> {
    if head.pool_id.is_none() {
        return Ok(PoolPaths::default());
    }
    Ok(PoolPaths::of(&shown_pools(facts).await?))
}

/// What became of a job, `None` before the resource manager has seen it.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn progress<F: Facts>(facts: &F, job: JobId) -> Result<Option<Progress>, ApiError> {
    let what = "the job's progress";
    match read(facts, Query::Progress(job), Consistency::Quorum, what).await? {
        Answer::Progress(rows) => Ok(rows.into_iter().find(|p| p.job == job)),
        _ => Err(broken(what)),
    }
}

/// A job's assignment, empty before the resource manager has made one.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn assignment<F: Facts>(facts: &F, job: JobId) -> Result<Assignment, ApiError> {
    let what = "the job's assignment";
    match read(facts, Query::Assignment(job), Consistency::Quorum, what).await? {
        Answer::Assignments(_, rows) => Ok(rows
            .into_iter()
            .find(|a| a.job == job)
            .unwrap_or_else(|| Assignment::new(job))),
        _ => Err(broken(what)),
    }
}

/// What a conflict said is there, where it names another thing than it should.
#[must_use]
pub fn broken_conflict(what: &str) -> ApiError {
    broken(what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Next};
    use crate::error::Code;
    use echelon_core_model::store::{Refusal, RefusedRow, RefusedWhy};

    fn decision() -> Decision {
        let planned = echelon_core_model::store::PlannedRequest {
            job: JobId(1),
            hash: 1,
            at: echelon_core_model::Timestamp(1),
        };
        let id = echelon_core_model::RequestId::new("r");
        Decision::PlanRequest { id, planned }
    }

    /// The answer, and how often storage was asked.
    fn asked(failure: &OpFailure) -> (Result<Decided, ApiError>, u32) {
        let (mut call, mut next) =
            Call::start(|facts| async move { decide(&facts, decision(), "the job's spec").await });
        let mut tries = 0;
        loop {
            next = match next {
                Next::Done(answer) => return (answer, tries),
                Next::Do(_) => {
                    tries += 1;
                    call.on(OpResult::Failed(failure.clone()))
                }
                Next::Check(_) => call.on_check(None),
                Next::Wait(_) => call.on_pause(),
            };
        }
    }

    #[test]
    fn a_refusal_is_told_at_the_first_try_with_row_bytes_and_limit() {
        let row = RefusedRow {
            row: "a job's spec".to_owned(),
            place: None,
            why: RefusedWhy::TooLarge {
                bytes: 300_000,
                limit: 262_144,
            },
        };
        let (answer, tries) = asked(&OpFailure::Refused(Refusal { rows: vec![row] }));
        let error = answer.unwrap_err();
        assert_eq!((tries, error.code()), (1, Code::FailedPrecondition));
        for told in ["a job's spec", "300000", "262144"] {
            assert!(error.message.contains(told), "{error}");
        }
        assert!(!error.is_retryable());
    }

    #[test]
    fn what_may_succeed_later_is_tried_four_times() {
        let (answer, tries) = asked(&OpFailure::not_done(TroubleKind::Overloaded, "busy"));
        assert_eq!((tries, answer.unwrap_err().code()), (4, Code::Unavailable));
    }

    #[test]
    fn a_full_storage_is_told_at_the_first_try() {
        let (answer, tries) = asked(&OpFailure::not_done(TroubleKind::Full, "no space left"));
        let error = answer.unwrap_err();
        assert_eq!((tries, error.code()), (1, Code::Unavailable));
        assert!(error.message.contains("storage is full"), "{error}");
        assert!(error.message.contains("nothing was changed"), "{error}");
        assert!(error.is_retryable());
    }
}
