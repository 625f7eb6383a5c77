//! `echelon job get`, and how a job is told to people.

use super::watch::has_ended;
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, rollout, schedule, shape};
use echelon_clients_rust::v1;

/// Shows one job.
pub async fn get(context: &Context, job: &str, version: Option<u32>) -> Result<(), Failure> {
    let job = context.client().await?.get_job_at(job, version).await?;
    print(context, &job);
    Ok(())
}

/// Prints a job as the flags say.
pub fn print(context: &Context, job: &v1::Job) {
    let value = output::message("Job", job);
    output::print(output::one(
        &value,
        &job.display_name,
        &people(job),
        context.format(),
    ));
}

fn people(job: &v1::Job) -> String {
    let mut lines = vec![
        format!(
            "job:       {} ({})",
            output::escape(&job.display_name),
            job.job_id
        ),
        format!(
            "state:     {} for {}",
            shape::job_state(job.state()),
            shape::ago(job.since.as_ref())
        ),
        format!(
            "kind:      {}",
            shape::word(job.kind().as_str_name(), "JOB_KIND_")
        ),
        format!("pool:      {}", output::escape(&job.pool)),
        format!("instances: {}  {}", job.instances, counts(job)),
        format!("spec:      version {}, etag {}", job.spec_version, job.etag),
        format!("created:   {}", shape::time(job.create_time.as_ref())),
    ];
    if job.spec.as_ref().is_some_and(|s| s.revocable) {
        lines.push("revocable: runs on what hosts lend, and may be killed at any time".to_owned());
    }
    if job.spec.as_ref().is_some_and(|s| s.preemptible == Some(false)) {
        lines.push(
            "preemptible: no: it runs within its pool's reservation and is never stopped for others"
                .to_owned(),
        );
    }
    if job.spec.as_ref().is_some_and(|s| s.controller) {
        lines.push("controller: yes: its pools bound what controllers have together".to_owned());
    }
    if let Some(gang) = job.spec.as_ref().and_then(|s| s.gang.as_ref()) {
        lines.push(format!(
            "gang:      yes: all begin together, and are stopped together when some lack for {}{}",
            shape::span(gang.start_within.as_ref()),
            gang_policy(gang)
        ));
    }
    lines.extend(schedule::lines(job));
    lines.extend(rollout::line(job));
    lines.extend(super::restart::line(job));
    lines.extend(job.spec.iter().flat_map(rules));
    if job.stale_since.is_some() {
        lines.push(format!(
            "note:      no resource manager has answered for {}: state and counts are as they were then",
            shape::ago(job.stale_since.as_ref())
        ));
    }
    if let Some(reason) = &job.reason {
        lines.push(format!("because:   {}", output::escape(&reason.message)));
    }
    if job.crash_looping > 0 {
        let fail = if job.crash_looping == 1 {
            "instance fails"
        } else {
            "instances fail"
        };
        lines.push(format!(
            "crashing:  {} {fail} again and again (`echelon job instances {}`)",
            job.crash_looping,
            output::escape(&job.display_name)
        ));
    }
    if !job.awaited_clusters.is_empty() {
        lines.push(format!(
            "awaits:    {}",
            output::escape(&job.awaited_clusters.join(", "))
        ));
    }
    if job.wish_too_late {
        lines.push("note:      the last wish came after the job had ended; it has no effect".to_owned());
    }
    lines.extend(job.waiting.iter().map(waiting));
    lines.extend(job.parts.iter().filter_map(unseen));
    if !has_ended(job.state()) {
        lines.extend(job.parts.iter().filter_map(unconfirmed));
    }
    lines.join("\n") + "\n"
}

/// What follows the failure of a member of a gang, and where its members are together, where that is not as usual.
fn gang_policy(gang: &v1::Gang) -> String {
    let fails = match gang.on_failure() {
        v1::OnMemberFailure::Unspecified | v1::OnMemberFailure::Member => "",
        v1::OnMemberFailure::Gang => "; when a member fails: all are tried again",
        v1::OnMemberFailure::Job => "; when a member fails: the job has failed",
    };
    let levels: Vec<String> = gang
        .topology
        .iter()
        .map(|l| output::escape(l).to_string())
        .collect();
    let together = match (levels.join(", "), gang.topology_required) {
        (levels, _) if levels.is_empty() => String::new(),
        (levels, true) => format!("; on one of: {levels}"),
        (levels, false) => format!("; on one of, if it can be: {levels}"),
    };
    format!("{fails}{together}")
}

/// What it waits for of other jobs.
pub(super) fn after(spec: &v1::JobSpec) -> Vec<String> {
    let told = |after: &v1::After| {
        let condition = shape::word(after.condition().as_str_name(), "CONDITION_");
        format!("after:     {} has {condition}", output::escape(&after.job))
    };
    spec.after.iter().map(told).collect()
}

/// What it waits for, and how it ends, where that is not as usual.
fn rules(spec: &v1::JobSpec) -> Vec<String> {
    let mut lines = after(spec);
    if !spec.driver.is_empty() {
        lines.push(format!(
            "driver:    group {}: the job ends with it",
            output::escape(&spec.driver)
        ));
    }
    if let Some(n) = spec.completion {
        lines.push(format!("succeeds:  with {n} succeeded instances"));
    }
    match spec.max_failed.as_ref().and_then(|m| m.amount.as_ref()) {
        Some(v1::amount::Amount::Count(n)) => {
            lines.push(format!("fails:     with more than {n} failed instances"));
        }
        Some(v1::amount::Amount::Percent(n)) => {
            lines.push(format!("fails:     with more than {n}% failed instances"));
        }
        None => {}
    }
    for (span, label) in [
        (&spec.max_wait, "max_wait: "),
        (&spec.max_total, "max_total:"),
        (&spec.keep, "keep:     "),
    ] {
        if span.is_some() {
            lines.push(format!("{label} {}", shape::span(span.as_ref())));
        }
    }
    lines
}

/// Why some instances wait.
pub fn waiting(w: &v1::Waiting) -> String {
    let place = if w.cluster.is_empty() {
        String::new()
    } else {
        format!(" on {}", output::escape(&w.cluster))
    };
    let reason = output::escape(&shape::reason(w.reason.as_ref()));
    // A plan has no since: nothing of it has begun to wait.
    let since = match shape::ago(w.since.as_ref()) {
        ago if ago.is_empty() => String::new(),
        ago => format!(" ({ago})"),
    };
    format!(
        "waiting:   {} of group {}{place}: {reason}{since}",
        w.count,
        output::escape(&w.group)
    )
}

fn unseen(part: &v1::Part) -> Option<String> {
    let (cluster, what) = (output::escape(&part.cluster), output::escape(&part.unseen));
    let said = || format!("note:      of cluster {cluster} {what} could not be read");
    (!part.unseen.is_empty()).then(said)
}

fn unconfirmed(part: &v1::Part) -> Option<String> {
    let cluster = output::escape(&part.cluster);
    let health = shape::cluster_health(part.health());
    let since = shape::ago(part.since.as_ref());
    let age = shape::unconfirmed(part.age.as_ref());
    let said =
        || format!("note:      cluster {cluster} is {health} for {since}: what is shown of it is {age}");
    (part.stale && part.instances != Some(0)).then(said)
}

/// Instances by state, with what of them is unconfirmed: `6 running, 2 pending; 3 at west unconfirmed for
/// 1m`. What became of a job that has ended is stored.
pub fn counts(job: &v1::Job) -> String {
    let mut all: Vec<(v1::RunState, u64)> = Vec::new();
    for c in job.groups.iter().flat_map(|g| &g.counts) {
        match all.iter_mut().find(|(s, _)| *s == c.state()) {
            Some((_, n)) => *n += c.count,
            None => all.push((c.state(), c.count)),
        }
    }
    let each: Vec<String> = all
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(s, n)| format!("{n} {}", shape::run_state(*s)))
        .collect();
    let parts = if has_ended(job.state()) {
        &[]
    } else {
        job.parts.as_slice()
    };
    let total = all.iter().map(|(_, n)| n).sum();
    output::escape(&shape::with_unconfirmed(&each.join(", "), total, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_say_what_of_them_is_unconfirmed_until_the_job_has_ended() {
        let count = |state: v1::RunState, count| v1::StateCount {
            state: state.into(),
            count,
        };
        let mut job = v1::Job {
            state: v1::JobState::Running.into(),
            groups: vec![v1::GroupStatus {
                group: "main".to_owned(),
                counts: vec![count(v1::RunState::Running, 5), count(v1::RunState::Pending, 2)],
            }],
            parts: vec![v1::Part {
                cluster: "west".to_owned(),
                health: v1::Health::CutOff.into(),
                age: Some(prost_types::Duration {
                    seconds: 61,
                    nanos: 0,
                }),
                stale: true,
                instances: Some(5),
                ..v1::Part::default()
            }],
            ..v1::Job::default()
        };
        assert_eq!(counts(&job), "5 running, 2 pending; 5 at west unconfirmed for 1m");
        job.groups[0].counts.pop();
        assert_eq!(counts(&job), "5 running, unconfirmed for 1m");
        let note = unconfirmed(&job.parts[0]).unwrap();
        assert!(
            note.ends_with("what is shown of it is unconfirmed for 1m"),
            "{note}"
        );
        job.parts[0].stale = false;
        assert_eq!(
            (counts(&job).as_str(), unconfirmed(&job.parts[0])),
            ("5 running", None)
        );
        job.parts[0].stale = true;
        job.state = v1::JobState::Succeeded.into();
        assert_eq!(counts(&job), "5 running");
    }

    #[test]
    fn what_waits_is_told_with_its_time_if_there_is_one() {
        let mut w = v1::Waiting {
            group: "main".to_owned(),
            count: 3,
            reason: Some(v1::Reason {
                code: "MAX_RUNNING".to_owned(),
                message: "max_running is reached".to_owned(),
                ..v1::Reason::default()
            }),
            ..v1::Waiting::default()
        };
        let planned = waiting(&w);
        assert!(planned.starts_with("waiting:   3 of group main: "), "{planned}");
        assert!(planned.ends_with("max_running is reached"), "{planned}");
        w.since = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
        assert!(waiting(&w).ends_with("d)"));
    }
}
