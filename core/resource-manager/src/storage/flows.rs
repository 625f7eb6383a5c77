//! Flows of several storage steps, as `async fn`s. A flow asks for one operation of storage, or one answer of
//! the core, at a time, and waits for nothing else. The core steps it when the answer is there. It reads no
//! clock and shares no state, so the same answers lead to the same end.

use crate::effect::Effect;
use crate::lifecycle::head_change::HeadChange;
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use echelon_core_model::job::Head;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Op, OpResult, Query};
use echelon_core_model::{JobId, Timestamp, Version};
use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::{Context, Poll, Waker};

/// What flows do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowKind {
    /// Changes the head of a job.
    HeadChange,
    /// Makes the next job of a template.
    Creation,
}

/// A flow. A job, or template, has one of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// What it does.
    pub kind: FlowKind,
    /// For which job, or template.
    pub job: JobId,
}

/// What a flow needs of the core.
#[derive(Debug)]
pub(crate) enum FlowQuestion {
    /// Whether a job needs its name no more.
    IsOver(JobId),
    /// What is to be written into a head, which was read at SERIAL; `None`: there is none.
    HeadChange(JobId, Option<Box<Head>>),
}

/// The core's answer.
#[derive(Debug)]
pub(crate) enum FlowAnswer {
    IsOver(bool),
    HeadChange(Option<Box<HeadChange>>),
}

/// How a flow has ended.
#[derive(Debug)]
pub(crate) enum FlowEnd {
    /// This is the job's head now, whoever wrote it.
    Head(Box<Head>),
    /// Another write came first, and what it left is not known.
    Unknown,
    /// There is nothing to be done.
    Nothing,
    /// It could not be done now.
    GivenUp,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
enum FlowStep {
    Do(Op),
    Question(FlowQuestion),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
enum FlowInput {
    Stored(OpResult),
    Answer(FlowAnswer),
}

/// What a flow may do. It holds one end of two channels, and the core the other.
pub(crate) struct FlowPort {
    asks: Sender<FlowStep>,
    answers: Receiver<FlowInput>,
}

impl FlowPort {
    /// `None`: the core is not there any more.
    async fn ask(&mut self, step: FlowStep) -> Option<FlowInput> {
        self.asks.send(step).ok()?;
        let answers = &mut self.answers;
        poll_fn(move |_| match answers.try_recv() {
            Ok(input) => Poll::Ready(Some(input)),
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
        })
        .await
    }

    async fn read(&mut self, query: Query, consistency: Consistency) -> Option<Answer> {
        match self.ask(FlowStep::Do(Op::Read(query, consistency))).await {
            Some(FlowInput::Stored(OpResult::Answer(answer))) => Some(answer),
            _ => None,
        }
    }

    /// A spec version; `None`: there is none.
    pub(crate) async fn spec(&mut self, job: JobId, version: u32) -> Option<JobSpec> {
        match self.read(Query::Spec(job, version), Consistency::Quorum).await? {
            Answer::Spec(spec) => spec,
            _ => None,
        }
    }

    /// A head at SERIAL. The outer `None`: storage has not said.
    pub(crate) async fn head(&mut self, job: JobId) -> Option<Option<Head>> {
        match self.read(Query::Head(job), Consistency::Serial).await? {
            Answer::Head(head) => Some(head),
            _ => None,
        }
    }

    /// A conditional write. `None`: storage has not said.
    pub(crate) async fn decide(&mut self, decision: Decision) -> Option<Decided> {
        match self.ask(FlowStep::Do(Op::Decide(decision))).await {
            Some(FlowInput::Stored(OpResult::Decided(decided))) => Some(decided),
            _ => None,
        }
    }

    /// Writes a head after the one of a version, or the first one.
    pub(crate) async fn put_head(&mut self, head: Head, expected: Option<Version>) -> FlowEnd {
        let put = Decision::PutHead {
            head: head.clone(),
            expected,
        };
        match self.decide(put).await {
            None => FlowEnd::GivenUp,
            Some(Decided::Applied) => FlowEnd::Head(Box::new(head)),
            Some(Decided::Conflict(there)) => match *there {
                Answer::Head(Some(head)) => FlowEnd::Head(Box::new(head)),
                _ => FlowEnd::Unknown,
            },
        }
    }

    /// Whether a job needs its name no more, as far as the core knows.
    pub(crate) async fn is_over(&mut self, job: JobId) -> bool {
        let question = FlowStep::Question(FlowQuestion::IsOver(job));
        matches!(
            self.ask(question).await,
            Some(FlowInput::Answer(FlowAnswer::IsOver(true)))
        )
    }

    /// What is to be written into a head.
    pub(crate) async fn head_change(&mut self, job: JobId, head: Option<Head>) -> Option<Box<HeadChange>> {
        let question = FlowQuestion::HeadChange(job, head.map(Box::new));
        match self.ask(FlowStep::Question(question)).await {
            Some(FlowInput::Answer(FlowAnswer::HeadChange(change))) => change,
            _ => None,
        }
    }
}

/// What a flow does next.
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
enum FlowNext {
    Step(FlowStep),
    End(FlowEnd),
}

/// A flow under way.
pub(crate) struct Flow {
    asked: Receiver<FlowStep>,
    answer: Sender<FlowInput>,
    steps: Pin<Box<dyn Future<Output = FlowEnd> + Send>>,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").finish_non_exhaustive()
    }
}

impl Flow {
    /// A flow that has not begun.
    pub(crate) fn new<F: Future<Output = FlowEnd> + Send + 'static>(
        steps: impl FnOnce(FlowPort) -> F,
    ) -> Self {
        let ((asks, asked), (answer, answers)) = (channel(), channel());
        Self {
            steps: Box::pin(steps(FlowPort { asks, answers })),
            asked,
            answer,
        }
    }

    fn step(&mut self, input: Option<FlowInput>) -> FlowNext {
        // A flow that is over takes no answer.
        let is_over = input.is_some_and(|input| self.answer.send(input).is_err());
        if is_over {
            return FlowNext::End(FlowEnd::GivenUp);
        }
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(end) = self.steps.as_mut().poll(&mut context) {
            return FlowNext::End(end);
        }
        // A flow waits for nothing but its port.
        let step = self.asked.try_recv().map(FlowNext::Step);
        step.unwrap_or(FlowNext::End(FlowEnd::GivenUp))
    }
}

/// The flows under way.
#[derive(Debug, Default)]
pub(crate) struct Flows(BTreeMap<FlowKey, Flow>);

impl Flows {
    pub(crate) fn has(&self, kind: FlowKind, job: JobId) -> bool {
        self.0.contains_key(&FlowKey { kind, job })
    }

    /// How many of a kind are under way.
    pub(crate) fn of_kind(&self, kind: FlowKind) -> usize {
        self.0.keys().filter(|key| key.kind == kind).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl ResourceManager {
    pub(crate) fn start_flow(&mut self, key: FlowKey, flow: Flow, now: Timestamp, out: &mut Vec<Effect>) {
        self.step_flow(key, flow, None, now, out);
    }

    /// Storage has answered a flow.
    pub(crate) fn flow_stored(
        &mut self,
        key: FlowKey,
        result: OpResult,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        if let Some(flow) = self.flows.0.remove(&key) {
            self.step_flow(key, flow, Some(FlowInput::Stored(result)), now, out);
        }
    }

    /// Storage never takes what a flow asks for.
    pub(crate) fn drop_flow(&mut self, key: FlowKey, now: Timestamp) {
        if self.flows.0.remove(&key).is_some() {
            self.look_later(key.job, now);
        }
    }

    /// Steps a flow until it waits for storage, or ends.
    fn step_flow(
        &mut self,
        key: FlowKey,
        mut flow: Flow,
        mut input: Option<FlowInput>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        loop {
            match flow.step(input.take()) {
                FlowNext::Step(FlowStep::Do(op)) => {
                    self.flows.0.insert(key, flow);
                    self.ops.start(Purpose::Flow(key), op, now, out);
                    return;
                }
                FlowNext::Step(FlowStep::Question(question)) => {
                    let answer = match question {
                        FlowQuestion::IsOver(job) => FlowAnswer::IsOver(self.is_over(job)),
                        FlowQuestion::HeadChange(job, head) => {
                            let change = self.head_change_now(job, head, now, out);
                            FlowAnswer::HeadChange(change.map(Box::new))
                        }
                    };
                    input = Some(FlowInput::Answer(answer));
                }
                FlowNext::End(end) => {
                    self.flow_ended(key, end, now, out);
                    return;
                }
            }
        }
    }

    fn flow_ended(&mut self, key: FlowKey, end: FlowEnd, now: Timestamp, out: &mut Vec<Effect>) {
        if let FlowEnd::GivenUp = end {
            self.look_later(key.job, now);
            return;
        }
        self.dirty.insert(key.job);
        self.due |= !matches!(end, FlowEnd::Nothing);
        match end {
            FlowEnd::Head(head) => self.head_read(*head, now, out),
            FlowEnd::Unknown if key.kind == FlowKind::HeadChange => self.settle_head(key.job, now, out),
            FlowEnd::Unknown | FlowEnd::Nothing | FlowEnd::GivenUp => {}
        }
    }
}
