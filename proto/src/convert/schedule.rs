//! Schedules between the public wire and the model.

use super::quantity::{duration, read_duration, timestamp};
use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::Timestamp;
use echelon_core_model::schedule::{CatchUp, Origin, Overlap, Schedule, ScheduleState};

/// To the wire, with all defaults spelt out.
pub(super) fn schedule(s: &Schedule) -> v1::Schedule {
    v1::Schedule {
        cron: s.cron.clone(),
        time_zone: s.time_zone.clone(),
        overlap: match s.overlap {
            Overlap::Skip => v1::Overlap::Skip,
            Overlap::Queue => v1::Overlap::Queue,
            Overlap::Replace => v1::Overlap::Replace,
            Overlap::Allow => v1::Overlap::Allow,
        }
        .into(),
        catch_up: match s.catch_up {
            CatchUp::None => v1::CatchUp::None,
            CatchUp::One => v1::CatchUp::One,
            CatchUp::All => v1::CatchUp::All,
        }
        .into(),
        within: Some(duration(s.within)),
        keep_last: Some(s.keep_last),
    }
}

pub(super) fn read_schedule(s: v1::Schedule, path: &str, problems: &mut Problems) -> Schedule {
    let overlap = match v1::Overlap::try_from(s.overlap) {
        Ok(v1::Overlap::Unspecified | v1::Overlap::Skip) => Overlap::Skip,
        Ok(v1::Overlap::Queue) => Overlap::Queue,
        Ok(v1::Overlap::Replace) => Overlap::Replace,
        Ok(v1::Overlap::Allow) => Overlap::Allow,
        Err(_) => {
            problems.add(at(path, "overlap"), "must be skip, queue, replace or allow");
            Overlap::Skip
        }
    };
    let catch_up = match v1::CatchUp::try_from(s.catch_up) {
        Ok(v1::CatchUp::Unspecified | v1::CatchUp::One) => CatchUp::One,
        Ok(v1::CatchUp::None) => CatchUp::None,
        Ok(v1::CatchUp::All) => CatchUp::All,
        Err(_) => {
            problems.add(at(path, "catch_up"), "must be none, one or all");
            CatchUp::One
        }
    };
    let within = s
        .within
        .map(|d| read_duration(&d, || at(path, "within"), problems));
    Schedule {
        cron: s.cron,
        time_zone: if s.time_zone.is_empty() {
            Schedule::UTC.to_owned()
        } else {
            s.time_zone
        },
        overlap,
        catch_up,
        within: within.unwrap_or(Schedule::WITHIN),
        keep_last: s.keep_last.unwrap_or(Schedule::KEEP_LAST),
    }
}

/// How far a template has come, with its next due times.
#[must_use]
pub fn status(state: &ScheduleState, due: &[Timestamp]) -> v1::ScheduleStatus {
    v1::ScheduleStatus {
        paused: state.paused,
        handled_time: Some(timestamp(state.handled)),
        next_times: due.iter().copied().map(timestamp).collect(),
        skipped_time: state.skipped.map(timestamp),
        missed_time: state.missed.map(timestamp),
    }
}

/// Where a job comes from.
#[must_use]
pub fn origin(origin: &Origin) -> v1::JobOrigin {
    v1::JobOrigin {
        template_id: origin.template.to_string(),
        due_time: Some(timestamp(origin.due)),
        replaces: origin.replaces.iter().map(ToString::to_string).collect(),
    }
}
