//! What a cluster says of single members of a pod, and what follows for the run. A pod runs when each member runs, and is over
//! when all are known dead; in between it is brought to its end by the first member that ends badly, or by its main task
//! however that ends. Mesos' own executor kills the others of a pod when one fails, and not when one ends with status 0 (rule
//! R83): a sidecar may do so and the pod runs on, and what is left when the main task has succeeded is killed by us.

use crate::hear::{News, Told, Whom, aim, note_probes, note_silence};
use echelon_core_model::instance::{Ending, Run};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::pod::Member;
use echelon_core_model::{Reason, ReasonCode, RunState, Timestamp};

/// Whether nothing of it can be left, as far as its members tell.
pub(crate) fn is_over(run: &Run) -> bool {
    run.members.iter().all(|m| m.state.is_ended())
}

/// Moves the latest run of an instance along. True when anything changed.
pub(crate) fn apply(run: &mut Run, news: &News, now: Timestamp) -> bool {
    let noted = note(run, news);
    if noted {
        steer(run, news, now);
    }
    noted || (run.state == RunState::Stopping && note_silence(run, is_silent(run), now))
}

/// The same for an older run: one that was given up stays so until its last member is known dead; whether it lives on is
/// decided elsewhere.
pub(crate) fn apply_older(run: &mut Run, news: &News, now: Timestamp) -> bool {
    let noted = note(run, news);
    if noted && (run.state != RunState::Lost || is_over(run)) {
        steer(run, news, now);
    }
    noted || (run.state == RunState::Stopping && note_silence(run, is_silent(run), now))
}

/// Notes what is told of members, and the end that one of them brings.
fn note(run: &mut Run, news: &News) -> bool {
    if run.state.is_ended() && run.state != RunState::Lost {
        return false;
    }
    let mut changed = news.of != Whom::All && is_main(&news.of) && note_probes(run, news);
    let stopping = run.state == RunState::Stopping && run.stopping.is_some();
    let mut ends = Vec::new();
    for member in run.members.iter_mut().filter(|m| is_about(&news.of, m)) {
        let was = member.state;
        changed |= note_member(member, news, stopping);
        if member.state != was && member.state.is_ended() {
            ends.push((member.clone(), ending(member, news)));
        }
    }
    ends.into_iter()
        .for_each(|(member, end)| bring(run, &member, end, news.fault));
    changed
}

fn is_main(of: &Whom) -> bool {
    !matches!(of, Whom::Sidecar(_))
}

fn is_about(of: &Whom, member: &Member) -> bool {
    match of {
        Whom::All => true,
        Whom::Main => member.sidecar.is_none(),
        Whom::Sidecar(name) => member.sidecar.as_ref() == Some(name),
    }
}

fn note_member(member: &mut Member, news: &News, stopping: bool) -> bool {
    let healthy = news
        .healthy
        .or(member.healthy)
        .filter(|_| !member.state.is_ended());
    let probed = healthy.is_some() && healthy != member.healthy;
    if probed {
        member.healthy = healthy;
    }
    let next = match news.told {
        Told::Gone if stopping => RunState::Killed,
        told => aim(member.state, told),
    };
    if next == member.state || !member.state.may_become(next) {
        return probed;
    }
    member.state = next;
    member.exit_code = news.exit_code;
    true
}

fn ending(member: &Member, news: &News) -> Ending {
    let reason = match &member.sidecar {
        None => news.reason.clone(),
        Some(name) => {
            let said = news.reason.detail.as_ref();
            let detail = said.map_or_else(|| format!("sidecar {name}"), |d| format!("sidecar {name}: {d}"));
            Reason {
                detail: Some(detail.into()),
                ..news.reason.clone()
            }
        }
    };
    Ending {
        state: member.state,
        reason,
        exit_code: member.exit_code,
    }
}

/// The first end counts. Updates of different tasks overtake each other, so what failed outweighs what was killed for it
/// unless we asked for that, and whatever is known outweighs a loss.
fn bring(run: &mut Run, member: &Member, end: Ending, fault: Option<PlatformCause>) {
    if member.sidecar.is_some() && member.state == RunState::Succeeded {
        return;
    }
    let lost = (run.state == RunState::Lost).then_some(RunState::Lost);
    let before = run.ending.as_ref().map(|e| e.state).or(lost);
    let outweighs = match before {
        None => true,
        Some(RunState::Lost) => end.state != RunState::Lost,
        Some(RunState::Killed) => {
            run.stopping.is_none() && !matches!(end.state, RunState::Killed | RunState::Lost)
        }
        Some(_) => false,
    };
    if outweighs {
        run.ending = Some(Box::new(end));
        run.fault = fault;
    }
}

/// Moves the run to where its members are.
fn steer(run: &mut Run, news: &News, now: Timestamp) {
    if is_over(run) {
        return finish(run, news, now);
    }
    if run.state == RunState::Lost {
        revive(run);
    }
    if run.ending.is_none() && run.state != RunState::Stopping {
        return go_on(run, news, now);
    }
    if run.state == RunState::Stopping {
        let known = |r: &Run| r.reason.code != ReasonCode::HostUnreachable;
        if let Some(end) = run
            .ending
            .as_ref()
            .filter(|_| run.stopping.is_none() && known(run))
        {
            run.reason = end.reason.clone();
        }
    } else {
        let reason = run.ending.as_ref().map(|e| e.reason.clone());
        run.reason = reason.unwrap_or_else(|| ReasonCode::Killed.into());
        run.state = RunState::Stopping;
        run.since = news.happened(run, now);
        run.ended_at = None;
    }
    note_silence(run, is_silent(run), now);
}

/// Whether all that is left of it is out of sight. While one member is known alive, the host is not silent.
fn is_silent(run: &Run) -> bool {
    let mut live = run.members.iter().filter(|m| !m.state.is_ended());
    live.all(|m| m.state == RunState::Unreachable)
}

fn finish(run: &mut Run, news: &News, now: Timestamp) {
    let Some(end) = run.ending.take() else { return };
    run.state = if run.state.may_become(end.state) {
        end.state
    } else {
        RunState::Lost
    };
    run.since = news.happened(run, now);
    run.reason = end.reason;
    run.exit_code = end.exit_code;
    run.ended_at = Some(now);
}

/// It was lost as a whole, and something of it lives: what was lost with it may live, too.
fn revive(run: &mut Run) {
    let lost = run.members.iter_mut().filter(|m| m.state == RunState::Lost);
    lost.for_each(|m| m.state = RunState::Unreachable);
    run.exit_code = None;
    run.fault = None;
}

fn go_on(run: &mut Run, news: &News, now: Timestamp) {
    let any = |state| run.members.iter().any(|m| m.state == state);
    let begins = any(RunState::Launching) || any(RunState::Starting);
    let next = if is_silent(run) {
        RunState::Unreachable
    } else if run.state != RunState::Lost
        && (begins || (run.started_at.is_none() && any(RunState::Unreachable)))
    {
        if any(RunState::Starting) || any(RunState::Running) {
            RunState::Starting
        } else {
            run.state
        }
    } else {
        RunState::Running
    };
    if next == run.state || !run.state.may_become(next) {
        return;
    }
    run.reason = match next {
        RunState::Starting => ReasonCode::Starting.into(),
        RunState::Running => ReasonCode::Running.into(),
        _ => news.reason.clone(),
    };
    run.state = next;
    run.since = news.happened(run, now);
    run.ended_at = None;
    if next == RunState::Running && run.started_at.is_none() {
        run.started_at = Some(now);
    }
}
