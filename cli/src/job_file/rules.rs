//! The rules by which runs, instances and jobs end, as a job file writes them.

use super::file::JobFile;
use super::form::{ExitStatus, Time};
use super::parts_file::{AfterFile, ScheduleFile};
use super::scalar::Scalar;
use super::spec::{Reader, whole};
use super::update::amount;
use super::words::{CATCH_UPS, CONDITIONS, OVERLAPS, RESTARTS, one_of};
use crate::quantity;
use echelon_core_model::GroupName;
use echelon_core_model::rules::{After, Completion, Condition, ExitCodes, Restart, Rules};
use echelon_core_model::schedule::{CatchUp, Overlap, Schedule};
use echelon_core_model::time::Span;
use std::collections::BTreeMap;

/// How a job ends, and what it waits for.
pub(super) fn of_job(r: &mut Reader, file: &mut JobFile) -> Rules {
    let all = Completion::All;
    Rules {
        completion: r.value("completion", file.completion.as_ref(), completion, all),
        max_failed: r.value(
            "max_failed",
            file.max_failed.as_ref(),
            |t| amount(t).map(Some),
            None,
        ),
        max_wait: span(r, "max_wait", file.max_wait.as_ref()),
        max_total: span(r, "max_total", file.max_total.as_ref()),
        after: after(r, file.after.take().unwrap_or_default()),
        keep: span(r, "keep", file.keep.as_ref()),
        schedule: file.schedule.take().map(|s| schedule(r, s)),
        driver: r.value("driver", file.driver.as_ref(), driver, None),
        withdrawn: BTreeMap::new(),
    }
}

/// The group that drives the job.
fn driver(text: &str) -> Result<Option<GroupName>, String> {
    GroupName::parse(text)
        .map(Some)
        .map_err(|wrong| wrong.to_string())
}

/// When jobs are made of it.
fn schedule(r: &mut Reader, file: ScheduleFile) -> Schedule {
    let overlap = one_of("an overlap rule", &OVERLAPS);
    let catch_up = one_of("a catch-up rule", &CATCH_UPS);
    let zone = file.time_zone.map(|zone| zone.0);
    Schedule {
        cron: file.cron.0,
        time_zone: zone.unwrap_or_else(|| Schedule::UTC.to_owned()),
        overlap: r.value("schedule.overlap", file.overlap.as_ref(), overlap, Overlap::Skip),
        catch_up: r.value(
            "schedule.catch_up",
            file.catch_up.as_ref(),
            catch_up,
            CatchUp::One,
        ),
        within: r.value(
            "schedule.within",
            file.within.as_ref(),
            quantity::span,
            Schedule::WITHIN,
        ),
        keep_last: r.value(
            "schedule.keep_last",
            file.keep_last.as_ref(),
            whole,
            Schedule::KEEP_LAST,
        ),
    }
}

/// A time that may be left out.
pub(super) fn span(r: &mut Reader, path: &str, text: Option<&Scalar<Time>>) -> Option<Span> {
    text.map(|text| r.value(path, Some(text), quantity::span, Span::ZERO))
}

/// What follows the end of a run.
pub(super) fn restart(text: &str) -> Result<Restart, String> {
    one_of("a restart policy", &RESTARTS)(text)
}

/// Exit statuses.
pub(super) fn exit_codes(r: &mut Reader, path: &str, codes: Option<Vec<Scalar<ExitStatus>>>) -> ExitCodes {
    let read = |text: &str| {
        let code = whole(text).ok().and_then(|n| u8::try_from(n).ok());
        code.map(Some)
            .ok_or_else(|| format!("`{text}` is not an exit status: use 0 to 255"))
    };
    let codes = codes.unwrap_or_default();
    let codes = codes.iter().enumerate();
    codes
        .filter_map(|(i, code)| r.value(&format!("{path}[{i}]"), Some(code), read, None))
        .collect()
}

/// When a job has succeeded.
fn completion(text: &str) -> Result<Completion, String> {
    match text {
        "all" => Ok(Completion::All),
        "any" => Ok(Completion::Successes(1)),
        _ => text
            .parse()
            .map(Completion::Successes)
            .map_err(|_| format!("`{text}` is neither `all`, `any` nor a number of instances")),
    }
}

/// What other jobs have to have come to.
fn after(r: &mut Reader, files: Vec<AfterFile>) -> Vec<After> {
    let condition = one_of("a condition", &CONDITIONS);
    let files = files.into_iter().enumerate();
    let read = files.map(|(i, file)| After {
        condition: r.value(
            &format!("after[{i}].condition"),
            file.condition.as_ref(),
            &condition,
            Condition::Succeeded,
        ),
        job: file.job.0,
        id: None,
    });
    read.collect()
}
