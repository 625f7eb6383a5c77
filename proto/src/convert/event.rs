//! Events to the public wire.

use super::instance::run_state;
use super::quantity::timestamp;
use super::reason::reason;
use crate::echelon::v1;
use echelon_core_model::store::Event;

/// To the wire.
#[must_use]
pub fn event(e: &Event) -> v1::Event {
    v1::Event {
        job_id: e.job.to_string(),
        time: Some(timestamp(e.happened)),
        group: e
            .instance
            .as_ref()
            .map(|(group, _)| group.to_string())
            .unwrap_or_default(),
        instance: e.instance.as_ref().map(|(_, n)| *n),
        state: e.state.map_or(v1::RunState::Unspecified, run_state).into(),
        reason: Some(reason(&e.reason)),
        hostname: e.hostname.clone().unwrap_or_default(),
        task_id: e.task.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};

    #[test]
    fn users_are_shown_when_it_happened() {
        let e = Event {
            job: JobId(1),
            at: Timestamp(90_000),
            happened: Timestamp(30_000),
            instance: None,
            state: None,
            reason: Reason::new(ReasonCode::Succeeded),
            hostname: None,
            task: None,
        };
        assert_eq!(event(&e).time.map(|t| t.seconds), Some(30));
    }
}
