//! The container of a task as Mesos' ContainerInfo. The two containerizers say the same things in different fields.

use super::task::secret_of;
use crate::mesos::v1::container_info::{DockerInfo, MesosInfo, Type, docker_info};
use crate::mesos::v1::image::{Appc, Docker};
use crate::mesos::v1::volume::source::{self, SandboxPath, sandbox_path};
use crate::mesos::v1::volume::{Mode, Source};
use crate::mesos::v1::{
    ContainerInfo, Image, NetworkInfo, Parameter, Volume as WireVolume, image, network_info,
};
use echelon_core_model::runtime::{
    Container, Containerizer, ImageFormat, Network, Port, Runtime, Volume, VolumeSource,
};

/// The container of a run with these ports; `None`: what the agents give every task.
pub fn info(runtime: &Runtime, ports: &[Port]) -> Option<ContainerInfo> {
    let container = runtime.container.as_ref()?;
    let common = ContainerInfo {
        hostname: Some(container.hostname.clone()).filter(|h| !h.is_empty()),
        volumes: container
            .volumes
            .iter()
            .map(|v| volume(v, container.containerizer))
            .collect(),
        ..ContainerInfo::default()
    };
    Some(match container.containerizer {
        Containerizer::Mesos => mesos(container, runtime, ports, common),
        Containerizer::Docker => docker(container, runtime, ports, common),
    })
}

fn mesos(c: &Container, runtime: &Runtime, ports: &[Port], common: ContainerInfo) -> ContainerInfo {
    let network = match &c.network {
        Network::Named(name) => Some(NetworkInfo {
            name: Some(name.clone()),
            port_mappings: mapped(runtime, ports)
                .map(
                    |(host_port, container_port, protocol)| network_info::PortMapping {
                        host_port,
                        container_port,
                        protocol,
                    },
                )
                .collect(),
            ..NetworkInfo::default()
        }),
        Network::Host | Network::Bridge | Network::None => None,
    };
    ContainerInfo {
        r#type: i32::from(Type::Mesos),
        mesos: Some(MesosInfo { image: image_of(c) }),
        network_infos: network.into_iter().collect(),
        ..common
    }
}

fn image_of(c: &Container) -> Option<Image> {
    if c.image.is_empty() {
        return None;
    }
    let name = c.image.clone();
    let cached = Some(!c.force_pull);
    Some(match c.image_format {
        ImageFormat::Docker => Image {
            r#type: i32::from(image::Type::Docker),
            docker: Some(Docker { name, config: None }),
            cached,
            ..Image::default()
        },
        ImageFormat::Appc => Image {
            r#type: i32::from(image::Type::Appc),
            appc: Some(Appc {
                name,
                ..Appc::default()
            }),
            cached,
            ..Image::default()
        },
    })
}

fn docker(c: &Container, runtime: &Runtime, ports: &[Port], common: ContainerInfo) -> ContainerInfo {
    use docker_info::Network as Mode;
    let (mode, named) = match &c.network {
        Network::Host => (Mode::Host, None),
        Network::Bridge => (Mode::Bridge, None),
        Network::None => (Mode::None, None),
        Network::Named(name) => (Mode::User, Some(name.clone())),
    };
    let program = runtime.entrypoint.as_ref().and_then(|words| words.first());
    let mappings = mapped(runtime, ports).filter(|_| c.network.maps_ports());
    ContainerInfo {
        r#type: i32::from(Type::Docker),
        docker: Some(DockerInfo {
            image: c.image.clone(),
            network: Some(i32::from(mode)),
            port_mappings: mappings
                .map(|(host_port, container_port, protocol)| docker_info::PortMapping {
                    host_port,
                    container_port,
                    protocol,
                })
                .collect(),
            force_pull_image: Some(c.force_pull),
            // `docker run --entrypoint=PROGRAM`, in every version of Mesos that there is; it takes one word.
            parameters: program
                .map(|program| Parameter {
                    key: "entrypoint".to_owned(),
                    value: program.clone(),
                })
                .into_iter()
                .collect(),
            ..DockerInfo::default()
        }),
        network_infos: named
            .into_iter()
            .map(|name| NetworkInfo {
                name: Some(name),
                ..NetworkInfo::default()
            })
            .collect(),
        ..common
    }
}

/// Each port of the host with that of the container, and its protocol.
fn mapped(runtime: &Runtime, ports: &[Port]) -> impl Iterator<Item = (u32, u32, Option<String>)> {
    ports.iter().map(|port| {
        let spec = runtime.ports.iter().find(|s| s.name == port.name);
        let protocol = spec.map(|s| s.protocol.word().to_owned());
        (port.number.into(), runtime.listens_on(port).into(), protocol)
    })
}

fn volume(v: &Volume, by: Containerizer) -> WireVolume {
    let mode = if v.read_only { Mode::Ro } else { Mode::Rw };
    let plain = WireVolume {
        container_path: v.path.clone(),
        mode: i32::from(mode),
        ..WireVolume::default()
    };
    match (&v.source, by) {
        // A relative host path is a folder of the sandbox to the Docker containerizer, which knows no sandbox paths.
        (VolumeSource::Host(path), _) | (VolumeSource::Sandbox(path), Containerizer::Docker) => WireVolume {
            host_path: Some(path.clone()),
            ..plain
        },
        (VolumeSource::Sandbox(path), Containerizer::Mesos) => WireVolume {
            source: Some(Source {
                r#type: Some(i32::from(source::Type::SandboxPath)),
                sandbox_path: Some(SandboxPath {
                    r#type: Some(i32::from(sandbox_path::Type::Self_)),
                    path: path.clone(),
                }),
                ..Source::default()
            }),
            ..plain
        },
        (VolumeSource::Secret(reference), _) => WireVolume {
            source: Some(Source {
                r#type: Some(i32::from(source::Type::Secret)),
                secret: Some(secret_of(reference)),
                ..Source::default()
            }),
            ..plain
        },
    }
}
