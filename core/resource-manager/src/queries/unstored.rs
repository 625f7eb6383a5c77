//! What became of jobs that only wait. Nothing of them is stored but their heads and specs, so this is the
//! only place that says why they wait.

use crate::picture::Picture;
use crate::progress::progress;
use echelon_core_model::job::Progress;
use echelon_core_model::{JobId, Timestamp};

/// What the rows of jobs would be. Left out are jobs that the picture does not have, and jobs that have ended: that
/// counts once it is stored. Of the same length as `jobs` at most.
#[must_use]
pub fn unstored_progress(picture: &Picture, jobs: &[JobId], now: Timestamp) -> Vec<Progress> {
    let known = jobs
        .iter()
        .filter_map(|id| Some((*id, picture.facts.jobs.get(id)?)));
    let live = known.filter(|(_, job)| job.is_live());
    live.filter_map(|(id, job)| progress(picture, id, job, now))
        .filter(|row| !row.state.is_ended())
        .collect()
}
