//! A job file's `gang`: how one begins, what follows the failure of a member, and where its members are together.

use super::parts_file::GangFile;
use super::runtime::truth;
use super::spec::Reader;
use super::words::{MEMBER_FAILURES, one_of};
use crate::quantity;
use echelon_core_model::gang::{Gang, OnMemberFailure, Topology};
use echelon_core_model::spec::defaults;

/// What a job file says of its gang.
pub(super) fn gang(r: &mut Reader, file: GangFile) -> Gang {
    let required = file.topology_required.as_ref();
    Gang {
        start_within: r.value(
            "gang.start_within",
            file.start_within.as_ref(),
            quantity::span,
            defaults::START_WITHIN,
        ),
        on_failure: r.value(
            "gang.on_failure",
            file.on_failure.as_ref(),
            one_of("what can follow the failure of a member", &MEMBER_FAILURES),
            OnMemberFailure::default(),
        ),
        topology: Topology {
            required: r.value("gang.topology_required", required, truth, false),
            levels: file
                .topology
                .unwrap_or_default()
                .into_iter()
                .map(|s| s.0)
                .collect(),
        },
    }
}
