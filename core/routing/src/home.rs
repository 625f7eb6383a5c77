//! Where a job is at home: consistent hashing of its name over cluster ids, so that adding a cluster moves
//! few homes. The hash is pinned (FNV-1a over explicit bytes, then a fixed mixing), since homes must survive
//! upgrades of compiler and crates.

use consistent_hash::{Node, RingHash, StaticHashRing};
use echelon_core_model::ClusterId;
use echelon_core_model::bucket::fnv1a;
use std::hash::{Hash, Hasher};

/// Places of each cluster on the ring. 256 places keep the largest of ten clusters within about a fifth of its fair part.
const PLACES: usize = 256;

/// Collects the bytes that are hashed, so that nothing depends on how the standard library hashes.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        mix(fnv1a(&self.0))
    }
}

/// The finaliser of splitmix64: FNV alone leaves near keys near.
const fn mix(hash: u64) -> u64 {
    let a = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

/// A key whose hash is its bytes and nothing else (the standard `str` adds a byte of its own choice).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key(Vec<u8>);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

struct Pinned;

impl RingHash for Pinned {
    fn hash_item<T: Hash>(&self, item: &T) -> u64 {
        let mut bytes = Bytes::default();
        item.hash(&mut bytes);
        bytes.finish()
    }

    fn hash_vnode<K: Hash>(&self, key: &K, place: usize) -> u64 {
        let mut bytes = Bytes::default();
        key.hash(&mut bytes);
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        bytes.write(b"#");
        bytes.write(&place.to_be_bytes());
        bytes.finish()
    }
}

/// Where a job is on the ring: the hash of its name, short since it is kept for each job. 65,536 of them are
/// spread over the clusters of a federation, of which there are at most 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HomeKey(u16);

impl HomeKey {
    /// That of a job with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        let hash = mix(fnv1a(name.as_bytes()));
        Self(u16::try_from(hash >> 48).unwrap_or_default())
    }
}

/// The ring of some clusters. Making it takes a thousand times as long as asking it, so whoever routes keeps one.
pub struct Homes {
    ring: StaticHashRing<'static, Key, ClusterId, Pinned>,
    /// In order of id.
    clusters: Vec<ClusterId>,
}

impl std::fmt::Debug for Homes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.clusters).finish()
    }
}

impl Default for Homes {
    /// Of no clusters.
    fn default() -> Self {
        Self::new([])
    }
}

impl Homes {
    /// The ring of these clusters, in whatever order they come.
    pub fn new<'a>(clusters: impl IntoIterator<Item = &'a ClusterId>) -> Self {
        let mut clusters: Vec<ClusterId> = clusters.into_iter().cloned().collect();
        clusters.sort();
        let nodes = clusters.iter().map(|id| {
            let key = Key(id.as_str().as_bytes().to_vec());
            Node::new(key).value(id.clone()).quantity(PLACES)
        });
        Self {
            ring: StaticHashRing::new(Pinned, nodes),
            clusters,
        }
    }

    /// Its clusters, in order of id.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        self.clusters.iter()
    }

    /// All its clusters in the order that follows from the name of a job: its home first.
    #[must_use]
    pub fn order(&self, job: HomeKey) -> Vec<ClusterId> {
        let key = Key(job.0.to_be_bytes().to_vec());
        self.ring.calc_candidates(&key).map(|n| n.value.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn ids(n: u32) -> Vec<ClusterId> {
        (0..n).map(|i| ClusterId::new(format!("cluster-{i}"))).collect()
    }

    fn job(n: u32) -> HomeKey {
        HomeKey::of_name(&format!("job-{n}"))
    }

    fn homes(n: u32, jobs: u32) -> Vec<ClusterId> {
        let ring = Homes::new(&ids(n));
        (0..jobs).map(|j| ring.order(job(j))[0].clone()).collect()
    }

    #[test]
    fn homes_never_change() {
        let text: Vec<String> = (0..8)
            .map(|j| {
                let order = Homes::new(&ids(3)).order(job(j));
                order
                    .iter()
                    .map(|c| c.as_str().trim_start_matches("cluster-").to_owned())
                    .collect()
            })
            .collect();
        insta::assert_snapshot!(text.join(" "), @"012 201 012 201 012 201 120 201");
    }

    #[test]
    fn every_order_names_every_cluster_once() {
        let ring = Homes::new(&ids(5));
        for j in 0..100 {
            let mut order = ring.order(job(j));
            order.sort();
            assert_eq!(order, ids(5));
        }
        assert!(Homes::new(&[]).order(job(1)).is_empty());
    }

    #[test]
    fn the_order_in_which_clusters_are_named_does_not_matter() {
        let mut backwards = ids(5);
        backwards.reverse();
        let (a, b) = (Homes::new(&ids(5)), Homes::new(&backwards));
        assert!((0..100).all(|j| a.order(job(j)) == b.order(job(j))));
    }

    #[test]
    fn a_ring_without_some_is_in_the_same_order_without_them() {
        let (all, some) = (Homes::new(&ids(7)), Homes::new(&ids(7)[2..5]));
        for j in 0..1_000 {
            let mut order = all.order(job(j));
            order.retain(|c| ids(7)[2..5].contains(c));
            assert_eq!(order, some.order(job(j)));
        }
    }

    #[test]
    fn homes_are_spread() {
        let mut counts = BTreeMap::new();
        for home in homes(10, 10_000) {
            *counts.entry(home).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|n| (700..1300).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_cluster_more_moves_few_homes_and_only_to_itself() {
        let (before, after) = (homes(9, 10_000), homes(10, 10_000));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert!(moved.iter().all(|(_, b)| b.as_str() == "cluster-9"));
        assert!((500..1500).contains(&moved.len()), "{}", moved.len());
    }
}
