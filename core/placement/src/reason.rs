//! Why a shape has no host: judged when all places are given away, so that what is said is still true then.

use crate::answer::Obstacles;
use crate::constraint::holds;
use crate::problem::Wanted;
use crate::room::{HostIdx, Room};
use echelon_core_model::ports::choose;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::siting::Constraint;
use echelon_core_model::{Kind, Reason, ReasonCode, Resources};

/// The reason and the obstacles, host by host. `O(hosts)`.
pub fn explain(wanted: &Wanted, room: &Room<'_>) -> (Reason, Obstacles) {
    let (shape, rules) = (wanted.resources, wanted.constraints.as_slice());
    let passing: Vec<HostIdx> = room
        .views()
        .iter()
        .enumerate()
        .filter(|(_, view)| rules.iter().all(|r| holds(r, view)))
        .map(|(h, _)| h)
        .collect();
    let kept_out = |h: &HostIdx| room.views().get(*h).is_some_and(|v| wanted.is_kept_out(v));
    let (kept, usable): (Vec<HostIdx>, Vec<HostIdx>) = passing.iter().partition(|h| kept_out(h));
    let draining = |h: &HostIdx| room.views().get(*h).is_some_and(|v| v.draining);
    let (away, open): (Vec<HostIdx>, Vec<HostIdx>) = usable.iter().partition(|h| draining(h));
    let obstacles = Obstacles {
        constraint: number(room.views().len() - passing.len()),
        kept: number(kept.len()),
        maintenance: number(away.len()),
        ..count(wanted, &open, room)
    };
    let reason = if obstacles.hosts == 0 {
        ReasonCode::NoHosts.into()
    } else if passing.is_empty() {
        Reason::new(ReasonCode::HostConstraint).at(broken_rule(rules, room))
    } else if usable.is_empty() {
        Reason::new(ReasonCode::HostKept).at(obstacles.to_string())
    } else if open.is_empty() {
        Reason::new(ReasonCode::HostMaintenance).at(obstacles.to_string())
    } else if obstacles.offer > 0 {
        let offered = open.iter().map(|h| found(wanted, *h, room.offered(*h), room));
        short(ReasonCode::AwaitingOffer, shape, offered).at(obstacles.to_string())
    } else if obstacles.ports > 0 {
        Reason::new(ReasonCode::HostPorts).at(format!("{}; {obstacles}", ports_in_words(&wanted.ports)))
    } else {
        let code = if obstacles.slack > 0 {
            ReasonCode::HostSlack
        } else {
            ReasonCode::HostResources
        };
        let counted = open.iter().map(|h| found(wanted, *h, left(*h, room), room));
        short(code, shape, counted).at(obstacles.to_string())
    };
    (reason, obstacles)
}

fn count(wanted: &Wanted, open: &[HostIdx], room: &Room<'_>) -> Obstacles {
    let mut out = Obstacles {
        hosts: number(room.views().len()),
        ..Obstacles::default()
    };
    for host in open {
        let Some(view) = room.views().get(*host) else {
            continue;
        };
        let (need, lent) = wanted.parts(view);
        let ((all, slack), (left, slack_left)) = (capacity(*host, room), left(*host, room));
        if !lent.fits(slack) {
            out.slack += 1;
        } else if !need.fits(all) {
            out.capacity += 1;
        } else if !need.fits(left) || !lent.fits(slack_left) {
            out.room += 1;
        } else if lacks_ports(&wanted.ports, *host, room) {
            out.ports += 1;
        } else {
            out.offer += 1;
        }
    }
    out
}

/// Whether a host has not these ports, offered or not. Of one that has not offered any yet that is not known.
fn lacks_ports(wishes: &[Option<u16>], host: HostIdx, room: &Room<'_>) -> bool {
    let left = room.views().get(host).and_then(|v| v.ports_left.as_ref());
    !wishes.is_empty()
        && left.is_some_and(|left| choose(wishes, &left.minus(&room.ports_taken(host))).is_none())
}

/// The ports that are asked for: the certain ones, and how many others.
fn ports_in_words(wishes: &[Option<u16>]) -> String {
    let mut parts: Vec<String> = wishes.iter().flatten().map(|p| format!("port {p}")).collect();
    match wishes.iter().filter(|w| w.is_none()).count() {
        0 => {}
        1 => parts.push("1 free port".to_owned()),
        n => parts.push(format!("{n} free ports")),
    }
    format!("needs {}", parts.join(", "))
}

/// All that a host has, and all that it lends. What is known of both may lag behind what it offers.
fn capacity(host: HostIdx, room: &Room<'_>) -> (Resources, Resources) {
    let known = room.views().get(host).map(|v| {
        let all = v.capacity.max_each(v.free.plus(v.used));
        let lent = v.slack.capacity.max_each(v.slack.free.plus(v.slack.used));
        (all, lent)
    });
    known.unwrap_or_default()
}

/// What our tasks, and the instances placed just now, leave of a host and of what it lends, offered or not.
fn left(host: HostIdx, room: &Room<'_>) -> (Resources, Resources) {
    let used = room.views().get(host).map(|v| (v.used, v.slack.used));
    let ((all, lent), (used, lent_used)) = (capacity(host, room), used.unwrap_or_default());
    (
        all.minus(used).minus(room.taken(host)),
        lent.minus(lent_used).minus(room.slack_taken(host)),
    )
}

/// Room of a host as a shape finds it: lent room where it takes that, else ordinary room.
fn found(
    wanted: &Wanted,
    host: HostIdx,
    (ordinary, lent): (Resources, Resources),
    room: &Room<'_>,
) -> Resources {
    let lends = room
        .views()
        .get(host)
        .map(|v| v.slack.capacity)
        .unwrap_or_default();
    if wanted.revocable {
        lent.where_lent(lends, ordinary)
    } else {
        ordinary
    }
}

/// The scarcest kind: the one that most hosts lack, and the most that any of these has of it, so that `have` is always less
/// than `need`. Ties go to the earlier kind.
fn short(code: ReasonCode, shape: Resources, rooms: impl Iterator<Item = Resources> + Clone) -> Reason {
    let lacking = |kind: Kind| {
        rooms
            .clone()
            .map(move |r| r.get(kind))
            .filter(move |have| *have < shape.get(kind))
    };
    let scarce = Kind::ALL
        .into_iter()
        .rev()
        .max_by_key(|kind| lacking(*kind).count());
    match scarce.and_then(|kind| Some((kind, lacking(kind).max()?))) {
        Some((kind, have)) => Reason::new(code).short(Shortfall {
            kind,
            have,
            need: shape.get(kind),
        }),
        None => code.into(),
    }
}

/// The first rule that no host meets, in words; else that no host meets them all.
fn broken_rule(rules: &[Constraint], room: &Room<'_>) -> String {
    let hosts = room.views().len();
    let impossible = |rule: &&Constraint| !room.views().iter().any(|v| holds(rule, v));
    match rules.iter().find(impossible) {
        Some(rule) => format!("none of {hosts} hosts has {rule}"),
        None => format!("none of {hosts} hosts meets all {} constraints", rules.len()),
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
