//! Rules of ports and of the probes that ask them.

use super::Violations;
use super::text::{LABEL_FORM, is_label, is_line};
use echelon_core_model::runtime::{
    HealthCheck, MAX_PORTS, Network, PortReference, PortSpec, Probe, ProbeKind, Protocol, Runtime,
};
use echelon_core_model::{Span, nearest};
use std::collections::BTreeSet;

const SHORTEST_INTERVAL: Span = Span::millis(100);
const LONGEST: Span = Span::minutes(24 * 60);

pub(super) fn check(r: &Runtime, path: &str, out: &mut Violations) {
    if let Some(HealthCheck {
        probe,
        grace,
        failures,
    }) = &r.health
    {
        let at = |field: &str| format!("{path}.health.{field}");
        self::probe(r, probe, &at("probe"), out);
        out.check(*grace <= LONGEST, at("grace"), "must be at most 24 hours");
        out.check(*failures >= 1, at("failures"), "must be 1 or more");
    }
    if let Some(probe) = &r.readiness {
        let field = format!("{path}.readiness");
        self::probe(r, probe, &field, out);
        let over_tls = matches!(probe.kind, ProbeKind::Http { tls: true, .. });
        out.check(
            !over_tls,
            format!("{field}.http.tls"),
            "is possible only in a health check; ask by a command",
        );
    }
}

/// Checks the ports of a group.
pub(super) fn ports(r: &Runtime, path: &str, out: &mut Violations) {
    out.check(
        r.ports.len() <= MAX_PORTS,
        path,
        format!("must be at most {MAX_PORTS}"),
    );
    out.check(
        r.ports.is_empty() || *r.network() != Network::None,
        path,
        "a container without a network has no ports",
    );
    let (mut names, mut fixed, mut inside) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (i, p) in r.ports.iter().enumerate() {
        let at = |field: &str| format!("{path}[{i}].{field}");
        out.check(is_label(&p.name), at("name"), LABEL_FORM);
        out.check(
            p.name.is_empty() || !p.name.bytes().all(|b| b.is_ascii_digit()),
            at("name"),
            "must not be a number; that is what `port` is for",
        );
        out.check(
            names.insert(&p.name),
            at("name"),
            format!("`{}` is the name of an earlier port", p.name),
        );
        out.check(p.fixed != Some(0), at("port"), "must be 1 to 65535");
        out.check(
            p.fixed.is_none_or(|n| fixed.insert(n)),
            at("port"),
            "is the number of an earlier port",
        );
        let twice = !p.container_port.is_none_or(|n| inside.insert((n, p.protocol)));
        out.check(!twice, at("container_port"), "is the number of an earlier port");
        container_port(r, p, &at("container_port"), out);
    }
}

fn container_port(r: &Runtime, p: &PortSpec, field: &str, out: &mut Violations) {
    out.check(p.container_port != Some(0), field, "must be 1 to 65535");
    out.check(
        p.container_port.is_none() || r.network().maps_ports(),
        field,
        "needs a container with a network of its own: bridge, or one by name",
    );
}

fn probe(r: &Runtime, p: &Probe, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    match &p.kind {
        ProbeKind::Command(line) => out.check(
            !line.trim().is_empty() && line.len() <= 64 * 1024 && !line.contains('\0'),
            at("command"),
            "must be 1 to 65536 bytes without NUL",
        ),
        ProbeKind::Http { port, path: page, .. } => {
            self::port(r, port, &at("http.port"), out);
            out.check(
                page.starts_with('/') && is_line(page, 2048) && !page.contains(' '),
                at("http.path"),
                "must begin with `/` and have no spaces and control characters",
            );
        }
        ProbeKind::Tcp { port } => self::port(r, port, &at("tcp.port"), out),
    }
    out.check(p.delay <= LONGEST, at("delay"), "must be at most 24 hours");
    out.check(
        (SHORTEST_INTERVAL..=LONGEST).contains(&p.interval),
        at("interval"),
        "must be 0.1 seconds to 24 hours",
    );
    out.check(
        (SHORTEST_INTERVAL..=LONGEST).contains(&p.timeout),
        at("timeout"),
        "must be 0.1 seconds to 24 hours",
    );
}

/// A port that is asked: of the group, or a number, and of TCP.
fn port(r: &Runtime, wanted: &PortReference, field: &str, out: &mut Violations) {
    out.check(
        *r.network() != Network::None,
        field,
        "a container without a network cannot be asked; probe by a command",
    );
    let name = match wanted {
        PortReference::Number(number) => {
            return out.check(*number > 0, field, "must be 1 to 65535, or the name of a port");
        }
        PortReference::Named(name) => name,
    };
    let Some(found) = r.ports.iter().find(|p| p.name == *name) else {
        let names = r.ports.iter().map(|p| p.name.as_str());
        let meant = nearest(name, names).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        let problem = format!("the group has no port `{name}`{meant}");
        return out.check(false, field, problem);
    };
    out.check(
        found.protocol == Protocol::Tcp,
        field,
        format!("port `{name}` is of UDP, which cannot be asked; probe by a command"),
    );
}
