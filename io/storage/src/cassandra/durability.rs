//! What the nodes say of how durable a write is: the keyspace's replication, the consistency that this client asks for, and
//! each node's commit log.

use super::client::Client;
use crate::durability::{Durability, Finding, Standing};
use futures::TryStreamExt;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::unprepared::Statement;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

/// A node that does not answer within it is unknown.
const ASK: Duration = Duration::from_secs(4);
/// A majority of three survives the loss of one node, and goes on without it.
const COPIES: u32 = 3;

pub(super) async fn durability(client: &Client) -> Durability {
    let replication = match replication(client).await {
        Ok(found) => judge_replication(found.as_ref()),
        Err(error) => unknown("replication", &error),
    };
    let consistency = Finding::new(
        "consistency",
        Standing::Durable,
        "a write is acknowledged by a majority of its copies (QUORUM; decisions SERIAL over all data centres)",
    );
    let log = judge_commit_logs(&commit_logs(client).await);
    Durability {
        findings: vec![replication, consistency, log],
    }
}

fn unknown(property: &'static str, why: &dyn std::fmt::Display) -> Finding {
    Finding::new(property, Standing::Unknown, format!("it cannot be read: {why}"))
}

async fn replication(client: &Client) -> Result<Option<HashMap<String, String>>, Failure> {
    let mut of = Statement::new("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?");
    of.set_request_timeout(Some(ASK));
    let keyspace = client.place.keyspace.as_str();
    let rows = client.session.query_unpaged(of, (keyspace,)).await?;
    let row = rows
        .into_rows_result()?
        .maybe_first_row::<(HashMap<String, String>,)>()?;
    Ok(row.map(|(replication,)| replication))
}

fn judge_replication(found: Option<&HashMap<String, String>>) -> Finding {
    const NAME: &str = "replication";
    let Some(found) = found else {
        return Finding::new(NAME, Standing::Unknown, "the keyspace is not there yet");
    };
    // Everything but the class names a data centre, or all of them at once. `3/1` are three copies, one of them transient.
    let factors: BTreeMap<&str, Option<u32>> = found
        .iter()
        .filter(|(name, _)| *name != "class")
        .map(|(name, n)| (name.as_str(), n.split('/').next().and_then(|n| n.parse().ok())))
        .collect();
    let said = factors.iter().map(|(name, n)| match n {
        Some(n) => format!("{name} {n}"),
        None => format!("{name} ?"),
    });
    let said = said.collect::<Vec<_>>().join(", ");
    let known: Option<Vec<u32>> = factors.values().copied().collect();
    match known.and_then(|n| n.into_iter().min()) {
        None => Finding::new(NAME, Standing::Unknown, format!("copies of each row: {said}")),
        Some(n) if n >= COPIES => {
            Finding::new(NAME, Standing::Durable, format!("copies of each row: {said}"))
        }
        Some(n) => {
            let means = match n {
                0 | 1 => "what a node loses is lost, and while it is down nothing can be decided",
                _ => "while one node is down nothing can be decided",
            };
            let text = format!("copies of each row: {said}: {means}; use {COPIES}");
            Finding::new(NAME, Standing::Weak, text)
        }
    }
}

/// What one node says of its commit log: mode and period.
struct CommitLog {
    node: String,
    said: Result<HashMap<String, String>, Failure>,
}

/// Each node is asked: the table of its settings shows its own alone.
async fn commit_logs(client: &Client) -> Vec<CommitLog> {
    let state = client.session.get_cluster_state();
    let asked = state.get_nodes_info().iter().map(|node| async {
        CommitLog {
            node: node.address.to_string(),
            said: settings(client, NodeIdentifier::Node(node.clone())).await,
        }
    });
    futures::future::join_all(asked).await
}

async fn settings(client: &Client, node: NodeIdentifier) -> Result<HashMap<String, String>, Failure> {
    let profile = ExecutionProfile::builder()
        .load_balancing_policy(SingleTargetLoadBalancingPolicy::new(node, None))
        .consistency(scylla::statement::Consistency::One)
        .request_timeout(Some(ASK))
        .build();
    let mut statement = Statement::new(
        "SELECT name, value FROM system_views.settings WHERE name IN \
         ('commitlog_sync', 'commitlog_sync_period', 'commitlog_sync_period_in_ms')",
    );
    statement.set_execution_profile_handle(Some(profile.into_handle()));
    let pager = client.session.query_iter(statement, ()).await?;
    let rows: Vec<(String, Option<String>)> = pager.rows_stream()?.try_collect().await?;
    Ok(rows
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect())
}

fn judge_commit_logs(nodes: &[CommitLog]) -> Finding {
    const NAME: &str = "commit-log";
    let (mut weak, mut unknown, mut durable) = (Vec::new(), Vec::new(), 0);
    for CommitLog { node, said } in nodes {
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                unknown.push(format!("{node}: {error}"));
                continue;
            }
        };
        match said.get("commitlog_sync").map(String::as_str) {
            Some("batch" | "group") => durable += 1,
            Some("periodic") => {
                let period = said
                    .get("commitlog_sync_period")
                    .or_else(|| said.get("commitlog_sync_period_in_ms"));
                let every = period.map_or_else(String::new, |p| format!(" every {p}"));
                weak.push(format!("{node} syncs periodically{every}"));
            }
            Some(other) => unknown.push(format!("{node}: commitlog_sync {other}")),
            None => unknown.push(format!("{node} does not say")),
        }
    }
    if !weak.is_empty() {
        let text = format!(
            "{}: a node that is killed loses what it acknowledged since then, and a row whose other copies were behind is \
             gone; set commitlog_sync: batch (or group)",
            weak.join(", ")
        );
        return Finding::new(NAME, Standing::Weak, text);
    }
    if !unknown.is_empty() || durable == 0 {
        let text = format!("commitlog_sync is not known: {}", unknown.join(", "));
        return Finding::new(NAME, Standing::Unknown, text);
    }
    let text = format!("{durable} nodes write their commit log to disk before they answer");
    Finding::new(NAME, Standing::Durable, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Durable, Unknown, Weak};

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        let owned = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    }

    #[test]
    fn replication_is_judged_by_its_weakest_data_centre() {
        for (pairs, standing) in [
            (vec![("class", "x"), ("replication_factor", "3")], Durable),
            (vec![("class", "x"), ("dc1", "3"), ("dc2", "5")], Durable),
            (vec![("class", "x"), ("dc1", "3"), ("dc2", "1")], Weak),
            (vec![("class", "x"), ("dc1", "2")], Weak),
            (vec![("class", "x"), ("dc1", "3/1")], Durable),
            (vec![("class", "x"), ("dc1", "many")], Unknown),
            (vec![("class", "x")], Unknown),
        ] {
            let found = judge_replication(Some(&map(&pairs)));
            assert_eq!(found.standing, standing, "{pairs:?}: {}", found.text);
        }
        assert_eq!(judge_replication(None).standing, Unknown);
    }

    #[test]
    fn one_periodic_node_is_named_and_silence_is_unknown() {
        let node = |name: &str, said: Result<&[(&str, &str)], &str>| CommitLog {
            node: name.to_owned(),
            said: said.map(map).map_err(Into::into),
        };
        let batch: &[_] = &[("commitlog_sync", "batch")];
        let group: &[_] = &[("commitlog_sync", "group")];
        let periodic: &[_] = &[
            ("commitlog_sync", "periodic"),
            ("commitlog_sync_period", "10000ms"),
        ];
        for (nodes, standing, said) in [
            (
                vec![node("a", Ok(batch)), node("b", Ok(group))],
                Durable,
                "2 nodes",
            ),
            (
                vec![node("a", Ok(batch)), node("b", Ok(periodic))],
                Weak,
                "b syncs periodically every 10000ms",
            ),
            (
                vec![node("a", Err("no such table")), node("b", Ok(periodic))],
                Weak,
                "b syncs periodically",
            ),
            (
                vec![node("a", Ok(batch)), node("b", Err("no such table"))],
                Unknown,
                "b: no such table",
            ),
            (vec![node("a", Ok(&[]))], Unknown, "a does not say"),
            (vec![], Unknown, "not known"),
        ] {
            let found = judge_commit_logs(&nodes);
            assert_eq!(found.standing, standing, "{}", found.text);
            assert!(found.text.contains(said), "{}", found.text);
        }
    }
}
