//! `echelon job update|rollback|stop|end|trigger|scale|delete`: changes of what is wanted. They answer at once, or with `--wait` when what was
//! asked for has come about; `job watch` shows what becomes of them.

use super::{show, watch};
use crate::context::Context;
use crate::exit::Failure;
use crate::{job_file, rollout};
use clap::Args;
use echelon_clients_rust::v1;
use std::path::Path;

/// Which job.
#[derive(Debug, Args)]
pub struct Which {
    /// Id or name
    job: String,
    /// Only if nobody changed it since (`job get` shows it)
    #[arg(long, default_value = "")]
    etag: String,
}

impl Which {
    fn name(&self) -> String {
        format!("jobs/{}", self.job)
    }
}

fn told(context: &Context, job: Option<v1::Job>) {
    show::print(context, &job.unwrap_or_default());
}

/// Stops a job, and with `wait` follows it until nothing of it runs.
pub async fn stop(context: &Context, which: Which, wait: bool) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::StopJobRequest {
        name: which.name(),
        etag: which.etag,
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.stop_job(request).await }
    });
    let mut job = answer.await?.job.unwrap_or_default();
    if wait {
        let id = job.job_id.clone();
        let follow = client.watch_job(&id, |change| {
            job = change.job.clone().unwrap_or_else(|| job.clone());
            watch::has_ended(job.state())
        });
        follow.await?;
    }
    show::print(context, &job);
    Ok(())
}

/// Ends instances by number.
pub async fn end(
    context: &Context,
    which: Which,
    group: String,
    numbers: Vec<v1::InstanceRange>,
) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::EndInstancesRequest {
        name: which.name(),
        group,
        numbers,
        etag: which.etag,
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.end_instances(request).await }
    });
    told(context, answer.await?.job);
    Ok(())
}

/// Makes a job of a template now, and with `wait` follows it to its end.
pub async fn trigger(context: &Context, which: Which, wait: bool) -> Result<(), Failure> {
    let client = context.client().await?;
    let job = client.trigger_job(&which.job, &which.etag).await?;
    show::print(context, &job);
    if wait {
        return watch::watch(context, &job.job_id).await;
    }
    Ok(())
}

/// Changes a job to what a file says, and with `wait` follows its rollout.
pub async fn update(context: &Context, file: &Path, etag: String, wait: bool) -> Result<(), Failure> {
    let wanted = job_file::read(file)?;
    let client = context.client().await?;
    let name = format!("jobs/{}", wanted.spec.name);
    let request = v1::UpdateJobRequest {
        job: Some(v1::Job {
            name,
            etag,
            spec: Some(wanted.spec.clone()),
            ..v1::Job::default()
        }),
        update_mask: None,
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.update_job(request).await }
    });
    let answer = answer.await.map_err(|e| wanted.failure(e))?;
    let job = answer.job.unwrap_or_default();
    show::print(context, &job);
    let moves = job.rollout.as_ref().is_some_and(rollout::is_moving);
    if wait && moves {
        return rollout::watch(context, &job.job_id).await;
    }
    Ok(())
}

/// Brings a job back to an earlier version. Not repeated by itself: without a version the one before is another one afterwards.
pub async fn roll_back(context: &Context, which: Which, to: Option<u32>) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::RollBackJobRequest {
        name: which.name(),
        etag: which.etag,
        spec_version: to,
    };
    told(
        context,
        client
            .once(|| {
                let (mut service, request) = (client.job_service(), request.clone());
                async move { service.roll_back_job(request).await }
            })
            .await?
            .job,
    );
    Ok(())
}

/// Scales a job.
pub async fn scale(context: &Context, which: Which, group: String, instances: u32) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::ScaleJobRequest {
        name: which.name(),
        group,
        instances: Some(instances),
        etag: which.etag,
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.scale_job(request).await }
    });
    told(context, answer.await?.job);
    Ok(())
}

/// Deletes a job.
pub async fn delete(context: &Context, which: Which) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::DeleteJobRequest {
        name: which.name(),
        etag: which.etag,
    };
    let answer = client.change(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.delete_job(request).await }
    });
    told(context, answer.await?.job);
    Ok(())
}
