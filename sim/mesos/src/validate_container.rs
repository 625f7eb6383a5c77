//! Whether a command and a container are good, in the words of a real master.

use echelon_proto::mesos::v1::environment::Variable;
use echelon_proto::mesos::v1::environment::variable::Type as Kind;
use echelon_proto::mesos::v1::volume::source::Type as Source;
use echelon_proto::mesos::v1::{CommandInfo, ContainerInfo, Secret, Volume, container_info, secret};

pub(crate) fn command(command: &CommandInfo) -> Result<(), String> {
    let variables = command.environment.iter().flat_map(|env| &env.variables);
    variables.into_iter().try_for_each(variable)
}

fn variable(variable: &Variable) -> Result<(), String> {
    let name = &variable.name;
    let wrong = |what: &str| Err(format!("Environment variable '{name}' of type {what}"));
    match variable.r#type() {
        Kind::Unknown => Err("Environment variable of type 'UNKNOWN' is not allowed".to_owned()),
        Kind::Value if variable.value.is_none() => wrong("'VALUE' must have a value set"),
        Kind::Value if variable.secret.is_some() => wrong("'VALUE' must not have a secret set"),
        Kind::Secret if variable.value.is_some() => wrong("'SECRET' must not have a value set"),
        Kind::Value => Ok(()),
        Kind::Secret => match &variable.secret {
            None => wrong("'SECRET' must have a secret set"),
            Some(secret) => reference(secret)
                .map_err(|why| format!("Environment variable '{name}' specifies an invalid secret: {why}")),
        },
    }
}

fn reference(secret: &Secret) -> Result<(), String> {
    let (kind, there, other, has_other) = match secret.r#type() {
        secret::Type::Reference => (
            "REFERENCE",
            secret.reference.is_some(),
            "value",
            secret.value.is_some(),
        ),
        secret::Type::Value => (
            "VALUE",
            secret.value.is_some(),
            "reference",
            secret.reference.is_some(),
        ),
        secret::Type::Unknown => return Err("Secret of type UNKNOWN is not allowed".to_owned()),
    };
    if !there {
        let own = kind.to_lowercase();
        return Err(format!("Secret of type {kind} must have the '{own}' field set"));
    }
    if has_other {
        return Err(format!(
            "Secret of type {kind} must not have the '{other}' field set"
        ));
    }
    Ok(())
}

pub(crate) fn container(container: &ContainerInfo) -> Result<(), String> {
    for one in &container.volumes {
        volume(one).map_err(|why| format!("Invalid volume: {why}"))?;
    }
    if container.r#type() == container_info::Type::Docker && container.docker.is_none() {
        return Err("DockerInfo 'docker' is not set for DOCKER typed ContainerInfo".to_owned());
    }
    Ok(())
}

fn volume(volume: &Volume) -> Result<(), String> {
    let sources = [
        volume.host_path.is_some(),
        volume.image.is_some(),
        volume.source.is_some(),
    ];
    if sources.into_iter().filter(|set| *set).count() != 1 {
        return Err("Only one of them should be set: 'host_path', 'image' and 'source'".to_owned());
    }
    let Some(source) = &volume.source else {
        return Ok(());
    };
    let (part, kind, there) = match source.r#type() {
        Source::DockerVolume => ("docker_volume", "DOCKER_VOLUME", source.docker_volume.is_some()),
        Source::HostPath => ("host_path", "HOST_PATH", source.host_path.is_some()),
        Source::SandboxPath => ("sandbox_path", "SANDBOX_PATH", source.sandbox_path.is_some()),
        Source::Secret => ("secret", "SECRET", source.secret.is_some()),
        Source::Unknown | Source::CsiVolume => return Err("'source.type' is unknown".to_owned()),
    };
    if !there {
        return Err(format!("'source.{part}' is not set for {kind} volume"));
    }
    let secret = source.secret.as_ref().map_or(Ok(()), reference);
    secret.map_err(|why| format!("'source.secret' is invalid: {why}"))
}
