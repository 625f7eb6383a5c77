use super::{host, in_pool, kept, lending, rule, with_attribute, with_ports};
use crate::fits::{FitCounts, FitHost, fits_on};
use echelon_core_model::class::{ClassDigest, ClassFit, InstanceClass, MOST_A_HOST};
use echelon_core_model::cluster::HostView;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::Constraint;
use echelon_core_model::spec::{GroupSpec, JobKind};
use echelon_core_model::{HostId, HostPoolName, Kind, PortSet, Resources};
use echelon_core_testkit::build::{JobBuilder, shape};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn class(change: impl FnOnce(&mut InstanceClass)) -> InstanceClass {
    let mut class = InstanceClass {
        shape: shape(2, 100),
        revocable: false,
        exclusive: false,
        host_pool: HostPoolChoice::Any,
        ports: Vec::new(),
        constraints: Vec::new(),
    };
    change(&mut class);
    class
}

fn fit_host(view: HostView) -> FitHost {
    let ports = view.ports_left.is_some().then(|| view.ports.clone());
    FitHost { view, ports }
}

/// A host of 8 cores of which 3 are in use.
fn busy() -> HostView {
    HostView {
        used: shape(3, 300),
        capacity: shape(8, 800),
        ..host("a", shape(5, 500))
    }
}

#[test]
fn who_wants_a_host_for_itself_finds_none_beside_another_agent_in_use() {
    let of_machine = |id: &str, view: HostView| HostView {
        id: HostId::new(id),
        hostname: "a.example".into(),
        ..view
    };
    let exclusive = class(|c| c.exclusive = true);
    let digest = exclusive.digest();
    let mut counts = FitCounts::default();
    counts.set_classes([(digest, exclusive)].into());
    let idle = of_machine("b", host("b", shape(8, 800)));
    let alone = host("c", shape(8, 800));
    let hosts = |first: HostView| [first, idle.clone(), alone.clone()].map(fit_host).to_vec();
    counts.set_hosts(hosts(of_machine("a", busy())));
    assert_eq!(counts.fits()[&digest].now, 4, "only the machine that is alone");
    // What ran on the other agent has ended.
    counts.set_hosts(hosts(of_machine("a", host("a", shape(8, 800)))));
    assert_eq!(counts.fits()[&digest].now, 12);
}

#[test]
fn each_rule_of_a_class_counts() {
    let fit = |now, ever| ClassFit { now, ever };
    let mut draining = busy();
    draining.draining = true;
    let zone = |of: &str| class(|c| c.constraints = vec![rule("zone", &[of], false)]);
    let in_batch = |c: &mut InstanceClass| c.host_pool = HostPoolChoice::Only(HostPoolName::new("batch"));
    let revocable = class(|c| {
        c.revocable = true;
        c.shape = shape(1, 100);
    });
    let table = [
        ("plain", class(|_| ()), busy(), fit(2, 4)),
        (
            "too large for any",
            class(|c| c.shape = shape(9, 1)),
            busy(),
            fit(0, 0),
        ),
        (
            "too large for what is left",
            class(|c| c.shape = shape(6, 1)),
            busy(),
            fit(0, 1),
        ),
        (
            "nothing asked",
            class(|c| c.shape = Resources::ZERO),
            busy(),
            fit(MOST_A_HOST, MOST_A_HOST),
        ),
        ("draining", class(|_| ()), draining, fit(0, 0)),
        (
            "zone met",
            zone("east"),
            with_attribute(busy(), "zone", "east"),
            fit(2, 4),
        ),
        (
            "zone not met",
            zone("west"),
            with_attribute(busy(), "zone", "east"),
            fit(0, 0),
        ),
        ("no zone", zone("west"), busy(), fit(0, 0)),
        ("other host pool", class(in_batch), busy(), fit(0, 0)),
        (
            "its host pool",
            class(in_batch),
            in_pool(busy(), "batch"),
            fit(2, 4),
        ),
        ("kept for GPUs", class(|_| ()), kept(busy(), 1), fit(0, 0)),
        (
            "with GPUs",
            class(|c| c.shape.gpus = 1000),
            kept(busy(), 1),
            fit(1, 1),
        ),
        (
            "exclusive, in use",
            class(|c| c.exclusive = true),
            busy(),
            fit(0, 4),
        ),
        (
            "exclusive, empty",
            class(|c| c.exclusive = true),
            host("a", shape(8, 800)),
            fit(4, 4),
        ),
        ("nothing lent", revocable.clone(), busy(), fit(0, 0)),
        ("lent", revocable, lending(busy(), shape(2, 0)), fit(2, 2)),
        (
            "certain port",
            class(|c| c.ports = vec![Some(80)]),
            with_ports(busy(), 80, 90),
            fit(1, 1),
        ),
        (
            "missing port",
            class(|c| c.ports = vec![Some(79)]),
            with_ports(busy(), 80, 90),
            fit(0, 0),
        ),
        (
            "any ports",
            class(|c| c.ports = vec![None; 4]),
            with_ports(busy(), 80, 90),
            fit(2, 2),
        ),
        (
            "unknown ports",
            class(|c| c.ports = vec![None; 4]),
            busy(),
            fit(2, 4),
        ),
    ];
    for (name, class, view, expected) in table {
        assert_eq!(fits_on(&class, &fit_host(view)), expected, "{name}");
    }
}

#[test]
fn the_revision_grows_when_hosts_are_others_and_not_when_they_are_used() {
    let mut counts = FitCounts::default();
    counts.set_classes([(ClassDigest(1), class(|_| ()))].into());
    let mut revision = |hosts: Vec<HostView>| {
        counts.set_hosts(hosts.into_iter().map(fit_host).collect());
        let fit = counts.fits().into_values().next().unwrap_or_default();
        (counts.revision(), fit.now, fit.ever)
    };
    assert_eq!(revision(vec![busy()]), (1, 2, 4));
    let mut freer = busy();
    freer.free = shape(8, 800);
    freer.used = Resources::ZERO;
    assert_eq!(revision(vec![freer.clone()]), (1, 4, 4));
    assert_eq!(revision(vec![in_pool(freer.clone(), "x")]), (2, 4, 4));
    assert_eq!(revision(vec![with_attribute(freer, "zone", "x")]), (3, 4, 4));
    assert_eq!(revision(vec![busy(), host("b", shape(4, 400))]), (4, 4, 6));
    assert_eq!(revision(Vec::new()), (5, 0, 0));
    assert_eq!(revision(Vec::new()), (5, 0, 0));
}

fn of_group(change: impl FnOnce(&mut GroupSpec)) -> InstanceClass {
    let mut job = JobBuilder::batch("job", 3).shape(shape(2, 64)).build();
    change(&mut job.groups[0]);
    InstanceClass::of(&job, &job.groups[0]).unwrap()
}

#[test]
fn a_class_is_the_same_for_all_that_fit_on_the_same_hosts() {
    let rules = [
        Constraint::one_of("zone", &["a"]),
        Constraint::one_of("rack", &["b"]),
    ];
    let plain = of_group(|_| ());
    for other in [
        of_group(|g| g.instances = 9),
        of_group(|g| g.max_running = Some(1)),
        of_group(|g| g.siting.max_per = [("hostname".to_owned(), 1)].into()),
    ] {
        assert_eq!(other.digest(), plain.digest());
    }
    let twice = of_group(|g| g.constraints = [rules.clone(), rules.clone()].concat());
    let turned = of_group(|g| g.constraints = rules.iter().rev().cloned().collect());
    assert_eq!(twice.digest(), turned.digest());
    let others = [
        plain,
        of_group(|g| g.resources.cpus += 1),
        of_group(|g| g.siting.exclusive = true),
        of_group(|g| g.siting.host_pool = HostPoolChoice::Only(HostPoolName::new("x"))),
        twice,
    ];
    let mut digests: Vec<ClassDigest> = others.iter().map(InstanceClass::digest).collect();
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 5);
}

#[test]
fn a_daemon_has_no_class_and_the_largest_host_tells_what_lacks() {
    let mut job = JobBuilder::batch("job", 1).build();
    job.kind = JobKind::Daemon;
    assert_eq!(InstanceClass::of(&job, &job.groups[0]), None);
    let large = class(|c| c.shape = shape(9, 1));
    assert_eq!(large.lacks(shape(8, 800)), Some(Kind::Cpus));
    assert_eq!(large.lacks(shape(9, 1)), None);
}

fn a_class() -> impl Strategy<Value = InstanceClass> {
    let zone = prop::option::of((any::<bool>(), any::<bool>()));
    let ports = prop::collection::vec(prop::option::weighted(0.3, 80..84u16), 0..3);
    (0..4u64, 0..3u64, any::<(bool, bool, bool)>(), zone, ports).prop_map(
        |(cpus, gpus, (revocable, exclusive, in_batch), zone, ports)| InstanceClass {
            shape: Resources {
                cpus,
                gpus: gpus / 2,
                ..Resources::ZERO
            },
            revocable,
            exclusive,
            host_pool: if in_batch {
                HostPoolChoice::Only(HostPoolName::new("batch"))
            } else {
                HostPoolChoice::Any
            },
            ports,
            constraints: zone
                .map(|(east, negate)| rule("zone", &[if east { "east" } else { "west" }], negate))
                .into_iter()
                .collect(),
        },
    )
}

fn a_host() -> impl Strategy<Value = FitHost> {
    let of = (0..6u8, 0..9u64, 0..9u64, 0..4u64, 0..4u64);
    let ports = prop::option::of((80..84u16, 80..84u16));
    (of, any::<(bool, bool, bool, bool)>(), ports).prop_map(
        |((n, capacity, used, lent, gpus), (east, batch, is_kept, draining), ports)| {
            let cores = |cpus: u64| Resources {
                cpus,
                ..Resources::ZERO
            };
            let mut view = host(&format!("h{n}"), cores(capacity.saturating_sub(used)));
            view.capacity = cores(capacity);
            view.capacity.gpus = gpus / 2;
            view.free.gpus = gpus / 2;
            view.used = cores(used.min(capacity));
            view.kept = is_kept && gpus > 1;
            view.draining = draining && n == 0;
            view.slack.capacity = cores(lent);
            view.slack.free = cores(lent / 2);
            if east {
                view = with_attribute(view, "zone", "east");
            }
            if batch {
                view = in_pool(view, "batch");
            }
            let ports = ports.map(|(a, b)| {
                let mut set = PortSet::new();
                set.insert(a.min(b), a.max(b));
                set
            });
            view.ports_left.clone_from(&ports);
            FitHost { view, ports }
        },
    )
}

/// What happens to a cluster: its hosts are as given, or these classes are asked about.
#[derive(Debug, Clone)]
enum Change {
    Hosts(Vec<FitHost>),
    Classes(Vec<InstanceClass>),
}

proptest! {
    #[test]
    fn counts_that_are_kept_are_those_made_from_nothing(
        changes in prop::collection::vec(
            prop_oneof![
                3 => prop::collection::vec(a_host(), 0..6).prop_map(Change::Hosts),
                1 => prop::collection::vec(a_class(), 0..4).prop_map(Change::Classes),
            ],
            1..12,
        )
    ) {
        let mut kept = FitCounts::default();
        let mut hosts: BTreeMap<_, FitHost> = BTreeMap::new();
        for change in changes {
            match change {
                Change::Hosts(some) => {
                    hosts = some.into_iter().map(|h| (h.view.id.clone(), h)).collect();
                    kept.set_hosts(hosts.values().cloned().collect());
                }
                Change::Classes(some) => {
                    kept.set_classes(some.into_iter().map(|c| (c.digest(), c)).collect());
                }
            }
            for (digest, fit) in kept.fits() {
                let class = &kept.classes()[&digest];
                let all = hosts.values().map(|host| fits_on(class, host));
                prop_assert_eq!(fit, all.fold(ClassFit::default(), ClassFit::plus));
                prop_assert!(fit.now <= fit.ever);
            }
        }
    }
}
