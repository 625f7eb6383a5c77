//! What jobs ask for: their slices, requests and sums, the queues of pools, and what hosts can hold.

pub(crate) mod ask;
pub(crate) mod basis;
pub(crate) mod capacity;
pub(crate) mod daemons;
pub(crate) mod entry;
pub(crate) mod found;
pub(crate) mod gangs;
pub(crate) mod host_limits;
pub(crate) mod ledger;
pub(crate) mod pool_demand;
pub(crate) mod request;
pub(crate) mod slices;
