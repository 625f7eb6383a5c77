//! The pool tree in rows that are written one by one.

use super::client::{Client, Kind};
use super::decide::set;
use super::statement::{bound_all, delete_row, write_row};
use crate::StoreError;
use crate::layout::pools::{DELETED, PartName, PartRows, PoolIndex, WRITTEN};
use crate::layout::{Change, Table};
use crate::read::index;
use crate::rows::Cell;
use async_trait::async_trait;
use echelon_core_model::store::Consistency;
use scylla::value::CqlValue;

#[async_trait]
impl PartRows for Client {
    async fn index(&self) -> Result<PoolIndex, StoreError> {
        index(self, Consistency::Serial).await
    }

    async fn write(&self, name: PartName, bytes: &[u8]) -> Result<(), StoreError> {
        let mut values = bound_all(&name.key().cells);
        values.push(Some(CqlValue::Blob(bytes.to_vec())));
        values.push(Some(CqlValue::BigInt(WRITTEN)));
        let text = write_row(Table::PoolParts);
        self.execute(Kind::Stamped, &text, values).await.map(drop)
    }

    async fn written_by(&self, version: i64) -> Result<Vec<PartName>, StoreError> {
        let keys = self.keys(Table::PoolParts, &[Cell::Number(version)]).await?;
        let names = keys.iter().map(|key| PartName::of(version, key));
        Ok(names.flatten().collect())
    }

    async fn delete(&self, name: PartName) -> Result<(), StoreError> {
        let mut values = vec![Some(CqlValue::BigInt(DELETED))];
        values.extend(bound_all(&name.key().cells));
        let text = delete_row(Table::PoolParts);
        self.execute(Kind::Stamped, &text, values).await.map(drop)
    }

    async fn set(&self, change: &Change) -> Result<bool, StoreError> {
        set(self, change).await
    }
}
