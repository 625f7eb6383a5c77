//! Clusters: the desired state that a command sets, what the resource manager observes, what a shard reports
//! of itself, and hosts.

use crate::directive::Capacity;
use crate::drain::{AgentDrain, DrainState, Drains};
use crate::forgotten::ForgottenHosts;
use crate::health::{ClusterHealth, DeclaredHealth, ShardSigns};
use crate::host_pool::{HostPlace, HostPoolWishes};
use crate::id::{ClusterId, Epoch, HostId, HostPoolName, Version, VolumeId};
use crate::ports::PortSet;
use crate::resources::Resources;
use crate::sharing::{AgentState, Others, Sharing};
use crate::time::Timestamp;
use crate::volume::{HostVolume, VolumeWish};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What operators want of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DesiredState {
    /// Takes work.
    #[default]
    Active,
    /// Takes nothing new.
    Cordoned,
    /// Work moves off.
    Draining,
    /// It is to go for good: all of its work moves off or ends, then its shard leaves Mesos and deletes what is
    /// stored of it.
    Removing,
    /// It is gone for good. Its name may be used again, its id may not.
    Removed,
}

impl DesiredState {
    /// The word of API and command line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Removing => "removing",
            Self::Removed => "removed",
        }
    }

    /// Whether work is to leave it.
    #[must_use]
    pub const fn moves_work_off(self) -> bool {
        matches!(self, Self::Draining | Self::Removing)
    }
}

/// A cluster as it was added. Decided by any gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Made when it is added, never used again.
    pub id: ClusterId,
    /// Its name, for people and job files.
    pub name: String,
    /// Counts the writes of this row, from 1.
    pub version: Version,
    /// What operators want of it.
    pub desired_state: DesiredState,
    /// Where its Mesos master is.
    pub mesos: String,
    /// Labels for filters.
    pub labels: BTreeMap<String, String>,
    /// The largest number of a mass loss that an operator has accepted; 0: none.
    pub accepted_loss: u64,
    /// What an operator has declared of a silence; `None`: nothing yet.
    pub declared: Option<DeclaredHealth>,
    /// What is wanted of volumes that no instance holds.
    pub volumes: BTreeMap<VolumeId, VolumeWish>,
    /// Hosts that are to be empty.
    pub drains: Drains,
    /// Its host pools, and hosts that are to go to another.
    pub host_pools: HostPoolWishes,
    /// Hosts that never return.
    pub forgotten: ForgottenHosts,
}

impl Cluster {
    /// A new cluster that takes work.
    #[must_use]
    pub fn new(id: ClusterId, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            version: Version(1),
            desired_state: DesiredState::Active,
            mesos: String::new(),
            labels: BTreeMap::new(),
            accepted_loss: 0,
            declared: None,
            volumes: BTreeMap::new(),
            drains: Drains::default(),
            host_pools: HostPoolWishes::default(),
            forgotten: ForgottenHosts::default(),
        }
    }

    /// The id of a new cluster: its name, unless another one has that as its id. An id is never used again,
    /// so `known` has the clusters that were removed, too.
    #[must_use]
    pub fn fresh_id(known: &[Self], name: &str) -> ClusterId {
        let mut id = ClusterId::new(name);
        let mut number = 1u64;
        while known.iter().any(|cluster| cluster.id == id) {
            number += 1;
            id = ClusterId::new(format!("{name}-{number}"));
        }
        id
    }

    /// Whether it is one of this name that was not removed.
    #[must_use]
    pub fn is_present_as(&self, name: &str) -> bool {
        self.name == name && self.desired_state != DesiredState::Removed
    }
}

/// A question what would become of a cluster's work. With `Removing` and `is_lost` it is removed without its
/// shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterQuestion {
    /// The cluster. It need not exist yet.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// The desired state that it would have.
    pub desired: DesiredState,
    /// The labels that it would have.
    pub labels: BTreeMap<String, String>,
    /// Whether it would be lost, at once and for good.
    pub is_lost: bool,
}

/// What the resource manager observes of a cluster. Owned by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its health.
    pub health: ClusterHealth,
    /// What its shard has reported last of its hosts; none: it has never reported.
    pub reported: Option<ReportedCapacity>,
}

/// What a shard has reported of its cluster's hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCapacity {
    /// What they have.
    pub total: Resources,
    /// Used by our tasks.
    pub used: Resources,
    /// How many there are.
    pub hosts: u32,
    /// The most of each kind on one of them.
    pub largest_host: Resources,
    /// How the cluster is shared with other frameworks.
    pub sharing: Sharing,
}

impl From<&Capacity> for ReportedCapacity {
    fn from(of: &Capacity) -> Self {
        Self {
            total: of.total,
            used: of.used,
            hosts: of.hosts,
            largest_host: of.largest_host,
            sharing: of.sharing.clone(),
        }
    }
}

/// So many of a cluster's running tasks were answered gone or unknown at once that nothing is replaced, until they come back
/// or an operator accepts the loss. Owned by the shard's leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MassLoss {
    /// Names it; larger than that of any earlier one of the cluster.
    pub number: u64,
    /// When it was noticed.
    pub since: Timestamp,
    /// Tasks known to run just before.
    pub running: u64,
    /// Most of them that were lost.
    pub lost: u64,
    /// Those that are neither back nor ended.
    pub missing: u64,
}

/// A shard leader's heartbeat. Owned by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The cluster.
    pub cluster: ClusterId,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// When it was written.
    pub at: Timestamp,
    /// What it observes of itself and its cluster.
    pub signs: ShardSigns,
    /// Where the leader listens, for gateways.
    pub address: String,
    /// Why Mesos cannot be driven, or that the shard is frozen, for people; none while all is well.
    pub trouble: Option<String>,
    /// The mass loss for which replacements wait.
    pub loss: Option<MassLoss>,
    /// Since when it has heard no resource manager; none while it hears one, or did a moment ago.
    pub no_manager_since: Option<Timestamp>,
}

/// When a host is planned to be away (Mesos rule R129).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Maintenance {
    /// From when.
    pub from: Timestamp,
    /// Until when; `None`: it has no planned end.
    pub until: Option<Timestamp>,
}

/// A host as its shard sees it. Owned by the shard's leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its Mesos agent.
    pub id: HostId,
    /// Its name.
    pub hostname: String,
    /// Where its agent listens: `host:port`.
    pub address: String,
    /// All that it has for us, as its master lists it, or else the most that was ever seen.
    pub capacity: Resources,
    /// Taken by our tasks.
    pub used: Resources,
    /// Our tasks on it.
    pub tasks: u32,
    /// Attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// Whether Mesos lost contact with it.
    pub reachable: bool,
    /// When it was last seen in an offer, an update or the list of all agents.
    pub seen_at: Timestamp,
    /// Planned maintenance.
    pub maintenance: Option<Maintenance>,
    /// Persistent volumes of our role, by id.
    pub volumes: Vec<HostVolume>,
    /// How far it is emptied, if that is wanted.
    pub drain: Option<DrainState>,
    /// Its host pool.
    pub place: HostPlace,
    /// What of it the row has no place for.
    pub left_out: LeftOut,
    /// What other frameworks hold of it, as its master listed it last.
    pub others: Others,
    /// Whether Mesos offers what it has.
    pub agent: AgentState,
}

/// How much of a host did not fit into its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Attributes.
    pub attributes: u32,
    /// Volumes.
    pub volumes: u32,
}

/// What is left of the place that a row has for a list.
struct Place {
    items: usize,
    bytes: usize,
}

impl Place {
    /// Whether an item of so many bytes fits. One that does not takes no place, so those behind it still may.
    const fn takes(&mut self, bytes: usize) -> bool {
        let fits = bytes <= Host::ITEM_BYTES && self.items > 0 && bytes + Host::ITEM_EXTRA <= self.bytes;
        if fits {
            self.items -= 1;
            self.bytes -= bytes + Host::ITEM_EXTRA;
        }
        fits
    }
}

impl Host {
    /// Most attributes, and most volumes, in its row.
    pub const MOST_LISTED: usize = 64;
    /// The bytes that no host's row exceeds.
    pub const MOST_BYTES: usize = 32 * 1024;
    /// Longest attribute, name and value together, and longest volume, id and path together.
    const ITEM_BYTES: usize = 255;
    /// What an item takes beside its texts.
    const ITEM_EXTRA: usize = 32;
    /// Bytes of the attributes, and of the volumes.
    const LIST_BYTES: usize = 12 * 1024;
    /// Longest other text that Mesos sent.
    const TEXT_BYTES: usize = 255;

    const fn place() -> Place {
        Place {
            items: Self::MOST_LISTED,
            bytes: Self::LIST_BYTES,
        }
    }

    /// Whether a row has a place for all of these attributes.
    #[must_use]
    pub fn takes_attributes(all: &BTreeMap<String, String>) -> bool {
        let mut left = Self::place();
        all.iter()
            .all(|(name, value)| left.takes(name.len().saturating_add(value.len())))
    }

    /// Attributes as far as a row has a place for them, and how many are left out.
    #[must_use]
    pub fn cut_attributes(all: &BTreeMap<String, String>) -> (BTreeMap<String, String>, u32) {
        let mut left = Self::place();
        let taken = all
            .iter()
            .filter(|(name, value)| left.takes(name.len().saturating_add(value.len())));
        let taken: BTreeMap<String, String> =
            taken.map(|(name, value)| (name.clone(), value.clone())).collect();
        let out = all.len() - taken.len();
        (taken, u32::try_from(out).unwrap_or(u32::MAX))
    }

    /// The same with what its row has a place for; what is left out is counted, beside what was before. Mesos bounds none of it.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (attributes, volumes) = (self.attributes.len(), self.volumes.len());
        let mut left = Self::place();
        self.attributes
            .retain(|name, value| left.takes(name.len().saturating_add(value.len())));
        let mut left = Self::place();
        self.volumes
            .retain(|v| left.takes(v.id.as_str().len().saturating_add(v.path.len())));
        let before = self.left_out;
        self.left_out = LeftOut {
            attributes: before
                .attributes
                .saturating_add(count(attributes - self.attributes.len())),
            volumes: before.volumes.saturating_add(count(volumes - self.volumes.len())),
        };
        if let Some(AgentDrain::Refused(why)) = self.drain.as_mut().map(|d| &mut d.agent) {
            why.truncate(why.floor_char_boundary(Self::TEXT_BYTES));
        }
        self
    }
}

/// Who may use hosts that have GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum GpuHosts {
    /// Only work that asks for GPUs.
    #[default]
    Kept,
    /// Everybody.
    Open,
}

/// Room that a host lends and may want back at any time: Mesos' revocable resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slack {
    /// Offered right now.
    pub free: Resources,
    /// All that it is known to lend.
    pub capacity: Resources,
    /// Taken by our revocable tasks.
    pub used: Resources,
}

/// A host as placement sees it at one moment. Cheap to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Its Mesos agent.
    pub id: HostId,
    /// Its name.
    pub hostname: Arc<str>,
    /// Attributes as text; several values of one name are joined with commas.
    pub attributes: Arc<BTreeMap<String, String>>,
    /// Its host pool.
    pub host_pool: HostPoolName,
    /// Room that may be used right now: the sum of its open offers.
    pub free: Resources,
    /// All that it is known to have for us.
    pub capacity: Resources,
    /// Taken by our tasks.
    pub used: Resources,
    /// What it lends beside that.
    pub slack: Slack,
    /// It is to be empty for planned maintenance: nothing is placed on it.
    pub draining: bool,
    /// It has GPUs and is kept for work that asks for some.
    pub kept: bool,
    /// What other frameworks hold of it.
    pub others: Others,
    /// Ports of its open offers. Filled in where the problem at hand wants ports.
    pub ports: PortSet,
    /// Ports that our tasks leave of all that it ever offered; `None` before its first offer, or where nobody wants ports.
    pub ports_left: Option<PortSet>,
}
