//! What the holders of a window of indexes have stored, and whose record is shown of each index.

use super::assemble::Scene;
use crate::ask;
use crate::port::Facts;
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::bucket::BLOCK_SIZE;
use echelon_core_model::instance::{InstanceRecord, SliceRow};
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{ClusterId, Generation, GroupName, InstanceNumber, JobId, RangeSet};
use std::collections::{BTreeMap, BTreeSet};

/// What the holders of a window of numbers have stored.
#[derive(Default)]
pub(super) struct Blocks {
    records: BTreeMap<(ClusterId, InstanceNumber), InstanceRecord>,
    rows: BTreeMap<ClusterId, SliceRow>,
    asked: BTreeSet<ClusterId>,
    unseen: BTreeMap<ClusterId, RangeSet>,
}

/// A record with where it was found.
pub(super) struct FoundRecord<'a> {
    pub(super) record: &'a InstanceRecord,
    pub(super) cluster: &'a ClusterId,
    /// The generation at which that cluster holds or held the index.
    pub(super) generation: Generation,
    /// The generation at which it was held before, if the holder is not the first one.
    pub(super) former: Option<Generation>,
}

/// The clusters that held indexes last which are assigned to none now, with those of a window.
fn last_holders(assignment: &Assignment, group: &GroupName, window: &RangeSet) -> Vec<(ClusterId, RangeSet)> {
    let released = assignment.released.get(group).into_iter().flatten();
    let with_records = released.filter_map(|(holder, set)| Some((holder.cluster.clone()?, set)));
    with_records
        .map(|(cluster, set)| (cluster, set.intersect(window)))
        .filter(|(_, inside)| !inside.is_empty())
        .collect()
}

impl Blocks {
    /// Reads the blocks of every holder, and of former holders where the new one may not have taken over yet.
    pub(super) async fn read<F: Facts>(
        facts: &F,
        scene: &Scene,
        group: &GroupName,
        window: &RangeSet,
    ) -> Self {
        let mut wanted: BTreeMap<ClusterId, RangeSet> = BTreeMap::new();
        for r in scene.assignment().ranges(group) {
            let range: RangeSet = std::iter::once(r.range).collect();
            let inside = range.intersect(window);
            for inside in inside.ranges() {
                wanted.entry(r.cluster.clone()).or_default().insert(*inside);
                if let Some((former, _)) = &r.former {
                    wanted.entry(former.clone()).or_default().insert(*inside);
                }
            }
        }
        for (cluster, inside) in last_holders(scene.assignment(), group, window) {
            let set = wanted.entry(cluster).or_default();
            *set = set.union(&inside);
        }
        let mut out = Self::default();
        for (cluster, numbers) in wanted {
            out.read_cluster(facts, scene.head.job, group, cluster, numbers)
                .await;
        }
        out
    }

    async fn read_cluster<F: Facts>(
        &mut self,
        facts: &F,
        job: JobId,
        group: &GroupName,
        cluster: ClusterId,
        numbers: RangeSet,
    ) {
        self.asked.insert(cluster.clone());
        let (Some(first), Some(last)) = (numbers.ranges().first(), numbers.ranges().last()) else {
            return;
        };
        let query = Query::GroupBlocks {
            cluster: cluster.clone(),
            job,
            group: group.clone(),
            first: first.first / BLOCK_SIZE,
            last: last.last / BLOCK_SIZE,
        };
        let Ok(Some(Answer::Blocks(blocks, rows))) = ask::try_read(facts, query, Consistency::Quorum).await
        else {
            self.unseen.insert(cluster, numbers);
            return;
        };
        for (n, record) in blocks.into_iter().flat_map(|b| b.instances) {
            self.records.insert((cluster.clone(), n), record);
        }
        self.rows
            .extend(rows.into_iter().map(|row| (cluster.clone(), row)));
    }

    /// Every cluster that was asked, with the numbers that could not be read.
    pub(super) fn clusters(&self) -> impl Iterator<Item = (&ClusterId, Option<&RangeSet>)> {
        self.asked.iter().map(|c| (c, self.unseen.get(c)))
    }

    fn is_unseen(&self, cluster: &ClusterId, n: InstanceNumber) -> bool {
        self.unseen.get(cluster).is_some_and(|set| set.contains(n))
    }

    /// What a cluster has stored of an index, which it holds or held at a generation.
    fn found(
        &self,
        cluster: &ClusterId,
        generation: Generation,
        n: InstanceNumber,
    ) -> Option<FoundRecord<'_>> {
        let at = self.records.get_key_value(&(cluster.clone(), n));
        at.map(|((cluster, _), record)| FoundRecord {
            record,
            cluster,
            generation,
            former: None,
        })
    }

    /// The record of an index that is assigned to no cluster, where its last holder has one.
    pub(super) fn last_record(
        &self,
        assignment: &Assignment,
        group: &GroupName,
        n: InstanceNumber,
    ) -> Option<FoundRecord<'_>> {
        let released = assignment.released.get(group).into_iter().flatten();
        let mut records = released.filter_map(|(holder, set)| {
            let cluster = holder.cluster.as_ref().filter(|_| set.contains(n))?;
            self.found(cluster, holder.generation, n)
        });
        records.next()
    }

    /// The record of an index of a range; an error where it could not be read.
    pub(super) fn record(
        &self,
        range: &AssignedRange,
        n: InstanceNumber,
    ) -> Result<Option<FoundRecord<'_>>, ClusterId> {
        if self.is_unseen(&range.cluster, n) {
            return Err(range.cluster.clone());
        }
        let former = range.former.as_ref().map(|(_, generation)| *generation);
        let own = self.found(&range.cluster, range.generation, n);
        let own = own.map(|own| FoundRecord { former, ..own });
        let taken_over = self
            .rows
            .get(&range.cluster)
            .and_then(|row| row.taken_over.get(&range.generation))
            .is_some_and(|set| set.contains(n));
        match &range.former {
            Some((former, generation))
                if !taken_over
                    && own
                        .as_ref()
                        .is_none_or(|r| r.record.generation < range.generation) =>
            {
                if self.is_unseen(former, n) {
                    return Err(former.clone());
                }
                Ok(self.found(former, *generation, n).or(own))
            }
            _ => Ok(own),
        }
    }
}
