//! The shape of a job file's parts that make up a run's task. Unknown fields are errors; values keep their text and are
//! judged in `runtime.rs`.

use super::scalar::Scalar;
use serde::Deserialize;

/// `{name: team/database, key: password}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    pub name: Scalar,
    pub key: Option<Scalar>,
}

/// `{uri: https://example.com/app.tar.gz, cache: true}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UriFile {
    pub uri: Scalar,
    pub extract: Option<Scalar>,
    pub executable: Option<Scalar>,
    pub cache: Option<Scalar>,
    pub output_file: Option<Scalar>,
}

/// `{type: docker, image: team/web, network: bridge}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerFile {
    #[serde(rename = "type")]
    pub containerizer: Option<Scalar>,
    pub image: Option<Scalar>,
    pub image_format: Option<Scalar>,
    pub force_pull: Option<Scalar>,
    pub network: Option<Scalar>,
    pub hostname: Option<Scalar>,
    #[serde(default)]
    pub volumes: Vec<VolumeFile>,
}

/// `{path: /data, host_path: /srv/data, read_only: true}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeFile {
    pub path: Scalar,
    pub read_only: Option<Scalar>,
    pub host_path: Option<Scalar>,
    pub sandbox_path: Option<Scalar>,
    pub secret: Option<SecretFile>,
}

/// `{name: http, port: 8080}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortFile {
    pub name: Scalar,
    pub port: Option<Scalar>,
    pub container_port: Option<Scalar>,
    pub protocol: Option<Scalar>,
    pub visibility: Option<Scalar>,
}

/// `{port: http, path: /up}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFile {
    pub port: Scalar,
    pub path: Option<Scalar>,
    pub tls: Option<Scalar>,
}

/// `{port: http}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpFile {
    pub port: Scalar,
}

/// `{tcp: {port: http}, interval: 5s}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFile {
    pub command: Option<Scalar>,
    pub http: Option<HttpFile>,
    pub tcp: Option<TcpFile>,
    pub delay: Option<Scalar>,
    pub interval: Option<Scalar>,
    pub timeout: Option<Scalar>,
}

/// `{http: {port: http}, grace: 30s, failures: 3}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthFile {
    pub command: Option<Scalar>,
    pub http: Option<HttpFile>,
    pub tcp: Option<TcpFile>,
    pub delay: Option<Scalar>,
    pub interval: Option<Scalar>,
    pub timeout: Option<Scalar>,
    pub grace: Option<Scalar>,
    pub failures: Option<Scalar>,
}
