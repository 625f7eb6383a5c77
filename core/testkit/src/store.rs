//! A storage that keeps everything in maps and performs one operation at a time, with exactly the semantics that
//! `core/model/src/store.rs` promises: compare-and-set decided by content, owned writes ordered by stamp for ever (a delete
//! keeps its stamp), archived blocks found again, filters, pages. The simulation and the drivers' tests stand on it; the
//! contract tests of `io/storage` run on it too. It never fails by itself: faults are put around it.

mod decided;
mod owned;
mod spoiled;

use decided::DecidedTables;
use echelon_core_model::JobId;
use echelon_core_model::store::{Answer, Event, Op, OpFailure, OpResult, Query, Role};
use owned::OwnedTables;
use spoiled::Spoiled;

/// The whole storage.
#[derive(Debug, Clone, Default)]
pub struct ModelStore {
    decided: DecidedTables,
    owned: OwnedTables,
    spoiled: Spoiled,
    writes: u64,
}

impl ModelStore {
    /// An empty storage.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Performs one operation at once. Reads see every earlier operation, whatever consistency they ask for.
    pub fn perform(&mut self, op: Op) -> OpResult {
        match op {
            Op::Read(query, _) => {
                let unread = self.owned.unread(&query);
                self.spoiled.result(&query, self.read(&query), unread)
            }
            Op::Decide(decision) => {
                if let Some(refusal) = decided::refused(&decision) {
                    return OpResult::Failed(OpFailure::Refused(refusal));
                }
                self.writes += 1;
                OpResult::Decided(self.decided.decide(decision))
            }
            Op::Commit(batch) => {
                self.writes += 1;
                match self.owned.commit(batch) {
                    Ok(()) => OpResult::Committed,
                    Err(why) => OpResult::Failed(OpFailure::Refused(why)),
                }
            }
        }
    }

    /// Reads something.
    #[must_use]
    pub fn read(&self, query: &Query) -> Answer {
        if let Query::Jobs { filter, after, limit } = query {
            let progress = |job| self.owned.progress(job);
            return Answer::Jobs(self.decided.jobs(filter, *after, *limit, progress));
        }
        match self.decided.read(query) {
            Some(Answer::Assignments(stamp, found)) if found.is_empty() => {
                let Query::Assignment(job) = query else {
                    return Answer::Assignments(stamp, found);
                };
                Answer::Assignments(stamp, self.owned.ended_assignment(*job).into_iter().collect())
            }
            Some(answer) => answer,
            None => self.owned.read(query),
        }
    }

    /// All stored events of a job by one writer, by day and then in the order of their lanes, whether or not they hold.
    #[must_use]
    pub fn events_of(&self, job: JobId, writer: &Role) -> Vec<Event> {
        self.owned.events_of(job, writer)
    }

    /// From here on nobody understands a job's row of this table: `heads`, `assignments`, `progress` or `specs`.
    pub fn spoil(&mut self, table: &'static str, job: JobId) {
        self.spoiled.add(table, job);
    }

    /// Decisions and commits performed so far.
    #[must_use]
    pub const fn writes(&self) -> u64 {
        self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{job_id, main_group};
    use echelon_core_model::bucket::BLOCKS_A_RUN;
    use echelon_core_model::instance::{Block, BlockKey, SliceRow};
    use echelon_core_model::job::{Head, JobFilter, JobState, Progress};
    use echelon_core_model::spec::JobKind;
    use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Leadership, Role, Stamp, Write};
    use echelon_core_model::{ClusterId, Epoch, Timestamp, Version};
    use std::collections::BTreeMap;

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp {
            epoch: Epoch(epoch),
            sequence,
        }
    }

    fn head(job: u128, version: u64) -> Head {
        Head {
            job: job_id(job),
            version: Version(version),
            void: false,
            goal: Default::default(),
            spec_version: 1,
            name: format!("job-{job}"),
            pool: "/default/a".to_owned(),
            pool_id: None,
            kind: JobKind::Batch,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: 1,
            updated_at: Timestamp(version),
            past_rollouts: Vec::new(),
            rollout: None,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
            spec_digest: None,
        }
    }

    fn put(store: &mut ModelStore, head: Head, expected: Option<u64>) -> OpResult {
        let expected = expected.map(Version);
        store.perform(Op::Decide(Decision::PutHead { head, expected }))
    }

    fn shard_commit(store: &mut ModelStore, (epoch, sequence): (u64, u64), writes: Vec<Write>) -> OpResult {
        store.perform(Op::Commit(Batch {
            owner: Role::Shard(ClusterId::new("c1")),
            stamp: Stamp {
                epoch: Epoch(epoch),
                sequence,
            },
            writes,
        }))
    }

    fn block(number: u32) -> Block {
        Block {
            key: BlockKey {
                job: job_id(1),
                group: main_group(),
                number,
            },
            instances: BTreeMap::new(),
        }
    }

    fn group_blocks(store: &ModelStore) -> (Vec<Block>, Vec<SliceRow>) {
        let query = Query::GroupBlocks {
            cluster: ClusterId::new("c1"),
            job: job_id(1),
            group: main_group(),
            first: 0,
            last: BLOCKS_A_RUN,
        };
        match store.read(&query) {
            Answer::Blocks(blocks, slices) => (blocks, slices),
            other => panic!("{other:?}"),
        }
    }

    const APPLIED: OpResult = OpResult::Decided(Decided::Applied);

    #[test]
    fn a_decision_is_applied_once_and_again_but_never_over_another() {
        let mut store = ModelStore::new();
        assert_eq!(put(&mut store, head(1, 1), None), APPLIED);
        assert_eq!(
            put(&mut store, head(1, 1), None),
            APPLIED,
            "its own content is there"
        );
        assert_eq!(put(&mut store, head(1, 2), Some(1)), APPLIED);
        let present = Answer::Head(Some(head(1, 2)));
        let conflict = OpResult::Decided(Decided::Conflict(Box::new(present)));
        assert_eq!(put(&mut store, head(1, 1), None), conflict);
        let remove = |expected| {
            Op::Decide(Decision::RemoveHead {
                job: job_id(1),
                expected: Version(expected),
            })
        };
        assert_eq!(store.perform(remove(1)), conflict);
        assert_eq!(store.perform(remove(2)), APPLIED);
        assert_eq!(store.perform(remove(2)), APPLIED);
    }

    #[test]
    fn an_older_epoch_writes_no_assignment() {
        let mut store = ModelStore::new();
        let raise = |epoch, expected| {
            Op::Decide(Decision::RaisePartition {
                partition: 3,
                epoch: Epoch(epoch),
                expected: Epoch(expected),
            })
        };
        let write = |epoch, sequence| {
            Op::Decide(Decision::PutAssignments {
                partition: 3,
                stamp: stamp(epoch, sequence),
                put: Vec::new(),
                remove: Vec::new(),
            })
        };
        assert_eq!(store.perform(raise(1, 0)), APPLIED);
        assert_eq!(store.perform(write(1, 1)), APPLIED);
        assert_eq!(store.perform(raise(2, 1)), APPLIED);
        assert!(matches!(
            store.perform(write(1, 2)),
            OpResult::Decided(Decided::Conflict(_))
        ));
        assert!(matches!(
            store.perform(raise(1, 0)),
            OpResult::Decided(Decided::Conflict(_))
        ));
    }

    #[test]
    fn one_of_two_takes_an_epoch() {
        let mut store = ModelStore::new();
        let take = |holder: &str| {
            Op::Decide(Decision::TakeEpoch {
                role: Role::ResourceManager,
                next: Leadership {
                    epoch: Epoch(1),
                    holder: holder.to_owned(),
                    proof: 1,
                    resumed: Epoch(0),
                },
                expected: Epoch(0),
            })
        };
        assert_eq!(store.perform(take("a")), APPLIED);
        assert!(matches!(
            store.perform(take("b")),
            OpResult::Decided(Decided::Conflict(_))
        ));
        assert_eq!(store.perform(take("a")), APPLIED);
    }

    #[test]
    fn what_is_deleted_stays_deleted_against_older_writes() {
        let mut store = ModelStore::new();
        shard_commit(&mut store, (1, 1), vec![Write::Block(block(0))]);
        shard_commit(&mut store, (2, 1), vec![Write::RemoveBlock(block(0).key)]);
        shard_commit(&mut store, (1, 9), vec![Write::Block(block(0))]);
        assert!(group_blocks(&store).0.is_empty());
        shard_commit(&mut store, (2, 2), vec![Write::Block(block(0))]);
        assert_eq!(group_blocks(&store).0.len(), 1);
    }

    #[test]
    fn archived_blocks_are_found_with_their_group_but_not_in_their_bucket() {
        let mut store = ModelStore::new();
        let slice = SliceRow::new(job_id(1), main_group());
        shard_commit(
            &mut store,
            (1, 1),
            vec![
                Write::Block(block(0)),
                Write::Block(block(BLOCKS_A_RUN)),
                Write::Slice(slice),
            ],
        );
        shard_commit(
            &mut store,
            (1, 2),
            vec![Write::Archive(block(0)), Write::RemoveBlock(block(0).key)],
        );
        let (blocks, slices) = group_blocks(&store);
        assert_eq!(
            blocks.iter().map(|b| b.key.number).collect::<Vec<_>>(),
            [0, BLOCKS_A_RUN]
        );
        assert_eq!(slices.len(), 1);
        let bucket = Query::BlockBucket(ClusterId::new("c1"), block(0).key.bucket());
        assert_eq!(store.read(&bucket), Answer::Blocks(Vec::new(), Vec::new()));
    }

    #[test]
    fn nobody_writes_what_another_owns() {
        let mut store = ModelStore::new();
        let result = shard_commit(&mut store, (1, 1), vec![Write::RemoveProgress(job_id(1))]);
        assert!(matches!(result, OpResult::Failed(f) if !f.may_be_done()));
    }

    #[test]
    fn pages_of_jobs_join_without_gap_or_overlap() {
        let mut store = ModelStore::new();
        (1..=20).for_each(|n| {
            put(&mut store, head(n, 1), None);
        });
        let progress = Progress {
            state: JobState::Succeeded,
            ..Progress::waiting(job_id(7), Timestamp(1))
        };
        store.perform(Op::Commit(Batch {
            owner: Role::ResourceManager,
            stamp: Stamp {
                epoch: Epoch(1),
                sequence: 1,
            },
            writes: vec![Write::Progress(progress)],
        }));
        let page = |after: Option<JobId>, limit| {
            let filter = JobFilter {
                pool: Some("/default".to_owned()),
                states: vec![JobState::Waiting],
                ..JobFilter::default()
            };
            match store.clone().perform(Op::Read(
                Query::Jobs { filter, after, limit },
                Consistency::Quorum,
            )) {
                OpResult::Answer(Answer::Jobs(jobs)) => {
                    jobs.into_iter().map(|(h, _)| h.job).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        };
        let all = page(None, 100);
        assert_eq!(all.len(), 19);
        let mut joined = Vec::new();
        while let more @ [_, ..] = page(joined.last().copied(), 6).as_slice() {
            joined.extend_from_slice(more);
        }
        assert_eq!(joined, all);
    }
}
