//! Lists of jobs: their order, what is counted, and tokens.

use super::*;
use crate::error::ErrorReason;
use crate::page::seal;
use crate::testing::{Memory, run, web};
use echelon_core_model::job::JobState;

/// Jobs 0 to `n`, of which all but each 300th have ended, in the order of storage.
fn store(n: u64) -> Memory {
    let (mut store, first) = web();
    let head = store.heads.remove(&first).unwrap();
    for i in 0..n {
        // Storage's order is not that of time.
        let job = JobId::new(Timestamp((i * 7919) % 100_003), u128::from(i));
        let head = Head { job, ..head.clone() };
        store.heads.insert(job, head);
        if !i.is_multiple_of(300) {
            store.ended(job, JobState::Succeeded);
        }
    }
    store
}

fn list(store: &mut Memory, size: i32, token: &str) -> Result<Page<JobView>, ApiError> {
    let page = PageRequest {
        size,
        token: token.to_owned(),
    };
    run(store, move |facts| async move {
        list_jobs(&facts, JobFilter::default(), page).await
    })
}

fn ids(page: &Page<JobView>) -> Vec<JobId> {
    page.items.iter().map(|v| v.head.job).collect()
}

#[test]
fn what_has_not_ended_is_listed_first_and_the_newest_of_each_half() {
    let mut store = store(2500);
    let mut sorted: Vec<(bool, Reverse<JobId>)> = store
        .heads
        .keys()
        .map(|job| (store.progress.contains_key(job), Reverse(*job)))
        .collect();
    sorted.sort_unstable();
    let sorted: Vec<JobId> = sorted.into_iter().map(|(_, job)| job.0).collect();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = list(&mut store, 700, &token).unwrap();
        assert_eq!(page.total, Some(2500));
        seen.extend(ids(&page));
        match page.next {
            Some(next) => token = next,
            None => break,
        }
    }
    assert_eq!(seen, sorted);
}

#[test]
fn a_job_that_ends_between_two_pages_is_not_missed() {
    let mut store = store(1);
    let extra: Vec<JobId> = (1..=4).map(|i| JobId::new(Timestamp(i), 0)).collect();
    let head = store.heads.pop_first().unwrap().1;
    for job in &extra {
        store.heads.insert(
            *job,
            Head {
                job: *job,
                ..head.clone()
            },
        );
    }
    let page = list(&mut store, 2, "").unwrap();
    assert_eq!(ids(&page), [extra[3], extra[2]]);
    store.ended(extra[1], JobState::Failed);
    let rest = list(&mut store, 10, &page.next.unwrap()).unwrap();
    assert_eq!(ids(&rest), [extra[0], extra[1]]);
}

#[test]
fn a_token_that_says_nothing_is_refused() {
    let mut store = store(3);
    let filter = JobFilter::default();
    for position in ["", "x", "ended", "ended x", "often 01mcc5rxrg1qdnv2s2v5emxbcq"] {
        let token = seal(&format!("jobs {filter:?}"), position);
        let refused = list(&mut store, 10, &token).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::TokenInvalid, "{position}");
        let page = PageRequest {
            size: 10,
            token: seal(&format!("all jobs {filter:?}"), position),
        };
        let refused = run(&mut store, |facts| async move {
            all_jobs(&facts, JobFilter::default(), page).await
        });
        assert_eq!(
            refused.unwrap_err().reason,
            ErrorReason::TokenInvalid,
            "{position}"
        );
    }
}
