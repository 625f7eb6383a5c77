//! The subscription to the cluster: opened, found silent, opened again with backoff, lost to a successor. Whether the cluster
//! is heard at all, and since when, is known here.

use crate::effects::Then;
use crate::event::{Alarm, Effect};
use crate::journal::Lane;
use crate::{Phase, Shard};
use echelon_core_hosts::{self as hosts, Call};
use echelon_core_model::Timestamp;
use echelon_core_model::time::Span;

/// A stream without any event for this many heartbeats is dead (Mesos rule R27).
const SILENT_HEARTBEATS: u64 = 5;
/// First wait before subscribing again; doubled up to the last.
const FIRST_RETRY: Span = Span::millis(250);
const LAST_RETRY: Span = Span::seconds(15);

/// How the cluster is heard.
#[derive(Debug)]
pub(crate) struct Contact {
    /// Whether the subscription stands.
    pub(crate) subscribed: bool,
    /// Since when it stands; earlier silences are counted from here.
    pub(crate) since: Timestamp,
    /// When anything was last heard.
    pub(crate) heard_at: Option<Timestamp>,
    /// When to subscribe again, or to find the stream silent.
    due: Timestamp,
    heartbeat: Span,
    tries: u32,
}

impl Default for Contact {
    fn default() -> Self {
        Self {
            subscribed: false,
            since: Timestamp(0),
            heard_at: None,
            due: Timestamp(u64::MAX),
            heartbeat: Span::seconds(15),
            tries: 0,
        }
    }
}

impl Contact {
    pub(crate) const fn due(&self) -> Timestamp {
        self.due
    }

    const fn silence(&self) -> Span {
        Span(self.heartbeat.0.saturating_mul(SILENT_HEARTBEATS))
    }

    fn lost(&mut self, now: Timestamp) {
        self.subscribed = false;
        let wait = FIRST_RETRY
            .0
            .saturating_mul(1 << self.tries.min(8))
            .min(LAST_RETRY.0);
        self.tries = self.tries.saturating_add(1);
        self.due = now.plus(Span(wait));
    }
}

impl Shard {
    /// Opens the stream, with the stored framework id.
    pub(crate) fn subscribe(&mut self) {
        let framework = self.own.framework.clone();
        self.contact.due = self.now.plus(self.contact.silence());
        self.out.push(Effect::Cluster(Call::Subscribe { framework }));
    }

    /// Subscribes again when it is due, or when a stream that should stand has fallen silent.
    pub(crate) fn keep_contact(&mut self) {
        if self.contact.due > self.now {
            return;
        }
        if self.contact.subscribed {
            self.on_disconnected();
            self.contact.due = self.now;
        }
        self.subscribe();
    }

    /// Takes in what the cluster tells.
    pub(crate) fn on_cluster(&mut self, event: hosts::Event) {
        if matches!(
            self.phase,
            Phase::Follower | Phase::ReadingEpoch | Phase::TakingEpoch | Phase::ReadingOwn
        ) {
            return;
        }
        if !matches!(
            event,
            hosts::Event::Disconnected { .. } | hosts::Event::CallFailed { .. }
        ) {
            self.contact.heard_at = Some(self.now);
            if self.contact.subscribed {
                self.contact.due = self.now.plus(self.contact.silence());
            }
        }
        match event {
            hosts::Event::Subscribed { framework, heartbeat } => self.on_subscribed(framework, heartbeat),
            hosts::Event::Disconnected { .. } => self.on_disconnected(),
            hosts::Event::Refused { message, superseded } => self.on_refused(message, superseded),
            hosts::Event::Heartbeat => {}
            hosts::Event::CallFailed {
                call: Call::Subscribe { .. },
                ..
            } => self.contact.lost(self.now),
            event if self.phase == Phase::Serving => self.on_told(event),
            event => self.hold(event),
        }
    }

    fn on_subscribed(&mut self, framework: String, heartbeat: Span) {
        self.contact.subscribed = true;
        self.contact.since = self.now;
        self.contact.tries = 0;
        self.contact.heartbeat = Span(heartbeat.0.max(1000));
        self.contact.due = self.now.plus(self.contact.silence());
        self.void_held_offers();
        self.hosts_event(&hosts::Event::Subscribed {
            framework: framework.clone(),
            heartbeat,
        });
        match &self.own.framework {
            Some(stored) if *stored != framework => {
                let (stored, given) = (stored.clone(), framework);
                self.frozen = true;
                self.out
                    .push(Effect::Alarm(Alarm::ForeignFramework { stored, given }));
                return;
            }
            Some(_) => {}
            None => self.own.framework = Some(framework),
        }
        match self.phase {
            Phase::Subscribing => {
                // Written also when it is the same: that seals the row.
                self.phase = Phase::StoringFramework;
                self.journal.touch(Lane::OWN, self.now, Span::ZERO);
                let point = self.journal.point(Lane::OWN);
                self.journal.when_durable([point], Then::FrameworkStored);
            }
            Phase::Serving => self.reconcile_all(),
            _ => {}
        }
    }

    fn on_disconnected(&mut self) {
        self.contact.lost(self.now);
        self.void_held_offers();
        self.hosts_event(&hosts::Event::Disconnected { why: String::new() });
        self.reconcile_void();
    }

    fn on_refused(&mut self, message: String, superseded: bool) {
        if superseded {
            self.step_down(format!("a newer subscription took over: {message}"));
            return;
        }
        let why = format!("Mesos refused the subscription: {message}");
        self.out.push(Effect::Alarm(Alarm::Refused { message }));
        self.step_down(why);
    }
}
