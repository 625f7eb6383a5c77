//! What our framework says of itself (Mesos rules R22, R32, R35, R36).

use crate::mesos::v1::framework_info::{Capability, capability::Type};
use crate::mesos::v1::{FrameworkId, FrameworkInfo};
use echelon_core_model::Span;

/// Of a framework that has no id yet: should the id be lost before it is stored, Mesos forgets the framework that nobody knows
/// soon. It is raised once the id is stored. Longer than a process takes to come back, since a framework that was removed
/// between the two is replaced by hand only.
const FIRST_FAILOVER_TIMEOUT: Span = Span::minutes(10);

/// A framework as it is configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Framework {
    /// Shown by Mesos.
    pub name: String,
    /// The user that tasks run as on the agents.
    pub user: String,
    /// The role whose offers are ours.
    pub role: String,
    /// After this long without us Mesos kills all our tasks. Weeks: the default of 0 kills them at the first broken
    /// connection (R32). A first subscription says ten minutes at most.
    pub failover_timeout: Span,
    /// The authenticated principal, when there is one.
    pub principal: Option<String>,
}

/// PARTITION_AWARE and TASK_KILLING_STATE make states honest, RESERVATION_REFINEMENT and MULTI_ROLE their form, and without
/// GPU_RESOURCES agents with gpus are hidden; REVOCABLE_RESOURCES brings what hosts lend (R35).
const CAPABILITIES: [Type; 7] = [
    Type::MultiRole,
    Type::PartitionAware,
    Type::TaskKillingState,
    Type::ReservationRefinement,
    Type::GpuResources,
    Type::RevocableResources,
    Type::RegionAware,
];

impl Framework {
    /// One of that name for user root with a role of its own, since for `*` nothing can be reserved (R133), and a failover time-out of four weeks.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            user: "root".to_owned(),
            role: "echelon".to_owned(),
            failover_timeout: Span::minutes(4 * 7 * 24 * 60),
            principal: None,
        }
    }

    /// Its FrameworkInfo, with the stored id once there is one.
    #[must_use]
    pub fn to_wire(&self, id: Option<&str>) -> FrameworkInfo {
        let failover_timeout = match id {
            Some(_) => self.failover_timeout,
            None => self.failover_timeout.min(FIRST_FAILOVER_TIMEOUT),
        };
        FrameworkInfo {
            user: self.user.clone(),
            name: self.name.clone(),
            id: id.map(|value| FrameworkId {
                value: value.to_owned(),
            }),
            failover_timeout: Some(seconds(failover_timeout)),
            checkpoint: Some(true),
            principal: self.principal.clone(),
            capabilities: CAPABILITIES
                .iter()
                .map(|t| Capability {
                    r#type: Some(i32::from(*t)),
                })
                .collect(),
            roles: vec![self.role.clone()],
            ..FrameworkInfo::default()
        }
    }
}

/// A span as Mesos' seconds. Exact to the millisecond for every span that a framework uses (below 2^53 ms).
#[expect(clippy::cast_precision_loss, reason = "spans stay far below 2^53 ms")]
pub(super) fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1000.0
}
