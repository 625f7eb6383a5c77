//! Every row of the tables of a job's and a rollout's states is visited. That nothing else is, each other test sees, too.

use crate::event::Event;
use crate::tests::case::{Case, batch, service};
use crate::tests::shard::Versions;
use echelon_core_model::job::Desired;
use echelon_core_model::rollout::{Rollout, UpdatePolicy};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{Amount, ClusterId, JobId, ReasonCode, RunState, Span, Timestamp, job, rollout};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeSet;
use std::fmt::Debug;

fn expect<S: Ord + Copy + Debug>(table: &[(S, S, &str)], seen: &BTreeSet<(S, S)>) {
    let rows = table.iter().map(|(from, to, _)| (*from, *to));
    let missing: Vec<(S, S)> = rows.filter(|row| !seen.contains(row)).collect();
    assert!(missing.is_empty(), "never visited: {missing:?}");
}

impl Case {
    fn begin_rollout(&mut self, job: JobId, canaries: u32, back: Option<ReasonCode>) {
        self.respec_silently(job, |spec| {
            spec.update = UpdatePolicy {
                canaries: Amount::Count(canaries),
                ..UpdatePolicy::DEFAULT
            };
            let revision = spec.groups[0].revision + 1;
            spec.groups[0].revision = revision;
            spec.groups[0].runtime = Runtime::shell(&format!("v{revision}"));
        });
        let base = self.head(job).unwrap();
        let next = Rollout {
            back,
            ..Rollout::after(base.rollout.as_ref(), base.spec_version - 1, Timestamp(1))
        };
        self.steer(job, |r| *r = next);
    }

    fn steer(&mut self, job: JobId, change: impl FnOnce(&mut Rollout)) {
        self.change_head(job, |h| {
            let mut rollout = h.rollout.unwrap_or(Rollout::after(None, 1, Timestamp(1)));
            change(&mut rollout);
            h.rollout = Some(rollout);
        });
        self.hint(job);
        self.run_for(Span::seconds(3));
    }

    fn hold(&mut self, job: JobId, held: bool) {
        self.steer(job, |r| r.held = held.then_some(ReasonCode::RolloutPaused));
    }

    /// So many instances of a job are of the version in force, and good.
    fn good(&mut self, job: JobId, updated: u64) {
        let version = self.head(job).unwrap().spec_version;
        self.at("a", |s, now| {
            s.versions.insert(
                job,
                Versions {
                    revision: version,
                    updated,
                    failed: 0,
                    behind: None,
                },
            );
            s.work(now)
        });
        self.run_for(Span::seconds(3));
    }
}

#[test]
fn every_row_of_rollouts_is_visited() {
    let mut case = Case::with(&[("a", 9)]);
    let job = case.job(1, service(4));
    // Held and let go, then done while it is held.
    case.begin_rollout(job, 0, None);
    case.good(job, 1);
    case.hold(job, true);
    case.hold(job, false);
    case.hold(job, true);
    case.good(job, 4);
    // Canaries that wait, are held while they do, turn bad, and are accepted.
    case.begin_rollout(job, 2, None);
    case.good(job, 2);
    case.hold(job, true);
    case.hold(job, false);
    case.good(job, 1);
    case.good(job, 2);
    case.steer(job, |r| r.promoted = true);
    case.good(job, 4);
    // Back, held and let go.
    case.begin_rollout(job, 0, Some(ReasonCode::RolloutRollback));
    case.good(job, 1);
    case.hold(job, true);
    case.hold(job, false);
    case.good(job, 4);
    // Back, and whole while it is held.
    case.begin_rollout(job, 0, Some(ReasonCode::RolloutRollback));
    case.good(job, 1);
    case.hold(job, true);
    case.good(job, 4);
    expect(rollout::TRANSITIONS, &case.rollout_ways);
}

const LONG: Span = Span::seconds(3);
/// Shorter than between two writes of a job's row.
const SHORT: Span = Span::millis(20);

fn want(case: &mut Case, job: JobId, desired: Desired) {
    case.want(job, desired);
    case.run_for(LONG);
}

fn finish(case: &mut Case, job: JobId, state: RunState) {
    case.at("a", |s, now| s.finish_of(job, 9, state, now));
}

/// Stops nothing until it is told otherwise.
fn stubborn(case: &mut Case, is_so: bool) {
    case.at("a", |s, now| {
        s.stubborn = is_so;
        s.work(now)
    });
}

/// Its cluster hears late that it is to be deleted.
fn delete_slowly(case: &mut Case, job: JobId) {
    case.held = Some((ClusterId::new("a"), Vec::new()));
    want(case, job, Desired::Deleted);
    case.arrive();
    case.run_for(LONG);
}

/// Is looked at once in every state.
fn long_lives(case: &mut Case) {
    for (n, desired) in [(1, Desired::Stopped), (2, Desired::Deleted)] {
        let job = case.job(n, service(1));
        case.run_for(LONG);
        stubborn(case, true);
        want(case, job, desired);
        stubborn(case, false);
        case.run_for(LONG);
        if desired == Desired::Stopped {
            want(case, job, Desired::Deleted);
            let job = case.job(n + 30, service(1));
            case.run_for(LONG);
            want(case, job, Desired::Stopped);
            delete_slowly(case, job);
        }
    }
    for (n, state) in [(3, RunState::Succeeded), (4, RunState::Failed)] {
        let job = case.job(n, batch(1));
        case.run_for(LONG);
        finish(case, job, state);
        case.run_for(LONG);
        want(case, job, Desired::Deleted);
        let job = case.job(n + 20, batch(1));
        case.run_for(LONG);
        finish(case, job, state);
        case.run_for(LONG);
        delete_slowly(case, job);
        let job = case.job(n + 10, batch(1));
        case.run_for(LONG);
        stubborn(case, true);
        want(case, job, Desired::Stopped);
        case.shard("a").stubborn = false;
        finish(case, job, state);
        case.run_for(LONG);
    }
}

/// Stores a job, and has it looked at as long as its row is not written a second time.
fn glimpse(case: &mut Case, n: u128, spec: JobBuilder) -> JobId {
    let job = case.store_job(n, spec);
    case.events.push_back(Event::Hint(job));
    case.settle();
    case.run_for(SHORT);
    job
}

/// Changes a goal and lets the look that follows come with the next one.
fn want_soon(case: &mut Case, job: JobId, desired: Desired) {
    case.change_head(job, |h| h.goal.desired = desired);
    case.events.push_back(Event::Hint(job));
    case.settle();
}

/// Goes from one state to a far one between two looks, whenever these are.
fn short_lives(case: &mut Case) {
    for n in 0..30u32 {
        let pause = Span::millis(15 * u64::from(n));
        for (kind, state) in [(100, RunState::Succeeded), (200, RunState::Failed)] {
            let job = glimpse(case, u128::from(kind + n), batch(1));
            case.run_for(pause);
            let now = case.now;
            let told = case.shard("a").finish_of(job, 9, state, now);
            case.bring(&ClusterId::new("a"), told);
            case.settle();
            case.run_for(pause);
            want_soon(case, job, Desired::Deleted);
            case.run_for(LONG);
        }
        for (kind, desired) in [(300, Desired::Stopped), (400, Desired::Deleted)] {
            let job = glimpse(case, u128::from(kind + n), service(1));
            case.run_for(pause);
            want_soon(case, job, desired);
            case.run_for(pause);
            if n % 2 == 0 {
                want_soon(case, job, Desired::Deleted);
            }
            case.run_for(LONG);
        }
    }
}

/// Never begins.
fn lives_in_vain(case: &mut Case) {
    for (n, desired) in [(41, Desired::Stopped), (42, Desired::Deleted)] {
        let job = glimpse(case, n, service(1).only(&["nowhere"]));
        want_soon(case, job, desired);
        case.run_for(LONG);
    }
    let job = case.job(43, service(1).only(&["nowhere"]));
    case.run_for(LONG);
    want(case, job, Desired::Stopped);
}

/// Is wanted again while it is being stopped; is scaled to nothing.
fn second_thoughts(case: &mut Case) {
    let job = case.job(51, service(1));
    case.run_for(LONG);
    stubborn(case, true);
    want(case, job, Desired::Stopped);
    want(case, job, Desired::Running);
    stubborn(case, false);
    case.run_for(LONG);
    case.scale(job, 0);
    case.run_for(LONG);
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    let job = case.job(52, service(1));
    case.run_for(LONG);
    // What it is told does not arrive.
    case.held = Some((ClusterId::new("a"), Vec::new()));
    want(case, job, Desired::Stopped);
    want(case, job, Desired::Running);
}

#[test]
fn every_row_of_jobs_is_visited() {
    let mut seen = BTreeSet::new();
    for lives in [long_lives, short_lives, lives_in_vain, second_thoughts] {
        let mut case = Case::with(&[("a", 9)]);
        // Late enough that no tombstone is old enough to go.
        case.born = case.now;
        lives(&mut case);
        seen.extend(case.job_ways);
    }
    expect(job::TRANSITIONS, &seen);
}
