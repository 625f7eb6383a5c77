//! Starts are counted, and of those that fail only what the platform fails by.

use crate::world::{World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::directive::{Order, ReportPart};
use echelon_core_model::job::{Desired, Goal};
use echelon_core_model::platform::{EndSource, PlatformCause};
use echelon_core_model::runtime::{Container, Runtime};
use echelon_core_model::starts::{GroupStarts, HostHash, StartCounts, StartGroup};
use echelon_core_model::{HostId, RunState, Span};
use echelon_core_shard::Event;
use echelon_core_testkit::build::JobBuilder;

/// The reports of starts so far.
fn reports(w: &World) -> Vec<StartCounts> {
    let of = |part: &ReportPart| match part {
        ReportPart::Starts(starts) => Some(starts.clone()),
        _ => None,
    };
    w.reports.iter().filter_map(|r| of(&r.part)).collect()
}

/// The groups that were reported last.
fn last(w: &World) -> Vec<GroupStarts> {
    reports(w).pop().unwrap_or_default().groups
}

/// Starts and failed starts that were reported last, of all groups.
fn counted(w: &World) -> (u32, u32) {
    let groups = last(w);
    let begun = groups.iter().map(|g| g.begun).sum();
    (begun, groups.iter().map(|g| g.failed).sum())
}

/// A leader of which so many instances were launched; none of them runs yet.
fn launched(job: JobBuilder, instances: u32) -> World {
    let mut w = World::serving();
    w.cluster.starts = false;
    w.cluster.hosts.values_mut().for_each(|room| room.disk = 1024);
    w.store_job(&job.build());
    w.order(&[range(0, instances - 1)], instances.into());
    w.run(seconds(6));
    assert_eq!(counted(&w), (instances, 0));
    w
}

fn batch(instances: u32) -> JobBuilder {
    JobBuilder::batch("sums", instances).runtime(|runtime| {
        runtime.container = Some(Container {
            image: "sums:7".to_owned(),
            ..Container::default()
        });
    })
}

fn host_of(w: &World, task: &str) -> HostHash {
    HostHash::of(&w.cluster.tasks[task].host)
}

#[test]
fn failed_launches_are_counted_with_their_group_host_and_cause() {
    let mut w = launched(batch(2).pool("/teams/a"), 2);
    let first = task(0, 1, 1);
    w.cluster.end(
        &first,
        TaskState::Failed,
        EndSource::Agent,
        "CONTAINER_LAUNCH_FAILED",
    );
    let host = host_of(&w, &first);
    w.run(seconds(6));
    let runtime = Runtime {
        container: Some(Container {
            image: "sums:7".to_owned(),
            ..Container::default()
        }),
        ..Runtime::default()
    };
    let [group] = &last(&w)[..] else {
        panic!("{:?}", last(&w));
    };
    assert_eq!(group.group, StartGroup::of("/teams/a", [&runtime]));
    assert_eq!((group.failed, group.cause), (1, Some(PlatformCause::Container)));
    assert_eq!(group.hosts, [host]);
}

#[test]
fn only_what_the_platform_fails_by_counts() {
    use EndSource::{Agent, Executor, Master};
    use TaskState::{Dropped, Error, Failed, Finished, Gone, Killed};
    for (state, source, reason, counts) in [
        (Failed, Agent, "CONTAINER_LAUNCH_FAILED", true),
        (Failed, Agent, "EXECUTOR_REGISTRATION_TIMEOUT", true),
        (Failed, Agent, "EXECUTOR_TERMINATED", true),
        (Dropped, Agent, "GC_ERROR", true),
        (Dropped, Master, "AGENT_UNKNOWN", true),
        (Gone, Agent, "CONTAINER_UPDATE_FAILED", true),
        (Failed, Executor, "", false),
        (Failed, Executor, "EXECUTOR_TERMINATED", false),
        (Failed, Agent, "CONTAINER_LIMITATION_MEMORY", false),
        (Dropped, Master, "INVALID_OFFERS", false),
        (Error, Master, "TASK_INVALID", false),
        (Killed, Agent, "TASK_KILLED_DURING_LAUNCH", false),
        (Killed, Agent, "EXECUTOR_TERMINATED", false),
        (Finished, Executor, "", false),
    ] {
        let mut w = launched(batch(1), 1);
        w.cluster.end(&task(0, 1, 1), state, source, reason);
        w.run(seconds(6));
        let failed = counted(&w).1;
        assert_eq!(failed, u32::from(counts), "{state:?} {source:?} {reason}");
    }
}

#[test]
fn an_exit_status_and_a_failed_health_check_never_count() {
    let mut w = launched(batch(1), 1);
    w.cluster.exit(&task(0, 1, 1), 3);
    w.run(seconds(6));
    assert_eq!(counted(&w).1, 0);
    let mut w = launched(batch(1), 1);
    let unhealthy = echelon_core_hosts::TaskStatus {
        source: Some(EndSource::Agent),
        reason: "EXECUTOR_TERMINATED".to_owned(),
        healthy: Some(false),
        ..crate::cluster::status(&task(0, 1, 1), TaskState::Failed, Some(HostId::new("host-0")))
    };
    w.step(Event::Cluster(echelon_core_hosts::Event::Update(unhealthy)));
    assert_eq!(w.state(0), RunState::Pending, "it waits for its next try");
    w.run(seconds(6));
    assert_eq!(counted(&w).1, 0);
}

#[test]
fn a_run_has_started_when_it_has_run_for_half_a_minute() {
    for (runs_for, failed) in [(29, 1), (31, 0)] {
        let mut w = launched(batch(1), 1);
        w.cluster.set(&task(0, 1, 1), TaskState::Running);
        w.run(seconds(runs_for));
        assert_eq!(w.state(0), RunState::Running);
        w.cluster.end(
            &task(0, 1, 1),
            TaskState::Failed,
            EndSource::Agent,
            "EXECUTOR_TERMINATED",
        );
        w.run(seconds(6));
        assert_eq!(counted(&w).1, failed, "after {runs_for} s");
    }
}

#[test]
fn an_end_that_is_reported_again_counts_once() {
    let mut w = launched(batch(1), 1);
    let host = w.cluster.tasks[&task(0, 1, 1)].host.clone();
    let status = echelon_core_hosts::TaskStatus {
        source: Some(EndSource::Agent),
        reason: "CONTAINER_LAUNCH_FAILED".to_owned(),
        ..crate::cluster::status(&task(0, 1, 1), TaskState::Failed, Some(host))
    };
    for _ in 0..3 {
        let update = echelon_core_hosts::Event::Update(status.clone());
        w.step(Event::Cluster(update));
    }
    w.run(seconds(6));
    assert_eq!(counted(&w).1, 1);
}

#[test]
fn what_is_being_stopped_does_not_fail_to_start() {
    let mut w = launched(batch(1), 1);
    let goal = Goal {
        desired: Desired::Stopped,
        ..Goal::default()
    };
    w.cluster.lingers = true;
    w.store_head(&batch(1).build(), goal);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(w.state(0), RunState::Stopping);
    w.cluster.end(
        &task(0, 1, 1),
        TaskState::Failed,
        EndSource::Agent,
        "EXECUTOR_TERMINATED",
    );
    w.run(seconds(6));
    assert_eq!(counted(&w).1, 0);
}

#[test]
fn a_pod_fails_once_whatever_number_of_its_members_does() {
    let pod = batch(1).sidecar("log", Runtime::shell("log"));
    let mut w = launched(pod, 1);
    let log = format!("{}.log", task(0, 1, 1));
    for member in [log, task(0, 1, 1)] {
        w.cluster.end(
            &member,
            TaskState::Failed,
            EndSource::Executor,
            "CONTAINER_LAUNCH_FAILED",
        );
    }
    w.run(seconds(6));
    assert_eq!(counted(&w).1, 1);
}

#[test]
fn counts_are_reported_when_they_change_and_seldom() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 3).build());
    w.order(&[range(0, 2)], 1);
    w.run(seconds(6));
    let before = reports(&w).len();
    assert_eq!(counted(&w), (1, 0));
    w.run(seconds(60));
    assert_eq!(reports(&w).len(), before, "nothing has changed");
    // Five changes within five seconds.
    for granted in 2..4 {
        w.order(&[range(0, 2)], granted);
        w.run(seconds(1));
    }
    w.run(seconds(3));
    assert!(reports(&w).len() <= before + 1);
    w.run(seconds(4));
    assert_eq!(counted(&w), (3, 0));
    // Once they are over that is reported, too.
    w.run(Span::minutes(6));
    assert_eq!(reports(&w).last(), Some(&StartCounts::default()));
}

#[test]
fn a_full_report_has_them_before_the_signs_and_a_new_leader_begins_anew() {
    let mut w = launched(batch(2), 2);
    w.reports.clear();
    w.direct(Order::Report);
    w.run(seconds(1));
    let place = |w: &World, of: fn(&ReportPart) -> bool| w.reports.iter().position(|r| of(&r.part));
    let starts = place(&w, |part| matches!(part, ReportPart::Starts(_)));
    let signs = place(&w, |part| matches!(part, ReportPart::Signs(_)));
    assert!(starts.is_some() && starts < signs, "{starts:?} {signs:?}");
    w.reports.clear();
    w.restart();
    w.connect();
    w.run(seconds(10));
    assert_eq!(reports(&w), [], "what its predecessor began is unknown to it");
}
