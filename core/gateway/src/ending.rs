//! Ends instances by name: their numbers are withdrawn, the group has as many fewer, and nobody takes their place. What Spark's
//! dynamic allocation asks for: executor 3 of 10 idles, and nine are wanted, but not the nine with the lowest numbers.

use crate::ask;
use crate::change::{self, Change};
use crate::error::ApiError;
use crate::port::Facts;
use crate::update::update_job;
use crate::view::JobView;
use echelon_core_model::assignment::Releasing;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{Assignment, GroupName, RangeSet, Timestamp};

/// Most ranges of withdrawn numbers of a group: some KiB of its spec. Numbers that follow each other are one.
const RANGES: usize = 2_000;

/// Ends instances of a group; the only one when none is named. What was ended before stays ended, and counts once.
///
/// # Errors
/// No such job or instance, a group that is not to be touched, an old etag, a job that has ended, or storage.
pub async fn end_instances<F: Facts>(
    facts: &F,
    change: Change,
    (group, numbers): (Option<GroupName>, RangeSet),
    now: Timestamp,
) -> Result<JobView, ApiError> {
    if numbers.is_empty() {
        return Err(ApiError::field("numbers", "must name instances"));
    }
    let at = change::present(facts, &change).await?;
    change::check_alive(&at)?;
    let group = group_of(&at.spec, group)?;
    check_kind(&at.spec)?;
    let assignment = ask::assignment(facts, at.head.job).await?;
    let here = staying(&assignment, &group);
    let edit = move |present: &JobSpec| {
        let mut spec = present.clone();
        withdraw(&mut spec, &group, &numbers, &here)?;
        // Some bytes for each range, of which there are not many.
        Ok((spec, 0))
    };
    update_job(facts, change, edit, now).await
}

/// A daemon has as many instances as there are hosts, and a gang its places from 0 on: neither can do without one of them.
fn check_kind(spec: &JobSpec) -> Result<(), ApiError> {
    let why = if spec.kind == JobKind::Daemon {
        "a daemon has one instance on each host: drain the host, or change the constraints of the job"
    } else if spec.gang.is_some() {
        "a gang needs all its members: change its count, or restart the member"
    } else {
        return Ok(());
    };
    Err(ApiError::field(
        "numbers",
        format!("cannot be ended one by one: {why}"),
    ))
}

/// Numbers of a group that are assigned and are not being scaled away.
fn staying(assignment: &Assignment, group: &GroupName) -> RangeSet {
    let ranges = assignment.ranges(group).iter();
    let stays = ranges.filter(|r| !matches!(r.releasing, Some(Releasing { to: None, .. })));
    stays.map(|r| r.range).collect()
}

fn group_of(spec: &JobSpec, wanted: Option<GroupName>) -> Result<GroupName, ApiError> {
    let driver = spec.rules.driver.as_ref();
    let others: Vec<&GroupName> = spec
        .groups
        .iter()
        .map(|g| &g.name)
        .filter(|g| driver != Some(g))
        .collect();
    let names = || {
        let names: Vec<&str> = others.iter().map(|g| g.as_str()).collect();
        format!("must be named, one of {}", names.join(", "))
    };
    match (wanted, others.as_slice()) {
        (Some(group), _) if driver == Some(&group) => Err(ApiError::field(
            "group",
            format!("`{group}` drives the job, and its end is the job's: stop the job instead"),
        )),
        (Some(group), others) if others.contains(&&group) => Ok(group),
        (None, [only]) => Ok(GroupName::clone(only)),
        _ => Err(ApiError::field("group", names())),
    }
}

/// Takes numbers out of a group, `here` being those that it has.
fn withdraw(
    spec: &mut JobSpec,
    group: &GroupName,
    numbers: &RangeSet,
    here: &RangeSet,
) -> Result<(), ApiError> {
    let before = spec.rules.withdrawn(group);
    let new = numbers.minus(&before);
    let unknown = new.minus(here);
    if let Some(first) = unknown.ranges().first() {
        return Err(ApiError::field(
            "numbers",
            format!(
                "there is no instance {} of group {group} at the moment",
                first.first
            ),
        ));
    }
    let least = u64::from(spec.least_instances(group));
    let all = before.union(&new);
    let Some(found) = spec.groups.iter_mut().find(|g| g.name == *group) else {
        return Err(ApiError::field("group", "is not one of the job's"));
    };
    let left = u64::from(found.instances).saturating_sub(new.count());
    if left < least {
        return Err(ApiError::field(
            "numbers",
            format!("would leave group {group} without instances; stop the job instead"),
        ));
    }
    if all.ranges().len() > RANGES {
        return Err(ApiError::field(
            "numbers",
            format!(
                "would make more than {RANGES} ranges of ended numbers of group {group}; lower its count instead"
            ),
        ));
    }
    found.instances = u32::try_from(left).unwrap_or(found.instances);
    spec.rules.withdrawn.insert(group.clone(), all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::gang::Gang;
    use echelon_core_model::resources::Resources;
    use echelon_core_model::{InstanceNumber, InstanceRange, Span};
    use echelon_core_testkit::build::JobBuilder;

    fn set(ranges: &[(u32, u32)]) -> RangeSet {
        let ranges = ranges.iter().map(|(a, b)| InstanceRange::new(*a, *b).unwrap());
        ranges.collect()
    }

    fn driven() -> (JobSpec, GroupName) {
        let mut spec = JobBuilder::batch("j", 10)
            .with_group("driver", 1, Resources::ZERO)
            .build();
        spec.rules.driver = Some(GroupName::new("driver"));
        (spec, GroupName::new(GroupName::DEFAULT))
    }

    #[test]
    fn daemons_and_gangs_lose_none_of_theirs() {
        let (mut spec, _) = driven();
        assert!(check_kind(&spec).is_ok());
        spec.gang = Some(Gang::new(Span::minutes(1)));
        let told = check_kind(&spec).unwrap_err().to_string();
        assert!(told.contains("a gang needs all its members"), "{told}");
        spec.gang = None;
        spec.kind = JobKind::Daemon;
        let told = check_kind(&spec).unwrap_err().to_string();
        assert!(told.contains("a daemon has one instance on each host"), "{told}");
    }

    #[test]
    fn an_ended_number_lowers_the_count_once_and_is_used_no_more() {
        let (mut spec, group) = driven();
        let here = set(&[(0, 9)]);
        for _ in 0..2 {
            withdraw(&mut spec, &group, &set(&[(3, 3), (7, 8)]), &here).unwrap();
            assert_eq!(spec.group(&group).unwrap().instances, 7);
        }
        assert!(spec.rules.withdrawn(&group).contains(InstanceNumber(8)));
        withdraw(&mut spec, &group, &set(&[(8, 9)]), &here).unwrap();
        assert_eq!(spec.group(&group).unwrap().instances, 6);
        // All of them may go: a driver may need none for a while.
        withdraw(&mut spec, &group, &here, &here).unwrap();
        assert_eq!(spec.group(&group).unwrap().instances, 0);
    }

    #[test]
    fn what_is_not_there_and_what_drives_cannot_be_ended() {
        let (mut spec, group) = driven();
        let wrong = withdraw(&mut spec, &group, &set(&[(9, 10)]), &set(&[(0, 9)])).unwrap_err();
        assert!(wrong.message.contains("no instance 10"), "{wrong}");
        let driver = spec.rules.driver.clone();
        assert!(
            group_of(&spec, driver)
                .unwrap_err()
                .message
                .contains("stop the job")
        );
        assert_eq!(group_of(&spec, None).unwrap(), group);
        assert!(group_of(&spec, Some(GroupName::new("x"))).is_err());
        spec.rules.driver = None;
        assert!(group_of(&spec, None).is_err(), "two groups");
        let alone = JobBuilder::batch("j", 2).build();
        let wrong = withdraw(&mut alone.clone(), &group, &set(&[(0, 1)]), &set(&[(0, 1)])).unwrap_err();
        assert!(wrong.message.contains("stop the job"), "{wrong}");
    }
}
