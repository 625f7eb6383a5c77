//! One session with ZooKeeper's servers. The client library waits for a reconnection as long as the session lasts, so every
//! call here has a bound, and any failure ends the session: the next one looks again.

use super::url::Url;
use async_trait::async_trait;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use zookeeper_client::{Client, Error, OneshotWatcher};

/// What masters ask of their own sessions by default; R16 bounds by it how long an unconfirmed leader counts.
const SESSION: Duration = Duration::from_secs(10);
/// The node is read again this often although no event came: what a lost event costs at most.
const REREAD: Duration = Duration::from_secs(30);

/// Where sessions begin.
#[async_trait]
pub(super) trait Begin: Send + Sync {
    /// A new session.
    async fn begin(&self) -> Result<Box<dyn Group>, String>;
}

/// The masters' group, within one session. An error ends it.
#[async_trait]
pub(super) trait Group: Send {
    /// The node's children; none when there is no such node. From here on changes are watched.
    async fn children(&mut self) -> Result<Option<Vec<String>>, String>;
    /// The data of a child; none when it has gone.
    async fn data(&mut self, child: &str) -> Result<Option<Vec<u8>>, String>;
    /// Waits until the children may have changed.
    async fn changed(&mut self) -> Result<(), String>;
}

/// Real servers.
pub(super) struct Servers(Url);

impl Servers {
    pub(super) fn new(url: &Url) -> Self {
        Self(url.clone())
    }
}

struct Session {
    client: Client,
    path: String,
    watcher: Option<OneshotWatcher>,
}

#[async_trait]
impl Begin for Servers {
    async fn begin(&self) -> Result<Box<dyn Group>, String> {
        let Url { hosts, path, digest } = &self.0;
        let mut connector = Client::connector().with_session_timeout(SESSION);
        if let Some(digest) = digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let client = answered(hosts, connector.connect(hosts)).await?;
        let client = client.ok_or_else(|| format!("{hosts}: no session"))?;
        Ok(Box::new(Session {
            client,
            path: path.clone(),
            watcher: None,
        }))
    }
}

#[async_trait]
impl Group for Session {
    async fn children(&mut self) -> Result<Option<Vec<String>>, String> {
        let Self {
            client,
            path,
            watcher,
        } = self;
        let listed = answered(path, client.list_and_watch_children(path)).await?;
        if let Some((children, changes)) = listed {
            *watcher = Some(changes);
            return Ok(Some(children));
        }
        // Masters make the node when they first start.
        let seen = answered(path, client.check_and_watch_stat(path)).await?;
        *watcher = seen.map(|(_, changes)| changes);
        Ok(None)
    }

    async fn data(&mut self, child: &str) -> Result<Option<Vec<u8>>, String> {
        let path = format!("{}/{child}", self.path);
        let found = answered(&path, self.client.get_data(&path)).await?;
        Ok(found.map(|(data, _)| data))
    }

    async fn changed(&mut self) -> Result<(), String> {
        let mut state = self.client.state_watcher();
        let over = async {
            let mut now = state.peek_state();
            while !now.is_terminated() {
                now = state.changed().await;
            }
            now
        };
        let watcher = self.watcher.take();
        let event = async {
            match watcher {
                Some(watcher) => drop(watcher.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = event => Ok(()),
            state = over => Err(format!("the session is over: {state:?}")),
            () = sleep(REREAD) => Ok(()),
        }
    }
}

/// The answer, if it comes within the session; none where there is no such node.
async fn answered<T>(what: &str, call: impl Future<Output = Result<T, Error>>) -> Result<Option<T>, String> {
    match timeout(SESSION, call).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(Error::NoNode)) => Ok(None),
        Ok(Err(Error::NoAuth)) => Err(format!(
            "{what}: may not be read; give credentials as `zk://user:password@host:port/path`"
        )),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer within {SESSION:?}")),
    }
}
