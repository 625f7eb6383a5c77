//! Preemption: makes capacity for work that is entitled to it and finds none.
//! It comes after admission: before, it would stop instances for what is about to be admitted.
//!
//! ```text
//! starved, unplaced -> shortage -> attempts -> victims -> planner -> opening -> requests
//! ```
//!
//! | part | what it does |
//! | --- | --- |
//! | `starved` | since when work is starved: one time for each job, whether it waits or is granted |
//! | `unplaced` | granted work that no host can hold |
//! | `shortage` | what a group lacks, and where: clusters, a pool above, its own pool, hosts |
//! | `capacity_left` | what admission has left in pools and clusters |
//! | `attempts` | the ways to make that capacity, in order of harm |
//! | `victims` | what may be stopped for it, and how much of that suffices |
//! | `limits`, `budget` | how much may be stopped in a cycle, and in a minute |
//! | `planner` | tries the attempts of each shortage; the first that succeeds makes requests |
//! | `opening` | binds what a request is for, and opens the request |
//! | `requests`, `claimants` | requests under way: what is withheld for them, and when they are over |
//! | `within`, `holders` | pools with a request within them; which pools use a cluster, as text |
//!
//! Capacity is kept from other work in two ways. They are two types because they do opposite things. A `Hold`
//! keeps what is free from work that comes later, until all of it is there. `WithheldCapacity` is what shards
//! and pools have already made, and its group is admitted into it before anything else.

pub(crate) mod attempts;
pub(crate) mod budget;
pub(crate) mod capacity_left;
pub(crate) mod claimants;
pub(crate) mod holders;
pub(crate) mod limits;
pub(crate) mod opening;
pub(crate) mod planner;
pub(crate) mod requests;
pub(crate) mod shortage;
pub(crate) mod starved;
pub(crate) mod unplaced;
pub(crate) mod victims;
pub(crate) mod within;

use crate::admission::LastAdmission;
use crate::demand::ledger::Ledger;
use crate::facts::FederationFacts;
use crate::preemption::claimants::EndedRequest;
use crate::preemption::requests::PreemptionRequests;
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
    pub(crate) requests: &'a PreemptionRequests,
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
