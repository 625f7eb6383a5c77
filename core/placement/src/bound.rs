//! Instances whose volumes are on a host: they run there or wait, and say for what. They are served before all
//! others, who may go elsewhere.

use crate::answer::{Choice, Obstacles, Unplaced};
use crate::constraint::holds;
use crate::problem::{Bound, Wanted};
use crate::room::{HostIdx, Room};
use echelon_core_model::reason::Shortfall;
use echelon_core_model::{InstanceId, InstanceNumber, Reason, ReasonCode, Resources};

/// What became of a group's bound instances.
#[derive(Debug, Default)]
pub struct Seated {
    /// Those that run where their volumes are.
    pub choices: Vec<Choice>,
    /// The others, each with its own reason.
    pub unplaced: Vec<Unplaced>,
}

/// Seats them by number.
pub fn seat(wanted: &Wanted, room: &mut Room<'_>) -> Seated {
    let mut out = Seated::default();
    let mut bound: Vec<&Bound> = wanted.bound.iter().collect();
    bound.sort_by_key(|b| b.number);
    for b in bound {
        match usable(wanted, b, room) {
            Ok(host) => out.choices.push(Choice {
                instance: instance(wanted, b.number),
                host: b.host.clone(),
                ports: room.take_parts(host, (wanted.beside_volume(), Resources::ZERO), &wanted.ports),
            }),
            Err((reason, hosts)) => out.unplaced.push(Unplaced {
                job: wanted.job,
                group: wanted.group.clone(),
                numbers: std::iter::once(b.number).collect(),
                reason,
                hosts,
            }),
        }
    }
    out
}

/// The host, if the instance can run there now; else why not. Only that host counts: the others cannot have it.
fn usable(wanted: &Wanted, b: &Bound, room: &Room<'_>) -> Result<HostIdx, (Reason, Obstacles)> {
    let name = &b.hostname;
    let because = |what: &str| Reason::new(ReasonCode::HostVolume).at(format!("{name}, which {what}"));
    let alone = Obstacles {
        hosts: 1,
        ..Obstacles::default()
    };
    let found = room.find(&b.host);
    let (Some(host), Some(view)) = (found, found.and_then(|h| room.views().get(h))) else {
        return Err((because("cannot be reached"), Obstacles { offer: 1, ..alone }));
    };
    let shape = wanted.beside_volume();
    if !wanted.constraints.iter().all(|r| holds(r, view)) {
        Err((
            because("breaks a constraint"),
            Obstacles {
                constraint: 1,
                ..alone
            },
        ))
    } else if view.draining {
        Err((
            because("is in planned maintenance"),
            Obstacles {
                maintenance: 1,
                ..alone
            },
        ))
    } else if !b.offered {
        Err((because("does not offer it"), Obstacles { offer: 1, ..alone }))
    } else if let Some(kind) = shape.first_lack(room.free(host)) {
        let short = Shortfall {
            kind,
            have: room.free(host).get(kind),
            need: shape.get(kind),
        };
        Err((
            because("has too little left").short(short),
            Obstacles { room: 1, ..alone },
        ))
    } else if room.ports(host, &wanted.ports).is_none() {
        Err((because("has not the ports"), Obstacles { ports: 1, ..alone }))
    } else {
        Ok(host)
    }
}

fn instance(wanted: &Wanted, number: InstanceNumber) -> InstanceId {
    InstanceId {
        job: wanted.job,
        group: wanted.group.clone(),
        number,
    }
}
