//! Any order of events in a nested tree that wants more than there is, with losses, duplicates, cuts,
//! preemptions and new leaders: the checker holds after every step, limits hold in what really runs, nothing
//! is ever twice, and when faults stop everything wanted that fits runs, and no pool is below its entitlement
//! while another one exceeds its own.

use crate::tests::pressure::{CLUSTERS, SceneRun, cases, scene};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{JobId, ReasonCode, Span};
use echelon_core_pools::hierarchy::PoolIdx;
use proptest::prelude::*;

/// A job that is to run, as it stands at the end.
struct JobEnd {
    id: JobId,
    spec: JobSpec,
    /// The pool and those above it, without the root.
    pools: Vec<PoolIdx>,
    /// Active instances at each cluster.
    at: Vec<u64>,
    /// Instances that wait and could begin.
    waiting: u64,
}

impl JobEnd {
    fn active(&self) -> u64 {
        self.at.iter().sum()
    }

    fn may_use(&self, cluster: usize) -> bool {
        let only = &self.spec.clusters.only;
        only.is_empty() || only.iter().any(|name| name == CLUSTERS[cluster])
    }

    /// Whether it may be a victim at a cluster: single instances that are preemptible. A service loses only
    /// where its part of `max_unavailable` is, which is nowhere else only if all of it is at one cluster.
    fn may_lose(&self, cluster: usize) -> bool {
        let is_at_one = self.active() == self.at[cluster];
        self.is_single() && self.at[cluster] > 0 && (is_at_one || !self.spec.kind.runs_for_ever())
    }

    /// Whether it is preemptible and begins one by one.
    fn is_single(&self) -> bool {
        self.spec.preemptible && self.spec.gang.is_none()
    }
}

impl SceneRun {
    /// How all jobs stand that are to run; what of their rows is wrong is a failure.
    fn stands(&self) -> Vec<JobEnd> {
        let hierarchy = &self.case.rm.picture().facts.hierarchy;
        let mut out = Vec::new();
        for (id, path) in &self.jobs {
            let Some(head) = self.case.head(*id) else { continue };
            let Some(progress) = self.case.progress(*id) else {
                panic!("no progress of {id}")
            };
            match head.goal.desired {
                Desired::Running if !progress.state.is_ended() => {}
                Desired::Running => continue,
                Desired::Stopped => {
                    assert!(progress.state.is_ended());
                    continue;
                }
                Desired::Deleted => panic!(
                    "{id} is still there: {progress:?}\n{}",
                    self.case.trace.join("\n")
                ),
            }
            let passing = [ReasonCode::AwaitingGrant, ReasonCode::Moved, ReasonCode::Accepted];
            assert!(
                progress
                    .waiting
                    .iter()
                    .all(|w| w.count > 0 && !passing.contains(&w.reason.code)),
                "{:?}\n{}",
                progress.waiting,
                self.case.trace.join("\n")
            );
            let waits = |code: &ReasonCode| *code != ReasonCode::MaxRunning && !code.withholds();
            let waiting = progress
                .waiting
                .iter()
                .filter(|w| waits(&w.reason.code))
                .map(|w| w.count)
                .sum();
            let pool = hierarchy.find(path).unwrap();
            let spec = self
                .case
                .rm
                .picture()
                .facts
                .jobs
                .get(id)
                .and_then(|j| j.spec.as_deref().cloned());
            out.push(JobEnd {
                id: *id,
                spec: spec.unwrap(),
                pools: std::iter::once(pool)
                    .chain(hierarchy.above(pool))
                    .filter(|i| *i != 0)
                    .collect(),
                at: self.case.shards.values().map(|s| s.active_of_job(*id)).collect(),
                waiting,
            });
        }
        out
    }

    /// Whatever waits has nowhere to run, and nothing to claim.
    fn rests(&self) {
        let stands = self.stands();
        let hierarchy = &self.case.rm.picture().facts.hierarchy;
        let entitled = &self.case.divided.as_ref().unwrap().entitled.ordinary;
        let has = |pool: PoolIdx| -> u64 {
            let within = stands.iter().filter(|s| s.pools.contains(&pool));
            within.map(|s| s.active() * 1000).sum()
        };
        let free = |c: usize| {
            let taken: u64 = stands.iter().map(|s| s.at[c]).sum();
            self.case
                .shards
                .values()
                .nth(c)
                .unwrap()
                .cores
                .saturating_sub(taken)
        };
        // While a request is open, for ten minutes at most, nothing else uses what is held for it.
        if !self.case.rm.picture().preemption.all.is_empty() {
            return;
        }
        // What is kept for a gang is used by nothing else.
        let is_kept = stands.iter().any(|s| s.spec.gang.is_some() && s.waiting > 0);
        let holds_capacity = self.case.rm.picture().admission.holds_capacity();
        let singles = stands.iter().filter(|s| s.is_single() && s.waiting > 0);
        for claimant in singles {
            let within =
                |bound: &dyn Fn(PoolIdx) -> u64| claimant.pools.iter().all(|i| has(*i) + 1000 <= bound(*i));
            if !within(&|i| hierarchy.pool(i).unwrap().limit.cpus) {
                continue;
            }
            // Each has more than its own, a whole instance at least, in every pool that the claimant is not
            // in, and the claimant fits into every pool that the victim is not in.
            let has_more = |s: &&JobEnd| {
                let mut apart = s.pools.iter().filter(|i| !claimant.pools.contains(i)).peekable();
                let mut own = claimant.pools.iter().filter(|i| !s.pools.contains(i));
                apart.peek().is_some()
                    && apart.all(|i| has(*i) >= entitled.amount(*i).cpus + 1000)
                    && own.all(|i| has(*i) + 1000 <= entitled.amount(*i).cpus)
            };
            for c in (0..self.case.shards.len()).filter(|c| claimant.may_use(*c)) {
                let told = || {
                    let jobs = stands.iter().map(|s| (s.id, &s.spec.pool, &s.at, s.waiting));
                    let pools = hierarchy.indexes().map(|i| {
                        (
                            hierarchy.pool(i).map(|p| &p.path),
                            has(i),
                            entitled.amount(i).cpus,
                        )
                    });
                    let (jobs, pools): (Vec<_>, Vec<_>) = (jobs.collect(), pools.collect());
                    format!(
                        "{} at {}: {jobs:?}\n{pools:?}\n{:?}\n{}",
                        claimant.id,
                        CLUSTERS[c],
                        self.case.waiting(claimant.id),
                        self.case.trace.join("\n")
                    )
                };
                // Beyond entitlement, what is kept for a single instance is used by nothing else either, for ten
                // minutes at most.
                let is_beyond = !within(&|i| entitled.amount(i).cpus);
                let is_used = free(c) == 0 || is_kept || holds_capacity && is_beyond;
                assert!(is_used, "there is capacity for {}", told());
                let victim = stands.iter().filter(|s| s.may_lose(c)).find(has_more);
                assert!(victim.is_none(), "{} may lose for {}", victim.unwrap().id, told());
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(500))]
    #[test]
    fn whatever_happens_the_rules_hold_and_in_the_end_all_that_fits_runs(scene in scene(90)) {
        let mut stage = scene.play(|_| {}, |_| {});
        if let Some(why) = &stage.case.stepped_down {
            prop_assert!(why.contains("could not be read"), "{}", why);
        }
        stage.calm();
        stage.case.run_for(Span::seconds(240));
        stage.none_twice();
        stage.rests();
    }
}
