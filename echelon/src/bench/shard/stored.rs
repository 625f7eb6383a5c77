//! What an earlier leader left in storage: jobs, assignments, and every instance with a run that runs.

use anyhow::{Result, bail};
use echelon_core_model::bucket::{ASSIGNMENT_PARTITIONS, BLOCK_SIZE, assignment_partition};
use echelon_core_model::cluster::Host;
use echelon_core_model::directive::{Grant, OwnChanges};
use echelon_core_model::instance::{Block, BlockKey, Counts, Ended, InstanceRecord, Run, SliceRow};
use echelon_core_model::job::{Goal, Head, JobState, Progress};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::store::{Batch, Decided, Decision, Leadership, Role, ShardRow, Stamp, Write};
use echelon_core_model::{
    AssignedRange, Assignment, ClusterId, Epoch, Generation, GroupName, HostId, InstanceNumber,
    InstanceRange, JobId, Reason, ReasonCode, Resources, RunState, Span, Timestamp, Version,
};
use echelon_io_storage::Store;
use std::collections::BTreeMap;

/// The framework id that the earlier leader registered.
pub(super) const FRAMEWORK: &str = "5f1c9f7e-6f2b-4e07-9d53-2b1d5f0c7a11-0000";
/// The epoch of the resource manager, and of the earlier leader.
pub(super) const EPOCH: Epoch = Epoch(1);
/// Rows of one write: well below the most that a batch may have.
const TOGETHER: usize = 64;

/// So many jobs of so many instances, and one job more that is to begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) jobs: u32,
    pub(super) each: u32,
    pub(super) on_host: u32,
    /// Jobs of one instance that have ended and were archived, whose records are still there.
    pub(super) ended: u32,
}

impl Size {
    pub(super) fn instances(self) -> u64 {
        u64::from(self.jobs) * u64::from(self.each)
    }

    pub(super) fn hosts(self) -> u32 {
        let hosts = self.instances().div_ceil(self.on_host.into()).max(10);
        u32::try_from(hosts).unwrap_or(u32::MAX)
    }

    /// The host of an instance.
    fn host_of(self, job: u32, n: u32) -> u32 {
        let number = u64::from(job) * u64::from(self.each) + u64::from(n);
        u32::try_from(number % u64::from(self.hosts())).unwrap_or_default()
    }

    /// What the instances on a host take, and what it has beside that: as much again.
    pub(super) fn rest_of_host(self) -> Resources {
        SHAPE.times(self.on_host.into())
    }

    /// What a host has.
    pub(super) fn room_of_host(self) -> Resources {
        SHAPE.times(u64::from(self.on_host) * 2)
    }

    /// The job that begins only after the restart.
    pub(super) const fn new_job(self) -> u32 {
        self.jobs
    }

    /// The jobs that have ended.
    fn old_jobs(self) -> std::ops::Range<u32> {
        let first = self.new_job().saturating_add(1);
        first..first.saturating_add(self.ended)
    }

    /// How many instances a job has.
    fn instances_of(self, job: u32) -> u32 {
        if job > self.new_job() { 1 } else { self.each }
    }

    /// All jobs, the new one and those that have ended included.
    fn all_jobs(self) -> std::ops::Range<u32> {
        0..self.old_jobs().end
    }
}

pub(super) fn cluster() -> ClusterId {
    ClusterId::new("bench")
}

/// Jobs made one after the other, a second apart.
pub(super) const fn job_id(n: u32) -> JobId {
    JobId::new(Timestamp(1_700_000_000_000 + n as u64 * 1_000), n as u128)
}

pub(super) fn group() -> GroupName {
    GroupName::new(GroupName::DEFAULT)
}

/// As Mesos makes them: most of it is the same for all.
pub(super) fn host_id(n: u32) -> HostId {
    HostId::new(format!("5f1c9f7e-6f2b-4e07-9d53-2b1d5f0c7a11-S{n}"))
}

pub(super) fn hostname(n: u32) -> String {
    format!("host-{n}.example")
}

/// What an instance takes.
pub(super) const SHAPE: Resources = Resources {
    cpus: 1_000,
    memory: 1_024,
    disk: 0,
    gpus: 0,
};

fn spec(n: u32, instances: u32) -> JobSpec {
    JobSpec {
        groups: vec![GroupSpec {
            instances,
            runtime: Runtime::shell("sleep 3600"),
            resources: SHAPE,
            ..GroupSpec::new(group(), JobKind::Service)
        }],
        ..JobSpec::new(&format!("bench-{n}"), JobKind::Service)
    }
}

pub(super) fn range(each: u32) -> AssignedRange {
    AssignedRange {
        range: InstanceRange {
            first: 0,
            last: each.saturating_sub(1),
        },
        cluster: cluster(),
        generation: Generation(1),
        former: None,
        releasing: None,
    }
}

pub(super) fn grant(number: u64, each: u32) -> Grant {
    Grant {
        epoch: EPOCH,
        number,
        active: each.into(),
        known: OwnChanges::default(),
        lease: Span::seconds(30),
    }
}

fn head(n: u32, of: &JobSpec, now: Timestamp) -> Head {
    Head {
        job: job_id(n),
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: of.name.clone(),
        pool: of.pool.clone(),
        pool_id: None,
        kind: of.kind,
        owner: of.owner.clone(),
        labels: of.labels.clone(),
        instances: of.instances(),
        updated_at: now,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
        spec_digest: None,
    }
}

/// Writes as one leader does, each stamped later than the one before.
struct Writer<'a> {
    store: &'a dyn Store,
    owner: Role,
    sequence: u64,
    pending: Vec<Write>,
}

impl Writer<'_> {
    async fn write(&mut self, write: Write) -> Result<()> {
        self.pending.push(write);
        if self.pending.len() >= TOGETHER {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.sequence += 1;
        let batch = Batch {
            owner: self.owner.clone(),
            stamp: Stamp {
                epoch: EPOCH,
                sequence: self.sequence,
            },
            writes: std::mem::take(&mut self.pending),
        };
        Ok(self.store.commit(batch).await?)
    }
}

/// What the resource manager took.
pub(super) fn manager() -> Leadership {
    Leadership {
        epoch: EPOCH,
        holder: "manager".to_owned(),
        proof: 1,
        resumed: Epoch(0),
    }
}

/// Fills a storage with all of it.
pub(super) async fn fill(store: &dyn Store, size: Size, now: Timestamp) -> Result<()> {
    let lead = Decision::TakeEpoch {
        role: Role::Shard(cluster()),
        next: Leadership {
            epoch: EPOCH,
            holder: "earlier".to_owned(),
            proof: 1,
            resumed: Epoch(0),
        },
        expected: Epoch(0),
    };
    let managed = Decision::TakeEpoch {
        role: Role::ResourceManager,
        next: manager(),
        expected: Epoch(0),
    };
    decide(store, vec![lead, managed]).await?;
    jobs(store, size, now).await?;
    assignments(store, size).await?;
    let writer = |owner| Writer {
        store,
        owner,
        sequence: 0,
        pending: Vec::new(),
    };
    let mut ends = writer(Role::ResourceManager);
    for n in size.old_jobs() {
        ends.write(Write::Progress(end(n, now))).await?;
        let written = Stamp {
            epoch: EPOCH,
            sequence: 1,
        };
        for (place, row) in (0..).zip(assignment(size, n).pieces(written)) {
            ends.write(Write::EndedAssignment(row, place)).await?;
        }
    }
    ends.flush().await?;
    let mut writer = writer(Role::Shard(cluster()));
    for n in size.old_jobs() {
        writer.write(Write::Archive(old_block(n, now))).await?;
    }
    let own = ShardRow {
        framework: Some(FRAMEWORK.to_owned()),
        obeyed: EPOCH,
        ..ShardRow::default()
    };
    for write in own.writes() {
        writer.write(write).await?;
    }
    for n in 0..size.hosts() {
        writer.write(Write::Host(host(size, n, now))).await?;
    }
    for n in 0..size.jobs {
        let mut row = SliceRow::new(job_id(n), group());
        row.ranges = vec![range(size.each)];
        row.grants = BTreeMap::from([(Generation(1), grant(1, size.each))]);
        writer.write(Write::Slice(row)).await?;
        for number in 0..size.each.div_ceil(BLOCK_SIZE) {
            writer.write(Write::Block(block(size, n, number, now))).await?;
        }
    }
    writer.flush().await
}

async fn jobs(store: &dyn Store, size: Size, now: Timestamp) -> Result<()> {
    let all: Vec<u32> = size.all_jobs().collect();
    for some in all.chunks(500) {
        let specs: Vec<(u32, JobSpec)> = some
            .iter()
            .map(|n| (*n, spec(*n, size.instances_of(*n))))
            .collect();
        let heads = specs.iter().map(|(n, spec)| Decision::PutHead {
            head: head(*n, spec, now),
            expected: None,
        });
        let heads = heads.collect();
        let put = |(n, spec): (u32, JobSpec)| Decision::PutSpec {
            job: job_id(n),
            version: 1,
            spec,
        };
        decide(store, specs.into_iter().map(put).collect()).await?;
        decide(store, heads).await?;
    }
    Ok(())
}

fn assignment(size: Size, n: u32) -> Assignment {
    let mut out = Assignment::new(job_id(n));
    out.groups.insert(group(), vec![range(size.instances_of(n))]);
    out.holders.insert(cluster(), Generation(1));
    out
}

async fn assignments(store: &dyn Store, size: Size) -> Result<()> {
    for partition in 0..ASSIGNMENT_PARTITIONS {
        let raise = Decision::RaisePartition {
            partition,
            epoch: EPOCH,
            expected: Epoch(0),
        };
        decide(store, vec![raise]).await?;
        // Those of jobs that have ended lie elsewhere.
        let here = (0..=size.new_job()).filter(|n| assignment_partition(job_id(*n)) == partition);
        let all: Vec<Assignment> = here.map(|n| assignment(size, n)).collect();
        for (sequence, put) in (1..).zip(all.chunks(500)) {
            let put = Decision::PutAssignments {
                partition,
                stamp: Stamp {
                    epoch: EPOCH,
                    sequence,
                },
                put: put.to_vec(),
                remove: Vec::new(),
            };
            decide(store, vec![put]).await?;
        }
    }
    Ok(())
}

/// Carries decisions out side by side, as many clients would.
async fn decide(store: &dyn Store, all: Vec<Decision>) -> Result<()> {
    let all = all.into_iter().map(|decision| store.decide(decision));
    for done in futures::future::try_join_all(all).await? {
        if done != Decided::Applied {
            bail!("the storage is not empty");
        }
    }
    Ok(())
}

fn host(size: Size, n: u32, now: Timestamp) -> Host {
    Host {
        id: host_id(n),
        hostname: hostname(n),
        address: format!("{}:5051", hostname(n)),
        capacity: size.room_of_host(),
        used: size.rest_of_host(),
        tasks: size.on_host,
        attributes: BTreeMap::from([("zone".to_owned(), format!("z{}", n % 3))]),
        reachable: true,
        seen_at: now,
        maintenance: None,
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: echelon_core_model::host_pool::HostPlace::default(),
    }
}

/// How a job has ended.
fn end(n: u32, now: Timestamp) -> Progress {
    let mut counts = Counts::default();
    counts.add(RunState::Succeeded, 1);
    Progress {
        job: job_id(n),
        state: JobState::Succeeded,
        since: now,
        ended_version: Some(Version(1)),
        reason: Some(Reason::new(ReasonCode::Succeeded)),
        groups: [(group(), counts)].into_iter().collect(),
        waiting: Vec::new(),
        awaited: Vec::new(),
        created_at: now,
        starved: None,
        rollout: None,
        restart: None,
        released: None,
        keep_until: None,
        crash_looping: 0,
    }
}

/// What the archive has of a job that has ended.
fn old_block(job: u32, now: Timestamp) -> Block {
    let run = Run {
        head_version: Version(1),
        started_at: Some(now),
        ended_at: Some(now),
        exit_code: Some(0),
        ..Run::first(RunState::Succeeded, host_id(0), &hostname(0), now)
    };
    let record = InstanceRecord {
        generation: Generation(1),
        run: Some(run),
        ended: Some(Ended::Succeeded),
        ..InstanceRecord::default()
    };
    Block {
        key: BlockKey {
            job: job_id(job),
            group: group(),
            number: 0,
        },
        instances: [(InstanceNumber(0), record)].into(),
    }
}

fn block(size: Size, job: u32, number: u32, now: Timestamp) -> Block {
    let first = number * BLOCK_SIZE;
    let last = size.each.min(first + BLOCK_SIZE);
    let record = |n: u32| {
        let host = size.host_of(job, n);
        let run = Run {
            head_version: Version(1),
            started_at: Some(now),
            available_at: Some(now),
            ..Run::first(RunState::Running, host_id(host), &hostname(host), now)
        };
        InstanceRecord {
            generation: Generation(1),
            run: Some(run),
            ..InstanceRecord::default()
        }
    };
    Block {
        key: BlockKey {
            job: job_id(job),
            group: group(),
            number,
        },
        instances: (first..last).map(|n| (InstanceNumber(n), record(n))).collect(),
    }
}
