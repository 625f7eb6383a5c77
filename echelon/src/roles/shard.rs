//! `echelon shard`.

use super::kept_logs::Kept;
use super::options::{self, Options, WrongOption};
use super::timeouts::{self, TimeoutOptions};
use crate::process::{BUILD, Process, membership, metrics_of, unique_name};
use anyhow::{Context, Result};
use clap::Args;
use echelon_core_model::Span;
use echelon_core_model::cluster::GpuHosts;
use echelon_io_process::config::Common;
use echelon_shard::mesos::{Credential, Framework, Limits, Timing};
use echelon_shard::{Config, DriverTiming, Mesos, Parts, serve};
use serde::Deserialize;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Mesos kills all our tasks when no shard has subscribed for this long: weeks, since a restored storage or a long repair
/// must not cost what runs.
const FAILOVER_TIMEOUT: Span = Span::minutes(60 * 24 * 28);

/// What a shard is told.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShardOptions {
    #[arg(skip)]
    process: Common,
    #[arg(skip)]
    limits: Limited,
    #[arg(skip)]
    placement: Placed,
    #[arg(skip)]
    logs: Kept,
    /// The cluster's name: 1 to 63 characters of a-z, 0-9 and `-`. `echelon cluster add NAME` adds it; until then the shard waits
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Its Mesos masters: host:5050, several with commas between them, zk://h1:2181,h2:2181/mesos, or file:///path of a file
    /// that says one of these
    #[arg(long, value_name = "MASTERS")]
    mesos: Option<String>,
    /// Where facts are kept: cassandra://h1:9042,h2:9042/keyspace?replication=3
    #[arg(long, value_name = "URL", env = "ECHELON_STORAGE")]
    storage: Option<String>,
    /// Where processes meet: zookeeper://h1:2181,h2:2181/echelon
    #[arg(long, value_name = "URL", env = "ECHELON_MEMBERSHIP")]
    membership: Option<String>,
    #[command(flatten)]
    timeouts: TimeoutOptions,
    /// host:port by which others reach it, where that is not the address it listens on
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Address of metrics and health
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    /// The user that tasks run as on the agents; else the one that runs this process
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The Mesos role whose resources are used; else `echelon`
    #[arg(long, value_name = "ROLE")]
    mesos_role: Option<String>,
    /// The framework's name in Mesos; else `echelon`
    #[arg(long, value_name = "NAME")]
    framework_name: Option<String>,
    /// Mesos kills all tasks when no shard has subscribed for this long; else `28d`
    #[arg(long, value_name = "SPAN")]
    failover_timeout: Option<String>,
    /// The id of a framework that Mesos has removed: a new one is registered in its place. Only this one is ever given up
    #[arg(long, value_name = "ID")]
    replace_framework: Option<String>,
    /// The principal, for masters that authenticate frameworks
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// A file with the principal's secret
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The principal for the operator API of masters and agents; else that of the framework
    #[arg(long, value_name = "NAME")]
    operator_principal: Option<String>,
    /// A file with that principal's secret
    #[arg(long, value_name = "FILE")]
    operator_secret_file: Option<PathBuf>,
}

/// Limits of mass actions; what is not said has its default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limited {
    launches: Option<NonZeroU32>,
    replacements: Option<NonZeroU32>,
    kills: Option<NonZeroU32>,
    reconciliations: Option<NonZeroU32>,
    revive_gap: Option<String>,
    loss_percent: Option<u8>,
    loss_least: Option<u64>,
}

/// Whose hosts are whose.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Placed {
    gpu_hosts: ForWhom,
}

/// Who may use hosts that have GPUs.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ForWhom {
    /// Work that asks for GPUs.
    #[default]
    Kept,
    /// Everybody.
    Open,
}

impl From<ForWhom> for GpuHosts {
    fn from(said: ForWhom) -> Self {
        match said {
            ForWhom::Kept => Self::Kept,
            ForWhom::Open => Self::Open,
        }
    }
}

impl Limited {
    fn timing(&self) -> Result<DriverTiming, WrongOption> {
        let mut timing = DriverTiming::default();
        let rates = &mut timing.rates;
        for (said, rate) in [
            (self.launches, &mut rates.launches),
            (self.replacements, &mut rates.replacements),
            (self.kills, &mut rates.kills),
            (self.reconciliations, &mut rates.reconciliations),
        ] {
            *rate = said.map_or(*rate, NonZeroU32::get);
        }
        if let Some(text) = &self.revive_gap {
            let gap = echelon_cli::quantity::span(text);
            timing.hosts.revive_gap =
                gap.map_err(|why| WrongOption(format!("`limits.revive_gap`: {why}")))?;
        }
        if let Some(percent) = self.loss_percent {
            if percent > 100 {
                return Err(WrongOption("`limits.loss_percent` is above 100".into()));
            }
            timing.loss.percent = percent.into();
        }
        timing.loss.least = self.loss_least.unwrap_or(timing.loss.least);
        Ok(timing)
    }
}

impl Options for ShardOptions {
    fn over(self, file: Self) -> Self {
        Self {
            process: file.process,
            limits: file.limits,
            placement: file.placement,
            logs: file.logs,
            cluster: self.cluster.or(file.cluster),
            mesos: self.mesos.or(file.mesos),
            storage: self.storage.or(file.storage),
            membership: self.membership.or(file.membership),
            timeouts: self.timeouts.over(file.timeouts),
            advertise: self.advertise.or(file.advertise),
            admin: self.admin.or(file.admin),
            user: self.user.or(file.user),
            mesos_role: self.mesos_role.or(file.mesos_role),
            framework_name: self.framework_name.or(file.framework_name),
            failover_timeout: self.failover_timeout.or(file.failover_timeout),
            replace_framework: self.replace_framework.or(file.replace_framework),
            principal: self.principal.or(file.principal),
            secret_file: self.secret_file.or(file.secret_file),
            operator_principal: self.operator_principal.or(file.operator_principal),
            operator_secret_file: self.operator_secret_file.or(file.operator_secret_file),
        }
    }

    fn process(&mut self) -> &mut Common {
        &mut self.process
    }
}

impl ShardOptions {
    fn mesos(&self) -> Result<Mesos> {
        let masters = options::required(self.mesos.clone(), "mesos", "master1:5050,master2:5050")?;
        let mut mesos = plain_mesos(&said(masters)?)?;
        if let Some(name) = &self.framework_name {
            mesos.framework.name.clone_from(name);
        }
        if let Some(span) = &self.failover_timeout {
            mesos.framework.failover_timeout = failover_timeout(span)?;
        }
        mesos.replaced_framework.clone_from(&self.replace_framework);
        if let Some(user) = &self.user {
            mesos.framework.user.clone_from(user);
        }
        if let Some(role) = &self.mesos_role {
            mesos.framework.role.clone_from(role);
        }
        mesos.framework.principal.clone_from(&self.principal);
        mesos.credential = credential("", self.principal.as_ref(), self.secret_file.as_ref())?;
        let (operator, secret) = (&self.operator_principal, &self.operator_secret_file);
        mesos.operator = credential("operator-", operator.as_ref(), secret.as_ref())?;
        if operator.is_some() && mesos.operator.is_none() {
            let why = "`--operator-principal` needs `--operator-secret-file`: nothing else tells who calls";
            return Err(WrongOption(why.into()).into());
        }
        Ok(mesos)
    }
}

/// A principal with its secret, as the options with these names say.
fn credential(
    kind: &str,
    principal: Option<&String>,
    secret_file: Option<&PathBuf>,
) -> Result<Option<Credential>> {
    let Some(path) = secret_file else {
        return Ok(None);
    };
    let (whose, what) = (format!("--{kind}principal"), format!("--{kind}secret-file"));
    let Some(principal) = principal else {
        return Err(WrongOption(format!("`{what}` needs `{whose}`: whose secret is it?")).into());
    };
    // HTTP's basic authentication ends the name at the first colon.
    if principal.contains(':') {
        return Err(WrongOption(format!("`{whose}` with a secret cannot have a colon")).into());
    }
    let secret = std::fs::read_to_string(path)
        .with_context(|| format!("read the secret of {principal} from {}", path.display()))?;
    let secret = secret.trim_end().to_owned();
    if secret.is_empty() {
        return Err(WrongOption(format!("{} holds no secret", path.display())).into());
    }
    Ok(Some(Credential {
        principal: principal.clone(),
        secret,
    }))
}

/// What `--mesos` says, or the file that it names: a password does not belong on a command line.
fn said(masters: String) -> Result<String> {
    match masters.strip_prefix("file://") {
        None => Ok(masters),
        Some(path) => {
            let read = std::fs::read_to_string(path);
            read.with_context(|| format!("read the Mesos masters from {path}"))
        }
    }
}

/// Weeks are usual; with less than a minute a short repair would cost everything that runs.
fn failover_timeout(text: &str) -> Result<Span, WrongOption> {
    let wrong = |why: String| WrongOption(format!("`--failover-timeout`: {why}"));
    let span = echelon_cli::quantity::span(text).map_err(wrong)?;
    // Mesos counts it in signed nanoseconds (R32).
    let bounds = Span::minutes(1)..=Span::minutes(60 * 24 * 365 * 290);
    if !bounds.contains(&span) {
        return Err(wrong(format!("`{text}` is not between a minute and 290 years")));
    }
    Ok(span)
}

/// Masters that ask for nothing, with our usual bounds.
pub(crate) fn plain_mesos(masters: &str) -> Result<Mesos> {
    Ok(Mesos {
        masters: masters
            .parse()
            .map_err(|error| WrongOption(format!("`--mesos`: {error}")))?,
        framework: Framework {
            name: "echelon".to_owned(),
            user: std::env::var("USER").unwrap_or_else(|_| "root".to_owned()),
            role: "echelon".to_owned(),
            failover_timeout: FAILOVER_TIMEOUT,
            principal: None,
        },
        credential: None,
        operator: None,
        timing: Timing::usual(),
        limits: Limits::usual(),
        replaced_framework: None,
    })
}

/// A cluster's name that job files, metrics and paths can carry.
pub(crate) fn cluster_name(name: String) -> Result<String, WrongOption> {
    let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&name.len()) && name.chars().all(is_good) {
        Ok(name)
    } else {
        Err(WrongOption(format!(
            "`{name}` is no name of a cluster: use 1 to 63 characters of a-z, 0-9 and `-`"
        )))
    }
}

pub(super) async fn run(options: ShardOptions) -> Result<()> {
    options::reachable(options.process.listen, options.advertise.as_deref())?;
    let mesos = options.mesos()?;
    let mut timing = options.limits.timing()?;
    timing.hosts.gpu_hosts = options.placement.gpu_hosts.into();
    timing.logs = options.logs.limits()?;
    timing.lease = timeouts::lease(options.timeouts.timeouts()?);
    let cluster = cluster_name(options::required(options.cluster, "cluster", "east")?)?;
    let storage_url = options::storage(options.storage)?;
    let membership = membership(
        &options::membership(options.membership)?,
        options.timeouts.timeouts()?,
    )?;
    let process = Process::begin(&options.process)?;
    let metrics = metrics_of(&[("role", "shard"), ("cluster", &cluster)])?;
    let needs = process.needs(&metrics)?;
    process.serve_admin(options.admin, vec![metrics.clone()]).await?;
    let store = process.storage(&storage_url, &metrics).await?;
    let contacts = process.watch(needs, membership.clone(), store.clone());
    let parts = Parts {
        store,
        membership,
        clock: process.clock.clone(),
        metrics,
        readiness: process.readiness.clone(),
        contacts,
        build: BUILD.to_owned(),
        shutdown: process.shutdown.clone(),
    };
    let config = Config {
        listen: options.process.listen,
        advertise: options.advertise,
        cluster,
        mesos,
        holder: unique_name(),
        seed: rand::random(),
        timing,
    };
    let running = serve(config, parts).await?;
    tracing::info!(address = %running.address, cluster = %running.cluster, "the shard stands for election");
    process.ended().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clusters_are_plain() {
        for good in ["a", "east-1", "0"] {
            assert!(cluster_name(good.into()).is_ok(), "{good}");
        }
        for bad in ["", "East", "a.b", "a/b", "ä", &"a".repeat(64)] {
            assert!(cluster_name(bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_a_shard_needs_is_asked_for() {
        let error = ShardOptions::default().mesos().unwrap_err().to_string();
        assert!(
            error.contains("`--mesos` is missing") && error.contains("mesos = \""),
            "{error}"
        );
        let of = |masters: &str| ShardOptions {
            mesos: Some(masters.into()),
            ..ShardOptions::default()
        };
        let found = of("zk://me:pw@h/mesos").mesos().unwrap();
        assert_eq!(found.masters.to_string(), "zk://h:2181/mesos");
        assert!(!format!("{found:?}").contains("pw"));
        assert!(of("zk://h:2181").mesos().is_err());
        assert!(of("file:///nowhere/at-all").mesos().is_err());
        let secret = ShardOptions {
            secret_file: Some("nowhere".into()),
            ..of("h:5050")
        };
        assert!(secret.mesos().unwrap_err().to_string().contains("whose secret"));
        for (span, good) in [
            ("28d", true),
            ("1m", true),
            ("1s", false),
            ("28", false),
            ("200000d", false),
        ] {
            let options = ShardOptions {
                failover_timeout: Some(span.into()),
                ..of("h:5050")
            };
            assert_eq!(options.mesos().is_ok(), good, "{span}");
        }
    }

    #[test]
    fn hosts_with_gpus_are_kept_unless_an_operator_opens_them() {
        let read =
            |text: &str| toml::from_str::<ShardOptions>(text).map(|o| GpuHosts::from(o.placement.gpu_hosts));
        assert_eq!(read("").unwrap(), GpuHosts::Kept);
        assert_eq!(read("[placement]\ngpu_hosts = \"kept\"").unwrap(), GpuHosts::Kept);
        assert_eq!(read("[placement]\ngpu_hosts = \"open\"").unwrap(), GpuHosts::Open);
        assert!(read("[placement]\ngpu_hosts = \"shared\"").is_err());
        assert!(read("[placement]\ngpus = \"open\"").is_err());
    }

    #[test]
    fn limits_have_defaults_and_bounds() {
        let read = |text: &str| toml::from_str::<Limited>(text).unwrap().timing();
        let usual = read("").unwrap();
        assert_eq!((usual.rates.kills, usual.loss.percent), (5_000, 20));
        let said = "kills = 7\nrevive_gap = \"10s\"\nloss_percent = 50\nloss_least = 9";
        let said = read(said).unwrap();
        assert_eq!((said.rates.kills, said.rates.launches), (7, usual.rates.launches));
        assert_eq!(
            (said.hosts.revive_gap, said.loss.percent, said.loss.least),
            (Span::seconds(10), 50, 9)
        );
        assert!(read("loss_percent = 101").is_err());
        assert!(read("revive_gap = \"soon\"").is_err());
        for wrong in ["kills = 0", "launches = -1", "evictions = 5"] {
            assert!(toml::from_str::<Limited>(wrong).is_err(), "{wrong}");
        }
    }
}
