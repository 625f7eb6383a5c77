//! Rows that a test has made unreadable.

use echelon_core_model::JobId;
use echelon_core_model::store::{Answer, OpResult, Query, RowSubject, ShardKey, UnreadRow};
use std::collections::BTreeSet;

/// The unreadable rows of jobs, by table.
#[derive(Debug, Clone, Default)]
pub struct Spoiled(BTreeSet<(&'static str, JobId)>);

impl Spoiled {
    pub fn add(&mut self, table: &'static str, job: JobId) {
        self.0.insert((table, job));
    }

    /// An answer as a storage would give it that cannot read these rows.
    pub fn result(&self, query: &Query, mut answer: Answer, mut unread: Vec<UnreadRow>) -> OpResult {
        if let Query::Spec(job, _) = query
            && self.0.contains(&("specs", *job))
        {
            return OpResult::Unread(Box::new(row("specs", *job)));
        }
        let is_own = |row: &UnreadRow| row.subject == RowSubject::Shard(ShardKey::Own);
        if let Some(own) = unread.iter().position(is_own) {
            return OpResult::Unread(Box::new(unread.swap_remove(own)));
        }
        let mut keep = |table: &'static str, job: JobId| {
            let spoiled = self.0.contains(&(table, job));
            if spoiled {
                unread.push(row(table, job));
            }
            !spoiled
        };
        match &mut answer {
            Answer::Head(Some(head)) if !keep("heads", head.job) => {
                return OpResult::Unread(Box::new(row("heads", head.job)));
            }
            Answer::Heads(heads) => heads.retain(|h| keep("heads", h.job)),
            Answer::Assignments(_, all) => all.retain(|a| keep("assignments", a.job)),
            Answer::Progress(rows) => rows.retain(|p| keep("progress", p.job)),
            Answer::Jobs(jobs) => jobs.retain(|(h, _)| keep("heads", h.job) && keep("progress", h.job)),
            _ => {}
        }
        if unread.is_empty() {
            OpResult::Answer(answer)
        } else {
            OpResult::Partial(answer, unread)
        }
    }
}

fn row(table: &'static str, job: JobId) -> UnreadRow {
    UnreadRow {
        table,
        key: job.to_string(),
        subject: RowSubject::Job(job),
        bytes: vec![0xff],
        why: "a test spoiled it".to_owned(),
    }
}
