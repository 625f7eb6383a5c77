//! What processes say of themselves to gateways.

use super::{FieldError, FieldProblem, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::role_state::{
    LONGEST_REASON, MOST_ALARMS, RoleAlarm, RoleStanding, RoleState, ServerContact,
};
use echelon_core_model::{Epoch, Timestamp};

/// The metadata of answers while leaders are away: which, and since when. What depends on them is shown as
/// it was then.
pub const STALE: &str = "echelon-stale";

const fn standing(standing: RoleStanding) -> wire::RoleStanding {
    match standing {
        RoleStanding::Standby => wire::RoleStanding::Standby,
        RoleStanding::Recovering => wire::RoleStanding::Recovering,
        RoleStanding::Leader => wire::RoleStanding::Leader,
        RoleStanding::Suspended => wire::RoleStanding::Suspended,
        RoleStanding::Frozen => wire::RoleStanding::Frozen,
        RoleStanding::Serving => wire::RoleStanding::Serving,
    }
}

fn contact(contact: &ServerContact) -> Option<wire::ServerContact> {
    match contact {
        ServerContact::Unknown => None,
        ServerContact::Connected => Some(wire::ServerContact {
            connected: true,
            ..wire::ServerContact::default()
        }),
        ServerContact::Silent { since, reason } => Some(wire::ServerContact {
            connected: false,
            silent_since_ms: since.0,
            reason: reason.clone(),
        }),
    }
}

fn read_contact(contact: Option<wire::ServerContact>) -> ServerContact {
    match contact {
        None => ServerContact::Unknown,
        Some(contact) if contact.connected => ServerContact::Connected,
        Some(contact) => ServerContact::Silent {
            since: Timestamp(contact.silent_since_ms),
            reason: contact.reason,
        },
    }
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_REASON);
    text.get(..end).unwrap_or_default().to_owned()
}

impl Wire for RoleState {
    type Message = wire::RoleState;

    fn to_wire(&self) -> Self::Message {
        let alarm = |alarm: &RoleAlarm| wire::RoleAlarm {
            summary: alarm.summary.clone(),
            command: alarm.command.clone(),
        };
        wire::RoleState {
            build: self.build.clone(),
            standing: standing(self.standing).into(),
            epoch: self.epoch.0,
            membership: contact(&self.membership),
            storage: contact(&self.storage),
            frozen: cut(&self.frozen),
            alarms: self.alarms.iter().take(MOST_ALARMS).map(alarm).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let found = RoleStanding::ALL
            .into_iter()
            .find(|known| i32::from(standing(*known)) == message.standing);
        let unknown = || FieldError::new("standing", FieldProblem::Unknown(message.standing.into()));
        let alarm = |alarm: wire::RoleAlarm| RoleAlarm {
            summary: alarm.summary,
            command: alarm.command,
        };
        Ok(Self {
            standing: found.ok_or_else(unknown)?,
            build: message.build,
            epoch: Epoch(message.epoch),
            membership: read_contact(message.membership),
            storage: read_contact(message.storage),
            frozen: cut(&message.frozen),
            alarms: message.alarms.into_iter().take(MOST_ALARMS).map(alarm).collect(),
        })
    }
}
