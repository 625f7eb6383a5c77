//! Field masks of UpdateJob: which fields of the spec to take from the request.

use crate::error::violations;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::update::Edit;
use echelon_core_model::job_defaults::JobDefaults;
use echelon_core_model::spec::JobSpec;
use echelon_proto::convert::{Problems, spec as convert};
use echelon_proto::echelon::v1;
use prost::Message;
use prost_types::FieldMask;

const FIELDS: [&str; 24] = [
    "name",
    "pool",
    "kind",
    "revocable",
    "preemptible",
    "controller",
    "gang",
    "completion",
    "max_failed",
    "max_wait",
    "max_total",
    "after",
    "keep",
    "schedule",
    "driver",
    "owner",
    "labels",
    "priority",
    "clusters",
    "on_unreachable",
    "on_gone",
    "on_cluster_loss",
    "update",
    "groups",
];

struct Masked {
    wanted: v1::JobSpec,
    fields: Vec<&'static str>,
}

/// The edit that takes the masked fields of `wanted`; without a mask every field that can change.
pub(super) fn spec(wanted: v1::JobSpec, mask: Option<FieldMask>) -> Result<impl Edit, ApiError> {
    let paths = mask.map(|m| m.paths).unwrap_or_default();
    let mut fields = Vec::new();
    for path in &paths {
        match path.as_str() {
            "spec" | "*" => fields.extend(FIELDS),
            other => {
                let known = FIELDS
                    .into_iter()
                    .find(|f| other.strip_prefix("spec.") == Some(f));
                let wrong = || {
                    ApiError::field(
                        "update_mask",
                        format!(
                            "`{other}` cannot be changed by itself; name `spec` or one of {}",
                            FIELDS.map(|f| format!("spec.{f}")).join(", ")
                        ),
                    )
                };
                fields.push(known.ok_or_else(wrong)?);
            }
        }
    }
    if paths.is_empty() {
        fields.extend(FIELDS);
    }
    Ok(Masked { wanted, fields })
}

impl Edit for Masked {
    fn apply(&self, present: &JobSpec, defaults: JobDefaults) -> Result<(JobSpec, usize), ApiError> {
        let mut merged = convert::spec(present);
        for field in &self.fields {
            take(&mut merged, &self.wanted, field);
        }
        merged.priority.get_or_insert(defaults.priority);
        let on_loss = || convert::silence(defaults.on_loss_of(present.kind));
        merged.on_cluster_loss.get_or_insert_with(on_loss);
        let bytes = merged.encoded_len();
        let mut problems = Problems::default();
        let read = convert::read_spec(merged, "job.spec", &mut problems);
        let found = violations(problems);
        if found.is_empty() {
            Ok((read, bytes))
        } else {
            Err(ApiError::fields(found))
        }
    }
}

/// Takes one field. What names the job and cannot change anyway may be left out.
fn take(into: &mut v1::JobSpec, from: &v1::JobSpec, field: &str) {
    match field {
        "name" if !from.name.is_empty() => into.name.clone_from(&from.name),
        "pool" if !from.pool.is_empty() => into.pool.clone_from(&from.pool),
        "kind" if from.kind != 0 => into.kind = from.kind,
        "revocable" if from.revocable => into.revocable = true,
        "preemptible" if from.preemptible.is_some() => into.preemptible = from.preemptible,
        "controller" if from.controller => into.controller = true,
        "gang" if from.gang.is_some() => into.gang.clone_from(&from.gang),
        "completion" => into.completion = from.completion,
        "max_failed" => into.max_failed = from.max_failed,
        "max_wait" => into.max_wait = from.max_wait,
        "max_total" => into.max_total = from.max_total,
        "after" if !from.after.is_empty() => into.after = after(&into.after, &from.after),
        "keep" => into.keep = from.keep,
        "driver" if !from.driver.is_empty() => into.driver.clone_from(&from.driver),
        "schedule" if from.schedule.is_some() => into.schedule.clone_from(&from.schedule),
        "owner" => into.owner.clone_from(&from.owner),
        "labels" => into.labels.clone_from(&from.labels),
        "priority" => into.priority = from.priority,
        "clusters" if from.clusters.is_some() => into.clusters.clone_from(&from.clusters),
        "on_unreachable" => into.on_unreachable = from.on_unreachable,
        "on_gone" => into.on_gone = from.on_gone,
        "on_cluster_loss" => into.on_cluster_loss = from.on_cluster_loss,
        "update" => into.update = from.update,
        "groups" => into.groups.clone_from(&from.groups),
        _ => {}
    }
}

/// What is awaited, as a request writes it, with the ids that the same words meant when the job was submitted.
fn after(present: &[v1::After], wanted: &[v1::After]) -> Vec<v1::After> {
    let found = |job: &str| present.iter().find(|a| a.job == job).map(|a| a.job_id.clone());
    let wanted = wanted.iter().map(|a| v1::After {
        job_id: found(&a.job).unwrap_or_default(),
        ..a.clone()
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Span;
    use echelon_core_model::spec::OnSilence;
    use echelon_core_testkit::build::JobBuilder;

    const POOLS: OnSilence = OnSilence::Replace(Span::minutes(60));

    /// An edit of a service that waits for a silent cluster, in a pool whose jobs do not.
    fn edited(wanted: v1::JobSpec, paths: &[&str]) -> Result<JobSpec, ApiError> {
        let mask = FieldMask {
            paths: paths.iter().map(|p| (*p).to_owned()).collect(),
        };
        let present = JobBuilder::service("web", 3).on_cluster_loss(OnSilence::Wait);
        let defaults = JobDefaults {
            priority: 4,
            on_cluster_loss: Some(POOLS),
        };
        spec(wanted, Some(mask))?
            .apply(&present.build(), defaults)
            .map(|(s, _)| s)
    }

    #[test]
    fn only_masked_fields_are_taken() {
        let wanted = v1::JobSpec {
            name: "other".into(),
            owner: "me".into(),
            priority: Some(7),
            ..Default::default()
        };
        let s = edited(wanted.clone(), &["spec.owner"]).unwrap();
        assert_eq!((s.name.as_str(), s.owner.as_str(), s.priority), ("web", "me", 0));
        let s = edited(wanted.clone(), &["spec"]).unwrap();
        assert_eq!((s.name.as_str(), s.priority, s.groups.len()), ("other", 7, 0));
        let firm = v1::JobSpec {
            preemptible: Some(false),
            ..wanted.clone()
        };
        assert!(edited(wanted.clone(), &["spec"]).unwrap().preemptible);
        assert!(!edited(firm, &["spec"]).unwrap().preemptible);
        let silent = v1::JobSpec {
            priority: None,
            ..wanted
        };
        assert_eq!(edited(silent.clone(), &["spec.owner"]).unwrap().priority, 0);
        assert_eq!(edited(silent.clone(), &["spec.priority"]).unwrap().priority, 4);
        let on_loss = |wanted: &v1::JobSpec, path| edited(wanted.clone(), &[path]).unwrap().on_cluster_loss;
        assert_eq!(
            on_loss(&silent, "spec.priority"),
            OnSilence::Wait,
            "it is not taken"
        );
        assert_eq!(on_loss(&silent, "spec.on_cluster_loss"), POOLS);
        assert_eq!(on_loss(&silent, "spec"), POOLS);
        let says = OnSilence::Replace(Span::minutes(3));
        let saying = v1::JobSpec {
            on_cluster_loss: Some(convert::silence(says)),
            ..silent
        };
        assert_eq!(on_loss(&saying, "spec"), says);
    }

    #[test]
    fn unknown_paths_are_told_with_the_known_ones() {
        let wrong = edited(v1::JobSpec::default(), &["spec.onwer"]).unwrap_err();
        assert_eq!(wrong.violations[0].field, "update_mask");
        assert!(wrong.message.contains("spec.owner"), "{wrong}");
    }
}
