//! An agent's own port: its state and the files of its sandboxes, at `/api/v1` and at the older `/files/read`.

use crate::codec::{self, Encoding};
use crate::engine::Engine;
use crate::files;
use crate::http::{Answer, Refusal, body, bytes, text};
use crate::operator::encodings;
use echelon_proto::mesos::v1::agent::{Call, Response, call, response};
use echelon_sim_mesos::AgentId;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// One agent's port.
#[derive(Clone)]
pub(crate) struct AgentApi {
    pub engine: Arc<Engine>,
    pub id: AgentId,
    /// The folder that holds its sandboxes.
    pub root: PathBuf,
}

/// Answers one request to an agent's port.
pub(crate) async fn handle(api: AgentApi, request: Request<Incoming>) -> Answer {
    // A real agent's endpoints carry the name of its process as well.
    let path = request.uri().path().to_owned();
    let path = path.strip_prefix("/slave(1)").unwrap_or(&path);
    match path {
        "/files/read" => read_old(&api, request.uri().query().unwrap_or_default()),
        "/health" => text(StatusCode::OK, ""),
        path if path.starts_with("/api/v1") => operate(&api, request).await,
        _ => text(StatusCode::NOT_FOUND, ""),
    }
}

async fn operate(api: &AgentApi, request: Request<Incoming>) -> Answer {
    match answered(api, request).await {
        Ok((response, encoding)) => {
            let body = codec::write(&response, encoding, "mesos.v1.agent.Response");
            bytes(StatusCode::OK, body, encoding.content_type())
        }
        Err(refusal) => refusal.answer(),
    }
}

async fn answered(api: &AgentApi, request: Request<Incoming>) -> Result<(Response, Encoding), Refusal> {
    let (sent, wanted) = encodings(&request)?;
    let body = body(request).await?;
    let call = codec::read::<Call>(&body, sent, "mesos.v1.agent.Call");
    let call = call.map_err(|malformed| Refusal::bad(malformed.0))?;
    Ok((act(api, &call)?, wanted))
}

fn act(api: &AgentApi, call: &Call) -> Result<Response, Refusal> {
    match (call.r#type(), &call.list_files, &call.read_file) {
        (call::Type::GetHealth, ..) => {
            let get_health = Some(response::GetHealth { healthy: true });
            Ok(Response {
                r#type: Some(response::Type::GetHealth.into()),
                get_health,
                ..Default::default()
            })
        }
        (call::Type::GetState, ..) => {
            let state = api.engine.view(|cluster| cluster.get_agent_state(&api.id));
            state.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "Agent not found"))
        }
        (call::Type::GetFlags, ..) => {
            let flags = api.engine.view(|cluster| cluster.get_agent_flags(&api.id));
            flags.ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, "Agent not found"))
        }
        (call::Type::ListFiles, Some(part), _) => {
            let file_infos = files::list(&api.root, &part.path).map_err(|error| refusal(&error))?;
            let list_files = Some(response::ListFiles { file_infos });
            Ok(Response {
                r#type: Some(response::Type::ListFiles.into()),
                list_files,
                ..Default::default()
            })
        }
        (call::Type::ReadFile, _, Some(part)) => {
            let piece = files::read(&api.root, &part.path, part.offset, part.length);
            let piece = piece.map_err(|error| refusal(&error))?;
            let read_file = Some(response::ReadFile {
                size: piece.size,
                data: piece.data,
            });
            Ok(Response {
                r#type: Some(response::Type::ReadFile.into()),
                read_file,
                ..Default::default()
            })
        }
        (call::Type::ListFiles | call::Type::ReadFile, ..) => Err(Refusal::bad(
            "Failed to validate agent::Call: Expecting its part to be present",
        )),
        (other, ..) => {
            let words = format!("The simulated agent does not serve {}", other.as_str_name());
            Err(Refusal::new(StatusCode::NOT_IMPLEMENTED, words))
        }
    }
}

/// `GET /files/read?path=&offset=&length=`; the offset -1 asks for the size alone.
fn read_old(api: &AgentApi, query: &str) -> Answer {
    let parameter = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let Some(path) = parameter("path").map(decoded) else {
        return text(StatusCode::BAD_REQUEST, "Expecting 'path=value' in query.\n");
    };
    let offset = parameter("offset").unwrap_or("0");
    let length = parameter("length")
        .filter(|length| *length != "-1")
        .map(str::parse::<u64>)
        .transpose();
    let (size_only, offset, Ok(length)) = (offset == "-1", offset.parse::<u64>().ok(), length) else {
        return text(StatusCode::BAD_REQUEST, "Failed to parse length.\n");
    };
    if !size_only && offset.is_none() {
        return text(StatusCode::BAD_REQUEST, "Failed to parse offset.\n");
    }
    let length = if size_only { Some(0) } else { length };
    match files::read(&api.root, &path, offset.unwrap_or_default(), length) {
        Ok(piece) => {
            let at = offset.unwrap_or(piece.size);
            let content = json!({ "data": String::from_utf8_lossy(&piece.data), "offset": at });
            bytes(
                StatusCode::OK,
                content.to_string().into_bytes(),
                "application/json",
            )
        }
        Err(error) => refusal(&error).answer(),
    }
}

fn refusal(error: &io::Error) -> Refusal {
    let status = match error.kind() {
        io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
        io::ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Refusal::new(status, format!("{error}\n"))
}

/// Undoes percent encoding; what is no encoding stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex
            .filter(|_| *first == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() {
            after.get(2..).unwrap_or_default()
        } else {
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_queries_are_decoded() {
        for (text, path) in [
            ("/a%2Fb+c", "/a/b c"),
            ("100%", "100%"),
            ("%zz", "%zz"),
            ("%c3%a4", "ä"),
        ] {
            assert_eq!(decoded(text), path);
        }
    }
}
