//! Rules about the rules by which runs, instances and jobs end.

use super::Violations;
use super::group::LONGEST_RUN;
use echelon_core_model::Amount;
use echelon_core_model::Span;
use echelon_core_model::limits::AWAITED;
use echelon_core_model::rules::{Completion, Restart};
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use std::collections::BTreeSet;

/// Checks how runs of a group end, and what follows.
pub(super) fn of_group(g: &GroupSpec, kind: JobKind, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    let batch = kind == JobKind::Batch;
    out.check(
        batch || g.restart == Restart::OnFailure,
        at("restart"),
        format!("is for kind batch; instances of kind {kind} are always run again"),
    );
    out.check(
        batch || g.retry.no_retry_exit_codes.is_empty(),
        at("retry.no_retry_exit_codes"),
        format!("is for kind batch; instances of kind {kind} are always run again"),
    );
    out.check(
        g.restart == Restart::OnFailure || g.retry.no_retry_exit_codes.is_empty(),
        at("retry.no_retry_exit_codes"),
        format!("has no meaning where restart is {}", g.restart),
    );
    span(g.max_start, at("max_start"), out);
}

/// Checks a time that may be left out.
pub(super) fn span(span: Option<Span>, field: String, out: &mut Violations) {
    out.check(
        span.is_none_or(|s| (Span::seconds(1)..=LONGEST_RUN).contains(&s)),
        field,
        "must be 1 second to 365 days; leave it out for no bound",
    );
}

fn driver(s: &JobSpec, path: &str, out: &mut Violations) {
    let Some(driver) = &s.rules.driver else { return };
    let field = format!("{path}.driver");
    out.check(
        s.kind == JobKind::Batch,
        field.clone(),
        format!(
            "is for kind batch; a job of kind {} runs until it is stopped",
            s.kind
        ),
    );
    let names: Vec<&str> = s.groups.iter().map(|g| g.name.as_str()).collect();
    let found = s.group(driver);
    out.check(
        found.is_some(),
        field.clone(),
        format!("must be one of the job's groups: {}", names.join(", ")),
    );
    out.check(
        found.is_none_or(|g| g.restart != Restart::Always),
        field,
        "must be a group that ends: its restart is always, and the job would never end",
    );
}

/// Checks how a job ends, and what it waits for.
pub(super) fn of_job(s: &JobSpec, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    let only_batch = format!(
        "is for kind batch; a job of kind {} runs until it is stopped",
        s.kind
    );
    let mut batch = |given: bool, field: &str| {
        out.check(s.kind == JobKind::Batch || !given, at(field), only_batch.clone());
    };
    batch(s.rules.completion != Completion::All, "completion");
    batch(s.rules.max_failed.is_some(), "max_failed");
    batch(s.rules.max_total.is_some(), "max_total");
    let counted = s.counted();
    out.check(
        s.kind != JobKind::Batch || s.groups.is_empty() || s.groups.iter().any(|g| !g.runs_for_ever(s.kind)),
        at("groups"),
        "must have a group whose restart is not always: the job would never end",
    );
    driver(s, path, out);
    if let Completion::Successes(n) = s.rules.completion {
        out.check(
            n >= 1 && (n <= counted || s.kind != JobKind::Batch),
            at("completion"),
            format!("must be 1 to {counted}, the number of instances that can succeed"),
        );
    }
    if let Some(Amount::Percent(percent)) = s.rules.max_failed {
        out.check(percent <= 100, at("max_failed.percent"), "must be at most 100");
    }
    span(s.rules.max_wait, at("max_wait"), out);
    span(s.rules.max_total, at("max_total"), out);
    span(s.rules.keep, at("keep"), out);
    out.check(
        s.rules.after.len() <= AWAITED,
        at("after"),
        format!("must be at most {AWAITED} jobs"),
    );
    let different: BTreeSet<&str> = s.rules.after.iter().map(|a| a.job.as_str()).collect();
    out.check(
        different.len() == s.rules.after.len(),
        at("after"),
        "must not name a job twice",
    );
}
