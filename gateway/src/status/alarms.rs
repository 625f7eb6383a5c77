//! What is open, from what is known. Each alarm names the command that helps, or that shows more.

use echelon_core_model::control::Control;
use echelon_core_model::role_state::RoleAlarm;
use echelon_proto::convert::quantity::timestamp;
use echelon_proto::echelon::v1;

/// Alarms that are shown.
const MOST: usize = 200;
/// Processes that one alarm names; the others are counted.
const NAMED: usize = 8;

/// All that is open, most urgent first. `told` is what processes say of themselves.
pub(super) fn open(status: &v1::Status, control: Option<&Control>, told: Vec<RoleAlarm>) -> Vec<v1::Alarm> {
    let mut all = Vec::new();
    all.extend(silent(status, "ZooKeeper", |process| process.membership.as_ref()));
    all.extend(silent(status, "storage", |process| process.storage.as_ref()));
    if !status.clusters_unknown.is_empty() {
        let summary = format!("this gateway cannot read storage: {}", status.clusters_unknown);
        all.push(alarm(summary, "echelon doctor"));
    }
    all.extend(status.roles.iter().filter_map(absent));
    all.extend(status.roles.iter().filter_map(frozen));
    all.extend(status.clusters.iter().flat_map(of_cluster));
    all.extend(told.into_iter().map(|told| alarm(told.summary, &told.command)));
    all.extend(control.and_then(kills));
    all.truncate(MOST);
    all
}

fn alarm(summary: String, command: &str) -> v1::Alarm {
    v1::Alarm {
        summary,
        command: command.to_owned(),
        since: None,
    }
}

fn name(role: &v1::RoleStatus) -> String {
    if role.cluster.is_empty() {
        role.role.clone()
    } else {
        format!("{} {}", role.role, role.cluster)
    }
}

/// Servers that do not answer some processes: one alarm names them all.
fn silent(
    status: &v1::Status,
    servers: &str,
    of: impl Fn(&v1::ProcessStatus) -> Option<&v1::ServerStatus>,
) -> Option<v1::Alarm> {
    let mut names = Vec::new();
    let mut since: Option<prost_types::Timestamp> = None;
    let mut reason = String::new();
    for role in &status.roles {
        for process in &role.processes {
            let Some(seen) = of(process).filter(|seen| seen.reach() == v1::Reach::Silent) else {
                continue;
            };
            names.push(format!("{} at {}", name(role), process.address));
            let earlier = |a: &prost_types::Timestamp, b: &prost_types::Timestamp| {
                (a.seconds, a.nanos) < (b.seconds, b.nanos)
            };
            if let Some(at) = seen.silent_since
                && since.as_ref().is_none_or(|known| earlier(&at, known))
            {
                since = Some(at);
            }
            reason.clone_from(&seen.reason);
        }
    }
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!names.is_empty()).then(|| v1::Alarm {
        summary: format!("{servers} does not answer {}{more}: {reason}", names.join(", ")),
        command: "echelon doctor".to_owned(),
        since,
    })
}

fn absent(role: &v1::RoleStatus) -> Option<v1::Alarm> {
    let since = role.absent_since.filter(|_| !is_frozen(role))?;
    let (what, command) = if role.cluster.is_empty() {
        ("nothing new is admitted", "echelon resource-manager".to_owned())
    } else {
        (
            "nothing is started or stopped there",
            format!("echelon shard --cluster {}", role.cluster),
        )
    };
    Some(v1::Alarm {
        summary: format!(
            "no leader of {} answers, so {what}: {}",
            name(role),
            role.absent_reason
        ),
        command,
        since: Some(since),
    })
}

fn is_frozen(role: &v1::RoleStatus) -> bool {
    let is_frozen = |process: &v1::ProcessStatus| process.standing() == v1::Standing::Frozen;
    role.processes.iter().any(is_frozen)
}

fn frozen(role: &v1::RoleStatus) -> Option<v1::Alarm> {
    is_frozen(role).then(|| {
        let why = if role.absent_reason.is_empty() {
            String::new()
        } else {
            format!(" ({})", role.absent_reason)
        };
        let summary = format!(
            "{} is frozen: it starts and stops nothing, since storage cannot be right{why}",
            name(role)
        );
        alarm(summary, "echelon storage resume")
    })
}

fn of_cluster(cluster: &v1::Cluster) -> Vec<v1::Alarm> {
    let name = &cluster.display_name;
    let loss = cluster
        .loss
        .as_ref()
        .filter(|loss| !loss.accepted)
        .map(|loss| v1::Alarm {
            summary: format!(
                "{name} lost {} of {} running tasks at once, {} are still missing: nothing is replaced there",
                loss.lost, loss.running, loss.missing
            ),
            command: format!("echelon cluster accept-loss {name}"),
            since: loss.notice_time,
        });
    let trouble = (!cluster.trouble.is_empty()).then(|| {
        let summary = format!("the shard of {name} cannot drive its Mesos: {}", cluster.trouble);
        alarm(summary, &format!("echelon cluster get {name}"))
    });
    let is_bad = match cluster.health() {
        v1::Health::Unspecified | v1::Health::Joining | v1::Health::Healthy | v1::Health::Recovering => false,
        v1::Health::Degraded
        | v1::Health::WithoutMesos
        | v1::Health::WithoutAgents
        | v1::Health::CutOff
        | v1::Health::Lost => true,
    };
    let unhealthy = is_bad.then(|| v1::Alarm {
        summary: format!("{name} is {}: {}", health_word(cluster.health()), causes(cluster)),
        command: format!("echelon cluster get {name}"),
        since: cluster.health_since,
    });
    loss.into_iter().chain(trouble).chain(unhealthy).collect()
}

fn causes(cluster: &v1::Cluster) -> String {
    let causes = cluster.health_causes.iter().map(|cause| cause.sentence.as_str());
    causes.collect::<Vec<_>>().join("; ")
}

/// `HEALTH_CUT_OFF` as `cut-off`.
fn health_word(health: v1::Health) -> String {
    let name = health.as_str_name().trim_start_matches("HEALTH_");
    name.to_ascii_lowercase().replace('_', "-")
}

fn kills(control: &Control) -> Option<v1::Alarm> {
    control.kills_off.then(|| v1::Alarm {
        summary: "kills are off: nothing is stopped on any cluster".to_owned(),
        command: "echelon control kills on".to_owned(),
        since: Some(timestamp(control.at)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(standing: v1::Standing, membership: Option<&str>) -> v1::ProcessStatus {
        let seen = |reason: Option<&str>| v1::ServerStatus {
            reach: reason.map_or(v1::Reach::Connected, |_| v1::Reach::Silent).into(),
            silent_since: reason.map(|_| prost_types::Timestamp { seconds: 7, nanos: 0 }),
            reason: reason.unwrap_or_default().to_owned(),
        };
        v1::ProcessStatus {
            address: "http://h:1".to_owned(),
            standing: standing.into(),
            membership: Some(seen(membership)),
            storage: Some(seen(None)),
            ..v1::ProcessStatus::default()
        }
    }

    fn role(name: &str, cluster: &str, process: v1::ProcessStatus) -> v1::RoleStatus {
        v1::RoleStatus {
            role: name.to_owned(),
            cluster: cluster.to_owned(),
            processes: vec![process],
            ..v1::RoleStatus::default()
        }
    }

    fn commands(status: &v1::Status, control: Option<&Control>, told: Vec<RoleAlarm>) -> Vec<String> {
        let all = open(status, control, told);
        all.into_iter().map(|alarm| alarm.command).collect()
    }

    #[test]
    fn nothing_is_open_where_all_is_well() {
        let status = v1::Status {
            roles: vec![role("shard", "east", process(v1::Standing::Leader, None))],
            clusters: vec![v1::Cluster {
                health: v1::Health::Healthy.into(),
                ..v1::Cluster::default()
            }],
            ..v1::Status::default()
        };
        assert_eq!(open(&status, Some(&Control::default()), Vec::new()), []);
    }

    #[test]
    fn each_thing_that_is_wrong_is_told_once_with_its_command() {
        let mut away = role(
            "resource-manager",
            "",
            process(v1::Standing::Suspended, Some("no answer")),
        );
        away.absent_since = Some(prost_types::Timestamp { seconds: 9, nanos: 0 });
        let east = v1::Cluster {
            display_name: "east".to_owned(),
            loss: Some(v1::MassLoss::default()),
            trouble: "not subscribed".to_owned(),
            ..v1::Cluster::default()
        };
        let status = v1::Status {
            roles: vec![
                away,
                role("shard", "east", process(v1::Standing::Frozen, Some("no answer"))),
            ],
            clusters: vec![east],
            ..v1::Status::default()
        };
        let control = Control {
            kills_off: true,
            ..Control::default()
        };
        let told = RoleAlarm {
            summary: "a job is set aside".to_owned(),
            command: "echelon job list".to_owned(),
        };
        let expected = [
            "echelon doctor",
            "echelon resource-manager",
            "echelon storage resume",
            "echelon cluster accept-loss east",
            "echelon cluster get east",
            "echelon job list",
            "echelon control kills on",
        ];
        assert_eq!(commands(&status, Some(&control), vec![told]), expected);
        let first = open(&status, None, Vec::new()).into_iter().next().unwrap();
        let both = first.summary.contains("resource-manager at") && first.summary.contains("shard east at");
        assert!(both, "{}", first.summary);
        assert_eq!(first.since.map(|at| at.seconds), Some(7));
    }
}
