//! What a caller sees of a job: the goal, what became of it, and how fresh the clusters' word is (law 3).

use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use crate::sightings::Sightings;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::cluster::{Cluster, ClusterState, DesiredState, Heartbeat};
use echelon_core_model::health::{ClusterHealth, CurrentSilence, Health};
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, Head, JobState, Progress};
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::unconfirmed::{UnconfirmedPart, unconfirmed_of};
use echelon_core_model::{ClusterId, ReasonCode, Span, Timestamp};
use std::collections::BTreeMap;

/// What its shard shows may be old if Mesos has not confirmed it for this long.
const FRESH: Span = Span::seconds(30);

/// What is known of the clusters, read together.
#[derive(Debug, Clone, Default)]
pub struct Federation {
    /// All clusters by id.
    pub clusters: BTreeMap<ClusterId, Cluster>,
    /// Their health.
    pub states: BTreeMap<ClusterId, ClusterState>,
    /// Their shards' heartbeats.
    pub heartbeats: BTreeMap<ClusterId, Heartbeat>,
    /// When this gateway saw these rows change.
    pub sightings: Sightings,
}

/// Moments of what is stored of a cluster, by this gateway's own clock; none: nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterMoments {
    /// As of which its health is confirmed.
    pub judged_at: Option<Timestamp>,
    /// When Mesos last confirmed what its shard shows; none also: never to this leader of the shard.
    pub confirmed_at: Option<Timestamp>,
}

impl ClusterMoments {
    /// Since when no resource manager has confirmed its health; `None` while one does, or nothing is stored.
    /// The health is shown as it was judged last.
    #[must_use]
    pub fn unconfirmed_since(self, now: Timestamp) -> Option<Timestamp> {
        self.judged_at
            .filter(|at| now.since(*at) > ClusterHealth::CONFIRMED_FOR)
    }

    /// How long ago Mesos last confirmed what its shard shows.
    #[must_use]
    pub fn age(self, now: Timestamp) -> Option<Span> {
        self.confirmed_at.map(|at| now.since(at))
    }
}

/// Whether what is shown of a cluster with this health may be old.
#[must_use]
pub fn is_stale(health: Health, age: Option<Span>) -> bool {
    health.is_silence() || age.is_none_or(|age| age > FRESH)
}

/// What a read saw of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its health.
    pub health: Health,
    /// Why; empty while it is healthy.
    pub cause: String,
    /// Since when, if the resource manager has judged it.
    pub since: Option<Timestamp>,
    /// Since when no resource manager has confirmed the health.
    pub unconfirmed_since: Option<Timestamp>,
    /// How long ago Mesos last confirmed what its shard shows; `None`: never to this leader.
    pub age: Option<Span>,
    /// Since when its shard has heard no resource manager.
    pub no_manager_since: Option<Timestamp>,
    /// What could not be read of it.
    pub unseen: Option<String>,
    /// Instances of the job that are assigned to it; none: they were not counted.
    pub instances: Option<u64>,
    /// Its present silence; none: it is not cut off or without Mesos, as far as is known.
    pub silence: Option<CurrentSilence>,
}

impl Part {
    /// Whether what it shows may be old.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        is_stale(self.health, self.age)
    }

    /// Why what it shows may be old, in a sentence that stays the same while that is so.
    #[must_use]
    pub fn stale_reason(&self) -> Option<String> {
        let Self {
            name, health, cause, ..
        } = self;
        if !self.is_stale() {
            return None;
        }
        let why = if !health.is_silence() {
            return Some(format!(
                "Mesos has confirmed nothing at its cluster {name} for {}",
                FRESH.rounded()
            ));
        } else if cause.is_empty() {
            String::new()
        } else {
            format!(": {cause}")
        };
        Some(format!("its cluster {name} is {health}{why}"))
    }

    /// Its instances as a part of a count, if what is shown of them may be old.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<UnconfirmedPart<'_>> {
        let part = UnconfirmedPart {
            cluster: &self.name,
            count: self.instances,
            age: self.age,
        };
        (self.is_stale() && self.instances != Some(0)).then_some(part)
    }
}

impl Federation {
    /// Reads all three.
    ///
    /// # Errors
    /// `StorageUnavailable` when storage did not answer.
    pub async fn read<F: Facts>(facts: &F) -> Result<Self, ApiError> {
        let clusters = ask::clusters(facts).await?;
        let states = ask::cluster_states(facts).await?;
        let heartbeats = ask::heartbeats(facts).await?;
        Ok(Self {
            sightings: facts.sighted(&states, &heartbeats),
            clusters: clusters.into_iter().map(|c| (c.id.clone(), c)).collect(),
            states: states.into_iter().map(|s| (s.cluster.clone(), s)).collect(),
            heartbeats: heartbeats.into_iter().map(|h| (h.cluster.clone(), h)).collect(),
        })
    }

    /// A cluster's name; its id where the row is gone.
    #[must_use]
    pub fn name(&self, id: &ClusterId) -> String {
        self.clusters
            .get(id)
            .map_or_else(|| id.to_string(), |c| c.name.clone())
    }

    /// The cluster of that id, else the one of that name that has not left, else the one that has.
    #[must_use]
    pub fn find(&self, wanted: &str) -> Option<&Cluster> {
        let named = || self.clusters.values().filter(|c| c.name == wanted);
        self.clusters
            .get(&ClusterId::new(wanted))
            .or_else(|| named().find(|c| c.desired_state != DesiredState::Removed))
            .or_else(|| named().next())
    }

    /// Since when no shard with a fresh heartbeat has heard a resource manager.
    /// `None`: one of them hears it, or no heartbeat is fresh.
    #[must_use]
    pub fn no_manager_since(&self, now: Timestamp) -> Option<Timestamp> {
        let is_fresh = |h: &&Heartbeat| now.since(self.sightings.beat_at(h)) <= FRESH;
        let has_left = |h: &&Heartbeat| {
            self.clusters
                .get(&h.cluster)
                .is_none_or(|c| c.desired_state == DesiredState::Removed)
        };
        let heard = self.heartbeats.values().filter(|h| is_fresh(h) && !has_left(h));
        let since: Option<Vec<Timestamp>> = heard.map(|h| h.no_manager_since).collect();
        since?.into_iter().max()
    }

    /// When the rows of a cluster were confirmed, by this gateway's clock.
    #[must_use]
    pub fn moments(&self, id: &ClusterId) -> ClusterMoments {
        let confirmed_at = |h: &Heartbeat| {
            let age = h.signs.confirmed_age()?;
            Some(Timestamp(self.sightings.beat_at(h).0.saturating_sub(age.0)))
        };
        ClusterMoments {
            judged_at: self.states.get(id).map(|row| self.sightings.judged_at(row)),
            confirmed_at: self.heartbeats.get(id).and_then(confirmed_at),
        }
    }

    /// What is known of one cluster.
    #[must_use]
    pub fn part(&self, id: &ClusterId, now: Timestamp) -> Part {
        let health = self.states.get(id).map(|s| &s.health);
        let declared = self.clusters.get(id).and_then(|cluster| cluster.declared);
        let moments = self.moments(id);
        Part {
            silence: health.and_then(|health| health.current_silence(declared)),
            id: id.clone(),
            name: self.name(id),
            health: health.map(|h| h.health).unwrap_or_default(),
            cause: health.map(ClusterHealth::cause).unwrap_or_default(),
            since: health.map(|h| h.since),
            unconfirmed_since: moments.unconfirmed_since(now),
            age: moments.age(now),
            no_manager_since: self.heartbeats.get(id).and_then(|h| h.no_manager_since),
            unseen: None,
            instances: None,
        }
    }

    /// When a record of a cluster was last confirmed that a run's last change at `changed_at` left there: by
    /// Mesos, or by that change itself. The change bears the shard's time, as the heartbeat does.
    #[must_use]
    pub fn record_confirmed_at(&self, id: &ClusterId, changed_at: Timestamp) -> Option<Timestamp> {
        let heartbeat = self.heartbeats.get(id)?;
        let beat_at = self.sightings.beat_at(heartbeat);
        let later = changed_at.since(heartbeat.at);
        let earlier = heartbeat.at.since(changed_at);
        let changed_at = Timestamp(beat_at.plus(later).0.saturating_sub(earlier.0));
        self.moments(id).confirmed_at.max(Some(changed_at))
    }

    /// Clusters of which what is shown may be old. One without a heartbeat has had no shard, and so no
    /// instances.
    pub fn stale_parts(&self, now: Timestamp) -> impl Iterator<Item = Part> {
        let present = self
            .clusters
            .values()
            .filter(|c| c.desired_state != DesiredState::Removed);
        let heard = present.filter(|c| self.heartbeats.contains_key(&c.id));
        heard.map(move |c| self.part(&c.id, now)).filter(Part::is_stale)
    }
}

/// A job as a caller sees it.
#[derive(Debug, Clone)]
pub struct JobView {
    /// The desired state.
    pub head: Head,
    /// The spec in force; `None` in lists.
    pub spec: Option<JobSpec>,
    /// What became of it, by storage or by the resource manager; `None` in lists while neither says anything.
    pub progress: Option<Progress>,
    /// Names of the clusters that `progress` speaks of.
    pub names: BTreeMap<ClusterId, String>,
    /// Clusters that hold or held a part; in lists at most those of which what is shown may be old.
    pub parts: Vec<Part>,
    /// Since when no shard with a fresh heartbeat has heard a resource manager; `None` in lists.
    pub no_manager_since: Option<Timestamp>,
    /// When its schedule is due next; empty in lists.
    pub due: Vec<Timestamp>,
}

impl JobView {
    /// How many instances it has: as many as are wanted, or of a daemon as clusters count hosts.
    #[must_use]
    pub fn instances(&self) -> u64 {
        if self.head.kind != JobKind::Daemon {
            return self.head.instances;
        }
        let groups = self.progress.iter().flat_map(|p| p.groups.values());
        groups.map(Counts::total).sum()
    }

    /// Its state; a job that nobody has looked at waits.
    #[must_use]
    pub fn state(&self) -> JobState {
        state(self.progress.as_ref())
    }

    /// Instances that fail again and again. Of those that run at the moment an older shard says nothing.
    #[must_use]
    pub fn crash_looping(&self) -> u64 {
        let Some(progress) = &self.progress else { return 0 };
        let waiting = progress.waiting.iter();
        let looping = waiting.filter(|w| w.reason.code == ReasonCode::CrashLooping);
        progress.crash_looping.max(looping.map(|w| w.count).sum())
    }

    /// Whether its last wish came after it had ended, and so has no effect.
    #[must_use]
    pub fn wish_is_too_late(&self) -> bool {
        let seen = self.progress.as_ref().and_then(|p| p.ended_version);
        self.head.goal.desired != Desired::Deleted && seen.is_some_and(|v| self.head.version > v)
    }

    /// Assembles it, with the names of the clusters it speaks of.
    #[must_use]
    pub fn new(
        head: Head,
        spec: Option<JobSpec>,
        progress: Option<Progress>,
        federation: &Federation,
    ) -> Self {
        let waiting = progress
            .iter()
            .flat_map(|p| p.waiting.iter().filter_map(|w| w.cluster.as_ref()));
        let awaited = progress.iter().flat_map(|p| p.awaited.iter());
        let names = waiting
            .chain(awaited)
            .map(|id| (id.clone(), federation.name(id)))
            .collect();
        Self {
            head,
            spec,
            progress,
            names,
            parts: Vec::new(),
            no_manager_since: None,
            due: Vec::new(),
        }
    }

    /// The same with its pool where it is now.
    #[must_use]
    pub fn in_tree(mut self, paths: &PoolPaths) -> Self {
        let path = paths.of_job(&self.head).to_owned();
        if let Some(spec) = &mut self.spec {
            spec.pool.clone_from(&path);
        }
        self.head.pool = path;
        self
    }

    /// The same with the clusters of its assignment.
    #[must_use]
    pub fn with_parts(mut self, assignment: &Assignment, federation: &Federation, now: Timestamp) -> Self {
        let held = assignment.groups.values().flatten().map(|r| &r.cluster);
        let mut ids: Vec<&ClusterId> = held.chain(assignment.holders.keys()).collect();
        ids.sort();
        ids.dedup();
        self.parts = ids
            .into_iter()
            .map(|id| Part {
                instances: Some(assigned_to(assignment, id)),
                ..federation.part(id, now)
            })
            .collect();
        self.no_manager_since = federation.no_manager_since(now);
        self
    }

    /// The same with those of these clusters that hold a part. Without the assignment it is not known which
    /// do.
    #[must_use]
    pub fn with_stale_parts(mut self, assignment: Option<&Assignment>, stale: &[Part]) -> Self {
        let counted = stale.iter().map(|part| Part {
            instances: assignment.map(|all| assigned_to(all, &part.id)),
            ..part.clone()
        });
        self.parts = counted.filter(|part| part.instances != Some(0)).collect();
        self
    }

    /// Instances by state over all groups, as they are counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for counts in self.progress.iter().flat_map(|p| p.groups.values()) {
            all.merge(counts);
        }
        all
    }

    /// What of its counts is unconfirmed, in words. What became of a job that has ended is stored, so no
    /// cluster can change it.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<String> {
        if self.state().is_ended() {
            return None;
        }
        let parts: Vec<UnconfirmedPart<'_>> = self.parts.iter().filter_map(Part::unconfirmed).collect();
        unconfirmed_of(self.counts().total(), &parts)
    }
}

/// How many instances of a job are assigned to a cluster.
fn assigned_to(assignment: &Assignment, cluster: &ClusterId) -> u64 {
    let ranges = assignment.groups.values().flatten();
    let here = ranges.filter(|r| r.cluster == *cluster);
    here.map(|r| r.range.count()).sum()
}

/// State of a job by its progress; a job that nobody has looked at waits.
#[must_use]
pub fn state(progress: Option<&Progress>) -> JobState {
    progress.map_or(JobState::Waiting, |p| p.state)
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
