//! What processes say of their roles.

use super::{at, epoch, text};
use echelon_core_model::role_state::{MOST_ALARMS, RoleAlarm, RoleStanding, RoleState, ServerContact};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn contact() -> impl Strategy<Value = ServerContact> {
    prop_oneof![
        Just(ServerContact::Unknown),
        Just(ServerContact::Connected),
        (at(), text()).prop_map(|(since, reason)| ServerContact::Silent { since, reason }),
    ]
}

fn alarm() -> impl Strategy<Value = RoleAlarm> {
    (text(), text()).prop_map(|(summary, command)| RoleAlarm { summary, command })
}

pub fn role_state() -> impl Strategy<Value = RoleState> {
    let standing = select(RoleStanding::ALL.to_vec());
    let alarms = vec(alarm(), 0..MOST_ALARMS);
    (text(), standing, epoch(), contact(), contact(), text(), alarms).prop_map(
        |(build, standing, epoch, membership, storage, frozen, alarms)| RoleState {
            frozen,
            build,
            standing,
            epoch,
            membership,
            storage,
            alarms,
        },
    )
}
