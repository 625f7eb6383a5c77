//! Why a job waits, and the smallest change that admits all of it. A table of blockers: each is named
//! exactly, its fix is made as a user would make it, and then everything runs. With one unit less it does
//! not.

mod blockers;
mod random;
mod said;
mod user;

use crate::queries::explain::JobQuestion;
use crate::queries::explain::answer::{FixOutcome, JobExplanation, VerifiedFix};
use crate::tests::case::Case;
use echelon_core_model::JobId;

/// What is said of a job.
pub fn explained(case: &Case, job: JobId) -> JobExplanation {
    let question = JobQuestion::new(case.rm.picture(), job);
    question.answer()
}

/// The fixes that are stated.
pub fn fixes(explanation: &JobExplanation) -> &[VerifiedFix] {
    match &explanation.outcome {
        FixOutcome::Fixes(fixes) => fixes,
        _ => &[],
    }
}
