//! Sessions, and calls that end. The client library waits for a reconnection as long as the session lasts, tells a
//! silent server by `Custom` errors, and tells of an expired session later than the server acts on it; so every call
//! here has a time limit, every failure without an answer is the same one, and a session that is over is replaced.

use crate::{MembershipError, Timeouts};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error, StateWatcher};

/// First wait before a lost session is replaced; doubles up to the session timeout.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Which servers, and how long they keep a silent session.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    pub(super) hosts: String,
    pub(super) timeouts: Timeouts,
    /// Whether it was told that they grant longer sessions than were asked for.
    warned: Arc<AtomicBool>,
}

impl Servers {
    pub(super) fn new(hosts: String, timeouts: Timeouts) -> Self {
        Self {
            hosts,
            timeouts,
            warned: Arc::default(),
        }
    }

    /// A new session.
    pub(super) async fn connect(&self) -> Result<Client, MembershipError> {
        let connecting = Client::connector()
            .with_session_timeout(self.timeouts.session())
            .connect(&self.hosts);
        let client = self.answered("connect", connecting).await?;
        self.compare(client.session_timeout());
        Ok(client)
    }

    /// Says once when leaders are replaced later than was asked for.
    fn compare(&self, granted: Duration) {
        if let Some(longer) = longer(self.timeouts.session(), granted)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{longer}");
        }
    }

    /// Waits for an answer at most the session timeout: later the session is over anyway.
    pub(super) async fn answered<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, MembershipError> {
        match tokio::time::timeout(self.timeouts.session(), call).await {
            Ok(answer) => answer.map_err(|error| unreachable(what, error)),
            Err(elapsed) => Err(unreachable(what, elapsed)),
        }
    }

    /// As [`Servers::answered`], where the node may not exist.
    pub(super) async fn found<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, MembershipError> {
        let call = async {
            match call.await {
                Ok(found) => Ok(Some(found)),
                Err(Error::NoNode) => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.answered(what, call).await
    }

    /// Waits between the ends and beginnings of sessions; start a new row after a session that worked.
    pub(super) fn waits(&self) -> Waits {
        Waits {
            next: FIRST_WAIT,
            max: self.timeouts.session().max(FIRST_WAIT),
        }
    }
}

pub(super) fn unreachable(
    what: &str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> MembershipError {
    MembershipError::Unreachable {
        what: what.to_owned(),
        source: Box::new(source),
    }
}

/// Returns when the session is over for good; a lost connection is not the end.
pub(super) async fn session_over(state: &mut StateWatcher) {
    let mut now = state.peek_state();
    while !now.is_terminated() {
        now = state.changed().await;
    }
}

/// Growing waits. Without jitter: sessions of different processes do not end in step.
#[derive(Debug)]
pub(super) struct Waits {
    next: Duration,
    max: Duration,
}

impl Waits {
    pub(super) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.max);
        wait
    }
}

/// Options of nodes that stay. Access is the network's business: Echelon sets no ACL of its own.
pub(super) const fn persistent() -> CreateOptions<'static> {
    CreateMode::Persistent.with_acls(Acls::anyone_all())
}

/// Options of nodes that go with their session.
pub(super) const fn ephemeral() -> CreateOptions<'static> {
    CreateMode::Ephemeral.with_acls(Acls::anyone_all())
}

/// Options of numbered nodes that go with their session.
pub(super) const fn ephemeral_sequential() -> CreateOptions<'static> {
    CreateMode::EphemeralSequential.with_acls(Acls::anyone_all())
}

/// One session for all reads of a process, replaced when it is over.
pub(super) struct SharedSession {
    pub(super) servers: Servers,
    current: Mutex<Option<Client>>,
}

impl SharedSession {
    pub(super) fn new(servers: Servers) -> Self {
        Self {
            servers,
            current: Mutex::new(None),
        }
    }

    /// The session, or a new one. Callers wait for each other, so that one connects for all.
    pub(super) async fn client(&self) -> Result<Client, MembershipError> {
        let mut current = self.current.lock().await;
        if let Some(client) = current.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        *current = None;
        Ok(current.insert(self.servers.connect().await?).clone())
    }
}

/// What it means that a session is longer than was asked for; nothing where it is not.
fn longer(asked: Duration, granted: Duration) -> Option<String> {
    (granted > asked).then(|| {
        format!(
            "ZooKeeper grants sessions of {granted:?} where {asked:?} was asked for, so a leader that is gone is replaced later; \
             it grants at least two ticks: lower its `tickTime`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_session_than_was_asked_for_is_told_once() {
        let s = Duration::from_secs;
        let told = longer(s(3), s(4)).unwrap();
        assert!(
            told.contains("4s") && told.contains("3s") && told.contains("tickTime"),
            "{told}"
        );
        assert_eq!(longer(s(4), s(4)), None);
        let servers = Servers::new("h:1".to_owned(), Timeouts::default());
        servers.compare(servers.timeouts.session());
        assert!(!servers.warned.load(Ordering::Relaxed));
        servers.compare(servers.timeouts.session() + s(1));
        assert!(servers.warned.load(Ordering::Relaxed));
    }
}
