//! Shards that report what cannot be: a number out of its range, another cluster's name, a newer resource
//! manager than storage knows. Such a shard is in quarantine for a while, with an alarm. The others go on.
//! Neither a shard's report nor its silence ends a leadership.

use crate::effect::{Alarm, Effect};
use crate::facts::settling::unsettle;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::directive::Order;
use echelon_core_model::store::{Consistency, Leadership, Op, Query, Role};
use echelon_core_model::{ClusterId, Epoch, Span, Timestamp};

/// How long a shard is set aside before a stream to it is opened again.
pub const QUARANTINE: Span = Span::minutes(1);

impl ResourceManager {
    /// Sends what this leader took: the first message of a stream.
    pub(crate) fn greet(&mut self, cluster: &ClusterId, out: &mut Vec<Effect>) {
        // Before the epoch is taken there is nothing to send; the stream is greeted when it is.
        if matches!(self.phase, Phase::Recovering | Phase::Leading) {
            let taken = Leadership::taken(self.epoch, &self.config.holder, self.config.seed);
            self.send(cluster, Order::Hello(taken), out);
        }
    }

    pub(crate) fn is_quarantined(&self, cluster: &ClusterId, now: Timestamp) -> bool {
        let view = self.picture.facts.clusters.get(cluster);
        view.and_then(|v| v.quarantine).is_some_and(|until| now < until)
    }

    /// Puts a shard into quarantine. What it reported before stays, and counts as older than its next report.
    pub(crate) fn quarantine(
        &mut self,
        cluster: &ClusterId,
        why: String,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(view) = self.picture.facts.clusters.get_mut(cluster) else {
            return;
        };
        view.quarantine = Some(now.plus(QUARANTINE));
        view.link = None;
        view.incoming = None;
        view.last_report = Default::default();
        unsettle(
            &mut self.picture.facts,
            cluster,
            self.picture.demand.ledger.unstored(),
        );
        self.picture.preemption.forget(cluster);
        self.due = true;
        out.push(Effect::Unwatch(cluster.clone()));
        let cluster = cluster.clone();
        out.push(Effect::Alarm(Alarm::ShardSetAside { cluster, why }));
    }

    /// A shard reports that it obeys a newer resource manager: storage knows whether there is one.
    pub(crate) fn check_epoch(
        &mut self,
        cluster: &ClusterId,
        newer: Epoch,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let purpose = Purpose::CheckEpoch(cluster.clone(), newer);
        if !matches!(self.phase, Phase::Recovering | Phase::Leading) || self.ops.has(&purpose) {
            return;
        }
        let op = Op::Read(Query::Leadership(Role::ResourceManager), Consistency::Serial);
        self.ops.start(purpose, op, now, out);
    }

    /// The own row was read because of a shard's report.
    pub(crate) fn epoch_checked(
        &mut self,
        said: (&ClusterId, Epoch),
        stored: &Leadership,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        if !self.stands(stored) {
            self.epoch_confirmed(stored, out);
            return;
        }
        let (cluster, newer) = said;
        let why = format!(
            "it says that it obeys resource manager epoch {newer}, and storage knows none after {}",
            self.epoch
        );
        self.quarantine(cluster, why, now, out);
    }
}
