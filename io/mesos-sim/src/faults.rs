//! `POST /sim/v1/faults`: a tester's wishes as JSON. No Mesos master has this path; what each fault does is decided in
//! `sim/mesos`.

use crate::codec::Encoding;
use crate::engine::Engine;
use crate::http::{Answer, Refusal, body, header_text, text};
use crate::server;
use echelon_sim_mesos::{AgentId, Bundle, Fault, Registry, Span, Tasks, Updates};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use std::sync::Arc;

pub(crate) const PATH: &str = "/sim/v1/faults";

/// One fault. Agents go by id or host name.
#[derive(Debug, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case", deny_unknown_fields)]
enum Asked {
    AgentLost {
        agent: String,
        /// Its tasks live on and wait for it.
        #[serde(default)]
        tasks_live: bool,
    },
    AgentPartitioned {
        agent: String,
    },
    AgentReturned {
        agent: String,
    },
    /// A host joins; it is like the cluster's first one.
    AgentJoined {
        hostname: String,
    },
    MasterFailover {
        registry: AskedRegistry,
        /// How long the next master answers 503.
        #[serde(default)]
        recovery_ms: u64,
    },
    /// What the agent's estimator lends from now on; its QoS controller ends what runs on more.
    Lent {
        agent: String,
        cpus: u64,
        #[serde(default)]
        memory_mib: u64,
    },
    /// An agent drops each task that comes from now on, with this message; without one it starts them again.
    StartsFail {
        agent: String,
        message: Option<String>,
    },
    RescindAll {},
    Updates {
        #[serde(default)]
        delay_ms: u64,
        #[serde(default)]
        jitter_ms: u64,
        #[serde(default)]
        twice_per_mille: u64,
    },
    Stall {
        ms: u64,
    },
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AskedRegistry {
    Kept,
    Fresh,
}

/// Answers one request.
pub(crate) async fn handle(engine: &Arc<Engine>, request: Request<Incoming>) -> Answer {
    match inject(engine, request).await {
        Ok(()) => text(StatusCode::OK, ""),
        Err(refusal) => refusal.answer(),
    }
}

async fn inject(engine: &Arc<Engine>, request: Request<Incoming>) -> Result<(), Refusal> {
    if request.method() != Method::POST {
        let words = format!("{PATH} takes POST");
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, words));
    }
    // A page in a browser cannot send this type without asking first.
    let content_type = header_text(&request, "content-type").and_then(Encoding::of);
    if content_type != Some(Encoding::Json) {
        let words = "a fault is sent as application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let body = body(request).await?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|e| Refusal::bad(format!("no fault: {e}")))?;
    match wish(engine, asked) {
        Wish::Fault(fault) => {
            tracing::warn!(?fault, "a tester asks for a fault");
            let done = engine.with(|cluster, now| cluster.inject(fault, now));
            done.map_err(|unknown| Refusal::new(StatusCode::NOT_FOUND, unknown.to_string()))
        }
        Wish::Join(hostname) => {
            let joined = server::join(engine, hostname).await;
            joined.map_err(|e| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
        }
    }
}

/// What a tester wants.
enum Wish {
    Fault(Fault),
    /// A host of this name.
    Join(String),
}

fn wish(engine: &Engine, asked: Asked) -> Wish {
    let agent = |name: String| {
        engine
            .view(|cluster| cluster.find_agent(&name))
            .unwrap_or(AgentId::new(name))
    };
    Wish::Fault(match asked {
        Asked::AgentJoined { hostname } => return Wish::Join(hostname),
        Asked::AgentLost {
            agent: name,
            tasks_live,
        } => {
            let tasks = if tasks_live { Tasks::Live } else { Tasks::Die };
            Fault::AgentLost(agent(name), tasks)
        }
        Asked::AgentPartitioned { agent: name } => Fault::AgentPartitioned(agent(name)),
        Asked::AgentReturned { agent: name } => Fault::AgentReturned(agent(name)),
        Asked::MasterFailover {
            registry,
            recovery_ms,
        } => {
            let registry = match registry {
                AskedRegistry::Kept => Registry::Kept,
                AskedRegistry::Fresh => Registry::Fresh,
            };
            Fault::MasterFailover(registry, Span(recovery_ms))
        }
        Asked::Lent {
            agent: name,
            cpus,
            memory_mib,
        } => Fault::Lent(agent(name), Bundle::of(cpus, memory_mib, 0)),
        Asked::StartsFail { agent: name, message } => Fault::StartsFail(agent(name), message),
        Asked::RescindAll {} => Fault::RescindAll,
        Asked::Updates {
            delay_ms,
            jitter_ms,
            twice_per_mille,
        } => Fault::Updates(Updates {
            delay: Span(delay_ms),
            jitter: Span(jitter_ms),
            twice: twice_per_mille,
        }),
        Asked::Stall { ms } => Fault::Stall(Span(ms)),
    })
}
