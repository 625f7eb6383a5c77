//! How jobs are brought to new versions, and how far that is, between wire and model.

use super::quantity::{duration, read_duration, timestamp};
use super::{Problems, at, reason};
use crate::echelon::v1;
use echelon_core_model::Reason;
use echelon_core_model::rollout::{
    Amount, OnFailure, PastRollout, Rollout, RolloutProgress, RolloutState, UpdatePolicy,
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

fn read_amount(a: &v1::Amount, path: &str, problems: &mut Problems) -> Amount {
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

/// The latest rollout to the wire: as it is wanted, and what became of it, when that is known.
#[must_use]
pub fn rollout(
    wish: &Rollout,
    spec_version: u32,
    instances: u64,
    of: Option<&RolloutProgress>,
) -> v1::Rollout {
    let of = of.filter(|p| p.number == wish.number);
    let wished = wish.held.or(wish.back).map(Reason::new);
    let why = of.and_then(|p| p.reason.clone()).or(wished);
    let first = if wish.back.is_some() {
        RolloutState::RollingBack
    } else {
        RolloutState::Running
    };
    v1::Rollout {
        number: wish.number,
        spec_version,
        base_version: wish.base,
        state: state(of.map_or(first, |p| p.state)).into(),
        since: Some(timestamp(of.map_or(wish.since, |p| p.since))),
        start_time: Some(timestamp(wish.since)),
        updated: of.map_or(0, |p| p.updated),
        failed: of.map_or(0, |p| p.failed),
        instances,
        reason: why.as_ref().map(reason::reason),
        promoted: wish.promoted,
    }
}

/// An earlier rollout to the wire.
#[must_use]
pub fn past(p: &PastRollout) -> v1::Rollout {
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
        reason: p.wish.back.map(|code| reason::reason(&Reason::new(code))),
        promoted: p.wish.promoted,
        ..Default::default()
    }
}
