//! The placement engine's worker: a problem may take longer than a turn of the loop may, so it is solved on another thread.

use crate::job_manager::Input;
use echelon_core_placement::{Answer, Problem, check, place};
use echelon_io_process::Shutdown;
use prometheus::{Histogram, IntCounter};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// How often an answer is judged: that takes longer than to find it.
const JUDGED_EVERY: Duration = Duration::from_mins(1);

/// Solves problems one after another.
pub(crate) struct PlacementEngine {
    took: Histogram,
    inconsistencies: IntCounter,
    inbox: mpsc::Sender<Input>,
    judged_at: Option<Instant>,
}

impl PlacementEngine {
    pub(crate) const fn new(
        took: Histogram,
        inconsistencies: IntCounter,
        inbox: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            took,
            inconsistencies,
            inbox,
            judged_at: None,
        }
    }

    /// Solves a problem and hands the answer to the loop; now and then judges it afterwards.
    pub(crate) fn solve(&mut self, problem: Problem, shutdown: &Shutdown) {
        let is_judged = self.judged_at.is_none_or(|at| at.elapsed() >= JUDGED_EVERY);
        if is_judged {
            self.judged_at = Some(Instant::now());
        }
        let (took, inbox) = (self.took.clone(), self.inbox.clone());
        let inconsistencies = self.inconsistencies.clone();
        shutdown.spawn(async move {
            let solved = spawn_blocking(move || {
                let answer = timed(&problem, &took);
                (problem, answer)
            });
            let (problem, answer) = match solved.await {
                Ok(solved) => solved,
                Err(error) => return tracing::error!(%error, "placement broke off"),
            };
            let judged = is_judged.then(|| answer.clone());
            // The loop is gone only when the process ends.
            drop(inbox.send(Input::Placed(answer)).await);
            if let Some(answer) = judged {
                // A judge that breaks off has found nothing.
                let _ = spawn_blocking(move || judge(&problem, &answer, &inconsistencies)).await;
            }
        });
    }
}

fn timed(problem: &Problem, took: &Histogram) -> Answer {
    let began = Instant::now();
    let (answer, report) = place(problem);
    took.observe(began.elapsed().as_secs_f64());
    for flaw in &report.problems {
        tracing::error!(
            ?flaw,
            "a placement problem was not sound; the rest of it was solved"
        );
    }
    answer
}

fn judge(problem: &Problem, answer: &Answer, inconsistencies: &IntCounter) {
    for broken in check::check(problem, answer) {
        inconsistencies.inc();
        tracing::error!(
            ?broken,
            "an answer of placement breaks a rule: report this as a bug"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{HostId, InstanceId, InstanceNumber, JobId};
    use echelon_core_placement::Choice;
    use echelon_core_testkit::build::main_group;

    #[test]
    fn an_answer_that_breaks_a_rule_is_counted() {
        let counter = IntCounter::new("inconsistencies", "of a test").unwrap();
        let problem = Problem::default();
        let mut answer = timed(&problem, &histogram());
        judge(&problem, &answer, &counter);
        assert_eq!(counter.get(), 0);
        answer.choices.push(Choice {
            instance: InstanceId {
                job: JobId(1),
                group: main_group(),
                number: InstanceNumber(0),
            },
            host: HostId::new("nowhere"),
            ports: Vec::new(),
        });
        judge(&problem, &answer, &counter);
        assert!(counter.get() > 0);
    }

    fn histogram() -> Histogram {
        Histogram::with_opts(prometheus::HistogramOpts::new("took", "of a test")).unwrap()
    }
}
