//! Puts one instance together from the job's wish, its assignment and its holder's blocks.

use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use crate::progress;
use crate::view::{Federation, Part};
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::instance::{InstanceRecord, SliceRow};
use echelon_core_model::job::{Desired, Head, Progress};
use echelon_core_model::spec::{GroupSpec, JobSpec, OnSilence};
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{
    ClusterId, GroupName, InstanceNumber, JobId, RangeSet, Reason, ReasonCode, RunState, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Whether its goal is met or given up.
    pub ended: bool,
    /// Whether it fails again and again.
    pub crash_loops: bool,
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

/// What the holders of a window of numbers have stored.
#[derive(Default)]
pub(super) struct Blocks {
    records: BTreeMap<(ClusterId, InstanceNumber), InstanceRecord>,
    rows: BTreeMap<ClusterId, SliceRow>,
    asked: BTreeSet<ClusterId>,
    unseen: BTreeMap<ClusterId, RangeSet>,
}

/// The clusters that held indexes last which are assigned to none now, with those of a window.
fn last_holders(assignment: &Assignment, group: &GroupName, window: &RangeSet) -> Vec<(ClusterId, RangeSet)> {
    let released = assignment.released.get(group).into_iter().flatten();
    let with_records = released.filter_map(|(holder, set)| Some((holder.cluster.clone()?, set)));
    with_records
        .map(|(cluster, set)| (cluster, set.intersect(window)))
        .filter(|(_, inside)| !inside.is_empty())
        .collect()
}

impl Blocks {
    /// Reads the blocks of every holder, and of former holders where the new one may not have taken over yet.
    pub(super) async fn read<F: Facts>(
        facts: &F,
        scene: &Scene,
        group: &GroupName,
        window: &RangeSet,
    ) -> Self {
        let mut wanted: BTreeMap<ClusterId, RangeSet> = BTreeMap::new();
        for r in scene.assignment.ranges(group) {
            let range: RangeSet = std::iter::once(r.range).collect();
            let inside = range.intersect(window);
            for inside in inside.ranges() {
                wanted.entry(r.cluster.clone()).or_default().insert(*inside);
                if let Some((former, _)) = &r.former {
                    wanted.entry(former.clone()).or_default().insert(*inside);
                }
            }
        }
        for (cluster, inside) in last_holders(&scene.assignment, group, window) {
            let set = wanted.entry(cluster).or_default();
            *set = set.union(&inside);
        }
        let mut out = Self::default();
        for (cluster, numbers) in wanted {
            out.read_cluster(facts, (scene.head.job, group), cluster, numbers)
                .await;
        }
        out
    }

    async fn read_cluster<F: Facts>(
        &mut self,
        facts: &F,
        (job, group): (JobId, &GroupName),
        cluster: ClusterId,
        numbers: RangeSet,
    ) {
        self.asked.insert(cluster.clone());
        let (Some(first), Some(last)) = (numbers.ranges().first(), numbers.ranges().last()) else {
            return;
        };
        let query = Query::GroupBlocks {
            cluster: cluster.clone(),
            job,
            group: group.clone(),
            first: first.first / BLOCK_SIZE,
            last: last.last / BLOCK_SIZE,
        };
        let Ok(Some(Answer::Blocks(blocks, rows))) = ask::try_read(facts, query, Consistency::Quorum).await
        else {
            self.unseen.insert(cluster, numbers);
            return;
        };
        for (n, record) in blocks.into_iter().flat_map(|b| b.instances) {
            self.records.insert((cluster.clone(), n), record);
        }
        self.rows
            .extend(rows.into_iter().map(|row| (cluster.clone(), row)));
    }

    /// Every cluster that was asked, with the numbers that could not be read.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (&ClusterId, Option<&RangeSet>)> {
        self.asked.iter().map(|c| (c, self.unseen.get(c)))
    }

    fn is_unseen(&self, cluster: &ClusterId, n: InstanceNumber) -> bool {
        self.unseen.get(cluster).is_some_and(|set| set.contains(n))
    }

    /// The record of an index that is assigned to no cluster, where its last holder has one.
    fn last_record(
        &self,
        assignment: &Assignment,
        group: &GroupName,
        n: InstanceNumber,
    ) -> Option<&InstanceRecord> {
        let window: RangeSet = std::iter::once(n).collect();
        let holders = last_holders(assignment, group, &window).into_iter();
        let mut records = holders.filter_map(|(cluster, _)| self.records.get(&(cluster, n)));
        records.next()
    }

    /// The record of an index of a range; an error where it could not be read.
    fn record(&self, range: &AssignedRange, n: InstanceNumber) -> Result<Option<&InstanceRecord>, ClusterId> {
        let of = |cluster: &ClusterId| self.records.get(&(cluster.clone(), n));
        if self.is_unseen(&range.cluster, n) {
            return Err(range.cluster.clone());
        }
        let own = of(&range.cluster);
        let taken_over = self
            .rows
            .get(&range.cluster)
            .and_then(|row| row.taken_over.get(&range.generation))
            .is_some_and(|set| set.contains(n));
        match &range.former {
            Some((former, _)) if !taken_over && own.is_none_or(|r| r.generation < range.generation) => {
                if self.is_unseen(former, n) {
                    return Err(former.clone());
                }
                Ok(of(former).or(own))
            }
            _ => Ok(own),
        }
    }
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

    pub(super) fn instance(&self, group: &GroupName, n: InstanceNumber, blocks: &Blocks) -> InstanceView {
        let range = self.assignment.ranges(group).iter().find(|r| r.range.contains(n));
        let cluster = range.map(|r| self.part(&r.cluster));
        let record = match range.map(|r| blocks.record(r, n)) {
            None => blocks.last_record(&self.assignment, group, n).cloned(),
            Some(Ok(record)) => record.cloned(),
            Some(Err(unseen)) => return self.unknown(group, n, cluster, &unseen),
        };
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
