//! What one cycle does at most: jobs that it admits, jobs that it settles, and parts of what is done once a
//! second.

use crate::admission::SecondlyPart;
use crate::event::Event;
use crate::facts::settling::{SETTLED, Settling};
use crate::tests::case::{Case, batch};
use echelon_core_model::{ClusterId, JobId, Span};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What each cycle of a case tells of itself.
fn noted<T: 'static>(case: &mut Case, of: impl Fn(&Case) -> Option<T> + 'static) -> Rc<RefCell<Vec<T>>> {
    let notes = Rc::new(RefCell::new(Vec::new()));
    let book = Rc::clone(&notes);
    case.watch = Some(Box::new(move |case| book.borrow_mut().extend(of(case))));
    notes
}

#[test]
fn a_cycle_admits_so_many_jobs_and_the_next_one_goes_on_in_the_same_order() {
    let mut case = Case::with(&[("a", 10)]);
    case.run_for(Span::seconds(6));
    case.rm.config.admitted_at_once = 2;
    let jobs: Vec<JobId> = (1..=7).map(|n| case.store_job(n, batch(2))).collect();
    let admitted = noted(&mut case, |case| {
        let admitted = &case.rm.last_cycle()?.admission.admitted;
        let jobs: BTreeSet<JobId> = admitted.iter().map(|a| a.job).collect();
        (!jobs.is_empty()).then(|| jobs.into_iter().collect::<Vec<JobId>>())
    });
    // All are known before the first of them is admitted.
    case.rm.timers.cycle = case.now.plus(Span::seconds(1));
    case.events.extend(jobs.iter().map(|job| Event::Hint(*job)));
    case.settle();
    assert!(admitted.borrow().is_empty());
    case.run_for(Span::seconds(2));
    let expected: Vec<Vec<JobId>> = jobs[..5].chunks(2).map(<[JobId]>::to_vec).collect();
    assert_eq!(*admitted.borrow(), expected);
    let active: Vec<usize> = jobs.iter().map(|job| case.total_active(*job)).collect();
    assert_eq!(active, [2, 2, 2, 2, 2, 0, 0]);
}

/// One pool has all of ten cores, and another one asks for its share of them. What both have, and what was
/// preempted, after so many seconds each; and the parts that came.
fn shared(queues_at_once: usize) -> (Vec<(usize, usize, u64)>, Vec<SecondlyPart>) {
    let mut case = Case::with(&[("a", 10)]);
    case.set_pool("/x", 1_000_000);
    case.set_pool("/y", 1_000_000);
    case.rm.config.queues_at_once = queues_at_once;
    case.run_for(Span::seconds(6));
    let parts = noted(&mut case, |case| {
        let part = case.rm.last_cycle()?.admission.part;
        (part != SecondlyPart::Nothing).then_some(part)
    });
    let x = case.job(1, batch(20).pool("/x"));
    case.run_for(Span::seconds(2));
    let y = case.job(2, batch(20).pool("/y"));
    let looks = [20, 20, 20, 120].map(|seconds| {
        case.run_for(Span::seconds(seconds));
        let slices = case.shards.values().flat_map(|s| s.slices.values());
        let taken = slices.map(|s| s.own.preempted).sum::<u64>();
        (case.total_active(x), case.total_active(y), taken)
    });
    (looks.to_vec(), parts.take())
}

#[test]
fn where_queues_are_many_what_is_done_once_a_second_has_several_cycles_with_the_same_result() {
    let (at_once, parts) = shared(1_000);
    assert_eq!(at_once, [(10, 0, 0), (5, 5, 5), (5, 5, 5), (5, 5, 5)]);
    assert!(parts.iter().all(|part| *part == SecondlyPart::All), "{parts:?}");
    let (apart, parts) = shared(0);
    assert_eq!(apart, at_once);
    let turn = [
        SecondlyPart::SecondRound,
        SecondlyPart::Holds,
        SecondlyPart::Preemption,
    ];
    // Before anything waits they come in one cycle, and so do they again where nothing waits.
    let apart: Vec<SecondlyPart> = parts
        .into_iter()
        .filter(|part| *part != SecondlyPart::All)
        .collect();
    assert!(apart.len() > 100, "{apart:?}");
    assert!(apart.chunks(3).all(|some| turn.starts_with(some)), "{apart:?}");
}

#[test]
fn a_cluster_with_many_jobs_settles_some_at_a_time_and_has_the_same_in_the_end() {
    let mut case = Case::with(&[("a", 100)]);
    let jobs: Vec<JobId> = (1..=17).map(|n| case.job(n, batch(2))).collect();
    case.run_for(Span::seconds(2));
    let held = case.held("/default");
    assert_eq!(held.instances, 34);
    let steps = noted(&mut case, |case| {
        let view = case.rm.picture().facts.clusters.get(&ClusterId::new("a"));
        Some(view?.settling)
    });
    // Entries and sums are compared with what is known after every step.
    case.fail_over();
    case.run_for(Span::seconds(3));
    let mut steps = steps.take();
    steps.dedup();
    // It begins while assignments are still being read: some jobs are settled when they become known.
    let several = jobs.len() / SETTLED;
    assert!(steps.len() > several, "{steps:?}");
    assert!(steps.is_sorted(), "{steps:?}");
    let ends = (steps.first(), steps.last());
    assert_eq!(ends, (Some(&Settling::Unknown), Some(&Settling::All)));
    assert_eq!(case.held("/default"), held);
    assert!(jobs.iter().all(|job| case.total_active(*job) == 2));
    // Each has a grant of this leader.
    let facts = &case.rm.picture().facts;
    let granted = |job: &JobId| facts.jobs.get(job).unwrap().grants.values().all(|g| !g.is_new());
    assert!(jobs.iter().all(granted));
}
