//! What was granted at a cluster whose stream is cut and whose shard is alive, and cannot begin there: its shard releases
//! it through storage.

use crate::returns::stored_releases::StoredReleases;
use crate::tests::case::{Case, batch, service};
use crate::tests::returns::held_up;
use echelon_core_model::health::Health;
use echelon_core_model::instance::SliceRow;
use echelon_core_model::store::{Answer, Batch, Decision, Leadership, Op, Query, Role, Stamp, Write};
use echelon_core_model::{ClusterId, Epoch, Generation, GroupName, JobId, RangeSet, ReasonCode, Span};
use echelon_core_testkit::build::JobBuilder;

/// A job of four that is granted at the first of these clusters and finds no host there, while nothing passes between its
/// shard and this leader any more. Both write to storage. The other cluster has capacity.
fn deaf(spec: JobBuilder) -> (Case, JobId, &'static str, &'static str) {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    for cluster in ["a", "b"] {
        lead(&mut case, cluster, Epoch(0), Epoch(1));
    }
    let (job, home, other) = held_up(&mut case, spec, ReasonCode::HostResources);
    case.without_stream.insert(ClusterId::new(home));
    case.cut(home);
    (case, job, home, other)
}

/// A shard's leader takes its epoch.
fn lead(case: &mut Case, cluster: &str, before: Epoch, epoch: Epoch) {
    let role = Role::Shard(ClusterId::new(cluster));
    let stored = match case.store.read(&Query::Leadership(role.clone())) {
        Answer::Leadership(stored) => stored,
        other => panic!("{other:?}"),
    };
    assert_eq!(stored.epoch, before);
    case.decide(Decision::TakeEpoch {
        role,
        next: Leadership {
            epoch,
            ..Leadership::taken(epoch, "one", 1)
        },
        expected: before,
    });
}

/// The shard has read the mark from storage, and stores what it releases.
fn release(case: &mut Case, cluster: &str, job: JobId, numbers: u32) {
    let released = [(Generation(1), RangeSet::below(numbers))];
    let row = SliceRow {
        released: released.into(),
        ..SliceRow::new(job, GroupName::new("main"))
    };
    case.store.perform(Op::Commit(Batch {
        owner: Role::Shard(ClusterId::new(cluster)),
        stamp: Stamp {
            epoch: Epoch(1),
            sequence: 1 << 30,
        },
        writes: vec![Write::Slice(row)],
    }));
}

fn health(case: &Case, cluster: &str) -> Health {
    case.rm.picture().facts.clusters[&ClusterId::new(cluster)].health()
}

#[test]
fn what_has_not_begun_is_asked_for_and_released_through_storage() {
    for spec in [service(4), batch(4)] {
        let (mut case, job, home, other) = deaf(spec);
        case.run_for(Span::seconds(22));
        assert_eq!(health(&case, home), Health::Degraded);
        assert!(case.ranges(job).contains(">nowhere"), "{}", case.ranges(job));
        assert_eq!(case.total_active(job), 0, "its shard has not released it yet");
        release(&mut case, home, job, 4);
        case.run_for(Span::seconds(8));
        assert_eq!(case.active(job), [(other, 4)], "{}", case.ranges(job));
        // It is heard again, and reports what it has released. Nothing moves twice.
        let before = case.ranges(job);
        case.without_stream.clear();
        case.reopen(home);
        case.run_for(Span::seconds(30));
        assert_eq!(case.ranges(job), before);
    }
}

#[test]
fn what_its_shard_keeps_stays_and_counts_in_its_pool() {
    let (mut case, job, home, other) = deaf(service(4));
    case.run_for(Span::seconds(22));
    release(&mut case, home, job, 3);
    case.run_for(Span::seconds(8));
    assert_eq!(case.active(job), [(other, 3)]);
    assert!(
        case.ranges(job).contains(&format!("3@{home}.1")),
        "{}",
        case.ranges(job)
    );
}

/// A job that is assigned as the stream falls silent: its shard has heard nothing of it over the stream, and has
/// reported nothing of it.
#[test]
fn what_was_never_reported_is_asked_for_and_released_through_storage() {
    for begun in [0, 1] {
        let mut case = Case::with(&[("a", 8), ("b", 8)]);
        for cluster in ["a", "b"] {
            lead(&mut case, cluster, Epoch(0), Epoch(1));
        }
        let home = ClusterId::new("a");
        case.held = Some((home.clone(), Vec::new()));
        let job = case.job(1, service(4));
        assert_eq!(case.ranges(job), "0-3@a.1");
        case.held = None;
        case.without_stream.insert(home);
        case.cut("a");
        case.run_for(Span::seconds(45));
        assert!(case.ranges(job).contains(">nowhere"), "{}", case.ranges(job));
        assert_eq!(case.total_active(job), 0, "its shard has not released it yet");
        release(&mut case, "a", job, 4 - begun);
        case.run_for(Span::seconds(10));
        let moved = usize::try_from(4 - begun).unwrap();
        assert_eq!(case.active(job), [("b", moved)], "{}", case.ranges(job));
    }
}

/// The row may have been stored by a leader that was deposed since, and its successor may begin the instance.
#[test]
fn a_release_counts_only_as_long_as_its_shard_has_the_same_leader() {
    let (mut case, job, home, _) = deaf(service(4));
    case.run_for(Span::seconds(22));
    lead(&mut case, home, Epoch(1), Epoch(2));
    release(&mut case, home, job, 4);
    case.run_for(Span::minutes(2));
    assert_eq!(case.total_active(job), 0);
    assert!(case.ranges(job).contains(home), "{}", case.ranges(job));
}

/// An answer about the leadership that was asked for before the rows of a round says nothing of them.
#[test]
fn an_answer_to_an_earlier_round_confirms_nothing() {
    let (mut case, job, home, _) = deaf(service(4));
    case.run_for(Span::seconds(22));
    release(&mut case, home, job, 4);
    let (cluster, now) = (ClusterId::new(home), case.now);
    let mut asked = Vec::new();
    case.rm.stored_releases = StoredReleases::default();
    case.rm.keep_reading_releases(now, &mut asked);
    let rows = case.store.read(&Query::GroupBlocks {
        cluster: cluster.clone(),
        job,
        group: GroupName::new("main"),
        first: SliceRow::BLOCK,
        last: SliceRow::BLOCK,
    });
    let Answer::Blocks(_, rows) = rows else { panic!() };
    case.rm.stored_release_read(&cluster, 1, rows, now, &mut asked);
    let Answer::Leadership(leads) = case.store.read(&Query::Leadership(Role::Shard(cluster.clone()))) else {
        panic!()
    };
    let is_released = |case: &Case| {
        let view = case.rm.picture().facts.jobs.get(&job).unwrap();
        view.decided.groups.values().flatten().next().is_none()
    };
    case.rm.releases_confirmed(&cluster, 0, &leads, now, &mut asked);
    assert!(!is_released(&case));
    case.rm.releases_confirmed(&cluster, 1, &leads, now, &mut asked);
    assert!(is_released(&case));
}
