//! Demand is never lost over a preemption: every wanted instance is bound, waits or has ended, whatever is
//! preempted, lost or repeated meanwhile. Told by what shards have run and by what users asked for.

use crate::demand::request::PoolRef;
use crate::tests::case::Case;
use crate::tests::pressure::{SceneRun, cases, scene};
use echelon_core_model::JobId;
use echelon_core_model::Span;
use echelon_core_model::job::{Desired, JobState};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Looks at stored rows, and the time between two of them.
const LOOKS: usize = 6;
const BETWEEN_LOOKS: Span = Span::millis(700);

/// Instances of a job that have come to an end at any shard.
fn ended(case: &Case, job: JobId) -> u64 {
    let slices = case.shards.values().flat_map(|s| &s.slices);
    let of_job = slices.filter(|((id, ..), _)| *id == job);
    of_job.map(|(_, slice)| slice.ended().count()).sum()
}

/// Each pool's demand has what its jobs want and have not ended.
fn demand_is_counted(case: &Case) {
    if case.rm.leading().is_none() {
        return;
    }
    let picture = case.rm.picture();
    let facts = &picture.facts;
    let mut least: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, job) in facts.jobs.iter() {
        let Some(spec) = job.running_spec() else { continue };
        let group = &spec.groups[0];
        let unended = u64::from(group.instances).saturating_sub(ended(case, *id));
        *least.entry(&spec.pool).or_default() += unended.min(u64::from(group.most_active()));
    }
    for (path, least) in least {
        let Some(pool) = facts.hierarchy.find(path) else {
            continue;
        };
        let counted = picture
            .demand
            .ledger
            .of(&PoolRef::Known(pool))
            .ordinary
            .demand
            .cpus;
        assert!(
            counted >= least * 1000,
            "{path} wants {least} cores, and {counted} thousandths are counted\n{}",
            case.trace.join("\n")
        );
    }
}

impl SceneRun {
    /// Of each job that is to run: how many of its instances should be active if everything fitted, and the
    /// row in storage says how each of them stands.
    fn wanted(&self, job: JobId) -> Option<u64> {
        let case = &self.case;
        let head = case.head(job).filter(|h| h.goal.desired == Desired::Running)?;
        let progress = case
            .progress(job)
            .unwrap_or_else(|| panic!("no progress of {job}"));
        if progress.state == JobState::Succeeded {
            let done: u64 = progress
                .groups
                .values()
                .map(|c| c.get(echelon_core_model::RunState::Succeeded))
                .sum();
            assert!(
                done >= head.instances,
                "{job} has ended after {done} of {}",
                head.instances
            );
        }
        if progress.state.is_ended() {
            return None;
        }
        let unended = head.instances.saturating_sub(ended(case, job));
        let most = case.rm.picture().facts.jobs.get(&job)?.spec.as_ref()?.groups[0].most_active();
        Some(unended.min(u64::from(most)))
    }

    /// Nothing of any job is missing: what does not run waits, by the stored row, too. A row is written some
    /// time after a preemption, so several looks are taken, and each job is told by one of them.
    fn all_is_told(&mut self) {
        let mut untold: Vec<JobId> = self.jobs.iter().map(|(job, _)| *job).collect();
        for _ in 0..LOOKS {
            untold.retain(|job| self.untold(*job).is_some());
            if untold.is_empty() {
                return;
            }
            self.case.run_for(BETWEEN_LOOKS);
        }
        let told: Vec<String> = untold.iter().filter_map(|job| self.untold(*job)).collect();
        panic!("{}\n{}", told.join("\n"), self.case.trace.join("\n"));
    }

    /// What is missing of a job.
    fn untold(&self, job: JobId) -> Option<String> {
        let wanted = self.wanted(job)?;
        let active = self.case.total_active(job) as u64;
        let waits = self.case.waiting(job);
        let waiting: u64 = waits
            .iter()
            .filter(|(code, _)| !code.withholds())
            .map(|(_, n)| n)
            .sum();
        (active + waiting < wanted).then(|| {
            format!(
                "{job}: {active} run and {waiting} wait of {wanted}: {:?}",
                self.case.ranges(job)
            )
        })
    }

    /// There is enough of everything for all jobs, and all that they want runs.
    fn all_runs_where_there_is_enough(&mut self) {
        self.make_ample();
        self.calm();
        self.case.run_for(Span::seconds(40));
        self.none_twice();
        for (job, _) in &self.jobs {
            let Some(wanted) = self.wanted(*job) else { continue };
            let active = self.case.total_active(*job) as u64;
            // What was stopped and is wanted again may run beside what counts as ended.
            assert!(
                active >= wanted,
                "{job}: {active} of {wanted} run: {} {:?}\n{}",
                self.case.ranges(*job),
                self.case.waiting(*job),
                self.case.trace.join("\n")
            );
        }
    }
}

#[test]
fn demand_is_never_lost_over_a_preemption() {
    let config = ProptestConfig {
        source_file: Some(file!()),
        ..cases(250)
    };
    let n_cases = config.cases;
    let (played, preempted) = (Cell::new(0u32), Cell::new(0u32));
    let mut runner = TestRunner::new(config);
    let result = runner.run(&scene(30), |scene| {
        let mut stage = scene.play(demand_is_counted, |_| {});
        let slices = stage.case.shards.values().flat_map(|s| s.slices.values());
        let some = slices.map(|s| s.own.preempted).sum::<u64>() > 0;
        played.set(played.get() + 1);
        preempted.set(preempted.get() + u32::from(some));
        stage.calm();
        stage.case.run_for(Span::seconds(20));
        stage.all_is_told();
        stage.all_runs_where_there_is_enough();
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // It is about preemption, so there must be some.
    assert!(
        preempted.get() * 8 > n_cases,
        "{} of {}",
        preempted.get(),
        played.get()
    );
}
