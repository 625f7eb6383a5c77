//! Rules of one group.

use super::text::{LABEL_FORM, is_label, is_line};
use super::{Violations, daemon, overrides, pod, rules, runtime, siting};
use echelon_core_model::resources::Kind;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, MAX_INSTANCES};
use echelon_core_model::{GroupName, Resources, Span};

/// Longest time for clients to leave a run that is to end: it holds up whatever it makes room for.
const LONGEST_DRAIN: Span = Span::minutes(60);
/// A million cores or GPUs, a pebibyte: more than any host has, and far from any overflow.
const MOST_MILLI: u64 = 1_000_000_000;
const MOST_MIB: u64 = 1 << 30;
const LONGEST_GRACE: Span = Span::minutes(24 * 60);
pub(super) const LONGEST_RUN: Span = Span::minutes(365 * 24 * 60);

/// Checks a group that may have so few instances.
pub(super) fn check(g: &GroupSpec, kind: JobKind, least: u32, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    out.check(is_label(g.name.as_str()), at("name"), LABEL_FORM);
    count(g, (kind, least), &at("instances"), out);
    out.check(
        g.max_running != Some(0),
        at("max_running"),
        "must be 1 or more; leave it out to run all at once",
    );
    runtime::check(&g.runtime, path, out);
    overrides::check(g, path, out);
    resources(g.resources, path, out);
    volume(g, kind, &at("volume"), out);
    pod::check(g, path, out);
    siting::check(g, path, out);
    daemon::of_group(g, kind, path, out);
    times(g, path, out);
    rules::of_group(g, kind, path, out);
}

/// Checks a changed number of instances.
pub fn instances(s: &JobSpec, g: &GroupName, field: &str, out: &mut Violations) {
    if let Some(found) = s.group(g) {
        count(found, (s.kind, s.least_instances(g)), field, out);
        super::spec::whole(s, field, out);
    }
}

fn count(g: &GroupSpec, (kind, least): (JobKind, u32), field: &str, out: &mut Violations) {
    if kind == JobKind::Daemon {
        out.check(g.instances == 0, field, daemon::COUNTED);
        return;
    }
    out.check(
        (least..=MAX_INSTANCES).contains(&g.instances),
        field,
        format!("must be {least} to {MAX_INSTANCES}, not {}", g.instances),
    );
}

/// Checks the room of one task.
pub(super) fn resources(wanted: Resources, path: &str, out: &mut Violations) {
    let field = |unit: &str| format!("{path}.resources.{unit}");
    out.check(
        wanted.cpus > 0 || wanted.gpus > 0,
        field("cpus_milli"),
        "must be more than 0: an instance without processor time never runs",
    );
    for kind in Kind::ALL {
        let (unit, most) = match kind {
            Kind::Cpus => ("cpus_milli", MOST_MILLI),
            Kind::Memory => ("memory_mib", MOST_MIB),
            Kind::Disk => ("disk_mib", MOST_MIB),
            Kind::Gpus => ("gpus_milli", MOST_MILLI),
        };
        out.check(
            wanted.get(kind) <= most,
            field(unit),
            format!("must be at most {}", kind.show(most)),
        );
    }
    // Mesos rule R90.
    out.check(
        wanted.gpus.is_multiple_of(1000),
        field("gpus_milli"),
        "must be whole GPUs: Mesos does not share one",
    );
}

fn volume(g: &GroupSpec, kind: JobKind, path: &str, out: &mut Violations) {
    let Some(volume) = &g.volume else {
        out.check(
            kind != JobKind::Stateful,
            path,
            "is missing: instances of kind stateful have one; use kind service for those without",
        );
        return;
    };
    out.check(
        kind == JobKind::Stateful,
        path,
        format!("is for kind stateful; instances of kind {kind} do not stay on a host"),
    );
    out.check(
        (1..=MOST_MIB).contains(&volume.size),
        format!("{path}.size_mib"),
        format!("must be 1 to {MOST_MIB}"),
    );
    // A master takes over a minute to call an agent lost that restarts.
    out.check(
        volume
            .replace_after
            .is_none_or(|after| (Span::minutes(1)..=LONGEST_RUN).contains(&after)),
        format!("{path}.replace_after"),
        "must be 1 minute to 365 days; leave it out to replace by command only",
    );
    let within = g.runtime.container.as_ref().is_some_and(|c| !c.image.is_empty());
    let text = &volume.path;
    let plain = !text.is_empty() && is_line(text, 255) && !text.split('/').any(|part| part == "..");
    out.check(
        plain && (within || !text.starts_with('/')),
        format!("{path}.path"),
        "must be a path within the sandbox, or with an image an absolute one, without `..`",
    );
}

fn times(g: &GroupSpec, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    out.check(g.retry.limit >= 1, at("retry.limit"), "must be 1 or more");
    let tries = g.platform_retry;
    out.check(
        (1..=u32::from(u16::MAX)).contains(&tries) || tries == u32::MAX,
        at("platform_retry"),
        "must be 1 to 65535, or 4294967295 for ever",
    );
    out.check(
        g.retry.backoff <= g.retry.max_backoff,
        at("retry.backoff"),
        format!("must be at most max_backoff, which is {}", g.retry.max_backoff),
    );
    out.check(
        g.retry.max_backoff <= LONGEST_GRACE,
        at("retry.max_backoff"),
        "must be at most 24 hours",
    );
    out.check(g.drain <= LONGEST_DRAIN, at("drain"), "must be at most 1 hour");
    out.check(g.grace <= LONGEST_GRACE, at("grace"), "must be at most 24 hours");
    if let Some(longest) = g.max_run {
        out.check(
            longest > Span::ZERO && longest <= LONGEST_RUN,
            at("max_run"),
            "must be more than 0 and at most 365 days; leave it out for no bound",
        );
    }
}
