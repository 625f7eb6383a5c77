//! The flags of an agent, asked by its operator API (GET_FLAGS), of which only times are used. In JSON, the
//! form in which a real agent was seen to answer.

use crate::caller::{Fate, Line};
use crate::http::{Channel, text};
use crate::master::Endpoint;
use crate::operator;
use bytes::Bytes;
use echelon_core_hosts::Event;
use echelon_core_model::HostId;
use echelon_core_model::gone::AgentTimes;
use echelon_proto::convert::mesos::agent_times;
use echelon_proto::mesos::v1::Flag;
use echelon_proto::mesos::v1::agent::response::GetFlags;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::timeout;

/// Longest answer. That of a usual agent has some 10 KiB.
const MOST_BYTES: usize = 1024 * 1024;

/// Asks the agent at this address; the answer is about `host`.
pub async fn ask(line: &Line, host: HostId, address: &str) -> Fate {
    match told(line, address).await {
        Ok(times) => Fate::Told(Event::Flags { host, times }),
        Err(why) => Fate::Failed {
            why: format!("agent {address}: its flags: {why}"),
            refused: false,
        },
    }
}

async fn told(line: &Line, address: &str) -> Result<AgentTimes, String> {
    let within = line.config.timing.connect;
    let agent: Endpoint = address.parse().map_err(|_| "this is no address".to_owned())?;
    let request = operator::request_flags(&line.config, &agent);
    let channel = Channel::connect(line.dial.as_ref(), agent.authority(), within).await;
    let mut channel = channel.map_err(|error| error.chain())?;
    // It answers from its memory.
    let answer = channel
        .send(request, within)
        .await
        .map_err(|error| error.chain())?;
    let status = answer.status();
    if !status.is_success() {
        let said = text(answer.into_body(), within).await;
        return Err(format!("{} {said}", status.as_u16()));
    }
    let body = timeout(within, whole(answer.into_body())).await;
    read(&body.map_err(|_| format!("they did not come within {within:?}"))??)
}

async fn whole(body: Incoming) -> Result<Bytes, String> {
    let whole = Limited::new(body, MOST_BYTES).collect().await;
    whole
        .map(|body| body.to_bytes())
        .map_err(|error| error.to_string())
}

/// Reads the answer of an agent.
///
/// # Errors
/// What is wrong with it, for people.
pub fn read(body: &[u8]) -> Result<AgentTimes, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let flags = answer.get_flags.ok_or("the answer has no `get_flags`")?.flags;
    let flags = flags
        .into_iter()
        .map(|Named { name, value }| Flag { name, value });
    Ok(agent_times(&GetFlags {
        flags: flags.collect(),
    }))
}

#[derive(Deserialize)]
struct Answer {
    get_flags: Option<Flags>,
}

#[derive(Deserialize)]
struct Flags {
    #[serde(default)]
    flags: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    value: Option<String>,
}
