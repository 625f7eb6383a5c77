//! What is stored and sent about clusters as time passes: the health of each, and its desired state.

use crate::config::FULL_CYCLE;
use crate::effect::{Alarm, Effect};
use crate::facts::cluster::ClusterView;
use crate::facts::health::{HealthEvidence, JudgementBasis, changed_state, evidence, judge};
use crate::facts::loss::{Doubt, doubt, doubt_about};
use crate::facts::same_master::refuse_same;
use crate::facts::settling::Settling;
use crate::facts::starts::compare_starts;
use crate::manager::ResourceManager;
use crate::orders::kill_switch::kills;
use echelon_core_model::directive::Order;
use echelon_core_model::health::Health;
use echelon_core_model::store::Write;
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use std::collections::BTreeMap;

impl ResourceManager {
    /// Sends each shard a heartbeat. A shard without one believes itself alone and
    /// reads all assignments again.
    fn give_sign_of_life(&mut self, out: &mut Vec<Effect>) {
        let linked = self
            .picture
            .facts
            .clusters
            .iter()
            .filter(|(_, c)| c.link.is_some());
        for cluster in linked.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.send(&cluster, Order::Slices(Vec::new()), out);
        }
    }

    /// What the evidence shows of each cluster, and why this leader doubts what it sees, if it does.
    fn observe_clusters(&mut self, now: Timestamp) -> (BTreeMap<ClusterId, HealthEvidence>, Option<Doubt>) {
        self.self_observation.look(FULL_CYCLE, now);
        let (config, leading) = (&self.config, self.timers.leading);
        let clusters = self.picture.facts.clusters.iter();
        let present = clusters.filter(|(_, view)| view.is_present());
        let found = present.map(|(id, view)| (id.clone(), evidence(view, config, leading, now)));
        let found: BTreeMap<ClusterId, HealthEvidence> = found.collect();
        let doubt = doubt(self.self_observation, found.values(), config, now);
        (found, doubt)
    }

    /// Judges the health of each cluster and stores what has changed. A quiet cluster is asked for a full
    /// report.
    pub(crate) fn judge_clusters(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        for (cluster, other) in refuse_same(&mut self.picture.facts.clusters, now) {
            out.push(Effect::Alarm(Alarm::SameMaster { cluster, other }));
        }
        compare_starts(&mut self.picture.facts.clusters, now);
        let half = Span(self.config.silent_after.0 / 2);
        let (mut quiet, mut accepted, mut wishes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut claimed, mut changed, mut is_other) = (Vec::new(), Vec::new(), false);
        let mut other_silence = Vec::new();
        let rested = now.since(self.timers.numbers) >= self.config.reread;
        if rested {
            self.timers.numbers = now;
        }
        let was_held_back = self.held_back().is_some();
        let (found, doubt) = self.observe_clusters(now);
        let clusters = self.picture.facts.clusters.iter_mut();
        for (id, view) in clusters.filter(|(_, view)| view.is_present()) {
            let Some(evidence) = found.get(id).cloned() else {
                continue;
            };
            let before = view.state.as_ref().map(|s| s.health.clone()).unwrap_or_default();
            view.doubt = doubt_about(&before, doubt, &self.config);
            let at = JudgementBasis {
                now,
                step: view.judged_at.replace(now).map(|at| now.since(at)),
                doubt: view.doubt,
                declared: view.row.as_ref().and_then(|row| row.declared),
                heartbeat_at: view.heartbeat.as_ref().map(|(beat, _)| beat.at),
            };
            let is_cut = matches!(&evidence, HealthEvidence::Bad(Health::CutOff, _));
            if is_cut {
                count_silence(view, at, self.config.start_ban_after);
            } else {
                end_silence(view);
            }
            let health = judge(&before, evidence, &self.config, at);
            let counted = view.counted.next(&health, self.config.counts_for);
            is_other |= counted != std::mem::replace(&mut view.counted, counted);
            let is_same = (before.health, &before.causes) == (health.health, &health.causes);
            let is_known = view.state.is_some() || health.health != Health::Joining;
            if before.health.is_silence() != health.health.is_silence() {
                other_silence.push(id.clone());
            }
            if is_known && let Some(next) = changed_state(id, view, health) {
                // Figures alone are stored now and then, other health at once.
                if !is_same || rested {
                    self.writes.push(Write::ClusterState(next.clone()));
                }
                if !is_same && !view.is_heard() {
                    changed.push(id.clone());
                }
                view.state = Some(next);
                is_other |= !is_same;
            }
            let since = |at: Option<Timestamp>, span: Span| at.is_none_or(|at| now.since(at) >= span);
            let is_quiet = since(view.heard_at.max(view.asked_at), half);
            // The answer to the first question of a stream may be lost: until it comes all counts as unknown.
            let lacks = (view.missed || view.fulls == 0 || view.settling == Settling::Unknown)
                && since(view.asked_at, FULL_CYCLE);
            accepted.extend(accepted_loss(view).map(|number| (id.clone(), number)));
            if rested && view.link.is_some() {
                claimed.push(id.clone());
                wishes.extend(wishes_for(view).map(|order| (id.clone(), order)));
                wishes.extend(kills(&self.picture.facts.control).map(|order| (id.clone(), order)));
            }
            if view.link.is_some() && (is_quiet || lacks) {
                quiet.push(id.clone());
            }
        }
        if let Some(held_back) = self.held_back().filter(|_| !was_held_back) {
            out.push(Effect::Alarm(Alarm::ReplacementHeldBack(held_back)));
        }
        if is_other {
            // What takes work, and what counts as capacity, may have changed.
            self.picture.revision += 1;
            self.due = true;
        }
        for id in quiet {
            self.ask(&id, now, out);
        }
        changed.iter().for_each(|id| self.write_held_by(id));
        // What is there counts as unavailable now, or does no more.
        for id in other_silence {
            let held = self.picture.facts.jobs.held_by(&id, JobId(0));
            self.dirty.extend(held.map(|(job, _)| job));
        }
        // Repeated until the shard reports that nothing waits for it any more.
        for (id, number) in accepted {
            self.send(&id, Order::AcceptLoss(number), out);
        }
        // Their leases begin again.
        for id in claimed {
            if self.picture.preemption.at(&id).next().is_some() {
                self.tell_claims(&id, out);
            }
        }
        // Repeated as long as the desired state stands: what is done already changes nothing.
        for (id, order) in wishes {
            self.send(&id, order, out);
        }
        if rested {
            self.give_sign_of_life(out);
        }
    }
}

/// Counts how long this leader itself has seen a cluster cut off, and when starts are forbidden there by that.
fn count_silence(view: &mut ClusterView, at: JudgementBasis, forbidden_after: Span) {
    view.silent_for = Span(view.silent_for.0.saturating_add(at.measured().0));
    let left = forbidden_after.0.saturating_sub(view.silent_for.0);
    // Once it has passed the moment stands.
    if left > 0 {
        view.moves_at = Some(at.now.plus(Span(left)));
    }
}

/// A cluster is not cut off.
const fn end_silence(view: &mut ClusterView) {
    view.silent_for = Span::ZERO;
    view.moves_at = None;
}

/// What operators want of a cluster's volumes and hosts.
fn wishes_for(view: &ClusterView) -> impl Iterator<Item = Order> {
    let row = view.row.as_ref();
    let volumes = row.filter(|r| !r.volumes.is_empty());
    let drains = row.filter(|r| r.drains.version > 0);
    let moves = row.map(|r| &r.host_pools.moves).filter(|m| m.version > 0);
    let volumes = volumes.map(|r| Order::Volumes(r.volumes.clone()));
    let forgotten = row.map(|r| &r.forgotten).filter(|f| f.version > 0);
    volumes
        .into_iter()
        .chain(drains.map(|r| Order::Drains(r.drains.clone())))
        .chain(moves.map(|m| Order::HostMoves(m.clone())))
        .chain(forgotten.map(|f| Order::ForgetHosts(f.clone())))
}

/// The mass loss for which a shard reports that it waits, if an operator has accepted it.
fn accepted_loss(view: &ClusterView) -> Option<u64> {
    let waits = view.capacity.as_ref().and_then(|c| c.loss)?;
    let accepted = view.row.as_ref().map_or(0, |r| r.accepted_loss);
    (waits <= accepted).then_some(waits)
}
