//! Upper bounds of the encoded bytes of stored rows, known before they are written: batches are cut by them. A property test
//! beside the encoding holds `encoded length <= weight` for all of them.

use crate::instance::{Block, InstanceRecord, Run, SliceRow};
use crate::range::RangeSet;
use crate::reason::Reason;
use crate::store::{Event, Write};
use std::collections::BTreeSet;

/// The field's tag, a length, and a few numbers.
const SMALL: usize = 24;

impl Reason {
    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let detail = self.detail.as_ref().map_or(0, |d| d.len());
        detail + SMALL + self.shortfall.as_ref().map_or(0, |_| SMALL + SMALL)
    }
}

impl Run {
    /// An upper bound of its encoded bytes, names of ports and sidecars left out: the block has each of them once.
    fn weight(&self) -> usize {
        let stopping = self
            .stopping
            .as_ref()
            .map_or(0, |s| s.reason.weight() + 2 * SMALL);
        let ending = self.ending.as_ref().map_or(0, |e| e.reason.weight() + SMALL);
        let host = self.host.as_str().len() + self.hostname.len() + SMALL;
        let revocable = self.revocable.as_ref().map_or(0, |_| 3 * SMALL);
        183 + self.reason.weight()
            + stopping
            + ending
            + host
            + revocable
            + 20 * (self.ports.len() + self.members.len())
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let ports = self.ports.iter().map(|p| p.name.as_str());
        ports.chain(
            self.members
                .iter()
                .filter_map(|m| m.sidecar.as_ref())
                .map(|s| s.as_str()),
        )
    }
}

impl InstanceRecord {
    /// An upper bound of its encoded bytes.
    fn weight(&self) -> usize {
        let runs = self.run.iter().chain(&self.older).map(Run::weight);
        let avoid = self.avoid.iter().map(|h| h.as_str().len() + SMALL);
        let failure = self.failure.as_ref().map_or(0, |f| f.reason.weight() + 2 * SMALL);
        let volume = self.volume.as_ref().map_or(0, |v| {
            v.id.as_str().len() + v.host.as_str().len() + v.hostname.len() + 3 * SMALL
        });
        104 + runs.sum::<usize>() + avoid.sum::<usize>() + failure + volume
    }
}

impl Block {
    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let records = self.instances.values();
        let runs = records.clone().flat_map(|r| r.run.iter().chain(&r.older));
        let names: BTreeSet<&str> = runs.flat_map(Run::names).collect();
        let names = names.iter().map(|n| n.len() + 4);
        64 + self.key.group.as_str().len()
            + names.sum::<usize>()
            + records.map(InstanceRecord::weight).sum::<usize>()
    }
}

fn set(set: &RangeSet) -> usize {
    SMALL + 16 * set.ranges().len()
}

impl SliceRow {
    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let sets = self.released.values().chain(self.taken_over.values()).map(set);
        let numbers = 2 * self.own.len();
        let ranges = self.ranges.iter().map(crate::assignment::AssignedRange::weight);
        64 + self.group.as_str().len()
            + ranges.sum::<usize>()
            + sets.sum::<usize>()
            + 96 * self.grants.len()
            + SMALL * numbers
    }
}

impl Event {
    /// An upper bound of its encoded bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let group = self
            .instance
            .as_ref()
            .map_or(0, |(group, _)| group.as_str().len() + SMALL);
        let text = |t: &Option<String>| t.as_ref().map_or(0, |t| t.len() + 8);
        96 + group + self.reason.weight() + text(&self.hostname) + text(&self.task)
    }
}

impl Write {
    /// An upper bound of the bytes that it adds to a batch.
    #[must_use]
    pub fn weight(&self) -> usize {
        /// Key and statement.
        const ROW: usize = 512;
        ROW + match self {
            Self::Block(block) | Self::Archive(block) => block.weight(),
            Self::Slice(row) => row.weight(),
            Self::Shard(_, row) => row.weight(),
            Self::Event(event) => event.weight(),
            Self::Raw(_, bytes) => bytes.len(),
            Self::Host(host) => {
                let attributes = host.attributes.iter().map(|(k, v)| k.len() + v.len() + 16);
                let volumes = host
                    .volumes
                    .iter()
                    .map(|v| v.id.as_str().len() + v.path.len() + 40);
                4096 + attributes.chain(volumes).sum::<usize>()
            }
            _ => 2048,
        }
    }
}
