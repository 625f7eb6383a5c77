//! `echelon demo`: two simulated clusters, the whole federation in this process, two example jobs, and what became of each
//! instance. It talks to its own gateway over gRPC as any client does.

mod cluster_loss;
mod marks;
mod timeline;

use crate::examples;
use crate::heard::Wanted;
use crate::standalone::{self, Running};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use echelon_cli::job_file;
use echelon_cli::output;
use echelon_clients_rust::{self as client, Client, v1};
use echelon_core_model::spec::JobSpec;
use echelon_io_process::Shutdown;
use echelon_proto::convert;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Flags.
#[derive(Debug, Args)]
pub struct Demo {
    /// Go on afterwards and print the addresses to look at
    #[arg(long, conflicts_with = "scenario")]
    stay: bool,
    /// Play a failure in place of the two jobs
    #[arg(long, value_enum, value_name = "SCENARIO")]
    scenario: Option<DemoScenario>,
}

/// A failure that the demo plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoScenario {
    /// One of three clusters is lost and returns, in two minutes: services move, batch work gives way and returns
    ClusterLoss,
}

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs the demo.
///
/// # Errors
/// When an instance did not succeed, a step of a scenario did not come, or something could not be started.
pub async fn run(flags: Demo, shutdown: Shutdown) -> Result<()> {
    match flags.scenario {
        Some(DemoScenario::ClusterLoss) => cluster_loss::run(shutdown).await,
        None => run_jobs(flags, shutdown).await,
    }
}

/// Two jobs on two clusters.
async fn run_jobs(flags: Demo, shutdown: Shutdown) -> Result<()> {
    let began = Instant::now();
    let folder = tempfile::Builder::new()
        .prefix("echelon-demo-")
        .tempdir()
        .context("make a temporary folder")?;
    let config = standalone::Config::demo(folder.path());
    let heard = Wanted::of(&config);
    let running = standalone::start(config, shutdown.clone()).await?;
    let address = format!("http://{}", running.address());
    output::remark(format_args!(
        "two simulated clusters of three hosts, a gateway, a resource manager and two shards are up at {address}"
    ));
    let gateway = Client::connect(&address, DEADLINE).await?;
    let sources = sources(folder.path())?;
    let stop = shutdown.token();
    let jobs = async {
        heard.wait(&gateway).await?;
        both(&gateway, &sources).await
    };
    let done = tokio::select! {
        done = jobs => done,
        () = stop.cancelled() => bail!("interrupted"),
    };
    let instances = done?;
    let good = instances
        .iter()
        .filter(|(_, i, _)| i.state() == v1::RunState::Succeeded)
        .count();
    print_all(&instances);
    output::line(format_args!(
        "demo: {good} of {} instances succeeded on {} clusters in {:.1} s",
        instances.len(),
        clusters(&instances),
        began.elapsed().as_secs_f64()
    ));
    if flags.stay {
        stay(&running, &shutdown).await;
    }
    running.stop().await;
    if good != instances.len() {
        bail!(
            "{} of {} instances did not succeed",
            instances.len() - good,
            instances.len()
        );
    }
    Ok(())
}

type Row = (String, v1::Instance, String);

/// Submits both jobs, follows them and collects what their instances wrote.
async fn both(gateway: &Client, sources: &Path) -> Result<Vec<Row>> {
    let bars = MultiProgress::with_draw_target(if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    });
    let jobs = ["hello.yaml", "checksum.yaml"].map(|file| follow(gateway, file, sources, &bars));
    let mut rows = Vec::new();
    for ended in futures::future::join_all(jobs).await {
        let job = ended?;
        rows.extend(collect(gateway, &job).await?);
    }
    Ok(rows)
}

async fn follow(gateway: &Client, file: &str, sources: &Path, bars: &MultiProgress) -> Result<v1::Job> {
    let spec = example(file, sources)?;
    let job = gateway.create_job(convert::spec::spec(&spec)).await?;
    let bar = bars.add(ProgressBar::new(job.instances));
    bar.set_style(ProgressStyle::with_template(
        "{prefix:10} {bar:30} {pos}/{len} {elapsed}",
    )?);
    bar.set_prefix(job.display_name.clone());
    let mut last = job.clone();
    let watched = gateway.watch_job(&job.job_id, |change| {
        if let Some(job) = &change.job {
            last = job.clone();
            let counts = job.groups.iter().flat_map(|g| &g.counts);
            bar.set_position(
                counts
                    .filter(|c| c.state() == v1::RunState::Succeeded)
                    .map(|c| c.count)
                    .sum(),
            );
        }
        matches!(
            last.state(),
            v1::JobState::Succeeded | v1::JobState::Failed | v1::JobState::Stopped
        )
    });
    tokio::time::timeout(DEADLINE, watched)
        .await
        .with_context(|| format!("{file} did not end within a minute"))??;
    bar.finish_and_clear();
    Ok(last)
}

fn example(file: &str, sources: &Path) -> Result<JobSpec> {
    let text = examples::FILES
        .iter()
        .find(|(name, _)| *name == file)
        .map(|(_, text)| *text);
    let mut spec = job_file::parse(text.unwrap_or_default().as_bytes())
        .with_context(|| format!("read the example {file}"))?;
    for group in &mut spec.groups {
        group
            .runtime
            .env
            .insert("SOURCES".to_owned(), sources.display().to_string());
    }
    Ok(spec)
}

async fn collect(gateway: &Client, job: &v1::Job) -> Result<Vec<Row>> {
    let request = v1::ListInstancesRequest {
        parent: format!("jobs/{}", job.job_id),
        ..v1::ListInstancesRequest::default()
    };
    let instances = client::instances(gateway, request, usize::MAX).await?.rows;
    let mut rows = Vec::with_capacity(instances.len());
    for instance in instances {
        let output = output(gateway, &instance)
            .await
            .unwrap_or_else(|e| format!("(no output: {e})"));
        rows.push((job.display_name.clone(), instance, output));
    }
    Ok(rows)
}

async fn output(gateway: &Client, instance: &v1::Instance) -> Result<String> {
    let request = v1::ReadLogRequest {
        name: instance.name.clone(),
        limit_bytes: Some(4096),
        ..v1::ReadLogRequest::default()
    };
    let mut stream = gateway.instance_service().read_log(request).await?.into_inner();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.message().await? {
        bytes.extend_from_slice(&chunk.data);
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn print_all(rows: &[Row]) {
    let columns = &["JOB", "INSTANCE", "STATE", "CLUSTER", "HOST", "OUTPUT"];
    let cells = rows.iter().map(|(job, i, output)| {
        let state = i
            .state()
            .as_str_name()
            .trim_start_matches("RUN_STATE_")
            .to_lowercase();
        let host = i.run.as_ref().map(|r| r.hostname.clone()).unwrap_or_default();
        vec![
            job.clone(),
            i.number.to_string(),
            state,
            i.cluster.clone(),
            host,
            output.clone(),
        ]
    });
    let listing = echelon_cli::output::Listing {
        columns,
        narrow: columns.len(),
        rows: cells.collect(),
        ..echelon_cli::output::Listing::default()
    };
    output::print(echelon_cli::output::list(
        &listing,
        echelon_cli::output::Format::Table,
    ));
}

fn clusters(rows: &[Row]) -> usize {
    rows.iter()
        .map(|(_, i, _)| i.cluster_id.as_str())
        .collect::<std::collections::BTreeSet<_>>()
        .len()
}

/// The project's own source files when run from a clone, else the examples inside the program.
fn sources(folder: &Path) -> Result<PathBuf> {
    let clone = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core");
    if clone.is_dir() {
        return Ok(clone.canonicalize()?);
    }
    let inside = folder.join("sources");
    std::fs::create_dir_all(&inside)?;
    for (name, text) in examples::FILES {
        std::fs::write(inside.join(name), text)?;
    }
    Ok(inside)
}

async fn stay(running: &Running, shutdown: &Shutdown) {
    let address = running.address();
    output::line(format_args!(
        "\nlook at  http://{address}/\nor       export ECHELON_ADDRESS=http://{address}; echelon job list\nCtrl-C ends it"
    ));
    shutdown.token().cancelled().await;
}
