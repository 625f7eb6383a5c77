//! Decisions as lightweight transactions. A refused one is judged by what is read at SERIAL afterwards: it may be its own
//! effect, of an attempt whose answer was lost.

use super::client::{Client, Kind, Values};
use super::failure::{Attempt, executing};
use super::statement::{self, bound, bound_all};
use crate::StoreError;
use crate::layout::{AssignmentRows, Change, Pieces, Plan, Verdict, judge, pools};
use crate::read::present;
use crate::rows::RowKey;
use echelon_core_model::store::{Consistency, Decided, Decision, RefusedRow, RefusedWhy};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchType};
use scylla::value::{CqlValue, Row as CqlRow};

/// How often what was expected may be gone when it is compared and there again when it is read.
const TRIES: usize = 4;

/// Carries out a decision.
pub(super) async fn decide(client: &Client, decision: &Decision, plan: &Plan) -> Result<Decided, StoreError> {
    for _ in 0..TRIES {
        if attempt(client, plan).await? {
            return Ok(Decided::Applied);
        }
        let there = present(client, decision, Consistency::Serial, &client.trees).await?;
        match judge(decision, &there) {
            Verdict::Holds => return Ok(Decided::Applied),
            Verdict::Taken => return Ok(Decided::Conflict(Box::new(there))),
            Verdict::Open => {}
        }
    }
    Err(StoreError::undone(
        "a decision",
        "others kept changing what it compares with; decide again",
    ))
}

/// Whether it was applied.
async fn attempt(client: &Client, plan: &Plan) -> Result<bool, StoreError> {
    match plan {
        Plan::Row(change) => set(client, change).await,
        Plan::Pieces(pieces) => put_pieces(client, pieces).await,
        Plan::Pools(tree) => Ok(pools::put(client, tree).await? == Verdict::Holds),
        Plan::Raise {
            partition,
            epoch,
            expected,
        } => {
            let mut values = vec![Some(CqlValue::BigInt(*epoch))];
            values.extend(bound_all(&partition.cells));
            values.push(expected.map(CqlValue::BigInt));
            transaction(client, &statement::raise_epoch(), values).await
        }
        Plan::Assign {
            partition,
            epoch,
            number,
            put,
            remove,
        } => assign(client, (partition, *epoch, *number), put, remove).await,
    }
}

pub(super) async fn set(client: &Client, change: &Change) -> Result<bool, StoreError> {
    let table = change.at.table;
    let key = bound_all(&change.at.cells);
    let guard = statement::guard(table);
    let tag = change.tag.map(|tag| Some(CqlValue::BigInt(tag)));
    let (text, values): (String, Values) = match (&change.to, change.expected, guard) {
        (Some((next, value)), None, guard) => {
            let mut values = key;
            values.push(Some(CqlValue::Blob(value.clone())));
            values.extend(guard.map(|_| Some(CqlValue::BigInt(*next))));
            values.extend(tag);
            (statement::insert(table, change.keep_ms), values)
        }
        (Some((next, value)), Some(expected), Some(guard)) => {
            let mut values = vec![Some(CqlValue::Blob(value.clone())), Some(CqlValue::BigInt(*next))];
            values.extend(tag);
            values.extend(key);
            values.push(Some(CqlValue::BigInt(expected)));
            (statement::update(table, guard), values)
        }
        (None, Some(expected), Some(guard)) => {
            let mut values = key;
            values.push(Some(CqlValue::BigInt(expected)));
            (statement::delete(table, guard), values)
        }
        (None, None, _) | (_, Some(_), None) => {
            let why = format!("table {} has no guard to compare", table.name());
            return Err(StoreError::refused(RefusedRow {
                row: "a decision".to_owned(),
                place: None,
                why: RefusedWhy::OutOfRange(why),
            }));
        }
    };
    transaction(client, &text, values).await
}

/// The first row is compared, and the others are written with it: all are of one partition. Rows behind those of a value that has
/// become smaller stay, and nothing reads them.
async fn put_pieces(client: &Client, pieces: &Pieces) -> Result<bool, StoreError> {
    let table = pieces.all.table;
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(false);
    let mut values: Vec<Values> = Vec::with_capacity(pieces.rows.len());
    for (place, (at, value)) in pieces.rows.iter().enumerate() {
        let (key, value) = (bound_all(&at.cells), Some(CqlValue::Blob(value.clone())));
        let version = Some(CqlValue::BigInt(pieces.version));
        let (text, bound) = match (place, pieces.expected, statement::guard(table)) {
            (0, Some(expected), Some(guard)) => {
                let expected = Some(CqlValue::BigInt(expected));
                let bound = [value, version].into_iter().chain(key).chain([expected]);
                (statement::update(table, guard), bound.collect())
            }
            (0, _, _) => {
                let bound = key.into_iter().chain([value, version]);
                (statement::insert(table, None), bound.collect())
            }
            (_, _, _) => {
                let bound = key.into_iter().chain([value, version]);
                (statement::put_piece(table), bound.collect())
            }
        };
        batch.append_statement(client.prepared(Kind::Transaction, &text).await?);
        values.push(bound);
    }
    let sent = client.session.batch(&batch, values).await;
    let result = sent.map_err(|e| executing(Attempt::Write, "rows of a cluster", e))?;
    applied("rows of a cluster", result)
}

async fn assign(
    client: &Client,
    (partition, epoch, number): (&RowKey, i64, i64),
    put: &[AssignmentRows],
    remove: &[RowKey],
) -> Result<bool, StoreError> {
    let mut batch = Batch::new(BatchType::Unlogged);
    batch.set_is_idempotent(false);
    let mut values: Vec<Values> = Vec::with_capacity(1 + put.len() + remove.len());
    let mut add = async |text: String, bound: Values| -> Result<(), StoreError> {
        batch.append_statement(client.prepared(Kind::Transaction, &text).await?);
        values.push(bound);
        Ok(())
    };
    let big = |n| Some(CqlValue::BigInt(n));
    let own = partition.cells.first().and_then(bound);
    let counted = vec![big(number), own, big(epoch), big(number - 1)];
    add(statement::count_write(), counted).await?;
    // Rows behind those of an assignment that has become smaller stay until it is removed: nothing reads
    // them. To delete them here would leave a deletion for each job, which every read of the partition
    // would pass.
    for (at, value) in put.iter().flat_map(|rows| &rows.pieces) {
        let mut bound = bound_all(&at.cells);
        bound.push(Some(CqlValue::Blob(value.clone())));
        add(statement::put_assignment(), bound).await?;
    }
    for at in remove {
        add(statement::remove_assignment(), bound_all(&at.cells)).await?;
    }
    let sent = client.session.batch(&batch, values).await;
    let result = sent.map_err(|e| executing(Attempt::Write, "batch of assignments", e))?;
    applied("batch of assignments", result)
}

async fn transaction(client: &Client, text: &str, values: Values) -> Result<bool, StoreError> {
    let result = client.execute(Kind::Transaction, text, values).await?;
    applied(text, result)
}

/// Its column `[applied]`. The other columns of an answer differ with statement and outcome, so they are not used.
fn applied(text: &str, result: QueryResult) -> Result<bool, StoreError> {
    let malformed = |source: Box<dyn std::error::Error + Send + Sync>| {
        StoreError::unknown(format!("reading the outcome of `{text}`"), source)
    };
    let rows = result.into_rows_result().map_err(|e| malformed(e.into()))?;
    let specs = rows.column_specs();
    let place = specs.iter().position(|c| c.name() == "[applied]");
    let row: CqlRow = rows.first_row().map_err(|e| malformed(e.into()))?;
    match place.and_then(|i| row.columns.get(i)) {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        _ => Err(malformed("the answer has no [applied]".into())),
    }
}
