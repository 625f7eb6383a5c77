//! Admission by tables and properties.

use super::*;
use crate::entitle::entitle;
use crate::entitle::tests::{cpus, pool, tree};
use crate::hierarchy::Hierarchy;
use crate::rooms::ClusterRoom;
use proptest::prelude::*;

fn request(job: u128, pool: &str, shape: u64, wants: &[(&str, u64)]) -> Request {
    Request {
        job: JobId(job),
        group: GroupName::new("main"),
        pool: pool.to_owned(),
        priority: 0,
        shape: cpus(shape),
        room: u64::MAX,
        slices: wants
            .iter()
            .map(|(cluster, more)| SliceRequest {
                cluster: ClusterId::new(cluster),
                generation: Generation(1),
                allocated: 0,
                more: *more,
            })
            .collect(),
    }
}

fn rooms(limits: &[(&str, u64)], clusters: &[(&str, u64)]) -> Rooms {
    let tree = tree(limits.iter().map(|(p, limit)| pool(p, 0, *limit, 1)));
    let hierarchy = Hierarchy::new(&tree);
    let demand = vec![cpus(1_000_000); hierarchy.len()];
    let capacity = clusters.iter().map(|(_, n)| n).sum();
    let entitled = entitle(&hierarchy, &demand, cpus(capacity));
    let clusters = clusters
        .iter()
        .map(|(c, n)| {
            let room = ClusterRoom {
                all: cpus(*n),
                without_gpus: cpus(*n),
            };
            (ClusterId::new(c), room)
        })
        .collect();
    Rooms::new(&hierarchy, &entitled, &BTreeMap::new(), clusters)
}

/// A job, what its clusters get, and why the rest gets nothing.
type Told = (u128, Vec<(String, u64)>, Vec<String>);
type Expected<'a> = (u128, &'a [(&'a str, u64)], &'a [&'a str]);

fn numbers(admissions: &[Admission]) -> Vec<Told> {
    admissions
        .iter()
        .map(|a| {
            let more = a.more.iter().map(|(c, _, n)| (c.to_string(), *n)).collect();
            let refused = a
                .refused
                .iter()
                .map(|r| format!("{} {}", r.count, r.reason.code.word()))
                .collect();
            (a.job.0, more, refused)
        })
        .collect()
}

fn check(requests: &[Request], mut rooms: Rooms, expected: &[Expected<'_>]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(job, more, refused)| {
            let more = more
                .iter()
                .map(|(c, n)| ((*c).to_owned(), *n))
                .collect::<Vec<_>>();
            (
                *job,
                more,
                refused.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(numbers(&admit(requests, &mut rooms)), expected);
}

#[test]
fn priority_then_age() {
    let old = request(1, "/p", 4, &[("c", 1)]);
    let young = request(2, "/p", 4, &[("c", 1)]);
    let urgent = Request {
        priority: 7,
        ..request(3, "/p", 4, &[("c", 1)])
    };
    check(
        &[young, urgent, old],
        rooms(&[("/p", 8)], &[("c", 100)]),
        &[
            (3, &[("c", 1)], &[]),
            (1, &[("c", 1)], &[]),
            (2, &[], &["1 POOL_LIMIT"]),
        ],
    );
}

#[test]
fn what_cannot_fit_does_not_block_what_can() {
    check(
        &[request(1, "/p", 9, &[("c", 1)]), request(2, "/p", 2, &[("c", 9)])],
        rooms(&[("/p", 5)], &[("c", 100)]),
        &[(1, &[], &["1 POOL_LIMIT"]), (2, &[("c", 2)], &["7 POOL_LIMIT"])],
    );
}

#[test]
fn every_pool_above_holds() {
    check(
        &[
            request(1, "/p/a", 1, &[("c", 9)]),
            request(2, "/p/b", 1, &[("c", 9)]),
        ],
        rooms(&[("/p", 5), ("/p/a", 4), ("/p/b", 99)], &[("c", 100)]),
        &[
            (1, &[("c", 3)], &["6 POOL_ENTITLEMENT"]),
            (2, &[("c", 2)], &["7 POOL_LIMIT"]),
        ],
    );
}

#[test]
fn each_refusal_names_the_room_that_was_too_small() {
    let capped = Request {
        room: 3,
        ..request(1, "/p", 1, &[("c", 5)])
    };
    check(
        &[capped],
        rooms(&[("/p", 99)], &[("c", 100)]),
        &[(1, &[("c", 3)], &["2 MAX_RUNNING"])],
    );
    check(
        &[request(1, "/p", 1, &[("c", 5)])],
        rooms(&[("/p", 99)], &[("c", 2), ("d", 9)]),
        &[(1, &[("c", 2)], &["3 NO_CLUSTER_CAPACITY"])],
    );
    check(
        &[request(1, "/nowhere", 1, &[("c", 5)])],
        rooms(&[("/p", 99)], &[("c", 9)]),
        &[(1, &[], &["5 POOL_NOT_FOUND"])],
    );
    let mut r = rooms(&[("/p", 5)], &[("c", 9)]);
    let text = admit(&[request(1, "/p", 6, &[("c", 1)])], &mut r)[0].refused[0]
        .reason
        .to_string();
    assert_eq!(
        text,
        "its pool's limit is reached: cpus needs 0.006, has at most 0.005 (/p)"
    );
}

#[test]
fn parts_of_a_group_are_levelled() {
    let mut r = request(1, "/p", 1, &[("a", 4), ("b", 4)]);
    r.room = 6;
    check(
        &[r.clone()],
        rooms(&[("/p", 99)], &[("a", 9), ("b", 9)]),
        &[(1, &[("a", 3), ("b", 3)], &["1 MAX_RUNNING", "1 MAX_RUNNING"])],
    );
    r.slices[0].allocated = 3;
    r.room = 2;
    check(
        &[r],
        rooms(&[("/p", 99)], &[("a", 9), ("b", 9)]),
        &[(1, &[("b", 2)], &["4 MAX_RUNNING", "2 MAX_RUNNING"])],
    );
}

#[test]
fn lent_room_ends_at_the_limit() {
    let requests = [request(1, "/p", 1, &[("c", 90)])];
    let lent = rooms(&[("/p", 50), ("/q", 99)], &[("c", 60)]).lent();
    check(&requests, lent, &[(1, &[("c", 50)], &["40 POOL_LIMIT"])]);
}

fn some_requests() -> impl Strategy<Value = Vec<Request>> {
    let slice = (0usize..3, 0u64..6, 0u64..9);
    let one = (
        0usize..3,
        1u64..5,
        0u32..3,
        0u64..12,
        proptest::collection::vec(slice, 0..4),
    );
    proptest::collection::vec(one, 0..8).prop_map(|all| {
        let build = |(i, (p, shape, priority, room, slices)): (usize, (usize, u64, u32, u64, Vec<_>))| {
            let mut r = request(i as u128 + 1, ["/p/a", "/p/b", "/q"][p], shape, &[]);
            r.priority = priority;
            r.room = room;
            r.slices = slices
                .into_iter()
                .enumerate()
                .map(
                    |(g, (c, allocated, more)): (usize, (usize, u64, u64))| SliceRequest {
                        cluster: ClusterId::new(["x", "y", "z"][c]),
                        generation: Generation(u32::try_from(g).unwrap() + 1),
                        allocated,
                        more,
                    },
                )
                .collect();
            r
        };
        all.into_iter().enumerate().map(build).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn no_room_is_broken_and_every_instance_is_accounted_for(
        requests in some_requests(), p in 0u64..20, q in 0u64..20, x in 0u64..20, y in 0u64..20,
    ) {
        let all = [("/p", p), ("/p/a", p), ("/p/b", 9), ("/q", q)];
        let mut left = rooms(&all, &[("x", x), ("y", y)]);
        let admitted = admit(&requests, &mut left);
        let used = |which: &dyn Fn(&Request, &ClusterId) -> bool| -> u64 {
            let mut sum = 0;
            for a in &admitted {
                let r = requests.iter().find(|r| r.job == a.job).unwrap();
                let counted = a.more.iter().filter(|(c, _, _)| which(r, c));
                sum += counted.map(|(_, _, n)| n * r.shape.cpus).sum::<u64>();
            }
            sum
        };
        prop_assert!(used(&|r, _| r.pool.starts_with("/p")) <= p);
        prop_assert!(used(&|r, _| r.pool == "/q") <= q);
        prop_assert!(used(&|_, c| c.as_str() == "x") <= x);
        prop_assert!(used(&|_, c| c.as_str() == "y") <= y);
        prop_assert!(used(&|_, c| c.as_str() == "z") == 0);
        for a in &admitted {
            let r = requests.iter().find(|r| r.job == a.job).unwrap();
            let more: u64 = a.more.iter().map(|(_, _, n)| n).sum();
            let refused: u64 = a.refused.iter().map(|f| f.count).sum();
            prop_assert_eq!(more + refused, r.slices.iter().map(|s| s.more).sum::<u64>());
            prop_assert!(more <= r.room);
        }
    }

    #[test]
    fn the_order_of_requests_does_not_matter(requests in some_requests(), p in 0u64..20) {
        let all = [("/p", p), ("/p/a", 9), ("/p/b", 9), ("/q", 9)];
        let backwards: Vec<Request> = requests.iter().rev().cloned().collect();
        let clusters = [("x", 9), ("y", 9)];
        prop_assert_eq!(
            admit(&requests, &mut rooms(&all, &clusters)),
            admit(&backwards, &mut rooms(&all, &clusters))
        );
    }
}
