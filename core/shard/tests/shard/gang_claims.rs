//! Claims and gangs: room is made for all of a gang, or nobody is stopped; and all of one is stopped, or nothing of it.

use crate::cluster::Cluster;
use crate::world::{World, c1, job, range, seconds};
use echelon_core_hosts::TaskState;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Victim};
use echelon_core_model::directive::{Order, ReportPart, SliceOrder};
use echelon_core_model::job::Goal;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{Epoch, Generation, GroupName, HostId, JobId, RunState, Version};
use echelon_core_testkit::build::{JobBuilder, main_group, shape};

/// A job beside the usual one.
fn other() -> JobId {
    JobId(job().0 + 1)
}

/// Two instances of `main` of one core and one of `ps` of two.
fn gang() -> JobSpec {
    let builder = JobBuilder::batch("train", 2).shape(shape(1, 64));
    builder.with_group("ps", 1, shape(2, 64)).gang().build()
}

fn batch() -> JobSpec {
    JobBuilder::batch("fill", 8).shape(shape(1, 64)).build()
}

fn order_of(w: &mut World, job: JobId, group: &str, last: u32, active: u64) {
    let order = w.slice_order(&[range(0, last)], &[(1, active)], 1);
    let order = SliceOrder {
        job,
        group: GroupName::new(group),
        head_version: Version(1),
        spec_version: 1,
        ..order
    };
    w.direct(Order::Slices(vec![order]));
}

/// Two hosts of four cores, all of them in use by the first; nothing of the second is granted.
fn full(first: (JobId, &JobSpec), second: (JobId, &JobSpec)) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(2, shape(4, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    for (job, spec) in [first, second] {
        w.store_head_of(job, spec, Goal::default());
    }
    for ((job, spec), granted) in [(first, true), (second, false)] {
        grant(&mut w, (job, spec), granted);
        w.run(seconds(3));
    }
    w
}

/// Grants all of a job, or nothing.
fn grant(w: &mut World, (job, spec): (JobId, &JobSpec), granted: bool) {
    for group in &spec.groups {
        let active = if granted { u64::from(group.instances) } else { 0 };
        order_of(w, job, group.name.as_str(), group.instances - 1, active);
    }
}

fn claim(number: u64, of: (JobId, &JobSpec), most: u64, victims: (JobId, &JobSpec)) -> Claim {
    let parts = of.1.groups.iter().map(|g| ClaimPart {
        group: g.name.clone(),
        generation: Generation(1),
        count: u64::from(g.instances),
    });
    let victims = victims.1.groups.iter().map(|g| Victim {
        job: victims.0,
        group: g.name.clone(),
        generation: Generation(1),
        most: u64::from(g.instances),
        class: 0,
    });
    Claim {
        id: ClaimId {
            epoch: Epoch(1),
            number,
        },
        job: of.0,
        parts: parts.collect(),
        waits: c1(),
        pool: "/owner".to_owned(),
        most,
        victims: victims.collect(),
        quota: None,
        keeps_host: false,
    }
}

fn claims(w: &mut World, claims: &[Claim]) {
    w.direct(Order::Claims {
        claims: claims.to_vec(),
        lease: seconds(60),
    });
    w.run(seconds(1));
}

/// What was told last of claims.
fn told(w: &World) -> Vec<ClaimReport> {
    let claims = w.reports.iter().rev().find_map(|r| match &r.part {
        ReportPart::Claims(claims) => Some(claims.clone()),
        _ => None,
    });
    claims.unwrap_or_default()
}

/// For how many of each group of the first claim room is held.
fn open(w: &World) -> Vec<u64> {
    told(w)[0].open.iter().map(|p| p.count).collect()
}

fn live(w: &World, job: JobId) -> usize {
    let of_job = format!("{job}.");
    w.cluster.live().iter().filter(|t| t.starts_with(&of_job)).count()
}

/// Ordinary work has all room, and a gang is to get some.
fn full_of_batch() -> World {
    let w = full((other(), &batch()), (job(), &gang()));
    assert_eq!((live(&w, other()), live(&w, job())), (8, 0));
    w
}

fn for_the_gang(number: u64, most: u64) -> Claim {
    claim(number, (job(), &gang()), most, (other(), &batch()))
}

#[test]
fn room_is_made_for_all_of_a_gang_with_as_few_as_are_needed() {
    let mut w = full_of_batch();
    claims(&mut w, &[for_the_gang(1, 8)]);
    assert_eq!((w.kills().len(), open(&w), told(&w)[0].taken), (4, vec![2, 1], 4));
    // While a part of it may not begin nothing does, there or elsewhere.
    order_of(&mut w, job(), "main", 1, 2);
    w.run(seconds(5));
    assert_eq!((live(&w, other()), live(&w, job())), (4, 0));
    order_of(&mut w, job(), "ps", 0, 1);
    w.run(seconds(5));
    assert_eq!((live(&w, other()), live(&w, job())), (4, 3));
    assert_eq!((open(&w), w.kills().len()), (vec![0, 0], 4));
}

#[test]
fn nobody_is_stopped_for_a_part_of_a_gang() {
    let mut w = full_of_batch();
    claims(&mut w, &[for_the_gang(1, 3)]);
    assert_eq!((w.kills().len(), open(&w)), (0, vec![0, 0]), "four are needed");
    let mut claim = for_the_gang(2, 8);
    claim.parts[1].count = 2;
    claims(&mut w, &[claim]);
    assert_eq!((w.kills().len(), open(&w)), (0, vec![0, 0]), "there is one alone");
    claims(&mut w, &[for_the_gang(3, 4)]);
    assert_eq!((w.kills().len(), open(&w)), (4, vec![2, 1]));
}

#[test]
fn nobody_is_stopped_for_a_part_of_a_gang_of_one_group() {
    let three = JobBuilder::batch("train", 3).shape(shape(1, 64)).gang().build();
    let mut w = full((other(), &batch()), (job(), &three));
    claims(&mut w, &[claim(1, (job(), &three), 2, (other(), &batch()))]);
    assert_eq!((w.kills().len(), open(&w)), (0, vec![0]));
}

#[test]
fn room_for_a_gang_is_for_nobody_else_while_a_part_of_it_is_still_in_use() {
    let mut w = full_of_batch();
    w.cluster.lingers = true;
    claims(&mut w, &[for_the_gang(1, 8)]);
    let stopped = w.kills();
    assert_eq!(stopped.len(), 4);
    grant(&mut w, (job(), &gang()), true);
    for task in &stopped[..3] {
        w.cluster.set(task, TaskState::Killed);
    }
    // Whose grant has room for more gets none of what is held.
    order_of(&mut w, other(), main_group().as_str(), 7, 12);
    w.run(seconds(10));
    assert_eq!((live(&w, other()), live(&w, job())), (5, 0));
    assert_eq!(open(&w), [2, 1]);
    w.cluster.set(&stopped[3], TaskState::Killed);
    w.run(seconds(5));
    assert_eq!((live(&w, other()), live(&w, job())), (4, 3));
}

#[test]
fn a_gang_begins_elsewhere_when_there_is_room_before_what_is_held_is_free() {
    let mut w = full_of_batch();
    w.cluster.lingers = true;
    claims(&mut w, &[for_the_gang(1, 8)]);
    grant(&mut w, (job(), &gang()), true);
    w.cluster.hosts.insert(HostId::new("more"), shape(4, 4096));
    w.run(seconds(5));
    assert_eq!(live(&w, job()), 3);
    let states: Vec<RunState> = w.states(2);
    assert_eq!(states, [RunState::Running, RunState::Running]);
}

/// A job of one instance of two cores.
fn small() -> JobSpec {
    JobBuilder::batch("small", 1).shape(shape(2, 64)).build()
}

fn third() -> JobId {
    JobId(job().0 + 2)
}

/// Four instances of `main` of one core and two of `ps` of two.
fn large_gang() -> JobSpec {
    let builder = JobBuilder::batch("train", 4).shape(shape(1, 64));
    builder.with_group("ps", 2, shape(2, 64)).gang().build()
}

/// A gang has all room, and another job is to get some.
fn full_of_a_gang() -> World {
    let w = full((job(), &large_gang()), (third(), &small()));
    assert_eq!((live(&w, job()), live(&w, third())), (6, 0));
    w
}

fn of_the_gang(number: u64) -> Claim {
    claim(number, (third(), &small()), 6, (job(), &large_gang()))
}

#[test]
fn all_of_a_gang_is_stopped() {
    let mut w = full_of_a_gang();
    claims(&mut w, &[of_the_gang(1)]);
    assert_eq!((w.kills().len(), open(&w), told(&w)[0].taken), (6, vec![1], 6));
    grant(&mut w, (third(), &small()), true);
    w.run(seconds(10));
    assert_eq!((live(&w, job()), live(&w, third())), (0, 1));
    // The grants of the old size, told again, begin nothing of it.
    grant(&mut w, (job(), &large_gang()), true);
    w.run(seconds(10));
    assert_eq!(live(&w, job()), 0);
}

#[test]
fn nothing_of_a_gang_is_stopped_that_is_not_offered_whole() {
    let mut w = full_of_a_gang();
    let mut fewer = of_the_gang(1);
    fewer.most = 5;
    let mut a_group = of_the_gang(2);
    a_group.victims.truncate(1);
    let mut less = of_the_gang(3);
    less.victims[0].most = 3;
    for claim in [fewer, a_group, less] {
        claims(&mut w, &[claim]);
        assert_eq!((w.kills().len(), open(&w)), (0, vec![0]));
    }
}

#[test]
fn nothing_of_a_gang_is_stopped_while_a_part_of_it_does_not_run() {
    let mut w = full_of_a_gang();
    let member = format!("{}.main.0.1.1", job());
    w.cluster.hosts.values_mut().for_each(|room| room.cpus = 0);
    w.cluster.set(&member, TaskState::Failed);
    w.run(seconds(1));
    claims(&mut w, &[of_the_gang(1)]);
    assert_eq!((w.kills().len(), open(&w)), (0, vec![0]));
}

/// Half of all room is a gang's and half are single instances'.
fn shared() -> World {
    let four = JobBuilder::batch("fill", 4).shape(shape(1, 64)).build();
    let mut w = full((other(), &four), (third(), &small()));
    w.store_head_of(job(), &gang(), Goal::default());
    grant(&mut w, (job(), &gang()), true);
    w.run(seconds(5));
    assert_eq!((live(&w, other()), live(&w, job())), (4, 3));
    w
}

/// Single ones, of which so many may go, and the gang.
fn of_both(number: u64, single: u64) -> Claim {
    let mut claim = claim(number, (third(), &small()), 8, (job(), &gang()));
    claim.victims.iter_mut().for_each(|v| v.class = 1);
    claim.victims.push(Victim {
        job: other(),
        group: main_group(),
        generation: Generation(1),
        most: single,
        class: 0,
    });
    claim
}

#[test]
fn single_ones_are_stopped_rather_than_a_gang() {
    let mut w = shared();
    claims(&mut w, &[of_both(1, 4)]);
    assert_eq!((w.kills().len(), open(&w)), (2, vec![1]));
    assert_eq!((live(&w, other()), live(&w, job())), (2, 3));
}

#[test]
fn a_gang_is_stopped_where_single_ones_do_not_suffice_and_these_are_spared() {
    let mut w = shared();
    claims(&mut w, &[of_both(1, 1)]);
    assert_eq!((w.kills().len(), open(&w)), (3, vec![1]));
    assert_eq!((live(&w, other()), live(&w, job())), (4, 0));
}
