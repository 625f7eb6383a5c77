//! Health is true within its bound: the health that is shown of a cluster is one that the truth allowed a
//! short while ago. And a shard that can subscribe does so in time: a cluster counts as silent until then.

use super::course::{ClusterCourse, ClusterTruth};
use crate::world::World;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::health::{ClusterHealth, Health, HealthCause};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{Span, Timestamp};

/// The invariant that is judged here.
const INVARIANT: u8 = 33;
/// What the product promises (docs/operations.md): at the latest 14 s after the fault, and a second for the
/// judgement.
const PROMISED: Span = Span::seconds(15);
/// What the world adds: what was sent before a cluster's return comes up to 5 s late. An operation of storage
/// that is lost is given up after 2 s and repeated after up to 5 s, and that twice: the shard writes its
/// heartbeat and the manager the health. The world's truth is noted four times a second.
const ADDED: Span = Span::seconds(5 + 2 * (2 + 5) + 1);
/// Both together.
const BOUND: Span = Span(PROMISED.0 + ADDED.0);
/// The list of agents is read each minute.
const AGENTS_BOUND: Span = Span(BOUND.0 + Span::minutes(1).0);
/// A subscription that gets no answer is repeated after five heartbeats of 15 s, and one that fails after 15 s
/// at the latest.
const SUBSCRIBES_WITHIN: Span = Span(Span::seconds(75 + 15).0 + ADDED.0);

/// Whether the truth of a short while ago allows a health to be shown now.
fn is_true(course: &ClusterCourse, shown: &ClusterHealth, now: Timestamp) -> bool {
    let ago = |span: Span| Timestamp(now.0.saturating_sub(span.0));
    let was = |what: &dyn Fn(ClusterTruth) -> bool| course.was(ago(BOUND), now, what);
    match shown.health {
        Health::Joining => {
            let added = course.added_at;
            now.since(added) <= AGENTS_BOUND
                || !course.was(added, ago(BOUND), ClusterTruth::is_good_and_heard)
        }
        Health::Healthy => was(&|truth| truth.is_good_and_heard() && truth.has_agents),
        // The hold after a bad state is up to ten minutes.
        Health::Recovering => {
            let long_ago = ago(Span(BOUND.0 + ClusterHealth::LONGEST_HOLD.0));
            let is_amiss =
                |truth: ClusterTruth| !truth.is_good_and_heard() || !truth.is_whole || truth.is_slow;
            was(&ClusterTruth::is_good_and_heard) && course.was(long_ago, now, is_amiss)
        }
        Health::Degraded => {
            let is_partly = |truth: ClusterTruth| !truth.is_whole;
            let is_amiss =
                |truth: ClusterTruth| !truth.is_good_and_heard() || !truth.is_driven || truth.is_slow;
            let waits_for_storage =
                shown.causes == [HealthCause::StorageSlow] && was(&|truth| truth.is_unanswered);
            waits_for_storage || was(&is_amiss) || course.was(ago(AGENTS_BOUND), now, is_partly)
        }
        Health::WithoutMesos => was(&|truth| !truth.has_master || !truth.is_subscribed),
        Health::WithoutAgents => course.was(ago(AGENTS_BOUND), now, |truth| !truth.is_whole),
        Health::CutOff => was(&|truth| truth.is_cut || !truth.is_led),
        Health::Lost => was(&ClusterTruth::is_silent),
    }
}

impl World {
    /// Whether operators remove a cluster, or have.
    fn is_leaving(&self, cluster: usize) -> bool {
        matches!(
            self.federation.desired_of(cluster),
            DesiredState::Removing | DesiredState::Removed
        )
    }

    /// Judges whether shards subscribe in time.
    fn judge_subscriptions(&mut self) {
        let now = self.now;
        let courses = self.federation.courses.iter().enumerate();
        let late = courses.filter(|(cluster, course)| {
            course.unsubscribed_for(now) > SUBSCRIBES_WITHIN && !self.is_leaving(*cluster)
        });
        let late: Vec<usize> = late.map(|(cluster, _)| cluster).collect();
        for cluster in late {
            let what =
                format!("the shard of c{cluster} could subscribe, and has not for {SUBSCRIBES_WITHIN}");
            self.break_rule(INVARIANT, what);
        }
    }

    /// Judges what is shown of each cluster.
    pub(super) fn judge_health(&mut self) {
        let now = self.now;
        self.judge_subscriptions();
        // A new leader waits until it has seen a silence for itself, and nobody judges while none leads.
        if self
            .federation
            .manager
            .led_for(now)
            .is_none_or(|span| span < BOUND)
        {
            return;
        }
        let Answer::ClusterStates(states) = self.store.read(&Query::ClusterStates) else {
            return;
        };
        for state in states {
            let Some(n) = self.clusters.iter().position(|c| c.id == state.cluster) else {
                continue;
            };
            let is_leaving = self.is_leaving(n);
            let Some(course) = self.federation.courses.get(n).filter(|_| !is_leaving) else {
                continue;
            };
            let shown = &state.health;
            self.federation.figures.health += 1;
            self.federation.figures.unhealthy += u64::from(shown.health != Health::Healthy);
            let is_unheard = shown.causes.contains(&HealthCause::StreamSilent);
            self.federation.figures.unheard += u64::from(is_unheard);
            if !is_true(course, shown, now) {
                let what = format!("c{n} is shown as {shown}, which it was not in the last {BOUND}");
                self.break_rule(INVARIANT, what);
            }
        }
    }
}
