//! The driver against a storage and shards that keep their promises and nothing more. `case` is the language, `shard` the
//! model of a shard.

mod case;
mod claims;
mod control;
mod daemons;
mod drivers;
mod ended;
mod faults;
mod figures;
mod fits;
mod found;
mod gang_claims;
mod gangs;
mod goals;
mod host_pools;
mod leadership;
mod limits;
mod look;
mod moves;
mod pools;
mod preemption;
mod quota;
mod refusals;
mod restarts;
mod returns;
mod rollouts;
mod rules;
mod sampled;
mod schedules;
mod shard;
mod states;
mod sums;
mod tombstones;
mod unplaced;
mod unread;
mod usable_capacity;
