//! Gangs: all of one begins together, nothing of it before all of it is durable, and one that is incomplete for too long is stopped
//! whole.

use crate::cluster::Cluster;
use crate::world::{Storage, World, job, marked, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::gang::Gang;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{GroupName, HostId, ReasonCode, RunState};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};

/// Two instances of `main` and one of `ps`, each of one core; incomplete it may be for 20 seconds.
fn spec() -> JobSpec {
    let builder = JobBuilder::batch("train", 2).shape(shape(1, 64));
    let mut spec = builder.with_group("ps", 1, shape(1, 64)).gang().build();
    spec.gang = Some(Gang::new(seconds(20)));
    spec
}

fn world(cores: u64) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(1, shape(cores, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&spec());
    w
}

fn order_ps(w: &mut World, active: u64) {
    let mut order = w.slice_order(&[range(0, 0)], &[(1, active)], 1);
    order.group = GroupName::new("ps");
    w.direct(Order::Slices(vec![order]));
}

fn ordered(cores: u64) -> World {
    let mut w = world(cores);
    w.order(&[range(0, 1)], 2);
    order_ps(&mut w, 1);
    w.run(seconds(3));
    w
}

fn task(group: &str, n: u32, run: u32) -> String {
    format!("{}.{group}.{n}.1.{run}", job())
}

fn live(w: &World) -> Vec<String> {
    let mut out: Vec<String> = w.cluster.live().into_iter().collect();
    out.sort();
    out
}

/// Reasons that were told last of each group, with how many wait for them.
fn waiting(w: &World) -> Vec<(String, ReasonCode, u64)> {
    let mut out = Vec::new();
    for name in ["main", "ps"] {
        let mut slices = w.reports.iter().rev().filter_map(|r| match &r.part {
            ReportPart::Slices(slices) => slices.iter().rfind(|s| s.group.as_str() == name),
            _ => None,
        });
        let last = slices.next().unwrap();
        out.extend(last.waiting.iter().map(|(r, n, _)| (name.to_owned(), r.code, *n)));
    }
    out
}

#[test]
fn nothing_of_a_gang_begins_before_all_of_it_is_granted() {
    let mut w = world(4);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(5));
    assert_eq!(
        live(&w),
        Vec::<String>::new(),
        "of the other group nothing is known"
    );
    order_ps(&mut w, 0);
    w.run(seconds(5));
    assert_eq!(live(&w), Vec::<String>::new());
    assert!(
        waiting(&w).contains(&("main".to_owned(), ReasonCode::GangWaits, 2)),
        "{:?}",
        waiting(&w)
    );
    order_ps(&mut w, 1);
    w.run(seconds(5));
    assert_eq!(
        live(&w),
        [task("main", 0, 1), task("main", 1, 1), task("ps", 0, 1)]
    );
}

#[test]
fn a_gang_that_does_not_fit_whole_takes_no_host() {
    let mut w = ordered(2);
    assert_eq!(live(&w), Vec::<String>::new());
    assert_eq!(
        waiting(&w),
        [
            ("main".to_owned(), ReasonCode::GangWaits, 2),
            ("ps".to_owned(), ReasonCode::HostResources, 1)
        ]
    );
    w.cluster.hosts.insert(HostId::new("more"), shape(1, 4096));
    w.run(seconds(10));
    assert_eq!(live(&w).len(), 3);
}

#[test]
fn nothing_of_a_gang_is_launched_before_all_of_it_is_durable() {
    let mut w = world(4);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    w.storage = Storage::StallsCommits;
    order_ps(&mut w, 1);
    w.run(seconds(3));
    let mut answered = 0;
    while w.accepted().is_empty()
        && let Some((id, op)) = w.stalled.pop_front()
    {
        answered += 1;
        w.storage = Storage::Works;
        w.operate(id, op);
        w.storage = Storage::StallsCommits;
        w.drain();
    }
    assert!(answered > 1, "one commit proves nothing");
    assert_eq!(w.accepted().len(), 3, "after {answered} commits");
}

#[test]
fn what_falls_out_of_a_gang_follows_by_itself_while_there_is_room() {
    let mut w = ordered(4);
    w.cluster.set(&task("ps", 0, 1), TaskState::Failed);
    w.run(seconds(10));
    assert_eq!(
        live(&w),
        [task("main", 0, 1), task("main", 1, 1), task("ps", 0, 2)]
    );
    assert_eq!(w.kills(), Vec::<String>::new());
}

/// A gang runs on three cores, and the core of its last group is gone when that fails.
fn crippled() -> World {
    let mut w = ordered(3);
    assert_eq!(live(&w).len(), 3);
    w.cluster.hosts.values_mut().for_each(|room| room.cpus = 2_000);
    w.cluster.set(&task("ps", 0, 1), TaskState::Failed);
    w.run(seconds(15));
    assert_eq!(w.kills(), Vec::<String>::new(), "not at once");
    w
}

#[test]
fn a_gang_that_is_incomplete_for_too_long_is_stopped_whole_and_begins_anew_when_it_fits() {
    let mut w = crippled();
    w.run(seconds(15));
    assert_eq!(w.kills(), [task("main", 0, 1), task("main", 1, 1)]);
    assert_eq!(live(&w), Vec::<String>::new());
    let run = w.record(0).unwrap().run.unwrap();
    assert_eq!(
        (run.state, run.stopping.unwrap().reason.code),
        (RunState::Killed, ReasonCode::GangIncomplete)
    );
    w.run(seconds(60));
    assert_eq!(live(&w), Vec::<String>::new(), "it does not fit");
    w.cluster.hosts.values_mut().for_each(|room| room.cpus = 3_000);
    w.run(seconds(300));
    assert_eq!(live(&w), Vec::<String>::new(), "it was not granted again");
    w.order(&[range(0, 1)], 2);
    order_ps(&mut w, 1);
    w.run(seconds(10));
    assert_eq!(
        live(&w),
        [task("main", 0, 2), task("main", 1, 2), task("ps", 0, 2)]
    );
    assert_eq!(w.record(0).unwrap().attempts, 0, "it was no failure of theirs");
}

#[test]
fn a_new_leader_counts_on_from_where_the_old_one_was() {
    let mut w = crippled();
    let groups = [
        (main_group(), &[range(0, 1)][..]),
        (GroupName::new("ps"), &[range(0, 0)][..]),
    ];
    w.assign_groups(&groups);
    w.crash();
    w.restart();
    w.run(seconds(30));
    assert_eq!(w.kills().len(), 2);
}

#[test]
fn a_gang_that_is_to_leave_does_not_begin() {
    let mut w = world(4);
    w.order(&[marked(range(0, 1), Some("c2"), None)], 2);
    order_ps(&mut w, 1);
    w.run(seconds(5));
    assert_eq!(live(&w), Vec::<String>::new());
}

#[test]
fn members_that_have_ended_are_not_waited_for() {
    let mut w = ordered(3);
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.run(seconds(60));
    assert_eq!(live(&w), [task("main", 1, 1), task("ps", 0, 1)]);
    assert_eq!(w.kills(), Vec::<String>::new());
}
