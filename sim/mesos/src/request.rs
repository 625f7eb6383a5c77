//! A request to `/api/v1/scheduler` after its bytes were read, and its answer. Which check fails first is decided in
//! `check`; a shell only says what it found.

use crate::id::StreamId;
use echelon_proto::mesos::v1::scheduler::Call;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method, as sent.
    pub method: String,
    /// The body.
    pub body: Body,
    /// What the header `Accept` allows.
    pub accept: Accept,
    /// The header `Mesos-Stream-Id`.
    pub stream_id: Option<String>,
    /// Who was authenticated, where the master asks for it (rule R5).
    pub principal: Option<String>,
}

/// What became of the body.
#[derive(Debug, Clone)]
pub enum Body {
    /// It is a call.
    Call(Box<Call>),
    /// There is no `Content-Type`.
    NoContentType,
    /// `Content-Type` is neither JSON nor protobuf, to the letter (rule R2).
    UnknownContentType,
    /// The bytes are no call; with the text that the master answers.
    Malformed(String),
}

/// What an `Accept` header allows. Where both are allowed JSON wins (rule R4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// JSON, or both, or anything, or no header.
    Json,
    /// Protobuf only.
    Protobuf,
    /// Neither.
    Nothing,
}

/// An answer. The body of a good SUBSCRIBE is the stream that [`crate::Output`] speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// Headers beside the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// The body, plain text.
    pub body: String,
    /// The stream that begins with this answer.
    pub stream: Option<StreamId>,
}

impl Request {
    /// A protobuf call as a client sends it.
    #[must_use]
    pub fn post(call: Call, stream_id: Option<&StreamId>) -> Self {
        Self {
            method: "POST".to_owned(),
            body: Body::Call(Box::new(call)),
            accept: Accept::Protobuf,
            stream_id: stream_id.map(|id| id.as_str().to_owned()),
            principal: None,
        }
    }
}

impl Response {
    /// Whether the call was taken in; "taken in" is not "done" (rule R12).
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.status < 300
    }

    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            stream: None,
        }
    }

    pub(crate) fn accepted() -> Self {
        Self::text(202, "")
    }

    pub(crate) fn bad(body: impl Into<String>) -> Self {
        Self::text(400, body)
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn subscribed(stream: &StreamId) -> Self {
        let answer = Self::text(200, "").with_header("Mesos-Stream-Id", stream.as_str());
        Self {
            stream: Some(stream.clone()),
            ..answer
        }
    }
}
