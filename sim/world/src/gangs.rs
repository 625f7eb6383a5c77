//! Gangs: of some a second group, and what must be true when one of them is launched.

use crate::dice::Die;
use crate::invariants::{Broken, stored};
use crate::world::World;
use echelon_core_model::gang::{Gang, OnMemberFailure};
use echelon_core_model::instance::{Ended, Run};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{ClusterId, InstanceId, InstanceNumber, ReasonCode, Resources, Span, TaskId};
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
    let policies = OnMemberFailure::ALL;
    let policy = policies.get(usize::try_from(die.below(4)).unwrap_or_default());
    job.gang_of(Gang {
        on_failure: policy.copied().unwrap_or_default(),
        ..Gang::new(within)
    })
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
    let gang = spec.gang.as_ref()?;
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
    if let Some(missing) = members.clone().find(|id| !begun(id)) {
        return Some(Broken {
            invariant: 16,
            what: format!("ACCEPT of {task} before an intent of {missing} was stored"),
        });
    }
    let of_another_try = |id: &InstanceId| {
        let run = stored(world, cluster, id).and_then(|r| r.run);
        let stops = |r: &Run| {
            r.stopping
                .as_ref()
                .is_some_and(|s| s.reason.code == ReasonCode::GangRestart)
        };
        run.is_some_and(|r| r.may_have_task() && stops(&r))
    };
    let is_of_all = gang.on_failure.is_of_all();
    let succeeded =
        |id: &InstanceId| stored(world, cluster, id).is_some_and(|r| r.ended == Some(Ended::Succeeded));
    if let Some(done) = members.clone().find(|id| is_of_all && succeeded(id)) {
        return Some(Broken {
            invariant: 16,
            what: format!("ACCEPT of {task} without {done}, which has succeeded in an earlier try"),
        });
    }
    let left = members.clone().find(|id| is_of_all && of_another_try(id))?;
    Some(Broken {
        invariant: 16,
        what: format!("ACCEPT of {task} while a run of {left} is stopped for another to begin with it"),
    })
}
