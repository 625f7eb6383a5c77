//! After a resume: nothing is assigned before every cluster has told what it found, and what was found goes first.

use crate::tests::case::{Case, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::store::{Decision, Leadership, Op, Role};
use echelon_core_model::{Epoch, Generation, InstanceNumber, JobId, RangeSet, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, main_group};

/// A storage that was resumed at epoch 5; nobody leads yet.
fn resumed(clusters: &[(&str, u64)]) -> Case {
    let mut case = Case::new().pool("/default", 1_000);
    for (name, cores) in clusters {
        case = case.cluster(name, *cores);
    }
    resume(&mut case, Role::ResourceManager, 5);
    case
}

fn resume(case: &mut Case, role: Role, epoch: u64) {
    case.store.perform(Op::Decide(Decision::TakeEpoch {
        role,
        next: Leadership {
            resumed: Epoch(epoch),
            ..Leadership::taken(Epoch(epoch), "resume", 1)
        },
        expected: Epoch(0),
    }));
}

fn numbers(of: &[u32]) -> RangeSet {
    of.iter().map(|n| InstanceNumber(*n)).collect()
}

/// These numbers of a job run at a cluster, which finds them.
fn runs(case: &mut Case, name: &str, job: JobId, generation: u32, of: &[u32]) {
    let found = case.shard(name).found.get_or_insert_default();
    found.insert((job, main_group(), Generation(generation)), numbers(of));
}

fn tells(case: &mut Case, name: &str) {
    case.at(name, |shard, _| shard.found_told());
    case.run_for(Span::seconds(3));
}

fn awaited(case: &Case, job: JobId) -> Vec<String> {
    let waiting = case.progress(job).map(|p| p.waiting).unwrap_or_default();
    let of = waiting
        .iter()
        .filter(|w| w.reason.code == ReasonCode::AwaitingClusters);
    of.map(|w| w.reason.detail.as_deref().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn nothing_is_assigned_before_every_cluster_has_told() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.shard("b").found = None;
    let job = case.store_job(1, service(2));
    case.elect();
    case.run_for(Span::seconds(60));
    assert_eq!((case.ranges(job).as_str(), case.total_active(job)), ("", 0));
    assert_eq!(case.waiting(job), [(ReasonCode::AwaitingClusters, 2)]);
    assert_eq!(awaited(&case, job), ["b"]);
    runs(&mut case, "b", job, 1, &[0]);
    tells(&mut case, "b");
    assert!(case.ranges(job).starts_with("0@b.1"), "{}", case.ranges(job));
    assert_eq!(case.total_active(job), 2);
    assert_eq!(case.waiting(job), []);
}

#[test]
fn the_next_leader_waits_no_more_once_all_have_told() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.elect();
    case.run_for(Span::seconds(20));
    case.cut("b");
    case.shard("b").cores = 0;
    case.fail_over();
    let job = case.job(1, service(2));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 2)]);
}

#[test]
fn a_next_leader_waits_again_while_one_has_not_told() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.shard("b").found = None;
    let job = case.store_job(1, service(2));
    case.elect();
    case.run_for(Span::seconds(20));
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert_eq!(awaited(&case, job), ["b"]);
}

#[test]
fn a_leader_from_before_the_resume_does_not_count() {
    let mut case = resumed(&[("a", 8)]);
    resume(&mut case, Role::Shard(echelon_core_model::ClusterId::new("a")), 3);
    let job = case.store_job(1, service(1));
    case.elect();
    case.run_for(Span::seconds(20));
    assert_eq!(awaited(&case, job), ["a"]);
    case.cut("a");
    case.shard("a").epoch = Epoch(4);
    case.reopen("a");
    case.run_for(Span::seconds(3));
    assert_eq!(case.ranges(job), "0@a.1");
}

#[test]
fn a_cluster_that_is_away_is_not_awaited_once_it_is_cordoned() {
    for desired_state in [
        DesiredState::Cordoned,
        DesiredState::Draining,
        DesiredState::Removed,
    ] {
        let mut case = resumed(&[("a", 8), ("b", 8)]);
        case.shard("b").cores = 0;
        let job = case.store_job(1, service(2));
        case.elect();
        case.run_for(Span::seconds(60));
        assert_eq!(awaited(&case, job), ["b"]);
        case.desire("b", desired_state);
        case.run_for(Span::seconds(20));
        assert_eq!(case.active(job), [("a", 2)], "{desired_state:?}");
    }
}

#[test]
fn a_cluster_that_is_cordoned_and_there_is_awaited() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.shard("b").found = None;
    case.desire("b", DesiredState::Cordoned);
    let job = case.store_job(1, service(2));
    case.elect();
    case.run_for(Span::seconds(60));
    assert_eq!(awaited(&case, job), ["b"]);
    runs(&mut case, "b", job, 1, &[0, 1]);
    tells(&mut case, "b");
    assert_eq!(case.ranges(job), "0-1@b.1", "what runs there stays there");
}

/// A row of the table of the module.
struct Row {
    name: &'static str,
    /// Whether the job was assigned before, to `a`.
    assigned: bool,
    found: &'static [(&'static str, u32, &'static [u32])],
    expected: &'static str,
}

#[test]
fn each_case_of_the_table() {
    let rows = [
        Row {
            name: "assigned there already",
            assigned: true,
            found: &[("a", 1, &[0])],
            expected: "0-2@a.1",
        },
        Row {
            name: "assigned elsewhere at an older generation",
            assigned: true,
            found: &[("b", 2, &[1])],
            expected: "0@a.1 1@b.2 2@a.1",
        },
        Row {
            name: "assigned there at an older generation",
            assigned: true,
            found: &[("a", 3, &[1])],
            expected: "0@a.1 1@a.3 2@a.1",
        },
        Row {
            name: "assigned elsewhere at the same generation",
            assigned: true,
            found: &[("b", 1, &[1])],
            expected: "0-2@a.1",
        },
        Row {
            name: "not assigned, and wanted",
            assigned: false,
            found: &[("b", 4, &[0, 2])],
            expected: "0@b.4 1@a.1 2@b.4",
        },
        Row {
            name: "more than are wanted",
            assigned: false,
            found: &[("b", 1, &[1, 2, 3, 4])],
            expected: "1-3@b.1",
        },
        Row {
            name: "all numbers are assigned",
            assigned: true,
            found: &[("b", 1, &[7])],
            expected: "0-2@a.1",
        },
        Row {
            name: "found at two clusters",
            assigned: false,
            found: &[("a", 1, &[0, 1]), ("b", 2, &[1, 2])],
            expected: "0@a.1 1-2@b.2",
        },
        Row {
            name: "found at two clusters at the same generation",
            assigned: false,
            found: &[("a", 1, &[0, 1, 2]), ("b", 1, &[0, 1, 2])],
            expected: "0-2@a.1",
        },
    ];
    for row in rows {
        let mut case = resumed(&[("a", 8), ("b", 8)]);
        let spec = service(3).only(&["a"]);
        let job = if row.assigned {
            case.elect();
            let job = case.job(1, spec);
            assert_eq!(case.ranges(job), "0-2@a.1");
            job
        } else {
            case.store_job(1, spec)
        };
        for (name, generation, of) in row.found {
            runs(&mut case, name, job, *generation, of);
        }
        if row.assigned {
            tells(&mut case, "a");
            tells(&mut case, "b");
        } else {
            case.elect();
        }
        case.run_for(Span::seconds(5));
        assert_eq!(case.ranges(job), row.expected, "{}", row.name);
    }
}

#[test]
fn what_was_not_wanted_is_taken_when_the_group_grows() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    let job = case.store_job(1, service(1).only(&["a"]));
    runs(&mut case, "b", job, 1, &[0, 1]);
    case.elect();
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job), "0@b.1");
    case.scale(job, 3);
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job), "0-1@b.1 2@a.1");
}

#[test]
fn what_was_scaled_away_at_that_generation_does_not_come_back() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.elect();
    let job = case.job(1, service(2).only(&["a"]));
    case.scale(job, 1);
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job), "0@a.1");
    runs(&mut case, "b", job, 1, &[1]);
    tells(&mut case, "b");
    case.scale(job, 2);
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job), "0@a.1 1@a.2");
}

#[test]
fn a_gang_goes_as_a_whole_where_it_was_found() {
    let mut case = resumed(&[("a", 8), ("b", 8)]);
    case.elect();
    let gang = JobBuilder::batch("job", 3)
        .shape(echelon_core_testkit::build::shape(1, 64))
        .gang()
        .only(&["a"]);
    let job = case.job(1, gang);
    assert_eq!(case.ranges(job), "0-2@a.1");
    runs(&mut case, "b", job, 2, &[0, 1]);
    tells(&mut case, "b");
    assert_eq!(case.ranges(job), "0-1@b.2 2@b.2");
    let assignment = case.assignment(job).unwrap();
    let former = assignment.ranges(&main_group()).last().unwrap().former.clone();
    assert_eq!(
        former.map(|(c, g)| (c.to_string(), g.0)),
        Some(("a".to_owned(), 1))
    );
}

#[test]
fn where_storage_was_never_resumed_nobody_waits() {
    let mut case = Case::with(&[("a", 8)]);
    case.shard("a").found = None;
    let job = case.job(1, service(1));
    assert_eq!(case.total_active(job), 1);
}
