//! `echelon mesos-sim`: a simulated Mesos cluster as a process of its own, whose tasks outlive it.

use super::options::{self, Options, WrongOption};
use super::shard::cluster_name;
use crate::process::Process;
use anyhow::{Context, Result};
use clap::Args;
use echelon_cli::output;
use echelon_core_model::Span;
use echelon_io_mesos_sim::{AgentShape, Config, Exec, Mode, Virtual, serve};
use echelon_io_process::config::Common;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;

/// Time between two batches of offers: short, so that trying things out feels quick.
const ALLOCATION_INTERVAL: Span = Span::millis(100);

/// Events that may wait for a slow reader: as many as the tasks of a large cluster.
/// A list of all tasks is sent at once.
const STREAM_BOUND: usize = 1_000_000;

/// What a simulated cluster is told.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MesosSimOptions {
    #[arg(skip)]
    process: Common,
    /// The cluster's name, part of its hosts' names [default: sim]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Port of the master, on the address of `--listen`
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// host:port by which others reach the master, where that is not the address it listens on; agents have the same host
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// How many agents: hosts of 4 CPUs and 4 GiB [default: 3]
    #[arg(long, value_name = "N")]
    agents: Option<usize>,
    /// Folder of sandboxes and of what is kept over a restart [default: mesos-sim]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// File that gets a line of JSON for each begin and end of a task's process
    #[arg(long, value_name = "FILE")]
    run_log: Option<PathBuf>,
    /// Tasks without processes: nothing is run, nothing is kept
    #[arg(long = "virtual", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    #[serde(rename = "virtual")]
    is_virtual: Option<bool>,
}

impl Options for MesosSimOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            cluster: self.cluster.or(file.cluster),
            port: self.port.or(file.port),
            advertise: self.advertise.or(file.advertise),
            agents: self.agents.or(file.agents),
            work_dir: self.work_dir.or(file.work_dir),
            run_log: self.run_log.or(file.run_log),
            is_virtual: self.is_virtual.or(file.is_virtual),
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

/// A simulated cluster of hosts that are alike.
pub(crate) fn cluster(name: String, hosts: usize, mode: Mode) -> Config {
    Config {
        listen: Common::default().listen,
        reached_at: None,
        cluster: name,
        agents: vec![AgentShape::small(); hosts],
        mode,
        allocation_interval: ALLOCATION_INTERVAL,
        credentials: Vec::new(),
        operators: Vec::new(),
        stream_bound: STREAM_BOUND,
        seed: rand::random(),
    }
}

/// Tasks as processes under supervisors of this program.
pub(crate) fn exec(work_dir: PathBuf, run_log: Option<PathBuf>) -> Result<Mode> {
    let program = std::env::current_exe().context("find this program, to supervise tasks")?;
    Ok(Mode::Exec(Exec {
        work_dir,
        supervisor: vec![program.display().to_string(), "mesos-sim-supervise".to_owned()],
        run_log,
    }))
}

/// Tasks that run for ever unless they say otherwise.
pub(crate) const fn virtual_tasks() -> Mode {
    Mode::Virtual(Virtual {
        start_delay: Span::millis(10),
        runtime: None,
        term_delay: Span::millis(10),
    })
}

/// Mesos tells addresses and no names.
async fn address_of(advertise: &str) -> Result<IpAddr> {
    let mut found = tokio::net::lookup_host(advertise)
        .await
        .with_context(|| format!("look up `advertise`, which is `{advertise}`"))?;
    let first = found.next().map(|address| address.ip());
    first.with_context(|| format!("`advertise` is `{advertise}`, which has no address"))
}

pub(super) async fn run(options: MesosSimOptions) -> Result<()> {
    let name = cluster_name(options.cluster.unwrap_or_else(|| "sim".to_owned()))?;
    let agents = options.agents.unwrap_or(3);
    if agents == 0 {
        return Err(WrongOption("`--agents 0`: a cluster needs a host".into()).into());
    }
    let mut listen = options.process.listen;
    if let Some(port) = options.port {
        listen.set_port(port);
    }
    options::reachable(listen, options.advertise.as_deref())?;
    let process = Process::begin(&options.process)?;
    let reached_at = match &options.advertise {
        Some(advertise) => Some(address_of(advertise).await?),
        None => None,
    };
    let mode = if options.is_virtual.unwrap_or_default() {
        virtual_tasks()
    } else {
        exec(
            options.work_dir.unwrap_or_else(|| "mesos-sim".into()),
            options.run_log,
        )?
    };
    let mut config = cluster(name, agents, mode);
    config.listen = listen;
    config.reached_at = reached_at;
    let running = serve(config, &process.shutdown).await?;
    output::line(format_args!(
        "echelon mesos-sim: master at http://{}",
        running.address
    ));
    let ended = process.ended().await;
    if let Some(left) = running.left_behind() {
        output::remark(format!("echelon mesos-sim: {left}"));
    }
    ended
}
