//! How a resource manager judges clusters that are silent, as files and flags say it.

use super::options::WrongOption;
use clap::Args;
use echelon_core_model::Span;
use echelon_resource_manager::DriverConfig;
use serde::Deserialize;
use std::ops::RangeInclusive;

/// How long a resource manager may doubt itself, unless it may for ever.
const DOUBTS: RangeInclusive<Span> = Span::minutes(1)..=Span::minutes(7 * 24 * 60);

/// What is not said has its default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossOptions {
    /// For how much of one silence a resource manager may doubt its own observation and replace nothing, 1m to 7d; `never`: until the
    /// cause has ended or an operator says so [default: 1h]
    #[arg(long = "doubt-at-most", value_name = "SPAN|never")]
    doubt_at_most: Option<String>,
}

impl LossOptions {
    /// Flags over a file.
    pub(super) fn over(self, file: Self) -> Self {
        Self {
            doubt_at_most: self.doubt_at_most.or(file.doubt_at_most),
        }
    }

    /// A resource manager's settings with these.
    pub(super) fn apply(&self, mut config: DriverConfig) -> Result<DriverConfig, WrongOption> {
        if let Some(text) = &self.doubt_at_most {
            let most = doubt_at_most(text);
            config.doubt_at_most =
                most.map_err(|why| WrongOption(format!("`losses.doubt_at_most`: {why}")))?;
        }
        Ok(config)
    }
}

/// Reads a span from 1 minute to 7 days; `never`: none.
fn doubt_at_most(text: &str) -> Result<Option<Span>, String> {
    if text == "never" {
        return Ok(None);
    }
    let most = echelon_cli::quantity::span(text)?;
    if DOUBTS.contains(&most) {
        Ok(Some(most))
    } else {
        Err(format!("`{text}` is neither a time from 1m to 7d nor `never`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Span>, String> {
        let said: LossOptions = toml::from_str(text).map_err(|e| e.to_string())?;
        let config = said.apply(DriverConfig::new("one", 1));
        config.map(|c| c.doubt_at_most).map_err(|why| why.to_string())
    }

    #[test]
    fn what_is_not_said_has_its_default_and_what_cannot_be_is_refused() {
        assert_eq!(read(""), Ok(Some(Span::minutes(60))));
        for (text, most) in [
            ("1m", Some(Span::minutes(1))),
            ("90m", Some(Span::minutes(90))),
            ("7d", Some(Span::minutes(7 * 24 * 60))),
            ("never", None),
        ] {
            assert_eq!(read(&format!("doubt_at_most = \"{text}\"")), Ok(most), "{text}");
        }
        for (wrong, why) in [
            (
                "doubt_at_most = \"59s\"",
                "`losses.doubt_at_most`: `59s` is neither a time from 1m to 7d nor `never`",
            ),
            ("doubt_at_most = \"8d\"", "`8d` is neither"),
            ("doubt_at_most = \"0s\"", "`0s` is neither"),
            ("doubt_at_most = \"60\"", "`60` has no unit"),
            ("doubt_at_most = \"always\"", "is not a unit of time"),
            ("doubts = \"1h\"", "unknown field"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn flags_win_over_a_file() {
        let said = |most: &str| LossOptions {
            doubt_at_most: Some(most.to_owned()),
        };
        let config = said("never").over(said("2h")).apply(DriverConfig::new("one", 1));
        assert_eq!(config.unwrap().doubt_at_most, None);
        let config = LossOptions::default()
            .over(said("2h"))
            .apply(DriverConfig::new("one", 1));
        assert_eq!(config.unwrap().doubt_at_most, Some(Span::minutes(120)));
    }
}
