//! `echelon demo --scenario cluster-loss`: one of three simulated clusters goes away with all that it runs,
//! and returns. Services begin elsewhere, batch work gives way to them and returns. What came of it is
//! counted from the marks that the runs leave, and not from what the federation says.

use super::marks::{MarkedJob, MarkedOutcome, MarkedRuns, MarkedWork, MarksFolder};
use super::timeline::{ClusterMoment, Timeline};
use crate::heard::Wanted;
use crate::standalone::{self, Running};
use anyhow::{Context, Result, bail, ensure};
use echelon_cli::{cluster_health, job_file, output};
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::Resources;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_io_process::Shutdown;
use echelon_proto::convert;
use std::time::{Duration, Instant};

const SERVICES: [&str; 2] = [
    include_str!("cluster_loss/web.yaml"),
    include_str!("cluster_loss/queue.yaml"),
];
const BATCH: [&str; 1] = [include_str!("cluster_loss/render.yaml")];
/// It has reserved what all service instances use.
const SERVICE_POOL: &str = "/services";
const BATCH_POOL: &str = "/batch";
/// The cluster that goes away.
const GOES: &str = "west";

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Longest call of the gateway.
const CALL: Duration = Duration::from_secs(30);
/// How long the federation may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Something that is awaited, for three times as long as it takes at most on an idle machine.
#[derive(Debug, Clone, Copy)]
struct AwaitedStep {
    /// For the error where it does not come: "NAME did not come".
    name: &'static str,
    within: Duration,
}

const SERVICES_RUN: AwaitedStep = AwaitedStep::new("the start of every service instance", 60);
const BATCH_RUNS: AwaitedStep = AwaitedStep::new("the start of every batch instance", 60);
/// A shard is noticed as silent within 15 s.
const CUT_OFF: AwaitedStep = AwaitedStep::new("the health cut-off of the lost cluster", 45);
/// Starts are forbidden 60 s after the last sign of the shard. A round of moves and their launches follow
/// within 15 s.
const SERVICES_MOVED: AwaitedStep = AwaitedStep::new("the start of the lost services elsewhere", 225);
/// The hold after a bad state takes 15 s. Before it the shard takes over, and the agents register.
const HEALTHY: AwaitedStep = AwaitedStep::new("the health of the returned cluster", 75);
const BATCH_RETURNS: AwaitedStep = AwaitedStep::new("the return of batch work", 60);
const BATCH_ENDS: AwaitedStep = AwaitedStep::new("the result of every batch instance", 60);

impl AwaitedStep {
    const fn new(name: &'static str, seconds: u64) -> Self {
        Self {
            name,
            within: Duration::from_secs(seconds),
        }
    }
}

/// Plays it.
///
/// # Errors
/// A step did not come in time, something ran twice or was lost, or something could not be started.
pub(super) async fn run(shutdown: Shutdown) -> Result<()> {
    let timeline = Timeline::new();
    let folder = tempfile::Builder::new()
        .prefix("echelon-demo-")
        .tempdir()
        .context("make a temporary folder")?;
    let marks = MarksFolder::new(folder.path())?;
    let config = standalone::Config::cluster_loss(folder.path());
    let heard = Wanted::of(&config);
    // Its end is no interrupt of this process.
    let running = standalone::start(config, Shutdown::new(GRACE)).await?;
    let address = format!("http://{}", running.address());
    let mut scenario = ClusterLoss {
        gateway: Client::connect(&address, CALL).await?,
        running,
        marks,
        timeline,
        jobs: Vec::new(),
    };
    scenario.timeline.note(format_args!(
        "three simulated clusters of three hosts are up at {address}"
    ));
    let played = shutdown.token().run_until_cancelled(scenario.play(heard)).await;
    let elapsed = scenario.timeline.elapsed();
    let ended = scenario.running.stop_with_tasks().await;
    let outcome = played.context("interrupted")??;
    ended?;
    output::line(format_args!(
        "cluster-loss: {outcome}, in {:.1} s",
        elapsed.as_secs_f64()
    ));
    ensure!(
        outcome.doubled == 0 && outcome.lost == 0,
        "{} instances ran twice at once, and {} were lost",
        outcome.doubled,
        outcome.lost
    );
    Ok(())
}

/// A scenario that is played.
struct ClusterLoss {
    gateway: Client,
    running: Running,
    marks: MarksFolder,
    timeline: Timeline,
    /// Those that were submitted.
    jobs: Vec<MarkedJob>,
}

/// What is seen at one moment.
struct LossMoment {
    clusters: Vec<v1::Cluster>,
    marks: MarkedRuns,
}

impl LossMoment {
    fn lost_cluster(&self) -> Option<&v1::Cluster> {
        self.clusters.iter().find(|c| c.display_name == GOES)
    }

    fn is(&self, health: v1::Health) -> bool {
        self.lost_cluster().is_some_and(|c| c.health() == health)
    }

    /// Whether every instance of these jobs lives.
    fn all_live(&self, jobs: &[MarkedJob], work: MarkedWork) -> bool {
        let mut of_work = jobs.iter().filter(|job| job.work == work);
        of_work.all(|job| self.marks.living(job).len() == job.instances)
    }

    /// What is shown of it.
    fn shown(&self, jobs: &[MarkedJob]) -> Vec<ClusterMoment> {
        let of_cluster = |cluster: &v1::Cluster| ClusterMoment {
            name: cluster.display_name.clone(),
            health: cluster_health(cluster.health()),
            services: self.living_at(jobs, MarkedWork::Service, &cluster.display_name),
            batch: self.living_at(jobs, MarkedWork::Batch, &cluster.display_name),
        };
        self.clusters.iter().map(of_cluster).collect()
    }

    /// How many runs of such jobs live at a cluster.
    fn living_at(&self, jobs: &[MarkedJob], work: MarkedWork, cluster: &str) -> usize {
        let of_work = jobs.iter().filter(|job| job.work == work);
        of_work.map(|job| self.marks.living_at(job, cluster)).sum()
    }
}

impl ClusterLoss {
    async fn play(&mut self, heard: Wanted) -> Result<MarkedOutcome> {
        heard.wait(&self.gateway).await?;
        self.fill().await?;
        self.lose().await?;
        self.bring_back().await?;
        self.finish().await
    }

    /// Services are spread over all clusters, and batch work fills what they leave.
    async fn fill(&mut self) -> Result<()> {
        let services = specs(&SERVICES)?;
        let reservation = services.iter().map(room).fold(Resources::ZERO, Resources::plus);
        self.create_pool(SERVICE_POOL, reservation).await?;
        self.create_pool(BATCH_POOL, Resources::ZERO).await?;
        self.submit(services).await?;
        self.until(SERVICES_RUN, |now, jobs| now.all_live(jobs, MarkedWork::Service))
            .await?;
        self.submit(specs(&BATCH)?).await?;
        let full = self
            .until(BATCH_RUNS, |now, jobs| now.all_live(jobs, MarkedWork::Batch))
            .await?;
        for work in [MarkedWork::Service, MarkedWork::Batch] {
            let there = full.living_at(&self.jobs, work, GOES);
            ensure!(there > 0, "no {work} runs at {GOES}, which is about to go away");
        }
        self.timeline.note("all clusters are full");
        Ok(())
    }

    /// A cluster goes away. The services that ran there begin elsewhere, and batch work gives way to them.
    async fn lose(&mut self) -> Result<()> {
        let n_killed = self.running.lose_cluster(GOES).await?;
        let lost_at = Instant::now();
        self.timeline.note(format_args!(
            "{GOES} loses its power: its shard, its master, and its hosts with {n_killed} runs are gone"
        ));
        let silent = self.until(CUT_OFF, |now, _| now.is(v1::Health::CutOff)).await?;
        let silence = silent.lost_cluster().map_or(0, |cluster| cluster.silence);
        self.timeline.note(format_args!(
            "{GOES} is cut off, {:.1} s after its loss. It may be alive, so an operator who knows better says:",
            lost_at.elapsed().as_secs_f64()
        ));
        self.timeline.note(format_args!(
            "    echelon cluster declare-lost {GOES} --silence {silence}"
        ));
        self.declare_lost(silence).await?;
        let moved = self
            .until(SERVICES_MOVED, |now, jobs| {
                now.all_live(jobs, MarkedWork::Service) && now.living_at(jobs, MarkedWork::Service, GOES) == 0
            })
            .await?;
        let outcome = moved.marks.outcome(&self.jobs);
        self.timeline.note(format_args!(
            "all services run at the other clusters, {:.1} s after the loss; {} batch runs gave way",
            lost_at.elapsed().as_secs_f64(),
            outcome.killed
        ));
        ensure!(outcome.killed > 0, "no batch work gave way to the lost services");
        Ok(())
    }

    /// The cluster returns, and what waits for capacity begins there.
    async fn bring_back(&mut self) -> Result<()> {
        self.running.bring_cluster_back(GOES).await?;
        self.timeline.note(format_args!("{GOES} has power again"));
        self.until(HEALTHY, |now, _| now.is(v1::Health::Healthy)).await?;
        self.until(BATCH_RETURNS, |now, jobs| {
            now.all_live(jobs, MarkedWork::Batch) && now.living_at(jobs, MarkedWork::Batch, GOES) > 0
        })
        .await?;
        self.timeline.note("all batch work runs again");
        Ok(())
    }

    /// Batch work ends, and services are still there.
    async fn finish(&mut self) -> Result<MarkedOutcome> {
        self.marks.finish()?;
        let ended = self
            .until(BATCH_ENDS, |now, jobs| now.marks.outcome(jobs).lost == 0)
            .await;
        match ended {
            Ok(ended) => Ok(ended.marks.outcome(&self.jobs)),
            Err(error) => {
                // What is lost is a figure of the last line.
                let outcome = self.marks.read()?.outcome(&self.jobs);
                if outcome.lost > 0 { Ok(outcome) } else { Err(error) }
            }
        }
    }

    async fn create_pool(&self, path: &str, reservation: Resources) -> Result<()> {
        let request = v1::CreatePoolRequest {
            pool: Some(v1::Pool {
                path: path.to_owned(),
                reservation: Some(convert::quantity::resources(&reservation)),
                ..v1::Pool::default()
            }),
        };
        let made = self.gateway.once(|| {
            let (mut service, request) = (self.gateway.pool_service(), request.clone());
            async move { service.create_pool(request).await }
        });
        made.await.with_context(|| format!("create the pool {path}"))?;
        Ok(())
    }

    async fn submit(&mut self, specs: Vec<JobSpec>) -> Result<()> {
        for mut spec in specs {
            for group in &mut spec.groups {
                let marks = self.marks.folder().display().to_string();
                group.runtime.env.insert("MARKS".to_owned(), marks);
            }
            let job = self.gateway.create_job(convert::spec::spec(&spec)).await?;
            let work = match spec.kind {
                JobKind::Batch => MarkedWork::Batch,
                _ => MarkedWork::Service,
            };
            self.timeline.note(format_args!(
                "{work} {} has {} instances in {}",
                spec.name, job.instances, spec.pool
            ));
            self.jobs.push(MarkedJob {
                name: spec.name,
                work,
                instances: usize::try_from(job.instances).unwrap_or(usize::MAX),
            });
        }
        Ok(())
    }

    async fn declare_lost(&self, silence: u64) -> Result<()> {
        let request = v1::DeclareClusterLostRequest {
            name: format!("clusters/{GOES}"),
            silence,
        };
        let declared = self.gateway.change(|| {
            let (mut service, request) = (self.gateway.cluster_service(), request.clone());
            async move { service.declare_cluster_lost(request).await }
        });
        declared.await.with_context(|| format!("declare {GOES} lost"))?;
        Ok(())
    }

    /// Looks, and shows what is seen, until something holds.
    async fn until(
        &mut self,
        step: AwaitedStep,
        holds: impl Fn(&LossMoment, &[MarkedJob]) -> bool,
    ) -> Result<LossMoment> {
        let began = Instant::now();
        loop {
            let now = self.look().await?;
            if holds(&now, &self.jobs) {
                self.timeline.show_step(now.shown(&self.jobs));
                return Ok(now);
            }
            self.timeline.show(now.shown(&self.jobs));
            if began.elapsed() >= step.within {
                bail!("{} did not come within {} s", step.name, step.within.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self) -> Result<LossMoment> {
        let clusters = client::clusters(&self.gateway, v1::ListClustersRequest::default(), usize::MAX);
        let mut clusters = clusters.await?.rows;
        clusters.sort_by(|a, b| a.display_name.cmp(&b.display_name));
        Ok(LossMoment {
            clusters,
            marks: self.marks.read()?,
        })
    }
}

fn specs(files: &[&str]) -> Result<Vec<JobSpec>> {
    let read = |text: &&str| job_file::parse(text.as_bytes()).context("read a job of the scenario");
    files.iter().map(read).collect()
}

/// What all instances of a job use.
fn room(spec: &JobSpec) -> Resources {
    let groups = spec.groups.iter();
    let rooms = groups.map(|group| group.room().times(group.instances.into()));
    rooms.fold(Resources::ZERO, Resources::plus)
}
