//! The loop: one `select!` over what may happen, one `match` over what is to be done. It never waits for
//! anything but the next event, so a turn takes as long as the driver's step.

use crate::link::{Keeper, Links};
use crate::measure::Measures;
use crate::query::{PictureQuery, QueryThread};
use crate::serve::Parts;
use echelon_core_model::ClusterId;
use echelon_core_model::change::JobChanges;
use echelon_core_model::directive::Report;
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::store::{Op, OpId, OpResult};
use echelon_core_resource_manager::{Alarm, Effect, Event, LinkId, ResourceManager};
use echelon_io_changes::Publisher;
use echelon_io_membership::{Office, Role, Sighting, Verdict};
use echelon_io_process::health::Condition;
use echelon_proto::convert::shard::Changed;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Inputs that may wait. Reports are the bulk: this is a few seconds of them from a hundred shards.
/// Beyond that, senders wait.
pub(crate) const QUEUE: usize = 4096;

/// Inputs taken in at once: a turn stays within a few milliseconds.
const BATCH: usize = 64;

/// A loop without a timer looks around this often.
const IDLE: Duration = Duration::from_secs(60);

/// What reaches the loop from tasks.
#[expect(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
pub(crate) enum Input {
    /// An operation on storage has a result.
    Storage(OpId, OpResult),
    /// A stream to a shard's leader is open.
    Linked(LinkId, ClusterId, crate::link::Sender),
    /// A shard has reported something.
    Report(LinkId, Report),
    /// What came over a stream cannot be understood.
    Unreadable(LinkId, String),
    /// A stream has ended.
    Unlinked(LinkId),
    /// Something was written to storage.
    Changed(Changed),
    /// A caller asks something that changes nothing.
    Query(PictureQuery),
    /// A gateway asks whether a job may have so many instances.
    CheckInstances(
        WantedInstances,
        oneshot::Sender<Option<Result<(), ExceededLimit>>>,
    ),
}

/// The loop's state: the driver, and handles of what it may ask for.
pub(crate) struct Loop {
    driver: ResourceManager,
    parts: Parts,
    measures: Measures,
    inbox: mpsc::Sender<Input>,
    links: Links,
    queries: QueryThread,
    seed: u64,
    led: Condition,
    /// What gateways are told.
    changed: Publisher,
    /// What the driver decided just before its leadership came into doubt; done when it is certain again.
    held: Vec<Effect>,
}

impl Loop {
    pub(crate) fn new(
        driver: ResourceManager,
        parts: Parts,
        measures: Measures,
        (inbox, seed): (mpsc::Sender<Input>, u64),
        changed: Publisher,
    ) -> Self {
        let led = parts
            .readiness
            .condition("resource-manager", "no resource manager leads yet");
        Self {
            driver,
            parts,
            measures,
            inbox,
            links: Links::default(),
            queries: QueryThread::new(),
            seed,
            led,
            changed,
            held: Vec::new(),
        }
    }

    /// Runs until the shutdown begins, then leaves the election.
    pub(crate) async fn run(mut self, mut office: Office, mut inputs: mpsc::Receiver<Input>) {
        let stop = self.parts.shutdown.token();
        let mut sightings = self.parts.membership.watch(&Role::ResourceManager);
        let mut batch = Vec::with_capacity(BATCH);
        let mut events = Vec::new();
        loop {
            self.note_leader(&sightings.borrow_and_update());
            tokio::select! {
                () = stop.cancelled() => break,
                verdict = office.verdict() => events.push(self.on_verdict(verdict)),
                _ = inputs.recv_many(&mut batch, BATCH) => {
                    events.extend(batch.drain(..).filter_map(|input| self.on_input(input)));
                }
                () = tokio::time::sleep(self.time_to_wake()) => events.push(Event::Wake),
                Ok(()) = sightings.changed() => continue,
            }
            self.turn(events.drain(..), &mut office);
        }
        self.links.clear();
        self.changed.lead(None);
        office.resign().await;
    }

    fn note_leader(&self, sighting: &Sighting) {
        match sighting {
            Sighting::Held(_) => self.led.ready(),
            Sighting::Vacant => self.led.not_ready("no resource manager leads now"),
            Sighting::Unknown => self.led.not_ready("the membership servers have not answered yet"),
        }
    }

    fn time_to_wake(&self) -> Duration {
        if self.queries.is_waiting() {
            return Duration::ZERO;
        }
        self.driver.next_wake().map_or(IDLE, |at| {
            Duration::from_millis(at.since(self.parts.clock.now()).0)
        })
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

    /// What belongs to a leadership ends with it.
    fn follow(&mut self) {
        self.links.clear();
        self.measures.leads(None);
        self.changed.lead(None);
        self.held.clear();
    }

    /// What the driver is to know of an input.
    fn on_input(&mut self, input: Input) -> Option<Event> {
        Some(match input {
            Input::Storage(id, result) => Event::Storage(id, result),
            Input::Linked(link, cluster, sender) => {
                self.links.opened(link, sender);
                Event::ShardOpened { cluster, link }
            }
            Input::Report(link, report) => Event::Report(link, report),
            Input::Unreadable(link, why) => Event::Unreadable { link, why },
            Input::Unlinked(link) => {
                self.links.closed(link);
                Event::ShardClosed { link }
            }
            Input::Changed(Changed::Head(job)) => Event::Hint(job),
            Input::Changed(Changed::Pools) => Event::PoolsHint,
            Input::Query(query) => {
                self.queries.add(query);
                return None;
            }
            Input::CheckInstances(wanted, answer) => {
                let checked = self.driver.check_instances(wanted, self.parts.clock.now());
                // The caller may be gone.
                let _ = answer.send(checked);
                return None;
            }
        })
    }

    /// One turn: the driver decides about the events in their order, then what it asks for is done.
    fn turn(&mut self, events: impl Iterator<Item = Event>, office: &mut Office) {
        let began = Instant::now();
        let now = self.parts.clock.now();
        let mut effects = Vec::new();
        for event in events {
            self.driver.step(event, now, &mut effects);
            self.measures.look_at_cycle(&self.driver, now);
        }
        if self.perform_all(effects, office) {
            tracing::warn!("cannot tell whether this process still leads; it stops acting");
            office.doubt();
            self.driver.step(Event::Suspended, now, &mut Vec::new());
        }
        if self.driver.leading().is_some() {
            let due = self.measures.coverage.next(&self.driver.picture().facts, began);
            due.into_iter().for_each(|query| self.queries.add(query));
        }
        self.queries.hand_over(&mut self.driver, began);
        self.measures.turn.observe(began.elapsed().as_secs_f64());
        self.measures.look(&self.driver, now);
        self.measures.tell_ways_out(self.links.under_way());
    }

    /// Performs effects, after those that were deferred. An effect that may not be performed now is deferred.
    /// Returns whether the driver must know.
    fn perform_all(&mut self, mut effects: Vec<Effect>, office: &mut Office) -> bool {
        let leads = self.driver.is_elected();
        if leads && !self.driver.is_suspended() {
            effects.splice(0..0, self.held.drain(..));
        }
        for effect in effects {
            if !is_act_of_a_leader(&effect) || office.may_act() {
                self.perform(effect, office);
            } else if leads {
                self.held.push(effect);
            }
        }
        !self.held.is_empty() && !self.driver.is_suspended()
    }

    fn perform(&mut self, effect: Effect, office: &mut Office) {
        match effect {
            Effect::Storage(id, op) => self.operate(id, op),
            Effect::Send(link, directive) => self.links.send(link, directive),
            Effect::Watch(cluster) => self.watch(cluster),
            Effect::Unwatch(cluster) => self.links.unwatch(&cluster),
            Effect::Publish(epoch) => {
                tracing::info!(%epoch, "leading");
                self.measures.leads(Some(epoch));
                self.changed.lead(Some(epoch));
                office.publish(epoch);
            }
            Effect::Mark(stamp) => office.mark(stamp),
            Effect::Changed(job) => {
                let mut changes = JobChanges::default();
                changes.touch(job);
                self.changed.push(changes);
            }
            Effect::StepDown { why } => {
                tracing::warn!(%why, "gave the leadership up");
                self.follow();
                office.step_down();
            }
            Effect::Alarm(alarm) => {
                if matches!(alarm, Alarm::ShardSetAside { .. }) {
                    self.measures.streams_refused.inc();
                }
                self.measures.alarms.inc();
                tracing::error!(%alarm, "an operator must look");
            }
        }
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

    fn watch(&mut self, cluster: ClusterId) {
        let sightings = self.parts.membership.watch(&Role::Shard(cluster.clone()));
        let (inbox, ids) = (self.inbox.clone(), self.links.ids());
        if let Some(stop) = self.links.watch(&cluster) {
            let keeper = Keeper {
                cluster,
                sightings,
                inbox,
                ids,
                seed: self.seed,
                stop,
            };
            self.parts.shutdown.spawn(keeper.keep());
        }
    }
}

/// What only a leader may do. The others give up, or raise alarms.
const fn is_act_of_a_leader(effect: &Effect) -> bool {
    match effect {
        Effect::Storage(..)
        | Effect::Send(..)
        | Effect::Watch(_)
        | Effect::Unwatch(_)
        | Effect::Publish(_)
        | Effect::Mark(_) => true,
        Effect::Changed(_) | Effect::StepDown { .. } | Effect::Alarm(_) => false,
    }
}
