//! Stored rows: `echelon.storage.v1`.

mod assignment;
mod cluster;
mod control;
mod drain;
mod event;
mod failure;
mod health;
mod host_pool;
mod instance;
mod job;
mod leadership;
mod log;
mod pool;
mod quantity;
mod reason;
mod restart;
mod rollout;
mod schedule;
mod sharing;
mod slice;
mod spec;
