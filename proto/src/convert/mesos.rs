//! Mesos' wire in the words of `core/hosts` and back. Pure, so that the client in `io/mesos` and the simulation speak the
//! same dialect. What we do not know is skipped, never an error (events and fields may be added by a newer master).

mod agents;
mod amount;
mod call;
mod container;
mod event;
mod flags;
mod framework;
mod group;
mod parts;
mod probe;
mod reserve;
mod status;
mod task;

pub use agents::{Beside, agents_from_wire};
pub use amount::{from_resources, to_resources};
pub use call::call_to_wire;
pub use event::event_from_wire;
pub use flags::agent_times;
pub use framework::Framework;
pub use status::{reason_word, status_from_wire};

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod tests;
