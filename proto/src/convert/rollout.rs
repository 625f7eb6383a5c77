//! How jobs are brought to new versions, and how far that is, between wire and model.

use super::quantity::{duration, read_duration, timestamp};
use super::{Problems, at, reason};
use crate::echelon::v1;
use echelon_core_model::Amount;
use echelon_core_model::Reason;
use echelon_core_model::rollout::{
    OnFailure, PastRollout, Rollout, RolloutProgress, RolloutState, UpdatePolicy,
};

/// To the wire.
#[must_use]
pub const fn amount(a: Amount) -> v1::Amount {
    use v1::amount::Amount as Sent;
    v1::Amount {
        amount: Some(match a {
            Amount::Count(n) => Sent::Count(n),
            Amount::Percent(p) => Sent::Percent(p),
        }),
    }
}

/// From the wire: neither of both, and more than all, are problems.
pub(super) fn read_amount(a: &v1::Amount, path: &str, problems: &mut Problems) -> Amount {
    use v1::amount::Amount as Sent;
    match a.amount {
        Some(Sent::Count(n)) => return Amount::Count(n),
        Some(Sent::Percent(p)) if p <= 100 => return Amount::Percent(p),
        Some(Sent::Percent(_)) => problems.add(at(path, "percent"), "must be 0 to 100"),
        None => problems.add(path, "must be a count or a percent"),
    }
    Amount::Count(0)
}

/// To the wire.
#[must_use]
pub fn policy(p: &UpdatePolicy) -> v1::UpdatePolicy {
    v1::UpdatePolicy {
        batch: p.batch.map(amount),
        max_surge: Some(amount(p.max_surge)),
        min_healthy: Some(duration(p.min_healthy)),
        healthy_within: Some(duration(p.healthy_within)),
        canaries: Some(amount(p.canaries)),
        auto_promote: p.auto_promote,
        max_failures: Some(amount(p.max_failures)),
        on_failure: match p.on_failure {
            OnFailure::RollBack => v1::OnFailure::RollBack,
            OnFailure::Pause => v1::OnFailure::Pause,
            OnFailure::Continue => v1::OnFailure::Continue,
        }
        .into(),
    }
}

/// From the wire: what is left out has its default.
pub fn read_policy(p: v1::UpdatePolicy, path: &str, problems: &mut Problems) -> UpdatePolicy {
    let usual = UpdatePolicy::DEFAULT;
    let mut read = |a: Option<v1::Amount>, field: &str, usual: Amount| {
        a.map_or(usual, |a| read_amount(&a, &at(path, field), problems))
    };
    let amounts = [
        read(p.max_surge, "max_surge", usual.max_surge),
        read(p.canaries, "canaries", usual.canaries),
        read(p.max_failures, "max_failures", usual.max_failures),
    ];
    let [max_surge, canaries, max_failures] = amounts;
    let batch = p.batch.map(|a| read_amount(&a, &at(path, "batch"), problems));
    let mut span = |d: Option<prost_types::Duration>, field: &str, usual| {
        d.map_or(usual, |d| read_duration(&d, || at(path, field), problems))
    };
    let min_healthy = span(p.min_healthy, "min_healthy", usual.min_healthy);
    let healthy_within = span(p.healthy_within, "healthy_within", usual.healthy_within);
    let on_failure = match v1::OnFailure::try_from(p.on_failure) {
        Ok(v1::OnFailure::Unspecified | v1::OnFailure::RollBack) => OnFailure::RollBack,
        Ok(v1::OnFailure::Pause) => OnFailure::Pause,
        Ok(v1::OnFailure::Continue) => OnFailure::Continue,
        Err(_) => {
            problems.add(at(path, "on_failure"), "must be roll_back, pause or continue");
            OnFailure::RollBack
        }
    };
    UpdatePolicy {
        batch,
        max_surge,
        min_healthy,
        healthy_within,
        canaries,
        auto_promote: p.auto_promote,
        max_failures,
        on_failure,
    }
}

/// To the wire.
#[must_use]
pub const fn state(s: RolloutState) -> v1::RolloutState {
    match s {
        RolloutState::Running => v1::RolloutState::Running,
        RolloutState::Canary => v1::RolloutState::Canary,
        RolloutState::Paused => v1::RolloutState::Paused,
        RolloutState::RollingBack => v1::RolloutState::RollingBack,
        RolloutState::Done => v1::RolloutState::Done,
        RolloutState::RolledBack => v1::RolloutState::RolledBack,
    }
}

/// The latest rollout to the wire: as it is wanted, and what became of it, when that is known. A wish counts at once, whether or not it was
/// looked at since.
#[must_use]
pub fn rollout(
    wish: &Rollout,
    spec_version: u32,
    instances: u64,
    of: Option<&RolloutProgress>,
) -> v1::Rollout {
    let of = of.filter(|p| p.number == wish.number);
    let goes_on = if wish.back.is_some() {
        RolloutState::RollingBack
    } else {
        RolloutState::Running
    };
    let shown = match of.map_or(goes_on, |p| p.state) {
        over if over.is_over() => over,
        _ if wish.held.is_some() => RolloutState::Paused,
        RolloutState::Canary if !wish.promoted => RolloutState::Canary,
        _ => goes_on,
    };
    let wished = wish.held.or(wish.back).map(Reason::new);
    let known = of.filter(|p| p.state == shown).and_then(|p| p.reason.clone());
    let why = known.or(wished);
    v1::Rollout {
        number: wish.number,
        spec_version,
        base_version: wish.base,
        state: state(shown).into(),
        since: Some(timestamp(of.map_or(wish.since, |p| p.since))),
        start_time: Some(timestamp(wish.since)),
        updated: of.map_or(0, |p| p.updated),
        failed: of.map_or(0, |p| p.failed),
        instances,
        reason: why.as_ref().map(reason::reason),
        promoted: wish.promoted,
    }
}

/// An earlier rollout to the wire, with the one that followed it.
#[must_use]
fn past(p: &PastRollout, next: &Rollout) -> v1::Rollout {
    // Who took it back tells more than that it was followed.
    let taken_back = next.back.filter(|_| !p.state.is_over());
    let shown = if p.state.is_over() {
        state(p.state)
    } else {
        v1::RolloutState::Superseded
    };
    v1::Rollout {
        number: p.wish.number,
        spec_version: p.spec_version,
        base_version: p.wish.base,
        state: shown.into(),
        start_time: Some(timestamp(p.wish.since)),
        reason: taken_back
            .or(p.wish.back)
            .map(|code| reason::reason(&Reason::new(code))),
        promoted: p.wish.promoted,
        ..Default::default()
    }
}

/// All earlier rollouts to the wire, latest last.
#[must_use]
pub fn all_past(past_rollouts: &[PastRollout], latest: Option<&Rollout>) -> Vec<v1::Rollout> {
    let next = past_rollouts.iter().skip(1).map(|p| &p.wish).chain(latest);
    past_rollouts
        .iter()
        .zip(next)
        .map(|(p, next)| past(p, next))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{ReasonCode, Timestamp};

    fn shown(change: impl FnOnce(&mut Rollout), was: RolloutState) -> v1::RolloutState {
        let mut wish = Rollout::after(None, 1, Timestamp(1));
        change(&mut wish);
        let of = RolloutProgress {
            number: 1,
            state: was,
            since: Timestamp(2),
            updated: 0,
            failed: 0,
            reason: None,
        };
        rollout(&wish, 2, 3, Some(&of)).state()
    }

    #[test]
    fn a_wish_is_shown_at_once() {
        let promoted = |r: &mut Rollout| r.promoted = true;
        assert_eq!(shown(|_| {}, RolloutState::Canary), v1::RolloutState::Canary);
        assert_eq!(shown(promoted, RolloutState::Canary), v1::RolloutState::Running);
        assert_eq!(shown(|_| {}, RolloutState::Paused), v1::RolloutState::Running);
        let held = |r: &mut Rollout| r.held = Some(ReasonCode::RolloutPaused);
        assert_eq!(shown(held, RolloutState::Running), v1::RolloutState::Paused);
        assert_eq!(shown(held, RolloutState::Done), v1::RolloutState::Done);
    }

    #[test]
    fn what_was_taken_back_says_why() {
        let first = Rollout::after(None, 1, Timestamp(1));
        let back = first.going_back(ReasonCode::RolloutAborted, Timestamp(2));
        let past = PastRollout {
            wish: first,
            spec_version: 2,
            state: RolloutState::Running,
        };
        let all = all_past(&[past], Some(&back));
        let told = all[0].reason.as_ref().map(|r| r.code.as_str());
        assert_eq!(
            (all[0].state(), told),
            (v1::RolloutState::Superseded, Some("ROLLOUT_ABORTED"))
        );
    }
}
