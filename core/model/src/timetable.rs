//! When a schedule is due. The expression is judged on the wall clock of its zone, as if that had no jumps; then each time of the
//! clock is put on the line of time:
//!
//! - A clock time that a jump leaves out is due at the end of the gap, once; one that comes twice is due when it comes first.
//! - Where the hours of an expression begin with `*`, it means "every so often" and not a time of day: then whatever the clock shows
//!   counts, so that nothing is made up for in a gap, and an hour that comes twice counts twice.
//!
//! Zones are those built into the program, so that no two leaders differ by what is installed on their machines. No clock is read:
//! every question brings its time along.

use crate::schedule::Schedule;
use crate::time::{Span, Timestamp};
use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use thiserror::Error;

/// Fields of an expression.
const FIELDS: usize = 5;
/// Most steps over times that a jump of the clock brings twice: every minute of a day.
const STEPS: usize = 1440;

/// Why a schedule is no timetable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TimetableError {
    /// Not five fields, or one of them is wrong.
    #[error("{0}")]
    Cron(String),
    /// No such zone.
    #[error(
        "there is no time zone `{0}`; use a name of the IANA database such as UTC, Europe/Berlin or America/New_York"
    )]
    Zone(String),
    /// Right in form, but on no day of any year.
    #[error("never comes: no day within four years is as it says")]
    Never,
}

/// An expression in its zone.
#[derive(Debug, Clone)]
pub struct Timetable {
    cron: Crontab,
    zone: TimeZone,
    /// It means "every so often".
    elapses: bool,
}

impl Timetable {
    /// Of a schedule.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of(schedule: &Schedule) -> Result<Self, TimetableError> {
        Self::new(&schedule.cron, &schedule.time_zone)
    }

    /// Of an expression in a zone.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn new(cron: &str, zone: &str) -> Result<Self, TimetableError> {
        let fields = cron.split_whitespace().count();
        if fields != FIELDS {
            return Err(TimetableError::Cron(format!(
                "must be five fields (minute, hour, day of month, month, day of week), such as `0 3 * * *`; this has {fields}"
            )));
        }
        let mut options = ParseOptions::default();
        // The zone is ours to apply: the expression is asked about a clock that never jumps.
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let parsed = cronexpr::parse_crontab_with(cron, options);
        let parsed = parsed.map_err(|wrong| TimetableError::Cron(one_line(&wrong.to_string())))?;
        let found = TimeZoneDatabase::bundled().get(zone);
        let timetable = Self {
            cron: parsed,
            zone: found.map_err(|_| TimetableError::Zone(zone.to_owned()))?,
            elapses: cron.split_whitespace().nth(1).is_some_and(|h| h.starts_with('*')),
        };
        // A day that comes every four years came by 2004.
        let comes = timetable.next(Timestamp(946_684_800_000)).is_some();
        comes.then_some(timetable).ok_or(TimetableError::Never)
    }

    /// The first due time after a moment; `None` at the end of time.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = instant(after)?;
        let next = if self.elapses {
            self.next_elapsed(after)
        } else {
            self.next_of_day(after)
        };
        next.and_then(timestamp)
    }

    /// The last due time after `from`, up to and with `until`. Looks back in steps that double: what is due every minute is found
    /// among the last minutes, whatever has passed since `from`.
    #[must_use]
    pub fn latest(&self, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let mut back = Span::minutes(10);
        loop {
            let start = Timestamp(until.0.saturating_sub(back.0)).max(from);
            let mut found = None;
            let mut at = start;
            while let Some(next) = self.next(at).filter(|next| *next <= until) {
                found = Some(next);
                at = next;
            }
            if found.is_some() || start <= from {
                return found;
            }
            back = Span(back.0.saturating_mul(2));
        }
    }

    /// The next due times after a moment.
    #[must_use]
    pub fn upcoming(&self, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next(after), |at| self.next(*at))
            .take(count)
            .collect()
    }

    /// A moment on the zone's clock: `2026-11-24 03:00 +01 Europe/Berlin`.
    #[must_use]
    pub fn show(&self, at: Timestamp) -> String {
        let Some(at) = instant(at) else {
            return at.to_string();
        };
        let clock = at.to_zoned(self.zone.clone());
        let name = self.zone.iana_name().unwrap_or(Schedule::UTC);
        let zone = if name == Schedule::UTC {
            Schedule::UTC.to_owned()
        } else {
            format!("{} {name}", clock.offset())
        };
        let t = clock.datetime();
        format!(
            "{}-{:02}-{:02} {:02}:{:02} {zone}",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute()
        )
    }

    /// Times of day: each time of the clock has one place on the line of time.
    fn next_of_day(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut clock = self.zone.to_datetime(after);
        for _ in 0..STEPS {
            clock = self.next_on_clock(clock)?;
            let at = self.first(clock)?;
            if at > after {
                return Some(at);
            }
        }
        None
    }

    /// When a time of the clock comes for the first time, or the gap that it falls into ends.
    fn first(&self, clock: DateTime) -> Option<jiff::Timestamp> {
        let found = self.zone.to_ambiguous_timestamp(clock);
        match found.offset() {
            AmbiguousOffset::Gap { .. } => {
                // Read with the offset of after the jump it is a moment before it.
                let before = found.earlier().ok()?;
                self.zone.following(before).next().map(|jump| jump.timestamp())
            }
            _ => found.earlier().ok(),
        }
    }

    /// Whatever the clock shows counts: one stretch of time without a jump after the other.
    fn next_elapsed(&self, after: jiff::Timestamp) -> Option<jiff::Timestamp> {
        let mut offset = self.zone.to_offset(after);
        let mut clock = offset.to_datetime(after);
        let mut jump = self.zone.following(after).next();
        for _ in 0..STEPS {
            let at = offset.to_timestamp(self.next_on_clock(clock)?).ok()?;
            let Some(jumps) = jump.as_ref().map(|j| j.timestamp()).filter(|j| *j <= at) else {
                return Some(at);
            };
            offset = self.zone.to_offset(jumps);
            // What is due at the very moment of the jump counts.
            let just_before = jumps.checked_sub(jiff::SignedDuration::from_secs(1)).ok()?;
            clock = offset.to_datetime(just_before);
            jump = self.zone.following(jumps).next();
        }
        None
    }

    /// The next time after one on a clock that never jumps.
    fn next_on_clock(&self, clock: DateTime) -> Option<DateTime> {
        let as_utc = Offset::UTC.to_timestamp(clock).ok()?;
        let next = self.cron.find_next(MakeTimestamp(as_utc)).ok()?;
        Some(next.datetime())
    }
}

fn instant(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()
}

fn timestamp(at: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(at.as_millisecond()).ok().map(Timestamp)
}

/// The last line of a message that draws where it went wrong.
fn one_line(message: &str) -> String {
    let last = message.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or(message).trim_matches([' ', '^', '|']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        timestamp(text.parse().unwrap()).unwrap()
    }

    fn due(cron: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let table = Timetable::new(cron, zone).unwrap();
        let all = table.upcoming(at(after), n);
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_time_of_day_is_that_of_its_zone_in_summer_and_winter() {
        assert_eq!(
            due("0 3 * * *", "Europe/Berlin", "2026-10-23T12:00:00Z", 3),
            [
                "2026-10-24T01:00:00Z",
                "2026-10-25T02:00:00Z",
                "2026-10-26T02:00:00Z"
            ]
        );
        assert_eq!(
            due("30 9 * * MON-FRI", "Asia/Kolkata", "2026-11-20T04:00:00Z", 2),
            ["2026-11-23T04:00:00Z", "2026-11-24T04:00:00Z"]
        );
        assert_eq!(
            due("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 1),
            ["2028-02-29T00:00:00Z"]
        );
    }

    #[test]
    fn a_time_in_the_gap_is_due_once_at_its_end() {
        // Berlin, 2027-03-28: 02:00 is followed by 03:00, at 01:00 UTC.
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00Z", 3),
            [
                "2027-03-27T01:30:00Z",
                "2027-03-28T01:00:00Z",
                "2027-03-29T00:30:00Z"
            ]
        );
        // All of the hour that is left out, and the one that follows, are one moment.
        assert_eq!(
            due("*/15 2,3 * * *", "Europe/Berlin", "2027-03-28T00:59:00Z", 3),
            [
                "2027-03-28T01:00:00Z",
                "2027-03-28T01:15:00Z",
                "2027-03-28T01:30:00Z"
            ]
        );
        // A gap at midnight: Sao Paulo, 2018-11-04. Half an hour: Lord Howe, 2026-10-04.
        assert_eq!(
            due("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", 2),
            ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"]
        );
        assert_eq!(
            due("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
            ["2026-10-03T15:30:00Z", "2026-10-04T15:10:00Z"]
        );
    }

    #[test]
    fn a_time_in_the_fold_is_due_once_when_it_comes_first() {
        // Berlin, 2026-10-25: 03:00 is followed by 02:00, at 01:00 UTC.
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let within = due("*/20 2 * * *", "Europe/Berlin", "2026-10-25T00:20:00Z", 2);
        assert_eq!(within, ["2026-10-25T00:40:00Z", "2026-10-26T01:00:00Z"]);
        let second_pass = due("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(second_pass, ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn every_so_often_goes_on_through_gap_and_fold() {
        assert_eq!(
            due("0,30 * * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", 4),
            [
                "2027-03-28T00:30:00Z",
                "2027-03-28T01:00:00Z",
                "2027-03-28T01:30:00Z",
                "2027-03-28T02:00:00Z"
            ]
        );
        assert_eq!(
            due("0,30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 5),
            [
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z",
                "2026-10-25T02:30:00Z"
            ]
        );
        // What the clock does not show is not made up for.
        assert_eq!(
            due("10 */2 * * *", "Europe/Berlin", "2027-03-28T00:00:00Z", 2),
            ["2027-03-28T02:10:00Z", "2027-03-28T04:10:00Z"]
        );
    }

    #[test]
    fn the_latest_due_time_is_found_whether_it_was_a_minute_or_months_ago() {
        let nightly = Timetable::new("0 3 * * *", "UTC").unwrap();
        let now = at("2026-11-24T02:59:00Z");
        let found = nightly.latest(at("2026-01-01T00:00:00Z"), now);
        assert_eq!(found, Some(at("2026-11-23T03:00:00Z")));
        assert_eq!(nightly.latest(at("2026-11-23T03:00:00Z"), now), None);
        let exact = at("2026-11-24T03:00:00Z");
        assert_eq!(nightly.latest(now, exact), Some(exact), "up to and with its end");
        let yearly = Timetable::new("0 0 1 1 *", "UTC").unwrap();
        assert_eq!(yearly.latest(Timestamp(0), now), Some(at("2026-01-01T00:00:00Z")));
        let minutes = Timetable::new("* * * * *", "UTC").unwrap();
        assert_eq!(
            minutes.latest(Timestamp(0), now.plus(Span::seconds(30))),
            Some(now)
        );
        assert_eq!(minutes.latest(now, now), None);
        assert_eq!(
            minutes.latest(now.plus(Span::minutes(9)), now),
            None,
            "a clock that went back"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |cron: &str, zone: &str| Timetable::new(cron, zone).unwrap_err().to_string();
        assert!(wrong("* * * *", "UTC").contains("this has 4"));
        assert!(wrong("0 3 * * * Europe/Berlin", "UTC").contains("this has 6"));
        assert!(wrong("", "UTC").contains("this has 0"));
        assert!(wrong("0 3 * * *", "Europe/Berln").contains("no time zone `Europe/Berln`"));
        assert!(wrong("0 0 30 2 *", "UTC").contains("never comes"));
        for cron in [
            "60 3 * * *",
            "0 24 * * *",
            "0 3 0 * *",
            "0 3 * 13 *",
            "a b c d e",
            "*/0 * * * *",
        ] {
            let told = wrong(cron, "UTC");
            assert!(!told.is_empty() && !told.contains('\n'), "{cron}: {told}");
        }
    }

    #[test]
    fn a_moment_is_shown_on_its_clock() {
        let berlin = Timetable::new("0 3 * * *", "Europe/Berlin").unwrap();
        let shown = berlin.show(at("2026-11-24T02:00:00Z"));
        assert_eq!(shown, "2026-11-24 03:00 +01 Europe/Berlin");
        let utc = Timetable::new("0 3 * * *", "UTC").unwrap();
        assert_eq!(utc.show(at("2026-11-24T03:00:00Z")), "2026-11-24 03:00 UTC");
    }
}
