//! `echelon job explain`: why anything of a job waits, and what would let it run.

use super::show;
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use echelon_clients_rust::v1;
use v1::AdmissionOutcome as Outcome;

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
        let age = i
            .stale
            .then(|| format!(", {}", shape::unconfirmed(i.age.as_ref())));
        format!(
            "instance:  {}/{} is {}{}: {reason}",
            output::escape(&i.group),
            i.number,
            shape::run_state(i.state()),
            age.unwrap_or_default()
        )
    }));
    lines.extend(told.admission.iter().flat_map(admission));
    if !told.no_admission.is_empty() {
        lines.push(format!("fix:       {}", output::escape(&told.no_admission)));
    }
    lines.extend(
        told.advice
            .iter()
            .map(|a| format!("try:       {}", output::escape(a))),
    );
    let waits = told.admission.as_ref().is_some_and(|a| a.waiting > 0);
    if told.waiting.is_empty() && told.advice.is_empty() && !waits {
        lines.push("nothing of it waits".to_owned());
    }
    lines.join("\n") + "\n"
}

/// What the job waits for in admission, and what admits all of it.
fn admission(told: &v1::JobAdmission) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(place) = told.place {
        lines.push(format!(
            "queue:     {} of its pool's {} waiting instances or gangs go first; other jobs among them: {}",
            place.units_ahead, place.units, place.jobs_ahead
        ));
    }
    lines.extend(told.blockers.iter().map(|b| {
        let reason = output::escape(&shape::reason(b.reason.as_ref()));
        format!(
            "blocked:   {} of group {}: {reason}",
            b.instances,
            output::escape(&b.group)
        )
    }));
    if told.more_blockers > 0 {
        lines.push(format!("blocked:   {} more reasons", told.more_blockers));
    }
    lines.extend(told.holders.iter().map(holder));
    if told.more_holders > 0 {
        lines.push(format!("used by:   {} more pools", told.more_holders));
    }
    let outcome = match told.outcome() {
        Outcome::Unspecified | Outcome::NothingWaits | Outcome::Fixes => None,
        Outcome::Barred => {
            let reason = output::escape(&shape::reason(told.barred_by.as_ref()));
            Some(format!("no change of demand or capacity helps: {reason}"))
        }
        Outcome::Admitted => Some("none is needed, all of it is being admitted".to_owned()),
        Outcome::AfterPreemption => Some(
            "none is needed, preemption makes capacity for it: other pools have more than they are entitled to"
                .to_owned(),
        ),
        Outcome::NoneFound => Some("no change was found that admits all of it".to_owned()),
    };
    lines.extend(outcome.map(|text| format!("fix:       {text}")));
    lines.extend(told.fixes.iter().enumerate().map(|(i, fix)| {
        let or = if i == 0 { "fix:       " } else { "or:        " };
        format!("{or}{}", output::escape(&fix.text))
    }));
    lines
}

fn holder(told: &v1::CapacityHolder) -> String {
    let pool = output::escape(&told.pool);
    let unused = told.unused_reservation.unwrap_or_default();
    if unused == v1::Resources::default() {
        format!("used by:   pool {pool}: {}", shape::resources(told.used.as_ref()))
    } else {
        format!(
            "used by:   pool {pool}: {}, and it keeps {} that it does not use (static)",
            shape::resources(told.used.as_ref()),
            shape::resources(told.unused_reservation.as_ref())
        )
    }
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

    #[test]
    fn the_smallest_change_is_shown_with_what_is_in_the_way() {
        let cpus = |cpus_milli| {
            Some(v1::Resources {
                cpus_milli,
                ..v1::Resources::default()
            })
        };
        let told = v1::JobAdmission {
            waiting: 6,
            place: Some(v1::QueuePlace {
                jobs_ahead: 1,
                units_ahead: 4,
                units: 10,
            }),
            blockers: vec![v1::AdmissionBlocker {
                group: "main".to_owned(),
                reason: Some(v1::Reason {
                    message: "its pool is full".to_owned(),
                    ..v1::Reason::default()
                }),
                instances: 6,
            }],
            holders: vec![v1::CapacityHolder {
                pool: "/static".to_owned(),
                used: cpus(3000),
                unused_reservation: cpus(7000),
            }],
            more_holders: 2,
            outcome: Outcome::Fixes.into(),
            fixes: vec![
                v1::VerifiedFix {
                    text: "raise it".to_owned(),
                    ..v1::VerifiedFix::default()
                },
                v1::VerifiedFix {
                    text: "add hosts".to_owned(),
                    ..v1::VerifiedFix::default()
                },
            ],
            ..v1::JobAdmission::default()
        };
        let lines = admission(&told);
        assert_eq!(
            lines[0],
            "queue:     4 of its pool's 10 waiting instances or gangs go first; other jobs among them: 1"
        );
        assert_eq!(lines[1], "blocked:   6 of group main: its pool is full");
        assert!(lines[2].starts_with("used by:   pool /static: "), "{}", lines[2]);
        assert!(
            lines[2].ends_with("that it does not use (static)"),
            "{}",
            lines[2]
        );
        assert_eq!(
            lines[3..],
            [
                "used by:   2 more pools",
                "fix:       raise it",
                "or:        add hosts"
            ]
        );
    }
}
