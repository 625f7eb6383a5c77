//! How long storage and messages take in a replay.

use echelon_core_model::Span;

/// How long storage and messages take. Messages of one stream and answers of storage keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// From an operation on storage to its answer.
    pub storage: Span,
    /// From a change at a shard to the arrival of the report that states it. One report states all changes of
    /// that time.
    pub report: Span,
    /// From sending a directive to its arrival.
    pub order: Span,
}

impl Delays {
    /// Those of a federation in one region: a conditional write takes two rounds of a quorum, a shard
    /// reports changes 100 ms apart (`report_apart`), a message takes a few milliseconds.
    pub const USUAL: Self = Self {
        storage: Span::millis(20),
        report: Span::millis(100),
        order: Span::millis(5),
    };

    /// None: everything is answered in the moment in which it is asked.
    pub const NONE: Self = Self {
        storage: Span::ZERO,
        report: Span::ZERO,
        order: Span::ZERO,
    };
}
