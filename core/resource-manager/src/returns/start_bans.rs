//! Forbidding starts at silent clusters, so that what has not begun there can go elsewhere. The protocol is
//! in `docs/decisions/start-lease.md`, and `tests/tests/start_lease.rs` checks a model of it. Its rules
//! here:
//!
//! | rule of the model | where |
//! | --- | --- |
//! | `SecondLook` | heartbeats are read once more after the row is durable, and nothing is read or moved before that |
//! | `Fence` | a new leader writes the row under its own epoch, and raises all partitions of assignments, before it leads |
//!
//! The 60 s are those in which this leader itself saw no change. What leaders before it have measured does
//! not count: a heartbeat may have changed between both. A row that an older leader left stands until the
//! heartbeat changes, or until this leader has waited as long.
//!
//! A row is withdrawn only when no move of this leader is on its way to storage. Otherwise a shard could
//! read its assignments before a move that is decided already.

use crate::config::Config;
use crate::effect::{Alarm, Effect};
use crate::facts::cluster::ClusterView;
use crate::manager::{Phase, ResourceManager};
use crate::returns::unbegun::UnbegunMoves;
use crate::storage::operations::Purpose;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{Answer, Consistency, Decided, Decision, Op, Query, Stamp};
use echelon_core_model::{ClusterId, JobId, Timestamp};
use std::collections::BTreeMap;

/// How far the protocol is at a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BanStep {
    /// The row that forbids starts is being written.
    Forbidding,
    /// It is durable, and heartbeats are being read once more.
    LookingAgain,
    /// The heartbeat was still the same: what has not begun may move.
    Moving,
    /// The shard is back: the row is withdrawn as soon as no move is on its way.
    Returned,
}

/// A cluster where this leader forbids starts.
#[derive(Debug, Clone)]
pub(crate) struct SilentCluster {
    /// The heartbeat that did not change.
    seen: Heartbeat,
    /// Since when nothing may be reported over its stream.
    since: Timestamp,
    pub(crate) step: BanStep,
    pub(crate) moves: UnbegunMoves,
}

/// Where starts are forbidden, as far as this leader knows and acts.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartBanning {
    /// The row, as it is durable.
    row: StartBans,
    pub(crate) clusters: BTreeMap<ClusterId, SilentCluster>,
}

impl StartBanning {
    /// How many entries it has of jobs.
    pub(crate) fn footprint(&self) -> usize {
        self.clusters.values().map(|of| of.moves.footprint()).sum()
    }
}

/// Whether a cluster has shown life since this leader began to look at it.
fn has_changed(view: &ClusterView, since: Timestamp) -> bool {
    let beat = view.heartbeat.as_ref().is_some_and(|(_, seen)| *seen > since);
    beat || view.heard_at.is_some_and(|at| at > since)
}

/// Whether this leader has seen no sign of a cluster for so long that no start lease can hold there.
fn is_lapsed(view: &ClusterView, config: &Config) -> bool {
    view.silent_for >= config.start_ban_after && view.heartbeat.is_some()
}

impl SilentCluster {
    fn of(view: &ClusterView, step: BanStep, now: Timestamp) -> Option<Self> {
        let (seen, _) = view.heartbeat.as_ref()?;
        Some(Self {
            seen: seen.clone(),
            since: now,
            step,
            moves: UnbegunMoves::default(),
        })
    }

    /// Whether its shard has shown life since.
    fn is_back(&self, view: Option<&ClusterView>) -> bool {
        let view = view.filter(|view| view.heard_at.is_none_or(|at| at <= self.since));
        let beat = view.and_then(|view| view.heartbeat.as_ref());
        beat.is_none_or(|(beat, _)| *beat != self.seen)
    }
}

impl ResourceManager {
    /// The row was read by a new leader: it is written as it is under the own epoch.
    pub(crate) fn start_bans_read(&mut self, row: StartBans, now: Timestamp, out: &mut Vec<Effect>) {
        if row.stamp.epoch > self.epoch {
            let why = format!(
                "starts are forbidden by resource manager epoch {}",
                row.stamp.epoch
            );
            return self.step_down(why, out);
        }
        let expected = row.stamp;
        let stamp = Stamp {
            epoch: self.epoch,
            sequence: 0,
        };
        self.put_start_bans(StartBans { stamp, ..row }, expected, now, out);
    }

    fn put_start_bans(&mut self, bans: StartBans, expected: Stamp, now: Timestamp, out: &mut Vec<Effect>) {
        let put = Decision::PutStartBans { bans, expected };
        self.ops.start(Purpose::PutStartBans, Op::Decide(put), now, out);
    }

    /// What became of a write of the row.
    pub(crate) fn start_bans_put(&mut self, op: Op, decided: Decided, now: Timestamp, out: &mut Vec<Effect>) {
        if let Decided::Conflict(there) = decided {
            match *there {
                // An older leader's write came first.
                Answer::StartBans(row) if row.stamp.epoch < self.epoch => {
                    self.start_bans_read(row, now, out);
                }
                other => {
                    let why = format!("starts are forbidden by another resource manager: {other:?}");
                    self.step_down(why, out);
                }
            }
            return;
        }
        let Op::Decide(Decision::PutStartBans { bans, .. }) = op else {
            return;
        };
        let banning = &mut self.start_banning;
        banning.row = bans;
        let row = &banning.row;
        banning
            .clusters
            .retain(|id, of| of.step != BanStep::Returned || row.silence(id).is_some());
        let forbidding = banning
            .clusters
            .iter_mut()
            .filter(|(_, of)| of.step == BanStep::Forbidding);
        let written = forbidding.filter(|(id, _)| row.silence(id).is_some());
        let mut look: Vec<ClusterId> = Vec::new();
        for (id, of) in written {
            of.step = BanStep::LookingAgain;
            look.push(id.clone());
        }
        for id in look {
            self.look_again(id, now, out);
        }
    }

    /// Only now that the row is durable the second look says anything.
    fn look_again(&mut self, cluster: ClusterId, now: Timestamp, out: &mut Vec<Effect>) {
        let op = Op::Read(Query::Heartbeats, Consistency::Quorum);
        self.ops.start(Purpose::SecondLook(cluster), op, now, out);
    }

    /// Heartbeats, as they are after the row became durable. A heartbeat that is missing has changed.
    pub(crate) fn looked_again(&mut self, cluster: &ClusterId, rows: &[Heartbeat]) {
        let Some(of) = self.start_banning.clusters.get_mut(cluster) else {
            return;
        };
        if of.step == BanStep::LookingAgain {
            let is_same = rows.contains(&of.seen);
            of.step = if is_same {
                BanStep::Moving
            } else {
                BanStep::Returned
            };
        }
    }

    /// Once a second: forbids starts where that is due, and allows them where the shard is back.
    pub(crate) fn keep_start_bans(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.phase != Phase::Leading {
            return;
        }
        let views = &self.picture.facts.clusters;
        for (id, of) in &mut self.start_banning.clusters {
            if of.is_back(views.get(id)) {
                of.step = BanStep::Returned;
                of.moves.stop_reading();
            }
        }
        self.note_stored_moves();
        self.read_unbegun(now, out);
        if self.ops.has(&Purpose::PutStartBans) {
            return;
        }
        // A write that was refused is made anew.
        let (row, clusters) = (&self.start_banning.row, &mut self.start_banning.clusters);
        let has_row = |of: &SilentCluster| !matches!(of.step, BanStep::Forbidding | BanStep::Returned);
        clusters.retain(|id, of| has_row(of) || row.silence(id).is_some());
        self.take_over_bans(now, out);
        let Some((cluster, ban)) = self.next_allowed().or_else(|| self.next_forbidden(now)) else {
            return;
        };
        if let Some(silence) = ban.silence {
            out.push(Effect::Alarm(Alarm::StartsForbidden {
                cluster: cluster.clone(),
                silence,
            }));
        }
        let (next, before) = (
            self.start_banning.row.with(&cluster, ban),
            self.start_banning.row.stamp,
        );
        self.put_start_bans(next, before, now, out);
    }

    /// A row that an older leader left is this leader's once it has waited for itself. It is durable already.
    fn take_over_bans(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let (banning, views) = (&self.start_banning, &self.picture.facts.clusters);
        let left = banning.row.clusters.iter();
        let left = left.filter(|(id, ban)| ban.silence.is_some() && !banning.clusters.contains_key(*id));
        let lapsed = left.filter_map(|(id, _)| {
            let view = views.get(id).filter(|view| is_lapsed(view, &self.config))?;
            Some((id.clone(), SilentCluster::of(view, BanStep::LookingAgain, now)?))
        });
        let lapsed: Vec<(ClusterId, SilentCluster)> = lapsed.collect();
        for (id, of) in lapsed {
            self.start_banning.clusters.insert(id.clone(), of);
            self.look_again(id, now, out);
        }
    }

    /// A cluster where starts are allowed again. What older leaders had moved is fenced: this one has
    /// raised the epochs of all assignments before it leads.
    fn next_allowed(&self) -> Option<(ClusterId, StartBan)> {
        let banning = &self.start_banning;
        let banned = banning
            .row
            .clusters
            .iter()
            .filter(|(_, ban)| ban.silence.is_some());
        let mut back = banned.filter(|(id, _)| match banning.clusters.get(*id) {
            Some(of) => of.step == BanStep::Returned && of.moves.are_stored(),
            None => {
                let view = self.picture.facts.clusters.get(*id);
                view.is_some_and(|view| has_changed(view, self.timers.leading))
            }
        });
        back.next().map(|(id, ban)| {
            let allowed = StartBan {
                silence: None,
                ..*ban
            };
            (id.clone(), allowed)
        })
    }

    /// A cluster where starts are forbidden now, if anything is assigned there.
    fn next_forbidden(&mut self, now: Timestamp) -> Option<(ClusterId, StartBan)> {
        let (banning, facts) = (&self.start_banning, &self.picture.facts);
        let is_due = |id: &ClusterId, view: &ClusterView| {
            let is_known = banning.row.clusters.contains_key(id);
            let has_place = is_known || banning.row.clusters.len() < StartBans::MOST;
            let is_free = banning.row.silence(id).is_none() && !banning.clusters.contains_key(id);
            let is_used = || facts.jobs.held_by(id, JobId(0)).next().is_some();
            is_lapsed(view, &self.config) && has_place && is_free && view.row.is_some() && is_used()
        };
        let (id, view) = facts.clusters.iter().find(|(id, view)| is_due(id, view))?;
        let silence = view.state.as_ref()?.health.silence;
        let of = SilentCluster::of(view, BanStep::Forbidding, now)?;
        let (id, number) = (id.clone(), banning.row.of(id).number.saturating_add(1));
        self.start_banning.clusters.insert(id.clone(), of);
        let ban = StartBan {
            number,
            silence: Some(silence),
        };
        Some((id, ban))
    }
}
