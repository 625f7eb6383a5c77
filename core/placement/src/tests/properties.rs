use super::{group, host, judged, rule, with_attribute};
use crate::{Bound, Problem, Wanted, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::choose;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, InstanceId, InstanceNumber, Kind, PortSet, Resources};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

fn resources(most: u64) -> impl Strategy<Value = Resources> {
    (0..=most, 0..=most, 0..=most / 2, 0..=2u64).prop_map(|(cpus, memory, disk, gpus)| Resources {
        cpus,
        memory,
        disk,
        gpus,
    })
}

fn a_host(n: usize) -> impl Strategy<Value = HostView> {
    let ports = (prop::collection::btree_set(80..88u16, 0..8), any::<bool>());
    let lent = (resources(6), resources(3));
    (
        resources(12),
        resources(6),
        0..4u8,
        any::<(bool, bool)>(),
        ports,
        lent,
    )
        .prop_map(move |(free, used, zone, (offered, kept), ports, lent)| {
            let mut view = host(&format!("h{n:02}"), free);
            view.used = used;
            view.capacity = free.plus(used);
            view.ports = ports.0.into_iter().collect();
            view.ports_left = ports.1.then(|| view.ports.clone());
            view.kept = kept && view.capacity.gpus > 0;
            view.slack.capacity = lent.0.plus(lent.1);
            view.slack.used = lent.1;
            view.slack.free = lent.0;
            if !offered {
                view.free = Resources::ZERO;
                view.slack.free = Resources::ZERO;
                view.ports = PortSet::new();
            }
            match zone {
                0 => view,
                z => with_attribute(view, "zone", ["east", "west", "east,west"][usize::from(z) - 1]),
            }
        })
}

prop_compose! {
    fn a_group(job: u128)(
        service in any::<bool>(),
        instances in 0..12u32,
        shape in resources(5),
        ports in prop::collection::vec(prop::option::weighted(0.3, 80..88u16), 0..3),
        priority in 0..3u32,
        revocable in any::<bool>(),
        zone in prop::option::of((any::<bool>(), any::<bool>())),
        avoid in prop::collection::vec(prop::collection::vec(0..8usize, 0..3), 12),
        present in prop::collection::btree_map(0..8usize, 0..3u32, 0..4),
        bound in prop::collection::vec((0..9usize, prop::bool::weighted(0.8)), 0..3),
    ) -> Wanted {
        let id = |n: usize| HostId::new(format!("h{n:02}"));
        let kind = if service { JobKind::Service } else { JobKind::Batch };
        let mut wanted = group(job, kind, instances, shape);
        wanted.priority = priority;
        wanted.revocable = revocable;
        wanted.ports = ports;
        if let Some((east, negate)) = zone {
            wanted.constraints = vec![rule("zone", &[if east { "east" } else { "west" }], negate)];
        }
        for (item, hosts) in wanted.items.iter_mut().zip(avoid) {
            item.avoid = hosts.into_iter().map(id).collect();
        }
        wanted.present = present.into_iter().map(|(h, n)| (id(h), n)).collect();
        // What has a volume never runs on lent room.
        let bound = if revocable { Vec::new() } else { bound };
        wanted.bound = (100..).zip(bound).map(|(n, (host, offered))| Bound {
            number: InstanceNumber(n),
            host: id(host),
            hostname: "h".into(),
            offered,
        }).collect();
        wanted.held = Resources { disk: shape.disk / 2, ..Resources::ZERO };
        wanted
    }
}

pub fn a_problem() -> impl Strategy<Value = Problem> {
    let hosts = (0..8usize).prop_flat_map(|n| (0..n).map(a_host).collect::<Vec<_>>());
    let groups = (0..6u128).prop_flat_map(|n| (0..n).map(a_group).collect::<Vec<_>>());
    (hosts, groups).prop_map(|(hosts, groups)| super::problem(1, groups, hosts))
}

/// Those that can only be where their volumes are: in order, before all others.
fn seat_bound<'a>(
    problem: &'a Problem,
    groups: &[&Wanted],
    (free, ports): (
        &mut BTreeMap<&'a HostId, Resources>,
        &mut BTreeMap<&'a HostId, PortSet>,
    ),
    out: &mut BTreeMap<InstanceId, HostId>,
) {
    for g in groups {
        for b in &g.bound {
            let host = problem
                .hosts
                .views()
                .iter()
                .find(|h| h.id == b.host && b.offered && !h.draining);
            let host = host.filter(|h| g.constraints.iter().all(|r| crate::constraint::holds(r, h)));
            let need = g.resources.minus(g.held);
            let Some(h) = host.filter(|h| need.fits(free[&h.id])) else {
                continue;
            };
            let Some(chosen) = choose(&g.ports, &ports[&h.id]) else {
                continue;
            };
            let left = ports.get_mut(&h.id).unwrap();
            chosen.iter().for_each(|p| assert!(left.take(*p)));
            free.insert(&h.id, free[&h.id].minus(need));
            out.insert(
                InstanceId {
                    job: g.job,
                    group: g.group.clone(),
                    number: b.number,
                },
                h.id.clone(),
            );
        }
    }
}

/// How many of a group hosts have, those that were seated where they are bound to be.
fn counted(g: &Wanted, seated: &BTreeMap<InstanceId, HostId>) -> BTreeMap<HostId, u32> {
    let mut counts = g.present.clone();
    for b in &g.bound {
        let id = InstanceId {
            job: g.job,
            group: g.group.clone(),
            number: b.number,
        };
        if let Some(host) = seated.get(&id) {
            *counts.entry(host.clone()).or_default() += 1;
        }
    }
    counts
}

/// One instance after the other, looking at every host each time.
fn one_by_one(problem: &Problem) -> BTreeMap<InstanceId, HostId> {
    let most = Kind::ALL.map(|k| {
        problem
            .hosts
            .views()
            .iter()
            .map(|h| h.free.get(k).max(h.capacity.get(k)))
            .max()
            .unwrap_or(0)
    });
    let mut free: BTreeMap<&HostId, Resources> =
        problem.hosts.views().iter().map(|h| (&h.id, h.free)).collect();
    let mut slack: BTreeMap<&HostId, Resources> = problem
        .hosts
        .views()
        .iter()
        .map(|h| (&h.id, h.slack.free))
        .collect();
    let mut ports: BTreeMap<&HostId, PortSet> = problem
        .hosts
        .views()
        .iter()
        .map(|h| (&h.id, h.ports.clone()))
        .collect();
    let size = |left: Resources| -> u64 {
        let parts = Kind::ALL.into_iter().zip(most).filter(|(_, m)| *m > 0);
        parts.map(|(k, m)| left.get(k) * 1_000_000 / m).sum()
    };
    let mut groups: Vec<&Wanted> = problem.groups.iter().collect();
    groups.sort_by_key(|g| (Reverse(g.priority), g.job));
    let mut out = BTreeMap::new();
    seat_bound(problem, &groups, (&mut free, &mut ports), &mut out);
    for g in groups {
        let mut counts = counted(g, &out);
        for item in &g.items {
            let fitting = problem.hosts.views().iter().filter(|h| {
                let passes = g.constraints.iter().all(|r| crate::constraint::holds(r, h));
                let kept_out = h.kept && g.resources.gpus == 0;
                let (need, lent) = g.parts(h);
                !kept_out
                    && passes
                    && need.fits(free[&h.id])
                    && lent.fits(slack[&h.id])
                    && choose(&g.ports, &ports[&h.id]).is_some()
            });
            let best = match g.kind {
                JobKind::Batch => {
                    fitting.min_by_key(|h| (item.avoid.contains(&h.id), size(free[&h.id]), &h.id))
                }
                JobKind::Service | JobKind::Stateful | JobKind::Daemon => fitting.min_by_key(|h| {
                    let count = counts.get(&h.id).copied().unwrap_or(0);
                    (
                        item.avoid.contains(&h.id),
                        count,
                        Reverse((size(free[&h.id]), &h.id)),
                    )
                }),
            };
            if let Some(h) = best {
                let (need, lent) = g.parts(h);
                let left = (free[&h.id].minus(need), slack[&h.id].minus(lent));
                free.insert(&h.id, left.0);
                slack.insert(&h.id, left.1);
                let taken = choose(&g.ports, &ports[&h.id]).unwrap();
                let taken = taken.into_iter().collect();
                ports.insert(&h.id, ports[&h.id].minus(&taken));
                *counts.entry(h.id.clone()).or_default() += 1;
                let id = InstanceId {
                    job: g.job,
                    group: g.group.clone(),
                    number: item.number,
                };
                out.insert(id, h.id.clone());
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Safety and completeness are judged by the checker: room, constraints, each instance once, reasons.
    #[test]
    fn answers_break_no_rule_and_are_those_of_one_by_one_search(problem in a_problem()) {
        let answer = judged(&problem);
        let places: BTreeMap<InstanceId, HostId> =
            answer.choices.into_iter().map(|c| (c.instance, c.host)).collect();
        prop_assert_eq!(places, one_by_one(&problem));
    }

    #[test]
    fn the_order_of_lists_does_not_matter(problem in a_problem(), seed in any::<u64>()) {
        let mut mixed = problem.clone();
        let mut hosts = problem.hosts.views().to_vec();
        let mut state = seed;
        let mut draw = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % n
        };
        for i in (1..hosts.len()).rev() {
            hosts.swap(i, draw(i + 1));
        }
        mixed.hosts = Arc::new(hosts.into());
        for i in (1..mixed.groups.len()).rev() {
            mixed.groups.swap(i, draw(i + 1));
        }
        mixed.groups.iter_mut().for_each(|g| g.items.reverse());
        prop_assert_eq!(place(&problem), place(&mixed));
    }
}
