//! Amounts, times and reasons as cells of a table.

use echelon_clients_rust::v1;
use echelon_core_model::Resources;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let seconds = of.map_or(0, |d| u64::try_from(d.seconds).unwrap_or_default());
    rounded(seconds)
}

fn rounded(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s}s"),
        s if s < 3600 => format!("{}m", s / 60),
        s if s < 86_400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// How long ago: `12s`, `5m`, `3h`, `2d`; nothing for a moment that is not told.
pub fn ago(at: Option<&prost_types::Timestamp>) -> String {
    let Some(at) = at else { return String::new() };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    let then = u64::try_from(at.seconds).unwrap_or_default();
    rounded(now.saturating_sub(then))
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
