//! The job manager's loop: one `select!` over what may happen, one `match` over what is to be done. It never waits for
//! anything but the next event, so a turn takes as long as the driver's step.

use crate::host_manager::{HostManager, IsAwaited};
use crate::links::{Links, WayBack};
use crate::log::Logs;
use crate::measure::Measures;
use crate::placement_engine::PlacementEngine;
use crate::probing;
use crate::register;
use crate::serve::Parts;
use crate::tails;
use echelon_core_hosts as hosts;
use echelon_core_model::change::JobChanges;
use echelon_core_model::directive::Directive;
use echelon_core_model::log::Tails;
use echelon_core_model::store::{Op, OpId, OpResult};
use echelon_core_model::{ClusterId, TaskId, Timestamp};
use echelon_core_placement::Answer;
use echelon_core_shard::{Effect, Event, LinkId, Mode, RunPage, Shard, Whereabouts};
use echelon_io_changes::Publisher;
use echelon_io_membership::{Office, Role, Sighting, Verdict};
use echelon_io_process::health::Condition;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

/// Inputs that may wait; who sends waits then.
pub(crate) const QUEUE: usize = 4096;

/// Inputs taken in at once: a turn stays within a few milliseconds.
const BATCH: usize = 64;

/// So many questions in a row without an answer show that the master hangs.
const HUNG: u32 = 2;

/// A loop without a timer looks around this often.
const IDLE: Duration = Duration::from_secs(60);

/// What reaches the loop from tasks.
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
pub(crate) enum Input {
    /// An operation on storage has a result.
    Storage(OpId, OpResult),
    /// Placement has chosen hosts.
    Placed(Answer),
    /// The logs of a run were read, as far as they could be.
    Tails(TaskId, Vec<Tails>),
    /// A resource manager opened its stream; reports go there.
    LinkOpened(LinkId, WayBack),
    /// What came over a stream cannot be understood; it has ended.
    Unreadable(LinkId, Status),
    /// A directive came.
    Directive(LinkId, Directive),
    /// A stream has ended.
    LinkClosed(LinkId),
    /// A gateway can be reached there.
    Gateway(String),
    /// A gateway asks which runs are somewhere.
    Runs(RunsQuestion),
}

/// Which runs are asked for, and where the answer goes; `None`: this process does not know.
pub(crate) struct RunsQuestion {
    pub asked: Whereabouts,
    pub from: Option<TaskId>,
    pub most: usize,
    pub answer: oneshot::Sender<Option<RunPage>>,
}

/// The loop's state: the driver, and handles of what it may ask for.
pub(crate) struct JobManager {
    driver: Shard,
    hosts: HostManager,
    engine: PlacementEngine,
    measures: Measures,
    logs: Logs,
    inbox: mpsc::Sender<Input>,
    parts: Parts,
    cluster: ClusterId,
    links: Links,
    led: Condition,
    /// That a leader drives its Mesos; a standby need not.
    mesos: Condition,
    /// What gateways are told.
    changed: Publisher,
    /// What the driver decided just before its leadership came into doubt; done when it is certain again.
    held: Vec<Effect>,
}

impl JobManager {
    pub(crate) fn new(
        (driver, measures): (Shard, Measures),
        hosts: HostManager,
        logs: Logs,
        inbox: mpsc::Sender<Input>,
        (parts, cluster): (Parts, ClusterId),
        changed: Publisher,
    ) -> Self {
        let led = parts.readiness.condition(
            &format!("shard of {cluster}"),
            "the membership servers have not answered yet",
        );
        let mesos = parts
            .readiness
            .condition(&format!("mesos of {cluster}"), "it was not asked yet");
        // A standby holds it.
        mesos.ready();
        let engine = PlacementEngine::new(
            measures.placement.clone(),
            measures.inconsistencies.clone(),
            inbox.clone(),
        );
        Self {
            driver,
            hosts,
            engine,
            measures,
            logs,
            inbox,
            parts,
            cluster,
            links: Links::default(),
            led,
            mesos,
            changed,
            held: Vec::new(),
        }
    }

    /// Runs until the shutdown begins, then leaves Mesos and the election without a word about tasks: they run on.
    pub(crate) async fn run(mut self, role: Role, mut office: Office, mut inputs: mpsc::Receiver<Input>) {
        let stop = self.parts.shutdown.token();
        let mut sightings = self.parts.membership.watch(&role);
        let mut answers = probing::begin(self.hosts.probe(), &self.parts.shutdown);
        office.need_contact();
        let (store, cluster) = (self.parts.store.clone(), self.cluster.clone());
        let removed = register::removed(store.as_ref(), &cluster);
        tokio::pin!(removed);
        let (mut batch, mut heard) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut events = Vec::new();
        loop {
            self.note_leader(&sightings.borrow_and_update());
            let is_awaited = if self.driver.awaits_credit() {
                IsAwaited::Yes
            } else {
                IsAwaited::No
            };
            let emptied = self.hosts.emptied(is_awaited);
            tokio::select! {
                () = stop.cancelled() => break,
                () = &mut removed => {
                    self.stand_down();
                    break;
                }
                verdict = office.verdict() => {
                    let is_elected = matches!(verdict, Verdict::Elected { .. });
                    if is_elected && register::is_removed(store.as_ref(), &cluster).await {
                        self.stand_down();
                        break;
                    }
                    events.push(self.on_verdict(verdict));
                    // A driver that begins to lead knows nothing of what is under way.
                    events.push(Event::CallCredit(self.hosts.call_credit()));
                }
                _ = inputs.recv_many(&mut batch, BATCH) => {
                    events.extend(batch.drain(..).filter_map(|input| self.on_input(input)));
                }
                () = self.hosts.events(&mut heard, BATCH) => {
                    events.extend(heard.drain(..).map(|event| self.measures.heard(event)));
                }
                () = emptied => {
                    events.push(Event::CallCredit(self.hosts.call_credit()));
                }
                () = tokio::time::sleep(time_to_wake(&self.driver, &self.parts)) => events.push(Event::Wake),
                Ok(()) = sightings.changed() => continue,
                Some(probed) = answers.recv() => {
                    if probed.is_reached {
                        self.note_contact(&office);
                    }
                    events.push(Event::Probed(probed.answer));
                }
            }
            self.turn(&mut events, &mut office);
        }
        self.links.clear();
        self.hosts.close();
        self.changed.lead(None);
        office.resign().await;
    }

    /// A master answers. For a leader that is not enough: it must be subscribed. Whom Mesos refuses keeps the lead, since another
    /// process would say the same words.
    fn note_contact(&self, office: &Office) {
        let leads = self.driver.mode() != Mode::Follower;
        if !leads || self.driver.is_subscribed() || self.driver.refused().is_some() {
            office.has_contact();
        }
    }

    /// The cluster was removed for good: this process never leads it again.
    fn stand_down(&self) {
        self.led.not_ready("its cluster was removed for good");
        tracing::info!(cluster = %self.cluster, "the cluster was removed for good: this shard does nothing any more, it can be stopped");
    }

    fn note_leader(&self, sighting: &Sighting) {
        match sighting {
            Sighting::Held(_) => self.led.ready(),
            Sighting::Vacant => self.led.not_ready("nobody leads this shard now"),
            Sighting::Unknown => self.led.not_ready("the membership servers have not answered yet"),
        }
    }

    fn on_verdict(&mut self, verdict: Verdict) -> Event {
        match verdict {
            Verdict::Elected { published } => {
                tracing::info!(published = %published.epoch, "elected");
                Event::Elected { published }
            }
            Verdict::Suspended => {
                tracing::warn!(
                    "the membership servers do not answer; this leader does nothing until they do"
                );
                Event::Suspended
            }
            Verdict::Resumed => {
                tracing::info!("still leads, in the same term");
                Event::Resumed
            }
            Verdict::Deposed => {
                tracing::warn!("deposed");
                self.follow();
                Event::Deposed
            }
        }
    }

    /// What belongs to a leadership ends with it. A new leader's subscription must not meet ours.
    fn follow(&mut self) {
        self.hosts.close();
        self.measures.leads(None);
        self.changed.lead(None);
        self.held.clear();
    }

    /// What an input is to the driver; nothing where it only asks.
    fn on_input(&mut self, input: Input) -> Option<Event> {
        Some(match input {
            Input::Runs(question) => {
                let page = self
                    .driver
                    .runs(&question.asked, question.from.as_ref(), question.most);
                // Who asked may be gone.
                let _ = question.answer.send(page);
                return None;
            }
            Input::Storage(id, result) => Event::Storage(id, result),
            Input::Placed(answer) => Event::Placed(answer),
            Input::Tails(run, tails) => Event::Tails(run, tails),
            Input::Gateway(address) => Event::Gateway(address),
            Input::Unreadable(link, why) => {
                self.measures.streams_refused.inc();
                self.links.refuse(link, why);
                Event::LinkClosed(link)
            }
            Input::LinkOpened(link, way_back) => {
                self.links.opened(link, way_back);
                Event::LinkOpened(link)
            }
            Input::Directive(link, directive) => Event::Directive(link, directive),
            Input::LinkClosed(link) => {
                self.links.closed(link);
                Event::LinkClosed(link)
            }
        })
    }

    /// One turn: the driver decides about the events in their order, then what it asks for is done. What could not be
    /// handed on is an event again.
    fn turn(&mut self, events: &mut Vec<Event>, office: &mut Office) {
        let began = Instant::now();
        let now = self.parts.clock.now();
        let mut effects = Vec::new();
        while !events.is_empty() {
            for event in events.drain(..) {
                self.driver.step(event, now, &mut effects);
            }
            self.perform_all(&mut effects, events, office);
        }
        self.measures.turn.observe(began.elapsed().as_secs_f64());
        self.measures.look(&self.driver, now);
        self.measures
            .tell_ways_out(self.hosts.under_way(), self.links.under_way());
        self.note_mesos();
    }

    fn note_mesos(&self) {
        let signs = self.driver.signs();
        if self.driver.mode() == Mode::Follower || (signs.subscribed && signs.unanswered < HUNG) {
            self.mesos.ready();
        } else if signs.subscribed {
            self.mesos.not_ready("the Mesos master does not answer");
        } else {
            self.mesos.not_ready("the shard is not subscribed to Mesos");
        }
    }

    /// Does what was asked for, after what was held; what may not be done now is held.
    fn perform_all(&mut self, effects: &mut Vec<Effect>, events: &mut Vec<Event>, office: &mut Office) {
        let leads = self.driver.mode() != Mode::Follower;
        if leads && !self.driver.is_suspended() {
            effects.splice(0..0, self.held.drain(..));
        }
        for effect in effects.drain(..) {
            if !is_act_of_a_leader(&effect) || office.may_act() {
                events.extend(self.perform(effect, office));
            } else if leads {
                self.held.push(effect);
            }
        }
        if !self.held.is_empty() && !self.driver.is_suspended() {
            tracing::warn!("cannot tell whether this process still leads; it stops acting");
            office.doubt();
            events.push(Event::Suspended);
        }
    }

    /// Does one thing; what failed on the spot comes back.
    fn perform(&mut self, effect: Effect, office: &mut Office) -> Option<Event> {
        match effect {
            Effect::Storage(id, op) => self.operate(id, op),
            Effect::Cluster(call) => return self.call(call),
            Effect::Report(link, report) => self.links.send(link, report),
            Effect::Admit(link) => self.links.admit(link),
            Effect::Refuse { link, why } => {
                tracing::warn!(link = link.0, %why, "refused a stream: its opener is no resource manager that leads");
                self.measures.streams_refused.inc();
                let why = Status::permission_denied(format!("the stream is refused: {why}"));
                self.links.refuse(link, why);
            }
            Effect::Place(problem) => self.engine.solve(problem, &self.parts.shutdown),
            Effect::FetchTails(asked) => {
                tails::read(asked, self.logs.clone(), self.inbox.clone(), &self.parts.shutdown);
            }
            Effect::Publish(epoch) => {
                tracing::info!(%epoch, "leading");
                self.measures.leads(Some(epoch));
                self.changed.lead(Some(epoch));
                office.publish(epoch);
            }
            Effect::Mark(stamp) => office.mark(stamp),
            Effect::StepDown { why } => {
                tracing::warn!(%why, "gave the leadership up");
                self.follow();
                office.step_down();
            }
            Effect::Alarm(alarm) => {
                self.measures.alarms.inc();
                tracing::error!(%alarm, "an operator must look");
            }
        }
        None
    }

    fn call(&mut self, call: hosts::Call) -> Option<Event> {
        self.measures.called(&call);
        self.hosts.call(call).map(Event::Cluster)
    }

    fn operate(&self, id: OpId, op: Op) {
        let (store, inbox) = (self.parts.store.clone(), self.inbox.clone());
        let (changes, changed) = (JobChanges::of(&op), self.changed.clone());
        self.parts.shutdown.spawn(async move {
            let result = store.perform(op).await;
            changed.stored(changes, &result);
            // The loop is gone only when the process ends.
            let _ = inbox.send(Input::Storage(id, result)).await;
        });
    }
}

fn time_to_wake(driver: &Shard, parts: &Parts) -> Duration {
    let until = |at: Timestamp| Duration::from_millis(at.since(parts.clock.now()).0);
    driver.next_wake().map_or(IDLE, until)
}

/// What only a leader may do. The others answer the resource manager, compute, give up, or tell people.
const fn is_act_of_a_leader(effect: &Effect) -> bool {
    match effect {
        Effect::Storage(..)
        | Effect::Cluster(_)
        | Effect::Report(..)
        | Effect::Publish(_)
        | Effect::Mark(_) => true,
        Effect::Admit(_)
        | Effect::Refuse { .. }
        | Effect::Place(_)
        | Effect::FetchTails(_)
        | Effect::StepDown { .. }
        | Effect::Alarm(_) => false,
    }
}
