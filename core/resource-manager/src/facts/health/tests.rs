use super::*;
use crate::event::LinkId;
use crate::facts::starts::compare_starts;
use echelon_core_model::Epoch;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::directive::Capacity;
use echelon_core_model::health::{AgentCounts, NewWork};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::starts::{GroupStarts, HostHash, StartCounts, StartGroup};

const NOW: Timestamp = Timestamp(1_000_000);

fn config() -> Config {
    Config::new("t", 1)
}

fn ago(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 - seconds * 1_000)
}

/// What the shard of a healthy cluster observes.
fn well() -> ShardSigns {
    ShardSigns {
        subscribed: true,
        subscription_age: Span::minutes(60),
        event_age: Some(Span::seconds(1)),
        answer_age: Some(Span::seconds(1)),
        agents: Some(AgentCounts {
            active: 40,
            unreachable: 0,
        }),
        ..ShardSigns::default()
    }
}

/// A cluster whose stream spoke so many seconds ago.
fn heard(seconds: u64, signs: ShardSigns) -> ClusterView {
    ClusterView {
        capacity: Some(Capacity::default()),
        link: Some(LinkId(1)),
        heard_at: Some(ago(seconds)),
        signs: Some((signs, ago(seconds))),
        ..ClusterView::default()
    }
}

/// The same with a heartbeat that changed so many seconds ago.
fn beating(of: ClusterView, seconds: u64, signs: ShardSigns) -> ClusterView {
    let beat = Heartbeat {
        cluster: ClusterId::new("a"),
        epoch: Epoch(1),
        // Its writer's clock is hours behind.
        at: Timestamp(7),
        signs,
        address: String::new(),
        trouble: None,
        loss: None,
        no_manager_since: None,
    };
    ClusterView {
        heartbeat: Some((beat, ago(seconds))),
        ..of
    }
}

fn shown(view: &ClusterView) -> HealthEvidence {
    evidence(view, &config(), ago(600), NOW)
}

fn agents(active: u32, unreachable: u32) -> ShardSigns {
    ShardSigns {
        agents: Some(AgentCounts { active, unreachable }),
        ..well()
    }
}

fn unsubscribed(seconds: u64) -> ShardSigns {
    ShardSigns {
        subscribed: false,
        subscription_age: Span::seconds(seconds),
        ..well()
    }
}

fn hung(unanswered: u32, seconds: u64) -> ShardSigns {
    ShardSigns {
        unanswered,
        event_age: Some(Span::seconds(seconds)),
        answer_age: Some(Span::seconds(seconds)),
        ..well()
    }
}

#[test]
fn each_health_has_its_evidence() {
    use Health::{CutOff, Degraded, WithoutAgents, WithoutMesos};
    use HealthCause as Cause;
    let bad = |health, cause| HealthEvidence::Bad(health, vec![cause]);
    let good = |causes: &[Cause]| HealthEvidence::Good(causes.to_vec());
    let unreachable = |unreachable, of| Cause::AgentsUnreachable { unreachable, of };
    let frozen = ShardSigns {
        frozen: true,
        ..well()
    };
    let slow = ShardSigns {
        commit_age: Span::seconds(2),
        ..well()
    };
    let unlisted = ShardSigns {
        agents: None,
        ..well()
    };
    for (case, signs, expected) in [
        ("all is well", well(), good(&[])),
        ("agents are not listed yet", unlisted, good(&[])),
        (
            "the subscription broke off just now",
            unsubscribed(3),
            bad(Degraded, Cause::MesosFailover),
        ),
        (
            "not subscribed",
            unsubscribed(8),
            bad(WithoutMesos, Cause::NotSubscribed),
        ),
        (
            "the master hangs",
            hung(2, 9),
            bad(WithoutMesos, Cause::MesosHung),
        ),
        ("one question is not answered", hung(1, 9), good(&[])),
        ("no answers, but events", hung(5, 6), good(&[])),
        ("no agent", agents(0, 0), bad(WithoutAgents, Cause::NoAgents)),
        ("all are away", agents(0, 9), bad(WithoutAgents, Cause::NoAgents)),
        ("one agent of ten is away", agents(9, 1), good(&[])),
        ("two of forty are away", agents(38, 2), good(&[])),
        ("three of forty", agents(37, 3), good(&[unreachable(3, 40)])),
        ("a frozen shard", frozen, bad(Degraded, Cause::ShardFrozen)),
        ("slow storage", slow, good(&[Cause::StorageSlow])),
    ] {
        assert_eq!(shown(&heard(1, signs)), expected, "{case}");
    }
    let silent = heard(9, well());
    assert_eq!(shown(&silent), bad(CutOff, Cause::ShardSilent));
    assert_eq!(
        shown(&beating(silent.clone(), 9, well())),
        bad(CutOff, Cause::ShardSilent)
    );
    assert_eq!(
        shown(&beating(silent.clone(), 2, well())),
        bad(Degraded, Cause::StreamSilent)
    );
    assert_eq!(
        shown(&beating(silent, 2, hung(2, 9))),
        HealthEvidence::Bad(WithoutMesos, vec![Cause::MesosHung, Cause::StreamSilent])
    );
}

/// The causes of a cluster that has reported many failed starts, and had these causes before.
fn causes_with_failed_starts(signs: ShardSigns, before: &[HealthCause], led_for: u64) -> HealthEvidence {
    let groups = (1..4).map(|number| GroupStarts {
        group: StartGroup(number),
        begun: 20,
        failed: 20,
        cause: Some(PlatformCause::Container),
        hosts: (1..4).map(HostHash).collect(),
    });
    let counts = StartCounts {
        groups: groups.collect(),
        left_out: 0,
    };
    let mut view = heard(1, signs);
    view.starts.take(counts, ago(1));
    view.state = Some(ClusterState {
        cluster: ClusterId::new("a"),
        health: ClusterHealth {
            health: Health::Degraded,
            causes: before.to_vec(),
            ..ClusterHealth::default()
        },
        reported: None,
    });
    let id = ClusterId::new("a");
    let mut clusters = [(id.clone(), view)].into_iter().collect();
    compare_starts(&mut clusters, NOW);
    evidence(&clusters[&id], &config(), ago(led_for), NOW)
}

fn starts_fail(percent: u32) -> HealthCause {
    let by = PlatformCause::Container;
    HealthCause::StartsFail { percent, by }
}

#[test]
fn a_cluster_where_starts_fail_is_degraded_unless_mesos_is_away() {
    let degraded = |causes: &[HealthCause]| HealthEvidence::Bad(Health::Degraded, causes.to_vec());
    let slow = ShardSigns {
        commit_age: Span::seconds(2),
        ..well()
    };
    let found = causes_with_failed_starts(slow, &[], 600);
    assert_eq!(found, degraded(&[starts_fail(100), HealthCause::StorageSlow]));
    let found = causes_with_failed_starts(unsubscribed(3), &[], 600);
    assert_eq!(found, degraded(&[HealthCause::MesosFailover, starts_fail(100)]));
    // Its causes stay the same as long as it is away, so that it stays lost.
    let found = causes_with_failed_starts(unsubscribed(8), &[starts_fail(100)], 600);
    let away = HealthEvidence::Bad(Health::WithoutMesos, vec![HealthCause::NotSubscribed]);
    assert_eq!(found, away);
}

#[test]
fn a_new_leader_keeps_what_was_found_about_starts_until_all_clusters_may_have_reported() {
    let found = causes_with_failed_starts(well(), &[], 7);
    assert_eq!(found, HealthEvidence::Good(Vec::new()));
    let before = [starts_fail(66)];
    let kept = HealthEvidence::Bad(Health::Degraded, before.to_vec());
    assert_eq!(causes_with_failed_starts(well(), &before, 7), kept);
    let new = HealthEvidence::Bad(Health::Degraded, vec![starts_fail(100)]);
    assert_eq!(causes_with_failed_starts(well(), &before, 8), new);
}

#[test]
fn what_a_shard_observed_ages_until_its_next_report() {
    let view = heard(6, unsubscribed(3));
    let expected = HealthEvidence::Bad(Health::WithoutMesos, vec![HealthCause::NotSubscribed]);
    assert_eq!(shown(&view), expected);
}

#[test]
fn a_stream_that_has_just_closed_is_not_silent_yet() {
    let closed = |seconds: u64| {
        let view = ClusterView {
            link: None,
            ..heard(seconds, well())
        };
        shown(&beating(view, 2, well()))
    };
    assert_eq!(closed(7), HealthEvidence::Good(Vec::new()));
    let silent = HealthEvidence::Bad(Health::Degraded, vec![HealthCause::StreamSilent]);
    assert_eq!(closed(8), silent);
}

#[test]
fn a_new_leader_waits_again_before_it_believes_in_silence() {
    let known = ClusterState {
        cluster: ClusterId::new("a"),
        health: ClusterHealth {
            health: Health::Healthy,
            ..ClusterHealth::default()
        },
        reported: None,
    };
    let view = ClusterView {
        state: Some(known),
        ..ClusterView::default()
    };
    let at = |led_for: u64| evidence(&view, &config(), ago(led_for), NOW);
    assert_eq!(at(7), HealthEvidence::Unknown);
    let cut_off = HealthEvidence::Bad(Health::CutOff, vec![HealthCause::ShardSilent]);
    assert_eq!(at(8), cut_off);
    assert_eq!(
        evidence(&ClusterView::default(), &config(), ago(600), NOW),
        HealthEvidence::NoReport
    );
}

#[test]
fn a_capacity_that_was_never_reported_is_unknown_and_one_that_was_is_kept() {
    let id = ClusterId::new("a");
    let silent = ClusterView::default();
    let cut_off = ClusterHealth {
        health: Health::CutOff,
        ..ClusterHealth::default()
    };
    let first = changed_state(&id, &silent, cut_off.clone()).unwrap();
    assert_eq!(first.reported, None);
    let capacity = Capacity {
        hosts: 3,
        ..Capacity::default()
    };
    let reporting = ClusterView {
        state: Some(first),
        capacity: Some(capacity.clone()),
        ..ClusterView::default()
    };
    let second = changed_state(&id, &reporting, cut_off).unwrap();
    assert_eq!(second.reported, Some(ReportedCapacity::from(&capacity)));
    let silent_again = ClusterView {
        state: Some(second),
        ..ClusterView::default()
    };
    let third = changed_state(&id, &silent_again, ClusterHealth::default()).unwrap();
    assert_eq!(third.reported, Some(ReportedCapacity::from(&capacity)));
}

/// A cluster's health over time, judged each second.
struct Course {
    health: ClusterHealth,
    now: Timestamp,
}

impl Course {
    fn new() -> Self {
        let mut course = Self {
            health: ClusterHealth::default(),
            now: Timestamp(1_000),
        };
        course.run(1, &HealthEvidence::Good(Vec::new()));
        course
    }

    fn step(&mut self, evidence: &HealthEvidence, step: Option<Span>) {
        let at = JudgementBasis {
            now: self.now,
            step,
            doubt: None,
            declared: None,
            heartbeat_at: None,
        };
        self.health = judge(&self.health, evidence.clone(), &config(), at);
    }

    fn run(&mut self, seconds: u64, evidence: &HealthEvidence) {
        for _ in 0..seconds {
            self.now = self.now.plus(Span::seconds(1));
            self.step(evidence, Some(Span::seconds(1)));
        }
    }

    fn good(&mut self, seconds: u64) -> Health {
        self.run(seconds, &HealthEvidence::Good(Vec::new()));
        self.health.health
    }

    fn bad(&mut self, seconds: u64) -> Health {
        let causes = vec![HealthCause::MesosHung];
        self.run(seconds, &HealthEvidence::Bad(Health::WithoutMesos, causes));
        self.health.health
    }
}

#[test]
fn good_news_counts_after_a_hold_and_bad_news_at_once() {
    let mut course = Course::new();
    assert_eq!(course.health.health, Health::Healthy);
    let since = course.health.since;
    assert_eq!(course.good(30), Health::Healthy);
    assert_eq!(course.health.since, since, "it has been so since then");
    assert_eq!(course.bad(1), Health::WithoutMesos);
    assert_eq!(course.health.since, course.now);
    assert_eq!(course.health.new_work(), NewWork::Refused);
    assert_eq!(course.good(15), Health::Recovering);
    assert_eq!(course.health.new_work(), NewWork::LastResort);
    assert_eq!(
        course.health.hold_until(),
        Some(course.now.plus(Span::seconds(1)))
    );
    assert_eq!(course.good(1), Health::Healthy);
    assert_eq!(course.health.hold_until(), None);
}

#[test]
fn a_cluster_that_flaps_each_minute_takes_no_new_work_after_the_third_time() {
    let mut course = Course::new();
    for (time, healthy_for) in [(1, 34), (2, 19), (3, 0), (4, 0), (5, 0)] {
        course.bad(10);
        let healthy = (0..50).filter(|_| course.good(1) == Health::Healthy).count();
        assert_eq!(healthy, healthy_for + usize::from(healthy_for > 0), "time {time}");
    }
}

#[test]
fn a_cluster_that_fails_its_starts_again_is_held_for_longer() {
    let mut course = Course::new();
    let fail = |course: &mut Course, seconds| {
        for percent in [100, 70, 21] {
            let causes = vec![starts_fail(percent)];
            course.run(seconds, &HealthEvidence::Bad(Health::Degraded, causes));
            assert_eq!(course.health.health, Health::Degraded);
            assert_eq!(course.health.new_work(), NewWork::LastResort);
        }
    };
    for hold in [15, 30, 60] {
        fail(&mut course, 100);
        assert_eq!(course.good(hold), Health::Recovering);
        assert_eq!(course.health.new_work(), NewWork::LastResort);
        assert_eq!(course.good(1), Health::Healthy);
    }
    assert_eq!(course.health.silence, 0, "it was never silent");
}

#[test]
fn quiet_times_take_doublings_back() {
    let mut course = Course::new();
    for _ in 0..4 {
        course.bad(5);
        course.good(5);
    }
    assert_eq!(course.health.doublings, 3);
    course.good(25 * 60);
    course.bad(1);
    assert_eq!(course.health.doublings, 1);
    course.good(60 * 60);
    course.bad(1);
    assert_eq!(course.health.doublings, 0);
}

#[test]
fn each_silence_has_a_number_and_a_sum_of_its_own() {
    let mut course = Course::new();
    course.bad(10);
    assert_eq!(
        (course.health.silence, course.health.waited),
        (1, Span::seconds(9))
    );
    // A pause of the process is not counted, nor is the time before a new leader's first look.
    let causes = vec![HealthCause::MesosHung];
    let bad = HealthEvidence::Bad(Health::WithoutMesos, causes);
    course.now = course.now.plus(Span::minutes(30));
    course.step(&bad, Some(Span::minutes(30)));
    course.step(&bad, None);
    assert_eq!(course.health.waited, Span::seconds(9));
    course.good(1);
    course.bad(3);
    assert_eq!(
        (course.health.silence, course.health.waited),
        (2, Span::seconds(2))
    );
    assert_eq!(course.bad(15 * 60 - 3), Health::WithoutMesos);
    assert_eq!(course.bad(1), Health::Lost);
    assert_eq!(course.bad(60), Health::Lost);
    assert_eq!(course.health.silence, 2);
    // Its shard is back, and Mesos is not: that is another silence.
    let cut = HealthEvidence::Bad(Health::CutOff, vec![HealthCause::ShardSilent]);
    course.run(1, &cut);
    assert_eq!((course.health.health, course.health.silence), (Health::CutOff, 3));
}

#[test]
fn without_evidence_nothing_changes_and_nothing_is_confirmed() {
    let mut course = Course::new();
    course.bad(2);
    let before = course.health.clone();
    course.run(60, &HealthEvidence::Unknown);
    assert_eq!(course.health, before);
}

#[test]
fn a_clock_that_was_ahead_does_not_prolong_the_hold() {
    let mut course = Course::new();
    course.bad(2);
    course.good(1);
    course.health.returned_at = Some(course.now.plus(Span::minutes(60)));
    assert_eq!(course.good(20), Health::Healthy);
}

#[test]
fn a_short_failover_does_not_end_the_hold() {
    let mut course = Course::new();
    course.bad(10);
    course.good(5);
    let causes = vec![HealthCause::MesosFailover];
    course.run(2, &HealthEvidence::Bad(Health::Degraded, causes));
    assert_eq!(course.good(8), Health::Recovering);
    assert_eq!(course.good(2), Health::Healthy);
}

#[test]
fn a_cluster_that_is_back_without_a_subscription_is_held_all_the_same() {
    let mut course = Course::new();
    course.bad(10);
    let causes = vec![HealthCause::MesosFailover];
    course.run(2, &HealthEvidence::Bad(Health::Degraded, causes));
    assert_eq!(course.good(13), Health::Recovering);
    assert_eq!(course.good(1), Health::Healthy);
}

#[test]
fn a_short_failover_of_the_master_is_not_damped() {
    let mut course = Course::new();
    let causes = vec![HealthCause::MesosFailover];
    course.run(3, &HealthEvidence::Bad(Health::Degraded, causes));
    assert_eq!(course.health.new_work(), NewWork::Refused);
    assert_eq!(course.good(1), Health::Healthy);
}

/// What was not read shows no return: only another heartbeat does.
#[test]
fn a_new_leader_begins_a_new_silence_by_another_heartbeat_only() {
    let before = ClusterHealth {
        health: Health::CutOff,
        causes: vec![HealthCause::ShardSilent],
        silence: 7,
        waited: Span::minutes(9),
        heartbeat_at: Some(ago(600)),
        ..ClusterHealth::default()
    };
    let judged = |heartbeat_at| {
        let at = JudgementBasis {
            now: NOW,
            step: Some(Span::seconds(1)),
            doubt: None,
            declared: None,
            heartbeat_at,
        };
        let cut_off = HealthEvidence::Bad(Health::CutOff, vec![HealthCause::ShardSilent]);
        let health = judge(&before, cut_off, &config(), at);
        (health.silence, health.waited)
    };
    let goes_on = (7, Span(Span::minutes(9).0 + 1_000));
    assert_eq!(judged(Some(ago(600))), goes_on);
    assert_eq!(judged(None), goes_on, "no heartbeat was read yet");
    assert_eq!(judged(Some(ago(300))), (8, Span::ZERO));
}
