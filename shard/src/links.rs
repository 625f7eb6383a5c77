//! Streams of resource managers, as the loop holds them: where reports go.

use echelon_core_model::directive::{Report, ReportPart};
use echelon_core_shard::LinkId;
use echelon_io_credit::{Credit, HeldCredit};
use echelon_proto::convert::{Wire, wire_bytes};
use echelon_proto::echelon::shard::v1::DirectResponse;
use std::collections::BTreeMap;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;
use tonic::Status;

/// Reports that may wait for a resource manager that does not read; then its stream is cut, and its next one begins with a
/// full report.
pub(crate) const REPORTS: usize = 4096;

/// Bytes of them. A full report, which is one message in many parts, may be larger.
pub(crate) const REPORT_BYTES: usize = 32 << 20;

/// A report on its way, with its part of the credit.
pub(crate) type SentReport = Result<(DirectResponse, HeldCredit), Status>;

/// The way back of a stream. With it the way in ends.
pub(crate) struct WayBack {
    pub(crate) reports: mpsc::Sender<SentReport>,
    /// Room for reports that were not read.
    pub(crate) credit: Credit,
    /// A full report is being sent.
    pub(crate) is_in_full: bool,
    /// Has the way in read on; taken when it was told.
    pub(crate) admit: Option<oneshot::Sender<()>>,
    pub(crate) _way_in: DropGuard,
}

impl WayBack {
    /// Hands a report over without waiting.
    ///
    /// # Errors
    /// There is no room for it, or the stream has ended.
    fn send(&mut self, report: &Report) -> Result<(), &'static str> {
        match report.part {
            ReportPart::FullStart => self.is_in_full = true,
            ReportPart::FullEnd => self.is_in_full = false,
            _ => {}
        }
        let wire = report.to_wire();
        let bytes = wire_bytes(&wire);
        let held = if self.is_in_full {
            Some(self.credit.take(bytes))
        } else {
            self.credit.try_take(bytes)
        };
        let held = held.ok_or("too many bytes wait for it")?;
        let sent = self.reports.try_send(Ok((wire, held)));
        sent.map_err(|_| "too many reports wait for it, or it has ended the stream")
    }
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
        let Some(way_back) = self.0.get_mut(&link) else {
            return;
        };
        if let Err(why) = way_back.send(&report) {
            tracing::warn!(
                link = link.0,
                why,
                "the resource manager does not read reports; cutting its stream"
            );
            self.0.remove(&link);
        }
    }

    /// Bytes of reports that were sent and not read, over all streams.
    pub(crate) fn under_way(&self) -> usize {
        self.0.values().map(|way_back| way_back.credit.under_way()).sum()
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
