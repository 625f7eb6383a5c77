//! Rows that storage refuses for good cost their group its progress, and nothing else.

use crate::world::{Storage, World, job, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::bucket::block_bucket;
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::store::{TroubleKind, Write};
use echelon_core_model::{JobId, ReasonCode, RunState};
use echelon_core_shard::Alarm;
use echelon_core_testkit::build::{JobBuilder, job_id, main_group};

/// A job whose first block lies in the same bucket, so that both are written with one batch.
fn neighbour() -> JobId {
    let bucket = |j: JobId| block_bucket(j, &main_group(), 0);
    let mut all = (2..100_000u128).map(job_id);
    all.find(|j| bucket(*j) == bucket(job())).unwrap()
}

fn is_of_job(write: &Write) -> bool {
    matches!(write, Write::Block(b) | Write::Archive(b) if b.key.job == job())
}

fn order_neighbour(w: &mut World, n: u32) {
    let (of, spec) = (neighbour(), JobBuilder::service("other", n).build());
    w.store_head_of(of, &spec, Goal::default());
    let ranges = [range(0, n - 1)];
    w.assign_of(of, &[(main_group(), &ranges)]);
    let order = w.slice_order(&ranges, &[(1, u64::from(n))], 0);
    let order = echelon_core_model::directive::SliceOrder {
        job: of,
        head_version: echelon_core_model::Version(1),
        spec_version: 1,
        ..order
    };
    w.direct(echelon_core_model::directive::Order::Slices(vec![order]));
}

fn running(w: &World, of: JobId) -> usize {
    let all = w.shard.instances();
    all.filter(|(id, r)| id.job == of && r.state() == RunState::Running)
        .count()
}

fn refused() -> World {
    let mut w = World::serving();
    w.refuses = Some(Box::new(is_of_job));
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 3);
    order_neighbour(&mut w, 2);
    w.run(seconds(60));
    w
}

#[test]
fn a_refused_block_costs_its_group_alone() {
    let mut w = refused();
    assert_eq!(
        w.stepped_down,
        Vec::<String>::new(),
        "another leader would be refused the same"
    );
    assert!(
        w.accepted().iter().all(|t| !t.starts_with(&job().to_string())),
        "nothing of it begins"
    );
    assert_eq!(running(&w, neighbour()), 2, "what shares its batches goes on");
    let of_job = |a: &&Alarm| {
        matches!(a, Alarm::RowRefused { group: Some((j, g)), why }
            if *j == job() && *g == main_group() && why.contains("600000") && why.contains("524288"))
    };
    assert_eq!(
        w.alarms.iter().filter(of_job).count(),
        1,
        "told once: {:?}",
        w.alarms
    );
    let waits = w.slice(1).unwrap().waiting;
    let [(reason, n, _)] = &waits[..] else {
        panic!("{waits:?}")
    };
    assert_eq!((reason.code, *n), (ReasonCode::RowRefused, 3));
    assert!(
        reason.detail.as_deref().is_some_and(|d| d.contains("600000")),
        "{reason}"
    );

    w.refuses = None;
    w.run(seconds(40));
    assert_eq!(running(&w, job()), 3, "it goes on as soon as the row is taken");
    assert!(w.slice(1).unwrap().waiting.is_empty());
}

#[test]
fn a_group_whose_row_is_refused_is_stopped_and_deleted() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        let mut w = World::serving();
        w.store_job(&JobBuilder::service("web", 3).build());
        w.order(&[range(0, 2)], 3);
        w.run(seconds(5));
        assert_eq!(running(&w, job()), 3);
        w.refuses = Some(Box::new(is_of_job));
        let failed = w.task(0, 1);
        w.cluster.set(&failed, TaskState::Failed);
        w.run(seconds(5));
        assert_eq!(w.accepted().len(), 3, "nothing of it is replaced");
        w.wish(&JobBuilder::service("web", 3).build(), desired, 0);
        w.order(&[range(0, 2)], 3);
        w.run(seconds(20));
        assert_eq!(running(&w, job()), 0, "its stored head is evidence enough");
        let slice = w.slice(1).unwrap();
        assert_eq!((slice.live, slice.active), (0, 0));
        w.direct(echelon_core_model::directive::Order::Archive(job()));
        w.run(seconds(40));
        assert_eq!(w.shard.instances().filter(|(id, _)| id.job == job()).count(), 0);
        assert_eq!(w.stepped_down, Vec::<String>::new());
        let leads = w.shard.mode();
        assert_eq!(leads, echelon_core_shard::Mode::Serving);
    }
}

#[test]
fn what_is_not_stored_is_not_acknowledged() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 3);
    w.refuses = Some(Box::new(is_of_job));
    w.run(seconds(20));
    assert_eq!((w.acknowledged(), w.accepted().len()), (0, 0));
    w.refuses = None;
    w.run(seconds(40));
    assert_eq!(running(&w, job()), 3);
    w.refuses = Some(Box::new(is_of_job));
    let before = w.acknowledged();
    let ended = w.task(1, w.record(1).unwrap().run.unwrap().number.0);
    w.cluster.set(&ended, TaskState::Failed);
    w.run(seconds(10));
    assert_eq!(w.acknowledged(), before, "its end is known and not stored");
    w.refuses = None;
    w.run(seconds(60));
    w.cluster.resend();
    w.run(seconds(1));
    assert!(w.acknowledged() > before);
}

#[test]
fn a_seal_never_hides_a_row_that_is_refused() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 3);
    w.run(seconds(5));
    let before = w.stored(0).unwrap();
    w.crash();
    w.refuses = Some(Box::new(is_of_job));
    w.elect();
    w.run(seconds(100));
    assert_eq!(
        w.stored(0).as_ref(),
        Some(&before),
        "it is not written back, so it is not hidden"
    );
    assert_eq!(w.stepped_down, Vec::<String>::new());
    w.refuses = None;
    w.run(seconds(60));
    assert_eq!(w.shard.mode(), echelon_core_shard::Mode::Serving);
    assert_eq!((running(&w, job()), w.accepted().len()), (3, 3));
}

#[test]
fn a_storage_without_room_costs_no_leadership() {
    for kind in [TroubleKind::Full, TroubleKind::Overloaded] {
        let mut w = World::serving();
        w.storage = Storage::Troubled(kind);
        w.store_job(&JobBuilder::service("web", 1).build());
        w.order(&[range(0, 0)], 1);
        let before = w.wakes;
        w.run(seconds(120));
        assert!(w.wakes - before < 12_000, "{} wakes in 120 s", w.wakes - before);
        assert_eq!(w.stepped_down, Vec::<String>::new(), "{kind:?}");
        assert!(w.accepted().is_empty());
        w.unstall();
        w.order(&[range(0, 0)], 1);
        w.run(seconds(20));
        assert_eq!(
            running(&w, job()),
            1,
            "{kind:?}: {:?} {:?}",
            w.shard.mode(),
            w.slice(1)
        );
    }
    for kind in [TroubleKind::NoAnswer, TroubleKind::CutOff] {
        let mut w = World::serving();
        w.storage = Storage::Troubled(kind);
        w.run(seconds(60));
        assert_eq!(w.stepped_down.len(), 1, "another may reach it: {kind:?}");
    }
}

#[test]
fn a_refused_slice_row_costs_its_group_alone() {
    let mut w = World::serving();
    w.refuses = Some(Box::new(
        |write| matches!(write, Write::Slice(s) if s.job == job()),
    ));
    w.store_job(&JobBuilder::service("web", 1).build());
    w.order(&[range(0, 0)], 1);
    order_neighbour(&mut w, 1);
    w.run(seconds(40));
    assert_eq!((running(&w, job()), running(&w, neighbour())), (0, 1));
    assert_eq!(w.stepped_down, Vec::<String>::new());
}
