//! Which instances a preemption request may name: only preemptible ones, only what all pools up to the claimant's have beyond their
//! entitlement, and each instance for one request.

use crate::event::Event;
use crate::preemption::requests::OpenRequest;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::claim::{Claim, ClaimId, ClaimPart};
use echelon_core_model::{Amount, ClusterId, Epoch, Generation, JobId, Resources, Span};
use echelon_core_testkit::build::{main_group, shape};

/// Clusters with pools that have no limit.
fn pools(clusters: &[(&str, u64)], paths: &[&str]) -> Case {
    let mut case = Case::with(clusters);
    for path in paths {
        case.set_pool(path, 1_000_000);
    }
    case.run_for(Span::seconds(6));
    case
}

fn active<const N: usize>(case: &Case, jobs: [JobId; N]) -> [usize; N] {
    jobs.map(|job| case.total_active(job))
}

/// How many instances were ever preempted.
fn preempted(case: &Case) -> u64 {
    let slices = case.shards.values().flat_map(|s| s.slices.values());
    slices.map(|s| s.own.preempted).sum()
}

#[test]
fn what_is_not_preemptible_is_never_a_victim_whatever_its_priority() {
    let mut case = pools(&[("a", 10)], &["/x", "/y"]);
    case.change_pool("/x", |p| {
        p.reservation = Resources {
            cpus: 3_000,
            memory: 1 << 20,
            ..Resources::ZERO
        };
    });
    case.run_for(Span::seconds(6));
    // The first pool is entitled to its reservation and to half of the rest: 6.5 of 10 cores. By priority, and as the youngest,
    // what is not preemptible would go first.
    let other = case.job(1, batch(7).pool("/x").priority(9));
    let firm = case.job(2, batch(3).pool("/x").not_preemptible());
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, [other, firm]), [7, 3]);
    let y = case.job(3, batch(20).pool("/y"));
    case.run_for(Span::minutes(3));
    assert_eq!(active(&case, [other, firm, y]), [4, 3, 3]);
    assert_eq!(preempted(&case), 3);
}

#[test]
fn a_pool_above_the_victim_that_has_no_more_than_its_entitlement_protects_it() {
    let mut case = pools(&[("a", 10), ("b", 5)], &["/t", "/t/x", "/t/z", "/u", "/y"]);
    case.change_pool("/t/z", |p| p.limit.cpus = 2_500);
    case.run_for(Span::seconds(6));
    // Of 15 cores three pools are entitled to 5 each. The one below the first has all 5 of that pool, and 2.5 are its own: the
    // other one below it waits for an instance that is larger than its limit.
    let x = case.job(1, batch(5).pool("/t/x").only(&["a"]));
    let u = case.job(2, batch(5).pool("/u").only(&["a"]));
    case.run_for(Span::seconds(2));
    let z = case.job(3, batch(1).pool("/t/z").only(&["a"]).shape(shape(3, 100)));
    let y = case.job(4, batch(5).pool("/y").only(&["a"]));
    case.run_for(Span::minutes(3));
    assert_eq!(active(&case, [x, u, z, y]), [5, 5, 0, 0]);
    assert_eq!(preempted(&case), 0);
}

/// Two clusters of six cores, and on each a pool that has all of it, where four pools are entitled to three cores each.
fn two_holders() -> (Case, [JobId; 2]) {
    let mut case = pools(&[("a", 6), ("b", 6)], &["/w", "/x", "/y", "/z"]);
    let x = case.job(1, batch(6).pool("/x").only(&["a"]));
    let w = case.job(2, batch(6).pool("/w").only(&["b"]));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, [x, w]), [6, 6]);
    (case, [x, w])
}

#[test]
fn what_one_request_may_take_is_offered_to_no_other() {
    // Requests are made once a second: at some of these times both are made at once.
    for offset in [0, 250, 500, 750] {
        let (mut case, [x, w]) = two_holders();
        case.run_for(Span::millis(offset));
        // Both want three cores of the same cluster, where the holder has three beyond its own.
        let y = case.store_job(3, batch(3).pool("/y").only(&["a"]));
        let z = case.store_job(4, batch(3).pool("/z").only(&["a"]));
        case.events.extend([Event::Hint(y), Event::Hint(z)]);
        case.settle();
        case.run_for(Span::minutes(2));
        assert_eq!(active(&case, [x, w]), [3, 6], "{offset}");
        assert_eq!(active(&case, [y, z]).iter().sum::<usize>(), 3, "{offset}");
        assert_eq!(preempted(&case), 3, "{offset}");
    }
}

#[test]
fn what_an_unanswered_request_may_take_is_offered_to_no_other() {
    let (mut case, [x, w]) = two_holders();
    let y = case.job(3, batch(3).pool("/y").only(&["a"]));
    case.run_for(Span::seconds(3));
    let z = case.job(4, batch(3).pool("/z").only(&["a"]));
    case.run_for(Span::seconds(24));
    // The first request is on its way for longer than the second pool has to wait.
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.run_for(Span::seconds(8));
    assert_eq!(case.rm.picture().preemption.all.len(), 1);
    case.arrive();
    case.run_for(Span::minutes(3));
    assert_eq!(active(&case, [x, w, y, z]), [3, 6, 3, 0]);
    assert_eq!(preempted(&case), 3);
}

#[test]
fn a_unit_that_needs_more_victims_than_a_burst_is_asked_for_with_all_of_them() {
    let mut case = pools(&[("a", 40)], &["/x", "/y"]);
    // A burst of two.
    case.rm.config.preemption.a_minute = Amount::Count(12);
    case.job(1, batch(40).pool("/x"));
    case.run_for(Span::seconds(2));
    case.job(2, batch(1).pool("/y").shape(shape(4, 64)));
    case.run_for(Span::seconds(25));
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.run_for(Span::seconds(15));
    let requested = case.requested();
    assert!(matches!(requested[..], [(4.., _)]), "{requested:?}");
}

#[test]
fn what_is_being_stopped_for_a_group_is_not_asked_for_again() {
    let mut case = pools(&[("a", 10), ("b", 10)], &["/x", "/y"]);
    case.job(1, batch(10).pool("/x").only(&["a"]));
    case.job(2, batch(10).pool("/x").only(&["b"]));
    case.run_for(Span::seconds(2));
    case.shard("a").dies_at_once = false;
    let y = case.job(3, batch(2).pool("/y").only(&["a"]));
    case.run_for(Span::seconds(25));
    // By this one its pool is entitled to more. It has not waited for long enough.
    case.job(4, batch(8).pool("/y").only(&["b"]));
    case.run_for(Span::seconds(15));
    assert_eq!(preempted(&case), 2);
    case.at("a", |s, now| s.die(now));
    case.run_for(Span::seconds(3));
    assert_eq!(active(&case, [y]), [2]);
}

#[test]
fn a_group_that_grows_gets_capacity_by_the_first_request() {
    let mut case = pools(&[("a", 12)], &["/x", "/y"]);
    let x = case.job(1, batch(8).pool("/x"));
    let y = case.job(2, service(4).pool("/y"));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case, [x, y]), [8, 4]);
    case.scale(y, 6);
    case.run_for(Span::seconds(38));
    assert_eq!((active(&case, [x, y]), preempted(&case)), ([6, 6], 2));
}

#[test]
fn a_request_that_was_sent_and_is_forgotten_counts_as_taken() {
    let mut case = pools(&[("a", 10)], &["/x", "/y"]);
    let job = case.job(1, batch(10).pool("/x"));
    case.run_for(Span::minutes(1));
    let mut requests = case.rm.picture().preemption.clone();
    let view = |number: u64, awaits: Vec<ClaimPart>| OpenRequest {
        cluster: ClusterId::new("a"),
        claim: Claim {
            id: ClaimId {
                epoch: Epoch(1),
                number,
            },
            job,
            parts: Vec::new(),
            waits: ClusterId::new("a"),
            pool: String::new(),
            most: 30,
            victims: Vec::new(),
            quota: None,
            keeps_host: false,
        },
        awaits,
        since: case.now,
        report: None,
        had_room: false,
        unusable_since: None,
    };
    let unknown = ClaimPart {
        group: main_group(),
        generation: Generation(1),
        count: 1,
    };
    let views = [view(1, Vec::new()), view(2, vec![unknown])];
    requests.all = views.map(|view| (view.claim.id, view)).into();
    let before = requests.budget.left();
    requests.forget(&ClusterId::new("a"));
    // The second one was not sent.
    assert_eq!((requests.all.len(), before - requests.budget.left()), (0, 30));
}
