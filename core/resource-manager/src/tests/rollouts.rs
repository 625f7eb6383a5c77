//! Rollouts over clusters: how far they are, how far they reach, and what follows when they fail.

use crate::tests::case::{Case, service};
use crate::tests::shard::Versions;
use echelon_core_model::directive::SliceOrder;
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::rollout::{OnFailure, Rollout, RolloutProgress, RolloutState, UpdatePolicy};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{Amount, JobId, RangeSet, ReasonCode, Span, Timestamp};
use echelon_core_testkit::build::main_group;

impl Case {
    /// Has a job's instances run something else from now on, by a rollout.
    fn update(&mut self, job: JobId, command: &str, policy: UpdatePolicy) {
        let before = self.spec(job);
        let head = self.head(job).unwrap();
        self.respec_silently(job, |spec| {
            spec.update = policy;
            spec.groups
                .iter_mut()
                .for_each(|g| g.runtime = Runtime::shell(command));
            spec.settle_revisions(Some(&before), head.spec_version + 1);
        });
        let rollout = Rollout::after(head.rollout.as_ref(), head.spec_version, Timestamp(1));
        self.change_head(job, |h| h.rollout = Some(rollout));
        self.hint(job);
    }

    fn spec(&self, job: JobId) -> JobSpec {
        let version = self.head(job).unwrap().spec_version;
        let Answer::Spec(Some(spec)) = self.store.read(&Query::Spec(job, version)) else {
            panic!()
        };
        spec
    }

    /// Lets a cluster tell of the version of a job's instances.
    fn tell(&mut self, name: &str, job: JobId, revision: u32, (updated, failed): (u64, u64)) {
        let versions = Versions {
            revision,
            updated,
            failed,
            behind: None,
        };
        self.at(name, |s, now| {
            s.versions.insert(job, versions);
            s.work(now)
        });
        self.run_for(Span::seconds(3));
    }

    fn rollout(&self, job: JobId) -> RolloutProgress {
        let Answer::Progress(rows) = self.store.read(&Query::Progress(job)) else {
            panic!()
        };
        rows[0].rollout.clone().expect("a rollout")
    }

    fn order_at(&mut self, name: &str, job: JobId) -> SliceOrder {
        self.shard(name).orders[&(job, main_group())].clone()
    }
}

fn two() -> (Case, JobId) {
    let mut case = Case::with(&[("a", 9), ("b", 9)]);
    let job = case.job(1, service(6).spread());
    assert_eq!(case.active(job), [("a", 3), ("b", 3)]);
    (case, job)
}

fn usual() -> UpdatePolicy {
    UpdatePolicy::DEFAULT
}

#[test]
fn a_rollout_is_done_when_every_cluster_says_so_and_stays_done() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.tell("a", job, 2, (3, 0));
    let told = case.rollout(job);
    assert_eq!((told.state, told.updated), (RolloutState::Running, 3));
    case.tell("b", job, 2, (3, 0));
    assert_eq!(case.rollout(job).state, RolloutState::Done);
    case.tell("b", job, 2, (2, 1));
    assert_eq!(
        case.rollout(job).state,
        RolloutState::Done,
        "what fails later is another story"
    );
    case.fail_over();
    case.run_for(Span::seconds(5));
    assert_eq!(case.rollout(job).state, RolloutState::Done);
}

#[test]
fn what_is_told_of_another_version_does_not_count() {
    let (mut case, job) = two();
    case.tell("a", job, 1, (3, 2));
    case.tell("b", job, 1, (3, 2));
    case.update(job, "b", usual());
    let told = case.rollout(job);
    assert_eq!(
        (told.state, told.updated, told.failed),
        (RolloutState::Running, 0, 0)
    );
}

#[test]
fn canaries_come_first_and_the_others_wait_for_a_word() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        canaries: Amount::Count(2),
        ..usual()
    };
    case.update(job, "b", policy);
    let below: Vec<u32> = ["a", "b"].map(|c| case.order_at(c, job).update_below).to_vec();
    assert_eq!(below, [2, 2]);
    case.tell("a", job, 2, (2, 0));
    assert_eq!(case.rollout(job).state, RolloutState::Canary);
    case.change_head(job, |h| h.rollout.as_mut().unwrap().promoted = true);
    case.hint(job);
    assert_eq!(case.order_at("b", job).update_below, u32::MAX);
    case.run_for(Span::seconds(3));
    assert_eq!(case.rollout(job).state, RolloutState::Running);
}

#[test]
fn canaries_that_are_good_are_accepted_by_themselves_where_that_is_asked_for() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        canaries: Amount::Count(2),
        auto_promote: true,
        ..usual()
    };
    case.update(job, "b", policy);
    assert_eq!(case.order_at("a", job).update_below, 2);
    case.tell("a", job, 2, (2, 0));
    assert_eq!(case.order_at("a", job).update_below, u32::MAX);
}

#[test]
fn too_many_failures_bring_the_job_back_whole() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.tell("a", job, 2, (0, 1));
    let head: Head = case.head(job).unwrap();
    let rollout = head.rollout.unwrap();
    assert_eq!(
        (rollout.number, rollout.back, head.spec_version),
        (2, Some(ReasonCode::RolloutFailures), 3)
    );
    assert_eq!(case.spec(job).groups[0].revision, 1);
    let past: Vec<_> = head
        .past_rollouts
        .iter()
        .map(|p| (p.spec_version, p.state))
        .collect();
    assert_eq!(past, [(2, RolloutState::Running)]);
    assert_eq!(case.rollout(job).state, RolloutState::RollingBack);
    for cluster in ["a", "b"] {
        case.tell(cluster, job, 1, (3, 0));
    }
    assert_eq!(case.rollout(job).state, RolloutState::RolledBack);
    assert_eq!(
        case.rollout(job).reason.unwrap().code,
        ReasonCode::RolloutFailures
    );
}

#[test]
fn a_fleet_whose_rollouts_fail_at_once_goes_back_some_at_a_time() {
    let mut case = Case::with(&[("a", 100)]);
    let jobs: Vec<JobId> = (1..=80).map(|n| case.store_job(n, service(1))).collect();
    jobs.iter().for_each(|job| case.hint(*job));
    for job in &jobs {
        case.update(*job, "b", usual());
    }
    let failed = Versions {
        revision: 2,
        updated: 0,
        failed: 1,
        behind: None,
    };
    case.at("a", |s, now| {
        s.versions.extend(jobs.iter().map(|job| (*job, failed)));
        s.work(now)
    });
    case.run_for(Span::seconds(10));
    for job in jobs {
        let rollout = case.head(job).unwrap().rollout.unwrap();
        assert_eq!(
            (rollout.number, rollout.back),
            (2, Some(ReasonCode::RolloutFailures))
        );
    }
}

#[test]
fn a_rollout_whose_first_spec_is_lost_stays_and_is_looked_at_again() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.change_head(job, |h| h.rollout.as_mut().unwrap().base = 7);
    case.hint(job);
    let wakes = |case: &mut Case| {
        let before = case.wakes;
        case.run_for(Span::seconds(20));
        case.wakes - before
    };
    let at_rest = wakes(&mut case);
    case.tell("a", job, 2, (0, 1));
    let trying = wakes(&mut case);
    assert_eq!(case.head(job).unwrap().rollout.unwrap().number, 1);
    assert!(trying < 2 * at_rest, "{trying} wakes instead of {at_rest}");
    case.change_head(job, |h| h.rollout.as_mut().unwrap().base = 1);
    case.hint(job);
    case.run_for(Span::seconds(3));
    assert_eq!(case.head(job).unwrap().rollout.unwrap().number, 2);
}

#[test]
fn a_rollback_that_fails_is_not_rolled_back() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.tell("a", job, 2, (0, 1));
    case.tell("a", job, 1, (2, 6));
    assert_eq!(case.head(job).unwrap().rollout.unwrap().number, 2);
    assert_eq!(case.rollout(job).state, RolloutState::RollingBack);
}

#[test]
fn a_rollback_keeps_the_scale_of_now() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.scale(job, 4);
    case.tell("a", job, 2, (0, 1));
    let spec = case.spec(job);
    assert_eq!((spec.groups[0].revision, spec.groups[0].instances), (1, 4));
}

#[test]
fn failures_hold_a_rollout_where_that_is_asked_for_and_go_on_when_forgiven() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        on_failure: OnFailure::Pause,
        ..usual()
    };
    case.update(job, "b", policy);
    case.tell("a", job, 2, (0, 1));
    let held = case.head(job).unwrap().rollout.unwrap();
    assert_eq!((held.number, held.held), (1, Some(ReasonCode::RolloutFailures)));
    assert_eq!(case.rollout(job).state, RolloutState::Paused);
    case.change_head(job, |h| {
        let rollout = h.rollout.as_mut().unwrap();
        (rollout.held, rollout.forgiven) = (None, 1);
    });
    case.hint(job);
    case.run_for(Span::seconds(3));
    assert_eq!(case.head(job).unwrap().rollout.unwrap().held, None);
    assert_eq!(case.rollout(job).state, RolloutState::Running);
    case.tell("a", job, 2, (0, 2));
    assert!(case.head(job).unwrap().rollout.unwrap().held.is_some());
}

#[test]
fn some_failures_are_forgiven_by_policy() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        max_failures: Amount::Percent(50),
        ..usual()
    };
    case.update(job, "b", policy);
    case.tell("a", job, 2, (0, 3));
    assert_eq!(case.head(job).unwrap().rollout.unwrap().number, 1);
    case.tell("b", job, 2, (0, 1));
    assert_eq!(case.head(job).unwrap().rollout.unwrap().number, 2);
}

#[test]
fn a_wish_that_comes_while_a_rollback_is_written_wins() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    let now = case.now;
    let reports = {
        let shard = case.shard("a");
        let versions = Versions {
            revision: 2,
            updated: 0,
            failed: 1,
            behind: None,
        };
        shard.versions.insert(job, versions);
        shard.work(now)
    };
    case.bring(&echelon_core_model::ClusterId::new("a"), reports);
    // Nobody has told the resource manager of the stop yet.
    case.change_head(job, |h| h.goal.desired = Desired::Stopped);
    case.settle();
    case.run_for(Span::seconds(5));
    let head = case.head(job).unwrap();
    assert_eq!(
        (head.goal.desired, head.rollout.unwrap().number),
        (Desired::Stopped, 1)
    );
}

#[test]
fn who_runs_beyond_the_number_makes_up_for_who_is_down() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        max_surge: Amount::Count(2),
        ..usual()
    };
    case.most_unavailable.insert(job, 3);
    case.update(job, "b", policy);
    case.run_for(Span::seconds(3));
    let active: usize = case.active(job).iter().map(|(_, n)| n).sum();
    assert_eq!(active, 8, "two more while it lasts");
    let parts: u32 = ["a", "b"]
        .map(|c| case.order_at(c, job).max_unavailable)
        .iter()
        .sum();
    assert_eq!(parts, 3, "max_unavailable, and who makes up for it");
    for cluster in ["a", "b"] {
        case.tell(cluster, job, 2, (4, 0));
    }
    assert_eq!(case.rollout(job).state, RolloutState::Done);
    case.run_for(Span::seconds(10));
    let active: usize = case.active(job).iter().map(|(_, n)| n).sum();
    assert_eq!(active, 6);
    let parts: u32 = ["a", "b"]
        .map(|c| case.order_at(c, job).max_unavailable)
        .iter()
        .sum();
    assert_eq!(parts, 1);
}

#[test]
fn a_rollout_that_was_paused_as_it_ended_holds_nobody_back() {
    let (mut case, job) = two();
    case.update(job, "b", usual());
    case.tell("a", job, 2, (3, 0));
    case.tell("b", job, 2, (3, 0));
    assert_eq!(case.rollout(job).state, RolloutState::Done);
    let held = |case: &Case| case.head(job).unwrap().rollout.unwrap().held;
    case.change_head(job, |h| {
        h.rollout.as_mut().unwrap().held = Some(ReasonCode::RolloutPaused)
    });
    case.hint(job);
    case.run_for(Span::seconds(3));
    assert_eq!((held(&case), case.rollout(job).state), (None, RolloutState::Done));
}

#[test]
fn a_held_rollout_is_not_over_while_one_within_the_number_is_of_another_version() {
    let (mut case, job) = two();
    let policy = UpdatePolicy {
        max_surge: Amount::Count(1),
        ..usual()
    };
    case.most_unavailable.insert(job, 2);
    case.update(job, "b", policy);
    case.run_for(Span::seconds(3));
    let rollout = |held| move |head: &mut Head| head.rollout.as_mut().unwrap().held = held;
    case.change_head(job, rollout(Some(ReasonCode::RolloutPaused)));
    case.hint(job);
    let active = case.active(job);
    let (most, others) = if active[0].1 == 4 { ("a", "b") } else { ("b", "a") };
    // Of four one is old, which nobody is to replace now; the one beyond the number is new.
    case.tell(others, job, 2, (3, 0));
    case.tell(most, job, 2, (3, 0));
    assert_eq!(case.rollout(job).state, RolloutState::Paused);
    case.change_head(job, rollout(None));
    case.hint(job);
    case.tell(most, job, 2, (4, 0));
    assert_eq!(case.rollout(job).state, RolloutState::Done);
}

#[test]
fn stateful_instances_are_updated_in_the_order_of_their_numbers_over_clusters() {
    let (mut case, job) = two();
    case.respec(job, |s| s.kind = JobKind::Stateful);
    let of = |case: &mut Case, name: &str| -> Vec<u32> {
        let order = case.order_at(name, job);
        let ranges: RangeSet = order.ranges.iter().map(|r| r.range).collect();
        ranges.numbers().map(|n| n.0).collect()
    };
    let (a, b) = (of(&mut case, "a"), of(&mut case, "b"));
    case.update(job, "b", usual());
    let revision = case.order_at("a", job).spec_version;
    let below = |case: &mut Case| ["a", "b"].map(|c| case.order_at(c, job).update_below);
    assert_eq!(below(&mut case), [1, 1], "nobody has told of the new version yet");
    let tell = |case: &mut Case, name: &str, behind: Option<u32>| {
        let versions = Versions {
            revision,
            behind,
            ..Versions::default()
        };
        case.at(name, |s, now| {
            s.versions.insert(job, versions);
            s.work(now)
        });
        case.run_for(Span::seconds(3));
    };
    for good in 0..6u32 {
        let next = |of: &[u32]| of.iter().copied().find(|n| *n >= good);
        tell(&mut case, "a", next(&a));
        tell(&mut case, "b", next(&b));
        assert_eq!(below(&mut case), [good + 1; 2], "number {good} and none after it");
    }
    tell(&mut case, "a", None);
    tell(&mut case, "b", None);
    assert_eq!(below(&mut case), [u32::MAX; 2]);
}
