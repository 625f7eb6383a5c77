//! What placement is asked: instances to place, by group, and the hosts of one moment. Owned, so that it can travel to a
//! worker thread. Made by `core/shard` from its picture and from `core/hosts`.

use crate::hosts::Hosts;
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::PortWishes;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::siting::{Affinity, Constraint, Siting};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{GroupName, HostId, InstanceNumber, JobId, Resources};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problem {
    /// Chosen by who asks, copied into the answer.
    pub token: u64,
    /// Groups with instances to place, each group and version at most once; in any order.
    pub groups: Vec<Wanted>,
    /// The hosts.
    pub hosts: Arc<Hosts>,
    /// Those of them that are otherwise in this question only: what is held for somebody is set aside.
    pub otherwise: Vec<HostView>,
    /// How their cluster is shared with other frameworks.
    pub sharing: Sharing,
    /// What is on hosts of groups that any of these minds, or that mind others. Of a group's own job none of it counts.
    pub others: Vec<Neighbour>,
}

/// What a group has on hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// Its job.
    pub job: JobId,
    /// The job's labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// It wants its hosts for its job.
    pub exclusive: bool,
    /// What it has to be away from.
    pub away_from: Vec<Affinity>,
    /// Where it has any.
    pub hosts: Vec<HostId>,
}

impl Neighbour {
    /// Whether it keeps others away.
    #[must_use]
    pub const fn minds(&self) -> bool {
        self.exclusive || !self.away_from.is_empty()
    }
}

/// The instances of one group that want a host. Groups are served by priority (higher first), then age (the job id tells
/// it), then name; the instances of a group by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Tells wishes of one group from each other that have different shapes, as while it is being updated.
    pub version: u32,
    /// Chooses the strategy: batch is packed, services are spread.
    pub kind: JobKind,
    /// All groups of its job in the problem are placed, or none of them; they all say so.
    pub gang: bool,
    /// Where the members of its gang are to be together; they all say the same.
    pub together: Together,
    /// Higher goes first.
    pub priority: u32,
    /// Room of one instance.
    pub resources: Resources,
    /// It runs on what hosts lend: processor time always, other kinds where a host lends any.
    pub revocable: bool,
    /// Ports of one instance.
    pub ports: PortWishes,
    /// The job's labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Rules about hosts, all of which must hold.
    pub constraints: Vec<Constraint>,
    /// What its instances want of each other and of other jobs, and where they would best be.
    pub siting: Siting,
    /// The instances, each at most once.
    pub items: Vec<Item>,
    /// Instances that can only be where their volumes are; none of these is among the items.
    pub bound: Vec<Bound>,
    /// The part of `resources` that a bound instance has already: its volume.
    pub held: Resources,
    /// Tasks of this group that hosts have already, or that are about to be launched there; hosts without any may be left out.
    pub present: BTreeMap<HostId, u32>,
}

/// Where the members of a gang are to be together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Together {
    /// Attributes of hosts, the nearest first.
    pub levels: Vec<String>,
    /// By one of them at least.
    pub required: bool,
    /// Hosts of members that are not to be placed.
    pub with: BTreeSet<HostId>,
}

/// One instance to place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Its number within the group.
    pub number: InstanceNumber,
    /// Hosts that are used only when no other host fits.
    pub avoid: Vec<HostId>,
    /// The host of the run that it replaces, which was there a moment ago: it goes back there, before anybody else is served, where
    /// no other host is better by its rules.
    pub former: Option<HostId>,
}

/// An instance that can only be where its volume is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bound {
    /// Its number within the group.
    pub number: InstanceNumber,
    /// The host that has the volume.
    pub host: HostId,
    /// The host's name, for people.
    pub hostname: Arc<str>,
    /// Whether the host offers the volume at the moment.
    pub offered: bool,
}

impl Wanted {
    /// Instances of a job's only group, from 0 on, that ask for room and for nothing else.
    #[must_use]
    pub fn plain(job: JobId, kind: JobKind, instances: u32, resources: Resources) -> Self {
        let items = (0..instances).map(|n| Item {
            number: InstanceNumber(n),
            avoid: Vec::new(),
            former: None,
        });
        Self {
            job,
            group: GroupName::new(GroupName::DEFAULT),
            version: 1,
            kind,
            gang: false,
            together: Together::default(),
            priority: 0,
            resources,
            revocable: false,
            ports: Vec::new(),
            labels: Arc::default(),
            constraints: Vec::new(),
            siting: Siting::default(),
            items: items.collect(),
            bound: Vec::new(),
            held: Resources::ZERO,
            present: BTreeMap::new(),
        }
    }

    /// Whether any instance is to be placed.
    #[must_use]
    pub const fn wants_any(&self) -> bool {
        !self.items.is_empty() || !self.bound.is_empty()
    }

    /// What an instance takes of a host: of its ordinary room, and of what it lends.
    #[must_use]
    pub fn parts(&self, host: &HostView) -> (Resources, Resources) {
        if self.revocable {
            let lent = self.resources.lent_part(host.slack.capacity);
            (self.resources.minus(lent), lent)
        } else {
            (self.resources, Resources::ZERO)
        }
    }

    /// Whether a host is set aside for others: one with GPUs, when this asks for none and does not belong on every host.
    #[must_use]
    pub fn is_kept_out(&self, host: &HostView) -> bool {
        self.is_set_aside(host.kept)
    }

    fn is_set_aside(&self, kept: bool) -> bool {
        kept && self.resources.gpus == 0 && self.kind != JobKind::Daemon
    }

    /// Whether a host with so much ordinary room may have a place for one, as far as that tells.
    #[must_use]
    pub(crate) fn may_fit(&self, free: Resources, kept: bool) -> bool {
        !self.is_set_aside(kept) && (self.revocable || self.resources.fits(free))
    }

    /// Whether a host is in a host pool whose hosts this may use.
    #[must_use]
    pub fn may_use_pool_of(&self, host: &HostView) -> bool {
        self.siting.host_pool.lets(&host.host_pool)
    }

    /// Room that a bound instance needs beside its volume.
    #[must_use]
    pub fn beside_volume(&self) -> Resources {
        self.resources.minus(self.held)
    }
}

impl Problem {
    /// How many instances are to be placed.
    #[must_use]
    pub fn items(&self) -> usize {
        self.groups.iter().map(|g| g.items.len() + g.bound.len()).sum()
    }
}
