//! Calls of the operator API. In JSON, the form in which a real master was seen to take them: the numbers of their fields in protobuf
//! are in no recording.

use crate::config::Config;
use crate::master::Endpoint;
use crate::open::post;
use bytes::Bytes;
use echelon_core_hosts::Call;
use echelon_core_model::HostId;
use http::Request;
use http_body_util::Full;
use serde_json::json;

const JSON: &str = "application/json";

/// What is asked beside the list of all agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aside {
    /// The limits of all roles.
    Quota,
    /// The planned maintenance of all machines.
    Schedule,
}

/// A question beside the list of all agents as a request.
pub fn request_aside(config: &Config, endpoint: &Endpoint, of: Aside) -> Request<Full<Bytes>> {
    let kind = match of {
        Aside::Quota => "GET_QUOTA",
        Aside::Schedule => "GET_MAINTENANCE_SCHEDULE",
    };
    to_operator(config, endpoint, json!({"type": kind}).to_string())
}

/// The question for the flags of an agent as a request to it.
pub fn request_flags(config: &Config, agent: &Endpoint) -> Request<Full<Bytes>> {
    to_operator(config, agent, json!({"type": "GET_FLAGS"}).to_string())
}

/// A call of the operator API as a request.
pub fn request(config: &Config, endpoint: &Endpoint, call: &Call) -> Request<Full<Bytes>> {
    to_operator(config, endpoint, body(call).unwrap_or_default())
}

fn to_operator(config: &Config, endpoint: &Endpoint, body: String) -> Request<Full<Bytes>> {
    let credential = config.operator.as_ref().or(config.credential.as_ref());
    let what = (endpoint.operator_path(), JSON);
    post(endpoint, credential, what, &[], body.into())
}

fn body(call: &Call) -> Option<String> {
    let agent = |host: &HostId| json!({"agent_id": {"value": host.as_str()}});
    let body = match call {
        // Nothing of ours is there any more: others get the grace that their tasks ask for.
        Call::DrainAgent { host } => json!({"type": "DRAIN_AGENT", "drain_agent": agent(host)}),
        Call::ReactivateAgent { host } => {
            json!({"type": "REACTIVATE_AGENT", "reactivate_agent": agent(host)})
        }
        Call::ListAgents => json!({"type": "GET_AGENTS"}),
        _ => return None,
    };
    Some(body.to_string())
}
