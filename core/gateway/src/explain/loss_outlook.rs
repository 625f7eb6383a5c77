//! What becomes of a job's instances at a cluster that is cut off or without Mesos, and when.

use echelon_core_model::health::{CurrentSilence, Declaration};
use echelon_core_model::spec::{JobKind, JobSpec, OnSilence};
use echelon_core_model::{Span, Timestamp};

/// In a clause after "what is shown of the instances there is unconfirmed". `now` is this gateway's time.
pub(super) fn loss_outlook(spec: &JobSpec, silence: CurrentSilence, now: Timestamp) -> String {
    if spec.kind == JobKind::Daemon {
        return "they stay assigned to it, since a daemon belongs to its cluster's hosts".to_owned();
    }
    let OnSilence::Replace(after) = spec.on_cluster_loss else {
        return "they stay assigned to it, since `on_cluster_loss` is `wait`".to_owned();
    };
    let begin = "they begin at other clusters";
    let left = Span(after.0.saturating_sub(silence.waited.0));
    match silence.declared {
        Some(declared) if declared.is_loss() => {
            format!("{begin} as far as these have capacity, since an operator has declared it lost")
        }
        _ if left == Span::ZERO => format!("{begin} as far as these have capacity"),
        Some(Declaration::AliveUntil(until)) if now < until => format!(
            "an operator has declared it alive until {until}; {begin} once its silence has been counted for {} more",
            left.rounded()
        ),
        _ => format!(
            "{begin} once its silence has been counted for {} more, as `on_cluster_loss` says",
            left.rounded()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_testkit::build::JobBuilder;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn told(kind: JobKind, policy: OnSilence, waited: u64, declared: Option<Declaration>) -> String {
        let spec = JobSpec {
            kind,
            on_cluster_loss: policy,
            ..JobBuilder::service("web", 1).build()
        };
        let waited = Span::seconds(waited);
        loss_outlook(&spec, CurrentSilence { waited, declared }, NOW)
    }

    #[test]
    fn the_policy_and_the_silence_so_far_decide() {
        let replace = OnSilence::Replace(Span::minutes(15));
        let later = Some(Declaration::AliveUntil(NOW.plus(Span::minutes(1))));
        let before = Some(Declaration::AliveUntil(NOW));
        for (kind, policy, waited, declared, part) in [
            (JobKind::Service, OnSilence::Wait, 9_000, None, "is `wait`"),
            (JobKind::Daemon, OnSilence::Wait, 9_000, None, "a daemon belongs"),
            (JobKind::Batch, replace, 60, None, "counted for 14m more"),
            (JobKind::Batch, replace, 60, before, "counted for 14m more, as"),
            (
                JobKind::Batch,
                replace,
                60,
                later,
                "declared it alive until 1970-01-01T00:17:40Z",
            ),
            (
                JobKind::Batch,
                replace,
                900,
                None,
                "begin at other clusters as far as these have capacity",
            ),
            (
                JobKind::Batch,
                replace,
                60,
                Some(Declaration::Lost),
                "has declared it lost",
            ),
        ] {
            let told = told(kind, policy, waited, declared);
            assert!(told.contains(part), "{told}");
        }
    }
}
