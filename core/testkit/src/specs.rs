//! Any spec, for tests of what carries specs: nothing but the types holds of it.

use crate::cluster_choices::cluster_choices;
use echelon_core_model::Amount;
use echelon_core_model::gang::{Gang, OnMemberFailure, Topology};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::overrides::Override;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::resources::Resources;
use echelon_core_model::rollout::{OnFailure, UpdatePolicy};
use echelon_core_model::rules::{After, Completion, Condition, Restart, Rules};
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, ImageFormat, Network, PortReference, PortSpec, Probe, ProbeKind,
    Protocol, Runtime, SecretReference, Uri, Visibility, Volume, VolumeSource,
};
use echelon_core_model::schedule::{CatchUp, Overlap, Schedule};
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Preference, Siting, Test};
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, OnSilence, Retry};
use echelon_core_model::volume::{PersistentVolume, Reclaim};
use echelon_core_model::{GroupName, InstanceRange, JobId, RangeSet, SidecarName, Span};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

fn spans() -> impl Strategy<Value = Span> {
    (0u64..1 << 40).prop_map(Span)
}

fn silences() -> impl Strategy<Value = OnSilence> {
    prop_oneof![Just(OnSilence::Wait), spans().prop_map(OnSilence::Replace)]
}

fn secrets() -> impl Strategy<Value = SecretReference> {
    ("[a-z]{1,4}", ".{0,2}").prop_map(|(name, key)| SecretReference { name, key })
}

fn probes() -> impl Strategy<Value = Probe> {
    let port = || {
        prop_oneof![
            any::<u16>().prop_map(PortReference::Number),
            "[a-z]{1,4}".prop_map(PortReference::Named)
        ]
    };
    let kind = prop_oneof![
        ".{0,5}".prop_map(ProbeKind::Command),
        (port(), "/[a-z]{0,3}", any::<bool>()).prop_map(|(port, path, tls)| ProbeKind::Http {
            port,
            path,
            tls
        }),
        port().prop_map(|port| ProbeKind::Tcp { port }),
    ];
    (kind, spans(), spans(), spans()).prop_map(|(kind, delay, interval, timeout)| Probe {
        kind,
        delay,
        interval,
        timeout,
    })
}

fn containers() -> impl Strategy<Value = Container> {
    let source = prop_oneof![
        "[a-z/]{0,4}".prop_map(VolumeSource::Host),
        "[a-z/]{0,4}".prop_map(VolumeSource::Sandbox),
        secrets().prop_map(VolumeSource::Secret),
    ];
    let volume = ("[a-z/]{0,4}", any::<bool>(), source).prop_map(|(path, read_only, source)| Volume {
        path,
        read_only,
        source,
    });
    let network = select(vec!["host", "bridge", "none", "blue"]).prop_map(Network::from);
    let kinds = (any::<bool>(), any::<bool>(), any::<bool>());
    (kinds, ".{0,4}", ".{0,4}", network, vec(volume, 0..3)).prop_map(
        |((docker, appc, force_pull), image, hostname, network, volumes)| Container {
            containerizer: if docker {
                Containerizer::Docker
            } else {
                Containerizer::Mesos
            },
            image,
            image_format: if appc {
                ImageFormat::Appc
            } else {
                ImageFormat::Docker
            },
            force_pull,
            network,
            hostname,
            volumes,
        },
    )
}

fn runtimes() -> impl Strategy<Value = Runtime> {
    let uri = (".{0,4}", any::<[bool; 3]>(), ".{0,4}").prop_map(|(uri, is, output_file)| Uri {
        uri,
        extract: is[0],
        executable: is[1],
        cache: is[2],
        output_file,
    });
    let visibilities = vec![Visibility::Framework, Visibility::Cluster, Visibility::External];
    let number = || option::of(any::<u16>());
    let port = (
        "[a-z]{1,4}",
        number(),
        number(),
        any::<bool>(),
        select(visibilities),
    )
        .prop_map(|(name, fixed, container_port, udp, visibility)| PortSpec {
            name,
            fixed,
            container_port,
            protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
            visibility,
        });
    let health = (probes(), spans(), any::<u32>()).prop_map(|(probe, grace, failures)| HealthCheck {
        probe,
        grace,
        failures,
    });
    let words = || option::of(vec(".{0,3}", 0..3));
    let texts = (words(), ".{0,4}", ".{0,4}", words());
    let lists = (
        btree_map("[A-Z]{1,4}", secrets(), 0..2),
        vec(uri, 0..3),
        vec(port, 0..3),
    );
    let parts = (option::of(containers()), option::of(health), option::of(probes()));
    (texts, lists, parts).prop_map(|(t, l, p)| Runtime {
        args: t.0,
        entrypoint: t.3,
        user: t.1,
        working_dir: t.2,
        secrets: l.0,
        uris: l.1,
        ports: l.2,
        container: p.0,
        health: p.1,
        readiness: p.2,
        ..Runtime::default()
    })
}

/// Such as give something, of instances that follow the first.
fn overrides() -> impl Strategy<Value = Vec<Override>> {
    let own = ("[a-z]{0,3}", btree_map("[A-Z]{1,4}", ".{0,4}", 0..3), runtimes());
    vec((own, any::<u16>()), 0..3).prop_map(|all| {
        let mut first = 0;
        let all = all.into_iter().map(|((command, env, of), more)| {
            let last = first + u32::from(more);
            let instances = InstanceRange { first, last };
            first = last + 2;
            Override {
                instances: [instances].into_iter().collect(),
                command,
                args: of.args,
                entrypoint: of.entrypoint,
                env,
                working_dir: of.working_dir,
                uris: of.uris,
            }
        });
        all.collect()
    })
}

fn sidecars() -> impl Strategy<Value = Sidecar> {
    let name = "[a-z0-9]([a-z0-9-]{0,7}[a-z0-9])?";
    (name, runtimes(), any::<[u64; 4]>()).prop_map(|(name, runtime, n)| Sidecar {
        name: SidecarName::new(name),
        runtime: Runtime {
            ports: Vec::new(),
            readiness: None,
            ..runtime
        },
        resources: Resources {
            cpus: n[0],
            memory: n[1],
            disk: n[2],
            gpus: n[3],
        },
    })
}

fn rules() -> impl Strategy<Value = Constraint> {
    let test = prop_oneof![
        vec("[a-z]{1,3}", 0..3).prop_map(Test::In),
        Just(Test::Exists),
        (select(Comparison::ALL.to_vec()), any::<i32>())
            .prop_map(|(how, n)| Test::Compares(how, Number(n.into()))),
        ".{0,5}".prop_map(Test::Matches),
    ];
    ("[a-z]{1,5}", test, any::<bool>()).prop_map(|(attribute, test, negate)| Constraint {
        attribute,
        test,
        negate,
    })
}

fn sitings() -> impl Strategy<Value = Siting> {
    let affinities = || {
        let labels = btree_map("[a-z]{1,4}", "[a-z]{0,4}", 0..3);
        let affinity = (labels, "[a-z]{1,4}", option::of(any::<u32>()));
        let affinity = affinity.prop_map(|(labels, topology, weight)| Affinity {
            labels,
            topology,
            weight,
        });
        vec(affinity, 0..3)
    };
    let preference = (rules(), any::<i32>()).prop_map(|(rule, weight)| Preference { rule, weight });
    (
        vec(preference, 0..3),
        btree_map("[a-z]{1,4}", any::<u32>(), 0..3),
        vec("[a-z]{1,4}", 0..3),
        (affinities(), affinities()),
        any::<bool>(),
        (option::of("[a-z]{1,4}"), select(vec!["*", "default", "web"])),
    )
        .prop_map(
            |(preferences, max_per, spread_over, near, exclusive, (strategy, pool))| Siting {
                host_pool: HostPoolChoice::parse(pool).unwrap_or_default(),
                preferences,
                max_per,
                spread_over,
                affinity: near.0,
                anti_affinity: near.1,
                exclusive,
                strategy,
            },
        )
}

fn groups() -> impl Strategy<Value = GroupSpec> {
    let texts = (
        "[a-z0-9]([a-z0-9-]{0,7}[a-z0-9])?",
        ".{0,20}",
        btree_map("[A-Z]{1,4}", ".{0,4}", 0..3),
        (vec(rules(), 0..3), sitings()),
    );
    let volume = ("[a-z/]{1,4}", any::<u64>(), any::<bool>(), option::of(spans())).prop_map(
        |(path, size, keeps, after)| PersistentVolume {
            path,
            size,
            reclaim: if keeps { Reclaim::Keep } else { Reclaim::Delete },
            replace_after: after,
        },
    );
    let numbers = (
        any::<u32>(),
        option::of(any::<u32>()),
        any::<[u64; 4]>(),
        any::<u32>(),
        any::<u32>(),
    );
    let times = (spans(), spans(), spans(), option::of(spans()));
    let within = (runtimes(), vec(sidecars(), 0..3), overrides());
    let rules = (
        select(Restart::ALL.to_vec()),
        vec(any::<u8>(), 0..4),
        option::of(spans()),
    );
    let all = (texts, numbers, times, within, rules, option::of(volume));
    all.prop_map(|(t, n, s, (mut runtime, sidecars, overrides), r, v)| {
        (runtime.command, runtime.env) = (t.1, t.2);
        GroupSpec {
            runtime,
            overrides,
            sidecars,
            name: GroupName::new(t.0),
            constraints: t.3.0,
            siting: t.3.1,
            volume: v,
            instances: n.0,
            max_running: n.1,
            resources: Resources {
                cpus: n.2[0],
                memory: n.2[1],
                disk: n.2[2],
                gpus: n.2[3],
            },
            retry: Retry {
                limit: n.3,
                backoff: s.0,
                max_backoff: s.1,
                no_retry_exit_codes: r.1.into_iter().collect(),
            },
            platform_retry: n.3 / 2,
            restart: r.0,
            max_start: r.2,
            max_unavailable: if n.4 % 2 == 0 {
                Amount::Count(n.4)
            } else {
                Amount::Percent(1 + n.4 % 100)
            },
            revision: n.4 / 2,
            drain: s.1,
            grace: s.2,
            max_run: s.3,
        }
    })
}

/// Different in every field for different numbers.
fn a_gang(n: u32) -> Gang {
    Gang {
        start_within: Span(u64::from(n)),
        on_failure: match n % 3 {
            0 => OnMemberFailure::Member,
            1 => OnMemberFailure::Gang,
            _ => OnMemberFailure::Job,
        },
        topology: Topology {
            levels: ["rack".to_owned()]
                .into_iter()
                .take(usize::from(n.is_multiple_of(2)))
                .collect(),
            required: n.is_multiple_of(5),
        },
    }
}

fn update(n: u32, part: bool) -> UpdatePolicy {
    let amount = |n: u32| {
        if part {
            Amount::Percent(n % 101)
        } else {
            Amount::Count(n)
        }
    };
    UpdatePolicy {
        batch: part.then(|| amount(n / 2)),
        max_surge: amount(n / 3),
        min_healthy: Span(u64::from(n)),
        healthy_within: Span(u64::from(n / 2)),
        canaries: amount(n / 5),
        auto_promote: part,
        max_failures: amount(n / 7),
        on_failure: match n % 3 {
            0 => OnFailure::RollBack,
            1 => OnFailure::Pause,
            _ => OnFailure::Continue,
        },
    }
}

fn withdrawn() -> impl Strategy<Value = RangeSet> {
    let range = (0u32..50, 0u32..9).prop_map(|(first, more)| InstanceRange::new(first, first + more));
    vec(range, 1..3).prop_map(|all| all.into_iter().flatten().collect())
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let ways = (select(Overlap::ALL.to_vec()), select(CatchUp::ALL.to_vec()));
    (".{0,9}", "[A-Za-z/]{1,9}", ways, spans(), any::<u32>()).prop_map(
        |(cron, time_zone, ways, within, n)| Schedule {
            cron,
            time_zone,
            overlap: ways.0,
            catch_up: ways.1,
            within,
            keep_last: n,
        },
    )
}

/// Any spec.
pub fn specs() -> impl Strategy<Value = JobSpec> {
    let texts = (
        "[a-z]{0,9}",
        "/[a-z]{1,9}",
        ".{0,5}",
        btree_map(".{0,4}", ".{0,4}", 0..3),
        cluster_choices(),
    );
    let flags = proptest::array::uniform6(any::<bool>());
    let rest = (flags, any::<u32>(), silences(), silences());
    let bound = prop_oneof![
        any::<u32>().prop_map(Amount::Count),
        (0..=100u32).prop_map(Amount::Percent)
    ];
    let condition = select(Condition::ALL.to_vec());
    let after = (".{0,4}", option::of(any::<u128>()), condition).prop_map(|(job, id, condition)| After {
        job,
        id: id.map(JobId),
        condition,
    });
    let span = || option::of(spans());
    let rules = (
        option::of(any::<u64>()),
        option::of(bound),
        vec(after, 0..3),
        (span(), span(), span()),
        option::of(schedules()),
        option::of("[a-z0-9]{1,4}".prop_map(GroupName::new)),
        btree_map("[a-z0-9]{1,4}".prop_map(GroupName::new), withdrawn(), 0..2),
    );
    (texts, rest, vec(groups(), 0..3), rules).prop_map(|(t, r, groups, rules)| JobSpec {
        rules: Box::new(Rules {
            completion: rules.0.map_or(Completion::All, Completion::Successes),
            max_failed: rules.1,
            after: rules.2,
            max_wait: rules.3.0,
            max_total: rules.3.1,
            keep: rules.3.2,
            schedule: rules.4,
            driver: rules.5,
            withdrawn: rules.6,
        }),
        name: t.0,
        pool: t.1,
        owner: t.2,
        labels: t.3,
        kind: match r.1 % 4 {
            0 => JobKind::Batch,
            1 => JobKind::Service,
            2 => JobKind::Stateful,
            _ => JobKind::Daemon,
        },
        clusters: Box::new(t.4),
        priority: r.1,
        revocable: r.0[2],
        preemptible: r.0[3],
        controller: r.0[4],
        gang: r.0[5].then(|| a_gang(r.1)),
        on_unreachable: r.2,
        on_gone: r.0[1].then_some(r.3),
        on_cluster_loss: r.3,
        update: update(r.1, r.0[0]),
        groups,
    })
}
