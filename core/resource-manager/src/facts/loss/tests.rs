use super::*;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::{Cluster, ClusterState};
use echelon_core_model::health::{DeclaredHealth, HealthCause};

const NOW: Timestamp = Timestamp(1_000_000);

fn ago(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 - seconds * 1_000)
}

fn well() -> SelfObservation {
    SelfObservation {
        looked_at: Some(ago(1)),
        paused_at: None,
        heartbeats_read_at: Some(ago(2)),
    }
}

fn of(observation: SelfObservation, silent: usize, healthy: usize) -> Option<Doubt> {
    let bad = HealthEvidence::Bad(Health::CutOff, vec![HealthCause::ShardSilent]);
    let all = std::iter::repeat_n(bad, silent);
    let all: Vec<HealthEvidence> = all
        .chain(std::iter::repeat_n(HealthEvidence::Good(Vec::new()), healthy))
        .chain([HealthEvidence::NoReport])
        .collect();
    doubt(observation, all.iter(), &Config::new("t", 1), NOW)
}

#[test]
fn more_than_half_and_at_least_two_silent_clusters_cast_doubt() {
    assert_eq!(of(well(), 0, 4), None);
    assert_eq!(of(well(), 1, 0), None, "one of one");
    assert_eq!(of(well(), 1, 1), None);
    assert_eq!(of(well(), 2, 2), None, "half of them");
    assert_eq!(of(well(), 2, 1), Some(Doubt::MostSilent { silent: 2, of: 3 }));
    assert_eq!(of(well(), 2, 0), Some(Doubt::MostSilent { silent: 2, of: 2 }));
}

#[test]
fn heartbeats_that_are_not_read_and_pauses_cast_doubt() {
    let unread = SelfObservation {
        heartbeats_read_at: Some(ago(8)),
        ..well()
    };
    assert_eq!(of(unread, 1, 3), Some(Doubt::HeartbeatsUnread));
    let never = SelfObservation {
        heartbeats_read_at: None,
        ..well()
    };
    assert_eq!(of(never, 1, 3), Some(Doubt::HeartbeatsUnread));
    let mut paused = well();
    paused.look(Span::seconds(1), NOW);
    assert_eq!(of(paused, 1, 3), None, "it looks once a second");
    paused.looked_at = Some(ago(4));
    paused.look(Span::seconds(1), NOW);
    assert_eq!(of(paused, 1, 3), Some(Doubt::Paused));
    paused.paused_at = Some(ago(30));
    assert_eq!(of(paused, 1, 3), None);
}

#[test]
fn a_doubt_ends_by_its_time_unless_it_never_does() {
    let held = Some(Doubt::Paused);
    let health = |minutes| ClusterHealth {
        doubted: Span::minutes(minutes),
        ..ClusterHealth::default()
    };
    let mut config = Config::new("t", 1);
    assert_eq!(doubt_about(&health(59), held, &config), held);
    assert_eq!(doubt_about(&health(60), held, &config), None);
    config.doubt_at_most = None;
    assert_eq!(doubt_about(&health(6_000), held, &config), held);
}

fn silent(health: Health, waited: Span) -> ClusterView {
    let id = ClusterId::new("a");
    ClusterView {
        row: Some(Cluster::new(id.clone(), "a")),
        state: Some(ClusterState {
            cluster: id,
            health: ClusterHealth {
                health,
                silence: 7,
                waited,
                ..ClusterHealth::default()
            },
            reported: None,
        }),
        ..ClusterView::default()
    }
}

fn spec(kind: JobKind, on_cluster_loss: OnSilence) -> JobSpec {
    JobSpec {
        on_cluster_loss,
        ..JobSpec::new("bot", kind)
    }
}

#[test]
fn a_cluster_is_lost_to_a_job_by_the_jobs_time_or_an_operators_word() {
    let replace = spec(JobKind::Service, OnSilence::Replace(Span::minutes(15)));
    let early = silent(Health::CutOff, Span::minutes(14));
    let late = silent(Health::Lost, Span::minutes(15));
    assert!(!early.is_lost_to(&replace) && late.is_lost_to(&replace));
    let waits = spec(JobKind::Service, OnSilence::Wait);
    let daemon = spec(JobKind::Daemon, OnSilence::Replace(Span::minutes(15)));
    assert!(!late.is_lost_to(&waits) && !late.is_lost_to(&daemon));
    let back = silent(Health::Recovering, Span::minutes(15));
    assert!(
        !back.is_lost_to(&replace),
        "its time stays stored until the next silence"
    );
    let doubted = ClusterView {
        doubt: Some(Doubt::Paused),
        ..late
    };
    assert!(!doubted.is_lost_to(&replace));
    let declare = |silence, as_what| {
        let mut view = early.without_reports();
        let declared = DeclaredHealth { silence, as_what };
        view.row = view.row.map(|row| Cluster {
            declared: Some(declared),
            ..row
        });
        view.doubt = Some(Doubt::Paused);
        view.is_lost_to(&replace)
    };
    assert!(
        declare(7, Declaration::Lost),
        "also while this leader doubts itself"
    );
    assert!(!declare(6, Declaration::Lost), "another silence");
    assert!(!declare(7, Declaration::AliveUntil(NOW)));
}

#[test]
fn only_assigned_capacity_counts_after_a_while_and_until_it_is_healthy() {
    let after = Span::minutes(5);
    let of = |health: Health, before: CountedCapacity, waited: u64| {
        let health = ClusterHealth {
            health,
            waited: Span::minutes(waited),
            ..ClusterHealth::default()
        };
        before.next(&health, after)
    };
    let (full, assigned) = (CountedCapacity::Full, CountedCapacity::Assigned);
    assert_eq!(of(Health::CutOff, full, 4), full);
    assert_eq!(of(Health::CutOff, full, 5), assigned);
    assert_eq!(
        of(Health::CutOff, assigned, 0),
        assigned,
        "one silence follows another"
    );
    assert_eq!(of(Health::Lost, full, 0), assigned, "an operator has declared it");
    assert_eq!(of(Health::Recovering, assigned, 5), assigned);
    assert_eq!(of(Health::Recovering, full, 0), full);
    assert_eq!(of(Health::Healthy, assigned, 5), full);
    assert_eq!(of(Health::Degraded, assigned, 5), full);
    let without_agents = |seconds| ClusterHealth {
        health: Health::WithoutAgents,
        since: ago(seconds),
        as_of: NOW,
        ..ClusterHealth::default()
    };
    assert_eq!(full.next(&without_agents(299), after), full);
    assert_eq!(full.next(&without_agents(300), after), assigned);
}
