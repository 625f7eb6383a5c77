//! What is not read yet is not decided by: ends that are told, and stops that are due, before the job's spec is there.

use crate::world::{Storage, World, job, marked, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::directive::Order;
use echelon_core_model::gang::{Gang, OnMemberFailure};
use echelon_core_model::instance::Ended;
use echelon_core_model::job::Desired;
use echelon_core_model::rollout::Rollout;
use echelon_core_model::rules::Restart;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::siting::Affinity;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{JobId, ReasonCode, RunState, Span, Timestamp};
use echelon_core_shard::{Alarm, Mode};
use echelon_core_testkit::build::{JobBuilder, job_id, main_group, shape};

fn running(spec: &JobSpec) -> World {
    let mut w = World::serving();
    w.store_job(spec);
    let n = u32::try_from(spec.instances()).unwrap();
    w.order(&[range(0, n - 1)], u64::from(n));
    w.run(seconds(2));
    assert_eq!(w.cluster.live().len(), n as usize);
    w
}

/// A new leader that serves all groups, and to which no spec was read.
fn taken_over(w: &mut World) {
    w.crash();
    w.slow_specs = true;
    w.elect();
    w.run(seconds(2));
    w.connect();
}

/// Stores another job of one instance and orders it to run here.
fn order_another(w: &mut World, other: JobId, spec: &JobSpec) {
    w.store_head_of(other, spec, echelon_core_model::job::Goal::default());
    w.assign_of(other, &[(main_group(), &[range(0, 0)])]);
    let mut order = w.slice_order(&[range(0, 0)], &[(1, 1)], 1);
    (order.job, order.spec_version) = (other, 1);
    order.head_version = echelon_core_model::Version(1);
    w.direct(Order::Slices(vec![order]));
}

#[test]
fn what_has_finished_while_nobody_led_does_not_run_again() {
    let mut w = running(&JobBuilder::batch("work", 3).build());
    w.crash();
    for n in 0..3 {
        w.cluster.set(&task(n, 1, 1), TaskState::Finished);
    }
    taken_over(&mut w);
    w.run(seconds(20));
    // The fact is stored and acknowledged; what it means is not decided.
    let stored = w.stored(0).unwrap();
    assert!(stored.unsettled && stored.ended.is_none());
    assert_eq!(stored.run.unwrap().state, RunState::Succeeded);
    assert!(w.cluster.tasks[&task(0, 1, 1)].unacknowledged.is_empty());
    assert_eq!(w.accepted().len(), 3);
    w.unstall();
    w.run(seconds(20));
    assert_eq!(w.accepted().len(), 3);
    for n in 0..3 {
        let stored = w.stored(n).unwrap();
        assert_eq!((stored.ended, stored.unsettled), (Some(Ended::Succeeded), false));
    }
}

#[test]
fn an_end_that_is_not_settled_is_settled_by_the_leader_after() {
    let mut w = running(&JobBuilder::batch("work", 2).build());
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.cluster.set(&task(1, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    assert!(w.stored(0).unwrap().unsettled);
    taken_over(&mut w);
    w.run(seconds(5));
    assert_eq!(w.accepted().len(), 2);
    w.unstall();
    w.run(seconds(20));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(1, 1, 1), task(1, 1, 2)]);
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn what_may_not_be_tried_again_is_not() {
    let spec = JobBuilder::batch("once", 1).restart(Restart::Never).build();
    let mut w = running(&spec);
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    w.unstall();
    w.run(seconds(60));
    assert_eq!(
        (w.accepted().len(), w.stored(0).unwrap().ended),
        (1, Some(Ended::Failed))
    );
}

#[test]
fn a_run_that_fails_meanwhile_counts_against_the_limit_of_retries() {
    let mut w = running(&JobBuilder::batch("work", 1).retry_limit(2).build());
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    assert_eq!(w.accepted().len(), 2);
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 2), TaskState::Failed);
    w.run(seconds(20));
    w.unstall();
    w.run(seconds(120));
    assert_eq!(
        (w.accepted().len(), w.stored(0).unwrap().ended),
        (2, Some(Ended::Failed))
    );
}

#[test]
fn an_exit_code_that_is_not_to_be_tried_again_is_known_when_the_spec_is() {
    let mut spec = JobBuilder::batch("work", 2).build();
    spec.groups[0].retry.no_retry_exit_codes = [78].into_iter().collect();
    let mut w = running(&spec);
    taken_over(&mut w);
    w.cluster.exit(&task(0, 1, 1), 78);
    w.cluster.exit(&task(1, 1, 1), 77);
    w.run(seconds(20));
    w.unstall();
    w.run(seconds(20));
    assert_eq!(w.accepted(), [task(0, 1, 1), task(1, 1, 1), task(1, 1, 2)]);
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Failed));
}

#[test]
fn a_member_that_fails_meanwhile_has_the_gang_begin_anew_when_the_spec_says_so() {
    let mut gang = Gang::new(Span::minutes(5));
    gang.on_failure = OnMemberFailure::Gang;
    let mut w = running(&JobBuilder::batch("gang", 2).gang_of(gang).build());
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    assert!(w.kills().is_empty(), "what follows a failure is not known yet");
    w.unstall();
    w.run(seconds(30));
    assert_eq!(w.kills(), [task(1, 1, 1)]);
}

#[test]
fn the_wait_after_a_failure_counts_from_the_failure() {
    let mut w = running(&JobBuilder::service("web", 1).build());
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(20));
    let ended = w.stored(0).unwrap().run.unwrap().ended_at.unwrap();
    w.unstall();
    w.run(seconds(2));
    assert!(w.record(0).unwrap().not_before < ended.plus(seconds(5)));
    assert_eq!(w.state(0), RunState::Running);
}

#[test]
fn a_member_of_a_gang_that_has_succeeded_fells_nobody() {
    let spec = JobBuilder::batch("gang", 2).gang().build();
    let mut w = running(&spec);
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(30));
    w.unstall();
    w.run(seconds(30));
    assert_eq!((w.kills().len(), w.accepted().len()), (0, 2));
}

#[test]
fn a_stop_waits_for_the_grace_that_the_spec_gives() {
    let mut spec = JobBuilder::service("web", 1).build();
    spec.groups[0].grace = Span::minutes(1);
    let mut w = running(&spec);
    w.crash();
    w.wish(&spec, Desired::Stopped, 0);
    taken_over(&mut w);
    w.run(seconds(10));
    assert!(w.kills().is_empty());
    w.unstall();
    w.run(seconds(3));
    let graces = w.calls.iter().filter_map(|c| match c {
        Call::Kill { grace, .. } => Some(*grace),
        _ => None,
    });
    assert_eq!(graces.collect::<Vec<_>>(), [Span::minutes(1)]);
}

#[test]
fn a_stop_whose_spec_never_comes_goes_on_with_the_longest_grace_and_an_alarm() {
    let spec = JobBuilder::service("web", 1).build();
    let mut w = running(&spec);
    w.crash();
    w.wish(&spec, Desired::Stopped, 0);
    taken_over(&mut w);
    w.run(seconds(40));
    let graces = w.calls.iter().filter_map(|c| match c {
        Call::Kill { grace, .. } => Some(*grace),
        _ => None,
    });
    assert_eq!(graces.collect::<Vec<_>>(), [Span::minutes(24 * 60)]);
    let told = |a: &&Alarm| matches!(a, Alarm::SpecUnread { job: of, .. } if *of == job());
    assert!(w.alarms.iter().any(|a| told(&a)));
    assert_eq!(w.state(0), RunState::Killed);
}

#[test]
fn the_endpoints_of_a_stopping_run_are_drained_by_the_next_leader_too() {
    let mut spec = JobBuilder::service("web", 1).build();
    spec.groups[0].drain = seconds(25);
    let mut w = running(&spec);
    w.wish(&spec, Desired::Stopped, 0);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!((w.state(0), w.kills().len()), (RunState::Stopping, 0));
    taken_over(&mut w);
    w.run(seconds(10));
    assert!(w.kills().is_empty());
    w.unstall();
    w.run(seconds(5));
    assert!(w.kills().is_empty());
    w.run(seconds(10));
    assert_eq!(w.kills().len(), 1);
}

#[test]
fn a_rollout_waits_for_as_long_as_the_spec_says_that_is_read_later() {
    let spec = |version: u32| {
        let mut spec = JobBuilder::service("web", 2).max_unavailable(1).build();
        spec.update.min_healthy = seconds(120);
        spec.groups[0].runtime = Runtime::shell(&format!("v{version}"));
        spec.groups[0].revision = version;
        spec
    };
    let mut w = World::serving();
    w.store_job(&spec(1));
    w.order(&[range(0, 1)], 2);
    w.run(seconds(150));
    w.rollout = Some(Rollout {
        number: 1,
        base: 1,
        ..Rollout::after(None, 1, Timestamp(0))
    });
    w.wish(&spec(2), Desired::Running, 0);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(20));
    let version = |w: &World, n: u32| w.record(n).unwrap().run.unwrap().spec_version;
    assert_eq!((version(&w, 0), version(&w, 1)), (2, 1));
    taken_over(&mut w);
    w.order(&[range(0, 1)], 2);
    w.run(seconds(60));
    w.unstall();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(20));
    assert_eq!(version(&w, 1), 1, "too early");
    w.run(seconds(60));
    assert_eq!(version(&w, 1), 2);
}

#[test]
fn a_number_that_leaves_is_given_back_only_when_its_end_is_settled() {
    let mut w = running(&JobBuilder::batch("work", 1).build());
    taken_over(&mut w);
    w.cluster.set(&task(0, 1, 1), TaskState::Finished);
    w.run(seconds(2));
    assert_eq!(w.shard.mode(), Mode::Recovering);
    w.assign(&[marked(range(0, 0), Some("c2"), None)]);
    w.order(&[marked(range(0, 0), Some("c2"), None)], 1);
    w.run(seconds(10));
    assert!(w.slice(1).is_none_or(|s| s.released.is_empty()));
    w.unstall();
    w.run(seconds(10));
    assert!(!w.slice(1).unwrap().released.is_empty());
    assert_eq!(w.stored(0).unwrap().ended, Some(Ended::Succeeded));
}

#[test]
fn what_is_said_while_the_spec_is_read_is_that_it_is_read() {
    let spec = JobBuilder::service("web", 2).build();
    let mut w = running(&spec);
    w.slow_specs = true;
    w.store_job(&JobBuilder::service("web", 2).command("other").build());
    w.order(&[range(0, 1)], 2);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(5));
    let waiting = w.slice(1).unwrap().waiting;
    let told: Vec<(ReasonCode, u64)> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(told, [(ReasonCode::Recovering, 1)]);
    w.unstall();
    w.run(seconds(10));
    assert_eq!(w.states(2), [RunState::Running; 2]);
}

#[test]
fn nothing_of_another_job_comes_to_a_host_whose_runs_may_want_it_for_themselves() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1, shape(8, 8192));
    w.elect();
    w.run(seconds(1));
    w.connect();
    let alone = JobBuilder::service("alone", 1)
        .siting(|s| s.exclusive = true)
        .build();
    w.store_job(&alone);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.cluster.live().len(), 1);
    // Its next version is on its way, and another job comes.
    w.slow_specs = true;
    w.store_job(&alone);
    w.order(&[range(0, 0)], 1);
    let other = job_id(2);
    w.slow_specs = false;
    let spec = JobBuilder::service("other", 1).build();
    order_another(&mut w, other, &spec);
    w.run(seconds(20));
    assert_eq!(w.cluster.live().len(), 1);
    w.unstall();
    w.run(seconds(20));
    assert_eq!(w.cluster.live().len(), 1);
    assert_eq!(w.storage, Storage::Works);
}

#[test]
fn a_job_that_waits_for_specs_to_be_read_begins_as_soon_as_they_are() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(1, shape(8, 8192));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", 2).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(2));
    assert_eq!(w.cluster.live().len(), 2);
    taken_over(&mut w);
    w.slow_specs = false;
    let other = job_id(2);
    let spec = JobBuilder::service("other", 1).build();
    order_another(&mut w, other, &spec);
    w.run(Span::millis(100));
    w.slow_specs = true;
    w.run(seconds(4));
    assert_eq!(w.cluster.live().len(), 2);
    let waiting = w.slice_of(other, 1).unwrap().waiting;
    let told: Vec<(ReasonCode, u64)> = waiting.iter().map(|(r, n, _)| (r.code, *n)).collect();
    assert_eq!(told, [(ReasonCode::Recovering, 1)]);
    w.unstall();
    // Sooner than declined offers come back.
    w.run(seconds(1));
    assert_eq!(w.cluster.live().len(), 3);
}

#[test]
fn who_minds_others_is_placed_when_it_is_read_who_they_are() {
    let mut w = World::new();
    w.cluster = crate::cluster::Cluster::of(2, shape(8, 8192));
    w.elect();
    w.run(seconds(1));
    w.connect();
    let mut web = JobBuilder::service("web", 1).build();
    web.labels = [("app".to_owned(), "web".to_owned())].into();
    w.store_job(&web);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let of_web = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    taken_over(&mut w);
    w.slow_specs = false;
    let other = job_id(2);
    let minds = JobBuilder::service("other", 1).siting(|s| {
        s.anti_affinity = vec![Affinity {
            labels: [("app".to_owned(), "web".to_owned())].into(),
            topology: "hostname".to_owned(),
            weight: None,
        }];
    });
    order_another(&mut w, other, &minds.build());
    w.run(Span::millis(100));
    w.slow_specs = true;
    w.run(seconds(4));
    assert_eq!(w.cluster.live().len(), 1);
    w.unstall();
    w.run(seconds(10));
    let of_other = w
        .cluster
        .tasks
        .iter()
        .find(|(id, _)| id.starts_with(&other.to_string()));
    assert_ne!(of_other.unwrap().1.host, of_web);
}
