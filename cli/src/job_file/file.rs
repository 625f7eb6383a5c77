//! The shape of a job file. Unknown fields are errors; values keep their text and are judged in `spec.rs`.

use super::runtime_file::{ContainerFile, HealthFile, PortFile, ProbeFile, SecretFile, UriFile};
use super::scalar::Scalar;
use super::siting_file::{AffinityFile, ConstraintFile, PreferenceFile};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A job file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    pub name: Option<Scalar>,
    pub pool: Option<Scalar>,
    pub kind: Option<Scalar>,
    pub owner: Option<Scalar>,
    #[serde(default)]
    pub labels: BTreeMap<String, Scalar>,
    pub priority: Option<Scalar>,
    pub clusters: Option<ClustersFile>,
    pub revocable: Option<Scalar>,
    pub preemptible: Option<Scalar>,
    pub controller: Option<Scalar>,
    pub gang: Option<GangFile>,
    pub completion: Option<Scalar>,
    pub max_failed: Option<Scalar>,
    pub max_wait: Option<Scalar>,
    pub max_total: Option<Scalar>,
    pub after: Option<Vec<AfterFile>>,
    pub keep: Option<Scalar>,
    pub schedule: Option<ScheduleFile>,
    pub driver: Option<Scalar>,
    pub on_unreachable: Option<Scalar>,
    pub on_cluster_loss: Option<Scalar>,
    pub update: Option<UpdateFile>,
    /// Groups by name; a file with one group may write its fields at the top instead.
    pub groups: Option<BTreeMap<String, GroupFile>>,
    pub instances: Option<Scalar>,
    pub max_running: Option<Scalar>,
    pub command: Option<Scalar>,
    pub args: Option<Vec<Scalar>>,
    pub secrets: Option<BTreeMap<String, SecretFile>>,
    pub user: Option<Scalar>,
    pub working_dir: Option<Scalar>,
    pub uris: Option<Vec<UriFile>>,
    pub container: Option<ContainerFile>,
    pub ports: Option<Vec<PortFile>>,
    pub health: Option<HealthFile>,
    pub readiness: Option<ProbeFile>,
    pub env: Option<BTreeMap<String, Scalar>>,
    pub resources: Option<ResourcesFile>,
    pub volume: Option<VolumeOfInstanceFile>,
    pub constraints: Option<Vec<ConstraintFile>>,
    pub preferences: Option<Vec<PreferenceFile>>,
    pub max_per: Option<BTreeMap<String, Scalar>>,
    pub spread_over: Option<Vec<Scalar>>,
    pub affinity: Option<Vec<AffinityFile>>,
    pub anti_affinity: Option<Vec<AffinityFile>>,
    pub exclusive: Option<Scalar>,
    pub strategy: Option<Scalar>,
    pub retry: Option<RetryFile>,
    pub restart: Option<Scalar>,
    pub drain: Option<Scalar>,
    pub grace: Option<Scalar>,
    pub max_run: Option<Scalar>,
    pub max_start: Option<Scalar>,
    pub max_unavailable: Option<Scalar>,
    pub sidecars: Option<Vec<SidecarFile>>,
}

/// A group of a job file.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct GroupFile {
    pub instances: Option<Scalar>,
    pub max_running: Option<Scalar>,
    pub command: Option<Scalar>,
    pub args: Option<Vec<Scalar>>,
    pub secrets: Option<BTreeMap<String, SecretFile>>,
    pub user: Option<Scalar>,
    pub working_dir: Option<Scalar>,
    pub uris: Option<Vec<UriFile>>,
    pub container: Option<ContainerFile>,
    pub ports: Option<Vec<PortFile>>,
    pub health: Option<HealthFile>,
    pub readiness: Option<ProbeFile>,
    pub env: Option<BTreeMap<String, Scalar>>,
    pub resources: Option<ResourcesFile>,
    pub volume: Option<VolumeOfInstanceFile>,
    pub constraints: Option<Vec<ConstraintFile>>,
    pub preferences: Option<Vec<PreferenceFile>>,
    pub max_per: Option<BTreeMap<String, Scalar>>,
    pub spread_over: Option<Vec<Scalar>>,
    pub affinity: Option<Vec<AffinityFile>>,
    pub anti_affinity: Option<Vec<AffinityFile>>,
    pub exclusive: Option<Scalar>,
    pub strategy: Option<Scalar>,
    pub retry: Option<RetryFile>,
    pub restart: Option<Scalar>,
    pub drain: Option<Scalar>,
    pub grace: Option<Scalar>,
    pub max_run: Option<Scalar>,
    pub max_start: Option<Scalar>,
    pub max_unavailable: Option<Scalar>,
    pub sidecars: Option<Vec<SidecarFile>>,
}

/// A container that runs beside a group's main task: `{name: log, command: ..., resources: {...}}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SidecarFile {
    pub name: Scalar,
    pub command: Option<Scalar>,
    pub args: Option<Vec<Scalar>>,
    pub secrets: Option<BTreeMap<String, SecretFile>>,
    pub user: Option<Scalar>,
    pub working_dir: Option<Scalar>,
    pub uris: Option<Vec<UriFile>>,
    pub container: Option<ContainerFile>,
    pub health: Option<HealthFile>,
    pub env: Option<BTreeMap<String, Scalar>>,
    pub resources: Option<ResourcesFile>,
}

/// `gang: {start_within: 5m, on_failure: gang, topology: [hostname, rack], topology_required: false}`, or `gang: {}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangFile {
    pub start_within: Option<Scalar>,
    pub on_failure: Option<Scalar>,
    pub topology: Option<Vec<Scalar>>,
    pub topology_required: Option<Scalar>,
}

/// `update: {batch: 25%, min_healthy: 10s, canaries: 1, max_failures: 2, on_failure: roll_back}`.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct UpdateFile {
    pub batch: Option<Scalar>,
    pub max_surge: Option<Scalar>,
    pub min_healthy: Option<Scalar>,
    pub healthy_within: Option<Scalar>,
    pub canaries: Option<Scalar>,
    pub auto_promote: Option<Scalar>,
    pub max_failures: Option<Scalar>,
    pub on_failure: Option<Scalar>,
}

/// `schedule: {cron: "0 3 * * *", time_zone: Europe/Berlin, overlap: skip, catch_up: one, within: 1d, keep_last: 100}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleFile {
    pub cron: Scalar,
    pub time_zone: Option<Scalar>,
    pub overlap: Option<Scalar>,
    pub catch_up: Option<Scalar>,
    pub within: Option<Scalar>,
    pub keep_last: Option<Scalar>,
}

/// `{job: fetch, condition: succeeded}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterFile {
    pub job: Scalar,
    pub condition: Option<Scalar>,
}

/// `clusters: {only: [...], spread: even}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClustersFile {
    #[serde(default)]
    pub only: Vec<Scalar>,
    pub spread: Option<Scalar>,
}

/// `resources: {cpus: 0.1, memory: 32MiB, disk: 1GiB, gpus: 1}`.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct ResourcesFile {
    pub cpus: Option<Scalar>,
    pub memory: Option<Scalar>,
    pub disk: Option<Scalar>,
    pub gpus: Option<Scalar>,
}

/// `volume: {path: data, size: 10GiB, reclaim: keep}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeOfInstanceFile {
    pub path: Scalar,
    pub size: Scalar,
    pub reclaim: Option<Scalar>,
    pub replace_after: Option<Scalar>,
}

/// `retry: {limit: 3, backoff: 1s, max_backoff: 5m, no_retry_exit_codes: [2]}`.
#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct RetryFile {
    pub limit: Option<Scalar>,
    pub backoff: Option<Scalar>,
    pub max_backoff: Option<Scalar>,
    pub no_retry_exit_codes: Option<Vec<Scalar>>,
}
