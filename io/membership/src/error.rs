//! Why a membership call failed, and whether to try it again.

use crate::Role;
use echelon_core_model::Epoch;
use thiserror::Error;

/// Any failure of a membership call.
#[derive(Debug, Error)]
pub enum MembershipError {
    /// The URL is not understood.
    #[error(
        "`{url}` is not a membership URL: {reason}; write `in-process:` or `zookeeper://h1:2181,h2:2181/path`"
    )]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No answer, so nothing is known; a change may or may not have happened.
    #[error("cannot {what}: the membership servers do not answer")]
    Unreachable {
        /// What was tried.
        what: String,
        /// What the client library said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Only the present leader may do this.
    #[error("this process does not lead the role {role} now")]
    NotLeader {
        /// The role.
        role: Role,
    },
    /// A leader published an epoch at least this large before: storage was rolled back.
    #[error(
        "epoch {offered} of {role} is not larger than {published}, which was published before: storage was rolled back; \
         freeze the role and run `echelon storage resume`"
    )]
    EpochBehind {
        /// The role.
        role: Role,
        /// The largest epoch published so far.
        published: Epoch,
        /// The epoch that was to be published.
        offered: Epoch,
    },
    /// Something else writes below our path.
    #[error(
        "what stands at {path} was not written by this version of Echelon: does another program use this path?"
    )]
    Unreadable {
        /// Where.
        path: String,
        /// Why it cannot be read.
        #[source]
        source: serde_json::Error,
    },
}

impl MembershipError {
    /// Whether the same call may succeed later without anybody's doing.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}
