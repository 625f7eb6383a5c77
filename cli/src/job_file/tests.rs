//! Job files, good and bad, and what is said about them.

use super::*;
use echelon_core_model::spec::{JobKind, OnSilence, Spread};
use echelon_core_model::time::Span;
use proptest::prelude::*;

const HELLO: &str = "
name: hello
pool: /default
kind: batch
instances: 8
max_running: 6
command: echo \"hello from instance $ECHELON_INSTANCE on $ECHELON_CLUSTER\"
resources: {cpus: 0.1, memory: 32MiB}
";

fn said(text: &str) -> String {
    parse(text.as_bytes()).expect_err("a bad file").to_string()
}

#[test]
fn the_smallest_job_file_reads() {
    let spec = parse(HELLO.as_bytes()).unwrap();
    assert_eq!(
        (spec.name.as_str(), spec.pool.as_str(), spec.kind),
        ("hello", "/default", JobKind::Batch)
    );
    let group = spec.groups.first().unwrap();
    assert_eq!((group.instances, group.max_running), (8, Some(6)));
    assert_eq!((group.resources.cpus, group.resources.memory), (100, 32));
    assert!(group.command.contains("$ECHELON_CLUSTER"));
}

#[test]
fn a_file_may_have_groups() {
    let spec = parse(
        b"name: tf\nkind: service\nclusters: {only: [a, b], spread: even}\non_unreachable: wait\non_cluster_loss: replace after 1h\n\
          groups:\n  ps: {command: run-ps, resources: {cpus: 2, memory: 1GiB}}\n  worker: {instances: 4, command: run, resources: {gpus: 1}, \
          constraints: [{attribute: rack, not_in: [r1]}], grace: 1m}\n",
    )
    .unwrap();
    assert_eq!(
        spec.groups
            .iter()
            .map(|g| (g.name.to_string(), g.instances))
            .collect::<Vec<_>>(),
        [("ps".to_owned(), 1), ("worker".to_owned(), 4)]
    );
    assert_eq!(spec.clusters.spread, Spread::Even);
    assert_eq!(
        (spec.on_unreachable, spec.on_cluster_loss),
        (OnSilence::Wait, OnSilence::Replace(Span::minutes(60)))
    );
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        (
            HELLO.replace("max_running", "max_runing"),
            "line 6: unknown field `max_runing`; did you mean `max_running`?",
        ),
        (
            HELLO.replace("memory", "memroy"),
            "line 8: unknown field `memroy`; did you mean `memory`?",
        ),
        (
            HELLO.replace("32MiB", "32MB"),
            "resources.memory: `MB` is not a unit of memory or disk: use KiB, MiB, GiB or TiB",
        ),
        (
            HELLO.replace("32MiB", "32"),
            "resources.memory: `32` has no unit: write for example `32MiB` (KiB, MiB, GiB, TiB)",
        ),
        (
            HELLO.replace("32MiB", "100KiB"),
            "resources.memory: `100KiB` is not a whole number of MiB",
        ),
        (HELLO.replace("0.1", "-1"), "resources.cpus: `-1` is negative"),
        (
            HELLO.replace("0.1", ".nan"),
            "resources.cpus: `.nan` is not a number such as 0.5 or 2 (it takes no unit)",
        ),
        (
            HELLO.replace("0.1", "1e300"),
            "resources.cpus: `1e300` is not a number such as 0.5 or 2 (it takes no unit)",
        ),
        (
            HELLO.replace("0.1", "0.0001"),
            "resources.cpus: `0.0001` is finer than 0.001",
        ),
        (
            HELLO.replace("0.1", "99999999"),
            "resources.cpus: `99999999` is too large",
        ),
        (
            HELLO.replace("instances: 8", "instances: 0"),
            "instances: 0 is not between 1 and 10000000",
        ),
        (
            HELLO.replace("instances: 8", "instances: 10000001"),
            "instances: 10000001 is not between 1 and 10000000",
        ),
        (
            HELLO.replace("instances: 8", "instances: many"),
            "instances: `many` is not a whole number",
        ),
        (
            HELLO.replace("kind: batch", "kind: daemon"),
            "kind: kind `daemon` is not served by this version: use batch or service",
        ),
        (
            "name: x\nresources: {}\n".to_owned(),
            "command: is empty: say what each instance runs",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(said(&text), want, "{text}");
    }
}

#[test]
fn every_wrong_value_is_said_at_once() {
    let all = said("name: x\ninstances: -1\ncommand: ''\nresources: {cpus: a, memory: 1}\n");
    assert_eq!(all.lines().count(), 4, "{all}");
}

#[test]
fn what_is_not_a_job_file_is_refused_at_once() {
    assert!(said("").contains("name: is missing"));
    assert!(matches!(parse(b"name: \xff\xfe"), Err(JobFileError::NotUtf8(6))));
    assert!(matches!(
        parse(&vec![b'a'; 10 << 20]),
        Err(JobFileError::TooLarge)
    ));
    let deep = format!("name: {}", "[".repeat(10_000));
    assert!(matches!(parse(deep.as_bytes()), Err(JobFileError::Syntax { .. })));
    let bomb = "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nname: [*b,*b,*b]\n";
    assert!(parse(bomb.as_bytes()).is_err());
    assert!(
        said("name: a\nname: b\n").contains("uplicate"),
        "{}",
        said("name: a\nname: b\n")
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }
}
