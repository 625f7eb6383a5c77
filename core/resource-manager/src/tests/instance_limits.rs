//! The limits of instances of a pool and of the federation.

use crate::event::Event;
use crate::tests::case::{Case, batch};
use echelon_core_model::instance_limit::{
    ExceededLimit, LimitScope, MAX_FEDERATION_INSTANCES, MAX_POOL_INSTANCES, WantedInstances,
};
use echelon_core_model::job::Desired;
use echelon_core_model::{JobId, Span};

const LARGEST: u32 = 10_000_000;

/// A job that is not stored.
const NEW: JobId = JobId(900);

fn check(case: &mut Case, job: JobId, pool: &str, instances: u32) -> Option<Result<(), ExceededLimit>> {
    let wanted = WantedInstances {
        job,
        pool: pool.to_owned(),
        instances,
    };
    case.rm.check_instances(wanted, case.now)
}

fn beyond(pool: &str, others: u64) -> Option<Result<(), ExceededLimit>> {
    Some(Err(ExceededLimit {
        scope: LimitScope::Pool(pool.to_owned()),
        others,
        limit: MAX_POOL_INSTANCES,
    }))
}

/// Ten pools with as many instances as a pool may have, but for one in `/p9`. Also a job of `/p0`.
fn full() -> (Case, JobId) {
    let mut case = Case::new().cluster("a", 8);
    for pool in 0..11 {
        case = case.pool(&format!("/p{pool}"), 1_000);
    }
    let mut jobs = Vec::new();
    for n in 0..100 {
        let short = u32::from(n == 99);
        let job = batch(LARGEST - short).pool(&format!("/p{}", n / 10));
        jobs.push(case.store_job(1 + n, job));
    }
    case.elect();
    (case, jobs[0])
}

#[test]
fn a_pool_and_the_federation_are_full_at_their_limits() {
    let (mut case, _) = full();
    let all = case.rm.picture().demand.ledger.asked();
    assert_eq!(all, MAX_FEDERATION_INSTANCES - 1);
    assert_eq!(check(&mut case, NEW, "/p0", 1), beyond("/p0", MAX_POOL_INSTANCES));
    assert_eq!(
        check(&mut case, NEW, "/p9", 2),
        beyond("/p9", MAX_POOL_INSTANCES - 1)
    );
    // One is left, in either.
    let federation = Some(Err(ExceededLimit {
        scope: LimitScope::Federation,
        others: MAX_FEDERATION_INSTANCES - 1,
        limit: MAX_FEDERATION_INSTANCES,
    }));
    assert_eq!(check(&mut case, NEW, "/p10", 2), federation);
    assert_eq!(check(&mut case, NEW, "/p10", 1), Some(Ok(())));
    // Which another job was allowed then.
    let taken = check(&mut case, JobId(901), "/p9", 1).unwrap().unwrap_err();
    assert_eq!(
        (taken.scope, taken.others),
        (LimitScope::Federation, MAX_FEDERATION_INSTANCES)
    );
}

#[test]
fn a_job_that_has_ended_counts_no_more() {
    let (mut case, job) = full();
    assert!(check(&mut case, NEW, "/p0", 1).unwrap().is_err());
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(check(&mut case, NEW, "/p0", LARGEST), Some(Ok(())));
}

#[test]
fn what_was_allowed_counts_until_it_is_read_or_ten_seconds_have_passed() {
    let mut case = Case::new().pool("/x", 1_000).cluster("a", 8);
    case.elect();
    let stored = case.store_job(1, batch(LARGEST).pool("/x"));
    for job in (1..10).map(JobId).chain([stored]) {
        assert_eq!(check(&mut case, job, "/x", LARGEST), Some(Ok(())));
        // Asked again, it counts once.
        assert_eq!(check(&mut case, job, "/x", LARGEST), Some(Ok(())));
    }
    assert_eq!(check(&mut case, NEW, "/x", 1), beyond("/x", MAX_POOL_INSTANCES));
    // One of them is read: it counts once, too.
    case.hint(stored);
    assert_eq!(case.rm.picture().demand.ledger.asked_of(stored), LARGEST.into());
    assert_eq!(check(&mut case, NEW, "/x", 1), beyond("/x", MAX_POOL_INSTANCES));
    // The others never come.
    case.run_for(Span::seconds(11));
    assert_eq!(check(&mut case, NEW, "/x", LARGEST), Some(Ok(())));
}

#[test]
fn a_job_that_grows_counts_with_what_it_has_more() {
    let mut case = Case::new().pool("/x", 1_000).cluster("a", 8);
    let jobs: Vec<JobId> = (1..=10)
        .map(|n| case.store_job(n, batch(LARGEST - 5).pool("/x")))
        .collect();
    case.elect();
    let others = MAX_POOL_INSTANCES - 50 - u64::from(LARGEST - 5);
    assert_eq!(check(&mut case, jobs[0], "/x", LARGEST), Some(Ok(())));
    // Fewer, or as many as before, are never refused.
    assert_eq!(check(&mut case, jobs[1], "/x", LARGEST - 5), Some(Ok(())));
    assert_eq!(check(&mut case, NEW, "/x", 45), Some(Ok(())));
    assert_eq!(
        check(&mut case, jobs[1], "/x", LARGEST - 4),
        beyond("/x", others + 50)
    );
    assert_eq!(check(&mut case, jobs[1], "/x", 7), Some(Ok(())));
}

#[test]
fn nothing_is_said_before_all_jobs_are_read() {
    let (mut case, _) = full();
    assert!(check(&mut case, NEW, "/p0", 1).is_some());
    case.step(Event::Deposed);
    assert_eq!(check(&mut case, NEW, "/p0", 1), None);
}

#[test]
fn what_is_allowed_and_never_comes_is_bounded() {
    let mut case = Case::new().pool("/x", 1_000).cluster("a", 8);
    case.elect();
    for job in (1..=80).map(JobId) {
        assert_eq!(check(&mut case, job, "/x", 1), Some(Ok(())));
    }
    assert_eq!(check(&mut case, NEW, "/x", 1), None);
    assert_eq!(check(&mut case, JobId(80), "/x", 1), Some(Ok(())));
    assert_eq!(case.rm.footprint()["allowed instances"], 80);
    case.run_for(Span::seconds(12));
    assert_eq!(case.rm.footprint()["allowed instances"], 0);
    assert_eq!(check(&mut case, NEW, "/x", 1), Some(Ok(())));
}
