//! Jobs that one of their groups drives: their end, and instances that are ended by name, over leaders.

use crate::tests::case::{Case, batch};
use echelon_core_model::job::JobState;
use echelon_core_model::{
    GroupName, InstanceNumber, InstanceRange, JobId, RangeSet, ReasonCode, RunState, Span,
};
use echelon_core_testkit::build::{main_group, shape};

fn numbers(ranges: &[(u32, u32)]) -> RangeSet {
    let each = ranges
        .iter()
        .filter_map(|(first, last)| InstanceRange::new(*first, *last));
    each.collect()
}

/// The numbers that are active, of all groups.
fn active(case: &Case, job: JobId) -> Vec<u32> {
    let mut out: Vec<u32> = case
        .shards
        .values()
        .flat_map(|s| s.running(job))
        .map(|(InstanceNumber(n), _)| n)
        .collect();
    out.sort_unstable();
    out
}

/// Ends instances by name, as a gateway does.
fn end(case: &mut Case, job: JobId, all: &[(u32, u32)], left: u32) {
    let all = numbers(all);
    case.respec(job, |s| {
        s.groups[0].instances = left;
        s.rules.withdrawn.insert(main_group(), all);
    });
    case.run_for(Span::seconds(2));
}

#[test]
fn an_instance_that_is_ended_by_name_goes_and_its_number_is_used_no_more() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(4));
    end(&mut case, job, &[(1, 1)], 3);
    assert_eq!(active(&case, job), [0, 2, 3]);
    case.scale(job, 5);
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, job), [0, 2, 3, 4, 5]);
    case.fail_over();
    end(&mut case, job, &[(1, 1), (4, 4)], 4);
    assert_eq!(active(&case, job), [0, 2, 3, 5]);
    // A lower count takes the highest of those that are left.
    case.scale(job, 2);
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, job), [0, 2]);
}

#[test]
fn who_is_ended_by_name_while_a_leader_changes_is_ended_once() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, batch(6).spread());
    case.shard("a").stubborn = true;
    case.shard("b").stubborn = true;
    end(&mut case, job, &[(0, 1)], 4);
    case.fail_over();
    for name in ["a", "b"] {
        case.shard(name).stubborn = false;
        case.at(name, |s, now| s.work(now));
    }
    case.run_for(Span::seconds(3));
    assert_eq!(active(&case, job), [2, 3, 4, 5]);
}

#[test]
fn a_job_ends_with_its_driver_and_the_rest_is_stopped() {
    for (outcome, state) in [
        (RunState::Succeeded, JobState::Succeeded),
        (RunState::Failed, JobState::Failed),
    ] {
        let mut case = Case::with(&[("a", 8)]);
        let mut spec = batch(3).with_group("driver", 1, shape(1, 64)).build();
        spec.rules.driver = Some(GroupName::new("driver"));
        let job = case.job_of(1, spec);
        assert_eq!(case.total_active(job), 4);
        // Slices go by group: the driver's is the first.
        case.at("a", |s, now| s.finish_of(job, 1, outcome, now));
        case.run_for(Span::seconds(2));
        let progress = case.progress(job).unwrap();
        let told = progress.reason.unwrap();
        assert_eq!((progress.state, told.code), (state, ReasonCode::DriverEnded));
        assert_eq!(case.total_active(job), 0);
    }
}
