//! A role held by a process that acts in it: stands for election for as long as it lives, and says in order when to begin and
//! when to stop. The loops of the resource manager and of the shards own one each.
//!
//! What a loop hears here may be late; [`Office::may_act`] is not. A leader that cannot tell whether it still leads is
//! suspended: it acts no more and forgets nothing. It is resumed in the same term, or deposed.

use crate::handover::{Handover, PATIENCE};
use crate::{Candidacy, CandidateRecord, Member, Membership, MembershipError, Role, Standing, Term};
use echelon_core_model::Epoch;
use echelon_core_model::store::Stamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How often a deadline that passed in silence is looked for, and an unfinished publication tried again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often the contact is judged, and able candidates are looked for.
const JUDGE_EVERY: Duration = Duration::from_secs(2);

/// A queue of a few words: verdicts and orders come once in a leadership.
const QUEUE: usize = 64;

/// What a loop is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It leads.
    Elected {
        /// The largest epoch ever published for the role, and the newest write of it that was told to be durable; 0 when
        /// none was.
        published: Stamp,
    },
    /// It cannot tell whether it still leads. Comes once or more; `Resumed` or `Deposed` follows.
    Suspended,
    /// It leads on, in the same term.
    Resumed,
    /// It leads no more.
    Deposed,
}

enum Told {
    Elected(Term, Stamp),
    Suspended,
    Resumed,
    Deposed,
}

enum Order {
    Publish(Epoch),
    Mark(Stamp),
    Doubt(Term),
    /// The last contact with what the role needs; none yet.
    Contact(Option<Instant>),
    StepDown,
}

/// Contact with what a role needs.
#[derive(Debug, Clone, Copy)]
enum Contact {
    /// The role needs nothing: it never gives way.
    NotNeeded,
    Needed {
        last: Option<Instant>,
    },
}

/// The leadership that was told of.
#[derive(Debug, Clone, Copy)]
struct Served {
    term: Term,
    /// The loop was told, or has told us, that it may not act.
    suspended: bool,
}

/// Only the clerk clones what is inside, and only for the time of one call.
type Seat = Arc<Mutex<Option<Arc<Candidacy>>>>;

/// A process's place in the elections of one role. Dropping it resigns in the background.
pub struct Office {
    served: Option<Served>,
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
            unmarked: None,
            contact: Contact::NotNeeded,
            judged_at: None,
            told_able: None,
            handover: Handover::default(),
        };
        Self {
            served: None,
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
                self.served = Some(Served {
                    term,
                    suspended: false,
                });
                Verdict::Elected { published }
            }
            Some(Told::Suspended) => {
                self.suspend(true);
                Verdict::Suspended
            }
            Some(Told::Resumed) => {
                self.suspend(false);
                Verdict::Resumed
            }
            Some(Told::Deposed) => {
                self.served = None;
                Verdict::Deposed
            }
            None => std::future::pending().await,
        }
    }

    const fn suspend(&mut self, suspended: bool) {
        if let Some(served) = &mut self.served {
            served.suspended = suspended;
        }
    }

    /// Whether this process leads right now, in the term of its last verdict. Ask before each act; when it may not, call
    /// [`Office::doubt`] and stop.
    #[must_use]
    pub fn may_act(&self) -> bool {
        let Some(served) = self.served.filter(|served| !served.suspended) else {
            return false;
        };
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = seat.as_ref().and_then(|candidacy| candidacy.standing().leads());
        standing == Some(served.term)
    }

    /// The caller takes itself as suspended; `Resumed` or `Deposed` follows.
    pub fn doubt(&mut self) {
        self.suspend(true);
        if let Some(served) = self.served {
            self.order(Order::Doubt(served.term));
        }
    }

    /// The role needs contact with something. A leader without it gives way to a candidate that has it.
    pub fn need_contact(&self) {
        self.order(Order::Contact(None));
    }

    /// The process has contact with what its role needs, now. Repeat it.
    pub fn has_contact(&self) {
        self.order(Order::Contact(Some(Instant::now())));
    }

    /// Publishes the epoch that was taken in storage, again and again until that is done or the leadership ends.
    pub fn publish(&self, epoch: Epoch) {
        self.order(Order::Publish(epoch));
    }

    /// Tells the newest write that is durable in storage. Only the newest is told, and it may be lost.
    pub fn mark(&self, stamp: Stamp) {
        self.order(Order::Mark(stamp));
    }

    /// Gives the leadership up and stands again after the recess.
    pub fn step_down(&mut self) {
        self.served = None;
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
    serving: Option<Served>,
    unpublished: Option<Epoch>,
    unmarked: Option<Stamp>,
    contact: Contact,
    /// When it was last judged.
    judged_at: Option<Instant>,
    /// What others were told last; nothing yet of this candidacy.
    told_able: Option<bool>,
    handover: Handover,
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
                    self.told_able = None;
                    let over = self.stand().await;
                    self.forget_term();
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

    fn forget_term(&mut self) {
        (self.serving, self.unpublished, self.unmarked) = (None, None, None);
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
            match self.keep_able().await {
                Ok(false) => {}
                Ok(true) => return Over::SteppedDown,
                Err(_) => return Over::Resigned,
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
                    Some(Order::Mark(stamp)) => self.unmarked = Some(stamp),
                    Some(Order::Contact(last)) => self.contact = Contact::Needed { last },
                    Some(Order::Doubt(term)) => {
                        if let Some(served) = self.serving.as_mut().filter(|served| served.term == term) {
                            served.suspended = true;
                        }
                    }
                },
                () = changed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Tells others of the contact. A leader that had none for long looks for one that has; true when it gave way.
    async fn keep_able(&mut self) -> Result<bool, mpsc::error::SendError<Told>> {
        let Contact::Needed { last } = self.contact else {
            return Ok(false);
        };
        let now = Instant::now();
        if self.judged_at.is_some_and(|at| now < at + JUDGE_EVERY) {
            return Ok(false);
        }
        self.judged_at = Some(now);
        let age = last.map(|last| now - last);
        let able = age.is_some_and(|age| age < PATIENCE);
        if self.told_able != Some(able) {
            self.describe(able, age).await;
        }
        let leads = self.serving.is_some_and(|served| !served.suspended);
        if !self.handover.is_due(leads, able, now) || !self.is_other_able().await {
            return Ok(false);
        }
        tracing::warn!(role = %self.role, "gives way to a candidate that has the contact that this one lacks");
        self.handover.gave_way(now);
        self.forget_term();
        self.tell.send(Told::Deposed).await?;
        Ok(true)
    }

    async fn describe(&mut self, able: bool, age: Option<Duration>) {
        let Some(candidacy) = self.lock().clone() else {
            return;
        };
        let record = CandidateRecord {
            member: self.member.clone(),
            able,
            contact_age_ms: age.and_then(|age| u64::try_from(age.as_millis()).ok()),
        };
        match candidacy.describe(record).await {
            Ok(()) => self.told_able = Some(able),
            Err(error) => {
                tracing::debug!(role = %self.role, %error, "cannot tell others of the contact; trying again");
            }
        }
    }

    async fn is_other_able(&self) -> bool {
        match self.membership.candidates(&self.role).await {
            Ok(all) => all.iter().any(|c| c.able && c.member.id != self.member.id),
            Err(error) => {
                tracing::debug!(role = %self.role, %error, "cannot read the other candidates");
                false
            }
        }
    }

    /// Compares what was told with what is; an error when nobody listens any more.
    async fn look(&mut self) -> Result<(), mpsc::error::SendError<Told>> {
        self.compare().await?;
        if let (None, Some(term)) = (self.serving, self.leads()) {
            match self.membership.newest_stamp(&self.role).await {
                Ok(published) if self.leads() == Some(term) => {
                    self.serving = Some(Served {
                        term,
                        suspended: false,
                    });
                    let published = published.unwrap_or_default();
                    self.tell.send(Told::Elected(term, published)).await?;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(role = %self.role, %error, "elected, but cannot read the highest epoch");
                }
            }
        }
        if self.serving.is_some_and(|served| !served.suspended) {
            self.try_to_publish().await?;
            self.tell_mark().await;
        }
        Ok(())
    }

    /// Tells what became of the leadership that was told of.
    async fn compare(&mut self) -> Result<(), mpsc::error::SendError<Told>> {
        let Some(served) = self.serving else {
            return Ok(());
        };
        let standing = self.lock().as_ref().map(|candidacy| candidacy.standing());
        let suspended = match standing {
            Some(Standing::Leader(term)) if term == served.term => false,
            Some(Standing::Suspended(term)) if term == served.term => true,
            _ => {
                self.forget_term();
                return self.tell.send(Told::Deposed).await;
            }
        };
        if suspended == served.suspended {
            return Ok(());
        }
        self.serving = Some(Served { suspended, ..served });
        let told = if suspended { Told::Suspended } else { Told::Resumed };
        self.tell.send(told).await
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
            // The next look tells whether it is suspended or lost.
            Err(MembershipError::NotLeader { .. }) => {}
            Err(error @ MembershipError::Unreachable { .. }) => {
                tracing::warn!(role = %self.role, %epoch, %error, "cannot publish the epoch; trying again");
            }
            Err(error) => {
                tracing::error!(role = %self.role, %epoch, %error, "the epoch was refused; beginning anew");
                self.forget_term();
                self.tell.send(Told::Deposed).await?;
            }
        }
        Ok(())
    }

    /// Tells the newest durable write, once the epoch is published. One that is lost is followed by the next.
    async fn tell_mark(&mut self) {
        let candidacy = self.lock().clone();
        let (None, Some(stamp), Some(candidacy)) = (self.unpublished, self.unmarked, candidacy) else {
            return;
        };
        self.unmarked = None;
        if let Err(error) = candidacy.mark(stamp).await {
            tracing::debug!(role = %self.role, %error, "cannot tell the newest durable write; telling the next one");
        }
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
