//! The port of `core/gateway` onto a real storage and the resource manager's leader.

use crate::links::Links;
use echelon_core_gateway::Facts;
use echelon_core_gateway::sightings::Sightings;
use echelon_core_model::cluster::{ClusterState, Heartbeat};
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::Progress;
use echelon_core_model::store::{Op, OpResult};
use echelon_core_model::{JobId, Span};
use echelon_io_process::Clock;
use echelon_io_storage::Store;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the methods ask.
#[derive(Clone)]
pub(crate) struct StoreFacts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) links: Links,
    /// The clock of this process.
    pub(crate) clock: Clock,
    /// When rows of clusters were seen to change, by that clock. It is kept in memory alone: a gateway that
    /// has just started has seen nothing.
    pub(crate) sightings: Arc<Mutex<Sightings>>,
}

impl Facts for StoreFacts {
    async fn perform(&self, op: Op) -> OpResult {
        self.store.perform(op).await
    }

    async fn unstored(&self, jobs: Vec<JobId>) -> Option<Vec<Progress>> {
        self.links.progress(&jobs).await
    }

    async fn check_instances(&self, wanted: WantedInstances) -> Option<Result<(), ExceededLimit>> {
        self.links.check_instances(&wanted).await
    }

    fn sighted(&self, states: &[ClusterState], heartbeats: &[Heartbeat]) -> Sightings {
        let mut seen = self.sightings.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note(states, heartbeats, self.clock.now());
        seen.clone()
    }

    async fn pause(&self, span: Span) {
        // Up to half as much again, so that gateways that failed together do not try again together.
        let millis = span.0 + span.0 * u64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 512;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
