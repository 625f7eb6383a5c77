//! Instance classes: what placement must know of one instance, and nothing else.
//! Instances of one class fit on the same hosts, whatever their job, pool and priority.
//! The resource manager names the classes that wait, and shards report how many instances of each fit.

use crate::host_pool::HostPoolChoice;
use crate::id::GroupName;
use crate::ports::PortWishes;
use crate::reason::{Reason, ReasonCode, Shortfall};
use crate::resources::{Kind, Resources};
use crate::siting::Constraint;
use crate::spec::{GroupSpec, JobKind, JobSpec};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Most classes that a shard is asked about: each costs one division for each host that changed.
pub const MAX_CLASSES: usize = 64;
/// Most instances of a class that are counted on one host: 0.001 cores each on 1,000 cores.
pub const MOST_A_HOST: u64 = 1_000_000;
/// Most instances of a class that are counted in one cluster: `MOST_A_HOST` on each of 1,000,000 hosts.
pub const MOST_A_CLUSTER: u64 = MOST_A_HOST * 1_000_000;

/// What placement must know of one instance. Rules about the job's own runs (`max_per`) and about other jobs' runs (affinity) are
/// left out: they do not tell whether an empty host can hold it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceClass {
    /// All that one instance takes, sidecars and volume included.
    pub shape: Resources,
    /// It runs on revocable capacity.
    pub revocable: bool,
    /// Its host is for its job alone.
    pub exclusive: bool,
    /// The hosts that it may use.
    pub host_pool: HostPoolChoice,
    /// Ports of the host that it needs.
    pub ports: PortWishes,
    /// Rules about hosts, in order, each once.
    pub constraints: Vec<Constraint>,
}

/// Why no cluster can ever hold an instance, where this is why each of them cannot: the reason of the cluster that lacks the smallest
/// part of what is needed, with the details of all. `None` when there is no cluster.
#[must_use]
pub fn fits_nowhere(refusals: &[Reason]) -> Option<Reason> {
    // In thousandths: quantities of different kinds are not compared.
    let lack = |r: &&Reason| {
        r.shortfall.as_ref().map_or(u128::MAX, |s| {
            let lacking = u128::from(s.need.saturating_sub(s.have));
            lacking * 1_000 / u128::from(s.need.max(1))
        })
    };
    let nearest = refusals.iter().min_by_key(lack)?.clone();
    let details: Vec<&str> = refusals.iter().filter_map(|r| r.detail.as_deref()).collect();
    Some(nearest.at(details.join("; ")))
}

/// The warning for the submitter of a group that fits nowhere.
#[must_use]
pub fn warning(group: &GroupName, why: &Reason) -> String {
    format!("group `{group}` fits on no host and waits until one can hold it: {why}")
}

/// A class in 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassDigest(pub u128);

/// How many instances of a class a cluster's hosts hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct ClassFit {
    /// Beside what runs there, offered at the moment or not.
    pub now: u64,
    /// If nothing ran there.
    pub ever: u64,
}

impl InstanceClass {
    /// The class of a group's instances. `None` of a daemon: its count follows from the hosts.
    #[must_use]
    pub fn of(job: &JobSpec, group: &GroupSpec) -> Option<Self> {
        if job.kind == JobKind::Daemon {
            return None;
        }
        let mut constraints = group.constraints.clone();
        constraints.sort();
        constraints.dedup();
        Some(Self {
            shape: group.room(),
            revocable: job.revocable,
            exclusive: group.siting.exclusive,
            host_pool: group.siting.host_pool.clone(),
            ports: group.runtime.ports.iter().map(|port| port.fixed).collect(),
            constraints,
        })
    }

    /// The first kind of which even the largest host has too little, where `largest` is the most of each kind on one host.
    #[must_use]
    pub fn lacks(&self, largest: Resources) -> Option<Kind> {
        self.shape.first_lack(largest)
    }

    /// Why no host of a cluster can ever hold an instance, where the largest one has so much and that is too little.
    #[must_use]
    pub fn too_large(&self, cluster: &str, largest: Resources) -> Option<Reason> {
        let kind = self.lacks(largest)?;
        let reason = Reason::new(ReasonCode::NoClusterCapacity);
        Some(
            reason
                .at(format!("{cluster}: the largest host has {largest}"))
                .short(Shortfall {
                    kind,
                    have: largest.get(kind),
                    need: self.shape.get(kind),
                }),
        )
    }

    /// Whether it asks for capacity alone: then the largest host tells most of what there is to know.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.constraints.is_empty() && self.ports.is_empty()
    }

    /// Its digest: 128 bits of FNV-1a. It is compared within one release only, and never stored.
    #[must_use]
    pub fn digest(&self) -> ClassDigest {
        let mut hasher = Fnv128(BASIS);
        self.hash(&mut hasher);
        ClassDigest(hasher.0)
    }
}

impl ClassFit {
    /// Both sums; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            now: self.now.saturating_add(other.now),
            ever: self.ever.saturating_add(other.ever),
        }
    }

    /// What is left of both.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            now: self.now.saturating_sub(other.now),
            ever: self.ever.saturating_sub(other.ever),
        }
    }
}

impl fmt::Display for ClassDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClassDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClassDigest({self})")
    }
}

/// FNV's first value and its factor, of 128 bits.
const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

struct Fnv128(u128);

impl Hasher for Fnv128 {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    fn finish(&self) -> u64 {
        // The low half.
        u64::try_from(self.0 & u128::from(u64::MAX)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_fnv_1a_of_128_bits() {
        let mut hasher = Fnv128(BASIS);
        hasher.write(b"foobar");
        assert_eq!(hasher.0, 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }
}
