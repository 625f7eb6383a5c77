//! Errors of the public API: a gRPC code, a stable reason for programs, the fields that are wrong, and what to do next.

use echelon_core_model::limits::{
    MESSAGE_BYTES, VIOLATION_FIELD_BYTES, VIOLATION_PROBLEM_BYTES, VIOLATIONS, VIOLATIONS_BYTES, shortened,
};
use std::fmt;
use thiserror::Error;

/// Codes of `google.rpc.Code` that the gateway answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong whatever the state of the system.
    InvalidArgument,
    /// Storage says that there is no such thing.
    NotFound,
    /// There is one already.
    AlreadyExists,
    /// The state of the thing does not allow it.
    FailedPrecondition,
    /// Somebody else came first; read again and decide again.
    Aborted,
    /// Not now; try again.
    Unavailable,
    /// Too much is asked at once, and nothing was done; try again later.
    ResourceExhausted,
    /// The caller shows a token that is none.
    Unauthenticated,
    /// The caller's token is not for this.
    PermissionDenied,
    /// A broken promise inside the system.
    Internal,
}

/// Stable reasons, the `reason` of `google.rpc.ErrorInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorReason {
    /// Some fields are wrong; each is named.
    FieldInvalid,
    /// The page or resume token is not one of ours, or belongs to another request.
    TokenInvalid,
    /// The request id was used for another request.
    RequestIdReused,
    /// No such job.
    JobNotFound,
    /// No such instance.
    InstanceNotFound,
    /// No such pool.
    PoolNotFound,
    /// No such cluster.
    ClusterNotFound,
    /// No such host.
    HostNotFound,
    /// No such volume.
    VolumeNotFound,
    /// As many hosts of the cluster as may be are to be empty.
    TooManyDrains,
    /// More wishes about volumes of a cluster than may wait for its shard.
    TooManyWishes,
    /// The jobs of the pool, or of the federation, would have more instances than they may have together.
    TooManyInstances,
    /// No such host pool.
    HostPoolNotFound,
    /// Hosts are in the host pool, or on their way to it.
    HostPoolInUse,
    /// The host pool has fewer hosts that could be moved than are asked for.
    HostPoolTooSmall,
    /// The cluster has as many host pools as it may have.
    TooManyHostPools,
    /// As many hosts of the cluster as may be are on their way to another host pool.
    TooManyHostMoves,
    /// The host is drained, on its way already, or in another host pool.
    HostNotMovable,
    /// An instance holds the volume.
    VolumeHeld,
    /// The volume is to be destroyed.
    VolumeDestroying,
    /// The instance cannot have the volume.
    VolumeUnfit,
    /// A live job has the name.
    JobNameTaken,
    /// The pool exists.
    PoolExists,
    /// The job has ended.
    JobEnded,
    /// The job is being stopped.
    JobStopping,
    /// The job is being deleted.
    JobDeleted,
    /// The thing has changed since it was read.
    EtagStale,
    /// The field cannot be changed.
    FieldImmutable,
    /// Pools or jobs still use the pool.
    PoolInUse,
    /// The pool above is being deleted.
    PoolDeleting,
    /// There is a cluster of this name.
    ClusterExists,
    /// As many clusters are known as may be.
    TooManyClusters,
    /// The cluster was removed for good, or is being removed.
    ClusterRemoved,
    /// Something is in the way of the cluster's removal.
    ClusterInUse,
    /// No rollout of the job is under way.
    NoRollout,
    /// The job has no schedule.
    NotATemplate,
    /// The job runs nothing itself: its schedule makes jobs of it.
    IsATemplate,
    /// Nothing of the cluster waits for a loss to be accepted.
    NoLossToAccept,
    /// The cluster is not cut off or without Mesos, or not in the silence that was named.
    ClusterNotSilent,
    /// Mesos has contact with the host, so it is not gone.
    HostInContact,
    /// Another create took the name meanwhile.
    CreateOvertaken,
    /// Others change the same thing all the time.
    Contention,
    /// A stored row cannot be understood by this build.
    RowUnread,
    /// Storage does not answer.
    StorageUnavailable,
    /// Storage never takes what the request makes: a row of it is too large, or a number is out of range.
    StorageRefused,
    /// As many requests as may be are in hand.
    TooManyRequests,
    /// No resource manager answers.
    ResourceManagerUnavailable,
    /// The cluster's shard does not answer.
    ShardUnavailable,
    /// The instance was never begun, so it wrote nothing.
    InstanceNotBegun,
    /// What the run wrote is gone.
    LogNotFound,
    /// The token that a caller shows is none.
    CredentialInvalid,
    /// The token that a caller shows is not for this.
    AccessDenied,
    /// An answer that nobody should give.
    BrokenPromise,
}

impl ErrorReason {
    /// The gRPC code that goes with it.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::FieldInvalid | Self::TokenInvalid | Self::RequestIdReused => Code::InvalidArgument,
            Self::JobNotFound
            | Self::InstanceNotFound
            | Self::PoolNotFound
            | Self::ClusterNotFound
            | Self::HostNotFound
            | Self::HostPoolNotFound
            | Self::VolumeNotFound
            | Self::LogNotFound => Code::NotFound,
            Self::JobNameTaken | Self::PoolExists | Self::ClusterExists => Code::AlreadyExists,
            Self::JobEnded
            | Self::JobStopping
            | Self::JobDeleted
            | Self::FieldImmutable
            | Self::PoolInUse
            | Self::PoolDeleting
            | Self::InstanceNotBegun
            | Self::ClusterRemoved
            | Self::ClusterInUse
            | Self::TooManyClusters
            | Self::TooManyDrains
            | Self::TooManyWishes
            | Self::TooManyInstances
            | Self::HostPoolInUse
            | Self::HostPoolTooSmall
            | Self::TooManyHostPools
            | Self::TooManyHostMoves
            | Self::HostNotMovable
            | Self::VolumeHeld
            | Self::VolumeDestroying
            | Self::VolumeUnfit
            | Self::NoRollout
            | Self::NotATemplate
            | Self::IsATemplate
            | Self::NoLossToAccept
            | Self::ClusterNotSilent
            | Self::HostInContact
            | Self::StorageRefused
            | Self::RowUnread => Code::FailedPrecondition,
            Self::EtagStale | Self::CreateOvertaken | Self::Contention => Code::Aborted,
            Self::StorageUnavailable | Self::ResourceManagerUnavailable | Self::ShardUnavailable => {
                Code::Unavailable
            }
            Self::TooManyRequests => Code::ResourceExhausted,
            Self::CredentialInvalid => Code::Unauthenticated,
            Self::AccessDenied => Code::PermissionDenied,
            Self::BrokenPromise => Code::Internal,
        }
    }

    /// The stable word: `JOB_NOT_FOUND`.
    #[must_use]
    pub fn word(self) -> String {
        let camel = format!("{self:?}");
        let mut out = String::with_capacity(camel.len() + 4);
        for (i, c) in camel.chars().enumerate() {
            if c.is_ascii_uppercase() && i > 0 {
                out.push('_');
            }
            out.push(c.to_ascii_uppercase());
        }
        out
    }
}

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its path: `job.spec.groups[0].instances`.
    pub field: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl Violation {
    /// One whose texts are cut to what an answer may hold: a path may have a key in it that a user made.
    #[must_use]
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: shortened(field.into(), VIOLATION_FIELD_BYTES),
            problem: shortened(problem.into(), VIOLATION_PROBLEM_BYTES),
        }
    }

    const fn bytes(&self) -> usize {
        self.field.len() + self.problem.len()
    }
}

/// Why a method was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ApiError {
    /// The stable reason.
    pub reason: ErrorReason,
    /// For the caller: what was tried, what is wrong, what to do next.
    pub message: String,
    /// The fields that are wrong.
    pub violations: Vec<Violation>,
    /// For the log only: what was behind it.
    pub inner: Option<String>,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ApiError {
    /// An error without fields.
    #[must_use]
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            violations: Vec::new(),
            inner: None,
        }
    }

    /// One wrong field.
    #[must_use]
    pub fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::fields(vec![Violation::new(field, problem)])
    }

    /// Wrong fields; the message tells them all.
    #[must_use]
    pub fn fields(violations: Vec<Violation>) -> Self {
        Self::fields_and_more(violations, 0)
    }

    /// Wrong fields, of which `more` are not named. As many are kept as the header of an answer can hold.
    #[must_use]
    pub fn fields_and_more(mut violations: Vec<Violation>, more: usize) -> Self {
        let all = violations.len() + more;
        let mut room = VIOLATIONS_BYTES;
        let fits = violations.iter().take(VIOLATIONS).take_while(|v| {
            let left = room.checked_sub(v.bytes());
            room = left.unwrap_or(0);
            left.is_some()
        });
        violations.truncate(fits.count());
        let mut told: Vec<String> = violations
            .iter()
            .map(|v| format!("{}: {}", v.field, v.problem))
            .collect();
        let more = all - violations.len();
        if more > 0 {
            told.insert(
                0,
                format!("{all} fields are wrong, of which {} are named", violations.len()),
            );
        }
        Self {
            reason: ErrorReason::FieldInvalid,
            message: shortened(told.join("; "), MESSAGE_BYTES),
            violations,
            inner: None,
        }
    }

    /// The same under another reason.
    #[must_use]
    pub const fn because(mut self, reason: ErrorReason) -> Self {
        self.reason = reason;
        self
    }

    /// The same with what was behind it, for the log.
    #[must_use]
    pub fn behind(mut self, inner: impl Into<String>) -> Self {
        self.inner = Some(inner.into());
        self
    }

    /// The gRPC code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.reason.code()
    }

    /// Whether the same request may succeed a little later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.code(), Code::Unavailable | Code::ResourceExhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_upper_case_and_fields_are_all_told() {
        assert_eq!(ErrorReason::RequestIdReused.word(), "REQUEST_ID_REUSED");
        let wrong = |f: &str| Violation::new(f, "is wrong");
        let error = ApiError::fields(vec![wrong("a"), wrong("b")]);
        assert_eq!(error.to_string(), "a: is wrong; b: is wrong");
        assert_eq!(error.code(), Code::InvalidArgument);
    }

    #[test]
    fn thirty_two_fields_are_named_and_the_rest_is_counted() {
        let wrong = |i: usize| Violation::new(format!("f{i}"), "is wrong");
        let error = ApiError::fields((0..32).map(wrong).collect());
        assert_eq!(error.violations.len(), 32);
        assert!(error.message.starts_with("f0: is wrong; f1"), "{error}");
        let error = ApiError::fields((0..1000).map(wrong).collect());
        assert_eq!(error.violations.len(), 32);
        assert!(
            error
                .message
                .starts_with("1000 fields are wrong, of which 32 are named; f0: "),
            "{error}"
        );
    }

    #[test]
    fn an_error_fits_a_header_whatever_users_write() {
        let wrong = |_| Violation::new("k".repeat(1 << 20), "p".repeat(1 << 20));
        let error = ApiError::fields_and_more((0..32).map(wrong).collect(), 7);
        let bytes: usize = error.violations.iter().map(Violation::bytes).sum();
        assert!(bytes <= VIOLATIONS_BYTES && error.message.len() <= MESSAGE_BYTES);
        assert!(!error.violations.is_empty());
        assert!(error.message.starts_with("39 fields are wrong"), "{error}");
    }
}
