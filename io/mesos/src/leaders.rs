//! Where to subscribe: at the masters of a list, in turn, or at the one that ZooKeeper names.

use crate::master::{Endpoint, Masters};
use crate::zookeeper;
use std::fmt;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// A master that leads, as ZooKeeper tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Its node: another one for each start of a master.
    pub node: String,
    /// Where it listens.
    pub endpoint: Endpoint,
}

/// What is known of who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// This master leads.
    Led(Leader),
    /// Nobody does, or it is not known.
    Looking {
        /// Why, for people.
        why: String,
    },
}

impl Sighting {
    pub(crate) fn looking(why: impl Into<String>) -> Self {
        Self::Looking { why: why.into() }
    }

    const fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Led(leader) => Some(leader),
            Self::Looking { .. } => None,
        }
    }
}

/// Where to subscribe.
#[derive(Debug, Clone)]
pub enum Leaders {
    /// One of these leads or redirects.
    Listed(Vec<Endpoint>),
    /// The one that was seen last.
    Followed(watch::Receiver<Sighting>),
}

/// The masters to try now, in order.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Where.
    pub endpoints: Vec<Endpoint>,
    /// Whose leadership it rests on, if any is known.
    pub leader: Option<Leader>,
}

/// Whose leadership a stream rests on, and where another's would be seen.
#[derive(Debug)]
pub struct Following {
    /// Where.
    pub leaders: Leaders,
    /// Whose; none where a list was tried.
    pub leader: Option<Leader>,
}

impl Leaders {
    /// As configured; ZooKeeper is followed from here on.
    pub fn of(masters: &Masters, seed: u64) -> Self {
        match masters {
            Masters::Listed(all) => Self::Listed(all.clone()),
            Masters::ZooKeeper(url) => Self::Followed(zookeeper::follow(url, seed)),
        }
    }

    /// The masters to try: of a list `last`, which led before, is the first. One that must be found first is waited for.
    ///
    /// # Errors
    /// Nobody leads `within` this time; why.
    pub async fn choose(&mut self, last: Option<&Endpoint>, within: Duration) -> Result<Choice, String> {
        match self {
            Self::Listed(all) => {
                let others = all.iter().filter(|e| Some(*e) != last);
                Ok(Choice {
                    endpoints: last.into_iter().chain(others).cloned().collect(),
                    leader: None,
                })
            }
            Self::Followed(seen) => {
                let led = |s: &Sighting| matches!(s, Sighting::Led(_));
                let leader = match timeout(within, seen.wait_for(led)).await {
                    Ok(Ok(sighting)) => sighting.leader().cloned(),
                    _ => None,
                };
                let leader = leader.ok_or_else(|| seen.borrow().to_string())?;
                Ok(Choice {
                    endpoints: vec![leader.endpoint.clone()],
                    leader: Some(leader),
                })
            }
        }
    }

    /// Waits until another master than `leader` is known to lead. That nobody is known to lead changes nothing: an open
    /// stream tells the truth by its heartbeats (R16).
    pub async fn other_than(&mut self, leader: Option<&Leader>) -> Leader {
        if let (Self::Followed(seen), Some(leader)) = (self, leader) {
            let other = |s: &Sighting| s.leader().is_some_and(|now| now != leader);
            let now = match seen.wait_for(other).await {
                Ok(sighting) => sighting.leader().cloned(),
                Err(_) => None,
            };
            if let Some(now) = now {
                return now;
            }
        }
        std::future::pending().await
    }
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Led(Leader { node, endpoint }) => write!(f, "{endpoint} leads ({node})"),
            Self::Looking { why } => f.write_str(why),
        }
    }
}
