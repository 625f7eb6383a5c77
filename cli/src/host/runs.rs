//! What runs on a host, over all jobs, and what is unreachable in a cluster.

use super::{name_of, parts_of};
use crate::context::Context;
use crate::exit::Failure;
use crate::output::{self, Listing};
use crate::shape;
use echelon_clients_rust::{self as client, Client, v1};

/// Rows that a host or a cluster shows of them.
const SHOWN: usize = 20;

/// Columns of people, and how many of them are narrow.
const COLUMNS: &[&str] = &[
    "JOB", "INSTANCE", "STATE", "HOST", "SINCE", "WHY", "PORTS", "HEALTH", "TASK",
];
const NARROW: usize = 6;

async fn read(client: &Client, parent: String, limit: usize) -> Result<client::Found<v1::HostRun>, Failure> {
    let request = v1::ListHostRunsRequest {
        parent,
        ..v1::ListHostRunsRequest::default()
    };
    Ok(client::host_runs(client, request, limit).await?)
}

fn row(r: &v1::HostRun) -> Vec<String> {
    let Some(run) = r.run.clone() else {
        let unknown = vec!["unknown".to_owned(); COLUMNS.len()];
        return unknown;
    };
    let job = if r.job.is_empty() { &r.job_id } else { &r.job };
    vec![
        job.clone(),
        format!("{}/{}", r.group, r.number),
        shape::run_state(run.state()),
        run.hostname.clone(),
        shape::ago(run.since.as_ref()),
        shape::reason(run.reason.as_ref()),
        shape::ports(&run.ports),
        shape::health(run.healthy, run.ready),
        run.task_id,
    ]
}

fn listing(runs: &[v1::HostRun]) -> Listing {
    Listing {
        columns: COLUMNS,
        narrow: NARROW,
        rows: runs.iter().map(row).collect(),
        names: runs.iter().map(|r| r.name.clone()).collect(),
        values: runs.iter().map(|r| output::message("HostRun", r)).collect(),
    }
}

/// Lists what runs on a host.
pub(crate) async fn list(context: &Context, host: &str, limit: usize) -> Result<(), Failure> {
    let client = context.client().await?;
    let found = read(&client, name_of(host)?, limit).await?;
    output::print(output::list(&listing(&found.rows), context.format()));
    let left_out = output::left_out("instances", found.rows.len(), found.more, None);
    left_out.iter().for_each(output::remark);
    Ok(())
}

/// The first of what runs on a host, as it is shown below the host. The host is shown although a shard does
/// not answer.
pub(crate) async fn on_host(client: &Client, host: &str) -> Result<String, Failure> {
    let (cluster, id) = parts_of(host)?;
    let more = format!("echelon job instances --host {cluster}/{id}");
    let found = read(client, name_of(host)?, SHOWN).await;
    Ok(below("runs:", found, &more))
}

/// Hosts of a cluster that are looked at for those that are unreachable.
const LOOKED_AT: usize = 1000;

/// Which hosts of a cluster Mesos does not reach, since when, and the first of what is unreachable there.
pub(crate) async fn unreachable(client: &Client, cluster: &str) -> String {
    let request = v1::ListHostsRequest {
        parent: format!("clusters/{cluster}"),
        ..v1::ListHostsRequest::default()
    };
    let hosts = client::hosts(client, request, LOOKED_AT)
        .await
        .map_err(Failure::from);
    let runs = read(client, format!("clusters/{cluster}"), SHOWN).await;
    silent_hosts(hosts)
        + &below(
            "unreachable instances:",
            runs,
            "echelon job instances --host CLUSTER/HOST",
        )
}

fn silent_hosts(hosts: Result<client::Found<v1::Host>, Failure>) -> String {
    let hosts = match hosts {
        Ok(hosts) => hosts,
        Err(why) => {
            return format!(
                "unreachable hosts: not known: {}\n",
                output::escape(&why.to_string())
            );
        }
    };
    let (looked_at, silent) = (hosts.rows.len(), hosts.rows.into_iter().filter(|h| !h.reachable));
    let silent: Vec<String> = silent
        .map(|h| {
            let tasks = format!("{} tasks", h.tasks);
            format!(
                "{} for {} ({tasks})",
                output::escape(&h.hostname),
                shape::ago(h.seen_time.as_ref())
            )
        })
        .collect();
    let shown: Vec<&str> = silent.iter().take(SHOWN).map(String::as_str).collect();
    let mut text = match shown.as_slice() {
        [] => "unreachable hosts: none".to_owned(),
        shown => format!("unreachable hosts: {}", shown.join(", ")),
    };
    if silent.len() > shown.len() {
        text.push_str(&format!(", and {} more", silent.len() - shown.len()));
    }
    if hosts.more {
        text.push_str(&format!(
            "; only the first {looked_at} hosts were looked at, `echelon host list` shows all"
        ));
    }
    text + "\n"
}

fn below(title: &str, found: Result<client::Found<v1::HostRun>, Failure>, more: &str) -> String {
    let found = match found {
        Ok(found) => found,
        Err(why) => return format!("\n{title} not known: {}\n", output::escape(&why.to_string())),
    };
    if found.rows.is_empty() {
        return format!("\n{title} nothing\n");
    }
    let table = output::list(&listing(&found.rows), output::Format::Table);
    let rest = if found.more {
        format!(
            "only {} are shown, and there are more: `{}`\n",
            found.rows.len(),
            output::escape(more)
        )
    } else {
        String::new()
    };
    format!("\n{title}\n{table}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(count: u32, more: bool) -> client::Found<v1::HostRun> {
        let run = |number| v1::HostRun {
            job: "web".into(),
            group: "main".into(),
            number,
            run: Some(v1::Run {
                state: v1::RunState::Unreachable.into(),
                hostname: "host-1".into(),
                ..v1::Run::default()
            }),
            ..v1::HostRun::default()
        };
        client::Found {
            rows: (0..count).map(run).collect(),
            more,
            total: None,
        }
    }

    #[test]
    fn hosts_that_are_unreachable_are_named_and_a_cut_is_said() {
        let host = |number: usize| v1::Host {
            hostname: format!("host-{number}"),
            reachable: number.is_multiple_of(2),
            tasks: 3,
            ..v1::Host::default()
        };
        let found = |count, more| {
            Ok(client::Found {
                rows: (0..count).map(host).collect(),
                more,
                total: None,
            })
        };
        assert_eq!(silent_hosts(found(1, false)), "unreachable hosts: none\n");
        let two = silent_hosts(found(4, false));
        assert!(
            two.contains("host-1 for") && two.contains("host-3 for") && !two.contains("host-2"),
            "{two}"
        );
        let many = silent_hosts(found(100, true));
        assert!(
            many.contains(", and 30 more; only the first 100 hosts were looked at"),
            "{many}"
        );
    }

    #[test]
    fn what_is_shown_below_a_host_says_when_it_is_cut_or_not_known() {
        let all = below("runs:", Ok(found(2, false)), "echelon host list");
        assert!(
            all.contains("main/1") && all.contains("unreachable") && !all.contains("more"),
            "{all}"
        );
        let cut = below("runs:", Ok(found(2, true)), "echelon host list");
        assert!(
            cut.contains("only 2 are shown, and there are more: `echelon host list`"),
            "{cut}"
        );
        assert!(below("runs:", Ok(found(0, false)), "").contains("runs: nothing"));
        let unknown = below("runs:", Err(Failure::wrong("no shard answers")), "");
        assert!(unknown.contains("not known: no shard answers"), "{unknown}");
    }
}
