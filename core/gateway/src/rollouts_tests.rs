use super::*;
use crate::change::{Wish, change_goal};
use crate::resource::JobRef;
use crate::testing::{Memory, NOW, run, web};
use crate::update::{scale_job, update_job};
use echelon_core_model::job::JobState;
use echelon_core_model::rollout::{RolloutProgress, RolloutState};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{JobId, Span};

const LATER: Timestamp = NOW.plus(Span::seconds(60));

fn named() -> Change {
    Change {
        job: JobRef::Name("web".into()),
        etag: String::new(),
    }
}

/// Changes what it runs.
fn update(store: &mut Memory, command: &'static str) -> Head {
    let edit = move |present: &JobSpec| {
        let mut spec = present.clone();
        spec.groups
            .iter_mut()
            .for_each(|g| g.runtime = Runtime::shell(command));
        Ok((spec, 0))
    };
    let view = run(store, move |facts| async move {
        update_job(&facts, named(), edit, LATER).await
    });
    view.unwrap().head
}

fn wish(store: &mut Memory, wish: Steer) -> Result<Head, ErrorReason> {
    let view = run(store, move |facts| async move {
        steer(&facts, named(), wish, LATER).await
    });
    view.map(|v| v.head).map_err(|e| e.reason)
}

fn back(store: &mut Memory, version: Option<u32>) -> Result<Head, ErrorReason> {
    let view = run(store, move |facts| async move {
        roll_back_job(&facts, named(), version, LATER).await
    });
    view.map(|v| v.head).map_err(|e| e.reason)
}

fn is_at(store: &mut Memory, job: JobId, state: RolloutState, failed: u64) {
    store.ended(job, JobState::Running);
    let number = store.heads[&job].rollout.map_or(0, |r| r.number);
    store.progress.get_mut(&job).unwrap().rollout = Some(RolloutProgress {
        number,
        state,
        since: NOW,
        updated: 0,
        failed,
        reason: None,
    });
}

fn revision(store: &Memory, job: JobId, version: u32) -> u32 {
    store.specs[&(job, version)].groups[0].revision
}

#[test]
fn a_change_of_what_runs_is_rolled_out_and_a_change_of_scale_is_not() {
    let (mut store, job) = web();
    let scaled = run(&mut store, |facts| async move {
        scale_job(&facts, named(), None, 5, LATER).await
    });
    assert_eq!(scaled.unwrap().head.rollout, None);
    assert_eq!(revision(&store, job, 2), 1);
    let head = update(&mut store, "b");
    let rollout = head.rollout.unwrap();
    assert_eq!((rollout.number, rollout.base, head.spec_version), (1, 2, 3));
    assert_eq!(revision(&store, job, 3), 3);
}

#[test]
fn a_newer_update_supersedes_and_keeps_the_base() {
    let (mut store, job) = web();
    update(&mut store, "b");
    is_at(&mut store, job, RolloutState::Running, 0);
    let head = update(&mut store, "c");
    let rollout = head.rollout.unwrap();
    assert_eq!(
        (rollout.number, rollout.base, head.past_rollouts.len()),
        (2, 1, 1)
    );
    is_at(&mut store, job, RolloutState::Done, 0);
    let head = update(&mut store, "d");
    assert_eq!(head.rollout.unwrap().base, 3, "all of it had become version 3");
    let states: Vec<_> = head.past_rollouts.iter().map(|p| p.state).collect();
    assert_eq!(states, [RolloutState::Running, RolloutState::Done]);
}

#[test]
fn what_is_changed_back_during_a_rollout_has_the_revision_that_it_had() {
    let (mut store, job) = web();
    let first = store.specs[&(job, 1)].groups[0].runtime.clone();
    update(&mut store, "b");
    let edit = move |present: &JobSpec| {
        let mut spec = present.clone();
        spec.groups[0].runtime = first.clone();
        Ok((spec, 0))
    };
    let view = run(&mut store, move |facts| async move {
        update_job(&facts, named(), edit, LATER).await
    });
    assert_eq!(view.unwrap().head.spec_version, 3);
    assert_eq!(revision(&store, job, 3), 1, "what was not updated yet stays");
}

#[test]
fn an_abort_goes_back_at_once_and_keeps_the_scale() {
    let (mut store, job) = web();
    update(&mut store, "b");
    let scaled = run(&mut store, |facts| async move {
        scale_job(&facts, named(), None, 7, LATER).await
    });
    assert_eq!(scaled.unwrap().head.rollout.unwrap().number, 1);
    let head = wish(&mut store, Steer::Abort).unwrap();
    let rollout = head.rollout.unwrap();
    assert_eq!(
        (rollout.number, rollout.back),
        (2, Some(ReasonCode::RolloutAborted))
    );
    let spec = &store.specs[&(job, head.spec_version)];
    assert_eq!((spec.groups[0].revision, spec.groups[0].instances), (1, 7));
    assert_eq!(head.instances, 7);
    let again = wish(&mut store, Steer::Abort).unwrap();
    assert_eq!(again.version, head.version, "to abort twice is one wish");
}

#[test]
fn a_rollout_is_held_and_goes_on_and_what_it_was_held_for_is_accepted() {
    let (mut store, job) = web();
    assert_eq!(wish(&mut store, Steer::Pause), Err(ErrorReason::NoRollout));
    update(&mut store, "b");
    let held = wish(&mut store, Steer::Pause).unwrap();
    assert_eq!(held.rollout.unwrap().held, Some(ReasonCode::RolloutPaused));
    is_at(&mut store, job, RolloutState::Paused, 2);
    let on = wish(&mut store, Steer::Resume).unwrap().rollout.unwrap();
    assert_eq!((on.held, on.forgiven), (None, 0), "it was not held for them");
    let rollout = store.heads.get_mut(&job).unwrap().rollout.as_mut().unwrap();
    rollout.held = Some(ReasonCode::RolloutFailures);
    let on = wish(&mut store, Steer::Resume).unwrap().rollout.unwrap();
    assert_eq!((on.held, on.forgiven), (None, 2));
    assert!(
        wish(&mut store, Steer::Promote)
            .unwrap()
            .rollout
            .unwrap()
            .promoted
    );
    is_at(&mut store, job, RolloutState::Done, 0);
    assert_eq!(wish(&mut store, Steer::Resume), Err(ErrorReason::NoRollout));
}

#[test]
fn an_earlier_version_is_gone_back_to_by_a_rollout() {
    let (mut store, job) = web();
    assert_eq!(back(&mut store, None), Err(ErrorReason::NoRollout));
    update(&mut store, "b");
    is_at(&mut store, job, RolloutState::Done, 0);
    update(&mut store, "c");
    is_at(&mut store, job, RolloutState::Done, 0);
    let head = back(&mut store, Some(1)).unwrap();
    let rollout = head.rollout.unwrap();
    assert_eq!(
        (rollout.base, rollout.back, head.spec_version),
        (3, Some(ReasonCode::RolloutRollback), 4)
    );
    assert_eq!(revision(&store, job, 4), 1);
    assert_eq!(
        back(&mut store, Some(1)).unwrap().version,
        head.version,
        "it is so already"
    );
    assert_eq!(back(&mut store, Some(9)), Err(ErrorReason::FieldInvalid));
}

#[test]
fn without_a_version_a_rollback_goes_to_what_was_before_the_last_rollout() {
    let (mut store, job) = web();
    update(&mut store, "b");
    is_at(&mut store, job, RolloutState::Done, 0);
    let head = back(&mut store, None).unwrap();
    assert_eq!(revision(&store, job, head.spec_version), 1);
}

#[test]
fn past_rollouts_are_bounded() {
    let (mut store, job) = web();
    for command in ["b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"] {
        update(&mut store, command);
        is_at(&mut store, job, RolloutState::Done, 0);
    }
    let past = &store.heads[&job].past_rollouts;
    assert_eq!((past.len(), past[0].wish.number), (10, 3));
}

#[test]
fn a_job_that_is_stopped_takes_no_wish_about_its_rollout() {
    let (mut store, _) = web();
    update(&mut store, "b");
    let stop = run(&mut store, |facts| async move {
        change_goal(&facts, named(), Wish::Stop, LATER).await
    });
    assert!(stop.is_ok());
    assert_eq!(wish(&mut store, Steer::Abort), Err(ErrorReason::JobStopping));
    assert_eq!(back(&mut store, Some(1)), Err(ErrorReason::JobStopping));
}
