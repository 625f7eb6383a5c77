//! What a case needs from a backend's tests, and the waits that cases are written with.

use crate::{Candidacy, Member, Membership, Role, Sighting, Standing, Term};
use async_trait::async_trait;
use echelon_core_model::ClusterId;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a case waits for what must happen in the end.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An empty place where processes meet, with a way to disturb them.
#[async_trait]
pub trait Ground: Send + Sync {
    /// A connection of its own for the named process.
    async fn connect(&self, name: &str) -> Arc<dyn Membership>;
    /// Silences the named process' connection in both ways; nothing is reset.
    async fn cut(&self, name: &str);
    /// Ends the silence.
    async fn heal(&self, name: &str);
}

pub(super) fn shard(name: &str) -> Role {
    Role::Shard(ClusterId::new(name))
}

pub(super) fn member(name: &str) -> Member {
    Member {
        id: name.to_owned(),
        address: format!("http://{name}:1"),
    }
}

/// Connects a process and lets it stand for a role.
pub(super) async fn stand(ground: &dyn Ground, name: &str, role: &Role) -> Candidacy {
    let membership = ground.connect(name).await;
    membership.campaign(role.clone(), member(name)).await.unwrap()
}

/// Waits until the watched value is as wished.
pub(super) async fn until<T: Debug + Clone + Send + Sync>(
    what: &str,
    mut watch: watch::Receiver<T>,
    wished: impl FnMut(&T) -> bool,
) -> T {
    let reached = tokio::time::timeout(PATIENCE, watch.wait_for(wished))
        .await
        .map(|seen| seen.unwrap().clone());
    reached.unwrap_or_else(|_| {
        panic!(
            "waited {PATIENCE:?} in vain until {what}; last seen: {:?}",
            *watch.borrow()
        )
    })
}

pub(super) async fn until_leads(candidacy: &Candidacy) -> Term {
    let id = &candidacy.member().id;
    let seen = until(&format!("{id} leads"), candidacy.watch(), |s| s.leads().is_some()).await;
    seen.leads().unwrap()
}

pub(super) async fn until_standing(candidacy: &Candidacy, wished: Standing) {
    let id = &candidacy.member().id;
    until(&format!("{id} is {wished:?}"), candidacy.watch(), |s| {
        *s == wished
    })
    .await;
}

pub(super) async fn until_seen(watch: &watch::Receiver<Sighting>, wished: Sighting) {
    until(&format!("the sighting is {wished:?}"), watch.clone(), |s| {
        *s == wished
    })
    .await;
}

/// Waits until one of the candidates leads; answers which.
pub(super) async fn until_one_leads(candidates: &[Candidacy]) -> usize {
    let leading = candidates.iter().map(|c| Box::pin(until_leads(c)));
    futures::future::select_all(leading).await.1
}
