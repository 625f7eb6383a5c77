//! Rules about schedules.

use super::Violations;
use echelon_core_model::Span;
use echelon_core_model::schedule::{CatchUp, Overlap, Schedule};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::timetable::{Timetable, TimetableError};

/// Longest time that is looked back to.
const LONGEST_WITHIN: Span = Span::minutes(31 * 24 * 60);
/// Most ended jobs that are kept: all of them are looked at when one ends.
const MOST_KEPT: u32 = 1_000;

/// Checks a template: its timetable, and what does not go together.
pub(super) fn check(s: &JobSpec, path: &str, out: &mut Violations) {
    let Some(schedule) = &s.rules.schedule else {
        return;
    };
    let at = |field: &str| format!("{path}.schedule.{field}");
    timetable(schedule, &at, out);
    out.check(
        s.kind == JobKind::Batch,
        format!("{path}.schedule"),
        format!(
            "is for kind batch; a job of kind {} runs until it is stopped",
            s.kind
        ),
    );
    out.check(
        s.name.len() <= Schedule::LONGEST_NAME,
        format!("{path}.name"),
        format!(
            "must be at most {} characters where the job has a schedule: the jobs that are made of it have their time behind it",
            Schedule::LONGEST_NAME
        ),
    );
    out.check(
        s.rules.after.is_empty(),
        format!("{path}.after"),
        "cannot be with a schedule: the other job would end once, and this one is made again and again",
    );
    out.check(
        (Span::minutes(1)..=LONGEST_WITHIN).contains(&schedule.within),
        at("within"),
        "must be 1 minute to 31 days",
    );
    out.check(
        (1..=MOST_KEPT).contains(&schedule.keep_last),
        at("keep_last"),
        format!("must be 1 to {MOST_KEPT} ended jobs"),
    );
    let alone = matches!(schedule.overlap, Overlap::Skip | Overlap::Replace);
    out.check(
        !(schedule.catch_up == CatchUp::All && alone),
        at("catch_up"),
        format!(
            "cannot be all where overlap is {}: the first that is caught up with would still run when the next one comes; use overlap queue or allow",
            schedule.overlap
        ),
    );
}

fn timetable(schedule: &Schedule, at: &impl Fn(&str) -> String, out: &mut Violations) {
    if let Err(wrong) = Timetable::of(schedule) {
        let field = match wrong {
            TimetableError::Zone(_) => "time_zone",
            TimetableError::Cron(_) | TimetableError::Never => "cron",
        };
        out.check(false, at(field), wrong.to_string());
    }
}
