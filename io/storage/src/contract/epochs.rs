//! Leaderships, and the epochs of assignment partitions.

use super::Case;
use super::facts::{assignment, job, jobs_of_partition, large_assignment, shard};
use echelon_core_model::store::{Answer, Decided, Decision, Leadership, Query, Role, Stamp, Write};
use echelon_core_model::{Assignment, Epoch, JobId};
use std::sync::Arc;

fn take(role: &Role, holder: &str, epoch: u64) -> Decision {
    Decision::TakeEpoch {
        role: role.clone(),
        next: led(holder, epoch),
        expected: Epoch(epoch - 1),
    }
}

fn led(holder: &str, epoch: u64) -> Leadership {
    Leadership {
        epoch: Epoch(epoch),
        holder: holder.to_owned(),
        proof: 1,
        resumed: Epoch(0),
    }
}

/// Of processes that take the same epoch one gets it, and reads that it did.
pub async fn an_epoch_is_taken_once(case: &Case) {
    let role = Role::ResourceManager;
    let none = case.settled(Query::Leadership(role.clone())).await;
    assert_eq!(none, Answer::Leadership(Leadership::default()));
    for epoch in 1..4 {
        let tasks: Vec<_> = (0..6)
            .map(|n| {
                let (store, take) = (Arc::clone(&case.store), take(&role, &format!("p{n}"), epoch));
                tokio::spawn(async move { (n, super::unknown::settle(&*store, take).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            let (n, decided) = task.await.unwrap();
            if decided == Decided::Applied {
                winners.push(format!("p{n}"));
            }
        }
        assert_eq!(winners.len(), 1, "epoch {epoch}: {winners:?}");
        let now = case.settled(Query::Leadership(role.clone())).await;
        assert_eq!(now, Answer::Leadership(led(&winners[0], epoch)));
    }
    // An epoch may be skipped, for a storage that was rolled back, but never used again.
    let skip = Decision::TakeEpoch {
        role: role.clone(),
        next: led("far", 1000),
        expected: Epoch(3),
    };
    case.decides(skip).await;
    assert!(matches!(
        case.decide(take(&role, "late", 4)).await,
        Decided::Conflict(_)
    ));
}

/// Each role counts its own epochs.
pub async fn leaderships_do_not_mix(case: &Case) {
    for (role, holder) in [
        (Role::ResourceManager, "rm"),
        (shard("c1"), "s1"),
        (shard("c2"), "s2"),
        (shard("resource-manager"), "s3"),
    ] {
        case.decides(take(&role, holder, 1)).await;
        let now = case.settled(Query::Leadership(role)).await;
        assert_eq!(now, Answer::Leadership(led(holder, 1)));
    }
}

const PARTITION: u16 = 5;

fn stamp((epoch, sequence): (u64, u64)) -> Stamp {
    Stamp {
        epoch: Epoch(epoch),
        sequence,
    }
}

fn raise(epoch: u64, expected: u64) -> Decision {
    Decision::RaisePartition {
        partition: PARTITION,
        epoch: Epoch(epoch),
        expected: Epoch(expected),
    }
}

/// Write `at.1` of epoch `at.0`.
fn assign(at: (u64, u64), cluster: &str, put: &[JobId], remove: &[JobId]) -> Decision {
    Decision::PutAssignments {
        partition: PARTITION,
        stamp: stamp(at),
        put: put.iter().map(|job| assignment(*job, cluster)).collect(),
        remove: remove.to_vec(),
    }
}

/// A deposed resource manager's assignments are refused, whichever came first.
pub async fn an_older_epoch_assigns_nothing(case: &Case) {
    let jobs = jobs_of_partition(PARTITION, 2);
    // A conflict tells the epoch; whether it tells the rows too differs by backend.
    let beaten = async |decision, epoch| match case.decide(decision).await {
        Decided::Conflict(there) => assert!(
            matches!(&*there, Answer::Assignments(at, _) if at.epoch == Epoch(epoch)),
            "{there:?}"
        ),
        Decided::Applied => panic!("it was applied at epoch {epoch}"),
    };
    beaten(assign((1, 1), "c1", &jobs, &[]), 0).await;
    case.decides(raise(1, 0)).await;
    case.decides(assign((1, 1), "c1", &jobs[..1], &[])).await;
    case.decides(raise(4, 1)).await;
    beaten(assign((1, 2), "late", &jobs, &[]), 4).await;
    beaten(assign((1, 1), "late", &[], &jobs), 4).await;
    beaten(assign((9, 1), "early", &jobs, &[]), 4).await;
    // An epoch never falls.
    beaten(raise(3, 1), 4).await;
    let kept = Answer::Assignments(stamp((4, 0)), vec![assignment(jobs[0], "c1")]);
    assert_eq!(case.settled(Query::Assignments(PARTITION)).await, kept);
    let other = case.settled(Query::Assignments(PARTITION + 1)).await;
    assert_eq!(other, Answer::Assignments(Stamp::default(), Vec::new()));
}

/// Rows are written whole and removed; repeating a batch changes nothing.
pub async fn a_partition_keeps_what_the_newest_epoch_wrote(case: &Case) {
    let jobs = jobs_of_partition(PARTITION, 40);
    case.decides(raise(2, 0)).await;
    case.decides(assign((2, 1), "c1", &jobs, &[])).await;
    case.decides(raise(3, 2)).await;
    let change = assign((3, 1), "c2", &jobs[..10], &jobs[30..]);
    case.decides(change.clone()).await;
    case.decides(change).await;
    let mut expected: Vec<_> = jobs[..10].iter().map(|j| assignment(*j, "c2")).collect();
    expected.extend(jobs[10..30].iter().map(|j| assignment(*j, "c1")));
    expected.sort_by_key(|a| a.job);
    for answer in [
        case.settled(Query::Assignments(PARTITION)).await,
        case.read(Query::Assignments(PARTITION)).await,
    ] {
        assert_eq!(answer, Answer::Assignments(stamp((3, 1)), expected.clone()));
    }
}

/// A try of an older write that its leader gave up and repeated comes late: it brings back nothing that a newer one has replaced.
pub async fn a_late_write_of_the_same_epoch_changes_nothing(case: &Case) {
    let jobs = jobs_of_partition(PARTITION, 1);
    case.decides(raise(1, 0)).await;
    let (old, new) = (assign((1, 1), "c1", &jobs, &[]), assign((1, 2), "c2", &jobs, &[]));
    case.decides(old.clone()).await;
    case.decides(new.clone()).await;
    let ahead = assign((1, 4), "c4", &jobs, &[]);
    for late in [old, ahead, assign((1, 1), "c1", &[], &jobs)] {
        let Decided::Conflict(there) = case.decide(late).await else {
            panic!("it was applied")
        };
        assert!(
            matches!(*there, Answer::Assignments(at, _) if at == stamp((1, 2))),
            "{there:?}"
        );
    }
    // The last one may be repeated, and a raise that comes late counts nothing anew.
    case.decides(new).await;
    case.decides(raise(1, 0)).await;
    let kept = Answer::Assignments(stamp((1, 2)), vec![assignment(jobs[0], "c2")]);
    assert_eq!(case.settled(Query::Assignments(PARTITION)).await, kept);
    case.decides(raise(2, 1)).await;
    case.decides(assign((2, 1), "c1", &[], &jobs)).await;
    let gone = Answer::Assignments(stamp((2, 1)), Vec::new());
    assert_eq!(case.settled(Query::Assignments(PARTITION)).await, gone);
}

/// An assignment of many rows: as many ranges as 64 groups may have. It becomes smaller, larger again and
/// goes, and what lies beside it stays.
pub async fn a_large_assignment_is_stored_in_several_rows(case: &Case) {
    let jobs = jobs_of_partition(PARTITION, 3);
    let [before, of, behind] = [jobs[0], jobs[1], jobs[2]];
    let put = |sequence, put: &[Assignment], remove: &[JobId]| Decision::PutAssignments {
        partition: PARTITION,
        stamp: stamp((1, sequence)),
        put: put.to_vec(),
        remove: remove.to_vec(),
    };
    let (large, small) = (large_assignment(of), assignment(of, "c1"));
    let beside = [assignment(before, "c1"), assignment(behind, "c1")];
    let there = async |sequence, middle: Option<&Assignment>| {
        let mut rows: Vec<Assignment> = beside.iter().chain(middle).cloned().collect();
        rows.sort_by_key(|a| a.job);
        let all = case.settled(Query::Assignments(PARTITION)).await;
        assert!(
            all == Answer::Assignments(stamp((1, sequence)), rows),
            "write {sequence}"
        );
        let Answer::Assignments(_, alone) = case.read(Query::Assignment(of)).await else {
            panic!("assignments")
        };
        assert!(alone.iter().eq(middle), "write {sequence}");
    };
    case.decides(raise(1, 0)).await;
    case.decides(put(1, &beside, &[])).await;
    for (sequence, middle) in [(2, &large), (3, &small), (4, &large)] {
        case.decides(put(sequence, std::slice::from_ref(middle), &[]))
            .await;
        there(sequence, Some(middle)).await;
    }
    case.decides(put(5, &[], &[of])).await;
    there(5, None).await;
    case.decides(put(6, std::slice::from_ref(&small), &[])).await;
    there(6, Some(&small)).await;
}

/// One job's assignment without its partition.
pub async fn a_single_assignment_is_read_alone(case: &Case) {
    let jobs = jobs_of_partition(PARTITION, 2);
    case.decides(raise(1, 0)).await;
    case.decides(assign((1, 1), "c1", &jobs, &[])).await;
    for (asked, found) in [
        (jobs[1], vec![assignment(jobs[1], "c1")]),
        (job(1 << 40), Vec::new()),
    ] {
        let Answer::Assignments(_, read) = case.read(Query::Assignment(asked)).await else {
            panic!("assignments")
        };
        assert_eq!(read, found);
    }
}

/// The assignment of an ended job lies beside the partitions: it is read by job, while no partition has it, and goes row by row.
pub async fn the_assignment_of_an_ended_job_is_read_by_job_alone(case: &Case) {
    let of = jobs_of_partition(PARTITION, 1)[0];
    let large = large_assignment(of);
    let pieces = large.pieces(stamp((1, 3)));
    assert!(pieces.len() > 1);
    let rows = || (0..).zip(pieces.clone());
    let manager = Role::ResourceManager;
    let read = async || {
        let Answer::Assignments(_, alone) = case.settled(Query::Assignment(of)).await else {
            panic!("assignments")
        };
        alone
    };
    case.decides(raise(1, 0)).await;
    case.decides(assign((1, 1), "c1", &[of], &[])).await;
    let copies = rows().map(|(place, row)| Write::EndedAssignment(row, place));
    case.commits(&manager, (1, 3), copies.collect()).await;
    // While its partition has it, that holds.
    assert_eq!(read().await, [assignment(of, "c1")]);
    case.decides(assign((1, 2), "c1", &[], &[of])).await;
    assert!(read().await == [large.clone()]);
    let partition = case.settled(Query::Assignments(PARTITION)).await;
    assert_eq!(partition, Answer::Assignments(stamp((1, 2)), Vec::new()));
    let gone = rows().map(|(place, _)| Write::RemoveEndedAssignment(of, place));
    case.commits(&manager, (1, 4), gone.collect()).await;
    assert_eq!(read().await, []);
    // A late copy changes nothing.
    let late = rows().map(|(place, row)| Write::EndedAssignment(row, place));
    case.commits(&manager, (1, 3), late.collect()).await;
    assert_eq!(read().await, []);
}
