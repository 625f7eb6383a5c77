//! A call on its way to the master, with its part of the credit for all that is under way there.

use echelon_core_hosts::Call;
use echelon_io_credit::HeldCredit;

/// A call that was handed over. Its part of the credit is given back when it was answered, or comes back as
/// an event.
#[derive(Debug)]
pub struct Outgoing {
    /// What is asked of the cluster.
    pub call: Call,
    /// `None`: its sender bounds nothing.
    pub held: Option<HeldCredit>,
}

impl From<Call> for Outgoing {
    fn from(call: Call) -> Self {
        Self { call, held: None }
    }
}
