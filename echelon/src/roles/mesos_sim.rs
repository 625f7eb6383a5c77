//! `echelon mesos-sim`: a simulated Mesos cluster as a process of its own, whose tasks outlive it.

use super::options::{Options, WrongOption};
use super::shard::cluster_name;
use crate::process::Process;
use anyhow::{Context, Result};
use clap::Args;
use echelon_cli::output;
use echelon_core_model::Span;
use echelon_io_mesos_sim::{AgentShape, Bundle, Config, Exec, Mode, Virtual, serve};
use echelon_io_process::config::Common;
use serde::Deserialize;
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

/// Ports of a simulated host. All hosts are this machine, so they must not share any; below those that Linux gives to
/// outgoing connections there is room for 35 hosts.
const PORTS: u16 = 50;
const FIRST_PORT: u16 = 31_000;
const HOSTS_WITH_PORTS: usize = 35;

fn host(number: usize) -> AgentShape {
    let place = u16::try_from(number % HOSTS_WITH_PORTS).unwrap_or_default();
    let first = FIRST_PORT + place * PORTS;
    AgentShape {
        resources: Bundle::of(4, 4096, 16_384).with_ports(first.into(), (first + PORTS - 1).into()),
        ..AgentShape::small()
    }
}

/// A simulated cluster of hosts that are alike; `before` hosts of other clusters are on this machine too.
pub(crate) fn cluster(name: String, (before, hosts): (usize, usize), mode: Mode) -> Config {
    Config {
        listen: Common::default().listen,
        cluster: name,
        agents: (before..before + hosts).map(host).collect(),
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

pub(super) async fn run(options: MesosSimOptions) -> Result<()> {
    let name = cluster_name(options.cluster.unwrap_or_else(|| "sim".to_owned()))?;
    let agents = options.agents.unwrap_or(3);
    if agents == 0 {
        return Err(WrongOption("`--agents 0`: a cluster needs a host".into()).into());
    }
    let process = Process::begin(&options.process)?;
    let mode = if options.is_virtual.unwrap_or_default() {
        virtual_tasks()
    } else {
        exec(
            options.work_dir.unwrap_or_else(|| "mesos-sim".into()),
            options.run_log,
        )?
    };
    let mut config = cluster(name, (0, agents), mode);
    config.listen = options.process.listen;
    if let Some(port) = options.port {
        config.listen.set_port(port);
    }
    let running = serve(config, &process.shutdown).await?;
    output::line(format_args!(
        "echelon mesos-sim: master at http://{}",
        running.address
    ));
    process.ended().await
}
