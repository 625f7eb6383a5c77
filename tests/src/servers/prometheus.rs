//! A real Prometheus over given targets and rules, to evaluate what dashboards and alerts ask.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::http;
use crate::net::LoopbackNet;
use crate::server::{Launch, Server};
use crate::wait;
use crate::work::WorkFolder;

const READY_WITHIN: Duration = Duration::from_secs(60);

/// A new target is first scraped 5 to 6 s after the start, whatever the interval.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// One series of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Labels by name, `__name__` included where the expression keeps it.
    pub labels: Vec<(String, String)>,
    /// Its value at the moment of the question.
    pub value: f64,
}

/// A running Prometheus. Dropping it ends it.
pub struct Prometheus {
    _server: Server,
    address: SocketAddr,
    _net: LoopbackNet,
    _work: WorkFolder,
}

impl Prometheus {
    /// Starts one that scrapes each `(job, host:port)` once a second at `/metrics` and evaluates the rule files.
    ///
    /// # Errors
    /// Prometheus is not installed, or refuses a rule file; the error carries the end of its log.
    pub fn start(targets: &[(&str, &str)], rules: &[&Path]) -> Result<Self> {
        let (work, net) = (WorkFolder::new("prometheus")?, LoopbackNet::take()?);
        fs::write(work.path().join("prometheus.yml"), configuration(targets, rules)?)?;
        let address = net.socket(1, 9090);
        let launch = Launch {
            name: "prometheus".to_owned(),
            program: "prometheus".into(),
            args: vec![
                "--config.file=prometheus.yml".into(),
                "--storage.tsdb.path=data".into(),
                format!("--web.listen-address={address}").into(),
            ],
            env: Vec::new(),
            folder: work.path().to_owned(),
        };
        let mut server = Server::start(launch)
            .context("Prometheus: `apt-get install prometheus`, or `cargo xtask test`")?;
        server.wait_until("readiness", READY_WITHIN, || {
            Ok(http::get(address.into(), "/-/ready")
                .ok()
                .filter(|(status, _)| *status == 200)
                .map(|_| ()))
        })?;
        Ok(Self {
            _server: server,
            address: address.into(),
            _net: net,
            _work: work,
        })
    }

    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Evaluates `expression` once. An answer without series is not an error.
    ///
    /// # Errors
    /// The expression is wrong, in Prometheus' words.
    pub fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let path = format!("/api/v1/query?query={}", http::escaped(expression));
        let (status, body) = http::get(self.address, &path)?;
        let answer: Value =
            serde_json::from_str(&body).with_context(|| format!("status {status}: {body}"))?;
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            bail!("expression `{expression}`: {error}");
        }
        samples(&answer).with_context(|| format!("expression `{expression}`: unexpected answer {body}"))
    }

    /// Evaluates `expression` until it has at least one series.
    ///
    /// # Errors
    /// It is wrong, or stays without any for a minute.
    pub fn query_until_answered(&self, expression: &str) -> Result<Vec<Sample>> {
        wait::until(&format!("a series of `{expression}`"), ANSWERS_WITHIN, || {
            Ok(Some(self.query(expression)?).filter(|samples| !samples.is_empty()))
        })
    }
}

/// Runs `promtool` with these arguments, e.g. `check rules FILE` or `test rules FILE`.
///
/// # Errors
/// It is not installed, or finds a fault, in its own words.
pub fn promtool(args: &[&str], folder: &Path) -> Result<()> {
    let output = Command::new("promtool").args(args).current_dir(folder).output();
    let output =
        output.context("run promtool: `apt-get install prometheus` brings it, as does `cargo xtask test`")?;
    if !output.status.success() {
        let (said, complained) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        bail!("promtool {args:?}: {said}{complained}");
    }
    Ok(())
}

fn configuration(targets: &[(&str, &str)], rules: &[&Path]) -> Result<String> {
    let jobs: Vec<Value> = targets
        .iter()
        .map(|(job, target)| serde_json::json!({"job_name": job, "static_configs": [{"targets": [target]}]}))
        .collect();
    let rules: Vec<_> = rules
        .iter()
        .map(|path| path.canonicalize())
        .collect::<std::io::Result<_>>()?;
    let every =
        serde_json::json!({"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"});
    // JSON is YAML
    Ok(serde_json::json!({"global": every, "rule_files": rules, "scrape_configs": jobs}).to_string())
}

fn samples(answer: &Value) -> Option<Vec<Sample>> {
    let data = answer.get("data")?;
    let result = data.get("result")?.as_array()?;
    if data.get("resultType")? == "scalar" {
        return Some(vec![Sample {
            labels: Vec::new(),
            value: number(result)?,
        }]);
    }
    result
        .iter()
        .map(|series| {
            let labels = series.get("metric")?.as_object()?;
            let labels = labels
                .iter()
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
            Some(Sample {
                labels: labels.collect::<Option<_>>()?,
                value: number(series.get("value")?.as_array()?)?,
            })
        })
        .collect()
}

/// The value of a `[time, "value"]` pair.
fn number(pair: &[Value]) -> Option<f64> {
    pair.get(1)?.as_str()?.parse().ok()
}
