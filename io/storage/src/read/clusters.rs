//! Clusters, each of one row or more: one that has many hosts to be empty does not fit into one.

use super::value;
use crate::StoreError;
use crate::layout::{Joined, Table, join, keys};
use crate::rows::{Cell, Row, RowKey, Rows, Scan};
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::{Consistency, UnreadRow};

/// All clusters, in order of their ids. One whose rows cannot be understood is named beside the others.
pub(super) async fn all<R: Rows>(
    rows: &R,
    c: Consistency,
    unread: &mut Vec<UnreadRow>,
) -> Result<Vec<Cluster>, StoreError> {
    let found = rows
        .scan(&Scan::partition(Table::Clusters, [keys::ONE]), c)
        .await?;
    let mut out = Vec::new();
    for of_one in found.chunk_by(|a, b| a.key.first() == b.key.first()) {
        match joined(of_one) {
            Ok(cluster) => out.push(cluster),
            Err(StoreError::Unread(row)) => unread.push(*row),
            Err(error) => return Err(error),
        }
    }
    Ok(out)
}

/// One cluster, if it is there.
pub(super) async fn one<R: Rows>(
    rows: &R,
    id: &ClusterId,
    c: Consistency,
) -> Result<Option<Cluster>, StoreError> {
    let key = |place| Some(vec![Cell::Text(id.to_string()), Cell::Number(place)]);
    let scan = Scan {
        after: key(-1),
        up_to: key(i64::MAX),
        ..Scan::partition(Table::Clusters, [keys::ONE])
    };
    let found = rows.scan(&scan, c).await?;
    (!found.is_empty()).then(|| joined(&found)).transpose()
}

fn joined(rows: &[Row]) -> Result<Cluster, StoreError> {
    let at = RowKey::new(
        Table::Clusters,
        std::iter::once(keys::ONE).chain(rows.iter().flat_map(|row| &row.key).take(1).cloned()),
    );
    let placed = rows.iter().map(|row| {
        let place = match row.key.get(1) {
            Some(Cell::Number(place)) => *place,
            _ => -1,
        };
        (place, row.value.as_slice())
    });
    match join(placed) {
        Joined::Whole(bytes) => value(&at, &bytes).map_err(StoreError::Unread),
        Joined::Torn => Err(StoreError::undone(
            "reading a cluster",
            "it was written while it was read; read it again",
        )),
        Joined::Broken(why) => Err(StoreError::Unread(Box::new(UnreadRow {
            table: Table::Clusters.name(),
            key: at.to_string(),
            subject: keys::subject(&at),
            bytes: rows.iter().flat_map(|row| row.value.clone()).collect(),
            why: why.to_owned(),
        }))),
    }
}
