//! Agents that are known to be gone: when their runs count as ended, and that no wait is lost or shortened.

use crate::volumes;
use crate::world::{World, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::gone::{
    AgentTimes, EXECUTOR_SHUTDOWN_GRACE, GONE_MARGIN, GoneCause, RECOVERY_TIMEOUT,
};
use echelon_core_model::instance::Run;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::{JobKind, JobSpec, OnSilence};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, ReasonCode, RunState};
use echelon_core_testkit::build::JobBuilder;

/// After an operator's word.
const GRACE: Span = Span(EXECUTOR_SHUTDOWN_GRACE.0 + GONE_MARGIN.0);
/// After another agent is known at the address.
const RECOVERY: Span = Span(RECOVERY_TIMEOUT.0 + GRACE.0);
/// Between two lists of agents.
const LISTS: Span = Span::seconds(130);

/// A job of one that never gives a silent run up.
fn patient(kind: JobKind) -> JobSpec {
    let mut spec = JobBuilder::service("web", 1).build();
    spec.kind = kind;
    spec.on_unreachable = OnSilence::Wait;
    spec
}

/// It runs on a cluster whose master lists its agents.
fn runs(spec: &JobSpec) -> (World, HostId) {
    let mut w = World::serving();
    w.cluster.lists = Some(true);
    w.store_job(spec);
    w.order(&[range(0, 0)], 1);
    w.run(LISTS);
    let host = latest(&w).host;
    (w, host)
}

fn latest(w: &World) -> Run {
    w.stored(0).and_then(|record| record.run).unwrap()
}

fn cause(w: &World) -> Option<GoneCause> {
    latest(w).gone.map(|gone| gone.cause)
}

/// The state of the latest run, and how many were launched.
fn seen(w: &World) -> (RunState, usize) {
    (w.state(0), w.accepted().len())
}

/// A leader dies, and another one takes over.
fn taken_over(w: &mut World) {
    w.crash();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.order(&[range(0, 0)], 1);
}

fn less(span: Span, by: u64) -> Span {
    Span(span.0 - by * 1000)
}

#[test]
fn what_an_operator_marked_gone_is_replaced_after_the_grace_of_its_executors() {
    for kind in [JobKind::Batch, JobKind::Service, JobKind::Stateful] {
        let (mut w, host) = runs(&patient(kind));
        w.cluster.mark_gone(&host);
        w.run(less(GRACE, 2));
        let run = latest(&w);
        assert_eq!(seen(&w), (RunState::Unreachable, 1), "{kind}");
        assert_eq!(run.reason.code, ReasonCode::GoneByOperator, "{kind}");
        w.run(seconds(5));
        assert_eq!(seen(&w), (RunState::Running, 2), "{kind}");
        assert_eq!(w.stored(0).unwrap().older.len(), 0, "{kind}");
        assert_eq!(w.kills().len(), 0, "{kind}");
    }
}

#[test]
fn what_was_silent_is_replaced_as_soon_when_an_operator_marks_it_gone() {
    let (mut w, host) = runs(&patient(JobKind::Service));
    w.cluster.silent.push(host.clone());
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.run(Span::minutes(60));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    w.cluster.mark_gone(&host);
    // The agent may come back at this moment, only to be told to end.
    w.run(less(GRACE, 2));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    assert_eq!(latest(&w).reason.code, ReasonCode::GoneByOperator);
    w.run(seconds(5));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn what_ran_on_a_replaced_agent_is_replaced_after_the_recovery_time() {
    let (mut w, host) = runs(&patient(JobKind::Service));
    w.cluster.replace_agent(&host);
    w.run(less(RECOVERY, 2));
    assert_eq!(seen(&w), (RunState::Unreachable, 1), "executors may live");
    assert_eq!(cause(&w), Some(GoneCause::Replaced));
    w.run(LISTS);
    assert_eq!(seen(&w), (RunState::Running, 2));
    assert_eq!(w.stored(0).unwrap().older.len(), 0);
}

#[test]
fn the_time_of_the_job_counts_where_it_gives_one() {
    let mut spec = patient(JobKind::Service);
    spec.on_gone = Some(OnSilence::Replace(Span::minutes(3)));
    let (mut w, host) = runs(&spec);
    w.cluster.mark_gone(&host);
    w.run(seconds(178));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    w.run(seconds(5));
    assert_eq!(seen(&w), (RunState::Running, 2));
    let host = latest(&w).host;
    w.cluster.replace_agent(&host);
    w.run(seconds(178));
    assert_eq!(seen(&w), (RunState::Unreachable, 2));
    w.run(LISTS);
    assert_eq!(seen(&w), (RunState::Running, 3));
}

#[test]
fn stateful_work_of_a_replaced_agent_waits_until_an_operator_speaks() {
    let waits = JobSpec {
        on_gone: Some(OnSilence::Wait),
        ..patient(JobKind::Service)
    };
    for spec in [patient(JobKind::Stateful), waits] {
        let (mut w, host) = runs(&spec);
        w.cluster.replace_agent(&host);
        w.run(Span::minutes(120));
        assert_eq!(seen(&w), (RunState::Unreachable, 1), "{}", spec.kind);
        assert_eq!(cause(&w), Some(GoneCause::Replaced));
        w.cluster.mark_gone(&host);
        w.run(less(GRACE, 2));
        assert_eq!(seen(&w), (RunState::Unreachable, 1));
        assert_eq!(cause(&w), Some(GoneCause::Operator));
        w.run(seconds(5));
        assert_eq!(seen(&w), (RunState::Running, 2));
    }
}

#[test]
fn an_agent_that_returns_under_its_old_id_keeps_its_run() {
    for marked in [true, false] {
        let (mut w, host) = runs(&patient(JobKind::Service));
        let new = if marked {
            w.cluster.mark_gone(&host);
            None
        } else {
            Some(w.cluster.replace_agent(&host))
        };
        w.run(if marked { seconds(10) } else { Span::minutes(10) });
        assert!(cause(&w).is_some());
        w.cluster.silent.clear();
        w.cluster.marked_gone.clear();
        w.cluster.removed.clear();
        new.map(|new| w.cluster.hosts.remove(&new));
        w.cluster.set(&task(0, 1, 1), TaskState::Running);
        w.run(Span::minutes(60));
        assert_eq!(seen(&w), (RunState::Running, 1));
        assert_eq!((cause(&w), w.kills().len()), (None, 0));
        // Its next silence is no more than silence.
        w.cluster.silent.push(host);
        w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
        w.run(Span::minutes(60));
        assert_eq!(seen(&w), (RunState::Unreachable, 1));
    }
}

#[test]
fn a_new_leader_goes_on_with_the_wait() {
    let mut spec = patient(JobKind::Service);
    spec.on_gone = Some(OnSilence::Replace(Span::minutes(5)));
    for marked in [true, false] {
        let (mut w, host) = runs(&spec);
        if marked {
            w.cluster.mark_gone(&host);
        } else {
            w.cluster.replace_agent(&host);
            w.run(LISTS);
        }
        w.run(Span::minutes(2));
        let noted = latest(&w).gone;
        assert!(noted.is_some());
        taken_over(&mut w);
        w.run(Span::minutes(1));
        assert_eq!(latest(&w).gone, noted, "it is not counted anew");
        let left = noted
            .unwrap()
            .left(spec.on_gone, spec.kind, w.shard.observed_in_sum());
        let left = left.unwrap();
        assert!(left > seconds(30), "{left:?}");
        w.run(less(left, 2));
        assert_eq!(seen(&w), (RunState::Unreachable, 1), "{marked}");
        w.run(seconds(5));
        assert_eq!(seen(&w), (RunState::Running, 2), "{marked}");
    }
}

#[test]
fn while_the_spec_is_not_read_nothing_is_ended() {
    let (mut w, host) = runs(&patient(JobKind::Service));
    w.cluster.mark_gone(&host);
    w.run(seconds(5));
    w.slow_specs = true;
    taken_over(&mut w);
    w.run(Span::minutes(10));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    w.slow_specs = false;
    w.unstall();
    w.run(seconds(30));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn what_was_given_up_before_leaves_the_record_when_it_counts_as_ended() {
    let mut spec = patient(JobKind::Service);
    spec.on_unreachable = OnSilence::Replace(Span::minutes(5));
    let (mut w, host) = runs(&spec);
    w.cluster.replace_agent(&host);
    w.run(Span::minutes(6));
    assert_eq!(seen(&w), (RunState::Running, 2), "silence alone is enough");
    assert_eq!(w.stored(0).unwrap().older.len(), 1, "it may live");
    w.run(RECOVERY);
    assert_eq!(seen(&w), (RunState::Running, 2));
    assert_eq!(w.stored(0).unwrap().older.len(), 0);
}

#[test]
fn a_run_that_is_being_stopped_counts_as_ended_too() {
    let spec = patient(JobKind::Service);
    let (mut w, host) = runs(&spec);
    w.cluster.lingers = true;
    w.wish(&spec, Desired::Stopped, 0);
    w.order(&[range(0, 0)], 0);
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Stopping);
    w.cluster.mark_gone(&host);
    w.run(less(GRACE, 2));
    assert_eq!(w.state(0), RunState::Stopping);
    w.run(seconds(5));
    assert_eq!(w.state(0), RunState::Killed);
}

#[test]
fn what_its_agent_ended_to_be_gone_is_followed_at_once() {
    let (mut w, _) = runs(&patient(JobKind::Service));
    w.cluster.set(&task(0, 1, 1), TaskState::GoneByOperator);
    w.run(seconds(3));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn an_instance_that_keeps_data_waits_for_its_volume_after_an_operators_word() {
    let mut w = volumes::one(&volumes::database().build());
    let held = volumes::volume(&w, 0);
    w.cluster.mark_gone(&held.1);
    w.run(less(GRACE, 2));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    w.run(seconds(5));
    assert_eq!(latest(&w).state, RunState::Lost);
    w.run(Span::minutes(30));
    assert_eq!(seen(&w), (RunState::Pending, 1), "its data is on its host only");
    assert_eq!(volumes::volume(&w, 0), held);
    let waits = w.slice(1).unwrap().waiting;
    let codes: Vec<ReasonCode> = waits.iter().map(|(reason, ..)| reason.code).collect();
    assert_eq!(codes, [ReasonCode::HostVolume]);
}

/// Flags of agents: executors live on for so many minutes, and have half a minute to end.
fn flags(minutes: u64) -> AgentTimes {
    AgentTimes {
        recovery: Some(Span::minutes(minutes)),
        shutdown: Some(seconds(30)),
    }
}

/// How long is waited by such flags.
fn by_flags(minutes: u64) -> Span {
    Span(Span::minutes(minutes).0 + seconds(30).0 + GONE_MARGIN.0)
}

fn times(w: &World) -> Option<AgentTimes> {
    latest(w).gone.map(|gone| gone.times)
}

fn asked(w: &World) -> usize {
    let is_question = |call: &&Call| matches!(call, Call::ReadFlags { .. });
    w.calls.iter().filter(is_question).count()
}

/// A service on an agent that was replaced, once that is known. Agents tell these flags.
fn replaced(told: Option<AgentTimes>) -> World {
    let (mut w, host) = runs(&patient(JobKind::Service));
    w.cluster.times = told;
    w.cluster.replace_agent(&host);
    for _ in 0..130 {
        if cause(&w).is_none() {
            w.run(seconds(1));
        }
    }
    assert_eq!(cause(&w), Some(GoneCause::Replaced));
    w
}

#[test]
fn the_flags_of_the_agent_at_the_address_say_how_soon_its_executors_end() {
    for minutes in [1, 60] {
        let mut w = replaced(Some(flags(minutes)));
        w.run(less(by_flags(minutes), 3));
        assert_eq!(times(&w), Some(flags(minutes)));
        assert_eq!(seen(&w), (RunState::Unreachable, 1), "{minutes}");
        w.run(seconds(6));
        assert_eq!(seen(&w), (RunState::Running, 2), "{minutes}");
        assert_eq!(asked(&w), 1, "{minutes}");
    }
}

#[test]
fn flags_that_nobody_tells_count_as_the_usual_time() {
    let mut w = replaced(None);
    w.run(less(RECOVERY, 3));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    assert_eq!((times(&w), asked(&w)), (Some(AgentTimes::UNKNOWN), 5));
    w.run(seconds(6));
    assert_eq!(seen(&w), (RunState::Running, 2));
    // Of one flag alone the other one counts as usual.
    let mut w = replaced(Some(AgentTimes {
        recovery: Some(Span::minutes(30)),
        shutdown: None,
    }));
    w.run(less(Span(Span::minutes(30).0 + GRACE.0), 3));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    w.run(seconds(6));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn a_new_leader_keeps_what_flags_have_told() {
    let mut w = replaced(Some(flags(60)));
    w.run(seconds(5));
    assert_eq!(times(&w), Some(flags(60)));
    w.cluster.times = None;
    taken_over(&mut w);
    w.run(Span::minutes(40));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    assert_eq!((times(&w), asked(&w)), (Some(flags(60)), 1));
    w.run(Span::minutes(22));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn a_new_leader_asks_where_flags_are_not_known_and_ends_nothing_before() {
    let mut w = replaced(None);
    w.run(less(RECOVERY, 3));
    w.cluster.times = Some(flags(60));
    taken_over(&mut w);
    w.run(Span::minutes(5));
    assert_eq!(
        seen(&w),
        (RunState::Unreachable, 1),
        "by the usual time it had ended"
    );
    assert_eq!(times(&w), Some(flags(60)));
    w.run(Span::minutes(60));
    assert_eq!(seen(&w), (RunState::Running, 2));
    // Where no agent answers the new leader either, its questions have an end.
    let mut w = replaced(None);
    w.run(less(RECOVERY, 3));
    taken_over(&mut w);
    w.run(Span::minutes(1));
    assert_eq!(seen(&w), (RunState::Unreachable, 1), "it may still be answered");
    w.run(Span::minutes(6));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn the_time_of_the_job_needs_no_flags() {
    let mut spec = patient(JobKind::Service);
    spec.on_gone = Some(OnSilence::Replace(Span::minutes(1)));
    let (mut w, host) = runs(&spec);
    w.cluster.replace_agent(&host);
    // No agent answers, and nothing waits for that.
    w.run(Span(LISTS.0 + Span::minutes(1).0));
    assert_eq!(seen(&w), (RunState::Running, 2));
}

#[test]
fn an_operators_word_ends_the_wait_within_the_grace_that_flags_have_told() {
    let mut w = replaced(Some(flags(60)));
    w.run(seconds(5));
    let host = latest(&w).host;
    w.cluster.mark_gone(&host);
    w.run(less(by_flags(0), 2));
    assert_eq!(seen(&w), (RunState::Unreachable, 1));
    assert_eq!(cause(&w), Some(GoneCause::Operator));
    w.run(seconds(5));
    assert_eq!(seen(&w), (RunState::Running, 2));
}
