//! A run that was given up, or lost, and lives after all is available once an update has shown it well again.

use crate::{FIRST, NOW, news, policy, record};
use echelon_core_jobs::rollout::fails_at;
use echelon_core_jobs::{Heard, News, OlderFate, Told, give_up, hear, settle_older};
use echelon_core_model::instance::{InstanceRecord, Probes, Run};
use echelon_core_model::pause::Pause;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{RunState, Span, Timestamp};

const LATER: Timestamp = Timestamp(NOW.0 + 60_000);

/// A service's run that has been well since [`NOW`], with these probes.
fn well(probes: Probes) -> InstanceRecord {
    let mut record = record(RunState::Running);
    let run = record.run.as_mut().expect("a run");
    run.probes = probes;
    run.started_at = Some(NOW);
    run.healthy = probes.health.then_some(true);
    run.ready = probes.readiness.then_some(true);
    run.note_availability(NOW);
    assert_eq!(run.available_at, Some(NOW));
    record
}

fn tell(record: &mut InstanceRecord, news: &News, now: Timestamp) -> Heard {
    hear(record, FIRST, news, Some(&policy(JobKind::Service)), now)
}

fn latest(record: &InstanceRecord) -> &Run {
    record.run.as_ref().expect("a run")
}

/// Given up, and adopted when an update shows it alive; that update is applied to it, as a shard does.
fn adopted(probes: Probes, news: &News) -> InstanceRecord {
    let mut record = well(probes);
    give_up(&mut record, NOW);
    assert_eq!(tell(&mut record, news, LATER), Heard::OlderAlive);
    let fate = settle_older(&mut record, FIRST, false, Span::ZERO, LATER);
    assert_eq!(fate, OlderFate::Adopted);
    assert_eq!(
        latest(&record).available_at,
        None,
        "nothing has shown it well yet"
    );
    tell(&mut record, news, LATER);
    record
}

const NONE: Probes = Probes {
    health: false,
    readiness: false,
};
const BOTH: Probes = Probes {
    health: true,
    readiness: true,
};

#[test]
fn an_adopted_run_is_available_since_the_update_that_shows_it_running() {
    let record = adopted(NONE, &news(Told::Running));
    assert_eq!(latest(&record).available_at, Some(LATER));
    let mut prepared = adopted(NONE, &news(Told::Preparing));
    assert_eq!(latest(&prepared).available_at, None, "it does not run yet");
    let even_later = LATER.plus(Span::seconds(9));
    tell(&mut prepared, &news(Told::Running), even_later);
    assert_eq!(latest(&prepared).available_at, Some(even_later));
}

#[test]
fn what_probes_said_before_it_was_given_up_counts_no_more() {
    let mut record = adopted(BOTH, &news(Told::Running));
    assert!(!latest(&record).is_available());
    let healthy = News {
        healthy: Some(true),
        ..news(Told::Running)
    };
    tell(&mut record, &healthy, LATER);
    assert_eq!(latest(&record).available_at, None, "it is not ready");
    let ready = News {
        ready: Some(true),
        ..news(Told::Running)
    };
    tell(&mut record, &ready, LATER);
    assert_eq!(latest(&record).available_at, Some(LATER));
    let both = News {
        healthy: Some(true),
        ..ready
    };
    let at_once = adopted(BOTH, &both);
    assert_eq!(latest(&at_once).available_at, Some(LATER));
}

#[test]
fn a_lost_run_that_is_seen_again_is_proven_anew() {
    let mut record = well(BOTH);
    tell(&mut record, &news(Told::Gone), NOW);
    assert_eq!(latest(&record).state, RunState::Lost);
    tell(&mut record, &news(Told::Running), LATER);
    let run = latest(&record);
    assert_eq!((run.state, run.available_at), (RunState::Running, None));
    let well_again = News {
        healthy: Some(true),
        ready: Some(true),
        ..news(Told::Running)
    };
    tell(&mut record, &well_again, LATER);
    assert_eq!(latest(&record).available_at, Some(LATER));
    let mut plain = well(NONE);
    tell(&mut plain, &news(Told::Gone), NOW);
    tell(&mut plain, &news(Told::Running), LATER);
    assert_eq!(
        latest(&plain).available_at,
        Some(LATER),
        "and not since the first time"
    );
}

#[test]
fn a_run_whose_host_was_silent_is_the_same_run() {
    let mut record = well(BOTH);
    tell(&mut record, &news(Told::Silent), NOW);
    assert_eq!(latest(&record).available_at, None);
    tell(&mut record, &news(Told::Running), LATER);
    assert_eq!(latest(&record).available_at, Some(LATER));
}

#[test]
fn an_adopted_run_has_the_whole_time_of_a_rollout_to_become_available_again() {
    let record = adopted(BOTH, &news(Told::Running));
    let within = Span::minutes(1);
    let due = fails_at(&record, 1, within, &Pause::default(), LATER);
    assert_eq!(due, Some(LATER.plus(within)));
}
