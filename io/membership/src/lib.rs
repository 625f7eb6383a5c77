//! Who leads, and where to find them: leader election, discovery of leaders and members, loss of connection and session.
//!
//! Leadership here is advice that arrives early; safety comes from the epoch, which a leader takes in storage and only
//! publishes here. Nothing here knows storage or what a role does; the shells call it. Backends: in-process, ZooKeeper.

#[cfg(any(test, feature = "contract"))]
pub mod contract;

mod candidacy;
mod error;
mod handover;
pub mod in_process;
mod office;
mod role;
mod standing;
mod timeouts;
pub mod zookeeper;

pub use candidacy::{Candidacy, Registration};
pub use error::MembershipError;
pub use office::{Office, Verdict};
pub use role::{CandidateRecord, LeaderRecord, Member, Role, Sighting};
pub use standing::{Standing, Term};
pub use timeouts::{TimeoutError, Timeouts};

use async_trait::async_trait;
use echelon_core_model::Epoch;
use echelon_core_model::store::Stamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A way to meet the other processes. One a process; its candidacies and registrations live at most as long as the
/// process does.
#[async_trait]
pub trait Membership: Send + Sync {
    /// Stands for election. The candidacy joins, and joins again after every loss, until it is resigned or dropped;
    /// that the servers cannot be reached is no error, it only takes longer.
    async fn campaign(&self, role: Role, member: Member) -> Result<Candidacy, MembershipError>;

    /// Makes a member of a role without election (a gateway) findable until the registration is dropped.
    async fn register(&self, role: Role, member: Member) -> Result<Registration, MembershipError>;

    /// The live registered members of a role, by id.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when nobody can tell: that is not the same as nobody there.
    async fn members(&self, role: &Role) -> Result<Vec<Member>, MembershipError>;

    /// The living candidates of a role, the leader among them.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when nobody can tell.
    async fn candidates(&self, role: &Role) -> Result<Vec<CandidateRecord>, MembershipError>;

    /// What the living leader of a role has published.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when nobody can tell.
    async fn leader(&self, role: &Role) -> Result<Option<LeaderRecord>, MembershipError>;

    /// Follows [`Membership::leader`] from now on. While the servers cannot be reached the last sighting stays.
    fn watch(&self, role: &Role) -> watch::Receiver<Sighting>;

    /// The largest epoch ever published for a role, by whomever, alive or dead, and the newest write that its leader told to
    /// be durable (0: none yet). Storage in which that is missing was rolled back.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when nobody can tell.
    async fn newest_stamp(&self, role: &Role) -> Result<Option<Stamp>, MembershipError>;

    /// The epoch of [`Membership::newest_stamp`].
    ///
    /// # Errors
    /// The same.
    async fn highest_epoch(&self, role: &Role) -> Result<Option<Epoch>, MembershipError> {
        Ok(self.newest_stamp(role).await?.map(|stamp| stamp.epoch))
    }

    /// Whether the servers answer.
    ///
    /// # Errors
    /// Why nothing is known, for people.
    async fn answers(&self) -> Result<(), String> {
        match self.leader(&Role::ResourceManager).await {
            Err(error) if error.is_retryable() => Err(error.to_string()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The session time-out that the servers grant; it may differ from the one that was asked for.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when nobody can tell.
    async fn granted_session(&self) -> Result<Duration, MembershipError>;
}

/// Opens a backend: `in-process:` (a world of its own, so share the answer) or `zookeeper://h1:2181,h2:2181/path`.
/// A silent holder is replaced after the session's time-out; servers may grant another than is asked for.
///
/// # Errors
/// When the URL is not one of these. Servers are contacted later, at the first call.
pub fn open(url: &str, timeouts: Timeouts) -> Result<Arc<dyn Membership>, MembershipError> {
    if url == "in-process:" {
        return Ok(Arc::new(in_process::Hub::new(timeouts).connect("local")));
    }
    Ok(Arc::new(zookeeper::ZooKeeper::new(url.parse()?, timeouts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_choose_the_backend_and_bad_ones_are_explained() {
        let t = Timeouts::default();
        for url in [
            "in-process:",
            "zookeeper://a:2181/echelon",
            "zookeeper://10.0.0.1:2181,b:2182/e/f",
        ] {
            assert!(open(url, t).is_ok(), "{url}");
        }
        let table = [
            ("", "neither"),
            ("etcd://a:1/b", "neither"),
            ("zookeeper://", "no server"),
            ("zookeeper://a:2181", "no path"),
            ("zookeeper://a:2181/", "no path"),
            ("zookeeper://a/echelon", "`a` is not HOST:PORT"),
            ("zookeeper://a:2181,/echelon", "`` is not HOST:PORT"),
            ("zookeeper://a:70000/echelon", "`a:70000` is not HOST:PORT"),
            ("zookeeper://a:1/e//f", "empty part"),
            ("zookeeper://a:1/e/../f", "`..`"),
        ];
        for (url, reason) in table {
            let error = open(url, t).err().unwrap().to_string();
            assert!(
                error.contains(reason) && error.contains("zookeeper://h1:2181"),
                "{url}: {error}"
            );
        }
    }
}
