//! Builders with a default for everything that is not the point of a test.

use echelon_core_model::Amount;
use echelon_core_model::cluster_choice::{ClusterChoice, Spread};
use echelon_core_model::gang::Gang;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::resources::Resources;
use echelon_core_model::rules::{After, Completion, Condition, Restart};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::schedule::Schedule;
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, OnSilence, defaults};
use echelon_core_model::volume::{PersistentVolume, Reclaim};
use echelon_core_model::{GroupName, JobId, SidecarName, Span};

/// A job id from a small number.
#[must_use]
pub const fn job_id(n: u128) -> JobId {
    JobId(n)
}

/// The default group's name.
#[must_use]
pub fn main_group() -> GroupName {
    GroupName::new(GroupName::DEFAULT)
}

/// A shape: whole cores and MiB.
#[must_use]
pub const fn shape(cores: u64, mebibytes: u64) -> Resources {
    Resources {
        cpus: cores * 1000,
        memory: mebibytes,
        disk: 0,
        gpus: 0,
    }
}

/// Builds a job of one group.
#[derive(Debug, Clone)]
pub struct JobBuilder(JobSpec);

impl JobBuilder {
    /// A batch job of `instances` instances of one core and 64 MiB in `/default`.
    #[must_use]
    pub fn batch(name: &str, instances: u32) -> Self {
        Self::new(name, JobKind::Batch, instances)
    }

    /// A service of `instances` instances of one core and 64 MiB in `/default`.
    #[must_use]
    pub fn service(name: &str, instances: u32) -> Self {
        Self::new(name, JobKind::Service, instances)
    }

    /// A daemon of one core and 64 MiB in `/default`.
    #[must_use]
    pub fn daemon(name: &str) -> Self {
        Self::new(name, JobKind::Daemon, 0)
    }

    /// A stateful job of `instances` instances of one core and 64 MiB in `/default`, each with a volume of so many MiB.
    #[must_use]
    pub fn stateful(name: &str, instances: u32, mebibytes: u64) -> Self {
        Self::new(name, JobKind::Stateful, instances).group(|g| {
            g.volume = Some(PersistentVolume {
                path: "data".to_owned(),
                size: mebibytes,
                reclaim: Reclaim::Keep,
                replace_after: None,
            });
        })
    }

    /// With volumes that go with their instances.
    #[must_use]
    pub fn reclaimed(self) -> Self {
        self.group(|g| {
            if let Some(volume) = &mut g.volume {
                volume.reclaim = Reclaim::Delete;
            }
        })
    }

    fn new(name: &str, kind: JobKind, instances: u32) -> Self {
        let group = GroupSpec {
            instances,
            runtime: Runtime::shell("true"),
            resources: shape(1, 64),
            ..GroupSpec::new(main_group(), kind)
        };
        Self(JobSpec {
            groups: vec![group],
            ..JobSpec::new(name, kind)
        })
    }

    /// Changes its group.
    pub fn group(mut self, change: impl FnOnce(&mut GroupSpec)) -> Self {
        if let Some(group) = self.0.groups.first_mut() {
            change(group);
        }
        self
    }

    /// In this pool.
    #[must_use]
    pub fn pool(mut self, path: &str) -> Self {
        path.clone_into(&mut self.0.pool);
        self
    }

    /// At this priority.
    #[must_use]
    pub const fn priority(mut self, priority: u32) -> Self {
        self.0.priority = priority;
        self
    }

    /// On room that hosts lend.
    #[must_use]
    pub const fn revocable(mut self) -> Self {
        self.0.revocable = true;
        self
    }

    /// Never stopped for others.
    #[must_use]
    pub const fn not_preemptible(mut self) -> Self {
        self.0.preemptible = false;
        self
    }

    /// Starts other jobs.
    #[must_use]
    pub const fn controller(mut self) -> Self {
        self.0.controller = true;
        self
    }

    /// What follows when its cluster is silent.
    #[must_use]
    pub const fn on_cluster_loss(mut self, on: OnSilence) -> Self {
        self.0.on_cluster_loss = on;
        self
    }

    /// All instances together or none.
    #[must_use]
    pub fn gang(self) -> Self {
        self.gang_of(Gang::new(defaults::START_WITHIN))
    }

    /// The same, with a time and policy of its own.
    #[must_use]
    pub fn gang_of(mut self, gang: Gang) -> Self {
        self.0.gang = Some(gang);
        self
    }

    /// With another group of as many instances.
    #[must_use]
    pub fn with_group(mut self, name: &str, instances: u32, room: Resources) -> Self {
        if let Some(first) = self.0.groups.first() {
            let other = GroupSpec {
                name: GroupName::new(name),
                instances,
                resources: room,
                ..first.clone()
            };
            self.0.groups.push(other);
        }
        self
    }

    /// Somebody's.
    #[must_use]
    pub fn owner(mut self, owner: &str) -> Self {
        self.0.owner = owner.to_owned();
        self
    }

    /// Spread evenly over all clusters.
    #[must_use]
    pub fn spread(mut self) -> Self {
        self.0.clusters.spread = Spread::Even;
        self
    }

    /// With this choice of clusters.
    #[must_use]
    pub fn clusters(mut self, choice: ClusterChoice) -> Self {
        self.0.clusters = Box::new(choice);
        self
    }

    /// Only on these clusters.
    #[must_use]
    pub fn only(mut self, clusters: &[&str]) -> Self {
        self.0.clusters.only = clusters.iter().map(|c| (*c).to_owned()).collect();
        self
    }

    /// With this shape.
    #[must_use]
    pub fn shape(self, resources: Resources) -> Self {
        self.group(|g| g.resources = resources)
    }

    /// With at most this many active.
    #[must_use]
    pub fn max_running(self, n: u32) -> Self {
        self.group(|g| g.max_running = Some(n))
    }

    /// With this command.
    #[must_use]
    pub fn command(self, command: &str) -> Self {
        self.group(|g| command.clone_into(&mut g.runtime.command))
    }

    /// With this environment variable.
    #[must_use]
    pub fn env(self, name: &str, value: &str) -> Self {
        self.group(|g| {
            g.runtime.env.insert(name.to_owned(), value.to_owned());
        })
    }

    /// With this running beside the main task, in a quarter of a core and 16 MiB.
    #[must_use]
    pub fn sidecar(self, name: &str, runtime: Runtime) -> Self {
        let resources = Resources {
            cpus: 250,
            memory: 16,
            ..Resources::ZERO
        };
        self.group(|g| {
            g.sidecars.push(Sidecar {
                name: SidecarName::new(name),
                runtime,
                resources,
            });
        })
    }

    /// With its runtime changed.
    #[must_use]
    pub fn runtime(self, change: impl FnOnce(&mut Runtime)) -> Self {
        self.group(|g| change(&mut g.runtime))
    }

    /// With this many failed runs allowed.
    #[must_use]
    pub fn retry_limit(self, limit: u32) -> Self {
        self.group(|g| g.retry.limit = limit)
    }

    /// Each run ends after this long.
    #[must_use]
    pub fn max_run(self, span: Span) -> Self {
        self.group(|g| g.max_run = Some(span))
    }

    /// With another policy of what follows the end of a run.
    #[must_use]
    pub fn restart(self, restart: Restart) -> Self {
        self.group(|g| g.restart = restart)
    }

    /// Each run is running after this long, or has failed.
    #[must_use]
    pub fn max_start(self, span: Span) -> Self {
        self.group(|g| g.max_start = Some(span))
    }

    /// Succeeded with so many instances.
    #[must_use]
    pub fn successes(mut self, n: u64) -> Self {
        self.0.rules.completion = Completion::Successes(n);
        self
    }

    /// Failed with more failed instances.
    #[must_use]
    pub fn max_failed(mut self, most: Amount) -> Self {
        self.0.rules.max_failed = Some(most);
        self
    }

    /// Failed if nothing of it begins in time.
    #[must_use]
    pub fn max_wait(mut self, span: Span) -> Self {
        self.0.rules.max_wait = Some(span);
        self
    }

    /// Failed if it does not end in time.
    #[must_use]
    pub fn max_total(mut self, span: Span) -> Self {
        self.0.rules.max_total = Some(span);
        self
    }

    /// Begins when another job has come to this.
    #[must_use]
    pub fn after(mut self, job: JobId, condition: Condition) -> Self {
        self.0.rules.after.push(After {
            job: job.to_string(),
            id: Some(job),
            condition,
        });
        self
    }

    /// Its record goes so long after its end.
    #[must_use]
    pub fn keep(mut self, span: Span) -> Self {
        self.0.rules.keep = Some(span);
        self
    }

    /// A template: jobs are made of it at the times of a schedule.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.0.rules.schedule = Some(schedule);
        self
    }

    /// With this many unavailable at once in a restart.
    #[must_use]
    pub fn max_unavailable(self, n: u32) -> Self {
        self.group(|g| g.max_unavailable = Amount::Count(n))
    }

    /// With this part of its instances that restarts may make unavailable.
    #[must_use]
    pub fn max_unavailable_of(self, part: Amount) -> Self {
        self.group(|g| g.max_unavailable = part)
    }

    /// With this change of what its instances want of hosts and of each other.
    #[must_use]
    pub fn siting(self, change: impl FnOnce(&mut Siting)) -> Self {
        self.group(|g| change(&mut g.siting))
    }

    /// The spec.
    #[must_use]
    pub fn build(self) -> JobSpec {
        self.0
    }
}
