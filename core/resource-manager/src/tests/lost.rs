//! Clusters that are lost to a job: what runs there is given up by the job's policy, and by nothing else.

use crate::tests::case::{Case, batch, service};
use crate::tests::silent::{ban, beat, launching, store_record};
use echelon_core_model::health::{Declaration, DeclaredHealth, Health, ShardSigns};
use echelon_core_model::instance::{Ended, InstanceRecord, Run};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{ClusterId, GroupName, JobId, RangeSet, ReasonCode, RunState, Span};
use echelon_core_testkit::build::JobBuilder;

pub fn running() -> InstanceRecord {
    let mut record = launching();
    record.run = record.run.map(|run| Run {
        state: RunState::Running,
        ..run
    });
    record
}

pub fn replace_after(minutes: u64) -> OnSilence {
    OnSilence::Replace(Span::minutes(minutes))
}

pub fn other_of(home: &str) -> &'static str {
    if home == "a" { "b" } else { "a" }
}

/// A job that runs at one of the clusters `a` and `b`, of 8 cores each.
pub fn runs(spec: JobBuilder) -> (Case, JobId, &'static str) {
    runs_with(spec, |_| running())
}

/// The same with these records of its instances.
pub fn runs_with(spec: JobBuilder, record: impl Fn(u32) -> InstanceRecord) -> (Case, JobId, &'static str) {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, spec);
    case.run_for(Span::seconds(8));
    let home = if case.ranges(job).contains("@a") { "a" } else { "b" };
    let count = case.shard(home).running(job).len();
    for n in 0..u32::try_from(count).unwrap() {
        store_record(&mut case, home, job, n, record(n));
    }
    (case, job, home)
}

pub fn cut(case: &mut Case, cluster: &str) {
    case.shard(cluster).cores = 0;
    case.cut(cluster);
}

fn is_alarmed(case: &Case, words: &str) -> bool {
    case.alarms.iter().any(|alarm| alarm.contains(words))
}

pub fn declare(case: &mut Case, cluster: &str, silence: u64, as_what: Declaration) {
    let declared = DeclaredHealth { silence, as_what };
    case.change_cluster(cluster, |row| row.declared = Some(declared));
}

pub fn silence(case: &Case, cluster: &str) -> u64 {
    case.rm.picture().facts.clusters[&ClusterId::new(cluster)]
        .state
        .as_ref()
        .unwrap()
        .health
        .silence
}

pub fn health(case: &Case, cluster: &str) -> Health {
    case.rm.picture().facts.clusters[&ClusterId::new(cluster)].health()
}

#[test]
fn what_runs_at_a_lost_cluster_begins_elsewhere_after_its_time() {
    for spec in [service(4), batch(4), batch(4).gang()] {
        let (mut case, job, home) = runs(spec.on_cluster_loss(replace_after(3)));
        let other = other_of(home);
        cut(&mut case, home);
        case.run_for(Span::seconds(180));
        assert_eq!(case.shard(other).running(job).len(), 0, "too early");
        case.run_for(Span::seconds(30));
        assert_eq!(case.shard(other).running(job).len(), 4, "{}", case.ranges(job));
        // The older generation is named, so its records are taken over.
        let assignment = case.assignment(job).unwrap();
        let ranges = assignment.ranges(&GroupName::new("main"));
        let is_next = |r: &echelon_core_model::AssignedRange| {
            let former = r.former.as_ref().map(|(cluster, g)| (cluster.as_str(), g.0));
            (r.generation.0, former) == (2, Some((home, 1)))
        };
        assert!(ranges.iter().all(is_next), "{ranges:?}");
        assert!(case.events_of(job).contains(&ReasonCode::ClusterLost));
        // It is back. What moved stays.
        case.shard(home).cores = 8;
        beat(&mut case, home, 1);
        case.run_for(Span::seconds(60));
        assert_eq!(ban(&case, home).silence, None);
        assert_eq!(case.shard(other).running(job).len(), 4, "{}", case.ranges(job));
    }
}

#[test]
fn what_waits_for_its_cluster_stays() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(OnSilence::Wait));
    cut(&mut case, home);
    case.run_for(Span::minutes(30));
    assert_eq!(health(&case, home), Health::Lost);
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
    // Not even an operator's word moves it: that is the job's decision.
    let number = silence(&case, home);
    declare(&mut case, home, number, Declaration::Lost);
    case.run_for(Span::minutes(3));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
}

#[test]
fn what_has_ended_counts_once() {
    let record = |n| InstanceRecord {
        ended: Some(Ended::Succeeded).filter(|_| n == 1),
        ..running()
    };
    let (mut case, job, home) = runs_with(batch(4).on_cluster_loss(replace_after(3)), record);
    cut(&mut case, home);
    case.run_for(Span::minutes(5));
    let moved = case.shard(other_of(home)).running(job);
    assert_eq!(moved.len(), 3, "{}", case.ranges(job));
    assert!(
        case.ranges(job).contains(&format!("1@{home}.1")),
        "{}",
        case.ranges(job)
    );
}

#[test]
fn an_operator_ends_the_wait_for_one_silence() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(60)));
    cut(&mut case, home);
    case.run_for(Span::seconds(90));
    let number = silence(&case, home);
    // Another silence is meant.
    declare(&mut case, home, number + 1, Declaration::Lost);
    case.run_for(Span::seconds(30));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
    assert_eq!(health(&case, home), Health::CutOff);
    declare(&mut case, home, number, Declaration::Lost);
    case.run_for(Span::seconds(30));
    assert_eq!(health(&case, home), Health::Lost);
    assert_eq!(
        case.shard(other_of(home)).running(job).len(),
        4,
        "{}",
        case.ranges(job)
    );
}

#[test]
fn a_cluster_that_is_declared_alive_is_not_lost_meanwhile() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(3)));
    cut(&mut case, home);
    case.run_for(Span::seconds(60));
    let (number, until) = (silence(&case, home), case.now.plus(Span::minutes(30)));
    declare(&mut case, home, number, Declaration::AliveUntil(until));
    case.run_for(Span::minutes(29));
    assert_eq!(health(&case, home), Health::CutOff);
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
    // What was waited before counts.
    case.run_for(Span::minutes(4));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 4);
}

/// Two of three clusters fall silent at once: this leader may be the one that is cut off.
#[test]
fn nothing_is_replaced_while_most_clusters_are_silent() {
    let mut case = Case::with(&[("a", 8), ("b", 8), ("c", 8)]);
    let jobs: Vec<JobId> = (1..=6)
        .map(|n| case.job(n, service(2).on_cluster_loss(replace_after(3))))
        .collect();
    case.run_for(Span::seconds(8));
    for cluster in ["a", "b"] {
        cut(&mut case, cluster);
    }
    let before: Vec<String> = jobs.iter().map(|job| case.ranges(*job)).collect();
    case.run_for(Span::minutes(40));
    let after: Vec<String> = jobs.iter().map(|job| case.ranges(*job)).collect();
    assert_eq!(before, after);
    assert_eq!(
        (health(&case, "a"), health(&case, "b")),
        (Health::CutOff, Health::CutOff)
    );
    assert!(
        is_alarmed(
            &case,
            "2 of 3 clusters are cut off or without Mesos at once: a, b"
        ),
        "{:?}",
        case.alarms
    );
    // The doubt ends by its time.
    case.run_for(Span::minutes(30));
    let running: usize = jobs.iter().map(|job| case.shard("c").running(*job).len()).sum();
    assert_eq!(running, 8, "all that c has place for");
}

/// A service at the first of these clusters, which is cut off together with `b`, so that the leader doubts itself. The
/// other one is well.
fn most_are_silent() -> (Case, JobId, &'static str, &'static str) {
    let mut case = Case::with(&[("a", 8), ("b", 8), ("c", 8)]);
    let job = case.job(1, service(2).only(&["a", "c"]).on_cluster_loss(replace_after(3)));
    case.run_for(Span::seconds(8));
    let home = if case.ranges(job).contains("@a") { "a" } else { "c" };
    let other = if home == "a" { "c" } else { "a" };
    cut(&mut case, home);
    cut(&mut case, "b");
    (case, job, home, other)
}

/// With `never` the doubt of the same case does not end by its time, but by an operator's word.
#[test]
fn a_doubt_that_never_ends_is_ended_by_an_operator() {
    let (mut case, job, home, other) = most_are_silent();
    case.rm.config.doubt_at_most = None;
    case.run_for(Span::minutes(150));
    assert_eq!(health(&case, home), Health::CutOff);
    assert_eq!(case.shard(other).running(job).len(), 0);
    assert!(is_alarmed(&case, "until this ends"), "{:?}", case.alarms);
    let number = silence(&case, home);
    declare(&mut case, home, number, Declaration::Lost);
    case.run_for(Span::seconds(30));
    assert_eq!(case.shard(other).running(job).len(), 2, "{}", case.ranges(job));
}

#[test]
fn the_wait_goes_on_once_the_others_are_back() {
    let (mut case, job, _, other) = most_are_silent();
    case.run_for(Span::minutes(10));
    assert_eq!(case.shard(other).running(job).len(), 0);
    case.shard("b").cores = 8;
    case.run_for(Span::seconds(120));
    assert_eq!(case.shard(other).running(job).len(), 0, "too early");
    case.run_for(Span::seconds(120));
    assert_eq!(case.shard(other).running(job).len(), 2, "{}", case.ranges(job));
}

/// The sum goes on under a new leader, which first waits for itself.
#[test]
fn a_new_leader_loses_seconds_of_the_wait() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(10)));
    cut(&mut case, home);
    case.run_for(Span::minutes(9));
    case.fail_over();
    case.run_for(Span::seconds(50));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
    case.run_for(Span::seconds(60));
    assert_eq!(
        case.shard(other_of(home)).running(job).len(),
        4,
        "{}",
        case.ranges(job)
    );
}

/// A cluster that was back while nobody led begins a silence of its own.
#[test]
fn a_heartbeat_between_two_leaders_begins_a_new_silence() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(10)));
    cut(&mut case, home);
    case.run_for(Span::minutes(9));
    let number = silence(&case, home);
    beat(&mut case, home, 1);
    case.fail_over();
    case.run_for(Span::minutes(5));
    assert_eq!(silence(&case, home), number + 1);
    assert_eq!(case.shard(other_of(home)).running(job).len(), 0);
    case.run_for(Span::minutes(6));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 4);
}

pub fn lose_mesos(case: &mut Case, cluster: &str) {
    case.shard(cluster).unplaceable = Some(ReasonCode::MesosUnavailable);
    let signs = ShardSigns {
        subscribed: false,
        subscription_age: Span::seconds(20),
        ..ShardSigns::default()
    };
    case.shard(cluster).signs = signs;
    case.at(cluster, |shard, now| shard.full(now));
}

/// The shard is heard, so it is asked, and gives up what runs.
#[test]
fn what_runs_at_a_cluster_without_mesos_is_asked_for_after_its_time() {
    for spec in [service(4), batch(4), batch(4).gang()] {
        let (mut case, job, home) = runs(spec.on_cluster_loss(replace_after(3)));
        let other = other_of(home);
        lose_mesos(&mut case, home);
        case.run_for(Span::seconds(170));
        assert_eq!(health(&case, home), Health::WithoutMesos);
        assert_eq!(case.shard(other).running(job).len(), 0, "too early");
        case.run_for(Span::seconds(30));
        assert_eq!(case.shard(other).running(job).len(), 4, "{}", case.ranges(job));
        assert_eq!(
            ban(&case, home).number,
            0,
            "its shard releases, so nothing is forbidden"
        );
    }
}

/// A shard that has not released yet keeps what runs when Mesos is back.
#[test]
fn the_request_is_withdrawn_when_mesos_is_back() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(3)));
    case.shard(home).stubborn = true;
    lose_mesos(&mut case, home);
    case.run_for(Span::seconds(200));
    assert!(case.ranges(job).contains(">nowhere"), "{}", case.ranges(job));
    case.shard(home).unplaceable = None;
    case.shard(home).signs = ShardSigns {
        subscribed: true,
        ..ShardSigns::default()
    };
    case.at(home, |shard, now| shard.full(now));
    case.run_for(Span::seconds(30));
    case.shard(home).stubborn = false;
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [(home, 4)], "{}", case.ranges(job));
}

/// What a lost cluster has counts in full for five minutes, then as far as it is assigned there.
#[test]
fn capacity_of_a_lost_cluster_is_not_divided_for_ever() {
    let (mut case, _, home) = runs(service(3).on_cluster_loss(OnSilence::Wait));
    let divided = |case: &Case| {
        let figures = crate::queries::figures::figures(case.rm.picture(), None);
        figures.ordinary.certificate.capacity.cpus / 1000
    };
    assert_eq!(divided(&case), 16);
    cut(&mut case, home);
    case.run_for(Span::minutes(4));
    assert_eq!(divided(&case), 16);
    case.run_for(Span::minutes(2));
    assert_eq!(divided(&case), 8 + 3);
    case.shard(home).cores = 8;
    case.run_for(Span::seconds(10));
    assert_eq!(health(&case, home), Health::Recovering);
    assert_eq!(divided(&case), 8 + 3, "it may be away again at once");
    case.run_for(Span::seconds(60));
    assert_eq!(divided(&case), 16);
}

/// A service of `/services`, which reserves four cores, at one of two clusters of 8 cores. Work of another pool has all else.
pub fn filled(patience: u64) -> (Case, JobId, JobId, &'static str) {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.set_pool("/services", 1_000_000);
    case.set_pool("/work", 1_000_000);
    case.change_pool("/services", |pool| pool.reservation.cpus = 4_000);
    let spec = service(4).pool("/services");
    let web = case.job(1, spec.on_cluster_loss(replace_after(patience)));
    case.run_for(Span::seconds(8));
    let home = if case.ranges(web).contains("@a") { "a" } else { "b" };
    for n in 0..4 {
        store_record(&mut case, home, web, n, running());
    }
    let work = case.job(2, batch(30).pool("/work").on_cluster_loss(OnSilence::Wait));
    case.run_for(Span::seconds(8));
    assert_eq!((case.total_active(web), case.total_active(work)), (4, 12));
    for (number, _) in case.shard(home).running(work) {
        store_record(&mut case, home, work, number.0, running());
    }
    (case, web, work, home)
}

/// Its user has waited for long enough, so preemption waits no further, and what the lost cluster had is not divided any more.
#[test]
fn what_was_given_up_takes_capacity_from_others_without_a_delay() {
    let (mut case, web, work, home) = filled(3);
    let other = other_of(home);
    cut(&mut case, home);
    case.run_for(Span::seconds(180));
    assert_eq!(case.shard(other).running(work).len(), 8);
    case.run_for(Span::seconds(30));
    assert_eq!(case.shard(other).running(web).len(), 4, "{}", case.ranges(web));
    assert_eq!(case.shard(other).running(work).len(), 4, "no more than is needed");
}

#[test]
fn an_operators_word_makes_capacity_for_services_at_once() {
    let (mut case, web, _, home) = filled(60);
    cut(&mut case, home);
    case.run_for(Span::seconds(90));
    let number = silence(&case, home);
    declare(&mut case, home, number, Declaration::Lost);
    case.run_for(Span::seconds(25));
    let moved = case.shard(other_of(home)).running(web).len();
    assert_eq!(moved, 4, "{}", case.ranges(web));
}

/// Of what is left each pool has a part in proportion to what it reserves.
#[test]
fn reservations_shrink_in_proportion_when_a_cluster_is_lost() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    for (pool, cores) in [("/x", 12), ("/y", 4)] {
        case.set_pool(pool, 1_000_000);
        case.change_pool(pool, |pool| pool.reservation.cpus = cores * 1_000);
    }
    let jobs = [("/x", 12), ("/y", 4)].map(|(pool, n)| {
        let spec = service(n).pool(pool).spread();
        case.job(u128::from(n), spec.on_cluster_loss(replace_after(3)))
    });
    case.run_for(Span::seconds(8));
    for (job, count) in jobs.into_iter().zip([12, 4]) {
        let there = case.shard("a").running(job);
        assert_eq!(case.total_active(job), count);
        for (number, _) in there {
            store_record(&mut case, "a", job, number.0, running());
        }
    }
    cut(&mut case, "a");
    case.run_for(Span::minutes(4));
    let facts = &case.rm.picture().facts;
    let entitled = crate::division::entitled(facts, &case.rm.picture().demand.ledger);
    let cores = ["/x", "/y"].map(|pool| entitled.ordinary.amount(facts.hierarchy.find(pool).unwrap()).cpus);
    assert_eq!(cores, [6_000, 2_000]);
    case.run_for(Span::minutes(2));
    let active = jobs.map(|job| case.shard("b").running(job).len());
    assert_eq!(active, [6, 2]);
}

/// A service of four at `a`, which gave all of it up, while `b` has capacity for two.
fn half_moved() -> (Case, JobId, &'static str) {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(3)));
    case.shard(other_of(home)).cores = 2;
    cut(&mut case, home);
    case.run_for(Span::seconds(240));
    assert_eq!(case.shard(other_of(home)).running(job).len(), 2);
    (case, job, home)
}

/// The indexes of a job that are bound nowhere, by whether records of them count for the next holder.
fn unbound(case: &Case, job: JobId) -> (Vec<u32>, Vec<u32>) {
    let assignment = case.assignment(job).unwrap();
    let group = GroupName::new("main");
    let with_records = assignment.unbound_with_records(&group);
    let sets = assignment.released.get(&group).into_iter().flatten();
    let all = sets.fold(RangeSet::new(), |all, (_, set)| all.union(set));
    let numbers = |set: &RangeSet| set.numbers().map(|n| n.0).collect();
    (numbers(&with_records), numbers(&all.minus(&with_records)))
}

/// The lost cluster may run it still, and ends it when it is back, since it reads that the index is scaled away.
#[test]
fn what_was_given_up_and_is_not_wanted_any_more_is_scaled_away() {
    let (mut case, job, _) = half_moved();
    assert_eq!(unbound(&case, job), (vec![2, 3], vec![]));
    case.scale(job, 3);
    case.run_for(Span::seconds(5));
    assert_eq!(unbound(&case, job), (vec![2], vec![3]));
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(unbound(&case, job).0, Vec::<u32>::new());
}

/// The same where nothing of the job is assigned any more.
#[test]
fn a_stop_reaches_what_was_given_up_as_a_whole() {
    let (mut case, job, home) = runs(service(4).on_cluster_loss(replace_after(3)));
    case.shard(other_of(home)).cores = 0;
    cut(&mut case, home);
    case.run_for(Span::seconds(240));
    assert_eq!(unbound(&case, job), (vec![0, 1, 2, 3], vec![]));
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(5));
    assert_eq!(unbound(&case, job), (vec![], vec![0, 1, 2, 3]));
}
