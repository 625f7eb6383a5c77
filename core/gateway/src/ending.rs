//! Ends instances by name: their numbers are withdrawn, the group has as many fewer, and nobody takes their place. What Spark's
//! dynamic allocation asks for: executor 3 of 10 idles, and nine are wanted, but not the nine with the lowest numbers.

use crate::ask;
use crate::change::{self, Change};
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::update::{update_job, wrong_group};
use crate::view::JobView;
use echelon_core_model::assignment::Releasing;
use echelon_core_model::limits::{ENDED_RANGES, ENDED_RANGES_OF_JOB};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{Assignment, GroupName, RangeSet, Timestamp};

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;
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
    for _ in 0..TRIES {
        let at = change::present(facts, &change).await?;
        change::check_alive(&at)?;
        let group = group_of(&at.spec, group.clone())?;
        check_kind(&at.spec)?;
        // Read after the head, and of use with this one only: which numbers there are, and how many of them are wanted, go together.
        let assignment = ask::assignment(facts, at.head.job).await?;
        let here = staying(&assignment, &at.spec, &group);
        let edit = |present: &JobSpec| {
            let mut spec = present.clone();
            withdraw(&mut spec, &group, &numbers, &here)?;
            // Some bytes for each range, of which there are not many.
            Ok((spec, 0))
        };
        let exact = Change {
            etag: at.head.version.to_string(),
            ..change.clone()
        };
        match update_job(facts, exact, edit, now).await {
            Err(wrong) if wrong.reason == ErrorReason::EtagStale && change.etag.is_empty() => {}
            done => return done,
        }
    }
    Err(change::contention(&change.job))
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

/// Indexes that a group has, bound or not: of those that are being scaled away none.
fn staying(assignment: &Assignment, spec: &JobSpec, group: &GroupName) -> RangeSet {
    let ranges = assignment.ranges(group).iter();
    let stays = ranges.filter(|r| !r.releasing.as_ref().is_some_and(Releasing::ends_range));
    let bound: RangeSet = stays.map(|r| r.range).collect();
    let wanted = spec.group(group).map_or(0, |g| u64::from(g.instances));
    let unbound = wanted.saturating_sub(bound.count());
    bound.union(&assignment.unbound(group, &spec.rules.withdrawn(group), unbound))
}

fn group_of(spec: &JobSpec, wanted: Option<GroupName>) -> Result<GroupName, ApiError> {
    let driver = spec.rules.driver.as_ref();
    let others: Vec<&GroupName> = spec
        .groups
        .iter()
        .map(|g| &g.name)
        .filter(|g| driver != Some(g))
        .collect();
    match (wanted, others.as_slice()) {
        (Some(group), _) if driver == Some(&group) => Err(ApiError::field(
            "group",
            format!("`{group}` drives the job, and its end is the job's: stop the job instead"),
        )),
        (Some(group), others) if others.contains(&&group) => Ok(group),
        (None, [only]) => Ok(GroupName::clone(only)),
        (wanted, others) => Err(wrong_group(wanted.as_ref(), others.iter().copied())),
    }
}

/// Takes numbers out of a group, `here` being those that it has. The count is lowered by as many, but for those that an earlier lowering of
/// the count has still to take away: which ones these are nobody has decided yet, so the named ones are.
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
    let wanted = u64::from(found.instances);
    let going = here.minus(&before).count().saturating_sub(wanted);
    let left = wanted.saturating_sub(new.count().saturating_sub(going));
    if left < least {
        return Err(ApiError::field(
            "numbers",
            format!("would leave group {group} without instances; stop the job instead"),
        ));
    }
    let others = spec.rules.withdrawn.iter().filter(|(name, _)| *name != group);
    let others: usize = others.map(|(_, set)| set.ranges().len()).sum();
    let own = all.ranges().len();
    for (of, ranges, most) in [
        ("the group", own, ENDED_RANGES),
        ("the job", others + own, ENDED_RANGES_OF_JOB),
    ] {
        if ranges > most {
            return Err(ApiError::field(
                "numbers",
                format!(
                    "would make {ranges} ranges of ended numbers of {of}, which may have {most}; lower the count of group {group} instead, or end numbers that follow each other"
                ),
            ));
        }
    }
    found.instances = u32::try_from(left).unwrap_or(found.instances);
    spec.rules.withdrawn.insert(group.clone(), all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::JobRef;
    use crate::testing::{Memory, NOW, Running, run, web};
    use crate::update::scale_job;
    use echelon_core_model::gang::Gang;
    use echelon_core_model::resources::Resources;
    use echelon_core_model::{AssignedRange, ClusterId, Generation, InstanceNumber, InstanceRange, Span};
    use echelon_core_testkit::build::JobBuilder;

    fn set(ranges: &[(u32, u32)]) -> RangeSet {
        let ranges = ranges.iter().map(|(a, b)| InstanceRange::new(*a, *b).unwrap());
        ranges.collect()
    }

    fn named() -> Change {
        Change {
            job: JobRef::Name("web".into()),
            etag: String::new(),
        }
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
    fn what_is_ended_while_a_lowered_count_waits_is_among_those_that_it_takes_away() {
        let group = GroupName::new(GroupName::DEFAULT);
        let (spec, _) = driven();
        let counted = |instances: u32, numbers: &RangeSet| {
            let mut spec = spec.clone();
            spec.groups
                .iter_mut()
                .filter(|g| g.name == group)
                .for_each(|g| g.instances = instances);
            withdraw(&mut spec, &group, numbers, &set(&[(0, 9)])).unwrap();
            // Again, as after a lost answer: nothing changes.
            let once = spec.clone();
            withdraw(&mut spec, &group, numbers, &set(&[(0, 9)])).unwrap();
            assert_eq!(spec, once);
            spec.group(&group).unwrap().instances
        };
        assert_eq!(counted(10, &set(&[(9, 9)])), 9);
        assert_eq!(counted(8, &set(&[(9, 9)])), 8, "one of two that were to go");
        assert_eq!(counted(8, &set(&[(3, 3), (9, 9)])), 8);
        assert_eq!(
            counted(8, &set(&[(7, 9)])),
            7,
            "two of them were to go, the third is one more"
        );
        assert_eq!(
            counted(12, &set(&[(9, 9)])),
            11,
            "a raised count is lowered by those that are named"
        );
    }

    #[test]
    fn an_end_that_a_lowered_count_overtakes_is_decided_anew() {
        let (_, job) = web();
        let group = GroupName::new(GroupName::DEFAULT);
        let ranges = |last| {
            let mut assignment = Assignment::new(job);
            let range = AssignedRange {
                range: InstanceRange::new(0, last).unwrap(),
                cluster: ClusterId::new("a"),
                generation: Generation(1),
                former: None,
                releasing: None,
            };
            assignment.groups.insert(group.clone(), vec![range]);
            assignment
        };
        let count = |store: &mut Memory, n: u32| {
            let done = run(store, move |facts| async move {
                scale_job(&facts, named(), None, n, NOW).await
            });
            done.unwrap();
        };
        let ended = |store: &Memory| {
            let spec = &store.specs[&(job, store.heads[&job].spec_version)];
            let has = spec.rules.withdrawn(&group).contains(InstanceNumber(3));
            (spec.group(&group).unwrap().instances, has)
        };
        let mut overtaken = 0;
        for first_steps in 0..8 {
            let (mut store, _) = web();
            count(&mut store, 10);
            store.assignments.insert(job, ranges(9));
            let mut end = Running::start(|facts| async move {
                let numbers = std::iter::once(InstanceNumber(3)).collect();
                end_instances(&facts, named(), (None, numbers), NOW).await
            });
            for _ in 0..first_steps {
                end.step(&mut store, false);
            }
            let (_, was_first) = ended(&store);
            // The count is lowered, and the resource manager takes the ninth away.
            count(&mut store, 9);
            store.assignments.insert(job, ranges(8));
            while !end.is_done() {
                end.step(&mut store, false);
            }
            assert!(end.answer().unwrap().is_ok(), "{first_steps}");
            overtaken += u32::from(!was_first);
            let wanted = if was_first { 9 } else { 8 };
            assert_eq!(ended(&store), (wanted, true), "{first_steps}");
        }
        assert!(overtaken > 3, "{overtaken}");
    }

    #[test]
    fn a_job_has_two_thousand_ranges_of_ended_numbers_in_all_its_groups() {
        let shape = Resources::ZERO;
        let mut spec = JobBuilder::service("s", 10_000)
            .with_group("b", 10_000, shape)
            .with_group("c", 10_000, shape)
            .build();
        let numbers = set(&(0..1_000).map(|i| (2 * i, 2 * i)).collect::<Vec<_>>());
        let here = set(&[(0, 9_999)]);
        let [main, b, c] = [GroupName::DEFAULT, "b", "c"].map(GroupName::new);
        withdraw(&mut spec, &main, &numbers, &here).unwrap();
        withdraw(&mut spec, &b, &numbers, &here).unwrap();
        let wrong = withdraw(&mut spec, &c, &numbers, &here).unwrap_err();
        assert!(
            wrong.message.contains("of the job, which may have 2000"),
            "{wrong}"
        );
    }

    #[test]
    fn a_group_has_a_thousand_ranges_of_ended_numbers_and_no_more() {
        let group = GroupName::new(GroupName::DEFAULT);
        let spec = JobBuilder::service("s", 10_000).build();
        let every_other = |n: u32| set(&(0..n).map(|i| (2 * i, 2 * i)).collect::<Vec<_>>());
        let here = set(&[(0, 9_999)]);
        let mut most = spec.clone();
        withdraw(&mut most, &group, &every_other(1_000), &here).unwrap();
        let wrong = withdraw(&mut spec.clone(), &group, &every_other(2_000), &here).unwrap_err();
        assert!(
            wrong.message.contains("2000 ranges") && wrong.message.contains("1000"),
            "{wrong}"
        );
        assert_eq!(wrong.violations[0].field, "numbers");
        let one_more = set(&[(5_001, 5_001)]);
        assert!(withdraw(&mut most, &group, &one_more, &here).is_err());
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
