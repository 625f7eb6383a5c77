//! How a resource manager makes room for those who are entitled to it, as files and flags say it.

use super::options::WrongOption;
use clap::Args;
use echelon_core_model::Amount;
use echelon_resource_manager::DriverConfig;
use serde::Deserialize;
use std::str::FromStr;

/// What is not said has its default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreemptionOptions {
    /// How long work that its pool is entitled to waits in vain before room is made for it [default: 30s]
    #[arg(long = "preempt-after", value_name = "SPAN")]
    after: Option<String>,
    /// Most instances that are preempted in a minute: so many, or a part of all that are active, but never less than 600
    /// [default: 10%]
    #[arg(long = "preempt-a-minute", value_name = "N|N%")]
    a_minute: Option<AMinute>,
}

/// How many instances are preempted in a minute at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "NumberOrText")]
struct AMinute(Amount);

/// How a file says it: `a_minute = 600` or `a_minute = "10%"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl TryFrom<NumberOrText> for AMinute {
    type Error = String;

    fn try_from(said: NumberOrText) -> Result<Self, String> {
        match said {
            NumberOrText::Number(n) => n.to_string().parse(),
            NumberOrText::Text(text) => text.parse(),
        }
    }
}

impl FromStr for AMinute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no number of instances from 1 to {} and no part from 1% to 100%",
                u32::MAX
            )
        };
        let (number, is_part) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let n: u32 = number.trim().parse().map_err(|_| wrong())?;
        match (n, is_part) {
            (1..=100, true) => Ok(Self(Amount::Percent(n))),
            (1.., false) => Ok(Self(Amount::Count(n))),
            _ => Err(wrong()),
        }
    }
}

impl PreemptionOptions {
    /// Flags over a file.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            after: self.after.or(file.after),
            a_minute: self.a_minute.or(file.a_minute),
        }
    }

    /// A resource manager's settings with these.
    pub(super) fn apply(&self, mut config: DriverConfig) -> Result<DriverConfig, WrongOption> {
        if let Some(text) = &self.after {
            let after = echelon_cli::quantity::span(text);
            config.preemption.after =
                after.map_err(|why| WrongOption(format!("`preemption.after`: {why}")))?;
        }
        if let Some(AMinute(amount)) = self.a_minute {
            config.preemption.a_minute = amount;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Span;

    fn read(text: &str) -> Result<DriverConfig, WrongOption> {
        let said: PreemptionOptions = toml::from_str(text).map_err(|e| WrongOption(e.to_string()))?;
        said.apply(DriverConfig::new("one", 1))
    }

    #[test]
    fn what_is_not_said_has_its_default_and_nonsense_is_refused() {
        let usual = DriverConfig::new("one", 1).preemption;
        assert_eq!(read("").unwrap().preemption, usual);
        let said = read("after = \"5s\"\na_minute = 7").unwrap().preemption;
        assert_eq!((said.after, said.a_minute), (Span::seconds(5), Amount::Count(7)));
        let part = read("a_minute = \"25%\"").unwrap().preemption;
        assert_eq!(part.a_minute, Amount::Percent(25));
        for wrong in [
            "after = \"soon\"",
            "a_minute = 0",
            "a_minute = -1",
            "a_minute = 5_000_000_000",
            "a_minute = \"0%\"",
            "a_minute = \"101%\"",
            "a_minute = \"many\"",
            "before = \"5s\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
