//! Compares the ledger's sums with the jobs, a part at a time while the leader works. Each step derives the
//! entries of some jobs from the facts, and adds the ledger's entries to sums of its own. If a job changes
//! that was already checked, these sums change, too. When all jobs are checked, both sums must be the same.
//! They are compared a part at a time, too.

use crate::broken::Broken;
use crate::demand::entry::sums::{EntryPlaces, EntrySums};
use crate::demand::entry::{Entry, entry};
use crate::demand::ledger::Ledger;
use crate::demand::ledger::totals::{Step, Totals};
use crate::demand::request::PoolRef;
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use echelon_core_model::{ClusterId, JobId};
use echelon_core_pools::Held;
use echelon_core_pools::hierarchy::PoolIdx;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// Jobs of a step. An entry takes a few microseconds. Twenty steps a second take some milliseconds, and
/// 1,000,000 jobs take a quarter of an hour.
pub(crate) const JOBS: usize = 64;
/// Sums of a step.
pub(crate) const SUMS: usize = 512;

/// How far the sums are checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Audit {
    at: Place,
    /// The sums of all jobs that were checked.
    sums: Totals,
}

/// What was checked last.
#[derive(Debug, Clone, Default)]
enum Place {
    /// Nothing.
    #[default]
    Start,
    /// This job, and all before it.
    Job(JobId),
    /// All jobs, and the sums of pools up to this one.
    Pool(Option<PoolRef>),
    /// These, and what is kept of pools up to this one.
    Held(Option<PoolIdx>),
    /// These, and what pools have at clusters up to this one.
    AtCluster(Option<(ClusterId, PoolIdx)>),
    /// All but what there are few sums of.
    Rest,
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
    pub(crate) fn follow(&mut self, step: Step, id: JobId, entry: &Entry, sums: &EntrySums) {
        let is_checked = match &self.at {
            Place::Start => false,
            Place::Job(last) => id <= *last,
            Place::Pool(_) | Place::Held(_) | Place::AtCluster(_) | Place::Rest => true,
        };
        if is_checked {
            self.sums.take(step, entry, sums);
        }
    }
}

impl Ledger {
    /// Checks the next jobs, or after the last job the next sums. `O(jobs of a step)` or `O(sums of a step)`,
    /// and `O(clusters)` at the end of a pass.
    pub(crate) fn audit(&mut self, facts: &FederationFacts) -> Vec<Broken> {
        let derived = &self.audit.sums;
        let (found, next) = match &self.audit.at {
            Place::Start => return self.audit_jobs(facts.jobs.iter(), facts),
            Place::Job(last) => return self.audit_jobs(facts.jobs.after(*last), facts),
            Place::Pool(last) => {
                let keys = next_keys(&self.totals.pools, &derived.pools, last.as_ref());
                let found = keys
                    .iter()
                    .flat_map(|pool| self.totals.pool_faults(derived, pool, facts));
                (found.collect(), next_place(&keys, Place::Pool, Place::Held(None)))
            }
            Place::Held(last) => {
                let keys = next_keys(&self.totals.held, &derived.held, last.as_ref());
                let found = keys
                    .iter()
                    .filter_map(|pool| self.totals.held_fault(*pool, facts));
                (
                    found.collect(),
                    next_place(&keys, Place::Held, Place::AtCluster(None)),
                )
            }
            Place::AtCluster(last) => {
                let keys = next_keys(&self.totals.places, &derived.places, last.as_ref());
                let other =
                    |key: &&(ClusterId, PoolIdx)| self.totals.places.get(*key) != derived.places.get(*key);
                let name = |(cluster, pool): &(ClusterId, PoolIdx)| {
                    let pool = path(&PoolRef::Known(*pool), facts);
                    broken(format!("pool {pool} at cluster {cluster}"))
                };
                let found = keys.iter().filter(other).map(name);
                (found.collect(), next_place(&keys, Place::AtCluster, Place::Rest))
            }
            Place::Rest => (self.totals.other_faults(derived), Place::Start),
        };
        if let Place::Start = next {
            self.audit.sums = Totals::default();
        }
        self.audit.at = next;
        found
    }

    fn audit_jobs<'a>(
        &mut self,
        jobs: impl Iterator<Item = (&'a JobId, &'a JobView)>,
        facts: &FederationFacts,
    ) -> Vec<Broken> {
        let mut found = Vec::new();
        let mut seen = 0;
        for (id, job) in jobs.take(JOBS) {
            let kept = self.entries.get(id).map(AsRef::as_ref);
            if kept != Some(&entry(facts, &self.basis, *id, job)) {
                found.push(Broken::Entry { job: *id });
            }
            if let Some(kept) = kept {
                let sums = EntrySums::of(kept, EntryPlaces::All, &self.basis);
                self.audit.sums.take(Step::Add, kept, &sums);
            }
            self.audit.at = Place::Job(*id);
            seen += 1;
        }
        if seen < JOBS {
            self.audit.at = Place::Pool(None);
        }
        found
    }
}

/// The next keys of two maps after one, in order.
fn next_keys<K: Ord + Clone, A, B>(a: &BTreeMap<K, A>, b: &BTreeMap<K, B>, last: Option<&K>) -> Vec<K> {
    let after = (last.map_or(Unbounded, Excluded), Unbounded);
    let of_a = a.range::<K, _>(after).map(|(key, _)| key).take(SUMS);
    let of_b = b.range::<K, _>(after).map(|(key, _)| key).take(SUMS);
    let both: BTreeSet<&K> = of_a.chain(of_b).collect();
    both.into_iter().take(SUMS).cloned().collect()
}

/// Where it goes on: behind these keys, or with other sums after the last of them.
fn next_place<K: Clone>(keys: &[K], behind: impl Fn(Option<K>) -> Place, after_all: Place) -> Place {
    let last = keys.last().filter(|_| keys.len() == SUMS);
    last.map_or(after_all, |last| behind(Some(last.clone())))
}

fn broken(of: String) -> Broken {
    Broken::Sum { of }
}

fn path(pool: &PoolRef, facts: &FederationFacts) -> String {
    match pool {
        PoolRef::Known(i) => facts
            .hierarchy
            .pool(*i)
            .map_or_else(String::new, |p| p.path.clone()),
        PoolRef::Unknown(path) => path.clone(),
    }
}

impl Totals {
    /// What is wrong about the sums of one pool, and with what is kept beside them.
    fn pool_faults(&self, derived: &Self, pool: &PoolRef, facts: &FederationFacts) -> Vec<Broken> {
        let mut out = Vec::new();
        let of = self.pools.get(pool);
        if of != derived.pools.get(pool) {
            out.push(broken(format!("pool {}", path(pool, facts))));
        }
        let PoolRef::Known(i) = pool else { return out };
        let has_some = of.is_some_and(|of| of.held() != Held::default());
        if has_some && !self.held.contains_key(i) {
            out.push(held_broken(*i, facts));
        }
        let is_shared = of.is_some_and(|of| of.users().next().is_some());
        if is_shared != self.shared.contains(i) {
            out.push(broken(format!("whether pool {} has users", path(pool, facts))));
        }
        out
    }

    /// Whether what is kept of a pool is wrong. It is derived from its sums, which are those of its jobs.
    fn held_fault(&self, pool: PoolIdx, facts: &FederationFacts) -> Option<Broken> {
        let held = self.pools.get(&PoolRef::Known(pool)).map(|of| of.held());
        let held = held.filter(|held| *held != Held::default());
        (self.held.get(&pool) != held.as_ref()).then(|| held_broken(pool, facts))
    }

    /// Which of the sums differ that there are few of.
    fn other_faults(&self, derived: &Self) -> Vec<Broken> {
        let mut of = Vec::new();
        let is_gone = |pool: &&PoolIdx| !self.pools.contains_key(&PoolRef::Known(**pool));
        if self.shared.iter().any(|pool| is_gone(&pool)) {
            of.push("which pools have users".to_owned());
        }
        let uses = different(&self.uses, &derived.uses);
        of.extend(uses.map(|cluster| format!("cluster {cluster}")));
        let uses_on = different(&self.uses_on, &derived.uses_on);
        of.extend(uses_on.map(|(cluster, _)| format!("host pools of cluster {cluster}")));
        if self.asked != derived.asked {
            of.push("instances of all jobs".to_owned());
        }
        if self.with_gpus != derived.with_gpus {
            of.push("work with GPUs".to_owned());
        }
        of.into_iter().map(broken).collect()
    }
}

fn held_broken(pool: PoolIdx, facts: &FederationFacts) -> Broken {
    broken(format!("what pool {} has", path(&PoolRef::Known(pool), facts)))
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
