//! What a caller sees of a job: the wish, what became of it, and how fresh the clusters' word is (law 3).

use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::cluster::{Cluster, ClusterState, Heartbeat, Wish};
use echelon_core_model::health::Health;
use echelon_core_model::instance::Counts;
use echelon_core_model::job::{Desired, Head, JobState, Progress};
use echelon_core_model::pool::PoolPaths;
use echelon_core_model::spec::{JobKind, JobSpec};
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
    /// Since when, if the resource manager has judged it.
    pub since: Option<Timestamp>,
    /// How long ago Mesos last confirmed what its shard shows; `None`: never to this leader.
    pub age: Option<Span>,
    /// Since when its shard has heard no resource manager.
    pub no_manager_since: Option<Timestamp>,
    /// What could not be read of it.
    pub unseen: Option<String>,
}

impl Part {
    /// Whether what it shows may be old.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.health.is_silence() || self.age.is_none_or(|age| age > FRESH)
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
            .or_else(|| named().find(|c| c.wish != Wish::Removed))
            .or_else(|| named().next())
    }

    /// Since when no shard with a fresh heartbeat has heard a resource manager.
    /// `None`: one of them hears it, or no heartbeat is fresh.
    #[must_use]
    pub fn no_manager_since(&self, now: Timestamp) -> Option<Timestamp> {
        let is_fresh = |h: &&Heartbeat| now.since(h.at) <= FRESH;
        let has_left = |h: &&Heartbeat| {
            self.clusters
                .get(&h.cluster)
                .is_none_or(|c| c.wish == Wish::Removed)
        };
        let heard = self.heartbeats.values().filter(|h| is_fresh(h) && !has_left(h));
        let since: Option<Vec<Timestamp>> = heard.map(|h| h.no_manager_since).collect();
        since?.into_iter().max()
    }

    /// What is known of one cluster.
    #[must_use]
    pub fn part(&self, id: &ClusterId, now: Timestamp) -> Part {
        let state = self.states.get(id);
        Part {
            id: id.clone(),
            name: self.name(id),
            health: state.map(|s| s.health.health).unwrap_or_default(),
            since: state.map(|s| s.health.since),
            age: self.heartbeats.get(id).and_then(|h| confirmed_age(h, now)),
            no_manager_since: self.heartbeats.get(id).and_then(|h| h.no_manager_since),
            unseen: None,
        }
    }
}

/// How long ago Mesos last confirmed what a shard shows, as of its last heartbeat.
fn confirmed_age(heartbeat: &Heartbeat, now: Timestamp) -> Option<Span> {
    let signs = heartbeat.signs.later(now.since(heartbeat.at));
    signs.confirmed_age()
}

/// A job as a caller sees it.
#[derive(Debug, Clone)]
pub struct JobView {
    /// The wish.
    pub head: Head,
    /// The spec in force; `None` in lists.
    pub spec: Option<JobSpec>,
    /// What became of it, by storage or by the resource manager; `None` in lists while neither says anything.
    pub progress: Option<Progress>,
    /// Names of the clusters that `progress` speaks of.
    pub names: BTreeMap<ClusterId, String>,
    /// Clusters that hold or held a part; empty in lists.
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
        self.parts = ids.into_iter().map(|id| federation.part(id, now)).collect();
        self.no_manager_since = federation.no_manager_since(now);
        self
    }
}

/// State of a job by its progress; a job that nobody has looked at waits.
#[must_use]
pub fn state(progress: Option<&Progress>) -> JobState {
    progress.map_or(JobState::Waiting, |p| p.state)
}
