use super::*;
use std::collections::BTreeMap;

fn pool(amounts: Vec<(u64, u64, u64)>) -> PoolFigures {
    PoolFigures {
        jobs: 10,
        first_mean_ms: Some(3_000),
        first_median_ms: Some(1_000),
        first_p99_ms: Some(10_000),
        last_mean_ms: Some(4_000),
        last_median_ms: Some(2_000),
        last_p99_ms: Some(20_000),
        amounts: BTreeMap::from([("cpus".to_owned(), amounts)]),
    }
}

fn before() -> Figures {
    let amounts = vec![
        (0, 0, 4_000),
        (1, 4_000, 4_000),
        (10, 2_000, 4_000),
        (11, 2_000, 2_000),
    ];
    Figures {
        demand: "small".to_owned(),
        seed: 1,
        pools: BTreeMap::from([
            ("/".to_owned(), pool(amounts.clone())),
            ("/a".to_owned(), pool(amounts)),
        ]),
        work_instance_ms: 100_000,
        work: BTreeMap::from([("cpus".to_owned(), 1_000_000)]),
        allowed: BTreeMap::new(),
        preemptions: 5,
        starts: 10_000,
        conditional_writes: 200,
        owned_commits: 50,
        orders: 400,
        directives: 90,
        reports: 500,
        messages: 90,
        moves: 7,
        returns: 0,
        peak_waiting: 30,
        peak_held: 1_000,
    }
}

/// A run that meets everything, with each figure as far as it may go.
fn after() -> Figures {
    let mut after = before();
    let amounts = vec![
        (0, 0, 0),
        (1, 0, 4_000),
        (2, 4_000, 4_000),
        (9, 2_000, 4_000),
        (10, 2_000, 2_000),
    ];
    for pool in after.pools.values_mut() {
        *pool = PoolFigures {
            jobs: 10,
            first_mean_ms: Some(3_160),
            first_median_ms: Some(1_120),
            first_p99_ms: Some(10_300),
            last_mean_ms: Some(4_180),
            last_median_ms: Some(2_140),
            last_p99_ms: Some(20_500),
            amounts: BTreeMap::from([("cpus".to_owned(), amounts.clone())]),
        };
    }
    Figures {
        work_instance_ms: 99_800,
        work: BTreeMap::from([("cpus".to_owned(), 998_000)]),
        conditional_writes: 240,
        orders: 150,
        reports: 150,
        ..after
    }
}

fn missed(after: &Figures) -> Vec<Measure> {
    let compared = compare(&before(), after).unwrap();
    let missed = compared.criteria.iter().filter(|c| !c.is_met());
    missed.map(|c| c.measure).collect()
}

fn of_pool(after: &mut Figures) -> &mut PoolFigures {
    after.pools.get_mut("/a").unwrap()
}

#[test]
fn a_run_at_all_bounds_meets_every_criterion() {
    let compared = compare(&before(), &after()).unwrap();
    assert_eq!(compared.criteria.len(), 12);
    assert_eq!(missed(&after()), []);
    assert_eq!(compared.difference, None);
}

#[test]
fn a_difference_beyond_a_bound_misses_that_criterion_alone() {
    type Plant = fn(&mut Figures);
    let planted: [(Measure, Plant); 12] = [
        (Measure::Amounts, |f| of_pool(f).amounts.clear()),
        (Measure::FirstMean, |f| of_pool(f).first_mean_ms = Some(3_161)),
        (Measure::FirstMedian, |f| of_pool(f).first_median_ms = Some(1_121)),
        (Measure::First99, |f| of_pool(f).first_p99_ms = Some(10_301)),
        (Measure::LastMean, |f| of_pool(f).last_mean_ms = None),
        (Measure::LastMedian, |f| of_pool(f).last_median_ms = Some(2_141)),
        (Measure::Last99, |f| of_pool(f).last_p99_ms = None),
        (Measure::Preemptions, |f| f.preemptions = 6),
        (Measure::Instances, |f| f.work_instance_ms = 99_799),
        (Measure::Cpus, |f| {
            f.work.insert("cpus".to_owned(), 997_999);
        }),
        (Measure::Messages, |f| f.orders = 151),
        (Measure::ConditionalWrites, |f| f.conditional_writes = 241),
    ];
    for (measure, plant) in planted {
        let mut after = after();
        plant(&mut after);
        assert_eq!(missed(&after), [measure]);
    }
}

#[test]
fn the_pool_that_is_farthest_beyond_its_bound_is_named_with_both_figures() {
    let mut after = after();
    of_pool(&mut after).first_p99_ms = Some(12_000);
    let compared = compare(&before(), &after).unwrap();
    let worst = compared.criteria.iter().find(|c| !c.is_met()).unwrap();
    assert_eq!(worst.pool.as_deref(), Some("/a"));
    assert_eq!(
        (worst.before, worst.after, worst.bound, worst.missed),
        (Some(10_000), Some(12_000), Some(10_300), (1, 2))
    );
}

#[test]
fn the_largest_difference_of_amounts_is_found_in_its_second() {
    let mut after = after();
    let cpus = of_pool(&mut after).amounts.get_mut("cpus").unwrap();
    *cpus = vec![
        (0, 0, 4_000),
        (1, 4_000, 4_000),
        (5, 3_500, 4_000),
        (6, 4_000, 4_000),
        (7, 4_000, 9_000),
        (8, 4_000, 4_000),
        (10, 2_000, 2_000),
    ];
    let compared = compare(&before(), &after).unwrap();
    assert_eq!(
        compared.difference,
        Some(Difference {
            pool: "/a".to_owned(),
            kind: "cpus".to_owned(),
            second: 7,
            before: 4_000,
            after: 9_000,
        })
    );
    let amounts = compared.criteria.first().unwrap();
    assert_eq!(
        amounts.missed,
        (2, 24),
        "seconds 5 and 7, of two pools with twelve each"
    );
}

#[test]
fn a_shift_by_two_seconds_is_more_than_a_grant_takes() {
    let shifted = |by: u64| {
        let mut after = after();
        let cpus = of_pool(&mut after).amounts.get_mut("cpus").unwrap();
        *cpus = vec![(by, 4_000, 4_000), (10 + by, 2_000, 2_000)];
        missed(&after)
    };
    assert_eq!(shifted(1), []);
    assert_eq!(shifted(3), [Measure::Amounts]);
}

#[test]
fn few_writes_for_many_starts_may_be_more_than_before() {
    let few = Figures {
        conditional_writes: 20,
        ..before()
    };
    let mut after = after();
    after.conditional_writes = 100;
    let of = |after: &Figures| {
        let compared = compare(&few, after).unwrap();
        compared
            .criteria
            .iter()
            .find(|c| c.measure == Measure::ConditionalWrites)
            .unwrap()
            .bound
    };
    assert_eq!(of(&after), Some(100), "0.01 for each of 10,000 starts");
    after.starts = 100;
    assert_eq!(of(&after), Some(24));
}

#[test]
fn a_wait_that_never_ended_before_has_no_bound() {
    let mut old = before();
    of_pool(&mut old).last_p99_ms = None;
    let compared = compare(&old, &after()).unwrap();
    assert!(compared.criteria.iter().all(Criterion::is_met));
}

#[test]
fn runs_of_other_demands_are_not_compared() {
    let other = Figures { seed: 2, ..after() };
    let why = compare(&before(), &other).unwrap_err();
    assert_eq!(
        why.to_string(),
        "the saved figures are of demand small with seed 1, and these of small with seed 2"
    );
}
