//! Compares the ledger's sums with the jobs, a part at a time while the leader works. Each step derives the
//! entries of some jobs from the facts, and adds the ledger's entries to sums of its own. If a job changes
//! that was already checked, these sums change, too. When all jobs are checked, both sums must be the same.

use crate::broken::Broken;
use crate::demand::basis::Basis;
use crate::demand::entry::entry;
use crate::demand::entry::sums::{EntryPlaces, SummedEntry};
use crate::demand::ledger::Ledger;
use crate::demand::ledger::totals::{OfPool, Step, Totals};
use crate::demand::request::PoolRef;
use crate::facts::FederationFacts;
use echelon_core_model::JobId;
use echelon_core_pools::Held;
use echelon_core_pools::hierarchy::PoolIdx;
use std::collections::BTreeMap;

/// Jobs of a step. An entry takes a few microseconds. A step every second takes some milliseconds, and
/// 1,000,000 jobs take a quarter of an hour.
pub(crate) const JOBS: usize = 1_024;

/// How far the sums are checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audit {
    /// The last job that was checked; `None` before the first.
    last: Option<JobId>,
    /// The sums of all jobs that were checked.
    sums: Totals,
}

/// Ledgers with the same sums are the same, however far they are checked.
impl PartialEq for Audit {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Audit {}

impl Audit {
    /// The entry of a job is added or subtracted: here, too, if the job was checked already.
    pub(crate) fn follow(&mut self, step: Step, id: JobId, of: SummedEntry<'_>, basis: &Basis) {
        if self.last.is_some_and(|last| id <= last) {
            self.sums.take(step, of, of.entry.group_sums(basis.lent), basis);
        }
    }
}

impl Ledger {
    /// Checks the next jobs, and all sums after the last job. `O(jobs of a step)`, and `O(pools, clusters)`
    /// at the end of a pass.
    pub(crate) fn audit(&mut self, facts: &FederationFacts) -> Vec<Broken> {
        let first = self.audit.last.is_none().then(|| facts.jobs.iter());
        let further = self.audit.last.map(|last| facts.jobs.after(last));
        let jobs = first.into_iter().flatten().chain(further.into_iter().flatten());
        let mut found = Vec::new();
        let mut seen = 0;
        for (id, job) in jobs.take(JOBS) {
            let kept = self.entries.get(id).map(AsRef::as_ref);
            if kept != Some(&entry(facts, &self.basis, *id, job)) {
                found.push(Broken::Entry { job: *id });
            }
            if let Some(kept) = kept {
                let groups = kept.group_sums(self.basis.lent);
                let of = SummedEntry {
                    entry: kept,
                    places: EntryPlaces::All,
                };
                self.audit.sums.take(Step::Add, of, groups, &self.basis);
            }
            self.audit.last = Some(*id);
            seen += 1;
        }
        if seen < JOBS {
            let derived = std::mem::take(&mut self.audit).sums;
            found.extend(self.totals.differences(&derived, facts));
        }
        found
    }
}

impl Totals {
    /// Which sums differ.
    fn differences(&self, derived: &Self, facts: &FederationFacts) -> Vec<Broken> {
        let mut of = Vec::new();
        let path = |pool: &PoolRef| match pool {
            PoolRef::Known(i) => facts
                .hierarchy
                .pool(*i)
                .map_or_else(String::new, |p| p.path.clone()),
            PoolRef::Unknown(path) => path.clone(),
        };
        let pools = different(&self.pools, &derived.pools);
        of.extend(pools.map(|pool| format!("pool {}", path(pool))));
        // Both are derived again from the sums of each pool, which are those of its jobs.
        let known = self.pools.iter().filter_map(|(pool, of)| match pool {
            PoolRef::Known(i) => Some((*i, &**of)),
            PoolRef::Unknown(_) => None,
        });
        let all: BTreeMap<PoolIdx, &OfPool> = known.collect();
        let held = all.iter().map(|(pool, of)| (*pool, of.held()));
        let held: BTreeMap<PoolIdx, Held> = held.filter(|(_, held)| *held != Held::default()).collect();
        let held = different(&self.held, &held);
        of.extend(held.map(|pool| format!("what pool {} has", path(&PoolRef::Known(*pool)))));
        let shared = all.iter().filter(|(_, of)| of.users().next().is_some());
        if !self.shared.iter().eq(shared.map(|(pool, _)| pool)) {
            of.push("which pools have users".to_owned());
        }
        let uses = different(&self.uses, &derived.uses);
        of.extend(uses.map(|cluster| format!("cluster {cluster}")));
        let uses_on = different(&self.uses_on, &derived.uses_on);
        of.extend(uses_on.map(|(cluster, _)| format!("host pools of cluster {cluster}")));
        let places = different(&self.places, &derived.places);
        of.extend(places.map(|(cluster, pool)| {
            let pool = path(&PoolRef::Known(*pool));
            format!("pool {pool} at cluster {cluster}")
        }));
        if self.with_gpus != derived.with_gpus {
            of.push("work with GPUs".to_owned());
        }
        of.into_iter().map(|of| Broken::Sum { of }).collect()
    }
}

/// The keys of which both have not the same.
fn different<'a, K: Ord, V: PartialEq>(
    a: &'a BTreeMap<K, V>,
    b: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let other = a.iter().filter(|(key, value)| b.get(key) != Some(value));
    let missing = b.keys().filter(|key| !a.contains_key(key));
    other.map(|(key, _)| key).chain(missing)
}
