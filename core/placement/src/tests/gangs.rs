//! Gangs: all groups of one find hosts, or none does.

use super::properties::a_problem;
use super::{group, host, judged, solve};
use crate::{Problem, Wanted};
use echelon_core_model::spec::JobKind;
use echelon_core_model::{GroupName, JobId};
use echelon_core_testkit::build::shape;
use proptest::prelude::*;

pub fn member(job: u128, name: &str, instances: u32, cores: u64) -> Wanted {
    Wanted {
        version: 1,
        group: GroupName::new(name),
        gang: true,
        ..group(job, JobKind::Batch, instances, shape(cores, 1))
    }
}

fn problem(groups: Vec<Wanted>, hosts: &[u64]) -> Problem {
    let hosts = hosts.iter().enumerate();
    let hosts = hosts.map(|(i, n)| host(&format!("h{i}"), shape(*n, 99)));
    super::problem(1, groups, hosts.collect())
}

#[test]
fn all_groups_of_a_gang_are_placed_or_none() {
    let groups = || vec![member(1, "ps", 1, 1), member(1, "worker", 3, 2)];
    assert_eq!(
        solve(&problem(groups(), &[3, 4])),
        "1 0:h0 0:h0 1:h1 2:h1",
        "each worker with a host of its own or not"
    );
    assert_eq!(
        solve(&problem(groups(), &[3, 3])),
        "1 [0] waits to begin together with the rest of its gang (group worker has no room)\n\
         1 [0-2] hosts have too little left: cpus needs 2, has at most 1 \
         (2 hosts: 2 full)"
    );
}

#[test]
fn what_a_gang_cannot_use_is_for_others() {
    let mut groups = vec![member(1, "main", 3, 2)];
    groups.push(group(2, JobKind::Batch, 5, shape(1, 1)));
    assert_eq!(
        solve(&problem(groups, &[3, 2])),
        "2 0:h1 1:h1 2:h0 3:h0 4:h0\n\
         1 [0-2] hosts have too little left: cpus needs 2, has at most 1 \
         (2 hosts: 2 full)"
    );
}

#[test]
fn who_is_behind_a_gang_gets_what_it_leaves() {
    let mut groups = vec![member(1, "main", 2, 2)];
    groups.push(group(2, JobKind::Batch, 2, shape(1, 1)));
    assert_eq!(
        solve(&problem(groups, &[3, 2])),
        "1 0:h1 1:h0\n2 0:h0\n2 [1] hosts have too little left: cpus needs 1, has at most 0 (2 hosts: 2 full)"
    );
}

/// Some of the groups are one gang, and another is a gang of its own.
fn with_gangs() -> impl Strategy<Value = Problem> {
    (a_problem(), 0usize..4).prop_map(|(mut problem, n)| {
        let names = ["main", "ps", "worker"];
        for (g, name) in problem.groups.iter_mut().zip(names).take(n) {
            g.job = JobId(100);
            g.group = GroupName::new(name);
            g.priority = 1;
            g.gang = true;
            g.bound.clear();
        }
        if let Some(last) = problem.groups.get_mut(4) {
            last.gang = true;
            last.bound.clear();
        }
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn no_gang_is_placed_in_part(problem in with_gangs()) {
        let answer = judged(&problem);
        // By itself each gang that was left out is left out, too, where nothing else was placed.
        if answer.choices.is_empty() {
            for gang in problem.groups.iter().filter(|g| g.gang) {
                let of_gang = problem.groups.iter().filter(|g| g.job == gang.job).cloned();
                let alone = Problem { groups: of_gang.collect(), ..problem.clone() };
                prop_assert_eq!(judged(&alone).choices, vec![]);
            }
        }
    }
}
