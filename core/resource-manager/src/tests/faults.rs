//! Any order of events, with losses, duplicates, cuts and new leaders: the checker holds after every step, limits hold in what
//! really runs, nothing is ever twice, and when faults stop everything wanted that fits runs.

use crate::event::Event;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::job::Desired;
use echelon_core_model::store::{OpFailure, OpResult};
use echelon_core_model::{InstanceNumber, JobId, RunState, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Act {
    Deliver(u8),
    Lose,
    Twice,
    Late,
    Pass(u16),
    Cut(u8),
    Leader,
    ShardLeader(u8),
    Scale(u8, u8),
    Want(u8, u8),
    Finish(u8, u8),
    FailOp,
    MaxRunning(u8, u8),
    Restart(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (1u8..30).prop_map(Act::Deliver),
        2 => Just(Act::Lose),
        2 => Just(Act::Twice),
        2 => Just(Act::Late),
        8 => (1u16..4000).prop_map(Act::Pass),
        1 => (0u8..3).prop_map(Act::Cut),
        1 => Just(Act::Leader),
        1 => (0u8..3).prop_map(Act::ShardLeader),
        3 => (0u8..3, 0u8..9).prop_map(|(j, n)| Act::Scale(j, n)),
        1 => (0u8..3, 0u8..3).prop_map(|(j, n)| Act::Want(j, n)),
        3 => (0u8..3, 1u8..4).prop_map(|(c, n)| Act::Finish(c, n)),
        2 => Just(Act::FailOp),
        1 => (0u8..3, 1u8..7).prop_map(|(j, n)| Act::MaxRunning(j, n)),
        2 => (0u8..3).prop_map(Act::Restart),
    ]
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// No number of a job is active at two places, or at two generations.
fn none_twice(case: &Case, jobs: &[JobId]) {
    for job in jobs {
        let mut seen: BTreeMap<InstanceNumber, String> = BTreeMap::new();
        for (cluster, shard) in &case.shards {
            for (n, g) in shard.running(*job) {
                if let Some(before) = seen.insert(n, format!("{cluster}.{g}")) {
                    panic!(
                        "{job} {} runs at {before} and {cluster}.{g}\n{}",
                        n.0,
                        case.trace.join("\n")
                    );
                }
            }
        }
    }
}

fn perform(case: &mut Case, jobs: &[JobId], act: &Act) {
    let job = |i: &u8| jobs[usize::from(*i) % jobs.len()];
    match act {
        Act::Deliver(n) => (0..*n).for_each(|_| {
            if let Some(event) = case.events.pop_front() {
                case.step(event);
            }
        }),
        // A storage operation always gets some answer in the end; a message may get lost.
        Act::Lose => {
            let at = case
                .events
                .iter()
                .position(|e| matches!(e, Event::Report(..) | Event::Hint(_)));
            at.map(|i| case.events.remove(i));
        }
        Act::Twice => {
            if let Some(event) = case.events.front().cloned() {
                case.events.push_back(event);
            }
        }
        Act::Late => {
            if let Some(event) = case.events.pop_front() {
                case.events.push_back(event);
            }
        }
        Act::Pass(ms) => {
            case.now = case.now.plus(Span::millis(u64::from(*ms)));
            case.step(Event::Wake);
            case.keep_restarting();
        }
        Act::Cut(c) => {
            let name = NAMES[usize::from(*c)];
            let cluster = echelon_core_model::ClusterId::new(name);
            if let Some(link) = case.links.remove(&cluster) {
                case.events.push_back(Event::ShardClosed { link });
            }
        }
        Act::Leader => case.fail_over(),
        Act::ShardLeader(c) => {
            let name = NAMES[usize::from(*c)];
            case.cut(name);
            case.shard(name).fail_over();
        }
        Act::Scale(j, _) | Act::MaxRunning(j, _) | Act::Restart(j) | Act::Want(j, _) => {
            if case.head(job(j)).is_some() {
                wish(case, job(j), act);
            }
        }
        Act::Finish(c, n) => {
            let name = NAMES[usize::from(*c)];
            let now = case.now;
            let reports = case.shard(name).finish(u64::from(*n), RunState::Succeeded, now);
            case.bring(&echelon_core_model::ClusterId::new(name), reports);
        }
        Act::FailOp => {
            let at = case.events.iter().position(|e| matches!(e, Event::Storage(..)));
            if let Some(Event::Storage(id, _)) = at.and_then(|i| case.events.remove(i)) {
                // It was done, and nobody knows.
                let failed = OpFailure::unknown("no answer");
                case.events
                    .push_back(Event::Storage(id, OpResult::Failed(failed)));
            }
        }
    }
}

/// What a user may wish of a job that is there.
fn wish(case: &mut Case, job: JobId, act: &Act) {
    match act {
        Act::Scale(_, n) => case.respec_silently(job, |s| s.groups[0].instances = u32::from(*n).max(1)),
        Act::MaxRunning(_, n) => case.respec_silently(job, |s| s.groups[0].max_running = Some(u32::from(*n))),
        Act::Restart(_) => {
            case.change_head(job, |h| h.goal.restarts += 1);
            case.events.push_back(Event::Hint(job));
        }
        Act::Want(_, n) => {
            let desired = [Desired::Running, Desired::Stopped, Desired::Deleted][usize::from(*n)];
            // Deleted is final: the gateway takes no wish after it.
            case.change_head(job, |h| {
                if h.goal.desired != Desired::Deleted {
                    h.goal.desired = desired;
                }
            });
            case.events.push_back(Event::Hint(job));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_rules_hold_and_in_the_end_all_that_fits_runs(
        acts in proptest::collection::vec(act(), 1..120),
    ) {
        let mut case = Case::with(&[("a", 4), ("b", 3), ("c", 2)]);
        case.set_pool("/small", 4);
        case.run_for(Span::seconds(6));
        let jobs = [
            case.job(1, service(5).spread()),
            case.job(2, batch(6).pool("/small")),
            case.job(3, service(3)),
        ];
        for act in &acts {
            perform(&mut case, &jobs, act);
            none_twice(&case, &jobs);
        }
        if let Some(why) = &case.stepped_down {
            prop_assert!(why.contains("could not be read"), "{}", why);
        }
        // Faults stop.
        case.fail_over();
        case.run_for(Span::seconds(150));
        none_twice(&case, &jobs);
        let mut active = 0;
        let mut wanted = 0;
        for job in jobs {
            let Some(head) = case.head(job) else { continue };
            let Some(progress) = case.progress(job) else { panic!("no progress of {job}") };
            match head.goal.desired {
                Desired::Running if !progress.state.is_ended() => {
                    let n = case.total_active(job);
                    active += n;
                    let told: u64 = progress.waiting.iter().map(|w| w.count).sum();
                    wanted += n + usize::try_from(told).unwrap();
                    prop_assert!(progress.waiting.iter().all(|w| !matches!(w.reason.code,
                        echelon_core_model::ReasonCode::AwaitingGrant | echelon_core_model::ReasonCode::Moved | echelon_core_model::ReasonCode::Accepted)),
                        "{:?}\n{}", progress.waiting, case.trace.join("\n"));
                    if case.total_active(job) < 3 && wanted <= 9 {
                        for w in &progress.waiting {
                            prop_assert!(w.count > 0);
                        }
                    }
                }
                Desired::Running => {}
                Desired::Stopped => prop_assert!(progress.state.is_ended()),
                Desired::Deleted => prop_assert!(false, "{} is still there: {:?}\n{}", job, progress, case.trace.join("\n")),
            }
        }
        // Every core runs something, or nobody waits for one.
        let capped = jobs.iter().filter_map(|j| case.progress(*j)).flat_map(|p| p.waiting);
        let waits_for_room = capped.filter(|w| w.reason.code == echelon_core_model::ReasonCode::NoClusterCapacity).map(|w| w.count).sum::<u64>();
        prop_assert!(waits_for_room == 0 || active == 9, "{} of {} active\n{}", active, wanted, case.trace.join("\n"));
    }
}
