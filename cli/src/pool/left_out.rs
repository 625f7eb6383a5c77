//! What a replay of a trace leaves out or takes as given, by cause: what the trace does not tell, what
//! whoever recorded it left out, and what no host can hold. It is shown with every answer.

use super::trace::JobLine;
use crate::output;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostPoolName, Resources};
use echelon_sim_replay::{CapacityChange, ClusterCapacity, Group, Job};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a job asks for and a trace does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unrecorded {
    /// Constraints, preferences, affinity, exclusive hosts, spreading, or a strategy.
    PlacementRules,
    /// Ports of the host.
    Ports,
    /// A topology of its gang.
    Topology,
    /// Other jobs that it waits for.
    Dependencies,
    /// Rules about its end, or a driver.
    Rules,
    /// It was changed after its submit, and the trace has its last version only.
    Versions,
    /// Instances of it ran more than once, and the trace has their last runs only.
    OlderRuns,
}

/// Why something is not in the trace at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordCause {
    /// Jobs of kind daemon: they are on every host.
    Daemons,
    /// Templates of schedules, which run nothing themselves.
    Templates,
    /// Jobs without instances.
    NoInstances,
    /// Jobs whose specification is gone.
    NoSpec,
    /// Jobs of which it is not known when they were created.
    NoCreateTime,
    /// Jobs that went while they were recorded.
    Gone,
    /// Jobs whose pool is gone.
    NoPool,
    /// Clusters that take nothing new.
    ClosedClusters,
    /// Hosts that take nothing new, or cannot be reached.
    ClosedHosts,
}

/// A cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Recorded(RecordCause),
    Unrecorded(Unrecorded),
    NoEnd,
    HostsUnknown,
    RevocableAsOrdinary,
    KindUnknown,
    GangUnknown,
    PreemptibleUnknown,
    ControllerUnknown,
    HostPoolUnknown,
    MaxUnavailableUnknown,
    FitsNowhere,
}

/// What is left out, by cause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    counts: BTreeMap<Cause, u64>,
    /// The line of the first job that fits nowhere.
    first: Option<usize>,
}

impl LeftOut {
    fn add(&mut self, cause: Cause, n: u64) {
        if n > 0 {
            let sum = self.counts.entry(cause).or_default();
            *sum = sum.saturating_add(n);
        }
    }

    /// What a job's line does not tell.
    pub(super) fn note_job(&mut self, line: &JobLine) {
        let absent = [
            (line.kind.is_none(), Cause::KindUnknown),
            (line.gang.is_none(), Cause::GangUnknown),
            (line.preemptible.is_none(), Cause::PreemptibleUnknown),
            (line.controller.is_none(), Cause::ControllerUnknown),
            (
                line.groups.iter().any(|g| g.host_pool.is_none()),
                Cause::HostPoolUnknown,
            ),
        ];
        for (is_absent, cause) in absent {
            self.add(cause, u64::from(is_absent));
        }
        for what in &line.unrecorded {
            self.add(Cause::Unrecorded(*what), 1);
        }
    }

    /// What whoever wrote the trace left out.
    pub(super) fn note_recorded(&mut self, cause: RecordCause, n: u64) {
        self.add(Cause::Recorded(cause), n);
    }

    /// Whether the trace says that it is whole.
    pub(super) fn note_end(&mut self, has_end: bool) {
        self.add(Cause::NoEnd, u64::from(!has_end));
    }

    /// What follows from the whole trace: jobs with their lines.
    pub(super) fn note_trace(&mut self, capacities: &[CapacityChange], jobs: &[(usize, Job)]) {
        let unknown = capacities.iter().filter(|c| is_sum(&c.capacity));
        let unknown: BTreeSet<&String> = unknown.map(|c| &c.cluster).collect();
        self.add(Cause::HostsUnknown, count(unknown.len()));
        let lends = |c: &CapacityChange| match &c.capacity {
            ClusterCapacity::Sum(_) => false,
            ClusterCapacity::Hosts(classes) => classes.iter().any(|class| !class.lent.is_zero()),
        };
        if !capacities.iter().any(lends) {
            let revocable = jobs.iter().filter(|(_, job)| job.revocable);
            self.add(Cause::RevocableAsOrdinary, count(revocable.count()));
        }
        let is_lasting = |job: &Job| job.kind() != JobKind::Batch;
        let lasting = jobs.iter().filter(|(_, job)| is_lasting(job));
        let unknown = lasting.filter(|(_, job)| job.groups.iter().any(|g| g.max_unavailable.is_none()));
        self.add(Cause::MaxUnavailableUnknown, count(unknown.count()));
        for (line, job) in jobs {
            if !capacities.iter().any(|c| may_hold(c, job)) {
                self.add(Cause::FitsNowhere, 1);
                self.first = Some(self.first.map_or(*line, |first| first.min(*line)));
            }
        }
    }

    /// Clusters whose capacity was set by a flag: their hosts are not known.
    pub(super) fn note_set(&mut self, clusters: usize) {
        self.add(Cause::HostsUnknown, count(clusters));
    }

    /// By cause: its word, how many, and what that means.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64, String)> {
        self.counts.iter().map(|(cause, n)| {
            let (word, what) = cause.words();
            let first = self.first.filter(|_| *cause == Cause::FitsNowhere);
            let first = first.map(|line| format!(" (first in line {line})"));
            (word, *n, what.to_owned() + &first.unwrap_or_default())
        })
    }

    /// For programs.
    pub fn value(&self) -> Value {
        let rows = self
            .rows()
            .map(|(cause, count, what)| json!({"cause": cause, "count": count, "what": what}));
        Value::Array(rows.collect())
    }

    /// For people; nothing where nothing is left out.
    pub fn text(&self) -> String {
        let rows: Vec<[String; 3]> = self
            .rows()
            .map(|(cause, n, what)| [cause.to_owned(), n.to_string(), what])
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let heads = ["LEFT OUT", "COUNT", "WHAT"].map(str::to_owned);
        output::lines(heads.into_iter(), rows.iter().map(|r| r.iter()))
    }
}

const fn is_sum(capacity: &ClusterCapacity) -> bool {
    matches!(capacity, ClusterCapacity::Sum(_))
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Whether a cluster's hosts, if nothing else ran there, may hold one instance of each group of a job, or all
/// of a gang. It does not try to pack a gang: of one that may fit it is not known that it does.
fn may_hold(change: &CapacityChange, job: &Job) -> bool {
    if !job.clusters.is_empty() && !job.clusters.contains(&change.cluster) {
        return false;
    }
    let wanted = |group: &Group| if job.gang { group.instances.into() } else { 1u64 };
    let each = job.groups.iter();
    let fits = each
        .clone()
        .all(|g| most_of(&change.capacity, g, job) >= wanted(g));
    let sum = each.fold(Resources::ZERO, |sum, g| sum.plus(g.shape.times(wanted(g))));
    fits && (!job.gang || job.revocable || sum.fits(change.capacity.sum()))
}

/// How many instances of a group fit on all hosts that it may use.
fn most_of(capacity: &ClusterCapacity, group: &Group, job: &Job) -> u64 {
    let classes = match capacity {
        ClusterCapacity::Sum(sum) if group.host_pool.lets(&HostPoolName::default()) => {
            return group.shape.count_in(*sum);
        }
        ClusterCapacity::Sum(_) => return 0,
        ClusterCapacity::Hosts(classes) => classes,
    };
    let usable = classes
        .iter()
        .filter(|c| group.host_pool.lets(&c.pool) && (c.capacity.gpus == 0 || group.shape.gpus > 0));
    let each = usable.map(|class| {
        let room = if job.revocable {
            class.capacity.plus(class.lent)
        } else {
            class.capacity
        };
        group.shape.count_in(room).saturating_mul(class.count.into())
    });
    each.fold(0, u64::saturating_add)
}

impl Cause {
    /// Its word for programs, and what it means for people.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Recorded(cause) => match cause {
                RecordCause::Daemons => ("daemons", "daemon jobs: not in the trace"),
                RecordCause::Templates => ("templates", "templates of schedules: not in the trace"),
                RecordCause::NoInstances => ("no_instances", "jobs without instances: not in the trace"),
                RecordCause::NoCreateTime => (
                    "no_create_time",
                    "jobs of which it is not known when they were created: not in the trace",
                ),
                RecordCause::NoSpec => ("no_spec", "jobs whose specification is gone: not in the trace"),
                RecordCause::Gone => (
                    "gone",
                    "jobs that went while they were recorded: not in the trace",
                ),
                RecordCause::NoPool => ("no_pool", "jobs whose pool is gone: not in the trace"),
                RecordCause::ClosedClusters => (
                    "closed_clusters",
                    "clusters that take nothing new: not in the trace",
                ),
                RecordCause::ClosedHosts => (
                    "closed_hosts",
                    "hosts that take nothing new or are out of reach: not in the trace",
                ),
            },
            Self::Unrecorded(what) => match what {
                Unrecorded::PlacementRules => (
                    "placement_rules",
                    "jobs with rules about hosts: they run on any host of their host pool",
                ),
                Unrecorded::Ports => ("ports", "jobs that ask for ports: they get none"),
                Unrecorded::Topology => ("topology", "gangs with a topology: they run anywhere"),
                Unrecorded::Dependencies => {
                    ("dependencies", "jobs that wait for other jobs: they do not wait")
                }
                Unrecorded::Rules => (
                    "rules",
                    "jobs with rules about their end, or a driver: these have no effect",
                ),
                Unrecorded::Versions => (
                    "versions",
                    "jobs that were changed: only the last version is replayed",
                ),
                Unrecorded::OlderRuns => (
                    "older_runs",
                    "jobs with instances that ran more than once: only the last runs count",
                ),
            },
            Self::NoEnd => ("no_end", "the trace has no end line: it may be truncated"),
            Self::HostsUnknown => (
                "hosts_unknown",
                "clusters whose hosts are not known: each counts as one host of the host pool default",
            ),
            Self::RevocableAsOrdinary => (
                "revocable_as_ordinary",
                "revocable jobs, where no host is known to lend: they run on ordinary capacity",
            ),
            Self::KindUnknown => (
                "kind_unknown",
                "jobs of no known kind: batch if all instances end, stateful with a volume, else service",
            ),
            Self::GangUnknown => (
                "gang_unknown",
                "jobs of which it is not known whether they are gangs: taken as none",
            ),
            Self::PreemptibleUnknown => (
                "preemptible_unknown",
                "jobs of which it is not known whether they are preemptible: taken as preemptible",
            ),
            Self::ControllerUnknown => (
                "controller_unknown",
                "jobs of which it is not known whether they start others: taken as if not",
            ),
            Self::HostPoolUnknown => (
                "host_pool_unknown",
                "jobs whose host pool is not known: they may use all",
            ),
            Self::MaxUnavailableUnknown => (
                "max_unavailable_unknown",
                "services whose max_unavailable is not known: taken as 1",
            ),
            Self::FitsNowhere => (
                "fits_nowhere",
                "jobs of which an instance, or the whole gang, fits on no hosts of the trace: they never begin",
            ),
        }
    }
}
