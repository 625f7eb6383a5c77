//! Membership within one process: for `standalone`, `demo`, and tests of whatever runs on membership.
//!
//! A [`Hub`] is the world in which connections meet. Each connection is by name, and a test may cut, heal or expire it:
//! what follows is what ZooKeeper would do, with the same session timeout and the same margin.

#[cfg(test)]
mod tests;
mod world;

use crate::candidacy::Seat;
use crate::standing::StandingCell;
use crate::{
    Candidacy, CandidateRecord, LeaderRecord, Member, Membership, MembershipError, Registration, Role,
    Sighting, Term, Timeouts,
};
use async_trait::async_trait;
use echelon_core_model::store::Stamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use world::{SeatId, World};

/// The world in which in-process connections meet. Clones are the same world.
#[derive(Debug, Clone)]
pub struct Hub {
    world: Arc<Mutex<World>>,
    timeouts: Timeouts,
}

impl Hub {
    /// An empty world.
    #[must_use]
    pub fn new(timeouts: Timeouts) -> Self {
        Self {
            world: Arc::default(),
            timeouts,
        }
    }

    /// A connection; all connections of one name share one fate.
    #[must_use]
    pub fn connect(&self, name: &str) -> InProcess {
        InProcess {
            hub: self.clone(),
            name: name.to_owned(),
        }
    }

    /// Silences a connection. Its leaders are suspended at once, lose leadership when their own deadline is over, and
    /// others may lead when the session timeout is.
    pub fn cut(&self, name: &str) {
        let Some(cut) = self.world().cut(name) else { return };
        let (hub, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let lease = hub.timeouts.lease();
            tokio::time::sleep(lease).await;
            hub.world().give_up(&name, cut);
            tokio::time::sleep(hub.timeouts.session().saturating_sub(lease)).await;
            hub.world().forget(&name, cut);
        });
    }

    /// Ends a cut: within the deadline leaders lead on in their term, later they join again.
    pub fn heal(&self, name: &str) {
        self.world().heal(name);
    }

    /// Ends a connection's session as an operator might; it joins again at once.
    pub fn expire(&self, name: &str) {
        self.world().expire(name);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection to a [`Hub`].
#[derive(Debug, Clone)]
pub struct InProcess {
    hub: Hub,
    name: String,
}

impl InProcess {
    fn reach(&self, what: &str) -> Result<MutexGuard<'_, World>, MembershipError> {
        let world = self.hub.world();
        if world.is_cut(&self.name) {
            let source = format!("the connection `{}` is cut", self.name).into();
            return Err(MembershipError::Unreachable {
                what: what.to_owned(),
                source,
            });
        }
        Ok(world)
    }
}

#[async_trait]
impl Membership for InProcess {
    async fn campaign(&self, role: Role, member: Member) -> Result<Candidacy, MembershipError> {
        let standing = Arc::new(StandingCell::new());
        let record = CandidateRecord::from(member.clone());
        let id = self
            .hub
            .world()
            .join(&role, &self.name, (standing.clone(), record));
        let seat = Held {
            hub: self.hub.clone(),
            role: role.clone(),
            id,
        };
        Ok(Candidacy::new(role, member, standing, Box::new(seat)))
    }

    async fn register(&self, role: Role, member: Member) -> Result<Registration, MembershipError> {
        let id = self.hub.world().register(&role, &self.name, member);
        Ok(Registration::new(Held {
            hub: self.hub.clone(),
            role,
            id,
        }))
    }

    async fn members(&self, role: &Role) -> Result<Vec<Member>, MembershipError> {
        Ok(self.reach("list members")?.members(role))
    }

    async fn candidates(&self, role: &Role) -> Result<Vec<CandidateRecord>, MembershipError> {
        Ok(self.reach("list candidates")?.candidates(role))
    }

    async fn leader(&self, role: &Role) -> Result<Option<LeaderRecord>, MembershipError> {
        Ok(self
            .reach("read the leader")?
            .sightings(role)
            .borrow()
            .record()
            .cloned())
    }

    fn watch(&self, role: &Role) -> watch::Receiver<Sighting> {
        self.hub.world().sightings(role).subscribe()
    }

    async fn newest_stamp(&self, role: &Role) -> Result<Option<Stamp>, MembershipError> {
        Ok(self.reach("read the highest epoch")?.newest_stamp(role))
    }

    async fn granted_session(&self) -> Result<Duration, MembershipError> {
        drop(self.reach("ask for the session")?);
        Ok(self.hub.timeouts.session())
    }
}

/// A place in the world that goes when its holder does.
struct Held {
    hub: Hub,
    role: Role,
    id: SeatId,
}

#[async_trait]
impl Seat for Held {
    async fn publish(&self, term: Term, record: LeaderRecord) -> Result<(), MembershipError> {
        self.hub.world().publish(&self.role, self.id, term, record)
    }

    async fn mark(&self, term: Term, stamp: Stamp) -> Result<(), MembershipError> {
        self.hub.world().mark(&self.role, self.id, (term, stamp))
    }

    async fn describe(&self, record: CandidateRecord) -> Result<(), MembershipError> {
        self.hub.world().describe(&self.role, self.id, record);
        Ok(())
    }

    async fn leave(self: Box<Self>) {}
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hub.world().leave(&self.role, self.id);
    }
}
