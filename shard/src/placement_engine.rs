//! The placement engine's worker: a problem may take longer than a turn of the loop may, so it is solved on another thread.

use crate::job_manager::Input;
use echelon_core_placement::{Problem, place};
use echelon_io_process::Shutdown;
use prometheus::Histogram;
use std::time::Instant;
use tokio::sync::mpsc;

/// Solves a problem and hands the answer to the loop.
pub(crate) fn solve(problem: Problem, took: Histogram, inbox: mpsc::Sender<Input>, shutdown: &Shutdown) {
    shutdown.spawn(async move {
        let solved = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let (answer, report) = place(&problem);
            took.observe(began.elapsed().as_secs_f64());
            for flaw in &report.problems {
                tracing::error!(
                    ?flaw,
                    "a placement problem was not sound; the rest of it was solved"
                );
            }
            answer
        });
        match solved.await {
            // The loop is gone only when the process ends.
            Ok(answer) => drop(inbox.send(Input::Placed(answer)).await),
            Err(error) => tracing::error!(%error, "placement broke off"),
        }
    });
}
