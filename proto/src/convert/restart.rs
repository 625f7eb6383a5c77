//! Restarts between wire and model.

use super::quantity::timestamp;
use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::restart::{RestartProgress, Restarts, all_numbers};
use echelon_core_model::{InstanceRange, RangeSet};

/// The latest restart to the wire, with what became of it.
#[must_use]
pub fn restart(wish: &Restarts, of: Option<&RestartProgress>) -> v1::JobRestart {
    let of = of.filter(|p| p.version == wish.version);
    let part = wish.latest();
    let numbers = part.map(|p| &p.numbers).filter(|n| **n != all_numbers());
    let ranges = numbers.map_or(&[][..], RangeSet::ranges);
    v1::JobRestart {
        start_time: Some(timestamp(wish.since)),
        done_time: of.and_then(|p| p.done_at).map(timestamp),
        group: part.map(|p| p.group.to_string()).unwrap_or_default(),
        instances: ranges
            .iter()
            .map(|r| v1::InstanceRange {
                first: r.first,
                last: r.last,
            })
            .collect(),
        batch: wish.batch,
        left: of.map(|p| p.left),
    }
}

/// Instance numbers from the wire; `None`: none were named.
pub fn read_numbers(ranges: &[v1::InstanceRange], path: &str, problems: &mut Problems) -> Option<RangeSet> {
    let mut out = RangeSet::new();
    for (i, r) in ranges.iter().enumerate() {
        match InstanceRange::new(r.first, r.last) {
            Some(range) => out.insert(range),
            None => problems.add(
                at(path, &i.to_string()),
                format!("must not end ({}) before it begins ({})", r.last, r.first),
            ),
        }
    }
    (!ranges.is_empty()).then_some(out)
}
