//! What each event of the cluster changes in the picture of its hosts.

use crate::appetite::Appetite;
use crate::call::Call;
use crate::event::{Event, Offer, OfferId, TaskState, TaskStatus};
use crate::hosts::Hosts;
use crate::tally::End;
use echelon_core_model::{HostId, TaskId, Timestamp};

/// Mesos' reasons that tell of an agent, not of a task.
const AGENT_LOST: [&str; 2] = ["AGENT_REMOVED", "AGENT_REMOVED_BY_OPERATOR"];
/// A host wanted back what it had lent.
const PREEMPTED: &str = "CONTAINER_PREEMPTED";
const AGENT_BACK: &str = "AGENT_REREGISTERED";

impl Hosts {
    /// Takes an event in. Proof of a task's death frees its room here, unless it is of a pod, whose other tasks may live; offers
    /// are void after `Disconnected` and `Subscribed`.
    pub fn on_event(&mut self, event: &Event, now: Timestamp) {
        match event {
            Event::CallFailed { call, refused, why } => {
                if matches!(call, Call::ListAgents) {
                    return self.listing.failed(now);
                }
                if let Call::ReadFlags { host, .. } = call {
                    return self.flags.failed(host, now);
                }
                if *refused && call.is_operator() {
                    self.on_agent_call(call, Some(why));
                }
                self.on_call_failed(call, *refused, now);
            }
            Event::Operated(call) => self.on_agent_call(call, None),
            // What operators are told is no sign of the subscription.
            Event::Agents {
                agents,
                awaited,
                sharing,
                planned,
            } => {
                if let Some(planned) = planned
                    && self.awaits_list()
                {
                    self.on_schedule(agents, planned);
                }
                self.on_agents(agents, awaited, sharing, now);
            }
            Event::Unlisted { .. } => self.on_unlisted(now),
            Event::Flags { host, times } => self.flags.answered(host, *times),
            Event::Disconnected { .. } | Event::Refused { .. } => self.void_offers(now),
            Event::Subscribed { .. } => {
                self.void_offers(now);
                self.appetite = Some(Appetite::new(now, self.last_appetite.as_ref()));
                self.subscribed_at = now;
            }
            Event::Offers(offers) => offers.iter().for_each(|o| self.on_offer(o, now)),
            Event::Rescind(offer) => {
                let lender = self.stock.lender(offer);
                self.stock.close(offer, End::Rescinded, now);
                if let Some(host) = lender {
                    self.lends(&host);
                }
                self.give_back.remove(offer);
            }
            Event::InverseOffers(asked) => asked.iter().for_each(|a| self.on_inverse_offer(a, now)),
            Event::RescindInverse(offer) => self.on_rescind_inverse(offer),
            Event::Update(status) => self.on_update(status, now),
            Event::Failure {
                host: Some(host),
                executor: None,
            } => self.on_lost(host, now),
            // Its caller knows what the operation was for.
            Event::Operation(_) | Event::Failure { .. } | Event::Heartbeat => {}
        }
    }

    /// R28, R31, R63: nothing of an earlier subscription can be used, and nothing has to be given back.
    fn void_offers(&mut self, now: Timestamp) {
        self.stock.clear(now);
        self.give_back.clear();
        self.asked.clear();
        self.misfits.clear();
        if let Some(appetite) = self.appetite.take() {
            self.last_appetite = Some(appetite);
        }
    }

    fn on_offer(&mut self, offer: &Offer, now: Timestamp) {
        // An offer of a subscription that has ended is void, and one told twice is the same.
        if self.appetite.is_none() || !self.stock.open(offer, now) {
            return;
        }
        if !self.takes(&offer.host) {
            self.stock.close(&offer.id, End::Declined, now);
            self.misfits.push(offer.id.clone());
            return;
        }
        let host = &offer.host;
        self.choose_disk(offer);
        let (free, used) = (self.stock.free(host), self.ledger.used(host).resources);
        let new = !self.records.contains_key(host);
        let record = self.record(host, now);
        let described = record.described_by(offer, now);
        let drain = self.is_named(host, &offer.hostname);
        let record = self.record(host, now);
        let grew = record.sum_grew(free, used, now);
        // Mesos offers all that is free of a host: what is not among it is not lent any more, or lent to others.
        self.lends(host);
        if new || described || grew || drain {
            self.note(host.clone());
        }
        self.plan_now(host, offer.maintenance);
        if self.volumes.offered(host, &offer.reserved, now) {
            self.note(host.clone());
        }
    }

    /// Until its master lists an agent, the disk that is reserved for our role is used where no other is
    /// offered.
    fn choose_disk(&mut self, offer: &Offer) {
        let is_listed = self.records.get(&offer.host).is_some_and(|r| r.listed.is_some());
        if is_listed || offer.resources.disk > 0 || self.stock.disk_of(&offer.host).is_some() {
            return;
        }
        let with_disk = offer.reserved_room.iter().filter(|part| part.resources.disk > 0);
        if let Some(part) = with_disk.max_by_key(|part| part.resources.disk) {
            self.stock.use_disk(&offer.host, Some(part.by.clone()));
        }
    }

    fn on_update(&mut self, status: &TaskStatus, now: Timestamp) {
        if let Some(host) = &status.host {
            let lost = matches!(status.state, TaskState::Unreachable | TaskState::GoneByOperator)
                || AGENT_LOST.contains(&status.reason.as_str());
            // What the master says of itself proves nothing about the agent.
            let alive = status.uuid.is_some() || status.reason == AGENT_BACK;
            if lost {
                self.on_lost(host, now);
            } else if alive && self.takes(host) && self.record(host, now).seen(now) {
                self.note(host.clone());
            }
        }
        if status.state.is_proof_of_death()
            && let Ok(task) = status.task.parse::<TaskId>()
            && !self.ledger.is_pod(&task)
        {
            self.release(&task, now);
            if let Some(host) = status.host.as_ref().filter(|_| status.reason == PREEMPTED) {
                self.lends(host);
            }
        }
    }

    /// Notes what a host lends by the newest sign of it.
    fn lends(&mut self, host: &HostId) {
        let sum = self.lent_sum(host);
        self.touch(host);
        if let Some(record) = self.records.get_mut(host) {
            record.lent = sum;
        }
    }

    /// A host that an operator declares lost is lost, unless it was seen since or is offered at this moment.
    pub fn lose_unseen(&mut self, host: &HostId, since: Timestamp, now: Timestamp) {
        let seen = self.records.get(host).is_none_or(|r| r.seen_at >= since);
        if !seen && !self.stock.is_offered(host) {
            self.on_lost(host, now);
        }
    }

    /// The master rescinds its offers (R111, R112). Until that is told nothing is launched there; if it is never told they are
    /// given back.
    pub(crate) fn on_lost(&mut self, host: &HostId, now: Timestamp) {
        let Some(record) = self.records.get_mut(host) else {
            return;
        };
        record.lost_at = now;
        if std::mem::replace(&mut record.reachable, false) {
            self.note(host.clone());
        }
        let offers = self.stock.close_host(host, End::Rescinded, now);
        self.give_back_later(&offers, now.plus(self.config.revive_gap));
    }

    fn on_call_failed(&mut self, call: &Call, refused: bool, now: Timestamp) {
        let Some(appetite) = &mut self.appetite else {
            return;
        };
        let again = now.plus(self.config.revive_gap);
        match call {
            Call::Accept { offers, launches, .. } => {
                self.give_back_later(offers, again);
                // Of an unknown outcome the cluster tells by and by; then the shard releases the task.
                for l in launches.iter().filter(|_| refused) {
                    self.release(&l.task, now);
                }
            }
            Call::Decline { offers, .. } | Call::Discard { offers, .. } => {
                self.give_back_later(offers, again);
            }
            Call::Revive | Call::Suppress => appetite.call_failed(),
            // It is still open, and answered once more.
            Call::AnswerInverse { offers, host, .. } => {
                self.asked
                    .extend(offers.iter().map(|id| (id.clone(), host.clone())));
            }
            Call::Subscribe { .. }
            | Call::UpdateFramework
            | Call::TearDown
            | Call::Kill { .. }
            | Call::Acknowledge { .. }
            | Call::AcknowledgeOperation { .. }
            | Call::DrainAgent { .. }
            | Call::ReactivateAgent { .. }
            | Call::ListAgents
            | Call::ReadFlags { .. }
            | Call::Reconcile { .. } => {}
        }
    }

    /// Without a subscription there is nothing to give back.
    fn give_back_later(&mut self, offers: &[OfferId], due: Timestamp) {
        if self.appetite.is_none() {
            return;
        }
        self.give_back.extend(offers.iter().map(|id| (id.clone(), due)));
    }
}
