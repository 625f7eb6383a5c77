//! Lists: paged in a fixed order, filtered, each item once.

use super::Case;
use super::facts::{event, head, host, job, jobs_of_bucket, progress, shard};
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::cluster::ClusterState;
use echelon_core_model::health::ClusterHealth;
use echelon_core_model::job::{Head, JobFilter, JobState};
use echelon_core_model::store::{Answer, Decision, EventCursor, Query, Role, Write};
use echelon_core_model::{ClusterId, HostId, JobId};

async fn jobs(case: &Case, filter: &JobFilter, after: Option<JobId>, limit: u32) -> Vec<JobId> {
    let query = Query::Jobs {
        filter: filter.clone(),
        after,
        limit,
    };
    match case.read(query).await {
        Answer::Jobs(jobs) => jobs.into_iter().map(|(head, _)| head.job).collect(),
        other => panic!("{other:?}"),
    }
}

async fn put(case: &Case, head: Head) {
    let expected = None;
    case.decides(Decision::PutHead { head, expected }).await;
}

/// Pages of any size hold every job once, in order of bucket and id, a void one never.
pub async fn jobs_are_paged_in_order(case: &Case) {
    let mut all: Vec<JobId> = (0..30).map(job).collect();
    // Several in one bucket, so that a page ends inside it.
    all.extend(jobs_of_bucket(job_bucket(job(7)), 4));
    all.sort_by_key(|j| (job_bucket(*j), *j));
    all.dedup();
    for id in &all {
        put(case, head(*id, 1)).await;
    }
    let mut void = head(job(1000), 1);
    void.void = true;
    put(case, void).await;
    for limit in [1, 3, 33, 1000] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = jobs(case, &JobFilter::default(), after, limit).await;
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else { break };
            after = Some(*last);
            seen.extend(page);
        }
        assert_eq!(seen, all, "pages of {limit}");
    }
    assert!(jobs(case, &JobFilter::default(), None, 0).await.is_empty());
}

/// By pool and those below it, state, owner, label and start of the name, and all of them at once.
pub async fn jobs_are_found_by_what_they_are(case: &Case) {
    let jobs_written = [
        ("/ml", "ann", "a", Some(JobState::Running)),
        ("/ml/train", "ann", "b", Some(JobState::Failed)),
        ("/mlx", "bob", "a", None),
        ("/ml/train", "bob", "a", Some(JobState::Running)),
        ("/gone", "eve", "b", Some(JobState::Deleted)),
    ];
    for (n, (pool, owner, label, state)) in (1..).zip(jobs_written) {
        let mut head = head(job(n), 1);
        pool.clone_into(&mut head.pool);
        owner.clone_into(&mut head.owner);
        head.name = format!("job-{n}");
        head.labels.insert("team".to_owned(), label.to_owned());
        put(case, head).await;
        if let Some(state) = state {
            let row = vec![Write::Progress(progress(job(n), state))];
            case.commits(&Role::ResourceManager, (1, n), row).await;
        }
    }
    let by = |change: &dyn Fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        filter
    };
    let team = |label: &str| [("team".to_owned(), label.to_owned())].into();
    for (what, filter, expected) in [
        ("pool", by(&|f| f.pool = Some("/ml".to_owned())), vec![1, 2, 4]),
        (
            "state",
            by(&|f| f.states = vec![JobState::Running, JobState::Stopped]),
            vec![1, 4],
        ),
        (
            "no progress is waiting",
            by(&|f| f.states = vec![JobState::Waiting]),
            vec![3],
        ),
        ("owner", by(&|f| f.owner = Some("bob".to_owned())), vec![3, 4]),
        ("label", by(&|f| f.labels = team("a")), vec![1, 3, 4]),
        ("name", by(&|f| f.name_prefix = Some("job-2".to_owned())), vec![2]),
        (
            "all",
            by(&|f| {
                f.pool = Some("/ml".to_owned());
                f.owner = Some("bob".to_owned());
                f.labels = team("a");
                f.states = vec![JobState::Running];
            }),
            vec![4],
        ),
        ("nothing", by(&|f| f.owner = Some("eve".to_owned())), vec![]),
        (
            "deleted too",
            by(&|f| {
                f.owner = Some("eve".to_owned());
                f.show_deleted = true;
            }),
            vec![5],
        ),
        (
            "deleted by name",
            by(&|f| f.states = vec![JobState::Deleted]),
            vec![5],
        ),
    ] {
        let mut expected: Vec<JobId> = expected.into_iter().map(job).collect();
        expected.sort_by_key(|j| (job_bucket(*j), *j));
        assert_eq!(jobs(case, &filter, None, 10).await, expected, "by {what}");
    }
}

/// Hosts of one cluster by id, in pages.
pub async fn hosts_are_paged(case: &Case) {
    let ids: Vec<String> = (0..25).map(|n| format!("host-{n:02}")).collect();
    let put = ids.iter().map(|id| Write::Host(host(id, 1)));
    case.commits(&shard("c1"), (1, 1), put.collect()).await;
    case.commits(&shard("c2"), (1, 1), vec![Write::Host(host("elsewhere", 1))])
        .await;
    let changed = vec![
        Write::Host(host("host-03", 9)),
        Write::RemoveHost(HostId::new("host-04")),
    ];
    case.commits(&shard("c1"), (1, 2), changed).await;
    for limit in [1, 10, 24, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let cluster = ClusterId::new("c1");
            let query = Query::Hosts {
                cluster,
                after,
                limit,
            };
            let Answer::Hosts(page) = case.read(query).await else {
                panic!("hosts")
            };
            assert!(page.len() <= limit as usize);
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            seen.extend(page);
        }
        let expected = ids.iter().filter(|id| *id != "host-04");
        let expected: Vec<_> = expected
            .map(|id| host(id, if id == "host-03" { 9 } else { 1 }))
            .collect();
        assert_eq!(seen, expected, "pages of {limit}");
    }
    nothing_is_left_of_a_removed_cluster(case).await;
}

/// A newer epoch hides all hosts of a cluster, and those that an older leader still writes. What is shown of the
/// cluster goes, too.
async fn nothing_is_left_of_a_removed_cluster(case: &Case) {
    let manager = Role::ResourceManager;
    let id = ClusterId::new("c1");
    let observed = Write::ClusterState(ClusterState {
        cluster: id.clone(),
        health: ClusterHealth::joining(),
        reported: None,
    });
    case.commits(&manager, (1, 1), vec![observed.clone()]).await;
    let hide = vec![Write::SealHosts, Write::RemoveHeartbeat];
    case.commits(&shard("c1"), (2, 1), hide).await;
    let late = vec![
        Write::Host(host("host-07", 3)),
        Write::RemoveHost(HostId::new("host-08")),
    ];
    case.commits(&shard("c1"), (1, 3), late).await;
    let gone = vec![Write::RemoveClusterState(id)];
    case.commits(&manager, (1, 2), gone).await;
    for (cluster, expected) in [("c1", 0), ("c2", 1)] {
        let query = Query::Hosts {
            cluster: ClusterId::new(cluster),
            after: None,
            limit: 100,
        };
        let Answer::Hosts(hosts) = case.read(query).await else {
            panic!("hosts")
        };
        assert_eq!(hosts.len(), expected, "{cluster}");
    }
    assert_eq!(
        case.read(Query::ClusterStates).await,
        Answer::ClusterStates(Vec::new())
    );
    assert_eq!(case.read(Query::Heartbeats).await, Answer::Heartbeats(Vec::new()));
}

/// Events of all writers in order of time, each once, whatever the page and wherever it ends.
pub async fn events_are_paged_over_writers(case: &Case) {
    case.with_clusters(&["c1", "c2"]).await;
    let mut written = 0;
    for (owner, epoch) in [(Role::ResourceManager, 1), (shard("c1"), 2), (shard("c2"), 1)] {
        for sequence in 0..8 {
            // Writers agree on some moments, and one batch holds several events of a moment.
            let at = |n: u64| 1000 + (sequence / 2) * 10 + n / 2;
            let events =
                (0..3).map(|n| Write::Event(event(job(1), at(n), &format!("{owner:?} {sequence} {n}"))));
            case.commits(&owner, (epoch, sequence), events.collect()).await;
            written += 3;
        }
    }
    let other = vec![Write::Event(event(job(2), 1000, "another job"))];
    case.commits(&shard("c1"), (2, 100), other).await;
    let whole = events(case, None, 1000).await;
    assert_eq!(whole.len(), written);
    assert!(
        whole.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "in order, each once"
    );
    for limit in [1, 5, 71] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = events(case, after, limit).await;
            assert!(page.len() <= limit as usize);
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            seen.extend(page);
        }
        assert_eq!(seen, whole, "pages of {limit}");
    }
}

async fn events(
    case: &Case,
    after: Option<EventCursor>,
    limit: u32,
) -> Vec<(EventCursor, echelon_core_model::store::Event)> {
    let job = job(1);
    match case.read(Query::Events { job, after, limit }).await {
        Answer::Events(events) => events,
        other => panic!("{other:?}"),
    }
}
