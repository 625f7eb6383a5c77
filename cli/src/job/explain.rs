//! `echelon job explain`: why anything of a job waits, and what would let it run.

use super::show;
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use echelon_clients_rust::v1;

/// Explains a job.
pub async fn explain(context: &Context, job: &str) -> Result<(), Failure> {
    let client = context.client().await?;
    let request = v1::ExplainJobRequest {
        name: format!("jobs/{job}"),
    };
    let answer = client.repeat(|| {
        let (mut service, request) = (client.job_service(), request.clone());
        async move { service.explain_job(request).await }
    });
    let told = answer.await?;
    let value = output::message("ExplainJobResponse", &told);
    let name = told
        .job
        .as_ref()
        .map(|j| j.display_name.clone())
        .unwrap_or_default();
    output::print(output::one(&value, &name, &people(&told), context.format()));
    Ok(())
}

fn people(told: &v1::ExplainJobResponse) -> String {
    let job = told.job.clone().unwrap_or_default();
    let mut lines = vec![format!(
        "job {} is {}: {}",
        output::escape(&job.display_name),
        shape::job_state(job.state()),
        show::counts(&job)
    )];
    lines.extend(told.waiting.iter().map(show::waiting));
    lines.extend(told.instances.iter().map(|i| {
        let reason = output::escape(&shape::reason(i.reason.as_ref()));
        format!(
            "instance:  {}/{} is {}: {reason}",
            output::escape(&i.group),
            i.number,
            shape::run_state(i.state())
        )
    }));
    lines.extend(
        told.advice
            .iter()
            .map(|a| format!("try:       {}", output::escape(a))),
    );
    if told.waiting.is_empty() && told.advice.is_empty() {
        lines.push("nothing of it waits".to_owned());
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(state: v1::JobState, advice: &[&str]) -> String {
        let job = v1::Job {
            display_name: "hello".to_owned(),
            state: state.into(),
            ..v1::Job::default()
        };
        people(&v1::ExplainJobResponse {
            job: Some(job),
            advice: advice.iter().map(|a| (*a).to_owned()).collect(),
            ..v1::ExplainJobResponse::default()
        })
    }

    #[test]
    fn only_what_is_true_is_told() {
        let ended = told(v1::JobState::Succeeded, &[]);
        assert_eq!(ended, "job hello is succeeded: \nnothing of it waits\n");
        let failed = told(v1::JobState::Failed, &["see its log"]);
        assert_eq!(failed, "job hello is failed: \ntry:       see its log\n");
    }
}
