//! Masters found by ZooKeeper, as they find each other (R14 to R16): the group's node is followed, the candidate with the
//! lowest sequence number leads.
//!
//! `candidate` reads what masters wrote, `session` speaks with the servers, `follow` keeps a session and tells what it sees.
//! Echelon's own ZooKeeper is another one and belongs to `io/membership`.

mod candidate;
mod follow;
mod session;
#[cfg(test)]
mod tests;
mod url;

use crate::leaders::Sighting;
use tokio::sync::watch;

pub use url::Url;

/// Follows the leading master until nobody listens. `seed` is that of the waits between sessions.
pub fn follow(url: &Url, seed: u64) -> watch::Receiver<Sighting> {
    follow::begin(Box::new(session::Servers::new(url)), seed)
}
