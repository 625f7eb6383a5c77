//! Orders over a stream that opens again, some at a time.

use crate::orders::resends::RESENT;
use crate::orders::slice_orders::{digest, orders};
use crate::tests::case::{Case, batch};
use crate::turns::CHANGED;
use echelon_core_model::{ClusterId, JobId, Span};

/// The jobs to which a cluster has not got the orders of now over its stream.
fn missing(case: &Case, cluster: &ClusterId) -> Vec<JobId> {
    let facts = &case.rm.picture().facts;
    let link = facts.clusters[cluster].link.unwrap();
    let stamp = (case.rm.epoch, case.rm.config.grant_lease);
    let jobs = facts
        .jobs
        .iter()
        .filter(|(_, job)| job.durable.holders.contains_key(cluster));
    let lacks = jobs.filter(|(id, job)| {
        let due = digest(&orders(facts, **id, job, cluster, stamp));
        job.bound
            .sent
            .get(cluster)
            .is_none_or(|sent| (sent.link, sent.digest) != (link, due))
    });
    lacks.map(|(id, _)| *id).collect()
}

#[test]
fn a_stream_that_opens_again_gets_all_orders_and_some_in_each_cycle() {
    let mut case = Case::with(&[("a", 100), ("b", 100)]);
    let a = ClusterId::new("a");
    let jobs: Vec<JobId> = (1..=70).map(|n| case.job(n, batch(1).only(&["a"]))).collect();
    case.run_for(Span::seconds(2));
    assert_eq!(missing(&case, &a), []);
    // The cursor over all jobs would look at each of these few in every cycle.
    case.rm.config.turns = 1;
    case.cut("a");
    case.run_for(Span::seconds(1));
    case.reopen("a");
    let (mut left, mut cycles) = (missing(&case, &a).len(), 0);
    assert!(left > jobs.len() - RESENT * 2, "{left} of {} at once", jobs.len());
    while left > 0 {
        case.run_for(Span::millis(50));
        let now = missing(&case, &a).len();
        assert!(left - now <= RESENT * 2, "{} at once", left - now);
        (left, cycles) = (now, cycles + 1);
        assert!(cycles < 20, "{left} are left");
    }
    assert!(cycles > 1);
    assert!(case.rm.resends.is_empty());
}

#[test]
fn a_full_report_that_repeats_what_is_known_changes_nothing() {
    let mut case = Case::with(&[("a", 10)]);
    case.job(1, batch(4));
    case.run_for(Span::seconds(2));
    case.cut("a");
    case.reopen("a");
    case.run_for(Span::seconds(2));
    let before = case.rm.picture().revision;
    case.at("a", |shard, now| shard.full(now));
    let reports = case.rm.picture().facts.clusters[&ClusterId::new("a")]
        .reports
        .len();
    assert_eq!(reports, 1);
    // What is missing in it is gone all the same.
    let job = *case.rm.picture().facts.jobs.keys().next().unwrap();
    case.at("a", |shard, now| {
        shard.slices.clear();
        shard.full(now)
    });
    assert!(case.rm.picture().revision > before);
    assert!(
        case.rm.picture().facts.clusters[&ClusterId::new("a")]
            .reports_of(job)
            .next()
            .is_none()
    );
}

#[test]
fn of_very_many_changed_jobs_each_cycle_looks_at_some() {
    let mut case = Case::with(&[("a", 10)]);
    case.run_for(Span::seconds(2));
    let many = u128::try_from(CHANGED * 4).unwrap();
    case.rm.dirty.extend((1..=many).map(JobId));
    case.rm.due = true;
    let (mut left, mut times) = (case.rm.dirty.len(), 0);
    while left > 0 {
        case.run_for(Span::millis(50));
        // Two cycles may follow a pause.
        let now = case.rm.dirty.len();
        assert!(left - now <= CHANGED * 2, "{} at once", left - now);
        (left, times) = (now, times + 1);
        assert!(times < 10, "{left} are left");
    }
    assert!(times > 1);
}
