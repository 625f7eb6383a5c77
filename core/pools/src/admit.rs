//! Which waiting instances are admitted: by priority, then age, as many whole instances as fit into their pool, every pool above
//! it, and the clusters that they are assigned to. What cannot fit does not block what can behind it. Each refusal says which
//! room was too small.

use crate::entitle::Entitlements;
use crate::fill::{Taker, fill};
use echelon_core_model::pool::PoolTree;
use echelon_core_model::reason::Shortfall;
use echelon_core_model::resources::Resources;
use echelon_core_model::{ClusterId, Generation, GroupName, JobId, Reason, ReasonCode};
use std::collections::BTreeMap;

/// A part of a group that waits at one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRequest {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// What it has: granted or active.
    pub allocated: u64,
    /// How many more it could use.
    pub more: u64,
}

/// A group that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The job; older jobs have smaller ids.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// Its pool's path.
    pub pool: String,
    /// Higher goes first.
    pub priority: u32,
    /// Room of one instance.
    pub shape: Resources,
    /// How many more of the whole group may be active (`max_running`).
    pub room: u64,
    /// Its parts.
    pub slices: Vec<SliceRequest>,
}

/// Why some instances of a slice were not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: Reason,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// How many more each slice gets; slices that get none are left out.
    pub more: Vec<(ClusterId, Generation, u64)>,
    /// Who gets none, and why.
    pub refused: Vec<Refusal>,
}

/// What is left in one pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PoolRoom {
    limit: Resources,
    entitled: Resources,
}

/// What is left in pools and clusters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rooms {
    pools: BTreeMap<String, PoolRoom>,
    clusters: BTreeMap<ClusterId, Resources>,
}

impl Rooms {
    /// What is left when `allocated` (by path of leaf pools) is taken. `clusters` is what is left in each cluster.
    #[must_use]
    pub fn new(
        tree: &PoolTree,
        entitlements: &Entitlements,
        allocated: &BTreeMap<String, Resources>,
        clusters: BTreeMap<ClusterId, Resources>,
    ) -> Self {
        let mut out = Self {
            pools: BTreeMap::new(),
            clusters,
        };
        for pool in tree.pools.values() {
            let room = PoolRoom {
                limit: pool.limit,
                entitled: entitlements.amount(&pool.path),
            };
            out.pools.insert(pool.path.clone(), room);
        }
        for (path, taken) in allocated {
            out.take_pools(path, *taken);
        }
        out
    }

    /// The same rooms for a second round, in which what nobody could use of his entitlement is lent within limits.
    #[must_use]
    pub fn lent(mut self) -> Self {
        self.pools
            .values_mut()
            .for_each(|room| room.entitled = Resources::MAX);
        self
    }

    /// What is left in a cluster.
    #[must_use]
    pub fn cluster(&self, cluster: &ClusterId) -> Resources {
        self.clusters.get(cluster).copied().unwrap_or_default()
    }

    /// Takes room of `n` instances in a cluster.
    pub fn take_cluster(&mut self, cluster: &ClusterId, taken: Resources) {
        if let Some(room) = self.clusters.get_mut(cluster) {
            *room = room.minus(taken);
        }
    }

    /// A pool and those above it, innermost first.
    fn chain<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a str, &'a PoolRoom)> {
        std::iter::successors(Some(path), |p| Some(PoolTree::parent(p)).filter(|p| *p != "/"))
            .filter_map(|p| Some((p, self.pools.get(p)?)))
    }

    fn take_pools(&mut self, path: &str, taken: Resources) {
        let mut at = path;
        while at != "/" {
            if let Some(room) = self.pools.get_mut(at) {
                room.limit = room.limit.minus(taken);
                if room.entitled != Resources::MAX {
                    room.entitled = room.entitled.minus(taken);
                }
            }
            at = PoolTree::parent(at);
        }
    }

    /// How many of a shape fit into a pool and those above it.
    fn pool_count(&self, path: &str, shape: Resources) -> u64 {
        let counts = self
            .chain(path)
            .map(|(_, room)| shape.count_in(room.limit.min_each(room.entitled)));
        counts.min().unwrap_or_default()
    }

    /// Why one more of a shape does not fit into a pool, `None` when it does.
    fn pool_refusal(&self, path: &str, shape: Resources) -> Option<Reason> {
        if !self.pools.contains_key(path) {
            return Some(Reason::new(ReasonCode::PoolNotFound).at(path));
        }
        let at = |code, path: &str, room: Resources| {
            let kind = shape.first_lack(room)?;
            Some(Reason::new(code).at(path).short(Shortfall {
                kind,
                have: room.get(kind),
                need: shape.get(kind),
            }))
        };
        self.chain(path)
            .find_map(|(path, room)| at(ReasonCode::PoolLimit, path, room.limit))
            .or_else(|| {
                self.chain(path)
                    .find_map(|(path, room)| at(ReasonCode::PoolEntitlement, path, room.entitled))
            })
    }
}

/// Admits what fits, taking its room out of `rooms`. The order of `requests` does not matter.
#[must_use]
pub fn admit(requests: &[Request], rooms: &mut Rooms) -> Vec<Admission> {
    let mut order: Vec<&Request> = requests.iter().collect();
    order.sort_by(|a, b| (b.priority, a.job, &a.group).cmp(&(a.priority, b.job, &b.group)));
    order
        .into_iter()
        .map(|request| admit_one(request, rooms))
        .collect()
}

fn admit_one(request: &Request, rooms: &mut Rooms) -> Admission {
    let shape = request.shape;
    let most = request.room.min(rooms.pool_count(&request.pool, shape));
    let more = spread_over(request, most, rooms);
    let total = more.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
    rooms.take_pools(&request.pool, shape.times(total));
    for (slice, n) in request.slices.iter().zip(&more) {
        rooms.take_cluster(&slice.cluster, shape.times(*n));
    }
    let refused = request
        .slices
        .iter()
        .zip(&more)
        .filter(|(slice, n)| slice.more > **n)
        .map(|(slice, n)| Refusal {
            cluster: slice.cluster.clone(),
            generation: slice.generation,
            count: slice.more - n,
            reason: refusal(request, slice, request.room.saturating_sub(total), rooms),
        })
        .collect();
    let more = request.slices.iter().zip(more).filter(|(_, n)| *n > 0);
    Admission {
        job: request.job,
        group: request.group.clone(),
        more: more.map(|(s, n)| (s.cluster.clone(), s.generation, n)).collect(),
        refused,
    }
}

/// Gives `most` to the slices one at a time, to the one that has the least, within what each can use and its cluster has.
fn spread_over(request: &Request, most: u64, rooms: &Rooms) -> Vec<u64> {
    // Two slices of one group at one cluster share its room: each sees what those before it leave.
    let mut left: BTreeMap<&ClusterId, u64> = BTreeMap::new();
    let takers: Vec<Taker> = request
        .slices
        .iter()
        .map(|slice| {
            let room = left
                .entry(&slice.cluster)
                .or_insert_with(|| request.shape.count_in(rooms.cluster(&slice.cluster)));
            let n = slice.more.min(*room);
            *room -= n;
            Taker { weight: 1, most: n }
        })
        .collect();
    level(most, request.slices.iter().map(|s| s.allocated), &takers)
}

/// `fill` for takers that have something already: the one with the least gets the next unit.
fn level(amount: u64, have: impl Iterator<Item = u64>, takers: &[Taker]) -> Vec<u64> {
    let have: Vec<u64> = have.collect();
    // Who has nothing to take would only hold the level down.
    let of = |h: u64, t: &Taker| Taker {
        weight: u64::from(t.most > 0),
        most: h.saturating_add(t.most),
    };
    let mut base = vec![0u64; have.len()];
    let mut open: Vec<Taker> = have.iter().zip(takers).map(|(h, t)| of(*h, t)).collect();
    loop {
        // Whoever has more than the level takes nothing in this division; the others share what is left.
        let inside: u64 = have
            .iter()
            .zip(&open)
            .filter(|(_, t)| t.weight > 0)
            .map(|(h, _)| *h)
            .fold(amount, u64::saturating_add);
        let filled = fill(inside, &open);
        let mut again = false;
        for ((slot, h), (t, n)) in base.iter_mut().zip(&have).zip(open.iter_mut().zip(filled)) {
            *slot = n.saturating_sub(*h);
            if t.weight > 0 && n < *h {
                t.weight = 0;
                again = true;
            }
        }
        if !again {
            return base;
        }
    }
}

fn refusal(request: &Request, slice: &SliceRequest, room: u64, rooms: &Rooms) -> Reason {
    if room == 0 {
        return Reason::new(ReasonCode::MaxRunning);
    }
    let cluster = rooms.cluster(&slice.cluster);
    let pool = rooms.pool_refusal(&request.pool, request.shape);
    let is_limit = |r: &Reason| r.code != ReasonCode::PoolEntitlement;
    if let Some(reason) = pool.clone().filter(is_limit) {
        return reason;
    }
    match request.shape.first_lack(cluster) {
        Some(kind) => Reason::new(ReasonCode::NoClusterCapacity)
            .at(slice.cluster.as_str())
            .short(Shortfall {
                kind,
                have: cluster.get(kind),
                need: request.shape.get(kind),
            }),
        None => pool.unwrap_or_else(|| Reason::new(ReasonCode::MaxRunning)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitle::entitle;
    use crate::entitle::tests::{cpus, pool, tree};
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
        let demand = limits
            .iter()
            .map(|(p, _)| ((*p).to_owned(), cpus(1_000_000)))
            .collect();
        let capacity = clusters.iter().map(|(_, n)| n).sum();
        let entitled = entitle(&tree, &demand, cpus(capacity));
        let clusters = clusters
            .iter()
            .map(|(c, n)| (ClusterId::new(c), cpus(*n)))
            .collect();
        Rooms::new(&tree, &entitled, &BTreeMap::new(), clusters)
    }

    fn numbers(admissions: &[Admission]) -> Vec<(u128, Vec<(String, u64)>, Vec<String>)> {
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

    fn check(requests: &[Request], mut rooms: Rooms, expected: &[(u128, &[(&str, u64)], &[&str])]) {
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
                            generation: Generation(g as u32 + 1),
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
}
