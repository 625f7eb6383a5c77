//! What the flags of an agent say of the end of its executors. They are text that operators wrote.
//! What is no time is not known, and one that is longer than anyone waits counts as the longest.

use crate::mesos::v1::agent::response::GetFlags;
use echelon_core_model::Span;
use echelon_core_model::gone::AgentTimes;

/// The longest time, in milliseconds.
const MOST_MILLIS: f64 = 28.0 * 86_400e3;

/// Longer text is no time.
const MOST_TEXT: usize = 40;

/// The units of Mesos, in milliseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-6),
    ("us", 1e-3),
    ("ms", 1.0),
    ("secs", 1e3),
    ("mins", 60e3),
    ("hrs", 3_600e3),
    ("days", 86_400e3),
    ("weeks", 604_800e3),
];

/// Reads the flags of an agent.
#[must_use]
pub fn agent_times(told: &GetFlags) -> AgentTimes {
    let of = |name: &str| {
        let flag = told.flags.iter().find(|flag| flag.name == name)?;
        duration(flag.value.as_deref()?)
    };
    AgentTimes {
        recovery: of("recovery_timeout"),
        shutdown: of("executor_shutdown_grace_period"),
    }
}

/// A duration as Mesos writes it, like `1.5mins`, in whole milliseconds, rounded up.
fn duration(text: &str) -> Option<Span> {
    if text.len() > MOST_TEXT {
        return None;
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let millis = (number.parse::<f64>().ok()? * factor).ceil();
    if millis > MOST_MILLIS {
        return Some(AgentTimes::MOST);
    }
    whole(millis)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is a whole number in the range of the target"
)]
fn whole(millis: f64) -> Option<Span> {
    (0.0..=MOST_MILLIS)
        .contains(&millis)
        .then_some(Span(millis as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesos::v1::Flag;

    #[test]
    fn times_are_read_as_mesos_writes_them() {
        assert_eq!(AgentTimes::MOST, Span::minutes(28 * 24 * 60));
        for (text, millis) in [
            ("15mins", 900_000),
            ("5secs", 5_000),
            ("1hrs", 3_600_000),
            ("500ms", 500),
            ("1.5mins", 90_000),
            ("2weeks", 1_209_600_000),
            ("28days", 2_419_200_000),
            ("0ns", 0),
            ("1ns", 1),
            ("1001us", 2),
            (".5secs", 500),
            ("29days", 2_419_200_000),
            ("2419200001ms", 2_419_200_000),
            ("99999999999999999999weeks", 2_419_200_000),
        ] {
            assert_eq!(duration(text), Some(Span(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_not_known() {
        let long = format!("{}secs", "1".repeat(100));
        for text in [
            "",
            "mins",
            "15",
            "15 mins",
            "15min",
            "15Mins",
            "-15mins",
            "nanmins",
            "infsecs",
            "1e3secs",
            "1.2.3secs",
            ".secs",
            "0x10secs",
            "15mins\n",
            "１５mins",
            &long,
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_flag_that_is_missing_or_empty_is_not_known() {
        let flags = |all: &[(&str, Option<&str>)]| {
            let flags = all.iter().map(|(name, value)| Flag {
                name: (*name).to_owned(),
                value: value.map(str::to_owned),
            });
            agent_times(&GetFlags {
                flags: flags.collect(),
            })
        };
        let told = flags(&[
            ("port", Some("5051")),
            ("executor_shutdown_grace_period", Some("1mins")),
            ("recovery_timeout", Some("1hrs")),
        ]);
        assert_eq!(told.recovery, Some(Span::minutes(60)));
        assert_eq!(told.shutdown, Some(Span::minutes(1)));
        assert_eq!(flags(&[]), AgentTimes::UNKNOWN);
        let told = flags(&[
            ("recovery_timeout", None),
            ("executor_shutdown_grace_period", Some("")),
        ]);
        assert_eq!(told, AgentTimes::UNKNOWN);
    }
}
