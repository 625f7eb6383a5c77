//! Traces of demand: JSON lines that `pool record` writes and `pool simulate` reads. docs/traces.md is the format for people. Whatever a
//! trace has that is not known is an error, so that nothing is replayed that was meant otherwise.

use crate::exit::Failure;
use crate::output;
use echelon_clients_rust::v1;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::MAX_INSTANCES;
use echelon_core_model::{Resources, Span, Timestamp, Version};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_sim_replay::{CapacityChange, Group, Job, Runs, Trace};
use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::BufRead;

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Line {
    /// The first one.
    Trace(HeadLine),
    /// A pool, as the API's JSON.
    Pool(Value),
    /// What a cluster has from then on.
    Cluster(ClusterLine),
    /// A job.
    Job(JobLine),
}

/// What the file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadLine {
    /// Of the format.
    pub version: u32,
    /// Up to when it tells what happened.
    pub until_ms: u64,
}

/// What a cluster has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterLine {
    /// From when on.
    pub at_ms: u64,
    /// Its name.
    pub name: String,
    /// All that it has.
    pub capacity: Amounts,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    /// When it was submitted.
    pub submit_ms: u64,
    /// When somebody stopped or deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_ms: Option<u64>,
    /// Its pool.
    pub pool: String,
    /// Who owns it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Its priority.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u32,
    /// Whether it runs on what hosts lend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub revocable: bool,
    /// The clusters that it may use; all when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Whether it is spread over clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread: bool,
    /// Its groups.
    pub groups: Vec<GroupLine>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupLine {
    /// Its name.
    pub name: String,
    /// How many.
    pub instances: u32,
    /// At most so many at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Room of one, its sidecars included.
    pub shape: Amounts,
    /// How long instances ran, in the order in which they began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunsLine>,
    /// When the first one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_start_ms: Option<u64>,
    /// When the last one began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_start_ms: Option<u64>,
}

/// So many instances ran so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunsLine {
    /// How many.
    pub count: u32,
    /// How long.
    pub ms: u64,
}

/// Amounts of each kind, as in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    #[serde(default, skip_serializing_if = "is_default")]
    cpus_milli: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    memory_mib: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    disk_mib: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    gpus_milli: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<Resources> for Amounts {
    fn from(r: Resources) -> Self {
        Self {
            cpus_milli: r.cpus,
            memory_mib: r.memory,
            disk_mib: r.disk,
            gpus_milli: r.gpus,
        }
    }
}

impl From<Amounts> for Resources {
    fn from(a: Amounts) -> Self {
        Self {
            cpus: a.cpus_milli,
            memory: a.memory_mib,
            disk: a.disk_mib,
            gpus: a.gpus_milli,
        }
    }
}

impl Line {
    /// The line of a pool.
    pub fn pool(pool: &v1::Pool) -> Self {
        let message = output::descriptors().get_message_by_name("echelon.v1.Pool");
        let told = message.and_then(|d| DynamicMessage::decode(d, pool.encode_to_vec().as_slice()).ok());
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true);
        let value = told.and_then(|m| {
            m.serialize_with_options(serde_json::value::Serializer, &options)
                .ok()
        });
        Self::Pool(value.unwrap_or_default())
    }

    /// As it is written.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// A trace with the tree that it was recorded under.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recorded {
    /// What happened.
    pub trace: Trace,
    /// The tree; without pools where none was recorded.
    pub tree: PoolTree,
}

/// Reads a trace; `shown` is how errors name it.
pub fn read(shown: &str, from: impl BufRead) -> Result<Recorded, Failure> {
    let mut out = Recorded {
        tree: PoolTree {
            version: Version(1),
            ..PoolTree::default()
        },
        ..Recorded::default()
    };
    let mut n = 0;
    for line in from.split(b'\n') {
        n += 1;
        let line = line.map_err(|e| Failure::wrong(format!("{shown} cannot be read: {e}")))?;
        let added = parse(&line).and_then(|line| out.add(n, line));
        added.map_err(|why| Failure::wrong(format!("{shown} line {n}: {why}")))?;
    }
    let whole = |what| Failure::wrong(format!("{shown}: {what}"));
    if n == 0 {
        return Err(whole(
            "it is empty; `echelon pool record` writes a trace of what happened",
        ));
    }
    if out.trace.capacities.is_empty() {
        return Err(whole(
            r#"it names no cluster; add a line such as {"cluster":{"at_ms":0,"name":"east","capacity":{"cpus_milli":64000,"memory_mib":262144}}}"#,
        ));
    }
    out.trace.capacities.sort_by_key(|c| c.at);
    out.trace.jobs.sort_by_key(|j| j.submitted);
    Ok(out)
}

fn parse(line: &[u8]) -> Result<Line, String> {
    serde_json::from_slice(line).map_err(|e| {
        let told = e.to_string();
        let (what, at) = told.rsplit_once(" at line 1 column ").unwrap_or((&told, "1"));
        format!("column {at}: {what}")
    })
}

impl Recorded {
    fn add(&mut self, n: usize, line: Line) -> Result<(), String> {
        match line {
            Line::Trace(head) if n == 1 => {
                if head.version != VERSION {
                    let version = head.version;
                    return Err(format!(
                        "the trace is of version {version}, and this program reads {VERSION}: record it again, or use the program that recorded it"
                    ));
                }
                self.trace.until = Timestamp(head.until_ms);
            }
            Line::Trace(_) => {
                return Err("only the first line says what the file is: leave this one out".to_owned());
            }
            _ if n == 1 => {
                return Err(
                    r#"a trace begins with {"trace":{"version":1,"until_ms":N}}, N being up to when it tells what happened"#
                        .to_owned(),
                );
            }
            Line::Pool(value) => self.add_pool(value)?,
            Line::Cluster(cluster) if cluster.name.is_empty() => {
                return Err("a cluster needs a name".to_owned());
            }
            Line::Cluster(cluster) => self.trace.capacities.push(CapacityChange {
                at: Timestamp(cluster.at_ms),
                cluster: cluster.name,
                capacity: cluster.capacity.into(),
            }),
            Line::Job(line) => self.trace.jobs.push(job(line)?),
        }
        Ok(())
    }

    fn add_pool(&mut self, value: Value) -> Result<(), String> {
        let message = output::descriptors().get_message_by_name("echelon.v1.Pool");
        let message = message.ok_or("no pool can be read: the program lacks its own descriptors")?;
        let told = DynamicMessage::deserialize(message, value).map_err(|e| e.to_string())?;
        let told: v1::Pool = told.transcode_to().map_err(|e| e.to_string())?;
        let mut problems = Problems::default();
        let pool = read_pool(&told, &told.path, &mut problems);
        let pool = problems.or(pool).map_err(|p| p.to_string())?;
        let path = pool.path.clone();
        if self.tree.pools.insert(path.clone(), pool).is_some() {
            return Err(format!("pool {path} is there already: leave one of them out"));
        }
        Ok(())
    }
}

fn job(line: JobLine) -> Result<Job, String> {
    let names: BTreeSet<&String> = line.groups.iter().map(|g| &g.name).collect();
    if line.groups.is_empty() || names.len() != line.groups.len() {
        return Err("a job needs groups, each with another name".to_owned());
    }
    if !line.pool.starts_with('/') {
        return Err(format!(
            "`{}` is not a pool's path: it begins with `/`",
            line.pool
        ));
    }
    if line.stop_ms.is_some_and(|at| at < line.submit_ms) {
        return Err("the job is stopped before it is submitted: stop_ms is less than submit_ms".to_owned());
    }
    let groups: Result<Vec<Group>, String> = line.groups.into_iter().map(group).collect();
    Ok(Job {
        submitted: Timestamp(line.submit_ms),
        stopped: line.stop_ms.map(Timestamp),
        pool: line.pool,
        owner: line.owner,
        priority: line.priority,
        revocable: line.revocable,
        clusters: line.clusters,
        spread: line.spread,
        groups: groups?,
    })
}

fn group(line: GroupLine) -> Result<Group, String> {
    let name = &line.name;
    let told: u64 = line.runs.iter().map(|r| u64::from(r.count)).sum();
    if line.instances == 0 || line.instances > MAX_INSTANCES {
        return Err(format!(
            "group `{name}` has {} instances: 1 to {MAX_INSTANCES} are possible",
            line.instances
        ));
    }
    if told > u64::from(line.instances) {
        let instances = line.instances;
        return Err(format!(
            "group `{name}` has {instances} instances, and its runs tell of {told}: raise `instances` or leave runs out"
        ));
    }
    if Resources::from(line.shape).is_zero() {
        return Err(format!(
            "group `{name}` has an empty shape: give it cpus_milli or memory_mib"
        ));
    }
    let runs = line.runs.iter().map(|r| Runs {
        count: r.count,
        span: Span::millis(r.ms),
    });
    Ok(Group {
        instances: line.instances,
        max_running: line.max_running,
        shape: line.shape.into(),
        runs: runs.collect(),
        first_started: line.first_start_ms.map(Timestamp),
        last_started: line.last_start_ms.map(Timestamp),
        name: line.name,
    })
}

#[cfg(test)]
mod tests;
