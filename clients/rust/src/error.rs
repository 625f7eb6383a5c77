//! What can go wrong for a caller, with the details that the gateway gives.

use std::time::Duration;
use thiserror::Error;
use tonic::{Code, ConnectError, Status};
use tonic_types::StatusExt;

/// A wrong field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Its path.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// Why a call did not succeed.
#[derive(Debug, Error)]
pub enum Error {
    /// Not an address.
    #[error("`{0}` is not an address such as http://127.0.0.1:7070, nor several, separated by commas")]
    Address(String),
    /// An address of another protocol.
    #[error(
        "`{address}`: only http:// is supported, TLS is not built yet. Over {scheme}:// nothing was sent, the token neither"
    )]
    Scheme {
        /// What was given.
        address: String,
        /// What it begins with.
        scheme: String,
    },
    /// No gateway answers.
    #[error(
        "no gateway answers at {address}: start one (`echelon standalone`), or say where it is with --address or ECHELON_ADDRESS"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the last connection says, if it said anything in time.
        #[source]
        source: Option<tonic::transport::Error>,
    },
    /// A request that changes something had no answer before the connection broke or the time was over.
    #[error("{0}: whether it did what was asked is unknown; look before you repeat it")]
    OutcomeUnknown(String),
    /// Not a token.
    #[error("the token (--token, ECHELON_TOKEN) is not one line of plain text")]
    Token,
    /// The gateway answered with an error.
    #[error("{}", said(.0))]
    Status(Box<Status>),
    /// A stream ended before it should have.
    #[error("the gateway ended the stream of {0}")]
    StreamEnded(&'static str),
}

/// Where a call without success ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The gateway answered.
    Answered,
    /// No connection came about: nothing was sent.
    NotSent,
    /// The connection broke before the answer was there.
    Cut,
}

impl Loss {
    pub(crate) fn of(status: &Status) -> Self {
        // What a gateway sends has no source; what our end of the connection says has one.
        let mut cause = std::error::Error::source(status);
        let mut found = Self::Answered;
        while let Some(error) = cause {
            if error.is::<ConnectError>() {
                return Self::NotSent;
            }
            found = Self::Cut;
            cause = error.source();
        }
        found
    }
}

/// How long a gateway that has too much to do asks to wait: it has done nothing.
pub(crate) fn retry_after(status: &Status) -> Option<Duration> {
    if status.code() != Code::ResourceExhausted {
        return None;
    }
    status.get_error_details().retry_info()?.retry_delay
}

fn said(status: &Status) -> String {
    if Loss::of(status) != Loss::Answered {
        return format!("the connection to the gateway broke ({})", status.message());
    }
    let details = status.get_error_details();
    let fields: Vec<String> = details
        .bad_request()
        .map(|b| {
            b.field_violations
                .iter()
                .map(|v| format!("{}: {}", v.field, v.description))
                .collect()
        })
        .unwrap_or_default();
    let message = status.message();
    match fields.as_slice() {
        [] => message.to_owned(),
        [only] if message.contains(only.as_str()) => message.to_owned(),
        // The message of wrong fields is nothing but these.
        all if message == all.join("; ") => all.join("\n"),
        all => format!("{message}\n  {}", all.join("\n  ")),
    }
}

impl Error {
    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Address(_) | Self::Scheme { .. } | Self::Token => Code::InvalidArgument,
            Self::Unreachable { .. } | Self::OutcomeUnknown(_) | Self::StreamEnded(_) => Code::Unavailable,
            Self::Status(status) if Loss::of(status) != Loss::Answered => Code::Unavailable,
            Self::Status(status) => status.code(),
        }
    }

    /// Whether the gateway has too much to do, and so has done nothing.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Status(status) if retry_after(status).is_some())
    }

    /// The stable reason code, when the gateway gave one.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let Self::Status(status) = self else { return None };
        status
            .get_error_details()
            .error_info()
            .map(|info| info.reason.clone())
    }

    /// The wrong fields, when the gateway named some.
    #[must_use]
    pub fn violations(&self) -> Vec<FieldViolation> {
        let Self::Status(status) = self else {
            return Vec::new();
        };
        let details = status.get_error_details();
        let Some(bad) = details.bad_request() else {
            return Vec::new();
        };
        let each = bad.field_violations.iter();
        each.map(|v| FieldViolation {
            field: v.field.clone(),
            description: v.description.clone(),
        })
        .collect()
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
