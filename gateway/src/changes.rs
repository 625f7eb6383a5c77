//! One stream from the leader of each role: which jobs it has changed. While a leader is not heard nothing is
//! lost: all watched jobs are read when it is heard again, and in rounds meanwhile.

use crate::context::Gateway;
use echelon_core_model::change::{EventSpot, JobChanges};
use echelon_core_model::store::Role as Writer;
use echelon_core_model::{Epoch, JobId};
use echelon_io_changes::Position;
use echelon_io_membership::{Role, Sighting};
use echelon_proto::echelon::shard::v1 as wire;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::change_service_client::ChangeServiceClient;

/// A leader says each second where it is; one that says nothing for this long is called again.
const SILENT: Duration = Duration::from_secs(4);
/// Between two tries to reach a leader.
const AGAIN: Duration = Duration::from_millis(500);
/// Largest message taken: twice what a leader joins in one.
const MAX_MESSAGE: usize = 8 << 20;

/// Follows all leaders until the end.
pub(crate) async fn keep(gateway: Gateway) {
    let unheard = watch::Sender::new(0_usize);
    let mut roles = gateway.leaders.follow();
    let mut followed: BTreeMap<Role, CancellationToken> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let wanted: Vec<Role> = roles
            .borrow_and_update()
            .iter()
            .map(|led| led.role.clone())
            .collect();
        followed.retain(|role, stop| {
            let stays = wanted.contains(role);
            if !stays {
                stop.cancel();
            }
            stays
        });
        for role in wanted {
            if followed.contains_key(&role) {
                continue;
            }
            let Some(writer) = writer(&role) else { continue };
            let stop = gateway.stop.child_token();
            followed.insert(role.clone(), stop.clone());
            let follower = Follower {
                gateway: gateway.clone(),
                role,
                writer,
                position: Position::default(),
                unheard: unheard.clone(),
            };
            tasks.spawn(follower.follow(stop));
        }
        let is_unheard = *unheard.borrow() > 0;
        tokio::select! {
            () = gateway.stop.cancelled() => return,
            // The sender is held by the gateway.
            _ = roles.changed() => {}
            _ = tasks.join_next(), if !tasks.is_empty() => {}
            () = tokio::time::sleep(gateway.config.watch_round) => if is_unheard {
                gateway.feeds.tell_all();
            },
        }
    }
}

fn writer(role: &Role) -> Option<Writer> {
    match role {
        Role::ResourceManager => Some(Writer::ResourceManager),
        Role::Shard(cluster) => Some(Writer::Shard(cluster.clone())),
        Role::Gateway => None,
    }
}

/// What follows the leader of one role.
struct Follower {
    gateway: Gateway,
    role: Role,
    writer: Writer,
    position: Position,
    /// How many leaders are not heard.
    unheard: watch::Sender<usize>,
}

impl Follower {
    async fn follow(mut self, stop: CancellationToken) {
        let mut sightings = self.gateway.links.follow(&self.role);
        self.unheard.send_modify(|n| *n += 1);
        loop {
            let address = address(&sightings.borrow_and_update());
            let moved = async {
                while sightings.changed().await.is_ok() {
                    if address_of(&sightings) != address {
                        return;
                    }
                }
                std::future::pending().await
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.hear(address.as_deref()) => {}
                () = moved => continue,
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        self.unheard.send_modify(|n| *n -= 1);
    }

    /// Hears a leader until its stream breaks, or is silent.
    async fn hear(&mut self, address: Option<&str>) {
        let Some(channel) = address.and_then(|address| self.gateway.links.channel(address)) else {
            return std::future::pending().await;
        };
        let request = wire::StreamChangesRequest {
            epoch: self.position.epoch.0,
            change: self.position.change,
        };
        let mut client = ChangeServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let opened = tokio::time::timeout(SILENT, client.stream_changes(request)).await;
        let Ok(Ok(answer)) = opened else { return };
        let heard = Heard::new(&self.unheard);
        let mut stream = answer.into_inner();
        while let Ok(Ok(Some(message))) = tokio::time::timeout(SILENT, stream.message()).await {
            self.take(message);
        }
        drop(heard);
    }

    fn take(&mut self, message: wire::StreamChangesResponse) {
        self.position = Position {
            epoch: Epoch(message.epoch),
            change: message.change,
        };
        match changes(&message) {
            Some(changes) if !message.gap => self.gateway.feeds.tell(&self.writer, changes),
            // What cannot be understood may be about any job.
            _ => self.gateway.feeds.tell_all(),
        }
    }
}

/// A leader that is heard, while it is.
struct Heard(watch::Sender<usize>);

impl Heard {
    fn new(unheard: &watch::Sender<usize>) -> Self {
        unheard.send_modify(|n| *n -= 1);
        Self(unheard.clone())
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n += 1);
    }
}

fn address(sighting: &Sighting) -> Option<String> {
    sighting.record().map(|leader| leader.address.clone())
}

fn address_of(sightings: &watch::Receiver<Sighting>) -> Option<String> {
    address(&sightings.borrow())
}

/// The changes of a message; `None`: they cannot be understood.
fn changes(message: &wire::StreamChangesResponse) -> Option<JobChanges> {
    let mut out = JobChanges::default();
    for job in &message.jobs {
        let id: [u8; 16] = job.job.as_slice().try_into().ok()?;
        let spots = out.0.entry(JobId(u128::from_be_bytes(id))).or_default();
        for spot in &job.events {
            let lane = u16::try_from(spot.lane).ok()?;
            spots.insert(EventSpot { lane, day: spot.day });
        }
    }
    Some(out)
}
