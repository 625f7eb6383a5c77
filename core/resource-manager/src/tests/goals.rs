//! From a wish to its end: create, scale, finish, stop, delete, and what a newer wish does to an older one.

use crate::event::Event;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::ReportPart;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::{Op, Query};
use echelon_core_model::{ClusterId, ReasonCode, RunState, Span, Version};

/// The index that stays runs, and one that is to leave has not begun.
#[test]
fn a_smaller_job_keeps_what_runs_of_it() {
    let mut case = Case::with(&[("a", 9), ("b", 9)]);
    let job = case.job(1, service(4).spread());
    // A smaller grant of each takes the second one.
    case.respec(job, |spec| spec.groups[0].max_running = Some(2));
    case.run_for(Span::seconds(2));
    assert_eq!(case.ranges(job), "0-1@a.1 2-3@b.1");
    assert_eq!(case.active(job), [("a", 1), ("b", 1)]);
    let begun = case.shard("a").slices.values().next().unwrap().last_begun;
    case.scale(job, 1);
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 1)]);
    assert_eq!(case.shard("a").slices.values().next().unwrap().last_begun, begun);
}

#[test]
fn a_job_is_assigned_stored_ordered_and_ended() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.trace.clear();
    let job = case.job(1, batch(8).spread().max_running(6));
    assert_eq!(case.active(job), [("a", 3), ("b", 3)]);
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.at("b", |s, now| s.finish(9, RunState::Succeeded, now));
    case.at("b", |s, now| s.finish(9, RunState::Succeeded, now));
    // The shards have archived it before it is filed here, and are asked once more.
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
    insta::assert_snapshot!(case.trace.join("\n"), @r"
    store assignment 0-2@a.1 3-5@b.1 6-7@a.1
    a: Running [0-2.1, 6-7.1] grants [3]
    b: Running [3-5.1] grants [3]
    progress waiting
    a: Running [0-2.1, 6-7.1] grants [2]
    progress running
    a: Running [0-2.1, 6-7.1] grants [0]
    progress running
    b: Running [3-5.1] grants [0]
    progress running
    progress succeeded
    a: archive
    b: archive
    a: archive
    b: archive
    keep assignment
    remove assignment
    ");
}

#[test]
fn a_lost_hint_is_found_by_reading_again() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.store_job(1, batch(2));
    case.run_for(Span::seconds(61));
    assert_eq!(case.total_active(job), 2);
}

#[test]
fn a_failed_instance_fails_the_job() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(3));
    case.at("a", |s, now| s.finish(1, RunState::Failed, now));
    assert_eq!(case.state(job), Some(JobState::Running));
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    let progress = case.progress(job).unwrap();
    assert_eq!(
        (progress.state, progress.ended_version),
        (JobState::Failed, Some(Version(1)))
    );
    assert_eq!(progress.reason.unwrap().code, ReasonCode::RetriesExhausted);
}

#[test]
fn a_batch_job_that_is_stopped_has_not_failed() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, batch(6));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Stopped));
    let because = case.progress(job).unwrap().reason.map(|r| r.code);
    assert_eq!(because, Some(ReasonCode::StopRequested));
}

#[test]
fn stop_ends_a_job_once_nothing_of_it_runs() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Stopping));
    assert_eq!(
        case.progress(job)
            .unwrap()
            .awaited
            .iter()
            .map(|c| c.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
    case.shard("b").stubborn = false;
    case.at("b", |s, now| s.work(now));
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Stopped));
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn delete_waits_for_every_holder_and_then_leaves_nothing() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let job = case.job(1, service(4).spread());
    case.cut("b");
    case.shard("b").cores = 0;
    case.trace.clear();
    case.want(job, Desired::Deleted);
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(job), Some(JobState::Stopping));
    assert!(case.head(job).is_some());
    case.shard("b").cores = 4;
    case.run_for(Span::seconds(10));
    assert_eq!(
        (case.head(job), case.progress(job), case.assignment(job)),
        (None, None, None)
    );
    let last: Vec<&str> = case
        .trace
        .iter()
        .rev()
        .take(6)
        .rev()
        .map(String::as_str)
        .collect();
    let order = [
        "progress deleted",
        "remove assignment",
        "a: archive",
        "b: archive",
        "remove head",
        "remove progress",
    ];
    assert_eq!(last, order);
    assert_eq!(case.total_active(job), 0);
    assert!(case.rm.picture().facts.jobs.is_empty());
}

#[test]
fn a_cluster_that_left_is_not_awaited() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let job = case.job(1, service(4).spread());
    case.cut("b");
    case.shard("b").cores = 0;
    case.want(job, Desired::Deleted);
    case.desire("b", DesiredState::Removed);
    case.run_for(Span::seconds(10));
    assert_eq!((case.head(job), case.assignment(job)), (None, None));
}

#[test]
fn an_ended_job_can_be_deleted() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, batch(2));
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
    case.want(job, Desired::Deleted);
    case.run_for(Span::seconds(5));
    assert_eq!(
        (case.head(job), case.progress(job), case.assignment(job)),
        (None, None, None)
    );
}

#[test]
fn a_wish_that_came_before_the_end_is_seen() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(2));
    // The hint of this one is lost, and its bucket is not read again before the last instance ends.
    case.change_head(job, |h| h.goal.desired = Desired::Stopped);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    let progress = case.progress(job).unwrap();
    assert_eq!(
        progress.ended_version.unwrap_or(Version(2)),
        Version(2),
        "{progress:?}"
    );
    case.run_for(Span::seconds(2));
    let progress = case.progress(job).unwrap();
    assert_eq!(
        (progress.state, progress.ended_version),
        (JobState::Succeeded, Some(Version(2)))
    );
}

#[test]
fn an_ended_job_takes_no_wish_but_delete() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(1));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    case.change_head(job, |h| h.goal.restarts += 1);
    case.hint(job);
    case.run_for(Span::seconds(2));
    let progress = case.progress(job).unwrap();
    assert_eq!(
        (progress.state, progress.ended_version),
        (JobState::Succeeded, Some(Version(1)))
    );
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn scaling_down_takes_the_highest_and_up_the_lowest_at_the_next_generation() {
    let mut case = Case::with(&[("a", 20)]);
    let job = case.job(1, service(8));
    case.scale(job, 5);
    assert_eq!(case.ranges(job), "0-4@a.1");
    case.scale(job, 7);
    assert_eq!(case.ranges(job), "0-4@a.1 5-6@a.2");
    case.scale(job, 9);
    assert_eq!(case.ranges(job), "0-4@a.1 5-7@a.2 8@a.1");
    case.scale(job, 0);
    assert_eq!((case.ranges(job).as_str(), case.total_active(job)), ("", 0));
    assert_eq!(case.state(job), Some(JobState::Waiting));
    case.scale(job, 2);
    assert_eq!(case.ranges(job), "0-1@a.2");
    assert_eq!(case.total_active(job), 2);
}

#[test]
fn no_grant_gets_smaller_before_the_marks_that_say_which_numbers_go() {
    let mut case = Case::with(&[("a", 20), ("b", 20)]);
    let jobs = [
        case.job(1, service(8).spread()),
        case.job(2, service(8).only(&["a"])),
    ];
    for (job, left, grants) in [(jobs[0], 4, "grants [2]"), (jobs[1], 3, "grants [3]")] {
        case.trace.clear();
        case.scale(job, left);
        let first = case.trace.iter().find(|t| t.contains(grants)).unwrap();
        assert!(first.contains("leaving"), "{:#?}", case.trace);
        assert_eq!(case.total_active(job), left as usize);
    }
}

#[test]
fn a_spread_service_shrinks_where_it_has_most() {
    let mut case = Case::with(&[("a", 20), ("b", 20)]);
    let job = case.job(1, service(6).spread());
    case.scale(job, 4);
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
}

#[test]
fn one_more_instance_takes_none_from_any_cluster() {
    let mut case = Case::with(&[("a", 9), ("b", 5), ("c", 3)]);
    let job = case.job(1, service(1).spread());
    let mut before = vec![0; 3];
    for n in 2..=17 {
        case.scale(job, n);
        let after: Vec<usize> = case.shards.values().map(|s| s.running(job).len()).collect();
        assert!(
            before.iter().zip(&after).all(|(a, b)| a <= b),
            "{before:?} -> {after:?}"
        );
        before = after;
    }
    assert_eq!(before, [9, 5, 3]);
}

#[test]
fn a_newer_wish_supersedes_at_any_point() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(6).spread());
    case.shard("a").stubborn = true;
    case.scale(job, 2);
    assert!(
        case.ranges(job).contains("1-2@a.1>nowhere"),
        "{}",
        case.ranges(job)
    );
    case.scale(job, 6);
    assert_eq!(
        case.ranges(job),
        "0-2@a.1 3@b.1 4-5@b.2",
        "the mark is withdrawn before it took anything at a"
    );
    assert_eq!(case.total_active(job), 6);
    case.scale(job, 1);
    case.want(job, Desired::Stopped);
    case.want(job, Desired::Running);
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Running), "while the stop goes on");
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 1)]);
    case.want(job, Desired::Deleted);
    case.run_for(Span::seconds(5));
    assert_eq!(
        (case.head(job), case.assignment(job), case.total_active(job)),
        (None, None, 0)
    );
}

/// Does all that storage was asked for but for reads of specs, which stay on their way.
fn answer_all_but_specs(case: &mut Case) {
    for _ in 0..8 {
        let asked = case.stalled.replace(Vec::new()).unwrap_or_default();
        for (id, op) in asked {
            if matches!(op, Op::Read(Query::Spec(..), _)) {
                case.stalled.as_mut().unwrap().push((id, op));
            } else {
                case.remember(&op);
                let result = case.store.perform(op);
                case.events.push_back(Event::Storage(id, result));
            }
        }
        case.settle();
    }
}

/// Lets time pass while no spec is read.
fn run_without_specs(case: &mut Case, span: Span) {
    let end = case.now.plus(span);
    case.stalled.get_or_insert_default();
    while case.now < end {
        answer_all_but_specs(case);
        case.run_for(Span::millis(50));
    }
}

/// Specs are read again, those first that were asked for meanwhile.
fn read_specs(case: &mut Case) {
    for (id, op) in case.stalled.take().unwrap() {
        case.remember(&op);
        let result = case.store.perform(op);
        case.events.push_back(Event::Storage(id, result));
    }
    case.settle();
}

#[test]
fn a_stop_is_obeyed_at_once_while_the_spec_of_an_older_wish_is_being_read() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    case.stalled = Some(Vec::new());
    case.respec_silently(job, |s| s.groups[0].instances = 6);
    run_without_specs(&mut case, Span::millis(400));
    case.change_head(job, |h| h.goal.desired = Desired::Stopped);
    case.events.push_back(Event::Hint(job));
    run_without_specs(&mut case, Span::millis(400));
    assert_eq!(case.total_active(job), 0);
}

/// A row was written just now, and the end does not wait for the next one.
#[test]
fn the_end_of_a_job_is_written_at_once() {
    let mut case = Case::with(&[("a", 8)]);
    case.rm.config.progress_every = Span::minutes(1);
    let job = case.job(1, batch(1));
    case.run_for(Span::millis(200));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::millis(200));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
}

#[test]
fn a_batch_job_does_not_end_while_the_spec_of_a_newer_wish_is_being_read() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(2));
    case.run_for(Span::seconds(5));
    case.stalled = Some(Vec::new());
    case.respec_silently(job, |s| s.groups[0].instances = 4);
    case.events.push_back(Event::Hint(job));
    run_without_specs(&mut case, Span::millis(400));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    run_without_specs(&mut case, Span::seconds(4));
    assert_eq!(case.state(job), Some(JobState::Running));
    read_specs(&mut case);
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(job), 2);
}

#[test]
fn a_stopped_job_does_not_end_while_the_spec_of_a_newer_wish_to_run_is_being_read() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(2));
    case.run_for(Span::seconds(5));
    // The order to stop arrives only after the newer goal is known.
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.want(job, Desired::Stopped);
    assert_eq!(case.state(job), Some(JobState::Stopping));
    case.stalled = Some(Vec::new());
    case.respec_silently(job, |s| s.groups[0].instances = 3);
    case.change_head(job, |h| h.goal.desired = Desired::Running);
    case.events.push_back(Event::Hint(job));
    run_without_specs(&mut case, Span::millis(400));
    case.arrive();
    assert_eq!(case.total_active(job), 0);
    run_without_specs(&mut case, Span::seconds(4));
    assert_eq!(case.state(job), Some(JobState::Stopping));
    read_specs(&mut case);
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(job), Some(JobState::Running));
}

#[test]
fn a_batch_job_is_not_done_while_something_of_it_lives() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(2));
    // All of it has succeeded, and an older run of one instance is still being stopped.
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.at("a", |s, now| {
        let mut told = s.finish(2, RunState::Succeeded, now);
        for report in &mut told {
            if let ReportPart::Slices(slices) = &mut report.part {
                slices.iter_mut().for_each(|slice| slice.live = 1);
            }
        }
        told
    });
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Running));
    case.arrive();
    case.at("a", |s, now| s.full(now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
}

#[test]
fn an_unknown_pool_waits_until_it_is_there() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(3).pool("/nowhere"));
    case.run_for(Span::seconds(1));
    assert_eq!(case.waiting(job), [(ReasonCode::PoolNotFound, 3)]);
    case.set_pool("/nowhere", 9);
    case.run_for(Span::seconds(6));
    assert_eq!((case.total_active(job), case.waiting(job)), (3, vec![]));
}

#[test]
fn a_void_head_never_runs() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.store_job(1, batch(3));
    case.change_head(job, |h| h.void = true);
    case.hint(job);
    assert_eq!((case.assignment(job), case.progress(job)), (None, None));
    assert!(case.rm.picture().facts.jobs.is_empty(), "no cycle looks at it");
}

#[test]
fn what_happened_to_a_job_is_told_as_events() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(1));
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(
        case.events_of(job),
        [ReasonCode::Accepted, ReasonCode::Running, ReasonCode::Succeeded]
    );
}
