//! Checks of what is known and decided, for simulated worlds, tests and production.

pub(crate) mod alarms;
pub(crate) mod check;
pub(crate) mod footprint;
pub(crate) mod sum_audit;
