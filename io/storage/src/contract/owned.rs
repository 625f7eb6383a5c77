//! Owned facts: the larger stamp stays, deletions included, in whatever order writes arrive.

use super::Case;
use super::blocks::group_blocks;
use super::facts::{self, block, event, head, host, host_of, job, key, progress, shard};
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::cluster::{ClusterState, Heartbeat, ReportedCapacity};
use echelon_core_model::directive::{Grant, OwnChanges};
use echelon_core_model::drain::HostDrain;
use echelon_core_model::health::{ClusterHealth, Health, ShardSigns};
use echelon_core_model::instance::SliceRow;
use echelon_core_model::job::JobState;
use echelon_core_model::log::LogGap;
use echelon_core_model::store::{
    Answer, Decision, EventDay, Mark, Query, Role, ShardKey, ShardRow, Stamp, Write,
};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{
    ClusterId, Epoch, Generation, InstanceRange, RangeSet, Resources, Span, Timestamp, Version,
};
use echelon_core_model::{HostId, VolumeId};

async fn host_there(case: &Case) -> Option<String> {
    let Answer::Blocks(blocks, _) = case.read(group_blocks("c1", job(1), 0..=0)).await else {
        panic!("blocks")
    };
    blocks.first().map(host_of)
}

fn put(host: &str) -> Vec<Write> {
    vec![Write::Block(block(job(1), 0, host))]
}

/// Within an epoch the sequence decides.
pub async fn the_larger_stamp_stays(case: &Case) {
    let c1 = shard("c1");
    for (sequence, host, stays) in [(5, "five", "five"), (3, "three", "five"), (6, "six", "six")] {
        case.commits(&c1, (1, sequence), put(host)).await;
        assert_eq!(host_there(case).await.as_deref(), Some(stays), "after {sequence}");
    }
}

/// A seal by a newer epoch hides what an older one wrote before it and what it still writes after it, whatever its
/// sequence, whether or not the older writer is told.
pub async fn a_newer_epoch_hides_older_writes_in_any_order(case: &Case) {
    let c1 = shard("c1");
    case.commits(&c1, (1, 9), put("old, before")).await;
    case.commits(&c1, (2, 1), put("sealed")).await;
    // The older writer may be told; what it may not do is to be seen.
    for sequence in [10, (1 << 40) - 1] {
        let late = super::batch(&c1, (1, sequence), put("old, after"));
        drop(case.store.commit(late).await);
    }
    assert_eq!(host_there(case).await.as_deref(), Some("sealed"));
    case.commits(&c1, (3, 0), put("sealed again")).await;
    assert_eq!(host_there(case).await.as_deref(), Some("sealed again"));
}

/// An older deletion removes nothing, an older write brings nothing back.
pub async fn deletions_obey_stamps_too(case: &Case) {
    let c1 = shard("c1");
    let delete = || vec![Write::RemoveBlock(key(job(1), 0))];
    case.commits(&c1, (2, 5), put("kept")).await;
    for stamp in [(2, 4), (1, 99)] {
        drop(case.store.commit(super::batch(&c1, stamp, delete())).await);
        assert_eq!(host_there(case).await.as_deref(), Some("kept"), "{stamp:?}");
    }
    case.commits(&c1, (2, 6), delete()).await;
    assert_eq!(host_there(case).await, None);
    for stamp in [(2, 5), (1, 99)] {
        drop(case.store.commit(super::batch(&c1, stamp, put("back"))).await);
        assert_eq!(host_there(case).await, None, "{stamp:?}");
    }
    case.commits(&c1, (2, 7), put("new")).await;
    assert_eq!(host_there(case).await.as_deref(), Some("new"));
    // A deletion of what was never there counts as well.
    case.commits(&c1, (3, 1), vec![Write::RemoveBlock(key(job(2), 0))])
        .await;
    let late = vec![Write::Block(block(job(2), 0, "late"))];
    drop(case.store.commit(super::batch(&c1, (2, 50), late)).await);
    let other = case.read(group_blocks("c1", job(2), 0..=0)).await;
    assert_eq!(other, Answer::Blocks(Vec::new(), Vec::new()));
}

/// Two writes to one row in one batch.
pub async fn the_last_write_of_a_batch_counts(case: &Case) {
    let c1 = shard("c1");
    let twice = [put("zz first"), put("last")].concat();
    case.commits(&c1, (1, 1), twice).await;
    assert_eq!(host_there(case).await.as_deref(), Some("last"));
    let gone = [put("first"), vec![Write::RemoveBlock(key(job(1), 0))]].concat();
    case.commits(&c1, (1, 2), gone).await;
    assert_eq!(host_there(case).await, None);
    let back = [vec![Write::RemoveBlock(key(job(1), 0))], put("last")].concat();
    case.commits(&c1, (1, 3), back).await;
    assert_eq!(host_there(case).await.as_deref(), Some("last"));
}

/// The same bytes under the same stamp, even after newer ones.
pub async fn the_same_batch_again_is_harmless(case: &Case) {
    let c1 = shard("c1");
    let events = |n| {
        vec![
            Write::Event(event(job(1), 5, n)),
            Write::Event(event(job(1), 5, "b")),
            Write::NoteEvents(0),
        ]
    };
    let first = [put("one"), events("a")].concat();
    case.with_clusters(&["c1"]).await;
    case.commits(&c1, (1, 1), first.clone()).await;
    case.commits(&c1, (1, 1), first.clone()).await;
    case.commits(&c1, (1, 2), put("two")).await;
    case.commits(&c1, (1, 1), first).await;
    assert_eq!(host_there(case).await.as_deref(), Some("two"));
    let Answer::Events(events) = case.read(events_of(1, &c1)).await else {
        panic!("events")
    };
    let told: Vec<_> = events
        .iter()
        .filter_map(|(_, e)| e.reason.detail.as_deref())
        .collect();
    assert_eq!(told, ["a", "b"], "each once, in order");
}

fn events_of(n: u64, writer: &Role) -> Query {
    let of = EventDay {
        job: job(n),
        writer: writer.clone(),
        day: 0,
    };
    Query::Events {
        of,
        lane: None,
        after: None,
        limit: 100,
    }
}

/// No owned write touches what was decided, and the other way round, whatever their numbers.
pub async fn decided_facts_ignore_stamps(case: &Case) {
    let decision = |version: u64| Decision::PutHead {
        head: head(job(1), version),
        expected: (version > 1).then(|| Version(version - 1)),
    };
    case.decides(decision(1)).await;
    let rm = Role::ResourceManager;
    let row = |state| vec![Write::Progress(progress(job(1), state))];
    case.commits(&rm, (Epoch::END - 1, 7), row(JobState::Running))
        .await;
    case.commits(&rm, (Epoch::END - 1, 8), vec![Write::RemoveProgress(job(1))])
        .await;
    case.decides(decision(2)).await;
    let there = case.settled(Query::Head(job(1))).await;
    assert_eq!(there, Answer::Head(Some(head(job(1), 2))));
    // A decision's own time hides no owned write: the smallest stamp of all is seen.
    let two = vec![Write::Progress(progress(job(2), JobState::Stopped))];
    let put_two = Decision::PutHead {
        head: head(job(2), 1),
        expected: None,
    };
    case.decides(put_two).await;
    case.commits(&rm, (1, 0), two).await;
    let seen = case.read(Query::Progress(job(2))).await;
    assert_eq!(seen, Answer::Progress(vec![progress(job(2), JobState::Stopped)]));
}

fn slice_row() -> SliceRow {
    let numbers: RangeSet = [InstanceRange { first: 3, last: 5 }].into_iter().collect();
    let range = AssignedRange {
        range: InstanceRange { first: 0, last: 9 },
        cluster: ClusterId::new("c1"),
        generation: Generation(2),
        former: Some((ClusterId::new("c0"), Generation(1))),
        releasing: None,
    };
    let grant = Grant {
        epoch: Epoch(4),
        number: 77,
        active: 3,
        lease: Span::seconds(30),
        known: OwnChanges {
            preempted: 2,
            taken_over: 1,
        },
    };
    SliceRow {
        ranges: vec![range],
        released: [(Generation(1), numbers.clone())].into(),
        taken_over: [(Generation(2), numbers)].into(),
        grants: [(Generation(2), grant)].into(),
        own: [(
            Generation(2),
            OwnChanges {
                preempted: 5,
                taken_over: 4,
            },
        )]
        .into(),
        ..SliceRow::new(job(1), super::facts::main_group())
    }
}

fn beat(cluster: &str) -> Heartbeat {
    Heartbeat {
        cluster: ClusterId::new(cluster),
        epoch: Epoch(7),
        at: Timestamp(8),
        signs: ShardSigns::default(),
        address: "127.0.0.1:1".to_owned(),
        trouble: None,
        loss: None,
        no_manager_since: None,
    }
}

fn mark(sequence: u64) -> Mark {
    Mark {
        stamp: Stamp {
            epoch: Epoch(7),
            sequence,
        },
        control: Version(3),
        at: Timestamp(1_700_000_000_000),
        settled: Epoch(2),
    }
}

/// Each role has a mark of its own; none is not an empty one, and an older one never comes back.
pub async fn marks_are_kept_by_role(case: &Case) {
    let (rm, c1) = (Role::ResourceManager, shard("c1"));
    let read = async |role: &Role| case.read(Query::Mark(role.clone())).await;
    assert_eq!(read(&rm).await, Answer::Mark(None));
    case.commits(&rm, (7, 2), vec![Write::Mark(mark(2))]).await;
    case.commits(&c1, (7, 9), vec![Write::Mark(mark(9))]).await;
    case.commits(&rm, (7, 1), vec![Write::Mark(mark(1))]).await;
    assert_eq!(read(&rm).await, Answer::Mark(Some(mark(2))));
    assert_eq!(read(&c1).await, Answer::Mark(Some(mark(9))));
    assert_eq!(read(&shard("c2")).await, Answer::Mark(None));
}

/// Each kind of owned fact is read as it was written.
pub async fn owned_facts_read_back(case: &Case) {
    let (rm, c1) = (Role::ResourceManager, shard("c1"));
    let state = ClusterState {
        cluster: ClusterId::new("c1"),
        health: ClusterHealth {
            health: Health::CutOff,
            since: Timestamp(3),
            ..ClusterHealth::default()
        },
        reported: Some(ReportedCapacity {
            total: facts::LARGEST,
            used: Resources::ZERO,
            hosts: 3,
            largest_host: facts::LARGEST,
            sharing: facts::sharing(),
        }),
    };
    let row = ShardRow {
        framework: Some("f-1".to_owned()),
        obeyed: Epoch(5),
        last_loss: 4,
        loss: None,
        wishes_heard: Timestamp(9),
        drained_agents: [echelon_core_model::HostId::new("a")].into(),
        log_gaps: vec![LogGap {
            from: Timestamp(1),
            to: Timestamp(2),
            runs: 3,
        }],
        observed: Span::minutes(11),
        ..ShardRow::default()
    };
    let none = case.read(Query::Shard(ClusterId::new("c1"))).await;
    assert_eq!(none, Answer::Shard(ShardRow::default()));
    let of_rm = vec![
        Write::Progress(progress(job(1), JobState::Failed)),
        Write::ClusterState(state.clone()),
    ];
    case.commits(&rm, (2, 1), of_rm).await;
    let of_shard = vec![
        Write::Slice(slice_row()),
        Write::Heartbeat(beat("c1")),
        Write::Host(host("h1", 2)),
    ];
    let of_shard = of_shard.into_iter().chain(row.writes()).collect();
    case.commits(&c1, (7, 1), of_shard).await;
    case.commits(&shard("c2"), (1, 1), vec![Write::Heartbeat(beat("c2"))])
        .await;
    let bucket = echelon_core_model::bucket::job_bucket(job(1));
    let failed = Answer::Progress(vec![progress(job(1), JobState::Failed)]);
    let Answer::Heartbeats(mut beats) = case.read(Query::Heartbeats).await else {
        panic!("heartbeats")
    };
    beats.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    assert_eq!(beats, [beat("c1"), beat("c2")]);
    let slice = Answer::Blocks(Vec::new(), vec![slice_row()]);
    for (query, expected) in [
        (Query::Progress(job(1)), failed.clone()),
        (Query::ProgressBucket(bucket), failed),
        (Query::ClusterStates, Answer::ClusterStates(vec![state])),
        (Query::Shard(ClusterId::new("c1")), Answer::Shard(row)),
        (
            Query::BlockBucket(ClusterId::new("c1"), slice_row().bucket()),
            slice.clone(),
        ),
        (group_blocks("c1", job(1), 0..=0), slice),
    ] {
        assert_eq!(case.read(query.clone()).await, expected, "{query:?}");
    }
    let gone = vec![Write::RemoveSlice(job(1), super::facts::main_group())];
    case.commits(&c1, (7, 2), gone).await;
    case.commits(&rm, (2, 2), vec![Write::RemoveProgress(job(1))])
        .await;
    let nothing = Answer::Blocks(Vec::new(), Vec::new());
    assert_eq!(case.read(group_blocks("c1", job(1), 0..=0)).await, nothing);
    assert_eq!(
        case.read(Query::Progress(job(1))).await,
        Answer::Progress(Vec::new())
    );
}

/// What a shard remembers grows by rows and not by their size: of many hosts and volumes. A row that
/// changes is written alone, one that is gone is removed, and a seal hides what older leaders wrote or
/// still write.
pub async fn what_a_shard_remembers_has_small_rows(case: &Case) {
    let c1 = shard("c1");
    let read = async || {
        let Answer::Shard(row) = case.read(Query::Shard(ClusterId::new("c1"))).await else {
            panic!("a shard's row")
        };
        row
    };
    let mut row = ShardRow {
        framework: Some("f".repeat(60)),
        obeyed: Epoch(5),
        ..ShardRow::default()
    };
    row.drains.version = 2;
    for n in 0..1_500 {
        let wish = HostDrain {
            batch_until: Timestamp(1 << 42),
            agent: true,
        };
        row.drains.hosts.insert(format!("{n:h>250}"), wish);
        row.drained_agents.insert(HostId::new(format!("{n:a>60}")));
        let volume = VolumeId::new(format!("{n:v>150}"));
        row.volumes.insert(volume, VolumeWish::Destroy);
    }
    let writes = row.writes();
    for write in &writes {
        let Write::Shard(key, part) = write else {
            panic!("{write:?}")
        };
        let bytes = echelon_proto::convert::encode(part).len();
        assert!(bytes <= 4 * 1024, "{bytes} bytes of {key:?}");
    }
    for some in writes.chunks(1_000) {
        case.commits(&c1, (1, 1), some.to_vec()).await;
    }
    assert!(read().await == row, "all of it is there");

    let (first, _) = row.drains.hosts.pop_first().expect("1,500");
    let gone = vec![Write::RemoveShard(ShardKey::Host(first.clone()))];
    case.commits(&c1, (1, 2), gone).await;
    assert!(read().await == row, "one host less");

    let kept = ShardRow {
        framework: row.framework.clone(),
        ..ShardRow::default()
    };
    let next = kept.writes().into_iter().chain([Write::SealShard]);
    case.commits(&c1, (2, 1), next.collect()).await;
    assert_eq!(read().await, kept);
    case.commits(&c1, (1, 9), writes[..10].to_vec()).await;
    assert_eq!(read().await, kept, "what an older leader writes late is hidden");
    case.commits(&shard("c2"), (1, 1), row.writes()[..1].to_vec())
        .await;
    assert_eq!(read().await, kept);
}
