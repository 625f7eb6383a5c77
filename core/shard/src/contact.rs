//! The subscription to the cluster: opened, found silent, opened again with backoff, lost to a successor. Whether the cluster
//! is heard at all, and since when, is known here.

use crate::effects::Then;
use crate::event::{Alarm, Effect};
use crate::journal::Lane;
use crate::{Phase, Shard};
use echelon_core_hosts::{self as hosts, Call, Refusal};
use echelon_core_model::Timestamp;
use echelon_core_model::health::MasterId;
use echelon_core_model::time::Span;

/// A stream without any event for this many heartbeats is dead (Mesos rule R27).
const SILENT_HEARTBEATS: u64 = 5;
/// First wait before subscribing again; doubled up to the last.
const FIRST_RETRY: Span = Span::millis(250);
const LAST_RETRY: Span = Span::seconds(15);
/// Wait after a refusal: people have to change something first.
const REFUSED_RETRY: Span = Span::minutes(1);
/// A leader wakes at least with each of its own heartbeats.
const LONGEST_SLEEP: u64 = 3;
/// How much observed time a new leader may have to observe again.
const WRITE_OBSERVED: Span = Span::seconds(15);
/// Longest trouble told of, in bytes.
const LONGEST_TROUBLE: usize = 500;

/// How the cluster is heard.
#[derive(Debug)]
pub(crate) struct Contact {
    /// Whether the subscription stands.
    pub(crate) subscribed: bool,
    /// Since when that has been so; none: since this leader began.
    pub(crate) changed_at: Option<Timestamp>,
    /// When a leading master last answered its health endpoint, and how many questions it has not answered
    /// since.
    pub(crate) answered_at: Option<Timestamp>,
    pub(crate) unanswered: u32,
    /// The master that led when the last subscription began.
    pub(crate) master: Option<MasterId>,
    /// Until when its time is counted as observed.
    counted_to: Timestamp,
    /// What was observed in sum when the cluster was last heard, and when that was last written.
    heard: Span,
    written: Span,
    /// When anything was last heard.
    pub(crate) heard_at: Option<Timestamp>,
    /// When to subscribe again, or to find the stream silent.
    due: Timestamp,
    heartbeat: Span,
    tries: u32,
    /// Why the last subscription ended or was refused, until one stands.
    lost: Option<String>,
    refused: Option<String>,
    /// Our framework has no more than the short failover time-out of a first registration.
    short_lived: bool,
}

impl Default for Contact {
    fn default() -> Self {
        Self {
            subscribed: false,
            changed_at: None,
            answered_at: None,
            unanswered: 0,
            master: None,
            counted_to: Timestamp(0),
            heard: Span::ZERO,
            written: Span::ZERO,
            heard_at: None,
            due: Timestamp(u64::MAX),
            heartbeat: Span::seconds(15),
            tries: 0,
            lost: None,
            refused: None,
            short_lived: false,
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
        if std::mem::take(&mut self.subscribed) {
            self.changed_at = Some(now);
        }
        let wait = FIRST_RETRY
            .0
            .saturating_mul(1 << self.tries.min(8))
            .min(LAST_RETRY.0);
        self.tries = self.tries.saturating_add(1);
        self.due = now.plus(Span(wait));
    }
}

impl Shard {
    /// For how long the cluster has been observed in sum, over all leaders, while it is heard.
    pub(crate) fn observed(&self) -> Option<Span> {
        self.contact.subscribed.then_some(self.own.observed)
    }

    /// The same whether it is heard or not, as it is stored.
    #[must_use]
    pub const fn observed_in_sum(&self) -> Span {
        self.own.observed
    }

    /// Counts the time since the last step as observed while the cluster is heard. Where more has passed
    /// than a leader sleeps, the process was away, and heard nothing.
    pub(crate) fn count_observed(&mut self) {
        if !self.contact.subscribed {
            return;
        }
        let passed = self.now.since(self.contact.counted_to);
        self.contact.counted_to = self.now;
        if passed > Span(self.config.timing.heartbeat.0.saturating_mul(LONGEST_SLEEP)) {
            return;
        }
        self.own.observed = Span(self.own.observed.0.saturating_add(passed.0));
        if self.own.observed.0 >= self.contact.written.0.saturating_add(WRITE_OBSERVED.0) {
            self.contact.written = self.own.observed;
            self.journal.touch(Lane::OWN, self.now, Span::ZERO);
        }
    }

    /// Why the cluster cannot be driven, for people.
    pub(crate) fn trouble(&self) -> Option<String> {
        let frozen = self.frozen.as_ref().filter(|_| self.contact.refused.is_none());
        let why = match frozen {
            Some(why) => format!("frozen, run `echelon storage resume`: {why}"),
            None => self
                .contact
                .refused
                .as_ref()
                .or(self.contact.lost.as_ref())?
                .clone(),
        };
        Some(why.get(..why.floor_char_boundary(LONGEST_TROUBLE))?.to_owned())
    }

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
            self.on_disconnected("Mesos has been silent for too long".to_owned());
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
            hosts::Event::Disconnected { .. }
                | hosts::Event::Refused { .. }
                | hosts::Event::CallFailed { .. }
                | hosts::Event::Agents { .. }
                | hosts::Event::Unlisted { .. }
                | hosts::Event::Flags { .. }
        ) {
            self.contact.heard_at = Some(self.now);
            self.contact.heard = self.own.observed;
            if self.contact.subscribed {
                self.contact.due = self.now.plus(self.contact.silence());
            }
        }
        match event {
            hosts::Event::Subscribed {
                framework,
                heartbeat,
                master,
            } => {
                self.contact.master = master;
                self.on_subscribed(framework, heartbeat);
            }
            hosts::Event::Disconnected { why } => self.on_disconnected(why),
            hosts::Event::Refused { message, cause } => self.on_refused(message, cause),
            hosts::Event::Heartbeat => {}
            hosts::Event::CallFailed {
                call: Call::Subscribe { .. },
                ..
            } => self.contact.lost(self.now),
            hosts::Event::CallFailed {
                call: Call::UpdateFramework,
                why,
                refused,
            } => self.on_framework_kept(why, refused),
            event if self.phase == Phase::Serving => self.on_told(event),
            event => self.hold(event),
        }
    }

    fn on_subscribed(&mut self, framework: String, heartbeat: Span) {
        if !std::mem::replace(&mut self.contact.subscribed, true) {
            self.contact.changed_at = Some(self.now);
        }
        self.contact.counted_to = self.now;
        self.contact.heard = self.own.observed;
        self.contact.tries = 0;
        self.contact.lost = None;
        self.contact.refused = None;
        self.contact.short_lived = self.own.framework.is_none();
        self.contact.heartbeat = Span(heartbeat.0.max(1000));
        self.contact.due = self.now.plus(self.contact.silence());
        self.void_held_offers();
        self.hosts_event(&hosts::Event::Subscribed {
            framework: framework.clone(),
            heartbeat,
            master: self.contact.master,
        });
        match &self.own.framework {
            Some(stored) if *stored != framework => {
                let (stored, given) = (stored.clone(), framework);
                let why = format!("Mesos gave framework {given}, stored is {stored}");
                self.frozen = Some(why.clone());
                self.contact.refused = Some(why);
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
            Phase::Serving => {
                self.reconcile_all();
                self.await_answers();
            }
            _ => {}
        }
    }

    /// An id that is durable may live long: the failover time-out of a first registration is raised, and what was configured
    /// otherwise meanwhile is told. What cannot change is refused, and somebody should know.
    pub(crate) fn on_framework_stored(&mut self) {
        self.out.push(Effect::Cluster(Call::UpdateFramework));
        self.read_buckets();
    }

    /// A later subscription says the same (R33), so a loss needs no repetition, and a refusal to raise becomes one.
    fn on_framework_kept(&mut self, why: String, refused: bool) {
        if !refused || !self.contact.subscribed {
            return;
        }
        self.out.push(Effect::Alarm(Alarm::FrameworkKept { why }));
        if std::mem::take(&mut self.contact.short_lived) {
            self.subscribe();
        }
    }

    fn on_disconnected(&mut self, why: String) {
        self.contact.lost = Some(why);
        if self.contact.subscribed {
            // Since it was last heard it may have been away for as long.
            self.own.observed = self.contact.heard;
        }
        self.contact.lost(self.now);
        self.void_held_offers();
        self.hosts_event(&hosts::Event::Disconnected { why: String::new() });
        self.reconcile_void();
    }

    /// A leader that is refused stays: another process would say the same words. It never takes another id by itself.
    fn on_refused(&mut self, message: String, cause: Refusal) {
        if cause == Refusal::Superseded {
            self.step_down(format!("a newer subscription took over: {message}"));
            return;
        }
        self.on_disconnected(message.clone());
        self.contact.due = self.now.plus(REFUSED_RETRY);
        let stored = self.own.framework.clone();
        if cause == Refusal::Removed && stored.is_some() && stored == self.config.replaced_framework {
            self.own.framework = None;
            self.journal.touch(Lane::OWN, self.now, Span::ZERO);
            let point = self.journal.point(Lane::OWN);
            self.journal.when_durable([point], Then::FrameworkForgotten);
            return;
        }
        if cause == Refusal::Removed && self.own.tears_down {
            self.contact.refused = Some(message);
            return self.on_torn_down();
        }
        // Told once, however often it is refused.
        if self.contact.refused.as_ref() == Some(&message) {
            return;
        }
        self.contact.refused = Some(message.clone());
        let alarm = match (cause, stored) {
            (Refusal::Removed, Some(framework)) => Alarm::FrameworkRemoved { framework },
            _ => Alarm::Refused { message },
        };
        self.out.push(Effect::Alarm(alarm));
    }

    /// The picture belongs to the old framework: a new leadership begins with a new one.
    pub(crate) fn on_framework_forgotten(&mut self) {
        self.step_down(
            "the removed framework was given up by an operator; a new one is registered".to_owned(),
        );
    }

    /// Why the cluster refuses us, while it does.
    #[must_use]
    pub const fn refused(&self) -> Option<&String> {
        self.contact.refused.as_ref()
    }

    /// Whether the subscription to the cluster stands.
    #[must_use]
    pub const fn is_subscribed(&self) -> bool {
        self.contact.subscribed
    }
}
