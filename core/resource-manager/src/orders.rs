//! What is stored and sent: assignments, rows of progress, orders to shards, and their renewal.

pub(crate) mod allotments;
pub(crate) mod classes;
pub(crate) mod contacts;
pub(crate) mod kill_switch;
pub(crate) mod preemption_requests;
pub(crate) mod resends;
pub(crate) mod sending;
pub(crate) mod slice_orders;
pub(crate) mod writes;

/// What a cycle stored and sent.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrdersReport {
    /// Partitions of assignments that were written.
    pub partitions: usize,
    /// Orders about slices.
    pub orders: usize,
    /// Messages that carry them.
    pub directives: usize,
    /// Allotments of `max_unavailable` that have changed.
    pub allotments: usize,
    /// Rows of progress.
    pub rows: usize,
}
