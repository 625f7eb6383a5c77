//! The interface of the state machine: events in, effects out. It acts only while it leads. Its state is in
//! `picture`, and operations under way are in `ops`. The steps themselves are in the files named after them.

use crate::checks::sum_audit::SumFaults;
use crate::config::Config;
use crate::cycle::CycleReport;
use crate::demand::instance_limits::AllowedInstances;
use crate::effect::Effect;
use crate::event::Event;
use crate::facts::cluster::ClusterView;
use crate::facts::loss::SelfObservation;
use crate::facts::reports;
use crate::facts::reports::HeardClaims;
use crate::leadership::resume::Resume;
use crate::leadership::tenure::Tenure;
use crate::lifecycle::dependents::Awaited;
use crate::lifecycle::retirement::Returning;
use crate::lifecycle::timer_queue::Agenda;
use crate::lifecycle::tombstones::Tombstone;
use crate::orders::resends::Resends;
use crate::picture::Picture;
use crate::returns::start_bans::StartBanning;
use crate::returns::stored_releases::StoredReleases;
use crate::storage::filing::Filing;
use crate::storage::flows::Flows;
use crate::storage::operations::Ops;
use crate::turns::AllTurns;
use echelon_core_model::claim::ClaimId;
use echelon_core_model::directive::{Directive, Order};
use echelon_core_model::store::{Evidence, Op, Stamp, TroubleKind, Write};
use echelon_core_model::{ClusterId, Epoch, JobId, PoolId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a resource manager is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// This process does not lead.
    Follower,
    /// Elected: the epoch is being taken.
    Taking,
    /// Storage was rolled back: the epoch is read again from time to time.
    Frozen(Timestamp),
    /// Everything stored is being read.
    Recovering,
    /// Decides.
    Leading,
}

/// When things were last done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Timers {
    pub(crate) confirmed: Timestamp,
    pub(crate) confirm_asked: Timestamp,
    pub(crate) leading: Timestamp,
    pub(crate) bucket: Timestamp,
    pub(crate) reread: Timestamp,
    pub(crate) heartbeats: Timestamp,
    /// Until when the cycles that ran have used up their time.
    pub(crate) cycle: Timestamp,
    pub(crate) full_cycle: Timestamp,
    pub(crate) numbers: Timestamp,
    /// When sums were last checked.
    pub(crate) audit: Timestamp,
}

/// The resource manager. Acts only between an `Elected` and the next `Deposed`.
#[derive(Debug)]
pub struct ResourceManager {
    pub(crate) config: Config,
    pub(crate) phase: Phase,
    pub(crate) tenure: Tenure,
    /// What came while the leadership was in doubt, to be taken in when it is certain again.
    pub(crate) came_meanwhile: Vec<Event>,
    pub(crate) epoch: Epoch,
    pub(crate) published: Stamp,
    /// What was found before the epoch is taken.
    pub(crate) evidence: Evidence,
    /// The last resume of storage, and whether clusters have reported what they found since.
    pub(crate) resume: Resume,
    /// Why nothing is decided; empty while it is not frozen.
    pub(crate) frozen: String,
    pub(crate) ops: Ops,
    pub(crate) picture: Picture,
    /// What the cycle of the last step did, if it had one.
    pub(crate) last_cycle: Option<Box<CycleReport>>,
    pub(crate) timers: Timers,
    /// What storage last failed with, and when, unless it has answered since.
    pub(crate) trouble: Option<(Timestamp, TroubleKind)>,
    /// Jobs to look at in the next cycle.
    pub(crate) dirty: BTreeSet<JobId>,
    /// Jobs that may need other grants because of what has changed.
    pub(crate) regrant: BTreeSet<JobId>,
    /// Jobs with progress that may have to be written.
    pub(crate) unwritten: BTreeSet<JobId>,
    /// When grants are renewed.
    pub(crate) renewals: BTreeSet<(Timestamp, JobId)>,
    /// Cursors over jobs that are looked at a few at a time.
    pub(crate) turns: AllTurns,
    /// Clusters of which a stream has opened, and how far orders were sent over it.
    pub(crate) resends: Resends,
    /// Whether a cycle is due: demand, capacity, pools or clusters changed, or work of a cycle is left.
    pub(crate) due: bool,
    pub(crate) todo: VecDeque<(crate::storage::operations::Purpose, Op)>,
    pub(crate) next_bucket: u16,
    /// Writes of assignments under way, by partition.
    pub(crate) putting: BTreeMap<u16, crate::orders::writes::Put>,
    /// How many writes of this epoch each partition has taken.
    pub(crate) written: BTreeMap<u16, u64>,
    /// Owned writes that wait for the next commit.
    pub(crate) writes: Vec<Write>,
    /// Jobs with rows that the commit under way writes.
    pub(crate) committing: Option<Vec<JobId>>,
    /// Heads, progress and assignments are read; what is left of recovering are specs.
    pub(crate) all_read: bool,
    /// Heads that are left of jobs, by id and so by the time they were made.
    pub(crate) tombstones: BTreeMap<JobId, Tombstone>,
    /// Jobs that have ended and are to be deleted, while their rows are read again.
    pub(crate) returning: BTreeMap<JobId, Returning>,
    /// Assignments of ended jobs that leave what new leaders read.
    pub(crate) filing: Filing,
    /// Flows of several storage steps: heads that the leader changes, and jobs that schedules make.
    pub(crate) flows: Flows,
    /// What gateways were allowed to store, and what of it is not read yet.
    pub(crate) allowed: AllowedInstances,
    /// Timer queue of jobs that are looked at again because time alone changes what their rules demand.
    pub(crate) agenda: Agenda,
    pub(crate) awaited: Awaited,
    /// Jobs by the template that they were made of.
    pub(crate) children: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Pools that are to be removed, and when this leader learned of it.
    pub(crate) leaving_pools: BTreeMap<PoolId, Timestamp>,
    pub(crate) numbers: Numbers,
    /// Jobs with a row that cannot be understood.
    pub(crate) aside: BTreeSet<JobId>,
    /// Rows that cannot be understood and that an alarm has reported, by table and key.
    pub(crate) told_rows: BTreeSet<(&'static str, String)>,
    /// What was found wrong with sums.
    pub(crate) sum_faults: SumFaults,
    /// Where starts are forbidden, and what goes elsewhere from there.
    pub(crate) start_banning: StartBanning,
    /// Reads of what shards that hear no resource manager have released.
    pub(crate) stored_releases: StoredReleases,
    /// What this leader observes of itself.
    pub(crate) self_observation: SelfObservation,
}

/// Numbers that never repeat within an epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Numbers {
    stamp: u64,
    directive: u64,
    grant: u64,
    claim: u64,
}

impl Numbers {
    /// The next grant's number. It contains the epoch. So a shard's report about an older leader's grant is
    /// never mistaken for one about a grant of this leader.
    pub(crate) const fn grant(&mut self, epoch: Epoch) -> u64 {
        self.grant += 1;
        epoch.0 << 40 | self.grant
    }

    /// The next preemption request's id.
    pub(crate) const fn claim(&mut self, epoch: Epoch) -> ClaimId {
        self.claim += 1;
        ClaimId {
            epoch,
            number: self.claim,
        }
    }
}

impl ResourceManager {
    /// One that does not lead.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            ops: Ops::new(&config),
            config,
            phase: Phase::Follower,
            tenure: Tenure::Able,
            came_meanwhile: Vec::new(),
            epoch: Epoch(0),
            published: Stamp::default(),
            evidence: Evidence::default(),
            resume: Resume::default(),
            frozen: String::new(),
            picture: Picture::default(),
            last_cycle: None,
            timers: Timers::default(),
            trouble: None,
            dirty: BTreeSet::new(),
            regrant: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            renewals: BTreeSet::new(),
            turns: AllTurns::default(),
            resends: Resends::default(),
            due: false,
            todo: VecDeque::new(),
            next_bucket: 0,
            putting: BTreeMap::new(),
            written: BTreeMap::new(),
            writes: Vec::new(),
            committing: None,
            all_read: false,
            tombstones: BTreeMap::new(),
            returning: BTreeMap::new(),
            filing: Filing::default(),
            flows: Flows::default(),
            allowed: AllowedInstances::default(),
            agenda: Agenda::default(),
            awaited: Awaited::default(),
            children: BTreeMap::new(),
            leaving_pools: BTreeMap::new(),
            numbers: Numbers::default(),
            aside: BTreeSet::new(),
            told_rows: BTreeSet::new(),
            sum_faults: SumFaults::default(),
            start_banning: StartBanning::default(),
            stored_releases: StoredReleases::default(),
            self_observation: SelfObservation::default(),
        }
    }

    /// What it knows, for checkers and metrics.
    #[must_use]
    pub const fn picture(&self) -> &Picture {
        &self.picture
    }

    /// What each stage of the last step's cycle did; `None`: the step had none.
    #[must_use]
    pub fn last_cycle(&self) -> Option<&CycleReport> {
        self.last_cycle.as_deref()
    }

    /// Its epoch, while it leads and has read everything.
    #[must_use]
    pub fn leading(&self) -> Option<Epoch> {
        (self.phase == Phase::Leading).then_some(self.epoch)
    }

    /// Whether it decides nothing because storage is behind what the membership has seen.
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        matches!(self.phase, Phase::Frozen(_))
    }

    /// Why it is frozen.
    #[must_use]
    pub fn frozen(&self) -> Option<&str> {
        self.is_frozen().then_some(self.frozen.as_str())
    }

    /// Takes one event in; `out` gets what is to be done, in order.
    pub fn step(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
        if self.is_suspended() {
            self.wait(event, now, out);
        } else {
            self.act_on(event, now, out);
        }
    }

    /// Takes one event in and does all that follows from it and from the time.
    pub(crate) fn act_on(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
        self.last_cycle = None;
        match event {
            Event::Suspended => return self.suspend(),
            Event::Elected { published } => self.elected(published, now, out),
            Event::Deposed => self.forget(),
            Event::Storage(id, result) => {
                let result = self.tell_unread(id, result, out);
                self.note_trouble(&result, now);
                if let Some(asked) = self.ops.finish(id, &result, now) {
                    self.stored(asked, result, now, out);
                }
            }
            _ if self.phase == Phase::Follower => {}
            Event::ShardOpened { cluster, link } => {
                if !self.is_quarantined(&cluster, now) {
                    reports::opened(&mut self.picture.facts, &cluster, link, now);
                    // Its shard will report the capacity that it holds for preemption requests.
                    self.picture.preemption.forget(&cluster);
                    self.greet(&cluster, out);
                    self.ask(&cluster, now, out);
                    self.tell_control(&cluster, out);
                    self.due = true;
                    self.resends.begin(cluster);
                }
            }
            Event::ShardClosed { link } => {
                reports::closed(&mut self.picture.facts, link);
                self.due = true;
            }
            Event::Report(link, report) => self.heard(link, report, now, out),
            Event::Unreadable { link, why } => {
                if let Some(cluster) = reports::cluster_of(&self.picture.facts, link) {
                    self.quarantine(&cluster, why, now, out);
                }
            }
            Event::Hint(job) => self.read_head(job, now, out),
            Event::PoolsHint => {
                self.read_pools(now, out);
                self.read_clusters(now, out);
                self.read_control(now, out);
            }
            Event::Resumed | Event::Wake => {}
        }
        self.tick(now, out);
        self.refresh();
        self.audit(now, out);
    }

    fn heard(
        &mut self,
        link: crate::event::LinkId,
        report: echelon_core_model::directive::Report,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let cluster = report.cluster.clone();
        if let Some(of) = reports::false_name(&self.picture.facts, link, &report) {
            let why = format!("it reports as the shard of cluster {cluster}");
            self.quarantine(&of, why, now, out);
            return;
        }
        let known = self.is_heard(&cluster);
        let Some(mut heard) = reports::heard(&mut self.picture.facts, link, report, now) else {
            return;
        };
        let claims = heard.claims.take();
        let has_claims = claims.is_some();
        if let Some(HeardClaims { told, full }) = claims {
            self.picture.preemption.heard(&cluster, told, full, now);
        }
        if !known && self.is_heard(&cluster) {
            self.write_held_by(&cluster);
        }
        if let Some(newer) = heard.superseded.filter(|e| *e > self.epoch) {
            self.check_epoch(&cluster, newer, now, out);
            return;
        }
        if heard.ask {
            self.ask(&cluster, now, out);
        }
        reports::note_obeyed(&mut self.picture.facts, &cluster, &heard.jobs);
        self.picture.revision += u64::from(heard.capacity);
        heard
            .jobs
            .iter()
            .for_each(|id| self.picture.facts.jobs.touch(*id));
        if heard.settles {
            self.settle_jobs(&cluster);
        }
        self.due |= heard.capacity || has_claims || !heard.jobs.is_empty() || !heard.complete.is_empty();
        self.dirty.extend(heard.complete);
        self.note_archived(&cluster, &heard.archived);
        if heard.found && self.phase == Phase::Leading {
            self.settle_resume(now, out);
        }
        self.after_ended(&cluster, &heard.named, now, out);
        self.catch_up(&cluster, &heard.named, now, out);
        self.dirty.extend(heard.jobs);
    }

    fn is_heard(&self, cluster: &ClusterId) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.is_some_and(ClusterView::is_heard)
    }

    /// The instances of a cluster are known now, or the cluster is known to be silent. Until now, progress
    /// rows of jobs with instances there were not written. They are looked at again.
    pub(crate) fn write_held_by(&mut self, cluster: &ClusterId) {
        let held = self.picture.facts.jobs.held_by(cluster, JobId(0));
        self.unwritten.extend(held.map(|(id, _)| id));
        self.due = true;
    }

    /// Asks a shard for a full report, if there is a stream to it.
    pub(crate) fn ask(&mut self, cluster: &ClusterId, now: Timestamp, out: &mut Vec<Effect>) {
        // Before the epoch is taken there is nothing to order by. The stream is asked once it is taken.
        if !matches!(self.phase, Phase::Recovering | Phase::Leading) {
            return;
        }
        if let Some(view) = self.picture.facts.clusters.get_mut(cluster) {
            view.asked_at = Some(now);
        }
        self.send(cluster, Order::Report, out);
    }

    /// Sends an order, if there is a stream.
    pub(crate) fn send(&mut self, cluster: &ClusterId, order: Order, out: &mut Vec<Effect>) {
        let Some(link) = self.picture.facts.clusters.get(cluster).and_then(|c| c.link) else {
            return;
        };
        self.numbers.directive += 1;
        let directive = Directive {
            epoch: self.epoch,
            sequence: self.numbers.directive,
            order,
        };
        out.push(Effect::Send(link, directive));
    }

    /// The next stamp of an owned write.
    pub(crate) const fn stamp(&mut self) -> Stamp {
        self.numbers.stamp += 1;
        Stamp {
            epoch: self.epoch,
            sequence: self.numbers.stamp,
        }
    }

    /// The next grant's number.
    pub(crate) const fn grant_number(&mut self) -> u64 {
        self.numbers.grant(self.epoch)
    }

    pub(crate) fn step_down(&mut self, why: String, out: &mut Vec<Effect>) {
        out.push(Effect::StepDown { why });
        self.forget();
    }

    /// Forgets all: what is known can be rebuilt, what is pending is void.
    pub(crate) fn forget(&mut self) {
        self.phase = Phase::Follower;
        self.tenure = Tenure::Able;
        self.came_meanwhile.clear();
        self.ops.clear();
        self.trouble = None;
        self.picture = Picture {
            revision: self.picture.revision + 1,
            ..Picture::default()
        };
        self.last_cycle = None;
        self.sum_faults.begin_anew();
        self.dirty.clear();
        self.regrant.clear();
        self.unwritten.clear();
        self.renewals.clear();
        self.turns = AllTurns::default();
        self.resends = Resends::default();
        self.todo.clear();
        self.putting.clear();
        self.written.clear();
        self.writes.clear();
        self.committing = None;
        self.tombstones.clear();
        self.returning.clear();
        self.filing.clear();
        self.flows.clear();
        self.allowed.clear();
        self.agenda = Agenda::default();
        self.awaited = Awaited::default();
        self.children.clear();
        self.leaving_pools.clear();
        self.aside.clear();
        self.told_rows.clear();
        self.start_banning = StartBanning::default();
        self.stored_releases = StoredReleases::default();
        self.self_observation = SelfObservation::default();
        self.due = false;
        self.all_read = false;
        self.resume = Resume::default();
        self.numbers = Numbers::default();
    }
}
