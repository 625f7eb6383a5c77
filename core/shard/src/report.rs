//! What the resource manager is told: a full report on connect and on demand, then what changed, in small batches, in order,
//! and only of durable facts.

use crate::effects::Then;
use crate::event::{Effect, LinkId};
use crate::group::Group;
use crate::waiting::Hindrance;
use crate::{Phase, Shard};
use echelon_core_model::directive::{Capacity, RETURNABLE, Report, ReportPart, SliceReport};
use echelon_core_model::health::ShardSigns;
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::Desired;
use echelon_core_model::{Generation, InstanceNumber, JobId, RangeSet, ReasonCode, RunState, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// Slices a report part.
const SLICES_A_PART: usize = 256;
/// Archived jobs a report part.
const JOBS_A_PART: usize = 1_000;

/// What is to be told.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    /// Batches in order; the first waits until everything written before it was made is durable.
    pub(crate) batches: VecDeque<Vec<(LinkId, ReportPart)>>,
    waiting: bool,
    sequence: u64,
    /// Ended jobs of which nothing is left here, to be told.
    pub(crate) archived: BTreeSet<JobId>,
    /// When changes are told next.
    pub(crate) due: Option<Timestamp>,
    /// When changes were told last.
    changes_told: Timestamp,
    /// When the capacity is looked at next.
    pub(crate) capacity_at: Timestamp,
    /// The capacity that was last reported.
    told: Option<Capacity>,
    /// When what the shard observes is sent next, when it was sent last, and what that was, without ages.
    pub(crate) signs_at: Timestamp,
    pub(crate) signs_sent: Option<Timestamp>,
    pub(crate) signs_told: Option<ShardSigns>,
}

impl Shard {
    pub(crate) fn on_link_closed(&mut self, link: LinkId) {
        self.links.close(link);
        self.orders.forget_link(link);
        self.recovery.held.forget_link(link);
        for batch in &mut self.telling.batches {
            batch.retain(|(l, _)| *l != link);
        }
    }

    /// Sends one part at once.
    pub(crate) fn tell(&mut self, link: LinkId, part: ReportPart) {
        self.telling.sequence += 1;
        let report = Report {
            cluster: self.config.cluster.clone(),
            epoch: self.epoch,
            sequence: self.telling.sequence,
            part,
        };
        self.out.push(Effect::Report(link, report));
    }

    pub(crate) fn report_all(&mut self) {
        let links = self.links.proven();
        links.into_iter().for_each(|l| self.report_fully(l));
    }

    /// Tells everything to one link: start, parts, end.
    pub(crate) fn report_fully(&mut self, link: LinkId) {
        let all: BTreeSet<u32> = self.picture.groups.keys().copied().collect();
        let mut batch = vec![(link, ReportPart::FullStart)];
        // Before the signs, with which the manager begins to judge this cluster.
        batch.extend(self.starts_part().map(|p| (link, p)));
        batch.push((link, ReportPart::Signs(self.signs())));
        batch.extend(self.parts(&all).into_iter().map(|p| (link, p)));
        batch.push((link, self.claims.report()));
        batch.extend(self.found_parts().into_iter().map(|p| (link, p)));
        batch.push((link, ReportPart::Capacity(Box::new(self.capacity()))));
        batch.extend(self.fits_part(link));
        batch.push((link, ReportPart::FullEnd));
        self.enqueue(batch);
    }

    /// Tells what changed, when it is due and nothing older is on its way.
    pub(crate) fn keep_reporting(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        self.report_capacity();
        self.report_claims();
        self.report_archived();
        if self.picture.unreported.is_empty() {
            // What was to be told may have gone to the archive: a time that nothing waits for would wake us for ever.
            self.telling.due = None;
            return;
        }
        let next = self.telling.changes_told.plus(self.config.timing.report_apart);
        let due = *self.telling.due.get_or_insert(next.max(self.now));
        if due > self.now || !self.telling.batches.is_empty() {
            return;
        }
        self.telling.due = None;
        self.telling.changes_told = self.now;
        let changed = std::mem::take(&mut self.picture.unreported);
        let parts = self.parts(&changed);
        let links = self.links.proven();
        let batch = links
            .iter()
            .flat_map(|l| parts.iter().map(|p| (*l, p.clone())))
            .collect();
        self.enqueue(batch);
    }

    /// What has become of claims: before the slices that were changed by it, so that nobody counts room as held for an instance
    /// that has begun.
    fn report_claims(&mut self) {
        if self.is_recovering() {
            return;
        }
        if let Some(part) = self.claims.news() {
            let links = self.links.proven();
            self.enqueue(links.into_iter().map(|l| (l, part.clone())).collect());
        }
    }

    /// Of which jobs nothing is left here. What is told to nobody is asked for again.
    fn report_archived(&mut self) {
        let jobs: Vec<JobId> = std::mem::take(&mut self.telling.archived).into_iter().collect();
        let links = self.links.proven();
        for part in jobs.chunks(JOBS_A_PART) {
            let part = ReportPart::Archived(part.to_vec());
            self.enqueue(links.iter().map(|l| (*l, part.clone())).collect());
        }
    }

    pub(crate) fn enqueue(&mut self, batch: Vec<(LinkId, ReportPart)>) {
        if batch.is_empty() {
            return;
        }
        self.telling.batches.push_back(batch);
        self.await_durable_facts();
    }

    fn await_durable_facts(&mut self) {
        if !self.telling.waiting {
            self.telling.waiting = true;
            let points = self.open_points();
            self.journal.when_durable(points, Then::Report);
        }
    }

    /// The facts of the first batch are durable: it is sent.
    pub(crate) fn send_reports(&mut self) {
        self.telling.waiting = false;
        for (link, part) in self.telling.batches.pop_front().unwrap_or_default() {
            self.tell(link, part);
        }
        if !self.telling.batches.is_empty() {
            self.await_durable_facts();
        }
    }

    /// The capacity, when it changed.
    fn report_capacity(&mut self) {
        if self.telling.capacity_at > self.now || self.is_recovering() {
            return;
        }
        self.telling.capacity_at = self.now.plus(self.config.timing.capacity_delay);
        self.report_fits();
        let capacity = self.capacity();
        if self.telling.told.as_ref() == Some(&capacity) {
            return;
        }
        self.telling.told = Some(capacity.clone());
        let links = self.links.proven();
        for link in links {
            self.tell(link, ReportPart::Capacity(Box::new(capacity.clone())));
        }
    }

    /// The cluster's hosts in sum.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        Capacity {
            loss: self.own.loss.map(|l| l.number),
            ..self.hosts.capacity(self.now)
        }
    }

    fn parts(&mut self, numbers: &BTreeSet<u32>) -> Vec<ReportPart> {
        let hindrance = self.hindrance();
        let (picture, now) = (&mut self.picture, self.now);
        let mut slices: Vec<SliceReport> = Vec::new();
        for number in numbers {
            // Of one that is not read yet it would seem that nothing is here.
            if let Some(group) = picture.groups.get_mut(number).filter(|g| g.is_read()) {
                match &group.set_aside {
                    Some(aside) => slices.extend(group.report_set_aside(aside)),
                    None => slices.extend(group.report(&hindrance, now)),
                }
            }
        }
        let chunks = slices.chunks(SLICES_A_PART);
        chunks.map(|c| ReportPart::Slices(c.to_vec())).collect()
    }
}

impl Group {
    /// Whether it is served, or it is known that it cannot be. A new leader's report of all follows when that is so of each.
    const fn is_read(&self) -> bool {
        self.served || self.set_aside.is_some()
    }

    /// The group's slices as they are now, one a generation.
    fn report(&mut self, hindrance: &Hindrance, now: Timestamp) -> Vec<SliceReport> {
        let mut held = self.held();
        let released = self.row.released.keys();
        let live = self.tallies.iter().filter(|(_, t)| t.live > 0).map(|(g, _)| g);
        let mut all: BTreeSet<Generation> = held.keys().chain(released).chain(live).copied().collect();
        if all.is_empty() {
            // Nothing was ever held: that is what is to be confirmed.
            all.insert(Generation(0));
        }
        let out = all.into_iter().map(|g| {
            let held = held.remove(&g).unwrap_or_default();
            self.report_of(g, held, hindrance, now)
        });
        out.collect()
    }

    /// Numbers that wait to run where their volumes are.
    fn n_bound(&self, g: Generation, held: &RangeSet) -> u64 {
        if !self.asks_for_volumes() {
            return 0;
        }
        let Some(startable) = self.startable.get(&g) else {
            return 0;
        };
        let waiting = startable.intersect(held);
        let bound = waiting.ranges().iter().map(|r| self.with_volume(*r).count());
        bound.sum()
    }

    /// Held numbers that a mark by count can get back: the highest. Those between two runs follow as soon as
    /// their grant is smaller.
    fn returnable(&self, g: Generation, held: &RangeSet) -> RangeSet {
        let startable = self.startable.get(&g).map(|set| set.intersect(held));
        let free = startable.unwrap_or_default().union(&self.between_runs(g));
        let mut out = RangeSet::new();
        for range in free.ranges().iter().rev() {
            let one: RangeSet = std::iter::once(*range).collect();
            let free = one.minus(&self.with_volume(*range));
            for range in free.ranges().iter().rev() {
                if out.ranges().len() >= RETURNABLE {
                    return out;
                }
                out.insert(*range);
            }
        }
        out
    }

    /// Instances of the slice that are of the version wanted and available, and not for long enough.
    fn settling_at(&self, g: Generation) -> u64 {
        let revision = self.revision();
        let new = |r: &InstanceRecord| r.run.as_ref().is_some_and(|r| r.spec_version == revision);
        let here = |n: &&InstanceNumber| self.record(**n).is_some_and(|r| r.generation == g && new(r));
        u64::try_from(self.settling.iter().filter(here).count()).unwrap_or(u64::MAX)
    }

    fn report_of(
        &mut self,
        g: Generation,
        held: RangeSet,
        hindrance: &Hindrance,
        now: Timestamp,
    ) -> SliceReport {
        let tally = self.tallies.get(&g).copied().unwrap_or_default();
        let times = self.times.get(&g).copied().unwrap_or_default();
        let ended = tally.succeeded + tally.failed + tally.stopped;
        let unstarted = held.count().saturating_sub(tally.active).saturating_sub(ended);
        let mut counts = tally.counts;
        counts.add(
            RunState::Pending,
            held.count().saturating_sub(tally.counts.total()),
        );
        let wanted = self
            .wish
            .as_ref()
            .is_none_or(|w| w.goal.desired == Desired::Running);
        let mut waiting = if wanted {
            self.waiting(g, hindrance, now)
        } else {
            Vec::new()
        };
        let stopping = counts.get(RunState::Stopping);
        let withheld = hindrance.kills_off.filter(|_| stopping > 0);
        waiting.extend(withheld.map(|since| (ReasonCode::KillsOff.into(), stopping, since)));
        SliceReport {
            job: self.row.job,
            group: self.row.group.clone(),
            generation: g,
            head_version: self.wish.as_ref().map(|w| w.head_version).unwrap_or_default(),
            grant_number: self.row.grants.get(&g).map_or(0, |grant| grant.number),
            granted: self.allowed(g, now),
            released: self.row.released.get(&g).cloned().unwrap_or_default(),
            active: tally.active,
            between_runs: if wanted { self.between_runs(g).count() } else { 0 },
            returnable: if wanted {
                self.returnable(g, &held)
            } else {
                RangeSet::new()
            },
            // Under a stop nothing of these will begin: they are stopped.
            unstarted: if wanted {
                unstarted.saturating_sub(self.n_bound(g, &held))
            } else {
                0
            },
            stopped: tally.stopped + if wanted { 0 } else { unstarted },
            counts,
            succeeded: tally.succeeded,
            failed: tally.failed,
            live: tally.live,
            waiting,
            outdated: u64::try_from(self.outdated.len()).unwrap_or(u64::MAX),
            max_unavailable: self.part_in_force(),
            part_number: self.part_number,
            own: self.own(g),
            preempting: tally.preempting,
            first_begun: times.first_begun,
            last_begun: times.last_begun,
            last_ended: times.last_ended,
            revision: self.revision(),
            updated: tally.updated.saturating_sub(self.settling_at(g)),
            update_failures: tally.update_failures,
            hosts: self.homes.as_ref().map(|homes| homes.count),
            restarting: self.under_restart(),
            crash_looping: u64::try_from(self.crash_looping.len()).unwrap_or(u64::MAX),
            unavailable: self.unavailable(),
            first_behind: self.first_behind(),
            held,
        }
    }
}
