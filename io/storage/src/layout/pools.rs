//! The pool tree in rows. Its pools lie in parts, by a hash of their ids, so that a change of one pool writes one
//! part. A part row is never changed: its key says which version of the tree wrote it, and the digest of what it
//! holds. The index row names the parts of the tree. It alone is compared and set, by the version of the tree.
//!
//! A part that no index names belongs to a version that is replaced, or to a writer that lost or crashed. In a
//! storage of one transaction it goes with its replacement. Elsewhere ([`put`]) each index lists the versions that
//! may have left parts behind, with the version that replaced them. [`VERSIONS_KEPT`] changes later those parts are
//! deleted, before the next index, which does not list them. A reader of an older index finds its parts until then,
//! and reads the index again when it does not.
//!
//! No deleted part is ever named again: an index names parts of the index before it and of its own version, and only
//! one index of a version is ever set. So no clock decides, and a crash between two steps leaves a list that is
//! worked off again.
//!
//! Known gap: parts of a writer that stalls for more than `VERSIONS_KEPT` changes before it writes them, and then
//! loses, stay. They cost space alone.

use super::keys::{self, number};
use super::{Change, Verdict};
use crate::StoreError;
use crate::rows::{Cell, RowKey};
use async_trait::async_trait;
use echelon_core_model::bucket::fnv1a;
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::{PoolId, Version};
use echelon_proto::convert::encode;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};

/// Parts of a tree. 10,000 pools with all fields and the longest paths are 46 MiB, 180 KiB a part; random ids
/// put no more than twice the mean into one, and a row takes 1 MiB.
pub(crate) const PARTS: u16 = 256;
/// How many changes later what a change replaced is deleted.
const VERSIONS_KEPT: i64 = 16;
/// Most versions whose left parts one change deletes. A change leaves two to delete on average: its own and,
/// of each part that it replaces, the version that wrote it.
const CLEANED_AT_ONCE: usize = 16;
/// Rows that are written or deleted at the same time.
const AT_ONCE: usize = 16;
/// How often the index may be found changed although it compared equal when it was read.
const TRIES: usize = 4;

/// Stamps of part rows, which need no clock: whatever the order of arrival, a deleted row stays deleted.
pub(crate) const WRITTEN: i64 = 1;
pub(crate) const DELETED: i64 = 2;

/// The part of a pool.
fn part_of(id: &PoolId) -> u16 {
    let hash = fnv1a(id.as_str().as_bytes());
    // As for buckets of jobs: the upper bits mix better.
    u16::try_from((hash ^ (hash >> 32)) % u64::from(PARTS)).unwrap_or_default()
}

/// FNV-1a over bytes, 128 bits.
fn digest(bytes: &[u8]) -> u128 {
    bytes
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |h, b| {
            (h ^ u128::from(*b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        })
}

/// A part as it is stored: which version of the tree wrote it, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartName {
    pub part: u16,
    pub version: i64,
    pub digest: u128,
}

impl PartName {
    /// The part whose row has these cells within the partition of a version; `None`: they name no part.
    pub fn of(version: i64, key: &[Cell]) -> Option<Self> {
        let [Cell::Number(part), Cell::Bytes(digest)] = key else {
            return None;
        };
        Some(Self {
            part: u16::try_from(*part).ok()?,
            version,
            digest: u128::from_be_bytes(digest.as_slice().try_into().ok()?),
        })
    }

    /// Its row.
    pub fn key(self) -> RowKey {
        keys::pool_part(self.version, self.part, self.digest)
    }
}

/// A tree in parts, with the version that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeParts {
    expected: i64,
    version: i64,
    pools: u32,
    parts: BTreeMap<u16, (u128, Vec<u8>)>,
}

impl TreeParts {
    /// Cuts a tree. `O(n)`.
    pub fn of(tree: &PoolTree, expected: Version) -> Self {
        let mut parts: BTreeMap<u16, PoolTree> = BTreeMap::new();
        for (path, pool) in &tree.pools {
            let of_part = parts.entry(part_of(&pool.id)).or_default();
            of_part.pools.insert(path.clone(), pool.clone());
        }
        let encoded = parts.into_iter().map(|(part, pools)| {
            let bytes = encode(&pools);
            (part, (digest(&bytes), bytes))
        });
        Self {
            expected: number(expected.0),
            version: number(tree.version.0),
            pools: u32::try_from(tree.pools.len()).unwrap_or(u32::MAX),
            parts: encoded.collect(),
        }
    }

    /// Bytes of the largest part, and its number.
    pub fn largest(&self) -> Option<(u16, usize)> {
        let sizes = self.parts.iter().map(|(part, (_, bytes))| (*part, bytes.len()));
        sizes.max_by_key(|(_, bytes)| *bytes)
    }

    /// The verdict on it, given the index that is there.
    pub fn judge(&self, there: &PoolIndex) -> Verdict {
        let digests = self.parts.iter().map(|(part, (digest, _))| (*part, *digest));
        let same = there.pools == self.pools && there.parts().map(|p| (p.part, p.digest)).eq(digests);
        if there.version == self.version && same {
            Verdict::Holds
        } else if there.version == self.expected {
            Verdict::Open
        } else {
            Verdict::Taken
        }
    }

    /// The bytes of a part.
    pub fn bytes(&self, part: u16) -> &[u8] {
        self.parts.get(&part).map_or(&[], |(_, bytes)| bytes)
    }
}

/// What the index row says. The default is that of the tree that was never written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PoolIndex {
    pub version: i64,
    /// How many pools its parts hold together.
    pub pools: u32,
    /// By number: the version that wrote it, and its digest.
    parts: BTreeMap<u16, (i64, u128)>,
    /// Versions that may have left parts behind that no index names, with the version that left the last of
    /// them.
    left: BTreeMap<i64, i64>,
}

impl PoolIndex {
    /// The parts of the tree, in order.
    pub fn parts(&self) -> impl Iterator<Item = PartName> {
        self.parts.iter().map(|(part, (version, digest))| PartName {
            part: *part,
            version: *version,
            digest: *digest,
        })
    }

    /// Whether it names a part.
    pub fn names(&self, name: PartName) -> bool {
        self.parts.get(&name.part) == Some(&(name.version, name.digest))
    }

    /// Its parts that another one does not name.
    pub fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = PartName> + 'a {
        self.parts().filter(|name| !other.names(*name))
    }

    /// The index of a tree that replaces this one's: what is the same stays where it is.
    pub fn replaced_by(&self, tree: &TreeParts) -> Self {
        let parts = tree.parts.iter().map(|(part, (digest, _))| {
            let same = self.parts.get(part).filter(|(_, old)| old == digest);
            (*part, *same.unwrap_or(&(tree.version, *digest)))
        });
        Self {
            version: tree.version,
            pools: tree.pools,
            parts: parts.collect(),
            left: BTreeMap::new(),
        }
    }

    /// Versions whose left parts may be deleted: nothing of them was left for `VERSIONS_KEPT` changes.
    fn due(&self) -> BTreeSet<i64> {
        let old = self
            .left
            .iter()
            .filter(|(_, at)| **at <= self.version - VERSIONS_KEPT);
        old.map(|(version, _)| *version).take(CLEANED_AT_ONCE).collect()
    }

    /// As `replaced_by`, with the list of what is left behind once the parts of `cleaned` are deleted.
    /// Writers that lose leave parts of the new version, so that it is listed, too.
    fn replaced_in_steps(&self, tree: &TreeParts, cleaned: &BTreeSet<i64>) -> Self {
        let next = self.replaced_by(tree);
        let mut left = self.left.clone();
        left.retain(|version, _| !cleaned.contains(version));
        let now_left: BTreeSet<i64> = self.beside(&next).map(|name| name.version).collect();
        left.extend(
            now_left
                .into_iter()
                .chain([next.version])
                .map(|of| (of, next.version)),
        );
        Self { left, ..next }
    }

    /// The change of the index row.
    pub fn change(&self, expected: i64) -> Change {
        Change {
            at: keys::pool_index(),
            // Version 0 is the tree that was never written.
            expected: (expected > 0).then_some(expected),
            to: Some((self.version, self.to_bytes())),
            keep_ms: None,
            tag: None,
        }
    }

    /// Version, pools, number of parts, each of them, then each version with parts left behind; all
    /// big-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 26 * self.parts.len() + 16 * self.left.len());
        out.extend(self.version.to_be_bytes());
        out.extend(self.pools.to_be_bytes());
        let parts = u16::try_from(self.parts.len()).unwrap_or(u16::MAX);
        out.extend(parts.to_be_bytes());
        for (part, (version, digest)) in &self.parts {
            out.extend(part.to_be_bytes());
            out.extend(version.to_be_bytes());
            out.extend(digest.to_be_bytes());
        }
        for (version, at) in &self.left {
            out.extend(version.to_be_bytes());
            out.extend(at.to_be_bytes());
        }
        out
    }

    /// Reads it back; `None` when the bytes are no index.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = Bytes(bytes);
        let version = i64::from_be_bytes(rest.take()?);
        let pools = u32::from_be_bytes(rest.take()?);
        let mut parts = BTreeMap::new();
        for _ in 0..u16::from_be_bytes(rest.take()?) {
            let part = u16::from_be_bytes(rest.take()?);
            let name = (
                i64::from_be_bytes(rest.take()?),
                u128::from_be_bytes(rest.take()?),
            );
            if part >= PARTS || parts.insert(part, name).is_some() {
                return None;
            }
        }
        let mut left = BTreeMap::new();
        while !rest.0.is_empty() {
            left.insert(i64::from_be_bytes(rest.take()?), i64::from_be_bytes(rest.take()?));
        }
        Some(Self {
            version,
            pools,
            parts,
            left,
        })
    }
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

/// The tree of an index: the pools of one that is known, with those of the parts that differ in place of
/// theirs. `Err`: how many pools there are in place of those that the index counts.
pub(crate) fn assemble(
    index: &PoolIndex,
    known: &PoolTree,
    changed: &BTreeMap<u16, PoolTree>,
) -> Result<PoolTree, usize> {
    let has_part = |pool: &Pool| index.parts.contains_key(&part_of(&pool.id));
    let stays = |pool: &&Pool| has_part(pool) && !changed.contains_key(&part_of(&pool.id));
    let kept = known.pools.values().filter(stays);
    let new = changed.values().flat_map(|part| part.pools.values());
    let pools: BTreeMap<String, Pool> = kept.chain(new).map(|p| (p.path.clone(), p.clone())).collect();
    if usize::try_from(index.pools) != Ok(pools.len()) {
        return Err(pools.len());
    }
    let version = Version(u64::try_from(index.version).unwrap_or_default());
    Ok(PoolTree { version, pools })
}

/// What a change of the tree needs of a storage that has no transaction over rows.
#[async_trait]
pub(crate) trait PartRows: Sync {
    /// The index, as sure as can be read.
    async fn index(&self) -> Result<PoolIndex, StoreError>;

    /// Writes a part; again is harmless.
    async fn write(&self, name: PartName, bytes: &[u8]) -> Result<(), StoreError>;

    /// The parts that a version of the tree has written, also those of writers that lost.
    async fn written_by(&self, version: i64) -> Result<Vec<PartName>, StoreError>;

    /// Deletes a part for good; again is harmless.
    async fn delete(&self, name: PartName) -> Result<(), StoreError>;

    /// Compares and sets the index; `false`: another one is there.
    async fn set(&self, change: &Change) -> Result<bool, StoreError>;
}

/// Puts a tree step by step: what is due is deleted, parts that differ are written, the index is set. It may
/// stop after any step, and others may take steps between: what a set index names is there. Never
/// `Verdict::Open`.
pub(crate) async fn put<S: PartRows>(store: &S, tree: &TreeParts) -> Result<Verdict, StoreError> {
    for _ in 0..TRIES {
        let before = store.index().await?;
        match tree.judge(&before) {
            Verdict::Open => {}
            settled => return Ok(settled),
        }
        let mut cleaned = BTreeSet::new();
        for version in before.due() {
            if let Err(error) = clean(store, &before, version).await {
                // They stay in the list, and the next change tries again.
                tracing::debug!(
                    error = error.chain(),
                    version,
                    "replaced parts of the pool tree stay in storage for the time being"
                );
                break;
            }
            cleaned.insert(version);
        }
        let next = before.replaced_in_steps(tree, &cleaned);
        let writing = stream::iter(next.beside(&before)).map(|name| store.write(name, tree.bytes(name.part)));
        let written = writing.buffer_unordered(AT_ONCE).try_collect::<()>().await;
        // Whatever became of parts, nothing is decided before the index is set.
        written.map_err(StoreError::into_undone)?;
        if store.set(&next.change(before.version)).await? {
            return Ok(Verdict::Holds);
        }
    }
    Err(StoreError::undone(
        "a decision",
        "others kept changing what it compares with; decide again",
    ))
}

/// Deletes what a version has written and the index does not name.
async fn clean<S: PartRows>(store: &S, index: &PoolIndex, version: i64) -> Result<(), StoreError> {
    let all = store.written_by(version).await?;
    let orphans = all.into_iter().filter(|name| !index.names(*name));
    let deleting = stream::iter(orphans).map(|name| store.delete(name));
    deleting.buffer_unordered(AT_ONCE).try_collect().await
}

#[cfg(test)]
#[path = "pools_tests.rs"]
mod tests;
