//! The shape of a job file. Fields that stand in several places are named once: those of a group also stand at the top of a file with one
//! group, those of a task in groups and sidecars. Values keep their text and are judged in `spec.rs` and its neighbours.

use super::form::{Completion, HostPool, Kind, Part, Restart, Silence, Time, Truth, Whole};
use super::parts_file::{
    AfterFile, ClustersFile, GangFile, OverrideFile, PersistentVolumeFile, ResourcesFile, RetryFile,
    ScheduleFile, UpdateFile,
};
use super::runtime_file::{ContainerFile, HealthFile, PortFile, ProbeFile, SecretFile, UriFile};
use super::scalar::Scalar;
use super::shape::shapes;
use super::siting_file::{AffinityFile, ConstraintFile, PreferenceFile};
use std::collections::BTreeMap;

/// Makes the shapes of jobs, groups and sidecars out of lists of fields. All fields but a sidecar's name may be left out.
macro_rules! with_shared_fields {
    (
        job { $($(#[$job_meta:meta])* $job:ident: $job_type:ty,)* }
        group { $($(#[$group_meta:meta])* $group:ident: $group_type:ty,)* }
        task { $($(#[$task_meta:meta])* $task:ident: $task_type:ty,)* }
        sidecar { $($(#[$side_meta:meta])* $side:ident: $side_type:ty,)* }
    ) => {
        shapes! {
            /// A job file.
            JobFile {
                $($(#[$job_meta])* $job: $job_type,)*
                $($(#[$group_meta])* $group: $group_type,)*
                $($(#[$task_meta])* $task: $task_type,)*
            }

            /// A group: instances of one shape.
            GroupFile {
                $($(#[$group_meta])* $group: $group_type,)*
                $($(#[$task_meta])* $task: $task_type,)*
            }

            /// A container that runs beside the main task of each instance.
            SidecarFile {
                $($(#[$side_meta])* $side: $side_type,)*
                $($(#[$task_meta])* $task: $task_type,)*
            }
        }

        impl JobFile {
            /// Takes out the fields of a group that stand at the top.
            pub fn take_group(&mut self) -> GroupFile {
                GroupFile {
                    $($group: self.$group.take(),)*
                    $($task: self.$task.take(),)*
                }
            }

            /// Puts the fields of a group at the top.
            pub fn with_group(self, of: GroupFile) -> Self {
                Self {
                    $($group: of.$group,)*
                    $($task: of.$task,)*
                    ..self
                }
            }
        }

        impl SidecarFile {
            /// Takes out what a group's own task has as well: a group without its other fields.
            pub fn take_task(&mut self) -> GroupFile {
                GroupFile {
                    $($task: self.$task.take(),)*
                    ..GroupFile::default()
                }
            }

            /// A sidecar with the task of a group.
            pub fn new(name: Scalar, of: GroupFile) -> Self {
                Self { name, $($task: of.$task,)* }
            }
        }
    };
}

with_shared_fields! {
    job {
        /// Unique among jobs that have not ended: 1 to 63 of `a-z`, `0-9` and `-`, not at the ends. Commands take it or the id.
        #[schemars(required)]
        name: Option<Scalar>,
        /// Path of a leaf of the pool tree.
        pool: Option<Scalar>,
        /// `batch`: each instance runs to success or until its retries are used up; `service`: each runs until it is stopped; `stateful`: the
        /// same, with a volume that outlives runs; `daemon`: one instance on each host.
        kind: Option<Scalar<Kind>>,
        /// Who owns it; for look-ups.
        owner: Option<Scalar>,
        /// For look-ups, and for rules of other jobs about being near.
        labels: Option<BTreeMap<String, Scalar>>,
        /// Higher goes first within the pool; the pool's default when it is left out, within the pool's bounds.
        priority: Option<Scalar<Whole>>,
        /// Which clusters it may use; all when it is left out.
        clusters: Option<ClustersFile>,
        /// It runs on room that hosts lend, and may be killed at any time. Cannot change.
        revocable: Option<Scalar<Truth>>,
        /// Whether it may be stopped for others; if not, it runs within its pool's reservation only. Cannot change.
        preemptible: Option<Scalar<Truth>>,
        /// It starts other jobs and waits for them: its pools' `controller_limit` bounds such jobs together. Cannot change.
        controller: Option<Scalar<Truth>>,
        /// All instances, of all groups, begin together on one cluster or not at all; for kind batch. Cannot change.
        gang: Option<GangFile>,
        /// Succeeded instances with which the job has succeeded, and the rest is stopped; for kind batch.
        completion: Option<Scalar<Completion>>,
        /// Failed instances that the job goes on with, rounded down: one more, and it has failed. For kind batch.
        max_failed: Option<Scalar<Part>>,
        /// A job of which nothing has begun by then has failed.
        max_wait: Option<Scalar<Time>>,
        /// A job that has not ended by then has failed, and is stopped; for kind batch.
        max_total: Option<Scalar<Time>>,
        /// Other jobs that come first. Cannot change.
        after: Option<Vec<AfterFile>>,
        /// So long after its end the job is deleted; without it, until somebody does.
        keep: Option<Scalar<Time>>,
        /// At each due time a job of its own is made of this one, which runs nothing itself; for kind batch.
        schedule: Option<ScheduleFile>,
        /// The group that drives the job: it ends with this group, whose runs may scale and end the others. For kind batch. Cannot change.
        driver: Option<Scalar>,
        /// What to do about a run whose host falls silent.
        on_unreachable: Option<Scalar<Silence>>,
        /// What to do about a run whose agent is known to be gone, beside `on_unreachable`: the first of the
        /// two that is due counts.
        /// When it is left out: `15s` after an operator has marked it as gone; `15m15s` after a new agent has
        /// registered at its address, or as the flags of that agent say, and for kind stateful `wait`.
        on_gone: Option<Scalar<Silence>>,
        /// What to do about runs whose cluster is silent: `replace` starts them at other clusters, after at least `2m`. A daemon waits.
        /// The pool's for batch and service, where it has one and this is left out.
        on_cluster_loss: Option<Scalar<Silence>>,
        /// How a service is brought to a new version.
        update: Option<UpdateFile>,
        /// Groups by name. A job with one group may write its fields at the top instead; the group is then called `main`.
        groups: Option<BTreeMap<String, GroupFile>>,
    }
    group {
        /// Wanted instances, 1 to 10,000,000; a service may be scaled to 0, and a daemon has none.
        instances: Option<Scalar<Whole>>,
        /// Most instances that are active at once; all when it is left out.
        max_running: Option<Scalar<Whole>>,
        /// What some instances run in place of what the group says.
        overrides: Option<Vec<OverrideFile>>,
        /// Ports of the host that each run gets.
        ports: Option<Vec<PortFile>>,
        /// A probe whose result is shown as `ready`, and without which an instance does not count as available.
        readiness: Option<ProbeFile>,
        /// The volume that each instance keeps from run to run; for kind stateful, which needs it. Cannot change.
        volume: Option<PersistentVolumeFile>,
        /// The hosts that it may use: those of this host pool, or `*` for those of every one; when it is left out, `default`, and of a
        /// daemon every one.
        host_pool: Option<Scalar<HostPool>>,
        /// Rules about hosts; all of them hold.
        constraints: Option<Vec<ConstraintFile>>,
        /// Rules about hosts that had better hold.
        preferences: Option<Vec<PreferenceFile>>,
        /// Most instances of the group on hosts with the same value of an attribute: `{hostname: 1, rack: 3}`.
        max_per: Option<BTreeMap<String, Scalar<Whole>>>,
        /// Attributes over whose values instances are spread evenly; the first goes before the second.
        spread_over: Option<Vec<Scalar>>,
        /// Other jobs to be near to.
        affinity: Option<Vec<AffinityFile>>,
        /// Other jobs to be away from.
        anti_affinity: Option<Vec<AffinityFile>>,
        /// Nothing of other jobs is on its hosts.
        exclusive: Option<Scalar<Truth>>,
        /// How a host is chosen among those that the rules leave: `pack`, `spread` or `first-fit`; when it is left out, batch is packed and
        /// other kinds are spread.
        strategy: Option<Scalar>,
        /// How often and how soon a failed run is tried again.
        retry: Option<RetryFile>,
        /// Runs in a row that may end by the platform, after which an instance has failed; 4294967295 is for ever.
        platform_retry: Option<Scalar<Whole>>,
        /// What follows the end of a run; for kind batch.
        restart: Option<Scalar<Restart>>,
        /// From leaving the endpoints to SIGTERM; at most an hour.
        drain: Option<Scalar<Time>>,
        /// From SIGTERM to SIGKILL.
        grace: Option<Scalar<Time>>,
        /// A run that takes longer has failed.
        max_run: Option<Scalar<Time>>,
        /// A run that has not started by then has failed.
        max_start: Option<Scalar<Time>>,
        /// Most instances that rollouts, restarts and drains make unavailable at once. A part is rounded down, and at least one; 0 only
        /// where `update.max_surge` is not.
        max_unavailable: Option<Scalar<Part>>,
        /// Containers that run beside the main task of each instance, on its host, and end with it.
        sidecars: Option<Vec<SidecarFile>>,
    }
    task {
        /// A line for the shell; with `args` the program to start. It may be left out where there is an image.
        command: Option<Scalar>,
        /// Arguments of the program, or of what the image starts: then no shell takes part.
        args: Option<Vec<Scalar>>,
        /// In place of the image's entry point: a program and its first arguments, which `args` follow. There is no `command` beside it.
        entrypoint: Option<Vec<Scalar>>,
        /// Variables; `${NAME}` in a value stands for what the run is given.
        env: Option<BTreeMap<String, Scalar>>,
        /// Variables whose values the host takes from its secret store.
        secrets: Option<BTreeMap<String, SecretFile>>,
        /// User of the host that runs it; the framework's when it is left out.
        user: Option<Scalar>,
        /// Where a shell line runs: a path within the sandbox, or an absolute one; the sandbox when it is left out.
        working_dir: Option<Scalar>,
        /// Files that the host puts into the sandbox first.
        uris: Option<Vec<UriFile>>,
        /// The container that it runs in.
        container: Option<ContainerFile>,
        /// A probe whose failure ends the run as failed.
        health: Option<HealthFile>,
        /// What one instance takes of its host, of each sidecar what that takes; needed.
        resources: Option<ResourcesFile>,
    }
    sidecar {
        /// Its name within the group; not `main`, which is the main task.
        name: Scalar,
    }
}
