//! JobService.

use super::{edit, name_unread, page, schedules, shown, total, watch};
use crate::access::caller;
use crate::context::Gateway;
use crate::error::{missing, violations};
use crate::show::{show_instance, show_job, show_waiting};
use crate::unconfirmed::with_stale_parts;
use echelon_core_gateway::change::{Change, Wish, change_goal};
use echelon_core_gateway::create::{CreateJob, create_job};
use echelon_core_gateway::ending::end_instances;
use echelon_core_gateway::explain::explain_job;
use echelon_core_gateway::jobs::{all_jobs, get_job, get_job_at, list_jobs};
use echelon_core_gateway::never_fits::never_fits;
use echelon_core_gateway::restart::{Restart, restart_job};
use echelon_core_gateway::rollouts::{Steer, roll_back_job, steer};
use echelon_core_gateway::update::{scale_job, update_job};
use echelon_core_gateway::view::JobView;
use echelon_core_gateway::{ApiError, resource, validate};
use echelon_core_model::GroupName;
use echelon_core_model::bucket::fnv1a;
use echelon_core_model::change::JobChanges;
use echelon_core_model::job::JobFilter;
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::Role;
use echelon_proto::convert::job::read_job_state;
use echelon_proto::convert::rules::ranges;
use echelon_proto::convert::shard::Changed;
use echelon_proto::convert::{Problems, restart, spec};
use echelon_proto::echelon::v1;
use prost::Message;
use std::time::Duration;
use tonic::{Request, Response, Status};
use v1::job_service_server::JobService;

/// How long the warnings of a submit may take.
const WARNING_TIME: Duration = Duration::from_millis(200);

#[tonic::async_trait]
impl JobService for Gateway {
    type WatchJobStream = watch::Watching;

    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        self.call("JobService/CreateJob", async {
            let request = read_create(request.into_inner())?;
            let view = create_job(&self.facts, request, Self::chance(), self.now()).await?;
            let warnings = match &view.spec {
                Some(spec) => tokio::time::timeout(WARNING_TIME, never_fits(&self.facts, spec)).await,
                None => Ok(Ok(Vec::new())),
            };
            let job = v1::Job {
                // The job is made, and its answer does not wait for slow storage.
                warnings: warnings.ok().and_then(Result::ok).unwrap_or_default(),
                ..self.changed(&view)
            };
            Ok(v1::CreateJobResponse { job: Some(job) })
        })
        .await
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let caller = caller(&request);
        self.call("JobService/GetJob", async {
            let r = request.into_inner();
            self.admit(caller, &r.name).await?;
            let job = resource::job(&r.name, "name")?;
            let view = match r.spec_version {
                None => get_job(&self.facts, &job, self.now()).await?,
                Some(version) => get_job_at(&self.facts, &job, version, self.now()).await?,
            };
            Ok(v1::GetJobResponse {
                job: Some(self.job(&view)),
            })
        })
        .await
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let mut unread = Vec::new();
        let mut listed = self
            .call("JobService/ListJobs", async {
                let mut r = request.into_inner();
                let asked = page(r.page_size, std::mem::take(&mut r.page_token));
                let found = if r.unordered {
                    all_jobs(&self.facts, read_filter(r)?, asked).await?
                } else {
                    list_jobs(&self.facts, read_filter(r)?, asked).await?
                };
                let found = with_stale_parts(self, found).await?;
                unread.clone_from(&found.unread);
                let total_size = total(&found);
                let (jobs, next_page_token) = shown(found, |view| self.job(view));
                Ok(v1::ListJobsResponse {
                    jobs,
                    next_page_token,
                    total_size,
                })
            })
            .await?;
        name_unread(&mut listed, &unread);
        Ok(listed)
    }

    async fn update_job(
        &self,
        request: Request<v1::UpdateJobRequest>,
    ) -> Result<Response<v1::UpdateJobResponse>, Status> {
        self.call("JobService/UpdateJob", async {
            let r = request.into_inner();
            let job = r.job.ok_or_else(|| missing("job"))?;
            let change = read_change(&job.name, "job.name", job.etag.clone())?;
            let edit = edit::spec(job.spec.unwrap_or_default(), r.update_mask)?;
            let view = update_job(&self.facts, change, edit, self.now()).await?;
            Ok(v1::UpdateJobResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let r = request.into_inner();
        self.call("JobService/DeleteJob", async {
            let job = Some(self.wish(&r.name, r.etag, Wish::Delete).await?);
            Ok(v1::DeleteJobResponse { job })
        })
        .await
    }

    async fn stop_job(
        &self,
        request: Request<v1::StopJobRequest>,
    ) -> Result<Response<v1::StopJobResponse>, Status> {
        let caller = caller(&request);
        let r = request.into_inner();
        self.call("JobService/StopJob", async {
            self.admit(caller, &r.name).await?;
            let job = Some(self.wish(&r.name, r.etag, Wish::Stop).await?);
            Ok(v1::StopJobResponse { job })
        })
        .await
    }

    async fn restart_job(
        &self,
        request: Request<v1::RestartJobRequest>,
    ) -> Result<Response<v1::RestartJobResponse>, Status> {
        let r = request.into_inner();
        self.call("JobService/RestartJob", async {
            let change = read_change(&r.name, "name", r.etag.clone())?;
            let view = restart_job(&self.facts, change, &read_restart(&r)?, self.now()).await?;
            Ok(v1::RestartJobResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn scale_job(
        &self,
        request: Request<v1::ScaleJobRequest>,
    ) -> Result<Response<v1::ScaleJobResponse>, Status> {
        let caller = caller(&request);
        self.call("JobService/ScaleJob", async {
            let r = request.into_inner();
            self.admit(caller, &r.name).await?;
            let change = read_change(&r.name, "name", r.etag)?;
            let instances = r.instances.ok_or_else(|| missing("instances"))?;
            let group = read_group(&r.group)?;
            let view = scale_job(&self.facts, change, group, instances, self.now()).await?;
            Ok(v1::ScaleJobResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn steer_rollout(
        &self,
        request: Request<v1::SteerRolloutRequest>,
    ) -> Result<Response<v1::SteerRolloutResponse>, Status> {
        self.call("JobService/SteerRollout", async {
            let r = request.into_inner();
            let wish = read_action(r.action())?;
            let change = read_change(&r.name, "name", r.etag)?;
            let view = steer(&self.facts, change, wish, self.now()).await?;
            Ok(v1::SteerRolloutResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn roll_back_job(
        &self,
        request: Request<v1::RollBackJobRequest>,
    ) -> Result<Response<v1::RollBackJobResponse>, Status> {
        self.call("JobService/RollBackJob", async {
            let r = request.into_inner();
            let change = read_change(&r.name, "name", r.etag)?;
            let view = roll_back_job(&self.facts, change, r.spec_version, self.now()).await?;
            Ok(v1::RollBackJobResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn end_instances(
        &self,
        request: Request<v1::EndInstancesRequest>,
    ) -> Result<Response<v1::EndInstancesResponse>, Status> {
        let caller = caller(&request);
        self.call("JobService/EndInstances", async {
            let r = request.into_inner();
            self.admit(caller, &r.name).await?;
            let change = read_change(&r.name, "name", r.etag)?;
            let group = read_group(&r.group)?;
            let numbers = ranges(&r.numbers)
                .ok_or_else(|| ApiError::field("numbers", "must be ranges, the first not above the last"))?;
            let view = end_instances(&self.facts, change, (group, numbers), self.now()).await?;
            Ok(v1::EndInstancesResponse {
                job: Some(self.changed(&view)),
            })
        })
        .await
    }

    async fn steer_schedule(
        &self,
        request: Request<v1::SteerScheduleRequest>,
    ) -> Result<Response<v1::SteerScheduleResponse>, Status> {
        self.call("JobService/SteerSchedule", async {
            let job = Some(self.steer_schedule_of(request.into_inner()).await?);
            Ok(v1::SteerScheduleResponse { job })
        })
        .await
    }

    async fn trigger_job(
        &self,
        request: Request<v1::TriggerJobRequest>,
    ) -> Result<Response<v1::TriggerJobResponse>, Status> {
        self.call("JobService/TriggerJob", async {
            let job = Some(self.trigger(request.into_inner()).await?);
            Ok(v1::TriggerJobResponse { job })
        })
        .await
    }

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let caller = caller(&request);
        let r = request.into_inner();
        self.call("JobService/WatchJob", async {
            self.admit(caller, &r.name).await?;
            watch::start(self.clone(), r).await
        })
        .await
    }

    async fn explain_job(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let caller = caller(&request);
        self.call("JobService/ExplainJob", async {
            let name = request.into_inner().name;
            self.admit(caller, &name).await?;
            let job = resource::job(&name, "name")?;
            let told = explain_job(&self.facts, &job, self.now()).await?;
            let id = told.job.head.job;
            // Without an answer the rest is shown all the same, with why this is left out.
            let (admission, no_admission) = if told.job.state().is_ended() {
                (None, String::new())
            } else {
                match self.links.admission(id).await {
                    Ok(admission) => (Some(admission), String::new()),
                    Err(error) => (None, error.to_string()),
                }
            };
            Ok(v1::ExplainJobResponse {
                admission,
                no_admission,
                job: Some(self.job(&told.job)),
                waiting: show_waiting(&told.waiting, &told.job.names),
                instances: told.instances.iter().map(|i| show_instance(i, id)).collect(),
                advice: told.advice,
            })
        })
        .await
    }

    async fn plan_job(
        &self,
        request: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::PlanJobResponse>, Status> {
        self.call("JobService/PlanJob", async {
            let wanted = request.into_inner().spec.ok_or_else(|| missing("spec"))?;
            let asked = RequestedSpec::read(wanted, "spec");
            let RequestedSpec {
                spec: wanted,
                named,
                found,
                bytes,
            } = asked;
            let read = validate::planned(&self.facts, wanted, named, found, bytes).await?;
            let full = spec::spec(&read);
            let mut plan = self.links.plan(full.clone()).await?;
            plan.spec = Some(full);
            plan.next_times = schedules::planned(&read, self.now());
            Ok(plan)
        })
        .await
    }
}

impl Gateway {
    /// A job as answers show it.
    pub(crate) fn job(&self, view: &JobView) -> v1::Job {
        show_job(view, self.leaders.manager_absent_since())
    }

    /// A job that was changed: tells the resource manager to look.
    pub(super) fn changed(&self, view: &JobView) -> v1::Job {
        let job = view.head.job;
        self.links.hint(Changed::Head(job));
        // Those who watch it here need not wait until the resource manager has looked.
        let mut changes = JobChanges::default();
        changes.touch(job);
        self.feeds.tell(&Role::ResourceManager, changes);
        self.job(view)
    }

    async fn wish(&self, name: &str, etag: String, wish: Wish) -> Result<v1::Job, ApiError> {
        let change = read_change(name, "name", etag)?;
        let view = change_goal(&self.facts, change, wish, self.now()).await?;
        Ok(self.changed(&view))
    }
}

fn read_restart(r: &v1::RestartJobRequest) -> Result<Restart, ApiError> {
    let mut problems = Problems::default();
    let numbers = restart::read_numbers(&r.instances, "instances", &mut problems);
    let wrong = violations(problems);
    if !wrong.is_empty() {
        return Err(ApiError::fields(wrong));
    }
    Ok(Restart {
        group: read_group(&r.group)?,
        numbers,
        batch: r.batch,
    })
}

fn read_action(action: v1::RolloutAction) -> Result<Steer, ApiError> {
    match action {
        v1::RolloutAction::Pause => Ok(Steer::Pause),
        v1::RolloutAction::Resume => Ok(Steer::Resume),
        v1::RolloutAction::Promote => Ok(Steer::Promote),
        v1::RolloutAction::Abort => Ok(Steer::Abort),
        v1::RolloutAction::Unspecified => Err(ApiError::field(
            "action",
            "must be pause, resume, promote or abort",
        )),
    }
}

pub(super) fn read_change(name: &str, field: &str, etag: String) -> Result<Change, ApiError> {
    Ok(Change {
        job: resource::job(name, field)?,
        etag,
    })
}

/// A spec as a request has it.
struct RequestedSpec {
    spec: JobSpec,
    /// What it names, of the fields for which pools have defaults.
    named: NamedFields,
    /// What was wrong in its message.
    found: Vec<echelon_core_gateway::Violation>,
    /// Its size.
    bytes: usize,
}

impl RequestedSpec {
    fn read(wanted: v1::JobSpec, path: &str) -> Self {
        let bytes = wanted.encoded_len();
        let priority = wanted.priority;
        let names_loss = wanted.on_cluster_loss.is_some();
        let mut problems = Problems::default();
        let spec = spec::read_spec(wanted, path, &mut problems);
        Self {
            named: NamedFields {
                priority,
                on_cluster_loss: names_loss.then_some(spec.on_cluster_loss),
            },
            found: violations(problems),
            bytes,
            spec,
        }
    }
}

fn read_create(r: v1::CreateJobRequest) -> Result<CreateJob, ApiError> {
    let wanted = r.job.and_then(|j| j.spec).ok_or_else(|| missing("job.spec"))?;
    let hash = fnv1a(&wanted.encode_to_vec());
    let asked = RequestedSpec::read(wanted, "job.spec");
    let request_id = or_fresh(r.request_id);
    Ok(CreateJob {
        spec: asked.spec,
        named: asked.named,
        violations: asked.found,
        bytes: asked.bytes,
        hash,
        request_id,
        origin: None,
    })
}

/// Whoever names no request cannot repeat it.
pub(super) fn or_fresh(request_id: String) -> String {
    if request_id.is_empty() {
        uuid::Uuid::new_v4().to_string()
    } else {
        request_id
    }
}

/// A group that may be left out.
fn read_group(name: &str) -> Result<Option<GroupName>, ApiError> {
    let read = (!name.is_empty()).then(|| GroupName::parse(name));
    read.transpose()
        .map_err(|wrong| ApiError::field("group", wrong.to_string()))
}

fn read_filter(r: v1::ListJobsRequest) -> Result<JobFilter, ApiError> {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let states: Option<Vec<_>> = r.states.into_iter().map(read_job_state).collect();
    let labels: Option<_> = r
        .labels
        .iter()
        .map(|l| l.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
        .collect();
    Ok(JobFilter {
        pool: some(r.pool),
        states: states
            .ok_or_else(|| ApiError::field("states", "must be states of jobs, such as JOB_STATE_RUNNING"))?,
        owner: some(r.owner),
        labels: labels.ok_or_else(|| ApiError::field("labels", "must be like `key=value`"))?,
        name_prefix: some(r.name_prefix),
        show_deleted: r.show_deleted,
        ..JobFilter::default()
    })
}
