//! Rules of pods: what Mesos' default executor can run side by side. Refused by a master it would be the whole group of tasks
//! (Mesos rules R71, R82), each time anew.

use super::text::{LABEL_FORM, is_label};
use super::{Violations, group, runtime};
use echelon_core_model::pod::{MAIN, MAX_SIDECARS, Sidecar};
use echelon_core_model::runtime::{Containerizer, Network, Runtime};
use echelon_core_model::spec::GroupSpec;
use std::collections::BTreeSet;

/// Checks the sidecars of a group, and what a group with sidecars must not ask for.
pub(super) fn check(g: &GroupSpec, path: &str, out: &mut Violations) {
    if g.sidecars.is_empty() {
        return;
    }
    let field = format!("{path}.sidecars");
    out.check(
        g.sidecars.len() <= MAX_SIDECARS,
        field.clone(),
        format!(
            "must be at most {MAX_SIDECARS}, not {}; start several programs from one script, or make them groups",
            g.sidecars.len()
        ),
    );
    out.check(
        g.volume.as_ref().is_none_or(|v| !v.path.starts_with('/')),
        format!("{path}.volume.path"),
        "must be within the sandbox where a group has sidecars: Mesos mounts it for the pod's executor first, which has no image",
    );
    container(&g.runtime, path, out);
    let mut seen = BTreeSet::new();
    for (i, s) in g.sidecars.iter().enumerate() {
        let at = format!("{field}[{i}]");
        out.check(
            seen.insert(&s.name),
            format!("{at}.name"),
            format!("`{}` is the name of an earlier sidecar", s.name),
        );
        sidecar(s, &g.runtime, &at, out);
    }
}

fn sidecar(s: &Sidecar, main: &Runtime, path: &str, out: &mut Violations) {
    let name = format!("{path}.name");
    out.check(is_label(s.name.as_str()), name.clone(), LABEL_FORM);
    out.check(
        s.name.as_str() != MAIN,
        name,
        format!("`{MAIN}` is what the group's own task is called; use another"),
    );
    // It finds the group's ports where the main task does, and its health check may ask them.
    let with_ports = Runtime {
        ports: main.ports.clone(),
        ..s.runtime.clone()
    };
    runtime::check_sidecar(&with_ports, path, out);
    container(&s.runtime, path, out);
    group::resources(s.resources, path, out);
}

/// The members of a pod are containers of Mesos within one, which is on the host's network.
fn container(r: &Runtime, path: &str, out: &mut Violations) {
    let Some(c) = &r.container else { return };
    out.check(
        c.containerizer == Containerizer::Mesos,
        format!("{path}.container.type"),
        "must be mesos where a group has sidecars: Docker's containers cannot share a pod; Mesos runs the same images",
    );
    out.check(
        c.network == Network::Host || c.containerizer == Containerizer::Docker,
        format!("{path}.container.network"),
        "must be host where a group has sidecars: they and the main task share it",
    );
}
