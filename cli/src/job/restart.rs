//! `echelon job restart`: of a whole job, a group, or some instances, and how far it is.

use super::{show, watch};
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use clap::Args as ClapArgs;
use echelon_clients_rust::v1;

/// What is to be restarted.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Id or name
    job: String,
    /// Only this group
    #[arg(long, default_value = "")]
    group: String,
    /// Only these instances of the group: `3,7-9`
    #[arg(long, value_delimiter = ',', value_parser = range)]
    instances: Vec<v1::InstanceRange>,
    /// So many of a group at once; as many as max_unavailable when it is left out
    #[arg(long, value_name = "N")]
    batch: Option<u32>,
    /// Only if nobody changed it since (`job get` shows it)
    #[arg(long, default_value = "")]
    etag: String,
    /// Wait until all of them are replaced and good
    #[arg(long)]
    wait: bool,
}

/// A number of an instance, or a range of them.
pub fn range(text: &str) -> Result<v1::InstanceRange, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |part: &str| part.trim().parse::<u32>();
    match (number(first), number(last)) {
        (Ok(first), Ok(last)) if first <= last => Ok(v1::InstanceRange { first, last }),
        _ => Err(format!(
            "`{text}` is no instance number such as `3`, and no range such as `7-9`"
        )),
    }
}

/// Restarts. Not repeated by itself: two restarts are two restarts.
pub async fn restart(context: &Context, args: Args) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::RestartJobRequest {
        name: format!("jobs/{}", args.job),
        etag: args.etag,
        group: args.group,
        instances: args.instances,
        batch: args.batch,
    };
    let answer = client
        .once(|| {
            let (mut service, request) = (client.job_service(), request.clone());
            async move { service.restart_job(request).await }
        })
        .await?;
    let mut job = answer.job.unwrap_or_default();
    if args.wait {
        let id = job.job_id.clone();
        let mut told = String::new();
        let follow = client.watch_job(&id, |change| {
            job = change.job.clone().unwrap_or_else(|| job.clone());
            let now = line(&job).unwrap_or_default();
            if now != told {
                output::remark(&now);
                told = now;
            }
            watch::has_ended(job.state()) || job.restart.as_ref().is_none_or(|r| r.done_time.is_some())
        });
        follow.await?;
    }
    show::print(context, &job);
    Ok(())
}

/// One line for `job get`; nothing when nothing was ever restarted.
pub fn line(job: &v1::Job) -> Option<String> {
    let restart = job.restart.as_ref()?;
    let ranges: Vec<String> = restart.instances.iter().map(numbers).collect();
    let what = match (restart.group.as_str(), ranges.as_slice()) {
        ("", _) => "everything".to_owned(),
        (group, []) => format!("group {}", output::escape(group)),
        (group, _) => format!("{}/{}", output::escape(group), ranges.join(",")),
    };
    let batch = restart.batch.map_or(String::new(), |n| format!(", {n} at once"));
    let far = match (&restart.done_time, restart.left) {
        (Some(at), _) => format!("done {} ago", shape::ago(Some(at))),
        (None, Some(left)) => format!("{left} left"),
        (None, None) => "begins".to_owned(),
    };
    Some(format!("restart:   of {what}{batch}: {far}"))
}

fn numbers(range: &v1::InstanceRange) -> String {
    if range.first == range.last {
        range.first.to_string()
    } else {
        format!("{}-{}", range.first, range.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read_and_anything_else_is_refused() {
        let read = |text| range(text).map(|r| (r.first, r.last));
        assert_eq!(read("3"), Ok((3, 3)));
        assert_eq!(read("7-9"), Ok((7, 9)));
        for wrong in ["", "9-7", "-3", "a", "3-", "1-2-3", "4294967296"] {
            let told = read(wrong).unwrap_err();
            assert!(told.contains("range such as `7-9`"), "{told}");
        }
    }

    #[test]
    fn what_is_restarted_and_how_far_it_is_takes_one_line() {
        let mut job = v1::Job::default();
        assert_eq!(line(&job), None);
        job.restart = Some(v1::JobRestart {
            group: "main".to_owned(),
            instances: vec![
                v1::InstanceRange { first: 3, last: 3 },
                v1::InstanceRange { first: 7, last: 9 },
            ],
            batch: Some(2),
            left: Some(3),
            ..v1::JobRestart::default()
        });
        assert_eq!(
            line(&job).as_deref(),
            Some("restart:   of main/3,7-9, 2 at once: 3 left")
        );
        job.restart = Some(v1::JobRestart::default());
        assert_eq!(line(&job).as_deref(), Some("restart:   of everything: begins"));
    }
}
