//! Random histories against a model of a master that is strict: it knows which offers are open and what each host has.

use super::views::Kept;
use super::{at, demand as wish, disconnected, launch, offer, subscribed, task, update};
use crate::{Call, Config, Event, Hosts, OfferId, TaskState};
use echelon_core_model::{HostId, Resources, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// The master offers all free room of a host.
    Offer(usize),
    /// The last offers are told once more.
    Repeat,
    /// The shard launches tasks of this size.
    Launch { host: usize, count: u32, cores: u64 },
    /// The master takes an offer back.
    Rescind(usize),
    /// A task ends; its end is told at once, or only after its room was offered (R97).
    End { task: usize, told_late: bool },
    /// The agent of a host is lost, or back.
    Lose(usize),
    /// The stream breaks, and is there again.
    Reconnect,
    /// Time passes with or without demand.
    Wait { seconds: u64, demand: bool },
    /// The next call does not arrive.
    LoseCall { refused: bool },
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3usize).prop_map(Step::Offer),
        1 => Just(Step::Repeat),
        4 => (0..3usize, 1..4u32, 1..4u64).prop_map(|(host, count, cores)| Step::Launch { host, count, cores }),
        1 => (0..4usize).prop_map(Step::Rescind),
        2 => (0..6usize, any::<bool>()).prop_map(|(task, told_late)| Step::End { task, told_late }),
        1 => (0..3usize).prop_map(Step::Lose),
        1 => Just(Step::Reconnect),
        2 => (0..12u64, any::<bool>()).prop_map(|(seconds, demand)| Step::Wait { seconds, demand }),
        1 => any::<bool>().prop_map(|refused| Step::LoseCall { refused }),
    ]
}

const NAMES: [&str; 3] = ["h0", "h1", "h2"];

fn total(host: usize) -> Resources {
    echelon_core_testkit::build::shape(4 + host as u64, 400)
}

struct Open {
    host: usize,
    resources: Resources,
}

struct Play {
    hosts: Hosts,
    now: Timestamp,
    open: BTreeMap<OfferId, Open>,
    used_ever: BTreeSet<OfferId>,
    tasks: BTreeMap<u32, (usize, Resources)>,
    /// Ended at the agent, not yet told.
    untold: Vec<(u32, usize)>,
    last_offers: Event,
    next: u32,
    lose_next: Option<bool>,
    kept: Kept,
}

impl Play {
    fn new() -> Self {
        let mut hosts = Hosts::new(Config::usual());
        hosts.on_event(&subscribed(), at(0));
        Self {
            hosts,
            now: at(0),
            open: BTreeMap::new(),
            used_ever: BTreeSet::new(),
            tasks: BTreeMap::new(),
            untold: Vec::new(),
            last_offers: Event::Heartbeat,
            next: 0,
            lose_next: None,
            kept: Kept::default(),
        }
    }

    fn hear(&mut self, event: &Event) {
        self.hosts.on_event(event, self.now);
    }

    /// What nobody has: neither a task nor an open offer.
    fn unoffered(&self, host: usize) -> Resources {
        let offers = self.open.values().filter(|o| o.host == host).map(|o| o.resources);
        let tasks = self.tasks.values().filter(|(h, _)| *h == host).map(|(_, r)| *r);
        offers.chain(tasks).fold(total(host), Resources::minus)
    }

    fn offer(&mut self, host: usize) {
        let room = self.unoffered(host);
        if room.cpus == 0 || room.memory == 0 {
            return;
        }
        self.next += 1;
        let new = offer(&format!("o{}", self.next), NAMES[host], room);
        self.open.insert(
            new.id.clone(),
            Open {
                host,
                resources: room,
            },
        );
        self.last_offers = Event::Offers(vec![new]);
        let event = self.last_offers.clone();
        self.hear(&event);
    }

    fn perform(&mut self, call: &Call) {
        if let Some(refused) = self.lose_next.take() {
            let why = "lost".to_owned();
            return self.hear(&Event::CallFailed {
                call: call.clone(),
                why,
                refused,
            });
        }
        match call {
            Call::Accept {
                offers,
                host,
                launches,
                ..
            } => {
                let mut room = Resources::ZERO;
                for id in offers {
                    assert!(self.used_ever.insert(id.clone()), "{id} is used twice");
                    let open = self.open.remove(id).unwrap_or_else(|| panic!("{id} is not open"));
                    assert_eq!(NAMES[open.host], host.as_str());
                    room = room.plus(open.resources);
                }
                for l in launches {
                    assert!(l.resources.fits(room), "more than was offered");
                    room = room.minus(l.resources);
                    let on = NAMES.iter().position(|n| *n == host.as_str()).unwrap();
                    self.tasks.insert(l.task.instance.number.0, (on, l.resources));
                }
            }
            // Unknown offers are ignored (R42).
            Call::Decline { offers, .. } => offers.iter().for_each(|id| {
                self.open.remove(id);
            }),
            Call::Revive | Call::Suppress => {}
            other => panic!("{other:?} is the shard's to say"),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Offer(host) => self.offer(*host),
            Step::Repeat => {
                let again = self.last_offers.clone();
                self.hear(&again);
            }
            Step::Launch { host, count, cores } => self.launch(*host, *count, *cores),
            Step::Rescind(n) => {
                if let Some(id) = self.open.keys().nth(*n).cloned() {
                    self.open.remove(&id);
                    self.hear(&Event::Rescind(id));
                }
            }
            Step::End { task, told_late } => {
                if let Some((n, (host, _))) = self.tasks.iter().nth(*task).map(|(n, t)| (*n, *t)) {
                    self.tasks.remove(&n);
                    self.untold.push((n, host));
                    if *told_late {
                        self.offer(host);
                    }
                }
                for (n, host) in std::mem::take(&mut self.untold) {
                    self.hear(&update(n, NAMES[host], TaskState::Finished));
                }
            }
            Step::Lose(host) => {
                let lost = Event::Failure {
                    host: Some(HostId::new(NAMES[*host])),
                    executor: None,
                };
                self.hear(&lost);
            }
            Step::Reconnect => {
                self.hear(&disconnected());
                assert_eq!(self.hosts.open_offers(), 0);
                self.open.clear();
                self.last_offers = Event::Heartbeat;
                self.hear(&subscribed());
            }
            Step::Wait { seconds, demand } => self.wait(*seconds, *demand),
            Step::LoseCall { refused } => self.lose_next = Some(*refused),
        }
    }

    fn launch(&mut self, host: usize, count: u32, cores: u64) {
        let shape = echelon_core_testkit::build::shape(cores, 50);
        let first = self.next + 1;
        self.next += count;
        let launches = (first..first + count).map(|n| launch(n, shape)).collect();
        if let Some(call) = self.hosts.accept(&HostId::new(NAMES[host]), launches, self.now) {
            self.perform(&call);
            let in_doubt = (first..first + count).filter(|n| !self.tasks.contains_key(n));
            // Of a lost ACCEPT the shard learns by reconciliation that nothing runs.
            in_doubt.for_each(|n| self.hosts.release(&task(n), self.now));
        }
    }

    fn wait(&mut self, seconds: u64, demand: bool) {
        for _ in 0..=seconds {
            for call in self.hosts.next_calls(wish(demand), self.now) {
                self.perform(&call);
            }
            self.now = Timestamp(self.now.0 + 1000);
        }
    }

    fn check(&mut self) {
        self.kept.renew(&mut self.hosts, self.now);
        for view in self.hosts.views(self.now) {
            let host = NAMES.iter().position(|n| *n == view.id.as_str()).unwrap();
            let open = self.open.values().filter(|o| o.host == host);
            let offered = open.fold(Resources::ZERO, |sum, o| sum.plus(o.resources));
            assert!(
                view.free.fits(offered),
                "{}: room that the master does not offer",
                view.id
            );
            assert!(
                view.free.plus(view.used).fits(total(host)),
                "{}: room counted twice",
                view.id
            );
            assert!(view.capacity.fits(total(host)), "{}: larger than it is", view.id);
            let tasks = self.tasks.values().filter(|(h, _)| *h == host);
            let used = tasks.fold(Resources::ZERO, |sum, (_, r)| sum.plus(*r));
            assert_eq!(view.used, used, "{}", view.id);
        }
        assert!(self.hosts.open_offers() <= self.open.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_offer_leaks_none_is_used_twice_and_no_room_is_counted_twice(
        steps in prop::collection::vec(a_step(), 0..60)
    ) {
        let mut play = Play::new();
        for step in &steps {
            play.step(step);
            play.check();
        }
        // In the end, when no call is lost any more, an idle shard holds nothing of the cluster.
        play.lose_next = None;
        play.wait(30, false);
        prop_assert_eq!(play.hosts.open_offers(), 0);
        prop_assert!(play.open.is_empty(), "offers that nobody gives back");
        prop_assert!(play.hosts.next_wake(wish(false), play.now).unwrap() > play.now);
    }
}
