//! `echelon job run`: reads a job file, submits it once, and with `--wait` follows it to its end.

use super::{show, watch};
use crate::context::Context;
use crate::exit::Failure;
use crate::{job_file, output};
use std::path::Path;

/// Submits a job file.
pub async fn run(context: &Context, file: &Path, wait: bool) -> Result<(), Failure> {
    let wanted = job_file::read(file)?;
    let client = context.client().await?;
    let made = client.create_job(wanted.spec.clone()).await;
    let job = made.map_err(|e| wanted.failure(e))?;
    for warning in &job.warnings {
        output::remark(format!("warning: {}", output::escape(warning)));
    }
    if !wait {
        show::print(context, &job);
        return Ok(());
    }
    watch::to_the_end(context, &client, &job.job_id, job.instances).await
}
