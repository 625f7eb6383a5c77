//! The state of a leader: the facts, its decisions, and what each stage keeps for the next cycle.

use crate::admission::LastAdmission;
use crate::admission::router::Router;
use crate::demand::DemandState;
use crate::division::Division;
use crate::facts::FederationFacts;
use crate::preemption::requests::PreemptionRequests;

/// Everything that is known and decided.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// What storage holds and shards have reported.
    pub facts: FederationFacts,
    /// What jobs come to.
    pub demand: DemandState,
    /// The state that the next division starts from.
    pub division: Division,
    /// What the last admission left.
    pub admission: LastAdmission,
    /// Preemption requests, and the capacity that is being made for them.
    pub preemption: PreemptionRequests,
    /// Counts the changes that a checker would have to check again.
    pub revision: u64,
}

impl Picture {
    /// Routing over the clusters as the last admission saw them.
    pub(crate) fn router(&self) -> Router<'_> {
        Router::of(&self.facts, &self.demand.ledger, &self.admission.candidates)
    }
}
