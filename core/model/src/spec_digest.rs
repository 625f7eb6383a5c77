//! What of a spec the resource manager decides by, and its digest. A head carries the digest, so one spec
//! is read for all jobs that ask for the same.

use crate::runtime::{PortSpec, Protocol, Runtime, Visibility};
use crate::spec::JobSpec;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// A digest of the decided part of one version of a spec.
/// It names the version, so it says nothing once another version is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpecDigest {
    /// The spec version.
    pub version: u32,
    /// The first half of a SHA-256. Two builds may make different ones of equal specs: then the spec is read.
    pub sum: [u8; 16],
}

impl SpecDigest {
    /// Of a version of a spec.
    #[must_use]
    pub fn of(version: u32, spec: &JobSpec) -> Self {
        let sum = sum_of(&decided_part(spec.clone()));
        Self { version, sum }
    }
}

/// The digest of what [`decided_part`] has left.
#[must_use]
pub fn sum_of(decided: &JobSpec) -> [u8; 16] {
    let mut bytes = Bytes(Sha256::new());
    decided.hash(&mut bytes);
    let all: [u8; 32] = bytes.0.finalize().into();
    let mut first = [0; 16];
    first.iter_mut().zip(all).for_each(|(to, from)| *to = from);
    first
}

/// Takes out of a spec what only its shards and people need.
#[must_use]
pub fn decided_part(mut spec: JobSpec) -> JobSpec {
    spec.name = String::new();
    spec.labels = BTreeMap::new();
    for group in &mut spec.groups {
        let ports = std::mem::take(&mut group.runtime.ports);
        group.runtime = Runtime {
            ports: ports.into_iter().map(place_of_port).collect(),
            ..Runtime::default()
        };
        group.overrides = Vec::new();
        group
            .sidecars
            .iter_mut()
            .for_each(|s| s.runtime = Runtime::default());
    }
    spec
}

/// What placement must know of a port.
fn place_of_port(port: PortSpec) -> PortSpec {
    PortSpec {
        name: String::new(),
        fixed: port.fixed,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    }
}

/// Hashes all that a value writes, with its lengths.
struct Bytes(Sha256);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not used. The digest is that of all bytes.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GroupName;
    use crate::spec::{GroupSpec, JobKind};

    #[test]
    fn only_what_is_decided_by_counts() {
        let mut spec = JobSpec::new("a", JobKind::Batch);
        spec.groups = vec![GroupSpec::new(GroupName::new("main"), JobKind::Batch)];
        spec.groups[0].instances = 3;
        let digest = SpecDigest::of(1, &spec);
        let mut other = spec.clone();
        other.name = "b".to_owned();
        other.labels.insert("k".to_owned(), "v".to_owned());
        other.groups[0].runtime.command = "true".to_owned();
        assert_eq!(SpecDigest::of(1, &other), digest);
        other.groups[0].instances = 4;
        assert_ne!(SpecDigest::of(1, &other), digest);
        for change in [
            (|s| s.priority = 1) as fn(&mut JobSpec),
            |s| s.pool = "/b".to_owned(),
            |s| s.owner = "ann".to_owned(),
            |s| s.preemptible = false,
        ] {
            let mut other = spec.clone();
            change(&mut other);
            assert_ne!(SpecDigest::of(1, &other), digest);
        }
        assert_ne!(SpecDigest::of(2, &spec), digest);
    }
}
