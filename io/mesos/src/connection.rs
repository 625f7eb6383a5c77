//! The connection of a shard to its cluster: one task that opens streams when it is told to, reads always, calls in order,
//! and passes on what it hears.

use crate::caller::{Caller, Fate, Line};
use crate::config::Config;
use crate::dial::{Dial, Tcp};
use crate::leaders::{Choice, Following, Leader, Leaders};
use crate::master::Endpoint;
use crate::open::{OpenError, Session, open};
use crate::outbox::Outbox;
use crate::outgoing::Outgoing;
use crate::stream::{EventStream, StreamEnd};
use echelon_core_hosts::{Call, Event, Refusal};
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Speaks with a cluster's masters until the sender of `calls` or the receiver of `events` is dropped; then the stream is
/// closed at once, and nothing more is said.
///
/// `Call::Subscribe` opens the stream, in place of one that is open. After `Disconnected` and `Refused` nothing happens until
/// the next one; a row of them is slowed down here, with jitter. A call that cannot be made, or whose outcome is unknown, comes
/// back as `CallFailed`; when its loss means that the order of calls is lost too, `Disconnected` follows.
pub fn spawn<C: Into<Outgoing> + Send + 'static>(
    config: Config,
    calls: mpsc::Receiver<C>,
    events: mpsc::Sender<Event>,
) -> JoinHandle<()> {
    spawn_over(Arc::new(Tcp), config, calls, events)
}

/// The same over another network.
pub fn spawn_over<C: Into<Outgoing> + Send + 'static>(
    dial: Arc<dyn Dial>,
    config: Config,
    calls: mpsc::Receiver<C>,
    events: mpsc::Sender<Event>,
) -> JoinHandle<()> {
    let leaders = Leaders::of(&config.masters, config.seed);
    spawn_at(leaders, dial, config, (calls, events))
}

/// The same with masters found in another way.
pub(crate) fn spawn_at<C: Into<Outgoing> + Send + 'static>(
    leaders: Leaders,
    dial: Arc<dyn Dial>,
    config: Config,
    (calls, events): (mpsc::Receiver<C>, mpsc::Sender<Event>),
) -> JoinHandle<()> {
    let connection = Connection {
        dial,
        leaders,
        random: SmallRng::seed_from_u64(config.seed),
        config: Arc::new(config),
        events,
        outbox: Outbox::default(),
        state: State::Idle,
        last: None,
        failures: 0,
    };
    tokio::spawn(connection.run(calls))
}

type Opening = Pin<Box<dyn Future<Output = Result<(Session, Following), OpenError>> + Send>>;

enum State {
    Idle,
    Opening(Opening),
    Open(Box<Open>),
}

/// An open stream. Calls can be made once it has told our framework id.
struct Open {
    endpoint: Endpoint,
    following: Following,
    stream_id: String,
    stream: EventStream,
    caller: Option<Caller>,
}

/// What happened next.
enum Next {
    Call(Option<Outgoing>),
    Opened(Box<Result<(Session, Following), OpenError>>),
    Heard(Result<Event, StreamEnd>),
    Replaced(Leader),
    Told(Call, Fate),
    Room(bool),
}

struct Connection {
    dial: Arc<dyn Dial>,
    config: Arc<Config>,
    leaders: Leaders,
    events: mpsc::Sender<Event>,
    /// Events that their reader has no room for yet.
    outbox: Outbox,
    state: State,
    /// The master that led last; of a list it is asked first.
    last: Option<Endpoint>,
    /// Attempts in a row without a subscription.
    failures: u32,
    random: SmallRng,
}

impl Connection {
    async fn run<C: Into<Outgoing>>(mut self, mut calls: mpsc::Receiver<C>) {
        loop {
            match self.next(&mut calls).await {
                Next::Call(None) | Next::Room(false) => return,
                Next::Call(Some(call)) => self.on_call(call),
                Next::Opened(result) => match *result {
                    Ok((session, following)) => self.on_opened(session, following),
                    Err(OpenError::NoLeader(why)) => self.lost(why),
                    Err(OpenError::Refused(message)) => self.refused(message, Refusal::Wrong),
                },
                Next::Heard(Ok(event)) => self.on_heard(event),
                Next::Heard(Err(end)) => self.lost(end.to_string()),
                Next::Replaced(by) => {
                    self.lost(format!("another master leads, says ZooKeeper: {}", by.endpoint))
                }
                Next::Told(call, fate) => self.on_fate(call, fate),
                Next::Room(true) => {}
            }
            if !self.outbox.pass_on(&self.events) {
                return;
            }
        }
    }

    async fn next<C: Into<Outgoing>>(&mut self, calls: &mut mpsc::Receiver<C>) -> Next {
        let Self {
            state,
            events,
            outbox,
            config,
            ..
        } = self;
        let waiting = match state {
            State::Open(open) => open.caller.as_ref().map_or(0, Caller::waiting),
            _ => 0,
        };
        tokio::select! {
            call = calls.recv(), if waiting < config.limits.calls => Next::Call(call.map(Into::into)),
            permit = events.reserve(), if !outbox.is_empty() => match permit {
                Ok(permit) => {
                    if let Some(event) = outbox.pop() {
                        permit.send(event);
                    }
                    Next::Room(true)
                }
                Err(_) => Next::Room(false),
            },
            () = events.closed() => Next::Room(false),
            next = progress(state, config.limits.calls) => next,
        }
    }

    fn on_call(&mut self, outgoing: Outgoing) {
        if let Call::Subscribe { framework } = &outgoing.call {
            self.close();
            self.state = State::Opening(self.opening(framework.clone()));
            return;
        }
        match self.caller() {
            Some(caller) => caller.push(outgoing),
            None => self.outbox.push(Event::CallFailed {
                call: outgoing.call,
                why: "there is no subscription".to_owned(),
                refused: true,
            }),
        }
    }

    fn caller(&mut self) -> Option<&mut Caller> {
        match &mut self.state {
            State::Open(open) => open.caller.as_mut(),
            State::Idle | State::Opening(_) => None,
        }
    }

    fn opening(&mut self, framework: Option<String>) -> Opening {
        let wait = self.wait();
        let (dial, config) = (Arc::clone(&self.dial), Arc::clone(&self.config));
        let (mut leaders, last) = (self.leaders.clone(), self.last.clone());
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            loop {
                let chosen = leaders.choose(last.as_ref(), config.timing.leader).await;
                let Choice { endpoints, leader } = chosen.map_err(OpenError::NoLeader)?;
                // A dead master may keep us waiting long after another was elected.
                let opened = tokio::select! {
                    opened = open(dial.as_ref(), &config, &endpoints, framework.clone()) => opened,
                    _ = leaders.other_than(leader.as_ref()) => continue,
                };
                return opened.map(|session| (session, Following { leaders, leader }));
            }
        })
    }

    /// None before the first attempt in a row.
    fn wait(&mut self) -> Duration {
        let timing = &self.config.timing;
        let Some(doublings) = self.failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let bound = timing.first_wait.saturating_mul(1 << doublings.min(16));
        bound
            .min(timing.longest_wait)
            .mul_f64(self.random.random_range(0.0..=1.0))
    }

    fn on_opened(&mut self, session: Session, following: Following) {
        let Session {
            endpoint,
            stream_id,
            stream,
        } = session;
        self.state = State::Open(Box::new(Open {
            endpoint,
            following,
            stream_id,
            stream,
            caller: None,
        }));
    }

    fn on_heard(&mut self, event: Event) {
        match event {
            Event::Refused { message, cause } => return self.refused(message, cause),
            Event::Subscribed { ref framework, .. } => self.on_subscribed(framework.clone()),
            _ => {}
        }
        self.outbox.push(event);
        let most = self.config.limits.events;
        if self.outbox.is_over(most) {
            self.lost(format!(
                "more than {most} events wait to be taken in; the stream is dropped rather than left unread"
            ));
        }
    }

    fn on_subscribed(&mut self, framework: String) {
        self.failures = 0;
        let State::Open(open) = &mut self.state else {
            return;
        };
        let Open {
            endpoint,
            stream_id,
            caller,
            ..
        } = open.as_mut();
        if caller.is_some() {
            return;
        }
        tracing::info!(master = %endpoint, framework, "subscribed");
        self.last = Some(endpoint.clone());
        let line = Line {
            dial: Arc::clone(&self.dial),
            config: Arc::clone(&self.config),
            endpoint: endpoint.clone(),
            stream_id: stream_id.clone(),
            framework,
        };
        *caller = Some(Caller::new(Arc::new(line)));
    }

    fn on_fate(&mut self, call: Call, fate: Fate) {
        let (why, refused) = match &fate {
            Fate::Done => return self.outbox.push(Event::Operated(call)),
            Fate::Told(event) => return self.outbox.push(event.clone()),
            Fate::Refused(why) if call == Call::ListAgents => {
                return self.outbox.push(Event::Unlisted { why: why.clone() });
            }
            Fate::Failed { why, refused } => (why.clone(), *refused),
            Fate::Refused(why) | Fate::Superseded(why) => (why.clone(), true),
            Fate::Lost { why, refused } => (why.clone(), *refused),
        };
        let failed = Event::CallFailed {
            call,
            why: why.clone(),
            refused,
        };
        self.outbox.push(failed);
        match fate {
            Fate::Done | Fate::Told(_) => {}
            Fate::Failed { .. } => tracing::warn!(why, "a call of the operator API failed"),
            Fate::Refused(_) => tracing::warn!(why, "a call was refused"),
            Fate::Superseded(_) => self.refused(why, Refusal::Superseded),
            Fate::Lost { .. } => self.lost(format!("a call was lost: {why}")),
        }
    }

    fn lost(&mut self, why: String) {
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(why, "no subscription");
        self.close();
        self.outbox.push(Event::Disconnected { why });
    }

    fn refused(&mut self, message: String, cause: Refusal) {
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(message, ?cause, "the subscription was refused");
        self.close();
        self.outbox.push(Event::Refused { message, cause });
    }

    /// Closes the stream. Calls without an answer are told: one may be under way, the others did not leave.
    fn close(&mut self) {
        let State::Open(open) = std::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        if let Some(caller) = open.caller {
            let failed = caller.unanswered().map(|(call, refused)| Event::CallFailed {
                call,
                why: "the subscription ended before an answer".to_owned(),
                refused,
            });
            failed.for_each(|event| self.outbox.push(event));
        }
    }
}

/// What the state waits for; with as many calls waiting as may, also that there is room again.
async fn progress(state: &mut State, most_calls: usize) -> Next {
    match state {
        State::Idle => pending().await,
        State::Opening(opening) => Next::Opened(Box::new(opening.await)),
        State::Open(open) => {
            let Open {
                stream,
                caller,
                following,
                ..
            } = open.as_mut();
            let told = async {
                match caller {
                    Some(caller) => caller.next(most_calls).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                heard = stream.next() => Next::Heard(heard),
                told = told => told.map_or(Next::Room(true), |(call, fate)| Next::Told(call, fate)),
                by = following.leaders.other_than(following.leader.as_ref()) => Next::Replaced(by),
            }
        }
    }
}
