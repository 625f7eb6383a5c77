//! A member without election: one numbered ephemeral node, made again in a new session whenever the old one ends.

use super::paths::{Paths, encode};
use super::session::{Servers, ephemeral_sequential, persistent, session_over};
use crate::{Member, MembershipError, Registration};
use tokio_util::sync::CancellationToken;

/// Keeps the member registered until the answer is dropped.
pub(super) fn begin(servers: Servers, paths: Paths, member: &Member) -> Registration {
    let stop = CancellationToken::new();
    let data = encode(member);
    tokio::spawn({
        let stop = stop.clone();
        async move {
            stop.run_until_cancelled(keep(servers, paths, data)).await;
        }
    });
    Registration::new(stop.drop_guard())
}

async fn keep(servers: Servers, paths: Paths, data: Vec<u8>) {
    let mut waits = servers.waits();
    loop {
        match hold(&servers, &paths, &data).await {
            Ok(()) => waits = servers.waits(),
            Err(error) => tracing::warn!(role = %paths.role, %error, "cannot register, trying again"),
        }
        tokio::time::sleep(waits.next()).await;
    }
}

/// One session, to its end. Whatever goes wrong ends it: a node of unknown fate goes with it.
async fn hold(servers: &Servers, paths: &Paths, data: &[u8]) -> Result<(), MembershipError> {
    let client = servers.connect().await?;
    let folder = paths.members();
    servers
        .answered("make the members' node", client.mkdir(&folder, &persistent()))
        .await?;
    let prefix = format!("{folder}/m-");
    let creating = client.create(&prefix, data, &ephemeral_sequential());
    let (_, number) = servers.answered("register", creating).await?;
    let path = format!("{prefix}{number}");
    let mut state = client.state_watcher();
    loop {
        let watching = client.check_and_watch_stat(&path);
        let (stat, watcher) = servers.answered("watch the own node", watching).await?;
        if stat.is_none() {
            return Ok(());
        }
        tokio::select! {
            _ = watcher.changed() => {}
            () = session_over(&mut state) => return Ok(()),
        }
    }
}
