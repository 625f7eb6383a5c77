//! Demand that no host can hold: it takes no other pool's share, and a plan says what is lacking.

use crate::demand::pool_demand::demands;
use crate::queries::plan::plan;
use crate::tests::case::{Case, batch};
use echelon_core_model::class::{InstanceClass, MAX_CLASSES};
use echelon_core_model::directive::{ClassFits, Report, ReportPart};
use echelon_core_model::siting::Constraint;
use echelon_core_model::{ClusterId, JobId, ReasonCode, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// 24 cores on hosts of 4, `/q` and `/p` of equal share, and below `/p` one pool for ordinary work and one for the rest.
fn contested() -> Case {
    let mut case = pools().cluster("a", 24);
    case.elect();
    case
}

fn pools() -> Case {
    Case::new()
        .pool("/p", 1_000)
        .pool("/p/ordinary", 1_000)
        .pool("/p/other", 1_000)
        .pool("/q", 1_000)
}

/// Ordinary work in both pools, more than there is room for.
fn ordinary(case: &mut Case) -> [JobId; 2] {
    [
        case.job(1, batch(50).pool("/p/ordinary")),
        case.job(2, batch(50).pool("/q")),
    ]
}

fn large(cores: u64, pool: &str) -> JobBuilder {
    JobBuilder::batch("large", 1).shape(shape(cores, 64)).pool(pool)
}

fn zoned(instances: u32) -> JobBuilder {
    batch(instances)
        .pool("/p/other")
        .group(|g| g.constraints = vec![Constraint::one_of("zone", &["x"])])
}

fn active(case: &Case, jobs: [JobId; 2]) -> [usize; 2] {
    jobs.map(|job| case.total_active(job))
}

/// What a pool is entitled to, in cores.
fn entitled(case: &Case, path: &str) -> u64 {
    let picture = case.rm.picture();
    let entitled = crate::division::entitled(&picture.facts, &picture.demand.ledger);
    entitled
        .ordinary
        .amount(picture.facts.hierarchy.find(path).unwrap())
        .cpus
        / 1000
}

fn waits_for(case: &Case, job: JobId) -> String {
    case.progress(job).unwrap().waiting[0].reason.to_string()
}

#[test]
fn demand_beyond_the_instances_that_a_pool_may_have_takes_no_other_pools_share() {
    // The bound of the pool itself, and of one above it.
    for (bounded, most, wanted) in [("/q", 4, [20, 4]), ("/p", 6, [6, 18])] {
        let mut case = pools().cluster("a", 24);
        case.change_pool(bounded, |p| p.max_instances = most);
        case.elect();
        let jobs = ordinary(&mut case);
        case.run_for(Span::minutes(2));
        assert_eq!(
            ["/p", "/q"].map(|path| entitled(&case, path)),
            wanted,
            "{bounded}"
        );
        let active = active(&case, jobs).map(|n| u64::try_from(n).unwrap());
        assert_eq!(active, wanted, "{bounded}");
        // The bound is changed while all of it is in use.
        case.change_pool(bounded, |p| p.max_instances = u64::MAX);
        case.run_for(Span::seconds(15));
        assert_eq!(
            ["/p", "/q"].map(|path| entitled(&case, path)),
            [12, 12],
            "{bounded}"
        );
    }
}

#[test]
fn an_instance_larger_than_every_host_takes_no_share() {
    let mut case = contested();
    case.job(3, large(1_000, "/p/other"));
    case.job(4, large(1_000, "/p/ordinary"));
    let jobs = ordinary(&mut case);
    case.run_for(Span::seconds(60));
    assert_eq!(active(&case, jobs), [12, 12]);
    assert_eq!(
        ["/p/other", "/p/ordinary", "/q"].map(|p| entitled(&case, p)),
        [0, 12, 12]
    );
}

#[test]
fn the_largest_host_decides_while_a_shard_has_not_answered() {
    let mut case = contested();
    case.shard("a").answers_classes = false;
    case.job(3, large(1_000, "/p/other"));
    let zoned = case.job(4, zoned(9));
    let jobs = ordinary(&mut case);
    case.run_for(Span::seconds(60));
    // What only constraints keep out counts as if it fitted.
    assert_eq!(entitled(&case, "/p/other"), 6);
    case.want(zoned, echelon_core_model::job::Desired::Stopped);
    case.run_for(Span::seconds(60));
    assert_eq!(active(&case, jobs), [12, 12]);
}

#[test]
fn what_no_host_meets_takes_no_share_and_says_why() {
    let mut case = contested();
    case.shard("a").constrained_cores = Some(0);
    let zoned = case.job(3, zoned(9));
    let jobs = ordinary(&mut case);
    case.run_for(Span::seconds(60));
    assert_eq!(active(&case, jobs), [12, 12]);
    assert_eq!(
        waits_for(&case, zoned),
        "hosts do not meet a constraint (a: no host satisfies all that it asks for, even when empty)"
    );
}

/// A cluster that is registered and has never had a shard has no capacity, so it bounds nothing.
#[test]
fn a_cluster_of_which_nothing_is_known_lifts_no_bound() {
    // A shard without cores has no leader.
    let mut case = pools().cluster("a", 24).cluster("west", 0);
    case.elect();
    case.job(3, large(1_000, "/p/other"));
    let jobs = ordinary(&mut case);
    case.run_for(Span::minutes(2));
    assert_eq!(active(&case, jobs), [12, 12]);
}

/// What runs on hosts that take no new work is beside what the other hosts can hold.
#[test]
fn what_runs_on_closed_hosts_is_demand_beside_what_open_hosts_hold() {
    let mut case = contested();
    case.shard("a").constrained_cores = Some(20);
    let zoned = case.job(3, zoned(30));
    case.run_for(Span::seconds(10));
    assert_eq!(case.total_active(zoned), 20);
    case.at("a", |shard, now| {
        // Open hosts hold 4 of them; 20 run on hosts with 22 cores that are being emptied.
        shard.constrained_cores = Some(4);
        shard.close(22, now)
    });
    case.run_for(Span::seconds(10));
    let picture = case.rm.picture();
    let wanted = demands(&picture.facts, &picture.demand.ledger);
    let of_pool = wanted.get(&picture.facts.hierarchy.find("/p/other").unwrap());
    assert_eq!(of_pool.unwrap().ordinary.cpus, 24_000);
}

#[test]
fn demand_counts_as_far_as_hosts_hold_it() {
    let mut case = contested();
    case.shard("a").constrained_cores = Some(2);
    case.job(3, zoned(9));
    let jobs = ordinary(&mut case);
    case.run_for(Span::seconds(60));
    assert_eq!(entitled(&case, "/p/other"), 2);
    assert_eq!(entitled(&case, "/p/ordinary"), 10);
    assert_eq!(active(&case, jobs)[1], 12);
}

#[test]
fn a_host_that_is_large_enough_counts_from_its_report_on_and_no_longer_than_it_is_there() {
    let mut case = contested();
    case.job(3, large(8, "/p/other"));
    ordinary(&mut case);
    case.run_for(Span::seconds(5));
    assert_eq!(entitled(&case, "/p/other"), 0);
    let hosts_of = |case: &mut Case, cores: u64| {
        case.at("a", |shard, now| {
            shard.host_cores = cores;
            shard.full(now)
        });
        case.run_for(Span::seconds(1));
    };
    hosts_of(&mut case, 8);
    // Its pool has one share of two below `/p`.
    assert_eq!(entitled(&case, "/p/other"), 6);
    hosts_of(&mut case, 4);
    assert_eq!(entitled(&case, "/p/other"), 0);
}

#[test]
fn a_cluster_out_of_reach_keeps_its_last_answer_and_a_new_stream_asks_anew() {
    let mut case = contested();
    case.shard("a").constrained_cores = Some(0);
    case.job(3, zoned(9));
    ordinary(&mut case);
    case.run_for(Span::seconds(15));
    assert_eq!(entitled(&case, "/p/other"), 0);
    case.cut("a");
    case.run_for(Span::millis(100));
    assert_eq!(entitled(&case, "/p/other"), 0);
    // Its shard has another leader, which knows of no question.
    case.shard("a").classes = None;
    case.shard("a").constrained_cores = None;
    case.reopen("a");
    case.run_for(Span::seconds(3));
    assert!(case.shard("a").classes.is_some());
    assert_eq!(entitled(&case, "/p/other"), 6);
}

#[test]
fn a_shard_is_asked_about_what_may_come_to_it_and_about_no_more_than_a_question_holds() {
    let mut case = Case::with(&[("a", 24), ("b", 24)]);
    for n in 0..70 {
        let job = JobBuilder::batch("job", 1).shape(shape(5 + n, 64));
        case.store_job(u128::from(n) + 1, job.group(|g| g.instances = 1));
    }
    let mut only_b = batch(100)
        .group(|g| g.constraints = vec![Constraint::one_of("zone", &["x"])])
        .build();
    only_b.clusters.only = vec!["b".to_owned()];
    case.job_of(100, only_b.clone());
    case.elect();
    case.run_for(Span::seconds(2));
    let asked = |case: &mut Case, name: &str| {
        let named = case.shard(name).classes.clone().unwrap();
        let digest = InstanceClass::of(&only_b, &only_b.groups[0]).unwrap().digest();
        (
            named.classes.len(),
            named.left_out,
            named.classes.contains_key(&digest),
        )
    };
    assert_eq!(asked(&mut case, "a"), (MAX_CLASSES, 6, false));
    // Of what has rules about hosts the largest host tells least: it is asked about first.
    assert_eq!(asked(&mut case, "b"), (MAX_CLASSES, 7, true));
    // Those that were left out are judged by the largest host.
    assert_eq!(entitled(&case, "/default"), 24);
    let of_a = |case: &Case| {
        case.rm.picture().facts.clusters[&ClusterId::new("a")]
            .fits
            .report()
            .cloned()
    };
    assert_eq!(of_a(&case).map(|r: ClassFits| r.left_out), Some(6));
}

#[test]
fn a_plan_says_that_a_shape_fits_nowhere() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.shard("b").host_cores = 2;
    case.at("b", |shard, now| shard.full(now));
    let told = |case: &Case, job: JobBuilder| {
        let plan = plan(case.rm.picture(), &job.build());
        plan.groups[0].fits_nowhere.as_ref().map(ToString::to_string)
    };
    assert_eq!(
        told(&case, large(7, "/default")).unwrap(),
        "no cluster has room for it: cpus needs 7, has at most 4 (a: the largest host has cpus 4, \
         memory 40000MiB; b: the largest host has cpus 2, memory 20000MiB)"
    );
    assert_eq!(told(&case, large(4, "/default")), None);
    // Of what has constraints nothing is known before shards have answered.
    assert_eq!(told(&case, zoned(1).pool("/default")), None);
    case.shard("a").constrained_cores = Some(0);
    case.shard("b").constrained_cores = Some(0);
    case.job(1, zoned(1).pool("/default"));
    case.run_for(Span::seconds(3));
    assert_eq!(
        told(&case, zoned(1).pool("/default")).unwrap(),
        "hosts do not meet a constraint (a: no host satisfies all that it asks for, even when empty; \
         b: no host satisfies all that it asks for, even when empty)"
    );
}

#[test]
fn an_answer_of_an_older_stream_changes_nothing() {
    let mut case = contested();
    case.job(3, zoned(9));
    ordinary(&mut case);
    case.run_for(Span::seconds(5));
    let old = case.links[&ClusterId::new("a")];
    case.cut("a");
    case.reopen("a");
    case.run_for(Span::seconds(3));
    let before = entitled(&case, "/p/other");
    case.shard("a").constrained_cores = Some(0);
    let late: Vec<Report> = case.shard("a").fits_told().into_iter().collect();
    assert!(matches!(late[0].part, ReportPart::Fits(_)));
    case.events
        .extend(late.into_iter().map(|r| crate::event::Event::Report(old, r)));
    case.settle();
    assert_eq!(entitled(&case, "/p/other"), before);
    let waits = case.progress(JobId::new(case.born, 3 << 64)).unwrap().waiting;
    assert!(waits.iter().all(|w| w.reason.code != ReasonCode::HostConstraint));
}

#[test]
fn what_is_granted_beyond_what_hosts_hold_goes_back() {
    let mut case = contested();
    case.shard("a").constrained_cores = Some(1);
    let zoned = case.job(3, zoned(9));
    assert_eq!(case.total_active(zoned), 1);
    let granted = |case: &Case| {
        case.rm
            .picture()
            .facts
            .jobs
            .get(&zoned)
            .unwrap()
            .grants
            .values()
            .map(|g| g.granted())
            .sum::<u64>()
    };
    assert_eq!(granted(&case), 9);
    case.run_for(Span::seconds(25));
    assert_eq!((granted(&case), case.total_active(zoned)), (1, 1));
}
