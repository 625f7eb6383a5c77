//! Streams of resource managers, as the loop holds them: where reports go.

use echelon_core_model::directive::Report;
use echelon_core_shard::LinkId;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Reports that may wait for a resource manager that does not read; then its stream is cut, and its next one begins with a
/// full report.
pub(crate) const REPORTS: usize = 4096;

/// Open streams.
#[derive(Default)]
pub(crate) struct Links(BTreeMap<LinkId, mpsc::Sender<Report>>);

impl Links {
    pub(crate) fn opened(&mut self, link: LinkId, reports: mpsc::Sender<Report>) {
        self.0.insert(link, reports);
    }

    pub(crate) fn closed(&mut self, link: LinkId) {
        self.0.remove(&link);
    }

    /// Sends without waiting. A stream that loses a report is cut.
    pub(crate) fn send(&mut self, link: LinkId, report: Report) {
        let Some(reports) = self.0.get(&link) else {
            return;
        };
        if let Err(error) = reports.try_send(report) {
            tracing::warn!(link = link.0, %error, "the resource manager does not read reports; cutting its stream");
            self.0.remove(&link);
        }
    }

    /// Ends all streams.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
