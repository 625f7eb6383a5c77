//! How large things may be. The numbers are part of the design: a batch must stay atomic in every backend.

/// Largest stored batch of one partition, and largest part of a pool tree: what Cassandra still takes as one mutation with room
/// to spare (half a commit log segment, 16 MiB by default).
pub(crate) const BATCH_BYTES: usize = 1024 * 1024;
/// Largest owned value. A block of 16 instances has about 1 KiB, and half of this at most, by its own bound.
pub(crate) const OWNED_BYTES: usize = 512 * 1024;
/// Largest row that is written back as it was read: whoever wrote it may have had other limits, and to refuse it would hide it.
pub(crate) const RAW_BYTES: usize = 2 * 1024 * 1024;
/// Largest other decided value: a head. A cluster is cut into rows, which are one batch.
pub(crate) const DECIDED_BYTES: usize = 64 * 1024;
/// Sequences of stamps stay below: 40 bits.
pub(crate) const SEQUENCE_END: u64 = 1 << 40;
