//! The port of `core/gateway` onto a real storage and the resource manager's leader.

use crate::links::Links;
use echelon_core_gateway::Facts;
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::Progress;
use echelon_core_model::store::{Op, OpResult};
use echelon_core_model::{JobId, Span};
use echelon_io_storage::Store;
use std::sync::Arc;
use std::time::Duration;

/// What the methods ask.
#[derive(Clone)]
pub(crate) struct StoreFacts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) links: Links,
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

    async fn pause(&self, span: Span) {
        // Up to half as much again, so that gateways that failed together do not try again together.
        let millis = span.0 + span.0 * u64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 512;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
