//! How a federation stands at rest: what pools have and are entitled to, and what runs on which host. In
//! nested trees that are fair nothing waits for capacity that is free, and no pool is below its entitlement
//! while another one exceeds its own on a host where that would help.

use echelon_core_model::JobId;
use std::collections::BTreeMap;

/// Thousandths of a core.
const CORE: u64 = 1000;

/// A pool, inner or leaf, in thousandths of cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolStand {
    pub(crate) entitled: u64,
    pub(crate) limit: u64,
    pub(crate) has: u64,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobStand {
    pub(crate) id: JobId,
    pub(crate) priority: u32,
    /// Its pool first, then those above it.
    pub(crate) pools: Vec<String>,
    /// Cores of an instance.
    pub(crate) cores: u64,
    /// Instances that should run and do not, and are bound by no rule of their own job.
    pub(crate) waits: u64,
    /// Whether its instances begin one by one on any host, and may be preempted.
    pub(crate) is_plain: bool,
    /// How many instances it may lose at once.
    pub(crate) may_lose: u64,
    /// Instances on hosts, by index.
    pub(crate) on: BTreeMap<usize, u64>,
}

/// A federation at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FederationStand {
    pub(crate) pools: BTreeMap<String, PoolStand>,
    pub(crate) jobs: Vec<JobStand>,
    /// Cores of each host.
    pub(crate) hosts: Vec<u64>,
    /// Something waits for which capacity may be kept.
    pub(crate) is_kept: bool,
}

impl FederationStand {
    /// Whether one more instance of a job fits within a bound of all its pools once so many cores are free that
    /// others have in pools at and above `scope`; `None` is the root.
    fn within(
        &self,
        job: &JobStand,
        scope: Option<&str>,
        freed: u64,
        bound: impl Fn(&PoolStand) -> u64,
    ) -> bool {
        let mut is_below = true;
        job.pools.iter().all(|path| {
            is_below &= Some(path.as_str()) != scope;
            let freed = if is_below { 0 } else { freed };
            let pool = self.pools.get(path);
            pool.is_none_or(|pool| pool.has + job.cores * CORE <= bound(pool).saturating_add(freed * CORE))
        })
    }

    fn free(&self, host: usize) -> u64 {
        let taken = self
            .jobs
            .iter()
            .filter_map(|job| Some(job.on.get(&host)? * job.cores));
        let cores = self.hosts.get(host).copied().unwrap_or_default();
        cores.saturating_sub(taken.sum())
    }

    /// Cores on a host that would be free if pools below `scope` lost there what they have beyond their
    /// entitlements.
    fn with_victims(&self, claimant: &JobStand, scope: Option<&str>, host: usize) -> u64 {
        let beyond = self.pools.iter();
        let beyond = beyond.map(|(path, pool)| (path.as_str(), pool.has.saturating_sub(pool.entitled)));
        let mut surplus: BTreeMap<&str, u64> = beyond.collect();
        let is_inside = |job: &&JobStand| scope.is_none_or(|scope| job.pools.iter().any(|p| p == scope));
        let mut jobs: Vec<&JobStand> = self.jobs.iter().filter(is_inside).collect();
        jobs.sort_by_key(|job| job.cores);
        let mut cores = self.free(host);
        for job in jobs {
            let mut apart: Vec<&str> = job.pools.iter().map(String::as_str).collect();
            apart.retain(|path| !claimant.pools.iter().any(|p| p == path));
            let there = job.on.get(&host).copied().unwrap_or_default();
            for _ in 0..there.min(job.may_lose) {
                let has_more = |path: &&str| surplus.get(*path).is_some_and(|s| *s >= job.cores * CORE);
                if apart.is_empty() || !apart.iter().all(has_more) {
                    break;
                }
                cores += job.cores;
                for path in &apart {
                    if let Some(left) = surplus.get_mut(*path) {
                        *left -= job.cores * CORE;
                    }
                }
            }
        }
        cores
    }

    /// What waits although there is capacity for it, or others have more than their own where it could run.
    pub(crate) fn unfair(&self) -> Option<String> {
        self.jobs
            .iter()
            .filter(|job| job.is_plain && job.waits > 0)
            .find_map(|job| {
                let is_free = !self.is_kept && self.within(job, None, 0, |pool| pool.limit);
                // Pools at which a victim's loss makes up for what begins: the root, or one that both are in.
                let above = job.pools.iter().skip(1).map(|p| Some(p.as_str()));
                let scopes: Vec<Option<&str>> = std::iter::once(None).chain(above).collect();
                (0..self.hosts.len()).find_map(|host| {
                    let free = self.free(host);
                    if is_free && free >= job.cores {
                        return Some(format!("{} waits, and host {host} has {free} cores free", job.id));
                    }
                    let would_do = |scope: &&Option<&str>| {
                        let cores = self.with_victims(job, **scope, host);
                        let own = |pool: &PoolStand| pool.entitled.min(pool.limit);
                        cores >= job.cores && free < job.cores && self.within(job, **scope, cores - free, own)
                    };
                    let scope = scopes.iter().find(would_do)?;
                    let (id, scope) = (job.id, scope.unwrap_or("/"));
                    Some(format!(
                        "{id} waits inside its entitlement, and others in {scope} have more on host {host}"
                    ))
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_testkit::build::job_id;

    fn pool(path: &str, entitled: u64, has: u64) -> (String, PoolStand) {
        let pool = PoolStand {
            entitled: entitled * CORE,
            limit: u64::MAX,
            has: has * CORE,
        };
        (path.to_owned(), pool)
    }

    fn job(path: &str, cores: u64, waits: u64, on: &[(usize, u64)]) -> JobStand {
        let above = path
            .match_indices('/')
            .skip(1)
            .map(|(i, _)| path.split_at(i).0.to_owned());
        JobStand {
            id: job_id(1),
            priority: 0,
            pools: std::iter::once(path.to_owned()).chain(above).collect(),
            cores,
            waits,
            is_plain: true,
            may_lose: u64::MAX,
            on: on.iter().copied().collect(),
        }
    }

    /// Two hosts of four cores. `/p/b` has what `/p/a` is entitled to.
    fn uneven() -> FederationStand {
        FederationStand {
            pools: [
                pool("/p", 6, 6),
                pool("/p/a", 4, 1),
                pool("/p/b", 2, 5),
                pool("/q", 2, 2),
            ]
            .into(),
            jobs: vec![
                job("/p/a", 1, 3, &[(0, 1)]),
                job("/p/b", 1, 0, &[(0, 3), (1, 2)]),
                job("/q", 2, 0, &[(1, 1)]),
            ],
            hosts: vec![4, 4],
            is_kept: false,
        }
    }

    #[test]
    fn a_pool_that_another_one_keeps_from_its_entitlement_is_found() {
        assert!(uneven().unfair().is_some());
        let mut fair = uneven();
        fair.pools.extend([pool("/p/a", 4, 4), pool("/p/b", 2, 2)]);
        fair.jobs = vec![
            job("/p/a", 1, 3, &[(0, 4)]),
            job("/p/b", 1, 3, &[(1, 2)]),
            job("/q", 2, 1, &[(1, 1)]),
        ];
        assert_eq!(fair.unfair(), None);
    }

    #[test]
    fn an_inner_pool_that_has_no_more_than_its_own_protects_those_below_it() {
        let mut stand = uneven();
        stand
            .pools
            .extend([pool("/p", 6, 5), pool("/p/a", 4, 2), pool("/p/b", 3, 3)]);
        stand
            .pools
            .extend([pool("/q", 2, 3), pool("/q/x", 1, 2), pool("/q/y", 1, 1)]);
        stand.jobs = vec![
            job("/p/a", 1, 3, &[(0, 2)]),
            job("/p/b", 1, 0, &[(0, 2), (1, 1)]),
            job("/q/x", 1, 0, &[(1, 2)]),
            job("/q/y", 1, 0, &[(1, 1)]),
        ];
        assert!(stand.unfair().is_some(), "`/q/x` and `/q` have one too many");
        stand.pools.extend([pool("/q", 3, 3)]);
        assert_eq!(stand.unfair(), None);
    }

    #[test]
    fn what_a_service_may_not_lose_at_once_makes_no_host_free() {
        let mut stand = uneven();
        stand.pools.extend([pool("/p/a", 4, 0), pool("/p/b", 2, 6)]);
        stand.jobs = vec![job("/p/a", 2, 1, &[]), job("/p/b", 1, 0, &[(0, 4), (1, 2)])];
        stand.jobs.push(job("/q", 1, 0, &[(1, 2)]));
        assert!(stand.unfair().is_some());
        stand.jobs[1].may_lose = 1;
        assert_eq!(stand.unfair(), None);
    }

    #[test]
    fn a_pool_above_that_has_too_much_even_then_lets_nothing_begin() {
        let mut stand = uneven();
        stand.pools.extend([pool("/p", 3, 6), pool("/q", 5, 2)]);
        assert_eq!(
            stand.unfair(),
            None,
            "three go and one begins: four are one too many"
        );
        stand.pools.extend([pool("/p", 4, 6)]);
        assert!(stand.unfair().is_some());
    }

    #[test]
    fn victims_on_several_hosts_make_no_host_free() {
        let mut stand = uneven();
        stand.pools.extend([pool("/p/a", 4, 0), pool("/p/b", 2, 6)]);
        stand.jobs = vec![
            job("/p/a", 4, 1, &[]),
            job("/p/b", 1, 0, &[(0, 3), (1, 3)]),
            job("/q", 1, 0, &[(0, 1), (1, 1)]),
        ];
        assert_eq!(stand.unfair(), None);
        stand.jobs = vec![
            job("/p/a", 4, 1, &[]),
            job("/p/b", 1, 0, &[(0, 4), (1, 2)]),
            job("/q", 1, 0, &[(1, 2)]),
        ];
        assert!(stand.unfair().is_some());
    }

    #[test]
    fn capacity_that_is_free_is_found_but_where_it_may_be_kept() {
        let mut stand = uneven();
        stand.pools.extend([pool("/p/a", 1, 1), pool("/q", 9, 1)]);
        stand.jobs = vec![job("/p/a", 2, 1, &[(0, 1)]), job("/q", 1, 0, &[(1, 4)])];
        assert!(stand.unfair().is_some());
        stand.is_kept = true;
        assert_eq!(stand.unfair(), None);
        stand.is_kept = false;
        if let Some(pool) = stand.pools.get_mut("/p/a") {
            pool.limit = 2 * CORE;
        }
        assert_eq!(stand.unfair(), None, "its limit is in the way");
    }
}
