//! What is stored and sent: assignments, rows of progress, orders to shards, and their renewal.

pub(crate) mod allotments;
pub(crate) mod classes;
pub(crate) mod kill_switch;
pub(crate) mod slice_orders;
pub(crate) mod writes;
