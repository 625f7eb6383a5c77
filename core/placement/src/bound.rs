//! Instances whose volumes are on a host: they run there or wait, and say for what. They are served before all
//! others, who may go elsewhere.

use crate::answer::{Choice, Obstacles, Unplaced};
use crate::hosts::HostIdx;
use crate::problem::{Bound, Wanted};
use crate::room::Room;
use crate::rules::{Rule, Rules};
use echelon_core_model::reason::Shortfall;
use echelon_core_model::{InstanceId, InstanceNumber, Reason, ReasonCode, Resources};

/// What became of a group's bound instances.
#[derive(Debug, Default)]
pub struct Seated {
    /// Those that run where their volumes are.
    pub choices: Vec<Choice>,
    /// Where.
    pub hosts: Vec<HostIdx>,
    /// The others, each with its own reason.
    pub unplaced: Vec<Unplaced>,
}

/// Seats them by number.
pub fn seat(mut rules: Rules<'_>, room: &mut Room<'_>) -> Seated {
    let mut out = Seated::default();
    let wanted = rules.wanted();
    let mut bound: Vec<&Bound> = wanted.bound.iter().collect();
    bound.sort_by_key(|b| b.number);
    for b in bound {
        match usable(&rules, b, room) {
            Ok(host) => {
                out.choices.push(Choice {
                    instance: instance(wanted, b.number),
                    host: b.host.clone(),
                    ports: room.take_parts(host, (wanted.beside_volume(), Resources::ZERO), &wanted.ports),
                });
                out.hosts.push(host);
                rules.seated(host);
            }
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
fn usable(rules: &Rules<'_>, b: &Bound, room: &Room<'_>) -> Result<HostIdx, (Reason, Obstacles)> {
    let wanted = rules.wanted();
    let name = &b.hostname;
    let because = |what: &str| Reason::new(ReasonCode::HostVolume).at(format!("{name}, which {what}"));
    let one = |count: fn(&mut Obstacles) -> &mut u32| {
        let mut alone = Obstacles {
            hosts: 1,
            ..Obstacles::default()
        };
        *count(&mut alone) = 1;
        alone
    };
    let found = room.find(&b.host);
    let (Some(host), Some(view)) = (found, found.and_then(|h| room.view(h))) else {
        return Err((because("cannot be reached"), one(|o| &mut o.offer)));
    };
    let shape = wanted.beside_volume();
    let (free, _) = room.offered(host);
    let broken = rules.broken(host, room);
    if broken == Some(Rule::HostPool) {
        Err((because("is in another host pool"), one(|o| &mut o.host_pool)))
    } else if broken == Some(Rule::Constraint) {
        Err((because("breaks a constraint"), one(|o| &mut o.constraint)))
    } else if view.draining {
        Err((because("is in planned maintenance"), one(|o| &mut o.maintenance)))
    } else if let Some(rule) = broken {
        let (what, count) = match rule {
            Rule::Affinity => (
                "is far from what it wants to be near to",
                one(|o| &mut o.affinity),
            ),
            Rule::AntiAffinity => (
                "is near to what it is kept away from",
                one(|o| &mut o.anti_affinity),
            ),
            Rule::Exclusive => ("would be shared with others", one(|o| &mut o.exclusive)),
            Rule::MaxPer | Rule::Constraint | Rule::HostPool => {
                ("has as many of it as may be there", one(|o| &mut o.max_per))
            }
        };
        Err((because(what), count))
    } else if !b.offered {
        Err((because("does not offer it"), one(|o| &mut o.offer)))
    } else if let Some(kind) = shape.first_lack(free) {
        let short = Shortfall {
            kind,
            have: free.get(kind),
            need: shape.get(kind),
        };
        Err((because("has too little left").short(short), one(|o| &mut o.room)))
    } else if room.ports(host, &wanted.ports).is_none() {
        Err((because("has not the ports"), one(|o| &mut o.ports)))
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
