//! The shard's driver against a model of storage and a small cluster, with the order of durability checked at every effect
//! and the checker asked after every step.

mod campaign;
mod cluster;
mod cost;
mod durability;
mod evidence;
mod grants;
mod launching;
mod leadership;
mod moves;
mod recovery;
mod restarts;
mod trace;
mod world;
