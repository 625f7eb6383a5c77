//! What a run's task is made of, from the shape of a job file. Rules about what goes together are the gateway's.

use super::file::GroupFile;
use super::form::{PortNumber, Time, Truth};
use super::runtime_file::{
    ContainerFile, HealthFile, HttpFile, PortFile, ProbeFile, SecretFile, TcpFile, UriFile, VolumeFile,
};
use super::scalar::Scalar;
use super::spec::{Reader, texts, verbatim, whole};
use super::words::{CONTAINERIZERS, IMAGE_FORMATS, PROTOCOLS, VISIBILITIES, one_of};
use crate::quantity;
use echelon_core_model::Span;
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, ImageFormat, Network, PortReference, PortSpec, Probe, ProbeKind,
    Protocol, Runtime, SecretReference, Uri, Visibility, Volume, VolumeSource,
};
use echelon_core_model::spec::defaults;

/// The runtime of a group whose fields stand at `path`.
pub fn runtime(r: &mut Reader, path: &str, file: &mut GroupFile) -> Runtime {
    let at = |field: &str| format!("{path}{field}");
    let text = |r: &mut Reader, field: &str, text: Option<Scalar>| {
        r.value(&at(field), text.as_ref(), verbatim, String::new())
    };
    let command = text(r, "command", file.command.take());
    let image = file.container.as_ref().is_some_and(|c| c.image.is_some());
    let entrypoint = words(file.entrypoint.take());
    if command.trim().is_empty() && !image && entrypoint.is_none() {
        r.wrong(&at("command"), "is empty: say what each instance runs");
    }
    let secrets = file.secrets.take().unwrap_or_default().into_iter();
    Runtime {
        command,
        args: words(file.args.take()),
        entrypoint,
        env: texts(file.env.take().unwrap_or_default()),
        secrets: secrets.map(|(name, s)| (name, secret(s))).collect(),
        user: text(r, "user", file.user.take()),
        working_dir: text(r, "working_dir", file.working_dir.take()),
        uris: each(r, &at("uris"), file.uris.take(), uri),
        container: file.container.take().map(|c| container(r, &at("container"), c)),
        ports: each(r, &at("ports"), file.ports.take(), port),
        health: file.health.take().and_then(|h| health(r, &at("health"), h)),
        readiness: file.readiness.take().and_then(|p| probe(r, &at("readiness"), p)),
    }
}

pub(super) fn each<T, U>(
    r: &mut Reader,
    path: &str,
    files: Option<Vec<T>>,
    read: impl Fn(&mut Reader, &str, T) -> U,
) -> Vec<U> {
    let files = files.unwrap_or_default().into_iter().enumerate();
    files
        .map(|(i, file)| read(r, &format!("{path}[{i}]"), file))
        .collect()
}

pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

fn port_number(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("`{text}` is not a port: write 1 to 65535"))
}

/// Words of a command.
pub(super) fn words(files: Option<Vec<Scalar>>) -> Option<Vec<String>> {
    files.map(|all| all.into_iter().map(|word| word.0).collect())
}

fn secret(file: SecretFile) -> SecretReference {
    SecretReference {
        name: file.name.0,
        key: file.key.map(|k| k.0).unwrap_or_default(),
    }
}

pub(super) fn uri(r: &mut Reader, path: &str, file: UriFile) -> Uri {
    let mut flag = |field: &str, text: Option<Scalar<Truth>>, otherwise| {
        r.value(&format!("{path}.{field}"), text.as_ref(), truth, otherwise)
    };
    Uri {
        uri: file.uri.0,
        extract: flag("extract", file.extract, true),
        executable: flag("executable", file.executable, false),
        cache: flag("cache", file.cache, false),
        output_file: file.output_file.map(|f| f.0).unwrap_or_default(),
    }
}

fn container(r: &mut Reader, path: &str, file: ContainerFile) -> Container {
    let at = |field: &str| format!("{path}.{field}");
    let kinds = one_of("a containerizer", &CONTAINERIZERS);
    let formats = one_of("a format of images", &IMAGE_FORMATS);
    let kind = file.containerizer.as_ref();
    let format = file.image_format.as_ref();
    let volumes = each(r, &at("volumes"), file.volumes, volume);
    Container {
        containerizer: r.value(&at("type"), kind, kinds, Containerizer::Mesos),
        image: file.image.map(|i| i.0).unwrap_or_default(),
        image_format: r.value(&at("image_format"), format, formats, ImageFormat::Docker),
        force_pull: r.value(&at("force_pull"), file.force_pull.as_ref(), truth, false),
        network: file
            .network
            .map_or(Network::Host, |n| Network::from(n.0.as_str())),
        hostname: file.hostname.map(|h| h.0).unwrap_or_default(),
        volumes: volumes.into_iter().flatten().collect(),
    }
}

fn volume(r: &mut Reader, path: &str, file: VolumeFile) -> Option<Volume> {
    let source = match (file.host_path, file.sandbox_path, file.secret) {
        (Some(from), None, None) => VolumeSource::Host(from.0),
        (None, Some(from), None) => VolumeSource::Sandbox(from.0),
        (None, None, Some(of)) => VolumeSource::Secret(secret(of)),
        _ => {
            r.wrong(
                path,
                "needs exactly one of `host_path`, `sandbox_path` and `secret`",
            );
            return None;
        }
    };
    let flag = format!("{path}.read_only");
    Some(Volume {
        path: file.path.0,
        read_only: r.value(&flag, file.read_only.as_ref(), truth, false),
        source,
    })
}

fn port(r: &mut Reader, path: &str, file: PortFile) -> PortSpec {
    let at = |field: &str| format!("{path}.{field}");
    let number = |r: &mut Reader, field: &str, text: Option<Scalar<PortNumber>>| {
        text.map(|t| r.value(&at(field), Some(&t), port_number, 1))
    };
    let protocols = one_of("a protocol", &PROTOCOLS);
    let visibilities = one_of("a visibility", &VISIBILITIES);
    let (protocol, visibility) = (file.protocol.as_ref(), file.visibility.as_ref());
    PortSpec {
        name: file.name.0,
        fixed: number(r, "port", file.port),
        container_port: number(r, "container_port", file.container_port),
        protocol: r.value(&at("protocol"), protocol, protocols, Protocol::Tcp),
        visibility: r.value(&at("visibility"), visibility, visibilities, Visibility::Cluster),
    }
}

fn health(r: &mut Reader, path: &str, file: HealthFile) -> Option<HealthCheck> {
    let at = |field: &str| format!("{path}.{field}");
    let (grace, failures) = (file.grace.as_ref(), file.failures.as_ref());
    let grace = r.value(&at("grace"), grace, quantity::span, defaults::HEALTH_GRACE);
    let failures = r.value(&at("failures"), failures, whole, defaults::HEALTH_FAILURES);
    let asked = ProbeFile {
        command: file.command,
        http: file.http,
        tcp: file.tcp,
        delay: file.delay,
        interval: file.interval,
        timeout: file.timeout,
    };
    Some(HealthCheck {
        probe: probe(r, path, asked)?,
        grace,
        failures,
    })
}

fn probe(r: &mut Reader, path: &str, file: ProbeFile) -> Option<Probe> {
    let mut span = |field: &str, text: Option<Scalar<Time>>, otherwise: Span| {
        r.value(
            &format!("{path}.{field}"),
            text.as_ref(),
            quantity::span,
            otherwise,
        )
    };
    let delay = span("delay", file.delay, defaults::PROBE_DELAY);
    let interval = span("interval", file.interval, defaults::PROBE_INTERVAL);
    let timeout = span("timeout", file.timeout, defaults::PROBE_TIMEOUT);
    let kind = match (file.command, file.http, file.tcp) {
        (Some(line), None, None) => ProbeKind::Command(line.0),
        (
            None,
            Some(HttpFile {
                port,
                path: page,
                tls,
            }),
            None,
        ) => ProbeKind::Http {
            port: PortReference::from(port.0.as_str()),
            path: page.map_or("/".to_owned(), |p| p.0),
            tls: r.value(&format!("{path}.http.tls"), tls.as_ref(), truth, false),
        },
        (None, None, Some(TcpFile { port })) => ProbeKind::Tcp {
            port: PortReference::from(port.0.as_str()),
        },
        _ => {
            r.wrong(path, "needs exactly one of `command`, `http` and `tcp`");
            return None;
        }
    };
    Some(Probe {
        kind,
        delay,
        interval,
        timeout,
    })
}
