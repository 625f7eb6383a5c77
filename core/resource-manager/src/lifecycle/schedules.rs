//! Templates: what their schedules want next. Pure: which due times are decided is in the template's head. So
//! every leader decides the same, a due time is decided once, and a clock that goes back decides none again.
//! What was decided is made in `scheduled_creations`.

use crate::facts::job::JobView;
use crate::lifecycle::dependencies::all_waiting;
use crate::lifecycle::head_change::Bid;
use crate::lifecycle::rules::Ruling;
use echelon_core_model::job::Waiting;
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

/// What is to be decided of a schedule after its last decision was carried out.
/// `live` are its jobs that have not ended.
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

/// The next due time to decide of those after `from`.
/// Those on time come each in its turn. Of those that are late only what is to be caught up with counts.
pub(crate) fn due(
    schedule: &Schedule,
    table: &Timetable,
    (from, now): (Timestamp, Timestamp),
) -> Option<Timestamp> {
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
    let stored = job.head.as_ref().and_then(|h| h.rare.schedule.as_deref());
    stored.map_or_else(|| ScheduleState::from(id.created_at()), Clone::clone)
}

/// Why a template waits, in its zone's time.
pub(crate) fn scheduled(job: &JobView, spec: &JobSpec, now: Timestamp) -> Vec<Waiting> {
    let stored = job.head.as_ref().and_then(|h| h.rare.schedule.as_deref());
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
pub(crate) enum Made {
    No,
    Yes,
    /// Its id is taken by a head that bars it.
    Barred,
}

pub(crate) fn decided(state: ScheduleState) -> Ruling {
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
