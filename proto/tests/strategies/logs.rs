//! Any value of what is kept of logs.

use super::{at, cluster_id, generation, group, job, text};
use echelon_core_model::log::{KeptLog, KeptRun, KeptRuns, LogGap, NoTail, Tail, Tails};
use echelon_core_model::{InstanceId, InstanceNumber, RunNumber, SidecarName, TaskId};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn run() -> impl Strategy<Value = TaskId> {
    let fields = (job(), group(), any::<u32>(), generation(), any::<u32>());
    fields.prop_map(|(job, group, number, generation, run)| TaskId {
        instance: InstanceId {
            job,
            group,
            number: InstanceNumber(number),
        },
        generation,
        run: RunNumber(run),
    })
}

fn sidecar() -> impl Strategy<Value = SidecarName> {
    "[a-z0-9-]{1,8}".prop_map(SidecarName::new)
}

fn tail() -> impl Strategy<Value = Tail> {
    let read = (vec(any::<u8>(), 0..40), super::stamp()).prop_map(|(bytes, size)| Tail::Read {
        bytes: bytes.into(),
        size,
    });
    prop_oneof![read, select(NoTail::ALL.to_vec()).prop_map(Tail::Missing)]
}

pub fn kept_log() -> impl Strategy<Value = KeptLog> {
    let fields = (run(), at(), text(), of(sidecar()), tail(), tail());
    fields.prop_map(|(run, at, hostname, sidecar, stdout, stderr)| KeptLog {
        run,
        at,
        hostname: hostname.into(),
        tails: Tails {
            sidecar,
            stdout,
            stderr,
        },
    })
}

fn kept_run() -> impl Strategy<Value = KeptRun> {
    (run(), vec(sidecar(), 0..3), any::<bool>()).prop_map(|(run, sidecars, failed)| KeptRun {
        run,
        sidecars,
        failed,
    })
}

pub fn kept_runs() -> impl Strategy<Value = KeptRuns> {
    let fields = (job(), cluster_id(), vec(kept_run(), 0..4), super::whole());
    fields.prop_map(|(job, cluster, runs, displaced)| KeptRuns {
        job,
        cluster,
        runs,
        displaced,
    })
}

pub fn log_gaps() -> impl Strategy<Value = Vec<LogGap>> {
    let gap = (at(), at(), super::whole()).prop_map(|(from, to, runs)| LogGap { from, to, runs });
    vec(gap, 0..3)
}
