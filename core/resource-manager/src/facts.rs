//! What is known: what storage holds and what shards have reported, with look-ups that several stages need. Nothing here
//! decides.

pub(crate) mod capacity;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod ended;
pub(crate) mod fits;
pub(crate) mod found;
pub(crate) mod host_pools;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod known;
pub(crate) mod reports;
pub(crate) mod slice;
