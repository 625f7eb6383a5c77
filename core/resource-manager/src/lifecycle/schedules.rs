//! Templates: what their schedules want next. Pure: which due times are decided is in the template's head, so whoever leads decides
//! the same, a due time is decided once, and a clock that goes back decides none again. What was decided is made in `openings`.

use crate::facts::job::JobView;
use crate::lifecycle::dependencies::all_waiting;
use crate::lifecycle::head_changes::Bid;
use crate::lifecycle::rules::Ruling;
use crate::manager::ResourceManager;
use echelon_core_model::job::{Desired, Head, JobState, Verdict, Waiting};
use echelon_core_model::schedule::{CatchUp, Opening, Overlap, Schedule, ScheduleState};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::timetable::Timetable;
use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};

/// What a schedule comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is due.
    Rest,
    /// So many of its jobs have not ended that what is due has to wait for them.
    Wait,
    /// A due time is decided.
    Decide(ScheduleState),
}

/// What is to be decided of a schedule whose last decision was carried out; `live` are its jobs that have not ended.
#[must_use]
pub(crate) fn step(
    schedule: &Schedule,
    table: &Timetable,
    state: &ScheduleState,
    live: &[JobId],
    now: Timestamp,
) -> Step {
    let oldest = Timestamp(now.0.saturating_sub(schedule.within.0));
    let from = state.handled.max(oldest);
    let Some(due) = due(schedule, table, (from, now)) else {
        return Step::Rest;
    };
    let skips = schedule.overlap == Overlap::Skip && !live.is_empty();
    if !skips && live.len() >= schedule.overlap.most() {
        return Step::Wait;
    }
    let before = Timestamp(due.0.saturating_sub(1));
    let mut next = ScheduleState {
        handled: due,
        missed: table.latest(state.handled, before).or(state.missed),
        ..state.clone()
    };
    if schedule.catch_up == CatchUp::None && now.since(due) > Schedule::ON_TIME {
        next.missed = Some(due);
    } else if skips {
        next.skipped = Some(due);
    } else {
        let waits = matches!(schedule.overlap, Overlap::Queue | Overlap::Replace);
        next.opening = Some(Opening {
            due,
            at: now,
            attempt: 0,
            after: if waits { live.to_vec() } else { Vec::new() },
            replaces: schedule.overlap == Overlap::Replace,
        });
    }
    Step::Decide(next)
}

/// The next due time to decide of those after `from`: each in its turn that is on time, and of what is late what is to be caught up with.
fn due(schedule: &Schedule, table: &Timetable, (from, now): (Timestamp, Timestamp)) -> Option<Timestamp> {
    let on_time = from.max(Timestamp(now.0.saturating_sub(Schedule::ON_TIME.0)));
    let late = table.latest(from, on_time);
    let next = |after| table.next(after).filter(|due| *due <= now);
    match schedule.catch_up {
        CatchUp::All => next(from),
        CatchUp::One if late.is_some() => table.latest(from, now),
        CatchUp::One | CatchUp::None => next(on_time).or(late),
    }
}

/// How far a template has come; before anything of it was decided, to when it was made.
#[must_use]
pub(crate) fn state_of(id: JobId, job: &JobView) -> ScheduleState {
    let stored = job.head.as_ref().and_then(|h| h.schedule.as_deref());
    stored.map_or_else(|| ScheduleState::from(id.created_at()), Clone::clone)
}

/// Why a template waits, in its zone's time.
pub(crate) fn scheduled(job: &JobView, spec: &JobSpec, now: Timestamp) -> Vec<Waiting> {
    let stored = job.head.as_ref().and_then(|h| h.schedule.as_deref());
    let handled = stored.map_or(now, |s| s.handled.max(now));
    let table = spec.rules.schedule.as_ref().map(Timetable::of);
    let words = match table {
        _ if stored.is_some_and(|s| s.paused) => "paused by command".to_owned(),
        Some(Ok(table)) => match table.next(handled) {
            Some(next) => format!("next at {}", table.show(next)),
            None => "it is never due again".to_owned(),
        },
        // Read by a version that knows more.
        Some(Err(wrong)) => format!("its schedule cannot be read: {wrong}"),
        None => String::new(),
    };
    all_waiting(spec, &Reason::new(ReasonCode::OnSchedule).at(words), now)
}

/// Whether the job that was decided last is there.
enum Made {
    No,
    Yes,
    /// Its id is taken by a head that bars it.
    Barred,
}

impl ResourceManager {
    /// What schedules say of a job: of a template, what it is to make; of a job made of one, whether it is to make room. `None`: nothing.
    pub(crate) fn of_schedules(&self, id: JobId, job: &JobView, now: Timestamp) -> Option<Ruling> {
        if let Some(spec) = job.spec.as_deref().filter(|s| s.is_template()) {
            let judged = job.is_live() && job.desired() == Desired::Running && job.next_head.is_none();
            return judged.then(|| self.of_template(id, job, spec, now));
        }
        let template = job.head.as_ref()?.origin.as_ref()?.template;
        if !job.is_live() {
            return self.is_surplus(template, id, job).then(|| Ruling {
                bid: Some(Bid::Delete),
                ..Ruling::default()
            });
        }
        let judged = job.desired() == Desired::Running && job.next_head.is_none();
        (judged && self.is_replaced(template, id)).then(|| {
            Ruling::stop(Verdict {
                state: JobState::Stopped,
                reason: Reason::new(ReasonCode::ScheduleReplaced),
            })
        })
    }

    fn of_template(&self, id: JobId, job: &JobView, spec: &JobSpec, now: Timestamp) -> Ruling {
        let schedule = spec.rules.schedule.as_ref();
        let Some((schedule, Ok(table))) = schedule.map(|s| (s, Timetable::of(s))) else {
            return Ruling::default();
        };
        let known = state_of(id, job);
        let mut state = known.clone();
        if let Some(opening) = &mut state.opening {
            match self.is_made(opening.job(id)) {
                Made::No => return Ruling::default(),
                Made::Barred => {
                    opening.attempt = opening.attempt.saturating_add(1);
                    return decided(state);
                }
                Made::Yes => state.opening = None,
            }
        }
        let due = if state.paused {
            Step::Rest
        } else {
            step(schedule, &table, &state, &self.live_children(id), now)
        };
        match due {
            Step::Decide(state) => return decided(state),
            _ if state != known => return decided(state),
            Step::Wait => return Ruling::default(),
            Step::Rest => {}
        }
        let next = table.next(state.handled.max(now));
        Ruling {
            look_at: next.filter(|_| !state.paused),
            ..Ruling::default()
        }
    }

    fn is_made(&self, child: JobId) -> Made {
        let head = self.picture.jobs.get(&child).and_then(|j| j.head.as_ref());
        let void = head.map(|h| h.void);
        match void.or_else(|| self.tombstones.get(&child).map(|t| t.void)) {
            None if self.picture.jobs.contains_key(&child) => Made::Yes,
            None if self.picture.ended.contains_key(&child) => Made::Yes,
            None => Made::No,
            Some(true) => Made::Barred,
            Some(false) => Made::Yes,
        }
    }

    /// Whether the job that a template's head says was decided last is still to be made.
    pub(crate) fn is_to_be_made(&self, child: JobId) -> bool {
        matches!(self.is_made(child), Made::No)
    }

    /// Jobs of a template that have not ended, oldest first.
    fn live_children(&self, template: JobId) -> Vec<JobId> {
        let children = self.children.get(&template).into_iter().flatten();
        let live = |id: &&JobId| {
            let job = self.picture.jobs.get(id);
            job.is_some_and(|j| j.progress.as_ref().is_none_or(|p| !p.state.is_ended()))
        };
        children.filter(live).copied().collect()
    }

    /// Whether a later job takes this one's place.
    fn is_replaced(&self, template: JobId, id: JobId) -> bool {
        let later = self.children.get(&template).into_iter().flatten();
        later.filter(|other| **other != id).any(|other| {
            let head = self.picture.jobs.get(other).and_then(|j| j.head.as_ref());
            let origin = head.filter(|h| !h.void).and_then(|h| h.origin.as_ref());
            origin.is_some_and(|o| o.replaces.contains(&id))
        })
    }

    /// Whether as many later jobs of its template have ended as are kept. Of a template that is gone all are kept.
    fn is_surplus(&self, template: JobId, id: JobId, job: &JobView) -> bool {
        let wanted = job.desired() != Desired::Deleted;
        let of = self.picture.jobs.get(&template).and_then(|t| t.spec.as_ref());
        let Some(schedule) = of.and_then(|s| s.rules.schedule.as_ref()).filter(|_| wanted) else {
            return false;
        };
        let ended = |other: &&JobId| {
            let other = self.picture.jobs.get(other);
            other.is_some_and(|j| !j.is_live() && j.desired() != Desired::Deleted)
        };
        let children = self.children.get(&template).into_iter().flatten();
        let later = children.filter(|other| **other > id).filter(ended).count();
        later >= usize::try_from(schedule.keep_last).unwrap_or(usize::MAX)
    }

    /// A head that was read says of which template it was made.
    pub(crate) fn note_origin(&mut self, head: &Head) {
        if let Some(origin) = head.origin.as_deref().filter(|_| !head.void) {
            self.children.entry(origin.template).or_default().insert(head.job);
            self.dirty.extend(&origin.replaces);
            self.dirty.insert(origin.template);
        }
    }

    /// A job has ended: its template may make another one, and an older one may be too many.
    pub(crate) fn child_ended(&mut self, id: JobId) {
        let head = self.picture.jobs.get(&id).and_then(|j| j.head.as_ref());
        if let Some(template) = head.and_then(|h| h.origin.as_ref()).map(|o| o.template) {
            self.dirty.insert(template);
            self.dirty
                .extend(self.children.get(&template).into_iter().flatten());
        }
    }

    /// Only a job's tombstone is left.
    pub(crate) fn forget_child(&mut self, id: JobId, job: &JobView) {
        let origin = job.head.as_ref().and_then(|h| h.origin.as_ref());
        if let Some(template) = origin.map(|o| o.template)
            && let Some(children) = self.children.get_mut(&template)
        {
            children.remove(&id);
            if children.is_empty() {
                self.children.remove(&template);
            }
        }
    }
}

fn decided(state: ScheduleState) -> Ruling {
    Ruling {
        bid: Some(Bid::Schedule(Box::new(state))),
        ..Ruling::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Span;

    const DAY: u64 = 24 * 60;
    /// Three in the morning of some day, in UTC.
    const DUE: Timestamp = Timestamp(1_795_489_200_000);

    fn nightly(overlap: Overlap, catch_up: CatchUp) -> Schedule {
        Schedule {
            cron: "0 3 * * *".to_owned(),
            time_zone: Schedule::UTC.to_owned(),
            overlap,
            catch_up,
            within: Span::minutes(3 * DAY),
            keep_last: 5,
        }
    }

    fn after(minutes: u64) -> Timestamp {
        DUE.plus(Span::minutes(minutes))
    }

    fn days_before(n: u64) -> Timestamp {
        Timestamp(DUE.0 - Span::minutes(n * DAY).0)
    }

    /// What was made, skipped and missed, in days before `DUE`, until nothing more is decided.
    fn told(schedule: &Schedule, handled: Timestamp, live: &[JobId], now: Timestamp) -> String {
        let table = Timetable::of(schedule).unwrap();
        let mut state = ScheduleState::from(handled);
        let mut out = Vec::new();
        let day = |at: Timestamp| (DUE.0 - at.0) / Span::minutes(DAY).0;
        for _ in 0..20 {
            match step(schedule, &table, &state, live, now) {
                Step::Rest => return out.join(" "),
                Step::Wait => {
                    out.push("waits".to_owned());
                    return out.join(" ");
                }
                Step::Decide(next) => {
                    assert!(next.handled > state.handled && next.handled <= now);
                    if let Some(o) = &next.opening {
                        out.push(format!("made {} after {}", day(o.due), o.after.len()));
                    }
                    for (word, at, was) in [
                        ("skipped", next.skipped, state.skipped),
                        ("missed", next.missed, state.missed),
                    ] {
                        if let Some(at) = at.filter(|_| at != was) {
                            out.push(format!("{word} {}", day(at)));
                        }
                    }
                    state = ScheduleState {
                        opening: None,
                        ..next
                    };
                }
            }
        }
        panic!("it never rests: {out:?}");
    }

    #[test]
    fn what_is_due_is_decided_once_on_time() {
        for catch_up in CatchUp::ALL {
            let schedule = nightly(Overlap::Skip, catch_up);
            assert_eq!(told(&schedule, days_before(1), &[], DUE), "made 0 after 0");
            assert_eq!(told(&schedule, DUE, &[], after(60)), "");
            assert_eq!(
                told(&schedule, days_before(1), &[], Timestamp(DUE.0 - 1)),
                "",
                "not before"
            );
            assert_eq!(
                told(&schedule, after(600), &[], DUE),
                "",
                "a clock that went back"
            );
        }
    }

    #[test]
    fn what_was_missed_is_caught_up_with_as_the_schedule_says() {
        let week = days_before(7);
        let said = |catch_up| told(&nightly(Overlap::Allow, catch_up), week, &[], after(120));
        assert_eq!(said(CatchUp::None), "missed 0");
        assert_eq!(said(CatchUp::One), "made 0 after 0 missed 1");
        let all = said(CatchUp::All);
        assert_eq!(
            all, "made 2 after 0 missed 3 made 1 after 0 made 0 after 0",
            "within three days"
        );
        let soon = told(&nightly(Overlap::Allow, CatchUp::None), week, &[], after(4));
        assert_eq!(soon, "made 0 after 0 missed 1", "what is hardly late is no miss");
    }

    #[test]
    fn a_job_that_still_runs_is_skipped_for_waited_for_replaced_or_joined() {
        let live = [JobId(1), JobId(2)];
        let said = |overlap| told(&nightly(overlap, CatchUp::One), days_before(1), &live, DUE);
        assert_eq!(said(Overlap::Skip), "skipped 0");
        assert_eq!(said(Overlap::Queue), "made 0 after 2");
        assert_eq!(said(Overlap::Replace), "made 0 after 2");
        assert_eq!(said(Overlap::Allow), "made 0 after 0");
        let schedule = nightly(Overlap::Replace, CatchUp::One);
        let table = Timetable::of(&schedule).unwrap();
        let state = ScheduleState::from(days_before(1));
        let Step::Decide(next) = step(&schedule, &table, &state, &live, DUE) else {
            panic!()
        };
        assert_eq!(next.opening.unwrap().origin(JobId(9)).replaces, live);
    }

    #[test]
    fn what_would_pile_up_waits_and_is_not_lost() {
        let many: Vec<JobId> = (0..10).map(JobId).collect();
        let queue = nightly(Overlap::Queue, CatchUp::All);
        assert_eq!(told(&queue, days_before(1), &many, DUE), "waits");
        assert_eq!(told(&queue, days_before(1), &many[1..], DUE), "made 0 after 9");
        let skip = nightly(Overlap::Skip, CatchUp::One);
        assert_eq!(told(&skip, days_before(1), &many, DUE), "skipped 0");
    }
}
