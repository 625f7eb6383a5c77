//! Traces of demand: JSON lines that `pool record` writes and `pool simulate` reads. docs/traces.md is the
//! format for people. A field that is not known is an error, so that nothing is replayed that was meant
//! otherwise. Every number has a bound.

use super::left_out::{LeftOut, RecordCause, Unrecorded};
use crate::exit::Failure;
use crate::output;
use echelon_clients_rust::v1;
use echelon_core_model::amount::Amount;
use echelon_core_model::gang::MAX_GANG;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::pool::PoolTree;
use echelon_core_model::spec::{JobKind, MAX_INSTANCES};
use echelon_core_model::sum::{MOST_COUNTED, MOST_OF_JOB};
use echelon_core_model::{HostPoolName, Resources, Span, Timestamp, Version};
use echelon_proto::convert::Problems;
use echelon_proto::convert::pool::read_pool;
use echelon_sim_replay::{CapacityChange, ClusterCapacity, Group, HostClass, Job, Runs, Trace, Volume};
use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read as _};

/// The version of the format.
pub const VERSION: u32 = 1;
/// The latest moment and the longest span, in milliseconds: those of the API.
const MOST_MS: u64 = 1 << 53;
/// Most hosts of a cluster: each is kept in memory.
const MOST_HOSTS: u64 = 100_000;
/// Most clusters.
const MOST_CLUSTERS: usize = 1_000;
/// Most groups of a job.
const MOST_GROUPS: usize = 1_000;
/// The longest line, in bytes: a spec has at most 256 KiB, and the times of its instances some bytes each.
const MOST_BYTES: u64 = 64 << 20;

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
    /// What whoever wrote the trace has left out.
    LeftOut(LeftOutLine),
    /// The last one.
    End(EndLine),
}

/// What the file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadLine {
    /// Of the format.
    pub version: u32,
    /// From when on it tells what happened; when it is left out, from the first submit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<u64>,
    /// Up to when it tells what happened.
    pub until_ms: u64,
}

/// What a cluster has: one of `capacity` and `hosts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterLine {
    /// From when on.
    pub at_ms: u64,
    /// Its name.
    pub name: String,
    /// The sum of what its hosts have, where these are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Amounts>,
    /// All its hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<HostsLine>>,
}

/// Hosts that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsLine {
    /// How many.
    pub count: u32,
    /// What one has.
    pub capacity: Amounts,
    /// What one lends beside that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lent: Amounts,
    /// Their host pool; `default` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pool: Option<String>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    /// When it was submitted.
    pub submit_ms: u64,
    /// When it was stopped or deleted, if it was.
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
    /// `batch`, `service` or `stateful`; when it is left out, it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindWord>,
    /// Whether its instances begin together; when it is left out, it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<bool>,
    /// Whether it may be stopped for others; when it is left out, it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptible: Option<bool>,
    /// Whether it starts other jobs; when it is left out, it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether it runs on what hosts lend.
    #[serde(default, skip_serializing_if = "is_default")]
    pub revocable: bool,
    /// The clusters that it may use; all when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Whether it is spread over clusters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spread: bool,
    /// What it asks for beside that, and what is not in the trace.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unrecorded: BTreeSet<Unrecorded>,
    /// Its groups.
    pub groups: Vec<GroupLine>,
}

/// A kind of job that a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KindWord {
    /// Instances run to success.
    Batch,
    /// Instances run until they are stopped.
    Service,
    /// The same, with a volume each.
    Stateful,
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
    /// Most that may be unavailable at once for the good of others: a number, or a part such as `10%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<String>,
    /// Room of one, its sidecars and its volume included.
    pub shape: Amounts,
    /// The host pool that it may use, `*` for all; when it is left out, it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_pool: Option<String>,
    /// The volume of each instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeLine>,
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

/// A volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeLine {
    /// Its size: a part of the shape's disk.
    pub mib: u64,
    /// Whether it stays when its job is stopped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: bool,
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

/// What was left out of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutLine {
    /// Why.
    pub cause: RecordCause,
    /// How many things.
    pub count: u64,
}

/// That the trace is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndLine {
    /// How many jobs it has.
    pub jobs: u64,
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
    /// What happened, from the moment 0 on.
    pub trace: Trace,
    /// The tree; without pools where none was recorded.
    pub tree: PoolTree,
    /// What the trace lacks.
    pub left_out: LeftOut,
}

/// Reads a trace; `shown` is how errors name it.
///
/// # Errors
/// `Failure` with the line of what is wrong.
pub fn read(shown: &str, mut from: impl BufRead) -> Result<Recorded, Failure> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    for n in 1usize.. {
        line.clear();
        let read = from.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line);
        let read = read.map_err(|e| Failure::wrong(format!("{shown} cannot be read: {e}")))?;
        if read == 0 {
            break;
        }
        let is_cut = u64::try_from(read).is_ok_and(|n| n >= MOST_BYTES) && !line.ends_with(b"\n");
        let added = if is_cut {
            Err(format!("it is longer than {} MiB", MOST_BYTES >> 20))
        } else {
            parse(&line).and_then(|line| reader.add(n, line))
        };
        added.map_err(|why| Failure::wrong(format!("{shown} line {n}: {why}")))?;
    }
    reader.finish().map_err(|(n, why)| {
        let line = n.map(|n| format!(" line {n}")).unwrap_or_default();
        Failure::wrong(format!("{shown}{line}: {why}"))
    })
}

fn parse(line: &[u8]) -> Result<Line, String> {
    serde_json::from_slice(line).map_err(|e| {
        let told = e.to_string();
        let (what, at) = told.rsplit_once(" at line 1 column ").unwrap_or((&told, "1"));
        let cut = if e.is_eof() {
            "; the file may be truncated"
        } else {
            ""
        };
        format!("column {at}: {what}{cut}")
    })
}

/// A trace that is being read.
#[derive(Debug, Default)]
struct Reader {
    has_begun: bool,
    from: Option<u64>,
    until: u64,
    tree: BTreeMap<String, echelon_core_model::pool::Pool>,
    /// Changes of capacity with their moments.
    capacities: Vec<CapacityChange>,
    clusters: BTreeSet<String>,
    /// Jobs with their lines.
    jobs: Vec<(usize, Job)>,
    left_out: LeftOut,
    end: Option<usize>,
}

/// What is wrong, and in which line if it is in one.
type Wrong = (Option<usize>, String);

impl Reader {
    fn add(&mut self, n: usize, line: Line) -> Result<(), String> {
        if let Some(end) = self.end {
            return Err(format!("the trace has ended at line {end}: leave this one out"));
        }
        match line {
            Line::Trace(head) if !self.has_begun => self.begin(&head)?,
            Line::Trace(_) => {
                return Err("only the first line says what the file is: leave this one out".to_owned());
            }
            _ if !self.has_begun => {
                return Err(
                    r#"a trace begins with {"trace":{"version":1,"until_ms":N}}, N being up to when it tells what happened"#
                        .to_owned(),
                );
            }
            Line::Pool(value) => self.add_pool(value)?,
            Line::Cluster(line) => self.add_cluster(line)?,
            Line::Job(line) => {
                self.left_out.note_job(&line);
                let job = job(line)?;
                if self.from.is_some_and(|from| job.submitted.0 < from) {
                    return Err(
                        "the job is submitted before the trace begins: submit_ms is less than from_ms"
                            .to_owned(),
                    );
                }
                self.jobs.push((n, job));
            }
            Line::LeftOut(line) => self.left_out.note_recorded(line.cause, line.count),
            Line::End(end) => {
                let jobs = u64::try_from(self.jobs.len()).unwrap_or(u64::MAX);
                if end.jobs != jobs {
                    return Err(format!(
                        "the trace has {jobs} jobs, and was written with {}: lines are missing or were added",
                        end.jobs
                    ));
                }
                self.end = Some(n);
            }
        }
        Ok(())
    }

    fn begin(&mut self, head: &HeadLine) -> Result<(), String> {
        if head.version != VERSION {
            let version = head.version;
            return Err(format!(
                "the trace is of version {version}, and this program reads {VERSION}: record it again, or use the program that recorded it"
            ));
        }
        at_most("until_ms", head.until_ms, MOST_MS)?;
        if head.from_ms.is_some_and(|from| from > head.until_ms) {
            return Err("the trace ends before it begins: until_ms is less than from_ms".to_owned());
        }
        self.has_begun = true;
        (self.from, self.until) = (head.from_ms, head.until_ms);
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
        if self.tree.insert(path.clone(), pool).is_some() {
            return Err(format!("pool {path} is there already: leave one of them out"));
        }
        Ok(())
    }

    fn add_cluster(&mut self, line: ClusterLine) -> Result<(), String> {
        if line.name.is_empty() {
            return Err("a cluster needs a name".to_owned());
        }
        at_most("at_ms", line.at_ms, MOST_MS)?;
        let name = line.name;
        let capacity = match (line.capacity, line.hosts) {
            (Some(sum), None) => ClusterCapacity::Sum(sum.read("capacity", MOST_COUNTED)?),
            (None, Some(hosts)) => ClusterCapacity::Hosts(host_classes(&hosts)?),
            _ => return Err(format!("cluster {name} needs one of `hosts` and `capacity`")),
        };
        self.clusters.insert(name.clone());
        if self.clusters.len() > MOST_CLUSTERS {
            return Err(format!("more than {MOST_CLUSTERS} clusters"));
        }
        self.capacities.push(CapacityChange {
            at: Timestamp(line.at_ms),
            cluster: name,
            capacity,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<Recorded, Wrong> {
        if !self.has_begun {
            let why = "it is empty; `echelon pool record` writes a trace of what happened";
            return Err((None, why.to_owned()));
        }
        if self.capacities.is_empty() {
            let why = r#"it names no cluster; add a line such as {"cluster":{"at_ms":0,"name":"east","hosts":[{"count":8,"capacity":{"cpus_milli":64000,"memory_mib":262144}}]}}"#;
            return Err((None, why.to_owned()));
        }
        let tree = PoolTree {
            version: Version(1),
            pools: self.tree,
        };
        for (n, job) in &self.jobs {
            let is_leaf = || tree.pools.contains_key(&job.pool) && tree.is_leaf(&job.pool);
            if !tree.pools.is_empty() && !is_leaf() {
                let pool = &job.pool;
                let why =
                    format!("the job is in {pool}, and the trace has no pool {pool} without pools below it");
                return Err((Some(*n), why));
            }
        }
        self.capacities.sort_by_key(|c| c.at);
        self.jobs.sort_by_key(|(_, job)| job.submitted);
        self.left_out.note_end(self.end.is_some());
        self.left_out.note_trace(&self.capacities, &self.jobs);
        let first = self.jobs.first().map_or(0, |(_, job)| job.submitted.0);
        let from = self.from.unwrap_or(first);
        let mut trace = Trace {
            until: Timestamp(self.until),
            capacities: self.capacities,
            jobs: self.jobs.into_iter().map(|(_, job)| job).collect(),
        };
        begin_at(&mut trace, from);
        Ok(Recorded {
            trace,
            tree,
            left_out: self.left_out,
        })
    }
}

/// Counts all moments from this one on.
fn begin_at(trace: &mut Trace, from: u64) {
    let shift = |at: &mut Timestamp| *at = Timestamp(at.0.saturating_sub(from));
    shift(&mut trace.until);
    trace
        .capacities
        .iter_mut()
        .for_each(|change| shift(&mut change.at));
    for job in &mut trace.jobs {
        shift(&mut job.submitted);
        job.stopped.iter_mut().for_each(shift);
        for group in &mut job.groups {
            group.first_started.iter_mut().for_each(shift);
            group.last_started.iter_mut().for_each(shift);
        }
    }
}

fn at_most(what: &str, n: u64, most: u64) -> Result<(), String> {
    if n > most {
        return Err(format!("{what} is {n}: at most {most} is possible"));
    }
    Ok(())
}

impl Amounts {
    /// At most so much of each kind.
    fn read(self, what: &str, most: u64) -> Result<Resources, String> {
        at_most(&format!("{what}.cpus_milli"), self.cpus_milli, most)?;
        at_most(&format!("{what}.memory_mib"), self.memory_mib, most)?;
        at_most(&format!("{what}.disk_mib"), self.disk_mib, most)?;
        at_most(&format!("{what}.gpus_milli"), self.gpus_milli, most)?;
        Ok(self.into())
    }
}

fn host_classes(lines: &[HostsLine]) -> Result<Vec<HostClass>, String> {
    let mut classes: BTreeMap<(Resources, Resources, HostPoolName), u64> = BTreeMap::new();
    for line in lines {
        let capacity = line.capacity.read("hosts.capacity", MOST_OF_JOB)?;
        let lent = line.lent.read("hosts.lent", MOST_OF_JOB)?;
        let pool = match &line.host_pool {
            Some(name) => HostPoolName::parse(name).map_err(|e| format!("host_pool `{name}`: {e}"))?,
            None => HostPoolName::default(),
        };
        let sum = classes.entry((capacity, lent, pool)).or_default();
        *sum = sum.saturating_add(line.count.into());
    }
    let count: u64 = classes.values().sum();
    at_most("the number of hosts", count, MOST_HOSTS)?;
    let mut sum = Resources::ZERO;
    let mut out = Vec::new();
    for ((capacity, lent, pool), count) in classes {
        // Both factors are bounded: no product is cut.
        sum = sum.plus(capacity.times(count)).plus(lent.times(count));
        out.push(HostClass {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            capacity,
            lent,
            pool,
        });
    }
    Amounts::from(sum).read("the sum of hosts", MOST_COUNTED)?;
    Ok(out)
}

fn job(line: JobLine) -> Result<Job, String> {
    let names: BTreeSet<&String> = line.groups.iter().map(|g| &g.name).collect();
    if line.groups.is_empty() || names.len() != line.groups.len() {
        return Err("a job needs groups, each with another name".to_owned());
    }
    at_most(
        "the number of groups",
        u64::try_from(line.groups.len()).unwrap_or(u64::MAX),
        u64::try_from(MOST_GROUPS).unwrap_or(u64::MAX),
    )?;
    if !line.pool.starts_with('/') {
        return Err(format!(
            "`{}` is not a pool's path: it begins with `/`",
            line.pool
        ));
    }
    at_most("submit_ms", line.submit_ms, MOST_MS)?;
    at_most("stop_ms", line.stop_ms.unwrap_or_default(), MOST_MS)?;
    if line.stop_ms.is_some_and(|at| at < line.submit_ms) {
        return Err("the job is stopped before it is submitted: stop_ms is less than submit_ms".to_owned());
    }
    let is_gang = line.gang.unwrap_or_default();
    let groups: Result<Vec<Group>, String> = line.groups.into_iter().map(group).collect();
    let job = Job {
        stopped: line.stop_ms.map(Timestamp),
        owner: line.owner,
        priority: line.priority,
        kind: line.kind.map(JobKind::from),
        gang: is_gang,
        // What is not known is taken for what is usual.
        preemptible: line.preemptible.unwrap_or(true),
        controller: line.controller.unwrap_or_default(),
        revocable: line.revocable,
        clusters: line.clusters,
        spread: line.spread,
        groups: groups?,
        ..Job::new(Timestamp(line.submit_ms), line.pool)
    };
    let members = job.instances();
    if is_gang && members > MAX_GANG {
        return Err(format!(
            "the gang has {members} instances: at most {MAX_GANG} begin together"
        ));
    }
    if is_gang && job.groups.iter().any(|g| g.max_running.is_some()) {
        return Err("a gang begins whole: leave max_running out".to_owned());
    }
    let has_volume = job.groups.iter().any(|g| g.volume.is_some());
    if has_volume && job.kind() != JobKind::Stateful {
        return Err("only a job of kind stateful has volumes: change one of both".to_owned());
    }
    let all = job.groups.iter().map(|g| (g.shape, u64::from(g.instances)));
    let sum = all.fold(Resources::ZERO, |sum, (shape, n)| sum.plus(shape.times(n)));
    Amounts::from(sum).read("the sum of all instances", MOST_OF_JOB)?;
    Ok(job)
}

impl From<KindWord> for JobKind {
    fn from(word: KindWord) -> Self {
        match word {
            KindWord::Batch => Self::Batch,
            KindWord::Service => Self::Service,
            KindWord::Stateful => Self::Stateful,
        }
    }
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
    let shape = line.shape.read("shape", MOST_OF_JOB)?;
    if shape.is_zero() {
        return Err(format!(
            "group `{name}` has an empty shape: give it cpus_milli or memory_mib"
        ));
    }
    for ms in line.runs.iter().map(|r| r.ms) {
        at_most("runs.ms", ms, MOST_MS)?;
    }
    for ms in [line.first_start_ms, line.last_start_ms].into_iter().flatten() {
        at_most("first_start_ms or last_start_ms", ms, MOST_MS)?;
    }
    let volume = line.volume.map(|v| Volume {
        mebibytes: v.mib,
        is_kept: v.keep,
    });
    if volume.is_some_and(|v| v.mebibytes == 0 || v.mebibytes > shape.disk) {
        return Err(format!(
            "group `{name}` has a volume that is empty or larger than the disk of its shape, of which it is a part"
        ));
    }
    let host_pool = match &line.host_pool {
        Some(text) => HostPoolChoice::parse(text).map_err(|e| format!("host_pool `{text}`: {e}"))?,
        None => HostPoolChoice::Any,
    };
    let max_unavailable = line.max_unavailable.as_deref().map(amount).transpose()?;
    let runs = line.runs.iter().map(|r| Runs {
        count: r.count,
        span: Span::millis(r.ms),
    });
    Ok(Group {
        max_running: line.max_running,
        max_unavailable,
        host_pool,
        volume,
        first_started: line.first_start_ms.map(Timestamp),
        last_started: line.last_start_ms.map(Timestamp),
        ..Group::new(line.name, line.instances, shape, runs.collect())
    })
}

/// A number of instances, or a part of all such as `10%`.
fn amount(text: &str) -> Result<Amount, String> {
    let wrong = || format!("max_unavailable is `{text}`: a number or a part such as `10%` is possible");
    match text.strip_suffix('%') {
        Some(part) => {
            let part: u32 = part.parse().map_err(|_| wrong())?;
            (part <= 100).then_some(Amount::Percent(part)).ok_or_else(wrong)
        }
        None => text.parse().map(Amount::Count).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests;
