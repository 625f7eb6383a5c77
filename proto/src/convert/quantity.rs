//! Resources, limits, times and spans between wire and model.

use super::Problems;
use crate::echelon::v1;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::sharing::Others;
use echelon_core_model::{Span, Timestamp};

/// To the wire.
#[must_use]
pub const fn resources(r: &Resources) -> v1::Resources {
    v1::Resources {
        cpus_milli: r.cpus,
        memory_mib: r.memory,
        disk_mib: r.disk,
        gpus_milli: r.gpus,
    }
}

/// From the wire; what is left out is zero.
#[must_use]
pub fn read_resources(r: Option<v1::Resources>) -> Resources {
    let r = r.unwrap_or_default();
    Resources {
        cpus: r.cpus_milli,
        memory: r.memory_mib,
        disk: r.disk_mib,
        gpus: r.gpus_milli,
    }
}

/// A bound to the wire: `u64::MAX` is no bound.
#[must_use]
pub fn limit(r: &Resources) -> v1::ResourceLimit {
    let bound = |n: u64| (n != u64::MAX).then_some(n);
    v1::ResourceLimit {
        cpus_milli: bound(r.cpus),
        memory_mib: bound(r.memory),
        disk_mib: bound(r.disk),
        gpus_milli: bound(r.gpus),
    }
}

/// A bound from the wire; what is left out is not bounded.
#[must_use]
pub fn read_limit(r: Option<v1::ResourceLimit>) -> Resources {
    let r = r.unwrap_or_default();
    Resources {
        cpus: r.cpus_milli.unwrap_or(u64::MAX),
        memory: r.memory_mib.unwrap_or(u64::MAX),
        disk: r.disk_mib.unwrap_or(u64::MAX),
        gpus: r.gpus_milli.unwrap_or(u64::MAX),
    }
}

/// To the wire.
#[must_use]
pub fn held_by_others(of: &Others) -> v1::HeldByOthers {
    v1::HeldByOthers {
        used: Some(resources(&of.used)),
        offered: Some(resources(&of.offered)),
    }
}

/// To the wire.
#[must_use]
pub const fn kind(kind: Kind) -> v1::ResourceKind {
    match kind {
        Kind::Cpus => v1::ResourceKind::Cpus,
        Kind::Memory => v1::ResourceKind::Memory,
        Kind::Disk => v1::ResourceKind::Disk,
        Kind::Gpus => v1::ResourceKind::Gpus,
    }
}

/// From the wire, `None` when it names no kind.
#[must_use]
pub const fn read_kind(kind: v1::ResourceKind) -> Option<Kind> {
    match kind {
        v1::ResourceKind::Cpus => Some(Kind::Cpus),
        v1::ResourceKind::Memory => Some(Kind::Memory),
        v1::ResourceKind::Disk => Some(Kind::Disk),
        v1::ResourceKind::Gpus => Some(Kind::Gpus),
        v1::ResourceKind::Unspecified => None,
    }
}

/// To the wire.
#[must_use]
pub fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(at.0 / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(at.0 % 1000 * 1_000_000).unwrap_or_default(),
    }
}

/// From the wire; a time before 1970 is 1970.
#[must_use]
pub fn read_timestamp(at: &prost_types::Timestamp) -> Timestamp {
    let seconds = u64::try_from(at.seconds).unwrap_or_default();
    let millis = u64::try_from(at.nanos / 1_000_000).unwrap_or_default();
    Timestamp(seconds.saturating_mul(1000).saturating_add(millis))
}

/// To the wire.
#[must_use]
pub fn duration(span: Span) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.0 / 1000).unwrap_or(i64::MAX),
        nanos: i32::try_from(span.0 % 1000 * 1_000_000).unwrap_or_default(),
    }
}

/// From the wire: negative spans and parts of a millisecond are problems.
pub fn read_duration(
    span: &prost_types::Duration,
    field: impl FnOnce() -> String,
    problems: &mut Problems,
) -> Span {
    let whole = span.nanos % 1_000_000 == 0 && (0..1_000_000_000).contains(&span.nanos);
    match u64::try_from(span.seconds) {
        Ok(seconds) if whole => {
            let millis = u64::try_from(span.nanos / 1_000_000).unwrap_or_default();
            Span(seconds.saturating_mul(1000).saturating_add(millis))
        }
        _ => {
            problems.add(
                field(),
                "must be zero or more, in whole milliseconds; write it as `10s` or `0.500s`",
            );
            Span::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_and_spans_read_back(ms in 0u64..1 << 60) {
            let mut problems = Problems::default();
            prop_assert_eq!(read_duration(&duration(Span(ms)), String::new, &mut problems), Span(ms));
            prop_assert_eq!(read_timestamp(&timestamp(Timestamp(ms))), Timestamp(ms));
            prop_assert_eq!(problems, Problems::default());
        }

        #[test]
        fn bounds_read_back(cpus: u64, memory: u64) {
            let r = Resources { cpus, memory, disk: u64::MAX, gpus: 0 };
            prop_assert_eq!(read_limit(Some(limit(&r))), r);
            prop_assert_eq!(read_resources(Some(resources(&r))), r);
        }
    }

    #[test]
    fn broken_spans_are_problems() {
        for (seconds, nanos) in [(-1, 0), (0, -1), (1, 1), (1, 2_000_000_000), (i64::MIN, 0)] {
            let mut problems = Problems::default();
            let span = prost_types::Duration { seconds, nanos };
            read_duration(&span, || "grace".to_owned(), &mut problems);
            assert_eq!(problems.0.len(), 1, "{seconds} {nanos}");
        }
    }
}
