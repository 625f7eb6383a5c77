//! The shard's loop as its process runs it, with the real core and the real storage; the cluster and the resource manager are in memory.

use super::cluster::Cluster;
use super::stored::{self, Size};
use super::times::Times;
use crate::bench::wall_ms;
use anyhow::{Result, bail};
use echelon_cli::output;
use echelon_core_model::directive::{Directive, Order, SliceOrder};
use echelon_core_model::job::Goal;
use echelon_core_model::restart::GroupRestarts;
use echelon_core_model::store::{Op, OpId, OpResult, Stamp};
use echelon_core_model::{Generation, Timestamp, Version};
use echelon_core_placement::{Answer, Problem, place};
use echelon_core_shard::{Config, Effect, Event, LinkId, Mode, Shard, Timing};
use echelon_io_storage::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Events taken in at once, as by the process.
const BATCH: usize = 64;
/// Mesos lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The resource manager renews each grant once in so many parts of a round, one part a second.
const PARTS_OF_A_ROUND: u32 = 10;
/// Groups an order.
const ORDERS: usize = 200;
const LINK: LinkId = LinkId(1);

enum Input {
    Storage(OpId, Box<OpResult>),
    Placed(Answer),
}

/// A shard with all around it.
pub(super) struct Driver {
    pub(super) shard: Shard,
    pub(super) cluster: Cluster,
    size: Size,
    store: Arc<dyn Store>,
    inbox: mpsc::UnboundedSender<Input>,
    inputs: mpsc::UnboundedReceiver<Input>,
    /// Directives sent.
    sequence: u64,
    heartbeat_at: Instant,
    renew_at: Instant,
    renewals: u32,
    /// Tasks that fail a second, and which is next.
    failing: u64,
    next_failing: u64,
    /// The resource manager is heard.
    is_managed: bool,
    /// Steps of the core since this was last taken.
    times: Times,
    /// Reads of storage.
    pub(super) reads: u64,
}

impl Driver {
    pub(super) fn new(size: Size, store: Arc<dyn Store>) -> Self {
        let (inbox, inputs) = mpsc::unbounded_channel();
        Self {
            shard: Shard::new(config()),
            cluster: Cluster::new(size),
            size,
            store,
            inbox,
            inputs,
            sequence: 0,
            heartbeat_at: Instant::now() + HEARTBEAT,
            renew_at: Instant::now() + Duration::from_secs(1),
            renewals: 0,
            failing: 0,
            next_failing: 0,
            is_managed: true,
            times: Times::default(),
            reads: 0,
        }
    }

    /// Elects it, and lets a resource manager tell it of a job that is to begin.
    pub(super) fn begin(&mut self) {
        self.turn(vec![
            Event::Elected {
                published: Stamp::default(),
            },
            Event::LinkOpened(LINK),
        ]);
        self.direct(Order::Hello(stored::manager()));
        let order = self.slice_order(self.size.new_job());
        self.direct(Order::Slices(vec![order]));
    }

    /// So many tasks fail each second from now on.
    pub(super) const fn set_failing(&mut self, a_second: u64) {
        self.failing = a_second;
    }

    /// No resource manager is heard from now on.
    pub(super) fn silence_manager(&mut self) {
        self.is_managed = false;
        self.turn(vec![Event::LinkClosed(LINK)]);
    }

    /// The times of all steps since this was last asked.
    pub(super) fn take_times(&mut self) -> Times {
        std::mem::take(&mut self.times)
    }

    /// Runs until something holds.
    pub(super) async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<Duration> {
        let began = Instant::now();
        while !holds(self) {
            if began.elapsed() > crate::bench::DEADLINE {
                bail!(
                    "{what} did not come about within {} s",
                    crate::bench::DEADLINE.as_secs()
                );
            }
            self.take_in().await;
        }
        Ok(began.elapsed())
    }

    /// Everything is read and served.
    pub(super) fn is_loaded(&self) -> bool {
        self.shard.mode() == Mode::Serving
    }

    /// The cluster has spoken of every task, and nothing is on its way to storage.
    pub(super) fn is_settled(&self) -> bool {
        self.is_loaded()
            && self.shard.unanswered() == 0
            && self.shard.pending_operations() == 0
            && self.cluster.out.is_empty()
            && !self.cluster.is_telling()
    }

    /// Waits for the next thing that happens and takes it in, with what else is there.
    async fn take_in(&mut self) {
        let mut events = Vec::new();
        if self.cluster.out.is_empty() && !self.cluster.is_telling() {
            let wake = self.time_to_wake();
            tokio::select! {
                Some(input) = self.inputs.recv() => events.push(event_of(input)),
                () = tokio::time::sleep(wake) => events.push(Event::Wake),
            }
        }
        while events.len() < BATCH
            && let Ok(input) = self.inputs.try_recv()
        {
            events.push(event_of(input));
        }
        self.cluster.tell_on();
        let told = self.cluster.out.len().min(BATCH);
        events.extend(self.cluster.out.drain(..told).map(Event::Cluster));
        if self.heartbeat_at <= Instant::now() {
            self.heartbeat_at = Instant::now() + HEARTBEAT;
            events.push(Event::Cluster(echelon_core_hosts::Event::Heartbeat));
        }
        self.turn(events);
        if self.renew_at <= Instant::now() {
            self.renew_at = Instant::now() + Duration::from_secs(1);
            if self.is_managed {
                self.renew();
            }
            for _ in 0..self.failing {
                self.cluster.fail(self.next_failing);
                self.next_failing = (self.next_failing + 1) % self.size.instances();
            }
        }
        // Others run on the same thread.
        tokio::task::yield_now().await;
    }

    fn time_to_wake(&self) -> Duration {
        let now = Instant::now();
        let wake = self.shard.next_wake();
        let wake = wake.map_or(HEARTBEAT, |at| Duration::from_millis(at.since(clock()).0));
        let others = self
            .heartbeat_at
            .min(self.renew_at)
            .saturating_duration_since(now);
        wake.min(others)
    }

    fn turn(&mut self, events: Vec<Event>) {
        let (now, mut effects) = (clock(), Vec::new());
        for event in events {
            let began = Instant::now();
            self.shard.step(event, now, &mut effects);
            self.times.note(began.elapsed());
        }
        for effect in effects {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        let inbox = self.inbox.clone();
        match effect {
            Effect::Storage(id, op) => self.operate(id, op),
            Effect::Cluster(call) => self.cluster.call(call),
            Effect::Place(problem) => {
                // The loop is gone only when the process ends.
                tokio::task::spawn_blocking(move || drop(inbox.send(Input::Placed(placed(&problem)))));
            }
            Effect::Alarm(alarm) => output::remark(&alarm),
            Effect::StepDown { why } => output::remark(format_args!("the shard gave up: {why}")),
            Effect::Report(..)
            | Effect::Admit(_)
            | Effect::Refuse { .. }
            | Effect::FetchTails(_)
            | Effect::Publish(_)
            | Effect::Mark(_) => {}
        }
    }

    fn operate(&mut self, id: OpId, op: Op) {
        self.reads += u64::from(matches!(op, Op::Read(..)));
        let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
        tokio::spawn(async move {
            let result = Box::new(store.perform(op).await);
            drop(inbox.send(Input::Storage(id, result)));
        });
    }

    fn direct(&mut self, order: Order) {
        self.sequence += 1;
        let directive = Directive {
            epoch: stored::EPOCH,
            sequence: self.sequence,
            order,
        };
        self.turn(vec![Event::Directive(LINK, directive)]);
    }

    /// The resource manager renews what it has granted, a part of it each second.
    fn renew(&mut self) {
        self.renewals = (self.renewals + 1) % PARTS_OF_A_ROUND;
        let due = (0..=self.size.new_job()).filter(|n| n % PARTS_OF_A_ROUND == self.renewals);
        let due: Vec<u32> = due.collect();
        for some in due.chunks(ORDERS) {
            let orders = some.iter().map(|n| self.slice_order(*n)).collect();
            self.direct(Order::Slices(orders));
        }
    }

    fn slice_order(&self, n: u32) -> SliceOrder {
        SliceOrder {
            job: stored::job_id(n),
            group: stored::group(),
            head_version: Version(1),
            goal: Goal::default(),
            spec_version: 1,
            ranges: vec![stored::range(self.size.each)],
            grants: vec![(Generation(1), stored::grant(self.sequence + 2, self.size.each))],
            max_unavailable: 1,
            part_number: 1,
            rollout: None,
            update_below: u32::MAX,
            restarts: GroupRestarts::default(),
        }
    }
}

fn event_of(input: Input) -> Event {
    match input {
        Input::Storage(id, result) => Event::Storage(id, *result),
        Input::Placed(answer) => Event::Placed(answer),
    }
}

fn placed(problem: &Problem) -> Answer {
    place(problem).0
}

fn clock() -> Timestamp {
    Timestamp(wall_ms())
}

fn config() -> Config {
    Config {
        cluster: stored::cluster(),
        name: "bench".to_owned(),
        holder: "bench".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        seed: 1,
        timing: Timing::default(),
        reserves: true,
        replaced_framework: None,
    }
}
