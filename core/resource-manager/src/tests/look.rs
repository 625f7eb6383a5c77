//! What a case shows: what is stored and runs, in few words, and the trace of what was written and ordered.

use crate::event::LinkId;
use crate::queries::unstored::unstored_progress;
use crate::tests::case::Case;
use echelon_core_model::assignment::Assignment;
use echelon_core_model::directive::{Directive, Order, SliceOrder};
use echelon_core_model::job::{JobState, Progress};
use echelon_core_model::store::{Answer, Decision, Event, Op, Query, Role, Write};
use echelon_core_model::{ClusterId, JobId, ReasonCode};
use echelon_core_testkit::build::main_group;

impl Case {
    pub fn assignment(&self, job: JobId) -> Option<Assignment> {
        match self.store.read(&Query::Assignment(job)) {
            Answer::Assignments(_, rows) => rows.into_iter().next(),
            other => panic!("{other:?}"),
        }
    }

    /// Events of a job, as they are stored.
    pub fn events_of(&self, job: JobId) -> Vec<ReasonCode> {
        let all = self.stored_events(job).into_iter();
        all.map(|e| e.reason.code).collect()
    }

    /// The same whole.
    pub fn stored_events(&self, job: JobId) -> Vec<Event> {
        self.store.events_of(job, &Role::ResourceManager)
    }

    /// What became of a job, as a gateway has it: the stored row, else what the resource manager says.
    pub fn progress(&self, job: JobId) -> Option<Progress> {
        let unstored = || {
            let rows = unstored_progress(self.rm.picture(), &[job], self.now);
            rows.into_iter().next().filter(|_| self.rm.leading().is_some())
        };
        self.stored_progress(job).or_else(unstored)
    }

    pub fn stored_progress(&self, job: JobId) -> Option<Progress> {
        match self.store.read(&Query::Progress(job)) {
            Answer::Progress(rows) => rows.into_iter().next(),
            other => panic!("{other:?}"),
        }
    }

    pub fn state(&self, job: JobId) -> Option<JobState> {
        self.progress(job).map(|p| p.state)
    }

    /// `0-3@a.1 4-7@b.1>c` : range, cluster, generation, mark.
    pub fn ranges(&self, job: JobId) -> String {
        let assignment = self.assignment(job);
        let ranges = assignment.as_ref().map_or(&[][..], |a| a.ranges(&main_group()));
        let text = ranges.iter().map(|r| {
            let mark = r.releasing.as_ref().map(|m| {
                let to = m.to.as_ref().map_or("nowhere", ClusterId::as_str);
                m.count.map_or(format!(">{to}"), |n| format!(">{to}:{n}"))
            });
            format!(
                "{}@{}.{}{}",
                r.range,
                r.cluster,
                r.generation,
                mark.unwrap_or_default()
            )
        });
        text.collect::<Vec<_>>().join(" ")
    }

    /// Waiting instances of a job by reason.
    pub fn waiting(&self, job: JobId) -> Vec<(ReasonCode, u64)> {
        let rows = self.progress(job).map(|p| p.waiting).unwrap_or_default();
        rows.into_iter().map(|w| (w.reason.code, w.count)).collect()
    }

    /// Active instances of a job by cluster.
    pub fn active(&self, job: JobId) -> Vec<(&str, usize)> {
        let all = self
            .shards
            .iter()
            .map(|(c, s)| (c.as_str(), s.running(job).len()));
        all.filter(|(_, n)| *n > 0).collect()
    }

    pub fn total_active(&self, job: JobId) -> usize {
        self.active(job).iter().map(|(_, n)| n).sum()
    }

    pub fn note_op(&mut self, op: &Op) {
        match op {
            Op::Decide(Decision::PutAssignments { put, remove, .. }) => {
                for a in put {
                    let ranges = a.ranges(&main_group()).iter();
                    let text: Vec<String> = ranges
                        .map(|r| format!("{}@{}.{}", r.range, r.cluster, r.generation))
                        .collect();
                    self.trace.push(format!("store assignment {}", text.join(" ")));
                }
                if !remove.is_empty() {
                    self.trace.push("remove assignment".to_owned());
                }
            }
            Op::Read(Query::Spec(job, _), _) => self.specs_read.push(*job),
            Op::Decide(Decision::RemoveHead { .. }) => self.trace.push("remove head".to_owned()),
            Op::Commit(batch) => {
                for w in &batch.writes {
                    match w {
                        Write::Progress(p) => self.trace.push(format!("progress {}", p.state)),
                        Write::EndedAssignment(..) => self.trace.push("keep assignment".to_owned()),
                        Write::RemoveProgress(_) => self.trace.push("remove progress".to_owned()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    pub fn note_order(&mut self, link: LinkId, directive: &Directive) {
        let cluster = self
            .links
            .iter()
            .find(|(_, l)| **l == link)
            .map_or("?", |(c, _)| c.as_str());
        match &directive.order {
            Order::Report | Order::Classes(_) => {}
            Order::Hello(taken) => self
                .trace
                .push(format!("{cluster}: hello of epoch {}", taken.epoch)),
            Order::Slices(orders) if orders.is_empty() => {}
            Order::Archive(_) => self.trace.push(format!("{cluster}: archive")),
            Order::Drains(d) => self.trace.push(format!("{cluster}: drains {}", d.version)),
            Order::HostMoves(m) => self.trace.push(format!("{cluster}: host moves {}", m.version)),
            Order::Claims { claims, .. } => self.trace.push(format!("{cluster}: claims {}", claims.len())),
            Order::Volumes(w) => self.trace.push(format!("{cluster}: volumes {}", w.len())),
            Order::Kills { off, .. } => {
                let word = if *off { "off" } else { "on" };
                self.trace.push(format!("{cluster}: kills {word}"));
            }
            Order::ForgetHosts(h) => self.trace.push(format!("{cluster}: forget hosts {}", h.version)),
            Order::TearDown => self.trace.push(format!("{cluster}: tear down")),
            Order::AcceptLoss(n) => self.trace.push(format!("{cluster}: accept loss {n}")),
            Order::Slices(orders) => {
                let text: Vec<String> = orders.iter().map(order_text).collect();
                self.trace.push(format!("{cluster}: {}", text.join("; ")));
            }
        }
    }
}

fn order_text(o: &SliceOrder) -> String {
    let ranges: Vec<String> = o
        .ranges
        .iter()
        .map(|r| {
            let mark = match r.releasing.as_ref().map(|m| m.count) {
                None => String::new(),
                Some(None) => " leaving".to_owned(),
                Some(Some(n)) => format!(" {n} leaving"),
            };
            format!("{}.{}{mark}", r.range, r.generation)
        })
        .collect();
    let grants: Vec<String> = o.grants.iter().map(|(_, g)| g.active.to_string()).collect();
    format!(
        "{:?} [{}] grants [{}]",
        o.goal.desired,
        ranges.join(", "),
        grants.join(", ")
    )
}
