//! What an operation takes and gives, as far as it can be told without the cluster (rules R121, R122, R126, R128).

use crate::amount::{Amount, to_thousandths};
use crate::bundle::{Bundle, Mark};
use crate::quota::is_within;
use echelon_proto::mesos::v1::Resource;
use echelon_proto::mesos::v1::offer::operation;

/// What an operation takes and gives.
pub(crate) struct Conversion {
    pub consumed: Bundle,
    pub converted: Bundle,
}

pub(crate) fn read(resources: &[Resource]) -> Result<Bundle, String> {
    let invalid = |why| format!("Invalid resources: {why}");
    let bundle = Bundle::read(resources).map_err(invalid)?;
    if bundle.parts().any(|(mark, _)| mark.revocable) {
        return Err("Revocable resources can neither be reserved nor be volumes".to_owned());
    }
    Ok(bundle)
}

pub(crate) fn check_reservation(mark: &Mark, role: &str, principal: Option<&str>) -> Result<(), String> {
    let Some((last, above)) = mark.reservations.split_last().filter(|(last, _)| last.dynamic) else {
        return Err(
            "A reserve operation was attempted of resources that are not dynamically reserved".to_owned(),
        );
    };
    if mark.volume.is_some() {
        return Err(
            "A persistent volume cannot be reserved: reserve the disk, then create the volume".to_owned(),
        );
    }
    if last.role != role || role == "*" {
        return Err(format!(
            "A reserve operation was attempted for role '{}' with an offer of role '{role}'",
            last.role
        ));
    }
    if above
        .last()
        .is_some_and(|above| above.role == last.role || !is_within(&last.role, &above.role))
    {
        return Err(format!(
            "A reservation cannot be refined to role '{}', which is not below it",
            last.role
        ));
    }
    if principal.is_some() && last.principal.as_deref() != principal {
        return Err(format!(
            "A reserve operation was attempted by principal '{}', but there is a reserved resource in the request \
             with principal '{}'",
            principal.unwrap_or_default(),
            last.principal.as_deref().unwrap_or_default()
        ));
    }
    Ok(())
}

pub(crate) fn unreserve(unreserve: &operation::Unreserve) -> Result<Conversion, String> {
    let consumed = read(&unreserve.resources)?;
    for mark in consumed.parts().map(|(mark, _)| mark) {
        if !mark.reservations.last().is_some_and(|last| last.dynamic) {
            return Err(
                "An unreserve operation was attempted of resources that are not dynamically reserved"
                    .to_owned(),
            );
        }
        if let Some(volume) = &mark.volume {
            return Err(format!(
                "A dynamically reserved persistent volume '{}' cannot be unreserved directly. Please destroy the \
                 persistent volume first then unreserve the resource",
                volume.id
            ));
        }
    }
    let converted = mapped(&consumed, popped);
    Ok(Conversion { consumed, converted })
}

pub(crate) fn grow(grow: &operation::GrowVolume) -> Result<Conversion, String> {
    let (volume, size) = volume_of(&grow.volume)?;
    let addition = read(std::slice::from_ref(&grow.addition))?;
    if addition.parts().any(|(mark, _)| *mark != flat(&volume)) {
        return Err("The addition of a grow operation must be like its volume".to_owned());
    }
    let mut converted = Bundle::default();
    let disk = size.saturating_add(addition.sum().disk);
    converted.add_part(&volume, &of_disk(disk));
    let mut consumed = addition;
    consumed.add_part(&volume, &of_disk(size));
    Ok(Conversion { consumed, converted })
}

pub(crate) fn shrink(shrink: &operation::ShrinkVolume) -> Result<Conversion, String> {
    let (volume, size) = volume_of(&shrink.volume)?;
    let less = to_thousandths(shrink.subtract.value);
    if less == 0 || less >= size {
        return Err(
            "Invalid 'subtract': it must be positive and less than the size of the volume".to_owned(),
        );
    }
    let (mut consumed, mut converted) = (Bundle::default(), Bundle::default());
    consumed.add_part(&volume, &of_disk(size));
    converted.add_part(&volume, &of_disk(size.saturating_sub(less)));
    converted.add_part(&flat(&volume), &of_disk(less));
    Ok(Conversion { consumed, converted })
}

/// The one volume that is to be resized, and its size.
fn volume_of(resource: &Resource) -> Result<(Mark, u64), String> {
    let bundle = read(std::slice::from_ref(resource))?;
    let volume = bundle.marked.into_iter().find(|(mark, _)| mark.volume.is_some());
    match volume {
        Some((mark, _)) if mark.shared => {
            Err("Growing or shrinking a shared volume is not supported".to_owned())
        }
        Some((mark, amount)) => Ok((mark, amount.disk)),
        None => Err("Only a persistent volume can be resized".to_owned()),
    }
}

fn of_disk(disk: u64) -> Amount {
    Amount {
        disk,
        ..Amount::default()
    }
}

/// The same amounts with other marks.
pub(crate) fn mapped(bundle: &Bundle, change: fn(&Mark) -> Mark) -> Bundle {
    let mut changed = Bundle::default();
    for (mark, amount) in bundle.parts() {
        changed.add_part(&change(mark), amount);
    }
    changed
}

/// Without the most specific reservation.
pub(crate) fn popped(mark: &Mark) -> Mark {
    let mut mark = mark.clone();
    mark.reservations.pop();
    mark
}

/// Without a volume.
pub(crate) fn flat(mark: &Mark) -> Mark {
    Mark {
        volume: None,
        shared: false,
        ..mark.clone()
    }
}
