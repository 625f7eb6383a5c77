//! Job files, good and bad, and what is said about them.

mod errors;
mod gang;
mod runtime;
mod schema;
mod write;

use super::*;
use echelon_core_model::Amount;
use echelon_core_model::cluster_choice::Spread;
use echelon_core_model::rules::{Completion, Condition, Restart};
use echelon_core_model::runtime::{Containerizer, Network, PortReference, ProbeKind, Protocol, Visibility};
use echelon_core_model::schedule::{CatchUp, Overlap};
use echelon_core_model::spec::{JobKind, OnSilence, defaults};
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
    assert!(group.runtime.command.contains("$ECHELON_CLUSTER"));
}

#[test]
fn how_jobs_and_instances_end_is_read_as_it_is_documented() {
    let text = format!(
        "{HELLO}{}",
        "
completion: any
max_failed: 5%
max_wait: 30m
max_total: 4h
keep: 7d
after: [{job: fetch}, {job: other, condition: started}]
restart: never
max_start: 10m
retry: {no_retry_exit_codes: [2, 78]}
"
    );
    let spec = parse(text.as_bytes()).unwrap();
    assert_eq!(
        (spec.rules.completion, spec.rules.max_failed),
        (Completion::Successes(1), Some(Amount::Percent(5)))
    );
    assert_eq!(
        (spec.rules.max_wait, spec.rules.max_total),
        (Some(Span::minutes(30)), Some(Span::minutes(240)))
    );
    assert_eq!(spec.rules.keep, Some(Span::minutes(7 * 24 * 60)));
    let after: Vec<_> = spec
        .rules
        .after
        .iter()
        .map(|a| (a.job.as_str(), a.condition))
        .collect();
    assert_eq!(
        after,
        [("fetch", Condition::Succeeded), ("other", Condition::Started)]
    );
    let group = &spec.groups[0];
    assert_eq!(
        (group.restart, group.max_start),
        (Restart::Never, Some(Span::minutes(10)))
    );
    assert_eq!(group.retry.no_retry_exit_codes, [2, 78].into_iter().collect());
}

#[test]
fn a_schedule_is_read_as_it_is_documented() {
    let read = |line: &str| {
        let spec = parse(format!("{HELLO}{line}\n").as_bytes()).unwrap();
        spec.rules.schedule.unwrap()
    };
    let full = read(
        "schedule: {cron: '0 3 * * *', time_zone: Europe/Berlin, overlap: queue, catch_up: all, within: 12h, keep_last: 7}",
    );
    assert_eq!(
        (full.cron.as_str(), full.time_zone.as_str()),
        ("0 3 * * *", "Europe/Berlin")
    );
    assert_eq!((full.overlap, full.catch_up), (Overlap::Queue, CatchUp::All));
    assert_eq!((full.within, full.keep_last), (Span::minutes(720), 7));
    let least = read("schedule: {cron: '*/5 * * * *'}");
    assert_eq!(least.time_zone, "UTC");
    assert_eq!((least.overlap, least.catch_up), (Overlap::Skip, CatchUp::One));
    assert_eq!((least.within, least.keep_last), (Span::minutes(24 * 60), 100));
    for (line, expected) in [
        (
            "schedule: {cron: '0 3 * * *', overlap: never}",
            "schedule.overlap: `never` is not an overlap rule",
        ),
        (
            "schedule: {cron: '0 3 * * *', catch_up: some}",
            "schedule.catch_up: `some` is not a catch-up rule",
        ),
        ("schedule: {time_zone: UTC}", "cron"),
        ("schedule: {cron: '0 3 * * *', timezone: UTC}", "time_zone"),
    ] {
        let told = said(&format!("{HELLO}{line}\n"));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn what_is_wrong_with_an_end_is_told_with_what_would_be_right() {
    for (line, expected) in [
        (
            "completion: most",
            "completion: `most` is neither `all`, `any` nor a number of instances",
        ),
        (
            "max_failed: few",
            "max_failed: `few` is neither a number of instances nor a percentage",
        ),
        (
            "restart: sometimes",
            "restart: `sometimes` is not a restart policy",
        ),
        (
            "after: [{job: a, condition: done}]",
            "after[0].condition: `done` is not a condition",
        ),
        (
            "retry: {no_retry_exit_codes: [256]}",
            "retry.no_retry_exit_codes[0]: `256` is not an exit status",
        ),
    ] {
        let told = said(&format!("{HELLO}{line}\n"));
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_job_is_preemptible_unless_it_says_no() {
    let read = |more: &str| parse(format!("{HELLO}{more}").as_bytes()).unwrap().preemptible;
    assert!(read("") && read("preemptible: true\n") && !read("preemptible: false\n"));
}

#[test]
fn a_job_is_a_controller_when_it_says_so() {
    let read = |more: &str| parse(format!("{HELLO}{more}").as_bytes()).unwrap().controller;
    assert!(!read("") && read("controller: true\n"));
}

#[test]
fn a_job_is_revocable_when_it_says_so() {
    assert!(!parse(HELLO.as_bytes()).unwrap().revocable);
    assert!(
        parse(format!("{HELLO}revocable: true\n").as_bytes())
            .unwrap()
            .revocable
    );
    let wrong = said(&format!("{HELLO}revocable: yes\n"));
    assert!(
        wrong.contains("revocable: `yes` is neither true nor false"),
        "{wrong}"
    );
}

#[test]
fn a_file_may_have_groups() {
    let spec = parse(
        b"name: tf\nkind: service\nclusters: {only: [a, b], spread: even}\non_unreachable: wait\non_gone: replace after 2m\non_cluster_loss: replace after 1h\n\
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
    assert_eq!(spec.on_gone, Some(OnSilence::Replace(Span::minutes(2))));
}

#[test]
fn a_stateful_job_waits_and_has_volumes() {
    let file = "name: db\nkind: stateful\ncommand: run\nresources: {cpus: 1}\nvolume: {path: data, size: 10GiB, reclaim: delete}\n";
    let spec = parse(file.as_bytes()).unwrap();
    assert_eq!(
        (spec.on_unreachable, spec.on_cluster_loss),
        (OnSilence::Wait, OnSilence::Wait)
    );
    let volume = spec.groups[0].volume.clone().unwrap();
    assert_eq!((volume.path.as_str(), volume.size), ("data", 10 * 1024));
    assert_eq!(volume.reclaim.word(), "delete");
    let wrong = parse(file.replace("delete", "burn").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("volume.reclaim: `burn` is not what can become of a volume"),
        "{wrong}"
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
            "line 8: resources.memory: `MB` is not a unit of memory or disk: use KiB, MiB, GiB or TiB",
        ),
        (
            HELLO.replace("32MiB", "32"),
            "line 8: resources.memory: `32` has no unit: write for example `32MiB` (KiB, MiB, GiB, TiB)",
        ),
        (
            HELLO.replace("32MiB", "100KiB"),
            "line 8: resources.memory: `100KiB` is not a whole number of MiB",
        ),
        (
            HELLO.replace("0.1", "-1"),
            "line 8: resources.cpus: `-1` is negative",
        ),
        (
            HELLO.replace("0.1", ".nan"),
            "line 8: resources.cpus: `.nan` is not a number such as 0.5 or 2 (it takes no unit)",
        ),
        (
            HELLO.replace("0.1", "1e300"),
            "line 8: resources.cpus: `1e300` is not a number such as 0.5 or 2 (it takes no unit)",
        ),
        (
            HELLO.replace("0.1", "0.0001"),
            "line 8: resources.cpus: `0.0001` is finer than 0.001",
        ),
        (
            HELLO.replace("0.1", "99999999"),
            "line 8: resources.cpus: `99999999` is too large",
        ),
        (
            HELLO.replace("instances: 8", "instances: 0"),
            "line 5: instances: 0 is not between 1 and 10000000",
        ),
        (
            HELLO.replace("instances: 8", "instances: 10000001"),
            "line 5: instances: 10000001 is not between 1 and 10000000",
        ),
        (
            HELLO.replace("instances: 8", "instances: many"),
            "line 5: instances: `many` is not a whole number",
        ),
        (
            HELLO.replace("kind: batch", "kind: daemon"),
            "line 5: instances: a daemon has one instance on each host that its constraints let: leave it out",
        ),
        (
            "name: x\nresources: {}\n".to_owned(),
            "line 1: command: is empty: say what each instance runs",
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

#[test]
fn what_is_not_named_of_what_pools_have_defaults_for_is_theirs_to_choose() {
    let on_loss = |more: &str| {
        let text = format!("{HELLO}{more}");
        wanted(text.as_bytes()).unwrap().on_cluster_loss
    };
    assert_eq!(on_loss(""), None);
    assert!(on_loss("on_cluster_loss: replace after 15m\n").is_some());
    let read = |text: &str| wanted(text.as_bytes()).unwrap().priority;
    assert_eq!(read(HELLO), None);
    assert_eq!(read(&format!("{HELLO}priority: 0\n")), Some(0));
    assert_eq!(read(&format!("{HELLO}priority: 7\n")), Some(7));
}

#[test]
fn rules_about_hosts_are_read_in_all_their_forms() {
    let rules = "constraints:
  - {attribute: rack, equals: r1}
  - {attribute: ssd, exists: false}
  - {attribute: cores, at_least: 8.5}
  - {attribute: kernel, matches: '5\\..*'}
preferences:
  - {rule: {attribute: zone, not_in: [east]}, weight: -20}
max_per: {hostname: 1, rack: 3}
spread_over: [zone, rack]
affinity: [{labels: {app: db}, topology: rack}]
anti_affinity: [{labels: {app: web}, topology: hostname, weight: 30}]
exclusive: true
strategy: pack
";
    let group = &parse(format!("{HELLO}{rules}").as_bytes()).unwrap().groups[0];
    let shown: Vec<String> = group.constraints.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["rack r1", "no ssd", "cores >= 8.5", "kernel like `5\\..*`"]
    );
    let siting = &group.siting;
    assert_eq!(siting.preferences[0].rule.to_string(), "zone other than east");
    assert_eq!(siting.preferences[0].weight, -20);
    assert_eq!(
        siting.max_per,
        [("hostname".to_owned(), 1), ("rack".to_owned(), 3)].into()
    );
    assert_eq!(siting.spread_over, ["zone", "rack"]);
    assert_eq!(siting.affinity[0].to_string(), "app=db by rack");
    assert_eq!(
        (siting.affinity[0].weight, siting.anti_affinity[0].weight),
        (None, Some(30))
    );
    assert_eq!(
        (siting.exclusive, siting.strategy.as_deref()),
        (true, Some("pack"))
    );
    for (wrong, told) in [
        (
            rules.replace("equals: r1", "equals: r1, in: [r2]"),
            "constraints[0]: needs exactly one of `in`",
        ),
        (
            rules.replace("8.5", "many"),
            "constraints[2].at_least: `many` is not a decimal number",
        ),
        (
            rules.replace("-20", "much"),
            "preferences[0].weight: `much` is not a whole number",
        ),
    ] {
        let message = said(&format!("{HELLO}{wrong}"));
        assert!(message.contains(told), "{message}");
    }
}
