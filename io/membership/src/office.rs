//! A role held by a process that acts in it: stands for election for as long as it lives, and says in order when to begin and
//! when to stop. The loops of the resource manager and of the shards own one each.
//!
//! What a loop hears here may be late; [`Office::may_act`] is not. A leader that cannot tell whether it still leads is
//! deposed, and elected again when it can: its driver then begins from storage.

use crate::{Candidacy, Member, Membership, MembershipError, Role, Term};
use echelon_core_model::Epoch;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How often a deadline that passed in silence is looked for, and an unfinished publication tried again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A queue of a few words: verdicts and orders come once in a leadership.
const QUEUE: usize = 64;

/// What a loop is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leads.
    Elected {
        /// The largest epoch ever published for the role; 0 when none was.
        published: Epoch,
    },
    /// It leads no more, or cannot tell.
    Deposed,
}

enum Told {
    Elected(Term, Epoch),
    Deposed,
}

enum Order {
    Publish(Epoch),
    Renounce(Term),
    StepDown,
}

/// Only the clerk clones what is inside, and only for the time of one call.
type Seat = Arc<Mutex<Option<Arc<Candidacy>>>>;

/// A process's place in the elections of one role. Dropping it resigns in the background.
pub struct Office {
    term: Option<Term>,
    seat: Seat,
    told: mpsc::Receiver<Told>,
    orders: mpsc::Sender<Order>,
    standing: JoinHandle<()>,
}

impl Office {
    /// Stands for election from now on. After [`Office::step_down`] it waits `recess` before it stands again, so that others
    /// come first.
    #[must_use]
    pub fn stand(membership: Arc<dyn Membership>, role: Role, member: Member, recess: Duration) -> Self {
        let (tell, told) = mpsc::channel(QUEUE);
        let (orders, ordered) = mpsc::channel(QUEUE);
        let seat = Seat::default();
        let clerk = Clerk {
            membership,
            role,
            member,
            recess,
            seat: seat.clone(),
            tell,
            ordered,
            serving: None,
            unpublished: None,
        };
        Self {
            term: None,
            seat,
            told,
            orders,
            standing: tokio::spawn(clerk.work()),
        }
    }

    /// The next verdict; may be awaited in a `select!`. Never ends while the office is held.
    pub async fn verdict(&mut self) -> Verdict {
        match self.told.recv().await {
            Some(Told::Elected(term, published)) => {
                self.term = Some(term);
                Verdict::Elected { published }
            }
            Some(Told::Deposed) => {
                self.term = None;
                Verdict::Deposed
            }
            None => std::future::pending().await,
        }
    }

    /// Whether this process leads right now, in the term of its last verdict. Ask before each act; when it may not, call
    /// [`Office::renounce`] and stop.
    #[must_use]
    pub fn may_act(&self) -> bool {
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = seat.as_ref().and_then(|candidacy| candidacy.standing().leads());
        self.term.is_some() && standing == self.term
    }

    /// The caller takes itself as deposed; if it turns out to lead still, it is elected anew.
    pub fn renounce(&mut self) {
        if let Some(term) = self.term.take() {
            self.order(Order::Renounce(term));
        }
    }

    /// Publishes the epoch that was taken in storage, again and again until that is done or the leadership ends.
    pub fn publish(&self, epoch: Epoch) {
        self.order(Order::Publish(epoch));
    }

    /// Gives the leadership up and stands again after the recess.
    pub fn step_down(&mut self) {
        self.term = None;
        self.order(Order::StepDown);
    }

    /// Leaves for good; returns when another may lead.
    pub async fn resign(self) {
        let Self { orders, standing, .. } = self;
        drop(orders);
        if let Err(error) = standing.await {
            tracing::error!(%error, "the standing for election broke off");
        }
    }

    fn order(&self, order: Order) {
        if self.orders.try_send(order).is_err() {
            tracing::error!("the membership servers do not take orders; leadership will end by itself");
        }
    }
}

/// Who does the waiting.
struct Clerk {
    membership: Arc<dyn Membership>,
    role: Role,
    member: Member,
    recess: Duration,
    seat: Seat,
    tell: mpsc::Sender<Told>,
    ordered: mpsc::Receiver<Order>,
    serving: Option<Term>,
    unpublished: Option<Epoch>,
}

/// Why a candidacy is over.
#[derive(PartialEq, Eq)]
enum Over {
    SteppedDown,
    Resigned,
}

impl Clerk {
    async fn work(mut self) {
        loop {
            match self
                .membership
                .campaign(self.role.clone(), self.member.clone())
                .await
            {
                Ok(candidacy) => {
                    *self.lock() = Some(Arc::new(candidacy));
                    let over = self.stand().await;
                    (self.serving, self.unpublished) = (None, None);
                    let candidacy = self.lock().take();
                    if let Some(candidacy) = candidacy.and_then(Arc::into_inner) {
                        candidacy.resign().await;
                    }
                    if over == Over::Resigned {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(role = %self.role, %error, "cannot stand for election; trying again");
                }
            }
            if !self.rest().await {
                return;
            }
        }
    }

    /// Waits the recess; `false` when the office was given up meanwhile.
    async fn rest(&mut self) -> bool {
        let over = tokio::time::sleep(self.recess);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return true,
                order = self.ordered.recv() => if order.is_none() { return false },
            }
        }
    }

    async fn stand(&mut self) -> Over {
        loop {
            if self.look().await.is_err() {
                return Over::Resigned;
            }
            let mut changes = self.lock().as_ref().map(|candidacy| candidacy.watch());
            let changed = async {
                match &mut changes {
                    Some(changes) => {
                        changes.borrow_and_update();
                        let _ = changes.changed().await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = self.ordered.recv() => match order {
                    None => return Over::Resigned,
                    Some(Order::StepDown) => return Over::SteppedDown,
                    Some(Order::Publish(epoch)) => self.unpublished = Some(epoch),
                    Some(Order::Renounce(term)) if self.serving == Some(term) => self.serving = None,
                    Some(Order::Renounce(_)) => {}
                },
                () = changed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Compares what was told with what is; an error when nobody listens any more.
    async fn look(&mut self) -> Result<(), mpsc::error::SendError<Told>> {
        let leads = self.leads();
        if self.serving.is_some() && self.serving != leads {
            (self.serving, self.unpublished) = (None, None);
            self.tell.send(Told::Deposed).await?;
        }
        if let (None, Some(term)) = (self.serving, leads) {
            match self.membership.highest_epoch(&self.role).await {
                Ok(published) if self.leads() == Some(term) => {
                    self.serving = Some(term);
                    let published = published.unwrap_or_default();
                    self.tell.send(Told::Elected(term, published)).await?;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(role = %self.role, %error, "elected, but cannot read the highest epoch");
                }
            }
        }
        if self.serving.is_some() {
            self.try_to_publish().await?;
        }
        Ok(())
    }

    async fn try_to_publish(&mut self) -> Result<(), mpsc::error::SendError<Told>> {
        let Some(epoch) = self.unpublished else {
            return Ok(());
        };
        let Some(candidacy) = self.lock().clone() else {
            return Ok(());
        };
        match candidacy.publish(epoch).await {
            Ok(()) => self.unpublished = None,
            Err(error @ MembershipError::Unreachable { .. }) => {
                tracing::warn!(role = %self.role, %epoch, %error, "cannot publish the epoch; trying again");
            }
            Err(error) => {
                tracing::error!(role = %self.role, %epoch, %error, "the epoch was refused; beginning anew");
                (self.serving, self.unpublished) = (None, None);
                self.tell.send(Told::Deposed).await?;
            }
        }
        Ok(())
    }

    fn leads(&self) -> Option<Term> {
        self.lock()
            .as_ref()
            .and_then(|candidacy| candidacy.standing().leads())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Candidacy>>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
