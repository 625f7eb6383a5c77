//! What is written reads back, whatever it is.

use super::*;
use crate::output::Format;
use echelon_core_model::GroupName;
use echelon_core_model::range::InstanceRange;
use echelon_core_model::resources::Resources;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::siting::{Comparison, Number, Test};
use echelon_core_model::spec::{GroupSpec, JobSpec, MAX_INSTANCES};
use echelon_core_testkit::specs::specs;

/// As near to a spec as a job file can come: without what servers set, with values that files may have, groups in the order of names.
pub fn writable(mut spec: JobSpec) -> JobSpec {
    spec.rules.after.iter_mut().for_each(|a| a.id = None);
    // Only commands withdraw numbers.
    spec.rules.withdrawn.clear();
    let kind = spec.kind;
    spec.groups.sort_by(|a, b| a.name.cmp(&b.name));
    spec.groups.dedup_by(|a, b| a.name == b.name);
    if spec.groups.is_empty() {
        spec.groups
            .push(GroupSpec::new(GroupName::new(GroupName::DEFAULT), kind));
    }
    spec.groups.iter_mut().for_each(writable_group);
    if kind == JobKind::Daemon {
        spec.groups.iter_mut().for_each(|g| g.instances = 0);
    }
    spec
}

fn writable_group(g: &mut GroupSpec) {
    g.revision = 0;
    g.instances = g.instances % MAX_INSTANCES + 1;
    g.resources = bounded(g.resources);
    g.volume.iter_mut().for_each(|v| v.size %= 1_000_000_000);
    writable_task(&mut g.runtime);
    for s in &mut g.sidecars {
        s.resources = bounded(s.resources);
        writable_task(&mut s.runtime);
    }
    // An empty set of instances is refused by files and gateways alike.
    g.overrides.retain(|o| !o.instances.is_empty());
}

fn bounded(r: Resources) -> Resources {
    Resources {
        cpus: r.cpus % 1_000_000_000,
        memory: r.memory % 1_000_000_000,
        disk: r.disk % 1_000_000_000,
        gpus: r.gpus % 1_000_000_000,
    }
}

fn writable_task(r: &mut Runtime) {
    let image = r.container.as_ref().is_some_and(|c| !c.image.is_empty());
    if r.command.trim().is_empty() && !image {
        r.command = "run".to_owned();
    }
    for p in &mut r.ports {
        p.fixed = p.fixed.filter(|n| *n > 0);
        p.container_port = p.container_port.filter(|n| *n > 0);
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(spec in specs()) {
        let spec = writable(spec);
        for format in [Format::Yaml, Format::Json] {
            let text = write(&spec, format);
            let read = parse(text.as_bytes());
            prop_assert!(read.is_ok(), "{}\n{}", read.unwrap_err(), text);
            prop_assert_eq!(read.unwrap(), spec.clone(), "{}", text);
        }
    }

    #[test]
    fn texts_read_back_whatever_they_are(command in any::<String>(), value in any::<String>(), key in "[ -~]{1,9}") {
        prop_assume!(!command.trim().is_empty());
        let mut spec = writable(parse(HELLO.as_bytes()).unwrap());
        spec.groups[0].runtime.command = command;
        spec.groups[0].runtime.env.insert("A".to_owned(), value);
        spec.labels.insert(key, "null".to_owned());
        for format in [Format::Yaml, Format::Json] {
            let text = write(&spec, format);
            prop_assert_eq!(parse(text.as_bytes()).ok(), Some(spec.clone()), "{}", text);
        }
    }
}

#[test]
fn every_default_is_written_out() {
    let text = write(&parse(HELLO.as_bytes()).unwrap(), Format::Yaml);
    insta::assert_snapshot!(text, @r#"
    name: hello
    pool: /default
    kind: batch
    priority: 0
    clusters:
      spread: none
      min_clusters: 1
      max_share: 100%
      cost: ignore
    revocable: false
    preemptible: true
    controller: false
    completion: all
    on_unreachable: replace after 5m
    on_cluster_loss: replace after 15m
    update:
      max_surge: 0
      min_healthy: 5s
      healthy_within: 5m
      canaries: 0
      auto_promote: false
      max_failures: 5%
      on_failure: roll_back
    instances: 8
    max_running: 6
    host_pool: default
    exclusive: false
    retry:
      limit: 3
      backoff: 1s
      max_backoff: 5m
    platform_retry: 10
    restart: on-failure
    drain: 0s
    grace: 10s
    max_unavailable: 1
    command: echo "hello from instance $ECHELON_INSTANCE on $ECHELON_CLUSTER"
    resources:
      cpus: 0.1
      memory: 32MiB
      disk: 0MiB
      gpus: 0
    "#);
}

#[test]
fn what_was_written_is_written_the_same_again() {
    let text = write(&parse(HELLO.as_bytes()).unwrap(), Format::Yaml);
    let again = write(&parse(text.as_bytes()).unwrap(), Format::Yaml);
    assert_eq!(text, again);
}

#[test]
fn overrides_are_written_as_ranges() {
    let mut spec = parse(HELLO.as_bytes()).unwrap();
    spec.groups[0].overrides = vec![echelon_core_model::overrides::Override {
        instances: InstanceRange::new(0, 3).into_iter().collect(),
        command: "lead".to_owned(),
        ..Default::default()
    }];
    let text = write(&spec, Format::Yaml);
    assert!(text.contains("instances: 0-3"), "{text}");
}

#[test]
fn a_comparison_that_is_turned_round_has_a_field_of_its_own() {
    for (field, test) in [
        ("not_less", Comparison::Less),
        ("not_at_most", Comparison::AtMost),
        ("not_more", Comparison::More),
        ("not_at_least", Comparison::AtLeast),
    ] {
        let rule = format!("{HELLO}constraints: [{{attribute: cores, {field}: 2.5}}]\n");
        let spec = parse(rule.as_bytes()).unwrap();
        let read = &spec.groups[0].constraints[0];
        assert_eq!(
            (&read.test, read.negate),
            (&Test::Compares(test, Number(2_500_000)), true)
        );
        let text = write(&spec, Format::Yaml);
        assert!(text.contains(&format!("{field}: 2.5")), "{text}");
    }
    let both = said(&format!(
        "{HELLO}constraints: [{{attribute: cores, less: 2, not_more: 1}}]\n"
    ));
    assert!(
        both.contains("needs exactly one of") && both.contains("`not_at_least`"),
        "{both}"
    );
}
