//! Switches that operators set for the whole system. Decided by any gateway; everybody else reads them.

use crate::id::Version;
use crate::time::Timestamp;

/// All switches, in one row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Counts the writes of this row, from 1; 0: nobody ever set a switch.
    pub version: Version,
    /// No shard kills anything.
    pub kills_off: bool,
    /// Who set it last, for people.
    pub by: String,
    /// Why, for people.
    pub why: String,
    /// When.
    pub at: Timestamp,
}
