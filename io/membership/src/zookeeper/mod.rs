//! Membership on ZooKeeper. Each candidacy and registration has a session of its own, so that its end is the end of
//! that one place and nothing else; reads and watches share one.
//!
//! What the client library does when servers are silent is written in `session`; the layout of nodes in `paths`.

mod candidate;
mod paths;
mod publish;
mod registrant;
mod session;
mod sight;

use crate::standing::StandingCell;
use crate::{
    Candidacy, CandidateRecord, LeaderRecord, Member, Membership, MembershipError, Registration, Role,
    Sighting, Timeouts,
};
use async_trait::async_trait;
use echelon_core_model::store::Stamp;
use paths::Paths;
use session::{Servers, SharedSession};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Where the servers are, and below which node Echelon writes: `zookeeper://h1:2181,h2:2181/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    hosts: String,
    root: String,
}

/// A connection to ZooKeeper. Nothing is contacted before the first call.
pub struct ZooKeeper {
    servers: Servers,
    root: String,
    shared: Arc<SharedSession>,
}

impl ZooKeeper {
    /// The session may be bounded by the servers; what they grant counts.
    #[must_use]
    pub fn new(url: Url, timeouts: Timeouts) -> Self {
        let servers = Servers::new(url.hosts, timeouts);
        Self {
            shared: Arc::new(SharedSession::new(servers.clone())),
            servers,
            root: url.root,
        }
    }

    fn paths(&self, role: &Role) -> Paths {
        Paths::new(&self.root, role)
    }
}

#[async_trait]
impl Membership for ZooKeeper {
    async fn campaign(&self, role: Role, member: Member) -> Result<Candidacy, MembershipError> {
        let standing = Arc::new(StandingCell::new());
        let seat = candidate::begin(self.servers.clone(), self.paths(&role), &member, standing.clone());
        Ok(Candidacy::new(role, member, standing, Box::new(seat)))
    }

    async fn register(&self, role: Role, member: Member) -> Result<Registration, MembershipError> {
        Ok(registrant::begin(
            self.servers.clone(),
            self.paths(&role),
            &member,
        ))
    }

    async fn members(&self, role: &Role) -> Result<Vec<Member>, MembershipError> {
        sight::members(&self.shared, &self.paths(role)).await
    }

    async fn candidates(&self, role: &Role) -> Result<Vec<CandidateRecord>, MembershipError> {
        sight::candidates(&self.shared, &self.paths(role)).await
    }

    async fn leader(&self, role: &Role) -> Result<Option<LeaderRecord>, MembershipError> {
        sight::leader(&self.shared, &self.paths(role)).await
    }

    fn watch(&self, role: &Role) -> watch::Receiver<Sighting> {
        let (seen, receiver) = watch::channel(Sighting::Unknown);
        tokio::spawn(sight::follow(self.shared.clone(), self.paths(role), seen));
        receiver
    }

    async fn newest_stamp(&self, role: &Role) -> Result<Option<Stamp>, MembershipError> {
        sight::newest_stamp(&self.shared, &self.paths(role)).await
    }

    async fn granted_session(&self) -> Result<Duration, MembershipError> {
        Ok(self.shared.client().await?.session_timeout())
    }
}

impl FromStr for Url {
    type Err = MembershipError;

    fn from_str(url: &str) -> Result<Self, MembershipError> {
        let wrong = |reason: String| MembershipError::Url {
            url: url.to_owned(),
            reason,
        };
        let rest = url
            .strip_prefix("zookeeper://")
            .ok_or_else(|| wrong("it begins with neither".into()))?;
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.is_empty() {
            return Err(wrong("it names no server".into()));
        }
        for host in hosts.split(',') {
            let port = host
                .rsplit_once(':')
                .filter(|(name, _)| !name.is_empty())
                .map(|(_, port)| port.parse::<u16>());
            if !matches!(port, Some(Ok(_))) {
                return Err(wrong(format!("`{host}` is not HOST:PORT")));
            }
        }
        if path.is_empty() {
            return Err(wrong("it names no path, below which Echelon may write".into()));
        }
        for part in path.split('/') {
            match part {
                "" => return Err(wrong("its path has an empty part".into())),
                "." | ".." => return Err(wrong(format!("`{part}` is no name of a node"))),
                _ => {}
            }
        }
        Ok(Self {
            hosts: hosts.to_owned(),
            root: format!("/{path}"),
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zookeeper://{}{}", self.hosts, self.root)
    }
}
