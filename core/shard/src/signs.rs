//! What a shard observes of itself and its cluster. The resource manager judges the cluster's health by it.
//! It is sent every two seconds and when it changes, and stored with each heartbeat. Changes that follow each
//! other closely are sent together: of a mass loss of agents a few reports tell.

use crate::event::ProbeAnswer;
use crate::{Phase, Shard};
use echelon_core_model::Timestamp;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::health::{AgentCounts, ShardSigns};

impl Shard {
    /// What is observed now.
    #[must_use]
    pub fn signs(&self) -> ShardSigns {
        self.signs_with(self.hosts.agent_counts())
    }

    fn signs_with(&self, agents: Option<AgentCounts>) -> ShardSigns {
        let contact = &self.contact;
        let age = |at: Timestamp| self.now.since(at);
        ShardSigns {
            subscribed: contact.subscribed,
            subscription_age: age(contact.changed_at.unwrap_or(self.listens_since)),
            event_age: contact.heard_at.map(age),
            answer_age: contact.answered_at.map(age),
            unanswered: contact.unanswered,
            agents,
            commit_age: self.oldest_commit().map(age).unwrap_or_default(),
            frozen: self.frozen.is_some(),
            torn_down: self.teardown.is_done,
            master: contact.master,
        }
    }

    /// A question to the masters of the cluster was answered, or was not.
    pub(crate) fn on_probed(&mut self, answer: ProbeAnswer) {
        if self.phase == Phase::Follower {
            return;
        }
        match answer {
            ProbeAnswer::Answered => {
                self.contact.answered_at = Some(self.now);
                self.contact.unanswered = 0;
            }
            ProbeAnswer::Missing => self.contact.unanswered = self.contact.unanswered.saturating_add(1),
        }
    }

    /// Sends what is observed, when it is time or something has changed, but not too often.
    pub(crate) fn report_signs(&mut self) {
        if !self.epoch_taken() {
            return;
        }
        let agents = self.hosts.recount_agents();
        let signs = self.signs_with(agents);
        let timing = &self.config.timing;
        let earliest = self.telling.signs_sent.map(|at| at.plus(timing.signs_apart));
        let is_same = self.telling.signs_told == Some(signs.without_ages());
        let due = if is_same {
            self.telling.signs_at
        } else {
            earliest.unwrap_or(self.now).min(self.telling.signs_at)
        };
        if self.now < due {
            self.telling.signs_at = due;
            return;
        }
        self.telling.signs_at = self.now.plus(timing.signs);
        self.telling.signs_sent = Some(self.now);
        self.telling.signs_told = Some(signs.without_ages());
        for link in self.links.proven() {
            self.tell(link, ReportPart::Signs(signs));
        }
    }
}
