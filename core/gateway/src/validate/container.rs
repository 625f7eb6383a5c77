//! Rules of a container: what its containerizer can do.

use super::Violations;
use super::runtime::secret;
use super::text::{is_label, is_path};
use echelon_core_model::limits::VOLUMES;
use echelon_core_model::runtime::{Container, Containerizer, ImageFormat, Network, Volume, VolumeSource};
use std::collections::BTreeSet;

pub(super) fn check(c: &Container, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    image(c, path, out);
    network(c, &at("network"), out);
    let named = c.hostname.is_empty() || c.hostname.split('.').all(is_label);
    out.check(
        named,
        at("hostname"),
        "must be names of a-z, 0-9 and `-` with dots between them",
    );
    out.check(
        c.hostname.is_empty() || c.network.maps_ports(),
        at("hostname"),
        "needs a network of the container's own; say `network`",
    );
    let field = at("volumes");
    out.check(
        c.volumes.len() <= VOLUMES,
        field.clone(),
        format!("must be at most {VOLUMES}"),
    );
    let mut seen = BTreeSet::new();
    for (i, v) in c.volumes.iter().enumerate() {
        let field = format!("{field}[{i}]");
        out.check(
            seen.insert(&v.path),
            format!("{field}.path"),
            format!("`{}` is the path of an earlier volume", v.path),
        );
        volume(v, c.containerizer, &field, out);
    }
}

fn image(c: &Container, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b);
    let starts_well = c.image.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric());
    out.check(
        c.image.len() <= 512 && c.image.bytes().all(inside) && starts_well,
        at("image"),
        "must be like `registry.example/team/web:3`",
    );
    match c.containerizer {
        Containerizer::Docker => {
            out.check(
                !c.image.is_empty(),
                at("image"),
                "is missing: Docker runs nothing without one",
            );
            out.check(
                c.image_format == ImageFormat::Docker,
                at("image_format"),
                "must be docker where Docker runs it; use container type mesos for appc",
            );
        }
        Containerizer::Mesos => out.check(
            !c.image.is_empty() || c.image_format == ImageFormat::Docker,
            at("image_format"),
            "means nothing without an image",
        ),
    }
    out.check(
        !c.force_pull || !c.image.is_empty(),
        at("force_pull"),
        "means nothing without an image",
    );
}

fn network(c: &Container, field: &str, out: &mut Violations) {
    match (&c.network, c.containerizer) {
        (Network::Bridge | Network::None, Containerizer::Mesos) => out.check(
            false,
            field,
            format!(
                "Mesos' own containers know no `{}`: use `host`, the name of a network that the hosts have, or container \
                 type docker",
                c.network
            ),
        ),
        (Network::Named(name), _) => {
            let inside = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
            out.check(
                name.len() <= 128 && name.bytes().all(inside) && !name.starts_with('-'),
                field,
                "must be host, bridge, none, or the name of a network: letters, digits and `_.-`",
            );
        }
        _ => {}
    }
}

fn volume(v: &Volume, by: Containerizer, path: &str, out: &mut Violations) {
    const FORM: &str = "must be a path without `..`, `:` and control characters";
    out.check(is_path(&v.path, 1024), format!("{path}.path"), FORM);
    match &v.source {
        VolumeSource::Host(from) => out.check(
            is_path(from, 1024) && from.starts_with('/'),
            format!("{path}.host_path"),
            "must be an absolute path without `..`, `:` and control characters",
        ),
        VolumeSource::Sandbox(from) => out.check(
            is_path(from, 1024) && !from.starts_with('/'),
            format!("{path}.sandbox_path"),
            "must be a path within the sandbox without `..`, `:` and control characters",
        ),
        VolumeSource::Secret(of) => {
            let field = format!("{path}.secret");
            out.check(
                by == Containerizer::Mesos,
                field.clone(),
                "are given only to containers that Mesos runs itself; use container type mesos",
            );
            secret(of, &field, out);
        }
    }
}
