//! Any value of the stored and sent types, small but with every corner: absent, empty, largest.

mod classes;
mod health;
mod host_pools;
mod logs;
mod role_state;

pub use classes::{class_fits, named_classes};
pub use health::{shard_signs, start_counts};
pub use host_pools::{by_host_pool, host_moves};
pub use logs::{kept_log, kept_runs};
pub use role_state::role_state;

use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder, Releasing};
use echelon_core_model::cluster::{
    Cluster, ClusterState, DesiredState, Heartbeat, Host, LeftOut, Maintenance, MassLoss, ReportedCapacity,
};
use echelon_core_model::control::Control;
use echelon_core_model::directive::{Grant, OwnChanges};
use echelon_core_model::drain::{AgentDrain, DrainState, Drains, HostDrain, Left, Stays};
use echelon_core_model::failure::Failure;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::gone::{AgentTimes, Gone, GoneCause};
use echelon_core_model::instance::{
    Block, BlockKey, Counts, Ended, Ending, InstanceRecord, Probes, Run, SliceRow, Stopping,
};
use echelon_core_model::job::{Desired, Goal, Head, JobState, Progress, Verdict, Waiting};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::pod::Member;
use echelon_core_model::pool::{Pool, PoolKind, PoolTree, PreemptWithin, PriorityBounds};
use echelon_core_model::reason::Shortfall;
use echelon_core_model::restart::{RestartPart, RestartProgress, Restarts};
use echelon_core_model::rollout::{PastRollout, Rollout, RolloutProgress, RolloutState};
use echelon_core_model::runtime::Port;
use echelon_core_model::schedule::{Opening, Origin, ScheduleState};
use echelon_core_model::sharing::{AgentState, Others, QuotaLimit, RoleShare, Sharing};
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::spec_digest::SpecDigest;
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{Event, Leadership, Mark, NameHolder, PlannedRequest, ShardRow, Stamp};
use echelon_core_model::token::TokenKey;
use echelon_core_model::volume::{HeldVolume, HostVolume, VolumeWish};
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, HostId, InstanceId, InstanceNumber, InstanceRange, JobId, Kind,
    PoolId, RangeSet, Reason, ReasonCode, Resources, RunNumber, RunState, SidecarName, Span, Timestamp,
    Version, VolumeId,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

pub fn job() -> impl Strategy<Value = JobId> {
    any::<u128>().prop_map(JobId)
}

pub fn group() -> impl Strategy<Value = GroupName> {
    "[a-z0-9-]{1,8}".prop_map(GroupName::new)
}

pub fn cluster_id() -> impl Strategy<Value = ClusterId> {
    "[a-z0-9]{1,4}".prop_map(ClusterId::new)
}

fn host_id() -> impl Strategy<Value = HostId> {
    "[a-c]{0,2}".prop_map(HostId::new)
}

pub fn at() -> impl Strategy<Value = Timestamp> {
    whole().prop_map(Timestamp)
}

pub fn span() -> impl Strategy<Value = Span> {
    whole().prop_map(Span)
}

pub fn generation() -> impl Strategy<Value = Generation> {
    (0..5u32).prop_map(Generation)
}

pub fn version() -> impl Strategy<Value = Version> {
    whole().prop_map(Version)
}

/// A count, a size, a version or a moment: both ends of its range, too.
pub fn whole() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1 << 53), 0..=1u64 << 53]
}

/// A number that counts up by one.
pub fn counter() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just((1 << 31) - 1), 0..1u32 << 31]
}

/// A number within an epoch.
pub fn sequence() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just((1 << 40) - 1), 0..1u64 << 40]
}

/// An epoch and a number within it.
pub fn stamp() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(i64::MAX as u64), 0..1u64 << 63]
}

pub fn epoch() -> impl Strategy<Value = Epoch> {
    prop_oneof![Just(1), Just(Epoch::END - 1), 1..Epoch::END].prop_map(Epoch)
}

fn text() -> impl Strategy<Value = String> {
    ".{0,6}"
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

pub fn resources() -> impl Strategy<Value = Resources> {
    amounts(1 << 60)
}

/// What a cluster may have.
pub fn amounts_of_cluster() -> impl Strategy<Value = Resources> {
    amounts(1 << 50)
}

/// The same where the largest number says that there is no bound.
fn bounds_of_resources() -> impl Strategy<Value = Resources> {
    amounts(u64::MAX)
}

fn amounts(most: u64) -> impl Strategy<Value = Resources> {
    let n = move || prop_oneof![Just(0), Just(most), 0..=most];
    (n(), n(), n(), n()).prop_map(|(cpus, memory, disk, gpus)| Resources {
        cpus,
        memory,
        disk,
        gpus,
    })
}

fn range() -> impl Strategy<Value = InstanceRange> {
    (any::<u32>(), any::<u32>()).prop_map(|(a, b)| InstanceRange {
        first: a.min(b),
        last: a.max(b),
    })
}

pub fn ranges() -> impl Strategy<Value = RangeSet> {
    vec(range(), 0..4).prop_map(|ranges| ranges.into_iter().collect())
}

fn code() -> impl Strategy<Value = ReasonCode> {
    prop_oneof![
        9 => select(ReasonCode::ALL),
        1 => (1..=u32::from(u16::MAX)).prop_map(ReasonCode::from_number),
    ]
}

pub fn reason() -> impl Strategy<Value = Reason> {
    let shortfall = (select(Kind::ALL.to_vec()), any::<u64>(), any::<u64>())
        .prop_map(|(kind, have, need)| Shortfall { kind, have, need });
    (code(), of(shortfall), of(text())).prop_map(|(code, shortfall, detail)| Reason {
        code,
        shortfall: shortfall.map(Box::new),
        detail: detail.map(String::into_boxed_str),
    })
}

pub fn goal() -> impl Strategy<Value = Goal> {
    let desired = select(vec![Desired::Running, Desired::Stopped, Desired::Deleted]);
    (desired, counter()).prop_map(|(desired, restarts)| Goal { desired, restarts })
}

pub fn rollout() -> impl Strategy<Value = Rollout> {
    let numbers = (counter(), counter(), whole());
    let fields = (numbers, at(), of(code()), any::<bool>(), of(code()));
    fields.prop_map(
        |((number, base, forgiven), since, held, promoted, back)| Rollout {
            number,
            base,
            since,
            held,
            promoted,
            back,
            forgiven,
        },
    )
}

fn rollout_state() -> impl Strategy<Value = RolloutState> {
    select(RolloutState::ALL.to_vec())
}

fn past_rollout() -> impl Strategy<Value = PastRollout> {
    (rollout(), counter(), rollout_state()).prop_map(|(wish, spec_version, state)| PastRollout {
        wish,
        spec_version,
        state,
    })
}

fn rollout_progress() -> impl Strategy<Value = RolloutProgress> {
    let numbers = (counter(), whole(), whole());
    let fields = (numbers, rollout_state(), at(), of(reason()));
    fields.prop_map(
        |((number, updated, failed), state, since, reason)| RolloutProgress {
            number,
            state,
            since,
            updated,
            failed,
            reason,
        },
    )
}

pub fn head() -> impl Strategy<Value = Head> {
    let ids = (job(), version(), any::<bool>(), goal(), counter());
    let kind = select(vec![JobKind::Batch, JobKind::Service]);
    let pool_id = proptest::option::of("[a-z0-9]{1,8}".prop_map(PoolId::new));
    let rest = (
        text(),
        (text(), pool_id),
        kind,
        text(),
        labels(),
        whole(),
        (at(), of(rollout()), vec(past_rollout(), 0..3)),
    );
    let state = select(vec![JobState::Succeeded, JobState::Failed]);
    let verdict = (state, reason()).prop_map(|(state, reason)| Verdict { state, reason });
    let digest = (counter(), any::<[u8; 16]>()).prop_map(|(version, sum)| SpecDigest { version, sum });
    let templates = (of(schedule_state()), of(origin()), of(restarts()), of(digest));
    (ids, rest, of(verdict), templates).prop_map(|(ids, rest, verdict, templates)| {
        let (job, version, void, goal, spec_version) = ids;
        let (name, (pool, pool_id), kind, owner, labels, instances, last) = rest;
        let (updated_at, rollout, past_rollouts) = last;
        Head {
            job,
            version,
            void,
            goal,
            spec_version,
            name,
            pool,
            pool_id,
            kind,
            owner,
            labels,
            instances,
            updated_at,
            past_rollouts,
            rollout,
            verdict: verdict.map(Box::new),
            schedule: templates.0.map(Box::new),
            origin: templates.1.map(Box::new),
            restarts: templates.2.map(Box::new),
            spec_digest: templates.3,
        }
    })
}

fn restart_part() -> impl Strategy<Value = RestartPart> {
    (version(), group(), ranges()).prop_map(|(version, group, numbers)| RestartPart {
        version,
        group,
        numbers,
    })
}

fn restarts() -> impl Strategy<Value = Restarts> {
    let fields = (version(), at(), of(any::<u32>()), vec(restart_part(), 0..3));
    fields.prop_map(|(version, since, batch, parts)| Restarts {
        version,
        since,
        batch,
        parts,
    })
}

fn restart_progress() -> impl Strategy<Value = RestartProgress> {
    (version(), whole(), of(at())).prop_map(|(version, left, done_at)| RestartProgress {
        version,
        left,
        done_at,
    })
}

fn schedule_state() -> impl Strategy<Value = ScheduleState> {
    let opening = (at(), at(), any::<u32>(), vec(job(), 0..3), any::<bool>());
    let opening = opening.prop_map(|(due, at, attempt, after, replaces)| Opening {
        due,
        at,
        attempt,
        after,
        replaces,
    });
    let all = (any::<bool>(), at(), of(opening), of(at()), of(at()));
    all.prop_map(|(paused, handled, opening, skipped, missed)| ScheduleState {
        paused,
        handled,
        opening,
        skipped,
        missed,
    })
}

fn origin() -> impl Strategy<Value = Origin> {
    (job(), at(), vec(job(), 0..3)).prop_map(|(template, due, replaces)| Origin {
        template,
        due,
        replaces,
    })
}

pub fn holder() -> impl Strategy<Value = NameHolder> {
    (job(), version()).prop_map(|(job, version)| NameHolder { job, version })
}

pub fn planned() -> impl Strategy<Value = PlannedRequest> {
    (job(), any::<u64>(), at()).prop_map(|(job, hash, at)| PlannedRequest { job, hash, at })
}

pub fn counts() -> impl Strategy<Value = Counts> {
    proptest::array::uniform12(whole()).prop_map(|by_state| Counts { by_state })
}

fn waiting() -> impl Strategy<Value = Waiting> {
    let fields = (group(), of(cluster_id()), reason(), whole(), at());
    fields.prop_map(|(group, cluster, reason, count, since)| Waiting {
        group,
        cluster,
        reason,
        count,
        since,
    })
}

pub fn progress() -> impl Strategy<Value = Progress> {
    let state = select(JobState::ALL.to_vec());
    let first = (job(), state, at(), of(reason()), of(version()));
    let groups = btree_map(group(), counts(), 0..3);
    let rest = (
        groups,
        vec(waiting(), 0..3),
        vec(cluster_id(), 0..3),
        at(),
        (of(at()), of(rollout_progress())),
    );
    let more = (of(at()), of(at()), of(restart_progress()));
    (first, rest, more).prop_map(|((job, state, since, reason, ended_version), rest, more)| {
        let (groups, waiting, awaited, created_at, (starved, rollout)) = rest;
        let (released, keep_until, restart) = more;
        Progress {
            job,
            state,
            since,
            reason,
            ended_version,
            groups: groups.into_iter().collect(),
            waiting,
            awaited,
            created_at,
            starved,
            rollout,
            released,
            keep_until,
            restart,
            crash_looping: since.0 % 7,
        }
    })
}

pub fn assigned() -> impl Strategy<Value = AssignedRange> {
    let releasing = (of(cluster_id()), code(), of(whole()));
    let releasing = releasing.prop_map(|(to, why, count)| Releasing { to, why, count });
    let former = (cluster_id(), generation());
    let fields = (range(), cluster_id(), generation(), of(former), of(releasing));
    fields.prop_map(|(range, cluster, generation, former, releasing)| AssignedRange {
        range,
        cluster,
        generation,
        former,
        releasing,
    })
}

pub fn assignment() -> impl Strategy<Value = Assignment> {
    let groups = btree_map(group(), vec(assigned(), 0..3), 0..3);
    let holder = (generation(), proptest::option::of(cluster_id()));
    let holder = holder.prop_map(|(generation, cluster)| LastHolder { generation, cluster });
    let released = btree_map(group(), btree_map(holder, ranges(), 0..3), 0..3);
    let holders = btree_map(cluster_id(), generation(), 0..3);
    (job(), groups, released, holders).prop_map(|(job, groups, released, holders)| Assignment {
        job,
        groups: groups.into_iter().collect(),
        released: released.into_iter().collect(),
        holders: holders.into_iter().collect(),
    })
}

pub fn grant() -> impl Strategy<Value = Grant> {
    let fields = (epoch(), stamp(), whole(), span(), own_changes());
    fields.prop_map(|(epoch, number, active, lease, known)| Grant {
        epoch,
        number,
        active,
        lease,
        known,
    })
}

pub fn own_changes() -> impl Strategy<Value = OwnChanges> {
    (whole(), whole()).prop_map(|(preempted, taken_over)| OwnChanges {
        preempted,
        taken_over,
    })
}

fn member() -> impl Strategy<Value = Member> {
    let parts = (
        of("[a-z0-9-]{1,4}"),
        select(RunState::ALL.to_vec()),
        of(any::<i32>()),
        of(any::<bool>()),
    );
    parts.prop_map(|(name, state, exit_code, healthy)| Member {
        sidecar: name.map(SidecarName::new),
        state,
        exit_code,
        healthy,
    })
}

fn ending() -> impl Strategy<Value = Ending> {
    let parts = (select(RunState::ALL.to_vec()), reason(), of(any::<i32>()));
    parts.prop_map(|(state, reason, exit_code)| Ending {
        state,
        reason,
        exit_code,
    })
}

fn run() -> impl Strategy<Value = Run> {
    let stopping = (reason(), span(), at());
    let stopping = stopping.prop_map(|(reason, grace, since)| Stopping { reason, grace, since });
    let state = select(RunState::ALL.to_vec());
    let port = (text(), any::<u16>()).prop_map(|(name, number)| Port { name, number });
    let first = (
        generation(),
        counter(),
        state,
        at(),
        reason(),
        host_id(),
        "[a-c]{0,2}",
    );
    let rest = (
        counter(),
        (counter(), any::<bool>(), version()),
        of(at()),
        of(at()),
        of(any::<i32>()),
        of(stopping),
        vec(port, 0..3),
        (
            (of(any::<bool>()), of(any::<bool>()), resources()),
            vec(member(), 0..3),
            of(ending()),
        ),
    );
    (first, rest).prop_map(|((generation, number, state, since, reason, host, name), rest)| {
        let (
            spec_version,
            (restarts, replaces, head_version),
            started_at,
            ended_at,
            exit_code,
            stopping,
            ports,
            last,
        ) = rest;
        let (probes, members, ending) = last;
        Run {
            generation,
            number: RunNumber(number),
            state,
            since,
            reason,
            host,
            hostname: name.into(),
            observed_at: since.since(Timestamp(0)),
            spec_version,
            restarts,
            head_version,
            replaces,
            started_at,
            ended_at,
            exit_code,
            stopping: stopping.map(Box::new),
            ports: ports.into(),
            revocable: (!probes.2.is_zero()).then(|| Box::new(probes.2)),
            healthy: probes.0,
            ready: probes.1,
            probes: Probes {
                health: probes.0.is_some(),
                readiness: probes.1.is_some(),
            },
            available_at: started_at.filter(|_| replaces),
            members: members.into(),
            ending: ending.map(Box::new),
            gang_try: spec_version / 2,
            fault: exit_code.and_then(|code| PlatformCause::from_number(code.unsigned_abs() % 6)),
            gone: ended_at.map(|at| {
                Box::new(Gone {
                    cause: if replaces {
                        GoneCause::Operator
                    } else {
                        GoneCause::Replaced
                    },
                    observed_at: at.since(Timestamp(0)),
                    times: AgentTimes {
                        recovery: replaces.then_some(Span(at.0 % (AgentTimes::MOST.0 + 1))),
                        shutdown: started_at.map(|at| Span(at.0 % (AgentTimes::MOST.0 + 1))),
                    },
                })
            }),
        }
    })
}

fn record() -> impl Strategy<Value = InstanceRecord> {
    let ended = of(select(vec![Ended::Succeeded, Ended::Failed, Ended::Stopped]));
    let fields = (
        generation(),
        of(run()),
        vec(run(), 0..3),
        any::<u32>(),
        at(),
        ended,
        vec(host_id(), 0..3),
        (of(held_volume()), counter(), of(failure()), any::<bool>()),
    );
    fields.prop_map(
        |(generation, run, older, attempts, not_before, ended, avoid, rest)| {
            let (volume, failed_version, failure, unsettled) = rest;
            InstanceRecord {
                generation,
                run,
                older: older.into(),
                attempts,
                platform_failures: u16::try_from(attempts % 65_536).unwrap(),
                not_before,
                ended,
                unsettled,
                avoid: avoid.into(),
                volume: volume.map(Box::new),
                failed_version,
                failure: failure.map(Box::new),
            }
        },
    )
}

fn failure() -> impl Strategy<Value = Failure> {
    (at(), reason(), of(any::<i32>())).prop_map(|(at, reason, exit_code)| Failure {
        at,
        reason,
        exit_code,
    })
}

fn volume_id() -> impl Strategy<Value = VolumeId> {
    text().prop_map(VolumeId::new)
}

fn held_volume() -> impl Strategy<Value = HeldVolume> {
    let fields = (volume_id(), host_id(), text(), whole(), any::<bool>());
    fields.prop_map(|(id, host, hostname, size, used)| HeldVolume {
        id,
        host,
        hostname: hostname.into(),
        size,
        used,
    })
}

fn host_volume() -> impl Strategy<Value = HostVolume> {
    (volume_id(), whole(), text(), at()).prop_map(|(id, size, path, seen_at)| HostVolume {
        id,
        size,
        path,
        seen_at,
    })
}

fn host_drain() -> impl Strategy<Value = HostDrain> {
    (at(), any::<bool>()).prop_map(|(batch_until, agent)| HostDrain { batch_until, agent })
}

fn drain_state() -> impl Strategy<Value = DrainState> {
    let agent = prop_oneof![
        Just(AgentDrain::Open),
        Just(AgentDrain::Done),
        "[a-z]{1,9}".prop_map(AgentDrain::Refused),
    ];
    (host_drain(), agent, vec(left(), 0..3)).prop_map(|(wish, agent, left)| DrainState { wish, agent, left })
}

fn left() -> impl Strategy<Value = Left> {
    let left = (select(Stays::ALL.to_vec()), job(), group(), any::<u32>());
    left.prop_map(|(why, job, group, runs)| Left {
        why,
        job,
        group,
        runs,
    })
}

pub fn drains() -> impl Strategy<Value = Drains> {
    let hosts = btree_map(text(), host_drain(), 0..3);
    (whole(), hosts).prop_map(|(version, hosts)| Drains { version, hosts })
}

/// What is wanted of volumes.
pub fn volume_wishes() -> impl Strategy<Value = BTreeMap<VolumeId, VolumeWish>> {
    let instance = (job(), group(), any::<u32>()).prop_map(|(job, group, n)| InstanceId {
        job,
        group,
        number: InstanceNumber(n),
    });
    let wish = (of(instance), of(at())).prop_map(|(instance, asked_at)| match (instance, asked_at) {
        (None, _) => VolumeWish::Destroy,
        (Some(instance), None) => VolumeWish::Adopt(instance),
        (Some(instance), Some(asked_at)) => VolumeWish::GiveUp { instance, asked_at },
    });
    btree_map(volume_id(), wish, 0..3)
}

pub fn block() -> impl Strategy<Value = Block> {
    let records = btree_map(any::<u32>().prop_map(InstanceNumber), record(), 0..5);
    let fields = (job(), group(), any::<u32>(), records);
    fields.prop_map(|(job, group, number, instances)| Block {
        key: BlockKey { job, group, number },
        instances,
    })
}

pub fn slice_row() -> impl Strategy<Value = SliceRow> {
    let sets = || btree_map(generation(), ranges(), 0..3);
    let grants = btree_map(generation(), grant(), 0..3);
    let fields = (
        job(),
        group(),
        vec(assigned(), 0..3),
        sets(),
        sets(),
        (grants, btree_map(generation(), own_changes(), 0..3)),
    );
    fields.prop_map(
        |(job, group, ranges, released, taken_over, (grants, own))| SliceRow {
            job,
            group,
            ranges,
            released,
            taken_over,
            grants,
            own,
        },
    )
}

pub fn cluster() -> impl Strategy<Value = Cluster> {
    let desired_state = select(vec![
        DesiredState::Active,
        DesiredState::Cordoned,
        DesiredState::Draining,
        DesiredState::Removing,
        DesiredState::Removed,
    ]);
    let fields = (
        cluster_id(),
        text(),
        version(),
        desired_state,
        text(),
        labels(),
        whole(),
        volume_wishes(),
        drains(),
        (
            host_pools::host_pool_wishes(),
            forgotten_hosts(),
            of(health::declared()),
        ),
    );
    fields.prop_map(
        |(
            id,
            name,
            version,
            desired_state,
            mesos,
            labels,
            accepted_loss,
            volumes,
            drains,
            (host_pools, forgotten, declared),
        )| Cluster {
            id,
            name,
            version,
            desired_state,
            mesos,
            labels,
            accepted_loss,
            volumes,
            drains,
            host_pools,
            forgotten,
            declared,
        },
    )
}

pub fn forgotten_hosts() -> impl Strategy<Value = ForgottenHosts> {
    let hosts = btree_map(text(), span(), 0..3);
    (whole(), hosts).prop_map(|(version, hosts)| ForgottenHosts { version, hosts })
}

pub fn cluster_state() -> impl Strategy<Value = ClusterState> {
    let fields = (cluster_id(), health::cluster_health(), of(reported_capacity()));
    fields.prop_map(|(cluster, health, reported)| ClusterState {
        cluster,
        health,
        reported,
    })
}

fn reported_capacity() -> impl Strategy<Value = ReportedCapacity> {
    let fields = (resources(), resources(), any::<u32>(), resources(), sharing());
    fields.prop_map(|(total, used, hosts, largest_host, sharing)| ReportedCapacity {
        total,
        used,
        hosts,
        largest_host,
        sharing,
    })
}

pub fn others() -> impl Strategy<Value = Others> {
    (resources(), resources()).prop_map(|(used, offered)| Others { used, offered })
}

pub fn sharing() -> impl Strategy<Value = Sharing> {
    let role = (text(), others()).prop_map(|(role, held)| RoleShare { role, held });
    let amount = || resources().prop_map(|r| r.cpus);
    let limit = (text(), select(Kind::ALL.to_vec()), [amount(), amount(), amount()]).prop_map(
        |(role, kind, amounts)| {
            let [limit, ours, one_host] = amounts;
            QuotaLimit {
                role,
                kind,
                limit,
                ours,
                one_host,
            }
        },
    );
    let limits = of(vec(limit, 0..3));
    (vec(role, 0..3), any::<u32>(), limits).prop_map(|(roles, roles_left_out, limits)| Sharing {
        roles,
        roles_left_out,
        limits,
    })
}

fn agent_state() -> impl Strategy<Value = AgentState> {
    prop_oneof![
        Just(AgentState::Active),
        Just(AgentState::Disconnected),
        Just(AgentState::Deactivated),
        Just(AgentState::Draining),
        Just(AgentState::Drained),
    ]
}

pub fn mass_loss() -> impl Strategy<Value = MassLoss> {
    let n = whole;
    (n(), at(), n(), n(), n()).prop_map(|(number, since, running, lost, missing)| MassLoss {
        number,
        since,
        running,
        lost,
        missing,
    })
}

pub fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let fields = (
        cluster_id(),
        epoch(),
        at(),
        health::shard_signs(),
        text(),
        of(text()),
        of(mass_loss()),
        of(at()),
    );
    fields.prop_map(
        |(cluster, epoch, at, signs, address, trouble, loss, no_manager_since)| Heartbeat {
            cluster,
            epoch,
            at,
            signs,
            address,
            trouble,
            loss,
            no_manager_since,
        },
    )
}

pub fn host() -> impl Strategy<Value = Host> {
    let first = (
        host_id(),
        text(),
        text(),
        resources(),
        (resources(), others(), agent_state()),
    );
    let maintenance = (at(), of(at())).prop_map(|(from, until)| Maintenance { from, until });
    let rest = (
        any::<u32>(),
        labels(),
        any::<bool>(),
        at(),
        of(maintenance),
        vec(host_volume(), 0..3),
        of(drain_state()),
        host_pools::place(),
    );
    (first, rest).prop_map(
        |((id, hostname, address, capacity, (used, others, agent)), rest)| {
            let (tasks, attributes, reachable, seen_at, maintenance, volumes, drain, place) = rest;
            let left_out = LeftOut {
                attributes: tasks / 3,
                volumes: tasks / 5,
            };
            Host {
                id,
                hostname,
                address,
                capacity,
                used,
                tasks,
                attributes,
                reachable,
                seen_at,
                maintenance,
                volumes,
                drain,
                place,
                left_out,
                others,
                agent,
            }
        },
    )
}

pub fn shard_row() -> impl Strategy<Value = ShardRow> {
    let fields = (
        of(text()),
        prop_oneof![Just(Epoch(0)), epoch()],
        whole(),
        of(mass_loss()),
        volume_wishes(),
        drains(),
        btree_set(text().prop_map(HostId::new), 0..3),
        (
            logs::log_gaps(),
            at(),
            span(),
            prop_oneof![Just(Epoch(0)), epoch()],
            any::<bool>(),
        ),
        (host_pools::host_moves(), host_pools::by_host()),
    );
    fields.prop_map(
        |(framework, obeyed, last_loss, loss, volumes, drains, drained_agents, rest, pools)| ShardRow {
            framework,
            obeyed,
            adopted: rest.3,
            last_loss,
            loss,
            volumes,
            wishes_heard: rest.1,
            drains,
            moves: pools.0,
            host_pools: pools.1,
            drained_agents,
            log_gaps: rest.0,
            observed: rest.2,
            tears_down: rest.4,
        },
    )
}

pub fn mark() -> impl Strategy<Value = Mark> {
    let settled = prop_oneof![Just(Epoch(0)), epoch()];
    (epoch(), 0..1u64 << 40, 0..1u64 << 53, at(), settled).prop_map(
        |(epoch, sequence, control, at, settled)| Mark {
            stamp: Stamp { epoch, sequence },
            control: Version(control),
            at,
            settled,
        },
    )
}

pub fn leadership() -> impl Strategy<Value = Leadership> {
    let proof = prop_oneof![Just(1), Just(u64::MAX), 1..u64::MAX];
    let resumed = prop_oneof![Just(Epoch(0)), epoch()];
    (epoch(), text(), proof, resumed).prop_map(|(epoch, holder, proof, resumed)| Leadership {
        epoch,
        holder,
        proof,
        resumed,
    })
}

/// A number, or no bound.
fn most() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), whole()]
}

fn bounds() -> impl Strategy<Value = PriorityBounds> {
    let any_bound = (any::<u32>(), any::<u32>(), of(any::<u32>()));
    prop_oneof![
        Just(PriorityBounds::ANY),
        any_bound.prop_map(|(min, max, default)| PriorityBounds { min, max, default }),
    ]
}

fn on_cluster_loss() -> impl Strategy<Value = OnSilence> {
    prop_oneof![Just(OnSilence::Wait), span().prop_map(OnSilence::Replace)]
}

pub fn pools() -> impl Strategy<Value = PoolTree> {
    let fields = (
        text(),
        text(),
        resources(),
        bounds_of_resources(),
        resources(),
        (
            select(PoolKind::ALL.to_vec()),
            select(PreemptWithin::ALL.to_vec()),
            of(on_cluster_loss()),
        ),
        (
            bounds_of_resources(),
            bounds_of_resources(),
            bounds_of_resources(),
        ),
        bounds(),
        (any::<(bool, bool)>(), version(), most(), most()),
    );
    let pool = fields.prop_map(
        |(
            id,
            path,
            reservation,
            limit,
            share,
            (kind, preempt_within, on_cluster_loss),
            (max_instance, controller_limit, revocable_limit),
            priority,
            ((deleting, fair_users), version, max_jobs, max_instances),
        )| Pool {
            id: PoolId::new(id),
            path,
            reservation,
            limit,
            share,
            kind,
            max_instance,
            priority,
            controller_limit,
            revocable_limit,
            max_jobs,
            max_instances,
            fair_users,
            preempt_within,
            on_cluster_loss,
            deleting,
            version,
        },
    );
    (version(), vec(pool, 0..4)).prop_map(|(version, pools)| PoolTree {
        version,
        pools: pools.into_iter().map(|p| (p.path.clone(), p)).collect(),
    })
}

pub fn control() -> impl Strategy<Value = Control> {
    let keys = (of(any::<[u128; 2]>()), of(any::<[u128; 2]>()));
    let fields = (version(), any::<bool>(), text(), text(), at(), keys);
    fields.prop_map(|(version, kills_off, by, why, at, (key, former))| Control {
        version,
        kills_off,
        by,
        why,
        at,
        token_key: key.map(TokenKey::new),
        former_token_key: former.map(TokenKey::new),
    })
}

pub fn start_bans() -> impl Strategy<Value = StartBans> {
    let ban = (0..1_u64 << 40, of(0..1_u64 << 40));
    let ban = ban.prop_map(|(number, silence)| StartBan { number, silence });
    let clusters = proptest::collection::btree_map(cluster_id(), ban, 0..4);
    let fields = (epoch(), 0..1_u64 << 40, clusters);
    fields.prop_map(|(epoch, sequence, clusters)| StartBans {
        stamp: Stamp { epoch, sequence },
        clusters,
    })
}

pub fn event() -> impl Strategy<Value = Event> {
    let state = of(select(RunState::ALL.to_vec()));
    let instance = of((group(), any::<u32>()));
    let fields = (
        job(),
        at(),
        at(),
        instance,
        state,
        reason(),
        of(text()),
        of(text()),
    );
    fields.prop_map(
        |(job, at, happened, instance, state, reason, hostname, task)| Event {
            job,
            at,
            happened,
            instance,
            state,
            reason,
            hostname,
            task,
        },
    )
}
