//! Every mass action has a limit, which holds whatever else happens and shows how often it held something back.

use crate::cluster::Cluster;
use crate::world::{World, config, range, seconds, task};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, RunState};
use echelon_core_shard::{Action, Event, Rates, Shard};
use echelon_core_testkit::build::{JobBuilder, shape};

const HOSTS: u32 = 10;

/// A service of `n` with these limits, as ordered and not yet begun.
fn ordered(n: u32, rates: Rates) -> World {
    let mut paced = config("one");
    paced.timing.rates = rates;
    let mut w = World::new();
    w.cluster = Cluster::of(HOSTS, shape(100, 1_000_000));
    w.shard = Shard::new(paced);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::service("web", n).build());
    w.order(&[range(0, n - 1)], u64::from(n));
    w
}

/// The most of something within any second of a while.
fn most_a_second(w: &mut World, span: Span, count: impl Fn(&World) -> usize) -> usize {
    let mut counts = vec![count(w)];
    let end = w.now.plus(span);
    while w.now < end {
        w.run(Span::millis(50));
        // Whatever happens in between brings nothing forward.
        w.step(Event::Wake);
        counts.push(count(w));
    }
    counts.windows(20).map(|c| c[c.len() - 1] - c[0]).max().unwrap()
}

fn asked(w: &World) -> usize {
    let tasks = w.calls.iter().map(|c| match c {
        Call::Reconcile { tasks } => tasks.len(),
        _ => 0,
    });
    tasks.sum()
}

#[test]
fn launches_keep_their_pace() {
    let rates = Rates {
        launches: 20,
        ..Rates::default()
    };
    let mut w = ordered(100, rates);
    let most = most_a_second(&mut w, seconds(3), |w| w.accepted().len());
    assert!((15..=22).contains(&most), "{most}");
    assert!(w.shard.pace(Action::Launch).1 > 10);
    w.run(seconds(10));
    assert_eq!(w.accepted().len(), 100);
    assert_eq!(w.shard.pace(Action::Launch).0, 20);
}

#[test]
fn replacements_of_a_silent_rack_keep_their_pace() {
    let rates = Rates {
        replacements: 10,
        ..Rates::default()
    };
    let mut w = ordered(60, rates);
    w.run(seconds(5));
    let silent: Vec<HostId> = (0..HOSTS / 2).map(|i| HostId::new(format!("host-{i}"))).collect();
    w.cluster.silent.clone_from(&silent);
    let away: Vec<String> = w.cluster.live();
    let away = away
        .into_iter()
        .filter(|t| silent.contains(&w.cluster.tasks[t].host));
    let away: Vec<String> = away.collect();
    for t in &away {
        w.cluster.say(t, TaskState::Unreachable);
    }
    w.run(seconds(299));
    assert_eq!(w.accepted().len(), 60);
    let most = most_a_second(&mut w, seconds(3), |w| w.accepted().len());
    assert!((5..=12).contains(&most), "{most}");
    assert!(w.shard.pace(Action::Replace).1 > 0);
    w.run(seconds(20));
    assert_eq!(w.accepted().len(), 60 + away.len());
    assert_eq!(w.states(60), [RunState::Running; 60]);
}

#[test]
fn questions_keep_their_pace_however_many_launches_fail() {
    let rates = Rates {
        reconciliations: 20,
        ..Rates::default()
    };
    let mut w = ordered(60, rates);
    w.run(seconds(5));
    w.calls.clear();
    for n in 0..60 {
        w.hear(&task(n, 1, 1), TaskState::Unreachable, "host-0");
    }
    // All of them have been silent for too long in the same moment.
    let most = most_a_second(&mut w, seconds(70), asked);
    assert!((10..=22).contains(&most), "{most}");
    assert!(w.shard.pace(Action::Reconcile).1 > 10);
    w.run(seconds(120));
    assert_eq!(w.states(60), [RunState::Running; 60]);
}

#[test]
fn a_group_of_which_nothing_fits_is_not_asked_about_without_end() {
    let rates = Rates {
        launches: 20,
        ..Rates::default()
    };
    let mut w = ordered(100, rates);
    w.cluster.hosts.clear();
    w.cluster.offers.clear();
    let mut asked = 0;
    w.placement_works = false;
    for _ in 0..20 {
        w.run(Span::millis(50));
        asked += w.questions.len();
        while let Some(problem) = w.questions.pop_front() {
            let (answer, _) = echelon_core_placement::place(&problem);
            w.step(Event::Placed(answer));
            asked += w.questions.len();
            assert!(asked < 50, "it asks again and again");
        }
    }
}
