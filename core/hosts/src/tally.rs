//! What became of offers: every one is in the end used, declined, taken back, or void with its subscription.

use echelon_core_model::Span;

/// How an offer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// We used it.
    Accepted,
    /// We gave it back.
    Declined,
    /// The cluster took it back, or lost its host.
    Rescinded,
    /// Its subscription ended.
    Void,
}

/// Offers, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Offers received, each counted once.
    pub received: u64,
    /// Of these, used.
    pub accepted: u64,
    /// Given back.
    pub declined: u64,
    /// Taken back by the cluster.
    pub rescinded: u64,
    /// Void with their subscription.
    pub void: u64,
    /// How long those were held, in sum, that were not used.
    pub held_unused: Span,
}

impl Tally {
    pub(crate) const fn end(&mut self, end: End, held: Span) {
        let count = match end {
            End::Accepted => &mut self.accepted,
            End::Declined => &mut self.declined,
            End::Rescinded => &mut self.rescinded,
            End::Void => &mut self.void,
        };
        *count += 1;
        if !matches!(end, End::Accepted) {
            self.held_unused = Span(self.held_unused.0.saturating_add(held.0));
        }
    }

    /// Offers that ended without being used.
    #[must_use]
    pub const fn unused(&self) -> u64 {
        self.declined + self.rescinded + self.void
    }

    /// Offers that have not ended: those that are open, or one was lost from sight.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.received.saturating_sub(self.accepted + self.unused())
    }
}
