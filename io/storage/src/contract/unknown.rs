//! Unknown outcomes: the answer is lost, the effect is not.

use super::decisions::decisions_about;
use super::facts::{block, head, job, shard};
use super::{Case, batch};
use crate::Store;
use echelon_core_model::Version;
use echelon_core_model::store::{Answer, Decided, Decision, Query, Write};
use std::sync::Arc;

/// Repeats a decision until its outcome is known, as drivers do.
pub(super) async fn settle(store: &dyn Store, decision: Decision) -> Decided {
    for _ in 0..200 {
        match store.decide(decision.clone()).await {
            Ok(decided) => return decided,
            Err(error) => assert!(error.is_retryable(), "{}", error.chain()),
        }
    }
    panic!("the outcome of {decision:?} stays unknown")
}

/// A decision whose answer is lost says that it may be done, and the same decision again settles it.
pub async fn a_lost_answer_is_settled_by_the_same_decision(case: &Case) {
    // A first round, after which a backend has nothing left to learn before it sends a decision.
    for n in [1, 2] {
        for decision in decisions_about(n) {
            case.decides(decision).await;
        }
    }
    let decisions = decisions_about(3);
    case.faults.lose_answers().await;
    let lost: Vec<_> = decisions
        .iter()
        .map(|decision| {
            let (store, decision) = (Arc::clone(&case.store), decision.clone());
            tokio::spawn(async move { store.decide(decision).await })
        })
        .collect();
    for (task, decision) in lost.into_iter().zip(&decisions) {
        let error = task.await.unwrap().expect_err("its answer is lost");
        // A change of the pool tree may begin with reading its index: if that answer is lost, nothing was done.
        let may_be_done = error.may_be_done() || matches!(decision, Decision::PutPools { .. });
        assert!(may_be_done && error.is_retryable(), "{}", error.chain());
    }
    case.faults.answer().await;
    let done = Answer::Head(Some(head(job(3), 1)));
    assert_eq!(
        case.settled(Query::Head(job(3))).await,
        done,
        "the answer was lost, not the request"
    );
    for decision in decisions {
        assert_eq!(
            settle(&*case.store, decision.clone()).await,
            Decided::Applied,
            "{decision:?}"
        );
    }
    assert_eq!(case.settled(Query::Head(job(3))).await, done);
}

/// Who was beaten while an answer was lost learns by whom, not that it won.
pub async fn a_lost_answer_of_a_beaten_decision_is_a_conflict(case: &Case) {
    let put = |owner: &str, version, expected: Option<u64>| {
        let mut head = head(job(1), version);
        head.owner = owner.to_owned();
        let expected = expected.map(Version);
        Decision::PutHead { head, expected }
    };
    case.decides(put("ann", 1, None)).await;
    case.decides(put("bob", 2, Some(1))).await;
    case.faults.lose_answers().await;
    let late = put("ann", 2, Some(1));
    case.store
        .decide(late.clone())
        .await
        .expect_err("its answer is lost");
    case.faults.answer().await;
    let Decided::Conflict(there) = settle(&*case.store, late).await else {
        panic!("ann did not win")
    };
    let Answer::Head(Some(there)) = *there else {
        panic!("{there:?}")
    };
    assert_eq!((there.owner.as_str(), there.version), ("bob", Version(2)));
}

/// A commit whose answer is lost is committed by the same batch again.
pub async fn a_lost_commit_is_repeated_unchanged(case: &Case) {
    let put = |sequence, host: &str| {
        let write = Write::Block(block(job(1), 0, host));
        batch(&shard("c1"), (1, sequence), vec![write])
    };
    case.store.commit(put(1, "before")).await.unwrap();
    case.faults.lose_answers().await;
    let error = case
        .store
        .commit(put(2, "lost"))
        .await
        .expect_err("its answer is lost");
    assert!(error.may_be_done(), "{}", error.chain());
    case.faults.answer().await;
    for again in 0..2 {
        let group = super::blocks::group_blocks("c1", job(1), 0..=0);
        let there = Answer::Blocks(vec![block(job(1), 0, "lost")], Vec::new());
        assert_eq!(case.read(group).await, there, "after {again} repetitions");
        case.store.commit(put(2, "lost")).await.unwrap();
    }
}

/// Migrations that were carried out are not carried out again.
pub async fn migrating_again_changes_nothing(case: &Case) {
    let status = case.store.status().await.unwrap();
    assert!(status.is_current() && status.known > 0, "{status:?}");
    case.decides(super::decisions::put_pools(1, &["/kept"])).await;
    assert_eq!(case.store.migrate().await.unwrap(), status);
    assert_eq!(case.store.migrate().await.unwrap(), status);
    let tree = super::decisions::tree(1, &["/kept"]);
    assert_eq!(case.settled(Query::Pools).await, Answer::Pools(tree));
}
