//! Requests for capacity that shards get.

use crate::effect::Effect;
use crate::manager::ResourceManager;
use crate::preemption::requests::OpenRequest;
use echelon_core_model::claim::Claim;
use echelon_core_model::directive::Order;
use echelon_core_model::{ClusterId, Span};

impl ResourceManager {
    /// Sends a shard all requests for capacity, once it is known to obey this leader.
    /// Before, it may hold capacity that is not known here.
    pub(crate) fn tell_claims(&mut self, cluster: &ClusterId, out: &mut Vec<Effect>) {
        let view = self.picture.facts.clusters.get(cluster);
        if view.is_some_and(|c| c.is_settled() && c.link.is_some() && c.fulls > 0) {
            let claims = self
                .picture
                .preemption
                .at(cluster)
                .filter(|c| c.awaits.is_empty());
            let claims = claims.map(repeated).collect();
            let lease = Span(self.config.reread.0.saturating_mul(6));
            self.send(cluster, Order::Claims { claims, lease }, out);
        }
    }
}

/// A request as it is sent. A shard looks at candidates once: what was answered only stands.
fn repeated(view: &OpenRequest) -> Claim {
    if view.report.is_none() {
        return view.claim.clone();
    }
    Claim {
        most: 0,
        victims: Vec::new(),
        parts: view.claim.parts.clone(),
        waits: view.claim.waits.clone(),
        pool: view.claim.pool.clone(),
        ..view.claim
    }
}
