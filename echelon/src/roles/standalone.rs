//! `echelon standalone`.

use super::kept_logs::Kept;
use super::losses::LossOptions;
use super::options::{Options, WrongOption};
use super::preemption::PreemptionOptions;
use super::shard::cluster_name;
use crate::process::{Process, told};
use crate::standalone::{Cluster, Config, Tasks, start_in};
use anyhow::Result;
use clap::Args;
use echelon_cli::output;
use echelon_io_process::config::Common;
use serde::Deserialize;
use std::path::PathBuf;

/// What a whole federation in one process is told.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StandaloneOptions {
    #[arg(skip)]
    process: Common,
    /// Folder of everything that is kept [default: echelon-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Real clusters in place of the simulated ones: name=host:5050,...
    #[arg(long, value_name = "NAME=MASTER", value_delimiter = ',')]
    clusters: Option<Vec<String>>,
    /// Simulated tasks without processes
    #[arg(long = "virtual", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    #[serde(rename = "virtual")]
    is_virtual: Option<bool>,
    #[command(flatten)]
    preemption: PreemptionOptions,
    #[command(flatten)]
    losses: LossOptions,
    #[arg(skip)]
    logs: Kept,
}

impl Options for StandaloneOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            data_dir: self.data_dir.or(file.data_dir),
            clusters: self.clusters.or(file.clusters),
            is_virtual: self.is_virtual.or(file.is_virtual),
            preemption: self.preemption.over(file.preemption),
            losses: self.losses.over(file.losses),
            logs: file.logs,
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

impl StandaloneOptions {
    fn config(self) -> Result<Config, WrongOption> {
        let data_dir = self.data_dir.unwrap_or_else(|| "echelon-data".into());
        let mut config = Config::new(&data_dir);
        config.listen = self.process.listen;
        config.manager = self.losses.apply(self.preemption.apply(config.manager)?)?;
        config.logs = self.logs.limits()?;
        if self.is_virtual.unwrap_or_default() {
            config.simulate(Tasks::Virtual);
        }
        if let Some(clusters) = self.clusters {
            config.clusters = clusters.iter().map(|text| real(text)).collect::<Result<_, _>>()?;
        }
        Ok(config)
    }
}

fn real(text: &str) -> Result<Cluster, WrongOption> {
    let (name, masters) = text
        .split_once('=')
        .ok_or_else(|| WrongOption(format!("`--clusters {text}`: write name=host:5050")))?;
    Ok(Cluster::Real {
        name: cluster_name(name.to_owned())?,
        masters: masters.to_owned(),
    })
}

pub(super) async fn run(mut options: StandaloneOptions) -> Result<()> {
    let process = Process::begin(options.process())?;
    let config = options.config()?;
    let running = start_in(config, process).await?;
    output::line(format_args!(
        "echelon standalone: ready at http://{} (data in {})",
        running.address(),
        running.data_dir().display()
    ));
    told(running.ended().await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_clusters_are_named() {
        let options = |clusters: &[&str]| StandaloneOptions {
            clusters: Some(clusters.iter().map(|c| (*c).to_owned()).collect()),
            ..StandaloneOptions::default()
        };
        let config = options(&["a=m1:5050", "b=m2:5050"]).config().unwrap();
        let names: Vec<&str> = config.clusters.iter().map(Cluster::name).collect();
        assert_eq!(names, ["a", "b"]);
        for bad in ["m1:5050", "=m1:5050", "A=m1:5050"] {
            assert!(options(&[bad]).config().is_err(), "{bad}");
        }
    }
}
