//! Limits, fairness and grants: what may be active, and when room is free again.

use crate::queries::plan::plan;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::{ReportPart, SliceReport};
use echelon_core_model::job::Desired;
use echelon_core_model::pool::PoolKind;
use echelon_core_model::resources::Kind;
use echelon_core_model::sharing::{Others, QuotaLimit, RoleShare, Sharing};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{ClusterId, ReasonCode, Resources, RunState, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

#[test]
fn a_limit_is_never_exceeded_and_every_waiting_instance_says_why() {
    let mut case = Case::with(&[("a", 20)]);
    case.set_pool("/small", 3);
    case.run_for(Span::seconds(6));
    let job = case.job(1, batch(8).pool("/small"));
    let other = case.job(2, batch(2).pool("/small"));
    case.run_for(Span::seconds(1));
    assert_eq!((case.total_active(job), case.total_active(other)), (3, 0));
    assert_eq!(case.waiting(job), [(ReasonCode::PoolLimit, 5)]);
    assert_eq!(case.waiting(other), [(ReasonCode::PoolLimit, 2)]);
    let text = case.progress(job).unwrap().waiting[0].reason.to_string();
    assert_eq!(
        text,
        "its pool's limit is reached: cpus needs 1, has at most 0 (/small)"
    );
    for _ in 0..12 {
        case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    }
    assert_eq!(case.total_active(job) + case.total_active(other), 0);
}

#[test]
fn priority_goes_first_and_takes_nothing_away() {
    let mut case = Case::with(&[("a", 4)]);
    let low = case.job(1, batch(3));
    let waits = case.job(2, batch(4));
    let high = case.job(3, batch(4).priority(9));
    assert_eq!(
        (
            case.total_active(low),
            case.total_active(waits),
            case.total_active(high)
        ),
        (3, 1, 0)
    );
    case.at("a", |s, now| s.finish(3, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!((case.total_active(low), case.total_active(high)), (0, 3));
}

#[test]
fn another_priority_is_another_place_in_the_queue() {
    let mut case = Case::with(&[("a", 2)]);
    let first = case.job(1, batch(2));
    let old = case.job(2, batch(2));
    let young = case.job(3, batch(2));
    case.respec(young, |s| s.priority = 5);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(1));
    assert_eq!([first, old, young].map(|job| case.total_active(job)), [0, 0, 2]);
}

#[test]
fn two_pools_share_what_there_is() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    let x = case.store_job(1, batch(20).pool("/x"));
    let y = case.store_job(2, batch(20).pool("/y"));
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (5, 5));
    assert_eq!(case.waiting(x), [(ReasonCode::NoClusterCapacity, 15)]);
}

#[test]
fn what_one_pool_cannot_use_is_lent() {
    let mut case = Case::with(&[("a", 3)]);
    case.set_pool("/x", 100);
    case.set_pool("/y", 100);
    case.run_for(Span::seconds(6));
    // Each is entitled to one and a half.
    let x = case.job(1, service(5).pool("/x"));
    let y = case.job(2, service(5).pool("/y"));
    case.run_for(Span::seconds(40));
    assert_eq!(case.total_active(x) + case.total_active(y), 3);
}

#[test]
fn what_a_static_pool_keeps_is_lent_to_nobody() {
    let mut case = Case::new().pool("/kept", 100).pool("/x", 100).cluster("a", 10);
    case.change_pool("/kept", |p| {
        p.kind = PoolKind::Static;
        p.reservation.cpus = 4_000;
    });
    let x = case.store_job(1, batch(20).pool("/x"));
    case.elect();
    case.run_for(Span::seconds(60));
    assert_eq!(case.total_active(x), 6);
    assert_eq!(case.waiting(x), [(ReasonCode::PoolEntitlement, 14)]);
    case.change_pool("/kept", |p| p.kind = PoolKind::Elastic);
    case.run_for(Span::seconds(10));
    assert_eq!(case.total_active(x), 10);
}

#[test]
fn what_a_static_pool_keeps_counts_against_the_limit_above_it() {
    let mut case = Case::new()
        .pool("/p", 8)
        .pool("/p/kept", 100)
        .pool("/p/x", 100)
        .cluster("a", 20);
    case.change_pool("/p", |p| p.reservation.cpus = 5_000);
    case.change_pool("/p/kept", |p| {
        p.kind = PoolKind::Static;
        p.reservation.cpus = 3_000;
    });
    let x = case.store_job(1, batch(20).pool("/p/x"));
    case.elect();
    case.run_for(Span::seconds(60));
    assert_eq!(case.total_active(x), 5);
    assert_eq!(case.waiting(x), [(ReasonCode::PoolEntitlement, 15)]);
    let kept = case.job(2, batch(9).pool("/p/kept"));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(kept), case.total_active(x)), (3, 5));
}

#[test]
fn work_that_may_use_few_clusters_is_entitled_to_no_more_than_they_have() {
    let mut case = Case::new()
        .pool("/x", 100)
        .pool("/y", 100)
        .cluster("a", 4)
        .cluster("b", 8);
    // Its fair half would be six.
    let x = case.store_job(1, batch(20).pool("/x").only(&["a"]));
    let y = case.store_job(2, batch(20).pool("/y").only(&["b"]));
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (4, 8));
}

#[test]
fn room_in_a_cluster_is_lent_when_its_owners_cannot_come_there() {
    let mut case = Case::new()
        .pool("/x", 100)
        .pool("/y", 100)
        .cluster("a", 4)
        .cluster("b", 8);
    let busy = case.store_job(1, service(4).pool("/y").only(&["a"]));
    case.elect();
    case.run_for(Span::seconds(2));
    // `/x` is entitled to four in `a`, which `/y` has taken; what it cannot use in `b` is given out again.
    let x = case.job(2, batch(4).pool("/x").only(&["a"]));
    let y = case.job(3, batch(20).pool("/y").only(&["b"]));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(busy), case.total_active(x)), (4, 0));
    assert_eq!(case.total_active(y), 4, "it may have been on its way elsewhere");
    case.run_for(Span::seconds(60));
    assert_eq!(case.total_active(y), 8);
}

#[test]
fn max_running_is_split_and_moves_on_only_when_it_is_free() {
    let mut case = Case::with(&[("a", 9), ("b", 9)]);
    let job = case.job(1, batch(12).spread().max_running(5));
    assert_eq!(case.total_active(job), 5);
    for _ in 0..7 {
        case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
        assert!(case.total_active(job) <= 5);
    }
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(job), 5);
    assert!(
        case.waiting(job)
            .iter()
            .all(|(code, _)| *code == ReasonCode::MaxRunning),
        "{:?}",
        case.waiting(job)
    );
}

#[test]
fn a_smaller_max_running_is_followed() {
    let mut case = Case::with(&[("a", 9)]);
    let job = case.job(1, batch(8).max_running(6));
    case.respec(job, |s| s.groups[0].max_running = Some(2));
    case.run_for(Span::seconds(1));
    assert_eq!(case.total_active(job), 2);
}

#[test]
fn a_grant_that_nothing_can_be_placed_by_is_taken_back_for_others() {
    let mut case = Case::with(&[("a", 8)]);
    case.set_pool("/small", 2);
    case.run_for(Span::seconds(6));
    case.shard("a").unplaceable = Some(ReasonCode::HostConstraint);
    let stuck = case.job(1, batch(2).pool("/small"));
    case.run_for(Span::seconds(2));
    // Others could be placed: only the first one's rule is never met. The model knows one rule for all, so it is lifted
    // when the grant has gone.
    let other = case.job(2, batch(2).pool("/small"));
    case.run_for(Span::seconds(17));
    case.shard("a").unplaceable = None;
    case.run_for(Span::seconds(4));
    assert_eq!(case.total_active(stuck) + case.total_active(other), 2);
    assert!(case.total_active(other) > 0, "{:?}", case.waiting(other));
}

#[test]
fn grants_are_renewed() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(2));
    case.trace.clear();
    case.run_for(Span::seconds(31));
    let renewed = case.trace.iter().filter(|t| t.contains("grants [2]")).count();
    assert!((3..=4).contains(&renewed), "{:#?}", case.trace);
    assert_eq!(case.total_active(job), 2);
}

#[test]
fn never_fits_is_said_with_the_shortfall() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, JobBuilder::batch("big", 2).shape(shape(7, 64)));
    case.run_for(Span::seconds(1));
    let waiting = &case.progress(job).unwrap().waiting[0];
    assert_eq!(waiting.count, 2);
    assert_eq!(
        waiting.reason.to_string(),
        "no cluster has room for it: cpus needs 7, has at most 4 (a: no host is large enough; b: no host is large enough)"
    );
    assert_eq!(case.assignment(job), None);
    // A plan of the same says it, too, and what gateways warn by at submit is stored.
    let planned = plan(
        case.rm.picture(),
        &JobBuilder::batch("big", 2).shape(shape(7, 64)).build(),
    );
    assert_eq!(
        planned.groups[0]
            .fits_nowhere
            .as_ref()
            .map(ToString::to_string)
            .unwrap(),
        "no cluster has room for it: cpus needs 7, has at most 4 (a: the largest host has cpus 4, memory 40000MiB; \
         b: the largest host has cpus 4, memory 40000MiB)"
    );
    for cluster in ["a", "b"] {
        let Answer::ClusterStates(states) = case.store.read(&Query::ClusterStates) else {
            panic!()
        };
        let state = states
            .into_iter()
            .find(|s| s.cluster.as_str() == cluster)
            .unwrap();
        assert_eq!(state.reported.unwrap().largest_host.cpus, 4_000);
    }
}

#[test]
fn who_waits_for_a_shared_cluster_is_told_which_roles_use_it_and_which_quota_bounds_it() {
    let cpus = |cores: u64| Resources {
        cpus: cores * 1000,
        ..Resources::ZERO
    };
    let used = Others {
        used: cpus(20),
        offered: Resources::ZERO,
    };
    let spark = || RoleShare {
        role: "spark".to_owned(),
        held: used,
    };
    let limit = QuotaLimit {
        role: "eng".to_owned(),
        kind: Kind::Cpus,
        limit: 9000,
        ours: 2000,
        one_host: 2000,
    };
    for (limits, code, text) in [
        (
            Some(vec![]),
            ReasonCode::NoClusterCapacity,
            "no cluster has room for it: cpus needs 1, has at most 0 (a: role spark uses 20 cpus)",
        ),
        (
            Some(vec![limit]),
            ReasonCode::MesosQuota,
            "Mesos' quota lets this role have no more: cpus needs 1, has at most 0 (a: the limit of role eng is 9)",
        ),
    ] {
        let mut case = Case::with(&[("a", 2)]);
        case.shard("a").sharing = Sharing::new([spark()], limits);
        let job = case.job(1, batch(5));
        case.run_for(Span::seconds(3));
        let waiting = case.progress(job).unwrap().waiting;
        let told: Vec<_> = waiting
            .iter()
            .map(|w| (w.reason.code, w.reason.to_string()))
            .collect();
        assert_eq!(told, [(code, text.to_owned())]);
        assert_eq!(waiting[0].count, 3);
    }
}

#[test]
fn waiting_since_survives_a_new_leader() {
    let mut case = Case::with(&[("a", 2)]);
    let job = case.job(1, batch(5));
    case.run_for(Span::seconds(2));
    let before = case.progress(job).unwrap().waiting;
    assert_eq!(before[0].reason.code, ReasonCode::NoClusterCapacity);
    case.run_for(Span::seconds(10));
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!(case.progress(job).unwrap().waiting[0].since, before[0].since);
}

#[test]
fn a_plan_tells_what_the_cycle_would_do() {
    let mut case = Case::with(&[("a", 4), ("b", 6)]);
    case.desire("b", DesiredState::Cordoned);
    case.set_pool("/small", 3);
    case.run_for(Span::seconds(6));
    let before = case.store.writes();
    let told = |spec: JobBuilder| {
        let plan = plan(case.rm.picture(), &spec.build());
        let g = &plan.groups[0];
        let clusters: Vec<String> = g
            .clusters
            .iter()
            .map(|c| format!("{} {}", c.name, c.instances))
            .collect();
        let dropped: Vec<String> = g
            .dropped
            .iter()
            .map(|d| format!("{}: {}", d.name, d.reason))
            .collect();
        let waiting: Vec<String> = g.waiting.iter().map(|(r, n)| format!("{n} {r}")).collect();
        assert_eq!(
            g.could_start + g.waiting.iter().map(|(_, n)| n).sum::<u64>(),
            g.instances
        );
        let problem = plan.pool.problem.map(|r| r.to_string()).unwrap_or_default();
        format!("{} {clusters:?} {dropped:?} {waiting:?} {problem}", g.could_start)
    };
    insta::assert_snapshot!(told(batch(3)), @r#"3 ["a 3"] ["b: the cluster takes no new work (cordoned)"] []"#);
    insta::assert_snapshot!(told(batch(9).pool("/small")), @r#"3 ["a 3"] ["b: the cluster takes no new work (cordoned)"] ["6 its pool's limit is reached: cpus needs 1, has at most 0 (/small)"]"#);
    insta::assert_snapshot!(told(service(1).pool("/nowhere")), @r#"0 [] ["b: the cluster takes no new work (cordoned)"] ["1 its pool does not exist; create the pool or delete the job (/nowhere)"] its pool does not exist; create the pool or delete the job (/nowhere)"#);
    assert_eq!(case.store.writes(), before, "nothing was committed");
}

#[test]
fn what_is_kept_for_work_with_gpus_is_no_room_for_other_work() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    case.shard("a").kept_cores = 6;
    let x = case.store_job(1, batch(20).pool("/x"));
    let y = case.store_job(2, batch(20).pool("/y"));
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (2, 2));
    assert_eq!(case.waiting(x), [(ReasonCode::NoClusterCapacity, 18)]);
}

#[test]
fn a_cluster_whose_only_room_is_kept_is_passed_over() {
    let mut case = Case::new().pool("/default", 100).cluster("a", 4).cluster("b", 4);
    case.shard("a").kept_cores = 4;
    case.elect();
    case.run_for(Span::seconds(2));
    for n in 1..=4 {
        let job = case.job(n, batch(1));
        case.run_for(Span::seconds(1));
        assert_eq!((case.total_active(job), case.shard("a").active()), (1, 0));
    }
}

fn lend(case: &mut Case, cluster: &str, cores: u64) {
    case.shard(cluster).lent_cores = cores;
}

#[test]
fn revocable_work_has_what_is_lent_and_uses_up_nothing_else() {
    let mut case = Case::new().pool("/small", 2).cluster("a", 4);
    lend(&mut case, "a", 5);
    let revocable = case.store_job(1, batch(8).pool("/small").revocable());
    let ordinary = case.store_job(11, batch(8).pool("/small"));
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!(
        (case.total_active(revocable), case.total_active(ordinary)),
        (5, 2)
    );
    assert_eq!(case.waiting(revocable), [(ReasonCode::NoClusterCapacity, 3)]);
    assert_eq!(case.waiting(ordinary), [(ReasonCode::PoolLimit, 6)]);
    lend(&mut case, "a", 7);
    case.run_for(Span::seconds(6));
    assert_eq!(
        (case.total_active(revocable), case.total_active(ordinary)),
        (7, 2)
    );
}

#[test]
fn what_is_lent_is_shared_without_regard_to_ordinary_work() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 20);
    lend(&mut case, "a", 6);
    let busy = case.store_job(11, batch(9).pool("/x"));
    let x = case.store_job(1, batch(9).pool("/x").revocable());
    let y = case.store_job(2, batch(9).pool("/y").revocable());
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!(
        (
            case.total_active(busy),
            case.total_active(x),
            case.total_active(y)
        ),
        (9, 3, 3)
    );
}

#[test]
fn a_pool_has_no_more_of_what_is_lent_than_its_limit_of_it() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 20);
    lend(&mut case, "a", 10);
    case.change_pool("/x", |p| {
        p.revocable_limit = Resources::MAX.with(Kind::Cpus, 2_000)
    });
    let ordinary = case.store_job(11, batch(5).pool("/x"));
    let x = case.store_job(1, batch(9).pool("/x").revocable());
    let y = case.store_job(2, batch(9).pool("/y").revocable());
    case.elect();
    case.run_for(Span::seconds(2));
    let active = |case: &Case| [ordinary, x, y].map(|job| case.total_active(job));
    assert_eq!(active(&case), [5, 2, 8], "what one may not have, others get");
    assert_eq!(case.waiting(x), [(ReasonCode::PoolRevocableLimit, 7)]);
    let told = plan(case.rm.picture(), &batch(1).pool("/x").revocable().build());
    assert_eq!(told.groups[0].waiting[0].0.code, ReasonCode::PoolRevocableLimit);
    // A limit that is lowered stops nothing; one that is raised lets more begin.
    case.change_pool("/x", |p| p.revocable_limit.cpus = 1_000);
    case.run_for(Span::seconds(30));
    assert_eq!(active(&case), [5, 2, 8]);
    case.change_pool("/x", |p| p.revocable_limit.cpus = 5_000);
    case.want(y, Desired::Stopped);
    case.run_for(Span::seconds(30));
    assert_eq!(active(&case), [5, 5, 0]);
}

#[test]
fn revocable_work_goes_where_room_is_lent() {
    let mut case = Case::new().pool("/default", 100).cluster("a", 9).cluster("b", 9);
    lend(&mut case, "a", 0);
    lend(&mut case, "b", 4);
    case.elect();
    case.run_for(Span::seconds(2));
    for n in 1..=4 {
        let job = case.job(n, batch(1).revocable());
        case.run_for(Span::seconds(1));
        assert_eq!((case.total_active(job), case.shard("a").active()), (1, 0));
    }
    let late = case.job(5, batch(1).revocable());
    assert_eq!(case.waiting(late), [(ReasonCode::NoClusterCapacity, 1)]);
    lend(&mut case, "a", 1);
    case.run_for(Span::seconds(40));
    assert_eq!(case.total_active(late), 1, "{:?}", case.waiting(late));
}

#[test]
fn a_plan_counts_what_is_lent() {
    let mut case = Case::new().pool("/default", 2).cluster("a", 9);
    lend(&mut case, "a", 3);
    case.elect();
    case.run_for(Span::seconds(2));
    let could = |case: &Case, job: JobBuilder| plan(case.rm.picture(), &job.build()).groups[0].could_start;
    assert_eq!(could(&case, batch(9)), 2);
    assert_eq!(could(&case, batch(9).revocable()), 3);
}

#[test]
fn what_is_not_preemptible_stays_within_its_pools_reservation() {
    let mut case = Case::new().pool("/x", 100).cluster("a", 20);
    let reserve = |case: &mut Case, cpus: u64| {
        case.change_pool("/x", |p| {
            p.reservation = Resources {
                cpus: cpus * 1000,
                memory: 1 << 20,
                ..Resources::ZERO
            };
        });
    };
    reserve(&mut case, 4);
    let firm = case.store_job(1, batch(9).pool("/x").not_preemptible());
    let other = case.store_job(2, batch(3).pool("/x"));
    case.elect();
    case.run_for(Span::seconds(40));
    assert_eq!((case.total_active(firm), case.total_active(other)), (4, 3));
    assert_eq!(case.waiting(firm), [(ReasonCode::PoolReservation, 5)]);
    let text = case.progress(firm).unwrap().waiting[0].reason.to_string();
    assert!(text.ends_with("cpus needs 1, has at most 0 (/x)"), "{text}");
    let could = |case: &Case, job: JobBuilder| plan(case.rm.picture(), &job.build()).groups[0].could_start;
    assert_eq!(could(&case, batch(2).pool("/x").not_preemptible()), 0);
    assert_eq!(could(&case, batch(2).pool("/x")), 2);
    // A smaller reservation takes nothing away, a larger one gives more, and so does an end.
    reserve(&mut case, 2);
    case.run_for(Span::seconds(10));
    assert_eq!(case.total_active(firm), 4);
    reserve(&mut case, 6);
    case.run_for(Span::seconds(10));
    assert_eq!(case.total_active(firm), 6);
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(firm), 3);
}

#[test]
fn a_pool_is_entitled_to_nothing_for_what_its_reservation_keeps_from_running() {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    case.change_pool("/x", |p| {
        p.reservation = Resources {
            cpus: 2_000,
            memory: 1 << 20,
            ..Resources::ZERO
        };
    });
    let firm = case.store_job(1, batch(20).pool("/x").not_preemptible());
    let other = case.store_job(2, batch(20).pool("/y"));
    case.elect();
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(firm), case.total_active(other)), (2, 8));
    let pool = case.rm.picture().facts.hierarchy.find("/x").unwrap();
    let entitled = crate::division::entitled(&case.rm.picture().facts, &case.rm.picture().demand.ledger);
    assert_eq!(entitled.ordinary.amount(pool).cpus, 2_000);
}

#[test]
fn controllers_cannot_fill_a_pool() {
    let mut case = Case::new().pool("/p", 10).pool("/p/x", 100).cluster("a", 40);
    let limit = |case: &mut Case, cpus: u64| {
        case.change_pool("/p", |p| {
            p.controller_limit = Resources {
                cpus: cpus * 1000,
                ..Resources::MAX
            };
        });
    };
    limit(&mut case, 3);
    let drivers = case.store_job(1, service(20).pool("/p/x").controller());
    let more = case.store_job(2, service(2).pool("/p/x").controller().priority(9));
    case.elect();
    case.run_for(Span::seconds(40));
    assert_eq!((case.total_active(drivers), case.total_active(more)), (1, 2));
    assert_eq!(case.waiting(drivers), [(ReasonCode::PoolControllers, 19)]);
    let workers = case.job(3, batch(20).pool("/p/x"));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(workers), 7);
    let told = crate::queries::figures::figures(case.rm.picture(), None);
    assert_eq!(
        (
            told.held["/p/x"].controllers.cpus,
            told.ordinary.allocated["/p/x"].cpus
        ),
        (3_000, 10_000)
    );
}

#[test]
fn demand_counts_as_far_as_it_may_be_had() {
    let both = |n: u32| batch(n).pool("/x").not_preemptible().controller();
    for (firm, controllers, of_both, free, demand) in [
        (2, 1, 0, 7, 10),
        (9, 9, 0, 0, 13),
        (9, 9, 9, 1, 14),
        (0, 0, 9, 0, 5),
        (6, 0, 9, 0, 8),
        (0, 4, 9, 0, 5),
    ] {
        let mut case = Case::new().pool("/x", 1_000).cluster("a", 100);
        case.change_pool("/x", |p| {
            p.reservation = Resources {
                cpus: 8_000,
                memory: 1 << 20,
                ..Resources::ZERO
            };
            p.controller_limit = Resources::MAX.with(Kind::Cpus, 5_000);
        });
        let jobs = [
            (firm, batch(firm).pool("/x").not_preemptible()),
            (controllers, batch(controllers).pool("/x").controller()),
            (of_both, both(of_both)),
            (free, batch(free).pool("/x")),
        ];
        for (n, (_, job)) in (1..).zip(jobs.into_iter().filter(|(n, _)| *n > 0)) {
            case.store_job(n, job);
        }
        case.elect();
        case.run_for(Span::seconds(2));
        let told = crate::queries::figures::figures(case.rm.picture(), None);
        assert_eq!(
            told.ordinary.demand["/x"].cpus,
            demand * 1000,
            "{firm} {controllers} {of_both} {free}"
        );
    }
}

#[test]
fn jobs_beyond_a_pools_number_wait_until_one_ends() {
    let mut case = Case::new().pool("/x", 100).cluster("a", 20);
    case.change_pool("/x", |p| p.max_jobs = 2);
    let first = case.store_job(1, batch(2).pool("/x"));
    let second = case.store_job(2, batch(1).pool("/x"));
    case.elect();
    case.run_for(Span::seconds(2));
    let third = case.job(3, batch(2).pool("/x"));
    let urgent = case.job(4, batch(1).pool("/x").priority(5));
    case.run_for(Span::seconds(2));
    let active = |case: &Case| [first, second, third, urgent].map(|job| case.total_active(job));
    assert_eq!(active(&case), [2, 1, 0, 0]);
    assert_eq!(case.waiting(third), [(ReasonCode::PoolJobs, 2)]);
    let text = case.progress(third).unwrap().waiting[0].reason.to_string();
    assert!(text.ends_with("(/x: 2 of at most 2 jobs)"), "{text}");
    // A job counts until it has ended: one instance of two is not its end.
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case)[2..], [0, 0]);
    let told = crate::queries::figures::figures(case.rm.picture(), None);
    assert_eq!((told.held["/x"].jobs, told.held["/x"].instances), (2, 2));
    // A new leader counts the same jobs.
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!(active(&case)[2..], [0, 0]);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(3));
    assert_eq!(active(&case), [0, 0, 2, 1]);
    // A bound that is raised lets more begin, one that is lowered stops nothing.
    case.change_pool("/x", |p| p.max_jobs = 0);
    case.run_for(Span::seconds(10));
    assert_eq!(active(&case), [0, 0, 2, 1]);
}

#[test]
fn a_head_that_a_shard_knows_first_is_read() {
    let mut case = Case::new().pool("/x", 100).cluster("a", 20);
    let job = case.store_job(1, service(2).pool("/x"));
    case.elect();
    case.run_for(Span::seconds(2));
    case.change_head(job, |head| head.goal.desired = Desired::Stopped);
    let a = ClusterId::new("a");
    let (_, told) = case.rm.picture().facts.clusters[&a]
        .reports_of(job)
        .next()
        .unwrap();
    let mut told = SliceReport::clone(told);
    told.head_version = case.head(job).unwrap().version;
    case.at("a", |s, _| vec![s.report(ReportPart::Slices(vec![told]))]);
    case.run_for(Span::seconds(1));
    assert_eq!(case.total_active(job), 0);
}

#[test]
fn instances_beyond_a_pools_number_wait() {
    let mut case = Case::new()
        .pool("/p", 100)
        .pool("/p/x", 100)
        .pool("/p/y", 100)
        .cluster("a", 20);
    case.change_pool("/p", |p| p.max_instances = 5);
    case.elect();
    let x = case.job(1, batch(3).pool("/p/x"));
    let y = case.job(2, batch(9).pool("/p/y"));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (3, 2));
    assert_eq!(case.waiting(y), [(ReasonCode::PoolInstances, 7)]);
    let text = case.progress(y).unwrap().waiting[0].reason.to_string();
    assert!(text.ends_with("(/p: 5 of at most 5 instances)"), "{text}");
    let plan = plan(case.rm.picture(), &batch(2).pool("/p/x").build());
    assert_eq!(plan.groups[0].could_start, 0);
    assert_eq!(plan.groups[0].waiting[0].0.code, ReasonCode::PoolInstances);
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(x), case.total_active(y)), (0, 5));
}

#[test]
fn users_of_a_fair_pool_get_the_same_whoever_came_first() {
    let mut case = Case::new().pool("/x", 100).cluster("a", 12);
    case.change_pool("/x", |p| p.fair_users = true);
    case.elect();
    // Nothing is free until everybody waits.
    let first = case.job(9, service(12).pool("/x").owner("dot"));
    let old = case.job(1, service(20).pool("/x").owner("ann"));
    let also = case.job(2, service(20).pool("/x").owner("ann"));
    let young = case.job(3, service(20).pool("/x").owner("bob"));
    let few = case.job(4, service(2).pool("/x").owner("cid"));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(first), 12);
    case.scale(first, 0);
    case.run_for(Span::seconds(2));
    let active = |case: &Case| [old, also, young, few].map(|job| case.total_active(job));
    assert_eq!(active(&case), [5, 0, 5, 2]);
    case.scale(few, 0);
    case.run_for(Span::seconds(2));
    assert_eq!(active(&case), [6, 0, 6, 0]);
    case.change_pool("/x", |p| p.fair_users = false);
    case.run_for(Span::seconds(10));
    // Without the option all that gets free is the oldest job's.
    case.scale(young, 2);
    case.run_for(Span::seconds(10));
    assert_eq!(active(&case), [10, 0, 2, 0]);
}

#[test]
fn what_was_taken_over_is_granted_and_not_stopped() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.set_pool("/default", 5);
    case.run_for(Span::seconds(6));
    // The others are bound ahead.
    let job = case.job(1, batch(8).only(&["a"]));
    case.run_for(Span::seconds(2));
    assert_eq!(case.active(job), [("a", 5)]);
    // Storage was resumed, and the shard has found two more that run.
    case.limits.insert("/default".to_owned(), 7);
    case.cut("a");
    case.shard("a").add(job, 2);
    case.reopen("a");
    case.run_for(Span::seconds(30));
    assert_eq!(case.active(job), [("a", 7)]);
    // No more is granted while that is above the limit, and a smaller grant is obeyed as ever.
    case.respec(job, |s| s.groups[0].max_running = Some(3));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 3)]);
}
