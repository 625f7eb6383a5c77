//! From the shape of a job file to a specification, with defaults filled in and every problem told with its field's path.

use super::cluster_choice::clusters;
use super::file::{GroupFile, JobFile, SidecarFile};
use super::parts_file::{PersistentVolumeFile, ResourcesFile, RetryFile};
use super::runtime::{runtime, truth};
use super::scalar::Scalar;
use super::siting::{constraints, siting};
use super::words::one_of;
use super::{Problem, Problems};
use super::{overrides, rules, words};
use crate::quantity;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::rules::{Restart, Rules};
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec, MAX_INSTANCES, OnSilence, Retry, defaults};
use echelon_core_model::volume::{PersistentVolume, Reclaim};
use echelon_core_model::{GroupName, Resources, SidecarName};
use std::collections::BTreeMap;

/// Collects problems while values are read.
pub(super) struct Reader(Vec<Problem>);

impl Reader {
    pub(super) fn wrong(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Problem {
            line: None,
            path: path.to_owned(),
            message: message.into(),
        });
    }

    /// The value read by `read`, or `otherwise` where it is absent or wrong.
    pub(super) fn value<T, F>(
        &mut self,
        path: &str,
        text: Option<&Scalar<F>>,
        read: impl Fn(&str) -> Result<T, String>,
        otherwise: T,
    ) -> T {
        match text.map(|t| read(&t.0)) {
            None => otherwise,
            Some(Ok(value)) => value,
            Some(Err(why)) => {
                self.wrong(path, why);
                otherwise
            }
        }
    }
}

pub(super) fn whole(text: &str) -> Result<u32, String> {
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    text.parse::<u32>()
        .map_err(|_| format!("`{text}` is not a whole number"))
}

pub(super) fn verbatim(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Turns a file into a specification.
///
/// # Errors
/// All problems found, each with the path of its field.
pub fn spec(mut file: JobFile) -> Result<JobSpec, Problems> {
    let mut r = Reader(Vec::new());
    let rules = Box::new(rules::of_job(&mut r, &mut file));
    let kind = r.value("kind", file.kind.as_ref(), kind, JobKind::Batch);
    let top = file.take_group();
    let groups = groups(&mut r, kind, top, file.groups);
    if kind != JobKind::Daemon {
        least(&mut r, &groups, &rules);
    }
    if file.name.is_none() {
        r.wrong("name", "is missing");
    }
    let spec = JobSpec {
        name: r.value("name", file.name.as_ref(), verbatim, String::new()),
        pool: r.value("pool", file.pool.as_ref(), verbatim, defaults::POOL.to_owned()),
        kind,
        owner: r.value("owner", file.owner.as_ref(), verbatim, String::new()),
        labels: texts(file.labels.unwrap_or_default()),
        priority: r.value("priority", file.priority.as_ref(), whole, 0),
        clusters: Box::new(clusters(&mut r, file.clusters)),
        revocable: r.value("revocable", file.revocable.as_ref(), truth, false),
        preemptible: r.value("preemptible", file.preemptible.as_ref(), truth, true),
        controller: r.value("controller", file.controller.as_ref(), truth, false),
        gang: file.gang.map(|file| super::gang::gang(&mut r, file)),
        rules,
        on_unreachable: r.value(
            "on_unreachable",
            file.on_unreachable.as_ref(),
            on_silence,
            defaults::on_unreachable(kind),
        ),
        on_gone: file.on_gone.as_ref().and_then(|text| {
            let read = |text: &str| on_silence(text).map(Some);
            r.value("on_gone", Some(text), read, None)
        }),
        on_cluster_loss: r.value(
            "on_cluster_loss",
            file.on_cluster_loss.as_ref(),
            on_silence,
            defaults::on_cluster_loss(kind),
        ),
        update: super::update::policy(&mut r, &file.update.unwrap_or_default()),
        groups,
    };
    if r.0.is_empty() {
        Ok(spec)
    } else {
        Err(Problems(r.0))
    }
}

fn kind(text: &str) -> Result<JobKind, String> {
    one_of("a kind of job", &words::KINDS)(text)
}

/// Reads `wait`, or `replace after 15m`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn on_silence(text: &str) -> Result<OnSilence, String> {
    match text.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["wait"] => Ok(OnSilence::Wait),
        ["replace", "after", span] => quantity::span(span).map(OnSilence::Replace),
        _ => Err(format!(
            "`{text}` is neither `wait` nor `replace after <time>`, for example `replace after 5m`"
        )),
    }
}

fn groups(
    r: &mut Reader,
    kind: JobKind,
    top: GroupFile,
    named: Option<BTreeMap<String, GroupFile>>,
) -> Vec<GroupSpec> {
    let Some(named) = named else {
        return vec![group(r, "", kind, GroupName::new(GroupName::DEFAULT), top)];
    };
    let GroupFile {
        instances,
        command,
        resources,
        ..
    } = &top;
    if instances.is_some() || command.is_some() || resources.is_some() {
        r.wrong(
            "groups",
            "instances, command and resources stand either at the top or in groups, not in both",
        );
    }
    if named.is_empty() {
        r.wrong("groups", "needs at least one group");
    }
    named
        .into_iter()
        .filter_map(|(name, file)| {
            let path = format!("groups.{name}.");
            match GroupName::parse(&name) {
                Ok(name) => Some(group(r, &path, kind, name, file)),
                Err(why) => {
                    r.wrong(path.trim_end_matches('.'), why.to_string());
                    None
                }
            }
        })
        .collect()
}

/// Only what a driver scales may have no instances.
fn least(r: &mut Reader, groups: &[GroupSpec], rules: &Rules) {
    for group in groups.iter().filter(|g| g.instances == 0) {
        let driven = rules.driver.as_ref().is_some_and(|d| *d != group.name);
        // A file with one group may have it at its top.
        let path = match groups {
            [_] => "instances".to_owned(),
            _ => format!("groups.{}.instances", group.name),
        };
        if !driven {
            r.wrong(&path, between(0));
        }
    }
}

fn between(instances: u32) -> String {
    format!("{instances} is not between 1 and {MAX_INSTANCES}")
}

fn group(r: &mut Reader, path: &str, kind: JobKind, name: GroupName, mut file: GroupFile) -> GroupSpec {
    let at = |field: &str| format!("{path}{field}");
    let daemon = kind == JobKind::Daemon;
    let instances = r.value(
        &at("instances"),
        file.instances.as_ref(),
        whole,
        u32::from(!daemon),
    );
    if daemon && file.instances.is_some() {
        let why = "a daemon has one instance on each host that its constraints let: leave it out";
        r.wrong(&at("instances"), why.to_owned());
    } else if instances > MAX_INSTANCES {
        r.wrong(&at("instances"), between(instances));
    }
    let runtime = runtime(r, path, &mut file);
    let overrides = overrides::read(r, &at("overrides"), file.overrides.take().unwrap_or_default());
    let siting = siting(r, path, kind, &mut file);
    let sidecars = file.sidecars.take().unwrap_or_default().into_iter().enumerate();
    let sidecars = sidecars.map(|(i, file)| sidecar(r, &at(&format!("sidecars[{i}].")), file));
    let sidecars = sidecars.collect();
    GroupSpec {
        name,
        instances,
        max_running: file
            .max_running
            .as_ref()
            .map(|text| r.value(&at("max_running"), Some(text), whole, 1)),
        runtime,
        overrides,
        resources: resources(r, &at("resources"), file.resources),
        volume: file.volume.map(|v| volume(r, &at("volume"), v)),
        sidecars,
        constraints: constraints(r, &at("constraints"), file.constraints.unwrap_or_default()),
        siting,
        retry: retry(r, &at("retry"), kind, file.retry.unwrap_or_default()),
        platform_retry: r.value(
            &at("platform_retry"),
            file.platform_retry.as_ref(),
            whole,
            defaults::platform_retry(kind),
        ),
        restart: r.value(
            &at("restart"),
            file.restart.as_ref(),
            rules::restart,
            Restart::OnFailure,
        ),
        drain: r.value(
            &at("drain"),
            file.drain.as_ref(),
            quantity::span,
            echelon_core_model::Span::ZERO,
        ),
        grace: r.value(&at("grace"), file.grace.as_ref(), quantity::span, defaults::GRACE),
        max_run: rules::span(r, &at("max_run"), file.max_run.as_ref()),
        max_start: rules::span(r, &at("max_start"), file.max_start.as_ref()),
        max_unavailable: r.value(
            &at("max_unavailable"),
            file.max_unavailable.as_ref(),
            super::update::amount,
            defaults::MAX_UNAVAILABLE,
        ),
        revision: 0,
    }
}

fn volume(r: &mut Reader, path: &str, file: PersistentVolumeFile) -> PersistentVolume {
    let reclaim = one_of("what can become of a volume", &words::RECLAIMS);
    PersistentVolume {
        path: file.path.0,
        size: r.value(&format!("{path}.size"), Some(&file.size), quantity::mebibytes, 1),
        reclaim: r.value(
            &format!("{path}.reclaim"),
            file.reclaim.as_ref(),
            reclaim,
            Reclaim::Keep,
        ),
        replace_after: rules::span(r, &format!("{path}.replace_after"), file.replace_after.as_ref()),
    }
}

/// Its task is read as that of a group that has nothing else.
fn sidecar(r: &mut Reader, path: &str, mut file: SidecarFile) -> Sidecar {
    let mut parts = file.take_task();
    let name = SidecarName::parse(&file.name.0).unwrap_or_else(|why| {
        r.wrong(&format!("{path}name"), why.to_string());
        SidecarName::new(&file.name.0)
    });
    Sidecar {
        name,
        runtime: runtime(r, path, &mut parts),
        resources: resources(r, &format!("{path}resources"), parts.resources),
    }
}

fn resources(r: &mut Reader, path: &str, file: Option<ResourcesFile>) -> Resources {
    let Some(file) = file else {
        r.wrong(
            path,
            "is missing: say what one instance needs, for example {cpus: 0.1, memory: 32MiB}",
        );
        return Resources::ZERO;
    };
    Resources {
        cpus: r.value(
            &format!("{path}.cpus"),
            file.cpus.as_ref(),
            quantity::thousandths,
            0,
        ),
        memory: r.value(
            &format!("{path}.memory"),
            file.memory.as_ref(),
            quantity::mebibytes,
            0,
        ),
        disk: r.value(
            &format!("{path}.disk"),
            file.disk.as_ref(),
            quantity::mebibytes,
            0,
        ),
        gpus: r.value(
            &format!("{path}.gpus"),
            file.gpus.as_ref(),
            quantity::thousandths,
            0,
        ),
    }
}

fn retry(r: &mut Reader, path: &str, kind: JobKind, file: RetryFile) -> Retry {
    let preset = defaults::retry(kind);
    Retry {
        limit: r.value(&format!("{path}.limit"), file.limit.as_ref(), whole, preset.limit),
        backoff: r.value(
            &format!("{path}.backoff"),
            file.backoff.as_ref(),
            quantity::span,
            preset.backoff,
        ),
        max_backoff: r.value(
            &format!("{path}.max_backoff"),
            file.max_backoff.as_ref(),
            quantity::span,
            preset.max_backoff,
        ),
        no_retry_exit_codes: rules::exit_codes(
            r,
            &format!("{path}.no_retry_exit_codes"),
            file.no_retry_exit_codes,
        ),
    }
}

/// Values of a map as they are written.
pub(super) fn texts(map: BTreeMap<String, Scalar>) -> BTreeMap<String, String> {
    map.into_iter().map(|(k, v)| (k, v.0)).collect()
}
