//! `echelon job run`: reads a job file, submits it once, and with `--wait` follows it to its end.

use super::{show, watch};
use crate::context::Context;
use crate::exit::Failure;
use crate::job_file;
use echelon_clients_rust::v1;
use std::path::Path;

/// Submits a job file.
pub async fn run(context: &Context, file: &Path, wait: bool) -> Result<(), Failure> {
    let spec = read(file)?;
    let client = context.client().await?;
    let job = client.create_job(spec).await?;
    if !wait {
        show::print(context, &job);
        return Ok(());
    }
    watch::to_the_end(context, &client, &job.job_id, job.instances).await
}

/// Reads a job file, or standard input for `-`. Never more than a job file may have.
pub fn read(file: &Path) -> Result<v1::JobSpec, Failure> {
    job_file::read_as(file, job_file::wanted)
}
