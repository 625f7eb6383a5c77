//! Streams of resource managers, as the loop holds them: where reports go.

use echelon_core_model::directive::Report;
use echelon_core_shard::LinkId;
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;
use tonic::Status;

/// Reports that may wait for a resource manager that does not read; then its stream is cut, and its next one begins with a
/// full report.
pub(crate) const REPORTS: usize = 4096;

/// The way back of a stream. With it the way in ends.
pub(crate) struct WayBack {
    pub(crate) reports: mpsc::Sender<Result<Report, Status>>,
    /// Has the way in read on; taken when it was told.
    pub(crate) admit: Option<oneshot::Sender<()>>,
    pub(crate) _way_in: DropGuard,
}

/// Open streams.
#[derive(Default)]
pub(crate) struct Links(BTreeMap<LinkId, WayBack>);

impl Links {
    pub(crate) fn opened(&mut self, link: LinkId, way_back: WayBack) {
        self.0.insert(link, way_back);
    }

    pub(crate) fn closed(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// The opener is proven: more than its first message is read.
    pub(crate) fn admit(&mut self, link: LinkId) {
        if let Some(admit) = self.0.get_mut(&link).and_then(|way_back| way_back.admit.take()) {
            // Its way in may have ended.
            let _ = admit.send(());
        }
    }

    /// Sends without waiting. A stream that loses a report is cut.
    pub(crate) fn send(&mut self, link: LinkId, report: Report) {
        let Some(way_back) = self.0.get(&link) else {
            return;
        };
        if let Err(error) = way_back.reports.try_send(Ok(report)) {
            tracing::warn!(link = link.0, %error, "the resource manager does not read reports; cutting its stream");
            self.0.remove(&link);
        }
    }

    /// Ends a stream after what was sent, and tells its opener why.
    pub(crate) fn refuse(&mut self, link: LinkId, why: Status) {
        if let Some(way_back) = self.0.remove(&link) {
            // An opener that does not read learns it by the end of the stream alone.
            let _ = way_back.reports.try_send(Err(why));
        }
    }

    /// Ends all streams.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
