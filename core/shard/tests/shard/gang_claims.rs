//! Claims and gangs: room is made for all of a gang, or nobody is stopped.

use crate::cluster::Cluster;
use crate::world::{World, job, range, seconds};
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
        pool: "/owner".to_owned(),
        most,
        victims: victims.collect(),
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
