//! Calls in order, on one connection of their own, one at a time (R11): the next leaves when the one before was answered.
//! Acknowledgements need no order and go beside them. A good answer means taken in, not done (R12), and is not told to
//! anybody.

use crate::agents::{self, Answers};
use crate::config::Config;
use crate::dial::Dial;
use crate::flags;
use crate::http::{Channel, HttpError, text};
use crate::master::Endpoint;
use crate::open::request;
use crate::operator::{self, Aside};
use crate::outgoing::Outgoing;
use bytes::Bytes;
use echelon_core_hosts::{Call, Event};
use echelon_proto::convert::mesos::call_to_wire;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use prost::Message as _;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::time::timeout;

/// What the master says to a stale stream id (R29), and to a framework that it does not know (R30, R118).
const STALE: &str = "didn't match the stream ID";
const UNKNOWN_FRAMEWORK: &str = "Framework cannot be found";
const NOT_SUBSCRIBED: &str = "Framework is not subscribed";

/// What became of a call, where that is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// A call of the operator API was carried out, or there was nothing to do.
    Done,
    /// The answer to one.
    Told(Event),
    /// One was not answered, or not with what was asked for; the subscription is not touched by it.
    Failed {
        /// Why.
        why: String,
        /// Whether the master certainly did not take the call in.
        refused: bool,
    },
    /// Refused as it stands; the subscription is not touched by it.
    Refused(String),
    /// A newer subscription of the framework took over.
    Superseded(String),
    /// The subscription is of no use any more.
    Lost {
        /// Why.
        why: String,
        /// Whether the master certainly did not take the call in.
        refused: bool,
    },
}

/// Who is called, and how.
pub struct Line {
    /// Opens connections.
    pub dial: Arc<dyn Dial>,
    /// Bounds and framework.
    pub config: Arc<Config>,
    /// The leading master.
    pub endpoint: Endpoint,
    /// The stream that calls belong to.
    pub stream_id: String,
    /// Our framework id.
    pub framework: String,
}

type Answer = Pin<Box<dyn Future<Output = (Option<Channel>, Option<Fate>)> + Send>>;

/// Connections for acknowledgements. With one, a master half a millisecond away would take in 2,000 a second.
const ACKNOWLEDGERS: usize = 8;

/// Agents that are asked at a time: one that does not answer delays no more than a few.
const AGENTS: usize = 8;

/// The calls of one subscription.
pub struct Caller {
    line: Arc<Line>,
    /// Calls whose order matters (R11).
    ordered: Lane,
    /// Acknowledgements: of one task there is never more than one, so their order does not matter.
    acknowledgers: [Lane; ACKNOWLEDGERS],
    /// Calls of the operator API: the answer to one may be long, and nothing else waits for it.
    operator: Lane,
    /// Questions to agents, each on a connection of its own.
    agents: [Lane; AGENTS],
}

/// Calls on one connection, one at a time.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Outgoing>,
    under_way: Option<(Outgoing, Answer)>,
    channel: Option<Channel>,
}

impl Caller {
    /// No calls yet; connections are opened with the first of each.
    pub fn new(line: Arc<Line>) -> Self {
        Self {
            line,
            ordered: Lane::default(),
            acknowledgers: std::array::from_fn(|_| Lane::default()),
            operator: Lane::default(),
            agents: std::array::from_fn(|_| Lane::default()),
        }
    }

    /// Puts a call at the end of its queue.
    pub fn push(&mut self, outgoing: Outgoing) {
        let call = &outgoing.call;
        let lane = match call {
            Call::Acknowledge { .. } => self.acknowledgers.iter_mut().min_by_key(|lane| lane.load()),
            Call::ReadFlags { .. } => self.agents.iter_mut().min_by_key(|lane| lane.load()),
            _ if call.is_operator() => Some(&mut self.operator),
            _ => None,
        };
        lane.unwrap_or(&mut self.ordered).waiting.push_back(outgoing);
    }

    /// How many wait for those under way.
    pub fn waiting(&self) -> usize {
        self.lanes().map(|lane| lane.waiting.len()).sum()
    }

    /// Makes calls until one is not taken in. `None`: no longer `most` wait, so that more may come. Nothing is lost when this is
    /// dropped before it is done.
    pub async fn next(&mut self, most: usize) -> Option<(Call, Fate)> {
        let was_full = self.waiting() >= most;
        poll_fn(|context| {
            let Self {
                ordered,
                acknowledgers,
                operator,
                agents,
                ..
            } = self;
            let lanes = [ordered, operator].into_iter().chain(acknowledgers);
            for lane in lanes.chain(agents) {
                if let Poll::Ready(told) = lane.poll(&self.line, context) {
                    return Poll::Ready(Some(told));
                }
            }
            if was_full && self.waiting() < most {
                return Poll::Ready(None);
            }
            Poll::Pending
        })
        .await
    }

    /// The calls that were not answered, in order, and whether they certainly did not leave.
    pub fn unanswered(self) -> impl Iterator<Item = (Call, bool)> {
        let lanes = [self.ordered, self.operator]
            .into_iter()
            .chain(self.acknowledgers)
            .chain(self.agents);
        lanes.flat_map(|lane| {
            let under_way = lane.under_way.map(|(outgoing, _)| (outgoing.call, false));
            under_way
                .into_iter()
                .chain(lane.waiting.into_iter().map(|outgoing| (outgoing.call, true)))
        })
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.ordered, &self.operator]
            .into_iter()
            .chain(&self.acknowledgers)
            .chain(&self.agents)
    }
}

impl Lane {
    fn load(&self) -> usize {
        self.waiting.len() + usize::from(self.under_way.is_some())
    }

    fn poll(&mut self, line: &Arc<Line>, context: &mut Context<'_>) -> Poll<(Call, Fate)> {
        loop {
            let Some((_, answer)) = &mut self.under_way else {
                let Some(outgoing) = self.waiting.pop_front() else {
                    return Poll::Pending;
                };
                let answer = make(Arc::clone(line), self.channel.take(), outgoing.call.clone());
                self.under_way = Some((outgoing, Box::pin(answer)));
                continue;
            };
            let (channel, fate) = ready!(answer.as_mut().poll(context));
            self.channel = channel;
            if let Some((outgoing, _)) = self.under_way.take()
                && let Some(fate) = fate
            {
                return Poll::Ready((outgoing.call, fate));
            }
        }
    }
}

async fn make(line: Arc<Line>, channel: Option<Channel>, call: Call) -> (Option<Channel>, Option<Fate>) {
    if let Call::ReadFlags { host, address } = call {
        return (None, Some(flags::ask(&line, host, &address).await));
    }
    let request = outgoing(&line, &call);
    // A connection that the master closed while nothing was under way is opened again: the order of calls is kept.
    let mut old = channel.filter(|c| !c.is_closed());
    loop {
        let reused = old.is_some();
        match send(&line, &call, old.take(), request.clone()).await {
            Ok((channel, Said::Words(status, said))) => {
                return (Some(channel), fate(&line, &call, status, &said));
            }
            Ok((channel, Said::Told(fate))) => return (Some(channel), Some(fate)),
            Err(HttpError::NotSent) if reused => {}
            Err(error) => {
                let why = format!("{}: {}", line.endpoint, error.chain());
                let refused = !error.may_have_arrived();
                let fate = if call.is_operator() {
                    Fate::Failed { why, refused }
                } else {
                    Fate::Lost { why, refused }
                };
                return (None, Some(fate));
            }
        }
    }
}

/// A call as a request to the API that it belongs to.
fn outgoing(line: &Line, call: &Call) -> Request<Full<Bytes>> {
    let (config, endpoint) = (&line.config, &line.endpoint);
    let stream_id = Some(line.stream_id.as_str());
    match call_to_wire(call, &config.framework, Some(&line.framework)) {
        Some(wire) => {
            let body = wire.encode_to_vec().into();
            request(config, endpoint, stream_id, body)
        }
        None => operator::request(config, endpoint, call),
    }
}

/// An answer.
enum Said {
    /// A sentence.
    Words(StatusCode, String),
    /// What was asked for, or why it cannot be read.
    Told(Fate),
}

async fn send(
    line: &Line,
    call: &Call,
    channel: Option<Channel>,
    request: Request<Full<Bytes>>,
) -> Result<(Channel, Said), HttpError> {
    let timing = &line.config.timing;
    let mut channel = match channel {
        Some(channel) => channel,
        None => Channel::connect(line.dial.as_ref(), line.endpoint.authority(), timing.connect).await?,
    };
    let answer = channel.send(request, timing.answer).await?;
    let status = answer.status();
    if *call == Call::ListAgents && status.is_success() {
        let listed = match whole(line, answer.into_body()).await {
            Ok(agents) => {
                let answers = Answers {
                    agents,
                    quota: beside(line, &mut channel, Aside::Quota).await,
                    schedule: beside(line, &mut channel, Aside::Schedule).await,
                };
                read_list(line, answers).await
            }
            Err(why) => Err(why),
        };
        let failed = |why: String| Fate::Failed {
            why: format!("{}: the list of all agents: {why}", line.endpoint),
            refused: false,
        };
        return Ok((channel, Said::Told(listed.map_or_else(failed, Fate::Told))));
    }
    let said = text(answer.into_body(), timing.connect).await;
    Ok((channel, Said::Words(status, said)))
}

/// The answer to a question beside the list of agents. `None`: the master does not tell us, and the list is
/// of use without it.
async fn beside(line: &Line, channel: &mut Channel, of: Aside) -> Option<Bytes> {
    let request = operator::request_aside(&line.config, &line.endpoint, of);
    let answer = channel.send(request, line.config.timing.answer).await.ok()?;
    let told = answer.status().is_success();
    let body = whole(line, answer.into_body()).await.ok()?;
    told.then_some(body)
}

/// Reads a list of agents. It may have many megabytes, so it is read beside the loop.
async fn read_list(line: &Line, answers: Answers<Bytes>) -> Result<Event, String> {
    let role = line.config.framework.role.clone();
    let read = tokio::task::spawn_blocking(move || agents::read(&answers, &role));
    read.await.map_err(|e| e.to_string())?
}

async fn whole(line: &Line, body: Incoming) -> Result<Bytes, String> {
    let config = &line.config;
    let whole = Limited::new(body, config.limits.event_bytes).collect();
    let whole = timeout(config.timing.answer, whole).await;
    let late = |_| format!("it did not come within {:?}", config.timing.answer);
    Ok(whole.map_err(late)?.map_err(|e| e.to_string())?.to_bytes())
}

fn fate(line: &Line, call: &Call, status: StatusCode, said: &str) -> Option<Fate> {
    let why = format!("{}: {} {said}", line.endpoint, status.as_u16());
    let lost = |refused| {
        Some(Fate::Lost {
            why: why.clone(),
            refused,
        })
    };
    match status.as_u16() {
        200..=299 if call.is_operator() => Some(Fate::Done),
        // The agent is not drained, or not known any more: nothing is left to be offered again.
        400 | 404 if matches!(call, Call::ReactivateAgent { .. }) => Some(Fate::Done),
        200..=299 => None,
        // It needs a permission of its own, and says nothing about the subscription.
        400..=499 | 501 if call.is_operator() => Some(Fate::Refused(why)),
        _ if call.is_operator() => Some(Fate::Failed { why, refused: true }),
        400 if said.contains(STALE) => Some(Fate::Superseded(why)),
        // The only call that needs an authorization of its own (R55).
        403 if *call == Call::UpdateFramework && !said.contains(NOT_SUBSCRIBED) => Some(Fate::Refused(why)),
        // Not subscribed, not trusted or not the leader any more: what follows would be refused as well.
        400 if said.contains(UNKNOWN_FRAMEWORK) => lost(true),
        401 | 403 | 307 | 503 => lost(true),
        400..=499 => Some(Fate::Refused(why)),
        _ => lost(false),
    }
}
