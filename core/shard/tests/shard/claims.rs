//! Claims: room is made on real hosts once, by stopping no more than is needed, and held for the claimant alone. All groups are of
//! one job here; the shard does not ask whose they are.

use crate::cluster::Cluster;
use crate::daemons::{on_hosts, start_batch};
use crate::world::{Storage, World, c1, job, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart, ClaimReport, Quota, Victim};
use echelon_core_model::control::Control;
use echelon_core_model::directive::{Directive, Order, ReportPart};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Decision, Op};
use echelon_core_model::{
    AssignedRange, Epoch, Generation, GroupName, JobId, ReasonCode, RunState, Span, Version,
};
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, main_group, shape};

fn group(name: &str) -> GroupName {
    GroupName::new(name)
}

/// With two more groups: `large`, one instance of two cores, and `small`, of one.
fn with_groups(job: JobBuilder) -> JobSpec {
    let mut spec = job.shape(shape(1, 64)).build();
    for (name, cores) in [("large", 2), ("small", 1)] {
        let mut of = spec.groups[0].clone();
        of.name = group(name);
        of.instances = 1;
        of.resources = shape(cores, 64);
        spec.groups.push(of);
    }
    spec
}

/// A host of four cores, all of them in use by the first group.
fn full(job: JobBuilder) -> World {
    full_of(&with_groups(job))
}

fn full_of(spec: &JobSpec) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(1, shape(4, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(spec);
    w.order(&[range(0, 3)], 4);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 4);
    for name in ["large", "small"] {
        order(&mut w, name, 0);
    }
    w
}

fn order(w: &mut World, name: &str, active: u64) {
    let mut order = w.slice_order(&[range(0, 0)], &[(1, active)], 1);
    order.group = group(name);
    w.direct(Order::Slices(vec![order]));
}

fn claim(number: u64) -> Claim {
    claim_of("large", number)
}

/// A claim of a group for one instance.
fn claim_of(name: &str, number: u64) -> Claim {
    Claim {
        id: ClaimId {
            epoch: Epoch(1),
            number,
        },
        job: job(),
        parts: vec![ClaimPart {
            group: group(name),
            generation: Generation(1),
            count: 1,
        }],
        waits: c1(),
        pool: "/owner".to_owned(),
        most: 4,
        victims: vec![Victim {
            job: job(),
            group: main_group(),
            generation: Generation(1),
            most: 4,
            class: 0,
        }],
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

/// For how many instances room is held.
fn open(w: &World) -> u64 {
    told(w)[0].open.iter().map(|p| p.count).sum()
}

fn runs(w: &World, name: &str) -> bool {
    let part = format!(".{name}.");
    w.cluster.live().iter().any(|task| task.contains(&part))
}

#[test]
fn room_is_made_once_with_as_few_as_are_needed() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    assert_eq!(w.kills().len(), 2);
    assert_eq!((open(&w), told(&w)[0].taken), (1, 2));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.own.preempted, slice.preempting), (2, 2, 0));
    let gone = (0..4).filter(|n| w.state(*n) != RunState::Running);
    for n in gone {
        let run = w.record(n).unwrap().run.unwrap();
        assert_eq!(run.reason.code, ReasonCode::PoolPreempted);
        assert_eq!(run.stopping.unwrap().reason.detail.as_deref(), Some("/owner"));
    }
    // Neither the claim nor the grant of the old size, told again, changes anything.
    claims(&mut w, &[claim(1)]);
    w.order(&[range(0, 3)], 4);
    w.run(seconds(10));
    assert_eq!((w.kills().len(), w.slice(1).unwrap().active), (2, 2));
    order(&mut w, "large", 1);
    w.run(seconds(10));
    assert!(runs(&w, "large"));
    assert_eq!(open(&w), 0, "its room is used");
}

#[test]
fn a_grant_that_counts_what_was_taken_brings_it_back() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    claims(&mut w, &[]);
    let mut order = w.slice_order(&[range(0, 3)], &[(1, 4)], 1);
    order.grants[0].1.known.preempted = 2;
    w.direct(Order::Slices(vec![order]));
    w.run(seconds(10));
    assert_eq!(w.slice(1).unwrap().active, 4);
}

/// As the resource manager repeats one that was answered.
fn repeated(claim: Claim) -> Claim {
    Claim {
        most: 0,
        victims: Vec::new(),
        ..claim
    }
}

#[test]
fn a_claim_that_is_repeated_without_victims_keeps_its_room_and_takes_nobody() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    assert_eq!((w.kills().len(), open(&w)), (2, 1));
    for _ in 0..3 {
        w.run(seconds(40));
        claims(&mut w, &[repeated(claim(1))]);
        assert_eq!((w.kills().len(), open(&w)), (2, 1), "its lease began again");
    }
    order(&mut w, "large", 1);
    w.run(seconds(3));
    assert!(runs(&w, "large"));
}

#[test]
fn a_claim_that_is_first_heard_without_victims_takes_nobody() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[repeated(claim(1))]);
    assert_eq!((w.kills().len(), open(&w), told(&w)[0].taken), (0, 0, 0));
}

#[test]
fn held_room_is_for_nobody_else_until_it_is_let_go() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    order(&mut w, "small", 1);
    w.run(seconds(10));
    assert!(!runs(&w, "small"));
    claims(&mut w, &[]);
    w.run(seconds(10));
    assert!(runs(&w, "small"));
}

#[test]
fn room_that_is_held_for_work_with_rules_about_runs_is_used_by_nothing_that_asks_with_it() {
    let mut spec = with_groups(JobBuilder::batch("b", 4));
    spec.groups[1].siting.max_per.insert("host".to_owned(), 1);
    let mut w = full_of(&spec);
    claims(&mut w, &[claim(1)]);
    assert_eq!((w.kills().len(), open(&w)), (2, 1));
    // It comes before the other one, and finds nothing.
    let crunch = JobId(201);
    start_batch(&mut w, crunch, 20);
    order(&mut w, "large", 1);
    w.run(seconds(10));
    assert!(runs(&w, "large"));
    assert!(on_hosts(&w, crunch).is_empty());
}

#[test]
fn room_whose_lease_has_ended_is_free() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    order(&mut w, "small", 1);
    w.run(seconds(25));
    order(&mut w, "small", 1);
    w.run(seconds(25));
    assert!(!runs(&w, "small"));
    order(&mut w, "small", 1);
    w.run(seconds(20));
    assert!(runs(&w, "small"));
    assert_eq!(told(&w), []);
}

#[test]
fn services_lose_no_more_at_once_than_may_be_unavailable() {
    let mut w = full(JobBuilder::service("s", 4));
    claims(&mut w, &[claim(1)]);
    assert_eq!((w.kills().len(), open(&w)), (0, 0), "one is not enough");
    let small = claim_of("small", 2);
    claims(&mut w, std::slice::from_ref(&small));
    assert_eq!((w.kills().len(), open(&w)), (1, 1));
    // It is gone for good, and not unavailable any more.
    w.run(seconds(15));
    claims(&mut w, &[small, claim(3)]);
    assert_eq!(w.kills().len(), 1, "two at once are still too many");
}

fn kills_off(w: &mut World) {
    let control = Control {
        version: Version(1),
        kills_off: true,
        ..Control::default()
    };
    let expected = Version(0);
    w.store
        .perform(Op::Decide(Decision::PutControl { control, expected }));
    w.direct(Order::Kills {
        version: Version(1),
        off: true,
    });
}

#[test]
fn nobody_is_taken_while_kills_are_off() {
    let mut w = full(JobBuilder::batch("b", 4));
    kills_off(&mut w);
    claims(&mut w, &[claim(1)]);
    assert_eq!((w.kills().len(), open(&w)), (0, 0));
    assert_eq!(w.slice(1).unwrap().own.preempted, 0);
}

#[test]
fn a_new_leader_finds_the_room_that_was_made() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    assert_eq!(w.kills().len(), 2);
    w.restart();
    w.connect();
    let mut counted = w.slice_order(&[range(0, 3)], &[(1, 2)], 1);
    counted.grants[0].1.known.preempted = 2;
    w.direct(Order::Slices(vec![counted]));
    order(&mut w, "large", 0);
    w.run(seconds(5));
    claims(&mut w, &[claim(1)]);
    w.run(Span::seconds(5));
    assert_eq!(w.kills().len(), 2, "nobody is stopped for it twice");
    assert_eq!(open(&w), 1);
    assert_eq!(w.slice(1).unwrap().own.preempted, 2);
}

#[test]
fn a_claim_of_nobody_known_holds_nothing() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim_of("other", 1)]);
    assert_eq!((w.kills().len(), open(&w)), (0, 0));
}

/// A claim of so many units of two cores of a pool that leaves one core, for somebody who is not known here.
fn in_a_pool(number: u64, count: u64) -> Claim {
    Claim {
        quota: Some(Quota {
            left: shape(1, 0),
            unit: shape(2, 64),
            count,
        }),
        ..claim_of("other", number)
    }
}

#[test]
fn for_room_in_a_pool_as_few_are_stopped_as_leave_whole_units_of_it_and_no_host_is_held() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[in_a_pool(1, 3)]);
    // One leaves the first unit, two more the second; of the third there would be a half.
    assert_eq!((w.kills().len(), told(&w)[0].taken, open(&w)), (3, 3, 0));
    assert_eq!(w.slice(1).unwrap().own.preempted, 3);
    claims(&mut w, &[in_a_pool(1, 3)]);
    assert_eq!(w.kills().len(), 3, "told again it takes no more");
    order(&mut w, "small", 1);
    w.run(seconds(10));
    assert!(runs(&w, "small"), "the hosts are for everybody");
}

#[test]
fn for_room_in_a_pool_services_lose_no_more_at_once_than_may_be_unavailable() {
    let mut w = full(JobBuilder::service("s", 4));
    claims(&mut w, &[in_a_pool(1, 2)]);
    assert_eq!(w.kills().len(), 1);
}

#[test]
fn nobody_is_taken_for_room_in_a_pool_while_kills_are_off() {
    let mut w = full(JobBuilder::batch("b", 4));
    kills_off(&mut w);
    claims(&mut w, &[in_a_pool(1, 2)]);
    assert_eq!((w.kills().len(), told(&w)[0].taken), (0, 0));
}

#[test]
fn who_is_granted_and_found_no_host_begins_in_the_room_that_is_made_for_it() {
    let mut w = full(JobBuilder::batch("b", 4));
    order(&mut w, "large", 1);
    w.run(seconds(10));
    assert!(!runs(&w, "large"));
    claims(&mut w, &[claim(1)]);
    assert_eq!((w.kills().len(), open(&w)), (2, 1));
    w.run(seconds(10));
    assert!(runs(&w, "large"));
    assert_eq!(open(&w), 0);
}

#[test]
fn the_instance_that_began_last_is_stopped_first() {
    let mut w = full(JobBuilder::service("s", 4));
    w.cluster.set(&task(2, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    assert_eq!(w.state(2), RunState::Running);
    claims(&mut w, &[claim_of("small", 1)]);
    assert_eq!(w.kills(), [task(2, 1, 2)]);
}

#[test]
fn a_claim_that_is_told_again_keeps_its_room_for_another_lease() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1)]);
    w.run(seconds(40));
    claims(&mut w, &[claim(1)]);
    order(&mut w, "small", 1);
    w.run(seconds(25));
    assert!(!runs(&w, "small"));
    assert_eq!(open(&w), 1);
}

#[test]
fn room_that_is_held_for_one_claim_is_not_counted_for_another() {
    let mut w = full(JobBuilder::batch("b", 4));
    claims(&mut w, &[claim(1), claim_of("small", 2)]);
    assert_eq!(w.kills().len(), 3);
    let open: Vec<u64> = told(&w).iter().map(|c| c.open[0].count).collect();
    assert_eq!(open, [1, 1]);
}

#[test]
fn a_run_that_is_being_stopped_is_no_victim_of_another_claim() {
    let mut w = full(JobBuilder::batch("b", 4));
    // The first two are not killed before their stop is stored.
    w.storage = Storage::StallsCommits;
    claims(&mut w, &[claim(1)]);
    claims(&mut w, &[claim(1), claim(2)]);
    assert_eq!(w.kills().len(), 0);
    w.unstall();
    w.run(seconds(2));
    let taken: Vec<u64> = told(&w).iter().map(|c| c.taken).collect();
    assert_eq!((w.kills().len(), taken), (4, vec![2, 2]));
    assert_eq!(w.slice(1).unwrap().own.preempted, 4);
}

#[test]
fn nobody_is_stopped_for_a_claim_of_a_deposed_resource_manager() {
    let mut w = full(JobBuilder::batch("b", 4));
    let (of_old, epoch) = (w.link, w.rm);
    w.rm = Epoch(5);
    w.direct(Order::Report);
    w.run(seconds(1));
    let late = Directive {
        epoch,
        sequence: 1_000,
        order: Order::Claims {
            claims: vec![claim(1)],
            lease: seconds(60),
        },
    };
    w.step(Event::Directive(of_old, late));
    w.run(seconds(2));
    assert_eq!(w.kills().len(), 0);
}

#[test]
fn slices_of_one_group_lose_together_no_more_than_may_be_unavailable() {
    let mut w = World::new();
    w.cluster = Cluster::of(1, shape(4, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&with_groups(JobBuilder::service("s", 4)));
    let second = AssignedRange {
        generation: Generation(2),
        ..range(2, 3)
    };
    w.order_at(&[range(0, 1), second], &[(1, 2), (2, 2)]);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 4);
    order(&mut w, "large", 0);
    let mut both = claim(1);
    both.victims.push(Victim {
        generation: Generation(2),
        ..both.victims[0].clone()
    });
    claims(&mut w, &[both]);
    assert_eq!((w.kills().len(), open(&w)), (0, 0), "two would be too many");
}

/// A request that stops nothing: the capacity of one host is kept.
fn keeping(number: u64) -> Claim {
    Claim {
        keeps_host: true,
        ..repeated(claim(number))
    }
}

/// Two hosts of four cores, all of them in use by one-core batch instances, of which more wait with a grant.
/// A large instance is granted, too, and finds no host.
fn two_full_hosts(job: JobBuilder) -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(2, shape(4, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&with_groups(job));
    w.order(&[range(0, 19)], 8);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 8);
    order(&mut w, "small", 0);
    order(&mut w, "large", 1);
    w.run(seconds(5));
    assert!(!runs(&w, "large"));
    w
}

/// The first live instance of the main group ends, on one host or on any.
fn end_one(w: &mut World, host: Option<&str>) {
    let on = |n: &u32| {
        let run = w.record(*n).and_then(|record| record.run);
        run.is_some_and(|run| {
            run.state == RunState::Running && host.is_none_or(|host| run.host.as_str() == host)
        })
    };
    let n = (0..20).find(on).unwrap();
    w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    w.run(seconds(3));
}

#[test]
fn the_capacity_of_one_host_is_kept_as_work_on_it_ends() {
    let mut w = two_full_hosts(JobBuilder::batch("b", 20));
    claims(&mut w, &[keeping(1)]);
    assert_eq!((w.kills().len(), open(&w), told(&w)[0].taken), (0, 1, 0));
    // What ends on the kept host is not replaced there; what ends on the other one is.
    end_one(&mut w, Some("host-0"));
    assert_eq!(w.cluster.live().len(), 7);
    end_one(&mut w, Some("host-1"));
    assert_eq!((w.cluster.live().len(), runs(&w, "large")), (7, false));
    end_one(&mut w, Some("host-0"));
    w.run(seconds(5));
    assert!(runs(&w, "large"));
    assert_eq!((w.kills().len(), open(&w)), (0, 0));
    // Nothing is kept any more: the others go on.
    end_one(&mut w, Some("host-0"));
    assert_eq!(w.cluster.live().len(), 7);
}

#[test]
fn without_a_request_the_large_instance_waits_behind_those_that_are_replaced() {
    let mut w = two_full_hosts(JobBuilder::batch("b", 20));
    for _ in 0..6 {
        end_one(&mut w, None);
        assert_eq!(w.cluster.live().len(), 8);
    }
    assert!(!runs(&w, "large"));
}

#[test]
fn nothing_is_kept_when_the_request_is_over() {
    let mut w = two_full_hosts(JobBuilder::batch("b", 20));
    let mut of_small = keeping(1);
    of_small.parts[0].group = group("small");
    claims(&mut w, &[of_small, keeping(2)]);
    let held: Vec<bool> = told(&w).iter().map(ClaimReport::holds_room).collect();
    assert_eq!(held, [true, true]);
    claims(&mut w, &[]);
    end_one(&mut w, None);
    end_one(&mut w, None);
    assert_eq!((w.cluster.live().len(), runs(&w, "large")), (8, false));
}

#[test]
fn no_host_is_kept_that_is_too_small() {
    let mut w = World::new();
    w.cluster = Cluster::of(4, shape(1, 4096));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&with_groups(JobBuilder::batch("b", 20)));
    w.order(&[range(0, 19)], 4);
    order(&mut w, "large", 1);
    w.run(seconds(5));
    claims(&mut w, &[keeping(1)]);
    assert_eq!((open(&w), w.cluster.live().len()), (0, 4));
}
