//! Gangs that are tried as wholes: a member that falls out takes all others to the next try, once, whoever leads; and no member begins
//! beside others that go on.

use crate::cluster::Cluster;
use crate::world::{World, job, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::Order;
use echelon_core_model::gang::{Gang, OnMemberFailure};
use echelon_core_model::instance::Ended;
use echelon_core_model::{GroupName, ReasonCode, RunState};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};

fn grant(w: &mut World) {
    w.order(&[range(0, 1)], 2);
    let mut order = w.slice_order(&[range(0, 0)], &[(1, 1)], 1);
    order.group = GroupName::new("ps");
    w.direct(Order::Slices(vec![order]));
    let groups = [
        (main_group(), &[range(0, 1)][..]),
        (GroupName::new("ps"), &[range(0, 0)][..]),
    ];
    w.assign_groups(&groups);
}

/// Two of `main` and one of `ps` run, each on one of four cores; incomplete the gang may be for 20 seconds.
fn running(on_failure: OnMemberFailure) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(1, shape(4, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    let gang = Gang {
        on_failure,
        ..Gang::new(seconds(20))
    };
    let builder = JobBuilder::batch("train", 2).shape(shape(1, 64)).gang_of(gang);
    w.store_job(&builder.with_group("ps", 1, shape(1, 64)).build());
    grant(&mut w);
    w.run(seconds(3));
    assert_eq!(live(&w), tries(1));
    w
}

fn task(group: &str, n: u32, run: u32) -> String {
    format!("{}.{group}.{n}.1.{run}", job())
}

/// All members at their n-th run.
fn tries(n: u32) -> Vec<String> {
    vec![task("main", 0, n), task("main", 1, n), task("ps", 0, n)]
}

fn live(w: &World) -> Vec<String> {
    let mut out: Vec<String> = w.cluster.live().into_iter().collect();
    out.sort();
    out
}

fn fail(w: &mut World, group: &str, n: u32, run: u32) {
    w.cluster.set(&task(group, n, run), TaskState::Failed);
}

/// Of an instance of `main`: the try of its latest run, and the failures that count.
fn counted(w: &World, n: u32) -> (u32, u32) {
    let record = w.record(n).unwrap();
    (record.run.unwrap().gang_try, record.attempts)
}

#[test]
fn a_member_that_fails_takes_its_whole_gang_to_the_next_try() {
    let mut w = running(OnMemberFailure::Gang);
    assert_eq!(counted(&w, 0), (1, 0));
    fail(&mut w, "main", 0, 1);
    w.run(seconds(10));
    let mut kills = w.kills();
    kills.sort();
    assert_eq!(kills, tries(1)[1..]);
    assert_eq!(live(&w), tries(2));
    assert_eq!((counted(&w, 0), counted(&w, 1)), ((2, 1), (2, 0)));
}

#[test]
fn failures_of_one_try_count_once_and_who_fails_in_the_last_try_has_failed() {
    let mut w = running(OnMemberFailure::Gang);
    fail(&mut w, "main", 0, 1);
    fail(&mut w, "main", 1, 1);
    w.run(seconds(10));
    assert_eq!(live(&w), tries(2));
    assert_eq!((counted(&w, 0), counted(&w, 1)), ((2, 1), (2, 1)));
    fail(&mut w, "main", 1, 2);
    w.run(seconds(15));
    assert_eq!(live(&w), tries(3), "two failures are forgiven");
    fail(&mut w, "main", 0, 3);
    w.run(seconds(60));
    assert_eq!(w.record(0).unwrap().ended, Some(Ended::Failed));
    assert_eq!(live(&w), tries(3)[1..], "the resource manager ends the job");
    fail(&mut w, "ps", 0, 3);
    w.run(seconds(60));
    assert!(!live(&w).contains(&task("ps", 0, 4)), "it cannot be whole again");
}

#[test]
fn where_the_first_failure_ends_the_job_nobody_is_tried_again() {
    let mut w = running(OnMemberFailure::Job);
    fail(&mut w, "main", 1, 1);
    w.run(seconds(60));
    assert_eq!(w.record(1).unwrap().ended, Some(Ended::Failed));
    assert_eq!(live(&w), [task("main", 0, 1), task("ps", 0, 1)]);
}

#[test]
fn a_member_that_is_lost_takes_all_along_and_uses_up_no_try() {
    for on_failure in [OnMemberFailure::Gang, OnMemberFailure::Job] {
        let mut w = running(on_failure);
        w.cluster.set(&task("ps", 0, 1), TaskState::Gone);
        w.run(seconds(10));
        let mut kills = w.kills();
        kills.sort();
        assert_eq!(kills, tries(1)[..2]);
        assert_eq!(live(&w), tries(2), "{on_failure}");
        assert_eq!(counted(&w, 0), (1, 0));
    }
}

#[test]
fn nobody_begins_before_all_others_are_dead() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.lingers = true;
    fail(&mut w, "main", 0, 1);
    w.run(seconds(40));
    assert_eq!(live(&w), tries(1)[1..]);
    let run = w.record(1).unwrap().run.unwrap();
    assert_eq!(
        (run.state, run.stopping.unwrap().reason.code),
        (RunState::Stopping, ReasonCode::GangRestart)
    );
    w.cluster.set(&task("main", 1, 1), TaskState::Killed);
    w.run(seconds(10));
    assert_eq!(live(&w), [task("ps", 0, 1)]);
    w.cluster.set(&task("ps", 0, 1), TaskState::Killed);
    w.run(seconds(10));
    assert_eq!(live(&w), tries(2));
}

#[test]
fn a_new_leader_ends_what_the_old_one_began_and_does_it_once() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.lingers = true;
    fail(&mut w, "main", 0, 1);
    w.run(seconds(5));
    w.cluster.set(&task("main", 1, 1), TaskState::Killed);
    w.crash();
    w.restart();
    w.run(seconds(10));
    assert_eq!(live(&w), [task("ps", 0, 1)], "one of them has not ended");
    w.cluster.lingers = false;
    w.cluster.set(&task("ps", 0, 1), TaskState::Killed);
    w.run(seconds(60));
    assert_eq!(
        live(&w),
        tries(2),
        "what follows an ended run needs no resource manager"
    );
    assert_eq!((counted(&w, 0), counted(&w, 1)), ((2, 1), (2, 0)));
}

#[test]
fn a_gang_that_finds_no_room_together_again_gives_back_what_it_was_granted() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.hosts.values_mut().for_each(|room| room.cpus = 2_000);
    fail(&mut w, "main", 0, 1);
    w.run(seconds(15));
    assert_eq!(live(&w), Vec::<String>::new());
    assert_eq!(w.slice(1).unwrap().active, 2, "it may still find room");
    w.run(seconds(40));
    let active: Vec<u64> = ["main", "ps"].iter().map(|g| active(&w, g)).collect();
    assert_eq!(active, [0, 0]);
    assert_eq!(w.record(0).unwrap().attempts, 1, "its failure still counts");
    w.cluster.hosts.values_mut().for_each(|room| room.cpus = 4_000);
    grant(&mut w);
    w.run(seconds(10));
    assert_eq!(live(&w), tries(2));
    assert_eq!(counted(&w, 1), (2, 0));
}

/// How many of a group are active, as told last.
fn active(w: &World, group: &str) -> u64 {
    let mut slices = w.reports.iter().rev().filter_map(|r| match &r.part {
        echelon_core_model::directive::ReportPart::Slices(slices) => {
            slices.iter().rfind(|s| s.group.as_str() == group)
        }
        _ => None,
    });
    slices.next().unwrap().active
}

#[test]
fn where_members_are_tried_by_themselves_what_has_succeeded_is_not_begun_again() {
    let mut w = running(OnMemberFailure::Member);
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    fail(&mut w, "main", 1, 1);
    w.run(seconds(10));
    assert_eq!(live(&w), [task("main", 1, 2), task("ps", 0, 1)]);
    assert_eq!(w.record(0).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn what_has_succeeded_begins_again_with_its_gang() {
    for (on_failure, end) in [
        (OnMemberFailure::Gang, TaskState::Failed),
        (OnMemberFailure::Gang, TaskState::Gone),
        (OnMemberFailure::Job, TaskState::Gone),
    ] {
        let mut w = running(on_failure);
        w.cluster.set(&task("main", 0, 1), TaskState::Finished);
        w.run(seconds(10));
        assert_eq!(w.record(0).unwrap().ended, Some(Ended::Succeeded));
        w.cluster.set(&task("main", 1, 1), end);
        w.run(seconds(10));
        assert_eq!(live(&w), tries(2), "{on_failure}, {end:?}");
        assert_eq!(
            (w.record(0).unwrap().ended, w.record(0).unwrap().attempts),
            (None, 0)
        );
        for n in [0, 1] {
            w.cluster.set(&task("main", n, 2), TaskState::Finished);
        }
        w.run(seconds(10));
        assert_eq!(live(&w), [task("ps", 0, 2)], "{on_failure}, {end:?}");
    }
}

#[test]
fn what_has_succeeded_begins_again_only_when_it_is_granted_anew() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    w.order(&[range(0, 1)], 1);
    w.run(seconds(1));
    fail(&mut w, "main", 1, 1);
    w.run(seconds(15));
    assert_eq!(
        live(&w),
        Vec::<String>::new(),
        "the rest does not begin without it"
    );
    w.order(&[range(0, 1)], 2);
    w.run(seconds(10));
    assert_eq!(live(&w), tries(2));
}

#[test]
fn nobody_begins_again_where_enough_have_succeeded_or_one_has_failed_for_good() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.cluster.set(&task("ps", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    assert_eq!(live(&w), [task("main", 1, 1)]);
    w.cluster.set(&task("main", 1, 1), TaskState::Finished);
    w.run(seconds(30));
    assert_eq!(live(&w), Vec::<String>::new());

    let mut w = running(OnMemberFailure::Job);
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    fail(&mut w, "main", 1, 1);
    w.run(seconds(30));
    assert_eq!(live(&w), [task("ps", 0, 1)], "the resource manager ends the job");
    assert_eq!(w.record(0).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn a_new_leader_begins_again_what_had_succeeded_and_does_it_once() {
    let mut w = running(OnMemberFailure::Gang);
    w.cluster.lingers = true;
    w.cluster.set(&task("main", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    fail(&mut w, "main", 1, 1);
    w.run(seconds(5));
    w.crash();
    w.restart();
    w.run(seconds(10));
    assert_eq!(live(&w), [task("ps", 0, 1)], "one of them has not ended");
    w.cluster.lingers = false;
    // That it succeeds while it is being stopped changes nothing.
    w.cluster.set(&task("ps", 0, 1), TaskState::Finished);
    w.run(seconds(10));
    assert_eq!(live(&w), Vec::<String>::new());
    w.connect();
    grant(&mut w);
    w.run(seconds(10));
    assert_eq!(live(&w), tries(2));
    assert_eq!((counted(&w, 0), counted(&w, 1)), ((2, 0), (2, 1)));
}
