//! The shard's driver: what the leader of one cluster does next. Events in, effects out, in an order that is safe: intent
//! before ACCEPT, effect before ACKNOWLEDGE, stored wish before KILL, released before told.
//!
//! No I/O, no clock, no randomness. It chooses no host (placement) and knows no job rule (jobs); its callers are the shell
//! in `shard/` and the simulation in `sim/world`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod adopt;
mod agents;
mod alarms;
mod archive;
mod aside_stop;
mod check;
mod claims;
mod commit;
mod config;
mod contact;
mod control;
mod crashes;
mod credit;
mod daemons;
mod directive;
mod drain;
mod driver;
mod drivers;
mod effects;
mod elsewhere;
mod event;
mod fits;
mod forget;
mod former;
mod found;
mod gangs;
mod given;
mod given_up;
mod gone;
mod group;
mod held;
mod host_moves;
mod instances;
mod intend;
mod journal;
mod keep;
mod keep_read;
mod keep_store;
mod kill;
mod launch;
mod leadership;
mod left;
mod left_behind;
mod loss;
mod neighbours;
mod openers;
mod ops;
mod overdue;
mod own_unread;
mod pace;
mod peers;
mod picture;
mod place;
mod purpose;
mod random;
mod reconcile;
mod recover;
mod refused;
mod release;
mod replace;
mod report;
mod reread;
mod restart;
mod rollout;
mod runs;
mod sealing;
mod sets;
mod signs;
mod specs;
mod start_lease;
mod starts;
mod stranger;
mod takeover;
mod teardown;
mod tenure;
mod unread;
mod update;
mod victims;
mod view;
mod volumes;
mod waiting;
mod waiting_times;
mod wanted;
mod wishes;

pub use check::{Broken, check, check_sets};
pub use config::{Config, LogLimits, LossLimit, Rates, Timing};
pub use driver::{Mode, Shard};
pub use event::{Alarm, AskedTails, CallCredit, Effect, Event, LinkId, ProbeAnswer};
pub use keep::LogStats;
pub use pace::Action;
pub use runs::{RunPage, Whereabouts};

pub(crate) use driver::Phase;
