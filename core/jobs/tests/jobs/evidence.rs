//! The rule of evidence as a table.

use crate::record;
use echelon_core_jobs::{Known, Verdict, judge};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::Desired;
use echelon_core_model::{
    Generation, GroupName, InstanceId, InstanceNumber, JobId, ReasonCode, RunNumber, RunState, TaskId,
};

fn task(generation: u32, run: u32) -> TaskId {
    TaskId {
        instance: InstanceId {
            job: JobId(1),
            group: GroupName::new("main"),
            number: InstanceNumber(0),
        },
        generation: Generation(generation),
        run: RunNumber(run),
    }
}

const NOTHING: Known<'static> = Known {
    record: None,
    desired: None,
    released: false,
    marked: false,
    elsewhere: None,
    held: None,
    assigned: None,
    was_resumed: false,
};

fn check(table: &[(&str, TaskId, Known<'_>, Verdict)]) {
    for (name, task, known, expected) in table {
        assert_eq!(judge(task, known), *expected, "{name}");
    }
}

#[test]
fn what_no_record_knows_is_killed_only_on_positive_evidence() {
    let kill = Verdict::Kill;
    let wished = |desired| Known {
        desired: Some(desired),
        ..NOTHING
    };
    let elsewhere = |g| Known {
        elsewhere: Some(Generation(g)),
        ..NOTHING
    };
    let released = Known {
        released: true,
        ..NOTHING
    };
    let marked = Known {
        marked: true,
        ..NOTHING
    };
    let (run, stop, delete) = (Desired::Running, Desired::Stopped, Desired::Deleted);
    let moved = kill(ReasonCode::Moved);
    check(&[
        ("nothing is known", task(1, 1), NOTHING, Verdict::Quarantine),
        ("its job is to run", task(1, 1), wished(run), Verdict::Quarantine),
        (
            "its job is stopped",
            task(1, 1),
            wished(stop),
            kill(ReasonCode::StopRequested),
        ),
        (
            "its job is deleted",
            task(1, 1),
            wished(delete),
            kill(ReasonCode::DeleteRequested),
        ),
        ("given back", task(1, 1), released, moved),
        ("marked away", task(1, 1), marked, moved),
        ("elsewhere, newer", task(1, 1), elsewhere(2), moved),
        ("elsewhere, same", task(2, 1), elsewhere(2), Verdict::Quarantine),
        ("elsewhere, older", task(3, 1), elsewhere(2), Verdict::Quarantine),
    ]);
}

#[test]
fn a_record_tells_older_runs_from_its_own_and_from_newer_ones() {
    let mut second = record(RunState::Failed);
    crate::begun(&mut second);
    let taken = InstanceRecord {
        generation: Generation(3),
        ..InstanceRecord::default()
    };
    let with = |record| Known {
        record: Some(record),
        ..NOTHING
    };
    let older = Verdict::Kill(ReasonCode::OlderRunAlive);
    check(&[
        ("the stored run", task(1, 2), with(&second), Verdict::Recorded),
        ("a newer run is stored", task(1, 1), with(&second), older),
        (
            "newer run than stored",
            task(1, 3),
            with(&second),
            Verdict::NewerThanStored,
        ),
        (
            "newer generation than stored",
            task(2, 1),
            with(&second),
            Verdict::NewerThanStored,
        ),
        (
            "older generation, nothing begun since",
            task(1, 1),
            with(&taken),
            Verdict::Quarantine,
        ),
    ]);
}
