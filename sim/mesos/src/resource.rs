//! Bundles on the wire: read from a framework's resources, written into offers (rules R7, R79, R128).

use crate::amount::{Amount, from_thousandths, to_thousandths};
use crate::bundle::{Bundle, Disk, Mark, Reservation};
use echelon_proto::mesos::v1::resource::{
    AllocationInfo, DiskInfo, ReservationInfo, RevocableInfo, SharedInfo, disk_info, reservation_info,
};
use echelon_proto::mesos::v1::{Label, Labels, Resource, Volume, value, volume};

/// What is wrong with resources, in Mesos' words.
pub(crate) type Problem = String;

impl Bundle {
    /// Reads resources. Kinds and disks that are not simulated count as a problem: no agent has any.
    pub(crate) fn read(resources: &[Resource]) -> Result<Self, Problem> {
        let mut bundle = Self::default();
        for resource in resources {
            bundle.add_part(&read_mark(resource)?, &read_amount(resource)?);
        }
        Ok(bundle)
    }

    /// The resources of an offer: in the form of a real master, allocated to `role`.
    pub(crate) fn write(&self, role: Option<&str>) -> Vec<Resource> {
        let allocation = role.map(|role| AllocationInfo {
            role: Some(role.to_owned()),
        });
        let mut parts: Vec<(&Mark, &Amount)> = self.parts().collect();
        // A master happens to write ports first, then what is marked, then the rest.
        parts.sort_by_key(|(mark, _)| mark.is_plain());
        let ports = parts
            .iter()
            .filter_map(|(mark, amount)| write_ports(mark, amount));
        let scalars = parts
            .iter()
            .flat_map(|(mark, amount)| write_scalars(mark, amount));
        let mut resources: Vec<Resource> = ports.chain(scalars).collect();
        for resource in &mut resources {
            resource.allocation_info.clone_from(&allocation);
        }
        resources
    }
}

/// The form for frameworks without RESERVATION_REFINEMENT: a role of its own, and one level of reservation (rule R7).
#[expect(deprecated, reason = "the older form is the deprecated one")]
pub(crate) fn unrefined(resource: &mut Resource) {
    let reservation = resource.reservations.pop();
    resource.reservations.clear();
    let role = reservation
        .as_ref()
        .and_then(|reservation| reservation.role.clone());
    resource.role = Some(role.unwrap_or_else(|| "*".to_owned()));
    resource.reservation = reservation
        .filter(|reservation| reservation.r#type() == reservation_info::Type::Dynamic)
        .map(|reservation| ReservationInfo {
            role: None,
            r#type: None,
            ..reservation
        });
}

fn read_amount(resource: &Resource) -> Result<Amount, Problem> {
    let mut amount = Amount::default();
    let name = resource.name.as_str();
    if name == "ports" {
        let ranges = resource
            .ranges
            .as_ref()
            .map(|ranges| ranges.range.as_slice())
            .unwrap_or_default();
        if let Some(bad) = ranges.iter().find(|range| range.begin > range.end) {
            return Err(format!(
                "Resource 'ports:[{}-{}]' is invalid: Invalid ranges resource: begin > end",
                bad.begin, bad.end
            ));
        }
        let ranges: Vec<(u64, u64)> = ranges.iter().map(|range| (range.begin, range.end)).collect();
        amount.add_ports(&ranges);
        return Ok(amount);
    }
    let value = resource.scalar.as_ref().map_or(0.0, |scalar| scalar.value);
    let thousandths = to_thousandths(value);
    if thousandths == 0 {
        return Err(format!(
            "Resource '{name}:{value}' is invalid: Invalid scalar resource: value <= 0"
        ));
    }
    if name == "gpus" && !thousandths.is_multiple_of(1000) {
        return Err(
            "Task uses invalid resources: Invalid 'gpus' resource: The 'gpus' resource must be an \
             unsigned integer"
                .to_owned(),
        );
    }
    match amount.scalar_mut(name) {
        Some(scalar) => *scalar = thousandths,
        None => return Err(format!("Resource '{name}' is not simulated: no agent offers it")),
    }
    Ok(amount)
}

#[expect(
    deprecated,
    reason = "frameworks without RESERVATION_REFINEMENT use the older form"
)]
fn read_mark(resource: &Resource) -> Result<Mark, Problem> {
    let mut reservations: Vec<Reservation> = resource.reservations.iter().map(read_reservation).collect();
    let old_role = resource.role.as_ref().filter(|role| *role != "*");
    if let (Some(role), true) = (old_role, reservations.is_empty()) {
        let old = resource.reservation.clone().unwrap_or_default();
        reservations.push(Reservation {
            role: role.clone(),
            dynamic: resource.reservation.is_some(),
            ..read_reservation(&old)
        });
    }
    let volume = resource.disk.as_ref().map(read_disk).transpose()?.flatten();
    if volume.is_some() && resource.name != "disk" {
        return Err(format!(
            "Invalid DiskInfo: Disk information set for '{}'",
            resource.name
        ));
    }
    Ok(Mark {
        reservations,
        volume,
        shared: resource.shared.is_some(),
        revocable: resource.revocable.is_some(),
    })
}

fn read_reservation(info: &ReservationInfo) -> Reservation {
    let labels = info.labels.iter().flat_map(|labels| &labels.labels);
    Reservation {
        role: info.role.clone().unwrap_or_default(),
        principal: info.principal.clone(),
        labels: labels
            .map(|label| (label.key.clone(), label.value.clone()))
            .collect(),
        dynamic: info.r#type() == reservation_info::Type::Dynamic,
    }
}

fn read_disk(info: &DiskInfo) -> Result<Option<Disk>, Problem> {
    if info.source.is_some() {
        return Err("Disks with a source are not simulated: no agent offers one".to_owned());
    }
    let (persistence, volume) = match (&info.persistence, &info.volume) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err("Non-persistent volume not supported".to_owned());
        }
        (Some(_), None) => return Err("Persistent volume should have a volume specified".to_owned()),
        (Some(persistence), Some(volume)) => (persistence, volume),
    };
    if volume.host_path.is_some() {
        return Err("Expecting 'host_path' to be unset for persistent volume".to_owned());
    }
    Ok(Some(Disk {
        id: persistence.id.clone(),
        principal: persistence.principal.clone(),
        container_path: volume.container_path.clone(),
        read_only: volume.mode() == volume::Mode::Ro,
    }))
}

fn write_ports(mark: &Mark, amount: &Amount) -> Option<Resource> {
    let range = |(begin, end): &(u64, u64)| value::Range {
        begin: *begin,
        end: *end,
    };
    let range: Vec<value::Range> = amount.ports.iter().map(range).collect();
    (!range.is_empty()).then(|| Resource {
        ranges: Some(value::Ranges { range }),
        ..marked(mark, "ports", value::Type::Ranges)
    })
}

fn write_scalars(mark: &Mark, amount: &Amount) -> Vec<Resource> {
    let there = amount.scalars().into_iter().filter(|(_, amount)| *amount > 0);
    let write = |(name, amount)| Resource {
        scalar: Some(value::Scalar {
            value: from_thousandths(amount),
        }),
        ..marked(mark, name, value::Type::Scalar)
    };
    there.map(write).collect()
}

fn marked(mark: &Mark, name: &str, kind: value::Type) -> Resource {
    Resource {
        name: name.to_owned(),
        r#type: kind.into(),
        reservations: mark.reservations.iter().map(write_reservation).collect(),
        disk: mark.volume.as_ref().map(write_disk),
        shared: mark.shared.then(SharedInfo::default),
        revocable: mark.revocable.then(RevocableInfo::default),
        ..Default::default()
    }
}

fn write_reservation(reservation: &Reservation) -> ReservationInfo {
    let labels = reservation.labels.iter().map(|(key, value)| Label {
        key: key.clone(),
        value: value.clone(),
    });
    let kind = if reservation.dynamic {
        reservation_info::Type::Dynamic
    } else {
        reservation_info::Type::Static
    };
    ReservationInfo {
        principal: reservation.principal.clone(),
        labels: (!reservation.labels.is_empty()).then(|| Labels {
            labels: labels.collect(),
        }),
        role: Some(reservation.role.clone()),
        r#type: Some(kind.into()),
    }
}

fn write_disk(disk: &Disk) -> DiskInfo {
    let mode = if disk.read_only {
        volume::Mode::Ro
    } else {
        volume::Mode::Rw
    };
    DiskInfo {
        persistence: Some(disk_info::Persistence {
            id: disk.id.clone(),
            principal: disk.principal.clone(),
        }),
        volume: Some(Volume {
            container_path: disk.container_path.clone(),
            mode: mode.into(),
            ..Default::default()
        }),
        source: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(name: &str, value: f64) -> Resource {
        Resource {
            name: name.to_owned(),
            scalar: Some(value::Scalar { value }),
            ..Default::default()
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut all = Bundle::of(4, 1024, 100).with_ports(31000, 31010).with_gpus(2);
        let reserved = Mark {
            reservations: vec![Reservation {
                role: "a/b".to_owned(),
                principal: Some("p".to_owned()),
                labels: vec![("k".to_owned(), None)],
                dynamic: true,
            }],
            volume: Some(Disk {
                id: "v".to_owned(),
                principal: None,
                container_path: "data".to_owned(),
                read_only: false,
            }),
            shared: true,
            revocable: false,
        };
        all.add_part(&reserved, &Bundle::of(0, 0, 7).plain);
        let revocable = Mark {
            revocable: true,
            ..Mark::plain()
        };
        all.add_part(&revocable, &Bundle::of(1, 0, 0).with_ports(1, 2).plain);
        assert_eq!(Bundle::read(&all.write(Some("*"))), Ok(all));
    }

    #[test]
    #[expect(deprecated, reason = "the older form is the deprecated one")]
    fn the_older_form_is_read_as_the_newer() {
        let reservation = ReservationInfo {
            role: Some("r".to_owned()),
            r#type: Some(reservation_info::Type::Dynamic.into()),
            ..Default::default()
        };
        let newer = Resource {
            reservations: vec![reservation],
            ..scalar("cpus", 1.0)
        };
        let mut older = newer.clone();
        unrefined(&mut older);
        assert_eq!(older.role.as_deref(), Some("r"));
        assert!(older.reservations.is_empty());
        assert_eq!(Bundle::read(&[older]), Bundle::read(&[newer]));
    }

    #[test]
    fn bad_amounts_are_refused_in_the_words_of_mesos() {
        for (resource, words) in [
            (scalar("cpus", -1.0), "value <= 0"),
            (scalar("cpus", f64::NAN), "value <= 0"),
            (scalar("mem", 0.0), "value <= 0"),
            (scalar("gpus", 0.5), "unsigned integer"),
            (scalar("unicorns", 1.0), "not simulated"),
            (
                Resource {
                    name: "ports".to_owned(),
                    ranges: Some(value::Ranges {
                        range: vec![value::Range { begin: 5, end: 1 }],
                    }),
                    ..Default::default()
                },
                "begin > end",
            ),
        ] {
            let error = Bundle::read(&[resource]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let endless = Bundle::read(&[scalar("cpus", f64::INFINITY)]).unwrap();
        assert_eq!(endless.plain.cpus, u64::MAX);
    }
}
