//! States and wishes of jobs between the public wire and the model.

use crate::echelon::v1;
use echelon_core_model::job::{Desired, JobState};

/// To the wire.
#[must_use]
pub const fn job_state(state: JobState) -> v1::JobState {
    match state {
        JobState::Waiting => v1::JobState::Waiting,
        JobState::Running => v1::JobState::Running,
        JobState::Stopping => v1::JobState::Stopping,
        JobState::Succeeded => v1::JobState::Succeeded,
        JobState::Failed => v1::JobState::Failed,
        JobState::Stopped => v1::JobState::Stopped,
        JobState::Deleted => v1::JobState::Deleted,
    }
}

/// From the wire, `None` when it names no state.
#[must_use]
pub fn read_job_state(number: i32) -> Option<JobState> {
    JobState::ALL
        .into_iter()
        .find(|s| i32::from(job_state(*s)) == number)
}

/// To the wire.
#[must_use]
pub const fn desired(desired: Desired) -> v1::Desired {
    match desired {
        Desired::Running => v1::Desired::Running,
        Desired::Stopped => v1::Desired::Stopped,
        Desired::Deleted => v1::Desired::Deleted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back() {
        for state in JobState::ALL {
            assert_eq!(read_job_state(job_state(state).into()), Some(state));
        }
        assert_eq!((read_job_state(0), read_job_state(99)), (None, None));
    }
}
