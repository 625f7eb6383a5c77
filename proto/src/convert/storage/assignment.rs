//! Assignments.

use crate::convert::fields::{
    by_generation, by_group, cluster, generations, job_bytes, job_id, list, messages, optional, reason_code,
    required,
};
use crate::convert::{FieldError, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::{AssignedRange, Assignment, Generation, GroupName, RangeSet, Releasing};
use std::collections::BTreeMap;

impl Wire for Releasing {
    type Message = wire::Releasing;

    fn to_wire(&self) -> Self::Message {
        let Self { to, why, count } = self;
        wire::Releasing {
            to: to.as_ref().map(ToString::to_string),
            why: why.number(),
            count: *count,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            to: message.to.map(|c| cluster("to", &c)).transpose()?,
            why: reason_code("why", message.why)?,
            count: message.count,
        })
    }
}

impl Wire for AssignedRange {
    type Message = wire::AssignedRange;

    fn to_wire(&self) -> Self::Message {
        let Self {
            range,
            cluster,
            generation,
            former,
            releasing,
        } = self;
        wire::AssignedRange {
            range: Some(range.to_wire()),
            cluster: cluster.to_string(),
            generation: generation.0,
            former: former.as_ref().map(|(cluster, generation)| wire::Holder {
                cluster: cluster.to_string(),
                generation: generation.0,
            }),
            releasing: releasing.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let former = message
            .former
            .map(|h| Ok((cluster("former.cluster", &h.cluster)?, Generation(h.generation))));
        Ok(Self {
            range: required("range", message.range)?,
            cluster: cluster("cluster", &message.cluster)?,
            generation: Generation(message.generation),
            former: former.transpose()?,
            releasing: optional("releasing", message.releasing)?,
        })
    }
}

/// The ranges of one group.
struct Ranges(Vec<AssignedRange>);

impl Wire for Ranges {
    type Message = wire::AssignedGroup;

    fn to_wire(&self) -> Self::Message {
        wire::AssignedGroup {
            ranges: messages(&self.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self(list("ranges", message.ranges)?))
    }
}

/// The removed numbers of one group.
struct Removed(BTreeMap<Generation, RangeSet>);

impl Wire for Removed {
    type Message = wire::RemovedNumbers;

    fn to_wire(&self) -> Self::Message {
        wire::RemovedNumbers {
            by_generation: generations(&self.0),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self(by_generation("by_generation", message.by_generation)?))
    }
}

impl Wire for Assignment {
    type Message = wire::Assignment;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            groups,
            removed,
            holders,
        } = self;
        let key = |g: &GroupName| g.to_string();
        let groups = groups.iter().map(|(g, ranges)| {
            let ranges = messages(ranges);
            (key(g), wire::AssignedGroup { ranges })
        });
        let removed = removed.iter().map(|(g, sets)| {
            let by_generation = generations(sets);
            (key(g), wire::RemovedNumbers { by_generation })
        });
        wire::Assignment {
            job: job_bytes(*job),
            groups: groups.collect(),
            removed: removed.collect(),
            holders: holders.iter().map(|(c, g)| (c.to_string(), g.0)).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let groups = by_group::<Ranges>("groups", message.groups)?;
        let removed = by_group::<Removed>("removed", message.removed)?;
        let holders = message.holders.into_iter();
        Ok(Self {
            job: job_id("job", &message.job)?,
            groups: groups.into_iter().map(|(g, r)| (g, r.0)).collect(),
            removed: removed.into_iter().map(|(g, r)| (g, r.0)).collect(),
            holders: holders
                .map(|(c, g)| Ok((cluster("holders", &c)?, Generation(g))))
                .collect::<Result<_, FieldError>>()?,
        })
    }
}
