//! The shapes of parts of jobs and groups.

use super::form::{
    CatchUp, Condition, Cost, Count, ExitStatus, Instances, MemberFailure, OnFailure, Overlap, Part, Percent,
    Reclaim, Size, Spread, Time, Truth, Whole,
};
use super::runtime_file::UriFile;
use super::scalar::Scalar;
use super::shape::shapes;
use std::collections::BTreeMap;

shapes! {
    /// `gang: {start_within: 5m, on_failure: gang, topology: [hostname, rack], topology_required: false}`, or `gang: {}`.
    GangFile {
        /// A part of it may run for so long while another part does not; then it is stopped whole and begins anew.
        start_within: Option<Scalar<Time>>,
        /// What follows the failure of a member: `member`: it is tried again by itself; `gang`: all are, together; `job`: the job has failed.
        on_failure: Option<Scalar<MemberFailure>>,
        /// Attributes of hosts, the nearest first: all members on hosts with one value of the first of these by which there is room.
        topology: Option<Vec<Scalar>>,
        /// Whether it waits where there is no room by any of them; else it is placed anywhere.
        topology_required: Option<Scalar<Truth>>,
    }

    /// `schedule: {cron: "0 3 * * *", time_zone: Europe/Berlin, overlap: skip, catch_up: one, within: 1d, keep_last: 100}`.
    ScheduleFile {
        /// Minute, hour, day of the month, month, day of the week.
        cron: Scalar,
        /// Name of the time zone in which that is meant.
        time_zone: Option<Scalar>,
        /// What becomes of a due time while jobs of earlier ones run.
        overlap: Option<Scalar<Overlap>>,
        /// What becomes of due times at which nobody could make a job.
        catch_up: Option<Scalar<CatchUp>>,
        /// Times that are longer ago are not caught up with.
        within: Option<Scalar<Time>>,
        /// So many ended jobs of it are kept.
        keep_last: Option<Scalar<Whole>>,
    }

    /// `update: {batch: 25%, min_healthy: 10s, canaries: 1, max_failures: 2, on_failure: roll_back}`.
    UpdateFile {
        /// Of each group: so many are replaced at once, rounded down and at least one; when it is left out, as many as `max_unavailable`
        /// and `max_surge` allow.
        batch: Option<Scalar<Part>>,
        /// So many more than wanted run while it lasts, rounded down; for kind service.
        max_surge: Option<Scalar<Part>>,
        /// A replaced instance is good when it has been available for so long.
        min_healthy: Option<Scalar<Time>>,
        /// One that is not available so long after its start has failed.
        healthy_within: Option<Scalar<Time>>,
        /// So many, those with the lowest numbers, come first, rounded down.
        canaries: Option<Scalar<Part>>,
        /// Whether the others follow by themselves when canaries are good.
        auto_promote: Option<Scalar<Truth>>,
        /// Of all instances, rounded down: more may not fail with the new version.
        max_failures: Option<Scalar<Part>>,
        /// What follows when more do.
        on_failure: Option<Scalar<OnFailure>>,
    }

    /// `{job: fetch, condition: succeeded}`.
    AfterFile {
        /// Name or id of a job that is there at the submit.
        job: Scalar,
        /// What it has to have come to.
        condition: Option<Scalar<Condition>>,
    }

    /// `clusters: {only: [region=eu], prefer: [east], spread: even}`. A cluster is selected by its name, by its
    /// id, or by one of its labels.
    ClustersFile {
        /// Only these; all when it is left out.
        only: Option<Vec<Scalar>>,
        /// The first of these that matches decides; clusters that none matches come last.
        prefer: Option<Vec<Scalar>>,
        /// The cluster with the largest weight comes first, `{east: 3, region=eu: 1}`. Instead of `prefer`.
        prefer_weights: Option<BTreeMap<String, Scalar<Whole>>>,
        /// `even`: as evenly as possible over all of them. `none`: on the first that the job prefers, on others
        /// when that has no capacity.
        spread: Option<Scalar<Spread>>,
        /// Instances are divided in proportion to these, `{east: 3, west: 1}`. A cluster that none matches gets
        /// nothing. Instead of `spread`.
        weights: Option<BTreeMap<String, Scalar<Whole>>>,
        /// The instances of a group are on at least so many clusters, or each on one of its own.
        min_clusters: Option<Scalar<Whole>>,
        /// Of a group's instances, rounded up: no cluster gets more.
        max_share: Option<Scalar<Percent>>,
        /// Used only while no other cluster may take it.
        fail_over_only: Option<Vec<Scalar>>,
        /// Labels of the data that it uses, `{region: eu}`. Among clusters that are preferred alike, those with
        /// more of them come first.
        near: Option<BTreeMap<String, Scalar>>,
        /// `prefer_cheap`: of clusters that are preferred alike the cheapest first, by their labels
        /// `cost_core_hour` and `cost_gpu_hour`.
        cost: Option<Scalar<Cost>>,
    }

    /// `resources: {cpus: 0.1, memory: 32MiB, disk: 1GiB, gpus: 1}`.
    ResourcesFile {
        /// Cores.
        cpus: Option<Scalar<Count>>,
        /// Memory.
        memory: Option<Scalar<Size>>,
        /// Disk of the sandbox.
        disk: Option<Scalar<Size>>,
        /// Whole GPUs.
        gpus: Option<Scalar<Count>>,
    }

    /// `volume: {path: data, size: 10GiB, reclaim: keep}`.
    PersistentVolumeFile {
        /// Where runs see it: a path within the sandbox, or with an image an absolute one.
        path: Scalar,
        /// At least 1MiB.
        size: Scalar<Size>,
        /// What becomes of it when its instance is over for good.
        reclaim: Option<Scalar<Reclaim>>,
        /// Its instance gets an empty one, and so another host, when the host is silent for so long; when it is left out, only by command.
        replace_after: Option<Scalar<Time>>,
    }

    /// `retry: {limit: 3, backoff: 1s, max_backoff: 5m, no_retry_exit_codes: [2]}`.
    RetryFile {
        /// Failed runs after which an instance has failed; 4294967295 is for ever.
        limit: Option<Scalar<Whole>>,
        /// Wait before the first retry, doubled with each.
        backoff: Option<Scalar<Time>>,
        /// Longest wait.
        max_backoff: Option<Scalar<Time>>,
        /// Exit statuses after which an instance has failed at once; for kind batch.
        no_retry_exit_codes: Option<Vec<Scalar<ExitStatus>>>,
    }

    /// `{instances: 0-3, env: {ROLE: leader}}`. All other fields are the group's: instances that differ in them are a group of their own.
    OverrideFile {
        /// Which instances; none of them in two overrides.
        instances: Scalar<Instances>,
        /// In place of the group's.
        command: Option<Scalar>,
        /// In place of the group's.
        args: Option<Vec<Scalar>>,
        /// In place of the group's.
        entrypoint: Option<Vec<Scalar>>,
        /// Beside the group's variables, and in place of those with the same names.
        env: Option<BTreeMap<String, Scalar>>,
        /// In place of the group's.
        working_dir: Option<Scalar>,
        /// In place of the group's.
        uris: Option<Vec<UriFile>>,
    }
}
