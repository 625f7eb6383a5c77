//! What JobService has of schedules.

use super::jobs::{or_fresh, read_change};
use crate::context::Gateway;
use echelon_core_gateway::schedules::{self, Steer, TOLD, Trigger};
use echelon_core_gateway::{ApiError, validate};
use echelon_core_model::Timestamp;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::timetable::Timetable;
use echelon_proto::convert::quantity::timestamp;
use echelon_proto::echelon::v1;

impl Gateway {
    pub(super) async fn steer_schedule_of(&self, r: v1::SteerScheduleRequest) -> Result<v1::Job, ApiError> {
        let wish = match r.action() {
            v1::ScheduleAction::Pause => Steer::Pause,
            v1::ScheduleAction::Resume => Steer::Resume,
            v1::ScheduleAction::Unspecified => {
                return Err(ApiError::field("action", "must be pause or resume"));
            }
        };
        let change = read_change(&r.name, "name", r.etag)?;
        let view = schedules::steer(&self.facts, change, wish, self.now()).await?;
        Ok(self.changed(&view))
    }

    pub(super) async fn trigger(&self, r: v1::TriggerJobRequest) -> Result<v1::Job, ApiError> {
        let change = read_change(&r.name, "name", r.etag)?;
        let mut problems = validate::Violations::default();
        let trigger = Trigger {
            request_id: or_fresh(r.request_id),
            chance: Self::chance(),
        };
        validate::request_id(&trigger.request_id, &mut problems);
        problems.done()?;
        let view = schedules::trigger_job(&self.facts, change, trigger, self.now()).await?;
        Ok(self.changed(&view))
    }
}

/// When the schedule of a spec that is planned would be due.
pub(super) fn planned(spec: &JobSpec, now: Timestamp) -> Vec<prost_types::Timestamp> {
    let table = spec.rules.schedule.as_ref().and_then(|s| Timetable::of(s).ok());
    let due = table.map(|t| t.upcoming(now, TOLD)).unwrap_or_default();
    due.into_iter().map(timestamp).collect()
}
