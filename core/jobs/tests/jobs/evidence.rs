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

#[test]
fn a_task_is_killed_only_on_positive_evidence() {
    let second = {
        let mut r = record(RunState::Failed);
        crate::begun(&mut r);
        r
    };
    let taken = InstanceRecord {
        generation: Generation(3),
        ..InstanceRecord::default()
    };
    let kill = Verdict::Kill;
    let with = |record| Known {
        record: Some(record),
        ..Known::default()
    };
    let wished = |desired| Known {
        desired: Some(desired),
        ..Known::default()
    };
    let elsewhere = |g| Known {
        elsewhere: Some(Generation(g)),
        ..Known::default()
    };
    let released = Known {
        released: true,
        ..Known::default()
    };
    let marked = Known {
        marked: true,
        ..Known::default()
    };
    let table = [
        (
            "nothing is known",
            task(1, 1),
            Known::default(),
            Verdict::Quarantine,
        ),
        (
            "its job is to run",
            task(1, 1),
            wished(Desired::Running),
            Verdict::Quarantine,
        ),
        (
            "its job is stopped",
            task(1, 1),
            wished(Desired::Stopped),
            kill(ReasonCode::StopRequested),
        ),
        (
            "its job is deleted",
            task(1, 1),
            wished(Desired::Deleted),
            kill(ReasonCode::DeleteRequested),
        ),
        ("given back", task(1, 1), released, kill(ReasonCode::Moved)),
        ("marked away", task(1, 1), marked, kill(ReasonCode::Moved)),
        (
            "elsewhere, newer",
            task(1, 1),
            elsewhere(2),
            kill(ReasonCode::Moved),
        ),
        (
            "elsewhere, the same generation",
            task(2, 1),
            elsewhere(2),
            Verdict::Quarantine,
        ),
        ("elsewhere, older", task(3, 1), elsewhere(2), Verdict::Quarantine),
        (
            "it is the stored run",
            task(1, 2),
            with(&second),
            Verdict::Recorded,
        ),
        (
            "a newer run is stored",
            task(1, 1),
            with(&second),
            kill(ReasonCode::OlderRunAlive),
        ),
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
    ];
    for (name, task, known, expected) in table {
        assert_eq!(judge(&task, &known), expected, "{name}");
    }
}
