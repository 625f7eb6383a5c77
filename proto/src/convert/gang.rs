//! How a gang begins and what follows the failure of a member, between wire and model.

use super::quantity::{duration, read_duration};
use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::gang::{Gang, OnMemberFailure, Topology};
use echelon_core_model::spec::defaults;

pub(super) fn gang(gang: &Gang) -> v1::Gang {
    v1::Gang {
        start_within: Some(duration(gang.start_within)),
        on_failure: match gang.on_failure {
            OnMemberFailure::Member => v1::OnMemberFailure::Member,
            OnMemberFailure::Gang => v1::OnMemberFailure::Gang,
            OnMemberFailure::Job => v1::OnMemberFailure::Job,
        }
        .into(),
        topology: gang.topology.levels.clone(),
        topology_required: gang.topology.required,
    }
}

pub(super) fn read_gang(message: v1::Gang, path: &str, problems: &mut Problems) -> Gang {
    let within = message
        .start_within
        .map(|d| read_duration(&d, || at(path, "start_within"), problems));
    let on_failure = match v1::OnMemberFailure::try_from(message.on_failure) {
        Ok(v1::OnMemberFailure::Unspecified | v1::OnMemberFailure::Member) => OnMemberFailure::Member,
        Ok(v1::OnMemberFailure::Gang) => OnMemberFailure::Gang,
        Ok(v1::OnMemberFailure::Job) => OnMemberFailure::Job,
        Err(_) => {
            problems.add(at(path, "on_failure"), "must be member, gang or job");
            OnMemberFailure::Member
        }
    };
    Gang {
        start_within: within.unwrap_or(defaults::START_WITHIN),
        on_failure,
        topology: Topology {
            levels: message.topology,
            required: message.topology_required,
        },
    }
}
