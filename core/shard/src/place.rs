//! Instances that want a host, put to placement in rounds: all hungry groups once whenever there is new room or new hunger.
//! An answer is verified against the present picture before its choices become intents.

use crate::Shard;
use crate::effects::Then;
use crate::event::Effect;
use crate::group::Group;
use crate::pace::Action;
use crate::picture::RunAt;
use echelon_core_hosts::{Arrival, Demand};
use echelon_core_model::cluster::HostView;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, InstanceId, InstanceNumber, JobId, Reason, ReasonCode, Timestamp};
use echelon_core_placement as placement;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// An answer of placement that takes longer than this is not waited for.
const LOST: Span = Span::seconds(10);

/// Who wants hosts, and the question under way.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    hungry: BTreeMap<u32, Hunger>,
    /// Groups with instances that wait to be granted.
    ungranted: BTreeSet<u32>,
    /// Groups still to be visited in this round: priority, age.
    round: BTreeSet<(Reverse<u32>, JobId, u32)>,
    /// Of these more wait than the problem under way asks for: they go on when something of it was placed.
    more: BTreeSet<(Reverse<u32>, JobId, u32)>,
    /// When a new round begins.
    round_at: Option<Timestamp>,
    token: u64,
    asked_at: Option<Timestamp>,
    /// Offers before this mark are compared with everything that is hungry by the present round, by the one before it.
    mark: Option<Arrival>,
    last_mark: Option<Arrival>,
    /// The present round leaves out some pending groups or some hosts.
    partial: bool,
    /// The question under way treats some hosts as exclusive only because specs of their tasks are still being read.
    reading: bool,
    /// Counts the hungers that room refused before was not compared with.
    news: u64,
}

/// Instances of a group that want a host now.
#[derive(Debug, Clone)]
pub(crate) struct Hungry {
    pub(crate) group: u32,
    pub(crate) numbers: Vec<InstanceNumber>,
}

/// A group's wish for hosts.
#[derive(Debug, Clone, Copy)]
struct Hunger {
    spec_version: u32,
    /// Revivals before it began: a later one brings back what was refused before.
    revivals: u64,
    /// It was counted in `news`.
    told: bool,
}

impl Placing {
    /// There is new hunger or new room: a round begins soon.
    pub(crate) fn hungrier(&mut self, now: Timestamp, delay: Span) {
        let at = now.plus(delay);
        self.round_at = Some(self.round_at.map_or(at, |was| was.min(at)));
    }

    /// The answer to the question under way is of no use any more.
    pub(crate) fn ask_anew(&mut self, now: Timestamp) {
        if self.asked_at.take().is_some() {
            self.hungrier(now, Span::ZERO);
        }
    }

    /// Notes whether a group wants hosts, for which spec version, and how often offers were revived so far.
    pub(crate) fn note_hunger(&mut self, group: u32, spec_version: Option<u32>, revivals: u64) {
        let Some(spec_version) = spec_version else {
            self.hungry.remove(&group);
            return;
        };
        let known = self.hungry.get(&group);
        if known.is_none_or(|h| h.spec_version != spec_version) {
            let hunger = Hunger {
                spec_version,
                revivals,
                told: false,
            };
            self.hungry.insert(group, hunger);
        }
    }

    /// What a group wants may be had from now on: what was refused before may be of use to it.
    pub(crate) fn hunger_anew(&mut self, group: u32, revivals: u64) {
        if let Some(hunger) = self.hungry.get_mut(&group) {
            *hunger = Hunger {
                revivals,
                told: false,
                ..*hunger
            };
        }
    }

    /// Notes whether a group has instances that wait to be granted.
    pub(crate) fn note_ungranted(&mut self, group: u32, waits: bool) {
        if waits {
            self.ungranted.insert(group);
        } else {
            self.ungranted.remove(&group);
        }
    }

    /// A group found no room among what is offered: what was refused before it was hungry may fit.
    fn seek(&mut self, group: u32, revivals: u64) {
        let waits = self.hungry.get_mut(&group);
        if let Some(hunger) = waits.filter(|h| !h.told && h.revivals == revivals) {
            hunger.told = true;
            self.news += 1;
        }
    }

    /// What is offered is not what a group is to have: what was refused before is asked for again.
    pub(crate) fn ask_for_offers(&mut self, group: u32, revivals: u64) {
        self.hunger_anew(group, revivals);
        self.seek(group, revivals);
    }

    /// Whether a round is under way.
    fn is_at_work(&self) -> bool {
        self.asked_at.is_some() || !self.round.is_empty()
    }

    /// Whether anything waits for a host.
    pub(crate) fn is_hungry(&self) -> bool {
        !self.hungry.is_empty()
    }

    /// Whether a round waits for launches to be allowed again.
    pub(crate) fn next_launches(&self, acting: bool) -> Option<()> {
        (acting && self.asked_at.is_none() && !self.round.is_empty()).then_some(())
    }

    /// When placement is asked next, if it may be, or not waited for any more.
    pub(crate) fn next_due(&self, acting: bool) -> Option<Timestamp> {
        match self.asked_at {
            Some(at) => Some(at.plus(LOST)),
            None if acting && !self.hungry.is_empty() => self.round_at,
            None => None,
        }
    }
}

impl Shard {
    /// Asks placement, when something is hungry and there is something new since it was last asked.
    pub(crate) fn ask_placement(&mut self) {
        if self.placing.asked_at.is_some_and(|at| self.now >= at.plus(LOST)) {
            self.placing.ask_anew(self.now);
        }
        if !self.may_begin() || self.placing.asked_at.is_some() {
            return;
        }
        if self.placing.round_at.is_some_and(|at| at <= self.now) {
            self.count_daemons_of_other_hosts();
            self.placing.round_at = None;
            self.begin_round();
        }
        let groups = self.next_wanted();
        if groups.is_empty() {
            return;
        }
        self.placing.token += 1;
        self.placing.asked_at = Some(self.now);
        let mut others = self.unread_neighbours();
        self.placing.reading = !others.is_empty() && (self.is_recovering() || self.reads_specs());
        others.extend(self.neighbours(groups.iter()));
        if self.placing.reading {
            // Keep the offers of these hosts for the next round: their tasks may turn out not to be exclusive.
            self.placing.partial = true;
            self.placing.hungrier(self.now, self.config.timing.storage_retry);
        }
        let (hosts, otherwise) = self.hosts_of_question(&groups);
        let token = self.placing.token;
        self.out.push(Effect::Place(placement::Problem {
            token,
            groups,
            hosts,
            otherwise,
            sharing: self.hosts.sharing().clone(),
            others,
        }));
    }

    fn begin_round(&mut self) {
        let hungry = self.placing.hungry.keys();
        self.placing.round = hungry.filter_map(|n| self.rank(*n)).collect();
        self.placing.more.clear();
        self.placing.last_mark = self.placing.mark.replace(self.hosts.mark());
        self.placing.partial = false;
    }

    /// The place of a group in a round.
    fn rank(&self, number: u32) -> Option<(Reverse<u32>, JobId, u32)> {
        let group = self.picture.groups.get(&number)?;
        let priority = group.spec.as_ref().map_or(0, |s| s.precedence());
        Some((Reverse(priority), group.job(), number))
    }

    /// How many may be launched now, at most a problem's size, when anything waits for that.
    fn launches_left(&mut self) -> usize {
        if self.placing.round.is_empty() {
            return 0;
        }
        let left = self.paces.left(Action::Launch, self.now);
        left.min(self.config.timing.place_batch.max(1))
    }

    /// What offers are wanted for: what is still being read may want some, too. A frozen shard starts nothing.
    pub(crate) fn demand(&self) -> Demand {
        if self.is_frozen() {
            Demand::Nothing
        } else if self.placing.is_hungry() || self.is_recovering() {
            Demand::Hosts {
                news: self.placing.news,
                placing: self.placing.is_at_work(),
            }
        } else if self.has_volumes_to_destroy()
            || self.waits_for_capacity() && !self.hosts.knows_all(self.now)
        {
            Demand::Capacity
        } else {
            Demand::Nothing
        }
    }

    /// Whether instances wait to be granted, which depends on the capacity that is known.
    pub(crate) fn waits_for_capacity(&self) -> bool {
        !self.placing.ungranted.is_empty()
    }

    /// When a round has compared everything hungry with what is offered, the rest is of no use. While another round is to
    /// come, it may be of use to that one, and to no later one.
    fn end_round(&mut self) {
        let placing = &self.placing;
        if placing.is_at_work() || placing.partial {
            return;
        }
        let mark = if placing.round_at.is_none() {
            placing.mark
        } else {
            placing.last_mark
        };
        if let Some(mark) = mark {
            self.hosts.compared(mark, self.now);
        }
    }

    /// The next groups of the round with what they want, up to a problem's size.
    fn next_wanted(&mut self) -> Vec<placement::Wanted> {
        let mut out = Vec::new();
        let launches = self.launches_left();
        let mut left = self.question_room(launches);
        while left.launches > 0
            && let Some(entry) = self.placing.round.pop_first()
        {
            let number = entry.2;
            let Some(group) = self.picture.groups.get(&number) else {
                continue;
            };
            if !self.is_fresh(group) {
                let job = group.job();
                self.placing.partial = true;
                self.refresh(job);
                continue;
            }
            if self.awaits_neighbours(group) || self.awaits_access(group) {
                self.placing.partial = true;
                self.placing.hungrier(self.now, self.config.timing.storage_retry);
                continue;
            }
            if group.spec.as_ref().is_some_and(|s| s.gang.is_some()) {
                let job = group.job();
                let bytes = self.launch_bytes_of_gang(group);
                if !left.has_room_for_gang(bytes) {
                    self.wait_for_credit(entry);
                    break;
                }
                let n = self.gang_wanted(job, left.launches, &mut out);
                // All of it is asked for at once, or in the next problem.
                if n > left.launches && !out.iter().any(|w| w.job == job) {
                    self.placing.round.insert(entry);
                    break;
                }
                self.placing.round.retain(|(_, of, _)| *of != job);
                left = left.minus_gang(n, bytes);
                continue;
            }
            let bytes = self.launch_bytes(group);
            let most = left.of(bytes);
            if most == 0 {
                self.wait_for_credit(entry);
                break;
            }
            let numbers = self.wanting(group, most);
            let appetite = usize::try_from(group.appetite(self.now)).unwrap_or(usize::MAX);
            let numbers = self.without_waiting(number, numbers);
            left = left.minus(numbers.len(), bytes);
            if appetite > numbers.len() {
                // What did not fit into this problem is for the next one; others may not begin yet.
                if left.of(bytes) == 0 {
                    self.placing.more.insert(entry);
                } else if !self.starts_forbidden() {
                    self.placing.partial = true;
                }
            }
            let group = self.picture.groups.get(&number);
            for mut wanted in group.map_or_else(Vec::new, |g| self.wanted(g, numbers)) {
                self.bind_claimed(&mut wanted);
                out.push(wanted);
            }
        }
        self.claimants_first(out)
    }

    /// What wants a host, and all behind it, is asked for when its launch has room.
    fn wait_for_credit(&mut self, entry: (Reverse<u32>, JobId, u32)) {
        self.placing.round.insert(entry);
        self.credit.note_short();
    }

    /// Where capacity is held for something that is not bound to it, placement is asked for that alone, and for the
    /// others in the next problem: what is held is open in its own problem, and others would take it.
    fn claimants_first(&mut self, wanted: Vec<placement::Wanted>) -> Vec<placement::Wanted> {
        let claimant = wanted
            .iter()
            .find(|w| self.finds_its_held_capacity(w))
            .map(|w| w.job);
        let Some(job) = claimant else {
            return wanted;
        };
        let (own, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|w| w.job == job);
        let numbers = others
            .iter()
            .filter_map(|w| self.picture.number_of(w.job, &w.group));
        let entries: Vec<_> = numbers.filter_map(|n| self.rank(n)).collect();
        self.placing.round.extend(entries);
        own
    }

    /// Adds what a gang wants, all of it or nothing: as much as is `left`, or, as the first of a problem, whatever it is; what goes
    /// beyond the pace is made up for by those who follow. Tells how many.
    fn gang_wanted(&mut self, job: JobId, left: usize, out: &mut Vec<placement::Wanted>) -> usize {
        let hunger = self.gang_hunger(job);
        self.note_gang_waits(job, hunger.is_none());
        let hunger = hunger.unwrap_or_default();
        let n = hunger.iter().map(|h| h.numbers.len()).sum();
        if n > left && !out.is_empty() {
            return n;
        }
        let wanted = |of: Hungry| {
            let group = self.picture.groups.get(&of.group);
            group.map_or_else(Vec::new, |g| self.wanted(g, of.numbers))
        };
        let mut gang: Vec<placement::Wanted> = hunger.into_iter().flat_map(wanted).collect();
        self.note_together(job, &mut gang);
        self.bind_claimed_gang(&mut gang);
        out.extend(gang);
        n
    }

    /// Whether goal, spec and assignment are known freshly enough to begin a run by them.
    pub(crate) fn is_fresh(&self, group: &Group) -> bool {
        self.now < group.heard_at.plus(self.config.timing.reread) && group.group_spec().is_some()
    }

    /// Takes an answer in: what still holds becomes intents, to be launched when they are durable.
    pub(crate) fn on_placed(&mut self, answer: &placement::Answer) {
        if self.placing.asked_at.is_none() || answer.token != self.placing.token {
            return;
        }
        self.placing.asked_at = None;
        self.note_unplaced(&answer.unplaced);
        if !self.may_act() || !self.contact.subscribed {
            self.placing.hungrier(self.now, self.config.timing.storage_retry);
            return;
        }
        let mut room = self.unspoken_room(answer);
        let mut by_host: BTreeMap<HostId, Vec<RunAt>> = BTreeMap::new();
        self.note_tries(answer);
        let overtaken = self.overtaken_gangs(answer, &room);
        let held_back = self.choices_held_back(answer);
        for choice in &answer.choices {
            if held_back.contains(&choice.instance) {
                self.placing.partial = true;
                continue;
            }
            let stands = !overtaken.contains(&choice.instance.job);
            let at = room.get_mut(&choice.host).filter(|_| stands);
            let begun = at.and_then(|at| self.intend(choice, at));
            match begun {
                Some(run) => {
                    let InstanceId { job, group, .. } = &choice.instance;
                    self.claims.launched(*job, group, &choice.host);
                    by_host.entry(choice.host.clone()).or_default().push(run);
                }
                // Overtaken: who still wants a host asks again.
                None => {
                    self.placing.partial = true;
                    self.placing.hungrier(self.now, self.config.timing.commit_delay);
                }
            }
        }
        // What is like them would find no room either, and would be asked for without end.
        let more = std::mem::take(&mut self.placing.more);
        if !by_host.is_empty() {
            self.placing.round.extend(more);
        }
        let gangs = self.points_of_gangs(by_host.values().flatten());
        for (host, runs) in by_host {
            let mut points = self.points_of(&runs);
            // Nothing of a gang is launched before all of it is durable.
            let jobs = runs.iter().filter_map(|(at, ..)| self.picture.groups.get(&at.0));
            let of_gangs = jobs.filter_map(|g| gangs.get(&g.job()));
            points.extend(of_gangs.flatten());
            self.hosts.speak_for(&host);
            self.journal.when_durable(points, Then::Launch(host, runs));
        }
        self.end_round();
    }

    /// The room of hosts that nobody has spoken for; their ports only where a choice has any.
    fn unspoken_room(&self, answer: &placement::Answer) -> BTreeMap<HostId, HostView> {
        let chosen: BTreeSet<&HostId> = answer.choices.iter().map(|c| &c.host).collect();
        let mut views = self.hosts.views_of(chosen, self.now);
        if answer.choices.iter().any(|c| !c.ports.is_empty()) {
            self.hosts.add_ports(&mut views);
        }
        views.into_iter().map(|v| (v.id.clone(), v)).collect()
    }

    fn note_unplaced(&mut self, unplaced: &[placement::Unplaced]) {
        for group in self.picture.groups.values_mut() {
            group.unplaced.clear();
        }
        for left in unplaced {
            let Some(number) = self.picture.number_of(left.job, &left.group) else {
                continue;
            };
            if let Some(group) = self.picture.groups.get_mut(&number) {
                let reason = if self.placing.reading && left.reason.code == ReasonCode::HostExclusive {
                    Reason::new(ReasonCode::Recovering)
                } else {
                    left.reason.clone()
                };
                group.unplaced.push((reason, left.numbers.count()));
                self.placing.seek(number, self.hosts.revivals());
            }
            self.picture.unreported.insert(number);
        }
    }
}
