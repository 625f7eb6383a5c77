//! Lists: paged in a fixed order, filtered, each item once.

use super::Case;
use super::facts::{event, head, host, job, jobs_of_bucket, progress, shard};
use echelon_core_model::bucket::job_bucket;
use echelon_core_model::cluster::ClusterState;
use echelon_core_model::health::ClusterHealth;
use echelon_core_model::job::{Head, JobFilter, JobState};
use echelon_core_model::store::{
    Answer, Decision, Event, EventDay, EventEnd, EventPlace, Query, Role, Stamp, Write,
};
use echelon_core_model::{ClusterId, Epoch, HostId, JobId};

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

/// Events of a writer and a day in the order of their places, each once, whatever the page and wherever it ends; of one lane
/// alone where that is asked.
pub async fn events_are_paged_in_the_order_of_their_lanes(case: &Case) {
    case.with_clusters(&["c1"]).await;
    const DAY: u64 = 24 * 3600 * 1000;
    let c1 = shard("c1");
    for sequence in 1..=8 {
        let lane = if sequence % 2 == 0 { 255 } else { 3 };
        // A clock that is set back, and another day.
        let at = |n: u64| {
            if sequence == 8 {
                DAY
            } else {
                1000 - sequence * 10 + n
            }
        };
        let events = (0..3).map(|n| Write::Event(event(job(1), at(n), &format!("{sequence} {n}"))));
        let writes = events.chain([Write::NoteEvents(lane)]).collect();
        case.commits(&c1, (2, sequence), writes).await;
    }
    let other = |n| vec![Write::Event(event(job(n), 1000, "other")), Write::NoteEvents(0)];
    case.commits(&c1, (2, 100), other(2)).await;
    case.commits(&Role::ResourceManager, (1, 1), other(1)).await;
    let details = |events: Vec<(EventPlace, Event)>| -> Vec<String> {
        events
            .into_iter()
            .filter_map(|(_, e)| e.reason.detail)
            .map(String::from)
            .collect()
    };
    let whole = events(case, 0, None, None, 1000).await;
    assert!(
        whole.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "in order, each once"
    );
    let of = |sequences: &[u32]| -> Vec<String> {
        sequences
            .iter()
            .flat_map(|s| (0..3).map(move |n| format!("{s} {n}")))
            .collect()
    };
    assert_eq!(details(whole.clone()), of(&[1, 3, 5, 7, 2, 4, 6]));
    assert_eq!(details(events(case, 1, None, None, 9).await), of(&[8]));
    for limit in [1, 5, 71] {
        for lane in [None, Some(3), Some(255), Some(4)] {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = events(case, 0, lane, after, limit).await;
                assert!(page.len() <= limit as usize);
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                seen.extend(page);
            }
            let expected = whole
                .iter()
                .filter(|(place, _)| lane.is_none_or(|lane| lane == place.lane));
            assert_eq!(
                seen,
                expected.cloned().collect::<Vec<_>>(),
                "pages of {limit} of {lane:?}"
            );
        }
    }
}

/// A commit of events notes its end with them. A successor closes what it has read, before it seals the bucket, and nothing
/// that an older leader still writes changes that.
pub async fn ends_of_events_are_closed_for_good(case: &Case) {
    case.with_clusters(&["c1"]).await;
    let (c1, manager) = (shard("c1"), Role::ResourceManager);
    let noted = |n| vec![Write::Event(event(job(1), n, "x")), Write::NoteEvents(5)];
    let end = |epoch, sequence, is_closed| EventEnd {
        stamp: stamp(epoch, sequence),
        is_closed,
    };
    assert_eq!(ends(case, &c1, 5).await, []);
    case.commits(&c1, (1, 3), noted(1)).await;
    case.commits(&c1, (1, 4), noted(2)).await;
    assert_eq!(ends(case, &c1, 5).await, [end(1, 4, false)]);
    assert_eq!(ends(case, &c1, 6).await, [], "of another lane");
    let seal = vec![Write::CloseEvents(5, stamp(1, 4)), Write::Seal(5)];
    case.commits(&c1, (2, 1), seal).await;
    case.commits(&c1, (1, 5), noted(3)).await;
    assert_eq!(ends(case, &c1, 5).await, [end(1, 4, true)]);
    case.commits(&c1, (2, 2), noted(4)).await;
    assert_eq!(ends(case, &c1, 5).await, [end(1, 4, true), end(2, 2, false)]);

    // The resource manager has no buckets: its successor's word replaces its own.
    let noted = |n| vec![Write::Event(event(job(1), n, "x")), Write::NoteEvents(0)];
    case.commits(&manager, (1, 1), noted(1)).await;
    assert_eq!(ends(case, &manager, 0).await, [end(1, 1, false)]);
    case.commits(&manager, (2, 1), vec![Write::CloseEvents(0, stamp(1, 1))])
        .await;
    case.commits(&manager, (1, 2), noted(2)).await;
    case.commits(&manager, (2, 2), noted(3)).await;
    assert_eq!(ends(case, &manager, 0).await, [end(1, 1, true), end(2, 2, false)]);
}

fn stamp(epoch: u64, sequence: u64) -> Stamp {
    Stamp {
        epoch: Epoch(epoch),
        sequence,
    }
}

async fn ends(case: &Case, writer: &Role, lane: u16) -> Vec<EventEnd> {
    match case.read(Query::EventEnds(writer.clone(), lane)).await {
        Answer::EventEnds(mut ends) => {
            ends.sort_by_key(|end| end.stamp);
            ends
        }
        other => panic!("{other:?}"),
    }
}

async fn events(
    case: &Case,
    day: u32,
    lane: Option<u16>,
    after: Option<EventPlace>,
    limit: u32,
) -> Vec<(EventPlace, Event)> {
    let of = EventDay {
        job: job(1),
        writer: shard("c1"),
        day,
    };
    let query = Query::Events {
        of,
        lane,
        after,
        limit,
    };
    match case.read(query).await {
        Answer::Events(events) => events,
        other => panic!("{other:?}"),
    }
}
