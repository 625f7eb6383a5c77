//! `echelon status`: the whole federation on one page.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{output, shape};
use echelon_clients_rust::v1;

/// Shows it.
pub async fn run(context: &Context) -> Result<(), Failure> {
    let client = context.client().await?;
    let got = client.repeat(|| {
        let mut service = client.status_service();
        async move { service.get_status(v1::GetStatusRequest {}).await }
    });
    let status = got.await?.status;
    let status = status.ok_or_else(|| Failure::new(Exit::Failed, "the gateway answered without a status"))?;
    let value = output::message("Status", &status);
    output::print(output::one(&value, "status", &people(&status), context.format()));
    Ok(())
}

fn people(status: &v1::Status) -> String {
    let mut text = match status.alarms.len() {
        0 => "no open alarm\n".to_owned(),
        n => format!("open alarms: {n}\n"),
    };
    for alarm in &status.alarms {
        let since = match shape::ago(alarm.since.as_ref()) {
            ago if ago.is_empty() => String::new(),
            ago => format!(" ({ago})"),
        };
        text.push_str(&format!(
            "  {}{since}\n    see `{}`\n",
            output::escape(&alarm.summary),
            output::escape(&alarm.command)
        ));
    }
    text.push('\n');
    text.push_str(&table(
        &[
            "ROLE",
            "STANDING",
            "EPOCH",
            "ADDRESS",
            "BUILD",
            "ZOOKEEPER",
            "STORAGE",
        ],
        status.roles.iter().flat_map(role).collect(),
    ));
    for role in status.roles.iter().filter(|role| !role.unknown.is_empty()) {
        text.push_str(&format!(
            "other processes of {} are not known: {}\n",
            output::escape(&name(role)),
            output::escape(&role.unknown)
        ));
    }
    text.push('\n');
    if status.clusters_unknown.is_empty() {
        text.push_str(&table(
            &[
                "CLUSTER", "DESIRED", "HEALTH", "SINCE", "CAUSE", "HOSTS", "USED", "CAPACITY",
            ],
            status.clusters.iter().map(cluster).collect(),
        ));
    } else {
        text.push_str(&format!(
            "clusters are not known: {}\n",
            output::escape(&status.clusters_unknown)
        ));
    }
    text
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    output::lines(
        heads.iter().map(|head| (*head).to_owned()),
        rows.iter().map(|row| row.iter()),
    )
}

fn name(role: &v1::RoleStatus) -> String {
    if role.cluster.is_empty() {
        role.role.clone()
    } else {
        format!("{} {}", role.role, role.cluster)
    }
}

/// A row for each process, and one that says that no leader answers.
fn role(role: &v1::RoleStatus) -> Vec<Vec<String>> {
    let absent = role.absent_since.as_ref().map(|since| {
        vec![
            name(role),
            "no leader".to_owned(),
            String::new(),
            format!("for {}: {}", shape::ago(Some(since)), role.absent_reason),
        ]
    });
    let process = |process: &v1::ProcessStatus| {
        let epoch = match process.epoch {
            0 => String::new(),
            epoch => epoch.to_string(),
        };
        let build = if process.unknown.is_empty() {
            process.build.clone()
        } else {
            process.unknown.clone()
        };
        vec![
            name(role),
            standing(process.standing()),
            epoch,
            process.address.clone(),
            build,
            server(process.membership.as_ref()),
            server(process.storage.as_ref()),
        ]
    };
    absent
        .into_iter()
        .chain(role.processes.iter().map(process))
        .collect()
}

fn standing(standing: v1::Standing) -> String {
    match standing {
        v1::Standing::Unspecified => "unknown".to_owned(),
        known => shape::word(known.as_str_name(), "STANDING_"),
    }
}

fn server(seen: Option<&v1::ServerStatus>) -> String {
    let reach = seen.map_or(v1::Reach::Unspecified, v1::ServerStatus::reach);
    let silent = seen.and_then(|seen| seen.silent_since.as_ref());
    match reach {
        v1::Reach::Unspecified => "unknown".to_owned(),
        v1::Reach::Connected => "connected".to_owned(),
        v1::Reach::Silent => format!("silent for {}", shape::ago(silent)),
    }
}

fn cluster(c: &v1::Cluster) -> Vec<String> {
    vec![
        c.display_name.clone(),
        shape::word(c.desired_state().as_str_name(), "CLUSTER_DESIRED_STATE_"),
        shape::cluster_health(c.health()),
        shape::ago(c.health_since.as_ref()),
        crate::cluster::cause(c),
        crate::cluster::hosts(c),
        shape::resources(c.used.as_ref()),
        shape::resources(c.capacity.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_told_as_unknown_with_its_reason() {
        let status = v1::Status {
            roles: vec![v1::RoleStatus {
                role: "shard".to_owned(),
                cluster: "east".to_owned(),
                absent_since: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
                absent_reason: "no process leads".to_owned(),
                processes: vec![v1::ProcessStatus {
                    address: "http://h:1".to_owned(),
                    unknown: "it does not answer".to_owned(),
                    ..v1::ProcessStatus::default()
                }],
                unknown: "the membership servers do not answer".to_owned(),
            }],
            alarms: vec![v1::Alarm {
                summary: "no leader of shard east answers".to_owned(),
                command: "echelon shard --cluster east".to_owned(),
                since: None,
            }],
            clusters_unknown: "storage does not answer".to_owned(),
            ..v1::Status::default()
        };
        let text = people(&status);
        for part in [
            "open alarms: 1",
            "see `echelon shard --cluster east`",
            "no leader",
            "no process leads",
            "unknown",
            "it does not answer",
            "other processes of shard east are not known: the membership servers do not answer",
            "clusters are not known: storage does not answer",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(people(&v1::Status::default()).starts_with("no open alarm\n"));
    }
}
