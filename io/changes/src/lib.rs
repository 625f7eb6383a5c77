//! How do gateways hear at once what leaders have committed?
//!
//! A leader keeps the last changes in a bounded [`Ring`], and each gateway follows it by a stream from its
//! own position. What is told is where to look, and never what is there: storage is the only place where
//! facts are read. So losing a message loses time. A leader never waits for a gateway: one that falls behind
//! the ring is told of a gap, and looks at all that it shows.

mod publisher;
mod ring;

pub use publisher::{ChangeStream, Publisher, change_service};
pub use ring::{Position, Ring, Since};
