use super::*;
use echelon_core_model::resources::Resources;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

fn spans() -> impl Strategy<Value = Span> {
    (0u64..1 << 40).prop_map(Span)
}

fn silences() -> impl Strategy<Value = OnSilence> {
    prop_oneof![Just(OnSilence::Wait), spans().prop_map(OnSilence::Replace)]
}

fn groups() -> impl Strategy<Value = GroupSpec> {
    let rules = vec(
        ("[a-z]{1,5}", vec("[a-z]{1,3}", 0..3), any::<bool>()).prop_map(|(attribute, values, negate)| {
            Constraint {
                attribute,
                values,
                negate,
            }
        }),
        0..3,
    );
    let texts = (
        "[a-z0-9-]{1,9}",
        ".{0,20}",
        btree_map("[A-Z]{1,4}", ".{0,4}", 0..3),
        rules,
    );
    let numbers = (
        any::<u32>(),
        option::of(any::<u32>()),
        any::<[u64; 4]>(),
        any::<u32>(),
        any::<u32>(),
    );
    let times = (spans(), spans(), spans(), option::of(spans()));
    (texts, numbers, times).prop_map(|(t, n, s)| GroupSpec {
        name: GroupName::new(t.0),
        command: t.1,
        env: t.2,
        constraints: t.3,
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
        },
        max_unavailable: n.4,
        grace: s.2,
        max_run: s.3,
    })
}

fn specs() -> impl Strategy<Value = JobSpec> {
    let texts = (
        "[a-z]{0,9}",
        "/[a-z]{1,9}",
        ".{0,5}",
        btree_map(".{0,4}", ".{0,4}", 0..3),
        vec(".{0,4}", 0..3),
    );
    let rest = (any::<bool>(), any::<bool>(), any::<u32>(), silences(), silences());
    (texts, rest, vec(groups(), 0..3)).prop_map(|(t, r, groups)| JobSpec {
        name: t.0,
        pool: t.1,
        owner: t.2,
        labels: t.3,
        kind: if r.0 { JobKind::Batch } else { JobKind::Service },
        clusters: ClusterChoice {
            only: t.4,
            spread: if r.1 { Spread::Even } else { Spread::None },
        },
        priority: r.2,
        on_unreachable: r.3,
        on_cluster_loss: r.4,
        groups,
    })
}

proptest! {
    #[test]
    fn specs_read_back(s in specs()) {
        prop_assert_eq!(from_wire(spec(&s)), Ok(s));
    }
}

#[test]
fn what_is_left_out_gets_its_default() {
    let read = from_wire(v1::JobSpec {
        kind: v1::JobKind::Service.into(),
        groups: vec![v1::GroupSpec::default()],
        ..Default::default()
    })
    .unwrap();
    assert_eq!(read.pool, "/default");
    assert_eq!(read.on_cluster_loss, defaults::ON_CLUSTER_LOSS);
    let main = &read.groups[0];
    assert_eq!(
        (main.name.as_str(), main.retry.limit, main.grace, main.max_run),
        ("main", u32::MAX, defaults::GRACE, None)
    );
}

#[test]
fn every_problem_is_told_with_its_path() {
    let long = prost_types::Duration {
        seconds: -1,
        nanos: 0,
    };
    let mut problems = Problems::default();
    let wrong = v1::JobSpec {
        kind: v1::JobKind::Daemon.into(),
        clusters: Some(v1::ClusterChoice {
            only: vec![],
            spread: 9,
        }),
        on_unreachable: Some(v1::OnSilence { action: None }),
        groups: vec![
            v1::GroupSpec {
                name: "Main".into(),
                grace: Some(long),
                ..Default::default()
            },
            v1::GroupSpec {
                retry: Some(v1::Retry {
                    limit: None,
                    backoff: Some(long),
                    max_backoff: None,
                }),
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    read_spec(wrong, "job.spec", &mut problems);
    let fields: Vec<&str> = problems.0.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "job.spec.kind",
            "job.spec.clusters.spread",
            "job.spec.on_unreachable",
            "job.spec.groups[0].grace",
            "job.spec.groups[0].name",
            "job.spec.groups[1].retry.backoff",
        ]
    );
}
