//! Jobs that have ended: they leave memory, and what is asked of them later is answered all the same.

use crate::checks::footprint::Footprint;
use crate::tests::case::{Case, batch, service};
use crate::tests::shard::Slice;
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::rules::Condition;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{Generation, JobId, RunState, Span};
use echelon_core_testkit::build::main_group;

/// Some jobs at once begin, run and end.
fn play(case: &mut Case, jobs: std::ops::Range<u128>) -> Vec<JobId> {
    let ids: Vec<JobId> = jobs.map(|n| case.store_job(n, batch(1))).collect();
    for id in &ids {
        case.events.push_back(crate::Event::Hint(*id));
    }
    case.settle();
    case.run_for(Span::seconds(2));
    case.at("a", |s, now| s.finish(u64::MAX, RunState::Succeeded, now));
    case.run_for(Span::seconds(4));
    ids
}

/// All that is held but what is kept of each ended job.
fn held(case: &Case) -> Footprint {
    let mut all = case.rm.footprint();
    all.remove("ended");
    all
}

#[test]
fn thousands_of_jobs_that_have_ended_are_no_load_on_a_leader() {
    let mut case = Case::with(&[("a", 200)]);
    case.born = case.now;
    let fresh = held(&case);
    let mut ids = Vec::new();
    for batch in 0..15 {
        ids.extend(play(&mut case, 1 + batch * 200..201 + batch * 200));
    }
    assert!(ids.iter().all(|id| case.state(*id) == Some(JobState::Succeeded)));
    assert_eq!(case.rm.footprint()["ended"], 3_000);
    assert!(size_of::<crate::facts::ended::EndedJob>() <= 32);
    // A spec, and what the heads of its jobs had in common.
    let slack = |of: &str| if of == "specs" { 2 } else { 0 };
    for (of, n) in held(&case) {
        assert!(
            n <= fresh[of] + slack(of),
            "{n} {of}, {} of a fresh leader",
            fresh[of]
        );
    }
    // Every bucket is read again, and nothing of it is new.
    case.run_for(Span::seconds(90));
    assert!(case.rm.picture().facts.jobs.is_empty());
    case.fail_over();
    case.run_for(Span::seconds(5));
    for (of, n) in held(&case) {
        assert!(n <= fresh[of] + slack(of), "{n} {of} under a new leader");
    }
}

#[test]
fn a_job_that_has_ended_is_deleted_when_its_user_wants_it_whoever_leads() {
    for changes in [false, true] {
        let mut case = Case::with(&[("a", 8), ("b", 8)]);
        case.born = case.now;
        let job = case.job(1, service(4).spread());
        case.want(job, Desired::Stopped);
        case.run_for(Span::seconds(5));
        assert_eq!(case.state(job), Some(JobState::Stopped));
        assert!(case.rm.picture().facts.jobs.is_empty() && case.assignment(job).is_some());
        if changes {
            case.fail_over();
        }
        case.want(job, Desired::Deleted);
        case.run_for(Span::seconds(5));
        assert_eq!(case.state(job), Some(JobState::Deleted), "{changes}");
        assert!(case.assignment(job).is_none());
        assert!(case.rm.picture().facts.jobs.is_empty() && case.rm.picture().facts.ended.is_empty());
    }
}

#[test]
fn what_is_deleted_after_its_end_waits_for_a_cluster_that_is_away() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let job = play(&mut case, 1..2)[0];
    case.cut("a");
    let cores = std::mem::take(&mut case.shard("a").cores);
    case.want(job, Desired::Deleted);
    case.run_for(Span::minutes(5));
    assert_ne!(case.state(job), Some(JobState::Deleted));
    assert_eq!(
        case.rm.picture().facts.jobs.len(),
        1,
        "it is followed until it is gone"
    );
    case.shard("a").cores = cores;
    case.reopen("a");
    case.run_for(Span::seconds(30));
    assert_eq!(case.state(job), Some(JobState::Deleted));
}

#[test]
fn a_wish_that_comes_after_the_end_changes_nothing() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let job = play(&mut case, 1..2)[0];
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(90));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
    assert!(case.rm.picture().facts.jobs.is_empty());
    case.want(job, Desired::Deleted);
    case.run_for(Span::seconds(5));
    assert_eq!(case.state(job), Some(JobState::Deleted));
}

#[test]
fn a_job_may_wait_for_one_that_has_left_memory() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let (good, bad) = (case.job(1, batch(1)), case.job(2, batch(1)));
    case.at("a", |s, now| s.finish_of(good, 1, RunState::Succeeded, now));
    case.at("a", |s, now| s.finish_of(bad, 1, RunState::Failed, now));
    case.run_for(Span::seconds(3));
    assert!(case.rm.picture().facts.jobs.is_empty());
    let after = |of, condition| batch(1).after(of, condition);
    let met = case.job(3, after(good, Condition::Succeeded));
    let begun = case.job(4, after(bad, Condition::Started));
    let vain = case.job(5, after(bad, Condition::Succeeded));
    case.run_for(Span::seconds(3));
    assert_eq!(case.state(met), Some(JobState::Running));
    assert_eq!(case.state(begun), Some(JobState::Running));
    assert_eq!(case.state(vain), Some(JobState::Failed));
}

#[test]
fn a_shard_that_still_has_an_ended_job_may_archive_it() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let job = play(&mut case, 1..2)[0];
    // The order was lost, and the shard has another leader.
    case.shard("a").archived.clear();
    case.cut("a");
    let key = (job, main_group(), Generation(1));
    case.shard("a").slices.insert(key, Slice::default());
    case.run_for(Span::seconds(10));
    assert!(case.shard("a").archived.contains(&job));
    assert_eq!(held(&case)["reports"], 0);
    assert_eq!(case.state(job), Some(JobState::Succeeded));
}

#[test]
fn a_record_that_is_kept_for_a_time_goes_after_it_although_its_job_has_left_memory() {
    for changes in [false, true] {
        let mut case = Case::with(&[("a", 8)]);
        case.born = case.now;
        let job = case.job(1, batch(1).keep(Span::minutes(2)));
        case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
        case.run_for(Span::seconds(60));
        assert!(case.rm.picture().facts.jobs.is_empty());
        if changes {
            // The shard has forgotten the job, too.
            case.shard("a").archived.clear();
            case.fail_over();
        }
        assert_eq!(case.state(job), Some(JobState::Succeeded));
        case.run_for(Span::seconds(65));
        assert_eq!(case.state(job), Some(JobState::Deleted), "{changes}");
        assert!(case.assignment(job).is_none());
        assert!(case.rm.picture().facts.ended.is_empty());
    }
}

/// Whether a new leader would read the assignment of a job.
fn is_read(case: &Case, job: JobId) -> bool {
    let query = Query::Assignments(assignment_partition(job));
    let Answer::Assignments(_, all) = case.store.read(&query) else {
        panic!("no assignments");
    };
    all.iter().any(|a| a.job == job)
}

#[test]
fn an_assignment_leaves_what_leaders_read_when_all_of_its_clusters_have_archived_it() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.born = case.now;
    let job = case.job(1, service(4).spread());
    case.run_for(Span::seconds(2));
    let before = case.assignment(job);
    case.want(job, Desired::Stopped);
    case.run_for(Span::millis(900));
    case.cut("b");
    case.shard("b").archived.clear();
    let cores = std::mem::take(&mut case.shard("b").cores);
    case.run_for(Span::minutes(1));
    case.shard("b").cores = cores;
    case.reopen("b");
    case.run_for(Span::seconds(20));
    assert_eq!(case.state(job), Some(JobState::Stopped));
    assert!(!is_read(&case, job));
    assert_eq!(held(&case)["filing"], 0);
    let after = case.assignment(job);
    assert!(before.is_some() && before == after, "{before:?} {after:?}");
}

#[test]
fn while_a_holder_is_away_an_assignment_stays_where_leaders_read_it() {
    for changes in [false, true] {
        let mut case = Case::with(&[("a", 8)]);
        case.born = case.now;
        let job = case.job(1, batch(1));
        case.shard("a").tells_archived = false;
        case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
        case.run_for(Span::minutes(1));
        if changes {
            case.fail_over();
            case.run_for(Span::seconds(20));
        }
        assert_eq!(case.state(job), Some(JobState::Succeeded));
        assert!(is_read(&case, job));
        assert_eq!(held(&case)["filing"], 1);
        // The shard is asked again.
        case.shard("a").tells_archived = true;
        case.run_for(Span::seconds(20));
        assert!(!is_read(&case, job) && case.assignment(job).is_some());
        assert_eq!(held(&case)["filing"], 0);
    }
}

#[test]
fn whenever_the_leader_changes_a_job_that_ended_and_is_deleted_leaves_no_row() {
    for at in 0..40 {
        let mut case = Case::with(&[("a", 8)]);
        case.born = case.now;
        let job = case.job(1, batch(1));
        case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
        let moment = Span::millis(100 * at);
        case.run_for(moment);
        if at % 2 == 0 {
            case.fail_over();
        }
        case.want(job, Desired::Deleted);
        case.run_for(Span::millis(50 * (at % 7)));
        case.fail_over();
        case.run_for(Span::seconds(10));
        assert_eq!(case.state(job), Some(JobState::Deleted), "{at}");
        assert!(case.assignment(job).is_none() && !is_read(&case, job), "{at}");
        assert_eq!(held(&case)["filing"], 0);
    }
}
