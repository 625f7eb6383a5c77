//! Why a shape has no host: judged when all places are given away, so that what is said is still true then.

use crate::answer::Obstacles;
use crate::constraint::Verdicts;
use crate::hint;
use crate::hosts::HostIdx;
use crate::neighbours::Others;
use crate::problem::Wanted;
use crate::room::Room;
use crate::rules::{Rule, Rules};
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::choose;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::siting::Constraint;
use echelon_core_model::{Kind, Reason, ReasonCode, Resources};

/// The first obstacle on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    Rule(Rule),
    Kept,
    Maintenance,
    Slack,
    Capacity,
    Room,
    Ports,
    UsedByOthers,
    OfferedToOthers,
    Offer,
}

impl Obstacle {
    /// Whether the host is closed to the group, whatever room it has.
    const fn closes(self) -> bool {
        matches!(self, Self::Rule(_) | Self::Kept | Self::Maintenance)
    }
}

/// The reason and the obstacles, host by host. `O(hosts)`, and as much again for each rule and kind that could be changed.
pub fn explain(
    rules: &Rules<'_>,
    others: &Others<'_>,
    room: &Room<'_>,
    sharing: &Sharing,
) -> (Reason, Obstacles) {
    let wanted = rules.wanted();
    let n = room.hosts().len();
    let mut obstacles = Obstacles {
        hosts: u32::try_from(n).unwrap_or(u32::MAX),
        ..Obstacles::default()
    };
    let mut counted = Lacking::default();
    let mut is_any_open = false;
    for host in 0..n {
        let (found, left) = obstacle(rules, host, room);
        *counter(&mut obstacles, found) += 1;
        if !found.closes() {
            is_any_open = true;
            counted.note(wanted.resources, left);
        }
    }
    let reason = if obstacles.hosts == 0 {
        ReasonCode::NoHosts.into()
    } else if obstacles.host_pool == obstacles.hosts {
        let (n, pool) = (obstacles.hosts, &wanted.siting.host_pool);
        Reason::new(ReasonCode::HostPool).at(format!("none of {n} hosts is in host pool {pool}"))
    } else if obstacles.constraint == obstacles.hosts {
        Reason::new(ReasonCode::HostConstraint).at(broken_rule(&wanted.constraints, room))
    } else if !is_any_open {
        Reason::new(closed(&obstacles)).at(obstacles.to_string())
    } else if obstacles.not_offered() > 0 {
        let mut offered = Lacking::default();
        let open = (0..n).filter(|host| !obstacle(rules, *host, room).0.closes());
        open.for_each(|h| offered.note(wanted.resources, at(wanted, h, room.offered(h), room)));
        not_offered(rules, room, &obstacles, offered, sharing)
    } else if obstacles.ports > 0 {
        Reason::new(ReasonCode::HostPorts).at(format!("{}; {obstacles}", ports_in_words(&wanted.ports)))
    } else {
        let code = if obstacles.slack > 0 {
            ReasonCode::HostSlack
        } else {
            ReasonCode::HostResources
        };
        counted.told(code, wanted.resources).at(obstacles.to_string())
    };
    (with_hint(reason, rules, (others, room)), obstacles)
}

/// Why hosts with enough room are not offered to us, by what their master has told last.
fn not_offered(
    rules: &Rules<'_>,
    room: &Room<'_>,
    obstacles: &Obstacles,
    offered: Lacking,
    sharing: &Sharing,
) -> Reason {
    let shape = rules.wanted().resources;
    let ours = (0..room.hosts().len()).fold(Resources::ZERO, |sum, host| {
        let used = room.view(host).map_or(Resources::ZERO, |view| view.used);
        sum.plus(used).plus(room.taken(host).0)
    });
    if let Some(limit) = sharing.limit_for(shape, ours) {
        let kind = limit.kind;
        let short = Shortfall {
            kind,
            have: limit.left(ours.get(kind)),
            need: shape.get(kind),
        };
        return Reason::new(ReasonCode::MesosQuota).short(short).at(format!(
            "the limit of role {} is {}",
            limit.role,
            kind.show(limit.limit)
        ));
    }
    if obstacles.offer > 0 {
        let reason = offered.told(ReasonCode::AwaitingOffer, shape);
        return reason.at(obstacles.to_string());
    }
    let code = if obstacles.offered_to_others > 0 {
        ReasonCode::OfferedToOthers
    } else {
        ReasonCode::UsedByOthers
    };
    let reason = offered.told(code, shape);
    let kind = reason.shortfall.as_ref().map(|short| short.kind);
    let roles = kind.map(|kind| sharing.roles_in_words(kind));
    reason.at(match roles.filter(|roles| !roles.is_empty()) {
        Some(roles) => format!("{roles}; {obstacles}"),
        None => obstacles.to_string(),
    })
}

/// What would let one of it begin, if it is not only an offer that is awaited.
fn with_hint(reason: Reason, rules: &Rules<'_>, (others, room): (&Others<'_>, &Room<'_>)) -> Reason {
    // That one more of a gang would find a host is no help to it.
    let is_of_mesos = matches!(
        reason.code,
        ReasonCode::AwaitingOffer
            | ReasonCode::MesosQuota
            | ReasonCode::UsedByOthers
            | ReasonCode::OfferedToOthers
            | ReasonCode::NoHosts
    );
    if rules.wanted().gang || is_of_mesos {
        return reason;
    }
    match (hint::smallest_change(rules, others, room), reason.detail.clone()) {
        (Some(change), Some(detail)) => reason.at(format!("{detail}; one would fit {change}")),
        (Some(change), None) => reason.at(format!("one would fit {change}")),
        (None, _) => reason,
    }
}

/// Why no host is left where each is closed: kept hosts and maintenance pass, so what is of the group itself is said first.
fn closed(o: &Obstacles) -> ReasonCode {
    let codes = [
        (o.max_per, ReasonCode::HostMaxPer),
        (o.exclusive, ReasonCode::HostExclusive),
        (o.anti_affinity, ReasonCode::HostAntiAffinity),
        (o.affinity, ReasonCode::HostAffinity),
        (o.maintenance, ReasonCode::HostMaintenance),
        (o.kept, ReasonCode::HostKept),
        (o.constraint, ReasonCode::HostConstraint),
    ];
    let found = codes.into_iter().find(|(n, _)| *n > 0);
    found.map_or(ReasonCode::HostPool, |(_, code)| code)
}

fn counter(of: &mut Obstacles, o: Obstacle) -> &mut u32 {
    match o {
        Obstacle::Rule(Rule::HostPool) => &mut of.host_pool,
        Obstacle::Rule(Rule::Constraint) => &mut of.constraint,
        Obstacle::Rule(Rule::Affinity) => &mut of.affinity,
        Obstacle::Rule(Rule::AntiAffinity) => &mut of.anti_affinity,
        Obstacle::Rule(Rule::Exclusive) => &mut of.exclusive,
        Obstacle::Rule(Rule::MaxPer) => &mut of.max_per,
        Obstacle::Kept => &mut of.kept,
        Obstacle::Maintenance => &mut of.maintenance,
        Obstacle::Slack => &mut of.slack,
        Obstacle::Capacity => &mut of.capacity,
        Obstacle::Room => &mut of.room,
        Obstacle::Ports => &mut of.ports,
        Obstacle::UsedByOthers => &mut of.used_by_others,
        Obstacle::OfferedToOthers => &mut of.offered_to_others,
        Obstacle::Offer => &mut of.offer,
    }
}

/// The first obstacle on a host, and what is left of one that is open, as the shape finds it.
fn obstacle(rules: &Rules<'_>, host: HostIdx, room: &Room<'_>) -> (Obstacle, Resources) {
    let wanted = rules.wanted();
    let Some(view) = room.view(host) else {
        return (Obstacle::Offer, Resources::ZERO);
    };
    let broken = rules.broken(host, room);
    let closed = if let Some(rule @ (Rule::HostPool | Rule::Constraint)) = broken {
        Some(Obstacle::Rule(rule))
    } else if wanted.is_kept_out(view) {
        Some(Obstacle::Kept)
    } else if view.draining {
        Some(Obstacle::Maintenance)
    } else {
        broken.map(Obstacle::Rule)
    };
    match closed {
        Some(closed) => (closed, Resources::ZERO),
        None => {
            let left = left(host, room);
            (
                lack(wanted, (host, view), left, room),
                at(wanted, host, left, room),
            )
        }
    }
}

/// What keeps an instance from a host that is open to it.
fn lack(
    wanted: &Wanted,
    (host, view): (HostIdx, &HostView),
    (left, slack_left): (Resources, Resources),
    room: &Room<'_>,
) -> Obstacle {
    let (need, lent) = wanted.parts(view);
    let (all, slack) = capacity(view);
    if !lent.fits(slack) {
        Obstacle::Slack
    } else if !need.fits(all) {
        Obstacle::Capacity
    } else if !need.fits(left) || !lent.fits(slack_left) {
        Obstacle::Room
    } else if lacks_ports(&wanted.ports, host, room) {
        Obstacle::Ports
    } else if !need.fits(left.minus(view.others.used)) {
        Obstacle::UsedByOthers
    } else if !need.fits(left.minus(view.others.sum())) {
        Obstacle::OfferedToOthers
    } else {
        Obstacle::Offer
    }
}

/// Whether a host has not these ports, offered or not. Of one that has not offered any yet that is not known.
fn lacks_ports(wishes: &[Option<u16>], host: HostIdx, room: &Room<'_>) -> bool {
    let left = room.view(host).and_then(|v| v.ports_left.as_ref());
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
fn capacity(view: &HostView) -> (Resources, Resources) {
    let lent = view.slack.free.plus(view.slack.used);
    (
        view.capacity.max_each(view.free.plus(view.used)),
        view.slack.capacity.max_each(lent),
    )
}

/// What our tasks, and the instances placed just now, leave of a host and of what it lends, offered or not.
pub fn left(host: HostIdx, room: &Room<'_>) -> (Resources, Resources) {
    let Some(view) = room.view(host) else {
        return Default::default();
    };
    let ((all, lent), (taken, slack_taken)) = (capacity(view), room.taken(host));
    (
        all.minus(view.used).minus(taken),
        lent.minus(view.slack.used).minus(slack_taken),
    )
}

/// Room of a host as a shape finds it: lent room where it takes that, else ordinary room.
fn at(
    wanted: &Wanted,
    host: HostIdx,
    (ordinary, lent): (Resources, Resources),
    room: &Room<'_>,
) -> Resources {
    let lends = room.view(host).map(|v| v.slack.capacity).unwrap_or_default();
    if wanted.revocable {
        lent.where_lent(lends, ordinary)
    } else {
        ordinary
    }
}

/// Of each kind how many hosts have too little, and the most that any of these has.
#[derive(Debug, Clone, Copy, Default)]
struct Lacking([(u32, u64); 4]);

impl Lacking {
    fn note(&mut self, shape: Resources, room: Resources) {
        for (kind, (hosts, most)) in Kind::ALL.into_iter().zip(&mut self.0) {
            let have = room.get(kind);
            if have < shape.get(kind) {
                *hosts += 1;
                *most = have.max(*most);
            }
        }
    }

    /// The scarcest kind: the one that most hosts lack, and the most that any of these has of it, so that `have` is always less
    /// than `need`. Ties go to the earlier kind.
    fn told(self, code: ReasonCode, shape: Resources) -> Reason {
        let kinds = Kind::ALL.into_iter().zip(self.0).rev();
        let scarce = kinds.max_by_key(|(_, (hosts, _))| *hosts);
        match scarce.filter(|(_, (hosts, _))| *hosts > 0) {
            Some((kind, (_, have))) => Reason::new(code).short(Shortfall {
                kind,
                have,
                need: shape.get(kind),
            }),
            None => code.into(),
        }
    }
}

/// The first rule that no host meets, in words; else that no host meets them all.
fn broken_rule(rules: &[Constraint], room: &Room<'_>) -> String {
    let n = room.hosts().len();
    let impossible = |rule: &&Constraint| {
        let verdicts = Verdicts::new(rule, room.hosts());
        !(0..n).any(|h| room.view(h).is_some_and(|v| verdicts.holds(h, v)))
    };
    match rules.iter().find(impossible) {
        Some(rule) => format!("none of {n} hosts has {rule}"),
        None => format!("none of {n} hosts meets all {} constraints", rules.len()),
    }
}
