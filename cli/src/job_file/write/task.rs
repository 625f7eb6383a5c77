//! What a task is made of.

use super::{all, given, list, some, texts, time};
use crate::job_file::file::GroupFile;
use crate::job_file::runtime_file::{
    ContainerFile, HealthFile, HttpFile, PortFile, ProbeFile, SecretFile, TcpFile, UriFile, VolumeFile,
};
use crate::job_file::scalar::Scalar;
use crate::job_file::words::{CONTAINERIZERS, IMAGE_FORMATS, PROTOCOLS, VISIBILITIES, word};
use echelon_core_model::runtime::{
    Container, HealthCheck, PortSpec, Probe, ProbeKind, Runtime, SecretReference, Uri, Volume, VolumeSource,
};

/// The fields that a group's main task and sidecars share, but for resources.
pub fn task(r: &Runtime) -> GroupFile {
    let secrets = r.secrets.iter().map(|(name, s)| (name.clone(), secret(s)));
    GroupFile {
        command: given(&r.command),
        args: r.args.as_deref().map(all),
        entrypoint: r.entrypoint.as_deref().map(all),
        env: Some(texts(&r.env)).filter(|e| !e.is_empty()),
        secrets: Some(secrets.collect()).filter(|_| !r.secrets.is_empty()),
        user: given(&r.user),
        working_dir: given(&r.working_dir),
        uris: list(&r.uris, uri),
        container: r.container.as_ref().map(container),
        health: r.health.as_ref().map(health),
        ..GroupFile::default()
    }
}

fn secret(s: &SecretReference) -> SecretFile {
    SecretFile {
        name: Scalar::new(&s.name),
        key: given(&s.key),
    }
}

pub fn uri(u: &Uri) -> UriFile {
    UriFile {
        uri: Scalar::new(&u.uri),
        extract: some(u.extract),
        executable: some(u.executable),
        cache: some(u.cache),
        output_file: given(&u.output_file),
    }
}

fn container(c: &Container) -> ContainerFile {
    ContainerFile {
        containerizer: some(word(&CONTAINERIZERS, &c.containerizer)),
        image: given(&c.image),
        image_format: some(word(&IMAGE_FORMATS, &c.image_format)),
        force_pull: some(c.force_pull),
        network: some(&c.network),
        hostname: given(&c.hostname),
        volumes: list(&c.volumes, volume),
    }
}

fn volume(v: &Volume) -> VolumeFile {
    let plain = VolumeFile {
        path: Scalar::new(&v.path),
        read_only: some(v.read_only),
        ..VolumeFile::default()
    };
    match &v.source {
        VolumeSource::Host(path) => VolumeFile {
            host_path: some(path),
            ..plain
        },
        VolumeSource::Sandbox(path) => VolumeFile {
            sandbox_path: some(path),
            ..plain
        },
        VolumeSource::Secret(of) => VolumeFile {
            secret: Some(secret(of)),
            ..plain
        },
    }
}

pub fn port(p: &PortSpec) -> PortFile {
    PortFile {
        name: Scalar::new(&p.name),
        port: p.fixed.and_then(some),
        container_port: p.container_port.and_then(some),
        protocol: some(word(&PROTOCOLS, &p.protocol)),
        visibility: some(word(&VISIBILITIES, &p.visibility)),
    }
}

pub fn probe(p: &Probe) -> ProbeFile {
    let asked = ProbeFile {
        delay: some(time(p.delay)),
        interval: some(time(p.interval)),
        timeout: some(time(p.timeout)),
        ..ProbeFile::default()
    };
    match &p.kind {
        ProbeKind::Command(line) => ProbeFile {
            command: some(line),
            ..asked
        },
        ProbeKind::Http { port, path, tls } => ProbeFile {
            http: Some(HttpFile {
                port: Scalar::new(port),
                path: some(path),
                tls: some(tls),
            }),
            ..asked
        },
        ProbeKind::Tcp { port } => ProbeFile {
            tcp: Some(TcpFile {
                port: Scalar::new(port),
            }),
            ..asked
        },
    }
}

fn health(h: &HealthCheck) -> HealthFile {
    let ProbeFile {
        command,
        http,
        tcp,
        delay,
        interval,
        timeout,
    } = probe(&h.probe);
    HealthFile {
        command,
        http,
        tcp,
        delay,
        interval,
        timeout,
        grace: some(time(h.grace)),
        failures: some(h.failures),
    }
}
