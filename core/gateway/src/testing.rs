//! A store in memory over decisions and queries, and ways to run methods against it, for the tests of this room.

use crate::call::{Call, CheckAnswer, Next, Stepped};
use crate::create::{CreateJob, create_job};
use echelon_core_model::cluster::{Cluster, ClusterState, Heartbeat, Host};
use echelon_core_model::control::Control;
use echelon_core_model::health::{ClusterHealth, Health, ShardSigns};
use echelon_core_model::instance::{Block, InstanceRecord, SliceRow};
use echelon_core_model::instance_limit::{ExceededLimit, WantedInstances};
use echelon_core_model::job::{Head, JobState, Progress};
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::log::{KeptLog, KeptRuns};
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::Resources;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{
    Answer, Batch, Decided, Decision, Event, NameHolder, Op, OpFailure, OpResult, PlannedRequest, Query,
    Role, RowSubject, ShardKey, ShardRow, Stamp, TroubleKind, UnreadRow, Write,
};
use echelon_core_model::{
    Assignment, ClusterId, Epoch, GroupName, InstanceNumber, JobId, MemberId, PoolId, Reason, ReasonCode,
    RequestId, Span, Timestamp, Version,
};
use echelon_core_testkit::build::JobBuilder;
use echelon_core_testkit::store::ModelStore;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

pub const NOW: Timestamp = Timestamp(1_000_000);

/// Facts in memory. Whatever is in `broken` fails to be read.
#[derive(Default, Clone)]
pub struct Memory {
    pub heads: BTreeMap<JobId, Head>,
    pub specs: BTreeMap<(JobId, u32), JobSpec>,
    pub names: BTreeMap<String, NameHolder>,
    pub requests: BTreeMap<RequestId, PlannedRequest>,
    pub pools: PoolTree,
    pub control: Control,
    pub assignments: BTreeMap<JobId, Assignment>,
    pub clusters: BTreeMap<ClusterId, Cluster>,
    pub progress: BTreeMap<JobId, Progress>,
    pub states: BTreeMap<ClusterId, ClusterState>,
    pub heartbeats: BTreeMap<ClusterId, Heartbeat>,
    pub hosts: BTreeMap<ClusterId, Vec<Host>>,
    /// Events, up to where they hold, and who leads.
    pub model: ModelStore,
    pub blocks: BTreeMap<(ClusterId, JobId, GroupName), BTreeMap<InstanceNumber, InstanceRecord>>,
    pub rows: BTreeMap<(ClusterId, JobId, GroupName), SliceRow>,
    pub shards: BTreeMap<ClusterId, ShardRow>,
    pub kept: BTreeMap<(ClusterId, MemberId), KeptLog>,
    pub kept_runs: Vec<KeptRuns>,
    pub broken: BTreeSet<ClusterId>,
    /// Names of hosts of which the shard's row cannot be understood.
    pub unread_hosts: BTreeSet<String>,
    /// The limit that every job exceeds that is checked.
    pub limit: Option<ExceededLimit>,
    /// What was checked.
    pub checked: Vec<WantedInstances>,
    /// No resource manager answers.
    pub is_unled: bool,
}

impl Memory {
    /// With the pool `/default` and nothing else.
    pub fn new() -> Self {
        let mut out = Self::default();
        out.pools.version = Version(1);
        out.add_pool("/default");
        out
    }

    /// What the resource manager says.
    fn check(&mut self, wanted: WantedInstances) -> CheckAnswer {
        self.checked.push(wanted);
        let answer = self.limit.clone().map_or(Ok(()), Err);
        Some(answer).filter(|_| !self.is_unled)
    }

    pub fn add_pool(&mut self, path: &str) {
        let pool = Pool::new(PoolId::new(path), path);
        self.pools.pools.insert(path.to_owned(), pool);
    }

    /// A cluster that is heard, with its id as its name.
    pub fn add_cluster(&mut self, name: &str) -> ClusterId {
        let id = ClusterId::new(name);
        let cluster = Cluster {
            mesos: "http://m".to_owned(),
            ..Cluster::new(id.clone(), name)
        };
        self.clusters.insert(id.clone(), cluster);
        self.health(&id, Health::Healthy, NOW);
        id
    }

    /// A host that Mesos has contact with.
    pub fn add_host(&mut self, cluster: &ClusterId, id: &str, hostname: &str) {
        let host = Host {
            id: echelon_core_model::HostId::new(id),
            hostname: hostname.to_owned(),
            address: String::new(),
            capacity: Resources::ZERO,
            used: Resources::ZERO,
            tasks: 0,
            attributes: BTreeMap::new(),
            reachable: true,
            seen_at: NOW,
            maintenance: None,
            volumes: Vec::new(),
            drain: None,
            left_out: echelon_core_model::cluster::LeftOut::default(),
            others: echelon_core_model::sharing::Others::default(),
            agent: echelon_core_model::sharing::AgentState::Active,
            place: echelon_core_model::host_pool::HostPlace::default(),
        };
        self.hosts.entry(cluster.clone()).or_default().push(host);
    }

    pub fn health(&mut self, id: &ClusterId, health: Health, heard: Timestamp) {
        let state = ClusterState {
            cluster: id.clone(),
            health: ClusterHealth {
                health,
                since: Timestamp(1),
                ..ClusterHealth::default()
            },
            reported: None,
        };
        self.states.insert(id.clone(), state);
        let beat = Heartbeat {
            cluster: id.clone(),
            epoch: Epoch(1),
            at: heard,
            signs: ShardSigns {
                subscribed: true,
                event_age: Some(Span::ZERO),
                ..ShardSigns::default()
            },
            address: String::new(),
            trouble: None,
            loss: None,
            no_manager_since: None,
        };
        self.heartbeats.insert(id.clone(), beat);
    }

    pub fn ended(&mut self, job: JobId, state: JobState) {
        let version = self.heads.get(&job).map(|h| h.version);
        let progress = Progress {
            state,
            ended_version: version,
            ..Progress::waiting(job, NOW)
        };
        self.progress.insert(job, progress);
    }

    /// Jobs that hold a name and are alive.
    pub fn alive(&self, name: &str) -> Vec<JobId> {
        use echelon_core_model::job::Desired;
        let ended = |id: &JobId| self.progress.get(id).is_some_and(|p| p.state.is_ended());
        self.heads
            .values()
            .filter(|h| !h.void && h.name == name && h.goal.desired != Desired::Deleted && !ended(&h.job))
            .map(|h| h.job)
            .collect()
    }

    pub fn perform(&mut self, op: Op) -> OpResult {
        match op {
            Op::Read(query, _) => match self.read(query) {
                Some(answer @ Answer::Shard(_)) if !self.unread_hosts.is_empty() => {
                    let rows = self.unread_hosts.iter().map(|name| UnreadRow {
                        table: "shards",
                        key: name.clone(),
                        subject: RowSubject::Shard(ShardKey::Host(name.clone())),
                        bytes: vec![0xff],
                        why: "a test spoiled it".to_owned(),
                    });
                    OpResult::Partial(answer, rows.collect())
                }
                Some(answer) => OpResult::Answer(answer),
                None => OpResult::Failed(OpFailure::not_done(TroubleKind::NoAnswer, "down")),
            },
            Op::Decide(decision) => OpResult::Decided(self.decide(decision)),
            Op::Commit(_) => panic!("a gateway owns no facts"),
        }
    }

    fn read(&self, query: Query) -> Option<Answer> {
        Some(match query {
            Query::Head(job) => Answer::Head(self.heads.get(&job).cloned()),
            Query::Spec(job, v) => Answer::Spec(self.specs.get(&(job, v)).cloned()),
            Query::Name(name) => Answer::Name(self.names.get(&name).cloned()),
            Query::Request(id) => Answer::Request(self.requests.get(&id).cloned()),
            Query::Pools => Answer::Pools(self.pools.clone()),
            Query::Control => Answer::Control(self.control.clone()),
            Query::Assignment(job) => Answer::Assignments(Stamp::default(), some(&self.assignments, &job)),
            Query::Clusters => Answer::Clusters(self.clusters.values().cloned().collect()),
            Query::Progress(job) => Answer::Progress(some(&self.progress, &job)),
            Query::ClusterStates => Answer::ClusterStates(self.states.values().cloned().collect()),
            Query::Heartbeats => Answer::Heartbeats(self.heartbeats.values().cloned().collect()),
            Query::GroupBlocks { .. } => return self.group_blocks(query),
            Query::Hosts {
                cluster,
                after,
                limit,
            } => Answer::Hosts(
                self.hosts
                    .get(&cluster)
                    .into_iter()
                    .flatten()
                    .filter(|h| after.as_ref().is_none_or(|a| h.id > *a))
                    .take(limit as usize)
                    .cloned()
                    .collect(),
            ),
            query @ (Query::Events { .. } | Query::EventEnds(..) | Query::Leadership(_)) => {
                self.model.read(&query)
            }
            Query::Jobs { filter, after, limit } => Answer::Jobs(
                self.heads
                    .values()
                    .map(|h| (h.clone(), self.progress.get(&h.job).cloned()))
                    .filter(|(h, p)| filter.passes(h, crate::view::state(p.as_ref())))
                    .filter(|(h, _)| after.is_none_or(|a| h.job > a))
                    .take(limit as usize)
                    .collect(),
            ),
            Query::Shard(cluster) => Answer::Shard(self.shards.get(&cluster).cloned().unwrap_or_default()),
            Query::KeptRuns(job) => {
                let of_job = self.kept_runs.iter().filter(|list| list.job == job);
                Answer::KeptRuns(of_job.cloned().collect())
            }
            Query::KeptLog(cluster, task) => Answer::KeptLog(self.kept.get(&(cluster, task)).cloned()),
            other => panic!("no method reads {other:?}"),
        })
    }

    fn group_blocks(&self, query: Query) -> Option<Answer> {
        use echelon_core_model::instance::BlockKey;
        let Query::GroupBlocks {
            cluster,
            job,
            group,
            first,
            last,
        } = query
        else {
            return None;
        };
        if self.broken.contains(&cluster) {
            return None;
        }
        let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
        let place = (cluster, job, group.clone());
        for (n, record) in self.blocks.get(&place).into_iter().flatten() {
            let key = BlockKey::of(job, &group, *n);
            if (first..=last).contains(&key.number) {
                let block = blocks.entry(key.number).or_insert_with(|| Block {
                    key,
                    instances: BTreeMap::new(),
                });
                block.instances.insert(*n, record.clone());
            }
        }
        Some(Answer::Blocks(
            blocks.into_values().collect(),
            some(&self.rows, &place),
        ))
    }

    fn decide(&mut self, decision: Decision) -> Decided {
        match decision {
            Decision::PutHead { head, expected } => {
                let there = self.heads.get(&head.job).cloned();
                put(
                    &there,
                    &head,
                    there.as_ref().map(|h| h.version) == expected,
                    Answer::Head,
                )
                .unwrap_or_else(|| insert(&mut self.heads, head.job, head))
            }
            Decision::PutSpec { job, version, spec } => {
                let there = self.specs.get(&(job, version)).cloned();
                put(&there, &spec, there.is_none(), Answer::Spec)
                    .unwrap_or_else(|| insert(&mut self.specs, (job, version), spec))
            }
            Decision::TakeName {
                name,
                holder,
                expected,
            } => {
                let there = self.names.get(&name).cloned();
                put(
                    &there,
                    &holder,
                    there.as_ref().map(|h| h.version) == expected,
                    Answer::Name,
                )
                .unwrap_or_else(|| insert(&mut self.names, name, holder))
            }
            Decision::PlanRequest { id, planned } => {
                let there = self.requests.get(&id).cloned();
                put(&there, &planned, there.is_none(), Answer::Request)
                    .unwrap_or_else(|| insert(&mut self.requests, id, planned))
            }
            Decision::PutPools { tree, expected } => {
                if self.pools != tree && self.pools.version != expected {
                    return Decided::Conflict(Box::new(Answer::Pools(self.pools.clone())));
                }
                self.pools = tree;
                Decided::Applied
            }
            Decision::PutControl { control, expected } => {
                if self.control != control && self.control.version != expected {
                    return Decided::Conflict(Box::new(Answer::Control(self.control.clone())));
                }
                self.control = control;
                Decided::Applied
            }
            Decision::PutCluster { cluster, expected } => {
                let there = self.clusters.get(&cluster.id).cloned();
                let all = |_| Answer::Clusters(vec![]);
                put(
                    &there,
                    &cluster,
                    there.as_ref().map(|c| c.version) == expected,
                    all,
                )
                .unwrap_or_else(|| insert(&mut self.clusters, cluster.id.clone(), cluster))
            }
            other => panic!("no method decides {other:?}"),
        }
    }
}

fn some<K: Ord, V: Clone>(map: &BTreeMap<K, V>, key: &K) -> Vec<V> {
    map.get(key).cloned().into_iter().collect()
}

/// What becomes of a decision that need not be written; `None`: write it.
fn put<T: PartialEq + Clone>(
    there: &Option<T>,
    new: &T,
    fits: bool,
    answer: impl Fn(Option<T>) -> Answer,
) -> Option<Decided> {
    if there.as_ref() == Some(new) {
        Some(Decided::Applied)
    } else if fits {
        None
    } else {
        Some(Decided::Conflict(Box::new(answer(there.clone()))))
    }
}

fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Decided {
    map.insert(key, value);
    Decided::Applied
}

/// A store with one service `web` of three instances.
pub fn web() -> (Memory, JobId) {
    let mut store = Memory::new();
    let request = CreateJob {
        spec: JobBuilder::service("web", 3).build(),
        named: NamedFields::default(),
        violations: vec![],
        bytes: 1,
        hash: 1,
        request_id: "r".into(),
        origin: None,
    };
    let view = run(&mut store, |facts| async move {
        create_job(&facts, request, 1, NOW).await
    });
    (store, view.unwrap().head.job)
}

/// Runs a method to its end.
pub fn run<T, M: Future<Output = T> + 'static>(store: &mut Memory, method: impl FnOnce(Stepped) -> M) -> T {
    let (mut call, mut next) = Call::start(method);
    loop {
        next = match next {
            Next::Done(answer) => return answer,
            Next::Do(op) => call.on(store.perform(op)),
            Next::Check(wanted) => call.on_check(store.check(wanted)),
            Next::Wait(_) => call.on_pause(),
        };
    }
}

/// A method between two of its operations.
pub struct Running<T> {
    call: Call<T>,
    next: Option<Next<T>>,
}

impl<T> Running<T> {
    pub fn start<M: Future<Output = T> + 'static>(method: impl FnOnce(Stepped) -> M) -> Self {
        let (call, next) = Call::start(method);
        Self {
            call,
            next: Some(next),
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.next, Some(Next::Done(_)))
    }

    pub fn answer(&mut self) -> Option<T> {
        match self.next.take() {
            Some(Next::Done(answer)) => Some(answer),
            other => {
                self.next = other;
                None
            }
        }
    }

    /// Performs its next operation; when `lost`, it is performed and the answer never comes.
    pub fn step(&mut self, store: &mut Memory, lost: bool) {
        self.next = Some(match self.next.take() {
            Some(Next::Do(op)) => {
                let mut result = store.perform(op);
                if lost {
                    result = OpResult::Failed(OpFailure::unknown("lost"));
                }
                self.call.on(result)
            }
            Some(Next::Check(wanted)) => self.call.on_check(store.check(wanted)),
            Some(Next::Wait(_)) => self.call.on_pause(),
            Some(done) => done,
            None => panic!("stepped after its end"),
        });
    }
}

/// Commits some writes of a role.
pub fn commit(model: &mut ModelStore, owner: &Role, stamp: Stamp, writes: Vec<Write>) {
    let batch = Batch {
        owner: owner.clone(),
        stamp,
        writes,
    };
    assert_eq!(model.perform(Op::Commit(batch)), OpResult::Committed);
}

/// Commits events of a job in a lane, dated as told, and notes them.
pub fn commit_events(
    model: &mut ModelStore,
    owner: &Role,
    (epoch, sequence): (u64, u64),
    (lane, job): (u16, JobId),
    times: &[u64],
) {
    let events = times.iter().map(|at| {
        Write::Event(Event {
            job,
            at: Timestamp(*at),
            happened: Timestamp(*at),
            instance: None,
            state: None,
            reason: Reason::new(ReasonCode::Running),
            hostname: None,
            task: None,
        })
    });
    let stamp = Stamp {
        epoch: Epoch(epoch),
        sequence,
    };
    let writes = events.chain([Write::NoteEvents(lane)]).collect();
    commit(model, owner, stamp, writes);
}
