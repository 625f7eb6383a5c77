//! What a cluster holds, as the public API says it. The names of jobs are the gateway's to fill in.

use echelon_core_model::Reason;
use echelon_core_resource_manager::{ClusterWork, Departure, GroupWork};
use echelon_proto::convert::{reason, spec};
use echelon_proto::echelon::v1;

/// To the wire.
pub(crate) fn to_wire(work: &ClusterWork) -> v1::ClusterWork {
    let ClusterWork {
        is_reported,
        groups,
        left_out,
        totals,
        waiting,
    } = work;
    v1::ClusterWork {
        reported: *is_reported,
        groups: groups.iter().map(group).collect(),
        groups_left_out: *left_out,
        instances: totals.instances,
        running: totals.running,
        results: totals.results,
        movable: totals.movable,
        ending: totals.ending,
        staying: totals.staying,
        after_preemption: totals.after_preemption,
        victims: totals.victims,
        given_up: totals.given_up,
        waiting: *waiting,
    }
}

fn group(work: &GroupWork) -> v1::GroupWork {
    let GroupWork {
        job,
        group,
        kind,
        instances,
        running,
        results,
        departure,
    } = work;
    let after_preemption = match departure {
        Departure::Moves { after_preemption, .. } => *after_preemption,
        Departure::None
        | Departure::Unselected
        | Departure::End
        | Departure::GivenUp(_)
        | Departure::Stays(_) => 0,
    };
    let (departure, movable, at_once, why) = parts(departure);
    v1::GroupWork {
        job_id: job.to_string(),
        job: String::new(),
        group: group.to_string(),
        kind: spec::kind(*kind).into(),
        instances: *instances,
        running: *running,
        results: *results,
        departure: departure.into(),
        movable,
        at_once,
        reason: why.map(reason::reason),
        after_preemption,
    }
}

const fn parts(departure: &Departure) -> (v1::Departure, u64, u64, Option<&Reason>) {
    match departure {
        Departure::None => (v1::Departure::None, 0, 0, None),
        Departure::Unselected => (v1::Departure::Unselected, 0, 0, None),
        Departure::Moves {
            movable,
            after_preemption: _,
            at_once,
            others,
        } => (v1::Departure::Moves, *movable, *at_once, others.as_ref()),
        Departure::End => (v1::Departure::Ends, 0, 0, None),
        Departure::GivenUp(why) => (v1::Departure::GivenUp, 0, 0, Some(why)),
        Departure::Stays(why) => (v1::Departure::Stays, 0, 0, Some(why)),
    }
}
