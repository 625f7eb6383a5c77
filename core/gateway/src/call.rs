//! Steps through a method by hand: for tests and the simulation, which deliver each result when they like, in any order
//! among several calls, and crash a gateway by dropping its calls.

use crate::port::Facts;
use crate::sightings::Sightings;
use echelon_core_model::cluster::{ClusterState, Heartbeat};
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::Progress;
use echelon_core_model::store::{Op, OpResult};
use echelon_core_model::{JobId, Span};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// What a call does next.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
pub enum Next<T> {
    /// Perform this and give the result to [`Call::on`].
    Do(Op),
    /// Ask the resource manager for this and give its answer to [`Call::on_check`].
    Check(WantedInstances),
    /// Call [`Call::on_pause`] after this long.
    Wait(Span),
    /// It is done.
    Done(T),
}

enum Slot {
    Idle,
    Asked(Op),
    Checking(WantedInstances),
    Pausing(Span),
    Answered(OpResult),
    Checked(CheckAnswer),
    Paused,
}

/// What the resource manager says of instances that a job is to have; `None`: it did not answer.
pub type CheckAnswer = Option<Result<(), ExceededLimit>>;

/// The port that a stepped method is given.
#[derive(Clone)]
pub struct Stepped(Rc<RefCell<Slot>>);

impl Facts for Stepped {
    async fn perform(&self, op: Op) -> OpResult {
        *self.0.borrow_mut() = Slot::Asked(op);
        poll_fn(|_| {
            let mut slot = self.0.borrow_mut();
            match std::mem::replace(&mut *slot, Slot::Idle) {
                Slot::Answered(result) => Poll::Ready(result),
                other => {
                    *slot = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// A stepped method has a resource manager that has seen no job.
    async fn unstored(&self, _: Vec<JobId>) -> Option<Vec<Progress>> {
        Some(Vec::new())
    }

    async fn check_instances(&self, wanted: WantedInstances) -> CheckAnswer {
        *self.0.borrow_mut() = Slot::Checking(wanted);
        poll_fn(|_| {
            let mut slot = self.0.borrow_mut();
            match std::mem::replace(&mut *slot, Slot::Idle) {
                Slot::Checked(answer) => Poll::Ready(answer),
                other => {
                    *slot = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// A stepped method remembers no other, so rows are as old as they say.
    fn sighted(&self, _: &[ClusterState], _: &[Heartbeat]) -> Sightings {
        Sightings::default()
    }

    async fn pause(&self, span: Span) {
        *self.0.borrow_mut() = Slot::Pausing(span);
        poll_fn(|_| {
            let mut slot = self.0.borrow_mut();
            if matches!(*slot, Slot::Paused) {
                *slot = Slot::Idle;
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// A method under way.
pub struct Call<T> {
    slot: Rc<RefCell<Slot>>,
    method: Pin<Box<dyn Future<Output = T>>>,
}

impl<T> Call<T> {
    /// Starts a method: `Call::start(|facts| async move { create(&facts, ...).await })`.
    pub fn start<M: Future<Output = T> + 'static>(method: impl FnOnce(Stepped) -> M) -> (Self, Next<T>) {
        let slot = Rc::new(RefCell::new(Slot::Idle));
        let method = Box::pin(method(Stepped(Rc::clone(&slot))));
        let mut call = Self { slot, method };
        let next = call.poll();
        (call, next)
    }

    /// The result of what it asked for.
    pub fn on(&mut self, result: OpResult) -> Next<T> {
        *self.slot.borrow_mut() = Slot::Answered(result);
        self.poll()
    }

    /// What the resource manager answers.
    pub fn on_check(&mut self, answer: CheckAnswer) -> Next<T> {
        *self.slot.borrow_mut() = Slot::Checked(answer);
        self.poll()
    }

    /// Its pause is over.
    pub fn on_pause(&mut self) -> Next<T> {
        *self.slot.borrow_mut() = Slot::Paused;
        self.poll()
    }

    fn poll(&mut self) -> Next<T> {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = self.method.as_mut().poll(&mut context) {
            return Next::Done(answer);
        }
        let asked = std::mem::replace(&mut *self.slot.borrow_mut(), Slot::Idle);
        match asked {
            Slot::Asked(op) => Next::Do(op),
            Slot::Checking(wanted) => Next::Check(wanted),
            Slot::Pausing(span) => Next::Wait(span),
            // A method waits for nothing but its port; whoever repeats an event gets a pause that it may repeat.
            Slot::Idle | Slot::Answered(_) | Slot::Checked(_) | Slot::Paused => Next::Wait(Span::ZERO),
        }
    }
}
