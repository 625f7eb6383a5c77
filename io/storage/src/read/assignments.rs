//! Assignments, each of one row or more. An assignment is read when all of its rows are, or not at all:
//! ranges that are left out would be taken for ranges that nothing holds.

use super::value;
use crate::StoreError;
use crate::layout::{Table, keys};
use crate::rows::{Cell, Row, RowKey, Scan};
use echelon_core_model::assignment::AssignmentPiece;
use echelon_core_model::bucket::assignment_partition;
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

/// All rows of the assignment of an ended job.
pub(super) fn scan_ended(job: JobId) -> Scan {
    Scan::partition(Table::EndedAssignments, keys::ended_assignment(job))
}

/// Where rows of assignments lie together.
pub(super) enum Place {
    /// In a partition.
    Partition(u16),
    /// Those of an ended job.
    Ended(JobId),
}

impl Place {
    /// Where the assignment of a job is that goes on.
    pub(super) fn of(job: JobId) -> Self {
        Self::Partition(assignment_partition(job))
    }

    fn at(&self, row: &Row) -> RowKey {
        let key = row.key.iter().cloned();
        match self {
            Self::Partition(n) => {
                RowKey::new(Table::Assignments, std::iter::once(keys::bucket(*n)).chain(key))
            }
            Self::Ended(job) => RowKey::new(
                Table::EndedAssignments,
                keys::ended_assignment(*job).into_iter().chain(key),
            ),
        }
    }

    /// The cells of a row's key that name its job within the place; the place in the list of its rows follows.
    const fn of_job(&self) -> usize {
        match self {
            Self::Partition(_) => 1,
            Self::Ended(_) => 0,
        }
    }
}

/// The assignments of rows that lie together, in the order of their keys.
pub(super) fn joined(
    place: &Place,
    rows: &[Row],
    unread: &mut Vec<UnreadRow>,
) -> Result<Vec<Assignment>, StoreError> {
    let mut out = Vec::new();
    let job = |row: &Row| row.key.iter().take(place.of_job()).cloned().collect::<Vec<_>>();
    for of_job in rows.chunk_by(|a, b| job(a) == job(b)) {
        match join(place, of_job)? {
            Ok(assignment) => out.push(assignment),
            Err(row) => unread.push(*row),
        }
    }
    Ok(out)
}

/// One assignment, or the first of its rows that cannot be understood.
fn join(of: &Place, rows: &[Row]) -> Result<Result<Assignment, Box<UnreadRow>>, StoreError> {
    let at = |row: &Row| of.at(row);
    let incomplete = |row: &Row, why: String| {
        let at = at(row);
        Box::new(UnreadRow {
            table: at.table.name(),
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
        if row.key.get(of.of_job()) != Some(&Cell::Number(place.into())) {
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
