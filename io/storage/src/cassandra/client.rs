//! The session with the nodes, and prepared statements by their text. Timings come from measurements on a real cluster:
//! a hung node is noticed after four seconds, and a request that lasts longer will not be answered.

use super::failure::{self, Attempt};
use super::url::Place;
use crate::StoreError;
use crate::read::TreeCache;
use async_trait::async_trait;
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use scylla::policies::retry::{DefaultRetryPolicy, FallthroughRetryPolicy};
use scylla::response::query_result::QueryResult;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::CqlValue;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const REQUEST: Duration = Duration::from_secs(4);
const CONNECT: Duration = Duration::from_secs(3);
const KEEPALIVE: Duration = Duration::from_secs(2);
const CONNECTIONS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// How a statement is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Read from a majority; the driver may send it again.
    Read,
    /// Read at SERIAL; it takes part in transactions, so only we send it again.
    SerialRead,
    /// A write with a stamp; the driver may send it again, since the same stamp is harmless.
    Stamped,
    /// A lightweight transaction; sent once, or its own effect would be taken for another's.
    Transaction,
}

pub(super) type Values = Vec<Option<CqlValue>>;

pub(super) struct Client {
    pub place: Place,
    pub session: Session,
    /// The pool tree as it was read last.
    pub trees: TreeCache,
    prepared: Mutex<BTreeMap<(Kind, String), PreparedStatement>>,
}

/// Nodes that are reached elsewhere than they say; all others where they say.
struct Addresses(HashMap<SocketAddr, SocketAddr>);

#[async_trait]
impl AddressTranslator for Addresses {
    async fn translate_address(&self, peer: &UntranslatedPeer) -> Result<SocketAddr, TranslationError> {
        let said = peer.untranslated_address();
        Ok(self.0.get(&said).copied().unwrap_or(said))
    }
}

impl Client {
    pub async fn connect(
        place: Place,
        addresses: HashMap<SocketAddr, SocketAddr>,
    ) -> Result<Self, StoreError> {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .serial_consistency(Some(SerialConsistency::Serial))
            .request_timeout(Some(REQUEST))
            .retry_policy(Arc::new(FallthroughRetryPolicy))
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(&place.nodes)
            .default_execution_profile_handle(profile.into_handle())
            .pool_size(PoolSize::PerHost(CONNECTIONS))
            .connection_timeout(CONNECT)
            .keepalive_interval(KEEPALIVE)
            .keepalive_timeout(KEEPALIVE);
        if !addresses.is_empty() {
            builder = builder.address_translator(Arc::new(Addresses(addresses)));
        }
        if let Some((user, password)) = &place.login {
            builder = builder.user(user, password);
        }
        let connected = builder.build().await;
        let session = connected.map_err(|e| StoreError::undone(format!("connecting to {place}"), e))?;
        Ok(Self {
            place,
            session,
            trees: TreeCache::default(),
            prepared: Mutex::default(),
        })
    }

    /// A prepared statement; `text` names tables as `{ks}.table`.
    pub async fn prepared(&self, kind: Kind, text: &str) -> Result<PreparedStatement, StoreError> {
        let key = (kind, text.to_owned());
        if let Some(found) = self.cache().get(&key) {
            return Ok(found.clone());
        }
        let cql = text.replace("{ks}", &self.place.keyspace);
        let preparing = self.session.prepare(cql).await;
        let mut statement = preparing.map_err(|e| failure::preparing(&self.place, text, e))?;
        match kind {
            Kind::Read | Kind::Stamped => {
                statement.set_is_idempotent(true);
                statement.set_retry_policy(Some(Arc::new(DefaultRetryPolicy::new())));
            }
            Kind::SerialRead => statement.set_consistency(Consistency::Serial),
            Kind::Transaction => statement.set_is_idempotent(false),
        }
        self.cache().insert(key, statement.clone());
        Ok(statement)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Kind, String), PreparedStatement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one statement.
    pub async fn execute(&self, kind: Kind, text: &str, values: Values) -> Result<QueryResult, StoreError> {
        let statement = self.prepared(kind, text).await?;
        let attempt = match kind {
            Kind::Read | Kind::SerialRead => Attempt::Read,
            Kind::Stamped | Kind::Transaction => Attempt::Write,
        };
        let sent = self.session.execute_unpaged(&statement, values).await;
        sent.map_err(|e| failure::executing(attempt, text, e))
    }
}
