//! `echelon job logs`: what an instance wrote, byte for byte.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use clap::Args;
use echelon_clients_rust::v1;
use std::io::Write;

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
        ..v1::ReadLogRequest::default()
    };
    let client = context.client().await?;
    let answer = client.instance_service().read_log(request).await;
    let mut stream = client
        .heard(answer)
        .map_err(echelon_clients_rust::Error::from)?
        .into_inner();
    let mut out = std::io::stdout();
    loop {
        let chunk = tokio::select! {
            chunk = stream.message() => chunk.map_err(echelon_clients_rust::Error::from)?,
            _ = tokio::signal::ctrl_c() => return Err(Failure::new(Exit::Interrupted, String::new())),
        };
        let Some(chunk) = chunk else { return Ok(()) };
        // Whoever reads us may have gone; that is no failure of ours.
        if out.write_all(&chunk.data).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
}
