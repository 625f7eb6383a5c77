//! What is refused, with a reason, and without an effect.

use super::decisions::tree;
use super::facts::{assignment, block, event, head, host, job, jobs_of_partition, progress, shard, spec};
use super::{Case, batch};
use crate::StoreError;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::job::JobState;
use echelon_core_model::store::{
    Answer, Batch, Decision, Leadership, Op, OpFailure, OpResult, Query, RefusedWhy, Role, Stamp, Write,
};
use echelon_core_model::{ClusterId, Epoch, Timestamp, Version};

async fn refuses(case: &Case, decision: Decision) {
    let told = case.store.decide(decision.clone()).await;
    check(told.map(|_| ()), &format!("{decision:?}"));
}

async fn refuses_batch(case: &Case, batch: Batch) {
    let told = case.store.commit(batch.clone()).await;
    check(told, &format!("{:?} {:?}", batch.owner, batch.stamp));
}

fn check(told: Result<(), StoreError>, what: &str) {
    let what: String = what.chars().take(120).collect();
    match told {
        Ok(()) => panic!("{what} was not refused"),
        Err(error) => {
            assert!(
                matches!(error, StoreError::Refused(_)),
                "{what}: {}",
                error.chain()
            );
            assert!(!error.may_be_done() && !error.is_retryable());
        }
    }
}

/// Specs above 256 KiB, trees and batches of assignments above 1 MiB, assignments that no batch takes,
/// single values above what a partition takes.
pub async fn what_is_too_large_is_refused(case: &Case) {
    let put_spec = |bytes: usize| Decision::PutSpec {
        job: job(1),
        version: 1,
        spec: spec(&"x".repeat(bytes)),
    };
    refuses(case, put_spec(256 * 1024)).await;
    assert_eq!(case.settled(Query::Spec(job(1), 1)).await, Answer::Spec(None));
    case.decides(put_spec(255 * 1024)).await;

    let mut large = head(job(1), 1);
    large.labels.insert("k".to_owned(), "v".repeat(64 * 1024));
    let expected = None;
    refuses(
        case,
        Decision::PutHead {
            head: large,
            expected,
        },
    )
    .await;

    let partition = 5;
    let raise = Decision::RaisePartition {
        partition,
        epoch: Epoch(1),
        expected: Epoch(0),
    };
    case.decides(raise).await;
    let jobs = jobs_of_partition(partition, 20);
    let sized = |n: usize, bytes: usize| Decision::PutAssignments {
        partition,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1,
        },
        put: jobs[..n]
            .iter()
            .map(|j| assignment(*j, &"c".repeat(bytes / 2)))
            .collect(),
        remove: Vec::new(),
    };
    refuses(case, sized(1, 1024 * 1024)).await;
    refuses(case, sized(20, 60 * 1024)).await;
    case.decides(sized(10, 60 * 1024)).await;

    let path = format!("/{}", "p".repeat(1024 * 1024));
    let tree = tree(1, &[&path]);
    let expected = Version(0);
    refuses(case, Decision::PutPools { tree, expected }).await;
    let huge = vec![Write::Block(block(job(1), 0, &"h".repeat(300 * 1024)))];
    refuses_batch(case, batch(&shard("c1"), (1, 1), huge)).await;
}

/// A refusal names every row that is refused, its place in what was asked, its bytes and the limit; and nothing of it is done.
pub async fn a_refusal_names_every_row_that_is_refused(case: &Case) {
    let large = |n: u64| Write::Block(block(job(n), 0, &"h".repeat(600 * 1024)));
    let good = |n: u64| Write::Block(block(job(n), 0, "h"));
    let asked = batch(&shard("c1"), (1, 1), vec![good(1), large(2), good(3), large(4)]);
    let OpResult::Failed(OpFailure::Refused(refusal)) = case.store.perform(Op::Commit(asked)).await else {
        panic!("two blocks are too large")
    };
    let places: Vec<_> = refusal.rows.iter().map(|r| r.place).collect();
    assert_eq!(places, [Some(1), Some(3)]);
    for row in &refusal.rows {
        assert!(row.row.contains("instances"), "{row}");
        let RefusedWhy::TooLarge { bytes, limit } = row.why else {
            panic!("{row}")
        };
        assert!(bytes > 600 * 1024 && limit == 512 * 1024, "{row}");
    }
    let there = case.read(super::blocks::group_blocks("c1", job(1), 0..=0)).await;
    assert_eq!(
        there,
        Answer::Blocks(Vec::new(), Vec::new()),
        "all of it or nothing"
    );

    let partition = 5;
    let raise = Decision::RaisePartition {
        partition,
        epoch: Epoch(1),
        expected: Epoch(0),
    };
    case.decides(raise).await;
    let jobs = jobs_of_partition(partition, 3);
    let put = [10, 1024 * 1024, 10]
        .iter()
        .zip(&jobs)
        .map(|(bytes, job)| assignment(*job, &"c".repeat(*bytes)))
        .collect();
    let decision = Decision::PutAssignments {
        partition,
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1,
        },
        put,
        remove: Vec::new(),
    };
    let OpResult::Failed(OpFailure::Refused(refusal)) = case.store.perform(Op::Decide(decision)).await else {
        panic!("an assignment is too large")
    };
    let places: Vec<_> = refusal.rows.iter().map(|r| r.place).collect();
    assert_eq!(places, [Some(1)], "{refusal}");
}

/// A leader's batch holds its own facts alone.
pub async fn what_is_not_the_owners_is_refused(case: &Case) {
    let beat = Heartbeat {
        cluster: ClusterId::new("c2"),
        epoch: Epoch(1),
        at: Timestamp(1),
        signs: Default::default(),
        address: String::new(),
        trouble: None,
        loss: None,
        no_manager_since: None,
    };
    let (rm, c1) = (Role::ResourceManager, shard("c1"));
    let of_rm = Write::Progress(progress(job(1), JobState::Running));
    for (owner, write) in [
        (&rm, Write::Block(block(job(1), 0, "h"))),
        (&rm, Write::Host(host("h", 1))),
        (&rm, Write::Heartbeat(beat.clone())),
        (&c1, Write::Heartbeat(beat.clone())),
        (&c1, Write::RemoveProgress(job(1))),
        (&c1, of_rm.clone()),
    ] {
        // What is before it in the batch is not written either.
        let good = if *owner == rm {
            of_rm.clone()
        } else {
            Write::Host(host("h", 1))
        };
        refuses_batch(case, batch(owner, (1, 1), vec![good, write])).await;
    }
    assert_eq!(
        case.read(Query::Progress(job(1))).await,
        Answer::Progress(Vec::new())
    );
}

/// Events without a lane, of two lanes or of a lane that there is not; ends of one's own epoch.
pub async fn events_without_a_place_are_refused(case: &Case) {
    let (c1, manager) = (shard("c1"), Role::ResourceManager);
    let own = Stamp {
        epoch: Epoch(3),
        sequence: 1,
    };
    for (owner, wrong) in [
        (&c1, vec![Write::Event(event(job(1), 1, "x"))]),
        (&c1, vec![Write::NoteEvents(1), Write::NoteEvents(2)]),
        (&c1, vec![Write::NoteEvents(256)]),
        (&c1, vec![Write::CloseEvents(1, own)]),
        (&manager, vec![Write::NoteEvents(1)]),
    ] {
        refuses_batch(case, batch(owner, (3, 1), wrong)).await;
    }
}

/// Epochs and sequences that do not fit a stamp, versions that do not grow, jobs in a partition that is not theirs.
pub async fn numbers_out_of_range_are_refused(case: &Case) {
    let c1 = shard("c1");
    for stamp in [(0, 1), (Epoch::END, 1), (1, 1 << 40), (u64::MAX, u64::MAX)] {
        refuses_batch(case, batch(&c1, stamp, vec![Write::Host(host("h", 1))])).await;
    }
    let take = |epoch, expected| Decision::TakeEpoch {
        role: c1.clone(),
        next: Leadership {
            epoch: Epoch(epoch),
            holder: "p".to_owned(),
            proof: 1,
            resumed: Epoch(0),
        },
        expected: Epoch(expected),
    };
    for (epoch, expected) in [(0, 0), (Epoch::END, 0), (3, 3), (2, 3)] {
        refuses(case, take(epoch, expected)).await;
    }
    let raise = |epoch, expected| Decision::RaisePartition {
        partition: 1,
        epoch: Epoch(epoch),
        expected: Epoch(expected),
    };
    for (epoch, expected) in [(0, 0), (Epoch::END, 1), (2, 2)] {
        refuses(case, raise(epoch, expected)).await;
    }
    for (version, expected) in [(0, None), (2, Some(2)), (1, Some(2))] {
        let expected = expected.map(Version);
        let head = head(job(1), version);
        refuses(case, Decision::PutHead { head, expected }).await;
    }
    for (version, expected) in [(0, 0), (2, 0), (2, 2), (1, 2)] {
        let (tree, expected) = (tree(version, &["/a"]), Version(expected));
        refuses(case, Decision::PutPools { tree, expected }).await;
    }
    let mut misplaced = tree(1, &["/a"]);
    let pool = misplaced.pools.remove("/a");
    misplaced.pools.extend(pool.map(|pool| ("/b".to_owned(), pool)));
    let put = Decision::PutPools {
        tree: misplaced,
        expected: Version(0),
    };
    refuses(case, put).await;
    let astray = jobs_of_partition(6, 1);
    let first = Stamp {
        epoch: Epoch(1),
        sequence: 1,
    };
    let assign = |stamp, put: &[_], remove: &[_]| Decision::PutAssignments {
        partition: 5,
        stamp,
        put: put.iter().map(|j| assignment(*j, "c1")).collect(),
        remove: remove.to_vec(),
    };
    refuses(case, assign(first, &astray, &[])).await;
    refuses(case, assign(first, &[], &astray)).await;
    let twice = jobs_of_partition(5, 1);
    refuses(case, assign(first, &twice, &twice)).await;
    for (epoch, sequence) in [(0, 1), (Epoch::END, 1), (1, 0)] {
        let epoch = Epoch(epoch);
        refuses(case, assign(Stamp { epoch, sequence }, &twice, &[])).await;
    }
}
