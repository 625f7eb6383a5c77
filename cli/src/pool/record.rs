//! `echelon pool record`: writes a trace of demand from what the API tells, page by page, one call at a time with a rest after each, so
//! that no server notices. Nothing is kept but one job's runs.

use super::trace::{ClusterLine, GroupLine, HeadLine, JobLine, Line, RunsLine, VERSION};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::spec::{GroupSpec, JobSpec, Spread};
use echelon_core_model::time::Span;
use echelon_proto::convert::quantity::{read_resources, read_timestamp};
use echelon_proto::convert::spec::from_wire;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rows asked for at once.
const PAGE: i32 = 200;

/// Writes what there is to the standard output.
pub async fn record(context: &Context, rest: Span) -> Result<(), Failure> {
    let client = context.client().await?;
    let recorder = Recorder {
        client: &client,
        rest: Duration::from_millis(rest.0),
        until_ms: now_ms(),
    };
    let jobs = recorder.run().await?;
    output::remark(format_args!("{jobs} jobs were recorded"));
    Ok(())
}

struct Recorder<'a> {
    client: &'a Client,
    rest: Duration,
    until_ms: u64,
}

impl Recorder<'_> {
    async fn run(&self) -> Result<u64, Failure> {
        write(&Line::Trace(HeadLine {
            version: VERSION,
            until_ms: self.until_ms,
        }));
        for pool in client::pools(self.client, v1::ListPoolsRequest::default(), usize::MAX)
            .await?
            .rows
        {
            write(&Line::pool(&pool));
        }
        for cluster in client::clusters(self.client, v1::ListClustersRequest::default(), usize::MAX)
            .await?
            .rows
        {
            if cluster.wish() != v1::ClusterWish::Left {
                write(&Line::Cluster(ClusterLine {
                    at_ms: 0,
                    name: cluster.display_name,
                    capacity: read_resources(cluster.capacity).into(),
                }));
            }
        }
        self.jobs().await
    }

    async fn jobs(&self) -> Result<u64, Failure> {
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
                n += u64::from(self.job(job).await?);
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(n);
            }
            tokio::time::sleep(self.rest).await;
        }
    }

    /// Writes a job, unless it went meanwhile or what it asked for is gone with it.
    async fn job(&self, listed: &v1::Job) -> Result<bool, Failure> {
        tokio::time::sleep(self.rest).await;
        let job = match self.client.get_job(&listed.job_id).await.map_err(Failure::from) {
            Ok(job) => job,
            Err(gone) if gone.exit == Exit::NotFound => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let Some(spec) = job.spec.clone().and_then(|spec| from_wire(spec).ok()) else {
            output::remark(format_args!(
                "job {}: what it asked for is gone, so it is left out",
                job.job_id
            ));
            return Ok(false);
        };
        let mut runs = vec![GroupRuns::default(); spec.groups.len()];
        self.runs(&job, &spec, &mut runs).await?;
        write(&Line::Job(line(&job, &spec, runs)));
        Ok(true)
    }

    /// When and how long its instances ran.
    async fn runs(&self, job: &v1::Job, spec: &JobSpec, runs: &mut [GroupRuns]) -> Result<(), Failure> {
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
            for instance in &page.instances {
                let at = spec.groups.iter().position(|g| g.name.as_str() == instance.group);
                if let Some(runs) = at.and_then(|at| runs.get_mut(at)) {
                    runs.add(instance);
                }
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(());
            }
        }
    }
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
        self.began.push(began);
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
            shape: group.room().into(),
            runs,
            first_start_ms: self.began.iter().min().copied(),
            last_start_ms: self.began.iter().max().copied().filter(|_| all),
        }
    }
}

fn line(job: &v1::Job, spec: &JobSpec, runs: Vec<GroupRuns>) -> JobLine {
    let ms = |at: Option<&prost_types::Timestamp>| at.map(|at| read_timestamp(at).0);
    let submit_ms = ms(job.create_time.as_ref()).unwrap_or_default();
    let stopped = job.desired() != v1::Desired::Running && !job.wish_too_late;
    let stop_ms = ms(job.update_time.as_ref()).filter(|_| stopped);
    // A group without instances asks for nothing.
    let groups = spec.groups.iter().zip(runs).filter(|(g, _)| g.instances > 0);
    JobLine {
        submit_ms,
        stop_ms: stop_ms.map(|at| at.max(submit_ms)),
        pool: spec.pool.clone(),
        owner: spec.owner.clone(),
        priority: spec.priority,
        revocable: spec.revocable,
        clusters: spec.clusters.only.clone(),
        spread: spec.clusters.spread == Spread::Even,
        groups: groups.map(|(group, runs)| runs.line(group)).collect(),
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
    use echelon_core_model::Timestamp;
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
        let mut runs = GroupRuns::default();
        runs.add(&instance(1, 3_000, Some(8_000), v1::RunState::Succeeded));
        runs.add(&instance(0, 2_000, Some(7_000), v1::RunState::Failed));
        runs.add(&instance(2, 9_000, Some(9_500), v1::RunState::Killed));
        runs.add(&v1::Instance::default());
        let job = v1::Job {
            create_time: Some(timestamp(Timestamp(1_000))),
            update_time: Some(timestamp(Timestamp(9_400))),
            desired: v1::Desired::Stopped.into(),
            ..v1::Job::default()
        };
        let text = Line::Job(line(&job, &spec, vec![runs])).text();
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
        assert_eq!(back[0].stopped, Some(Timestamp(9_400)));
    }
}
