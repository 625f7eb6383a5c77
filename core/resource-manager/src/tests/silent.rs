//! What was granted at a cluster that is cut off and has not begun: it moves under the start lease, and not
//! before. Each test names the rule of the model (`tests/tests/start_lease.rs`) that it holds.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::health::ShardSigns;
use echelon_core_model::instance::{Block, BlockKey, InstanceRecord, Run, SliceRow};
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{Answer, Batch, Decided, Decision, Op, OpResult, Query, Role, Stamp, Write};
use echelon_core_model::{
    ClusterId, Epoch, GroupName, HostId, InstanceNumber, JobId, ReasonCode, RunState, Span,
};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeMap;

fn row(case: &Case) -> StartBans {
    match case.store.read(&Query::StartBans) {
        Answer::StartBans(row) => row,
        other => panic!("{other:?}"),
    }
}

pub fn ban(case: &Case, cluster: &str) -> StartBan {
    row(case).of(&ClusterId::new(cluster))
}

/// A job that is granted at one cluster and has not begun, since no cluster places anything. Then its
/// cluster's shard is gone, and the other one places again.
fn silent(spec: JobBuilder) -> (Case, JobId, &'static str, &'static str) {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    for cluster in ["a", "b"] {
        case.shard(cluster).unplaceable = Some(ReasonCode::MesosUnavailable);
    }
    let job = case.job(1, spec);
    // Its shard has written heartbeats that this leader has seen change.
    case.run_for(Span::seconds(8));
    let (home, other) = if case.ranges(job).contains("@a") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    case.shard(other).unplaceable = None;
    case.shard(home).cores = 0;
    case.cut(home);
    (case, job, home, other)
}

/// Its shard writes a heartbeat that the resource manager reads.
pub fn beat(case: &mut Case, cluster: &str, n: u64) {
    let heartbeat = Heartbeat {
        cluster: ClusterId::new(cluster),
        epoch: Epoch(1),
        at: case.now,
        signs: ShardSigns {
            subscribed: true,
            ..ShardSigns::default()
        },
        address: format!("beat {n}"),
        trouble: None,
        loss: None,
        no_manager_since: None,
    };
    case.store.perform(Op::Commit(Batch {
        owner: Role::Shard(ClusterId::new(cluster)),
        stamp: Stamp {
            epoch: Epoch(2),
            sequence: n,
        },
        writes: vec![Write::Heartbeat(heartbeat)],
    }));
}

/// What its shard has stored of an instance.
pub fn store_record(case: &mut Case, cluster: &str, job: JobId, n: u32, record: InstanceRecord) {
    let group = GroupName::new("main");
    let key = BlockKey::of(job, &group, InstanceNumber(n));
    let row = SliceRow::new(job, group.clone());
    let known = case.store.read(&Query::GroupBlocks {
        cluster: ClusterId::new(cluster),
        job,
        group,
        first: key.number,
        last: key.number,
    });
    let Answer::Blocks(known, _) = known else { panic!() };
    let mut block = known.into_iter().next().unwrap_or(Block {
        key,
        instances: BTreeMap::new(),
    });
    block.instances.insert(InstanceNumber(n), record);
    case.store.perform(Op::Commit(Batch {
        owner: Role::Shard(ClusterId::new(cluster)),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: (1 << 30) + u64::try_from(job.0 % 1_000).unwrap() * 1_000 + u64::from(n),
        },
        writes: vec![Write::Block(block), Write::Slice(row)],
    }));
}

pub fn launching() -> InstanceRecord {
    let run = Run::first(
        RunState::Launching,
        HostId::new("h"),
        "h",
        echelon_core_model::Timestamp(1),
    );
    InstanceRecord {
        generation: run.generation,
        run: Some(run),
        ..InstanceRecord::default()
    }
}

#[test]
fn what_has_not_begun_leaves_a_silent_cluster_after_a_minute() {
    for spec in [service(4), batch(4), batch(4).gang()] {
        let (mut case, job, home, other) = silent(spec);
        case.run_for(Span::seconds(60));
        assert_eq!(ban(&case, home), StartBan::default());
        assert!(case.ranges(job).contains(home), "{}", case.ranges(job));
        case.run_for(Span::seconds(15));
        assert_eq!(ban(&case, home).number, 1);
        assert!(ban(&case, home).silence.is_some());
        assert_eq!(case.active(job), [(other, 4)], "{}", case.ranges(job));
        // The next generation, with the silent cluster as the former holder: its records are read.
        let assignment = case.assignment(job).unwrap();
        let ranges = assignment.ranges(&GroupName::new("main"));
        assert!(ranges.iter().all(|r| r.generation.0 == 2), "{ranges:?}");
        let former =
            |r: &echelon_core_model::AssignedRange| r.former.as_ref().map(|(c, _)| c.as_str() == home);
        assert!(ranges.iter().all(|r| former(r) == Some(true)), "{ranges:?}");
        assert!(case.events_of(job).contains(&ReasonCode::Moved));
    }
}

#[test]
fn the_reason_says_when_it_may_move() {
    let (mut case, job, home, _) = silent(service(2));
    case.run_for(Span::seconds(20));
    let progress = case.progress(job).unwrap();
    let waiting = &progress.waiting;
    assert_eq!(case.waiting(job), [(ReasonCode::ClusterUnhealthy, 2)]);
    let detail = waiting[0].reason.detail.as_deref().unwrap_or_default().to_owned();
    assert!(
        detail.starts_with(&format!("assigned to {home}, which is cut off; may move at ")),
        "{detail}"
    );
    let at = case.rm.picture().facts.clusters[&ClusterId::new(home)]
        .moves_at
        .unwrap();
    assert!(at > case.now && at.since(case.now) <= Span::seconds(60), "{at}");
    case.run_for(Span::seconds(5));
    let later = case.rm.picture().facts.clusters[&ClusterId::new(home)]
        .moves_at
        .unwrap();
    assert_eq!(at, later, "the moment does not shift");
}

/// `RestartAfterLaunch`, seen from here: an index with a stored intent stays.
#[test]
fn an_index_with_a_stored_intent_stays() {
    let (mut case, job, home, other) = silent(service(4));
    store_record(&mut case, home, job, 2, launching());
    case.run_for(Span::seconds(90));
    assert_eq!(case.active(job), [(other, 3)], "{}", case.ranges(job));
    let assignment = case.assignment(job).unwrap();
    let ranges = assignment.ranges(&GroupName::new("main"));
    let stays: Vec<_> = ranges.iter().filter(|r| r.cluster.as_str() == home).collect();
    assert_eq!(stays.len(), 1);
    assert_eq!(
        (stays[0].range.first, stays[0].range.last, stays[0].generation.0),
        (2, 2, 1)
    );
}

#[test]
fn a_gang_with_an_intent_stays_whole() {
    let (mut case, job, home, _) = silent(batch(4).gang());
    store_record(&mut case, home, job, 2, launching());
    case.run_for(Span::seconds(90));
    assert_eq!(case.total_active(job), 0);
    let assignment = case.assignment(job).unwrap();
    let ranges = assignment.ranges(&GroupName::new("main"));
    assert!(ranges.iter().all(|r| r.cluster.as_str() == home), "{ranges:?}");
}

/// `SecondLook`: the heartbeat changes after the row was decided and before it is looked at again.
#[test]
fn a_heartbeat_that_comes_with_the_row_withdraws_it_and_nothing_moves() {
    let (mut case, job, home, _) = silent(service(4));
    let home_id = ClusterId::new(home);
    let mut steps = 0;
    while row(&case).silence(&home_id).is_none() {
        case.run_for(Span::millis(10));
        steps += 1;
        assert!(steps < 10_000, "starts were never forbidden");
        // The shard's heartbeat becomes durable just before the row does: no look before it can see that.
        let is_writing = case.rm.picture().facts.clusters[&home_id].silent_for >= Span::seconds(59);
        if is_writing && case.stalled.is_none() {
            case.stalled = Some(Vec::new());
        }
        let kept = case.stalled.as_ref().map_or(0, |kept| {
            let of_row = |op: &Op| matches!(op, Op::Decide(Decision::PutStartBans { .. }));
            kept.iter().filter(|(_, op)| of_row(op)).count()
        });
        if kept > 0 {
            break;
        }
    }
    beat(&mut case, home, 1);
    let kept = case.stalled.take().unwrap_or_default();
    for (id, op) in kept {
        case.remember(&op);
        let result = case.store.perform(op);
        case.events.push_back(crate::event::Event::Storage(id, result));
    }
    case.settle();
    case.run_for(Span::seconds(5));
    assert_eq!((ban(&case, home).number, ban(&case, home).silence), (1, None));
    let assignment = case.assignment(job).unwrap();
    let ranges = assignment.ranges(&GroupName::new("main"));
    assert!(ranges.iter().all(|r| r.generation.0 == 1), "{ranges:?}");
}

/// A shard that is heard again: its row is withdrawn, and what has moved stays where it is.
#[test]
fn the_row_is_withdrawn_when_the_shard_is_back() {
    let (mut case, job, home, other) = silent(service(4));
    case.run_for(Span::seconds(80));
    assert_eq!(case.active(job), [(other, 4)]);
    assert!(ban(&case, home).silence.is_some());
    beat(&mut case, home, 1);
    case.run_for(Span::seconds(4));
    assert_eq!((ban(&case, home).number, ban(&case, home).silence), (1, None));
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(job), [(other, 4)]);
}

/// `Fence`, and a new leader waits for itself: what others have waited does not count.
#[test]
fn a_new_leader_takes_the_row_over_and_waits_for_itself() {
    let (mut case, job, home, _) = silent(service(4));
    case.run_for(Span::seconds(55));
    case.fail_over();
    let raised = row(&case).stamp;
    assert_eq!((raised.epoch, raised.sequence), (Epoch(2), 0));
    case.run_for(Span::seconds(50));
    assert_eq!(ban(&case, home), StartBan::default());
    assert!(case.ranges(job).contains(home), "{}", case.ranges(job));
    case.run_for(Span::seconds(30));
    assert!(ban(&case, home).silence.is_some());
    assert_eq!(case.total_active(job), 4);
    // The older leader's write comes late.
    let late = Decision::PutStartBans {
        bans: StartBans {
            stamp: Stamp {
                epoch: Epoch(1),
                sequence: 1,
            },
            clusters: BTreeMap::new(),
        },
        expected: Stamp {
            epoch: Epoch(1),
            sequence: 0,
        },
    };
    let done = case.store.perform(Op::Decide(late));
    assert!(matches!(done, OpResult::Decided(Decided::Conflict(_))));
}

/// A row that an older leader left stands until the heartbeat changes, or this leader has waited as long.
#[test]
fn a_row_of_an_older_leader_is_withdrawn_on_a_heartbeat_only() {
    let (mut case, _, home, _) = silent(service(4));
    case.run_for(Span::seconds(80));
    assert!(ban(&case, home).silence.is_some());
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert!(ban(&case, home).silence.is_some());
    beat(&mut case, home, 1);
    case.run_for(Span::seconds(4));
    assert_eq!(ban(&case, home).silence, None);
}

/// A move that is on its way to storage keeps the row: the shard must not read its assignments before it.
#[test]
fn the_row_stands_while_a_move_is_on_its_way() {
    let (mut case, job, home, _) = silent(service(4));
    let is_move = |op: &Op| matches!(op, Op::Decide(Decision::PutAssignments { .. }));
    // The write of the move is kept on its way.
    let mut kept = Vec::new();
    for _ in 0..20_000 {
        case.run_for(Span::millis(5));
        let view = &case.rm.picture().facts.clusters[&ClusterId::new(home)];
        if view.silent_for >= Span::seconds(55) && case.stalled.is_none() {
            case.stalled = Some(Vec::new());
        }
        let Some(stalled) = case.stalled.take() else {
            continue;
        };
        let (moves, others): (Vec<_>, Vec<_>) = stalled.into_iter().partition(|(_, op)| is_move(op));
        kept.extend(moves);
        for (id, op) in others {
            case.remember(&op);
            let result = case.store.perform(op);
            case.events.push_back(crate::event::Event::Storage(id, result));
        }
        case.stalled = Some(Vec::new());
        if !kept.is_empty() {
            break;
        }
    }
    assert!(!kept.is_empty(), "nothing was moved");
    beat(&mut case, home, 1);
    for _ in 0..400 {
        let stalled = case.stalled.take().unwrap_or_default();
        for (id, op) in stalled {
            case.remember(&op);
            let result = case.store.perform(op);
            case.events.push_back(crate::event::Event::Storage(id, result));
        }
        case.stalled = Some(Vec::new());
        case.run_for(Span::millis(10));
        assert!(
            ban(&case, home).silence.is_some(),
            "withdrawn before the move was stored"
        );
    }
    case.stalled = None;
    for (id, op) in kept {
        case.remember(&op);
        let result = case.store.perform(op);
        case.events.push_back(crate::event::Event::Storage(id, result));
    }
    case.settle();
    case.run_for(Span::seconds(5));
    assert_eq!(ban(&case, home).silence, None);
    assert_eq!(case.total_active(job), 4);
}

#[test]
fn what_may_use_no_other_cluster_stays() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.shard("a").unplaceable = Some(ReasonCode::MesosUnavailable);
    let job = case.job(1, service(4).only(&["a"]));
    case.run_for(Span::seconds(8));
    case.shard("a").cores = 0;
    case.cut("a");
    case.run_for(Span::seconds(90));
    assert!(ban(&case, "a").silence.is_some());
    assert!(case.ranges(job).contains("@a"), "{}", case.ranges(job));
}

/// The last report is older than what was assigned after it.
#[test]
fn what_was_assigned_after_the_last_report_moves() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(2));
    case.run_for(Span::seconds(8));
    let (home, other) = if case.ranges(job).contains("@a") {
        ("a", "b")
    } else {
        ("b", "a")
    };
    assert_eq!(case.active(job), [(home, 2)]);
    for n in 0..2 {
        let mut record = launching();
        record.run = record.run.map(|run| Run {
            state: RunState::Running,
            ..run
        });
        store_record(&mut case, home, job, n, record);
    }
    // Its orders are on their way when it is cut off.
    case.held = Some((ClusterId::new(home), Vec::new()));
    case.scale(job, 4);
    case.run_for(Span::seconds(2));
    assert!(
        case.ranges(job).contains(&format!("0-3@{home}.1")),
        "{}",
        case.ranges(job)
    );
    case.held = None;
    case.shard(home).cores = 0;
    case.cut(home);
    case.run_for(Span::seconds(90));
    assert_eq!(case.shard(other).running(job).len(), 2, "{}", case.ranges(job));
}
