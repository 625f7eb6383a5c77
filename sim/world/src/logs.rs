//! The logs of runs that have ended, as shards read and keep them: each task has written its own id. No run's logs are read before its
//! end is stored, and what is kept of a run is that run's.

use crate::invariants::{Broken, stored};
use crate::world::World;
use echelon_core_model::log::{KeptLog, KeptRuns, NoTail, Tail, Tails};
use echelon_core_model::store::{Answer, Op, Query, Write};
use echelon_core_model::{MemberId, SidecarName, Span, TaskId};
use echelon_core_shard::{AskedTails, Event};

/// The number of the invariant that is judged here.
const INVARIANT: u8 = 22;
/// Of a thousand reads, so many find no agent while faults happen.
const SILENT: u32 = 100;

/// What a task has written.
fn written(run: &TaskId, sidecar: Option<SidecarName>) -> Tail {
    let run = run.clone();
    let text = MemberId { run, sidecar }.to_string();
    Tail::Read {
        size: text.len() as u64,
        bytes: text.into_bytes().into(),
    }
}

/// Whether an operation is about kept logs: its luck and its delay are drawn by themselves, so that other histories stay as they
/// were.
pub(crate) fn is_about_logs(op: &Op) -> bool {
    match op {
        Op::Read(Query::KeptRuns(_), _) => true,
        Op::Commit(batch) => batch
            .writes
            .iter()
            .all(|w| matches!(w, Write::Log(_) | Write::RemoveLog(_) | Write::KeptRuns(_))),
        Op::Read(..) | Op::Decide(_) => false,
    }
}

impl World {
    /// A shard's process reads the logs of a run.
    pub(crate) fn fetch_tails(&mut self, at: (usize, usize, u64), asked: AskedTails) {
        let record = stored(self, &self.cluster_id(at.0), &asked.run.instance);
        let of = (asked.run.generation, asked.run.run);
        let mut runs = record.iter().flat_map(|r| r.run.iter().chain(&r.older));
        // One that is not there any more was followed by another, or is in nobody's record.
        if runs.any(|r| (r.generation, r.number) == of && !r.state.is_ended()) {
            let what = format!("the logs of {} are read before its end is stored", asked.run);
            self.broken.push(Broken {
                invariant: INVARIANT,
                what,
            });
        }
        let is_silent = self.is_faulty() && self.dice.logs.chance(SILENT);
        let members = std::iter::once(None).chain(asked.sidecars.into_iter().map(Some));
        let tails = members.map(|sidecar| {
            if is_silent {
                return Tails::missing(sidecar, NoTail::AgentSilent);
            }
            Tails {
                stdout: written(&asked.run, sidecar.clone()),
                stderr: Tail::Missing(NoTail::NoFile),
                sidecar,
            }
        });
        let event = Event::Tails(asked.run.clone(), tails.collect());
        let soon = self.dice.logs.span(Span::millis(1), Span::seconds(2));
        self.tell_shard(at, self.now.plus(soon), event);
    }

    /// What is listed as kept, and is not there or of another run.
    pub(crate) fn judge_logs(&self) -> Option<Broken> {
        let jobs = self.users.0.iter().filter_map(|user| user.job);
        let lists = jobs.flat_map(|job| match self.store.read(&Query::KeptRuns(job)) {
            Answer::KeptRuns(lists) => lists,
            _ => Vec::new(),
        });
        let what = lists.into_iter().find_map(|list| self.misses(&list))?;
        Some(Broken {
            invariant: INVARIANT,
            what,
        })
    }

    fn misses(&self, list: &KeptRuns) -> Option<String> {
        let tasks = list.runs.iter().flat_map(|run| run.tasks());
        tasks.into_iter().find_map(|task| {
            let query = Query::KeptLog(list.cluster.clone(), task.clone());
            let Answer::KeptLog(kept) = self.store.read(&query) else {
                return Some(format!("what is kept of {task} cannot be read"));
            };
            let right = |log: &KeptLog| {
                let out = &log.tails.stdout;
                *out == written(&task.run, task.sidecar.clone()) || out.missing() == Some(NoTail::AgentSilent)
            };
            match kept {
                None => Some(format!("{task} is listed as kept and is not there")),
                Some(log) if !right(&log) => Some(format!("what is kept of {task} is {:?}", log.tails)),
                Some(_) => None,
            }
        })
    }
}
