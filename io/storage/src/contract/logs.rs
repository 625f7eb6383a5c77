//! The ends of logs: any bytes, of the size that is promised, each task's by itself and each cluster's by itself, and gone when they
//! are taken out.

use super::facts::{job, main_group, shard};
use super::{Case, batch};
use crate::StoreError;
use echelon_core_model::log::{KeptLog, KeptRun, KeptRuns, MAX_TAIL, NoTail, Tail, Tails};
use echelon_core_model::store::{Answer, Query, Role, Write};
use echelon_core_model::{
    ClusterId, Generation, InstanceId, InstanceNumber, JobId, MemberId, RunNumber, SidecarName, TaskId,
    Timestamp,
};

fn run(of: JobId, number: u32) -> TaskId {
    let instance = InstanceId {
        job: of,
        group: main_group(),
        number: InstanceNumber(number),
    };
    TaskId {
        instance,
        generation: Generation(2),
        run: RunNumber(3),
    }
}

fn log(run: TaskId, sidecar: Option<&str>, bytes: &[u8]) -> KeptLog {
    KeptLog {
        run,
        at: Timestamp(7),
        hostname: "h.example".into(),
        tails: Tails {
            sidecar: sidecar.map(SidecarName::new),
            stdout: Tail::Read {
                bytes: bytes.into(),
                size: 1 << 40,
            },
            stderr: Tail::Missing(NoTail::AgentSilent),
        },
    }
}

fn list(of: JobId, cluster: &str, numbers: &[u32]) -> KeptRuns {
    let kept = |n: &u32| KeptRun {
        run: run(of, *n),
        sidecars: vec![SidecarName::new("proxy")],
        failed: true,
    };
    KeptRuns {
        runs: numbers.iter().map(kept).collect(),
        displaced: 9,
        ..KeptRuns::new(of, ClusterId::new(cluster))
    }
}

async fn kept(case: &Case, cluster: &str, task: &MemberId) -> Option<KeptLog> {
    let query = Query::KeptLog(ClusterId::new(cluster), task.clone());
    match case.read(query).await {
        Answer::KeptLog(kept) => kept,
        other => panic!("{other:?}"),
    }
}

async fn lists(case: &Case, of: JobId) -> Vec<KeptRuns> {
    let Answer::KeptRuns(mut lists) = case.read(Query::KeptRuns(of)).await else {
        panic!("no lists")
    };
    lists.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    lists
}

/// Nothing, any bytes, bytes that are no text, and the most that is promised; the main task's and a sidecar's.
pub async fn logs_read_back_whatever_was_written(case: &Case) {
    let c1 = shard("c1");
    let most = vec![0xff; usize::try_from(MAX_TAIL).unwrap()];
    for (number, bytes) in (0..).zip([&b""[..], b"hello\n", b"\x00\xff\xfe", &most]) {
        let whole = log(run(job(1), number), None, bytes);
        let both = KeptLog {
            tails: Tails {
                stderr: whole.tails.stdout.clone(),
                ..whole.tails.clone()
            },
            ..whole
        };
        let beside = log(run(job(1), number), Some("proxy"), b"beside");
        assert_eq!(kept(case, "c1", &both.task()).await, None);
        let writes = vec![Write::Log(both.clone()), Write::Log(beside.clone())];
        case.commits(&c1, (1, u64::from(number) + 1), writes).await;
        assert_eq!(kept(case, "c1", &both.task()).await.as_ref(), Some(&both));
        assert_eq!(kept(case, "c1", &beside.task()).await.as_ref(), Some(&beside));
        assert_eq!(kept(case, "c2", &both.task()).await, None, "of another cluster");
    }
}

/// Each cluster lists its own runs of a job; one read finds all.
pub async fn kept_runs_are_listed_by_cluster(case: &Case) {
    assert_eq!(lists(case, job(1)).await, []);
    for (cluster, numbers) in [("c1", &[0, 1][..]), ("c2", &[2])] {
        let list = list(job(1), cluster, numbers);
        case.commits(&shard(cluster), (1, 1), vec![Write::KeptRuns(list)])
            .await;
    }
    case.commits(
        &shard("c1"),
        (1, 2),
        vec![Write::KeptRuns(list(job(2), "c1", &[5]))],
    )
    .await;
    let both = [list(job(1), "c1", &[0, 1]), list(job(1), "c2", &[2])];
    assert_eq!(lists(case, job(1)).await, both);
    assert_eq!(lists(case, job(2)).await, [list(job(2), "c1", &[5])]);
}

/// What is taken out stays out, whoever writes late; and what replaces it is seen.
pub async fn logs_that_are_taken_out_are_gone(case: &Case) {
    let c1 = shard("c1");
    let first = log(run(job(1), 0), None, b"first");
    let other = log(run(job(1), 1), None, b"other");
    let writes = vec![Write::Log(first.clone()), Write::Log(other.clone())];
    case.commits(&c1, (2, 1), writes).await;
    case.commits(&c1, (2, 2), vec![Write::RemoveLog(first.task())])
        .await;
    assert_eq!(kept(case, "c1", &first.task()).await, None);
    assert_eq!(kept(case, "c1", &other.task()).await, Some(other));
    let late = batch(&c1, (1, 99), vec![Write::Log(first.clone())]);
    drop(case.store.commit(late).await);
    assert_eq!(
        kept(case, "c1", &first.task()).await,
        None,
        "written by an older leader"
    );
    let again = log(run(job(1), 0), None, b"again");
    case.commits(&c1, (3, 1), vec![Write::Log(again.clone())]).await;
    assert_eq!(kept(case, "c1", &again.task()).await, Some(again));
}

/// A shard writes no other cluster's list, and the resource manager none; more than is promised does not fit.
pub async fn logs_have_one_owner_and_a_bound(case: &Case) {
    let refused = |told: Result<(), StoreError>| {
        assert!(matches!(told, Err(StoreError::Refused(_))), "{told:?}");
    };
    let of_another = vec![Write::KeptRuns(list(job(1), "c2", &[1]))];
    refused(case.store.commit(batch(&shard("c1"), (1, 1), of_another)).await);
    let of_nobody = vec![Write::Log(log(run(job(1), 0), None, b""))];
    let manager = Role::ResourceManager;
    refused(case.store.commit(batch(&manager, (1, 1), of_nobody)).await);
    let huge = vec![1; 600 * 1024];
    let too_large = vec![Write::Log(log(run(job(1), 0), None, &huge))];
    refused(case.store.commit(batch(&shard("c1"), (1, 1), too_large)).await);
}
