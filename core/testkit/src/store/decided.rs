//! The decided tables: every write is a compare-and-set, and one that finds its own content applied is applied.

use echelon_core_model::assignment::Assignment;
use echelon_core_model::bucket::{assignment_partition, head_tag, job_bucket, job_buckets};
use echelon_core_model::cluster::Cluster;
use echelon_core_model::control::Control;
use echelon_core_model::job::{Head, JobFilter, Progress};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::start_ban::StartBans;
use echelon_core_model::store::{
    Answer, Changes, Decided, Decision, Leadership, MAX_ASSIGNMENT_BYTES, NameHolder, PlannedRequest, Query,
    Refusal, RefusedRow, RefusedWhy, Role, Stamp,
};
use echelon_core_model::{ClusterId, Epoch, JobId, RequestId, Version};
use std::collections::BTreeMap;

/// The rows of a decision that are too large. Only assignments are weighed: they grow with what a job does.
pub fn refused(decision: &Decision) -> Option<Refusal> {
    let Decision::PutAssignments { put, .. } = decision else {
        return None;
    };
    let rows = put.iter().enumerate().filter_map(|(place, assignment)| {
        let bytes = assignment.weight();
        (bytes > MAX_ASSIGNMENT_BYTES).then(|| RefusedRow {
            row: format!("assignment {}", assignment.job),
            place: Some(place),
            why: RefusedWhy::TooLarge {
                bytes,
                limit: MAX_ASSIGNMENT_BYTES,
            },
        })
    });
    let rows: Vec<RefusedRow> = rows.collect();
    (!rows.is_empty()).then_some(Refusal { rows })
}

#[derive(Debug, Clone, Default)]
pub struct DecidedTables {
    heads: BTreeMap<(u16, JobId), Head>,
    head_tags: BTreeMap<u16, i64>,
    specs: BTreeMap<(JobId, u32), JobSpec>,
    names: BTreeMap<String, NameHolder>,
    requests: BTreeMap<RequestId, PlannedRequest>,
    pools: PoolTree,
    clusters: BTreeMap<ClusterId, Cluster>,
    control: Control,
    start_bans: StartBans,
    leaderships: BTreeMap<Role, Leadership>,
    partitions: BTreeMap<u16, Partition>,
}

#[derive(Debug, Clone, Default)]
struct Partition {
    stamp: Stamp,
    assignments: BTreeMap<JobId, Assignment>,
}

impl Partition {
    fn answer(&self) -> Answer {
        Answer::Assignments(self.stamp, self.assignments.values().cloned().collect())
    }
}

/// Writes `next` over a row whose version is `expected`, or finds it there already.
fn put<T: PartialEq + Clone>(row: &mut Option<T>, next: T, matches: bool) -> Result<(), Option<T>> {
    if row.as_ref() == Some(&next) {
        return Ok(());
    }
    if matches {
        *row = Some(next);
        Ok(())
    } else {
        Err(row.clone())
    }
}

fn decided(result: Result<(), Box<Answer>>) -> Decided {
    match result {
        Ok(()) => Decided::Applied,
        Err(present) => Decided::Conflict(present),
    }
}

fn put_row<K: Ord, T: PartialEq + Clone>(
    table: &mut BTreeMap<K, T>,
    key: K,
    next: T,
    matches: impl FnOnce(Option<&T>) -> bool,
) -> Result<(), Option<T>> {
    let mut row = table.get(&key).cloned();
    let fits = matches(row.as_ref());
    put(&mut row, next, fits)?;
    if let Some(row) = row {
        table.insert(key, row);
    }
    Ok(())
}

impl DecidedTables {
    /// `None`: the query belongs to owned tables.
    pub fn read(&self, query: &Query) -> Option<Answer> {
        Some(match query {
            Query::Head(job) => Answer::Head(self.heads.get(&(job_bucket(*job), *job)).cloned()),
            Query::Heads(bucket) => {
                let keys = (*bucket, JobId(0))..=(*bucket, JobId(u128::MAX));
                Answer::Heads(self.heads.range(keys).map(|(_, h)| h.clone()).collect())
            }
            Query::Spec(job, version) => Answer::Spec(self.specs.get(&(*job, *version)).cloned()),
            Query::Name(name) => Answer::Name(self.names.get(name).cloned()),
            Query::Request(id) => Answer::Request(self.requests.get(id).cloned()),
            Query::Pools => Answer::Pools(self.pools.clone()),
            Query::Assignment(job) => {
                let partition = self.partitions.get(&assignment_partition(*job));
                let stamp = partition.map(|p| p.stamp).unwrap_or_default();
                let row = partition.and_then(|p| p.assignments.get(job)).cloned();
                Answer::Assignments(stamp, row.into_iter().collect())
            }
            Query::Assignments(n) => self
                .partitions
                .get(n)
                .map_or_else(|| Partition::default().answer(), Partition::answer),
            Query::Changes(n) => {
                let tags = job_buckets(*n).filter_map(|b| Some((b, *self.head_tags.get(&b)?)));
                Answer::Changes(Changes {
                    assignments: self.partitions.get(n).map(|p| p.stamp).unwrap_or_default(),
                    heads: tags.collect(),
                })
            }
            Query::Clusters => Answer::Clusters(self.clusters.values().cloned().collect()),
            Query::Control => Answer::Control(self.control.clone()),
            Query::StartBans => Answer::StartBans(self.start_bans.clone()),
            Query::Leadership(role) => {
                Answer::Leadership(self.leaderships.get(role).cloned().unwrap_or_default())
            }
            _ => return None,
        })
    }

    pub fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: u32,
        progress: impl Fn(JobId) -> Option<Progress>,
    ) -> Vec<(Head, Option<Progress>)> {
        let after = after.map(|job| (job_bucket(job), job));
        self.heads
            .iter()
            .filter(|(key, _)| after.is_none_or(|a| **key > a))
            .map(|((_, job), head)| (head.clone(), progress(*job)))
            .filter(|(head, p)| filter.passes(head, p.as_ref().map(|p| p.state).unwrap_or_default()))
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .collect()
    }

    pub fn decide(&mut self, decision: Decision) -> Decided {
        decided(match decision {
            Decision::PutHead { head, expected } => {
                let key = (job_bucket(head.job), head.job);
                let tag = head_tag(head.job, head.version);
                put_row(&mut self.heads, key, head, |row| {
                    row.map(|h| h.version) == expected
                })
                .map(|()| {
                    self.head_tags.insert(key.0, tag);
                })
                .map_err(|row| Box::new(Answer::Head(row)))
            }
            Decision::RemoveHead { job, expected } => self.remove_head(job, expected),
            Decision::PutSpec { job, version, spec } => {
                put_row(&mut self.specs, (job, version), spec, |row| row.is_none())
                    .map_err(|row| Box::new(Answer::Spec(row)))
            }
            Decision::TakeName {
                name,
                holder,
                expected,
            } => put_row(&mut self.names, name, holder, |row| {
                row.map(|h| h.version) == expected
            })
            .map_err(|row| Box::new(Answer::Name(row))),
            Decision::PlanRequest { id, planned } => {
                put_row(&mut self.requests, id, planned, |row| row.is_none())
                    .map_err(|row| Box::new(Answer::Request(row)))
            }
            Decision::PutPools { tree, expected } => self.put_pools(tree, expected),
            Decision::PutCluster { cluster, expected } => {
                let key = cluster.id.clone();
                put_row(&mut self.clusters, key, cluster, |row| {
                    row.map(|c| c.version) == expected
                })
                .map_err(|row| Box::new(Answer::Clusters(row.into_iter().collect())))
            }
            Decision::PutControl { control, expected } => self.put_control(control, expected),
            Decision::PutStartBans { bans, expected } => self.put_start_bans(bans, expected),
            Decision::TakeEpoch { role, next, expected } => self.take_epoch(role, next, expected),
            Decision::RaisePartition {
                partition,
                epoch,
                expected,
            } => self.raise(partition, epoch, expected),
            Decision::PutAssignments {
                partition,
                stamp,
                put,
                remove,
            } => self.put_assignments(partition, stamp, put, &remove),
        })
    }

    fn remove_head(&mut self, job: JobId, expected: Version) -> Result<(), Box<Answer>> {
        let key = (job_bucket(job), job);
        match self.heads.get(&key) {
            Some(head) if head.version != expected => Err(Box::new(Answer::Head(Some(head.clone())))),
            _ => {
                self.heads.remove(&key);
                Ok(())
            }
        }
    }

    fn put_pools(&mut self, tree: PoolTree, expected: Version) -> Result<(), Box<Answer>> {
        if self.pools == tree {
            return Ok(());
        }
        if self.pools.version != expected {
            return Err(Box::new(Answer::Pools(self.pools.clone())));
        }
        self.pools = tree;
        Ok(())
    }

    fn put_control(&mut self, control: Control, expected: Version) -> Result<(), Box<Answer>> {
        if self.control == control {
            return Ok(());
        }
        if self.control.version != expected {
            return Err(Box::new(Answer::Control(self.control.clone())));
        }
        self.control = control;
        Ok(())
    }

    fn put_start_bans(&mut self, bans: StartBans, expected: Stamp) -> Result<(), Box<Answer>> {
        if self.start_bans == bans {
            return Ok(());
        }
        if self.start_bans.stamp != expected {
            return Err(Box::new(Answer::StartBans(self.start_bans.clone())));
        }
        self.start_bans = bans;
        Ok(())
    }

    fn take_epoch(&mut self, role: Role, next: Leadership, expected: Epoch) -> Result<(), Box<Answer>> {
        let row = self.leaderships.entry(role).or_default();
        if *row == next {
            return Ok(());
        }
        if row.epoch != expected {
            return Err(Box::new(Answer::Leadership(row.clone())));
        }
        *row = next;
        Ok(())
    }

    fn raise(&mut self, partition: u16, epoch: Epoch, expected: Epoch) -> Result<(), Box<Answer>> {
        let row = self.partitions.entry(partition).or_default();
        if row.stamp.epoch == epoch {
            return Ok(());
        }
        if row.stamp.epoch != expected {
            return Err(Box::new(row.answer()));
        }
        row.stamp = Stamp { epoch, sequence: 0 };
        Ok(())
    }

    fn put_assignments(
        &mut self,
        partition: u16,
        stamp: Stamp,
        put: Vec<Assignment>,
        remove: &[JobId],
    ) -> Result<(), Box<Answer>> {
        let row = self.partitions.entry(partition).or_default();
        if row.stamp == stamp {
            return Ok(());
        }
        if row.stamp.next() != stamp {
            return Err(Box::new(row.answer()));
        }
        row.stamp = stamp;
        row.assignments.extend(put.into_iter().map(|a| (a.job, a)));
        row.assignments.retain(|job, _| !remove.contains(job));
        Ok(())
    }
}
