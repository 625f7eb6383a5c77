//! Admission by tables and properties.

mod bounds;
mod holds;

use super::*;
use crate::entitle::entitle;
use crate::entitle::tests::{cpus, pool, tree};
use crate::hierarchy::Hierarchy;
use crate::queue::Likeness;
use crate::rooms::ClusterRoom;
use echelon_core_model::Resources;
use echelon_core_model::Span;
use echelon_core_model::pool::Pool;
use proptest::prelude::*;
use std::sync::Arc;

/// A request of a pool that is named, and its priority.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) pool: &'static str,
    pub(crate) priority: u32,
    pub(crate) request: Request,
    /// Whose it is, where the pool is fair to its users.
    pub(crate) user: Option<&'static str>,
    /// How long one of it takes at most.
    pub(crate) lasts: Option<Span>,
}

pub(crate) fn request(job: u128, pool: &'static str, shape: u64, wants: &[(&str, u64)]) -> Asked {
    let request = Request {
        job: JobId(job),
        group: GroupName::new("main"),
        pool: 0,
        terms: Terms::of(Side::Ordinary),
        unit: Unit::one(cpus(shape)),
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
        unbound: 0,
        have: Vec::new(),
        avoid: Vec::new(),
        gang: Vec::new(),
    };
    Asked {
        pool,
        priority: 0,
        request,
        user: None,
        lasts: None,
    }
}

/// Takes each cluster in order of id.
pub(crate) struct FirstFit;

impl Route for FirstFit {
    fn route(&self, request: &Request, n: u64, parts: u64, rooms: &Rooms) -> Vec<(ClusterId, u64)> {
        let mut left = n;
        let clusters = ["a", "b", "c"].map(ClusterId::new).into_iter();
        let open = clusters.filter(|c| !request.avoid.contains(c));
        let shares = open.map(|c| {
            let room = rooms.cluster(&c, request.terms.side, request.unit);
            let take = (request.unit.shape.count_in(room) / parts).min(left);
            left -= take;
            (c, take)
        });
        shares.filter(|(_, n)| *n > 0).collect()
    }
}

/// Rooms, and the index of each path in them.
pub(crate) struct There {
    pub(crate) rooms: Rooms,
    pub(crate) holds: Holds,
    pub(crate) scope: HoldScope,
    pub(crate) hierarchy: Arc<Hierarchy>,
    clusters: Vec<String>,
}

fn rooms(limits: &[(&str, u64)], clusters: &[(&str, u64)]) -> There {
    rooms_of(limits.iter().map(|(p, limit)| pool(p, 0, *limit, 1)), clusters)
}

pub(crate) fn rooms_of(pools: impl IntoIterator<Item = Pool>, clusters: &[(&str, u64)]) -> There {
    lending(pools, clusters, 0)
}

/// The same where each cluster lends so much besides, to which every pool is entitled.
pub(crate) fn lending(pools: impl IntoIterator<Item = Pool>, clusters: &[(&str, u64)], lent: u64) -> There {
    let tree = tree(pools);
    let hierarchy = Arc::new(Hierarchy::new(&tree));
    let demand = vec![cpus(1_000_000); hierarchy.len()];
    let capacity = clusters.iter().map(|(_, n)| n).sum();
    let entitled = entitle(&hierarchy, &demand, cpus(capacity));
    let names = clusters.iter().map(|(c, _)| (*c).to_owned()).collect();
    let clusters = clusters
        .iter()
        .map(|(c, n)| {
            let room = ClusterRoom {
                all: cpus(*n),
                without_gpus: cpus(*n),
                lent: cpus(lent),
                lends: cpus(lent),
                host_pools: BTreeMap::new(),
            };
            (ClusterId::new(c), Some(room))
        })
        .collect();
    let mut rooms = Rooms::new(Arc::clone(&hierarchy), cpus(lent), clusters);
    let of_lent = Hierarchy::new(&self::tree(hierarchy.indexes().filter_map(|i| {
        let pool = hierarchy.pool(i)?.clone();
        let limit = Resources::MAX;
        Some(Pool { limit, ..pool })
    })));
    let of_lent = entitle(&of_lent, &demand, cpus(1_000_000));
    rooms.entitle(&Arc::new(entitled), &Arc::new(of_lent));
    There {
        rooms,
        holds: Holds::default(),
        scope: HoldScope::Later,
        hierarchy,
        clusters: names,
    }
}

/// Queues everybody up and admits; what each gets, in order of admission, and why the rest gets nothing.
pub(crate) fn admit_all(asked: &[Asked], there: &mut There) -> Vec<(Asked, Admission, Vec<Refusal>)> {
    admit_in_steps(asked, there).0
}

/// In how many steps everybody gets what he gets.
pub(crate) fn steps(asked: &[Asked], there: &mut There) -> usize {
    admit_in_steps(asked, there).1
}

/// The queue of all requests, with the request of each turn.
fn queued(asked: &[Asked], there: &There) -> (Queue, BTreeMap<Turn, Asked>) {
    let mut queue = Queue::default();
    let mut by_turn = BTreeMap::new();
    for a in asked {
        let mut a = a.clone();
        a.request.pool = there.hierarchy.find(a.pool).unwrap();
        let r = &a.request;
        let waiting: Vec<&SliceRequest> = r.slices.iter().filter(|s| s.more > 0).collect();
        let index = |s: &&SliceRequest| there.clusters.iter().position(|c| c == s.cluster.as_str());
        // One that is not there is one that has no room.
        let clusters = waiting.iter().map(|s| index(s).unwrap_or(99));
        let like = Likeness {
            user: a.user.map(Arc::from),
            lasts: a.lasts,
            ..Likeness::new(r.terms, r.unit, clusters)
        };
        let turn = Turn {
            priority: Reverse(a.priority),
            job: r.job,
            group: r.group.clone(),
        };
        let n = waiting.iter().map(|s| s.more).sum::<u64>().min(r.room);
        if n > 0 {
            queue.insert(r.pool, &Arc::new(like), turn.clone(), n);
        }
        by_turn.insert(turn, a);
    }
    (queue, by_turn)
}

/// Admits of both sides, at most so many jobs of each.
fn admit_some(
    queue: &Queue,
    by_turn: &BTreeMap<Turn, Asked>,
    there: &mut There,
    most_jobs: usize,
) -> [SideAdmission; 2] {
    let ask = |turn: &Turn| by_turn.get(turn).map(|a| a.request.clone());
    [Side::Ordinary, Side::Revocable].map(|side| {
        let holds = ScopedHolds {
            holds: &there.holds,
            scope: there.scope,
            begun: &BTreeSet::new(),
        };
        admit(queue, side, &mut there.rooms, holds, most_jobs, ask, &FirstFit)
    })
}

fn nothing(a: &Asked) -> Admission {
    Admission {
        job: a.request.job,
        group: a.request.group.clone(),
        more: Vec::new(),
        bind: Vec::new(),
    }
}

fn admit_in_steps(asked: &[Asked], there: &mut There) -> (Vec<(Asked, Admission, Vec<Refusal>)>, usize) {
    let (queue, by_turn) = queued(asked, there);
    let admitted = admit_some(&queue, &by_turn, there, usize::MAX);
    let admitted = admitted.map(|side| side.admitted).concat();
    let each = by_turn.values().map(|a| {
        let mut got = nothing(a);
        let mine = |x: &&Admission| (x.job, &x.group) == (a.request.job, &a.request.group);
        admitted.iter().filter(mine).for_each(|x| got.add(x.clone()));
        let refused = refusals(&a.request.clone().less(&got), &there.rooms);
        (a.clone(), got, refused)
    });
    (each.collect(), admitted.len())
}

/// What each gets in several admissions of at most so many jobs, and how many jobs each of them has admitted.
fn admit_in_parts(asked: &[Asked], there: &mut There, most_jobs: usize) -> (Vec<Admission>, Vec<usize>) {
    let mut left = asked.to_vec();
    let mut got: Vec<Admission> = asked.iter().map(nothing).collect();
    let mut jobs = Vec::new();
    loop {
        let (queue, by_turn) = queued(&left, there);
        let sides = admit_some(&queue, &by_turn, there, most_jobs);
        let is_cut = sides.iter().any(|side| side.is_cut);
        let admitted = sides.map(|side| side.admitted).concat();
        jobs.push(admitted.iter().map(|a| a.job).collect::<BTreeSet<JobId>>().len());
        for (a, got) in left.iter_mut().zip(&mut got) {
            let job = a.request.job;
            for more in admitted.iter().filter(|more| more.job == job) {
                a.request = a.request.clone().less(more);
                got.add(more.clone());
            }
        }
        if !is_cut {
            return (got, jobs);
        }
    }
}

/// A job, what its clusters get, and why the rest gets nothing.
type Told = (u128, Vec<(String, u64)>, Vec<String>);
type Expected<'a> = (u128, &'a [(&'a str, u64)], &'a [&'a str]);

fn numbers(admissions: &[(Asked, Admission, Vec<Refusal>)]) -> Vec<Told> {
    admissions
        .iter()
        .map(|(_, a, refused)| {
            let more = a.more.iter().map(|(c, _, n)| (c.to_string(), *n)).collect();
            let refused = refused
                .iter()
                .map(|r| format!("{} {}", r.count, r.reason.code.word()))
                .collect();
            (a.job.0, more, refused)
        })
        .collect()
}

fn check(requests: &[Asked], mut rooms: There, expected: &[Expected<'_>]) {
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
    assert_eq!(numbers(&admit_all(requests, &mut rooms)), expected);
}

#[test]
fn priority_then_age() {
    let old = request(1, "/p", 4, &[("c", 1)]);
    let young = request(2, "/p", 4, &[("c", 1)]);
    let urgent = Asked {
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
            (1, &[("c", 3)], &["6 POOL_LIMIT"]),
            (2, &[("c", 2)], &["7 POOL_LIMIT"]),
        ],
    );
}

#[test]
fn each_refusal_names_the_room_that_was_too_small() {
    let mut capped = request(1, "/p", 1, &[("c", 5)]);
    capped.request.room = 3;
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
    let mut r = rooms(&[("/p", 5)], &[("c", 9)]);
    let text = admit_all(&[request(1, "/p", 6, &[("c", 1)])], &mut r)[0].2[0]
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
    r.request.room = 6;
    check(
        &[r.clone()],
        rooms(&[("/p", 99)], &[("a", 9), ("b", 9)]),
        &[(1, &[("a", 3), ("b", 3)], &["1 MAX_RUNNING", "1 MAX_RUNNING"])],
    );
    r.request.slices[0].allocated = 3;
    r.request.room = 2;
    check(
        &[r],
        rooms(&[("/p", 99)], &[("a", 9), ("b", 9)]),
        &[(1, &[("b", 2)], &["4 MAX_RUNNING", "2 MAX_RUNNING"])],
    );
}

#[test]
fn nobody_behind_one_who_is_alike_and_gets_nothing_is_looked_at() {
    let asked: Vec<Asked> = (1..=50).map(|n| request(n, "/p", 2, &[("c", 1)])).collect();
    let mut there = rooms(&[("/p", 99)], &[("c", 5)]);
    let mut queue = Queue::default();
    let pool = there.hierarchy.find("/p").unwrap();
    for a in &asked {
        let like = Likeness::new(Terms::of(Side::Ordinary), a.request.unit, std::iter::once(0));
        let turn = Turn {
            priority: Reverse(0),
            job: a.request.job,
            group: a.request.group.clone(),
        };
        queue.insert(pool, &Arc::new(like), turn, 1);
    }
    let looked = std::cell::Cell::new(0);
    let ask = |turn: &Turn| {
        looked.set(looked.get() + 1);
        let of = asked.iter().find(|a| a.request.job == turn.job)?;
        Some(Request {
            pool,
            ..of.request.clone()
        })
    };
    let admitted = admit(
        &queue,
        Side::Ordinary,
        &mut there.rooms,
        ScopedHolds {
            holds: &Holds::default(),
            scope: HoldScope::Later,
            begun: &BTreeSet::new(),
        },
        usize::MAX,
        ask,
        &FirstFit,
    );
    assert_eq!((admitted.admitted.len(), looked.get()), (2, 2));
}

/// Whether it is preemptible, its user, its pool, shape, priority and room, and its slices.
type Drawn = ((bool, usize), usize, u64, u32, u64, Vec<(usize, u64, u64)>);

pub(crate) fn some_requests() -> impl Strategy<Value = Vec<Asked>> {
    let slice = (0usize..3, 0u64..6, 0u64..9);
    let one = (
        (any::<bool>(), 0usize..4),
        0usize..3,
        1u64..5,
        0u32..3,
        0u64..12,
        proptest::collection::vec(slice, 0..4),
    );
    proptest::collection::vec(one, 0..8).prop_map(|all| {
        let build = |(i, ((preemptible, user), p, shape, priority, room, slices)): (usize, Drawn)| {
            let mut r = request(i as u128 + 1, ["/p/a", "/p/b", "/q"][p], shape, &[]);
            r.priority = priority;
            // The first of them where the pool is not fair to its users.
            r.user = [None, Some("ann"), Some("bob"), Some("cid")][user];
            r.request.terms.preemptible = preemptible;
            r.request.room = room;
            r.request.slices = slices
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
        requests in some_requests(), p in 0u64..20, q in 0u64..20, x in 0u64..20, y in 0u64..20, firm in 0u64..12,
    ) {
        let all = [("/p", p), ("/p/a", p), ("/p/b", 9), ("/q", q)].map(|(path, most)| {
            pool(path, firm.min(most), most, 1)
        });
        let mut left = rooms_of(all, &[("x", x), ("y", y)]);
        let admitted = admit_all(&requests, &mut left);
        let used = |which: &dyn Fn(&Asked, &ClusterId) -> bool| -> u64 {
            let mut sum = 0;
            for (r, a, _) in &admitted {
                let counted = a.more.iter().filter(|(c, _, _)| which(r, c));
                sum += counted.map(|(_, _, n)| n * r.request.unit.shape.cpus).sum::<u64>();
            }
            sum
        };
        prop_assert!(used(&|r, _| r.pool.starts_with("/p")) <= p);
        prop_assert!(used(&|r, _| r.pool == "/q") <= q);
        for path in ["/p", "/q"] {
            let inside = |r: &Asked| r.pool.starts_with(path) && !r.request.terms.preemptible;
            prop_assert!(used(&|r, _| inside(r)) <= firm);
        }
        prop_assert!(used(&|_, c| c.as_str() == "x") <= x);
        prop_assert!(used(&|_, c| c.as_str() == "y") <= y);
        prop_assert!(used(&|_, c| c.as_str() == "z") == 0);
        for (r, a, refused) in &admitted {
            let more: u64 = a.more.iter().map(|(_, _, n)| n).sum();
            let refused: u64 = refused.iter().map(|f| f.count).sum();
            prop_assert_eq!(more + refused, r.request.slices.iter().map(|s| s.more).sum::<u64>());
            prop_assert!(more <= r.request.room);
        }
    }

    #[test]
    fn the_order_of_requests_does_not_matter(requests in some_requests(), p in 0u64..20) {
        let all = [("/p", p), ("/p/a", 9), ("/p/b", 9), ("/q", 9)];
        let backwards: Vec<Asked> = requests.iter().rev().cloned().collect();
        let clusters = [("x", 9), ("y", 9)];
        prop_assert_eq!(
            numbers(&admit_all(&requests, &mut rooms(&all, &clusters))),
            numbers(&admit_all(&backwards, &mut rooms(&all, &clusters)))
        );
    }

    #[test]
    fn a_bound_on_jobs_changes_nothing_of_what_is_admitted_in_the_end(
        requests in some_requests(), p in 0u64..20, x in 0u64..30, y in 0u64..30, most in 1usize..4,
    ) {
        let all = [("/p", p), ("/p/a", 9), ("/p/b", 9), ("/q", 9)];
        let clusters = [("x", x), ("y", y)];
        // Users of one pool get parts of what is left, and these depend on how often that is looked at.
        let mut requests = requests;
        requests.iter_mut().for_each(|r| r.user = None);
        let (at_once, _) = admit_in_parts(&requests, &mut rooms(&all, &clusters), usize::MAX);
        let (in_parts, jobs) = admit_in_parts(&requests, &mut rooms(&all, &clusters), most);
        let total = |all: &[Admission]| all.iter().map(Admission::total).collect::<Vec<u64>>();
        prop_assert_eq!(total(&at_once), total(&in_parts));
        prop_assert!(jobs.iter().all(|n| *n <= most), "{:?}", jobs);
    }
}
