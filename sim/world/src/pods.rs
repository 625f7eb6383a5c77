//! Jobs with sidecars, and what must be true of their tasks in the end.

use crate::dice::Die;
use crate::invariants::{Broken, stored, stored_run};
use crate::mesos::ClusterWorld;
use crate::world::World;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::{MemberId, Resources, Span, TaskId};
use echelon_core_testkit::build::JobBuilder;
use std::collections::{BTreeMap, BTreeSet};

/// Gives a job one or two sidecars. Most run as long as the main task, some end well before it; some fail, but not those of a
/// service, which would be tried again for ever.
pub(crate) fn with_sidecars(mut job: JobBuilder, is_service: bool, die: &mut Die) -> JobBuilder {
    for n in 0..=die.below(2) {
        let mut runtime = Runtime::shell("sleep 3600");
        if die.chance(300) {
            let ends = die.span(Span::seconds(1), Span::seconds(60));
            runtime
                .env
                .insert("SIM_RUNTIME_MS".to_owned(), ends.0.to_string());
            if !is_service && die.chance(400) {
                runtime.env.insert("SIM_EXIT_CODE".to_owned(), "3".to_owned());
            }
        }
        job = job.sidecar(&format!("side{n}"), runtime);
    }
    let whole = job
        .clone()
        .build()
        .groups
        .iter()
        .fold(Resources::ZERO, |sum, g| sum.plus(g.room()));
    // A whole pod takes a core, as an instance of any other job does: what the world's users want fits into its hosts.
    let beside = whole.cpus.saturating_sub(CORE);
    job.shape(Resources {
        cpus: CORE - beside,
        memory: 64,
        ..Resources::ZERO
    })
}

/// What the main task takes before it is a pod's.
const CORE: u64 = 1000;

impl World {
    /// In the end what lives of pods is what is stored of them: no member outlives its run, and none is missing.
    pub(crate) fn judge_members(&self, c: &ClusterWorld) -> Option<Broken> {
        let mut live: BTreeMap<TaskId, BTreeSet<MemberId>> = BTreeMap::new();
        for (_, task) in c.mesos.live_tasks() {
            if let Ok(member) = task.as_str().parse::<MemberId>() {
                live.entry(member.run.clone()).or_default().insert(member);
            }
        }
        live.into_iter().find_map(|(task, members)| {
            let record = stored(self, &c.id, &task.instance)?;
            let run = stored_run(&record, &task).filter(|r| !r.members.is_empty())?;
            let known: BTreeSet<MemberId> = run.tasks(task.instance.clone()).into_iter().collect();
            (run.state.is_ended() || known != members).then(|| Broken {
                invariant: 3,
                what: format!(
                    "{task} is stored as {} with {known:?}, of it live {members:?}",
                    run.state
                ),
            })
        })
    }
}
