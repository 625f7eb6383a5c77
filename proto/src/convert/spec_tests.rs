//! Specs on the wire: read back, with defaults, and refused.

use super::*;
use echelon_core_model::runtime::{Container, PortReference, ProbeKind, Visibility};
use echelon_core_model::siting::Constraint;
use echelon_core_testkit::specs::specs;
use proptest::prelude::*;

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
        groups: vec![v1::GroupSpec {
            health: Some(v1::HealthCheck {
                probe: Some(v1::Probe {
                    kind: Some(v1::probe::Kind::Http(v1::HttpProbe {
                        port: "80".into(),
                        ..Default::default()
                    })),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            uris: vec![v1::Uri::default()],
            container: Some(v1::Container::default()),
            ports: vec![v1::PortSpec::default()],
            ..Default::default()
        }],
        ..Default::default()
    })
    .unwrap();
    let runtime = &read.groups[0].runtime;
    let health = runtime.health.as_ref().unwrap();
    assert_eq!(
        (health.grace, health.failures, health.probe.interval),
        (
            defaults::HEALTH_GRACE,
            defaults::HEALTH_FAILURES,
            defaults::PROBE_INTERVAL
        )
    );
    let page = ProbeKind::Http {
        port: PortReference::Number(80),
        path: "/".into(),
        tls: false,
    };
    assert_eq!(health.probe.kind, page);
    assert!(runtime.uris[0].extract);
    assert_eq!(runtime.container, Some(Container::default()));
    assert_eq!(
        (runtime.ports[0].fixed, runtime.ports[0].visibility),
        (None, Visibility::Cluster)
    );
    assert_eq!(read.pool, "/default");
    assert_eq!(read.on_cluster_loss, defaults::on_cluster_loss(read.kind));
    assert_eq!(read.on_gone, None, "it depends on what is known of the agent");
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
        kind: 99,
        clusters: Some(v1::ClusterChoice {
            spread: 9,
            weights: [("east".to_owned(), 1_000_001)].into(),
            prefer: vec!["east".to_owned()],
            prefer_weights: [("east".to_owned(), 1)].into(),
            min_clusters: 1_001,
            max_share: 101,
            cost: 9,
            ..v1::ClusterChoice::default()
        }),
        on_unreachable: Some(v1::OnSilence { action: None }),
        on_gone: Some(v1::OnSilence { action: None }),
        groups: vec![
            v1::GroupSpec {
                name: "Main".into(),
                grace: Some(long),
                container: Some(v1::Container {
                    r#type: 7,
                    volumes: vec![v1::Volume::default()],
                    ..Default::default()
                }),
                ports: vec![v1::PortSpec {
                    port: Some(65_536),
                    visibility: 9,
                    ..Default::default()
                }],
                health: Some(v1::HealthCheck {
                    grace: Some(long),
                    ..Default::default()
                }),
                readiness: Some(v1::Probe::default()),
                ..Default::default()
            },
            v1::GroupSpec {
                retry: Some(v1::Retry {
                    limit: None,
                    backoff: Some(long),
                    no_retry_exit_codes: vec![1, 256],
                    ..v1::Retry::default()
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
            "job.spec.clusters.weights[east]",
            "job.spec.clusters.prefer_weights",
            "job.spec.clusters.min_clusters",
            "job.spec.clusters.max_share",
            "job.spec.clusters.cost",
            "job.spec.on_unreachable",
            "job.spec.on_gone",
            "job.spec.groups[0].container.type",
            "job.spec.groups[0].container.volumes[0]",
            "job.spec.groups[0].ports[0].visibility",
            "job.spec.groups[0].ports[0].port",
            "job.spec.groups[0].health.grace",
            "job.spec.groups[0].health.probe",
            "job.spec.groups[0].readiness",
            "job.spec.groups[0].grace",
            "job.spec.groups[0].name",
            "job.spec.groups[1].retry.backoff",
            "job.spec.groups[1].retry.no_retry_exit_codes[1]",
        ]
    );
}

#[test]
fn rules_of_the_first_form_are_read_as_ever_and_wrong_ones_are_told() {
    let rule = |operator: i32, values: &[&str]| v1::Constraint {
        attribute: "rack".into(),
        values: values.iter().map(|v| (*v).into()).collect(),
        negate: true,
        operator,
    };
    let read = |rule| {
        let group = v1::GroupSpec {
            constraints: vec![rule],
            ..Default::default()
        };
        from_wire(v1::JobSpec {
            kind: v1::JobKind::Batch.into(),
            groups: vec![group],
            ..Default::default()
        })
    };
    let old = read(rule(0, &["r1"])).unwrap();
    assert_eq!(
        old.groups[0].constraints,
        [Constraint::one_of("rack", &["r1"]).turned()]
    );
    for (operator, values, wrong) in [
        (v1::Operator::Exists as i32, vec!["x"], "must have no values"),
        (
            v1::Operator::Less as i32,
            vec!["x"],
            "must have one value, a decimal number",
        ),
        (
            v1::Operator::Less as i32,
            vec!["1", "2"],
            "must have one value, a decimal number",
        ),
        (
            v1::Operator::Matches as i32,
            vec![],
            "must have one value, a regular expression",
        ),
        (99, vec![], "has an operator that this version does not know"),
    ] {
        let told = read(rule(operator, &values)).unwrap_err().to_string();
        assert!(
            told.starts_with("groups[0].constraints[0]: ") && told.contains(wrong),
            "{told}"
        );
    }
}
