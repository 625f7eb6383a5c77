//! A store that tells an observer about each operation: what metrics are made from.

use crate::{Durability, Status, Store, StoreError};
use async_trait::async_trait;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query, Reading};
use std::time::{Duration, Instant};

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Done: answered, applied, committed.
    Done,
    /// A decision met something else.
    Conflict,
    /// Not done.
    Failed,
    /// Nobody knows.
    Unknown,
}

impl Outcome {
    /// The word of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// One operation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// Its kind: `read_head`, `put_spec`, `commit`.
    pub operation: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// Rows that it wrote, or would have.
    pub writes: usize,
    /// How long it took.
    pub took: Duration,
    /// Why it has no result.
    pub error: Option<&'a StoreError>,
}

/// Who is told.
pub trait Observer: Send + Sync {
    /// An operation has ended. Called on the caller's task: it must be quick.
    fn observed(&self, observation: Observation<'_>);
}

impl<F: Fn(Observation<'_>) + Send + Sync> Observer for F {
    fn observed(&self, observation: Observation<'_>) {
        self(observation);
    }
}

/// A store whose operations are observed.
pub struct Observed<S, O> {
    store: S,
    observer: O,
}

impl<S: Store, O: Observer> Observed<S, O> {
    /// Observes a store.
    pub const fn new(store: S, observer: O) -> Self {
        Self { store, observer }
    }
}

fn outcome<T>(result: &Result<T, StoreError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(error) if error.may_be_done() => Outcome::Unknown,
        Err(_) => Outcome::Failed,
    }
}

const fn read_kind(query: &Query) -> &'static str {
    match query {
        Query::Head(_) => "read_head",
        Query::Heads(_) => "read_heads",
        Query::Spec(..) => "read_spec",
        Query::Name(_) => "read_name",
        Query::Request(_) => "read_request",
        Query::Pools => "read_pools",
        Query::Assignment(_) => "read_assignment",
        Query::Assignments(_) => "read_assignments",
        Query::Changes(_) => "read_changes",
        Query::Clusters => "read_clusters",
        Query::Control => "read_control",
        Query::StartBans => "read_start_bans",
        Query::Leadership(_) => "read_leadership",
        Query::Mark(_) => "read_mark",
        Query::Progress(_) => "read_progress",
        Query::ProgressBucket(_) => "read_progress_bucket",
        Query::ClusterStates => "read_cluster_states",
        Query::Shard(_) => "read_shard",
        Query::BlockBucket(..) => "read_block_bucket",
        Query::GroupBlocks { .. } => "read_group_blocks",
        Query::Heartbeats => "read_heartbeats",
        Query::Hosts { .. } => "read_hosts",
        Query::Events { .. } => "read_events",
        Query::EventEnds(..) => "read_event_ends",
        Query::KeptRuns(_) => "read_kept_runs",
        Query::KeptLog(..) => "read_kept_log",
        Query::Jobs { .. } => "read_jobs",
    }
}

const fn decision_kind(decision: &Decision) -> &'static str {
    match decision {
        Decision::PutHead { .. } => "put_head",
        Decision::RemoveHead { .. } => "remove_head",
        Decision::PutSpec { .. } => "put_spec",
        Decision::TakeName { .. } => "take_name",
        Decision::PlanRequest { .. } => "plan_request",
        Decision::PutPools { .. } => "put_pools",
        Decision::PutCluster { .. } => "put_cluster",
        Decision::PutControl { .. } => "put_control",
        Decision::PutStartBans { .. } => "put_start_bans",
        Decision::TakeEpoch { .. } => "take_epoch",
        Decision::RaisePartition { .. } => "raise_partition",
        Decision::PutAssignments { .. } => "put_assignments",
    }
}

#[async_trait]
impl<S: Store, O: Observer> Store for Observed<S, O> {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        let (kind, began) = (read_kind(&query), Instant::now());
        let result = self.store.read(query, consistency).await;
        self.observer.observed(Observation {
            operation: kind,
            outcome: outcome(&result),
            writes: 0,
            took: began.elapsed(),
            error: result.as_ref().err(),
        });
        result
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        let writes = match &decision {
            Decision::PutAssignments { put, remove, .. } => put.len() + remove.len(),
            _ => 1,
        };
        let (kind, began) = (decision_kind(&decision), Instant::now());
        let result = self.store.decide(decision).await;
        let outcome = match &result {
            Ok(Decided::Conflict(_)) => Outcome::Conflict,
            other => outcome(other),
        };
        self.observer.observed(Observation {
            operation: kind,
            outcome,
            writes,
            took: began.elapsed(),
            error: result.as_ref().err(),
        });
        result
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let (writes, began) = (batch.writes.len(), Instant::now());
        let result = self.store.commit(batch).await;
        self.observer.observed(Observation {
            operation: "commit",
            outcome: outcome(&result),
            writes,
            took: began.elapsed(),
            error: result.as_ref().err(),
        });
        result
    }

    async fn status(&self) -> Result<Status, StoreError> {
        self.store.status().await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        self.store.migrate().await
    }

    async fn durability(&self) -> Durability {
        self.store.durability().await
    }
}

#[async_trait]
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        (**self).read(query, consistency).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        (**self).decide(decision).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        (**self).commit(batch).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        (**self).status().await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        (**self).migrate().await
    }

    async fn durability(&self) -> Durability {
        (**self).durability().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::contract::{batch, facts};
    use crate::faulty::{Fault, FaultyStore};
    use echelon_core_model::Version;
    use echelon_core_model::store::Write;
    use std::sync::Mutex;

    #[tokio::test]
    async fn each_operation_is_told_with_its_outcome() {
        let told = Mutex::new(Vec::new());
        let faulty = FaultyStore::new(MemoryStore::new());
        let observer = |o: Observation<'_>| told.lock().unwrap().push((o.operation, o.outcome, o.writes));
        let store = Observed::new(std::sync::Arc::clone(&faulty), observer);
        let put = |version| Decision::PutHead {
            head: facts::head(facts::job(1), version),
            expected: (version > 2).then_some(Version(version - 1)),
        };
        store.decide(put(1)).await.unwrap();
        store.decide(put(2)).await.unwrap();
        store.read(Query::Clusters, Consistency::Quorum).await.unwrap();
        faulty.plan(0, |_| true, Fault::LoseAnswer);
        faulty.plan(1, |_| true, Fault::Fail);
        let host = || {
            batch(
                &facts::shard("c1"),
                (1, 1),
                vec![Write::Host(facts::host("h", 1))],
            )
        };
        store.commit(host()).await.unwrap_err();
        store.commit(host()).await.unwrap_err();
        store.commit(host()).await.unwrap();
        let expected = vec![
            ("put_head", Outcome::Done, 1),
            ("put_head", Outcome::Conflict, 1),
            ("read_clusters", Outcome::Done, 0),
            ("commit", Outcome::Unknown, 1),
            ("commit", Outcome::Failed, 1),
            ("commit", Outcome::Done, 1),
        ];
        assert_eq!(*told.lock().unwrap(), expected);
    }
}
