//! The tables, as statements that may each be carried out again. `{ks}` stands for the keyspace. A change of one raises
//! [`LEVEL`](crate::LEVEL).

/// What comes before the tables: the keyspace, and the table that records its level and who sets it up.
pub(super) const BEFORE: [&str; 2] = [
    "CREATE KEYSPACE IF NOT EXISTS {ks} WITH replication = \
     {'class': 'NetworkTopologyStrategy', 'replication_factor': {replication}}",
    "CREATE TABLE IF NOT EXISTS {ks}.migrations (part bigint, number bigint, PRIMARY KEY (part, number))",
];

/// All tables. Owned ones keep deletions for a day.
pub(super) const TABLES: [&str; 24] = [
    "CREATE TABLE IF NOT EXISTS {ks}.heads (bucket bigint, job blob, version bigint, tag bigint static, value blob, \
     PRIMARY KEY (bucket, job))",
    "CREATE TABLE IF NOT EXISTS {ks}.specs (job blob, version bigint, value blob, PRIMARY KEY (job, version))",
    "CREATE TABLE IF NOT EXISTS {ks}.names (name text PRIMARY KEY, version bigint, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.requests (id text PRIMARY KEY, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.pool_parts (version bigint, part bigint, digest blob, value blob, \
     PRIMARY KEY (version, part, digest)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.pool_index (one bigint PRIMARY KEY, version bigint, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.clusters (one bigint, id text, piece bigint, version bigint, value blob, \
     PRIMARY KEY (one, id, piece))",
    "CREATE TABLE IF NOT EXISTS {ks}.assignments (part bigint, job blob, piece bigint, epoch bigint static, \
     written bigint static, value blob, PRIMARY KEY (part, job, piece))",
    "CREATE TABLE IF NOT EXISTS {ks}.ended_assignments (job blob, piece bigint, value blob, \
     PRIMARY KEY (job, piece)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.leaderships (role text PRIMARY KEY, epoch bigint, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.progress (bucket bigint, job blob, value blob, \
     PRIMARY KEY (bucket, job)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.cluster_states (one bigint, cluster text, value blob, \
     PRIMARY KEY (one, cluster)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.shards (cluster text, kind text, id text, value blob, \
     PRIMARY KEY (cluster, kind, id)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.instances (cluster text, bucket bigint, job blob, \"group\" text, \
     block bigint, value blob, PRIMARY KEY ((cluster, bucket), job, \"group\", block)) \
     WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.archive (job blob, cluster text, \"group\" text, block bigint, \
     value blob, PRIMARY KEY ((job, cluster), \"group\", block)) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.heartbeats (cluster text PRIMARY KEY, value blob) \
     WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.marks (role text PRIMARY KEY, value blob) WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.hosts (cluster text, id text, value blob, PRIMARY KEY (cluster, id)) \
     WITH gc_grace_seconds = 86400",
    "CREATE TABLE IF NOT EXISTS {ks}.events (job blob, owner text, day bigint, lane bigint, stamp bigint, \
     place bigint, value blob, PRIMARY KEY ((job, owner, day), lane, stamp, place)) \
     WITH gc_grace_seconds = 86400 AND default_time_to_live = 2592000",
    "CREATE TABLE IF NOT EXISTS {ks}.event_ends (owner text, lane bigint, epoch bigint, value blob, \
     PRIMARY KEY ((owner, lane), epoch)) WITH gc_grace_seconds = 86400 AND default_time_to_live = 2764800",
    "CREATE TABLE IF NOT EXISTS {ks}.control (one bigint PRIMARY KEY, version bigint, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.start_bans (one bigint PRIMARY KEY, version bigint, value blob)",
    "CREATE TABLE IF NOT EXISTS {ks}.logs (job blob, cluster text, task text, value blob, \
     PRIMARY KEY ((job, cluster), task)) WITH gc_grace_seconds = 86400 AND default_time_to_live = 604800",
    "CREATE TABLE IF NOT EXISTS {ks}.kept_runs (job blob, cluster text, value blob, \
     PRIMARY KEY (job, cluster)) WITH gc_grace_seconds = 86400 AND default_time_to_live = 604800",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{CellKind, DELETION_KEEP_MS, Ownership, Table};

    /// A table's statement as its columns would have it, without spaces.
    fn expected(table: Table) -> String {
        let columns = table.columns();
        let ty = |kind| match kind {
            CellKind::Number => "bigint",
            CellKind::Text => "text",
            CellKind::Bytes => "blob",
        };
        let all = columns.partition.iter().chain(columns.key);
        let mut fields: Vec<String> = all.map(|c| format!("{} {}", c.name, ty(c.kind))).collect();
        let fixed = if table == Table::Assignments {
            " static"
        } else {
            ""
        };
        let ownership = columns.ownership;
        if let Ownership::Decided { guard: Some(guard) } = ownership {
            fields.push(format!("{guard} bigint{fixed}"));
        }
        if table == Table::Assignments {
            // The number of the last write to a partition within its epoch.
            fields.push("written bigint static".to_owned());
        }
        if table == Table::Heads {
            // Another number after each write to the bucket.
            fields.push("tag bigint static".to_owned());
        }
        fields.push("value blob".to_owned());
        let names =
            |columns: &[crate::layout::Column]| columns.iter().map(|c| c.name).collect::<Vec<_>>().join(",");
        let (partition, key) = (names(columns.partition), names(columns.key));
        if columns.partition.len() == 1 && key.is_empty() {
            let only = fields.remove(0);
            fields.insert(0, format!("{only} PRIMARY KEY"));
        } else if columns.partition.len() == 1 {
            fields.push(format!("PRIMARY KEY ({partition},{key})"));
        } else {
            fields.push(format!("PRIMARY KEY (({partition}),{key})"));
        }
        let mut text = format!(
            "CREATE TABLE IF NOT EXISTS {{ks}}.{} ({})",
            table.name(),
            fields.join(",")
        );
        if let Ownership::Owned { keep_ms } = ownership {
            text += &format!("WITH gc_grace_seconds = {}", DELETION_KEEP_MS / 1000);
            if let Some(ms) = keep_ms {
                text += &format!("AND default_time_to_live = {}", ms / 1000);
            }
        }
        text.replace([' ', '"'], "")
    }

    #[test]
    fn the_schema_has_the_tables_that_the_layout_says() {
        let created: Vec<String> = TABLES.iter().map(|s| s.replace([' ', '"'], "")).collect();
        let layout: Vec<String> = Table::ALL.into_iter().map(expected).collect();
        assert_eq!(created, layout);
    }
}
