//! Assignments.

use crate::convert::fields::{cluster, group, job_bytes, job_id, optional, range, reason_code, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::assignment::{AssignmentPiece, LastHolder};
use echelon_core_model::store::Stamp;
use echelon_core_model::{AssignedRange, Assignment, ClusterId, Generation, GroupName, RangeSet, Releasing};
use std::collections::{BTreeMap, BTreeSet};

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

/// The clusters that the ranges of an assignment name, each once: a range says the place of each.
#[derive(Default)]
struct Clusters<'a>(BTreeMap<&'a ClusterId, u32>);

impl<'a> Clusters<'a> {
    fn of(assignment: &'a Assignment) -> Self {
        let ranges = assignment.groups.values().flatten();
        let released = assignment.released.values().flat_map(BTreeMap::keys);
        let released = released.filter_map(|holder| holder.cluster.as_ref());
        let all: BTreeSet<&ClusterId> = ranges.flat_map(AssignedRange::clusters).chain(released).collect();
        Self(all.into_iter().zip(0..).collect())
    }

    fn place(&self, cluster: &ClusterId) -> u32 {
        // `of` has listed all of them.
        self.0.get(cluster).copied().unwrap_or(u32::MAX)
    }

    fn released(&self, sets: &BTreeMap<LastHolder, RangeSet>) -> wire::ReleasedGroup {
        let released = sets.iter().map(|(holder, numbers)| wire::ReleasedNumbers {
            generation: holder.generation.0,
            cluster: holder.cluster.as_ref().map(|cluster| self.place(cluster)),
            numbers: Some(numbers.to_wire()),
        });
        wire::ReleasedGroup {
            released: released.collect(),
        }
    }

    fn range(&self, range: &AssignedRange) -> wire::PlacedRange {
        let AssignedRange {
            range,
            cluster,
            generation,
            former,
            releasing,
        } = range;
        wire::PlacedRange {
            first: range.first,
            last: range.last,
            cluster: self.place(cluster),
            generation: generation.0,
            former: former.as_ref().map(|(cluster, generation)| wire::PlacedHolder {
                cluster: self.place(cluster),
                generation: generation.0,
            }),
            releasing: releasing.as_ref().map(|mark| wire::PlacedReleasing {
                to: mark.to.as_ref().map(|to| self.place(to)),
                why: mark.why.number(),
                count: mark.count,
            }),
        }
    }
}

/// The clusters that an assignment lists.
struct Listed(Vec<ClusterId>);

impl Listed {
    fn cluster(&self, field: &str, place: u32) -> Result<ClusterId, FieldError> {
        let listed = usize::try_from(place).ok().and_then(|place| self.0.get(place));
        listed
            .cloned()
            .ok_or_else(|| FieldError::new(field, FieldProblem::Missing))
    }

    fn range(&self, message: &wire::PlacedRange) -> Result<AssignedRange, FieldError> {
        let former = message.former.as_ref().map(|holder| {
            let cluster = self.cluster("former.cluster", holder.cluster)?;
            Ok((cluster, Generation(holder.generation)))
        });
        let releasing = message.releasing.as_ref().map(|mark| {
            Ok(Releasing {
                to: mark.to.map(|to| self.cluster("releasing.to", to)).transpose()?,
                why: reason_code("releasing.why", mark.why)?,
                count: mark.count,
            })
        });
        Ok(AssignedRange {
            range: range("last", message.first, message.last)?,
            cluster: self.cluster("cluster", message.cluster)?,
            generation: Generation(message.generation),
            former: former.transpose()?,
            releasing: releasing.transpose()?,
        })
    }

    fn released(&self, message: wire::ReleasedGroup) -> Result<BTreeMap<LastHolder, RangeSet>, FieldError> {
        let mut all: BTreeMap<LastHolder, RangeSet> = BTreeMap::new();
        for of in message.released {
            let place = |place| self.cluster("released.cluster", place);
            let holder = LastHolder {
                generation: Generation(of.generation),
                cluster: of.cluster.map(place).transpose()?,
            };
            let numbers: RangeSet = required("released.numbers", of.numbers)?;
            let sum = all.entry(holder).or_default();
            *sum = sum.union(&numbers);
        }
        Ok(all)
    }

    fn group(&self, message: &wire::AssignedGroup) -> Result<Vec<AssignedRange>, FieldError> {
        let ranges = message.ranges.iter().enumerate();
        ranges
            .map(|(i, r)| self.range(r).map_err(|e| e.within_item("ranges", i)))
            .collect()
    }
}

impl Wire for Assignment {
    type Message = wire::Assignment;

    fn to_wire(&self) -> Self::Message {
        let Self {
            job,
            groups,
            released,
            holders,
        } = self;
        let clusters = Clusters::of(self);
        let key = |g: &GroupName| g.to_string();
        let groups = groups.iter().map(|(g, ranges)| {
            let ranges = ranges.iter().map(|r| clusters.range(r)).collect();
            (key(g), wire::AssignedGroup { ranges })
        });
        let released = released.iter().map(|(g, sets)| (key(g), clusters.released(sets)));
        wire::Assignment {
            job: job_bytes(*job),
            groups: groups.collect(),
            released: released.collect(),
            holders: holders.iter().map(|(c, g)| (c.to_string(), g.0)).collect(),
            clusters: clusters.0.keys().map(ToString::to_string).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let listed = message.clusters.iter();
        let listed: Result<_, FieldError> = listed.map(|c| cluster("clusters", c)).collect();
        let listed = Listed(listed?);
        let groups = message.groups.iter().map(|(name, ranges)| {
            let within = |e: FieldError| e.within(&format!("groups[{name}]"));
            Ok((group("groups", name)?, listed.group(ranges).map_err(within)?))
        });
        let released = message.released.into_iter().map(|(name, sets)| {
            let within = |e: FieldError| e.within(&format!("released[{name}]"));
            Ok((group("released", &name)?, listed.released(sets).map_err(within)?))
        });
        let holders = message.holders.into_iter();
        Ok(Self {
            job: job_id("job", &message.job)?,
            groups: groups.collect::<Result<_, FieldError>>()?,
            released: released.collect::<Result<_, FieldError>>()?,
            holders: holders
                .map(|(c, g)| Ok((cluster("holders", &c)?, Generation(g))))
                .collect::<Result<_, FieldError>>()?,
        })
    }
}

impl Wire for AssignmentPiece {
    type Message = wire::AssignmentPiece;

    fn to_wire(&self) -> Self::Message {
        let Self {
            part,
            pieces,
            written,
        } = self;
        wire::AssignmentPiece {
            part: Some(part.to_wire()),
            pieces: *pieces,
            written: u64::try_from(written.packed()).unwrap_or_default(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            part: required("part", message.part)?,
            pieces: message.pieces,
            written: Stamp::of_packed(message.written),
        })
    }
}
