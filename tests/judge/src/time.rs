//! Times as the API writes them: `2026-11-24T16:47:06.123Z`.

/// Milliseconds since 1970 of a time in UTC; none when it is no such time.
#[must_use]
pub fn millis_of(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut clock = clock.split(':').map(str::parse::<i64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    u64::try_from(seconds * 1000 + millis).ok()
}

/// Days from 1970 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // years begin in March, so that a leap day is the last one
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The day, as `2026-11-24`, of milliseconds since 1970.
#[must_use]
pub fn date_of(millis: u64) -> String {
    let since = i64::try_from(millis / 86_400_000).unwrap_or(0) + 719_468;
    let (era, of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let of_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_years + of_years / 4 - of_years / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = of_years + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_of_the_api() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00.5Z", Some(951_825_600_500)),
            ("2026-11-24T16:47:06.123456Z", Some(1_795_538_826_123)),
            ("yesterday", None),
            ("2026-11-24T16:47:06", None),
        ] {
            assert_eq!(millis_of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_day_is_written_as_it_is_read() {
        for date in ["1970-01-01", "2000-02-29", "2026-11-24", "2100-12-31"] {
            let millis = millis_of(&format!("{date}T23:59:59Z")).unwrap();
            assert_eq!(date_of(millis), date);
        }
    }
}
