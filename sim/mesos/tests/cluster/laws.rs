//! What holds whatever happens: nothing is given twice, nothing is lost, and the same seed tells the same story.

use crate::framework::{World, amount, task_info};
use crate::operations::{create, destroy, named, reserve, reserved, scalar, shared, unreserve, volume};
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_sim_mesos::Tasks;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// One thing that a framework or fate does.
#[derive(Debug, Clone)]
enum Step {
    Launch { n_tasks: usize, runtime_ms: u64 },
    Kill { task: usize },
    Decline,
    Revive,
    Resubscribe,
    HangUp,
    Stop { agent: usize, die: bool },
    Start { agent: usize },
    Cut { agent: usize },
    Heal { agent: usize },
    Operate { which: usize, amount: u8, id: bool },
    Drain { agent: usize },
    Reactivate { agent: usize },
    Limit { cpus: u8 },
    FailOver,
    Wait { ms: u64 },
}

const AGENTS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let agent = 0..AGENTS;
    prop_oneof![
        4 => (1..4usize, 100..30_000u64).prop_map(|(n_tasks, runtime_ms)| Step::Launch { n_tasks, runtime_ms }),
        2 => (0..40usize).prop_map(|task| Step::Kill { task }),
        1 => Just(Step::Decline),
        1 => Just(Step::Revive),
        1 => Just(Step::Resubscribe),
        1 => Just(Step::HangUp),
        1 => (agent.clone(), any::<bool>()).prop_map(|(agent, die)| Step::Stop { agent, die }),
        2 => agent.clone().prop_map(|agent| Step::Start { agent }),
        1 => agent.clone().prop_map(|agent| Step::Cut { agent }),
        2 => agent.clone().prop_map(|agent| Step::Heal { agent }),
        4 => (0..6usize, 1..5u8, any::<bool>()).prop_map(|(which, amount, id)| Step::Operate { which, amount, id }),
        1 => agent.clone().prop_map(|agent| Step::Drain { agent }),
        1 => agent.prop_map(|agent| Step::Reactivate { agent }),
        1 => (0..12u8).prop_map(|cpus| Step::Limit { cpus }),
        1 => Just(Step::FailOver),
        6 => (1..20_000u64).prop_map(|ms| Step::Wait { ms }),
    ]
}

struct Run {
    world: World,
    launched: Vec<String>,
}

impl Run {
    fn of(steps: &[Step]) -> Self {
        let mut run = Self {
            world: World::new(AGENTS),
            launched: Vec::new(),
        };
        for step in steps {
            run.perform(step);
            run.world.take();
            run.check();
        }
        run
    }

    fn perform(&mut self, step: &Step) {
        let world = &mut self.world;
        match step {
            Step::Launch { n_tasks, runtime_ms } => self.launch(*n_tasks, Span(*runtime_ms)),
            Step::Kill { task } => {
                if let (Some(task), true) = (self.launched.get(*task), world.stream.is_some()) {
                    let kill = Some(call::Kill {
                        task_id: echelon_sim_mesos::TaskId::new(task).proto(),
                        ..Default::default()
                    });
                    world.call(
                        call::Type::Kill,
                        Call {
                            kill,
                            ..Default::default()
                        },
                    );
                }
            }
            Step::Decline => {
                let offer_ids = world.offers.drain(..).map(|offer| offer.id).collect();
                let decline = Some(call::Decline {
                    offer_ids,
                    ..Default::default()
                });
                world.call(
                    call::Type::Decline,
                    Call {
                        decline,
                        ..Default::default()
                    },
                );
            }
            Step::Revive => drop(world.call(call::Type::Revive, Call::default())),
            Step::Resubscribe => drop(world.subscribe()),
            Step::HangUp => {
                if let Some(stream) = world.stream.take() {
                    world.offers.clear();
                    world.cluster.close_stream(&stream, world.now);
                }
            }
            Step::Stop { agent, die } => {
                let tasks = if *die { Tasks::Die } else { Tasks::Live };
                world.cluster.stop_agent(&world.agents[*agent], tasks, world.now);
            }
            Step::Start { agent } => drop(world.cluster.start_agent(&world.agents[*agent], world.now)),
            Step::Cut { agent } => drop(world.cluster.cut_agent(&world.agents[*agent], world.now)),
            Step::Heal { agent } => drop(world.cluster.heal_agent(&world.agents[*agent], world.now)),
            Step::Operate { which, amount, id } => self.operate(*which, *amount, *id),
            Step::Drain { agent } => {
                world
                    .cluster
                    .drain_agent(&world.agents[*agent], None, false, world.now);
            }
            Step::Reactivate { agent } => {
                world.cluster.reactivate_agent(&world.agents[*agent], world.now);
            }
            Step::Limit { cpus } => {
                let limits = (*cpus > 0).then(|| ("cpus".to_owned(), f64::from(*cpus)));
                world
                    .cluster
                    .set_quota("r", &limits.into_iter().collect(), world.now);
            }
            Step::FailOver => world.cluster.fail_over(Span::seconds(1), world.now),
            Step::Wait { ms } => world.pass(Span(*ms)),
        }
    }

    fn launch(&mut self, n_tasks: usize, runtime: Span) {
        let Some(offer) = self.world.offers.pop() else {
            return;
        };
        let names: Vec<String> = (0..n_tasks)
            .map(|n| format!("t{}", self.launched.len() + n))
            .collect();
        let tasks = names
            .iter()
            .map(|name| task_info(name, &offer, runtime))
            .collect();
        if self.world.accept(&offer, tasks).is_success() {
            self.launched.extend(names);
        }
    }

    /// Some operation on an open offer; many are refused, which must harm nothing either.
    fn operate(&mut self, which: usize, amount: u8, id: bool) {
        let Some(offer) = self.world.offers.pop() else {
            return;
        };
        let size = f64::from(amount);
        let disk = || reserved(scalar("disk", size), &["r"]);
        let name = format!("v{amount}");
        let mut operation = match which {
            0 => reserve(reserved(scalar("cpus", size), &["r"])),
            1 => unreserve(reserved(scalar("cpus", size), &["r"])),
            2 => reserve(disk()),
            3 => create(volume(&name, size)),
            4 => create(shared(volume(&name, size))),
            _ => destroy(if id {
                volume(&name, size)
            } else {
                shared(volume(&name, size))
            }),
        };
        if id {
            operation = named(&format!("op-{}", self.world.events.len()), operation);
        }
        self.world.accept_operations(&[offer], vec![operation]);
    }

    /// No agent has given more than it has: offers, tasks and what is free add up.
    fn check(&self) {
        let response = self.world.cluster.get_state();
        let state = response.get_state.unwrap();
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for task in &state.get_tasks.as_ref().unwrap().tasks {
            if !is_over(task.state()) {
                *used.entry(task.agent_id.value.clone()).or_default() += amount(&task.resources, "cpus");
            }
        }
        for agent in &state.get_agents.as_ref().unwrap().agents {
            let id = &agent.agent_info.id.as_ref().unwrap().value;
            let allocated = amount(&agent.allocated_resources, "cpus");
            assert_eq!(allocated, used.get(id).copied().unwrap_or_default(), "{id}");
            assert!(
                allocated + amount(&agent.offered_resources, "cpus") <= 4000,
                "{id} is over-committed"
            );
            let total = |name| amount(&agent.total_resources, name);
            assert_eq!((total("cpus"), total("disk")), (4000, 1_000_000), "{id}");
        }
    }

    /// All faults stop; the framework listens; long enough passes.
    fn settle(&mut self) {
        self.world.pass(Span::seconds(5));
        self.world
            .cluster
            .set_quota("r", &BTreeMap::new(), self.world.now);
        for agent in self.world.agents.clone() {
            self.world.cluster.reactivate_agent(&agent, self.world.now);
            self.world.cluster.heal_agent(&agent, self.world.now);
            self.world.cluster.start_agent(&agent, self.world.now);
            self.world.take();
        }
        self.world.subscribe();
        self.world.pass(Span::minutes(30));
        self.world.call(call::Type::Revive, Call::default());
        self.world.pass(Span::seconds(2));
        self.check();
    }
}

fn is_over(state: TaskState) -> bool {
    !matches!(
        state,
        TaskState::TaskStaging | TaskState::TaskStarting | TaskState::TaskRunning | TaskState::TaskKilling
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn resources_are_neither_lost_nor_given_twice(steps in prop::collection::vec(step(), 0..60)) {
        let mut run = Run::of(&steps);
        run.settle();
        // Every task lives half a minute at most: all is free again and offered, all is acknowledged.
        let offered: u64 = run.world.offers.iter().map(|offer| amount(&offer.resources, "cpus")).sum();
        prop_assert_eq!(offered, 4000 * AGENTS as u64);
        let id = run.world.id.clone().unwrap();
        prop_assert_eq!(run.world.cluster.n_tasks(&id), 0);
    }

    #[test]
    fn updates_with_a_uuid_keep_their_order(steps in prop::collection::vec(step(), 0..60)) {
        let mut run = Run::of(&steps);
        run.settle();
        let mut ended: BTreeSet<String> = BTreeSet::new();
        let mut last: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for status in run.world.updates.iter().filter(|status| status.uuid.is_some()) {
            let (task, uuid) = (status.task_id.value.clone(), status.uuid.clone().unwrap());
            let again = last.insert(task.clone(), uuid.clone()) == Some(uuid);
            prop_assert!(again || !ended.contains(&task), "{task} goes on after its end: {status:?}");
            if is_over(status.state()) {
                ended.insert(task);
            }
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_outputs(steps in prop::collection::vec(step(), 0..30)) {
        prop_assert_eq!(Run::of(&steps).world.trace, Run::of(&steps).world.trace);
    }
}

#[test]
fn twenty_thousand_tasks_run_and_end() {
    let mut world = World::new(500);
    let (mut n_launched, mut n_rounds) = (0, 0);
    while n_launched < 20_000 {
        for offer in std::mem::take(&mut world.offers) {
            let n_tasks = amount(&offer.resources, "cpus") / 1000;
            let tasks =
                (0..n_tasks).map(|n| task_info(&format!("t{}", n_launched + n), &offer, Span::millis(500)));
            let tasks: Vec<_> = tasks.collect();
            n_launched += n_tasks;
            assert_eq!(world.accept(&offer, tasks).status, 202);
        }
        world.trace.clear();
        world.events.clear();
        world.pass(Span::seconds(1));
        n_rounds += 1;
        assert!(n_rounds < 1000, "only {n_launched} tasks were launched");
    }
    world.pass(Span::seconds(5));
    let n_finished = world
        .updates
        .iter()
        .filter(|status| status.state() == TaskState::TaskFinished)
        .count();
    assert_eq!(n_finished as u64, n_launched);
    println!("{n_launched} tasks in {n_rounds} rounds");
}
