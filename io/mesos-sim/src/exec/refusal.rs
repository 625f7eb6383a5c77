//! What a task asks of its agent that this one cannot do: it fails as on a real agent without the image, the
//! network or the secret store.

use echelon_proto::mesos::v1::environment::variable::Type as Variable;
use echelon_proto::mesos::v1::{ContainerInfo, container_info};
use echelon_sim_mesos::Launch;

/// Why a task cannot run here; `None`: it can.
pub(crate) fn of(launch: &Launch) -> Option<String> {
    if let Some((executor, _)) = launch
        .executor
        .as_ref()
        .filter(|(_, info)| !super::runner::is_default(info))
    {
        return Some(format!(
            "the simulated agent runs no custom executors like `{}`",
            executor.executor
        ));
    }
    let secret = launch.command.environment.iter().flat_map(|env| &env.variables);
    if secret
        .into_iter()
        .any(|variable| variable.r#type() == Variable::Secret)
    {
        return Some("the simulated agent has no secret store".to_owned());
    }
    launch.container.as_ref().and_then(container)
}

fn container(info: &ContainerInfo) -> Option<String> {
    let image = info.mesos.as_ref().and_then(|mesos| mesos.image.as_ref());
    let name = |image: &echelon_proto::mesos::v1::Image| {
        let docker = image.docker.as_ref().map(|docker| docker.name.clone());
        docker.or_else(|| image.appc.as_ref().map(|appc| appc.name.clone()))
    };
    if info.r#type() == container_info::Type::Docker {
        let image = info.docker.as_ref().map(|docker| docker.image.as_str());
        let image = image.unwrap_or_default();
        return Some(format!(
            "the simulated agent has no Docker and cannot run image `{image}`"
        ));
    }
    if let Some(image) = image.and_then(name) {
        return Some(format!(
            "the simulated agent has no image `{image}` and no way to pull one"
        ));
    }
    if !info.volumes.is_empty() {
        return Some("the simulated agent mounts no volumes".to_owned());
    }
    let network = info
        .network_infos
        .iter()
        .find_map(|network| network.name.as_ref());
    network.map(|network| format!("the simulated agent has no network `{network}`"))
}
