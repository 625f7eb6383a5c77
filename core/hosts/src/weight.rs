//! How many bytes a call takes while it waits for its cluster. What is under way is bounded by them, and a
//! launch is begun only while there is room for its call. A weight is an upper bound for texts, and near
//! enough for the rest.

use crate::{Call, Launch, Reservations, ReservedRoom};
use echelon_core_model::environment::most_bytes;
use echelon_core_model::gang::Peers;
use echelon_core_model::overrides::Override;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::runtime::{Container, Network, Probe, ProbeKind, Runtime};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use std::collections::BTreeMap;

/// What a part of a call takes beside its text.
const PART: usize = 64;

/// The most that a task takes beside what its spec says: the variables that it is given, its id and its
/// names.
const TASK: usize = 4 * 1024;

/// What a call takes beside its entries, and each entry beside its text.
const CALL: usize = 192;

/// Offers that one launch uses at most, for its bound: a host has one or two.
const OFFERS: usize = 8;

/// The most that the reservations of one launch take.
const RESERVED: usize = ReservedRoom::MOST * (CALL + Reservations::MOST_BYTES);

impl Launch {
    /// The bytes that it takes, as it is.
    #[must_use]
    pub fn weight(&self) -> usize {
        let sidecars = self.sidecars.iter().map(|s| runtime(&s.runtime, str::len) + CALL);
        let ports = self.ports.iter().map(|p| p.name.len() + PART);
        CALL + runtime(&self.runtime, str::len)
            + texts(&self.labels, str::len)
            + ports.sum::<usize>()
            + sidecars.sum::<usize>()
            + self
                .reserved
                .iter()
                .map(|part| CALL + part.by.bytes())
                .sum::<usize>()
    }
}

impl Call {
    /// The bytes that it takes while it waits, as it is.
    #[must_use]
    pub fn weight(&self) -> usize {
        CALL + match self {
            Self::Accept { offers, launches, .. } => {
                offers.len() * PART + launches.iter().map(Launch::weight).sum::<usize>()
            }
            Self::Decline { offers, .. } | Self::AnswerInverse { offers, .. } => offers.len() * PART,
            Self::Discard { offers, reserved, .. } => (offers.len() + reserved.len()) * CALL,
            Self::Reconcile { tasks } => tasks.len() * CALL,
            Self::ReadFlags { address, .. } => address.len(),
            _ => 0,
        }
    }
}

/// The most bytes that the launch of an instance of a group takes, with all that references in its variables
/// stand for.
#[must_use]
pub fn most_of_launch(job: &JobSpec, group: &GroupSpec) -> usize {
    let members = if job.gang.is_some() {
        let all = job.groups.iter().map(|g| u64::from(g.instances));
        usize::try_from(all.sum::<u64>()).unwrap_or(usize::MAX)
    } else {
        1
    };
    let expanded = |value: &str| most_bytes(value, |name| Peers::longest(name, members));
    // What members of a gang are told of each other: all lists together are no longer than the longest one
    // may be.
    let peers = if job.gang.is_some() {
        Peers::longest("ECHELON_GANG_HOSTS", members)
    } else {
        0
    };
    let overrides = group.overrides.iter().map(|o| of_override(o, expanded));
    let sidecar = |s: &Sidecar| TASK + peers + runtime(&s.runtime, expanded);
    let ports = group.runtime.ports.iter().map(|p| 4 * (p.name.len() + PART));
    // It may have a call of its own.
    CALL + OFFERS * PART
        + RESERVED
        + TASK
        + peers
        + runtime(&group.runtime, expanded)
        + overrides.max().unwrap_or(0)
        + texts(&job.labels, str::len)
        + ports.sum::<usize>() * (1 + group.sidecars.len())
        + group.sidecars.iter().map(sidecar).sum::<usize>()
}

fn runtime(of: &Runtime, value: impl Fn(&str) -> usize) -> usize {
    let secrets = of.secrets.iter();
    let secrets = secrets.map(|(name, secret)| name.len() + secret.name.len() + secret.key.len() + PART);
    let probes = of.health.iter().map(|h| &h.probe).chain(&of.readiness);
    of.command.len()
        + list(of.args.as_deref())
        + list(of.entrypoint.as_deref())
        + texts(&of.env, value)
        + secrets.sum::<usize>()
        + of.user.len()
        + of.working_dir.len()
        + of.uris.iter().map(|u| u.uri.len() + PART).sum::<usize>()
        + of.container.as_ref().map_or(0, container)
        + probes.map(probe).sum::<usize>()
}

fn of_override(of: &Override, value: impl Fn(&str) -> usize) -> usize {
    of.command.len()
        + list(of.args.as_deref())
        + list(of.entrypoint.as_deref())
        + texts(&of.env, value)
        + of.working_dir.len()
        + of.uris.iter().map(|u| u.uri.len() + PART).sum::<usize>()
}

fn container(of: &Container) -> usize {
    let network = match &of.network {
        Network::Named(name) => name.len(),
        Network::Host | Network::Bridge | Network::None => 0,
    };
    PART + of.image.len() + network + of.hostname.len() + of.volumes.len() * CALL
}

fn probe(of: &Probe) -> usize {
    PART + match &of.kind {
        ProbeKind::Command(line) => line.len(),
        ProbeKind::Http { path, .. } => path.len(),
        ProbeKind::Tcp { .. } => 0,
    }
}

fn list(of: Option<&[String]>) -> usize {
    of.unwrap_or(&[]).iter().map(|text| text.len() + PART).sum()
}

fn texts(of: &BTreeMap<String, String>, value: impl Fn(&str) -> usize) -> usize {
    let each = of.iter().map(|(name, text)| name.len() + value(text) + PART);
    each.fold(0, usize::saturating_add)
}
