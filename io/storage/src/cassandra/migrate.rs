//! Sets a keyspace up, one process at a time, and records its level.

use super::client::{Client, Kind};
use super::schema::{BEFORE, TABLES};
use crate::{LEVEL, Status, StoreError};
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlValue, Row};
use std::time::Duration;

/// A change of the schema takes up to a second a node, longer under load.
const CHANGE: Duration = Duration::from_secs(60);
/// A process that sets up holds this row; one that dies with it is waited for this long at most.
const LOCK_SECONDS: u32 = 300;

/// Partition of `migrations` whose largest number is the level; the lock is row 0 of the other.
const LEVELS: i64 = 0;
const LOCK: i64 = 1;

/// Which level is there; 0 where there is none.
pub(super) async fn status(client: &Client) -> Result<Status, StoreError> {
    let what = || format!("reading the level of {}", client.place);
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
    let level = if rows.rows_num() == 0 {
        0
    } else {
        recorded(client).await?
    };
    Ok(Status::new(client.place.to_string(), level))
}

async fn recorded(client: &Client) -> Result<u32, StoreError> {
    let text = "SELECT number FROM {ks}.migrations WHERE part = ?";
    let values = vec![Some(CqlValue::BigInt(LEVELS))];
    let result = client.execute(Kind::SerialRead, text, values).await?;
    let malformed = |e: Box<dyn std::error::Error + Send + Sync>| StoreError::undone("reading the level", e);
    let rows = result.into_rows_result().map_err(|e| malformed(e.into()))?;
    let mut last = 0;
    for row in rows.rows::<(i64,)>().map_err(|e| malformed(e.into()))? {
        let (number,) = row.map_err(|e| malformed(e.into()))?;
        last = last.max(u32::try_from(number).unwrap_or(u32::MAX));
    }
    Ok(last)
}

/// Sets the keyspace up where that was not done.
pub(super) async fn migrate(client: &Client) -> Result<Status, StoreError> {
    let before = status(client).await?;
    if before.level != 0 {
        return before.check().map(|()| before);
    }
    for statement in BEFORE {
        change(client, statement).await?;
    }
    lock(client).await?;
    let done = set_up(client).await;
    let unlocked = row(
        client,
        &format!("DELETE FROM {{ks}}.migrations WHERE part = {LOCK} AND number = 0 IF EXISTS"),
    )
    .await;
    done?;
    unlocked?;
    let after = status(client).await?;
    after.check().map(|()| after)
}

async fn set_up(client: &Client) -> Result<(), StoreError> {
    // Another process may have been faster.
    if recorded(client).await? != 0 {
        return Ok(());
    }
    for statement in TABLES {
        change(client, statement).await?;
    }
    row(
        client,
        &format!("INSERT INTO {{ks}}.migrations (part, number) VALUES ({LEVELS}, {LEVEL}) IF NOT EXISTS"),
    )
    .await?;
    tracing::info!(level = LEVEL, place = %client.place, "storage set up");
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
        format!("setting up {}", client.place),
        "another process is setting it up; look at `echelon storage status` and try again in five minutes",
    ))
}

/// A transaction on `migrations`; whether it was applied.
async fn row(client: &Client, text: &str) -> Result<bool, StoreError> {
    let result = client.execute(Kind::Transaction, text, Vec::new()).await?;
    let malformed =
        |e: Box<dyn std::error::Error + Send + Sync>| StoreError::unknown("the record of the level", e);
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
