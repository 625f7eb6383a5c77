//! What is said beside the changes: place in the queue, holders, and where no change is needed or none helps.

use crate::queries::explain::answer::{FixOutcome, QueuePlace};
use crate::tests::case::{Case, batch};
use crate::tests::explain::explained;
use echelon_core_model::job::Desired;
use echelon_core_model::pool::PoolKind;
use echelon_core_model::rules::Condition;
use echelon_core_model::{JobId, ReasonCode, Resources, Span};

fn pools(paths: &[&str], cores: u64) -> Case {
    let mut case = Case::new();
    for path in paths {
        case.set_pool(path, 1_000_000);
    }
    let mut case = case.cluster("a", cores);
    case.elect();
    case
}

#[test]
fn the_place_in_the_queue_counts_what_goes_first_in_its_pool() {
    let mut case = pools(&["/a", "/b"], 4);
    let jobs = [
        case.job(1, batch(4).pool("/a").priority(5)),
        case.job(2, batch(3).pool("/a").priority(5)),
        case.job(3, batch(2).pool("/a").priority(1)),
        case.job(4, batch(7).pool("/b").priority(9)),
        case.job(5, batch(6).pool("/a").priority(1)),
    ];
    let place = |job: JobId| explained(&case, job).place;
    let of = |jobs_ahead, units_ahead| {
        Some(QueuePlace {
            jobs_ahead,
            units_ahead,
            units: 11,
        })
    };
    assert_eq!(
        [place(jobs[0]), place(jobs[1]), place(jobs[2]), place(jobs[4])],
        [None, of(0, 0), of(1, 3), of(2, 5)]
    );
}

#[test]
fn the_three_largest_holders_are_named_and_a_static_pool_with_what_it_does_not_use() {
    let paths = ["/a", "/s", "/u", "/v", "/w", "/x"];
    let mut case = pools(&paths, 24);
    case.change_pool("/s", |p| {
        p.kind = PoolKind::Static;
        p.reservation.cpus = 9_000;
    });
    case.run_for(Span::seconds(6));
    case.job(1, batch(2).pool("/s"));
    for (n, (path, size)) in [("/u", 4), ("/v", 3), ("/w", 2), ("/x", 1)]
        .into_iter()
        .enumerate()
    {
        case.job(n as u128 + 2, batch(size).pool(path));
    }
    let job = case.job(9, batch(9).pool("/a"));
    case.run_for(Span::seconds(5));
    let told = explained(&case, job);
    let cpus = |r: Resources| r.cpus / 1000;
    let holders = told.holders.iter();
    let holders: Vec<(&str, u64, u64)> = holders
        .map(|h| (h.pool.as_str(), cpus(h.used), cpus(h.unused_reservation)))
        .collect();
    assert_eq!(holders, [("/s", 2, 7), ("/u", 4, 0), ("/v", 3, 0)]);
    assert_eq!(told.more_holders, 2);
}

#[test]
fn no_change_is_stated_where_preemption_makes_the_capacity() {
    let mut case = pools(&["/a", "/b"], 10);
    case.job(1, batch(20).pool("/b"));
    let job = case.job(2, batch(4).pool("/a"));
    case.run_for(Span::seconds(5));
    assert_eq!(explained(&case, job).outcome, FixOutcome::AfterPreemption);
    case.run_for(Span::minutes(2));
    assert_eq!(case.total_active(job), 4);
    let told = explained(&case, job);
    assert_eq!((told.outcome, told.waiting), (FixOutcome::NothingWaits, 0));
}

#[test]
fn no_change_is_stated_for_what_is_stopped_or_waits_for_another_job() {
    let mut case = pools(&["/a"], 4);
    let first = case.job(1, batch(2).pool("/a"));
    let after = case.job(2, batch(9).pool("/a").after(first, Condition::Succeeded));
    let outcome = |case: &Case, job| explained(case, job).outcome;
    match outcome(&case, after) {
        FixOutcome::Barred(reason) => assert_eq!(reason.code, ReasonCode::AfterJob),
        other => panic!("{other:?}"),
    }
    let waits = case.job(3, batch(9).pool("/a"));
    assert!(matches!(outcome(&case, waits), FixOutcome::Fixes(_)));
    case.want(waits, Desired::Stopped);
    assert_eq!(outcome(&case, waits), FixOutcome::NothingWaits);
    assert_eq!(outcome(&case, JobId(77)), FixOutcome::NothingWaits);
}

/// Nothing of the leader's state changes.
#[test]
fn a_question_changes_nothing() {
    let mut case = pools(&["/a", "/b"], 6);
    case.job(1, batch(20).pool("/b"));
    let job = case.job(2, batch(9).pool("/a"));
    let before = format!("{:?}", case.rm.picture());
    let told = explained(&case, job);
    assert!(told.trials > 0);
    assert_eq!(before, format!("{:?}", case.rm.picture()));
}
