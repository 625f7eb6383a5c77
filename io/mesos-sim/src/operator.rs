//! The master's other paths: operator calls at `/api/v1`, `/master/teardown`, `/redirect`, `/health`.

use crate::authentication::Credentials;
use crate::codec::{self, Encoding};
use crate::engine::Engine;
use crate::faults;
use crate::http::{Answer, Refusal, body, bytes, header_text, text};
use crate::scheduler;
use echelon_proto::mesos::v1::master::{Call, Response, call, response};
use echelon_sim_mesos::{Accept, Cluster, FrameworkId};
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use std::sync::Arc;

/// Answers one request to the master's port.
pub(crate) async fn handle(
    engine: Arc<Engine>,
    (frameworks, operators): (Arc<Credentials>, Arc<Credentials>),
    request: Request<Incoming>,
) -> Answer {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/api/v1/scheduler" | "/master/api/v1/scheduler" => {
            scheduler::handle(engine, frameworks, request).await
        }
        "/master/teardown" | "/teardown" => teardown(&engine, request).await,
        "/redirect" | "/master/redirect" => scheduler::plain(&engine.view(Cluster::redirect)),
        "/health" | "/master/health" => text(StatusCode::OK, ""),
        faults::PATH => faults::handle(&engine, request).await,
        // The longest known prefix decides, so that a misspelt path lands here (rule R1).
        path if path.starts_with("/api/v1") || path.starts_with("/master/api/v1") => {
            match operators.principal(header_text(&request, "authorization")) {
                Ok(_) => operate(&engine, request).await,
                Err(refusal) => refusal.answer(),
            }
        }
        _ => text(StatusCode::NOT_FOUND, ""),
    }
}

async fn teardown(engine: &Arc<Engine>, request: Request<Incoming>) -> Answer {
    let body = match body(request).await {
        Ok(body) => body,
        Err(refusal) => return refusal.answer(),
    };
    let form = String::from_utf8_lossy(&body).into_owned();
    let Some(id) = form.split('&').find_map(|pair| pair.strip_prefix("frameworkId=")) else {
        return text(StatusCode::BAD_REQUEST, "Missing 'frameworkId' query parameter");
    };
    let id = FrameworkId::new(id);
    if engine.with(|cluster, now| cluster.teardown(&id, now)) {
        text(StatusCode::OK, "")
    } else {
        text(StatusCode::BAD_REQUEST, "No framework found with specified ID")
    }
}

async fn operate(engine: &Arc<Engine>, request: Request<Incoming>) -> Answer {
    match answered(engine, request).await {
        Ok((Some(response), encoding)) => {
            let body = codec::write(&response, encoding, "mesos.v1.master.Response");
            bytes(StatusCode::OK, body, encoding.content_type())
        }
        Ok((None, _)) => text(StatusCode::OK, ""),
        Err(refusal) => refusal.answer(),
    }
}

async fn answered(
    engine: &Arc<Engine>,
    request: Request<Incoming>,
) -> Result<(Option<Response>, Encoding), Refusal> {
    let (sent, wanted) = encodings(&request)?;
    let body = body(request).await?;
    let call = codec::read::<Call>(&body, sent, "mesos.v1.master.Call");
    let call = call.map_err(|malformed| Refusal::bad(malformed.0))?;
    Ok((act(engine, &call)?, wanted))
}

/// The encodings of an operator request and of its answer.
pub(crate) fn encodings(request: &Request<Incoming>) -> Result<(Encoding, Encoding), Refusal> {
    let method = request.method();
    if method != Method::POST {
        let words = "405 Method Not Allowed. Expecting one of { 'POST' }, but received";
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{words} '{method}'."),
        ));
    }
    let content_type = header_text(request, "content-type");
    let content_type = content_type.ok_or_else(|| Refusal::bad("Expecting 'Content-Type' to be present"))?;
    let sent = Encoding::of(content_type).ok_or_else(|| {
        let words = "Expecting 'Content-Type' of application/json or application/x-protobuf";
        Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words)
    })?;
    match scheduler::accepted(header_text(request, "accept")) {
        Accept::Json => Ok((sent, Encoding::Json)),
        Accept::Protobuf => Ok((sent, Encoding::Protobuf)),
        Accept::Nothing => {
            let words = "Expecting 'Accept' to allow application/json or application/x-protobuf";
            Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, words))
        }
    }
}

/// Does what a call says; some calls have no response.
fn act(engine: &Arc<Engine>, call: &Call) -> Result<Option<Response>, Refusal> {
    let response = match call.r#type() {
        call::Type::GetHealth => {
            let get_health = Some(response::GetHealth { healthy: true });
            Response {
                r#type: Some(response::Type::GetHealth.into()),
                get_health,
                ..Default::default()
            }
        }
        call::Type::GetMaster => engine.view(Cluster::get_master),
        call::Type::GetState => engine.view(Cluster::get_state),
        call::Type::GetAgents => engine.view(Cluster::get_agents),
        call::Type::GetFrameworks => engine.view(Cluster::get_frameworks),
        call::Type::GetTasks => engine.view(Cluster::get_tasks),
        call::Type::GetMaintenanceStatus => engine.view(Cluster::get_maintenance_status),
        call::Type::GetMaintenanceSchedule => engine.view(Cluster::get_maintenance_schedule),
        call::Type::GetQuota => engine.view(Cluster::get_quota),
        call::Type::Unknown if call.r#type.is_none() => return Err(missing("type")),
        other => {
            let words = || format!("The simulated master does not serve {}", other.as_str_name());
            let changed = engine.with(|cluster, now| cluster.operator_call(call, now));
            let changed = changed.ok_or_else(|| Refusal::new(StatusCode::NOT_IMPLEMENTED, words()))?;
            return done(changed);
        }
    };
    Ok(Some(response))
}

fn done(changed: echelon_sim_mesos::Response) -> Result<Option<Response>, Refusal> {
    if changed.is_success() {
        return Ok(None);
    }
    let status = StatusCode::from_u16(changed.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Err(Refusal::new(status, changed.body))
}

fn missing(name: &str) -> Refusal {
    Refusal::bad(format!(
        "Failed to validate master::Call: Expecting '{name}' to be present"
    ))
}
