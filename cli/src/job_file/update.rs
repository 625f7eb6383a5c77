//! How a service is brought to a new version: the `update` of a job file.

use super::form::{Part, Time};
use super::parts_file::UpdateFile;
use super::runtime::truth;
use super::scalar::Scalar;
use super::spec::{Reader, whole};
use super::words::{ON_FAILURES, one_of};
use crate::quantity;
use echelon_core_model::Amount;
use echelon_core_model::rollout::UpdatePolicy;

/// The policy, with defaults where nothing is said.
pub(super) fn policy(r: &mut Reader, file: &UpdateFile) -> UpdatePolicy {
    let usual = UpdatePolicy::DEFAULT;
    let mut of = |field: &str, text: &Option<Scalar<Part>>, usual| {
        r.value(&format!("update.{field}"), text.as_ref(), amount, usual)
    };
    let max_surge = of("max_surge", &file.max_surge, usual.max_surge);
    let canaries = of("canaries", &file.canaries, usual.canaries);
    let max_failures = of("max_failures", &file.max_failures, usual.max_failures);
    let batch = file
        .batch
        .is_some()
        .then(|| of("batch", &file.batch, Amount::Count(1)));
    let mut span = |field: &str, text: &Option<Scalar<Time>>, usual| {
        r.value(&format!("update.{field}"), text.as_ref(), quantity::span, usual)
    };
    UpdatePolicy {
        batch,
        max_surge,
        min_healthy: span("min_healthy", &file.min_healthy, usual.min_healthy),
        healthy_within: span("healthy_within", &file.healthy_within, usual.healthy_within),
        canaries,
        auto_promote: r.value(
            "update.auto_promote",
            file.auto_promote.as_ref(),
            truth,
            usual.auto_promote,
        ),
        max_failures,
        on_failure: r.value(
            "update.on_failure",
            file.on_failure.as_ref(),
            one_of("what can follow a failure", &ON_FAILURES),
            usual.on_failure,
        ),
    }
}

/// `3`, or `25%`.
pub(super) fn amount(text: &str) -> Result<Amount, String> {
    let wrong = |_| format!("`{text}` is neither a number of instances nor a percentage, for example `5%`");
    let Some(part) = text.strip_suffix('%') else {
        return whole(text).map(Amount::Count).map_err(wrong);
    };
    match whole(part.trim_end()).map_err(wrong)? {
        p if p <= 100 => Ok(Amount::Percent(p)),
        _ => Err(format!("`{text}` is more than all of them: use 0% to 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_numbers_or_parts() {
        assert_eq!(amount("3"), Ok(Amount::Count(3)));
        assert_eq!(amount("25%"), Ok(Amount::Percent(25)));
        for wrong in ["", "-1", "101%", "1.5", "%", "a few"] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
    }
}
