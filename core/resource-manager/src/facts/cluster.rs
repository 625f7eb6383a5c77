//! A cluster as it is known.

use crate::event::LinkId;
use crate::facts::fits::KnownFits;
use crate::facts::found::Word;
use crate::facts::loss::{CountedCapacity, Doubt};
use crate::facts::same_master::MasterRecord;
use crate::facts::settling::Settling;
use crate::facts::starts::KnownStarts;
use crate::facts::unsent::Unsent;
use crate::lifecycle::cluster_removal::RemovalProgress;
use echelon_core_model::cluster::{Cluster, ClusterState, DesiredState, Heartbeat};
use echelon_core_model::directive::{Capacity, SliceReport};
use echelon_core_model::health::{ClusterHealth, Health, HealthCause, NewWork, ShardSigns};
use echelon_core_model::{Epoch, Generation, GroupName, JobId, Span, Timestamp, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The job, group and generation of a slice's report.
pub type ReportKey = (JobId, GroupName, Generation);

/// Reports of one cluster.
pub type Reports = BTreeMap<ReportKey, Arc<SliceReport>>;

/// What a shard reported last of one job.
#[derive(Debug, Clone)]
pub(crate) struct JobReports {
    pub(crate) job: JobId,
    reports: Vec<(ReportKey, Arc<SliceReport>)>,
    words: Vec<((JobId, GroupName), GroupWord)>,
}

/// What a shard reported last of a whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupWord {
    /// Runs from before the last restart asked for.
    pub outdated: u64,
    /// Instances that are still to be restarted, or were and are not good yet.
    pub restarting: u64,
    /// Instances that fail again and again.
    pub crash_looping: u64,
    /// Active instances that are unavailable, or not available for long enough.
    pub unavailable: u64,
    /// The version that its runs are to be of.
    pub revision: u32,
    /// The lowest index that is not brought to it, or not good yet.
    pub first_behind: Option<u32>,
    /// The allotment of `max_unavailable` in force.
    pub part: u64,
    /// The number of the allotment obeyed.
    pub part_number: u64,
    /// Of a daemon: hosts on which one of it is or belongs, as last reported.
    pub hosts: Option<u32>,
}

/// A cluster as it is known.
#[derive(Debug, Clone, Default)]
pub struct ClusterView {
    /// The row that a command wrote; `None` until it was read.
    pub row: Option<Cluster>,
    /// Its health and capacity, as they were last stored.
    pub state: Option<ClusterState>,
    /// Its stream, while one is open.
    pub link: Option<LinkId>,
    /// When its shard last reported anything to this leader.
    pub heard_at: Option<Timestamp>,
    /// When it was last asked for a full report.
    pub asked_at: Option<Timestamp>,
    /// Full reports completed over the present stream.
    pub fulls: u32,
    /// A report of it was lost.
    pub missed: bool,
    /// Whether its shard is known to obey this leader, and for which jobs that counts already.
    pub(crate) settling: Settling,
    /// Epoch and sequence of its last report.
    pub last_report: (Epoch, u64),
    /// What the full report under way has named so far.
    pub incoming: Option<BTreeSet<ReportKey>>,
    /// What its shard reported last of each slice.
    pub reports: Reports,
    /// What its shard reported last of each group.
    pub words: BTreeMap<(JobId, GroupName), GroupWord>,
    /// Its hosts in sum, once reported.
    pub capacity: Option<Capacity>,
    /// How many instances of each class fit, as it was asked and has reported.
    pub fits: KnownFits,
    /// What its shard observes, as reported last, and when this leader heard that.
    pub signs: Option<(ShardSigns, Timestamp)>,
    /// How many of its starts fail, as reported last.
    pub(crate) starts: KnownStarts,
    /// When this leader last judged its health.
    pub judged_at: Option<Timestamp>,
    /// How much of its hosts counts as capacity.
    pub counted: CountedCapacity,
    /// Why its silence is not counted now, if so.
    pub doubt: Option<Doubt>,
    /// Its last heartbeat, and when this leader saw it change.
    pub heartbeat: Option<(Heartbeat, Timestamp)>,
    /// For how long this leader itself has seen it cut off, without pauses of its own.
    pub silent_for: Span,
    /// When what has not begun there may go elsewhere, if it stays cut off.
    pub moves_at: Option<Timestamp>,
    /// Until when its shard is in quarantine, since it reported what cannot be.
    pub quarantine: Option<Timestamp>,
    /// How far its removal is.
    pub(crate) removal: RemovalProgress,
    /// What is remembered of its Mesos master.
    pub(crate) master: MasterRecord,
    /// What it found since storage was resumed.
    pub found: Word,
    /// Jobs of which the snapshot has not got the reports as they are now.
    pub(crate) unsent: Unsent,
}

impl ClusterView {
    /// Its health. One of which nothing is stored is joining.
    #[must_use]
    pub fn health(&self) -> Health {
        self.state.as_ref().map(|s| s.health.health).unwrap_or_default()
    }

    /// Whether its health lets it take new work. One that has not reported to this leader takes none.
    #[must_use]
    pub fn new_work(&self) -> NewWork {
        let health = self.capacity.as_ref().and(self.state.as_ref()).map(|s| &s.health);
        health.map_or(NewWork::Refused, ClusterHealth::new_work)
    }

    /// Whether new work may begin there.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.takes_grants()
            && self.desired_state() == DesiredState::Active
            && self.new_work() != NewWork::Refused
    }

    /// The desired state that operators have set. A cluster with a row that was not read yet takes nothing.
    #[must_use]
    pub fn desired_state(&self) -> DesiredState {
        self.row
            .as_ref()
            .map_or(DesiredState::Cordoned, |r| r.desired_state)
    }

    /// What its shard reported last of a job.
    pub fn reports_of(
        &self,
        job: JobId,
    ) -> impl Iterator<Item = (&(JobId, GroupName, Generation), &SliceReport)> {
        let first = (job, GroupName::new(""), Generation(0));
        let from = self.reports.range(first..).map(|(key, report)| (key, &**report));
        from.take_while(move |((of, ..), _)| *of == job)
    }

    /// Whether its shard knows a newer head of a job than this version.
    #[must_use]
    pub fn knows_newer(&self, job: JobId, than: Version) -> bool {
        self.reports_of(job).any(|(_, report)| report.head_version > than)
    }

    /// Forgets what its shard reported of a job.
    pub fn forget(&mut self, job: JobId) {
        let slices: Vec<_> = self.reports_of(job).map(|(key, _)| key.clone()).collect();
        for key in slices {
            self.words.remove(&(job, key.1.clone()));
            self.reports.remove(&key);
            self.unsent.note(job);
        }
    }

    /// The next jobs of which a snapshot has not got the reports as they are now.
    pub(crate) fn take_unsent(&mut self, most: usize) -> Vec<JobReports> {
        if !self.unsent.is_followed() {
            self.unsent.follow(self.reports.keys().map(|(job, ..)| *job));
        }
        let ids = self.unsent.take(most).into_iter();
        ids.map(|job| self.job_reports(job)).collect()
    }

    fn job_reports(&self, job: JobId) -> JobReports {
        let first = (job, GroupName::new(""), Generation(0));
        let of_job = self.reports.range(first..).take_while(|((of, ..), _)| *of == job);
        let first = (job, GroupName::new(""));
        let words = self.words.range(first..).take_while(|((of, _), _)| *of == job);
        JobReports {
            job,
            reports: of_job
                .map(|(key, report)| (key.clone(), Arc::clone(report)))
                .collect(),
            words: words.map(|(key, word)| (key.clone(), *word)).collect(),
        }
    }

    /// Takes over what the shard has reported of a job, as another view has it.
    pub(crate) fn take_over(&mut self, of: JobReports) {
        self.forget(of.job);
        self.reports.extend(of.reports);
        self.words.extend(of.words);
    }

    /// The same without reports of slices.
    pub(crate) fn without_reports(&self) -> Self {
        Self {
            row: self.row.clone(),
            state: self.state.clone(),
            link: self.link,
            heard_at: self.heard_at,
            asked_at: self.asked_at,
            fulls: self.fulls,
            missed: self.missed,
            settling: self.settling,
            last_report: self.last_report,
            incoming: None,
            reports: Reports::new(),
            words: BTreeMap::new(),
            capacity: self.capacity.clone(),
            fits: self.fits.clone(),
            signs: self.signs,
            starts: self.starts.clone(),
            judged_at: self.judged_at,
            counted: self.counted,
            doubt: self.doubt,
            heartbeat: self.heartbeat.clone(),
            silent_for: self.silent_for,
            moves_at: self.moves_at,
            quarantine: self.quarantine,
            removal: self.removal,
            master: self.master,
            found: self.found.clone(),
            unsent: Unsent::default(),
        }
    }

    /// Whether it was added and not removed.
    pub(crate) fn is_present(&self) -> bool {
        self.row
            .as_ref()
            .is_some_and(|row| row.desired_state != DesiredState::Removed)
    }

    /// Whether its hosts are those of another cluster, which counts them.
    pub(crate) fn has_others_hosts(&self) -> bool {
        let causes = self.state.iter().flat_map(|state| &state.health.causes);
        causes.into_iter().any(|cause| *cause == HealthCause::SameMaster)
    }

    /// Whether its shard has reported to this leader all that it has.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.is_settled() || self.fulls > 0
    }

    /// The epoch of its shard's leader, if that serves and hears no resource manager while its heartbeats change. It acts
    /// by what it reads from storage then.
    pub(crate) fn epoch_without_manager(&self) -> Option<Epoch> {
        let health = self.state.as_ref().map(|state| &state.health)?;
        let is_cut = self.link.is_none() && health.causes.contains(&HealthCause::StreamSilent);
        let (beat, _) = self.heartbeat.as_ref().filter(|_| is_cut)?;
        beat.no_manager_since.map(|_| beat.epoch)
    }

    /// Whether grants may be raised there.
    #[must_use]
    pub fn takes_grants(&self) -> bool {
        self.is_settled() && self.link.is_some() && self.desired_state() != DesiredState::Removed
    }
}
