//! Files of a task's sandbox, read from its agent by the operator API (READ_FILE). The virtual path that agents give to the
//! latest run of an executor saves looking for container ids; for a command task the executor's id is the task's (R75).

use crate::config::{Credential, Timing};
use crate::dial::Dial;
use crate::http::{Channel, HttpError, text};
use crate::open::PROTOBUF;
use bytes::Bytes;
use echelon_proto::mesos::v1::agent::{Call, Response, call};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use prost::Message as _;
use thiserror::Error;

/// Beside the bytes that were asked for, an answer has a few of its own.
const SLACK: usize = 4 * 1024;
/// Longest piece that is asked for at once.
pub const MAX_PIECE: u64 = 1024 * 1024;

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The bytes from the asked offset on; empty at or behind the end.
    pub data: Vec<u8>,
    /// Length of the whole file at the moment of the answer.
    pub size: u64,
}

/// Why a file could not be read.
#[derive(Debug, Error)]
pub enum FilesError {
    /// The agent was not reached, or did not answer.
    #[error("agent {agent} did not answer: {}", source.chain())]
    Agent {
        /// Its address.
        agent: String,
        /// Why.
        source: HttpError,
    },
    /// No such file (any more): the task did not start, or its sandbox was collected.
    #[error("agent {agent} has no file {path}; the task has not started there, or its sandbox was removed")]
    NotFound {
        /// Its address.
        agent: String,
        /// The path.
        path: String,
    },
    /// The agent refused.
    #[error("agent {agent} refused to read {path}: {answer}")]
    Refused {
        /// Its address.
        agent: String,
        /// The path.
        path: String,
        /// What it said.
        answer: String,
    },
    /// The answer is none.
    #[error("agent {agent} answered with something that is not a piece of a file")]
    Unreadable {
        /// Its address.
        agent: String,
    },
}

impl FilesError {
    /// Whether asking again may help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Agent { .. })
    }
}

/// The path of a file in the sandbox of a command task's latest run: `stdout`, `stderr`.
#[must_use]
pub fn sandbox_file(framework: &str, task: &str, file: &str) -> String {
    format!("/frameworks/{framework}/executors/{task}/runs/latest/{file}")
}

/// The same of one task of a pod: its executor keeps a folder of each task beside its own (R83).
#[must_use]
pub fn pod_file(framework: &str, executor: &str, task: &str, file: &str) -> String {
    sandbox_file(framework, executor, &format!("tasks/{task}/{file}"))
}

/// What to read.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The agent, `host:port`.
    pub agent: &'a str,
    /// The file, as `sandbox_file` names it.
    pub path: &'a str,
    /// First byte.
    pub offset: u64,
    /// Bytes at most; bounded by `MAX_PIECE`.
    pub length: u64,
}

/// Reads a piece of a file.
///
/// # Errors
/// `FilesError`; only `Agent` may pass by itself.
pub async fn read_file(
    dial: &dyn Dial,
    wanted: Wanted<'_>,
    credential: Option<&Credential>,
    timing: &Timing,
) -> Result<Piece, FilesError> {
    let agent = || wanted.agent.to_owned();
    let lost = |source| FilesError::Agent {
        agent: agent(),
        source,
    };
    // The answer's body needs its connection until it is read.
    let (_channel, answer) = ask(dial, wanted, credential, timing).await.map_err(lost)?;
    let path = || wanted.path.to_owned();
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND => {
            return Err(FilesError::NotFound {
                agent: agent(),
                path: path(),
            });
        }
        status => {
            let said = text(answer.into_body(), timing.connect).await;
            let answer = format!("{} {said}", status.as_u16());
            return Err(FilesError::Refused {
                agent: agent(),
                path: path(),
                answer,
            });
        }
    }
    let bound = usize::try_from(wanted.length.min(MAX_PIECE))
        .unwrap_or(usize::MAX)
        .saturating_add(SLACK);
    let unreadable = || FilesError::Unreadable { agent: agent() };
    let body = tokio::time::timeout(timing.answer, Limited::new(answer.into_body(), bound).collect())
        .await
        .map_err(|_| lost(HttpError::Late(timing.answer)))?
        .map_err(|_| unreadable())?;
    let response = Response::decode(body.to_bytes()).map_err(|_| unreadable())?;
    let file = response.read_file.ok_or_else(unreadable)?;
    Ok(Piece {
        data: file.data,
        size: file.size,
    })
}

async fn ask(
    dial: &dyn Dial,
    wanted: Wanted<'_>,
    credential: Option<&Credential>,
    timing: &Timing,
) -> Result<(Channel, http::Response<Incoming>), HttpError> {
    let call = Call {
        r#type: Some(i32::from(call::Type::ReadFile)),
        read_file: Some(call::ReadFile {
            path: wanted.path.to_owned(),
            offset: wanted.offset,
            length: Some(wanted.length.min(MAX_PIECE)),
        }),
        ..Call::default()
    };
    let mut request = Request::new(Full::new(Bytes::from(call.encode_to_vec())));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static("/api/v1");
    let credential = credential.map(Credential::header);
    let fields = [
        ("host", Some(wanted.agent)),
        ("content-type", Some(PROTOBUF)),
        ("accept", Some(PROTOBUF)),
        ("authorization", credential.as_deref()),
    ];
    for (name, value) in fields {
        if let Some(value) = value.and_then(|v| v.parse().ok()) {
            request.headers_mut().insert(name, value);
        }
    }
    let mut channel = Channel::connect(dial, wanted.agent, timing.connect).await?;
    let answer = channel.send(request, timing.answer).await?;
    Ok((channel, answer))
}
