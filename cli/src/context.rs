//! What every client command shares: where the gateway is, how to print, and the connection, made when it is first
//! needed.

use crate::exit::Failure;
use crate::output::{self, Format, escape};
use clap::Args;
use echelon_clients_rust::{Aside, Client, Notice};
use std::sync::Once;
use std::time::Duration;

/// Flags of every client command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Address of a gateway, or several separated by commas: where one is away the next is asked
    #[arg(
        long,
        global = true,
        env = "ECHELON_ADDRESS",
        default_value = "http://127.0.0.1:7070",
        value_name = "URL"
    )]
    pub address: String,
    /// A driver's token: what it does is limited to its own job
    #[arg(
        long,
        global = true,
        env = "ECHELON_TOKEN",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        value_name = "TOKEN"
    )]
    pub token: String,
    /// How to print
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Give up after this long
    #[arg(long, global = true, default_value = "30s", value_parser = deadline, value_name = "TIME")]
    pub timeout: Duration,
}

fn deadline(text: &str) -> Result<Duration, String> {
    crate::quantity::span(text).map(|span| Duration::from_millis(span.0.max(1)))
}

/// What every command says while it is so, once, whatever was asked.
const KILLS_ARE_OFF: &str = "warning: kills are off: nothing is stopped on any cluster until `echelon control kills on` (see `echelon control show`)";

/// Where commands talk to and how they print.
#[derive(Debug, Clone)]
pub struct Context {
    /// The flags.
    pub global: Global,
}

impl Context {
    /// With these flags.
    #[must_use]
    pub const fn new(global: Global) -> Self {
        Self { global }
    }

    /// Connects.
    ///
    /// # Errors
    /// When no gateway answers.
    pub async fn client(&self) -> Result<Client, Failure> {
        static TOLD: Once = Once::new();
        static TOLD_STALE: Once = Once::new();
        let notice = Notice::new(|aside| {
            match aside {
            Aside::KillsOff => TOLD.call_once(|| output::remark(KILLS_ARE_OFF)),
            Aside::Stale(leaders) => TOLD_STALE.call_once(|| {
                output::remark(format_args!(
                    "warning: no answer from the leader of {}: what depends on it is shown as it was then (see `echelon status`)",
                    escape(&leaders)
                ));
            }),
            Aside::UnreadRows(rows) => output::remark(format_args!(
                "warning: jobs are missing from this list: {}",
                escape(&rows)
            )),
        }
        });
        let client = Client::connect(&self.global.address, self.global.timeout).await?;
        let client = client.with_notice(notice);
        if self.global.token.is_empty() {
            return Ok(client);
        }
        Ok(client.with_token(&self.global.token)?)
    }

    /// How to print.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.global.output
    }
}
