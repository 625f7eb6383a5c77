//! Carries migrations out, one process at a time, and records them.

use super::client::{Client, Kind};
use super::schema::{BEFORE, MIGRATIONS};
use crate::{Status, StoreError};
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlValue, Row};
use std::time::Duration;

/// The last migration that this build knows.
pub(super) const LATEST: u32 = 4;
const _: () = assert!(MIGRATIONS.len() == LATEST as usize);

/// A change of the schema takes up to a second a node, longer under load.
const CHANGE: Duration = Duration::from_secs(60);
/// Who migrates holds this row; a process that dies with it is waited for this long at most.
const LOCK_SECONDS: u32 = 300;

/// Partition of `migrations` with those that were carried out; the lock is row 0 of the other.
const DONE: i64 = 0;
const LOCK: i64 = 1;

/// Which schema is there; 0 where there is none.
pub(super) async fn status(client: &Client) -> Result<Status, StoreError> {
    let what = || format!("reading the schema of {}", client.place);
    let of =
        "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'migrations'";
    let tables = client
        .session
        .query_unpaged(Statement::new(of), (client.place.keyspace.as_str(),))
        .await
        .map_err(|e| StoreError::undone(what(), e))?;
    let rows = tables
        .into_rows_result()
        .map_err(|e| StoreError::undone(what(), e))?;
    let version = if rows.rows_num() == 0 {
        0
    } else {
        done(client).await?
    };
    Ok(Status {
        place: client.place.to_string(),
        version,
        latest: LATEST,
    })
}

async fn done(client: &Client) -> Result<u32, StoreError> {
    let text = "SELECT number FROM {ks}.migrations WHERE part = ?";
    let values = vec![Some(CqlValue::BigInt(DONE))];
    let result = client.execute(Kind::SerialRead, text, values).await?;
    let malformed = |e: Box<dyn std::error::Error + Send + Sync>| StoreError::undone("reading migrations", e);
    let rows = result.into_rows_result().map_err(|e| malformed(e.into()))?;
    let mut last = 0;
    for row in rows.rows::<(i64,)>().map_err(|e| malformed(e.into()))? {
        let (number,) = row.map_err(|e| malformed(e.into()))?;
        last = last.max(u32::try_from(number).unwrap_or(u32::MAX));
    }
    Ok(last)
}

/// Carries out what is missing.
pub(super) async fn migrate(client: &Client) -> Result<Status, StoreError> {
    let before = status(client).await?;
    if before.is_current() {
        return Ok(before);
    }
    if before.version > LATEST {
        return Err(StoreError::Schema {
            place: before.place,
            found: before.version,
            needed: LATEST,
            advice: "a newer build migrated it; use that build",
        });
    }
    for statement in BEFORE {
        change(client, statement).await?;
    }
    lock(client).await?;
    let migrated = carry_out(client).await;
    let unlocked = row(
        client,
        &format!("DELETE FROM {{ks}}.migrations WHERE part = {LOCK} AND number = 0 IF EXISTS"),
    )
    .await;
    migrated?;
    unlocked?;
    status(client).await
}

async fn carry_out(client: &Client) -> Result<(), StoreError> {
    // Another process may have been faster.
    let first = usize::try_from(done(client).await?).unwrap_or(usize::MAX);
    for (i, statements) in MIGRATIONS.iter().enumerate().skip(first) {
        for statement in *statements {
            change(client, statement).await?;
        }
        let number = i + 1;
        tracing::info!(number, place = %client.place, "storage migration carried out");
        row(
            client,
            &format!("INSERT INTO {{ks}}.migrations (part, number) VALUES ({DONE}, {number}) IF NOT EXISTS"),
        )
        .await?;
    }
    Ok(())
}

async fn lock(client: &Client) -> Result<(), StoreError> {
    let text = format!(
        "INSERT INTO {{ks}}.migrations (part, number) VALUES ({LOCK}, 0) IF NOT EXISTS USING TTL {LOCK_SECONDS}"
    );
    if row(client, &text).await? {
        return Ok(());
    }
    Err(StoreError::undone(
        format!("migrating {}", client.place),
        "another process is migrating it; look at `echelon storage status` and try again in five minutes",
    ))
}

/// A transaction on `migrations`; whether it was applied.
async fn row(client: &Client, text: &str) -> Result<bool, StoreError> {
    let result = client.execute(Kind::Transaction, text, Vec::new()).await?;
    let malformed =
        |e: Box<dyn std::error::Error + Send + Sync>| StoreError::unknown("a migration's record", e);
    let rows = result.into_rows_result().map_err(|e| malformed(e.into()))?;
    let row: Row = rows.first_row().map_err(|e| malformed(e.into()))?;
    Ok(matches!(row.columns.first(), Some(Some(CqlValue::Boolean(true)))))
}

async fn change(client: &Client, statement: &str) -> Result<(), StoreError> {
    let cql = statement
        .replace("{ks}", &client.place.keyspace)
        .replace("{replication}", &client.place.replication.to_string());
    let what = format!("`{cql}`");
    let mut statement = Statement::new(cql);
    statement.set_request_timeout(Some(CHANGE));
    let done = client.session.query_unpaged(statement, ()).await;
    done.map(drop).map_err(|e| StoreError::unknown(what, e))
}
