//! Random courses: events lost, late and repeated, storage that stalls and fails, crashes in the middle. After every step the
//! checker is asked (in `World`), and in the end, when faults stop, everything wanted runs.

use crate::world::{Storage, World, range, seconds, task};
use echelon_core_hosts::TaskState;
use echelon_core_model::RunState;
use echelon_core_model::job::Desired;
use echelon_core_model::time::Span;
use echelon_core_testkit::build::JobBuilder;
use proptest::prelude::*;

const N: u32 = 4;

#[derive(Debug, Clone)]
enum Blow {
    Crash,
    Break,
    Storage(Storage),
    Ends(u32, TaskState),
    /// Hears an update about a run again, or about one that never was.
    Rumour(u32, u32, TaskState),
    Silence(u32),
    Return,
    LoseEvents,
    Repeat,
    Grant(u64),
    Restart,
    Time(u64),
}

fn blow() -> impl Strategy<Value = Blow> {
    let end = prop_oneof![
        Just(TaskState::Finished),
        Just(TaskState::Failed),
        Just(TaskState::Killed)
    ];
    let rumour = prop_oneof![
        Just(TaskState::Running),
        Just(TaskState::Unreachable),
        Just(TaskState::Unknown),
        Just(TaskState::Starting),
    ];
    let storage = prop_oneof![
        Just(Storage::Stalls),
        Just(Storage::StallsCommits),
        Just(Storage::Fails),
        Just(Storage::DoesAndFails),
    ];
    prop_oneof![
        1 => Just(Blow::Crash),
        1 => Just(Blow::Break),
        2 => storage.prop_map(Blow::Storage),
        3 => (0..N, end).prop_map(|(n, s)| Blow::Ends(n, s)),
        2 => (0..N, 1..3u32, rumour).prop_map(|(n, r, s)| Blow::Rumour(n, r, s)),
        1 => (0..3u32).prop_map(Blow::Silence),
        1 => Just(Blow::Return),
        1 => Just(Blow::LoseEvents),
        1 => Just(Blow::Repeat),
        2 => (0..=u64::from(N)).prop_map(Blow::Grant),
        1 => Just(Blow::Restart),
        4 => (1..20_000u64).prop_map(Blow::Time),
    ]
}

/// The process is alive and leads, or will: what the shell and membership do.
fn mind(w: &mut World) {
    if w.shard.mode() == echelon_core_shard::Mode::Follower {
        w.elect();
    }
}

fn strike(w: &mut World, blow: &Blow, restarts: &mut u32) {
    match blow {
        Blow::Crash => {
            w.crash();
            w.connect();
        }
        Blow::Break => w.cluster.disconnect(),
        Blow::Storage(s) => {
            w.storage = *s;
            w.run(Span::millis(700));
            w.unstall();
        }
        Blow::Ends(n, state) => {
            let prefix = format!("{}.main.{n}.", crate::world::job());
            let live = w.cluster.live().into_iter().find(|t| t.starts_with(&prefix));
            if let Some(t) = live.filter(|t| !w.cluster.silent.contains(&w.cluster.tasks[t].host)) {
                w.cluster.set(&t, *state);
            }
        }
        Blow::Rumour(n, run, state) => {
            let id = task(*n, 1, *run);
            // A rumour of life only about what lives; the others may be late.
            let lives = w.cluster.live().contains(&id);
            if lives || matches!(state, TaskState::Unreachable | TaskState::Unknown) {
                w.cluster.say(&id, *state);
            }
        }
        Blow::Silence(i) => {
            let host = w.cluster.hosts.keys().nth(*i as usize).cloned().unwrap();
            if !w.cluster.silent.contains(&host) && w.cluster.silent.len() < 2 {
                let here: Vec<String> = w
                    .cluster
                    .live()
                    .into_iter()
                    .filter(|t| w.cluster.tasks[t].host == host)
                    .collect();
                w.cluster.silent.push(host);
                here.iter().for_each(|t| w.cluster.say(t, TaskState::Unreachable));
            }
        }
        Blow::Return => {
            w.cluster.silent.clear();
            w.cluster
                .live()
                .iter()
                .for_each(|t| w.cluster.say(t, TaskState::Running));
        }
        Blow::LoseEvents => w.cluster.out.clear(),
        Blow::Repeat => w.cluster.resend(),
        Blow::Grant(n) => w.order(&[range(0, N - 1)], *n),
        Blow::Restart => {
            *restarts += 1;
            w.wish(
                &JobBuilder::service("web", N).build(),
                Desired::Running,
                *restarts,
            );
            w.order(&[range(0, N - 1)], u64::from(N));
        }
        Blow::Time(ms) => w.run(Span::millis(*ms)),
    }
    w.run(Span::millis(10));
    mind(w);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn safe_at_every_step_and_all_runs_in_the_end(blows in proptest::collection::vec(blow(), 1..30)) {
        let mut w = World::serving();
        w.store_job(&JobBuilder::service("web", N).build());
        w.order(&[range(0, N - 1)], u64::from(N));
        let mut restarts = 0;
        for blow in &blows {
            strike(&mut w, blow, &mut restarts);
            // At most one live run of an instance, but for one that was given up with a silent host.
            for n in 0..N {
                let prefix = format!("{}.main.{n}.", crate::world::job());
                let live = w.cluster.live().into_iter().filter(|t| t.starts_with(&prefix));
                let heard = live.filter(|t| !w.cluster.silent.contains(&w.cluster.tasks[t].host)).count();
                let older = w.record(n).map_or(0, |r| r.older.len());
                prop_assert!(heard <= 1 + older, "instance {n}: {heard} runs, {older} given up");
            }
        }
        w.unstall();
        mind(&mut w);
        w.run(seconds(30));
        // A master tells of the tasks of an agent that comes back (R114).
        strike(&mut w, &Blow::Return, &mut restarts);
        for _ in 0..24 {
            mind(&mut w);
            w.connect();
            w.cluster.resend();
            w.order(&[range(0, N - 1)], u64::from(N));
            w.run(seconds(25));
        }
        prop_assert_eq!(w.states(N), vec![RunState::Running; N as usize]);
        prop_assert_eq!(w.cluster.live().len(), N as usize);
        let asked = w.goal().restarts;
        prop_assert!((0..N).all(|n| w.stored(n).is_some_and(|r| r.run.is_some_and(|r| r.restarts == asked))));
    }
}

#[test]
fn an_intent_that_is_taken_back_before_it_is_sent_never_counts_twice() {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", N).build());
    w.order(&[range(0, N - 1)], u64::from(N));
    let mut restarts = 0;
    let blows = [
        Blow::Ends(0, TaskState::Finished),
        Blow::Restart,
        Blow::Grant(1),
        Blow::Storage(Storage::Stalls),
    ];
    blows.iter().for_each(|b| strike(&mut w, b, &mut restarts));
    for _ in 0..4 {
        w.order(&[range(0, N - 1)], u64::from(N));
        w.run(seconds(25));
    }
    assert_eq!(w.states(N), vec![RunState::Running; N as usize]);
}
