//! The stream between the resource manager and a shard, and hints: `echelon.shard.v1`.

mod claim;
mod classes;
mod cluster_question;
mod directive;
mod hint;
mod instance_limit;
mod report;
mod starts;

pub use hint::Changed;
