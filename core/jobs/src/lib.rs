//! The job manager's room: what should become of an instance next, and what a cluster's word about a task means for it.
//! Pure functions over one instance's record; the driver (`core/shard`) holds the records, stores them and acts.
//!
//! The room chooses no host, knows no offer and counts no quota.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod begin;
pub mod evidence;
pub mod hear;
pub mod next;
pub mod older;
mod pod;
pub mod rollout;
pub mod settle;
pub mod standing;
pub mod stop;
pub mod takeover;
pub mod tally;

pub use begin::{Listed, Start, VolumeStart, adopt, begin, next_number};
pub use evidence::{Known, Verdict, judge};
pub use hear::{Heard, News, Told, Whom, hear};
pub use next::{Next, Wanted, next};
pub use older::{OlderFate, give_up, give_up_stopping, leave_host, may_leave_host, settle_older};
pub use rollout::{Course, NextVersion};
pub use settle::{MOST_PLATFORM_BACKOFF, Policy, awaits_another_host, forgive, forgiven_at, settle};
pub use standing::{Standing, is_given_back, standing};
pub use stop::{give_back, stop_older, stop_run};
pub use takeover::{Takeover, take_over};
pub use tally::{Tally, is_being_preempted};
