//! Assignments, each of one row or more. An assignment is read when all of its rows are, or not at all:
//! ranges that are left out would be taken for ranges that nothing holds.

use super::value;
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, Row, RowKey, Scan};
use echelon_core_model::assignment::AssignmentPiece;
use echelon_core_model::store::UnreadRow;
use echelon_core_model::{Assignment, JobId};

/// All rows of a job's assignment.
pub(super) fn scan(job: JobId) -> Scan {
    let all = keys::assignment(job);
    let key = all.cells.last().cloned();
    let to = |place| key.iter().cloned().chain([Cell::Number(place)]).collect();
    Scan {
        after: Some(to(-1)),
        up_to: Some(to(i64::MAX)),
        ..Scan::partition(Table::Assignments, all.partition().iter().cloned())
    }
}

/// The assignments of rows that lie together, in the order of their keys.
pub(super) fn joined(
    partition: u16,
    rows: &[Row],
    unread: &mut Vec<UnreadRow>,
) -> Result<Vec<Assignment>, StoreError> {
    let mut out = Vec::new();
    for of_job in rows.chunk_by(|a, b| a.key.first() == b.key.first()) {
        match join(partition, of_job)? {
            Ok(assignment) => out.push(assignment),
            Err(row) => unread.push(*row),
        }
    }
    Ok(out)
}

/// One assignment, or the first of its rows that cannot be understood.
fn join(partition: u16, rows: &[Row]) -> Result<Result<Assignment, Box<UnreadRow>>, StoreError> {
    let at = |row: &Row| {
        let cells = std::iter::once(keys::bucket(partition)).chain(row.key.iter().cloned());
        RowKey::new(Table::Assignments, cells)
    };
    let incomplete = |row: &Row, why: String| {
        let at = at(row);
        Box::new(UnreadRow {
            table: Table::Assignments.name(),
            key: at.to_string(),
            subject: keys::subject(&at),
            bytes: row.value.clone(),
            why,
        })
    };
    let mut whole: Option<AssignmentPiece> = None;
    for (row, place) in rows.iter().zip(0_u32..) {
        if whole.as_ref().is_some_and(|first| place >= first.pieces) {
            break;
        }
        if row.key.get(1) != Some(&Cell::Number(place.into())) {
            return Ok(Err(incomplete(
                row,
                format!("the row of place {place} is not there"),
            )));
        }
        let piece: AssignmentPiece = match value(&at(row), &row.value) {
            Ok(piece) => piece,
            Err(row) => return Ok(Err(row)),
        };
        match &mut whole {
            None => whole = Some(piece),
            Some(first) if first.written == piece.written => first.part.extend(&piece.part),
            Some(_) => {
                let why = "it was written while it was read; read it again";
                return Err(StoreError::undone("reading an assignment", why));
            }
        }
    }
    let found = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    match (whole, rows.last()) {
        (Some(whole), _) if found >= whole.pieces => Ok(Ok(whole.part)),
        (Some(whole), Some(last)) => {
            let why = format!("{found} rows of {} are there", whole.pieces);
            Ok(Err(incomplete(last, why)))
        }
        (_, _) => Err(StoreError::undone("reading an assignment", "it has no row")),
    }
}
