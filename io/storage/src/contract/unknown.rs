//! Unknown outcomes: the answer is lost, the effect is not.

use super::decisions::first_decisions;
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
    let decisions = first_decisions();
    case.faults.lose_answers().await;
    let lost: Vec<_> = decisions
        .iter()
        .map(|decision| {
            let (store, decision) = (Arc::clone(&case.store), decision.clone());
            tokio::spawn(async move { store.decide(decision).await })
        })
        .collect();
    for task in lost {
        let error = task.await.unwrap().expect_err("its answer is lost");
        assert!(error.may_be_done() && error.is_retryable(), "{}", error.chain());
    }
    case.faults.answer().await;
    for decision in decisions {
        assert_eq!(
            settle(&*case.store, decision.clone()).await,
            Decided::Applied,
            "{decision:?}"
        );
    }
    let answer = case.settled(Query::Head(job(9))).await;
    assert_eq!(answer, Answer::Head(Some(head(job(9), 1))));
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
    let shard = shard("c1");
    let write = batch(&shard, (1, 1), vec![Write::Block(block(job(1), 0, "h1"))]);
    case.faults.lose_answers().await;
    let error = case
        .store
        .commit(write.clone())
        .await
        .expect_err("its answer is lost");
    assert!(error.may_be_done(), "{}", error.chain());
    case.faults.answer().await;
    let mut tries = 0;
    while let Err(error) = case.store.commit(write.clone()).await {
        tries += 1;
        assert!(error.is_retryable() && tries < 200, "{}", error.chain());
    }
    let group = super::blocks::group_blocks("c1", job(1), 0..=0);
    let Answer::Blocks(blocks, _) = case.read(group).await else {
        panic!("blocks")
    };
    assert_eq!(blocks, [block(job(1), 0, "h1")]);
}

/// Migrations that were carried out are not carried out again.
pub async fn migrating_again_changes_nothing(case: &Case) {
    let status = case.store.status().await.unwrap();
    assert!(status.is_current() && status.latest > 0, "{status:?}");
    case.decides(super::decisions::put_pools(1, &["/kept"])).await;
    assert_eq!(case.store.migrate().await.unwrap(), status);
    assert_eq!(case.store.migrate().await.unwrap(), status);
    let tree = super::decisions::tree(1, &["/kept"]);
    assert_eq!(case.settled(Query::Pools).await, Answer::Pools(tree));
}
