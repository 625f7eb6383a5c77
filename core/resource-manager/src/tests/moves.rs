//! The two-step move: mark, release, next generation; marks withdrawn in time and too late; spill-over and draining.

use crate::event::Event;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::{OpId, OpResult};
use echelon_core_model::{ClusterId, JobId, ReasonCode, RunState, Span};
use echelon_core_testkit::build::main_group;

#[test]
fn what_waits_is_bound_nowhere_and_goes_where_capacity_comes() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let filler = case.job(9, service(8).spread());
    assert_eq!(case.active(filler), [("a", 4), ("b", 4)]);
    case.trace.clear();
    let job = case.job(1, batch(3));
    case.run_for(Span::seconds(20));
    assert_eq!(case.waiting(job), [(ReasonCode::NoClusterCapacity, 3)]);
    assert_eq!(case.ranges(job), "");
    let writes = case.trace.iter().filter(|t| t.starts_with("store assignment"));
    assert_eq!(writes.count(), 0);
    case.shard("b").cores += 2;
    case.run_for(Span::seconds(5));
    assert_eq!(
        (case.ranges(job).as_str(), case.active(job)),
        ("0-2@b.1", vec![("b", 2)])
    );
}

#[test]
fn what_a_shard_cannot_place_goes_elsewhere_and_not_back_for_a_rule() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, batch(2));
    let home = if case.ranges(job).contains("@a") { "a" } else { "b" };
    let other = if home == "a" { "b" } else { "a" };
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.shard(home).unplaceable = Some(ReasonCode::HostConstraint);
    let job2 = case.job(1, batch(2));
    assert_eq!(job, job2);
    case.run_for(Span::seconds(5));
    assert_eq!(case.waiting(job), [(ReasonCode::HostConstraint, 2)]);
    case.run_for(Span::seconds(20));
    assert_eq!(case.active(job), [(other, 2)]);
    case.at(other, |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
}

#[test]
fn a_mark_is_stored_before_it_is_ordered_and_released_before_it_is_assigned() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(3));
    assert_eq!(
        case.ranges(job),
        "0-1@a.1 2@b.1 3@b.1>a",
        "one at a time, and it waits for b"
    );
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
    case.shard("b").stubborn = false;
    case.at("b", |s, now| s.work(now));
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job), "0-1@a.1 2-3@a.2");
    assert_eq!(case.active(job), [("a", 4)]);
}

#[test]
fn a_mark_withdrawn_in_time_leaves_all_as_it_was() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    case.shard("a").stubborn = true;
    case.scale(job, 2);
    assert_eq!(case.ranges(job), "0-1@a.1 2-3@a.1>nowhere");
    case.scale(job, 4);
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    assert_eq!(
        (case.ranges(job).as_str(), case.total_active(job)),
        ("0-3@a.1", 4)
    );
}

#[test]
fn a_mark_withdrawn_too_late_gives_the_next_generation_to_the_same_cluster() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    case.shard("a").stubborn = true;
    case.scale(job, 2);
    // The shard releases, its word is on its way; the withdrawal is decided meanwhile.
    let now = case.now;
    case.shard("a").stubborn = false;
    let late = case.shard("a").work(now);
    case.scale(job, 4);
    case.bring(&echelon_core_model::ClusterId::new("a"), late);
    case.settle();
    case.run_for(Span::seconds(8));
    assert_eq!(case.ranges(job), "0-1@a.1 2-3@a.2");
    assert_eq!(case.total_active(job), 4);
    let former = case.assignment(job).unwrap().groups.values().next().unwrap()[1]
        .former
        .clone();
    assert_eq!(
        former.map(|(c, g)| (c.to_string(), g.0)),
        Some(("a".to_owned(), 1))
    );
}

#[test]
fn the_goal_wins_over_a_move() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(2));
    assert!(case.ranges(job).contains("3@b.1>a"));
    case.scale(job, 3);
    assert!(case.ranges(job).contains(">nowhere"), "{}", case.ranges(job));
    case.want(job, Desired::Stopped);
    case.shard("b").stubborn = false;
    case.at("b", |s, now| s.work(now));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(job), 0);
    assert_eq!(case.state(job), Some(JobState::Stopped));
}

#[test]
fn what_a_move_releases_after_its_job_was_stopped_goes_nowhere() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(2));
    assert!(case.ranges(job).contains("3@b.1>a"), "{}", case.ranges(job));
    // The order to stop is still on its way when the shard releases what was to move.
    case.held = Some((ClusterId::new("b"), Vec::new()));
    case.want(job, Desired::Stopped);
    case.shard("b").stubborn = false;
    case.at("b", |s, now| s.work(now));
    case.run_for(Span::seconds(1));
    assert!(!case.ranges(job).contains("@a.2"), "{}", case.ranges(job));
    assert_eq!(case.assignment(job).unwrap().assigned(&main_group()).count(), 3);
    case.arrive();
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(job), Some(JobState::Stopped));
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn what_is_released_for_good_is_never_given_out_at_its_generation_again() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(6).spread());
    for (cluster, desired_state) in [
        ("a", DesiredState::Draining),
        ("a", DesiredState::Active),
        ("b", DesiredState::Draining),
        ("b", DesiredState::Active),
    ] {
        case.desire(cluster, desired_state);
        case.run_for(Span::seconds(12));
        case.scale(job, 2);
        case.run_for(Span::seconds(3));
        case.scale(job, 6);
        case.run_for(Span::seconds(3));
    }
    assert_eq!(case.total_active(job), 6);
    for shard in case.shards.values() {
        for ((_, _, _), slice) in &shard.slices {
            assert!(slice.active.intersect(&slice.released).is_empty());
        }
    }
}

#[test]
fn a_cordoned_cluster_gets_nothing_new_and_keeps_what_runs() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let old = case.job(1, service(4).spread());
    case.desire("a", DesiredState::Cordoned);
    let new = case.job(2, service(4).spread());
    assert_eq!(case.active(old), [("a", 2), ("b", 2)]);
    assert_eq!(case.active(new), [("b", 4)]);
    case.desire("b", DesiredState::Cordoned);
    let none = case.job(3, service(1));
    case.run_for(Span::seconds(1));
    assert_eq!(case.waiting(none), [(ReasonCode::ClusterCordoned, 1)]);
}

#[test]
fn a_drained_cluster_is_empty_in_the_end() {
    let mut case = Case::with(&[("a", 20), ("b", 20)]);
    let jobs = [
        case.job(1, service(6).spread()),
        case.job(2, batch(6).spread().max_running(4)),
    ];
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(60));
    assert_eq!(case.active(jobs[0]), [("b", 6)]);
    assert_eq!(case.active(jobs[1]), [("b", 4)]);
    case.desire("a", DesiredState::Active);
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(jobs[0]), [("b", 6)], "running work stays where it is");
}

/// Four services of one instance each run at `a`, which is to be empty. `b` has come later.
fn four_leave(cores: u64) -> (Case, Vec<JobId>) {
    let mut case = Case::with(&[("a", 4)]);
    let jobs = (1..5).map(|n| case.job(n, service(1))).collect();
    case = case.cluster("b", cores);
    case.run_for(Span::seconds(5));
    case.shard("a").stubborn = true;
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(5));
    (case, jobs)
}

fn leaving(case: &Case, jobs: &[JobId]) -> Vec<JobId> {
    let leaves = |job: &&JobId| case.ranges(**job).contains(">b");
    jobs.iter().filter(leaves).copied().collect()
}

#[test]
fn no_more_leaves_than_fits_beside_what_is_under_way() {
    let (mut case, jobs) = four_leave(2);
    assert_eq!(
        leaving(&case, &jobs).len(),
        2,
        "the others would stop for nothing"
    );
    // The same to a new leader, which has only the marks.
    case.fail_over();
    case.run_for(Span::seconds(5));
    assert_eq!(leaving(&case, &jobs).len(), 2);
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(5));
    let active = jobs.iter().map(|job| case.total_active(*job));
    assert_eq!(active.sum::<usize>(), 4);
}

#[test]
fn nothing_else_begins_in_the_capacity_of_what_is_under_way() {
    let (mut case, jobs) = four_leave(2);
    let leaving = leaving(&case, &jobs);
    let first = case.job(9, service(1).priority(9));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(first), 0);
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(5));
    assert_eq!(case.total_active(first), 0);
    for job in leaving {
        assert_eq!(case.active(job), [("b", 1)]);
    }
}

#[test]
fn a_cluster_more_moves_nothing() {
    let mut case = Case::with(&[("a", 20)]);
    let jobs: Vec<_> = (1..9).map(|n| case.job(n, service(2))).collect();
    let before: Vec<_> = jobs.iter().map(|j| case.assignment(*j)).collect();
    case = case.cluster("b", 20);
    case.run_for(Span::seconds(40));
    assert_eq!(
        jobs.iter().map(|j| case.assignment(*j)).collect::<Vec<_>>(),
        before
    );
    let new: Vec<_> = (20..36).map(|n| case.job(n, service(1))).collect();
    assert!(new.iter().any(|j| case.ranges(*j).contains("@b")));
}

#[test]
fn one_write_a_partition_at_a_time() {
    let mut case = Case::with(&[("a", 40)]);
    // The first job takes the two cycles that may follow a rest, so that the second one's assignment waits for the next.
    let [_, job] = [1, 2].map(|n| {
        let job = case.store_job(n, service(4));
        case.events.push_back(Event::Hint(job));
        case.settle();
        job
    });
    let puts = |ops: &[(OpId, echelon_core_model::store::Op)]| {
        ops.iter()
            .filter(|(_, op)| {
                matches!(
                    op,
                    echelon_core_model::store::Op::Decide(
                        echelon_core_model::store::Decision::PutAssignments { .. }
                    )
                )
            })
            .count()
    };
    case.stalled = Some(Vec::new());
    case.now = case.now.plus(Span::millis(60));
    case.step(Event::Wake);
    let kept = case.stalled.take().unwrap();
    assert_eq!(puts(&kept), 1);
    // A newer wish while the write is under way: it is decided, and waits.
    case.scale(job, 6);
    assert_eq!(case.assignment(job), None);
    for (id, op) in kept {
        case.remember(&op);
        let result = case.store.perform(op);
        assert!(!matches!(result, OpResult::Failed(_)));
        case.events.push_back(Event::Storage(id, result));
    }
    case.trace.push("stored late".to_owned());
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(job), 6);
}
