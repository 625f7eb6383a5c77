//! What goes into a run's task beside its room: command, environment, container, files, ports and probes. A part of a
//! group's spec that is passed on as a whole; only the gateway judges it and only the wire to a cluster takes it apart.

use crate::time::Span;
use std::collections::BTreeMap;
use std::fmt;

/// Most ports of an instance, most files that it fetches, most volumes: each travels in every launch.
pub const MAX_PORTS: usize = 32;

/// What a run's task is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Runtime {
    /// A line for the shell; with `args` the program to start. Empty: what the image itself starts.
    pub command: String,
    /// Arguments of the program, or of what the image starts. `None`: `command` is a line for the shell.
    pub args: Option<Vec<String>>,
    /// What is started in place of the image's entry point: a program and its first arguments, which `args` follow. There is no
    /// `command` beside it, and what the image would give its own entry point is not given.
    pub entrypoint: Option<Vec<String>>,
    /// Environment of each run, beside what the system sets.
    pub env: BTreeMap<String, String>,
    /// Variables whose values the host gets from its secret store.
    pub secrets: BTreeMap<String, SecretReference>,
    /// The user of the host that runs it; empty: the framework's.
    pub user: String,
    /// Where the shell line runs, as a path within the sandbox or an absolute one; empty: the sandbox.
    pub working_dir: String,
    /// Files that the host puts into the sandbox first.
    pub uris: Vec<Uri>,
    /// The container that it runs in; `None`: what the agents give every task.
    pub container: Option<Container>,
    /// Ports of the host, in the order in which they are given.
    pub ports: Vec<PortSpec>,
    /// A probe whose failure ends the run as failed.
    pub health: Option<HealthCheck>,
    /// A probe whose result is shown as `ready`.
    pub readiness: Option<Probe>,
}

/// The name under which the hosts' secret store knows a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SecretReference {
    /// Its name or path: `team/database`.
    pub name: String,
    /// The key within it, where it has several values; empty otherwise.
    pub key: String,
}

/// A file that the host fetches into the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uri {
    /// Where it is: a URI that the hosts' fetcher knows, or an absolute path on the host.
    pub uri: String,
    /// Archives are unpacked.
    pub extract: bool,
    /// It is made executable, and not unpacked.
    pub executable: bool,
    /// The host keeps it for other runs.
    pub cache: bool,
    /// Its name in the sandbox; empty: the last part of the URI.
    pub output_file: String,
}

/// Who runs the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Containerizer {
    /// Mesos itself, with or without an image.
    #[default]
    Mesos,
    /// The hosts' Docker.
    Docker,
}

impl Containerizer {
    /// The word of job files and API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mesos => "mesos",
            Self::Docker => "docker",
        }
    }
}

/// Format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ImageFormat {
    /// A Docker image.
    #[default]
    Docker,
    /// An image of the App Container specification.
    Appc,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Container {
    /// Who runs it.
    pub containerizer: Containerizer,
    /// Its image; empty: the host's own file system.
    pub image: String,
    /// Format of the image.
    pub image_format: ImageFormat,
    /// Asks for the image anew even if the host has it.
    pub force_pull: bool,
    /// Its network.
    pub network: Network,
    /// Its host name; empty: as the network gives it.
    pub hostname: String,
    /// Folders mounted into it.
    pub volumes: Vec<Volume>,
}

/// Network of a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Network {
    /// The host's.
    #[default]
    Host,
    /// A bridge on the host, which maps ports.
    Bridge,
    /// No network at all.
    None,
    /// The network that the hosts know by this name.
    Named(String),
}

impl Network {
    /// Whether ports of the host reach it only by a mapping.
    #[must_use]
    pub const fn maps_ports(&self) -> bool {
        matches!(self, Self::Bridge | Self::Named(_))
    }
}

impl From<&str> for Network {
    fn from(word: &str) -> Self {
        match word {
            "" | "host" => Self::Host,
            "bridge" => Self::Bridge,
            "none" => Self::None,
            name => Self::Named(name.to_owned()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Bridge => "bridge",
            Self::None => "none",
            Self::Named(name) => name,
        })
    }
}

/// A folder or file mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Volume {
    /// Where it is seen within the container.
    pub path: String,
    /// It cannot be written.
    pub read_only: bool,
    /// What is mounted.
    pub source: VolumeSource,
}

/// What a volume mounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VolumeSource {
    /// A folder or file of the host, by absolute path.
    Host(String),
    /// A folder of the sandbox, by relative path; made empty with the run.
    Sandbox(String),
    /// A file with a value of the secret store.
    Secret(SecretReference),
}

/// Protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The word of job files, API and Mesos.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// Who is to find a port by service discovery. The order is from few to many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Visibility {
    /// Only tasks of our framework.
    Framework,
    /// Everybody in the cluster.
    #[default]
    Cluster,
    /// Everybody.
    External,
}

/// A port that an instance wants of its host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSpec {
    /// Its name within the group: `http`.
    pub name: String,
    /// Exactly this port of the host; `None`: any that is free.
    pub fixed: Option<u16>,
    /// The port within the container; `None`: the same as the host's.
    pub container_port: Option<u16>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Who is to find it.
    pub visibility: Visibility,
}

/// A port that a run was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// Its name within the group.
    pub name: String,
    /// Its number on the host.
    pub number: u16,
}

/// A port that a probe asks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortReference {
    /// The group's port of that name.
    Named(String),
    /// This number.
    Number(u16),
}

impl From<&str> for PortReference {
    fn from(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Named(text.to_owned()), Self::Number)
    }
}

impl fmt::Display for PortReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// What a probe does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeKind {
    /// Runs a line in the shell, within the container; status 0 is good.
    Command(String),
    /// Asks for a page; a status of 200 to 399 is good.
    Http {
        /// The port.
        port: PortReference,
        /// The page's path.
        path: String,
        /// Over TLS, without looking at the certificate.
        tls: bool,
    },
    /// Opens a connection.
    Tcp {
        /// The port.
        port: PortReference,
    },
}

/// A question that the host asks a run again and again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    /// What is asked.
    pub kind: ProbeKind,
    /// From the run's start to the first time.
    pub delay: Span,
    /// From one time to the next.
    pub interval: Span,
    /// Longest wait for an answer.
    pub timeout: Span,
}

/// A probe whose failure ends the run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HealthCheck {
    /// The probe.
    pub probe: Probe,
    /// Failures do not count for this long after the run's start, until the first success.
    pub grace: Span,
    /// The run is ended after so many failures in a row.
    pub failures: u32,
}

impl ProbeKind {
    /// The port that it asks.
    #[must_use]
    pub const fn port(&self) -> Option<&PortReference> {
        match self {
            Self::Command(_) => None,
            Self::Http { port, .. } | Self::Tcp { port } => Some(port),
        }
    }
}

/// The variable's part that stands for a port's name: `http-admin` is `HTTP_ADMIN`.
#[must_use]
pub fn variable_part(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

impl Runtime {
    /// A line for the shell and nothing else.
    #[must_use]
    pub fn shell(line: &str) -> Self {
        Self {
            command: line.to_owned(),
            ..Self::default()
        }
    }

    /// The container's network; the host's where there is no container.
    #[must_use]
    pub fn network(&self) -> &Network {
        self.container.as_ref().map_or(&Network::Host, |c| &c.network)
    }

    /// Where the run itself listens for a port that it was given.
    #[must_use]
    pub fn listens_on(&self, port: &Port) -> u16 {
        let spec = self.ports.iter().find(|p| p.name == port.name);
        spec.and_then(|p| p.container_port).unwrap_or(port.number)
    }

    /// What the ports that a run was given add to its environment: `PORT` for the first, `PORT_<NAME>` for each, and
    /// `HOST_PORT_<NAME>` where the container has a number of its own.
    #[must_use]
    pub fn port_variables(&self, ports: &[Port]) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        for port in ports {
            let (inside, part) = (self.listens_on(port), variable_part(&port.name));
            out.entry("PORT".to_owned()).or_insert_with(|| inside.to_string());
            out.insert(format!("PORT_{part}"), inside.to_string());
            let spec = self.ports.iter().find(|p| p.name == port.name);
            if spec.is_some_and(|p| p.container_port.is_some()) {
                out.insert(format!("HOST_PORT_{part}"), port.number.to_string());
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, number: u16) -> Port {
        Port {
            name: name.to_owned(),
            number,
        }
    }

    #[test]
    fn ports_become_variables() {
        let wanted = |name: &str, container_port| PortSpec {
            name: name.to_owned(),
            fixed: None,
            container_port,
            protocol: Protocol::Tcp,
            visibility: Visibility::Cluster,
        };
        let runtime = Runtime {
            ports: vec![wanted("http", Some(80)), wanted("http-admin", None)],
            ..Runtime::default()
        };
        let variables = runtime.port_variables(&[port("http", 31_000), port("http-admin", 31_001)]);
        let shown: Vec<String> = variables.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            shown,
            [
                "HOST_PORT_HTTP=31000",
                "PORT=80",
                "PORT_HTTP=80",
                "PORT_HTTP_ADMIN=31001"
            ]
        );
        assert!(runtime.port_variables(&[]).is_empty());
    }

    #[test]
    fn words_read_back() {
        for word in ["host", "bridge", "none", "blue"] {
            assert_eq!(Network::from(word).to_string(), word);
        }
        assert_eq!(PortReference::from("8080"), PortReference::Number(8080));
        assert_eq!(PortReference::from("70000").to_string(), "70000");
    }
}
