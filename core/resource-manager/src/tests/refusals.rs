//! Rows that storage refuses for good: their job is set aside, the others go on, and no leadership ends.

use crate::tests::case::{Case, batch, service};
use echelon_core_model::assignment::PIECE_WEIGHT;
use echelon_core_model::bucket::assignment_partition;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::{Decision, Op, Stamp, Write};
use echelon_core_model::{GroupName, InstanceNumber, JobId, ReasonCode, Span};
use echelon_core_testkit::build::shape;

/// Which rows of an operation are about a job, by place.
fn rows_of(op: &Op, job: JobId) -> Vec<usize> {
    match op {
        Op::Decide(Decision::PutAssignments { put, .. }) => {
            let rows = put.iter().enumerate().filter(|(_, a)| a.job == job);
            rows.map(|(place, _)| place).collect()
        }
        Op::Commit(batch) => {
            let rows = batch.writes.iter().enumerate();
            rows.filter(|(_, w)| matches!(w, Write::Progress(p) if p.job == job))
                .map(|(place, _)| place)
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A case with two jobs of one partition, of which the rows of the first that are chosen are refused.
fn refusing(chosen: fn(&Op) -> bool) -> (Case, JobId, JobId) {
    let mut case = Case::with(&[("a", 8)]);
    let first = case.store_job(1, batch(3));
    let partition = |n: u128| assignment_partition(JobId::new(case.born, n << 64));
    let n = (2..10_000).find(|n| partition(*n) == assignment_partition(first));
    let second = case.store_job(n.unwrap(), batch(3));
    case.refuses = Some(Box::new(move |op| {
        if chosen(op) {
            rows_of(op, first)
        } else {
            Vec::new()
        }
    }));
    case.hint(first);
    case.hint(second);
    case.run_for(Span::seconds(30));
    (case, first, second)
}

#[test]
fn a_refused_assignment_costs_its_job_alone() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        let (mut case, first, second) = refusing(|op| matches!(op, Op::Decide(_)));
        assert_eq!(case.stepped_down, None);
        assert!(case.assignment(first).is_none());
        assert!(
            case.assignment(second).is_some(),
            "what shares its partition goes on"
        );
        assert_eq!(case.state(second), Some(JobState::Running));
        let alarms = case.alarms.iter().filter(|a| a.contains(&first.to_string()));
        assert_eq!(alarms.count(), 1, "{:?}", case.alarms);
        let progress = case.progress(first).unwrap();
        let refused = |w: &&echelon_core_model::job::Waiting| w.reason.code == ReasonCode::RowRefused;
        let told = progress
            .waiting
            .iter()
            .find(refused)
            .expect("it says why it waits");
        assert!(told.reason.to_string().contains("70000"), "{}", told.reason);
        case.want(first, desired);
        case.run_for(Span::seconds(30));
        match desired {
            // Its tombstone is too old to be kept.
            Desired::Deleted => assert_eq!((case.state(first), case.head(first)), (None, None)),
            _ => assert_eq!(case.state(first), Some(JobState::Stopped)),
        }
    }
}

#[test]
fn a_job_that_was_set_aside_goes_on_when_its_row_is_taken() {
    let (mut case, first, _) = refusing(|op| matches!(op, Op::Decide(_)));
    case.refuses = None;
    case.scale(first, 2);
    case.run_for(Span::seconds(30));
    assert_eq!(case.state(first), Some(JobState::Running));
    let progress = case.progress(first).unwrap();
    assert!(
        progress
            .waiting
            .iter()
            .all(|w| w.reason.code != ReasonCode::RowRefused)
    );
}

#[test]
fn a_refused_progress_row_keeps_no_other_from_being_written() {
    let (case, first, second) = refusing(|op| matches!(op, Op::Commit(_)));
    assert_eq!(case.stepped_down, None);
    let stored = |job| case.stored_progress(job).map(|row| row.state);
    assert_eq!((stored(first), stored(second)), (None, Some(JobState::Running)));
    assert!(
        case.alarms.iter().any(|a| a.contains(&first.to_string())),
        "{:?}",
        case.alarms
    );
}

/// As many scattered numbers as may be ended of a job, in two calls: its assignment has several rows, none
/// is refused, and the job is stopped like any other.
#[test]
fn a_job_of_which_two_thousand_scattered_numbers_were_ended_is_stopped() {
    let one = shape(1, 64);
    let mut case = Case::with(&[("a", 20_000)]);
    let groups = [GroupName::DEFAULT, "b", "c"].map(GroupName::new);
    let spec = service(5_000)
        .with_group("b", 5_000, one)
        .with_group("c", 100, one);
    let first = case.job(1, spec);
    let second = case.job(2, batch(1));
    case.run_for(Span::seconds(30));
    for group in &groups[..2] {
        case.respec(first, |spec| {
            let numbers = (0..1_000).map(|n| InstanceNumber(4 * n + 1));
            spec.rules.withdrawn.insert(group.clone(), numbers.collect());
            let mut of = spec.groups.iter_mut();
            of.find(|g| g.name == *group).unwrap().instances -= 1_000;
        });
        case.run_for(Span::seconds(60));
    }
    assert!(case.alarms.is_empty(), "{:?}", case.alarms);
    let assignment = case.assignment(first).unwrap();
    for group in &groups[..2] {
        assert_eq!(assignment.assigned(group).count(), 4_000);
        assert_eq!(assignment.ranges(group).len(), 1_001);
    }
    assert!(assignment.weight() > PIECE_WEIGHT);
    assert!(assignment.pieces(Stamp::default()).len() > 1);
    case.scale(second, 2);
    case.run_for(Span::seconds(30));
    assert_eq!(case.state(second), Some(JobState::Running));
    case.want(first, Desired::Stopped);
    case.run_for(Span::minutes(2));
    assert_eq!(case.state(first), Some(JobState::Stopped));
    assert_eq!(case.stepped_down, None);
}
