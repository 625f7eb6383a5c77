//! What is asked of a task while it runs: by its supervisor, with the same rhythm as a real executor. The answers are written
//! down; what follows from them is decided by the cluster.

use super::http;
use super::sandbox::{Order, Sandbox};
use echelon_proto::mesos::v1::{CheckInfo, CommandInfo, HealthCheck};
use serde::{Deserialize, Serialize};
use std::process::Stdio;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::process::Command;

/// Whose answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Health,
    Check,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Check => "check",
        }
    }
}

/// A question.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub kind: Kind,
    ask: Ask,
    delay: f64,
    interval: f64,
    timeout: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Ask {
    Command(Vec<String>),
    Http { port: u32, path: String, tls: bool },
    Tcp { port: u32 },
}

/// The last answer, and how many there were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heard {
    pub count: u64,
    pub answer: Answer,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Of a command.
    Exit(i32),
    /// Of a page.
    Status(u16),
    /// Of a connection.
    Connected(bool),
    /// None in time, or none at all.
    Nothing,
}

impl Answer {
    /// Whether it is a good one.
    pub(crate) const fn is_good(&self) -> bool {
        match self {
            Self::Exit(code) => *code == 0,
            Self::Status(status) => *status >= 200 && *status < 400,
            Self::Connected(yes) => *yes,
            Self::Nothing => false,
        }
    }
}

impl Probe {
    pub(crate) fn of_health(check: &HealthCheck) -> Option<Self> {
        let page = check.http.as_ref().map(|http| Ask::Http {
            port: http.port,
            path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
            tls: http.scheme() == "https",
        });
        let line = check.command.as_ref().map(|command| Ask::Command(words(command)));
        let port = check.tcp.as_ref().map(|tcp| Ask::Tcp { port: tcp.port });
        Some(Self {
            kind: Kind::Health,
            ask: page.or(line).or(port)?,
            delay: check.delay_seconds(),
            interval: check.interval_seconds(),
            timeout: check.timeout_seconds(),
        })
    }

    pub(crate) fn of_check(check: &CheckInfo) -> Option<Self> {
        let page = check.http.as_ref().map(|http| Ask::Http {
            port: http.port,
            path: http.path.clone().unwrap_or_else(|| "/".to_owned()),
            tls: false,
        });
        let line = check.command.as_ref().map(|of| Ask::Command(words(&of.command)));
        let port = check.tcp.as_ref().map(|tcp| Ask::Tcp { port: tcp.port });
        Some(Self {
            kind: Kind::Check,
            ask: page.or(line).or(port)?,
            delay: check.delay_seconds(),
            interval: check.interval_seconds(),
            timeout: check.timeout_seconds(),
        })
    }

    async fn ask(&self, sandbox: &Sandbox, order: &Order) -> Answer {
        let answer = async {
            match &self.ask {
                Ask::Command(words) => run(words, sandbox, order).await,
                // No certificate is looked at here, so nothing is asked over TLS.
                Ask::Http { tls: true, .. } => Answer::Nothing,
                Ask::Http { port, path, .. } => http::get(&format!("127.0.0.1:{port}"), path)
                    .await
                    .map_or(Answer::Nothing, |answer| Answer::Status(answer.status().as_u16())),
                Ask::Tcp { port } => {
                    Answer::Connected(TcpStream::connect(format!("127.0.0.1:{port}")).await.is_ok())
                }
            }
        };
        let answer = tokio::time::timeout(seconds(self.timeout), answer).await;
        answer.unwrap_or(Answer::Nothing)
    }
}

/// A line for the shell, or a program with its arguments of which the first is its own name.
pub(crate) fn words(command: &CommandInfo) -> Vec<String> {
    let value = command.value.clone().unwrap_or_default();
    if command.shell() {
        return vec!["/bin/sh".to_owned(), "-c".to_owned(), value];
    }
    let arguments = command.arguments.iter().skip(1).cloned();
    std::iter::once(value).chain(arguments).collect()
}

/// Asks again and again, for ever: a task of its own for each probe, which ends with the supervisor's runtime.
pub(crate) fn begin(sandbox: &Sandbox, order: &Order) {
    for probe in order.probes.clone() {
        let (sandbox, order) = (sandbox.clone(), order.clone());
        tokio::spawn(async move {
            tokio::time::sleep(seconds(probe.delay)).await;
            for count in 1.. {
                let answer = probe.ask(&sandbox, &order).await;
                if let Err(error) = sandbox.tell_heard(probe.kind, &Heard { count, answer }) {
                    eprintln!("mesos-sim-supervise: cannot write what a probe said: {error}");
                }
                tokio::time::sleep(seconds(probe.interval)).await;
            }
        });
    }
}

async fn run(words: &[String], sandbox: &Sandbox, order: &Order) -> Answer {
    let Some((program, arguments)) = words.split_first() else {
        return Answer::Nothing;
    };
    let mut probe = Command::new(program);
    if let Some(account) = &order.account {
        account.run_as(&mut probe);
    }
    let status = probe
        .args(arguments)
        .env_clear()
        .envs(&order.environment)
        .current_dir(sandbox.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await;
    status
        .ok()
        .and_then(|status| status.code())
        .map_or(Answer::Nothing, Answer::Exit)
}

/// What is no time is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
