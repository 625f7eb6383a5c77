//! Heads, specs, names, requests, clusters and pools: compare-and-set.

use super::Case;
use super::facts::{head, job, spec};
use crate::StoreError;
use echelon_core_model::bucket::{assignment_partition, head_tag, job_bucket};
use echelon_core_model::cluster::{Cluster, DesiredState};
use echelon_core_model::control::Control;
use echelon_core_model::drain::HostDrain;
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{
    Answer, Changes, Consistency, Decided, Decision, Leadership, NameHolder, PlannedRequest, Query, Role,
    Stamp,
};
use echelon_core_model::token::TokenKey;
use echelon_core_model::{ClusterId, Epoch, HostPoolName, JobId, PoolId, RequestId, Timestamp, Version};
use std::sync::Arc;

fn put_head(job: JobId, version: u64, expected: Option<u64>) -> Decision {
    Decision::PutHead {
        head: head(job, version),
        expected: expected.map(Version),
    }
}

fn conflict(answer: Answer) -> Decided {
    Decided::Conflict(Box::new(answer))
}

/// Insert if absent; what is there is told to who comes second.
pub async fn a_head_is_inserted_once(case: &Case) {
    assert_eq!(case.settled(Query::Head(job(1))).await, Answer::Head(None));
    case.decides(put_head(job(1), 1, None)).await;
    let mut other = head(job(1), 1);
    other.owner = "bob".to_owned();
    let second = Decision::PutHead {
        head: other,
        expected: None,
    };
    assert_eq!(
        case.decide(second).await,
        conflict(Answer::Head(Some(head(job(1), 1))))
    );
    for answer in [
        case.read(Query::Head(job(1))).await,
        case.settled(Query::Head(job(1))).await,
    ] {
        assert_eq!(answer, Answer::Head(Some(head(job(1), 1))));
    }
}

/// A change names the version that it replaces.
pub async fn a_head_changes_only_from_its_version(case: &Case) {
    assert_eq!(
        case.decide(put_head(job(1), 2, Some(1))).await,
        conflict(Answer::Head(None)),
        "nothing is there to change"
    );
    case.decides(put_head(job(1), 1, None)).await;
    case.decides(put_head(job(1), 2, Some(1))).await;
    let late = Decision::PutHead {
        head: changed(job(1)),
        expected: Some(Version(1)),
    };
    assert_eq!(
        case.decide(late).await,
        conflict(Answer::Head(Some(head(job(1), 2))))
    );
    case.decides(put_head(job(1), 3, Some(2))).await;
    assert_eq!(
        case.settled(Query::Head(job(1))).await,
        Answer::Head(Some(head(job(1), 3)))
    );
}

/// Version 2 with another content than `head(job, 2)`.
fn changed(job: JobId) -> echelon_core_model::job::Head {
    let mut head = head(job, 2);
    head.instances = 99;
    head
}

/// Removing names the last version, and is done when nothing is there.
pub async fn a_removed_head_stays_removed(case: &Case) {
    let remove = |version| Decision::RemoveHead {
        job: job(1),
        expected: Version(version),
    };
    case.decides(put_head(job(1), 1, None)).await;
    assert_eq!(
        case.decide(remove(2)).await,
        conflict(Answer::Head(Some(head(job(1), 1))))
    );
    case.decides(remove(1)).await;
    case.decides(remove(1)).await;
    assert_eq!(case.settled(Query::Head(job(1))).await, Answer::Head(None));
    assert_eq!(
        case.decide(put_head(job(1), 2, Some(1))).await,
        conflict(Answer::Head(None)),
        "a wish for a removed job finds nothing"
    );
    let bucket = echelon_core_model::bucket::job_bucket(job(1));
    assert_eq!(
        case.settled(Query::Heads(bucket)).await,
        Answer::Heads(Vec::new())
    );
}

/// What is written to a partition of assignments, or as the head of one of its jobs, shows in how far it is;
/// what is refused does not, nor what was there already.
pub async fn changes_tell_of_each_write(case: &Case) {
    let partition = assignment_partition(job(1));
    let changes = async || match case.read(Query::Changes(partition)).await {
        Answer::Changes(changes) => changes,
        other => panic!("{other:?}"),
    };
    let bucket = job_bucket(job(1));
    assert_eq!(changes().await, Changes::default());
    case.decides(put_head(job(1), 1, None)).await;
    let first = changes().await;
    assert_eq!(first.heads, [(bucket, head_tag(job(1), Version(1)))].into());
    case.decides(put_head(job(1), 1, None)).await;
    case.decide(put_head(job(1), 3, Some(2))).await;
    assert_eq!(changes().await, first, "nothing was written");
    case.decides(put_head(job(1), 2, Some(1))).await;
    let second = changes().await;
    assert_eq!(second.heads, [(bucket, head_tag(job(1), Version(2)))].into());
    case.decides(Decision::RaisePartition {
        partition,
        epoch: Epoch(3),
        expected: Epoch(0),
    })
    .await;
    let raised = changes().await;
    assert_eq!(
        (raised.assignments.epoch, &raised.heads),
        (Epoch(3), &second.heads)
    );
    // A tag is no head.
    let heads = case.read(Query::Heads(bucket)).await;
    assert_eq!(heads, Answer::Heads(vec![head(job(1), 2)]));
    case.decides(Decision::RemoveHead {
        job: job(1),
        expected: Version(2),
    })
    .await;
    assert_eq!(case.read(Query::Heads(bucket)).await, Answer::Heads(Vec::new()));
}

/// A spec version is written once.
pub async fn specs_never_change(case: &Case) {
    let put = |version, command: &str| Decision::PutSpec {
        job: job(1),
        version,
        spec: spec(command),
    };
    case.decides(put(1, "a")).await;
    case.decides(put(2, "b")).await;
    case.decides(put(1, "a")).await;
    let taken = conflict(Answer::Spec(Some(spec("a"))));
    assert_eq!(case.decide(put(1, "c")).await, taken);
    for (version, expected) in [(1, Some("a")), (2, Some("b")), (3, None)] {
        let answer = case.read(Query::Spec(job(1), version)).await;
        assert_eq!(answer, Answer::Spec(expected.map(spec)), "version {version}");
    }
}

/// A name is taken, and taken over from exactly the holder that was seen.
pub async fn a_name_has_one_holder(case: &Case) {
    let holder = |n, version| NameHolder {
        job: job(n),
        version: Version(version),
    };
    let take = |n, version: u64, expected: Option<u64>| Decision::TakeName {
        name: "hello \u{1f44b} \0/'\"".to_owned(),
        holder: holder(n, version),
        expected: expected.map(Version),
    };
    case.decides(take(1, 1, None)).await;
    assert_eq!(
        case.decide(take(2, 1, None)).await,
        conflict(Answer::Name(Some(holder(1, 1))))
    );
    case.decides(take(2, 2, Some(1))).await;
    assert_eq!(
        case.decide(take(3, 2, Some(1))).await,
        conflict(Answer::Name(Some(holder(2, 2)))),
        "a take-over that comes second"
    );
    let name = Query::Name("hello \u{1f44b} \0/'\"".to_owned());
    assert_eq!(case.settled(name).await, Answer::Name(Some(holder(2, 2))));
    assert_eq!(
        case.settled(Query::Name("hello".to_owned())).await,
        Answer::Name(None)
    );
}

/// The first plan of a request id stays.
pub async fn a_request_has_one_plan(case: &Case) {
    let planned = |n| PlannedRequest {
        job: job(n),
        hash: u64::MAX - n,
        at: Timestamp(1_795_246_364_718),
    };
    let plan = |n| Decision::PlanRequest {
        id: RequestId::new("r-1"),
        planned: planned(n),
    };
    case.decides(plan(1)).await;
    case.decides(plan(1)).await;
    let first = Answer::Request(Some(planned(1)));
    assert_eq!(case.decide(plan(2)).await, conflict(first.clone()));
    assert_eq!(case.settled(Query::Request(RequestId::new("r-1"))).await, first);
}

/// Clusters are listed by id and changed by version; a conflict tells the one row.
pub async fn clusters_change_by_version(case: &Case) {
    case.with_clusters(&["c2", "c1"]).await;
    let Answer::Clusters(clusters) = case.settled(Query::Clusters).await else {
        panic!("clusters")
    };
    let ids: Vec<&str> = clusters.iter().map(|c| c.id.as_str()).collect();
    assert_eq!(ids, ["c1", "c2"]);
    let cordoned = Cluster {
        version: Version(2),
        desired_state: DesiredState::Cordoned,
        ..clusters[0].clone()
    };
    let cordon = |expected| Decision::PutCluster {
        cluster: cordoned.clone(),
        expected,
    };
    case.decides(cordon(Some(Version(1)))).await;
    let drain = Decision::PutCluster {
        cluster: Cluster {
            desired_state: DesiredState::Draining,
            ..cordoned.clone()
        },
        expected: Some(Version(1)),
    };
    let there = Answer::Clusters(vec![cordoned.clone()]);
    assert_eq!(case.decide(drain).await, conflict(there));
}

/// A cluster with as many hosts to be empty as there may be, all of the longest names, is kept whole, and shrinks again.
pub async fn a_cluster_with_many_drains_is_kept_whole(case: &Case) {
    case.with_clusters(&["c1", "c10", "c2"]).await;
    let wish = HostDrain {
        batch_until: Timestamp(1 << 50),
        agent: true,
    };
    let to = HostPoolName::new("p".repeat(63));
    let moved = HostMove {
        to,
        batch_until: Timestamp(1 << 50),
    };
    let clusters = async || match case.settled(Query::Clusters).await {
        Answer::Clusters(clusters) => clusters,
        other => panic!("{other:?}"),
    };
    let before = clusters().await;
    let name = |n: usize| format!("{n:h>255}");
    let mut full = before[0].clone();
    full.version = Version(2);
    full.drains.version = 1;
    full.drains.hosts = (0..2_000).map(|n| (name(n), wish.clone())).collect();
    full.host_pools.moves.hosts = (0..500).map(|n| (name(n), moved.clone())).collect();
    let put = |cluster: &Cluster, expected| Decision::PutCluster {
        cluster: cluster.clone(),
        expected: Some(Version(expected)),
    };
    case.decides(put(&full, 1)).await;
    case.decides(put(&full, 1)).await;
    assert!(clusters().await == [full.clone(), before[1].clone(), before[2].clone()]);
    // Who has not seen it changes nothing of it.
    let late = Cluster {
        desired_state: DesiredState::Draining,
        version: Version(2),
        ..before[0].clone()
    };
    let there = Answer::Clusters(vec![full.clone()]);
    assert!(case.decide(put(&late, 1)).await == conflict(there));
    assert!(clusters().await[0] == full);
    let mut fewer = full.clone();
    fewer.version = Version(3);
    fewer.drains.hosts.retain(|name, _| name.ends_with('7'));
    fewer.host_pools = before[0].host_pools.clone();
    case.decides(put(&fewer, 2)).await;
    assert!(clusters().await == [fewer.clone(), before[1].clone(), before[2].clone()]);
    let small = Cluster {
        version: Version(4),
        ..before[0].clone()
    };
    case.decides(put(&small, 3)).await;
    assert_eq!(clusters().await, [small, before[1].clone(), before[2].clone()]);
    let mut endless = full;
    endless.version = Version(5);
    endless.drains.hosts = (0..4_500).map(|n| (name(n), wish.clone())).collect();
    let error = case.store.decide(put(&endless, 4)).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{}", error.chain());
}

/// The row of switches at a version.
fn control(version: u64, kills_off: bool) -> Control {
    Control {
        version: Version(version),
        kills_off,
        by: "ann".to_owned(),
        why: "größer \u{1f44b}".to_owned(),
        at: Timestamp(version),
        token_key: (version > 1).then(|| TokenKey::new([u128::MAX, 1])),
        former_token_key: (version > 1).then(|| TokenKey::new([0, 7])),
    }
}

fn put_control(version: u64, kills_off: bool) -> Decision {
    Decision::PutControl {
        control: control(version, kills_off),
        expected: Version(version - 1),
    }
}

/// There is one row of switches; nobody set any before the first, and of two writers one is told what is there.
pub async fn switches_change_by_version(case: &Case) {
    assert_eq!(
        case.settled(Query::Control).await,
        Answer::Control(Control::default())
    );
    case.decides(put_control(1, true)).await;
    case.decides(put_control(1, true)).await;
    let there = conflict(Answer::Control(control(1, true)));
    assert_eq!(case.decide(put_control(1, false)).await, there);
    case.decides(put_control(2, false)).await;
    assert!(matches!(
        case.decide(put_control(1, true)).await,
        Decided::Conflict(_)
    ));
    for answer in [
        case.settled(Query::Control).await,
        case.read(Query::Control).await,
    ] {
        assert_eq!(answer, Answer::Control(control(2, false)));
    }
}

/// The row of the clusters where starts are forbidden, as a leader of an epoch writes it.
fn start_bans(epoch: u64, sequence: u64, clusters: &[(&str, u64, Option<u64>)]) -> StartBans {
    let bans = clusters.iter().map(|(cluster, number, silence)| {
        let ban = StartBan {
            number: *number,
            silence: *silence,
        };
        (ClusterId::new(*cluster), ban)
    });
    StartBans {
        stamp: Stamp {
            epoch: Epoch(epoch),
            sequence,
        },
        clusters: bans.collect(),
    }
}

fn put_start_bans(bans: &StartBans, expected: Stamp) -> Decision {
    Decision::PutStartBans {
        bans: bans.clone(),
        expected,
    }
}

/// Where starts are forbidden is one row with one writer. Once a new leader has written it as it is under its own
/// epoch, no write of the older one is taken, early or late, neither to forbid starts nor to allow them.
pub async fn an_older_leader_forbids_and_allows_no_starts(case: &Case) {
    let read = || case.settled(Query::StartBans);
    assert_eq!(read().await, Answer::StartBans(StartBans::default()));
    let first = start_bans(7, 0, &[]);
    case.decides(put_start_bans(&first, Stamp::default())).await;
    let forbidden = start_bans(7, 1, &[("west", 1, Some(3))]);
    case.decides(put_start_bans(&forbidden, first.stamp)).await;
    case.decides(put_start_bans(&forbidden, first.stamp)).await;
    assert_eq!(read().await, Answer::StartBans(forbidden.clone()));
    // A late try of an earlier write of the same leader changes nothing.
    let there = conflict(Answer::StartBans(forbidden.clone()));
    assert_eq!(case.decide(put_start_bans(&first, Stamp::default())).await, there);
    // Another takes over: the row as it is, under its epoch.
    let raised = start_bans(8, 0, &[("west", 1, Some(3))]);
    case.decides(put_start_bans(&raised, forbidden.stamp)).await;
    let there = conflict(Answer::StartBans(raised.clone()));
    let late = [
        start_bans(7, 2, &[("west", 1, None)]),
        start_bans(7, 2, &[("east", 1, Some(9)), ("west", 1, Some(3))]),
    ];
    for late in &late {
        assert_eq!(case.decide(put_start_bans(late, forbidden.stamp)).await, there);
    }
    let allowed = start_bans(8, 1, &[("west", 1, None)]);
    case.decides(put_start_bans(&allowed, raised.stamp)).await;
    assert_eq!(read().await, Answer::StartBans(allowed.clone()));
    assert_eq!(case.read(Query::StartBans).await, Answer::StartBans(allowed));
}

/// The row is bounded, and its stamp grows.
pub async fn start_bans_are_bounded_and_grow(case: &Case) {
    let names: Vec<String> = (0..=StartBans::MOST).map(|n| format!("{n:0>63}")).collect();
    let of = |n: usize| -> Vec<(&str, u64, Option<u64>)> {
        let first = names.iter().take(n);
        first
            .map(|name| (name.as_str(), 1 << 39, Some(1 << 39)))
            .collect()
    };
    let full = start_bans(1, 0, &of(StartBans::MOST));
    case.decides(put_start_bans(&full, Stamp::default())).await;
    assert_eq!(
        case.settled(Query::StartBans).await,
        Answer::StartBans(full.clone())
    );
    let larger = start_bans(1, 1, &of(StartBans::MOST + 1));
    assert!(
        case.store
            .decide(put_start_bans(&larger, full.stamp))
            .await
            .is_err()
    );
    let older = start_bans(1, 0, &[]);
    assert!(
        case.store
            .decide(put_start_bans(&older, full.stamp))
            .await
            .is_err()
    );
}

/// A tree of pools at a version.
pub(super) fn tree(version: u64, paths: &[&str]) -> PoolTree {
    let pool = |path: &&str| Pool {
        version: Version(version),
        ..Pool::new(PoolId::new(format!("id of {path}")), *path)
    };
    PoolTree {
        version: Version(version),
        pools: paths.iter().map(|p| ((*p).to_owned(), pool(p))).collect(),
    }
}

pub(super) fn put_pools(version: u64, paths: &[&str]) -> Decision {
    Decision::PutPools {
        tree: tree(version, paths),
        expected: Version(version - 1),
    }
}

/// The tree behind the pointer is whole, and of two trees for one version the first stays.
pub async fn a_pool_tree_is_replaced_whole(case: &Case) {
    assert_eq!(
        case.settled(Query::Pools).await,
        Answer::Pools(PoolTree::default())
    );
    case.decides(put_pools(1, &["/default"])).await;
    let there = Answer::Pools(tree(1, &["/default"]));
    assert_eq!(case.decide(put_pools(1, &["/other"])).await, conflict(there));
    for version in 2..40 {
        let paths = [format!("/a{version}"), format!("/a{version}/b")];
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        case.decides(put_pools(version, &paths)).await;
        let now = case.read(Query::Pools).await;
        assert_eq!(now, Answer::Pools(tree(version, &paths)));
    }
    assert!(matches!(
        case.decide(put_pools(3, &["/late"])).await,
        Decided::Conflict(_)
    ));
}

/// A tree of all that it may have is kept whole; a change of one pool of it is seen, and one who has not seen
/// it changes nothing.
pub async fn the_largest_pool_tree_is_changed_pool_by_pool(case: &Case) {
    let put = |tree: &PoolTree| Decision::PutPools {
        tree: tree.clone(),
        expected: Version(tree.version.0 - 1),
    };
    let pools = async || match (case.read(Query::Pools).await, case.settled(Query::Pools).await) {
        (Answer::Pools(read), Answer::Pools(settled)) if read == settled => read,
        _ => panic!("two trees"),
    };
    let mut tree = super::facts::largest_tree(1);
    case.decides(put(&tree)).await;
    case.decides(put(&tree)).await;
    assert!(pools().await == tree);
    let paths: Vec<String> = tree.pools.keys().cloned().collect();
    for version in 2..22 {
        tree.version = Version(version);
        let path = &paths[usize::try_from(version).unwrap() * 400];
        tree.pools.get_mut(path).unwrap().max_jobs = version;
        case.decides(put(&tree)).await;
        assert!(pools().await == tree, "version {version}");
    }
    let mut late = tree.clone();
    late.pools.remove(&paths[0]);
    let there = conflict(Answer::Pools(tree.clone()));
    assert!(
        case.decide(put(&late)).await == there,
        "another tree of the same version"
    );
    tree.version = Version(22);
    tree.pools.remove(&paths[9_999]);
    case.decides(put(&tree)).await;
    assert!(pools().await == tree);
    case.decides(put_pools(23, &[])).await;
    assert!(pools().await == self::tree(23, &[]), "a tree without pools");
    case.decides(put_pools(24, &["/a"])).await;
    assert!(pools().await == self::tree(24, &["/a"]));
}

/// Of writers who change the tree at once each version is made by one, and what it read before is in it.
pub async fn of_many_changes_of_the_tree_none_is_lost(case: &Case) {
    const WRITERS: usize = 4;
    const EACH: usize = 6;
    case.decides(put_pools(1, &["/default"])).await;
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(&case.store);
        tokio::spawn(async move {
            for n in 0..EACH {
                let path = format!("/w{writer}-{n}");
                loop {
                    let read = store.read(Query::Pools, Consistency::Serial).await.unwrap();
                    let Answer::Pools(mut tree) = read.answer else {
                        panic!("pools")
                    };
                    let expected = tree.version;
                    tree.version = expected.next();
                    let new = Pool::new(PoolId::new(&path), &path);
                    tree.pools.insert(path.clone(), new);
                    let done = store.decide(Decision::PutPools { tree, expected }).await;
                    match done {
                        Ok(Decided::Applied) => break,
                        Ok(Decided::Conflict(_)) => {}
                        Err(error) if error.is_retryable() => {}
                        Err(error) => panic!("{}", error.chain()),
                    }
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let Answer::Pools(tree) = case.settled(Query::Pools).await else {
        panic!("pools")
    };
    assert_eq!(tree.pools.len(), 1 + WRITERS * EACH);
}

/// One of each kind, all about a number; the pool tree's version is that number, the others have nothing before them.
pub(super) fn decisions_about(n: u64) -> Vec<Decision> {
    let cluster = Cluster {
        mesos: "m:5050".to_owned(),
        ..Cluster::new(ClusterId::new(format!("c{n}")), &format!("name of c{n}"))
    };
    vec![
        put_head(job(n), 1, None),
        Decision::PutSpec {
            job: job(n),
            version: 1,
            spec: spec("x"),
        },
        Decision::TakeName {
            name: format!("name {n}"),
            holder: NameHolder {
                job: job(n),
                version: Version(1),
            },
            expected: None,
        },
        Decision::PlanRequest {
            id: RequestId::new(format!("r-{n}")),
            planned: PlannedRequest {
                job: job(n),
                hash: n,
                at: Timestamp(n),
            },
        },
        put_pools(n, &["/a"]),
        Decision::PutCluster {
            cluster,
            expected: None,
        },
        Decision::TakeEpoch {
            role: Role::Shard(ClusterId::new(format!("c{n}"))),
            next: Leadership {
                epoch: Epoch(1),
                holder: "p1".to_owned(),
                proof: 1,
                resumed: Epoch(0),
            },
            expected: Epoch(0),
        },
        put_control(n, true),
        Decision::RaisePartition {
            partition: u16::try_from(n).unwrap(),
            epoch: Epoch(1),
            expected: Epoch(0),
        },
    ]
}

/// What holds already is applied again, and changes nothing.
pub async fn every_decision_is_idempotent(case: &Case) {
    for decision in decisions_about(1) {
        case.decides(decision.clone()).await;
        case.decides(decision).await;
    }
    case.decides(put_head(job(1), 2, Some(1))).await;
    case.decides(put_head(job(1), 2, Some(1))).await;
    let answer = case.decide(put_head(job(1), 1, None)).await;
    assert_eq!(
        answer,
        conflict(Answer::Head(Some(head(job(1), 2)))),
        "what held before does not hold any more"
    );
}

/// Each of several writers counts a head up; every version is made by exactly one of them.
pub async fn of_many_writers_one_wins_each_version(case: &Case) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 10;
    case.decides(put_head(job(1), 1, None)).await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let store = Arc::clone(&case.store);
            tokio::spawn(async move {
                let (mut won, mut version) = (0, 1);
                while won < EACH {
                    let mut next = head(job(1), version + 1);
                    next.owner = format!("writer {writer}");
                    let decision = Decision::PutHead {
                        head: next,
                        expected: Some(Version(version)),
                    };
                    match super::unknown::settle(&*store, decision).await {
                        Decided::Applied => {
                            won += 1;
                            version += 1;
                        }
                        Decided::Conflict(there) => {
                            let Answer::Head(Some(there)) = *there else {
                                panic!("{there:?}")
                            };
                            assert!(there.version.0 >= version, "versions never go back");
                            assert_ne!(there.version.0, version, "a conflict at the expected version");
                            version = there.version.0;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let Answer::Head(Some(last)) = case.settled(Query::Head(job(1))).await else {
        panic!("the head is gone")
    };
    assert_eq!(
        last.version,
        Version(1 + WRITERS * EACH),
        "each win made one version"
    );
}

/// Of writers that take one name at once, one holds it, and all others are told who.
pub async fn many_names_are_taken_at_once(case: &Case) {
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let store = Arc::clone(&case.store);
            tokio::spawn(async move {
                let take = Decision::TakeName {
                    name: "contended".to_owned(),
                    holder: NameHolder {
                        job: job(n),
                        version: Version(1),
                    },
                    expected: None,
                };
                (n, super::unknown::settle(&*store, take).await)
            })
        })
        .collect();
    let (mut winners, mut told) = (Vec::new(), Vec::new());
    for task in tasks {
        match task.await.unwrap() {
            (n, Decided::Applied) => winners.push(job(n)),
            (_, Decided::Conflict(there)) => told.push(*there),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    let holder = NameHolder {
        job: winners[0],
        version: Version(1),
    };
    assert_eq!(told, vec![Answer::Name(Some(holder)); 15]);
}
