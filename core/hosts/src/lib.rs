//! The host manager's room: what a cluster offers, holds, launches and loses.
//!
//! `Event` and `Call` are all that a kind of cluster must speak; nothing above this room knows Mesos. The room does not
//! choose hosts (placement does) and does not know jobs. Its caller is `core/shard`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

mod agents;
mod appetite;
pub mod call;
mod capacity;
pub mod config;
mod drains;
pub mod event;
mod flags;
pub mod hosts;
mod ledger;
mod maintenance;
pub mod manners;
pub mod meaning;
mod observe;
mod pools;
mod record;
mod reserved;
mod sharing;
mod stock;
mod taken;
pub mod tally;
#[cfg(test)]
mod tests;
mod views;
mod volumes;
mod weight;

pub use agents::Agent;
pub use call::{Call, Launch, TaskVolume};
pub use config::Config;
pub use event::{
    Event, InverseOffer, Offer, OfferId, OfferedVolume, OperationStatus, Refusal, Reserved, TaskState,
    TaskStatus, VOLUME_LABEL,
};
pub use hosts::{Changes, Hosts};
pub use ledger::{Most, Need, TaskPage};
pub use maintenance::Drain;
pub use manners::Demand;
pub use meaning::reason_of;
pub use reserved::{Reservation, Reservations, ReservedRoom};
pub use sharing::{ListedSharing, QuotaUse};
pub use stock::Arrival;
pub use taken::was_launched_before;
pub use tally::Tally;
pub use views::ViewChanges;
pub use weight::most_of_launch;
