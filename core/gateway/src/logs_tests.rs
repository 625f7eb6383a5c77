use super::*;
use crate::instances::get_instance;
use crate::resource::JobRef;
use crate::testing::{Memory, NOW, run, web};
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::log::{KeptRun, NoTail, Tails};
use echelon_core_model::{
    ClusterId, Generation, HostId, InstanceNumber, InstanceRange, JobId, RunNumber, Timestamp,
};
use echelon_core_testkit::build::main_group;

/// Instance 0 of a service, whose latest run is its second, on cluster `east`.
fn stored(state: RunState) -> (Memory, JobId) {
    let (mut store, job) = web();
    let cluster = store.add_cluster("east");
    let mut assignment = Assignment::new(job);
    assignment
        .groups
        .get_or_default(main_group())
        .push(AssignedRange {
            range: InstanceRange { first: 0, last: 2 },
            cluster: cluster.clone(),
            generation: Generation(1),
            former: None,
            releasing: None,
        });
    store.assignments.insert(job, assignment);
    let latest = Run {
        number: RunNumber(2),
        ended_at: state.is_ended().then_some(Timestamp(70_500)),
        ..Run::first(state, HostId::new("h"), "h.example", NOW)
    };
    let record = InstanceRecord {
        generation: Generation(1),
        run: Some(latest),
        ..InstanceRecord::default()
    };
    let place = (cluster, job, main_group());
    store
        .blocks
        .entry(place)
        .or_default()
        .insert(InstanceNumber(0), record);
    (store, job)
}

fn task(job: JobId, run: u32, sidecar: Option<&str>) -> MemberId {
    let text = format!("{job}.main.0.1.{run}");
    MemberId {
        run: text.parse().unwrap(),
        sidecar: sidecar.map(SidecarName::new),
    }
}

fn keep(store: &mut Memory, task: &MemberId, stdout: Tail) {
    let east = ClusterId::new("east");
    let mut list = KeptRuns::new(task.run.instance.job, east.clone());
    let kept = KeptRun {
        run: task.run.clone(),
        sidecars: task.sidecar.clone().into_iter().collect(),
        failed: true,
    };
    list.add(kept, 10);
    let log = KeptLog {
        run: task.run.clone(),
        at: Timestamp(5),
        hostname: "h.example".into(),
        tails: Tails {
            sidecar: task.sidecar.clone(),
            stdout,
            stderr: Tail::Missing(NoTail::NoFile),
        },
    };
    store.kept_runs.push(list);
    store.kept.insert((east, task.clone()), log);
}

fn ask(store: &mut Memory, asked: AskedLog) -> Result<KeptOutput, String> {
    let job = asked.task.run.instance.job;
    run(store, move |facts| async move {
        let (group, number) = (main_group(), InstanceNumber(0));
        let seen = get_instance(&facts, &JobRef::Id(job), &group, number, NOW).await?;
        kept_output(&facts, &seen, &asked).await
    })
    .unwrap()
}

fn all_of(task: MemberId) -> AskedLog {
    AskedLog {
        task,
        stderr: false,
        offset: 0,
        tail_bytes: None,
        limit_bytes: None,
    }
}

fn read(bytes: &[u8], size: u64) -> Tail {
    Tail::Read {
        bytes: bytes.into(),
        size,
    }
}

#[test]
fn what_is_kept_keeps_its_place_in_the_whole_output() {
    let (mut store, job) = stored(RunState::Failed);
    let id = task(job, 2, None);
    keep(&mut store, &id, read(b"6789\xff", 11));
    let mut part = |offset, tail_bytes, limit_bytes| {
        let asked = AskedLog {
            offset,
            tail_bytes,
            limit_bytes,
            ..all_of(id.clone())
        };
        let kept = ask(&mut store, asked).unwrap();
        (kept.offset, kept.bytes, (kept.cut, kept.size))
    };
    for (offset, tail, limit, expected) in [
        (0, None, None, (6, &b"6789\xff"[..])),
        (7, None, None, (7, b"789\xff")),
        (7, None, Some(2), (7, b"78")),
        (0, Some(2), None, (9, b"9\xff")),
        (0, Some(100), None, (6, b"6789\xff")),
        (11, None, None, (11, b"")),
        (99, None, None, (11, b"")),
        (0, None, Some(0), (6, b"")),
    ] {
        let (at, bytes, whole) = part(offset, tail, limit);
        assert_eq!(
            ((at, &bytes[..]), whole),
            (expected, (6, 11)),
            "{offset} {tail:?} {limit:?}"
        );
    }
}

#[test]
fn an_empty_output_and_one_of_another_run_are_found() {
    let (mut store, job) = stored(RunState::Running);
    let earlier = task(job, 1, None);
    keep(&mut store, &earlier, read(b"", 0));
    let kept = ask(&mut store, all_of(earlier.clone())).unwrap();
    assert_eq!((kept.bytes, kept.size, kept.cut), (Vec::new(), 0, 0));
    let stderr = AskedLog {
        stderr: true,
        ..all_of(earlier)
    };
    let why = ask(&mut store, stderr).unwrap_err();
    assert!(why.contains("had no such file"), "{why}");
}

#[test]
fn why_nothing_is_kept_is_told() {
    let why = |state: RunState, run: u32, change: &dyn Fn(&mut Memory, JobId)| {
        let (mut store, job) = stored(state);
        change(&mut store, job);
        ask(&mut store, all_of(task(job, run, None))).unwrap_err()
    };
    let nothing = |_: &mut Memory, _: JobId| {};
    let gap = |from, to| {
        move |store: &mut Memory, _: JobId| {
            let gap = LogGap {
                from: Timestamp(from),
                to: Timestamp(to),
                runs: 312,
            };
            let row = store.shards.entry(ClusterId::new("east")).or_default();
            row.log_gaps = vec![gap];
        }
    };
    let displaced = |store: &mut Memory, job: JobId| {
        let mut list = KeptRuns::new(job, ClusterId::new("east"));
        list.displaced = 7;
        store.kept_runs.push(list);
    };
    for (told, expected) in [
        (why(RunState::Running, 2, &nothing), "kept when its run ends"),
        (why(RunState::Lost, 2, &nothing), "its host was lost before"),
        (why(RunState::Rejected, 2, &nothing), "it never ran"),
        (
            why(RunState::Failed, 2, &gap(70_200, 70_800)),
            "not kept: 312 runs that ended in that second",
        ),
        (
            why(RunState::Failed, 2, &gap(68_000, 71_500)),
            "312 runs that ended in those 4 seconds",
        ),
        (why(RunState::Failed, 2, &gap(80_000, 80_000)), "7 days"),
        (
            why(RunState::Failed, 1, &displaced),
            "7 runs of this job made room",
        ),
        (why(RunState::Failed, 2, &nothing), "keep_bytes = 0"),
    ] {
        assert!(told.contains(expected), "{told}\n{expected}");
    }
}

#[test]
fn a_sidecar_that_the_run_does_not_have_is_named() {
    let (mut store, job) = stored(RunState::Failed);
    keep(&mut store, &task(job, 2, Some("proxy")), read(b"x", 1));
    assert!(ask(&mut store, all_of(task(job, 2, Some("proxy")))).is_ok());
    let why = ask(&mut store, all_of(task(job, 2, Some("log")))).unwrap_err();
    assert!(why.contains("no sidecar `log`; only proxy"), "{why}");
    // Listed, and the week is over.
    store.kept.clear();
    let why = ask(&mut store, all_of(task(job, 2, Some("proxy")))).unwrap_err();
    assert!(why.contains("7 days"), "{why}");
}
