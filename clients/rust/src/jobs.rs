//! Jobs: creating one idempotently, and watching one to its end.

use crate::{Client, Error, v1};
use std::time::Duration;
use uuid::Uuid;

/// Wait before a broken watch is resumed.
const RESUME_AFTER: Duration = Duration::from_millis(500);

impl Client {
    /// Creates a job under a fresh request id: however often the call is repeated on the way, one job is made.
    ///
    /// # Errors
    /// What the gateway says.
    pub async fn create_job(&self, spec: v1::JobSpec) -> Result<v1::Job, Error> {
        let request = v1::CreateJobRequest {
            job: Some(v1::Job {
                spec: Some(spec),
                ..v1::Job::default()
            }),
            request_id: Uuid::now_v7().to_string(),
        };
        let made = self.repeat(|| {
            let (mut service, request) = (self.job_service(), request.clone());
            async move { service.create_job(request).await }
        });
        made.await?.job.ok_or(Error::StreamEnded("a created job"))
    }

    /// Makes a job of a template under a fresh request id: however often the call is repeated on the way, one job is made.
    ///
    /// # Errors
    /// What the gateway says.
    pub async fn trigger_job(&self, template: &str, etag: &str) -> Result<v1::Job, Error> {
        let request = v1::TriggerJobRequest {
            name: format!("jobs/{template}"),
            request_id: Uuid::now_v7().to_string(),
            etag: etag.to_owned(),
        };
        let made = self.repeat(|| {
            let (mut service, request) = (self.job_service(), request.clone());
            async move { service.trigger_job(request).await }
        });
        made.await?.job.ok_or(Error::StreamEnded("a triggered job"))
    }

    /// A job by id or name.
    ///
    /// # Errors
    /// What the gateway says.
    pub async fn get_job(&self, job: &str) -> Result<v1::Job, Error> {
        self.get_job_at(job, None).await
    }

    /// A job by id or name, with an earlier version of its spec.
    ///
    /// # Errors
    /// What the gateway says.
    pub async fn get_job_at(&self, job: &str, spec_version: Option<u32>) -> Result<v1::Job, Error> {
        let request = v1::GetJobRequest {
            name: format!("jobs/{job}"),
            spec_version,
        };
        let got = self.repeat(|| {
            let (mut service, request) = (self.job_service(), request.clone());
            async move { service.get_job(request).await }
        });
        got.await?.job.ok_or(Error::StreamEnded("a job"))
    }

    /// Tells every change of a job to `seen` until it says that it has seen enough. A broken watch is resumed where it
    /// stopped, for as long as the gateway may come back.
    ///
    /// # Errors
    /// What the gateway says, other than that it is away.
    pub async fn watch_job(
        &self,
        job: &str,
        mut seen: impl FnMut(&v1::WatchJobResponse) -> bool,
    ) -> Result<(), Error> {
        let mut resume_token = String::new();
        loop {
            let gateway = self.gateways.now();
            let request = v1::WatchJobRequest {
                name: format!("jobs/{job}"),
                resume_token: resume_token.clone(),
            };
            match self.watch_once(request, &mut resume_token, &mut seen).await {
                Ok(true) => return Ok(()),
                Err(error) if error.code() != tonic::Code::Unavailable => return Err(error),
                Ok(false) | Err(_) => {
                    self.gateways.leave(gateway);
                    tokio::time::sleep(RESUME_AFTER).await;
                }
            }
        }
    }

    async fn watch_once(
        &self,
        request: v1::WatchJobRequest,
        resume_token: &mut String,
        seen: &mut impl FnMut(&v1::WatchJobResponse) -> bool,
    ) -> Result<bool, Error> {
        let answer = self.job_service().watch_job(request).await;
        let mut stream = self.heard(answer)?.into_inner();
        while let Some(change) = stream.message().await? {
            resume_token.clone_from(&change.resume_token);
            if seen(&change) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Follows where the available instances of a job, or of a group of it, can be reached, until `seen` says that it is enough or the job
    /// has ended. A stream that breaks is begun again, with the whole list.
    ///
    /// # Errors
    /// What the gateway says, other than that it is away.
    pub async fn watch_endpoints(
        &self,
        request: v1::WatchEndpointsRequest,
        mut seen: impl FnMut(&v1::WatchEndpointsResponse) -> bool,
    ) -> Result<(), Error> {
        loop {
            let gateway = self.gateways.now();
            match self.watch_endpoints_once(request.clone(), &mut seen).await {
                Ok(()) => return Ok(()),
                Err(error) if error.code() != tonic::Code::Unavailable => return Err(error),
                Err(_) => {
                    self.gateways.leave(gateway);
                    tokio::time::sleep(RESUME_AFTER).await;
                }
            }
        }
    }

    async fn watch_endpoints_once(
        &self,
        request: v1::WatchEndpointsRequest,
        seen: &mut impl FnMut(&v1::WatchEndpointsResponse) -> bool,
    ) -> Result<(), Error> {
        let answer = self.instance_service().watch_endpoints(request).await;
        let mut stream = self.heard(answer)?.into_inner();
        while let Some(change) = stream.message().await? {
            if seen(&change) {
                break;
            }
        }
        Ok(())
    }
}
