//! Every stored and sent type survives its bytes; what bytes cannot mean is told with its field's path.
#![cfg(test)]

#[path = "round_trips/ranges.rs"]
mod ranges;
mod strategies;

use echelon_core_model::assignment::{
    AssignedRange, Assignment, AssignmentPiece, LastHolder, PIECE_WEIGHT, Releasing,
};
use echelon_core_model::bucket::{BLOCK_SIZE, MOST_BLOCK_BYTES};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Quota, Victim};
use echelon_core_model::cluster::{Host, LeftOut};
use echelon_core_model::directive::{
    Capacity, Directive, Found, FoundSlice, Order, Part, Report, ReportPart, SliceOrder, SliceReport,
};
use echelon_core_model::drain::{AgentDrain, DrainState, HostDrain, Left, MOST_LEFT, Stays};
use echelon_core_model::instance::{Block, MOST_OLDER};
use echelon_core_model::instance_limit::{ExceededLimit, LimitScope, WantedInstances};
use echelon_core_model::restart::GroupRestarts;
use echelon_core_model::store::{MAX_ASSIGNMENT_BYTES, ShardRow, Stamp};
use echelon_core_model::volume::HostVolume;
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, InstanceRange, JobId, RangeSet, Resources, Timestamp, VolumeId,
};
use echelon_core_testkit::build::JobBuilder;
use echelon_proto::convert::shard::Changed;
use echelon_proto::convert::{FieldError, FieldProblem, Wire, decode, encode};
use echelon_proto::echelon::shard::v1 as shard;
use echelon_proto::echelon::storage::v1 as stored;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use std::fmt::Debug;
use strategies as any_of;

fn returns<T: Wire + Clone + PartialEq + Debug>(value: T) -> Result<(), TestCaseError> {
    let bytes = encode(&value);
    let read: T = decode(&bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(&read, &value);
    prop_assert_eq!(encode(&read), bytes, "the same value has the same bytes");
    Ok(())
}

/// Whether the upper bound of a row's bytes holds.
fn weighs_enough(bytes: usize, weight: usize) -> Result<(), TestCaseError> {
    prop_assert!(bytes <= weight, "{bytes} bytes, and a weight of {weight}");
    Ok(())
}

proptest! {
    #[test]
    fn no_row_has_more_bytes_than_its_weight(
        block in any_of::block(),
        row in any_of::slice_row(),
        assignment in any_of::assignment(),
        event in any_of::event(),
        shard in any_of::shard_row(),
    ) {
        weighs_enough(encode(&block).len(), block.weight())?;
        weighs_enough(encode(&row).len(), row.weight())?;
        weighs_enough(encode(&assignment).len(), assignment.weight())?;
        weighs_enough(encode(&event).len(), event.weight())?;
        weighs_enough(encode(&shard).len(), shard.weight())?;
        let mut whole = ShardRow::default();
        for (key, row) in shard.rows() {
            weighs_enough(encode(&row).len(), row.weight())?;
            whole.extend(&key, row);
        }
        prop_assert_eq!(whole, shard);
    }
}

/// An assignment of as many groups, ranges, released numbers and holders.
fn many(groups: usize, ranges: u32, longest: bool) -> Assignment {
    let cluster = |n: u32| ClusterId::new(format!("{n:c>width$}", width = if longest { 63 } else { 8 }));
    let mut all = Assignment::new(JobId(u128::MAX));
    for group in 0..groups {
        let group = GroupName::new(format!("{group:g>width$}", width = if longest { 63 } else { 2 }));
        let range = |n: u32| AssignedRange {
            range: InstanceRange {
                first: u32::MAX - 2 * n - 1,
                last: u32::MAX - 2 * n,
            },
            cluster: cluster(n % 200),
            generation: Generation(0x7fff_ffff),
            former: Some((cluster(n % 200 + 1), Generation(0x7fff_fffe))),
            releasing: longest.then(|| Releasing {
                to: Some(cluster(n % 200 + 2)),
                why: echelon_core_model::ReasonCode::Moved,
                count: Some(1 << 53),
            }),
        };
        all.groups
            .insert(group.clone(), (0..ranges).rev().map(range).collect());
        let released = (0..ranges).map(|n| InstanceRange {
            first: 3 * n,
            last: 3 * n + 1,
        });
        let holder = |generation, cluster| LastHolder {
            generation: Generation(generation),
            cluster,
        };
        let sets = [
            (holder(1, Some(cluster(201))), released.collect()),
            (holder(2, None), RangeSet::new()),
        ];
        all.released.insert(group, sets.into());
    }
    all.groups.insert(GroupName::new("empty"), Vec::new());
    for n in 0..1_024 {
        all.holders.insert(cluster(n), Generation(7));
    }
    all
}

#[test]
fn an_assignment_is_cut_into_rows_that_are_bounded_and_lose_nothing() {
    let written = Stamp {
        epoch: Epoch((1 << 23) - 1),
        sequence: (1 << 40) - 1,
    };
    for all in [
        Assignment::new(JobId(1)),
        many(1, 1, true),
        many(64, 400, false),
        many(2, 4_000, true),
    ] {
        let pieces = all.pieces(written);
        let mut joined = Assignment::new(all.job);
        let mut bytes = 0;
        for piece in &pieces {
            let encoded = encode(piece);
            assert!(encoded.len() <= PIECE_WEIGHT, "{} bytes", encoded.len());
            bytes += encoded.len();
            let read: AssignmentPiece = decode(&encoded).unwrap();
            assert_eq!(read, *piece);
            joined.extend(&read.part);
        }
        assert_eq!(pieces[0].pieces as usize, pieces.len());
        assert!(
            bytes <= all.weight(),
            "{bytes} bytes and a weight of {}",
            all.weight()
        );
        assert!(joined == all);
    }
    assert!(many(64, 400, false).weight() <= MAX_ASSIGNMENT_BYTES * 3 / 2);
    assert!(many(2, 2_001, true).weight() <= MAX_ASSIGNMENT_BYTES);
}

/// A full block. Each instance has 9 runs, the most there can be; each run has 32 ports with names of 60 characters, 9 members, the
/// longest names of hosts and the longest reasons. `versions`: of how many versions of the job with other names of ports the runs are.
fn largest_block(versions: usize) -> Block {
    let key = echelon_core_model::instance::BlockKey {
        job: JobId(u128::MAX),
        group: echelon_core_model::GroupName::new("g".repeat(63)),
        number: u32::MAX / BLOCK_SIZE,
    };
    let reason =
        || echelon_core_model::Reason::new(echelon_core_model::ReasonCode::Failed).at("r".repeat(160));
    let run = |n: u32, age: u32| {
        let host = echelon_core_model::HostId::new(format!("{age}-{n:0>60}"));
        let state = echelon_core_model::RunState::Stopping;
        let now = echelon_core_model::Timestamp(1 << 42);
        let mut run = echelon_core_model::instance::Run::first(state, host, &format!("{age}-{n:0>250}"), now);
        run.reason = reason();
        run.ports = (0..32u16)
            .map(|i| echelon_core_model::runtime::Port {
                name: format!("{}-{i:p>55}", (n as usize * 9 + age as usize) % versions),
                number: u16::MAX - i,
            })
            .collect();
        run.members = (0..9)
            .map(|i| {
                let name = echelon_core_model::SidecarName::new(format!("{i:s>63}"));
                echelon_core_model::pod::Member {
                    exit_code: Some(i32::MIN),
                    healthy: Some(true),
                    ..echelon_core_model::pod::Member::new((i > 0).then_some(name))
                }
            })
            .collect();
        run.stopping = Some(Box::new(echelon_core_model::instance::Stopping {
            reason: reason(),
            grace: echelon_core_model::Span::minutes(60),
            since: now,
        }));
        run.ending = Some(Box::new(echelon_core_model::instance::Ending {
            state,
            reason: reason().at("r".repeat(240)),
            exit_code: Some(i32::MIN),
        }));
        run
    };
    let record = |n: u32| echelon_core_model::instance::InstanceRecord {
        run: Some(run(n, 0)),
        older: (1..9).map(|age| run(n, age)).collect(),
        failure: Some(Box::new(echelon_core_model::failure::Failure {
            at: echelon_core_model::Timestamp(1 << 42),
            reason: reason(),
            exit_code: Some(i32::MIN),
        })),
        avoid: (0..3)
            .map(|i| echelon_core_model::HostId::new(format!("{i}-{n:a>60}")))
            .collect(),
        ..Default::default()
    };
    let instances = (0..BLOCK_SIZE).map(|n| (echelon_core_model::InstanceNumber(u32::MAX - n), record(n)));
    Block {
        key,
        instances: instances.collect(),
    }
}

#[test]
fn a_block_of_the_largest_instances_has_its_place() {
    let runs = BLOCK_SIZE as usize * (MOST_OLDER + 1);
    for (versions, most) in [(1, MOST_BLOCK_BYTES), (runs, 512 * 1024)] {
        let block = largest_block(versions);
        let bytes = encode(&block).len();
        assert!(bytes <= most, "{bytes} bytes of {most} with {versions} versions");
        assert!(
            bytes <= block.weight(),
            "{bytes} and a weight of {}",
            block.weight()
        );
        let longest = block.instances.values().map(|r| r.older.len()).max();
        assert_eq!(longest, Some(MOST_OLDER));
    }
}

/// A host of which everything that Mesos does not bound is as long and as many as it likes.
fn boundless_host() -> Host {
    let item = |n: usize| format!("{n:0>4}{}", "k".repeat(100));
    let left = |n: usize| Left {
        why: Stays::Leaves,
        job: JobId(u128::MAX - n as u128),
        group: GroupName::new("g".repeat(63)),
        runs: u32::MAX,
    };
    let mut attributes: std::collections::BTreeMap<String, String> =
        (0..500).map(|n| (item(n), "v".repeat(140))).collect();
    attributes.insert("a".to_owned(), "x".repeat(1_000_000));
    attributes.insert("zone".to_owned(), "z1".to_owned());
    let volume = |n: usize| HostVolume {
        id: VolumeId::new(item(n)),
        size: u64::MAX,
        path: "p".repeat(140),
        seen_at: Timestamp(1 << 42),
    };
    let huge = HostVolume {
        path: "p".repeat(1_000_000),
        ..volume(0)
    };
    Host {
        id: echelon_core_model::HostId::new("i".repeat(60)),
        hostname: "h".repeat(255),
        address: "h".repeat(262),
        capacity: Resources::ZERO,
        used: Resources::ZERO,
        tasks: u32::MAX,
        attributes,
        reachable: true,
        seen_at: Timestamp(1 << 42),
        maintenance: None,
        volumes: std::iter::once(huge).chain((1..500).map(volume)).collect(),
        drain: Some(DrainState {
            wish: HostDrain {
                batch_until: Timestamp(1 << 42),
                agent: true,
            },
            agent: AgentDrain::Refused("n".repeat(1_000_000)),
            left: (0..MOST_LEFT).map(left).collect(),
        }),
        place: echelon_core_model::host_pool::HostPlace::default(),
        left_out: LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
    }
}

#[test]
fn a_host_with_all_that_mesos_may_send_has_its_place() {
    let host = boundless_host().bounded();
    let bytes = encode(&host).len();
    assert!(bytes <= Host::MOST_BYTES, "{bytes} bytes");
    assert!(bytes <= echelon_core_model::store::Write::Host(host.clone()).weight());
    assert_eq!(host.attributes.len() + host.left_out.attributes as usize, 502);
    assert_eq!(host.volumes.len() + host.left_out.volumes as usize, 500);
    assert!(host.attributes.len() > 40 && host.volumes.len() > 40);
    // What is too large hides nothing behind it.
    let mut few = boundless_host();
    few.attributes.retain(|name, _| name == "a" || name == "zone");
    few.volumes.truncate(2);
    let few = few.bounded();
    assert_eq!(few.attributes.keys().collect::<Vec<_>>(), ["zone"]);
    assert_eq!((few.left_out.attributes, few.left_out.volumes), (1, 1));
    assert_eq!(few.volumes.len(), 1);
    assert_eq!(few.clone().bounded().attributes, few.attributes);
}

fn slice_order() -> impl Strategy<Value = SliceOrder> {
    let first = (
        any_of::job(),
        any_of::group(),
        any_of::version(),
        any_of::goal(),
        any_of::counter(),
    );
    let grants = vec((any_of::generation(), any_of::grant()), 0..3);
    let part = (any::<u32>(), any_of::stamp());
    let restarts = vec((any_of::version(), any_of::ranges()), 0..3);
    let rollout = (of(any_of::rollout()), any::<u32>(), restarts);
    let rest = (vec(any_of::assigned(), 0..3), grants, part, rollout);
    (first, rest).prop_map(|((job, group, head_version, goal, spec_version), rest)| {
        let (ranges, grants, (max_unavailable, part_number), (rollout, update_below, restarts)) = rest;
        SliceOrder {
            job,
            group,
            head_version,
            goal,
            spec_version,
            ranges,
            grants,
            max_unavailable,
            part_number,
            rollout,
            update_below,
            restarts: GroupRestarts(restarts),
        }
    })
}

fn claim_id() -> impl Strategy<Value = ClaimId> {
    (any_of::epoch(), any_of::sequence()).prop_map(|(epoch, number)| ClaimId { epoch, number })
}

fn claim_parts() -> impl Strategy<Value = Vec<ClaimPart>> {
    let part = (any_of::group(), any_of::generation(), any_of::whole());
    let part = part.prop_map(|(group, generation, count)| ClaimPart {
        group,
        generation,
        count,
    });
    vec(part, 1..4)
}

fn claim() -> impl Strategy<Value = Claim> {
    let slice = || (any_of::job(), any_of::group(), any_of::generation());
    let victim = (slice(), any_of::whole(), any::<u32>());
    let victim = victim.prop_map(|((job, group, generation), most, class)| Victim {
        job,
        group,
        generation,
        most,
        class,
    });
    let quota = (any_of::resources(), any_of::resources(), any_of::whole());
    let quota = quota.prop_map(|(left, unit, count)| Quota { left, unit, count });
    let rest = (any_of::whole(), vec(victim, 0..3), of(quota), any::<bool>());
    (
        claim_id(),
        any_of::job(),
        claim_parts(),
        (any_of::cluster_id(), "/[a-z]{0,3}"),
        rest,
    )
        .prop_map(
            |(id, job, parts, (waits, pool), (most, victims, quota, keeps_host))| Claim {
                id,
                job,
                parts,
                waits,
                pool,
                most,
                victims,
                quota,
                keeps_host,
            },
        )
}

fn claim_report() -> impl Strategy<Value = ClaimReport> {
    (claim(), claim_parts(), any_of::whole()).prop_map(|(claim, open, taken)| ClaimReport {
        claim,
        open,
        taken,
    })
}

fn directive() -> impl Strategy<Value = Directive> {
    let order = prop_oneof![
        Just(Order::Report),
        Just(Order::TearDown),
        any_of::leadership().prop_map(Order::Hello),
        vec(slice_order(), 0..3).prop_map(Order::Slices),
        any_of::job().prop_map(Order::Archive),
        any_of::whole().prop_map(Order::AcceptLoss),
        any_of::volume_wishes().prop_map(Order::Volumes),
        any_of::drains().prop_map(Order::Drains),
        any_of::host_moves().prop_map(Order::HostMoves),
        any_of::forgotten_hosts().prop_map(Order::ForgetHosts),
        (any_of::version(), any::<bool>()).prop_map(|(version, off)| Order::Kills { version, off }),
        (vec(claim(), 0..3), any_of::span()).prop_map(|(claims, lease)| Order::Claims { claims, lease }),
        any_of::named_classes().prop_map(Order::Classes),
    ];
    (any_of::epoch(), any_of::sequence(), order).prop_map(|(epoch, sequence, order)| Directive {
        epoch,
        sequence,
        order,
    })
}

fn found_slice() -> impl Strategy<Value = FoundSlice> {
    let of = (
        any_of::job(),
        any_of::group(),
        any_of::generation(),
        any_of::ranges(),
    );
    of.prop_map(|(job, group, generation, numbers)| FoundSlice {
        job,
        group,
        generation,
        numbers,
    })
}

fn slice_report() -> impl Strategy<Value = SliceReport> {
    let ids = (
        any_of::job(),
        any_of::group(),
        any_of::generation(),
        any_of::version(),
        any_of::stamp(),
    );
    let waiting = vec((any_of::reason(), any_of::whole(), any_of::at()), 0..3);
    let rest = (
        any_of::ranges(),
        any_of::ranges(),
        any_of::counts(),
        proptest::array::uniform11(any_of::whole()),
        waiting,
        (any_of::whole(), any::<u32>(), any_of::stamp()),
        proptest::array::uniform3(of(any_of::at())),
        any_of::own_changes(),
    );
    (ids, rest).prop_map(|((job, group, generation, head_version, grant_number), rest)| {
        let (held, released, counts, numbers, waiting, part, times, own) = rest;
        let [first_begun, last_begun, last_ended] = times;
        let [
            active,
            unstarted,
            succeeded,
            failed,
            stopped,
            live,
            preempting,
            updated,
            update_failures,
            restarting,
            granted,
        ] = numbers;
        let (outdated, max_unavailable, part_number) = part;
        SliceReport {
            job,
            group,
            generation,
            head_version,
            grant_number,
            granted,
            held,
            released: released.clone(),
            active,
            unstarted,
            between_runs: unstarted / 2,
            returnable: released,
            counts,
            succeeded,
            failed,
            stopped,
            live,
            waiting,
            outdated,
            max_unavailable,
            part_number,
            own,
            preempting,
            first_begun,
            last_begun,
            last_ended,
            revision: max_unavailable / 2,
            updated,
            update_failures,
            hosts: (max_unavailable % 3 > 0).then_some(max_unavailable / 3),
            restarting,
            crash_looping: restarting / 2,
            unavailable: restarting / 3,
            first_behind: last_begun.map(|_| max_unavailable),
        }
    })
}

fn part() -> impl Strategy<Value = Part> {
    let r = any_of::amounts_of_cluster;
    (r(), r(), r()).prop_map(|(total, used, largest_host)| Part {
        total,
        used,
        largest_host,
    })
}

#[test]
fn no_cluster_has_more_than_sums_are_exact_for() {
    let most = echelon_core_model::sum::MOST_COUNTED;
    let told = |cpus| {
        let part = Part {
            total: Resources {
                cpus,
                ..Resources::ZERO
            },
            ..Part::default()
        };
        let capacity = Capacity {
            slack: part,
            ..Capacity::default()
        };
        let read = Capacity::from_wire(capacity.to_wire());
        read.map_err(|e| e.to_string())
    };
    assert!(told(most).is_ok());
    let wrong = told(most + 1).unwrap_err();
    assert!(wrong.contains("slack.total.cpus"), "{wrong}");
}

fn report() -> impl Strategy<Value = Report> {
    let r = any_of::amounts_of_cluster;
    let capacity = (
        r(),
        r(),
        r(),
        (r(), r()),
        any::<u32>(),
        of(any_of::whole()),
        (part(), part(), any_of::by_host_pool(part()), any_of::sharing()),
    );
    let capacity = capacity.prop_map(
        |(
            total,
            used,
            largest_free,
            (largest_host, closed),
            hosts,
            loss,
            (without_gpus, slack, host_pools, sharing),
        )| {
            ReportPart::Capacity(Box::new(Capacity {
                total,
                used,
                closed,
                largest_free,
                largest_host,
                without_gpus,
                slack,
                host_pools,
                hosts,
                loss,
                sharing,
            }))
        },
    );
    let part = prop_oneof![
        Just(ReportPart::FullStart),
        Just(ReportPart::FullEnd),
        vec(slice_report(), 0..3).prop_map(ReportPart::Slices),
        vec(claim_report(), 0..3).prop_map(ReportPart::Claims),
        any_of::epoch().prop_map(ReportPart::Superseded),
        vec(any_of::job(), 0..3).prop_map(ReportPart::Archived),
        any_of::class_fits().prop_map(ReportPart::Fits),
        any_of::shard_signs().prop_map(ReportPart::Signs),
        any_of::start_counts().prop_map(ReportPart::Starts),
        (any::<bool>(), any::<bool>(), vec(found_slice(), 0..3))
            .prop_map(|(begins, ends, slices)| { ReportPart::Found(Found { begins, ends, slices }) }),
        capacity,
    ];
    (any_of::cluster_id(), any_of::epoch(), any_of::sequence(), part).prop_map(
        |(cluster, epoch, sequence, part)| Report {
            cluster,
            epoch,
            sequence,
            part,
        },
    )
}

/// What is bounded by estimated sizes is not larger than these.
fn is_within(sizes: usize, row: &[u8], beside: usize) -> Result<(), TestCaseError> {
    prop_assert!(
        row.len() <= sizes + beside,
        "{} bytes, {sizes} estimated",
        row.len()
    );
    Ok(())
}

proptest! {
    #[test]
    fn wishes_about_volumes_take_no_more_than_is_estimated(volumes in any_of::volume_wishes()) {
        let sizes = volumes.iter().map(|(id, wish)| wish.stored_size(id)).sum();
        let row = ShardRow { volumes, ..ShardRow::default() };
        is_within(sizes, &encode(&row), 16)?;
    }

    #[test]
    fn lists_of_kept_runs_take_no_more_than_is_estimated(list in any_of::kept_runs()) {
        is_within(usize::try_from(list.stored_size()).unwrap(), &encode(&list), 0)?;
    }

    #[test]
    fn decided_rows_return(
        head in any_of::head(),
        holder in any_of::holder(),
        planned in any_of::planned(),
        pools in any_of::pools(),
        cluster in any_of::cluster(),
        leadership in any_of::leadership(),
        assignment in any_of::assignment(),
        control in any_of::control(),
        start_bans in any_of::start_bans(),
    ) {
        returns(control)?;
        returns(start_bans)?;
        returns(head)?;
        returns(holder)?;
        returns(planned)?;
        returns(pools)?;
        returns(cluster)?;
        returns(leadership)?;
        returns(assignment)?;
    }

    #[test]
    fn owned_rows_return(
        progress in any_of::progress(),
        state in any_of::cluster_state(),
        heartbeat in any_of::heartbeat(),
        mark in any_of::mark(),
        host in any_of::host(),
        shard_row in any_of::shard_row(),
        slice in any_of::slice_row(),
        event in any_of::event(),
        log in any_of::kept_log(),
        runs in any_of::kept_runs(),
    ) {
        returns(log)?;
        returns(runs)?;
        returns(progress)?;
        returns(state)?;
        returns(heartbeat)?;
        returns(mark)?;
        returns(host)?;
        returns(shard_row)?;
        returns(slice)?;
        returns(event)?;
    }

    #[test]
    fn blocks_return(block in any_of::block()) {
        returns(block)?;
    }

    #[test]
    fn directives_and_reports_return(directive in directive(), report in report(), job in any_of::job()) {
        returns(directive)?;
        returns(report)?;
        returns(Changed::Head(job))?;
        returns(Changed::Pools)?;
        returns(WantedInstances { job, pool: "/x".to_owned(), instances: 7 })?;
        for scope in [LimitScope::Federation, LimitScope::Pool("/x".to_owned())] {
            returns(ExceededLimit { scope, others: 7, limit: 9 })?;
        }
    }

    #[test]
    fn states_of_roles_return(state in any_of::role_state()) {
        returns(state)?;
    }

    #[test]
    fn specs_return(n in 1u32..9, command in ".{1,9}", key in "[A-Z]{1,3}", value in ".{0,4}") {
        returns(JobBuilder::batch("b", n).command(&command).env(&key, &value).spread().build())?;
        returns(JobBuilder::service("s", n).max_running(n).only(&["c1"]).priority(n).build())?;
    }

    #[test]
    fn bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        drop(decode::<Block>(&bytes));
        drop(decode::<Directive>(&bytes));
        drop(decode::<Report>(&bytes));
    }
}

/// Before gangs a claim was about one group: its fields are those of the first part, and an older reader knows that one.
fn told<T: Wire + Debug>(message: T::Message, path: &str, problem: FieldProblem) {
    let path = path.to_owned();
    assert_eq!(T::from_wire(message).unwrap_err(), FieldError { path, problem });
}

#[test]
fn what_a_block_cannot_mean_is_told_with_its_path() {
    let record = |number, run| stored::InstanceRecord {
        number,
        run,
        ..Default::default()
    };
    let run = |state, host| stored::Run {
        state,
        host,
        reason: Some(stored::Reason {
            code: 58,
            ..Default::default()
        }),
        ..Default::default()
    };
    let block = |instances| stored::Block {
        job: vec![0; 16],
        group: "main".to_owned(),
        host_ids: vec!["h".to_owned()],
        hostnames: vec!["h".to_owned()],
        instances,
        ..Default::default()
    };
    let good = || record(1, Some(run(4, 0)));
    assert!(Block::from_wire(block(vec![good()])).is_ok());
    for (instances, path, problem) in [
        (
            vec![good(), record(2, Some(run(4, 1)))],
            "instances[1].run.host",
            FieldProblem::OutOfRange {
                number: 1,
                first: 0,
                last: 0,
            },
        ),
        (
            vec![record(1, Some(run(99, 0)))],
            "instances[0].run.state",
            FieldProblem::Unknown(99),
        ),
        (
            vec![good(), good()],
            "instances",
            FieldProblem::Repeated("1".to_owned()),
        ),
        (
            vec![record(
                1,
                Some(stored::Run {
                    reason: None,
                    ..run(4, 0)
                }),
            )],
            "instances[0].run.reason",
            FieldProblem::Missing,
        ),
    ] {
        told::<Block>(block(instances), path, problem);
    }
    let short = stored::Block {
        job: vec![0; 15],
        ..block(Vec::new())
    };
    told::<Block>(short, "job", FieldProblem::JobId(15));
}

#[test]
fn what_a_stream_cannot_mean_is_told_with_its_path() {
    use shard::direct_request::Order as Sent;
    let directive = |order| shard::DirectRequest {
        epoch: 1,
        sequence: 1,
        order,
    };
    told::<Directive>(directive(None), "order", FieldProblem::Missing);
    let slice = shard::SliceOrder {
        job: vec![0; 16],
        group: "main".to_owned(),
        goal: Some(stored::Goal {
            desired: 1,
            restarts: 0,
        }),
        ..Default::default()
    };
    let backwards = stored::AssignedRange {
        range: Some(stored::InstanceRange { first: 3, last: 2 }),
        cluster: "c1".to_owned(),
        ..Default::default()
    };
    let empty = FieldProblem::Range { first: 3, last: 2 };
    for (slice, path, problem) in [
        (
            shard::SliceOrder {
                goal: None,
                ..slice.clone()
            },
            "slices.slices[0].goal",
            FieldProblem::Missing,
        ),
        (
            shard::SliceOrder {
                goal: Some(stored::Goal::default()),
                ..slice.clone()
            },
            "slices.slices[0].goal.desired",
            FieldProblem::Unknown(0),
        ),
        (
            shard::SliceOrder {
                ranges: vec![backwards],
                ..slice.clone()
            },
            "slices.slices[0].ranges[0].range.first",
            empty,
        ),
    ] {
        let slices = vec![slice];
        told::<Directive>(
            directive(Some(Sent::Slices(shard::SlicesOrder { slices }))),
            path,
            problem,
        );
    }
    let report = shard::DirectResponse {
        cluster: String::new(),
        part: Some(shard::direct_response::Part::Superseded(2)),
        ..Default::default()
    };
    told::<Report>(report, "cluster", FieldProblem::Missing);
    told::<Changed>(
        shard::HintRequest { changed: None },
        "changed",
        FieldProblem::Missing,
    );
}

#[test]
fn an_error_reads_as_a_sentence() {
    let error = Block::from_wire(stored::Block {
        job: JobId(1).0.to_be_bytes().to_vec(),
        group: "Main".to_owned(),
        ..Default::default()
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "field `group` is malformed: `Main` is not a group name: expected 1 to 63 characters of a-z, 0-9 and `-`"
    );
}
