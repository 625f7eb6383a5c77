//! Quantities as people write them in job files and flags: `0.5` cores, `64MiB`, `30s`. Exact: what cannot be held in
//! thousandths or MiB is an error, never rounded.

use echelon_core_model::time::Span;

/// Largest quantity taken, in thousandths or MiB: far above any machine, far below overflow when multiplied by
/// 10,000,000 instances.
const MOST: u128 = 1_000_000_000;

/// Whole thousandths of a count such as `0.5`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn thousandths(text: &str) -> Result<u64, String> {
    bounded(text, exact(text)?)
}

/// The same of any size.
fn exact(text: &str) -> Result<u128, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if text.starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) {
        return Err(format!(
            "`{text}` is not a number such as 0.5 or 2 (it takes no unit)"
        ));
    }
    let part = part.trim_end_matches('0');
    if part.len() > 3 {
        return Err(format!("`{text}` is finer than 0.001"));
    }
    let number = format!("{whole}{part:0<3}").parse();
    number.map_err(|_| format!("`{text}` is too large"))
}

/// Whole MiB of a size such as `64MiB` or `2GiB`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn mebibytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number = number.trim();
    if number.starts_with('-') {
        return Err(format!("`{text}` is negative"));
    }
    if unit.is_empty() {
        return Err(format!(
            "`{text}` has no unit: write for example `{number}MiB` (KiB, MiB, GiB, TiB)"
        ));
    }
    let kibibytes_in_unit: u128 = match unit {
        "KiB" => 1,
        "MiB" => 1 << 10,
        "GiB" => 1 << 20,
        "TiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of memory or disk: use KiB, MiB, GiB or TiB"
            ));
        }
    };
    let milli = exact(number).map_err(|_| format!("`{text}` is not a size such as 64MiB"))?;
    let milli_kib = milli
        .checked_mul(kibibytes_in_unit)
        .ok_or_else(|| format!("`{text}` is too large"))?;
    if !milli_kib.is_multiple_of(1_024_000) {
        return Err(format!("`{text}` is not a whole number of MiB"));
    }
    bounded(text, milli_kib / 1_024_000)
}

/// A span such as `500ms`, `30s`, `5m` or `2h`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn span(text: &str) -> Result<Span, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let ms_in_unit: u128 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "" => {
            return Err(format!(
                "`{text}` has no unit: write for example `{number}s` (ms, s, m, h, d)"
            ));
        }
        _ => return Err(format!("`{unit}` is not a unit of time: use ms, s, m, h or d")),
    };
    let milli = exact(number).map_err(|why| why.replace(number, text))?;
    let too_long = || format!("`{text}` is too long");
    let ms = milli.checked_mul(ms_in_unit).ok_or_else(too_long)?;
    if !ms.is_multiple_of(1000) {
        return Err(format!("`{text}` is finer than a millisecond"));
    }
    u64::try_from(ms / 1000).map(Span).map_err(|_| too_long())
}

fn bounded(text: &str, number: u128) -> Result<u64, String> {
    if number > MOST {
        return Err(format!("`{text}` is too large"));
    }
    u64::try_from(number).map_err(|_| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_exact_or_refused() {
        for (text, want) in [
            ("0.1", 100),
            ("2", 2000),
            ("0.001", 1),
            ("1.500", 1500),
            (".5", 500),
            ("3.", 3000),
        ] {
            assert_eq!(thousandths(text), Ok(want), "{text}");
        }
        for bad in [
            "",
            ".",
            "-1",
            "NaN",
            "inf",
            "0.0001",
            "1e3",
            "1GiB",
            "99999999999999999999",
            "1000001",
            "+1",
            " 1",
        ] {
            assert!(thousandths(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_need_a_unit_and_whole_mebibytes() {
        for (text, want) in [
            ("32MiB", 32),
            ("1GiB", 1024),
            ("0.5GiB", 512),
            ("2048KiB", 2),
            ("1TiB", 1 << 20),
            ("2097152MiB", 2 << 20),
            ("0MiB", 0),
        ] {
            assert_eq!(mebibytes(text), Ok(want), "{text}");
        }
        for bad in [
            "32",
            "32MB",
            "32mib",
            "1KiB",
            "0.3MiB",
            "-1MiB",
            "MiB",
            "NaNMiB",
            "9999999999TiB",
        ] {
            assert!(mebibytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_need_a_unit() {
        for (text, ms) in [
            ("500ms", 500),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(span(text), Ok(Span(ms)), "{text}");
        }
        assert_eq!(
            span("99999999999999999999h"),
            Err("`99999999999999999999h` is too long".to_owned())
        );
        for bad in ["5", "5 s", "5min", "0.5ms", "-1s", ""] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (thousandths(&text), mebibytes(&text), span(&text));
        }

        #[test]
        fn any_span_that_is_shown_reads_back(ms: u64) {
            prop_assert_eq!(span(&Span(ms).to_string()), Ok(Span(ms)));
        }

        #[test]
        fn what_is_shown_reads_back(milli in 0u64..1_000_000_000) {
            let shown = echelon_core_model::Kind::Cpus.show(milli);
            prop_assert_eq!(thousandths(&shown), Ok(milli));
        }
    }
}
