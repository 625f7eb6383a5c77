//! A launch as Mesos' TaskInfo. Whether Mesos can take it was judged when the job was submitted; nothing is left out here.

use super::call::{agent_id, duration, task_id};
use super::container;
use super::framework::Framework;
use super::parts::PartsLeft;
use super::probe;
use super::reserve::volume_of;
use crate::mesos::v1::command_info::Uri;
use crate::mesos::v1::secret::Reference;
use crate::mesos::v1::{
    CommandInfo, DiscoveryInfo, Environment, KillPolicy, Label, Labels, Port, Ports, Resource, Secret,
    TaskInfo, discovery_info, environment, secret,
};
use echelon_core_hosts::Launch;
use echelon_core_model::HostId;
use echelon_core_model::runtime::{Containerizer, Runtime, SecretReference, Visibility};
use std::collections::BTreeMap;

/// What the main task of a launch takes of its host.
pub fn resources(launch: &Launch, left: &mut PartsLeft, framework: &Framework) -> Vec<Resource> {
    let role = &framework.role;
    let mut out = left.take(launch.resources, role);
    out.extend(left.take_ports(launch, role));
    out.extend(launch.volume.as_ref().map(|v| volume_of(v, framework)));
    out
}

/// The task of a launch that is no pod.
pub fn single(launch: &Launch, host: &HostId, framework: &Framework) -> TaskInfo {
    let resources = resources(launch, &mut PartsLeft::of(launch), framework);
    task(launch, resources, host)
}

/// The task of a launch, with what it takes of its host.
pub fn task(launch: &Launch, resources: Vec<Resource>, host: &HostId) -> TaskInfo {
    let runtime = &launch.runtime;
    TaskInfo {
        name: launch.name.clone(),
        task_id: task_id(&launch.task.to_string()),
        agent_id: agent_id(host),
        resources,
        command: Some(command(runtime)),
        container: container::info(runtime, &launch.ports),
        health_check: runtime.health.as_ref().map(|h| probe::health(h, launch)),
        check: runtime.readiness.as_ref().map(|p| probe::check(p, launch)),
        discovery: discovery(launch),
        labels: Some(labels(&launch.labels)),
        // The grace of a command task comes from here, whatever KILL says (R85).
        kill_policy: Some(KillPolicy {
            grace_period: Some(duration(launch.grace)),
        }),
        max_completion_time: launch.max_run.map(duration),
        ..TaskInfo::default()
    }
}

fn command(runtime: &Runtime) -> CommandInfo {
    let info = CommandInfo {
        environment: Some(environment(runtime)),
        uris: uris(runtime),
        user: Some(runtime.user.clone()).filter(|u| !u.is_empty()),
        ..CommandInfo::default()
    };
    if let Some(words) = &runtime.entrypoint {
        return entrypoint(words, runtime, info);
    }
    let program = Some(runtime.command.clone()).filter(|c| !c.is_empty());
    if runtime.args.is_none() && program.is_some() {
        return CommandInfo {
            shell: Some(true),
            value: Some(line(runtime)),
            ..info
        };
    }
    // Mesos starts a program with exactly these arguments, the first of which is its own name. Docker and what an image
    // starts by itself get them added.
    let own_name = program.clone().filter(|_| !by_docker(runtime));
    CommandInfo {
        shell: Some(false),
        value: program,
        arguments: own_name
            .into_iter()
            .chain(runtime.args.iter().flatten().cloned())
            .collect(),
        ..info
    }
}

fn by_docker(runtime: &Runtime) -> bool {
    let container = runtime.container.as_ref();
    container.is_some_and(|c| c.containerizer == Containerizer::Docker)
}

/// What is started in place of an image's entry point. To Mesos' own containerizer that is a program without a shell, and neither entry
/// point nor default arguments of the image are heeded. Docker takes the program as an option (`container.rs`), which also drops the
/// image's default arguments, and gets the rest as arguments.
fn entrypoint(words: &[String], runtime: &Runtime, info: CommandInfo) -> CommandInfo {
    let docker = by_docker(runtime);
    let words = words.iter().chain(runtime.args.iter().flatten());
    CommandInfo {
        shell: Some(false),
        value: words.clone().next().filter(|_| !docker).cloned(),
        arguments: words.skip(usize::from(docker)).cloned().collect(),
        ..info
    }
}

/// The line of the shell, in its folder. Mesos has no field for that.
fn line(runtime: &Runtime) -> String {
    let folder = &runtime.working_dir;
    if folder.is_empty() {
        return runtime.command.clone();
    }
    let quoted = format!("'{}'", folder.replace('\'', r"'\''"));
    let from = if folder.starts_with('/') {
        ""
    } else {
        "\"$MESOS_SANDBOX\"/"
    };
    format!("cd {from}{quoted} || exit 1\n{}", runtime.command)
}

fn environment(runtime: &Runtime) -> Environment {
    use environment::variable::Type;
    let values = runtime.env.iter().map(|(name, value)| environment::Variable {
        name: name.clone(),
        value: Some(value.clone()),
        ..environment::Variable::default()
    });
    let secrets = runtime.secrets.iter().map(|(name, of)| environment::Variable {
        name: name.clone(),
        r#type: Some(i32::from(Type::Secret)),
        secret: Some(secret_of(of)),
        ..environment::Variable::default()
    });
    Environment {
        variables: values.chain(secrets).collect(),
    }
}

/// A secret by its name; its value never comes this way.
pub fn secret_of(reference: &SecretReference) -> Secret {
    Secret {
        r#type: Some(i32::from(secret::Type::Reference)),
        reference: Some(Reference {
            name: reference.name.clone(),
            key: Some(reference.key.clone()).filter(|k| !k.is_empty()),
        }),
        value: None,
    }
}

fn uris(runtime: &Runtime) -> Vec<Uri> {
    let uri = |u: &echelon_core_model::runtime::Uri| Uri {
        value: u.uri.clone(),
        executable: Some(u.executable),
        extract: Some(u.extract && !u.executable),
        cache: Some(u.cache),
        output_file: Some(u.output_file.clone()).filter(|f| !f.is_empty()),
    };
    runtime.uris.iter().map(uri).collect()
}

/// How a task with ports is found.
fn discovery(launch: &Launch) -> Option<DiscoveryInfo> {
    let widest = launch.runtime.ports.iter().map(|p| p.visibility).max()?;
    let port = |p: &echelon_core_model::runtime::Port| {
        let spec = launch.runtime.ports.iter().find(|s| s.name == p.name);
        Port {
            number: p.number.into(),
            name: Some(p.name.clone()),
            protocol: spec.map(|s| s.protocol.word().to_owned()),
            visibility: spec.map(|s| visibility(s.visibility)),
            labels: None,
        }
    };
    Some(DiscoveryInfo {
        visibility: visibility(widest),
        name: Some(launch.discovery.clone()),
        ports: Some(Ports {
            ports: launch.ports.iter().map(port).collect(),
        }),
        ..DiscoveryInfo::default()
    })
}

fn visibility(visibility: Visibility) -> i32 {
    i32::from(match visibility {
        Visibility::Framework => discovery_info::Visibility::Framework,
        Visibility::Cluster => discovery_info::Visibility::Cluster,
        Visibility::External => discovery_info::Visibility::External,
    })
}

fn labels(labels: &BTreeMap<String, String>) -> Labels {
    let labels = labels.iter().map(|(key, value)| Label {
        key: key.clone(),
        value: Some(value.clone()),
    });
    Labels {
        labels: labels.collect(),
    }
}
