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
        time: Some(timestamp(e.at)),
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
