//! The handles that a process holds: its candidacy for a role, and its registration in one.

use crate::standing::StandingCell;
use crate::{CandidateRecord, LeaderRecord, Member, MembershipError, Role, Standing, Term};
use async_trait::async_trait;
use echelon_core_model::Epoch;
use echelon_core_model::store::Stamp;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A backend's side of a candidacy. Dropping it leaves the election in the background.
#[async_trait]
pub(crate) trait Seat: Send + Sync {
    async fn publish(&self, term: Term, record: LeaderRecord) -> Result<(), MembershipError>;
    /// Notes a write that is durable, where its epoch is the one that this term has published.
    async fn mark(&self, term: Term, stamp: Stamp) -> Result<(), MembershipError>;
    /// Changes what others read of the candidate, now and after it joins again.
    async fn describe(&self, record: CandidateRecord) -> Result<(), MembershipError>;
    /// Leaves the election; returns when another may lead, or when waiting longer has no use.
    async fn leave(self: Box<Self>);
}

/// A process that stands for election in a role. Dropping it resigns in the background.
pub struct Candidacy {
    role: Role,
    member: Member,
    standing: Arc<StandingCell>,
    seat: Box<dyn Seat>,
}

impl Candidacy {
    pub(crate) fn new(role: Role, member: Member, standing: Arc<StandingCell>, seat: Box<dyn Seat>) -> Self {
        Self {
            role,
            member,
            standing,
            seat,
        }
    }

    /// The role stood for.
    #[must_use]
    pub const fn role(&self) -> &Role {
        &self.role
    }

    /// Who stands.
    #[must_use]
    pub const fn member(&self) -> &Member {
        &self.member
    }

    /// The standing as of now, deadline included. Ask before each act of a leader: it costs two short locks.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.standing.now()
    }

    /// Wakes on every change of the standing. What is seen may be older than what happened since: see [`Term`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Publishes this member's address and the epoch that it took in storage. Compare the stored epoch with
    /// [`crate::Membership::highest_epoch`] before taking one. May be repeated with the same epoch.
    ///
    /// # Errors
    /// [`MembershipError::NotLeader`]; [`MembershipError::EpochBehind`] when the epoch was published before by another
    /// leadership; [`MembershipError::Unreachable`] when the outcome is unknown: repeat while still leading.
    pub async fn publish(&self, epoch: Epoch) -> Result<(), MembershipError> {
        let Some(term) = self.standing().leads() else {
            return Err(MembershipError::NotLeader {
                role: self.role.clone(),
            });
        };
        self.seat
            .publish(
                term,
                LeaderRecord {
                    address: self.member.address.clone(),
                    epoch,
                },
            )
            .await
    }

    /// Notes that a write of the published epoch is durable in storage. It may be lost: an older one stays then.
    ///
    /// # Errors
    /// [`MembershipError::NotLeader`], also when its epoch is not the one that was published in this term;
    /// [`MembershipError::Unreachable`] when the outcome is unknown.
    pub async fn mark(&self, stamp: Stamp) -> Result<(), MembershipError> {
        match self.standing().leads() {
            Some(term) => self.seat.mark(term, stamp).await,
            None => Err(MembershipError::NotLeader {
                role: self.role.clone(),
            }),
        }
    }

    /// Tells the others whether this candidate is able.
    ///
    /// # Errors
    /// [`MembershipError::Unreachable`] when the outcome is unknown: repeat.
    pub async fn describe(&self, record: CandidateRecord) -> Result<(), MembershipError> {
        self.seat.describe(record).await
    }

    /// Ends the candidacy. The caller has stopped acting before; another candidate may lead when this returns.
    pub async fn resign(self) {
        self.seat.leave().await;
    }
}

impl fmt::Debug for Candidacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidacy")
            .field("role", &self.role)
            .field("member", &self.member)
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}

/// A registered member. Dropping it takes the member off the list in the background.
pub struct Registration {
    _held: Box<dyn Any + Send + Sync>,
}

impl Registration {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registration")
    }
}
