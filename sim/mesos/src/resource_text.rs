//! Bundles as Mesos prints them in messages.

use crate::bundle::Bundle;
use echelon_proto::mesos::v1::Resource;
use echelon_proto::mesos::v1::resource::{DiskInfo, ReservationInfo};
use std::fmt::Write as _;

impl Bundle {
    /// As Mesos prints it in messages: `cpus(allocated: *):0.1; mem(allocated: *):32`.
    pub(crate) fn text(&self, role: &str) -> String {
        let parts: Vec<String> = self.write(Some(role)).iter().map(resource_text).collect();
        parts.join("; ")
    }
}

/// One resource as Mesos prints it. Writing to a `String` cannot fail.
fn resource_text(resource: &Resource) -> String {
    let mut text = resource.name.clone();
    if let Some(role) = resource
        .allocation_info
        .as_ref()
        .and_then(|info| info.role.as_ref())
    {
        let _ = write!(text, "(allocated: {role})");
    }
    let stack: Vec<String> = resource.reservations.iter().map(reservation_text).collect();
    if !stack.is_empty() {
        let _ = write!(text, "(reservations: [{}])", stack.join(","));
    }
    if let Some(DiskInfo {
        persistence: Some(persistence),
        volume: Some(volume),
        ..
    }) = &resource.disk
    {
        let mode = volume.mode().as_str_name().to_lowercase();
        let _ = write!(text, "[{}:{}:{mode}]", persistence.id, volume.container_path);
    }
    if resource.revocable.is_some() {
        text.push_str("{REV}");
    }
    if resource.shared.is_some() {
        text.push_str("<SHARED>");
    }
    if let Some(scalar) = &resource.scalar {
        let _ = write!(text, ":{}", scalar.value);
    }
    if let Some(ranges) = &resource.ranges {
        let ranges: Vec<String> = ranges
            .range
            .iter()
            .map(|r| format!("{}-{}", r.begin, r.end))
            .collect();
        let _ = write!(text, ":[{}]", ranges.join(", "));
    }
    text
}

fn reservation_text(reservation: &ReservationInfo) -> String {
    let mut text = format!("({},{}", reservation.r#type().as_str_name(), reservation.role());
    if let Some(principal) = &reservation.principal {
        let _ = write!(text, ",{principal}");
    }
    text.push(')');
    text
}
