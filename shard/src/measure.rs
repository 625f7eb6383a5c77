//! What a shard tells in numbers. Never by job, instance or host: labels have few values.

mod limits;
mod logs;
mod offers;

use echelon_core_hosts::event::TaskState;
use echelon_core_hosts::{Call, Event as Heard};
use echelon_core_model::role_state::{RoleStanding, RoleState};
use echelon_core_model::run::RunState;
use echelon_core_model::time::Span;
use echelon_core_model::{Epoch, Timestamp};
use echelon_core_shard::{Event, Mode, Shard};
use echelon_io_process::Metrics;
use echelon_io_process::metrics::{LATENCY_S, MetricError, WAIT_S};
use limits::Limits;
use logs::KeptLogs;
use offers::Offers;
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use std::collections::BTreeMap;
use std::time::Instant;
use tokio::sync::watch;

/// Counting instances walks over all of them.
const LOOK_EVERY: Span = Span::seconds(5);

/// Launches that are timed at once; more are not timed.
const TIMED: usize = 100_000;

/// The handles.
pub(crate) struct Measures {
    /// One turn of the loop.
    pub(crate) turn: Histogram,
    /// One placement problem.
    pub(crate) placement: Histogram,
    /// Alarms raised.
    pub(crate) alarms: IntCounter,
    /// Streams ended for what came over them.
    pub(crate) streams_refused: IntCounter,
    launch: Histogram,
    launched: BTreeMap<String, Instant>,
    calls: IntCounterVec,
    events: IntCounterVec,
    leading: IntGauge,
    frozen: IntGauge,
    subscribed: IntGauge,
    refused: IntGauge,
    limits: Limits,
    logs: KeptLogs,
    epoch: IntGauge,
    journal_lag_ms: IntGauge,
    open_offers: IntGauge,
    offers: Offers,
    unanswered: IntGauge,
    instances: IntGaugeVec,
    crash_looping: IntGauge,
    /// Broken rules of placement's answers and of records.
    pub(crate) inconsistencies: IntCounter,
    /// Of them, those that the driver has found, as of the last look.
    inconsistencies_before: u64,
    operations: IntGauge,
    next_look: Timestamp,
    state: watch::Sender<RoleState>,
}

impl Measures {
    /// `build` is told with the state of this process.
    pub(crate) fn new(metrics: &Metrics, build: String) -> Result<Self, MetricError> {
        let gauge = |name, help| metrics.gauge(name, help);
        Ok(Self {
            turn: metrics.histogram(
                "echelon_loop_turn_seconds",
                "How long one turn of the role's loop took, from its events to the last effect handed on.",
                LATENCY_S,
            )?,
            placement: metrics.histogram(
                "echelon_shard_placement_seconds",
                "How long one placement problem took on its worker thread.",
                LATENCY_S,
            )?,
            alarms: metrics.counter(
                "echelon_alarms_total",
                "Alarms that an operator must look at; the log tells each.",
            )?,
            streams_refused: metrics.counter(
                "echelon_streams_refused_total",
                "Streams between the resource manager and shards that were ended for what came over them: a number out of its range, no proof of a leadership, another cluster's name.",
            )?,
            launch: metrics.histogram(
                "echelon_shard_launch_seconds",
                "From the stored intent of a run to Mesos' word that it runs.",
                WAIT_S,
            )?,
            launched: BTreeMap::new(),
            calls: metrics.counters(
                "echelon_mesos_calls_total",
                "Calls handed to Mesos, by kind.",
                &["kind"],
            )?,
            events: metrics.counters(
                "echelon_mesos_events_total",
                "Events heard from Mesos, by kind.",
                &["kind"],
            )?,
            frozen: gauge(
                "echelon_frozen",
                "1 while this leader starts and kills nothing, since what it sees cannot be right.",
            )?,
            subscribed: gauge(
                "echelon_mesos_subscribed",
                "1 while this leader's subscription to its Mesos stands.",
            )?,
            refused: gauge(
                "echelon_mesos_refused",
                "1 while Mesos refuses this leader's subscription, or has removed its framework: people have to change something.",
            )?,
            limits: Limits::new(metrics)?,
            logs: KeptLogs::new(metrics)?,
            leading: gauge(
                "echelon_leading",
                "1 while this process leads its role and may act: it knows that no other leads.",
            )?,
            epoch: gauge(
                "echelon_epoch",
                "Epoch of this process's leadership; 0 while it does not lead.",
            )?,
            journal_lag_ms: gauge(
                "echelon_shard_journal_lag_milliseconds",
                "Age of the oldest commit that is not known to be durable; 0 when there is none.",
            )?,
            open_offers: gauge("echelon_shard_open_offers", "Offers neither used nor given back.")?,
            offers: Offers::new(metrics)?,
            unanswered: gauge(
                "echelon_shard_unanswered_tasks",
                "Tasks that a reconciliation asked Mesos for, without an answer yet.",
            )?,
            instances: metrics.gauges(
                "echelon_shard_instances",
                "Instances with a record, by state.",
                &["state"],
            )?,
            crash_looping: gauge(
                "echelon_shard_crash_looping_instances",
                "Instances that fail again and again: three failures in a row or more, and not yet forgiven.",
            )?,
            inconsistencies: metrics.counter(
                "echelon_shard_inconsistencies_total",
                "Instances that a look at some blocks a second found in other sets than they belong to, and broken rules of records and of one answer of placement a minute: a fault of this program.",
            )?,
            inconsistencies_before: 0,
            operations: gauge(
                "echelon_storage_operations_pending",
                "Operations on storage without an answer yet.",
            )?,
            next_look: Timestamp(0),
            state: watch::Sender::new(RoleState {
                build,
                ..RoleState::default()
            }),
        })
    }

    /// What this process says of its role, without its contacts.
    pub(crate) fn state(&self) -> watch::Receiver<RoleState> {
        self.state.subscribe()
    }

    /// The leadership has begun or ended.
    pub(crate) fn leads(&mut self, epoch: Option<Epoch>) {
        self.leading.set(epoch.is_some().into());
        self.epoch
            .set(i64::try_from(epoch.unwrap_or_default().0).unwrap_or(i64::MAX));
        if epoch.is_none() {
            self.launched.clear();
        }
    }

    /// A call goes out.
    pub(crate) fn called(&mut self, call: &Call) {
        self.calls.with_label_values(&[call_kind(call)]).inc();
        if let Call::Accept { launches, .. } = call {
            let began = Instant::now();
            let room = TIMED.saturating_sub(self.launched.len());
            self.launched.extend(
                launches
                    .iter()
                    .take(room)
                    .map(|launch| (launch.task.to_string(), began)),
            );
        }
    }

    /// An event comes in.
    pub(crate) fn heard(&mut self, event: Heard) -> Event {
        self.events.with_label_values(&[event_kind(&event)]).inc();
        if let Heard::Update(status) = &event
            && !matches!(status.state, TaskState::Staging | TaskState::Starting)
            && let Some(began) = self.launched.remove(&status.task)
            && status.state == TaskState::Running
        {
            self.launch.observe(began.elapsed().as_secs_f64());
        }
        Event::Cluster(event)
    }

    /// What is under way to Mesos and to resource managers, in bytes.
    pub(crate) fn tell_ways_out(&self, calls: (usize, usize), reports: usize) {
        self.limits.tell_ways_out(calls, reports);
    }

    /// Looks at the driver, from time to time.
    pub(crate) fn look(&mut self, driver: &Shard, now: Timestamp) {
        let acts = self.epoch.get() > 0 && !driver.is_suspended();
        self.leading.set(acts.into());
        let (standing, epoch) = (standing(driver), driver.epoch());
        let frozen = driver.frozen().unwrap_or_default();
        self.state.send_if_modified(|state| {
            let changed = (state.standing, state.epoch, state.frozen.as_str()) != (standing, epoch, frozen);
            if changed {
                (state.standing, state.epoch) = (standing, epoch);
                frozen.clone_into(&mut state.frozen);
            }
            changed
        });
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let lag = driver.oldest_commit().map_or(0, |at| now.since(at).0);
        self.journal_lag_ms.set(i64::try_from(lag).unwrap_or(i64::MAX));
        self.frozen.set((driver.mode() == Mode::Frozen).into());
        self.subscribed.set(driver.is_subscribed().into());
        self.refused.set(driver.refused().is_some().into());
        self.limits.look(driver);
        self.logs.look(driver);
        self.crash_looping.set(count(driver.crash_looping()));
        let found = driver.inconsistencies();
        let before = std::mem::replace(&mut self.inconsistencies_before, found);
        self.inconsistencies.inc_by(found.saturating_sub(before));
        self.operations.set(count(driver.pending_operations()));
        self.open_offers.set(count(driver.open_offers()));
        self.offers.look(driver.offers());
        self.unanswered.set(count(driver.unanswered()));
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus(LOOK_EVERY);
        let alarms = driver.alarms(now);
        self.state.send_if_modified(|state| {
            let changed = state.alarms != alarms;
            state.alarms = alarms;
            changed
        });
        let mut by_state = [0; RunState::ALL.len()];
        for (_, record) in driver.instances() {
            if let Some(n) = by_state.get_mut(usize::from(record.state().number())) {
                *n += 1;
            }
        }
        for (state, n) in RunState::ALL.into_iter().zip(by_state) {
            self.instances.with_label_values(&[state.word()]).set(n);
        }
    }
}

fn standing(driver: &Shard) -> RoleStanding {
    match driver.mode() {
        Mode::Follower => RoleStanding::Standby,
        _ if driver.is_suspended() => RoleStanding::Suspended,
        Mode::Frozen => RoleStanding::Frozen,
        Mode::Recovering => RoleStanding::Recovering,
        Mode::Serving => RoleStanding::Leader,
    }
}

const fn call_kind(call: &Call) -> &'static str {
    match call {
        Call::Subscribe { .. } => "subscribe",
        Call::Accept { .. } => "accept",
        Call::Decline { .. } => "decline",
        Call::TearDown => "teardown",
        Call::Revive => "revive",
        Call::Suppress => "suppress",
        Call::AnswerInverse { .. } => "answer_inverse",
        Call::UpdateFramework => "update_framework",
        Call::DrainAgent { .. } => "drain_agent",
        Call::ReactivateAgent { .. } => "reactivate_agent",
        Call::ListAgents => "list_agents",
        Call::ReadFlags { .. } => "read_flags",
        Call::Discard { .. } => "discard",
        Call::AcknowledgeOperation { .. } => "acknowledge_operation",
        Call::Kill { .. } => "kill",
        Call::Acknowledge { .. } => "acknowledge",
        Call::Reconcile { .. } => "reconcile",
    }
}

const fn event_kind(event: &Heard) -> &'static str {
    match event {
        Heard::Subscribed { .. } => "subscribed",
        Heard::Offers(_) => "offers",
        Heard::Rescind(_) => "rescind",
        Heard::InverseOffers(_) => "inverse_offers",
        Heard::RescindInverse(_) => "rescind_inverse",
        Heard::Update(_) => "update",
        Heard::Operation(_) => "operation",
        Heard::Failure { .. } => "failure",
        Heard::Heartbeat => "heartbeat",
        Heard::Disconnected { .. } => "disconnected",
        Heard::Refused { .. } => "refused",
        Heard::Operated(_) => "operated",
        Heard::Agents { .. } => "agents",
        Heard::Unlisted { .. } => "unlisted",
        Heard::Flags { .. } => "flags",
        Heard::CallFailed { .. } => "call_failed",
    }
}
