//! Probes of a task as Mesos' HealthCheck and CheckInfo, and what a check said.

use super::framework::seconds;
use crate::mesos::v1::check_info::{self, Http, Tcp};
use crate::mesos::v1::health_check::{self, HttpCheckInfo, TcpCheckInfo};
use crate::mesos::v1::{CheckInfo, CheckStatusInfo, CommandInfo, HealthCheck as WireHealth};
use echelon_core_hosts::Launch;
use echelon_core_model::runtime::{HealthCheck, PortReference, Probe, ProbeKind};

/// A health check.
pub fn health(check: &HealthCheck, launch: &Launch) -> WireHealth {
    let probe = &check.probe;
    let mut out = WireHealth {
        delay_seconds: Some(seconds(probe.delay)),
        interval_seconds: Some(seconds(probe.interval)),
        timeout_seconds: Some(seconds(probe.timeout)),
        consecutive_failures: Some(check.failures),
        grace_period_seconds: Some(seconds(check.grace)),
        ..WireHealth::default()
    };
    let kind = match &probe.kind {
        ProbeKind::Command(line) => {
            out.command = Some(shell(line));
            health_check::Type::Command
        }
        ProbeKind::Http { port, path, tls } => {
            out.http = Some(HttpCheckInfo {
                port: number(port, launch),
                path: Some(path.clone()),
                scheme: Some(if *tls { "https" } else { "http" }.to_owned()),
                ..HttpCheckInfo::default()
            });
            health_check::Type::Http
        }
        ProbeKind::Tcp { port } => {
            out.tcp = Some(TcpCheckInfo {
                port: number(port, launch),
                ..TcpCheckInfo::default()
            });
            health_check::Type::Tcp
        }
    };
    out.r#type = Some(i32::from(kind));
    out
}

/// A readiness probe: Mesos reports what a check says and draws no conclusions.
pub fn check(probe: &Probe, launch: &Launch) -> CheckInfo {
    let mut out = CheckInfo {
        delay_seconds: Some(seconds(probe.delay)),
        interval_seconds: Some(seconds(probe.interval)),
        timeout_seconds: Some(seconds(probe.timeout)),
        ..CheckInfo::default()
    };
    let kind = match &probe.kind {
        ProbeKind::Command(line) => {
            out.command = Some(check_info::Command { command: shell(line) });
            check_info::Type::Command
        }
        ProbeKind::Http { port, path, .. } => {
            out.http = Some(Http {
                port: number(port, launch),
                path: Some(path.clone()),
            });
            check_info::Type::Http
        }
        ProbeKind::Tcp { port } => {
            out.tcp = Some(Tcp {
                port: number(port, launch),
            });
            check_info::Type::Tcp
        }
    };
    out.r#type = Some(i32::from(kind));
    out
}

/// What a check says, in the words of a readiness probe; `None`: nothing yet.
pub fn ready(status: &CheckStatusInfo) -> Option<bool> {
    let command = status.command.as_ref().and_then(|c| c.exit_code);
    let http = status.http.as_ref().and_then(|h| h.status_code);
    let tcp = status.tcp.as_ref().and_then(|t| t.succeeded);
    command
        .map(|code| code == 0)
        .or(http.map(|code| (200..400).contains(&code)))
        .or(tcp)
}

fn shell(line: &str) -> CommandInfo {
    CommandInfo {
        shell: Some(true),
        value: Some(line.to_owned()),
        ..CommandInfo::default()
    }
}

/// Where the task listens. A name that no port has was refused when the job was submitted.
fn number(port: &PortReference, launch: &Launch) -> u32 {
    let named = |name: &String| launch.ports.iter().find(|p| p.name == *name);
    match port {
        PortReference::Number(number) => (*number).into(),
        PortReference::Named(name) => named(name).map_or(0, |p| launch.runtime.listens_on(p).into()),
    }
}
