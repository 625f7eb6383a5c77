//! `echelon control ...`: switches for the whole system.

use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use clap::{Subcommand, ValueEnum};
use echelon_clients_rust::v1;

/// Verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show how the switches stand, who set them and why
    Show,
    /// Stop all kills on all clusters, or let them go on
    Kills {
        /// How the switch is to stand
        kills: Switch,
        /// Why, for everybody who sees it
        #[arg(long, value_name = "TEXT", default_value = "")]
        why: String,
        /// Who wants this
        #[arg(long, env = "USER", value_name = "NAME", default_value = "")]
        by: String,
    },
    /// Make a new key that tokens of drivers are signed with
    ///
    /// Tokens that runs have are good until it is done again: begin all drivers anew in between, and then nothing signed before the first time is
    /// good any more.
    RotateTokenKey,
}

/// How a switch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Kills are sent
    On,
    /// Nothing is killed
    Off,
}

/// Runs a verb.
pub async fn run(command: Command, context: &Context) -> Result<(), Failure> {
    let control = match command {
        Command::Show => get(context).await?,
        Command::Kills { kills, why, by } => update(context, (kills, why, by)).await?,
        Command::RotateTokenKey => return rotate(context).await,
    };
    show(context, &control);
    Ok(())
}

async fn get(context: &Context) -> Result<v1::Control, Failure> {
    let client = context.client().await?;
    let got = client.repeat(|| {
        let mut service = client.control_service();
        async move { service.get_control(v1::GetControlRequest {}).await }
    });
    Ok(got.await?.control.unwrap_or_default())
}

async fn update(
    context: &Context,
    (kills, why, by): (Switch, String, String),
) -> Result<v1::Control, Failure> {
    let client = context.client().await?;
    let kills = match kills {
        Switch::On => v1::Kills::On,
        Switch::Off => v1::Kills::Off,
    };
    let request = v1::UpdateControlRequest {
        control: Some(v1::Control {
            kills: kills.into(),
            by,
            why,
            ..v1::Control::default()
        }),
    };
    let updated = client.change(|| {
        let (mut service, request) = (client.control_service(), request.clone());
        async move { service.update_control(request).await }
    });
    Ok(updated.await?.control.unwrap_or_default())
}

/// What else a row that has changed may mean when the key of tokens was to be changed.
const MAYBE_DONE: &str = "\nthe key may have been changed by this very request, whose answer was lost; do not repeat it before drivers have begun \
                          anew: a second change makes their tokens worthless";

/// Names the row that it has read, so that a request that is repeated makes one new key and not two. An answer that got lost shows as a row
/// that has changed: whoever then asks once more would make tokens of before worthless.
async fn rotate(context: &Context) -> Result<(), Failure> {
    let request = v1::RotateTokenKeyRequest {
        etag: get(context).await?.etag,
    };
    let client = context.client().await?;
    let rotated = client.once(|| {
        let (mut service, request) = (client.control_service(), request.clone());
        async move { service.rotate_token_key(request).await }
    });
    let rotated = rotated.await.map_err(|error| {
        let is_stale = error.reason().is_some_and(|reason| reason == "ETAG_STALE");
        let mut failure = Failure::from(error);
        if is_stale {
            failure.message.push_str(MAYBE_DONE);
        }
        failure
    });
    let control = rotated?.control.unwrap_or_default();
    let people = "runs of drivers that begin from now on get tokens of a new key; tokens of before are good until it is changed again\n";
    let value = output::message("Control", &control);
    output::print(output::one(&value, "control", people, context.format()));
    Ok(())
}

fn show(context: &Context, control: &v1::Control) {
    let mut people = format!(
        "kills: {}\n",
        shape::word(control.kills().as_str_name(), "KILLS_")
    );
    if control.update_time.is_some() {
        people.push_str(&format!(
            "since: {}\nby:    {}\nwhy:   {}\n",
            shape::ago(control.update_time.as_ref()),
            output::escape(&control.by),
            output::escape(&control.why),
        ));
    }
    let value = output::message("Control", control);
    output::print(output::one(&value, "control", &people, context.format()));
}
