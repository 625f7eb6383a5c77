//! The start lease: may an instance that has not begun be given to another cluster while its
//! silent shard lives? All states of a model are enumerated, with the protocol of
//! `docs/decisions/start-lease.md`, and then without one of its rules at a time.
//!
//! The model has one instance, cluster A with two leaders of its shard, one after the other, any other cluster B,
//! and two resource managers, one after the other. Storage is linearizable. Time is in one rule only: when a
//! manager has seen no new heartbeat for 60 s, every lease that rests on a heartbeat which it has seen has
//! lapsed. All else may happen at any moment, in any order, or never.
//!
//! `core/shard/src/start_lease.rs` and `core/resource-manager/src/returns/start_bans.rs` say where each rule is in the
//! code, and `docs/decisions/start-lease.md` which test of the code holds it.
//!
//! Broken is: the instance was launched at A, and was assigned to B by a move that saw no intent of A.
#![cfg(test)]

use std::collections::{BTreeSet, VecDeque};

/// Heartbeats that A may make durable.
const HEARTBEATS: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// The manager looks at the heartbeat again after the row that forbids starts is durable.
    SecondLook,
    /// A shard with a lapsed lease reads that row after its heartbeat is durable, and not before.
    HeartbeatThenRead,
    /// A shard begins nothing while that row stands.
    ObeyRow,
    /// The lease is looked at when the launch leaves, and not only when the intent is written.
    LeaseAtLaunch,
    /// Writes of a manager fail once a newer one has raised the epochs.
    Fence,
    /// A new leader of the shard begins with a lapsed lease.
    NewLeaderLapsed,
    /// A start without the lease follows a launch that has left. A stored intent is not enough.
    RestartAfterLaunch,
}

const RULES: [Rule; 7] = [
    Rule::SecondLook,
    Rule::HeartbeatThenRead,
    Rule::ObeyRow,
    Rule::LeaseAtLaunch,
    Rule::Fence,
    Rule::NewLeaderLapsed,
    Rule::RestartAfterLaunch,
];

/// The protocol, without one rule or with all of them.
#[derive(Debug, Clone, Copy)]
struct Protocol {
    without: Option<Rule>,
}

impl Protocol {
    fn has(self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

/// A leader of A's shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Leader {
    alive: bool,
    /// Number of the heartbeat that the lease rests on; `None`: it has lapsed.
    lease: Option<u8>,
    /// A heartbeat that was sent and not answered.
    sent: Option<u8>,
    is_durable: bool,
    /// What it read too early, where that is allowed: whether it may begin the instance.
    read_early: Option<bool>,
    /// It has read since its lease lapsed that it may begin the instance.
    may_begin: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Idle,
    Forbidden,
    LookedAgain,
    Read,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Manager {
    alive: bool,
    step: Step,
    /// The heartbeat that it saw last.
    seen: u8,
    /// It read an intent among the instances of A.
    saw_intent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Intent {
    None,
    Sent,
    Durable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    /// The heartbeat that is durable.
    heartbeat: u8,
    starts_forbidden: bool,
    is_at_b: bool,
    intent: Intent,
    launched: bool,
    leaders: [Leader; 2],
    shard_epoch: usize,
    managers: [Manager; 2],
    epoch: usize,
}

impl State {
    fn first() -> Self {
        let leader = Leader {
            alive: true,
            lease: Some(1),
            sent: None,
            is_durable: false,
            read_early: None,
            may_begin: true,
        };
        let manager = Manager {
            alive: true,
            step: Step::Idle,
            seen: 1,
            saw_intent: false,
        };
        Self {
            heartbeat: 1,
            starts_forbidden: false,
            is_at_b: false,
            intent: Intent::None,
            launched: false,
            leaders: [
                leader,
                Leader {
                    alive: false,
                    lease: None,
                    may_begin: false,
                    ..leader
                },
            ],
            shard_epoch: 0,
            managers: [
                manager,
                Manager {
                    alive: false,
                    seen: 0,
                    ..manager
                },
            ],
            epoch: 0,
        }
    }

    fn is_broken(&self) -> bool {
        self.launched && self.is_at_b
    }

    fn with_leader(mut self, i: usize, leader: Leader) -> Self {
        self.leaders[i] = leader;
        self
    }

    fn with_manager(mut self, i: usize, manager: Manager) -> Self {
        self.managers[i] = manager;
        self
    }

    fn next(&self, protocol: Protocol) -> Vec<Self> {
        let mut out = Vec::new();
        for i in [0, 1] {
            self.heartbeats_of(i, &mut out);
            self.reads_of(i, protocol, &mut out);
            self.starts_of(i, protocol, &mut out);
            self.moves_of(i, protocol, &mut out);
        }
        if self.shard_epoch == 0 {
            let is_lapsed = protocol.has(Rule::NewLeaderLapsed);
            let fresh = Leader {
                alive: true,
                lease: (!is_lapsed).then_some(self.heartbeat),
                may_begin: !is_lapsed,
                ..self.leaders[1]
            };
            let led = Self {
                shard_epoch: 1,
                ..*self
            };
            out.push(led.with_leader(1, fresh));
        }
        if self.epoch == 0 {
            let fresh = Manager {
                alive: true,
                seen: self.heartbeat,
                ..self.managers[1]
            };
            let led = Self { epoch: 1, ..*self };
            out.push(led.with_manager(1, fresh));
        }
        out
    }

    /// The lease lapses; heartbeats are sent, become durable, and are confirmed in time or too late.
    fn heartbeats_of(&self, i: usize, out: &mut Vec<Self>) {
        let me = self.leaders[i];
        if !me.alive {
            return;
        }
        if me.lease.is_some() {
            let lapsed = Leader {
                lease: None,
                may_begin: false,
                read_early: None,
                ..me
            };
            out.push(self.with_leader(i, lapsed));
        }
        let Some(sent) = me.sent else {
            if self.heartbeat < HEARTBEATS {
                let sent = Some(self.heartbeat + 1);
                out.push(self.with_leader(i, Leader { sent, ..me }));
            }
            return;
        };
        let idle = Leader {
            sent: None,
            is_durable: false,
            ..me
        };
        out.push(self.with_leader(i, idle));
        if me.is_durable {
            let lease = Some(sent);
            out.push(self.with_leader(i, Leader { lease, ..idle }));
        } else if self.shard_epoch == i {
            let stored = Self {
                heartbeat: self.heartbeat.max(sent),
                ..*self
            };
            out.push(stored.with_leader(
                i,
                Leader {
                    is_durable: true,
                    ..me
                },
            ));
        }
    }

    /// It reads whether starts are forbidden, and whether the instance is still A's.
    fn reads_of(&self, i: usize, protocol: Protocol, out: &mut Vec<Self>) {
        let me = self.leaders[i];
        if !me.alive || me.may_begin {
            return;
        }
        let is_free = !self.starts_forbidden || !protocol.has(Rule::ObeyRow);
        let may_begin = is_free && !self.is_at_b;
        if protocol.has(Rule::HeartbeatThenRead) {
            if me.lease.is_some() {
                out.push(self.with_leader(i, Leader { may_begin, ..me }));
            }
            return;
        }
        let read_early = Some(may_begin);
        out.push(self.with_leader(i, Leader { read_early, ..me }));
        if me.lease.is_some() && me.read_early == Some(true) {
            out.push(self.with_leader(
                i,
                Leader {
                    may_begin: true,
                    ..me
                },
            ));
        }
    }

    /// It writes its intent, launches, and restarts what has begun.
    fn starts_of(&self, i: usize, protocol: Protocol, out: &mut Vec<Self>) {
        let me = self.leaders[i];
        if !me.alive || self.shard_epoch != i {
            return;
        }
        let holds = me.lease.is_some() && me.may_begin;
        let intent = match self.intent {
            Intent::None if holds => Some(Intent::Sent),
            Intent::Sent => Some(Intent::Durable),
            Intent::None | Intent::Durable => None,
        };
        out.extend(intent.map(|intent| Self { intent, ..*self }));
        let may_launch = holds || !protocol.has(Rule::LeaseAtLaunch);
        let may_restart = self.launched || !protocol.has(Rule::RestartAfterLaunch);
        if self.intent == Intent::Durable && (may_launch || may_restart) {
            out.push(Self {
                launched: true,
                ..*self
            });
        }
    }

    /// The manager forbids starts, looks again, reads the instances of A, and assigns this one to B.
    fn moves_of(&self, i: usize, protocol: Protocol, out: &mut Vec<Self>) {
        let me = self.managers[i];
        if !me.alive {
            return;
        }
        let may_write = self.epoch == i || !protocol.has(Rule::Fence);
        let step = |step: Step| self.with_manager(i, Manager { step, ..me });
        let seen = self.with_manager(
            i,
            Manager {
                step: Step::Idle,
                seen: self.heartbeat,
                ..me
            },
        );
        let withdrawn = Self {
            starts_forbidden: false,
            ..seen
        };
        match me.step {
            Step::Idle => {
                if me.seen != self.heartbeat {
                    out.push(seen);
                    out.extend((self.starts_forbidden && may_write).then_some(withdrawn));
                }
                // 60 s without a new heartbeat are over.
                let lapsed = |of: &Leader| !of.alive || of.lease.is_none_or(|on| on > me.seen);
                if self.leaders.iter().all(lapsed) && !self.is_at_b && may_write {
                    out.push(Self {
                        starts_forbidden: true,
                        ..step(Step::Forbidden)
                    });
                }
            }
            Step::Forbidden if protocol.has(Rule::SecondLook) && self.heartbeat != me.seen => {
                out.push(if may_write { withdrawn } else { seen });
            }
            Step::Forbidden => out.push(step(Step::LookedAgain)),
            Step::LookedAgain => {
                let saw_intent = self.intent == Intent::Durable;
                let read = Manager {
                    step: Step::Read,
                    saw_intent,
                    ..me
                };
                out.push(self.with_manager(i, read));
            }
            Step::Read => {
                if may_write && !me.saw_intent {
                    out.push(Self {
                        is_at_b: true,
                        ..step(Step::Idle)
                    });
                }
                out.push(step(Step::Idle));
            }
        }
    }
}

/// Whether a broken state can be reached, and how many states were looked at.
fn search(protocol: Protocol) -> (bool, usize) {
    let mut known = BTreeSet::from([State::first()]);
    let mut open = VecDeque::from([State::first()]);
    while let Some(state) = open.pop_front() {
        if state.is_broken() {
            return (true, known.len());
        }
        for next in state.next(protocol) {
            if known.insert(next) {
                open.push_back(next);
            }
        }
    }
    (false, known.len())
}

#[test]
fn with_all_rules_no_instance_begins_twice() {
    let (is_broken, states) = search(Protocol { without: None });
    assert!(!is_broken);
    assert!(states > 10_000, "the model is too small: {states} states");
}

#[test]
fn each_rule_is_needed() {
    for rule in RULES {
        let (is_broken, states) = search(Protocol { without: Some(rule) });
        assert!(is_broken, "safe without {rule:?} in {states} states");
    }
}
