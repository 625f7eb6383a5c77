//! What bounds a pool beside its limit: reservations for work that is not preemptible, controllers, numbers of jobs and instances.

use super::*;

fn firm(mut asked: Asked) -> Asked {
    asked.request.terms.preemptible = false;
    asked
}

#[test]
fn what_is_not_preemptible_runs_within_the_reservations_of_all_pools_above() {
    let pools = || [("/p", 5, 99), ("/p/a", 4, 99), ("/p/b", 3, 99)].map(|(p, r, l)| pool(p, r, l, 1));
    let asked = [
        request(1, "/p/a", 1, &[("c", 2)]),
        firm(request(2, "/p/a", 1, &[("c", 9)])),
        firm(request(3, "/p/b", 1, &[("c", 9)])),
        request(4, "/p/b", 1, &[("c", 7)]),
    ];
    let mut there = rooms_of(pools(), &[("c", 100)]);
    let got = admit_all(&asked, &mut there);
    let expected: [Told; 4] = [
        (1, vec![("c".to_owned(), 2)], vec![]),
        (
            2,
            vec![("c".to_owned(), 4)],
            vec!["5 POOL_RESERVATION".to_owned()],
        ),
        (
            3,
            vec![("c".to_owned(), 1)],
            vec!["8 POOL_RESERVATION".to_owned()],
        ),
        (4, vec![("c".to_owned(), 7)], vec![]),
    ];
    assert_eq!(numbers(&got), expected);
    let text = |i: usize| got[i].2[0].reason.to_string();
    assert_eq!(
        text(1),
        "is not preemptible; such work has all of its pool's reservation: cpus needs 0.001, has at most 0 (/p/a)"
    );
    // What `/p` has left is what binds, though `/p/b` has reserved more.
    assert!(
        text(2).ends_with("cpus needs 0.001, has at most 0 (/p)"),
        "{}",
        text(2)
    );
}

#[test]
fn controllers_leave_room_for_those_that_they_start() {
    let controller = |job, wants| {
        let mut asked = request(job, "/p/a", 2, &[("c", wants)]);
        asked.request.terms.controller = true;
        asked
    };
    let bounded = |path, most| Pool {
        controller_limit: cpus(most),
        ..pool(path, 0, 99, 1)
    };
    let mut there = rooms_of([bounded("/p", 5), bounded("/p/a", 99)], &[("c", 100)]);
    let asked = [
        controller(1, 1),
        controller(2, 9),
        request(3, "/p/a", 2, &[("c", 9)]),
    ];
    let got = admit_all(&asked, &mut there);
    let expected: [Told; 3] = [
        (1, vec![("c".to_owned(), 1)], vec![]),
        (
            2,
            vec![("c".to_owned(), 1)],
            vec!["8 POOL_CONTROLLERS".to_owned()],
        ),
        (3, vec![("c".to_owned(), 9)], vec![]),
    ];
    assert_eq!(numbers(&got), expected);
    assert_eq!(
        got[1].2[0].reason.to_string(),
        "is a controller, and controllers have all that its pool allows them: cpus needs 0.002, has at most 0.001 (/p)"
    );
}

#[test]
fn numbers_of_jobs_and_instances_are_bounded_at_every_level() {
    let fresh = |job, pool, wants| {
        let mut asked = request(job, pool, 1, &[("c", wants)]);
        asked.request.terms.counted = false;
        asked
    };
    let bounded = |path, max_jobs, max_instances| Pool {
        max_jobs,
        max_instances,
        ..pool(path, 0, 99, 1)
    };
    let pools = [
        bounded("/p", 2, 8),
        bounded("/p/a", 1, u64::MAX),
        bounded("/p/b", 9, 4),
        bounded("/p/c", 9, 9),
    ];
    let mut there = rooms_of(pools, &[("c", 100)]);
    let second_group = {
        let mut asked = fresh(1, "/p/a", 2);
        asked.request.group = GroupName::new("other");
        asked
    };
    let asked = [
        fresh(1, "/p/a", 1),
        second_group,
        fresh(2, "/p/a", 1),
        fresh(3, "/p/b", 3),
        request(4, "/p/b", 1, &[("c", 9)]),
        fresh(5, "/p/c", 1),
    ];
    let mut queue = Vec::new();
    for (a, got, refused) in admit_all(&asked, &mut there) {
        let n: u64 = got.more.iter().map(|(_, _, n)| n).sum();
        let why = refused.iter().map(|r| r.reason.to_string()).collect::<Vec<_>>();
        queue.push((a.request.job.0, n, why.join(" ")));
    }
    let told: Vec<(u128, u64, &str)> = queue.iter().map(|(j, n, why)| (*j, *n, why.as_str())).collect();
    assert_eq!(
        told,
        [
            (1, 1, ""),
            // It waits for the next admission, in which its job counts.
            (
                1,
                0,
                "its pool has as many jobs that have begun as it may have (/p/a: 1 of at most 1 jobs)"
            ),
            (
                2,
                0,
                "its pool has as many jobs that have begun as it may have (/p/a: 1 of at most 1 jobs)"
            ),
            (3, 3, ""),
            (
                4,
                1,
                "its pool has as many active instances as it may have (/p/b: 4 of at most 4 instances)"
            ),
            (
                5,
                0,
                "its pool has as many jobs that have begun as it may have (/p: 2 of at most 2 jobs)"
            ),
        ]
    );
}

#[test]
fn revocable_work_has_no_more_of_what_is_lent_than_every_pool_above_allows() {
    let revocable = |job, path, wants| {
        let mut asked = request(job, path, 2, &[("c", wants)]);
        asked.request.terms.side = Side::Revocable;
        asked
    };
    let bounded = |path, limit, of_lent| Pool {
        revocable_limit: cpus(of_lent),
        ..pool(path, 0, limit, 1)
    };
    let pools = || {
        [
            bounded("/p", 4, 9),
            bounded("/p/a", 0, 5),
            bounded("/p/b", 99, 99),
        ]
    };
    let mut there = lending(pools(), &[("c", 100)], 100);
    let asked = [
        revocable(1, "/p/a", 9),
        revocable(2, "/p/b", 9),
        request(3, "/p/b", 1, &[("c", 9)]),
    ];
    let got = admit_all(&asked, &mut there);
    let waits = |n: u64, code: &str| vec![format!("{n} {code}")];
    let expected: [Told; 3] = [
        (1, vec![("c".to_owned(), 2)], waits(7, "POOL_REVOCABLE_LIMIT")),
        (2, vec![("c".to_owned(), 2)], waits(7, "POOL_REVOCABLE_LIMIT")),
        // Ordinary work is bounded by the ordinary limit, and by that alone.
        (3, vec![("c".to_owned(), 4)], waits(5, "POOL_LIMIT")),
    ];
    assert_eq!(numbers(&got), expected);
    let text = |i: usize| got[i].2[0].reason.to_string();
    assert_eq!(
        text(0),
        "is revocable; such work has all that its pool may have of lent room: cpus needs 0.002, has at most 0.001 (/p/a)"
    );
    assert!(
        text(1).ends_with("cpus needs 0.002, has at most 0.001 (/p)"),
        "{}",
        text(1)
    );
}

#[test]
fn all_groups_of_a_job_count_as_one_job() {
    let one = Pool {
        max_jobs: 1,
        ..pool("/p", 0, 99, 1)
    };
    let mut there = rooms_of([one], &[("c", 10)]);
    let path = there.hierarchy.find("/p").unwrap();
    let c = ClusterId::new("c");
    let mut held = |job: u128, name: &str| {
        let mut asked = request(job, "/p", 1, &[("c", 2)]).request;
        (asked.pool, asked.group) = (path, GroupName::new(name));
        asked.terms.counted = false;
        admit_held(&asked, &c, 2, &mut there.rooms)
    };
    assert_eq!([held(1, "first"), held(1, "second"), held(2, "first")], [2, 2, 0]);
}

#[test]
fn a_gang_counts_with_all_of_its_instances() {
    let bounded = Pool {
        max_instances: 7,
        ..pool("/p", 0, 99, 1)
    };
    let mut there = rooms_of([bounded], &[("c", 99)]);
    let mut asked = request(1, "/p", 3, &[("c", 9)]);
    asked.request.unit.instances = 3;
    let got = admit_all(&[asked], &mut there);
    assert_eq!(got[0].1.total(), 2);
}

#[test]
fn slices_of_a_group_at_one_cluster_share_its_capacity() {
    let mut there = rooms_of([pool("/p", 0, 99, 1)], &[("c", 4), ("d", 4)]);
    let mut asked = request(1, "/p", 1, &[("c", 3), ("c", 3)]);
    asked.request.slices[1].generation = Generation(2);
    let got = admit_all(&[asked], &mut there);
    assert_eq!(got[0].1.total(), 4);
}

#[test]
fn what_is_made_for_a_preemption_request_is_taken_before_it_is_free() {
    let mut there = rooms_of([pool("/p", 0, 99, 1)], &[("c", 10)]);
    let mut asked = request(1, "/p", 1, &[("c", 5)]);
    asked.request.pool = there.hierarchy.find("/p").unwrap();
    let c = ClusterId::new("c");
    there
        .rooms
        .take_cluster(&c, Side::Ordinary, asked.request.unit, 7);
    // Three of the five cores are free by now. The other two are reserved for it until they are free.
    assert_eq!(admit_held(&asked.request, &c, 5, &mut there.rooms), 3);
    assert_eq!(there.rooms.taken(asked.request.pool).0, cpus(5));
    assert_eq!(
        there.rooms.cluster(&c, Side::Ordinary, asked.request.unit),
        cpus(0)
    );
}

#[test]
fn what_was_bound_in_an_earlier_round_is_asked_for_no_more() {
    let asked = Request {
        room: 3,
        unbound: 9,
        ..request(1, "/p", 1, &[]).request
    };
    let bound = Admission {
        job: asked.job,
        group: asked.group.clone(),
        more: Vec::new(),
        bind: vec![(ClusterId::new("c"), 2)],
    };
    let rest = asked.less(&bound);
    assert_eq!((rest.room, rest.unbound), (1, 7));
    let rest = rest.less(&bound);
    assert_eq!((rest.room, rest.is_met()), (0, true));
}
