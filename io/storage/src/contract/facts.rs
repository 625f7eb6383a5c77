//! Facts with a default for everything that is not the point.

use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder};
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::bucket::{assignment_partition, job_bucket};
use echelon_core_model::cluster::Host;
use echelon_core_model::instance::{Block, BlockKey, InstanceRecord, Run};
use echelon_core_model::job::{Goal, Head, JobState, Progress};
use echelon_core_model::pool::{MAX_POOLS, Pool, PoolKind, PoolTree, PreemptWithin, PriorityBounds};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::sharing::{AgentState, Others, QuotaLimit, RoleShare, Sharing};
use echelon_core_model::spec::{CLUSTER_LOSS_WAITS, GroupSpec, JobKind, JobSpec, OnSilence};
use echelon_core_model::store::{Event, Role};
use echelon_core_model::{
    ClusterId, Generation, GroupName, HostId, InstanceNumber, InstanceRange, JobId, Kind, PoolId, Reason,
    ReasonCode, Resources, RunState, Timestamp, Version,
};
use std::collections::BTreeMap;

/// A job id that looks like a real one.
#[must_use]
pub const fn job(n: u64) -> JobId {
    JobId::new(
        Timestamp(1_795_246_364_718 + n),
        n as u128 * 0x9e37_79b9_7f4a_7c15,
    )
}

/// The default group.
#[must_use]
pub fn main_group() -> GroupName {
    GroupName::new(GroupName::DEFAULT)
}

/// A shard's leadership.
#[must_use]
pub fn shard(cluster: &str) -> Role {
    Role::Shard(ClusterId::new(cluster))
}

/// A head at a version.
#[must_use]
pub fn head(job: JobId, version: u64) -> Head {
    Head {
        job,
        version: Version(version),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: format!("job-{job}"),
        pool: "/default".to_owned(),
        pool_id: None,
        kind: JobKind::Batch,
        owner: "ann".to_owned(),
        labels: BTreeMap::new(),
        instances: 8,
        updated_at: Timestamp(version),
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
        spec_digest: None,
    }
}

/// A spec of one group with this command.
#[must_use]
pub fn spec(command: &str) -> JobSpec {
    let group = GroupSpec {
        instances: 8,
        runtime: Runtime::shell(command),
        resources: Resources {
            cpus: 100,
            memory: 32,
            ..Resources::ZERO
        },
        ..GroupSpec::new(main_group(), JobKind::Batch)
    };
    JobSpec {
        groups: vec![group],
        ..JobSpec::new("hello", JobKind::Batch)
    }
}

/// Progress in a state.
#[must_use]
pub const fn progress(job: JobId, state: JobState) -> Progress {
    Progress {
        job,
        state,
        since: Timestamp(7),
        reason: None,
        ended_version: None,
        groups: echelon_core_model::Few::new(),
        waiting: Vec::new(),
        awaited: Vec::new(),
        created_at: Timestamp(1),
        starved: Some(Timestamp(3)),
        rollout: None,
        released: Some(Timestamp(4)),
        keep_until: None,
        restart: None,
        crash_looping: 2,
    }
}

/// An assignment of numbers 0 to 7 to a cluster.
#[must_use]
pub fn assignment(job: JobId, cluster: &str) -> Assignment {
    let cluster = ClusterId::new(cluster);
    let range = AssignedRange {
        range: InstanceRange { first: 0, last: 7 },
        cluster: cluster.clone(),
        generation: Generation(1),
        former: None,
        releasing: None,
    };
    let mut assignment = Assignment::new(job);
    assignment.groups.insert(main_group(), vec![range]);
    assignment.holders.insert(cluster, Generation(1));
    assignment
}

/// 64 groups of 400 ranges each, of which every second was elsewhere before; removed numbers and many
/// holders.
#[must_use]
pub fn large_assignment(job: JobId) -> Assignment {
    let cluster = |n: u32| ClusterId::new(format!("cluster-of-a-long-name-{:04}", n % 1_024));
    let mut all = Assignment::new(job);
    for group in 0..64 {
        let group = GroupName::new(format!("group-{group}"));
        let ranges = (0..400).map(|n| AssignedRange {
            range: InstanceRange {
                first: 1_000 * n,
                last: 1_000 * n + 998,
            },
            cluster: cluster(n % 50),
            generation: Generation(2),
            former: (n % 2 == 0).then(|| (cluster(n % 50 + 1), Generation(1))),
            releasing: None,
        });
        all.groups.insert(group.clone(), ranges.collect());
        let released = (0..40).map(|n| InstanceRange {
            first: 1_000 * n + 999,
            last: 1_000 * n + 999,
        });
        let holder = LastHolder {
            generation: Generation(1),
            cluster: Some(cluster(7)),
        };
        let released = std::iter::once((holder, released.collect()));
        all.released.insert(group, released.collect());
    }
    for n in 0..1_024 {
        all.holders.insert(cluster(n), Generation(2));
    }
    all
}

/// The first jobs from `job(0)` that lie in an assignment partition.
#[must_use]
pub fn jobs_of_partition(partition: u16, n: usize) -> Vec<JobId> {
    let jobs = (0..).map(job).filter(|j| assignment_partition(*j) == partition);
    jobs.take(n).collect()
}

/// The first jobs from `job(0)` that lie in a job bucket.
#[must_use]
pub fn jobs_of_bucket(bucket: u16, n: usize) -> Vec<JobId> {
    (0..)
        .map(job)
        .filter(|j| job_bucket(*j) == bucket)
        .take(n)
        .collect()
}

/// A block with one running instance on a host.
#[must_use]
pub fn block(job: JobId, number: u32, host: &str) -> Block {
    let run = Run {
        started_at: Some(Timestamp(4)),
        ..Run::first(
            RunState::Running,
            HostId::new(host),
            &format!("{host}.example"),
            Timestamp(5),
        )
    };
    let record = InstanceRecord {
        generation: Generation(1),
        run: Some(run),
        ..InstanceRecord::default()
    };
    Block {
        key: key(job, number),
        instances: [(InstanceNumber(number * BLOCK_SIZE), record)]
            .into_iter()
            .collect(),
    }
}

/// The key of a block of the default group.
#[must_use]
pub fn key(job: JobId, number: u32) -> BlockKey {
    BlockKey {
        job,
        group: main_group(),
        number,
    }
}

/// The host of a block made by `block`.
#[must_use]
pub fn host_of(block: &Block) -> String {
    let record = block.instances.values().next().expect("one instance");
    record.run.as_ref().expect("a run").host.to_string()
}

/// The most of everything that a row may have.
pub const LARGEST: Resources = Resources {
    cpus: 1 << 60,
    memory: 1 << 60,
    disk: 1 << 60,
    gpus: 1 << 60,
};

/// A cluster that other frameworks use, with a limit of quota.
#[must_use]
pub fn sharing() -> Sharing {
    let held = Others {
        used: LARGEST,
        offered: Resources::ZERO,
    };
    let role = RoleShare {
        role: "spark".to_owned(),
        held,
    };
    let limit = QuotaLimit {
        role: "eng".to_owned(),
        kind: Kind::Gpus,
        limit: 1 << 60,
        ours: 0,
        one_host: 0,
    };
    Sharing {
        roles: vec![role],
        roles_left_out: u32::MAX,
        limits: Some(vec![limit]),
    }
}

/// A host.
#[must_use]
pub fn host(id: &str, tasks: u32) -> Host {
    Host {
        id: HostId::new(id),
        hostname: format!("{id}.example"),
        address: format!("{id}:5051"),
        capacity: LARGEST,
        used: Resources::ZERO,
        tasks,
        attributes: [("rack".to_owned(), "a".to_owned())].into_iter().collect(),
        reachable: true,
        seen_at: Timestamp(9),
        maintenance: None,
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: Others {
            used: LARGEST,
            offered: LARGEST,
        },
        agent: AgentState::Drained,
        place: echelon_core_model::host_pool::HostPlace::default(),
    }
}

/// An event of a job.
#[must_use]
pub fn event(job: JobId, at: u64, detail: &str) -> Event {
    Event {
        job,
        at: Timestamp(at),
        happened: Timestamp(at.saturating_sub(1)),
        instance: Some((main_group(), 3)),
        state: Some(RunState::Failed),
        reason: Reason::new(ReasonCode::Failed).at(detail),
        hostname: None,
        task: None,
    }
}

/// A tree of as many pools as there may be, each with all its fields: large numbers, and paths of up to 20
/// names.
#[must_use]
pub fn largest_tree(version: u64) -> PoolTree {
    let most = Resources {
        cpus: 1 << 50,
        memory: 1 << 50,
        disk: 1 << 50,
        gpus: 1 << 50,
    };
    let deep = |n: usize| format!("/chain-{}{}", n / 20, "/name".repeat(n % 20));
    let pools = (0..MAX_POOLS).map(|n| Pool {
        reservation: most,
        limit: most,
        share: most,
        kind: PoolKind::Static,
        max_instance: most,
        priority: PriorityBounds {
            min: 1,
            max: u32::MAX - 1,
            default: Some(u32::MAX - 1),
        },
        controller_limit: most,
        revocable_limit: most,
        max_jobs: 1 << 50,
        max_instances: 1 << 50,
        fair_users: true,
        preempt_within: PreemptWithin::LowerPriority,
        on_cluster_loss: Some(OnSilence::Replace(*CLUSTER_LOSS_WAITS.end())),
        deleting: true,
        version: Version(version),
        ..Pool::new(PoolId::new(format!("{n:032x}")), deep(n))
    });
    PoolTree {
        version: Version(version),
        pools: pools.map(|p| (p.path.clone(), p)).collect(),
    }
}
