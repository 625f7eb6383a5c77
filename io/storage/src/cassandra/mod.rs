//! `cassandra://`: rows in tables of a keyspace. Decided rows are written by lightweight transactions alone, owned ones
//! without conditions, each with its stamp as explicit timestamp. Nothing else in the system writes this keyspace: a
//! write with a timestamp of the driver's or the server's clock would hide owned writes for ever.

mod client;
mod commit;
mod decide;
mod durability;
mod failure;
mod migrate;
mod pools;
mod rows;
mod schema;
mod statement;
mod url;

use crate::layout::check_decision;
use crate::read::read;
use crate::{Durability, Status, Store, StoreError};
use async_trait::async_trait;
use client::Client;
use echelon_core_model::store::{Batch, Consistency, Decided, Decision, Query, Reading};
use std::collections::HashMap;
use std::net::SocketAddr;

/// A storage in a Cassandra keyspace.
pub struct CassandraStore {
    client: Client,
}

impl CassandraStore {
    /// Connects. The keyspace need not exist yet: `Store::migrate` makes it.
    ///
    /// # Errors
    /// The URL is wrong, or no node answers.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_through(url, HashMap::new()).await
    }

    /// Connects where nodes are reached at other addresses than they say, e.g. through forwarded ports: said -> reached.
    ///
    /// # Errors
    /// As `connect`.
    pub async fn connect_through(
        url: &str,
        addresses: HashMap<SocketAddr, SocketAddr>,
    ) -> Result<Self, StoreError> {
        let place = url::Place::parse(url)?;
        let client = Client::connect(place, addresses).await?;
        Ok(Self { client })
    }
}

#[async_trait]
impl Store for CassandraStore {
    async fn read(&self, query: Query, consistency: Consistency) -> Result<Reading, StoreError> {
        read(&self.client, &query, consistency, &self.client.trees).await
    }

    async fn decide(&self, decision: Decision) -> Result<Decided, StoreError> {
        let plan = check_decision(&decision)?;
        decide::decide(&self.client, &decision, &plan).await
    }

    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        commit::commit(&self.client, &batch).await
    }

    async fn status(&self) -> Result<Status, StoreError> {
        migrate::status(&self.client).await
    }

    async fn migrate(&self) -> Result<Status, StoreError> {
        migrate::migrate(&self.client).await
    }

    async fn durability(&self) -> Durability {
        durability::durability(&self.client).await
    }
}
