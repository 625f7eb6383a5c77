//! Amounts, times and reasons as cells of a table.

use echelon_clients_rust::v1;
use echelon_core_model::unconfirmed::{self, UnconfirmedPart, unconfirmed_for, unconfirmed_of};
use echelon_core_model::{Kind, Resources, Span};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// What other frameworks use, and what is offered to them; `nothing` where there is neither.
pub fn others(held: Option<&v1::HeldByOthers>) -> String {
    let is_some = |r: &&v1::Resources| **r != v1::Resources::default();
    let used = held.and_then(|h| h.used.as_ref()).filter(is_some);
    let offered = held.and_then(|h| h.offered.as_ref()).filter(is_some);
    match (used, offered) {
        (None, None) => "nothing".to_owned(),
        (used, None) => resources(used),
        (None, offered) => format!("offered {}", resources(offered)),
        (used, offered) => format!("{}, offered {}", resources(used), resources(offered)),
    }
}

/// A quantity of a kind: `4 cpus`.
pub fn quantity(kind: v1::ResourceKind, quantity: u64) -> String {
    let kind = match kind {
        v1::ResourceKind::Cpus => Kind::Cpus,
        v1::ResourceKind::Memory => Kind::Memory,
        v1::ResourceKind::Disk => Kind::Disk,
        v1::ResourceKind::Gpus => Kind::Gpus,
        v1::ResourceKind::Unspecified => return quantity.to_string(),
    };
    format!("{} {kind}", kind.show(quantity))
}

/// Amounts of each kind that is not zero: `cpus 4, memory 4096MiB`.
pub fn resources(r: Option<&v1::Resources>) -> String {
    r.map_or_else(
        || "nothing".to_owned(),
        |r| {
            Resources {
                cpus: r.cpus_milli,
                memory: r.memory_mib,
                disk: r.disk_mib,
                gpus: r.gpus_milli,
            }
            .to_string()
        },
    )
}

/// Limits of each kind that has one.
pub fn limit(l: Option<&v1::ResourceLimit>) -> String {
    let Some(l) = l else { return "none".to_owned() };
    let kinds = [
        (echelon_core_model::Kind::Cpus, l.cpus_milli),
        (echelon_core_model::Kind::Memory, l.memory_mib),
        (echelon_core_model::Kind::Disk, l.disk_mib),
        (echelon_core_model::Kind::Gpus, l.gpus_milli),
    ];
    let each: Vec<String> = kinds
        .iter()
        .filter_map(|(k, q)| q.map(|q| format!("{k} {}", k.show(q))))
        .collect();
    if each.is_empty() {
        "none".to_owned()
    } else {
        each.join(", ")
    }
}

/// Ports of a run: `http 31000, admin 31001`.
pub fn ports(ports: &[v1::Port]) -> String {
    let each: Vec<String> = ports.iter().map(|p| format!("{} {}", p.name, p.number)).collect();
    each.join(", ")
}

/// What probes said last: `healthy, not ready`; nothing where there are none.
pub fn health(healthy: Option<bool>, ready: Option<bool>) -> String {
    let healthy = healthy.map(|yes| if yes { "healthy" } else { "unhealthy" });
    let ready = ready.map(|yes| if yes { "ready" } else { "not ready" });
    let both: Vec<&str> = healthy.into_iter().chain(ready).collect();
    both.join(", ")
}

/// Tasks of a pod: `main running; log failed (7)`.
pub fn members(members: &[v1::Member]) -> String {
    let one = |m: &v1::Member| {
        let exit = m.exit_code.filter(|code| *code != 0);
        let exit = exit.map_or(String::new(), |code| format!(" ({code})"));
        let health = match health(m.healthy, None) {
            text if text.is_empty() => text,
            text => format!(", {text}"),
        };
        format!("{} {}{exit}{health}", m.name, run_state(m.state()))
    };
    members.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// How long: `12s`, `5m`, `3h`, `2d`.
pub fn span(of: Option<&prost_types::Duration>) -> String {
    of.map_or(Span::ZERO, read_span).rounded()
}

/// A span of the wire; one below zero is none.
fn read_span(of: &prost_types::Duration) -> Span {
    Span::seconds(u64::try_from(of.seconds).unwrap_or_default())
}

/// How old something is; of what the gateway does not know the age, that.
pub fn age(of: Option<&prost_types::Duration>) -> String {
    of.map_or_else(|| "unknown".to_owned(), |of| span(Some(of)))
}

/// `unconfirmed for 1m`, from an age of the wire.
pub fn unconfirmed(age: Option<&prost_types::Duration>) -> String {
    unconfirmed_for(age.map(read_span))
}

/// Counts with what of their sum is at clusters that do not confirm it.
pub fn with_unconfirmed(counts: &str, total: u64, parts: &[v1::Part]) -> String {
    let stale = parts.iter().filter(|p| p.stale && p.instances != Some(0));
    let stale: Vec<UnconfirmedPart<'_>> = stale
        .map(|p| UnconfirmedPart {
            cluster: &p.cluster,
            count: p.instances,
            age: p.age.as_ref().map(read_span),
        })
        .collect();
    unconfirmed::with_unconfirmed(counts, total, &stale)
}

/// Which rows of a list are unconfirmed: `those with a `?` are as last reported: 3 at west unconfirmed for
/// 1m`. Nothing where all are confirmed.
pub fn unconfirmed_rows<'a>(
    rows: impl Iterator<Item = (&'a str, Option<&'a prost_types::Duration>)>,
) -> Option<String> {
    let mut clusters: BTreeMap<&str, (u64, Option<Span>)> = BTreeMap::new();
    for (cluster, age) in rows {
        let age = age.map(read_span);
        let at = clusters.entry(cluster).or_insert((0, age));
        // The largest age is shown for all of them. An unknown one counts as larger.
        *at = (at.0 + 1, at.1.zip(age).map(|(one, other)| one.max(other)));
    }
    let parts: Vec<UnconfirmedPart<'_>> = clusters
        .iter()
        .map(|(cluster, (count, age))| UnconfirmedPart {
            cluster,
            count: Some(*count),
            age: *age,
        })
        .collect();
    let words = unconfirmed_of(u64::MAX, &parts)?;
    Some(format!("those with a `?` are as last reported: {words}"))
}

/// How long ago: `12s`, `5m`, `3h`, `2d`; nothing for a moment that is not told.
pub fn ago(at: Option<&prost_types::Timestamp>) -> String {
    let Some(at) = at else { return String::new() };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let then = u64::try_from(at.seconds).unwrap_or_default();
    Span::seconds(now.saturating_sub(then)).rounded()
}

/// A moment of the day, in UTC.
pub fn time(at: Option<&prost_types::Timestamp>) -> String {
    at.and_then(|at| jiff::Timestamp::new(at.seconds, at.nanos).ok())
        .map(|t| format!("{t:.3}"))
        .unwrap_or_default()
}

/// A reason as a sentence.
pub fn reason(r: Option<&v1::Reason>) -> String {
    r.map(|r| r.message.clone()).unwrap_or_default()
}

/// A state's lower-case word, from the name of its enum value.
pub fn word(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// State of a run.
pub fn run_state(state: v1::RunState) -> String {
    word(state.as_str_name(), "RUN_STATE_")
}

/// State of a job.
pub fn job_state(state: v1::JobState) -> String {
    word(state.as_str_name(), "JOB_STATE_")
}

/// The health of a cluster.
pub fn cluster_health(health: v1::Health) -> String {
    word(health.as_str_name(), "HEALTH_").replace('_', "-")
}
