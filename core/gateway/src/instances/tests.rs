use super::*;
use crate::error::Code;
use crate::testing::{Memory, NOW, run};
use echelon_core_model::assignment::{AssignedRange, Assignment, LastHolder};
use echelon_core_model::cluster::MassLoss;
use echelon_core_model::gone::{AgentTimes, Gone, GoneCause};
use echelon_core_model::health::Health;
use echelon_core_model::instance::{Ended, InstanceRecord, Run, SliceRow};
use echelon_core_model::job::{Goal, JobState, Waiting};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::spec::{JobKind, OnSilence};
use echelon_core_model::{
    ClusterId, Generation, HostId, InstanceNumber, InstanceRange, JobId, Reason, ReasonCode, Span, Version,
};
use echelon_core_testkit::build::{JobBuilder, job_id, main_group};
use std::collections::BTreeMap;

mod endpoints;

const JOB: JobId = job_id(7);

/// A job with an assignment and what clusters stored of it.
struct Case {
    store: Memory,
    assignment: Assignment,
}

impl Case {
    fn new(instances: u32) -> Self {
        let mut store = Memory::new();
        let spec = JobBuilder::batch("hello", instances).build();
        let head = Head {
            rollout: None,
            past_rollouts: Vec::new(),
            job: JOB,
            version: Version(1),
            void: false,
            goal: Goal::default(),
            spec_version: 1,
            name: "hello".into(),
            pool: spec.pool.clone(),
            pool_id: None,
            kind: spec.kind,
            owner: String::new(),
            labels: BTreeMap::new(),
            instances: u64::from(instances),
            updated_at: NOW,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: None,
            spec_digest: None,
        };
        store.heads.insert(JOB, head);
        store.specs.insert((JOB, 1), spec);
        for name in ["a", "b"] {
            store.add_cluster(name);
        }
        Self {
            store,
            assignment: Assignment::new(JOB),
        }
    }

    fn held(
        mut self,
        (first, last): (u32, u32),
        cluster: &str,
        generation: u32,
        former: Option<(&str, u32)>,
    ) -> Self {
        let range = AssignedRange {
            range: InstanceRange { first, last },
            cluster: ClusterId::new(cluster),
            generation: Generation(generation),
            former: former.map(|(c, g)| (ClusterId::new(c), Generation(g))),
            releasing: None,
        };
        self.assignment.groups.get_or_default(main_group()).push(range);
        self
    }

    fn record(mut self, cluster: &str, n: u32, record: InstanceRecord) -> Self {
        let place = (ClusterId::new(cluster), JOB, main_group());
        self.store
            .blocks
            .entry(place)
            .or_default()
            .insert(InstanceNumber(n), record);
        self
    }

    fn list(&mut self, filter: InstanceFilter, size: i32, token: Option<String>) -> InstancePage {
        self.store.assignments.insert(JOB, self.assignment.clone());
        let page = PageRequest {
            size,
            token: token.unwrap_or_default(),
        };
        run(&mut self.store, move |facts| async move {
            list_instances(&facts, &JobRef::Id(JOB), filter, page, NOW).await
        })
        .unwrap()
    }

    /// Numbers with states and clusters: `0 running a`.
    fn shown(&mut self) -> Vec<String> {
        let show = |v: &InstanceView| {
            let state = v.state.map_or("unknown".into(), |s| s.to_string());
            let cluster = v.cluster.as_ref().map_or("-", |c| c.name.as_str());
            format!("{} {state} {cluster}", v.number)
        };
        self.list(InstanceFilter::default(), 1000, None)
            .page
            .items
            .iter()
            .map(show)
            .collect()
    }
}

fn in_state(state: RunState, generation: u32) -> InstanceRecord {
    InstanceRecord {
        generation: Generation(generation),
        run: Some(Run {
            generation: Generation(generation),
            ..Run::first(state, HostId::new("h"), "host", NOW)
        }),
        ..InstanceRecord::default()
    }
}

#[test]
fn the_holder_speaks_for_its_instances() {
    let mut case = Case::new(4)
        .held((0, 1), "a", 1, None)
        .held((2, 2), "b", 1, None)
        .record("a", 0, in_state(RunState::Running, 1))
        .record("b", 2, in_state(RunState::Succeeded, 1))
        // What a cluster stored of numbers that it does not hold says nothing.
        .record("b", 0, in_state(RunState::Failed, 1));
    case.store
        .blocks
        .get_mut(&(ClusterId::new("b"), JOB, main_group()))
        .unwrap()
        .get_mut(&InstanceNumber(2))
        .unwrap()
        .ended = Some(Ended::Succeeded);
    assert_eq!(
        case.shown(),
        ["0 running a", "1 pending a", "2 succeeded b", "3 pending -"]
    );
}

#[test]
fn a_former_holder_speaks_until_the_new_one_has_taken_over() {
    let mut case =
        Case::new(1)
            .held((0, 0), "b", 2, Some(("a", 1)))
            .record("a", 0, in_state(RunState::Running, 1));
    assert_eq!(case.shown(), ["0 running b"]);
    let mut row = SliceRow::new(JOB, main_group());
    let zero = || InstanceRange { first: 0, last: 0 };
    row.taken_over
        .insert(Generation(1), [zero()].into_iter().collect());
    let place = (ClusterId::new("b"), JOB, main_group());
    case.store.rows.insert(place.clone(), row.clone());
    assert_eq!(
        case.shown(),
        ["0 running b"],
        "an older generation's taking over says nothing"
    );
    row.taken_over
        .insert(Generation(2), [zero()].into_iter().collect());
    case.store.rows.insert(place, row);
    assert_eq!(
        case.shown(),
        ["0 pending b"],
        "taken over, and nothing was worth keeping"
    );
    let mut case = case.record("b", 0, in_state(RunState::Starting, 2));
    assert_eq!(case.shown(), ["0 starting b"]);
}

#[test]
fn what_cannot_be_read_is_unknown_and_said() {
    let mut case = Case::new(3)
        .held((0, 0), "a", 1, None)
        .held((1, 2), "b", 1, None)
        .record("a", 0, in_state(RunState::Running, 1));
    case.store.broken.insert(ClusterId::new("b"));
    assert_eq!(case.shown(), ["0 running a", "1 unknown b", "2 unknown b"]);
    let seen = case.list(InstanceFilter::default(), 10, None);
    let unseen: Vec<_> = seen
        .parts
        .iter()
        .map(|p| (p.name.as_str(), p.unseen.as_deref()))
        .collect();
    assert_eq!(unseen, [("a", None), ("b", Some("main 1-2"))]);
    let running = InstanceFilter {
        states: [RunState::Running].into(),
        ..InstanceFilter::default()
    };
    assert_eq!(
        case.list(running, 10, None).page.items.len(),
        3,
        "unknown may be running"
    );
}

#[test]
fn silence_is_shown_with_its_age() {
    let mut case = Case::new(1).held((0, 0), "a", 1, None);
    let a = ClusterId::new("a");
    for (health, ago, stale) in [
        (Health::Healthy, Span::seconds(3), false),
        (Health::Healthy, Span::seconds(60), true),
        (Health::Degraded, Span::seconds(3), false),
        (Health::WithoutMesos, Span::seconds(3), true),
        (Health::CutOff, Span::seconds(3), true),
    ] {
        case.store.health(&a, health, Timestamp(NOW.0 - ago.0));
        let seen = case.list(InstanceFilter::default(), 10, None);
        let part = seen.page.items[0].cluster.as_ref().unwrap();
        assert_eq!((part.is_stale(), part.age), (stale, Some(ago)), "{health}");
        let silent = health.is_silence();
        assert_eq!(
            seen.page.items[0].reason.code == ReasonCode::ClusterUnhealthy,
            silent
        );
    }
}

#[test]
fn what_waits_has_the_indexes_that_are_assigned_next() {
    let mut case = Case::new(4);
    let spec = case.store.specs.get_mut(&(JOB, 1)).unwrap();
    let ended = std::iter::once(InstanceNumber(1)).collect();
    spec.rules.withdrawn.insert(main_group(), ended);
    let mut case = case.held((0, 0), "a", 1, None);
    let listed = case.list(InstanceFilter::default(), 10, None).page.items;
    let numbers: Vec<u32> = listed.iter().map(|v| v.number.0).collect();
    assert_eq!(numbers, [0, 2, 3, 4]);
}

#[test]
fn an_index_that_its_cluster_has_released_keeps_its_runs() {
    let case = Case::new(2).record("a", 1, in_state(RunState::Failed, 1));
    let mut case = case.held((0, 0), "a", 1, None);
    let holder = LastHolder {
        generation: Generation(1),
        cluster: Some(ClusterId::new("a")),
    };
    let released = std::iter::once(InstanceNumber(1)).collect();
    let sets = std::iter::once((holder, released)).collect();
    case.assignment.released.insert(main_group(), sets);
    let listed = case.list(InstanceFilter::default(), 10, None).page.items;
    let runs = |v: &InstanceView| v.record.as_ref().and_then(|r| r.run.as_ref()).is_some();
    assert_eq!(listed.iter().map(runs).collect::<Vec<_>>(), [false, true]);
    assert_eq!(listed[1].cluster, None);
}

#[test]
fn what_is_assigned_to_no_cluster_says_that_no_resource_manager_is_heard() {
    let mut case = Case::new(1);
    let clusters = ["a", "b"].map(ClusterId::new);
    for cluster in &clusters {
        case.store.health(cluster, Health::Healthy, NOW);
        case.store.heartbeats.get_mut(cluster).unwrap().no_manager_since = Some(NOW);
    }
    let reason = |case: &mut Case| {
        let seen = case.list(InstanceFilter::default(), 1, None);
        (seen.page.items[0].reason.code, seen.page.items[0].since)
    };
    assert_eq!(reason(&mut case), (ReasonCode::NoResourceManager, Some(NOW)));
    case.store
        .heartbeats
        .get_mut(&clusters[0])
        .unwrap()
        .no_manager_since = None;
    assert_eq!(
        reason(&mut case).0,
        ReasonCode::Accepted,
        "one cluster's shard hears one"
    );
}

#[test]
fn every_pending_instance_has_its_reason() {
    let reason = |case: &mut Case| {
        case.list(InstanceFilter::default(), 1, None).page.items[0]
            .reason
            .code
    };
    let mut case = Case::new(1);
    assert_eq!(reason(&mut case), ReasonCode::Accepted);
    case.store.ended(JOB, JobState::Waiting);
    let told = |cluster: Option<&str>, code| Waiting {
        group: main_group(),
        cluster: cluster.map(ClusterId::new),
        reason: Reason::new(code),
        count: 1,
        since: NOW,
    };
    let progress = case.store.progress.get_mut(&JOB).unwrap();
    progress.waiting = vec![
        told(None, ReasonCode::PoolLimit),
        told(Some("a"), ReasonCode::HostResources),
    ];
    assert_eq!(reason(&mut case), ReasonCode::PoolLimit);
    let mut case = case.held((0, 0), "a", 1, None);
    assert_eq!(reason(&mut case), ReasonCode::HostResources);
    case.store.progress.get_mut(&JOB).unwrap().waiting.clear();
    assert_eq!(reason(&mut case), ReasonCode::AwaitingGrant);
    let a = ClusterId::new("a");
    case.store.health(&a, Health::Healthy, NOW);
    case.store.heartbeats.get_mut(&a).unwrap().no_manager_since = Some(NOW);
    assert_eq!(reason(&mut case), ReasonCode::NoResourceManager);
    case.store.heartbeats.get_mut(&a).unwrap().no_manager_since = None;
    let backing_off = InstanceRecord {
        not_before: NOW.plus(Span::seconds(5)),
        ..in_state(RunState::Failed, 1)
    };
    let mut case = case.record("a", 0, backing_off);
    assert_eq!(reason(&mut case), ReasonCode::Backoff);
    let mut by_platform = InstanceRecord {
        platform_failures: 2,
        not_before: NOW.plus(Span::seconds(5)),
        ..in_state(RunState::Failed, 1)
    };
    by_platform.run.as_mut().unwrap().fault = Some(PlatformCause::Agent);
    let mut case = case.record("a", 0, by_platform);
    let shown = case.list(InstanceFilter::default(), 1, None).page.items.remove(0);
    assert_eq!(shown.reason.code, ReasonCode::PlatformRetry);
    let words = shown.reason.to_string();
    assert!(words.contains("2 in a row, the last failed on host "), "{words}");
    assert!(words.ends_with("next try in 5s)"), "{words}");
    let again = InstanceRecord {
        attempts: 3,
        not_before: NOW.plus(Span::seconds(5)),
        ..in_state(RunState::Failed, 1)
    };
    let mut case = case.record("a", 0, again.clone());
    assert_eq!(
        reason(&mut case),
        ReasonCode::Backoff,
        "a batch instance has so many tries"
    );
    case.store.heads.get_mut(&JOB).unwrap().kind = JobKind::Service;
    assert_eq!(reason(&mut case), ReasonCode::CrashLooping);
    let shown = case.list(InstanceFilter::default(), 1, None).page.items.remove(0);
    let words = shown.reason.to_string();
    assert!(shown.crash_loops && words.ends_with("next try in 5s)"), "{words}");
    let runs = InstanceRecord {
        attempts: 3,
        ..in_state(RunState::Running, 1)
    };
    let mut case = case.record("a", 0, runs);
    assert_eq!(
        reason(&mut case),
        ReasonCode::CrashLooping,
        "it has not run well for long enough"
    );
    let mut case = case.record("a", 0, again);
    case.store.ended(JOB, JobState::Stopped);
    let mut case = case.record("a", 0, InstanceRecord::default());
    assert_eq!(reason(&mut case), ReasonCode::StopRequested);
    assert!(case.list(InstanceFilter::default(), 1, None).page.items[0].ended);
}

#[test]
fn pages_cover_all_instances_once() {
    let mut case = Case::new(2500)
        .held((0, 999), "a", 1, None)
        .held((1000, 1999), "b", 1, None)
        .record("b", 1500, in_state(RunState::Failed, 1));
    for size in [1, 7, 999, 1000] {
        let (mut numbers, mut token) = (Vec::new(), None);
        loop {
            let found = case.list(InstanceFilter::default(), size, token).page;
            assert!(found.items.len() <= usize::try_from(size).unwrap());
            numbers.extend(found.items.iter().map(|i| i.number.0));
            token = found.next;
            if token.is_none() || (size == 1 && numbers.len() > 50) {
                break;
            }
        }
        let all = if size == 1 { 51 } else { 2500 };
        assert_eq!(numbers, (0..all).collect::<Vec<u32>>(), "{size}");
    }
    let on_b = InstanceFilter {
        cluster: "b".into(),
        ..InstanceFilter::default()
    };
    assert_eq!(case.list(on_b, 1000, None).page.items.len(), 1000);
}

#[test]
fn a_window_of_ten_million_ends_and_goes_on() {
    let mut case = Case::new(10_000_000).held((0, 9_999_999), "a", 1, None);
    let failed = || InstanceFilter {
        states: [RunState::Failed].into(),
        ..InstanceFilter::default()
    };
    let first = case.list(failed(), 10, None).page;
    assert!(first.items.is_empty() && first.next.is_some());
    let mut case = case.record("a", 20_000, in_state(RunState::Failed, 1));
    case.store
        .blocks
        .get_mut(&(ClusterId::new("a"), JOB, main_group()))
        .unwrap()
        .get_mut(&InstanceNumber(20_000))
        .unwrap()
        .ended = Some(Ended::Failed);
    let second = case.list(failed(), 10, first.next).page;
    assert_eq!(second.items[0].number.0, 20_000);
}

#[test]
fn one_instance_is_found_or_is_not() {
    let mut case = Case::new(2).held((0, 1), "a", 1, None);
    case.store.assignments.insert(JOB, case.assignment.clone());
    let mut get = |group: &str, n: u32| {
        let group = GroupName::new(group);
        run(&mut case.store, move |facts| async move {
            get_instance(&facts, &JobRef::Id(JOB), &group, InstanceNumber(n), NOW).await
        })
        .map(|seen| seen.instance.number.0)
        .map_err(|e| e.code())
    };
    assert_eq!(get("main", 1), Ok(1));
    assert_eq!(get("main", 2), Err(Code::NotFound));
    assert_eq!(get("other", 0), Err(Code::NotFound));
}

/// What is said of an instance whose host has been silent since a leader had observed ten minutes.
fn outlook(change: impl FnOnce(&mut Memory, &ClusterId)) -> String {
    outlook_of(None, change)
}

/// The same where its agent is known to be gone, for that cause since eleven minutes were observed.
fn outlook_of(gone: Option<GoneCause>, change: impl FnOnce(&mut Memory, &ClusterId)) -> String {
    let mut record = in_state(RunState::Unreachable, 1);
    let run = record.run.as_mut().unwrap();
    run.reason = ReasonCode::HostUnreachable.into();
    run.observed_at = Span::minutes(10);
    run.gone = gone.map(|cause| {
        Box::new(Gone {
            cause,
            observed_at: Span::minutes(11),
            times: AgentTimes::UNKNOWN,
        })
    });
    let mut case = Case::new(1).held((0, 0), "a", 1, None).record("a", 0, record);
    let a = ClusterId::new("a");
    case.store.health(&a, Health::Healthy, NOW);
    case.store.shards.entry(a.clone()).or_default().observed = Span::minutes(12);
    let spec = case.store.specs.get_mut(&(JOB, 1)).unwrap();
    spec.on_unreachable = OnSilence::Replace(Span::minutes(5));
    change(&mut case.store, &a);
    let seen = case.list(InstanceFilter::default(), 10, None);
    seen.page.items[0].reason.to_string()
}

#[test]
fn of_a_silent_instance_it_is_said_when_it_is_replaced_and_why_not_before() {
    let told = outlook(|_, _| ());
    assert!(told.contains("replaced in 3m if its host stays silent"), "{told}");
    let over = outlook(|store, a| store.shards.get_mut(a).unwrap().observed = Span::minutes(16));
    assert!(over.contains("as soon as its turn comes"), "{over}");
    let waits = outlook(|store, _| {
        store.specs.get_mut(&(JOB, 1)).unwrap().on_unreachable = OnSilence::Wait;
    });
    assert!(waits.contains("`echelon host forget a/h`"), "{waits}");
    let away = outlook(|store, a| store.heartbeats.get_mut(a).unwrap().trouble = Some("cut".to_owned()));
    assert!(away.contains("has been heard for 3m more"), "{away}");
    let lost = outlook(|store, a| {
        store.heartbeats.get_mut(a).unwrap().loss = Some(MassLoss {
            number: 1,
            since: NOW,
            running: 10,
            lost: 10,
            missing: 10,
        });
    });
    assert!(lost.contains("`echelon cluster accept-loss a`"), "{lost}");
}

#[test]
fn of_an_instance_whose_agent_is_gone_it_is_said_when_it_is_replaced() {
    let spec = |store: &mut Memory, on_unreachable| {
        store.specs.get_mut(&(JOB, 1)).unwrap().on_unreachable = on_unreachable;
    };
    let marked = outlook_of(Some(GoneCause::Operator), |store, a| {
        spec(store, OnSilence::Wait);
        store.shards.get_mut(a).unwrap().observed = Span::seconds(11 * 60 + 5);
    });
    assert!(
        marked.contains("an operator has marked its agent as gone"),
        "{marked}"
    );
    assert!(marked.contains("replaced in 10s, as `on_gone` says"), "{marked}");
    let over = outlook_of(Some(GoneCause::Operator), |_, _| ());
    assert!(over.contains("replaced as soon as its turn comes"), "{over}");
    let replaced = outlook_of(Some(GoneCause::Replaced), |store, _| spec(store, OnSilence::Wait));
    assert!(
        replaced.contains("a new agent is registered at its host's address; replaced in 855s"),
        "{replaced}"
    );
    let sooner = outlook_of(Some(GoneCause::Replaced), |_, _| ());
    assert!(sooner.contains("`on_unreachable` waits for 5m"), "{sooner}");
    let waits = outlook_of(Some(GoneCause::Replaced), |store, _| {
        spec(store, OnSilence::Wait);
        store.specs.get_mut(&(JOB, 1)).unwrap().on_gone = Some(OnSilence::Wait);
    });
    assert!(waits.contains("`echelon host forget a/h`"), "{waits}");
    let away = outlook_of(Some(GoneCause::Replaced), |store, a| {
        spec(store, OnSilence::Wait);
        store.heartbeats.get_mut(a).unwrap().trouble = Some("cut".to_owned());
    });
    assert!(away.contains("has been heard for 855s more"), "{away}");
}
