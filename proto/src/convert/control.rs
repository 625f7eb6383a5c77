//! The switches between the public wire and the model.

use super::quantity::timestamp;
use crate::echelon::v1;
use echelon_core_model::Timestamp;
use echelon_core_model::control::Control;

/// The metadata that every answer carries while kills are off, and what it says then.
pub const KILLS_OFF: (&str, &str) = ("echelon-kills", "off");

/// The metadata of a list that names the stored rows which cannot be understood and would belong to it.
pub const UNREAD_ROWS: &str = "echelon-unread-rows";

/// To the wire.
#[must_use]
pub fn control(control: &Control) -> v1::Control {
    let kills = if control.kills_off {
        v1::Kills::Off
    } else {
        v1::Kills::On
    };
    v1::Control {
        kills: kills.into(),
        by: control.by.clone(),
        why: control.why.clone(),
        update_time: (control.at > Timestamp(0)).then(|| timestamp(control.at)),
        etag: control.version.to_string(),
    }
}

/// Whether kills are to be off, from the wire; `None` when it does not say.
#[must_use]
pub fn read_kills(number: i32) -> Option<bool> {
    match v1::Kills::try_from(number) {
        Ok(v1::Kills::On) => Some(false),
        Ok(v1::Kills::Off) => Some(true),
        Ok(v1::Kills::Unspecified) | Err(_) => None,
    }
}
