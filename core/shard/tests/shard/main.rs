//! The shard's driver against a model of storage and a small cluster, with the order of durability checked at every effect
//! and the checker asked after every step.

#[cfg(test)]
mod adopt;
#[cfg(test)]
mod adoption;
#[cfg(test)]
mod agents;
#[cfg(test)]
mod between;
#[cfg(test)]
mod campaign;
#[cfg(test)]
mod claims;
mod cluster;
#[cfg(test)]
mod cost;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod credit;
mod daemons;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod drivers;
mod durability;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod fits;
#[cfg(test)]
mod forget;
#[cfg(test)]
mod framework;
#[cfg(test)]
mod gang_claims;
#[cfg(test)]
mod gang_tries;
#[cfg(test)]
mod gangs;
#[cfg(test)]
mod given_up;
#[cfg(test)]
mod gone;
mod grants;
#[cfg(test)]
mod host_drains;
#[cfg(test)]
mod host_moves;
#[cfg(test)]
mod kill_switch;
#[cfg(test)]
mod launching;
#[cfg(test)]
mod leadership;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod logs_stored;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod moves;
#[cfg(test)]
mod no_manager;
mod offers;
#[cfg(test)]
mod openers;
#[cfg(test)]
mod own_rows;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod platform;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod ports;
#[cfg(test)]
mod rates;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod restored;
#[cfg(test)]
mod rollouts;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod sealing;
#[cfg(test)]
mod siting;
#[cfg(test)]
mod start_lease;
#[cfg(test)]
mod starts;
#[cfg(test)]
mod teardown;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod volumes;
#[cfg(test)]
mod wakes;
#[cfg(test)]
mod wishes;
#[cfg(test)]
mod world;
