//! `echelon pool record`: writes a trace of demand from what the API tells, page by page, one call at a time
//! with a rest after each, so that no server notices. Nothing is kept but one job's runs and the hosts of one
//! cluster.

use super::left_out::{RecordCause, Unrecorded};
use super::trace::{
    Amounts, ClusterLine, EndLine, GroupLine, HeadLine, HostsLine, JobLine, KindWord, LeftOutLine, Line,
    RunsLine, VERSION, VolumeLine,
};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::Resources;
use echelon_core_model::cluster_choice::Spread;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::time::Span;
use echelon_core_model::volume::Reclaim;
use echelon_proto::convert::quantity::{read_resources, read_timestamp};
use echelon_proto::convert::spec::from_wire;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rows asked for at once.
const PAGE: i32 = 200;

/// Writes what there is to the standard output.
pub async fn record(context: &Context, rest: Span) -> Result<(), Failure> {
    let client = context.client().await?;
    let mut recorder = Recorder {
        client: &client,
        rest: Duration::from_millis(rest.0),
        until_ms: now_ms(),
        pools: BTreeSet::new(),
        clusters: BTreeMap::new(),
        left_out: BTreeMap::new(),
    };
    let jobs = recorder.run().await?;
    output::remark(format_args!("{jobs} jobs were recorded"));
    Ok(())
}

struct Recorder<'a> {
    client: &'a Client,
    rest: Duration,
    until_ms: u64,
    pools: BTreeSet<String>,
    /// Names of clusters by their ids.
    clusters: BTreeMap<String, String>,
    left_out: BTreeMap<RecordCause, u64>,
}

impl Recorder<'_> {
    async fn run(&mut self) -> Result<u64, Failure> {
        write(&Line::Trace(HeadLine {
            version: VERSION,
            from_ms: None,
            until_ms: self.until_ms,
        }));
        for pool in client::pools(self.client, v1::ListPoolsRequest::default(), usize::MAX)
            .await?
            .rows
        {
            write(&Line::pool(&pool));
            self.pools.insert(pool.path);
        }
        for cluster in client::clusters(self.client, v1::ListClustersRequest::default(), usize::MAX)
            .await?
            .rows
        {
            let (id, name) = (cluster.cluster_id.clone(), cluster.display_name.clone());
            self.clusters.insert(id, name);
            match cluster.desired_state() {
                v1::ClusterDesiredState::Removed => {}
                v1::ClusterDesiredState::Active => self.cluster(cluster).await?,
                _ => self.leave_out(RecordCause::ClosedClusters, 1),
            }
        }
        let jobs = self.jobs().await?;
        for (cause, count) in &self.left_out {
            let (cause, count) = (*cause, *count);
            write(&Line::LeftOut(LeftOutLine { cause, count }));
        }
        write(&Line::End(EndLine { jobs }));
        Ok(jobs)
    }

    fn leave_out(&mut self, cause: RecordCause, n: u64) {
        if n > 0 {
            *self.left_out.entry(cause).or_default() += n;
        }
    }

    async fn cluster(&mut self, cluster: v1::Cluster) -> Result<(), Failure> {
        let request = v1::ListHostsRequest {
            parent: format!("clusters/{}", cluster.cluster_id),
            ..v1::ListHostsRequest::default()
        };
        tokio::time::sleep(self.rest).await;
        let hosts = client::hosts(self.client, request, usize::MAX).await?.rows;
        let (line, closed) = cluster_line(cluster.display_name, &hosts);
        self.leave_out(RecordCause::ClosedHosts, closed);
        write(&Line::Cluster(line));
        Ok(())
    }

    async fn jobs(&mut self) -> Result<u64, Failure> {
        let mut n = 0;
        let mut page_token = String::new();
        loop {
            let request = v1::ListJobsRequest {
                page_size: PAGE,
                page_token,
                show_deleted: true,
                unordered: true,
                ..v1::ListJobsRequest::default()
            };
            let page = self.client.repeat(|| {
                let (mut service, request) = (self.client.job_service(), request.clone());
                async move { service.list_jobs(request).await }
            });
            let page = page.await?;
            for job in &page.jobs {
                match self.job(job).await? {
                    Ok(line) => {
                        write(&Line::Job(*line));
                        n += 1;
                    }
                    Err(cause) => self.leave_out(cause, 1),
                }
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(n);
            }
            tokio::time::sleep(self.rest).await;
        }
    }

    /// A job's line, or why it has none.
    async fn job(&self, listed: &v1::Job) -> Result<Result<Box<JobLine>, RecordCause>, Failure> {
        tokio::time::sleep(self.rest).await;
        let job = match self.client.get_job(&listed.job_id).await.map_err(Failure::from) {
            Ok(job) => job,
            Err(gone) if gone.exit == Exit::NotFound => return Ok(Err(RecordCause::Gone)),
            Err(failure) => return Err(failure),
        };
        let mut recording = match JobRecording::new(&job, |pool| self.pools.contains(pool)) {
            Ok(recording) => recording,
            Err(cause) => return Ok(Err(cause)),
        };
        self.runs(&job, &mut recording).await?;
        let mut line = recording.line(&job);
        for cluster in &mut line.clusters {
            // A job may name a cluster by its id.
            if let Some(name) = self.clusters.get(cluster) {
                cluster.clone_from(name);
            }
        }
        Ok(Ok(Box::new(line)))
    }

    /// When and how long its instances ran.
    async fn runs(&self, job: &v1::Job, recording: &mut JobRecording) -> Result<(), Failure> {
        let mut page_token = String::new();
        loop {
            tokio::time::sleep(self.rest).await;
            let request = v1::ListInstancesRequest {
                parent: format!("jobs/{}", job.job_id),
                page_size: PAGE,
                page_token,
                ..v1::ListInstancesRequest::default()
            };
            let page = self.client.repeat(|| {
                let (mut service, request) = (self.client.instance_service(), request.clone());
                async move { service.list_instances(request).await }
            });
            let page = page.await?;
            page.instances.iter().for_each(|instance| recording.add(instance));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }
}

/// The line of a cluster of these hosts, and how many of them it leaves out: those that take nothing new or
/// are out of reach.
#[must_use]
pub fn cluster_line(name: String, hosts: &[v1::Host]) -> (ClusterLine, u64) {
    let is_open =
        |h: &&v1::Host| h.reachable && h.drain.is_none() && h.r#move.is_none() && h.maintenance.is_none();
    let mut classes: BTreeMap<(Resources, &str), u32> = BTreeMap::new();
    let mut closed = 0;
    for host in hosts {
        if is_open(&host) {
            let class = (read_resources(host.capacity), host.host_pool.as_str());
            let count = classes.entry(class).or_default();
            *count = count.saturating_add(1);
        } else {
            closed += 1;
        }
    }
    let hosts = classes.into_iter().map(|((capacity, pool), count)| HostsLine {
        count,
        capacity: capacity.into(),
        lent: Amounts::default(),
        host_pool: Some(pool.to_owned()).filter(|pool| !pool.is_empty()),
    });
    let line = ClusterLine {
        at_ms: 0,
        name,
        capacity: None,
        hosts: Some(hosts.collect()),
    };
    (line, closed)
}

/// A job that is being recorded.
#[derive(Debug)]
pub struct JobRecording {
    spec: JobSpec,
    runs: Vec<GroupRuns>,
    unrecorded: BTreeSet<Unrecorded>,
    submit_ms: u64,
}

impl JobRecording {
    /// One of a job of which no instance was seen yet; `has_pool` tells whether a pool is there.
    ///
    /// # Errors
    /// Why such a job is in no trace.
    pub fn new(job: &v1::Job, has_pool: impl Fn(&str) -> bool) -> Result<Self, RecordCause> {
        let spec = job.spec.clone().and_then(|spec| from_wire(spec).ok());
        let spec = spec.ok_or(RecordCause::NoSpec)?;
        if spec.kind == JobKind::Daemon {
            return Err(RecordCause::Daemons);
        }
        if spec.rules.schedule.is_some() {
            return Err(RecordCause::Templates);
        }
        if spec.instances() == 0 {
            return Err(RecordCause::NoInstances);
        }
        if !has_pool(&spec.pool) {
            return Err(RecordCause::NoPool);
        }
        let created = job.create_time.as_ref().ok_or(RecordCause::NoCreateTime)?;
        let mut unrecorded = unrecorded(&spec);
        unrecorded.extend((job.spec_version > 1).then_some(Unrecorded::Versions));
        Ok(Self {
            runs: vec![GroupRuns::default(); spec.groups.len()],
            unrecorded,
            spec,
            submit_ms: read_timestamp(created).0,
        })
    }

    /// Takes an instance of it in.
    pub fn add(&mut self, instance: &v1::Instance) {
        let at = self
            .spec
            .groups
            .iter()
            .position(|g| g.name.as_str() == instance.group);
        if let Some(runs) = at.and_then(|at| self.runs.get_mut(at)) {
            runs.add(instance);
        }
        if !instance.older_runs.is_empty() {
            self.unrecorded.insert(Unrecorded::OlderRuns);
        }
    }

    /// Its line.
    #[must_use]
    pub fn line(self, job: &v1::Job) -> JobLine {
        let spec = self.spec;
        let ms = |at: Option<&prost_types::Timestamp>| at.map(|at| read_timestamp(at).0);
        let submit_ms = self.submit_ms;
        let stopped = job.desired() != v1::Desired::Running && !job.wish_too_late;
        let stop_ms = ms(job.update_time.as_ref()).filter(|_| stopped);
        // A group without instances asks for nothing.
        let groups = spec.groups.iter().zip(self.runs).filter(|(g, _)| g.instances > 0);
        JobLine {
            submit_ms,
            stop_ms: stop_ms.map(|at| at.max(submit_ms)),
            pool: spec.pool.clone(),
            owner: spec.owner.clone(),
            priority: spec.priority,
            kind: match spec.kind {
                JobKind::Batch => Some(KindWord::Batch),
                JobKind::Service => Some(KindWord::Service),
                JobKind::Stateful => Some(KindWord::Stateful),
                JobKind::Daemon => None,
            },
            gang: Some(spec.gang.is_some()),
            preemptible: Some(spec.preemptible),
            controller: Some(spec.controller),
            revocable: spec.revocable,
            clusters: spec.clusters.only.clone(),
            spread: spec.clusters.spread == Spread::Even,
            unrecorded: self.unrecorded,
            groups: groups.map(|(group, runs)| runs.line(group)).collect(),
        }
    }
}

/// What a job asks for that its line does not have.
fn unrecorded(spec: &JobSpec) -> BTreeSet<Unrecorded> {
    let has_rules = |g: &GroupSpec| {
        let pool_only = Siting {
            host_pool: g.siting.host_pool.clone(),
            ..Siting::default()
        };
        !g.constraints.is_empty() || g.siting != pool_only
    };
    let has_ports = |g: &GroupSpec| {
        let sidecars = g.sidecars.iter().map(|s| &s.runtime);
        sidecars.chain([&g.runtime]).any(|r| !r.ports.is_empty())
    };
    let rules = &spec.rules;
    let has_topology = spec.gang.as_ref().is_some_and(|g| !g.topology.levels.is_empty());
    let ends = rules.max_wait.is_some() || rules.max_total.is_some() || rules.max_failed.is_some();
    let found = [
        (spec.groups.iter().any(has_rules), Unrecorded::PlacementRules),
        (spec.groups.iter().any(has_ports), Unrecorded::Ports),
        (has_topology, Unrecorded::Topology),
        (!rules.after.is_empty(), Unrecorded::Dependencies),
        (ends || rules.driver.is_some(), Unrecorded::Rules),
    ];
    let found = found.into_iter().filter(|(is_there, _)| *is_there);
    found.map(|(_, what)| what).collect()
}

/// When instances of a group began, and how long those ran that ended by themselves.
#[derive(Debug, Clone, Default)]
struct GroupRuns {
    began: Vec<u64>,
    ran: Vec<(u64, u64)>,
}

impl GroupRuns {
    fn add(&mut self, instance: &v1::Instance) {
        let Some(run) = &instance.run else { return };
        let ms = |at: Option<&prost_types::Timestamp>| at.map(|at| read_timestamp(at).0);
        let Some(began) = ms(run.start_time.as_ref()) else {
            return;
        };
        // The first run that is on record counts as its begin.
        let older = instance.older_runs.iter();
        let first = older.filter_map(|run| ms(run.start_time.as_ref())).min();
        self.began.push(first.map_or(began, |first| first.min(began)));
        let by_itself = matches!(run.state(), v1::RunState::Succeeded | v1::RunState::Failed);
        if let Some(ended) = ms(run.end_time.as_ref()).filter(|_| by_itself && instance.ended) {
            self.ran.push((began, ended.saturating_sub(began)));
        }
    }

    fn line(mut self, group: &GroupSpec) -> GroupLine {
        self.ran.sort_unstable();
        let mut runs: Vec<RunsLine> = Vec::new();
        for (_, ms) in self.ran {
            match runs.last_mut().filter(|last| last.ms == ms) {
                Some(last) => last.count += 1,
                None => runs.push(RunsLine { count: 1, ms }),
            }
        }
        let all = self.began.len() as u64 == u64::from(group.instances);
        GroupLine {
            name: group.name.as_str().to_owned(),
            instances: group.instances,
            max_running: group.max_running,
            max_unavailable: Some(group.max_unavailable.to_string()),
            shape: group.room().into(),
            host_pool: Some(match &group.siting.host_pool {
                HostPoolChoice::Any => HostPoolChoice::ANY.to_owned(),
                HostPoolChoice::Only(name) => name.to_string(),
            }),
            volume: group.volume.as_ref().map(|v| VolumeLine {
                mib: v.size,
                keep: v.reclaim == Reclaim::Keep,
            }),
            runs,
            first_start_ms: self.began.iter().min().copied(),
            last_start_ms: self.began.iter().max().copied().filter(|_| all),
        }
    }
}

fn write(line: &Line) {
    output::bytes(line.text().as_bytes());
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::trace;
    use echelon_core_model::{GroupName, Timestamp};
    use echelon_proto::convert::quantity::timestamp;

    fn instance(number: u32, began: u64, ended: Option<u64>, state: v1::RunState) -> v1::Instance {
        v1::Instance {
            number,
            group: "main".to_owned(),
            ended: ended.is_some(),
            run: Some(v1::Run {
                start_time: Some(timestamp(Timestamp(began))),
                end_time: ended.map(|at| timestamp(Timestamp(at))),
                state: state.into(),
                ..v1::Run::default()
            }),
            ..v1::Instance::default()
        }
    }

    #[test]
    fn a_job_becomes_a_line_that_reads_back() {
        let file = "name: a\nkind: batch\npool: /ml\ninstances: 4\ncommand: secret\nresources: {cpus: 1}\n";
        let mut spec = crate::job_file::parse(file.as_bytes()).unwrap();
        spec.owner = "ann".to_owned();
        let job = v1::Job {
            spec: Some(echelon_proto::convert::spec::spec(&spec)),
            create_time: Some(timestamp(Timestamp(1_000))),
            update_time: Some(timestamp(Timestamp(9_400))),
            desired: v1::Desired::Stopped.into(),
            ..v1::Job::default()
        };
        let mut recording = JobRecording::new(&job, |_| true).unwrap();
        recording.add(&instance(1, 3_000, Some(8_000), v1::RunState::Succeeded));
        recording.add(&instance(0, 2_000, Some(7_000), v1::RunState::Failed));
        recording.add(&instance(2, 9_000, Some(9_500), v1::RunState::Killed));
        recording.add(&v1::Instance::default());
        let text = Line::Job(recording.line(&job)).text();
        insta::assert_snapshot!("job", text);
        assert!(!text.contains("secret"));
        let whole = format!(
            "{}{}{}",
            "{\"trace\":{\"version\":1,\"until_ms\":9}}\n",
            "{\"cluster\":{\"at_ms\":0,\"name\":\"a\",\"capacity\":{\"cpus_milli\":1}}}\n",
            text
        );
        let back = trace::read("x", whole.as_bytes()).unwrap().trace.jobs;
        assert_eq!(back[0].groups[0].runs[0].count, 2);
        // Moments count from the first submit.
        assert_eq!(back[0].stopped, Some(Timestamp(8_400)));
    }

    fn refused(change: impl Fn(&mut JobSpec)) -> Option<RecordCause> {
        let mut spec = JobSpec {
            pool: "/ml".to_owned(),
            groups: vec![GroupSpec::new(GroupName::new("main"), JobKind::Service)],
            ..JobSpec::new("a", JobKind::Service)
        };
        change(&mut spec);
        let job = v1::Job {
            spec: Some(echelon_proto::convert::spec::spec(&spec)),
            create_time: Some(timestamp(Timestamp(1_000))),
            ..v1::Job::default()
        };
        let unknown = v1::Job {
            create_time: None,
            ..job.clone()
        };
        assert!(
            JobRecording::new(&unknown, |_| true).is_err(),
            "when it was created is not known"
        );
        JobRecording::new(&job, |pool| pool == "/ml").err()
    }

    #[test]
    fn what_no_trace_can_hold_is_counted_by_its_cause() {
        assert_eq!(refused(|_| {}), None);
        assert_eq!(refused(|s| s.kind = JobKind::Daemon), Some(RecordCause::Daemons));
        assert_eq!(
            refused(|s| s.groups[0].instances = 0),
            Some(RecordCause::NoInstances)
        );
        assert_eq!(
            refused(|s| s.pool = "/gone".to_owned()),
            Some(RecordCause::NoPool)
        );
        let none = JobRecording::new(&v1::Job::default(), |_| true).err();
        assert_eq!(none, Some(RecordCause::NoSpec));
    }

    #[test]
    fn hosts_that_are_alike_are_one_class_and_closed_ones_are_counted() {
        let host = |cpus: u64, pool: &str, reachable| v1::Host {
            capacity: Some(v1::Resources {
                cpus_milli: cpus,
                ..v1::Resources::default()
            }),
            host_pool: pool.to_owned(),
            reachable,
            ..v1::Host::default()
        };
        let mut drained = host(4_000, "default", true);
        drained.drain = Some(v1::HostDrain::default());
        let hosts = [
            host(4_000, "default", true),
            host(8_000, "gpu", true),
            host(4_000, "default", true),
            host(4_000, "default", false),
            drained,
        ];
        let (line, closed) = cluster_line("east".to_owned(), &hosts);
        assert_eq!(closed, 2);
        let classes = line.hosts.unwrap();
        let counts: Vec<(u32, Option<&str>)> = classes
            .iter()
            .map(|c| (c.count, c.host_pool.as_deref()))
            .collect();
        assert_eq!(counts, [(2, Some("default")), (1, Some("gpu"))]);
    }
}
