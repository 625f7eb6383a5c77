//! `echelon job logs`: what an instance wrote, byte for byte.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::shape;
use clap::Args;
use echelon_clients_rust::v1;

/// Which log.
#[derive(Debug, Args)]
pub struct Which {
    /// Id or name of the job
    job: String,
    /// Number of the instance
    #[arg(default_value_t = 0)]
    instance: u32,
    /// Its group
    #[arg(long, default_value = "main")]
    group: String,
    /// What this sidecar wrote, where the instance is a pod
    #[arg(long, default_value = "", value_name = "NAME")]
    sidecar: String,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
    /// Only the last bytes
    #[arg(long, value_name = "BYTES")]
    tail: Option<u64>,
    /// An earlier run, by its number, from 1; of those of the instance's present generation
    #[arg(long, value_name = "N", conflicts_with = "task", value_parser = clap::value_parser!(u32).range(1..))]
    run: Option<u32>,
    /// An earlier run, by its task id (`job events -o wide` shows them)
    #[arg(long, default_value = "", value_name = "TASK")]
    task: String,
}

/// Prints a log.
pub async fn logs(context: &Context, which: Which) -> Result<(), Failure> {
    let request = v1::ReadLogRequest {
        name: format!(
            "jobs/{}/groups/{}/instances/{}",
            which.job, which.group, which.instance
        ),
        stream: i32::from(if which.stderr {
            v1::LogStream::Stderr
        } else {
            v1::LogStream::Stdout
        }),
        tail_bytes: which.tail,
        follow: which.follow,
        task_id: which.task,
        sidecar: which.sidecar,
        run: which.run.unwrap_or_default(),
        ..v1::ReadLogRequest::default()
    };
    let client = context.client().await?;
    let answer = client.instance_service().read_log(request).await;
    let mut stream = client
        .heard(answer)
        .map_err(echelon_clients_rust::Error::from)?
        .into_inner();
    loop {
        let chunk = tokio::select! {
            chunk = stream.message() => chunk.map_err(echelon_clients_rust::Error::from)?,
            _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, String::new())),
        };
        let Some(chunk) = chunk else { return Ok(()) };
        if let Some(kept) = &chunk.kept {
            output::remark(from_kept(kept, &chunk));
        }
        output::bytes(&chunk.data);
    }
}

/// Where it comes from that is not read from its host, and what of it is missing.
fn from_kept(kept: &v1::KeptLog, first: &v1::ReadLogResponse) -> String {
    let at = shape::time(kept.read_time.as_ref());
    let missing = match (kept.cut, first.offset) {
        (0, _) => "all of it was kept".to_owned(),
        (cut, offset) if offset <= cut => {
            format!("of its {} bytes the first {cut} were not kept", kept.size)
        }
        (_, offset) => format!("from byte {offset} of {} on", kept.size),
    };
    format!(
        "this was kept when the run ended ({at}, host {}): {missing}. It is not read from the host, since {}",
        kept.host, kept.because
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_of_a_kept_log_is_said() {
        let said = |cut, offset| {
            let kept = v1::KeptLog {
                host: "h1".into(),
                size: 100,
                cut,
                because: "agent h1:5051 did not answer".into(),
                read_time: None,
            };
            let first = v1::ReadLogResponse {
                offset,
                ..v1::ReadLogResponse::default()
            };
            from_kept(&kept, &first)
        };
        assert!(said(0, 0).contains("all of it was kept"));
        assert!(said(36, 36).contains("of its 100 bytes the first 36 were not kept"));
        assert!(said(36, 80).contains("from byte 80 of 100 on"));
        assert!(said(0, 0).ends_with("since agent h1:5051 did not answer"));
    }
}
