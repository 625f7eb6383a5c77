//! Sums over jobs: exact whatever comes and goes, and checked while a leader works.

use crate::demand::ledger::audit::{JOBS, SUMS};
use crate::demand::pool_demand::demands;
use crate::demand::request::PoolRef;
use crate::effect::Effect;
use crate::picture::Picture;
use crate::tests::case::{Case, batch};
use echelon_core_model::job::Desired;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::sum::MOST_COUNTED;
use echelon_core_model::{GroupName, JobId, Resources, Span};
use echelon_core_pools::Held;
use std::sync::Arc;

/// 64 groups of 10,000,000 instances of a million cores: what no gateway takes.
fn monster() -> JobSpec {
    let mut spec = batch(10_000_000).pool("/x").build();
    spec.groups[0].resources = Resources {
        cpus: 1_000_000_000,
        memory: 1 << 30,
        ..Resources::ZERO
    };
    spec.groups = (0..64).map(|n| named(&spec.groups[0], n)).collect();
    spec
}

fn named(group: &GroupSpec, n: u32) -> GroupSpec {
    GroupSpec {
        name: GroupName::new(format!("g{n}")),
        ..group.clone()
    }
}

fn demand(picture: &Picture, pool: &str) -> u64 {
    let at = picture.facts.hierarchy.find(pool).unwrap();
    demands(&picture.facts, &picture.demand.ledger)
        .get(&at)
        .map_or(0, |w| w.ordinary.cpus)
}

/// What was asked for, whether hosts can hold it or not.
fn asked(picture: &Picture, pool: &str) -> u64 {
    let at = picture.facts.hierarchy.find(pool).unwrap();
    picture.demand.ledger.of(&PoolRef::Known(at)).ordinary.demand.cpus
}

#[test]
fn a_pool_wants_what_runs_in_it_after_more_than_the_largest_number_was_asked_for() {
    let mut case = Case::new()
        .pool("/x", 1_000_000_000_000)
        .pool("/y", 100)
        .cluster("a", 8);
    let running = case.store_job(1, batch(4).pool("/x"));
    case.elect();
    assert_eq!(
        (case.total_active(running), demand(case.rm.picture(), "/x")),
        (4, 4_000)
    );
    // Together more than 2^64 thousandths of a core.
    let monsters: Vec<_> = (2..32).map(|n| case.job_of(n, monster())).collect();
    assert_eq!(asked(case.rm.picture(), "/x"), MOST_COUNTED);
    for job in monsters {
        case.want(job, Desired::Stopped);
    }
    assert_eq!(
        (asked(case.rm.picture(), "/x"), demand(case.rm.picture(), "/x")),
        (4_000, 4_000)
    );
    // So another pool takes nothing of it.
    let other = case.job(50, batch(8).pool("/y"));
    case.run_for(Span::minutes(2));
    assert_eq!((case.total_active(running), case.total_active(other)), (4, 4));
}

/// Looks of a round over a few jobs: at these, and at four kinds of sums.
const ROUND: usize = 5;

/// Two rounds over all jobs and sums.
fn look_twice(case: &mut Case) -> Vec<Effect> {
    look(case, 2 * ROUND)
}

/// So many looks at some jobs, or at some sums.
fn look(case: &mut Case, looks: usize) -> Vec<Effect> {
    let mut out = Vec::new();
    for _ in 0..looks {
        case.now = case.now.plus(Span::seconds(1));
        case.rm.audit(case.now, &mut out);
    }
    out
}

/// What was found wrong: steps and differences.
fn faults(case: &Case) -> (u64, u64) {
    let faults = case.rm.sum_faults();
    (faults.steps, faults.differences)
}

const CORE: Resources = Resources {
    cpus: 1_000,
    ..Resources::ZERO
};

#[test]
fn a_wrong_sum_is_counted_in_each_round_and_when_it_leaves_its_range() {
    let mut case = Case::with(&[("a", 20)]);
    let jobs = [1, 2, 3].map(|n| case.job(n, batch(2)));
    case.run_for(Span::seconds(10));
    case.want(jobs[1], Desired::Stopped);
    case.run_for(Span::seconds(10));
    assert_eq!(faults(&case), (0, 0));
    let pool = PoolRef::Known(case.rm.picture.facts.hierarchy.find("/default").unwrap());
    let ledger = &mut case.rm.picture.demand.ledger;
    ledger.plant(&pool, |sums| sums.ordinary.demand.subtract(CORE));
    let told = look_twice(&mut case);
    assert_eq!(faults(&case), (0, 2), "once in each round");
    let Some(Effect::Alarm(alarm)) = told.first() else {
        panic!("{told:?}")
    };
    let said = "1 sums over jobs are wrong, the first one: the ledger's sum of pool /default differs from the sum over its jobs";
    assert!(alarm.to_string().starts_with(said), "{alarm}");
    // Its jobs want more than it says.
    for job in jobs {
        case.rm.picture.facts.jobs.remove(&job);
    }
    case.rm.refresh();
    look_twice(&mut case);
    assert_eq!(faults(&case), (1, 2), "nothing is left to differ");
    // The next leadership begins with new sums, and what was found stays counted.
    case.rm.forget();
    assert_eq!(faults(&case), (1, 2));
}

#[test]
fn what_a_cycle_reads_of_each_pool_is_held_against_the_sums_of_its_jobs() {
    let mut case = Case::with(&[("a", 20)]);
    case.job(1, batch(2));
    case.run_for(Span::seconds(10));
    let pool = case.rm.picture.facts.hierarchy.find("/default").unwrap();
    let ledger = &mut case.rm.picture.demand.ledger;
    let (of, held) = ledger.held().next().unwrap();
    assert_eq!((of, held.ordinary.cpus, held.instances), (pool, 2_000, 2));
    ledger.plant_held(pool, Held { jobs: 7, ..held });
    let told = look_twice(&mut case);
    assert_eq!(faults(&case), (0, 2));
    let Some(Effect::Alarm(alarm)) = told.first() else {
        panic!("{told:?}")
    };
    assert!(alarm.to_string().contains("what pool /default has"), "{alarm}");
}

#[test]
fn what_is_kept_of_one_job_is_held_against_what_is_known_of_it() {
    let mut case = Case::with(&[("a", 20)]);
    let job = case.job(1, batch(2));
    let spec = case.rm.picture.facts.jobs.get(&job).unwrap().spec.clone();
    let spec = spec.map(|s| {
        Arc::new(JobSpec {
            priority: 7,
            ..(*s).clone()
        })
    });
    // It is changed, and nothing is told that sums follow from.
    case.rm.picture.facts.jobs.get_aside(&job).unwrap().spec = spec;
    look_twice(&mut case);
    assert_eq!(faults(&case), (0, 2));
}

#[test]
fn jobs_that_change_between_two_parts_of_a_round_are_no_difference() {
    let mut case = Case::with(&[("a", 4)]);
    let one = case.job(1, batch(2));
    let view = case.rm.picture.facts.jobs.get(&one).unwrap().clone();
    let ids: Vec<JobId> = (2..JOBS as u128 + 9).map(|n| JobId(n << 64)).collect();
    for id in &ids {
        case.rm.picture.facts.jobs.insert(*id, view.clone());
    }
    case.rm.refresh();
    let mut out = look(&mut case, 1);
    // One that had its turn, and one that had not, go; and one comes before the first.
    case.rm.picture.facts.jobs.remove(&ids[0]);
    case.rm.picture.facts.jobs.remove(&ids[JOBS + 1]);
    case.rm.picture.facts.jobs.insert(JobId(1), view);
    case.rm.refresh();
    out.extend(look_twice(&mut case));
    assert_eq!((faults(&case), out.len()), ((0, 0), 0));
}

#[test]
fn sums_are_compared_a_part_at_a_time_while_jobs_change() {
    let mut case = Case::with(&[("a", 4)]);
    let one = case.job(1, batch(2));
    let view = case.rm.picture.facts.jobs.get(&one).unwrap().clone();
    // One unknown pool for each job: more than one look compares.
    let pools = (2..SUMS as u128 + 109).map(|n| {
        let mut view = view.clone();
        let spec = view.spec.as_deref().unwrap().clone();
        let pool = format!("/unknown/{n:05}");
        view.spec = Some(Arc::new(JobSpec {
            pool: pool.clone(),
            ..spec
        }));
        (JobId(n << 64), view, pool)
    });
    let pools: Vec<_> = pools.collect();
    for (id, view, _) in &pools {
        case.rm.picture.facts.jobs.insert(*id, view.clone());
    }
    case.rm.refresh();
    // Two rounds, in which a job comes or goes before each look.
    let round = pools.len() / JOBS + pools.len() / SUMS + ROUND;
    for i in 0..2 * round {
        let (id, view, _) = &pools[i * 7 % pools.len()];
        let jobs = &mut case.rm.picture.facts.jobs;
        if jobs.remove(id).is_none() {
            jobs.insert(*id, view.clone());
        }
        case.rm.refresh();
        look(&mut case, 1);
    }
    assert_eq!(faults(&case), (0, 0));
    let (_, _, last) = &pools[pools.len() - 1];
    let ledger = &mut case.rm.picture.demand.ledger;
    ledger.plant(&PoolRef::Unknown(last.clone()), |sums| {
        sums.ordinary.demand.subtract(CORE)
    });
    look(&mut case, 2 * round);
    let (steps, differences) = faults(&case);
    assert!(
        steps == 0 && differences >= 2,
        "once in each round: {differences}"
    );
}
