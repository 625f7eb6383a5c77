//! How a resource manager makes room for those who are entitled to it, as files and flags say it.

use super::options::WrongOption;
use clap::Args;
use echelon_resource_manager::DriverConfig;
use serde::Deserialize;
use std::num::NonZeroU64;

/// What is not said has its default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreemptionOptions {
    /// How long work that its pool is entitled to waits in vain before room is made for it [default: 30s]
    #[arg(long = "preempt-after", value_name = "SPAN")]
    after: Option<String>,
    /// Most instances that are preempted in a minute [default: 600]
    #[arg(long = "preempt-a-minute", value_name = "N")]
    a_minute: Option<NonZeroU64>,
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
        if let Some(n) = self.a_minute {
            config.preemption.a_minute = n.get();
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
        assert_eq!((said.after, said.a_minute), (Span::seconds(5), 7));
        for wrong in ["after = \"soon\"", "a_minute = 0", "before = \"5s\""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
