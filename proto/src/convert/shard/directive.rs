//! Directives: from the resource manager to a shard.

use crate::convert::fields::{
    by_volume, by_volume_to_wire, group, job_bytes, job_id, list, messages, optional, required,
};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::directive::{Directive, Grant, NamedClasses, Order, SliceOrder};
use echelon_core_model::drain::Drains;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::host_pool::HostMoves;
use echelon_core_model::restart::GroupRestarts;
use echelon_core_model::store::Leadership;
use echelon_core_model::{Epoch, Generation, RangeSet, Span, Version};

impl Wire for Directive {
    type Message = wire::DirectRequest;

    fn to_wire(&self) -> Self::Message {
        use wire::direct_request::Order as Sent;
        let Self {
            epoch,
            sequence,
            order,
        } = self;
        let order = match order {
            Order::Hello(taken) => Sent::Hello(taken.to_wire()),
            Order::Report => Sent::Report(wire::ReportOrder {}),
            Order::Slices(slices) => Sent::Slices(wire::SlicesOrder {
                slices: messages(slices),
            }),
            Order::Archive(job) => Sent::Archive(job_bytes(*job)),
            Order::AcceptLoss(number) => Sent::AcceptLoss(*number),
            Order::Drains(drains) => Sent::Drains(drains.to_wire()),
            Order::HostMoves(moves) => Sent::HostMoves(moves.to_wire()),
            Order::ForgetHosts(hosts) => Sent::ForgetHosts(hosts.to_wire()),
            Order::Kills { version, off } => Sent::Kills(wire::KillsOrder {
                version: version.0,
                off: *off,
            }),
            Order::Claims { claims, lease } => Sent::Claims(wire::ClaimsOrder {
                claims: messages(claims),
                lease_ms: lease.0,
            }),
            Order::Classes(named) => Sent::Classes(named.to_wire()),
            Order::TearDown => Sent::TearDown(wire::TearDownOrder {}),
            Order::Volumes(wishes) => Sent::Volumes(wire::VolumesOrder {
                volumes: by_volume_to_wire(wishes),
            }),
        };
        wire::DirectRequest {
            epoch: epoch.0,
            sequence: *sequence,
            order: Some(order),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        use wire::direct_request::Order as Sent;
        let missing = || FieldError::new("order", FieldProblem::Missing);
        let order = match message.order.ok_or_else(missing)? {
            Sent::Hello(taken) => {
                Order::Hello(Leadership::from_wire(taken).map_err(|e: FieldError| e.within("hello"))?)
            }
            Sent::Report(wire::ReportOrder {}) => Order::Report,
            Sent::Slices(sent) => Order::Slices(list("slices", sent.slices).map_err(|e| e.within("slices"))?),
            Sent::Archive(job) => Order::Archive(job_id("archive", &job)?),
            Sent::AcceptLoss(number) => Order::AcceptLoss(number),
            Sent::Drains(sent) => {
                Order::Drains(Drains::from_wire(sent).map_err(|e: FieldError| e.within("drains"))?)
            }
            Sent::HostMoves(sent) => {
                Order::HostMoves(HostMoves::from_wire(sent).map_err(|e: FieldError| e.within("host_moves"))?)
            }
            Sent::ForgetHosts(sent) => Order::ForgetHosts(
                ForgottenHosts::from_wire(sent).map_err(|e: FieldError| e.within("forget_hosts"))?,
            ),
            Sent::Kills(wire::KillsOrder { version, off }) => Order::Kills {
                version: Version(version),
                off,
            },
            Sent::Claims(sent) => Order::Claims {
                claims: list("claims", sent.claims).map_err(|e| e.within("claims"))?,
                lease: Span(sent.lease_ms),
            },
            Sent::Classes(sent) => {
                Order::Classes(NamedClasses::from_wire(sent).map_err(|e: FieldError| e.within("classes"))?)
            }
            Sent::TearDown(wire::TearDownOrder {}) => Order::TearDown,
            Sent::Volumes(sent) => Order::Volumes(by_volume("volumes", sent.volumes)?),
        };
        Ok(Self {
            epoch: Epoch(message.epoch),
            sequence: message.sequence,
            order,
        })
    }
}

/// A grant with its generation.
struct SliceGrant(Generation, Grant);

impl Wire for SliceGrant {
    type Message = wire::SliceGrant;

    fn to_wire(&self) -> Self::Message {
        wire::SliceGrant {
            generation: self.0.0,
            grant: Some(self.1.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let generation = Generation(message.generation);
        Ok(Self(generation, required("grant", message.grant)?))
    }
}

struct SliceRestart(Version, RangeSet);

impl Wire for SliceRestart {
    type Message = wire::SliceRestart;

    fn to_wire(&self) -> Self::Message {
        wire::SliceRestart {
            version: self.0.0,
            numbers: Some(self.1.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let version = Version(message.version);
        Ok(Self(version, required("numbers", message.numbers)?))
    }
}

impl Wire for SliceOrder {
    type Message = wire::SliceOrder;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            group,
            head_version,
            goal,
            spec_version,
            ranges,
            grants,
            max_unavailable,
            part_number,
            rollout,
            update_below,
            restarts,
        } = self;
        wire::SliceOrder {
            job: job_bytes(*job),
            group: group.to_string(),
            head_version: head_version.0,
            goal: Some(goal.to_wire()),
            spec_version: *spec_version,
            ranges: messages(ranges),
            grants: grants
                .iter()
                .map(|(g, grant)| SliceGrant(*g, *grant).to_wire())
                .collect(),
            max_unavailable: *max_unavailable,
            part_number: *part_number,
            rollout: rollout.as_ref().map(Wire::to_wire),
            update_below: *update_below,
            restarts: restarts
                .0
                .iter()
                .map(|(version, numbers)| SliceRestart(*version, numbers.clone()).to_wire())
                .collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let grants = list::<SliceGrant>("grants", message.grants)?;
        let restarts = list::<SliceRestart>("restarts", message.restarts)?;
        Ok(Self {
            job: job_id("job", &message.job)?,
            group: group("group", &message.group)?,
            head_version: Version(message.head_version),
            goal: required("goal", message.goal)?,
            spec_version: message.spec_version,
            ranges: list("ranges", message.ranges)?,
            grants: grants.into_iter().map(|g| (g.0, g.1)).collect(),
            max_unavailable: message.max_unavailable,
            part_number: message.part_number,
            rollout: optional("rollout", message.rollout)?,
            update_below: message.update_below,
            restarts: GroupRestarts(restarts.into_iter().map(|r| (r.0, r.1)).collect()),
        })
    }
}
