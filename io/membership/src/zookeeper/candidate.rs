//! A candidate: one session after the other, in each one numbered node in the queue; the smallest number leads.
//!
//! A leader proves every third of its lease that its node exists. Each proof gives it a new lease, counted from the
//! sending of the question; without one it stops by itself before the servers can elect another.

use super::paths::{Paths, encode, sequence};
use super::publish::{Place, mark, publish};
use super::session::{Servers, ephemeral_sequential, persistent};
use crate::candidacy::Seat;
use crate::standing::StandingCell;
use crate::{CandidateRecord, LeaderRecord, Member, MembershipError, Term};
use async_trait::async_trait;
use echelon_core_model::store::Stamp;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use zookeeper_client::{Client, SessionState, StateWatcher};

/// The handle's side of a candidate.
pub(super) struct ZooKeeperSeat {
    servers: Servers,
    paths: Paths,
    leading: Arc<Mutex<Option<Place>>>,
    described: Arc<Mutex<Described>>,
    stop: DropGuard,
    running: JoinHandle<()>,
}

/// What others read of a candidate, and where it stands.
struct Described {
    record: Vec<u8>,
    node: Option<(Client, String)>,
}

/// Begins to stand for election.
pub(super) fn begin(
    servers: Servers,
    paths: Paths,
    member: &Member,
    standing: Arc<StandingCell>,
) -> ZooKeeperSeat {
    let stop = CancellationToken::new();
    let leading = Arc::new(Mutex::new(None));
    let described = Arc::new(Mutex::new(Described {
        record: encode(&CandidateRecord::from(member.clone())),
        node: None,
    }));
    let candidate = Candidate {
        servers: servers.clone(),
        paths: paths.clone(),
        described: described.clone(),
        standing,
        leading: leading.clone(),
        stop: stop.clone(),
    };
    ZooKeeperSeat {
        servers,
        paths,
        leading,
        described,
        stop: stop.drop_guard(),
        running: tokio::spawn(candidate.run()),
    }
}

impl ZooKeeperSeat {
    /// The place in which it leads in a term.
    fn place(&self, term: Term) -> Result<Place, MembershipError> {
        let place = self
            .leading
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let not_leader = || MembershipError::NotLeader {
            role: self.paths.role.clone(),
        };
        place.filter(|place| place.term == term).ok_or_else(not_leader)
    }
}

#[async_trait]
impl Seat for ZooKeeperSeat {
    async fn publish(&self, term: Term, record: LeaderRecord) -> Result<(), MembershipError> {
        publish(&self.servers, &self.paths, &self.place(term)?, &record).await
    }

    async fn mark(&self, term: Term, stamp: Stamp) -> Result<(), MembershipError> {
        mark(&self.servers, &self.paths, &self.place(term)?, stamp).await
    }

    async fn describe(&self, record: CandidateRecord) -> Result<(), MembershipError> {
        let data = encode(&record);
        let node = {
            let mut described = self.described.lock().unwrap_or_else(PoisonError::into_inner);
            described.record.clone_from(&data);
            described.node.clone()
        };
        // Without a node the next one is made with it.
        let Some((client, path)) = node else { return Ok(()) };
        let writing = client.set_data(&path, &data, None);
        self.servers.found("describe the candidate", writing).await?;
        Ok(())
    }

    async fn leave(self: Box<Self>) {
        self.stop.disarm().cancel();
        if let Err(error) = self.running.await {
            tracing::error!(role = %self.paths.role, %error, "a candidate ended by a fault of its own");
        }
    }
}

struct Candidate {
    servers: Servers,
    paths: Paths,
    described: Arc<Mutex<Described>>,
    standing: Arc<StandingCell>,
    leading: Arc<Mutex<Option<Place>>>,
    stop: CancellationToken,
}

/// One session's node in the queue.
struct Node {
    client: Client,
    state: StateWatcher,
    path: String,
    number: i64,
    term: Term,
}

/// What a look at the queue showed.
enum Queue {
    /// The own node is the first; the question was sent at this moment.
    First(Instant),
    /// This node stands before it.
    Behind(String),
    /// The own node is gone.
    Gone,
}

impl Candidate {
    async fn run(self) {
        let stop = self.stop.clone();
        let mut waits = self.servers.waits();
        while !stop.is_cancelled() {
            match stop.run_until_cancelled(self.join()).await {
                Some(Ok(node)) => {
                    waits = self.servers.waits();
                    self.attend(node).await;
                }
                Some(Err(error)) => {
                    tracing::warn!(role = %self.paths.role, %error, "cannot stand for election yet")
                }
                None => break,
            }
            stop.run_until_cancelled(sleep(waits.next())).await;
        }
    }

    /// A new session with a node in the queue. Whatever goes wrong ends the session, and a node of unknown fate with it.
    async fn join(&self) -> Result<Node, MembershipError> {
        let client = self.servers.connect().await?;
        let folder = self.paths.candidates();
        self.servers
            .answered("make the candidates' node", client.mkdir(&folder, &persistent()))
            .await?;
        let prefix = format!("{folder}/c-");
        let record = self.described().record.clone();
        let creating = client.create(&prefix, &record, &ephemeral_sequential());
        let (stat, number) = self.servers.answered("stand for election", creating).await?;
        self.described().node = Some((client.clone(), format!("{prefix}{number}")));
        self.standing.follow();
        Ok(Node {
            state: client.state_watcher(),
            path: format!("{prefix}{number}"),
            number: number.into_i64(),
            // The transaction's number grows over the whole ensemble; it is never negative.
            term: Term(u64::try_from(stat.czxid).unwrap_or_default()),
            client,
        })
    }

    fn described(&self) -> MutexGuard<'_, Described> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One session, until it is over or the candidate resigns.
    async fn attend(&self, mut node: Node) {
        let stop = self.stop.clone();
        let first = stop.run_until_cancelled(self.queue_up(&mut node)).await;
        match first {
            Some(Ok(Some(sent))) => self.lead(&mut node, sent).await,
            Some(Ok(None)) | None => {}
            Some(Err(error)) => {
                tracing::warn!(role = %self.paths.role, %error, "left the queue, joining again")
            }
        }
        // The loser is told first, then the place is given up.
        self.standing.lose();
        *self.leading.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.described().node = None;
        if node.state.peek_state() == SessionState::SyncConnected {
            self.give_up(&node).await;
        }
    }

    /// Waits to be the first; nothing when the node or the session is gone.
    async fn queue_up(&self, node: &mut Node) -> Result<Option<Instant>, MembershipError> {
        loop {
            let before = match self.look(node).await? {
                Queue::First(sent) => return Ok(Some(sent)),
                Queue::Gone => return Ok(None),
                Queue::Behind(before) => before,
            };
            let watching = node.client.check_and_watch_stat(&before);
            let (stat, watcher) = self
                .servers
                .answered("watch the candidate before", watching)
                .await?;
            if stat.is_none() {
                continue;
            }
            let changed = watcher.changed();
            tokio::select! {
                _ = changed => {}
                now = node.state.changed() => if now.is_terminated() { return Ok(None) },
                // Also notices that the own node is gone.
                () = sleep(self.servers.timeouts.session()) => {}
            }
        }
    }

    async fn look(&self, node: &Node) -> Result<Queue, MembershipError> {
        let folder = self.paths.candidates();
        let sent = Instant::now();
        let listing = node.client.list_children(&folder);
        let names = self.servers.answered("look at the queue", listing).await?;
        let numbered = names.iter().filter_map(|name| Some((sequence(name)?, name)));
        let (mut is_there, mut before) = (false, None);
        for (number, name) in numbered {
            is_there |= number == node.number;
            if number < node.number {
                before = before.max(Some((number, name)));
            }
        }
        Ok(match before {
            _ if !is_there => Queue::Gone,
            None => Queue::First(sent),
            Some((_, name)) => Queue::Behind(format!("{folder}/{name}")),
        })
    }

    /// Leads until the lease is over, the node is gone, the session is, or the candidate resigns.
    async fn lead(&self, node: &mut Node, mut proven: Instant) {
        let timeouts = self.servers.timeouts.granted(node.client.session_timeout());
        let (lease, pause) = (timeouts.lease(), timeouts.confirm());
        let place = Place {
            client: node.client.clone(),
            path: node.path.clone(),
            term: node.term,
        };
        *self.leading.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        self.standing.lead(node.term, Some(proven + lease));
        let mut ask_at = proven + pause;
        loop {
            let proof = async {
                sleep_until(ask_at).await;
                let sent = Instant::now();
                (sent, node.client.check_stat(&node.path).await)
            };
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = sleep_until(proven + lease) => return,
                now = node.state.changed() => match now {
                    SessionState::SyncConnected => ask_at = Instant::now(),
                    now if now.is_terminated() => return,
                    _ => self.standing.suspend(),
                },
                (sent, answer) = proof => match answer {
                    Ok(Some(_)) => {
                        proven = sent;
                        ask_at = sent + pause;
                        self.standing.lead(node.term, Some(proven + lease));
                    }
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(role = %self.paths.role, %error, "leadership is in doubt, acting no more");
                        self.standing.suspend();
                        ask_at = Instant::now() + pause;
                    }
                },
            }
        }
    }

    /// Lets others lead at once. Fails silently: the session ends next, and the node with it.
    async fn give_up(&self, node: &Node) {
        let leader = self.paths.leader();
        let letting_go = async {
            if let Some(stat) = node.client.check_stat(&leader).await?
                && stat.ephemeral_owner == node.client.session_id().0
            {
                node.client.delete(&leader, None).await?;
            }
            node.client.delete(&node.path, None).await
        };
        if let Err(error) = self.servers.answered("leave the queue", letting_go).await {
            tracing::debug!(role = %self.paths.role, %error, "the session's end will leave the queue");
        }
    }
}
