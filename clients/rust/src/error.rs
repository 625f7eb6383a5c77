//! What can go wrong for a caller, with the details that the gateway gives.

use thiserror::Error;
use tonic::{Code, Status};
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
    #[error("`{address}` is not an address such as http://127.0.0.1:7070")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// Nobody answers.
    #[error(
        "no gateway answers at {address}: start one (`echelon standalone`), or say where it is with --address or ECHELON_ADDRESS"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the connection says.
        #[source]
        source: tonic::transport::Error,
    },
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

fn said(status: &Status) -> String {
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
            Self::Address { .. } | Self::Token => Code::InvalidArgument,
            Self::Unreachable { .. } | Self::StreamEnded(_) => Code::Unavailable,
            Self::Status(status) => status.code(),
        }
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
