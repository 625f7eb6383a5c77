//! The limits of instances of a pool and of the federation. A gateway asks before it stores a job that has
//! more than before. What it was allowed counts from then on, although storage does not have it yet. So
//! gateways that ask at the same moment exceed no limit together.

use crate::demand::ledger::Ledger;
use crate::demand::request::pool_of;
use crate::facts::FederationFacts;
use crate::manager::ResourceManager;
use echelon_core_model::instance_limit::{
    ExceededLimit, LimitScope, MAX_FEDERATION_INSTANCES, MAX_POOL_INSTANCES, WantedInstances,
};
use echelon_core_model::{JobId, Span, Timestamp};
use std::collections::BTreeMap;

/// How long what was allowed counts without being read from storage. Storage takes a change within some
/// seconds or not at all.
const ALLOWED_FOR: Span = Span::seconds(10);
/// With so many, nothing more is checked until some have been read.
const MOST_ALLOWED: usize = if cfg!(test) { 80 } else { 10_000 };

/// What gateways were allowed to store, and what of it is not read yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedInstances(BTreeMap<JobId, Allowed>);

/// What a gateway was allowed for one job.
#[derive(Debug, Clone)]
struct Allowed {
    wanted: WantedInstances,
    /// How many instances more than what was known then.
    more: u64,
    at: Timestamp,
}

impl Allowed {
    fn counts(&self, ledger: &Ledger, now: Timestamp) -> bool {
        now < self.at.plus(ALLOWED_FOR) && ledger.asked_of(self.wanted.job) != self.wanted.instances.into()
    }
}

impl AllowedInstances {
    /// Whether a job may have its instances. `None`: too much that was allowed is not read yet.
    fn check(
        &mut self,
        wanted: WantedInstances,
        known: (&FederationFacts, &Ledger),
        now: Timestamp,
    ) -> Option<Result<(), ExceededLimit>> {
        let (facts, ledger) = known;
        let own = ledger.asked_of(wanted.job);
        let Some(more) = u64::from(wanted.instances)
            .checked_sub(own)
            .filter(|more| *more > 0)
        else {
            return Some(Ok(()));
        };
        let pool = ledger.asked_in(&pool_of(facts, &wanted.pool)).saturating_sub(own);
        let all = ledger.asked().saturating_sub(own);
        if self.exceeded(&wanted, (pool, all)).is_some() {
            self.tidy(ledger, now);
        }
        if let Some(exceeded) = self.exceeded(&wanted, (pool, all)) {
            return Some(Err(exceeded));
        }
        if self.0.len() >= MOST_ALLOWED && !self.0.contains_key(&wanted.job) {
            return None;
        }
        let job = wanted.job;
        let allowed = Allowed {
            wanted,
            more,
            at: now,
        };
        self.0.insert(job, allowed);
        Some(Ok(()))
    }

    /// The limit that a job would exceed beside others of which so many instances are known, in its pool and
    /// in all pools.
    fn exceeded(&self, wanted: &WantedInstances, known: (u64, u64)) -> Option<ExceededLimit> {
        let (mut in_pool, mut in_all) = known;
        for allowed in self.0.values().filter(|a| a.wanted.job != wanted.job) {
            in_all = in_all.saturating_add(allowed.more);
            if allowed.wanted.pool == wanted.pool {
                in_pool = in_pool.saturating_add(allowed.more);
            }
        }
        let scopes = [
            (LimitScope::Pool(wanted.pool.clone()), in_pool, MAX_POOL_INSTANCES),
            (LimitScope::Federation, in_all, MAX_FEDERATION_INSTANCES),
        ];
        let is_exceeded = |others: u64, limit| others.saturating_add(wanted.instances.into()) > limit;
        let first = scopes
            .into_iter()
            .find(|(_, others, limit)| is_exceeded(*others, *limit));
        first.map(|(scope, others, limit)| ExceededLimit { scope, others, limit })
    }

    /// Removes what does not count any more. `O(what was allowed)`.
    pub(crate) fn tidy(&mut self, ledger: &Ledger, now: Timestamp) {
        self.0.retain(|_, allowed| allowed.counts(ledger, now));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl ResourceManager {
    /// Whether a job may have its instances beside all others. `None`: that is not known, since this process
    /// does not lead, has not read all jobs, or too much that was allowed is not read yet.
    pub fn check_instances(
        &mut self,
        wanted: WantedInstances,
        now: Timestamp,
    ) -> Option<Result<(), ExceededLimit>> {
        if self.leading().is_none() || self.is_suspended() {
            return None;
        }
        let known = (&self.picture.facts, &self.picture.demand.ledger);
        self.allowed.check(wanted, known, now)
    }
}
