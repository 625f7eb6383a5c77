//! Hosts and work to measure placement with, from a seed.

use echelon_core_model::cluster::{HostView, Slack};
use echelon_core_model::sharing::Others;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Test};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, HostPoolName, JobId, PortSet, Resources};
use echelon_core_placement::{Hosts, Neighbour, Wanted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How much of each host is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Empty,
    Half,
    NearlyFull,
}

impl Fill {
    pub(super) const ALL: [Self; 3] = [Self::Empty, Self::Half, Self::NearlyFull];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Half => "half full",
            Self::NearlyFull => "nearly full",
        }
    }

    /// Hundredths of a host that are taken at least, and how many more at most.
    const fn hundredths(self) -> (u64, u64) {
        match self {
            Self::Empty => (0, 1),
            Self::Half => (25, 50),
            Self::NearlyFull => (90, 10),
        }
    }
}

/// A stream of numbers.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) const fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A host's id as Mesos makes them: most of it is the same for all.
pub(super) fn id(n: u32) -> HostId {
    HostId::new(format!("5f1c9f7e-6f2b-4e07-9d53-2b1d5f0c7a11-S{n}"))
}

/// Hosts of two sizes in three zones, forty a rack, every tenth with eight GPUs that are kept for work that asks for some.
pub(super) fn hosts(n: u32, fill: Fill) -> Hosts {
    let mut dice = Dice(7);
    Hosts::new((0..n).map(|h| host(h, fill, &mut dice)))
}

fn host(n: u32, fill: Fill, dice: &mut Dice) -> HostView {
    let large = 1 + dice.below(2);
    let gpus = if n.is_multiple_of(10) { 8_000 } else { 0 };
    let capacity = Resources {
        cpus: 32_000 * large,
        memory: 131_072 * large,
        disk: 1_000_000,
        gpus,
    };
    let (least, more) = fill.hundredths();
    let taken = least + dice.below(more);
    let used = Resources {
        cpus: capacity.cpus * taken / 100,
        memory: capacity.memory * (least + dice.below(more)) / 100,
        ..Resources::ZERO
    };
    let attributes = [
        ("zone", format!("z{}", n % 3)),
        ("rack", format!("r{}", n / 40)),
        ("cores", format!("{}", 32 * large)),
    ];
    let attributes: BTreeMap<String, String> = attributes
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text))
        .collect();
    HostView {
        id: id(n),
        hostname: Arc::from(format!("host-{n}.example")),
        attributes: Arc::new(attributes),
        host_pool: HostPoolName::default(),
        free: capacity.minus(used),
        capacity,
        used,
        slack: Slack::default(),
        draining: false,
        kept: gpus > 0,
        others: Others::default(),
        ports: PortSet::new(),
        ports_left: None,
    }
}

fn group(kind: JobKind, instances: u32, resources: Resources) -> Wanted {
    Wanted::plain(JobId(1), kind, instances, resources)
}

/// Work of one shape.
pub(super) fn batch(instances: u32) -> Wanted {
    let shape = Resources {
        cpus: 500,
        memory: 1_024,
        ..Resources::ZERO
    };
    group(JobKind::Batch, instances, shape)
}

/// The same on two thirds of the hosts, those that are large.
pub(super) fn constrained(instances: u32) -> Wanted {
    let mut wanted = batch(instances);
    wanted.constraints = vec![
        Constraint::one_of("zone", &["z0", "z1"]),
        Constraint {
            attribute: "cores".to_owned(),
            test: Test::Compares(Comparison::AtLeast, Number(64_000_000)),
            negate: false,
        },
    ];
    wanted
}

/// A service that is spread over zones and keeps away from another.
pub(super) fn service(instances: u32) -> Wanted {
    let mut wanted = Wanted {
        kind: JobKind::Service,
        ..batch(instances)
    };
    wanted.siting.spread_over = vec!["zone".to_owned()];
    wanted.siting.max_per = [("hostname".to_owned(), 1)].into();
    wanted.siting.anti_affinity = vec![Affinity {
        labels: [("app".to_owned(), "noisy".to_owned())].into(),
        topology: "hostname".to_owned(),
        weight: None,
    }];
    wanted
}

/// What the service keeps away from, on every fiftieth host.
pub(super) fn noisy(hosts: u32) -> Neighbour {
    Neighbour {
        job: JobId(2),
        labels: Arc::new([("app".to_owned(), "noisy".to_owned())].into()),
        exclusive: false,
        away_from: Vec::new(),
        hosts: (0..hosts).step_by(50).map(id).collect(),
    }
}

/// A gang with a GPU for each instance.
pub(super) fn gang(instances: u32, gpus: u64) -> Wanted {
    let shape = Resources {
        cpus: 2_000,
        memory: 8_192,
        disk: 0,
        gpus: gpus * 1_000,
    };
    Wanted {
        gang: true,
        ..group(JobKind::Batch, instances, shape)
    }
}
