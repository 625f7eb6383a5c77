//! What others have published: read once, or followed. All of it through the process's shared session.

use super::paths::{Paths, PublishedEpoch, decode, sequence};
use super::session::{SharedSession, session_over, unreachable};
use crate::{CandidateRecord, LeaderRecord, Member, MembershipError, Sighting};
use echelon_core_model::store::Stamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use zookeeper_client::{Client, Error};

/// A followed node is read again this often although no event came: what a lost event costs at most.
const REREAD: Duration = Duration::from_secs(30);

pub(super) async fn leader(
    shared: &SharedSession,
    paths: &Paths,
) -> Result<Option<LeaderRecord>, MembershipError> {
    let client = shared.client().await?;
    read_leader(shared, &client, paths).await
}

async fn read_leader(
    shared: &SharedSession,
    client: &Client,
    paths: &Paths,
) -> Result<Option<LeaderRecord>, MembershipError> {
    let path = paths.leader();
    let found = shared
        .servers
        .found("read the leader", client.get_data(&path))
        .await?;
    found.map(|(data, _)| decode(&path, &data)).transpose()
}

pub(super) async fn newest_stamp(
    shared: &SharedSession,
    paths: &Paths,
) -> Result<Option<Stamp>, MembershipError> {
    let client = shared.client().await?;
    let path = paths.epoch();
    // A server may lag behind; after a sync it has all that was acknowledged before the call.
    let fresh = async {
        client.sync(&path).await?;
        client.get_data(&path).await
    };
    let found = shared.servers.found("read the highest epoch", fresh).await?;
    found
        .map(|(data, _)| decode::<PublishedEpoch>(&path, &data).map(PublishedEpoch::stamp))
        .transpose()
}

pub(super) async fn candidates(
    shared: &SharedSession,
    paths: &Paths,
) -> Result<Vec<CandidateRecord>, MembershipError> {
    let client = shared.client().await?;
    let folder = paths.candidates();
    let names = shared
        .servers
        .found("list candidates", client.list_children(&folder))
        .await?;
    let mut candidates = Vec::new();
    for name in names
        .into_iter()
        .flatten()
        .filter(|name| sequence(name).is_some())
    {
        let path = format!("{folder}/{name}");
        let reading = client.get_data(&path);
        if let Some((data, _)) = shared.servers.found("read a candidate", reading).await? {
            candidates.push(decode(&path, &data)?);
        }
    }
    Ok(candidates)
}

pub(super) async fn members(shared: &SharedSession, paths: &Paths) -> Result<Vec<Member>, MembershipError> {
    let client = shared.client().await?;
    let folder = paths.members();
    let names = shared
        .servers
        .found("list members", client.list_children(&folder))
        .await?
        .unwrap_or_default();
    let mut newest: BTreeMap<i64, Member> = BTreeMap::new();
    for name in names {
        let Some(number) = sequence(&name) else { continue };
        let path = format!("{folder}/{name}");
        if let Some((data, _)) = shared
            .servers
            .found("read a member", client.get_data(&path))
            .await?
        {
            newest.insert(number, decode(&path, &data)?);
        }
    }
    // A process that came back while its old session lives is one member, where it is now.
    Ok(newest
        .into_values()
        .map(|m| (m.id.clone(), m))
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .collect())
}

/// Follows a role's leader until nobody listens.
pub(super) async fn follow(shared: Arc<SharedSession>, paths: Paths, seen: watch::Sender<Sighting>) {
    let mut waits = shared.servers.waits();
    loop {
        let error = tokio::select! {
            () = seen.closed() => return,
            end = observe(&shared, &paths, &seen) => match end {
                Ok(()) => {
                    waits = shared.servers.waits();
                    continue;
                }
                Err(error) => error,
            },
        };
        tracing::warn!(role = %paths.role, %error, "cannot see who leads; what was seen last stays");
        tokio::select! {
            () = seen.closed() => return,
            () = tokio::time::sleep(waits.next()) => {}
        }
    }
}

/// One sighting, and the wait until another may be due.
async fn observe(
    shared: &SharedSession,
    paths: &Paths,
    seen: &watch::Sender<Sighting>,
) -> Result<(), MembershipError> {
    let client = shared.client().await?;
    let mut state = client.state_watcher();
    let path = paths.leader();
    // The watch is set before the read, so that no change falls between.
    let watching = client.check_and_watch_stat(&path);
    let (_, watcher) = shared.servers.answered("watch the leader", watching).await?;
    let sighting = Sighting::from(read_leader(shared, &client, paths).await?);
    seen.send_if_modified(|last| std::mem::replace(last, sighting.clone()) != sighting);
    tokio::select! {
        _ = watcher.changed() => Ok(()),
        () = session_over(&mut state) => Err(unreachable("watch the leader", Error::SessionExpired)),
        () = tokio::time::sleep(REREAD) => Ok(()),
    }
}
