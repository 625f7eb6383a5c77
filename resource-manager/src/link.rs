//! Streams to the leaders of shards: found by membership, opened again with backoff, one a cluster.

use crate::run::Input;
use echelon_core_model::ClusterId;
use echelon_core_model::directive::{Directive, Report};
use echelon_core_resource_manager::LinkId;
use echelon_io_credit::{Credit, HeldCredit};
use echelon_io_membership::{LeaderRecord, Sighting};
use echelon_io_process::Backoff;
use echelon_proto::codec::refused;
use echelon_proto::convert::{FieldError, Wire, wire_bytes};
use echelon_proto::echelon::shard::v1::DirectRequest;
use echelon_proto::echelon::shard::v1::shard_service_client::ShardServiceClient;
use futures::StreamExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::Endpoint;

/// Directives that may wait for a shard that does not read; then its stream is cut, and a new one begins with a full report.
const DIRECTIVES: usize = 1024;

/// Bytes of them.
pub(crate) const DIRECTIVE_BYTES: usize = 32 << 20;

/// Largest message: a directive or report about thousands of slices.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(100),
    max: Duration::from_secs(5),
};

/// A connection that says nothing for this long is asked for a sign of life, and given up after as long again.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A directive on its way, with its part of the credit.
type SentDirective = (DirectRequest, HeldCredit);

/// The way to one shard.
pub(crate) struct Sender {
    directives: mpsc::Sender<SentDirective>,
    /// Room for directives that were not read.
    credit: Credit,
}

impl Sender {
    fn new() -> (Self, mpsc::Receiver<SentDirective>) {
        let (directives, sent) = mpsc::channel(DIRECTIVES);
        let credit = Credit::new(DIRECTIVE_BYTES);
        (Self { directives, credit }, sent)
    }

    /// Hands a directive over without waiting.
    ///
    /// # Errors
    /// There is no room for it, or the stream has ended.
    fn send(&self, directive: &Directive) -> Result<(), &'static str> {
        let wire = directive.to_wire();
        let held = self.credit.try_take(wire_bytes(&wire));
        let held = held.ok_or("too many bytes wait for it")?;
        let sent = self.directives.try_send((wire, held));
        sent.map_err(|_| "too many directives wait for it, or it has ended the stream")
    }
}

/// The streams and their keepers. Dropping it ends them all.
#[derive(Default)]
pub(crate) struct Links {
    keepers: BTreeMap<ClusterId, DropGuard>,
    open: BTreeMap<LinkId, Sender>,
    ids: Arc<AtomicU64>,
}

impl Links {
    /// Where keepers take fresh ids from.
    pub(crate) fn ids(&self) -> Arc<AtomicU64> {
        self.ids.clone()
    }

    /// A token for a new keeper, unless the cluster has one.
    pub(crate) fn watch(&mut self, cluster: &ClusterId) -> Option<CancellationToken> {
        if self.keepers.contains_key(cluster) {
            return None;
        }
        let stop = CancellationToken::new();
        self.keepers.insert(cluster.clone(), stop.clone().drop_guard());
        Some(stop)
    }

    pub(crate) fn unwatch(&mut self, cluster: &ClusterId) {
        self.keepers.remove(cluster);
    }

    pub(crate) fn opened(&mut self, link: LinkId, sender: Sender) {
        self.open.insert(link, sender);
    }

    pub(crate) fn closed(&mut self, link: LinkId) {
        self.open.remove(&link);
    }

    /// Sends without waiting. A stream that loses a message is cut.
    pub(crate) fn send(&mut self, link: LinkId, directive: Directive) {
        let Some(sender) = self.open.get(&link) else {
            return;
        };
        if let Err(why) = sender.send(&directive) {
            tracing::warn!(
                link = link.0,
                why,
                "a shard does not read its directives; cutting its stream"
            );
            self.open.remove(&link);
        }
    }

    /// Bytes of directives that were sent and not read, over all streams.
    pub(crate) fn under_way(&self) -> usize {
        self.open.values().map(|sender| sender.credit.under_way()).sum()
    }

    /// Ends everything.
    pub(crate) fn clear(&mut self) {
        self.keepers.clear();
        self.open.clear();
    }
}

/// Keeps one stream open to one cluster's shard.
pub(crate) struct Keeper {
    pub(crate) cluster: ClusterId,
    pub(crate) sightings: watch::Receiver<Sighting>,
    pub(crate) inbox: mpsc::Sender<Input>,
    pub(crate) ids: Arc<AtomicU64>,
    /// Of the jitter of waits.
    pub(crate) seed: u64,
    pub(crate) stop: CancellationToken,
}

/// Why a stream ended.
#[derive(Debug, Error)]
enum LinkEnd {
    #[error("the leader's address `{0}` is not a URL")]
    Address(String),
    #[error("cannot connect")]
    Connect(#[source] tonic::transport::Error),
    #[error("the shard refused the stream, or it broke: {0}")]
    Status(#[from] tonic::Status),
    #[error("the shard sent what cannot be understood")]
    Report(#[from] FieldError),
    #[error("the shard ended the stream")]
    Ended,
    #[error("another process leads the shard now")]
    NewLeader,
    #[error("this process ends it")]
    Stopped,
}

impl Keeper {
    /// Opens stream after stream until stopped.
    pub(crate) async fn keep(mut self) {
        let stop = self.stop.clone();
        let mut random = SmallRng::seed_from_u64(self.seed);
        let mut waits = BACKOFF.waits(random.clone());
        while let Some(leader) = stop.run_until_cancelled(self.leader()).await.flatten() {
            let end = self.stream(&leader).await;
            let (cluster, address) = (&self.cluster, &leader.address);
            match end {
                Err(LinkEnd::Stopped) => return,
                Err(end @ (LinkEnd::NewLeader | LinkEnd::Ended)) => {
                    tracing::info!(%cluster, address, %end, "a stream to a shard has ended");
                    waits = BACKOFF.waits(SmallRng::from_rng(&mut random));
                }
                Err(error) => tracing::warn!(
                    %cluster, address, error = &error as &dyn std::error::Error,
                    "no stream to a shard; trying again"
                ),
                Ok(()) => {}
            }
            let wait = waits.next().unwrap_or(BACKOFF.max);
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// The leader, as soon as there is one.
    async fn leader(&mut self) -> Option<LeaderRecord> {
        let seen = self
            .sightings
            .wait_for(|sighting| sighting.record().is_some())
            .await;
        seen.ok().and_then(|sighting| sighting.record().cloned())
    }

    /// Waits until another leader is seen.
    async fn other_than(&mut self, leader: &LeaderRecord) {
        let other = |sighting: &Sighting| sighting.record().is_some_and(|now| now != leader);
        if self.sightings.wait_for(other).await.is_err() {
            std::future::pending().await
        }
    }

    async fn stream(&mut self, leader: &LeaderRecord) -> Result<(), LinkEnd> {
        let (sender, directives) = Sender::new();
        let stop = self.stop.clone();
        // A leader that hangs is not waited for once another one has published.
        let mut reports = tokio::select! {
            () = stop.cancelled() => return Err(LinkEnd::Stopped),
            () = self.other_than(leader) => return Err(LinkEnd::NewLeader),
            opened = open(&leader.address, directives) => opened?,
        };
        let link = LinkId(self.ids.fetch_add(1, Ordering::Relaxed) + 1);
        let opened = Input::Linked(link, self.cluster.clone(), sender);
        self.tell(opened).await?;
        let end = self.listen(leader, link, &mut reports).await;
        self.tell(Input::Unlinked(link)).await?;
        end
    }

    async fn listen(
        &mut self,
        leader: &LeaderRecord,
        link: LinkId,
        reports: &mut tonic::Streaming<<Report as Wire>::Message>,
    ) -> Result<(), LinkEnd> {
        loop {
            let next = tokio::select! {
                () = self.stop.cancelled() => return Err(LinkEnd::Stopped),
                changed = self.sightings.changed() => {
                    let other = self.sightings.borrow().record().is_some_and(|now| now != leader);
                    if other || changed.is_err() {
                        return Err(LinkEnd::NewLeader);
                    }
                    continue;
                }
                next = reports.message() => next,
            };
            let report = match next {
                Err(status) => match refused(&status) {
                    Some(error) => Err(error.clone()),
                    None => return Err(status.into()),
                },
                Ok(None) => return Err(LinkEnd::Ended),
                Ok(Some(message)) => Report::from_wire(message),
            };
            let report = match report {
                Ok(report) => report,
                Err(error) => {
                    let why = format!("it sent what cannot be understood: {error}");
                    self.tell(Input::Unreadable(link, why)).await?;
                    return Err(error.into());
                }
            };
            self.tell(Input::Report(link, report)).await?;
        }
    }

    /// Waits while the loop has much to do: what is not taken in is not read either.
    async fn tell(&self, input: Input) -> Result<(), LinkEnd> {
        self.inbox.send(input).await.map_err(|_| LinkEnd::Stopped)
    }
}

async fn open(
    address: &str,
    directives: mpsc::Receiver<SentDirective>,
) -> Result<tonic::Streaming<<Report as Wire>::Message>, LinkEnd> {
    let endpoint = Endpoint::from_shared(address.to_owned())
        .map_err(|_| LinkEnd::Address(address.to_owned()))?
        .connect_timeout(KEEP_ALIVE)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true);
    let channel = endpoint.connect().await.map_err(LinkEnd::Connect)?;
    let mut client = ShardServiceClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let sent = ReceiverStream::new(directives).map(|(directive, _held)| directive);
    Ok(client.direct(sent).await?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Epoch;
    use tokio::net::TcpListener;

    fn record(listener: &TcpListener, epoch: u64) -> Sighting {
        Sighting::Held(LeaderRecord {
            address: format!("http://{}", listener.local_addr().unwrap()),
            epoch: Epoch(epoch),
        })
    }

    /// The old leader takes connections and says nothing, as a stopped process does.
    #[tokio::test]
    async fn a_new_leader_ends_the_wait_for_a_hung_one() {
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let new = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (seen, sightings) = watch::channel(record(&hung, 1));
        let (inbox, _inputs) = mpsc::channel(8);
        let stop = CancellationToken::new();
        let keeper = Keeper {
            cluster: ClusterId::new("c"),
            sightings,
            inbox,
            ids: Arc::default(),
            seed: 1,
            stop: stop.clone(),
        };
        let keeping = tokio::spawn(keeper.keep());
        let (_held, _) = hung.accept().await.unwrap();
        seen.send_replace(record(&new, 2));
        // A hung connection alone is given up after two keep-alives.
        let reached = tokio::time::timeout(KEEP_ALIVE, new.accept()).await;
        assert!(reached.is_ok(), "the new leader is not connected to");
        stop.cancel();
        keeping.await.unwrap();
    }
}
