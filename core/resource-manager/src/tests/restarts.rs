//! `max_unavailable` holds for the whole job: parts go from cluster to cluster, and what is down by a restart never exceeds it.

use crate::orders::allotments::{Holder, Reach, divide};
use crate::tests::case::{Case, service};
use crate::tests::shard::{Key, ModelShard};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::Health;
use echelon_core_model::job::Desired;
use echelon_core_model::restart::Restarts;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{Amount, ClusterId, GroupName, InstanceNumber, JobId, RangeSet, Span, Timestamp};
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

    /// What was down comes up; the lowest outdated go down, as far as the part allows.
    pub fn restart(&mut self, key: &Key, now: Timestamp) {
        let active = self.slices[key].active.clone();
        self.down
            .retain(|(k, n), since| k != key || (active.contains(*n) && now.since(*since) < DOWN));
        let asked = self.asked(key);
        if self.slices[key].renewed.0 != asked {
            self.slices.get_mut(key).unwrap().renewed = (asked, RangeSet::new());
        }
        let (_, units) = self.part(key.0, &key.1);
        let free = units.saturating_sub(self.stopped_by_restart(key.0, &key.1));
        let stop = self.old(key).lowest(u64::from(free));
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
            assert!(
                sum <= most,
                "{job}: {parts:?} of {most}\n{}",
                self.trace.join("\n")
            );
        }
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
    (reach, numbers).prop_map(|(reach, (instances, outdated, given, more))| Holder {
        reach,
        instances,
        outdated,
        given,
        allocated: given + more,
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
        if sum(&before) <= limit {
            prop_assert_eq!(sum(&last), limit.saturating_sub(closed).min(usable));
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
    let (mut case, job) = three();
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
