//! Templates: each due time makes one job, whoever leads and whatever crashes when; what overlaps, is missed, paused or too many.

use crate::event::Event;
use crate::tests::case::{Case, batch};
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::job::{Desired, Goal, Head, JobState};
use echelon_core_model::schedule::{CatchUp, Overlap, Schedule, ScheduleState};
use echelon_core_model::store::{Answer, Decision, NameHolder, Op, OpId, OpResult, Query};
use echelon_core_model::{JobId, ReasonCode, RunState, Span, Timestamp, Version};

/// Every ten minutes; cases begin at 03:46:40.
pub fn every_ten(overlap: Overlap, catch_up: CatchUp) -> Schedule {
    Schedule {
        cron: "*/10 * * * *".to_owned(),
        time_zone: Schedule::UTC.to_owned(),
        overlap,
        catch_up,
        within: Span::minutes(60),
        keep_last: 3,
    }
}

/// One cluster of eight cores, and a template of jobs of one instance.
fn case(overlap: Overlap, catch_up: CatchUp) -> (Case, JobId) {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let template = batch(1).schedule(every_ten(overlap, catch_up));
    let id = case.job(1, template);
    (case, id)
}

/// The same eight seconds before 03:50.
fn just_before() -> (Case, JobId) {
    let mut case = Case::new().pool("/default", 1_000_000).cluster("a", 8);
    case.now = Timestamp(100_190_000);
    case.born = case.now;
    case.elect();
    let id = case.job(1, batch(1).schedule(every_ten(Overlap::Allow, CatchUp::One)));
    (case, id)
}

/// Everything that was made of a template, oldest first.
pub fn children(case: &Case, template: JobId) -> Vec<Head> {
    let mut out: Vec<Head> = (0..JOB_BUCKETS)
        .flat_map(|bucket| match case.store.read(&Query::Heads(bucket)) {
            Answer::Heads(heads) => heads,
            other => panic!("{other:?}"),
        })
        .filter(|h| h.origin.as_ref().is_some_and(|o| o.template == template))
        .collect();
    out.sort_by_key(|h| h.job);
    out
}

/// The due times of what was made: `03:50 04:00`.
fn made(case: &Case, template: JobId) -> String {
    let all = children(case, template);
    let due = all.iter().map(|h| h.origin.as_ref().unwrap().due.to_string());
    due.map(|d| d[11..16].to_owned()).collect::<Vec<_>>().join(" ")
}

fn state(case: &Case, template: JobId) -> ScheduleState {
    *case.head(template).unwrap().schedule.unwrap()
}

fn finish(case: &mut Case, job: JobId) {
    case.at("a", |s, now| s.finish_of(job, 1, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    assert_eq!(case.state(job), Some(JobState::Succeeded));
}

fn finish_all(case: &mut Case, template: JobId) {
    for head in children(case, template) {
        if case.total_active(head.job) > 0 {
            finish(case, head.job);
        }
    }
}

#[test]
fn a_job_whose_spec_storage_refuses_is_made_once_it_does_not() {
    let (mut case, template) = just_before();
    case.refuses = Some(Box::new(|op| match op {
        Op::Decide(Decision::PutSpec { .. }) => vec![0],
        _ => Vec::new(),
    }));
    case.run_for(Span::seconds(30));
    assert_eq!(made(&case, template), "");
    assert!(!case.alarms.is_empty(), "a refusal is reported");
    case.refuses = None;
    case.run_for(Span::seconds(5));
    assert_eq!(made(&case, template), "03:50");
}

#[test]
fn each_due_time_makes_one_job_and_the_template_runs_nothing() {
    let (mut case, template) = case(Overlap::Skip, CatchUp::One);
    assert_eq!(case.waiting(template), [(ReasonCode::OnSchedule, 1)]);
    let told = case.progress(template).unwrap().waiting[0].reason.to_string();
    assert!(told.ends_with("(next at 1970-01-02 03:50 UTC)"), "{told}");
    case.run_for(Span::minutes(4));
    let first = children(&case, template).remove(0);
    assert_eq!(first.name, "bot-19700102t0350z");
    assert_eq!(case.total_active(first.job), 1);
    finish(&mut case, first.job);
    case.run_for(Span::minutes(10));
    assert_eq!(made(&case, template), "03:50 04:00");
    assert_eq!(case.total_active(template), 0);
    assert_eq!(case.state(template), Some(JobState::Waiting));
    assert_eq!(state(&case, template).opening, None);
}

/// What becomes of the write at which a leader crashes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Crash {
    Before,
    After,
    /// It arrives when the next leader has long been at work.
    Late,
}

/// Lets the leader do so many writes, and one read or write at a time; then the next write.
fn creep(case: &mut Case, writes: usize) -> Option<(OpId, Op)> {
    let mut left = writes;
    case.stalled = Some(Vec::new());
    for _ in 0..400 {
        case.run_for(Span::millis(50));
        for (id, op) in case.stalled.replace(Vec::new()).unwrap_or_default() {
            if matches!(op, Op::Decide(_)) {
                if left == 0 {
                    case.stalled = None;
                    return Some((id, op));
                }
                left -= 1;
            }
            perform(case, id, op);
        }
    }
    case.stalled = None;
    None
}

fn perform(case: &mut Case, id: OpId, op: Op) -> OpResult {
    case.remember(&op);
    let result = case.store.perform(op);
    case.events.push_back(Event::Storage(id, result.clone()));
    result
}

#[test]
fn a_leader_that_crashes_at_any_write_leaves_each_due_time_with_one_job() {
    let mut crashes = 0;
    for writes in 0..6 {
        for crash in [Crash::Before, Crash::After, Crash::Late] {
            let (mut case, template) = just_before();
            let (id, op) =
                creep(&mut case, writes).unwrap_or((OpId(0), Op::Read(Query::Clusters, Default::default())));
            crashes += usize::from(matches!(op, Op::Decide(_)));
            if crash == Crash::After {
                perform(&mut case, id, op.clone());
            }
            case.fail_over();
            case.run_for(Span::seconds(20));
            if crash == Crash::Late {
                // The old leader's compare-and-sets are its own by what they expect.
                case.store.perform(op.clone());
            }
            case.run_for(Span::seconds(10));
            assert_eq!(
                made(&case, template),
                "03:50",
                "{crash:?} at write {writes}: {op:?}"
            );
            let now = state(&case, template);
            assert_eq!(now.opening, None, "{crash:?} at write {writes}");
            assert_eq!(now.handled.to_string(), "1970-01-02T03:50:00Z");
            let child = children(&case, template).remove(0);
            assert_eq!(case.total_active(child.job), 1, "{crash:?} at write {writes}");
            if crash == Crash::Late && writes == 3 {
                case.run_for(Span::minutes(10));
                assert_eq!(made(&case, template), "03:50 04:00", "after write {writes}");
            }
        }
    }
    assert!(crashes >= 5 * 3, "decide, name, spec, head, done: {crashes}");
}

#[test]
fn a_due_time_is_passed_over_while_a_job_from_before_runs() {
    let (mut case, template) = case(Overlap::Skip, CatchUp::One);
    case.run_for(Span::minutes(14));
    assert_eq!(made(&case, template), "03:50");
    assert_eq!(
        state(&case, template).skipped.unwrap().to_string(),
        "1970-01-02T04:00:00Z"
    );
    finish_all(&mut case, template);
    case.run_for(Span::minutes(5));
    assert_eq!(
        made(&case, template),
        "03:50",
        "what was passed over is not made up for"
    );
    case.run_for(Span::minutes(6));
    assert_eq!(made(&case, template), "03:50 04:10");
}

#[test]
fn jobs_of_a_queue_begin_one_after_the_other() {
    let (mut case, template) = case(Overlap::Queue, CatchUp::One);
    case.run_for(Span::minutes(24));
    assert_eq!(made(&case, template), "03:50 04:00 04:10");
    let all = children(&case, template);
    let active = |case: &Case| all.iter().map(|h| case.total_active(h.job)).collect::<Vec<_>>();
    assert_eq!(active(&case), [1, 0, 0]);
    assert_eq!(case.waiting(all[1].job), [(ReasonCode::AfterJob, 1)]);
    finish(&mut case, all[0].job);
    case.run_for(Span::seconds(5));
    assert_eq!(active(&case), [0, 1, 0]);
    finish(&mut case, all[1].job);
    case.run_for(Span::seconds(5));
    assert_eq!(active(&case), [0, 0, 1]);
}

#[test]
fn a_job_that_replaces_another_begins_when_that_is_gone() {
    let (mut case, template) = case(Overlap::Replace, CatchUp::One);
    case.run_for(Span::minutes(10));
    let first = children(&case, template).remove(0).job;
    case.shard("a").stubborn = true;
    case.run_for(Span::minutes(4));
    let second = children(&case, template).remove(1).job;
    assert_eq!(case.state(first), Some(JobState::Stopping));
    assert_eq!(case.total_active(second), 0, "the other one still runs");
    case.fail_over();
    case.shard("a").stubborn = false;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(5));
    let ended = case.progress(first).unwrap();
    assert_eq!(
        (ended.state, ended.reason.unwrap().code),
        (JobState::Stopped, ReasonCode::ScheduleReplaced)
    );
    assert_eq!(case.total_active(second), 1);
}

/// Nobody leads for so long.
fn outage(case: &mut Case, span: Span) {
    case.step(Event::Deposed);
    case.now = case.now.plus(span);
    case.fail_over();
    case.run_for(Span::seconds(20));
}

#[test]
fn what_an_outage_missed_is_caught_up_with_as_the_template_says() {
    for (catch_up, expected, missed) in [
        (CatchUp::None, "03:50", Some("05:20")),
        (CatchUp::One, "03:50 05:20", Some("05:10")),
        (
            CatchUp::All,
            "03:50 04:30 04:40 04:50 05:00 05:10 05:20",
            Some("04:20"),
        ),
    ] {
        let (mut case, template) = case(Overlap::Allow, catch_up);
        case.run_for(Span::minutes(5));
        assert_eq!(made(&case, template), "03:50");
        outage(&mut case, Span::minutes(95));
        assert_eq!(made(&case, template), expected, "{catch_up:?}");
        let told = state(&case, template)
            .missed
            .map(|at| at.to_string()[11..16].to_owned());
        assert_eq!(told.as_deref(), missed, "{catch_up:?}");
        let before = children(&case, template);
        case.fail_over();
        case.run_for(Span::seconds(20));
        assert_eq!(children(&case, template), before, "once");
    }
}

#[test]
fn a_clock_that_goes_back_makes_nothing_again() {
    let (mut case, template) = case(Overlap::Allow, CatchUp::All);
    case.run_for(Span::minutes(5));
    assert_eq!(made(&case, template), "03:50");
    case.step(Event::Deposed);
    case.now = Timestamp(case.now.0 - Span::minutes(4).0);
    case.fail_over();
    case.run_for(Span::minutes(5));
    assert_eq!(made(&case, template), "03:50");
    case.run_for(Span::minutes(9));
    assert_eq!(made(&case, template), "03:50 04:00");
}

#[test]
fn a_paused_template_makes_nothing_and_what_was_due_meanwhile_is_not_made_up_for() {
    let (mut case, template) = case(Overlap::Allow, CatchUp::All);
    let steer = |case: &mut Case, paused: bool| {
        let now = case.now;
        case.change_head(template, |h| {
            let state = h.schedule.as_mut().unwrap();
            state.paused = paused;
            state.handled = state.handled.max(now);
        });
        case.hint(template);
    };
    steer(&mut case, true);
    assert!(
        case.progress(template).unwrap().waiting[0]
            .reason
            .to_string()
            .contains("paused")
    );
    case.run_for(Span::minutes(30));
    assert_eq!(made(&case, template), "");
    steer(&mut case, false);
    case.run_for(Span::minutes(10));
    assert_eq!(made(&case, template), "04:20");
}

#[test]
fn only_so_many_ended_jobs_of_a_template_are_kept() {
    let (mut case, template) = case(Overlap::Skip, CatchUp::One);
    for _ in 0..6 {
        case.run_for(Span::minutes(10));
        finish_all(&mut case, template);
    }
    case.run_for(Span::seconds(5));
    let states: Vec<_> = children(&case, template)
        .iter()
        .map(|h| case.state(h.job).unwrap())
        .collect();
    let (gone, kept) = states.split_at(3);
    assert!(gone.iter().all(|s| *s == JobState::Deleted), "{states:?}");
    assert!(kept.iter().all(|s| *s == JobState::Succeeded), "{states:?}");
}

#[test]
fn who_has_the_name_keeps_it_and_the_job_gets_another() {
    let (mut case, template) = case(Overlap::Skip, CatchUp::One);
    let other = case.job(9, batch(1));
    let holder = NameHolder {
        job: other,
        version: Version(1),
    };
    case.store.perform(Op::Decide(Decision::TakeName {
        name: "bot-19700102t0350z".to_owned(),
        holder,
        expected: None,
    }));
    case.run_for(Span::minutes(4));
    let child = children(&case, template).remove(0);
    assert!(child.name.starts_with("bot-19700102t0350z-"), "{}", child.name);
    assert_eq!(case.total_active(child.job), 1);
}

#[test]
fn a_job_whose_id_was_barred_by_who_wanted_its_name_is_made_under_another() {
    let (mut case, template) = just_before();
    // Decided, and its name is taken; the spec is on its way.
    let (id, op) = creep(&mut case, 2).unwrap();
    let child = state(&case, template).opening.unwrap().job(template);
    let void = Head {
        job: child,
        void: true,
        version: Version(1),
        goal: Goal::default(),
        origin: None,
        schedule: None,
        ..case.head(template).unwrap()
    };
    case.store.perform(Op::Decide(Decision::PutHead {
        head: void,
        expected: None,
    }));
    perform(&mut case, id, op);
    case.run_for(Span::seconds(20));
    let made = children(&case, template);
    assert_eq!(made.len(), 1);
    assert_ne!(made[0].job, child);
    assert_eq!(case.total_active(made[0].job), 1);
}

#[test]
fn a_template_that_is_stopped_makes_nothing_more_and_its_jobs_run_on() {
    let (mut case, template) = case(Overlap::Allow, CatchUp::All);
    case.run_for(Span::minutes(5));
    case.want(template, Desired::Stopped);
    case.run_for(Span::minutes(20));
    assert_eq!(case.state(template), Some(JobState::Stopped));
    assert_eq!(made(&case, template), "03:50");
    let child = children(&case, template).remove(0).job;
    assert_eq!(case.total_active(child), 1);
    case.want(template, Desired::Deleted);
    case.fail_over();
    assert_eq!(case.total_active(child), 1);
}
