//! The port of `core/gateway` onto a real storage.

use echelon_core_gateway::Facts;
use echelon_core_model::Span;
use echelon_core_model::store::{Op, OpResult};
use echelon_io_storage::Store;
use std::sync::Arc;
use std::time::Duration;

/// A storage as the methods see it.
#[derive(Clone)]
pub(crate) struct StoreFacts(pub(crate) Arc<dyn Store>);

impl Facts for StoreFacts {
    async fn perform(&self, op: Op) -> OpResult {
        self.0.perform(op).await
    }

    async fn pause(&self, span: Span) {
        // Up to half as much again, so that gateways that failed together do not try again together.
        let millis = span.0 + span.0 * u64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 512;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
