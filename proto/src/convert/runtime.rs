//! What a run's task is made of, between wire and model. On the public wire its parts stand beside a group's other fields.

use super::quantity::{duration, read_duration};
use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::overrides::Override;
use echelon_core_model::runtime::{
    Container, Containerizer, HealthCheck, ImageFormat, Network, Port, PortReference, PortSpec, Probe,
    ProbeKind, Protocol, Runtime, SecretReference, Uri, Visibility, Volume, VolumeSource,
};
use echelon_core_model::spec::defaults;
use echelon_core_model::{InstanceRange, RangeSet, Span};

/// A group of the wire with the parts of its runtime and nothing else.
pub fn runtime(r: &Runtime) -> v1::GroupSpec {
    let Runtime {
        command,
        args,
        entrypoint,
        env,
        secrets,
        user,
        working_dir,
        uris,
        container: within,
        ports,
        health,
        readiness,
    } = r;
    v1::GroupSpec {
        command: command.clone(),
        args: arguments(args.as_ref()),
        entrypoint: arguments(entrypoint.as_ref()),
        env: env.clone(),
        secrets: secrets.iter().map(|(n, s)| (n.clone(), secret(s))).collect(),
        user: user.clone(),
        working_dir: working_dir.clone(),
        uris: uris.iter().map(uri).collect(),
        container: within.as_ref().map(container),
        ports: ports.iter().map(port_spec).collect(),
        health: health.as_ref().map(|h| v1::HealthCheck {
            probe: Some(probe(&h.probe)),
            grace: Some(duration(h.grace)),
            failures: Some(h.failures),
        }),
        readiness: readiness.as_ref().map(probe),
        ..v1::GroupSpec::default()
    }
}

fn arguments(values: Option<&Vec<String>>) -> Option<v1::Arguments> {
    values.cloned().map(|values| v1::Arguments { values })
}

fn secret(s: &SecretReference) -> v1::SecretReference {
    v1::SecretReference {
        name: s.name.clone(),
        key: s.key.clone(),
    }
}

fn uri(u: &Uri) -> v1::Uri {
    v1::Uri {
        uri: u.uri.clone(),
        extract: Some(u.extract),
        executable: u.executable,
        cache: u.cache,
        output_file: u.output_file.clone(),
    }
}

fn container(c: &Container) -> v1::Container {
    let kind = match c.containerizer {
        Containerizer::Mesos => v1::Containerizer::Mesos,
        Containerizer::Docker => v1::Containerizer::Docker,
    };
    let format = match c.image_format {
        ImageFormat::Docker => v1::ImageFormat::Docker,
        ImageFormat::Appc => v1::ImageFormat::Appc,
    };
    v1::Container {
        r#type: kind.into(),
        image: c.image.clone(),
        image_format: format.into(),
        force_pull: c.force_pull,
        network: c.network.to_string(),
        hostname: c.hostname.clone(),
        volumes: c.volumes.iter().map(volume).collect(),
    }
}

fn volume(v: &Volume) -> v1::Volume {
    use v1::volume::Source;
    v1::Volume {
        path: v.path.clone(),
        read_only: v.read_only,
        source: Some(match &v.source {
            VolumeSource::Host(path) => Source::HostPath(path.clone()),
            VolumeSource::Sandbox(path) => Source::SandboxPath(path.clone()),
            VolumeSource::Secret(reference) => Source::Secret(secret(reference)),
        }),
    }
}

fn port_spec(p: &PortSpec) -> v1::PortSpec {
    let protocol = match p.protocol {
        Protocol::Tcp => v1::Protocol::Tcp,
        Protocol::Udp => v1::Protocol::Udp,
    };
    let visibility = match p.visibility {
        Visibility::Framework => v1::Visibility::Framework,
        Visibility::Cluster => v1::Visibility::Cluster,
        Visibility::External => v1::Visibility::External,
    };
    v1::PortSpec {
        name: p.name.clone(),
        port: p.fixed.map(u32::from),
        container_port: p.container_port.map(u32::from),
        protocol: protocol.into(),
        visibility: visibility.into(),
    }
}

fn probe(p: &Probe) -> v1::Probe {
    use v1::probe::Kind;
    v1::Probe {
        kind: Some(match &p.kind {
            ProbeKind::Command(line) => Kind::Command(line.clone()),
            ProbeKind::Http { port, path, tls } => Kind::Http(v1::HttpProbe {
                port: port.to_string(),
                path: path.clone(),
                tls: *tls,
            }),
            ProbeKind::Tcp { port } => Kind::Tcp(v1::TcpProbe {
                port: port.to_string(),
            }),
        }),
        delay: Some(duration(p.delay)),
        interval: Some(duration(p.interval)),
        timeout: Some(duration(p.timeout)),
    }
}

/// To the wire.
#[must_use]
pub fn port(p: &Port) -> v1::Port {
    v1::Port {
        name: p.name.clone(),
        number: p.number.into(),
    }
}

/// The runtime of a group at `path`; what stood for it is taken out.
pub fn read_runtime(g: &mut v1::GroupSpec, path: &str, problems: &mut Problems) -> Runtime {
    let mut r = Reader {
        path: path.to_owned(),
        problems,
    };
    let secrets = std::mem::take(&mut g.secrets);
    Runtime {
        command: std::mem::take(&mut g.command),
        args: g.args.take().map(|a| a.values),
        entrypoint: g.entrypoint.take().map(|a| a.values),
        env: std::mem::take(&mut g.env),
        secrets: secrets.into_iter().map(|(n, s)| (n, read_secret(s))).collect(),
        user: std::mem::take(&mut g.user),
        working_dir: std::mem::take(&mut g.working_dir),
        uris: std::mem::take(&mut g.uris).into_iter().map(read_uri).collect(),
        container: g.container.take().map(|c| r.container(c)),
        ports: r.each("ports", std::mem::take(&mut g.ports), |r, p| r.port_spec(p)),
        health: g.health.take().and_then(|h| r.within("health").health(h)),
        readiness: g.readiness.take().and_then(|p| r.within("readiness").probe(p)),
    }
}

/// An override to the wire.
pub fn own(o: &Override) -> v1::Override {
    let range = |r: &InstanceRange| v1::r#override::Range {
        first: r.first,
        last: r.last,
    };
    v1::Override {
        instances: o.instances.ranges().iter().map(range).collect(),
        command: o.command.clone(),
        args: arguments(o.args.as_ref()),
        entrypoint: arguments(o.entrypoint.as_ref()),
        env: o.env.clone(),
        working_dir: o.working_dir.clone(),
        uris: o.uris.iter().map(uri).collect(),
    }
}

/// An override that stands at `path`.
pub fn read_own(o: v1::Override, path: &str, problems: &mut Problems) -> Override {
    let mut instances = RangeSet::new();
    for (i, v1::r#override::Range { first, last }) in o.instances.into_iter().enumerate() {
        match InstanceRange::new(first, last) {
            Some(range) => instances.insert(range),
            None => problems.add(
                at(path, &format!("instances[{i}]")),
                format!("must not end, with {last}, before it begins, with {first}"),
            ),
        }
    }
    Override {
        instances,
        command: o.command,
        args: o.args.map(|a| a.values),
        entrypoint: o.entrypoint.map(|a| a.values),
        env: o.env,
        working_dir: o.working_dir,
        uris: o.uris.into_iter().map(read_uri).collect(),
    }
}

fn read_secret(s: v1::SecretReference) -> SecretReference {
    SecretReference {
        name: s.name,
        key: s.key,
    }
}

fn read_uri(u: v1::Uri) -> Uri {
    Uri {
        uri: u.uri,
        extract: u.extract.unwrap_or(true),
        executable: u.executable,
        cache: u.cache,
        output_file: u.output_file,
    }
}

/// Reads what stands at a path.
struct Reader<'a> {
    path: String,
    problems: &'a mut Problems,
}

fn read_kind(kind: v1::probe::Kind) -> ProbeKind {
    let page = |path: String| if path.is_empty() { "/".to_owned() } else { path };
    match kind {
        v1::probe::Kind::Command(line) => ProbeKind::Command(line),
        v1::probe::Kind::Http(h) => ProbeKind::Http {
            port: PortReference::from(h.port.as_str()),
            path: page(h.path),
            tls: h.tls,
        },
        v1::probe::Kind::Tcp(t) => ProbeKind::Tcp {
            port: PortReference::from(t.port.as_str()),
        },
    }
}

impl Reader<'_> {
    fn within(&mut self, field: &str) -> Reader<'_> {
        Reader {
            path: at(&self.path, field),
            problems: self.problems,
        }
    }

    fn each<T, U>(&mut self, field: &str, all: Vec<T>, read: impl Fn(&mut Reader<'_>, T) -> U) -> Vec<U> {
        let all = all.into_iter().enumerate();
        all.map(|(i, one)| read(&mut self.within(&format!("{field}[{i}]")), one))
            .collect()
    }

    fn wrong(&mut self, field: &str, problem: &str) {
        self.problems.add(at(&self.path, field), problem);
    }

    fn span(&mut self, span: Option<prost_types::Duration>, field: &str, default: Span) -> Span {
        let path = &self.path;
        span.map_or(default, |s| read_duration(&s, || at(path, field), self.problems))
    }

    fn health(&mut self, h: v1::HealthCheck) -> Option<HealthCheck> {
        let grace = self.span(h.grace, "grace", defaults::HEALTH_GRACE);
        let probe = self.within("probe").probe(h.probe.unwrap_or_default());
        Some(HealthCheck {
            probe: probe?,
            grace,
            failures: h.failures.unwrap_or(defaults::HEALTH_FAILURES),
        })
    }

    fn probe(&mut self, p: v1::Probe) -> Option<Probe> {
        let delay = self.span(p.delay, "delay", defaults::PROBE_DELAY);
        let interval = self.span(p.interval, "interval", defaults::PROBE_INTERVAL);
        let timeout = self.span(p.timeout, "timeout", defaults::PROBE_TIMEOUT);
        let Some(kind) = p.kind else {
            self.problems
                .add(&self.path, "must have one of command, http and tcp");
            return None;
        };
        Some(Probe {
            kind: read_kind(kind),
            delay,
            interval,
            timeout,
        })
    }

    fn container(&mut self, c: v1::Container) -> Container {
        let mut r = self.within("container");
        let containerizer = match v1::Containerizer::try_from(c.r#type) {
            Ok(v1::Containerizer::Unspecified | v1::Containerizer::Mesos) => Containerizer::Mesos,
            Ok(v1::Containerizer::Docker) => Containerizer::Docker,
            Err(_) => {
                r.wrong("type", "must be mesos or docker");
                Containerizer::Mesos
            }
        };
        let image_format = match v1::ImageFormat::try_from(c.image_format) {
            Ok(v1::ImageFormat::Unspecified | v1::ImageFormat::Docker) => ImageFormat::Docker,
            Ok(v1::ImageFormat::Appc) => ImageFormat::Appc,
            Err(_) => {
                r.wrong("image_format", "must be docker or appc");
                ImageFormat::Docker
            }
        };
        let volumes = r.each("volumes", c.volumes, |r, v| r.volume(v));
        Container {
            containerizer,
            image: c.image,
            image_format,
            force_pull: c.force_pull,
            network: Network::from(c.network.as_str()),
            hostname: c.hostname,
            volumes: volumes.into_iter().flatten().collect(),
        }
    }

    fn volume(&mut self, v: v1::Volume) -> Option<Volume> {
        use v1::volume::Source;
        let source = match v.source {
            Some(Source::HostPath(path)) => VolumeSource::Host(path),
            Some(Source::SandboxPath(path)) => VolumeSource::Sandbox(path),
            Some(Source::Secret(reference)) => VolumeSource::Secret(read_secret(reference)),
            None => {
                self.problems
                    .add(&self.path, "must have one of host_path, sandbox_path and secret");
                return None;
            }
        };
        Some(Volume {
            path: v.path,
            read_only: v.read_only,
            source,
        })
    }

    fn port_spec(&mut self, p: v1::PortSpec) -> PortSpec {
        let protocol = match v1::Protocol::try_from(p.protocol) {
            Ok(v1::Protocol::Unspecified | v1::Protocol::Tcp) => Protocol::Tcp,
            Ok(v1::Protocol::Udp) => Protocol::Udp,
            Err(_) => {
                self.wrong("protocol", "must be tcp or udp");
                Protocol::Tcp
            }
        };
        let visibility = match v1::Visibility::try_from(p.visibility) {
            Ok(v1::Visibility::Framework) => Visibility::Framework,
            Ok(v1::Visibility::Unspecified | v1::Visibility::Cluster) => Visibility::Cluster,
            Ok(v1::Visibility::External) => Visibility::External,
            Err(_) => {
                self.wrong("visibility", "must be framework, cluster or external");
                Visibility::Cluster
            }
        };
        PortSpec {
            name: p.name,
            fixed: self.number(p.port, "port"),
            container_port: self.number(p.container_port, "container_port"),
            protocol,
            visibility,
        }
    }

    fn number(&mut self, port: Option<u32>, field: &str) -> Option<u16> {
        let number = port.map(u16::try_from)?;
        if number.is_err() {
            self.wrong(field, "must be 1 to 65535");
        }
        number.ok()
    }
}
