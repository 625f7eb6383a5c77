//! An operator who looks at the clusters once a minute and accepts the mass losses that are shown: in the simulation every task
//! that Mesos does not know is really gone, or comes back and is settled.

use crate::world::{Item, World};
use echelon_core_model::Span;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::{Answer, Decision, Op, Query};

/// Between two looks.
const LOOK: Span = Span::minutes(1);

impl World {
    /// Looks at the clusters, and comes back in a minute.
    pub(crate) fn operator_looks(&mut self) {
        self.queue.plan(self.now.plus(LOOK), Item::Operator);
        self.look_at_withheld();
        let (Answer::Clusters(clusters), Answer::Heartbeats(beats)) = (
            self.store.read(&Query::Clusters),
            self.store.read(&Query::Heartbeats),
        ) else {
            return;
        };
        for before in clusters {
            let loss = beats.iter().find(|b| b.cluster == before.id).and_then(|b| b.loss);
            let Some(loss) = loss.filter(|l| l.number > before.accepted_loss) else {
                continue;
            };
            self.trace
                .line(self.now, &format!("operator accepts the loss of {loss:?}"));
            self.accepted += 1;
            let expected = Some(before.version);
            let cluster = Cluster {
                accepted_loss: loss.number,
                version: before.version.next(),
                ..before
            };
            self.store
                .perform(Op::Decide(Decision::PutCluster { cluster, expected }));
        }
    }
}
