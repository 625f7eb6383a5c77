//! Resources: our integers against Mesos' scalars of three decimal places (rule R79). What is offered is rounded down and
//! what is asked for is exact, so that we never ask for more than there is.

use crate::mesos::v1::value::{Range, Ranges, Scalar, Type};
use crate::mesos::v1::{
    Resource,
    resource::{AllocationInfo, RevocableInfo},
};
use echelon_core_model::{Kind, PortSet, Resources};

/// Mesos' name of ports.
const PORTS: &str = "ports";

/// Mesos' name of a kind, and how many thousandths of Mesos' unit one of ours is.
const fn name_of(kind: Kind) -> (&'static str, u64) {
    match kind {
        Kind::Cpus => ("cpus", 1),
        Kind::Gpus => ("gpus", 1),
        Kind::Memory => ("mem", 1000),
        Kind::Disk => ("disk", 1000),
    }
}

/// Sums what a plain task can use: scalars that are neither reserved nor revocable nor shared nor a special disk.
#[must_use]
pub fn from_resources(resources: &[Resource]) -> Resources {
    sum(resources.iter().filter(is_plain))
}

/// Sums what a host lends: revocable scalars. Nothing else is ever said of them (R91).
#[must_use]
pub fn from_revocable(resources: &[Resource]) -> Resources {
    sum(resources
        .iter()
        .filter(|r| r.revocable.is_some() && is_unmarked(r)))
}

/// Sums scalars, reserved or not, but for what a host only lends.
pub fn from_scalars<'a>(resources: impl Iterator<Item = &'a Resource>) -> Resources {
    sum(resources.filter(|r| r.revocable.is_none()))
}

/// The kind of a name of Mesos, and how many thousandths of Mesos' unit one of ours is.
pub fn kind_of(name: &str) -> Option<(Kind, u64)> {
    let kinds = Kind::ALL.into_iter().map(|kind| (kind, name_of(kind)));
    let mut named = kinds.filter(|(_, (known, _))| *known == name);
    named.next().map(|(kind, (_, thousandths))| (kind, thousandths))
}

fn sum<'a>(resources: impl Iterator<Item = &'a Resource>) -> Resources {
    let mut sum = Resources::ZERO;
    for resource in resources {
        for kind in Kind::ALL {
            let (name, thousandths) = name_of(kind);
            if resource.name == name
                && let Some(scalar) = &resource.scalar
            {
                let more = sum.get(kind).saturating_add(milli(scalar.value) / thousandths);
                sum = sum.with(kind, more);
            }
        }
    }
    sum
}

fn is_plain(r: &&Resource) -> bool {
    is_unmarked(r) && r.revocable.is_none()
}

fn is_unmarked(r: &Resource) -> bool {
    r.reservations.is_empty() && r.disk.is_none() && r.shared.is_none()
}

/// The ports that a plain task can use.
pub fn from_ports(resources: &[Resource]) -> PortSet {
    let mut out = PortSet::new();
    let plain = resources.iter().filter(is_plain).filter(|r| r.name == PORTS);
    for range in plain.flat_map(|r| &r.ranges).flat_map(|r| &r.range) {
        // Port 0 asks a system for any port; numbers beyond the largest port mean nothing.
        let (first, last) = (range.begin.max(1), range.end.min(u16::MAX.into()));
        if let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(last)) {
            out.insert(first, last);
        }
    }
    out
}

/// Ports of a task as a resource; none when it has none.
pub fn to_ports(ports: impl Iterator<Item = u16>, role: &str) -> Option<Resource> {
    let ports: PortSet = ports.collect();
    let range = |(begin, end): (u16, u16)| Range {
        begin: begin.into(),
        end: end.into(),
    };
    (!ports.is_empty()).then(|| Resource {
        name: PORTS.to_owned(),
        r#type: i32::from(Type::Ranges),
        ranges: Some(Ranges {
            range: ports.ranges().map(range).collect(),
        }),
        allocation_info: Some(AllocationInfo {
            role: Some(role.to_owned()),
        }),
        ..Resource::default()
    })
}

/// Thousandths of a scalar, rounded to the nearest as the master does; negative and not-a-number are nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded to 0..=2^53 before the cast"
)]
pub fn milli(value: f64) -> u64 {
    const MOST: f64 = 9_007_199_254_740_992.0;
    let milli = (value * 1000.0).round();
    if milli.is_finite() {
        milli.clamp(0.0, MOST) as u64
    } else {
        0
    }
}

/// MiB of a scalar, rounded down.
pub fn scalar_mib(value: f64) -> u64 {
    milli(value) / 1000
}

/// A scalar of MiB.
pub fn mib_scalar(mib: u64) -> f64 {
    from_milli(mib.saturating_mul(1000))
}

/// A task's resources; kinds of which it wants nothing are left out (zero is invalid, R79).
#[must_use]
pub fn to_resources(resources: Resources, role: &str) -> Vec<Resource> {
    Kind::ALL
        .into_iter()
        .filter(|kind| resources.get(*kind) > 0)
        .map(|kind| {
            let (name, thousandths) = name_of(kind);
            Resource {
                name: name.to_owned(),
                r#type: i32::from(Type::Scalar),
                scalar: Some(Scalar {
                    value: from_milli(resources.get(kind).saturating_mul(thousandths)),
                }),
                allocation_info: Some(AllocationInfo {
                    role: Some(role.to_owned()),
                }),
                ..Resource::default()
            }
        })
        .collect()
}

/// What a host only lends.
#[must_use]
pub fn to_revocable(resources: Resources, role: &str) -> Vec<Resource> {
    let lent = |resource| Resource {
        revocable: Some(RevocableInfo::default()),
        ..resource
    };
    to_resources(resources, role).into_iter().map(lent).collect()
}

#[expect(clippy::cast_precision_loss, reason = "quantities stay far below 2^53")]
fn from_milli(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_asked_for_is_exact(cpus in 0u64..1_000_000_000, memory in 0u64..1_000_000_000, gpus in 0u64..9) {
            let wanted = Resources { cpus, memory, disk: 0, gpus: gpus * 1000 };
            prop_assert_eq!(from_resources(&to_resources(wanted, "*")), wanted);
        }
    }

    #[test]
    fn ports_read_back_and_those_of_others_do_not_count() {
        let resource = to_ports([31_000, 31_001, 80].into_iter(), "*").unwrap();
        let mut reserved = to_ports([90].into_iter(), "*").unwrap();
        reserved.reservations.push(Default::default());
        let mut odd = resource.clone();
        odd.ranges = Some(Ranges {
            range: vec![
                Range { begin: 0, end: 1 },
                Range {
                    begin: 65_535,
                    end: 1 << 40,
                },
                Range { begin: 9, end: 8 },
            ],
        });
        let ports = from_ports(&[resource, reserved, odd]);
        assert_eq!(ports.to_string(), "1,80,31000-31001,65535");
        assert_eq!(to_ports([].into_iter(), "*"), None);
    }

    #[test]
    fn what_is_not_ours_does_not_count() {
        let plain = to_resources(
            Resources {
                cpus: 2000,
                memory: 64,
                disk: 0,
                gpus: 0,
            },
            "*",
        );
        let lent = Resources {
            cpus: 1000,
            ..Resources::ZERO
        };
        let mut both = plain.clone();
        both.extend(to_revocable(lent, "*"));
        assert_eq!(from_resources(&both), from_resources(&plain));
        assert_eq!(from_revocable(&both), lent);
        assert_eq!(from_revocable(&plain), Resources::ZERO);
        let strange = vec![Resource {
            name: "cpus".to_owned(),
            scalar: Some(Scalar { value: f64::NAN }),
            ..Resource::default()
        }];
        assert_eq!(from_resources(&strange), Resources::ZERO);
    }
}
