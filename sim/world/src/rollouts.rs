//! Updates: users bring what runs to new versions, some of which fail, hold rollouts and take them back. In the end every instance runs
//! what is in force, and what failed is rolled back whole.

use crate::client::Asked;
use crate::dice::Die;
use crate::invariants::{Broken, stored, stored_run};
use crate::world::World;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::rollouts::Steer;
use echelon_core_gateway::update::Edit;
use echelon_core_model::Amount;
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::rollout::{RolloutState, UpdatePolicy};
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::{JobId, MemberId, Span};

/// What a failing version does: it ends with status 1 after two seconds.
const FAILS: [(&str, &str); 2] = [("SIM_EXIT_CODE", "1"), ("SIM_RUNTIME_MS", "2000")];

/// Most instances beyond a group's number that a policy allows.
pub(crate) const MOST_SURGE: u32 = 1;

/// Another version of what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewVersion {
    /// Tells versions apart.
    number: u64,
    /// Its runs fail.
    fails: bool,
    /// How it is brought to instances.
    policy: UpdatePolicy,
}

/// What a user does to bring a service to other versions.
pub(crate) fn updates(die: &mut Die) -> Vec<Asked> {
    let mut out = Vec::new();
    for _ in 0..=die.below(2) {
        out.push(Asked::Update(new_version(die)));
        match die.below(6) {
            0 => out.extend([Asked::Steer(Steer::Pause), Asked::Steer(Steer::Resume)]),
            1 => out.push(Asked::Steer(Steer::Abort)),
            2 => out.push(Asked::RollBack),
            _ => {}
        }
        // Canaries never wait for ever.
        out.push(Asked::Steer(Steer::Promote));
    }
    out
}

fn new_version(die: &mut Die) -> NewVersion {
    let policy = UpdatePolicy {
        // Longer than what fails takes to fail.
        min_healthy: die.span(Span::seconds(3), Span::seconds(6)),
        healthy_within: Span::seconds(90),
        canaries: Amount::Count(u32::try_from(die.below(3)).unwrap_or(0)),
        auto_promote: die.chance(500),
        max_surge: Amount::Count(MOST_SURGE.min(u32::from(die.chance(300)))),
        batch: die.chance(200).then_some(Amount::Count(1)),
        ..UpdatePolicy::DEFAULT
    };
    NewVersion {
        number: die.below(1_000_000),
        fails: die.chance(250),
        policy,
    }
}

/// The change of a spec to another version.
pub(crate) fn edit(version: NewVersion) -> impl Edit {
    move |present: &JobSpec| -> Result<(JobSpec, usize), ApiError> {
        let mut spec = present.clone();
        spec.update = version.policy;
        if spec.groups.iter().any(|g| g.volume.is_some()) {
            spec.update.max_surge = Amount::Count(0);
        }
        for group in &mut spec.groups {
            let env = &mut group.runtime.env;
            env.insert("SIM_VERSION".to_owned(), version.number.to_string());
            for (name, value) in FAILS {
                if version.fails {
                    env.insert(name.to_owned(), value.to_owned());
                } else {
                    env.remove(name);
                }
            }
        }
        Ok((spec, 0))
    }
}

impl World {
    /// In the end a rollout is over, all that runs is of the version in force, and that is none that fails.
    pub(crate) fn judge_rollout(&self, job: JobId, head: &Head) -> Option<Broken> {
        head.rollout.filter(|_| head.goal.desired == Desired::Running)?;
        let (_, spec) = self.head_and_spec(job)?;
        let progress = self.progress(job)?.rollout;
        let state = progress.as_ref().map(|p| p.state);
        let lost = |what: String| {
            Some(Broken {
                invariant: 20,
                what: format!("job {job}: {what}"),
            })
        };
        let all = if spec.kind == JobKind::Daemon {
            self.hosts()
        } else {
            spec.instances()
        };
        let short = self.live_instances(job) < all;
        if state == Some(RolloutState::Canary) || (short && state != Some(RolloutState::Done)) {
            return None;
        }
        if !state.is_some_and(RolloutState::is_over) {
            return lost(format!(
                "its rollout is not over: {progress:?}, wanted {:?}",
                head.rollout
            ));
        }
        let fails = |s: &JobSpec| s.groups.iter().any(|g| g.runtime.env.contains_key(FAILS[0].0));
        if fails(&spec) && head.rollout.is_some_and(|r| r.back.is_none()) && spec.instances() > 0 {
            return lost(format!("a version that fails is in force: {progress:?}"));
        }
        self.other_version(job, &spec).and_then(lost)
    }

    /// A live run of another version than that in force.
    fn other_version(&self, job: JobId, spec: &JobSpec) -> Option<String> {
        for c in &self.clusters {
            for (_, task) in c.mesos.live_tasks() {
                let Ok(MemberId { run, .. }) = task.as_str().parse() else {
                    continue;
                };
                if run.instance.job != job {
                    continue;
                }
                let wanted = spec.group(&run.instance.group).map(|g| g.revision);
                let record = stored(self, &c.id, &run.instance);
                let version = record.and_then(|r| stored_run(&r, &run)).map(|r| r.spec_version);
                if version != wanted {
                    return Some(format!(
                        "{run} runs version {version:?} where {wanted:?} is wanted"
                    ));
                }
            }
        }
        None
    }
}
