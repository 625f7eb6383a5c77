//! A decision as rows that are compared and set, and the verdict on it, given what is there.

use super::keys::number;
use super::pieces::Pieces;
use super::pools::TreeParts;
use super::{keys, pieces};
use crate::rows::RowKey;
use echelon_core_model::bucket::head_tag;
use echelon_core_model::store::{Answer, Decision, Stamp};
use echelon_core_model::{Assignment, Version};
use echelon_proto::convert::encode;

/// One row, compared and set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub at: RowKey,
    /// The guard's value that is replaced; `None`: insert if absent.
    pub expected: Option<i64>,
    /// The guard's new value and the row's; `None`: delete.
    pub to: Option<(i64, Vec<u8>)>,
    /// The row goes by itself after so long.
    pub keep_ms: Option<u64>,
    /// What its partition is tagged with, together with the write.
    pub tag: Option<i64>,
}

/// How a decision is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// One row.
    Row(Change),
    /// The rows of a cluster.
    Pieces(Pieces),
    /// The parts of a tree that differ; then their index.
    Pools(TreeParts),
    /// The epoch of an assignment partition.
    Raise {
        partition: RowKey,
        epoch: i64,
        expected: Option<i64>,
    },
    /// Rows of an assignment partition, as write `number` of `epoch`: after `number - 1`, and no other.
    Assign {
        partition: RowKey,
        epoch: i64,
        number: i64,
        put: Vec<AssignmentRows>,
        /// All rows of each.
        remove: Vec<RowKey>,
    },
}

/// The rows of an assignment, by their place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssignmentRows {
    /// What names all of them.
    pub all: RowKey,
    pub pieces: Vec<(RowKey, Vec<u8>)>,
}

impl AssignmentRows {
    fn of(assignment: &Assignment, stamp: Stamp) -> Self {
        let pieces = assignment.pieces(stamp);
        let rows = pieces.iter().zip(0..);
        Self {
            all: keys::assignment(assignment.job),
            pieces: rows
                .map(|(piece, place)| (keys::assignment_piece(assignment.job, place), encode(piece)))
                .collect(),
        }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|(_, value)| value.len() + 64).sum()
    }
}

/// What is to be said of a decision, given what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What it would write is there.
    Holds,
    /// What it expects is there.
    Open,
    /// Something else is there.
    Taken,
}

fn tagged(plan: Plan, tag: i64) -> Plan {
    match plan {
        Plan::Row(change) => Plan::Row(Change {
            tag: Some(tag),
            ..change
        }),
        other => other,
    }
}

/// How a decision is carried out.
pub(crate) fn plan(decision: &Decision) -> Plan {
    let row = |at, expected: Option<Version>, version: Version, value| {
        Plan::Row(Change {
            at,
            expected: expected.map(|v| number(v.0)),
            to: Some((number(version.0), value)),
            keep_ms: None,
            tag: None,
        })
    };
    match decision {
        Decision::PutHead { head, expected } => {
            let plan = row(keys::head(head.job), *expected, head.version, encode(head));
            tagged(plan, head_tag(head.job, head.version))
        }
        Decision::RemoveHead { job, expected } => Plan::Row(Change {
            at: keys::head(*job),
            expected: Some(number(expected.0)),
            to: None,
            keep_ms: None,
            tag: None,
        }),
        Decision::PutSpec { job, version, spec } => {
            row(keys::spec(*job, *version), None, Version(0), encode(spec))
        }
        Decision::TakeName {
            name,
            holder,
            expected,
        } => row(keys::name(name), *expected, holder.version, encode(holder)),
        Decision::PlanRequest { id, planned } => Plan::Row(Change {
            at: keys::request(id),
            expected: None,
            to: Some((0, encode(planned))),
            keep_ms: Some(super::table::REQUEST_KEEP_MS),
            tag: None,
        }),
        Decision::PutCluster { cluster, expected } => {
            let version = number(cluster.version.0);
            let rows = (0..).zip(pieces::cut(&encode(cluster), version));
            Plan::Pieces(Pieces {
                all: keys::cluster(&cluster.id),
                expected: expected.map(|v| number(v.0)),
                version,
                rows: rows
                    .map(|(place, value)| (keys::cluster_piece(&cluster.id, place), value))
                    .collect(),
            })
        }
        Decision::PutControl { control, expected } => row(
            keys::control(),
            guard(expected.0).map(|_| *expected),
            control.version,
            encode(control),
        ),
        Decision::PutStartBans { bans, expected } => Plan::Row(Change {
            at: keys::start_bans(),
            expected: (expected.epoch.0 > 0).then(|| expected.packed()),
            to: Some((bans.stamp.packed(), encode(bans))),
            keep_ms: None,
            tag: None,
        }),
        Decision::TakeEpoch { role, next, expected } => row(
            keys::leadership(role),
            guard(expected.0).map(|_| Version(expected.0)),
            Version(next.epoch.0),
            encode(next),
        ),
        Decision::PutPools { tree, expected } => Plan::Pools(TreeParts::of(tree, *expected)),
        Decision::RaisePartition {
            partition,
            epoch,
            expected,
        } => Plan::Raise {
            partition: keys::assignments(*partition),
            epoch: number(epoch.0),
            expected: guard(expected.0),
        },
        Decision::PutAssignments {
            partition,
            stamp,
            put,
            remove,
        } => Plan::Assign {
            partition: keys::assignments(*partition),
            epoch: number(stamp.epoch.0),
            number: number(stamp.sequence),
            put: put.iter().map(|a| AssignmentRows::of(a, *stamp)).collect(),
            remove: remove.iter().map(|job| keys::assignment(*job)).collect(),
        },
    }
}

/// A guard that counts from 1: 0 means that there is no row yet.
fn guard(n: u64) -> Option<i64> {
    (n > 0).then(|| number(n))
}

/// The verdict on a decision, given the present row in the answer of the query that reads it.
pub(crate) fn judge(decision: &Decision, present: &Answer) -> Verdict {
    let (holds, open) = match (decision, present) {
        (Decision::PutHead { head, expected }, Answer::Head(there)) => (
            there.as_ref() == Some(head),
            there.as_ref().map(|h| h.version) == *expected,
        ),
        (Decision::RemoveHead { expected, .. }, Answer::Head(there)) => (
            there.is_none(),
            there.as_ref().is_some_and(|h| h.version == *expected),
        ),
        (Decision::PutSpec { spec, .. }, Answer::Spec(there)) => {
            (there.as_ref() == Some(spec), there.is_none())
        }
        (Decision::TakeName { holder, expected, .. }, Answer::Name(there)) => (
            there.as_ref() == Some(holder),
            there.as_ref().map(|h| h.version) == *expected,
        ),
        (Decision::PlanRequest { planned, .. }, Answer::Request(there)) => {
            (there.as_ref() == Some(planned), there.is_none())
        }
        (Decision::PutCluster { cluster, expected }, Answer::Clusters(there)) => (
            there.first() == Some(cluster),
            there.first().map(|c| c.version) == *expected,
        ),
        (Decision::PutControl { control, expected }, Answer::Control(there)) => {
            (there == control, there.version == *expected)
        }
        (Decision::PutStartBans { bans, expected }, Answer::StartBans(there)) => {
            (there == bans, there.stamp == *expected)
        }
        (Decision::TakeEpoch { next, expected, .. }, Answer::Leadership(there)) => {
            (there == next, there.epoch == *expected)
        }
        (Decision::RaisePartition { epoch, expected, .. }, Answer::Assignments(there, _)) => {
            (there.epoch == *epoch, there.epoch == *expected)
        }
        (Decision::PutAssignments { stamp, .. }, Answer::Assignments(there, _)) => {
            (there == stamp, there.next() == *stamp)
        }
        // `read::present` gives each decision its own kind of answer. A pool tree is judged by its index,
        // before its answer is read: only what another has put is read.
        _ => (false, false),
    };
    match (holds, open) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::Open,
        (false, false) => Verdict::Taken,
    }
}
