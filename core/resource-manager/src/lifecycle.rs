//! What a job's spec and head ask for as time passes: rules, dependencies, schedules, rollouts, restarts, and its end.

pub(crate) mod cluster_removal;
pub(crate) mod dependencies;
pub(crate) mod dependents;
pub(crate) mod ends;
pub(crate) mod head_change;
pub(crate) mod head_changes;
pub(crate) mod outcome;
pub(crate) mod pool_removal;
pub(crate) mod restarts;
pub(crate) mod retirement;
pub(crate) mod rollouts;
pub(crate) mod rules;
pub(crate) mod scheduled_creations;
pub(crate) mod schedules;
pub(crate) mod templates;
pub(crate) mod timer_queue;
pub(crate) mod tombstones;
