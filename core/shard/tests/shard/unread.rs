//! Rows that cannot be understood: the group concerned is set aside, and the recovery and everything else go on.

use crate::world::{World, c1, job, range, seconds, task};
use echelon_core_hosts::{Event as HostsEvent, TaskState};
use echelon_core_model::directive::Order;
use echelon_core_model::instance::{BlockKey, SliceRow};
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::store::{
    Batch, Consistency, Op, OpResult, Query, RawKey, Role, RowSubject, Stamp, Write,
};
use echelon_core_model::time::Span;
use echelon_core_model::{JobId, ReasonCode, RunState, Version};
use echelon_core_shard::{Alarm, Event, Mode};
use echelon_core_testkit::build::{JobBuilder, job_id, main_group};

const GARBAGE: &[u8] = &[0xff, 0xff, 0xff];

fn other() -> JobId {
    job_id(2)
}

fn key(number: u32) -> BlockKey {
    BlockKey {
        job: job(),
        group: main_group(),
        number,
    }
}

impl World {
    /// Orders two instances of the other job.
    fn order_other(&mut self) {
        let mut order = self.slice_order(&[range(0, 1)], &[(1, 2)], 1);
        order.job = other();
        order.head_version = Version(1);
        order.spec_version = 1;
        order.goal = Goal::default();
        self.direct(Order::Slices(vec![order]));
    }

    fn lives(&self, job: JobId) -> Vec<RunState> {
        let of = self.shard.instances().filter(|(id, _)| id.job == job);
        of.map(|(_, record)| record.state()).collect()
    }

    fn other_lives(&self) -> Vec<RunState> {
        self.lives(other())
    }

    /// Nobody understands these rows from here on.
    fn spoil(&mut self, keys: &[BlockKey]) {
        let raw = keys
            .iter()
            .map(|k| Write::Raw(RawKey::Block(k.clone()), GARBAGE.to_vec()));
        let batch = Batch {
            owner: Role::Shard(c1()),
            stamp: Stamp {
                epoch: self.shard.epoch(),
                sequence: 1 << 30,
            },
            writes: raw.collect(),
        };
        let done = self.store.perform(Op::Commit(batch));
        assert_eq!(done, OpResult::Committed);
    }

    /// The raw rows that storage has at these keys.
    fn raw(&mut self, keys: &[BlockKey]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for key in keys {
            let query = Query::BlockBucket(c1(), key.bucket());
            let read = self.store.perform(Op::Read(query, Consistency::Quorum));
            if let OpResult::Partial(_, rows) = read {
                let at = RowSubject::Block(key.clone());
                out.extend(rows.into_iter().filter(|r| r.subject == at).map(|r| r.bytes));
            }
        }
        out
    }

    fn told(&self) -> usize {
        let unread = |a: &&Alarm| matches!(a, Alarm::Unread(_));
        self.alarms.iter().filter(unread).count()
    }
}

/// Two jobs of two running instances each.
fn two_jobs() -> World {
    let mut w = World::serving();
    let web = JobBuilder::service("web", 2).build();
    w.store_job(&web);
    w.order(&[range(0, 1)], 2);
    w.store_head_of(other(), &web, Goal::default());
    w.assign_of(other(), &[(main_group(), &[range(0, 1)])]);
    w.order_other();
    w.run(seconds(3));
    assert_eq!(w.states(2), [RunState::Running; 2]);
    assert_eq!(w.other_lives(), [RunState::Running; 2]);
    w
}

#[test]
fn a_group_of_which_a_row_cannot_be_read_is_set_aside_and_the_rest_goes_on() {
    for spoiled in [
        vec![key(0)],
        vec![key(SliceRow::BLOCK)],
        vec![key(0), key(SliceRow::BLOCK)],
    ] {
        let mut w = two_jobs();
        let before = w.cluster.live();
        w.spoil(&spoiled);
        w.crash();
        w.elect();
        w.run(seconds(2));
        assert_eq!(w.shard.mode(), Mode::Serving, "the recovery completes");
        w.connect();
        w.run(seconds(60));
        assert_eq!((w.cluster.live(), w.kills().len()), (before, 0), "{spoiled:?}");
        assert_eq!(w.told(), spoiled.len(), "each row is told once");
        assert_eq!(
            w.raw(&spoiled),
            vec![GARBAGE.to_vec(); spoiled.len()],
            "the seal wrote it back"
        );
        // All of it counts as active and alive, and says why.
        let slice = w.slice(1).unwrap();
        assert_eq!((slice.active, slice.live, slice.unstarted), (2, 2, 0));
        assert_eq!(slice.waiting[0].0.code, ReasonCode::RowUnread);
        // What ends is not replaced, what is ordered is not done; the other job goes on.
        let launched = w.accepted().len();
        w.cluster.set(&task(0, 1, 1), TaskState::Failed);
        w.order(&[range(0, 1)], 2);
        w.order_other();
        let others = format!("{}.main.1.1.1", other());
        let others = w
            .accepted()
            .iter()
            .find(|t| t.starts_with(&other().to_string()))
            .cloned()
            .unwrap_or(others);
        w.cluster.set(&others, TaskState::Failed);
        w.run(seconds(120));
        let again: Vec<String> = w.accepted().split_off(launched);
        assert_eq!(again.len(), 1, "{again:?}");
        assert!(again[0].starts_with(&other().to_string()), "{again:?}");
        assert_eq!(w.kills(), Vec::<String>::new());
        // The rows are there for the leader after the next one, too.
        w.crash();
        w.elect();
        w.run(seconds(2));
        assert_eq!(w.raw(&spoiled), vec![GARBAGE.to_vec(); spoiled.len()]);
        assert_eq!(w.shard.mode(), Mode::Serving);
    }
}

#[test]
fn a_group_whose_goal_cannot_be_read_is_set_aside() {
    let mut w = two_jobs();
    let before = w.cluster.live();
    w.crash();
    w.store.spoil("heads", job());
    w.elect();
    w.run(seconds(2));
    assert_eq!(w.shard.mode(), Mode::Serving, "the recovery completes");
    w.connect();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    assert_eq!((w.cluster.live().len(), w.kills().len()), (before.len() - 1, 0));
    assert!(w.told() > 0);
    assert_eq!(w.slice(1).unwrap().waiting[0].0.code, ReasonCode::RowUnread);
    // A build that reads the head serves the group, and what was not acknowledged comes again.
    let mut reads = two_jobs();
    reads.crash();
    reads.elect();
    reads.cluster.set(&task(0, 1, 1), TaskState::Failed);
    reads.run(seconds(60));
    assert_eq!(reads.states(2), [RunState::Running; 2]);
}

#[test]
fn an_assignment_that_cannot_be_read_ends_nothing() {
    let mut w = two_jobs();
    let before = w.cluster.live();
    w.crash();
    w.store.spoil("assignments", job());
    w.elect();
    w.run(seconds(120));
    assert_eq!(w.shard.mode(), Mode::Serving, "the recovery completes");
    assert_eq!((w.cluster.live(), w.kills().len()), (before, 0));
    assert!(w.told() > 0);
    assert_eq!(w.record(0).map(|r| r.state()), Some(RunState::Running));
}

#[test]
fn a_spec_that_cannot_be_read_holds_no_recovery_up() {
    let mut w = two_jobs();
    let before = w.cluster.live();
    w.crash();
    w.store.spoil("specs", job());
    w.elect();
    w.run(seconds(2));
    assert_eq!(w.shard.mode(), Mode::Serving, "the recovery completes");
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    assert_eq!((w.cluster.live().len(), w.kills().len()), (before.len() - 1, 0));
    assert!(w.told() > 0);
}

/// Two jobs, the first of which has these rows that nobody reads, and a leader that has found that out.
fn one_aside(spoiled: &[BlockKey]) -> World {
    let mut w = two_jobs();
    w.spoil(spoiled);
    w.crash();
    w.elect();
    w.run(seconds(2));
    w.connect();
    w
}

#[test]
fn a_group_of_which_a_row_cannot_be_read_is_stopped_and_deleted() {
    for desired in [Desired::Stopped, Desired::Deleted] {
        for spoiled in [vec![key(0)], vec![key(SliceRow::BLOCK)]] {
            let mut w = one_aside(&spoiled);
            let alarms = w.shard.alarms(w.now);
            let stops = format!("echelon job stop {}", job());
            assert!(alarms.iter().any(|a| a.command == stops), "{alarms:?}");
            w.wish(&JobBuilder::service("web", 2).build(), desired, 0);
            w.order(&[range(0, 1)], 2);
            w.run(seconds(60));
            let mut kills = w.kills();
            kills.sort();
            kills.dedup();
            assert_eq!(kills, [task(0, 1, 1), task(1, 1, 1)], "{desired:?} {spoiled:?}");
            let slice = w.slice(1).unwrap();
            assert_eq!((slice.live, slice.active, slice.stopped), (0, 0, 2), "{slice:?}");
            assert_eq!(slice.head_version, w.head_version());
            assert_eq!(w.lives(other()), [RunState::Running; 2]);
            // Its rows go to the archive as they are, and the shard forgets it.
            w.direct(Order::Archive(job()));
            w.run(seconds(30));
            assert_eq!(w.raw(&spoiled), Vec::<Vec<u8>>::new());
            assert_eq!(w.lives(job()), []);
            assert_eq!(w.shard.alarms(w.now), []);
            let query = Query::GroupBlocks {
                cluster: c1(),
                job: job(),
                group: main_group(),
                first: 0,
                last: 0,
            };
            let read = w.store.perform(Op::Read(query, Consistency::Quorum));
            match read {
                OpResult::Partial(_, rows) => {
                    assert!(spoiled == [key(0)] && rows[0].bytes == GARBAGE, "{rows:?}");
                }
                OpResult::Answer(_) => assert_eq!(spoiled, [key(SliceRow::BLOCK)]),
                other => panic!("{other:?}"),
            }
            w.restart();
            assert_eq!(w.shard.alarms(w.now), []);
        }
    }
}

#[test]
fn a_stop_of_what_cannot_be_read_waits_for_hosts_that_are_away_and_for_tasks_that_live() {
    let mut w = one_aside(&[key(0)]);
    let away = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    w.cluster.silent.push(away.clone());
    w.step(Event::Cluster(HostsEvent::Failure {
        host: Some(away.clone()),
        executor: None,
    }));
    w.wish(&JobBuilder::service("web", 2).build(), Desired::Stopped, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(100));
    let slice = w.slice(1).unwrap();
    assert_eq!(
        (slice.live, slice.stopped),
        (2, 0),
        "one may live on the host that is away"
    );
    assert!(
        slice.waiting[0]
            .0
            .detail
            .as_deref()
            .is_some_and(|d| d.contains("being stopped")),
        "{slice:?}"
    );
    w.cluster.silent.clear();
    w.cluster.lingers = true;
    w.cluster.offer();
    w.run(seconds(100));
    assert!(w.kills().contains(&task(0, 1, 1)));
    assert_eq!(w.slice(1).unwrap().live, 2, "it is told to end, and has not");
    w.cluster.lingers = false;
    w.run(Span::minutes(20));
    assert_eq!(
        (w.cluster.live().len(), w.slice(1).unwrap().live),
        (2, 0),
        "the other job's"
    );
}

#[test]
fn an_order_alone_stops_nothing_that_cannot_be_read() {
    let mut w = one_aside(&[key(0)]);
    let mut order = w.slice_order(&[range(0, 1)], &[(1, 2)], 1);
    order.goal.desired = Desired::Stopped;
    order.head_version = Version(99);
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(60));
    assert_eq!((w.kills().len(), w.slice(1).unwrap().live), (0, 2));
}
