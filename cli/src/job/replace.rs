//! `echelon job replace`: an instance whose host is gone for good begins anew with an empty volume. What is lost is said before anything is.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{output, shape};
use clap::Args as ClapArgs;
use echelon_clients_rust::v1;

/// Which instance.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Id or name
    job: String,
    /// Its number
    instance: u32,
    /// Its group
    #[arg(long, default_value = "main")]
    group: String,
    /// What is in its volume is lost to it, and that is known
    #[arg(long)]
    yes: bool,
}

/// Says what would be lost, and with `--yes` has it replaced.
pub async fn replace(context: &Context, args: Args) -> Result<(), Failure> {
    let client = context.client().await?;
    let name = format!(
        "jobs/{}/groups/{}/instances/{}",
        args.job, args.group, args.instance
    );
    let asked = v1::GetInstanceRequest { name: name.clone() };
    let found = client.repeat(|| {
        let (mut service, request) = (client.instance_service(), asked.clone());
        async move { service.get_instance(request).await }
    });
    let instance = found.await?.instance.unwrap_or_default();
    if !args.yes {
        return Err(Failure::new(Exit::Failed, warning(&instance)));
    }
    let request = v1::ReplaceInstanceRequest {
        name,
        volume_id: instance.volume.clone().unwrap_or_default().volume_id,
    };
    if request.volume_id.is_empty() {
        return Err(Failure::new(Exit::Failed, warning(&instance)));
    }
    let done = client.change(|| {
        let (mut service, request) = (client.instance_service(), request.clone());
        async move { service.replace_instance(request).await }
    });
    let told = done.await?.instance.unwrap_or_default();
    let people = format!(
        "{} begins anew with an empty volume, unless its host is heard before; `echelon job instances {}` shows it\n",
        place(&told),
        output::escape(&args.job)
    );
    let value = output::message("Instance", &told);
    output::print(output::one(&value, &told.name, &people, context.format()));
    Ok(())
}

fn place(i: &v1::Instance) -> String {
    format!("instance {}/{}", output::escape(&i.group), i.number)
}

/// What would be lost.
fn warning(i: &v1::Instance) -> String {
    let Some(volume) = &i.volume else {
        return format!("{} holds no volume: there is nothing to replace", place(i));
    };
    format!(
        "{} is {} ({}); it would begin anew with an empty volume on another host. Lost to it is all that is in volume {} of {} MiB on host {}. \
         That host may be down for a while only: replace what is gone for good. Nothing was changed; say --yes to do it",
        place(i),
        shape::run_state(i.state()),
        output::escape(&shape::reason(i.reason.as_ref())),
        output::escape(&volume.volume_id),
        volume.size_mib,
        output::escape(&volume.hostname)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_is_said_first() {
        let mut instance = v1::Instance {
            group: "main".to_owned(),
            state: v1::RunState::Unreachable.into(),
            ..v1::Instance::default()
        };
        assert_eq!(
            warning(&instance),
            "instance main/0 holds no volume: there is nothing to replace"
        );
        instance.volume = Some(v1::InstanceVolume {
            volume_id: "v".to_owned(),
            hostname: "h7".to_owned(),
            size_mib: 100,
            ..v1::InstanceVolume::default()
        });
        let told = warning(&instance);
        assert!(
            told.contains("all that is in volume v of 100 MiB on host h7"),
            "{told}"
        );
        assert!(
            told.ends_with("Nothing was changed; say --yes to do it"),
            "{told}"
        );
    }
}
