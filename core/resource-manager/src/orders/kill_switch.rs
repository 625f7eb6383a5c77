//! The switch that stops all kills (law 8), as it is passed on to shards.
//! They read it themselves: an order is only quicker.

use crate::effect::Effect;
use crate::manager::{Phase, ResourceManager};
use crate::storage::operations::Purpose;
use echelon_core_model::control::Control;
use echelon_core_model::directive::Order;
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::{ClusterId, Timestamp, Version};

impl ResourceManager {
    pub(crate) fn read_control(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Recovering | Phase::Leading) {
            let op = Op::Read(Query::Control, Consistency::Quorum);
            self.ops.start(Purpose::Control, op, now, out);
        }
    }

    /// Takes the switches in, and sends them to every shard when they have changed.
    pub(crate) fn control_read(&mut self, control: Control, out: &mut Vec<Effect>) {
        if control.version <= self.picture.facts.control.version {
            return;
        }
        self.picture.facts.control = control;
        let all: Vec<ClusterId> = self.picture.facts.clusters.keys().cloned().collect();
        all.iter().for_each(|cluster| self.tell_control(cluster, out));
    }

    /// Sends a shard the state of the switch, once an epoch is ours to order by.
    pub(crate) fn tell_control(&mut self, cluster: &ClusterId, out: &mut Vec<Effect>) {
        if !matches!(self.phase, Phase::Recovering | Phase::Leading) {
            return;
        }
        if let Some(order) = kills(&self.picture.facts.control) {
            self.send(cluster, order, out);
        }
    }
}

/// The order about the switches; none before the row was ever written.
pub(crate) fn kills(control: &Control) -> Option<Order> {
    (control.version > Version(0)).then_some(Order::Kills {
        version: control.version,
        off: control.kills_off,
    })
}
