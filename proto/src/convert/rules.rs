//! The rules by which runs and instances end, between wire and model.

use super::quantity::{duration, read_duration};
use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::rules::{After, Completion, Condition, ExitCodes, Restart};
use echelon_core_model::{GroupName, InstanceRange, RangeSet, Span};
use prost_types::Duration;
use std::collections::BTreeMap;

pub(super) const fn restart(restart: Restart) -> v1::Restart {
    match restart {
        Restart::OnFailure => v1::Restart::OnFailure,
        Restart::Always => v1::Restart::Always,
        Restart::Never => v1::Restart::Never,
    }
}

pub(super) fn read_restart(number: i32, path: &str, problems: &mut Problems) -> Restart {
    match v1::Restart::try_from(number) {
        Ok(v1::Restart::Unspecified | v1::Restart::OnFailure) => Restart::OnFailure,
        Ok(v1::Restart::Always) => Restart::Always,
        Ok(v1::Restart::Never) => Restart::Never,
        Err(_) => {
            problems.add(at(path, "restart"), "must be on-failure, always or never");
            Restart::OnFailure
        }
    }
}

pub(super) fn exit_codes(codes: &ExitCodes) -> Vec<u32> {
    codes.iter().map(u32::from).collect()
}

pub(super) fn read_exit_codes(codes: &[u32], path: &str, problems: &mut Problems) -> ExitCodes {
    let mut out = ExitCodes::NONE;
    for (i, code) in codes.iter().enumerate() {
        match u8::try_from(*code) {
            Ok(code) => out.insert(code),
            Err(_) => problems.add(
                at(path, &format!("retry.no_retry_exit_codes[{i}]")),
                format!("must be 0 to 255, not {code}"),
            ),
        }
    }
    out
}

/// A time that may be left out.
pub(super) fn span(span: Option<Span>) -> Option<Duration> {
    span.map(duration)
}

pub(super) fn read_span(span: Option<Duration>, path: &str, problems: &mut Problems) -> Option<Span> {
    span.map(|d| read_duration(&d, || path.to_owned(), problems))
}

pub(super) const fn completion(completion: Completion) -> Option<u64> {
    match completion {
        Completion::All => None,
        Completion::Successes(n) => Some(n),
    }
}

pub(super) fn read_completion(completion: Option<u64>) -> Completion {
    completion.map_or(Completion::All, Completion::Successes)
}

pub(super) fn after(after: &After) -> v1::After {
    v1::After {
        job: after.job.clone(),
        condition: match after.condition {
            Condition::Succeeded => v1::Condition::Succeeded,
            Condition::Ended => v1::Condition::Ended,
            Condition::Started => v1::Condition::Started,
        }
        .into(),
        job_id: after.id.map(|id| id.to_string()).unwrap_or_default(),
    }
}

pub(super) fn read_after(message: v1::After, path: &str, problems: &mut Problems) -> After {
    let condition = match v1::Condition::try_from(message.condition) {
        Ok(v1::Condition::Unspecified | v1::Condition::Succeeded) => Condition::Succeeded,
        Ok(v1::Condition::Ended) => Condition::Ended,
        Ok(v1::Condition::Started) => Condition::Started,
        Err(_) => {
            problems.add(at(path, "condition"), "must be succeeded, ended or started");
            Condition::Succeeded
        }
    };
    After {
        job: message.job,
        id: message.job_id.parse().ok(),
        condition,
    }
}

/// The group that drives the job; empty when there is none.
pub(super) fn driver(driver: Option<&GroupName>) -> String {
    driver.map(ToString::to_string).unwrap_or_default()
}

pub(super) fn read_driver(name: &str, path: &str, problems: &mut Problems) -> Option<GroupName> {
    let read = (!name.is_empty()).then(|| GroupName::parse(name))?;
    read.map_err(|wrong| problems.add(path, wrong.to_string())).ok()
}

pub(super) fn withdrawn(of: &BTreeMap<GroupName, RangeSet>) -> Vec<v1::Withdrawn> {
    let range = |r: &InstanceRange| v1::InstanceRange {
        first: r.first,
        last: r.last,
    };
    let one = |(group, set): (&GroupName, &RangeSet)| v1::Withdrawn {
        group: group.to_string(),
        ranges: set.ranges().iter().map(range).collect(),
    };
    of.iter().map(one).collect()
}

pub(super) fn read_withdrawn(
    of: Vec<v1::Withdrawn>,
    path: &str,
    problems: &mut Problems,
) -> BTreeMap<GroupName, RangeSet> {
    let mut out = BTreeMap::new();
    for one in of {
        let set = ranges(&one.ranges);
        match (GroupName::parse(&one.group), set) {
            (Ok(group), Some(set)) => drop(out.insert(group, set)),
            _ => problems.add(
                path,
                "must be groups with ranges of numbers, the first not above the last",
            ),
        }
    }
    out
}

/// Ranges of numbers, `None` when one ends before it begins.
#[must_use]
pub fn ranges(of: &[v1::InstanceRange]) -> Option<RangeSet> {
    let each = of.iter().map(|r| InstanceRange::new(r.first, r.last));
    each.collect::<Option<Vec<_>>>()
        .map(|all| all.into_iter().collect())
}
