//! What a request with a driver's token may do: look at its own job, scale it, end instances of it by name, and stop it; nothing once
//! that has ended. Requests without a token are not limited.

use crate::ask;
use crate::error::{ApiError, ErrorReason};
use crate::lookup;
use crate::port::Facts;
use crate::resource::JobRef;
use crate::view::state;
use echelon_core_model::JobId;
use echelon_core_model::job::Desired;

/// Methods that a token may call, each of which asks for the job with [`check`].
pub const METHODS: [&str; 9] = [
    "JobService/GetJob",
    "JobService/WatchJob",
    "JobService/ExplainJob",
    "JobService/ScaleJob",
    "JobService/EndInstances",
    "JobService/StopJob",
    "InstanceService/ListInstances",
    "InstanceService/ListEndpoints",
    "InstanceService/WatchEndpoints",
];

/// Whether a method may be called at all.
///
/// # Errors
/// `AccessDenied` when not.
pub fn check_method(method: &str) -> Result<(), ApiError> {
    if METHODS.contains(&method) {
        return Ok(());
    }
    let message = format!(
        "a driver's token is for its own job only, and not for {method}; leave the token out (ECHELON_TOKEN, --token) to call it as yourself"
    );
    Err(ApiError::new(ErrorReason::AccessDenied, message))
}

/// Whether the job that is meant is the token's, and goes on.
///
/// # Errors
/// `AccessDenied` when not; no such job, or storage.
pub async fn check<F: Facts>(facts: &F, token: Option<JobId>, wanted: &JobRef) -> Result<(), ApiError> {
    let Some(own) = token else { return Ok(()) };
    let denied = |message: String| Err(ApiError::new(ErrorReason::AccessDenied, message));
    let head = lookup::job(facts, wanted).await?;
    if head.job != own {
        return denied(format!("this token is for job {own}, and not for job `{wanted}`"));
    }
    let ended = state(ask::progress(facts, own).await?.as_ref());
    if ended.is_ended() || head.goal.desired == Desired::Deleted {
        return denied(format!("job `{wanted}` has ended, and its token with it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, run, web};
    use echelon_core_model::job::JobState;

    fn checked(store: &mut Memory, token: Option<JobId>, wanted: JobRef) -> Result<(), ErrorReason> {
        let done = run(
            store,
            move |facts| async move { check(&facts, token, &wanted).await },
        );
        done.map_err(|e| e.reason)
    }

    #[test]
    fn a_token_is_for_its_own_job_by_id_and_name_until_that_has_ended() {
        let (mut store, job) = web();
        let by_name = || JobRef::Name("web".to_owned());
        for wanted in [JobRef::Id(job), by_name()] {
            assert_eq!(checked(&mut store, Some(job), wanted.clone()), Ok(()));
            assert_eq!(checked(&mut store, None, wanted.clone()), Ok(()));
            let other = checked(&mut store, Some(JobId(1)), wanted);
            assert_eq!(other, Err(ErrorReason::AccessDenied));
        }
        store.ended(job, JobState::Succeeded);
        assert_eq!(
            checked(&mut store, Some(job), by_name()),
            Err(ErrorReason::AccessDenied)
        );
        assert_eq!(checked(&mut store, None, by_name()), Ok(()));
    }

    #[test]
    fn other_methods_are_refused_with_what_to_do() {
        assert!(check_method("JobService/ScaleJob").is_ok());
        let wrong = check_method("JobService/CreateJob").unwrap_err();
        assert_eq!(wrong.reason, ErrorReason::AccessDenied);
        assert!(wrong.message.contains("JobService/CreateJob"), "{wrong}");
    }
}
