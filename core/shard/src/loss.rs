//! Mass loss: too large a part of the running tasks answered gone or unknown within a minute shows that the answers may be
//! wrong (a master of another cluster takes our framework id without a word, Mesos rule R26). From then on nothing is replaced
//! and nothing restarted; updates and wishes of users are obeyed as ever. It ends when enough are back or ended, or by an
//! operator's command. What is lost before the limit is reached is replaced as usual.
//!
//! Counted is what was known to run and of which Mesos said no more than that it is gone, or that it knows it not; a silent or
//! removed agent is told in other words and has a patience of its own. What never ran was not lost. A host that was silent and is back
//! explains all that it has lost: that counts as one. The wait is judged by what is missing now, so it ends when its evidence is gone.
//!
//! After an operator has resumed a backup, no loss counts until the cluster has answered for every stored run.
//! Tasks that ended after the backup are expected to be missing.

use crate::Shard;
use crate::event::{Alarm, Effect};
use crate::group::Group;
use crate::journal::Lane;
use crate::picture::{At, RunAt};
use echelon_core_jobs::{News, Told, Whom};
use echelon_core_model::cluster::MassLoss;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::time::Span;
use echelon_core_model::{InstanceNumber, ReasonCode, RunState, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was lost and is not back.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Instances whose task is gone or unknown, and that have no further run, with their hosts' names.
    missing: BTreeMap<At, Arc<str>>,
    /// How many were lost lately, by second of observed time and host.
    lately: BTreeMap<u64, BTreeMap<Arc<str>, u64>>,
    /// Hosts of which Mesos said that they are silent.
    silent: BTreeSet<Arc<str>>,
    /// Hosts that were silent and are back, and when that was seen.
    returned: BTreeMap<Arc<str>, Timestamp>,
    /// Tasks known to run or lost lately, and in which second they were counted: counting walks over all groups.
    running: (u64, u64),
    /// Something was lost since it was last judged.
    grew: bool,
    /// While state is read: of what is known so far too much is lost. Whether that is true shows when all is read.
    suspected: bool,
}

impl Losses {
    /// All is read: what runs is counted anew.
    pub(crate) const fn recount(&mut self) {
        self.running = (0, 0);
    }

    fn count(&mut self, lost: Lost, within: Span, observed: Span) {
        if observed.0.saturating_sub(lost.at.0) < within.0 {
            let hosts = self.lately.entry(lost.at.0 / 1000).or_default();
            *hosts.entry(lost.host).or_default() += 1;
            self.grew = true;
        }
    }

    pub(crate) fn is_missing(&self, at: At) -> bool {
        self.missing.contains_key(&at)
    }

    /// Mesos says that a host is silent.
    pub(crate) fn note_silent(&mut self, host: &Arc<str>) {
        if !self.silent.contains(host) {
            self.silent.insert(Arc::clone(host));
        }
    }

    /// A host is there, under whatever id of its agent.
    pub(crate) fn note_there(&mut self, host: &Arc<str>, now: Timestamp) {
        if self.silent.remove(host) {
            self.returned.insert(Arc::clone(host), now);
        }
    }

    /// The sum of losses by host, in which a host that is back counts as one.
    fn weigh(&self, by_host: &BTreeMap<&Arc<str>, u64>) -> u64 {
        let weight = |(host, n): (&&Arc<str>, &u64)| {
            if self.returned.contains_key(*host) {
                1.min(*n)
            } else {
                *n
            }
        };
        by_host.iter().map(weight).sum()
    }

    /// What is missing, as far as no returned host explains it.
    fn unexplained(&self) -> u64 {
        let mut by_host: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for host in self.missing.values() {
            *by_host.entry(host).or_default() += 1;
        }
        self.weigh(&by_host)
    }

    /// Forgets hosts that returned long ago and of which nothing is missing.
    fn forget_returned(&mut self, within: Span, now: Timestamp) {
        let missing: BTreeSet<&Arc<str>> = self.missing.values().collect();
        self.returned
            .retain(|host, at| now.since(*at) < within || missing.contains(host));
    }
}

/// A run that was lost.
struct Lost {
    /// In observed time: leaders' clocks differ.
    at: Span,
    host: Arc<str>,
}

/// When, in observed time, the latest run was lost without a better explanation than that Mesos does not
/// know it any more.
pub(crate) fn lost_at(record: &InstanceRecord) -> Option<Span> {
    let run = record.run.as_ref().filter(|_| record.ended.is_none())?;
    let said = matches!(run.reason.code, ReasonCode::TaskGone | ReasonCode::TaskUnknown);
    let away = matches!(run.state, RunState::Lost | RunState::Unreachable);
    (said && away).then_some(run.observed_at)
}

/// The same of a run that is known to have run: what never did was not lost.
fn lost(record: &InstanceRecord) -> Option<Lost> {
    let at = lost_at(record)?;
    let run = record.run.as_ref().filter(|r| r.started_at.is_some())?;
    let host = Arc::clone(&run.hostname);
    Some(Lost { at, host })
}

/// The same of an instance that is to be here.
fn lost_of(group: &Group, n: InstanceNumber) -> Option<Lost> {
    let record = group.record(n)?;
    lost(record).filter(|_| group.holds(n, record.generation))
}

impl Shard {
    pub(crate) fn is_missing(&self, group: &Group, n: InstanceNumber) -> bool {
        lost_of(group, n).is_some()
    }

    /// Whether lost runs wait for an operator.
    pub(crate) const fn withholds(&self) -> bool {
        self.own.loss.is_some() || self.losses.suspected
    }

    /// The mass loss for which replacements wait, with its present figures.
    #[must_use]
    pub fn mass_loss(&self) -> Option<MassLoss> {
        let missing = u64::try_from(self.losses.missing.len()).unwrap_or(u64::MAX);
        self.own.loss.map(|loss| MassLoss {
            lost: loss.lost.max(missing),
            missing,
            ..loss
        })
    }

    /// Keeps the list of what is missing for one instance.
    pub(crate) fn note_missing(&mut self, at: At) {
        let group = self.picture.groups.get(&at.0);
        match group.and_then(|g| lost_of(g, at.1)) {
            Some(lost) => {
                let host = Arc::clone(&lost.host);
                let is_new = self.losses.missing.insert(at, host).is_none();
                if is_new && !self.adopts() {
                    self.losses
                        .count(lost, self.config.timing.loss.within, self.own.observed);
                }
            }
            None => {
                self.losses.missing.remove(&at);
            }
        }
    }

    /// Begins or ends the wait when there is reason to. True when instances are to be looked at again.
    pub(crate) fn judge_losses(&mut self) -> bool {
        if let Some(loss) = self.own.loss {
            let missing = self.losses.unexplained();
            let back = !self.is_recovering() && !self.config.timing.loss.is_exceeded(missing, loss.running);
            if back {
                self.end_loss();
            }
            return back;
        }
        let complete = !self.is_recovering();
        let settles = self.losses.suspected && complete;
        if !self.losses.grew && !settles {
            return false;
        }
        self.losses.grew = false;
        self.losses
            .forget_returned(self.config.timing.loss.within, self.now);
        let (lost, running) = self.lost_lately();
        let limit = self.config.timing.loss;
        let mass = lost >= limit.least && limit.is_exceeded(lost, running);
        let was = self.losses.suspected;
        self.losses.suspected = mass && !complete;
        if mass && complete {
            self.begin_loss(lost, running);
        }
        match (was, mass) {
            (false, true) => self.look_at_ready(),
            (true, false) => self.look_at_withheld(),
            _ => return false,
        }
        true
    }

    /// Tasks lost within the window, and those known to run at its beginning. What is told while state is read may take longer
    /// than the window, and counts as told at once.
    fn lost_lately(&mut self) -> (u64, u64) {
        if !self.is_recovering() {
            let (now, within) = (
                self.own.observed.0 / 1000,
                self.config.timing.loss.within.0 / 1000,
            );
            self.losses
                .lately
                .retain(|second, _| second.saturating_add(within) > now);
        }
        let mut by_host: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for (host, n) in self.losses.lately.values().flatten() {
            *by_host.entry(host).or_default() += n;
        }
        let all: u64 = by_host.values().sum();
        let lost = self.losses.weigh(&by_host);
        let second = self.now.0 / 1000;
        if self.losses.running.0 != second {
            let tallies = self.picture.groups.values().flat_map(|g| g.tallies.values());
            let running: u64 = tallies.map(|t| t.counts.get(RunState::Running)).sum();
            self.losses.running = (second, running.saturating_add(all));
        }
        (lost, self.losses.running.1)
    }

    fn begin_loss(&mut self, lost: u64, running: u64) {
        // Time is in it, so that what an operator accepted long ago never covers a later one.
        let number = self.now.0.max(self.own.last_loss.saturating_add(1));
        self.own.last_loss = number;
        self.own.loss = Some(MassLoss {
            number,
            since: self.now,
            running,
            lost,
            missing: lost,
        });
        self.out.push(Effect::Alarm(Alarm::MassLoss { lost, running }));
        self.tell_loss();
    }

    fn end_loss(&mut self) {
        self.own.loss = None;
        self.losses.lately.clear();
        self.tell_loss();
        self.look_at_withheld();
        self.picture.restless.extend(self.picture.groups.keys());
    }

    /// An operator accepts every mass loss up to this number: what is missing does not run any more. Its
    /// runs end, so that no patience is left to wait for, here or under a new leader, and hosts that Mesos
    /// does not know are no capacity.
    pub(crate) fn accept_loss(&mut self, number: u64) {
        let Some(loss) = self.own.loss.filter(|l| l.number <= number) else {
            return;
        };
        let missing: Vec<At> = self.losses.missing.keys().copied().collect();
        for at in missing {
            let Some(run) = self.picture.record(at).and_then(|r| r.run.clone()) else {
                continue;
            };
            if run.reason.code == ReasonCode::TaskUnknown {
                self.hosts.lose_unseen(&run.host, loss.since, self.now);
            }
            self.end_by_evidence((at, run.generation, run.number), ReasonCode::LossAccepted);
        }
        self.end_loss();
    }

    /// An operator has said that a run does not run any more, or its agent is gone.
    /// That is its end, whatever Mesos answers.
    pub(crate) fn end_by_evidence(&mut self, run: RunAt, code: ReasonCode) {
        let news = News {
            of: Whom::All,
            told: Told::Gone,
            reason: code.into(),
            exit_code: None,
            healthy: None,
            ready: None,
            fault: None,
            at: None,
        };
        if self.picture.run(run).is_some_and(|r| r.state == RunState::Lost) {
            // It counts as lost already. What Mesos said of it is evidence no more.
            self.edit(run.0, |record| {
                let of = |r: &&mut Run| (r.generation, r.number) == (run.1, run.2);
                if let Some(lost) = record.run.iter_mut().chain(&mut record.older).find(of) {
                    lost.reason = code.into();
                }
            });
        }
        self.take_in_news(run, &news);
        self.is_answered(run);
    }

    /// Stores it, and has it seen above without waiting for the next sign of life.
    fn tell_loss(&mut self) {
        self.journal.touch(Lane::OWN, self.now, Span::ZERO);
        self.beat_at = self.now;
        self.telling.capacity_at = self.now;
    }

    fn look_at_ready(&mut self) {
        for (number, group) in &self.picture.groups {
            let ready = group.ready.iter().map(|n| (*number, *n));
            self.picture.agenda.extend(ready);
        }
    }

    fn look_at_withheld(&mut self) {
        for (number, group) in &self.picture.groups {
            let withheld = group.withheld.iter().map(|n| (*number, *n));
            self.picture.agenda.extend(withheld);
        }
    }

    /// Keeps an instance on the list of those whose older runs are too many, or off it.
    pub(crate) fn note_crowded(&mut self, at: At, crowded: bool) {
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let changed = if crowded {
            group.crowded.insert(at.1)
        } else {
            group.crowded.remove(&at.1)
        };
        if changed {
            self.picture.unreported.insert(at.0);
        }
    }

    /// Keeps an instance on the list of those that wait for an operator, or off it.
    pub(crate) fn note_withheld(&mut self, at: At, withheld: bool) {
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let changed = if withheld {
            group.withheld.insert(at.1)
        } else {
            group.withheld.remove(&at.1)
        };
        if changed {
            self.picture.restless.insert(at.0);
            self.picture.unreported.insert(at.0);
        }
    }
}
