//! What clusters run although no stored assignment gives it to them, after an older storage was put back and
//! resumed. Assignments are as old as the rest: an instance that was assigned after the copy was taken runs,
//! and storage takes it for unassigned. So after a resume nothing is assigned before every cluster has
//! reported what it found, and what was found goes first.
//!
//! A report counts when it comes from a shard leader that was elected after the resume. A cluster that has
//! left is not waited for. Nor is one that operators have cordoned or drain, if it is unreachable or has
//! never reported. When all have reported, that is stored in the mark of this role: no later leader waits
//! again for the same resume.
//!
//! What becomes of number `n`, found at cluster A at generation `g`:
//!
//! | stored | what is done |
//! | --- | --- |
//! | the job is not there | nothing here; A has it in quarantine, and an alarm names it |
//! | the job is to stop or to be deleted | nothing here; A stops it |
//! | `n` is assigned to A at `g` | nothing here; A has adopted it |
//! | `n` is assigned at an older generation, to A or to another cluster | it is assigned to A at `g`; another cluster that runs it stops it |
//! | `n` is assigned to another cluster at `g` or later | nothing here; A stops it |
//! | `n` is assigned to A at a later generation | nothing here; A goes by its own record |
//! | `n` is not assigned, and the group lacks numbers | it is assigned to A at `g`, before any number that nobody runs |
//! | `n` is not assigned, and the group has all that it is to have | nothing; A has it in quarantine, and gets it when the group grows |
//! | `n` was ended or scaled away at `g` or later | nothing here; A has it in quarantine |
//! | `n` was found at several clusters | the latest generation counts, then the first cluster by id; the others stop it as above |
//!
//! A gang is at one cluster: what was found of it at the cluster that has the latest generation counts, and
//! all of it goes there. Asked by the cycle before it routes.

use crate::effect::Effect;
use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::manager::ResourceManager;
use crate::storage::operations::Purpose;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::Health;
use echelon_core_model::store::{Consistency, Leadership, Mark, Op, Query, Role};
use echelon_core_model::{ClusterId, Epoch, Reason, ReasonCode, Timestamp};

/// The last resume of storage, by its epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resume {
    /// 0: never.
    at: Epoch,
    /// The last one after which all clusters have reported.
    pub(crate) settled: Epoch,
}

impl Resume {
    pub(crate) fn of(leadership: &Leadership, mark: Option<&Mark>) -> Self {
        Self {
            at: leadership.resumed,
            settled: mark.map(|mark| mark.settled).unwrap_or_default(),
        }
    }

    const fn is_open(self) -> bool {
        self.settled.0 < self.at.0
    }
}

/// Whether a cluster's report is waited for.
fn is_awaited(view: &ClusterView) -> bool {
    let Some(row) = &view.row else {
        return false;
    };
    let is_away = view.health().is_silence() || view.health() == Health::Joining;
    let is_set_aside =
        row.desired_state == DesiredState::Removed || (row.desired_state != DesiredState::Active && is_away);
    !is_set_aside && !view.found.counts()
}

/// Why nothing is assigned; `None`: all clusters have reported.
fn awaited(facts: &FederationFacts) -> Option<Reason> {
    let views = facts.clusters.values().filter(|view| is_awaited(view));
    let names: Vec<&str> = views
        .filter_map(|v| v.row.as_ref())
        .map(|r| r.name.as_str())
        .collect();
    let first = names.first()?;
    let others = names.len() - 1;
    let text = if others == 0 {
        (*first).to_owned()
    } else {
        format!("{first} and {others} more")
    };
    Some(Reason::new(ReasonCode::AwaitingClusters).at(text))
}

impl ResourceManager {
    /// Looks whether all clusters have reported since storage was resumed. Until then nothing is assigned.
    pub(crate) fn settle_resume(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.resume.is_open() {
            return;
        }
        self.ask_for_resumes(now, out);
        let awaiting = awaited(&self.picture.facts);
        let before = std::mem::replace(&mut self.picture.facts.awaiting, awaiting);
        if self.picture.facts.awaiting.is_none() {
            self.resume.settled = self.resume.at;
        }
        if before != self.picture.facts.awaiting {
            self.dirty.extend(self.picture.facts.live().map(|(id, _)| id));
            self.due = true;
        }
    }

    /// Reads when the shards' roles were resumed: a report of an earlier leader of a shard does not count.
    fn ask_for_resumes(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let unread = self.picture.facts.clusters.iter();
        let unread = unread.filter(|(_, v)| v.row.is_some() && v.found.resumed.is_none());
        let ids: Vec<ClusterId> = unread.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let purpose = Purpose::ShardResumed(id.clone());
            if !self.ops.has(&purpose) {
                let query = Query::Leadership(Role::Shard(id));
                self.ops
                    .start(purpose, Op::Read(query, Consistency::Serial), now, out);
            }
        }
    }

    pub(crate) fn shard_resumed(
        &mut self,
        cluster: &ClusterId,
        stored: &Leadership,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        if let Some(view) = self.picture.facts.clusters.get_mut(cluster) {
            view.found.resumed = Some(stored.resumed);
            self.settle_resume(now, out);
        }
    }
}
