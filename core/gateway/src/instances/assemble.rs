//! Puts one instance together from the job's wish, its assignment and its holder's blocks.

use super::blocks::{Blocks, FoundRecord};
use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use crate::progress;
use crate::view::{Federation, Part};
use echelon_core_model::assignment::Assignment;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::instance::{InstanceRecord, Run};
use echelon_core_model::job::{Desired, Head, Progress};
use echelon_core_model::spec::{GroupSpec, JobSpec, OnSilence};
use echelon_core_model::{
    ClusterId, Generation, GroupName, InstanceNumber, RangeSet, Reason, ReasonCode, RunState, Span, Timestamp,
};

/// An instance as a caller sees it.
#[derive(Debug, Clone)]
pub struct InstanceView {
    /// Its group.
    pub group: GroupName,
    /// Its number.
    pub number: InstanceNumber,
    /// Its state; `None`: it could not be read.
    pub state: Option<RunState>,
    /// Why.
    pub reason: Reason,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
    /// The cluster that holds it.
    pub cluster: Option<Part>,
    /// What is stored of it.
    pub record: Option<InstanceRecord>,
    /// Where that comes from.
    pub source: Option<RecordSource>,
    /// Whether its goal is met or given up.
    pub ended: bool,
    /// Whether it fails again and again.
    pub crash_loops: bool,
}

/// Where what is stored of an instance comes from.
#[derive(Debug, Clone)]
pub struct RecordSource {
    /// The cluster whose shard has stored it: the holder, or the former one until the holder has taken it
    /// over.
    pub part: Part,
    /// The generation at which that cluster holds, or held, the instance.
    pub generation: Generation,
    /// The generation at which it was held before, if that cluster is not the first one.
    pub former: Option<Generation>,
    /// How long ago the record was last confirmed, by Mesos or by its own last change; none: that is not
    /// known.
    pub age: Option<Span>,
}

impl InstanceView {
    /// The cluster that what is shown of it comes from.
    #[must_use]
    pub fn shown_of(&self) -> Option<&Part> {
        let source = self.source.as_ref().map(|source| &source.part);
        source.or(self.cluster.as_ref())
    }

    /// Whether what is shown of it may be old.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.state.is_none() || self.shown_of().is_some_and(Part::is_stale)
    }

    /// How long ago what is shown of it was last confirmed; none: that is not known.
    #[must_use]
    pub fn age(&self) -> Option<Span> {
        match &self.source {
            Some(source) => source.age,
            None => self.cluster.as_ref().and_then(|part| part.age),
        }
    }

    /// Its run as an endpoint, if others can rely on that, and where it is. A run stays in the list while its
    /// cluster is silent, until another cluster has taken the instance over. That a lost cluster's instance is
    /// bound nowhere yet takes nothing out of the list.
    ///
    /// What has left the list for good does not return for the same run:
    /// - A run that was given up, or lost, is not available. If it is adopted after all, it has no
    ///   `available_at` until an update of Mesos shows it well once more.
    /// - A record of another generation than that at which its cluster holds the instance is not listed, and neither
    ///   is a run that is older than the generation before: another cluster had the instance since.
    #[must_use]
    pub fn endpoint(&self) -> Option<(&Run, &RecordSource)> {
        let record = self.record.as_ref()?;
        let run = record.run.as_ref()?;
        let source = self.source.as_ref()?;
        let is_proven = run.is_available() && run.available_at.is_some();
        let was_replaced = source.former.is_some_and(|former| run.generation < former);
        let is_present = record.generation == source.generation && !was_replaced;
        (is_proven && is_present).then_some((run, source))
    }
}

/// A job with all that is known around its instances.
pub(super) struct Scene {
    pub(super) head: Head,
    spec: Option<JobSpec>,
    progress: Progress,
    assignment: Assignment,
    federation: Federation,
    now: Timestamp,
}

impl Scene {
    pub(super) async fn read<F: Facts>(facts: &F, head: Head, now: Timestamp) -> Result<Self, ApiError> {
        let spec = ask::spec(facts, head.job, head.spec_version).await?;
        let known = progress::of_job(facts, head.job).await?;
        let assignment = ask::assignment(facts, head.job).await?;
        let federation = Federation::read(facts).await?;
        let progress = known.shown(&head, spec.as_ref(), &federation, now);
        Ok(Self {
            head,
            spec,
            progress,
            assignment,
            federation,
            now,
        })
    }

    /// Names of the groups, in order.
    pub(super) fn groups(&self) -> Vec<GroupName> {
        let mut names: Vec<GroupName> = self
            .spec
            .iter()
            .flat_map(|s| s.groups.iter().map(|g| g.name.clone()))
            .collect();
        names.sort();
        names
    }

    pub(super) fn group(&self, name: &GroupName) -> Option<&GroupSpec> {
        self.spec.as_ref().and_then(|s| s.group(name))
    }

    pub(super) fn numbers(&self, group: &GroupName) -> RangeSet {
        // What is not wanted any more gets no further numbers.
        let wanted = match self.head.goal.desired {
            Desired::Deleted => 0,
            Desired::Running | Desired::Stopped => self.group(group).map_or(0, |g| g.instances),
        };
        let withdrawn = self.spec.as_ref().map(|s| s.rules.withdrawn(group));
        let assigned = self.assignment.assigned(group);
        let missing = u64::from(wanted).saturating_sub(assigned.count());
        let next = withdrawn.map(|withdrawn| self.assignment.unbound(group, &withdrawn, missing));
        next.map_or_else(|| assigned.clone(), |next| assigned.union(&next))
    }

    pub(super) const fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub(super) fn part(&self, cluster: &ClusterId) -> Part {
        self.federation.part(cluster, self.now)
    }

    /// What the cluster's shard last said of itself.
    pub(super) fn heartbeat(&self, cluster: &ClusterId) -> Option<&Heartbeat> {
        self.federation.heartbeats.get(cluster)
    }

    /// What to do when a host stays silent; `None`: the spec was not read.
    pub(super) fn on_unreachable(&self) -> Option<OnSilence> {
        self.spec.as_ref().map(|s| s.on_unreachable)
    }

    /// What the job says of an agent that is gone; `None`: the spec was not read.
    pub(super) fn on_gone(&self) -> Option<Option<OnSilence>> {
        self.spec.as_ref().map(|s| s.on_gone)
    }

    pub(super) fn instance(&self, group: &GroupName, n: InstanceNumber, blocks: &Blocks) -> InstanceView {
        let range = self.assignment.ranges(group).iter().find(|r| r.range.contains(n));
        let cluster = range.map(|r| self.part(&r.cluster));
        let found = match range.map(|r| blocks.record(r, n)) {
            None => blocks.last_record(&self.assignment, group, n),
            Some(Ok(found)) => found,
            Some(Err(unseen)) => return self.unknown(group, n, cluster, &unseen),
        };
        let source = found.as_ref().map(|found| self.source(found));
        let record = found.map(|found| found.record.clone());
        let state = record.as_ref().map_or(RunState::Pending, InstanceRecord::state);
        let (reason, since) = self.reason(group, state, record.as_ref(), cluster.as_ref());
        let over = state == RunState::Pending && self.progress.state.is_ended();
        InstanceView {
            group: group.clone(),
            number: n,
            state: Some(state),
            reason,
            since,
            cluster,
            crash_loops: record.as_ref().is_some_and(|r| self.is_crash_looping(group, r)),
            ended: over || record.as_ref().is_some_and(|r| r.ended.is_some()),
            record,
            source,
        }
    }

    fn source(&self, found: &FoundRecord<'_>) -> RecordSource {
        let run = found.record.run.as_ref();
        let confirmed_at = match run {
            Some(run) => {
                let changed_at = run.available_at.map_or(run.since, |at| at.max(run.since));
                self.federation.record_confirmed_at(found.cluster, changed_at)
            }
            None => self.federation.moments(found.cluster).confirmed_at,
        };
        RecordSource {
            part: self.part(found.cluster),
            generation: found.generation,
            former: found.former,
            age: confirmed_at.map(|at| self.now.since(at)),
        }
    }

    fn unknown(
        &self,
        group: &GroupName,
        n: InstanceNumber,
        cluster: Option<Part>,
        unseen: &ClusterId,
    ) -> InstanceView {
        let what = format!("what cluster {} stored", self.federation.name(unseen));
        InstanceView {
            group: group.clone(),
            number: n,
            state: None,
            reason: Reason::new(ReasonCode::StorageUnavailable).at(what),
            since: None,
            cluster,
            record: None,
            source: None,
            ended: false,
            crash_loops: false,
        }
    }

    /// Why it is in its state: its run says, or for one that waits the stored backoff, the job's end, its cluster's silence, or
    /// what the resource manager says of its group.
    fn reason(
        &self,
        group: &GroupName,
        now_in: RunState,
        record: Option<&InstanceRecord>,
        cluster: Option<&Part>,
    ) -> (Reason, Option<Timestamp>) {
        let run = record.and_then(|r| r.run.as_ref());
        let waits = now_in == RunState::Pending && record.is_some_and(|r| r.not_before > self.now);
        if let (Some(run), Some(record)) = (run, record)
            && (waits || now_in == RunState::Running)
            && self.is_crash_looping(group, record)
        {
            return (record.crash_loop(self.now), Some(run.since));
        }
        if let Some(run) = run
            && (now_in != RunState::Pending || record.is_some_and(|r| r.ended.is_some()))
        {
            return (run.reason.clone(), Some(run.since));
        }
        if let Some(run) = run.filter(|_| waits) {
            if let Some(reason) = record.and_then(|r| r.platform_retry(self.now)) {
                return (reason, Some(run.since));
            }
            let last = run.reason.to_string();
            return (Reason::new(ReasonCode::Backoff).at(last), Some(run.since));
        }
        if self.progress.state.is_ended() || self.head.goal.desired != Desired::Running {
            let code = match self.head.goal.desired {
                Desired::Deleted => ReasonCode::DeleteRequested,
                Desired::Running | Desired::Stopped => ReasonCode::StopRequested,
            };
            return (Reason::new(code), Some(self.head.updated_at));
        }
        self.waiting(group, cluster)
    }

    /// Whether it fails again and again, and goes on for ever.
    pub(super) fn is_crash_looping(&self, group: &GroupName, record: &InstanceRecord) -> bool {
        let for_ever = |g: &GroupSpec| g.runs_for_ever(self.head.kind);
        let for_ever = self.group(group).is_some_and(for_ever);
        let wanted = self.head.goal.desired == Desired::Running;
        for_ever && wanted && record.is_crash_looping()
    }

    fn waiting(&self, group: &GroupName, cluster: Option<&Part>) -> (Reason, Option<Timestamp>) {
        if let Some(part) = cluster.filter(|p| p.health.is_silence()) {
            return (
                Reason::new(ReasonCode::ClusterUnhealthy).at(&part.name),
                part.since,
            );
        }
        // What the resource manager said last may be long ago.
        let no_manager = Reason::new(ReasonCode::NoResourceManager);
        let overtaken = match cluster {
            Some(part) => part
                .no_manager_since
                .map(|since| (no_manager.at(&part.name), since)),
            None => {
                let since = self.federation.no_manager_since(self.now);
                since.map(|since| (no_manager, since))
            }
        };
        if let Some((reason, since)) = overtaken {
            return (reason, Some(since));
        }
        let here = cluster.map(|p| &p.id);
        let told = self
            .progress
            .waiting
            .iter()
            .filter(|w| w.group == *group && w.count > 0)
            .max_by_key(|w| (w.cluster.as_ref() == here, w.count));
        match (told, cluster) {
            (Some(w), _) => (w.reason.clone(), Some(w.since)),
            (None, Some(_)) => (Reason::new(ReasonCode::AwaitingGrant), None),
            (None, None) => (Reason::new(ReasonCode::Accepted), None),
        }
    }
}
