//! Answers that are computed on what is known and change nothing.

pub(crate) mod cluster_work;
pub(crate) mod explain;
pub(crate) mod figures;
pub(crate) mod loss_cover;
pub(crate) mod plan;
pub(crate) mod snapshot;
pub(crate) mod trial_admission;
pub(crate) mod unstored;
