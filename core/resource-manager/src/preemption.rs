//! Preemption: makes capacity for work that is entitled to it and finds none.
//! It comes after admission: before, it would stop instances for what is about to be admitted.

pub(crate) mod budget;
pub(crate) mod claimants;
pub(crate) mod claims;
pub(crate) mod holders;
pub(crate) mod limits;
pub(crate) mod losers;
pub(crate) mod preempt;
pub(crate) mod starved;
pub(crate) mod unplaced;
pub(crate) mod within;

use crate::admission::LastAdmission;
use crate::demand::ledger::Ledger;
use crate::facts::FederationFacts;
use crate::preemption::claimants::EndedRequest;
use crate::preemption::claims::Claims;
use echelon_core_model::claim::ClaimId;
use echelon_core_model::{ClusterId, GroupName, JobId};
use std::collections::BTreeSet;

/// What preemption goes by: what is known, and what the stages before it have decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PreemptionInputs<'a> {
    pub(crate) facts: &'a FederationFacts,
    pub(crate) ledger: &'a Ledger,
    pub(crate) admission: &'a LastAdmission,
    /// Requests that were made before.
    pub(crate) requests: &'a Claims,
}

/// What this cycle decided about capacity that is to be made.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreemptionReport {
    /// Requests that are over.
    pub ended: Vec<EndedRequest>,
    /// Requests that were made.
    pub requested: Vec<ClaimId>,
    /// Groups for which none could be made.
    pub in_vain: Vec<(JobId, GroupName)>,
    /// Jobs that began or ceased to be starved.
    pub starved: BTreeSet<JobId>,
    /// Jobs of which something else is known or decided than before.
    pub changed: BTreeSet<JobId>,
    /// Clusters with shards that are to get all requests.
    pub tell: BTreeSet<ClusterId>,
    /// How many more instances may be taken in this minute; `None`: that was not looked at.
    pub budget_left: Option<u64>,
}
