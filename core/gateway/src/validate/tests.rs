use super::*;
use echelon_core_model::Amount;
use echelon_core_model::Span;
use echelon_core_model::gang::{Gang, OnMemberFailure};
use echelon_core_model::pool::{Pool, PoolTree};
use echelon_core_model::resources::Resources;
use echelon_core_model::rules::{After, Completion, Condition, Restart};
use echelon_core_model::spec::{GroupSpec, JobKind, MAX_INSTANCES, MAX_SPEC_BYTES, OnSilence};
use echelon_core_model::{GroupName, PoolId, Version};
use echelon_core_testkit::build::JobBuilder;

fn fields(s: &JobSpec, bytes: usize, purpose: Purpose) -> Vec<String> {
    let mut out = Violations::default();
    spec(s, bytes, purpose, "spec", &mut out);
    out.kept.into_iter().map(|v| v.field).collect()
}

/// Checks that one change makes exactly this field wrong.
fn check(change: impl FnOnce(&mut JobSpec), field: &str) {
    let mut s = JobBuilder::batch("hello", 8).build();
    change(&mut s);
    assert_eq!(fields(&s, 100, Purpose::Create), [field], "{s:?}");
}

#[test]
fn a_plain_job_is_fine() {
    let s = JobBuilder::batch("hello", MAX_INSTANCES).build();
    assert!(fields(&s, MAX_SPEC_BYTES, Purpose::Create).is_empty());
    assert_eq!(fields(&s, MAX_SPEC_BYTES + 1, Purpose::Create), ["spec"]);
}

#[test]
fn what_keeps_data_is_not_begun_elsewhere_when_its_agent_is_gone() {
    let mut s = JobBuilder::stateful("db", 1, 64).build();
    for on_gone in [None, Some(OnSilence::Wait)] {
        s.on_gone = on_gone;
        assert_eq!(fields(&s, 100, Purpose::Create), [""; 0]);
    }
    s.on_gone = Some(OnSilence::Replace(Span::minutes(1)));
    assert_eq!(fields(&s, 100, Purpose::Create), ["spec.on_gone"]);
}

#[test]
fn a_job_has_no_more_in_all_than_sums_are_exact_for() {
    // 1,100,000 instances of a million cores.
    let large = |s: &mut JobSpec| {
        s.groups[0].instances = 1_100_000;
        s.groups[0].resources.cpus = 1_000_000_000;
    };
    check(large, "spec.groups");
    let mut s = JobBuilder::batch("hello", 8).build();
    large(&mut s);
    s.groups[0].max_running = Some(1_000);
    assert_eq!(fields(&s, 100, Purpose::Create), [""; 0], "fewer at once");
    let two = |s: &mut JobSpec| {
        s.groups[0].instances = MAX_INSTANCES;
        let other = GroupName::new("other");
        s.groups.push(GroupSpec {
            name: other,
            ..s.groups[0].clone()
        });
    };
    check(two, "spec.groups");
    // A change of the number of instances is held to the same.
    large(&mut s);
    s.groups[0].max_running = None;
    let mut out = Violations::default();
    instances(&s, &s.groups[0].name, "instances", &mut out);
    assert_eq!(
        out.kept.into_iter().map(|v| v.field).collect::<Vec<_>>(),
        ["instances"]
    );
}

#[test]
fn each_rule_of_a_job_names_its_field() {
    check(|s| s.name.clear(), "spec.name");
    check(|s| s.name = "Hello".into(), "spec.name");
    check(|s| s.name = "0".repeat(26), "spec.name");
    check(|s| s.pool = "default".into(), "spec.pool");
    check(|s| s.owner = "a\nb".into(), "spec.owner");
    check(
        |s| drop(s.labels.insert("a b".into(), String::new())),
        "spec.labels[a b]",
    );
    check(
        |s| drop(s.labels.insert("a".into(), "\u{7}".into())),
        "spec.labels[a]",
    );
    check(
        |s| s.clusters.only = vec!["a".into(), "a".into()],
        "spec.clusters.only",
    );
    check(|s| s.clusters.only = vec![String::new()], "spec.clusters.only");
    check(
        |s| s.on_unreachable = OnSilence::Replace(Span::ZERO),
        "spec.on_unreachable.replace_after",
    );
    check(
        |s| s.on_gone = Some(OnSilence::Replace(Span::millis(999))),
        "spec.on_gone.replace_after",
    );
    check(
        |s| s.on_gone = Some(OnSilence::Replace(Span::minutes(366 * 24 * 60))),
        "spec.on_gone.replace_after",
    );
    check(
        |s| s.on_cluster_loss = OnSilence::Replace(Span::millis(119_999)),
        "spec.on_cluster_loss.replace_after",
    );
    check(
        |s| s.on_cluster_loss = OnSilence::Replace(Span::minutes(366 * 24 * 60)),
        "spec.on_cluster_loss.replace_after",
    );
    check(
        |s| {
            s.revocable = true;
            s.preemptible = false;
        },
        "spec.preemptible",
    );
}

#[test]
fn each_rule_of_a_gang_names_its_field() {
    let with = |change: fn(&mut Gang)| {
        move |s: &mut JobSpec| {
            let mut gang = Gang::new(Span::minutes(5));
            change(&mut gang);
            s.gang = Some(gang);
        }
    };
    check(with(|g| g.start_within = Span::ZERO), "spec.gang.start_within");
    check(
        with(|g| g.topology.levels = vec!["rack".to_owned(), String::new()]),
        "spec.gang.topology[1]",
    );
    check(
        with(|g| g.topology.levels = vec!["rack".to_owned(), "rack".to_owned()]),
        "spec.gang.topology[1]",
    );
    check(
        with(|g| g.topology.levels = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec()),
        "spec.gang.topology",
    );
    check(
        with(|g| g.topology.required = true),
        "spec.gang.topology_required",
    );
    for on_failure in [OnMemberFailure::Gang, OnMemberFailure::Job] {
        let budget = |s: &mut JobSpec| {
            s.rules.max_failed = Some(Amount::Count(1));
            s.gang = Some(Gang {
                on_failure,
                ..Gang::new(Span::minutes(5))
            });
        };
        check(budget, "spec.max_failed");
    }
}

#[test]
fn each_rule_of_a_group_names_its_field() {
    check(|s| s.groups.clear(), "spec.groups");
    check(|s| s.groups.push(s.groups[0].clone()), "spec.groups[1].name");
    check(|s| s.groups[0].name = GroupName::new("-a"), "spec.groups[0].name");
    check(|s| s.groups[0].instances = 0, "spec.groups[0].instances");
    check(
        |s| s.groups[0].instances = MAX_INSTANCES + 1,
        "spec.groups[0].instances",
    );
    check(
        |s| s.groups[0].max_running = Some(0),
        "spec.groups[0].max_running",
    );
    check(
        |s| s.groups[0].runtime.command = " \n".into(),
        "spec.groups[0].command",
    );
    check(
        |s| s.groups[0].runtime.command = "a\0".into(),
        "spec.groups[0].command",
    );
    check(
        |s| s.groups[0].runtime.command = "x".repeat(65_537),
        "spec.groups[0].command",
    );
    check(
        |s| {
            drop(
                s.groups[0]
                    .runtime
                    .env
                    .insert("ECHELON_JOB".into(), String::new()),
            )
        },
        "spec.groups[0].env[ECHELON_JOB]",
    );
    check(
        |s| s.groups[0].resources.cpus = 0,
        "spec.groups[0].resources.cpus_milli",
    );
    check(
        |s| s.groups[0].resources.memory = 1 << 31,
        "spec.groups[0].resources.memory_mib",
    );
    check(
        |s| s.groups[0].resources.gpus = 500,
        "spec.groups[0].resources.gpus_milli",
    );
    check(
        |s| {
            s.revocable = true;
            s.groups[0].resources.gpus = 1000;
        },
        "spec.groups[0].resources.gpus_milli",
    );
    check(|s| s.groups[0].retry.limit = 0, "spec.groups[0].retry.limit");
    check(
        |s| s.groups[0].platform_retry = 0,
        "spec.groups[0].platform_retry",
    );
    check(
        |s| s.groups[0].platform_retry = 65_536,
        "spec.groups[0].platform_retry",
    );
    check(
        |s| s.groups[0].retry.backoff = Span::minutes(6),
        "spec.groups[0].retry.backoff",
    );
    check(
        |s| s.groups[0].retry.max_backoff = Span::minutes(25 * 60),
        "spec.groups[0].retry.max_backoff",
    );
    check(
        |s| s.groups[0].grace = Span::minutes(25 * 60),
        "spec.groups[0].grace",
    );
    check(
        |s| s.groups[0].max_run = Some(Span::ZERO),
        "spec.groups[0].max_run",
    );
}

#[test]
fn each_rule_of_how_jobs_and_instances_end_names_its_field() {
    check(
        |s| s.rules.completion = Completion::Successes(0),
        "spec.completion",
    );
    check(
        |s| s.rules.completion = Completion::Successes(9),
        "spec.completion",
    );
    check(
        |s| s.rules.max_failed = Some(Amount::Percent(101)),
        "spec.max_failed.percent",
    );
    check(|s| s.rules.max_wait = Some(Span::ZERO), "spec.max_wait");
    check(|s| s.rules.max_total = Some(Span::millis(1)), "spec.max_total");
    check(|s| s.rules.keep = Some(Span::ZERO), "spec.keep");
    check(|s| s.groups[0].restart = Restart::Always, "spec.groups");
    check(
        |s| s.groups[0].max_start = Some(Span::ZERO),
        "spec.groups[0].max_start",
    );
    let twice = After {
        job: "a".to_owned(),
        id: None,
        condition: Condition::Started,
    };
    check(|s| s.rules.after = vec![twice.clone(), twice], "spec.after");
    let codes = "spec.groups[0].retry.no_retry_exit_codes";
    check(
        |s| {
            s.groups[0].restart = Restart::Never;
            s.groups[0].retry.no_retry_exit_codes.insert(2);
        },
        codes,
    );
    let mut service = JobBuilder::service("web", 8).restart(Restart::Never).build();
    service.rules.completion = Completion::Successes(1);
    service.rules.max_failed = Some(Amount::Count(1));
    service.rules.max_total = Some(Span::minutes(1));
    service.groups[0].retry.no_retry_exit_codes.insert(1);
    let wrong = fields(&service, 100, Purpose::Create);
    let expected = [
        "spec.completion",
        "spec.max_failed",
        "spec.max_total",
        "spec.groups[0].restart",
        codes,
    ];
    assert!(expected.iter().all(|f| wrong.iter().any(|w| w == f)), "{wrong:?}");
}

#[path = "entrypoint_tests.rs"]
mod entrypoint;
#[path = "pod_tests.rs"]
mod pod;
#[path = "runtime_tests.rs"]
mod runtime;
#[path = "siting_tests.rs"]
mod siting;

#[test]
fn none_may_be_down_where_others_come_first() {
    let mut s = JobBuilder::service("web", 8).build();
    s.groups[0].max_unavailable = Amount::Count(0);
    s.update.max_surge = Amount::Percent(25);
    assert!(fields(&s, 1, Purpose::Create).is_empty());
    for wrong in [Amount::Count(0), Amount::Percent(0), Amount::Percent(101)] {
        check(
            |s| s.groups[0].max_unavailable = wrong,
            "spec.groups[0].max_unavailable",
        );
    }
}

#[test]
fn only_a_service_may_be_scaled_to_nothing() {
    for (kind, purpose, wrong) in [
        (JobKind::Batch, Purpose::Create, 1),
        (JobKind::Batch, Purpose::Change, 1),
        (JobKind::Service, Purpose::Create, 1),
        (JobKind::Service, Purpose::Change, 0),
    ] {
        let mut s = JobBuilder::batch("hello", 0).build();
        s.kind = kind;
        assert_eq!(fields(&s, 1, purpose).len(), wrong, "{kind} {purpose:?}");
    }
}

fn pool(path: &str, reserved: u64, limit: u64) -> Pool {
    let cpus = |cpus| Resources {
        cpus,
        ..Resources::ZERO
    };
    Pool {
        reservation: cpus(reserved),
        limit: cpus(limit),
        ..Pool::new(PoolId::new(path), path)
    }
}

fn tree(pools: &[Pool]) -> PoolTree {
    PoolTree {
        version: Version(1),
        pools: pools.iter().map(|p| (p.path.clone(), p.clone())).collect(),
    }
}

#[test]
fn jobs_go_into_pools_that_exist_and_have_none_below() {
    let tree = tree(&[pool("/a", 0, 0), pool("/a/b", 0, 0)]);
    let wrong = |path: &str| {
        let mut out = Violations::default();
        in_pools(path, &tree, "spec", &mut out);
        out.kept
            .into_iter()
            .map(|v| v.problem)
            .collect::<Vec<_>>()
            .join("")
    };
    assert_eq!(wrong("/a/b"), "");
    assert!(wrong("/a").contains("/a/b"));
    assert!(wrong("/c").contains("echelon pool create /c"));
}

#[test]
fn a_problem_that_a_change_of_one_pool_brings_is_told_at_its_field() {
    let before = tree(&[pool("/a", 10, 100), pool("/a/b", 6, 100), pool("/a/c", 4, 100)]);
    for (changed, told) in [
        (pool("/a/b", 6, 100), None),
        (
            pool("/a/b", 7, 100),
            Some("the pools below `/a` reserve cpus 0.011 together, above its own reservation of 0.01"),
        ),
        (
            pool("/x", 101, 100),
            Some("pool `/x` reserves cpus 0.101, above its limit of 0.1"),
        ),
        (pool("/x", 1000, u64::MAX), None),
    ] {
        let mut after = before.clone();
        after.pools.insert(changed.path.clone(), changed);
        let mut out = Violations::default();
        pool::check(&before, &after, &mut out);
        let found: Vec<_> = out
            .kept
            .iter()
            .map(|v| (v.field.as_str(), v.problem.as_str()))
            .collect();
        let expected = told.map(|text| ("pool.reservation.cpus_milli", text));
        assert_eq!(found, Vec::from_iter(expected));
    }
}
