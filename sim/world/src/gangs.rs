//! Gangs: of some a second group, and what must be true when one of them is launched.

use crate::dice::Die;
use crate::invariants::{Broken, stored};
use crate::world::World;
use echelon_core_model::spec::Gang;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{ClusterId, InstanceId, InstanceNumber, Resources, Span, TaskId};
use echelon_core_testkit::build::JobBuilder;

/// Makes a job a gang, some with a second group like the first.
pub(crate) fn as_gang(job: JobBuilder, die: &mut Die) -> JobBuilder {
    let within = die.span(Span::seconds(20), Span::minutes(2));
    let second = die
        .chance(500)
        .then(|| u32::try_from(1 + die.below(2)).unwrap_or(1));
    let whole = job.clone().build();
    let room = whole.groups.first().map_or(Resources::ZERO, |g| g.resources);
    let job = match second {
        Some(instances) => job.with_group("second", instances, room),
        None => job,
    };
    job.gang_within(Gang { start_within: within })
}

/// Nothing of a gang is launched before an intent of each of its members is stored.
pub(crate) fn launched_without_its_gang(world: &World, cluster: &ClusterId, task: &TaskId) -> Option<Broken> {
    let job = task.instance.job;
    let Answer::Head(Some(head)) = world.store.read(&Query::Head(job)) else {
        return None;
    };
    let Answer::Spec(Some(spec)) = world.store.read(&Query::Spec(job, head.spec_version)) else {
        return None;
    };
    spec.gang?;
    let members = spec.groups.iter().flat_map(|g| {
        let numbers = (0..g.instances).map(InstanceNumber);
        numbers.map(|number| InstanceId {
            job,
            group: g.name.clone(),
            number,
        })
    });
    let begun = |id: &InstanceId| {
        let record = stored(world, cluster, id);
        record.is_some_and(|r| r.ended.is_some() || r.run.is_some() || !r.older.is_empty())
    };
    let missing = members.into_iter().find(|id| !begun(id))?;
    Some(Broken {
        invariant: 16,
        what: format!("ACCEPT of {task} before an intent of {missing} was stored"),
    })
}
