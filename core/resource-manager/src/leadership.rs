//! How a leader takes over, recovers, and steps down.

pub(crate) mod quarantine;
pub(crate) mod recover;
pub(crate) mod resume;
pub(crate) mod tenure;
