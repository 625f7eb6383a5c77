//! `max_unavailable` holds for the whole job: parts go from cluster to cluster, and what is down by a restart never exceeds it.

use crate::orders::allotments::{Holder, Reach, divide};
use crate::tests::case::{Case, service};
use crate::tests::lost::{cut, running};
use crate::tests::shard::{Key, ModelShard};
use crate::tests::silent::store_record;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::Health;
use echelon_core_model::job::Desired;
use echelon_core_model::restart::Restarts;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{
    Amount, ClusterId, GroupName, InstanceNumber, InstanceRange, JobId, RangeSet, ReasonCode, Span, Timestamp,
};
use echelon_core_testkit::build::main_group;
use proptest::prelude::*;

/// How long a restarted instance is down.
const DOWN: Span = Span::millis(700);

impl ModelShard {
    pub fn part(&self, job: JobId, group: &GroupName) -> (u64, u32) {
        self.parts.get(&(job, group.clone())).copied().unwrap_or_default()
    }

    /// Instances of a group that a restart has stopped and that do not run yet.
    pub fn stopped_by_restart(&self, job: JobId, group: &GroupName) -> u32 {
        let of_group = self.down.keys().filter(|((j, g, _), _)| *j == job && g == group);
        u32::try_from(of_group.count()).unwrap()
    }

    /// The same, and those that have no run or are not available.
    pub fn unavailable(&self, job: JobId, group: &GroupName) -> u32 {
        let of_group = self
            .slices
            .iter()
            .filter(|((j, g, _), _)| *j == job && g == group);
        let resting: u64 = of_group.map(|(_, slice)| slice.between_runs.count()).sum();
        let unready = self.unready.get(&job).map_or(0, RangeSet::count);
        self.stopped_by_restart(job, group) + u32::try_from(resting + unready).unwrap()
    }

    pub fn in_force(&self, job: JobId, group: &GroupName) -> u32 {
        self.part(job, group).1.max(self.stopped_by_restart(job, group))
    }

    /// The same as far as it has an effect: where nothing is active nothing is stopped.
    fn in_effect(&self, job: JobId, group: &GroupName) -> u32 {
        let mut of_group = self
            .slices
            .iter()
            .filter(|((j, g, _), _)| *j == job && g == group);
        let is_active = of_group.any(|(_, slice)| !slice.active.is_empty());
        let part = if is_active { self.part(job, group).1 } else { 0 };
        part.max(self.stopped_by_restart(job, group))
    }

    /// Active runs from before the last restart asked for.
    pub fn outdated(&self, job: JobId, group: &GroupName) -> u64 {
        let of_group = self.slices.keys().filter(|(j, g, _)| *j == job && g == group);
        of_group.map(|key| self.old(key).count()).sum()
    }

    fn old(&self, key: &Key) -> RangeSet {
        let (slice, asked) = (&self.slices[key], self.asked(key));
        let (renewed_for, renewed) = &slice.renewed;
        if asked == 0 {
            RangeSet::new()
        } else if *renewed_for == asked {
            slice.active.minus(renewed)
        } else {
            slice.active.clone()
        }
    }

    fn asked(&self, key: &Key) -> u32 {
        let order = self.orders.get(&(key.0, key.1.clone()));
        order.map_or(0, |o| o.goal.restarts)
    }

    /// What was down comes up; the lowest outdated go down, as far as the part allows. Those that are unavailable already cost
    /// nothing of it, but no more of them are replaced at once.
    pub fn restart(&mut self, key: &Key, now: Timestamp) {
        let active = self.slices[key].active.clone();
        self.down
            .retain(|(k, n), since| k != key || (active.contains(*n) && now.since(*since) < DOWN));
        let asked = self.asked(key);
        if self.slices[key].renewed.0 != asked {
            self.slices.get_mut(key).unwrap().renewed = (asked, RangeSet::new());
        }
        let (_, units) = self.part(key.0, &key.1);
        let turns = units.saturating_sub(self.stopped_by_restart(key.0, &key.1));
        let free = units.saturating_sub(self.unavailable(key.0, &key.1));
        let old = self.old(key);
        let unready = self.unready.entry(key.0).or_default();
        let repaired = old.intersect(unready).lowest(turns.into());
        *unready = unready.minus(&repaired);
        let stop = old.minus(unready).minus(&repaired).lowest(u64::from(free));
        let stop = stop.union(&repaired);
        let slice = self.slices.get_mut(key).unwrap();
        slice.renewed.1 = slice.renewed.1.union(&stop);
        let stop: Vec<InstanceNumber> = stop.numbers().collect();
        self.down
            .extend(stop.into_iter().map(|n| ((key.clone(), n), now)));
    }
}

impl Case {
    /// No more is down by a restart than the spec allows, and the parts that have an effect sum to no more.
    pub fn hold_max_unavailable(&self) {
        let picture = self.rm.picture();
        let mut groups: Vec<(JobId, GroupName)> = self
            .shards
            .values()
            .flat_map(|s| s.parts.keys().cloned())
            .collect();
        groups.sort();
        groups.dedup();
        for (job, group) in groups {
            let most = self.most_unavailable.get(&job).copied().unwrap_or(1);
            // What it has left of a job that was given up there is none of the job's instances.
            let is_lost = |c: &ClusterId| {
                let view = picture.facts.clusters.get(c);
                let holds = picture.facts.jobs.get(&job).is_some_and(|of| {
                    let ranges = of.durable.ranges(&group);
                    ranges.iter().any(|r| r.cluster == *c)
                });
                let known = view.and_then(|v| v.state.as_ref());
                let health = known.map_or_else(|| self.stored_health(c), |state| state.health.health);
                !holds && health.is_silence()
            };
            let is_removed = |c: &ClusterId| {
                let view = picture.facts.clusters.get(c);
                let known = view.and_then(|v| v.row.as_ref()).map(|row| row.desired_state);
                known.or_else(|| self.stored_desired_state(c)) == Some(DesiredState::Removed)
            };
            let left = |c: &ClusterId| is_removed(c) || is_lost(c);
            let shards = self.shards.iter().filter(|(c, _)| !left(c));
            let parts: Vec<(&str, u32)> = shards
                .map(|(c, s)| (c.as_str(), s.in_effect(job, &group)))
                .collect();
            let sum: u32 = parts.iter().map(|(_, n)| n).sum();
            let draining = self.draining(job, &group);
            assert!(
                sum + draining <= most,
                "{job}: {parts:?} and {draining} by drains, of {most}\n{}",
                self.trace.join("\n")
            );
        }
    }

    /// Instances of a service that are to leave one cluster for another one.
    fn draining(&self, job: JobId, group: &GroupName) -> u32 {
        let known = self.rm.picture().facts.jobs.get(&job);
        let of = known.filter(|of| {
            of.running_spec()
                .is_some_and(|spec| spec.kind == JobKind::Service)
        });
        let ranges = of.map_or(&[][..], |of| of.decided.ranges(group));
        let moves = ranges.iter().filter(|r| {
            let mark = r.releasing.as_ref();
            mark.is_some_and(|mark| mark.to.is_some() && mark.count.is_none())
        });
        moves.map(|r| u32::try_from(r.range.count()).unwrap()).sum()
    }

    /// The health of a cluster that a new leader has not read yet.
    fn stored_health(&self, cluster: &ClusterId) -> Health {
        let Answer::ClusterStates(states) = self.store.read(&Query::ClusterStates) else {
            panic!()
        };
        let state = states.iter().find(|state| state.cluster == *cluster);
        state.map(|state| state.health.health).unwrap_or_default()
    }

    /// The desired state of such a cluster.
    fn stored_desired_state(&self, cluster: &ClusterId) -> Option<DesiredState> {
        let Answer::Clusters(rows) = self.store.read(&Query::Clusters) else {
            panic!()
        };
        let row = rows.iter().find(|row| row.id == *cluster);
        row.map(|row| row.desired_state)
    }

    /// Restarts go on in the shards.
    pub fn keep_restarting(&mut self) {
        let now = self.now;
        let busy = |s: &ModelShard| !s.down.is_empty();
        let clusters: Vec<_> = self
            .shards
            .iter()
            .filter(|(_, s)| busy(s))
            .map(|(c, _)| c.clone())
            .collect();
        for cluster in clusters {
            let reports = self.shards.get_mut(&cluster).unwrap().work(now);
            self.bring(&cluster, reports);
        }
    }

    fn restart_job(&mut self, job: JobId) {
        self.change_head(job, |h| h.goal.restarts += 1);
        self.hint(job);
    }

    fn all_outdated(&self, job: JobId) -> Vec<u64> {
        self.shards
            .values()
            .map(|s| s.outdated(job, &main_group()))
            .collect()
    }
}

fn three() -> (Case, JobId) {
    let mut case = Case::with(&[("a", 9), ("b", 9), ("c", 9)]);
    let job = case.job(1, service(6).spread());
    assert_eq!(case.active(job), [("a", 2), ("b", 2), ("c", 2)]);
    (case, job)
}

#[test]
fn one_unit_goes_round_until_all_clusters_are_restarted() {
    let (mut case, job) = three();
    case.restart_job(job);
    assert_ne!(case.all_outdated(job), [0, 0, 0]);
    case.run_for(Span::seconds(20));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
    assert!(case.shards.values().all(|s| s.down.is_empty()));
    assert_eq!(case.total_active(job), 6);
}

#[test]
fn what_a_cluster_out_of_reach_holds_is_given_to_no_other() {
    let (mut case, job) = three();
    // The unit lies with the first of them.
    assert_eq!(case.shard("a").part(job, &main_group()).1, 1);
    case.shard("a").cores = 0;
    case.cut("a");
    case.restart_job(job);
    case.run_for(Span::seconds(120));
    assert_eq!(case.all_outdated(job)[1..], [2, 2], "unreachable is not gone");
    case.desire("a", DesiredState::Removed);
    case.run_for(Span::seconds(20));
    assert_eq!(case.all_outdated(job)[1..], [0, 0]);
}

#[test]
fn a_new_leader_raises_nothing_before_every_holder_was_heard() {
    let (mut case, job) = three();
    case.shard("a").cores = 0;
    case.cut("a");
    case.fail_over();
    case.restart_job(job);
    case.run_for(Span::seconds(60));
    assert_eq!(case.all_outdated(job)[1..], [2, 2]);
    case.shard("a").cores = 9;
    // A watch is tried again by the shell.
    case.reopen("a");
    case.run_for(Span::seconds(20));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

#[test]
fn what_is_unavailable_at_one_cluster_counts_at_all_of_them() {
    // There is no capacity for what loses its host.
    let mut case = Case::with(&[("a", 2), ("b", 2), ("c", 2)]);
    let job = case.job(1, service(6).spread());
    case.at("c", |shard, now| shard.lose_host_of(job, 1, now));
    case.restart_job(job);
    case.run_for(Span::seconds(60));
    assert_eq!(case.all_outdated(job), [2, 2, 1]);
    case.shard("c").cores = 2;
    case.at("c", |shard, now| shard.full(now));
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

#[test]
fn what_goes_from_cluster_to_cluster_is_unavailable_all_the_way() {
    let names = ["a", "b", "c", "d"];
    let mut case = Case::with(&names.map(|name| (name, 2)));
    let job = case.job(1, service(3).spread());
    let holder = names
        .into_iter()
        .find(|name| !case.shard(name).running(job).is_empty());
    for name in names {
        case.shard(name).unplaceable = Some(ReasonCode::AwaitingOffer);
    }
    case.shard(holder.unwrap()).unplaceable = Some(ReasonCode::HostResources);
    case.at(holder.unwrap(), |shard, now| shard.lose_host_of(job, 1, now));
    case.restart_job(job);
    case.watch = Some(Box::new(move |case| {
        let up = |shard: &ModelShard| shard.running(job).len() - shard.down.len();
        let up: usize = case.shards.values().map(up).sum();
        assert!(up >= 2, "{up} of 3 are available\n{}", case.trace.join("\n"));
    }));
    // It leaves its cluster after ten seconds, and each of the next ones.
    case.run_for(Span::seconds(40));
    for name in names {
        case.shard(name).unplaceable = None;
    }
    case.run_for(Span::seconds(60));
    assert_eq!(case.all_outdated(job), [0; 4]);
    assert_eq!(case.total_active(job), 3);
}

#[test]
fn what_is_unavailable_is_replaced_although_nothing_else_may_be() {
    let (mut case, job) = three();
    for (name, count) in [("b", 2), ("c", 1)] {
        case.at(name, |shard, now| {
            let running = shard.running(job).into_iter();
            let numbers: RangeSet = running.map(|(n, _)| InstanceRange::one(n)).collect();
            shard.unready.insert(job, numbers.lowest(count));
            shard.work(now)
        });
    }
    case.run_for(Span::seconds(5));
    let down: u32 = case
        .shards
        .values()
        .map(|s| s.unavailable(job, &main_group()))
        .sum();
    assert_eq!(down, 3);
    case.restart_job(job);
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

/// Cuts a cluster off, with stored records of what runs there, and restarts the job when that is known.
fn restart_without(case: &mut Case, job: JobId, silent: &str) {
    for (number, _) in case.shard(silent).running(job) {
        store_record(case, silent, job, number.0, running());
    }
    cut(case, silent);
    case.run_for(Span::seconds(20));
    case.restart_job(job);
}

#[test]
fn what_runs_at_a_silent_cluster_is_unavailable_until_it_is_replaced() {
    // The unit lies with the first of them.
    for silent in ["a", "c"] {
        let (mut case, job) = three();
        restart_without(&mut case, job, silent);
        case.run_for(Span::minutes(13));
        assert_eq!(case.all_outdated(job).iter().sum::<u64>(), 4, "{silent}");
        case.run_for(Span::minutes(4));
        assert_eq!(case.all_outdated(job), [0, 0, 0], "{silent}");
    }
}

/// Six instances at three clusters, of which two may be unavailable.
fn two_of_six() -> (Case, JobId) {
    let mut case = Case::with(&[("a", 9), ("b", 9), ("c", 2)]);
    let job = case.store_job(1, service(6).spread().max_unavailable(2));
    case.most_unavailable.insert(job, 2);
    case.hint(job);
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("a", 2), ("b", 2), ("c", 2)]);
    (case, job)
}

#[test]
fn a_restart_waits_for_the_report_of_a_shard_that_is_back() {
    let (mut case, job) = two_of_six();
    restart_without(&mut case, job, "c");
    case.run_for(Span::seconds(5));
    assert_eq!(case.all_outdated(job)[..2], [2, 2]);
    case.shard("c").cores = 2;
    case.shard("c").reads = true;
    case.reopen("c");
    case.run_for(Span::seconds(5));
    assert_eq!(
        case.all_outdated(job)[..2],
        [2, 2],
        "what has become of them is not reported"
    );
    case.shard("c").reads = false;
    case.at("c", ModelShard::full);
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

#[test]
fn what_a_drain_has_stopped_counts_until_it_runs_again() {
    let (mut case, job) = two_of_six();
    case.shard("c").stubborn = true;
    case.desire("c", DesiredState::Draining);
    case.run_for(Span::seconds(5));
    assert_eq!(case.ranges(job).matches('>').count(), 1, "{}", case.ranges(job));
    // Meanwhile their capacity is gone.
    for name in ["a", "b"] {
        case.at(name, |shard, now| shard.close(9, now));
    }
    case.shard("c").stubborn = false;
    case.at("c", |s, now| s.work(now));
    case.run_for(Span::seconds(30));
    assert_eq!(case.total_active(job), 4, "{}", case.ranges(job));
    case.restart_job(job);
    case.run_for(Span::seconds(60));
    assert_eq!(
        case.all_outdated(job).iter().sum::<u64>(),
        4,
        "{}",
        case.ranges(job)
    );
    for name in ["a", "b"] {
        case.at(name, |shard, now| shard.close(0, now));
    }
    case.run_for(Span::seconds(60));
    assert_eq!(case.total_active(job), 6, "{}", case.ranges(job));
    assert_eq!(case.all_outdated(job).iter().sum::<u64>(), 0);
}

#[test]
fn a_larger_limit_lets_a_restart_pass_a_silent_cluster_that_is_waited_for() {
    let mut case = Case::with(&[("a", 9), ("b", 9), ("c", 9)]);
    let job = case.job(1, service(6).spread().on_cluster_loss(OnSilence::Wait));
    restart_without(&mut case, job, "c");
    case.run_for(Span::minutes(30));
    assert_eq!(case.all_outdated(job), [2, 2, 0]);
    // A new leader has not heard of it.
    case.fail_over();
    case.most_unavailable.insert(job, 3);
    case.respec(job, |spec| spec.groups[0].max_unavailable = Amount::Count(3));
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

/// Both stop instances, and together no more than may be unavailable.
#[test]
fn a_drain_takes_its_units_from_the_allotments_of_restarts() {
    let (mut case, job) = three();
    case.restart_job(job);
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::minutes(3));
    assert_eq!(case.shard("a").running(job).len(), 0);
    assert_eq!(case.all_outdated(job), [0, 0, 0]);
}

/// What a drain stops is unavailable before it has gone. With an allotment for it its shard would restart another
/// one as soon as it has.
#[test]
fn no_allotment_is_given_for_what_a_drain_stops() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    case.shard("b").stubborn = true;
    case.desire("b", DesiredState::Draining);
    case.run_for(Span::seconds(3));
    assert_eq!(case.ranges(job), "0-1@a.1 2@b.1 3@b.1>a");
    case.restart_job(job);
    case.at("b", |shard, now| {
        let leaves = RangeSet::from_iter([InstanceRange::one(InstanceNumber(3))]);
        shard.unready.insert(job, leaves);
        shard.work(now)
    });
    case.run_for(Span::seconds(3));
    let parts = ["a", "b"].map(|name| case.shard(name).part(job, &main_group()).1);
    assert_eq!(parts, [0, 0]);
    case.shard("b").stubborn = false;
    case.at("b", |shard, now| {
        shard.unready.clear();
        shard.work(now)
    });
    case.run_for(Span::minutes(1));
    assert_eq!(case.active(job), [("a", 4)]);
    assert_eq!(case.all_outdated(job), [0, 0]);
}

#[test]
fn a_drain_that_finds_no_capacity_holds_up_no_restart() {
    let mut case = Case::with(&[("a", 2), ("b", 2)]);
    let job = case.job(1, service(4).spread());
    case.desire("a", DesiredState::Draining);
    case.run_for(Span::seconds(10));
    case.restart_job(job);
    case.run_for(Span::seconds(60));
    assert_eq!(case.all_outdated(job), [0, 0]);
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
}

#[test]
fn a_lowered_limit_takes_before_it_gives() {
    let mut case = Case::with(&[("a", 9), ("b", 9)]);
    let job = case.store_job(1, service(6).spread().max_unavailable(4));
    case.most_unavailable.insert(job, 4);
    case.hint(job);
    case.restart_job(job);
    let parts = |case: &Case| -> Vec<u32> {
        let all = case.shards.values();
        all.map(|s| s.part(job, &main_group()).1).collect()
    };
    assert_eq!(parts(&case).iter().sum::<u32>(), 4);
    case.respec(job, |s| s.groups[0].max_unavailable = Amount::Count(1));
    case.run_for(Span::seconds(5));
    case.most_unavailable.insert(job, 1);
    assert_eq!(parts(&case).iter().sum::<u32>(), 1);
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0]);
}

#[test]
fn a_part_of_all_is_of_the_instances_that_are_wanted_now() {
    let mut case = Case::with(&[("a", 40), ("b", 40)]);
    let part = Amount::Percent(40);
    let job = case.store_job(1, service(10).spread().max_unavailable_of(part));
    case.most_unavailable.insert(job, 4);
    case.hint(job);
    case.restart_job(job);
    let sum = |case: &Case| -> u32 {
        let all = case.shards.values();
        all.map(|s| s.part(job, &main_group()).1).sum()
    };
    assert_eq!(sum(&case), 4);
    case.respec(job, |s| s.groups[0].instances = 2);
    case.run_for(Span::seconds(5));
    case.most_unavailable.insert(job, 1);
    assert_eq!(sum(&case), 1, "40% of two are rounded down, and at least one");
    case.run_for(Span::seconds(30));
    assert_eq!(case.all_outdated(job), [0, 0]);
}

#[test]
fn a_job_that_is_not_to_run_has_no_parts() {
    let (mut case, job) = three();
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(2));
    assert!(case.progress(job).unwrap().state.is_ended());
    // The word that it is archived never arrived at the cluster that had the unit, and a new leader hears nothing of it.
    case.fail_over();
    case.shard("a").parts.insert((job, main_group()), (1, 1));
    case.cut("a");
    case.want(job, Desired::Deleted);
    assert_eq!(case.shard("b").part(job, &main_group()).1, 0);
    assert_eq!(case.shard("c").part(job, &main_group()).1, 0);
}

fn holder() -> impl Strategy<Value = Holder> {
    let reach = prop_oneof![3 => Just(Reach::Open), 1 => Just(Reach::Cut), 1 => Just(Reach::Unheard)];
    let numbers = (0u64..9, 0u64..9, 0u64..5, 0u64..5);
    let lost = prop_oneof![2 => Just((0, 0, 0)), 1 => (0u64..4, 0u64..3, 0u64..3)];
    (reach, numbers, lost).prop_map(|(reach, numbers, (down, leaving, arriving))| {
        let (instances, outdated, given, more) = numbers;
        Holder {
            reach,
            instances,
            outdated,
            given,
            allocated: given + more,
            down,
            leaving,
            missing: leaving + arriving,
        }
    })
}

proptest! {
    #[test]
    fn parts_never_sum_above_the_limit_and_come_to_what_is_wanted(
        limit in 1u64..9, holders in proptest::collection::vec(holder(), 1..6),
    ) {
        let sum = |n: &[u64]| n.iter().sum::<u64>();
        let before: Vec<u64> = holders.iter().map(|h| h.allocated).collect();
        let parts = divide(limit, &holders);
        // What may be used while the new parts are on their way.
        let both: Vec<u64> = before.iter().zip(&parts).map(|(a, b)| *a.max(b)).collect();
        prop_assert!(sum(&both) <= limit.max(sum(&before)), "{both:?}");
        // The same of what was given: a shard that says it takes more is not given that.
        let given: Vec<u64> = holders.iter().map(|h| h.given).collect();
        let both: Vec<u64> = given.iter().zip(&parts).map(|(a, b)| *a.max(b)).collect();
        prop_assert!(sum(&both) <= limit.max(sum(&given)), "{both:?}");
        prop_assert!(holders.iter().zip(&parts).all(|(h, n)| h.reach == Reach::Open || *n == 0));
        // Nothing more becomes unavailable than may, beside what is already.
        let lost = |parts: &[u64]| -> u64 {
            let pairs = holders.iter().zip(parts);
            pairs.map(|(h, n)| h.down.max(h.allocated.max(*n)) + h.missing).sum()
        };
        prop_assert!(lost(&parts) <= limit.max(lost(&vec![0; parts.len()])));
        // All confirm; then no unit that somebody can use is left.
        let confirmed = |parts: &[u64]| -> Vec<Holder> {
            let pairs = holders.iter().zip(parts);
            pairs.map(|(h, n)| match h.reach {
                Reach::Open => Holder { given: *n, allocated: *n, ..*h },
                _ => *h,
            }).collect()
        };
        let last = divide(limit, &confirmed(&parts));
        prop_assert_eq!(&divide(limit, &confirmed(&last)), &last, "it comes to rest");
        let closed: u64 = holders.iter().filter(|h| h.reach != Reach::Open).map(|h| h.allocated).sum();
        let usable: u64 = holders.iter().filter(|h| h.reach == Reach::Open).map(|h| h.instances).sum();
        let is_whole = holders.iter().all(|h| h.down + h.missing == 0);
        if sum(&before) <= limit && is_whole {
            prop_assert_eq!(sum(&last), limit.saturating_sub(closed).min(usable));
        }
        // Where outdated runs are down and stay, one of them at least can be replaced.
        let stays_down = |h: &Holder| h.outdated.min(h.down.saturating_sub(h.leaving));
        let is_stuck = |(h, _): &(&Holder, &u64)| h.reach == Reach::Open && stays_down(h) > 0;
        let stuck: Vec<u64> = holders.iter().zip(&last).filter(is_stuck).map(|(_, n)| *n).collect();
        if sum(&before) <= limit && closed < limit && !stuck.is_empty() {
            prop_assert!(sum(&last) > 0, "{stuck:?}");
        }
    }
}

/// How far the restart is that this head brought, as it is stored.
fn told(case: &Case, job: JobId) -> Option<(u64, bool)> {
    let progress = case.progress(job)?.restart?;
    Some((progress.left, progress.done_at.is_some()))
}

#[test]
fn a_restart_is_told_of_until_every_cluster_that_knew_of_it_has_none_left() {
    let mut case = Case::with(&[("a", 9), ("b", 9), ("c", 9)]);
    let job = case.store_job(1, service(6).spread().max_unavailable(3));
    case.most_unavailable.insert(job, 3);
    case.hint(job);
    assert_eq!(told(&case, job), None);
    case.shard("c").cores = 0;
    case.cut("c");
    case.change_head(job, |h| {
        h.goal.restarts += 1;
        h.restarts = Some(Box::new(Restarts::of_all(h.version, Timestamp(1), None)));
    });
    case.hint(job);
    case.run_for(Span::seconds(1));
    let (left, done) = told(&case, job).unwrap();
    assert!(left > 0 && !done, "{left}");
    case.run_for(Span::seconds(60));
    assert_eq!(case.all_outdated(job)[..2], [0, 0]);
    assert_eq!(told(&case, job), Some((0, false)), "nobody knows what is there");
    case.shard("c").cores = 9;
    case.reopen("c");
    case.run_for(Span::seconds(30));
    assert_eq!(told(&case, job), Some((0, true)));
    case.fail_over();
    assert_eq!(told(&case, job), Some((0, true)), "what is over stays so");
}

#[test]
fn a_batch_bounds_what_is_down_while_its_restart_is_under_way() {
    let mut case = Case::with(&[("a", 9), ("b", 9)]);
    let job = case.store_job(1, service(6).spread().max_unavailable(4));
    case.most_unavailable.insert(job, 4);
    case.hint(job);
    case.run_for(Span::seconds(5));
    let parts = |case: &Case| -> u32 {
        let all = case.shards.values();
        all.map(|s| s.part(job, &main_group()).1).sum()
    };
    assert_eq!(parts(&case), 4);
    case.change_head(job, |h| {
        h.goal.restarts += 1;
        h.restarts = Some(Box::new(Restarts::of_all(h.version, Timestamp(1), Some(1))));
    });
    case.hint(job);
    case.run_for(Span::millis(300));
    assert_eq!(parts(&case), 1);
    case.run_for(Span::seconds(60));
    assert_eq!((told(&case, job), parts(&case)), (Some((0, true)), 4));
}

#[test]
fn instances_that_fail_again_and_again_are_summed_over_clusters_while_the_job_is_to_run() {
    let (mut case, job) = three();
    assert_eq!(case.progress(job).unwrap().crash_looping, 0);
    for (name, n) in [("a", 2), ("b", 1)] {
        case.at(name, |s, now| {
            s.crash_looping = n;
            s.work(now)
        });
    }
    case.run_for(Span::seconds(3));
    assert_eq!(case.progress(job).unwrap().crash_looping, 3);
    case.want(job, Desired::Stopped);
    case.run_for(Span::seconds(3));
    assert_eq!(case.progress(job).unwrap().crash_looping, 0);
}
