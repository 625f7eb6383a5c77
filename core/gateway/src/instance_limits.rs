//! The limits of instances of a pool and of the federation. They are checked before a job is stored that has
//! more than before. While no resource manager answers, jobs are stored without a check.

use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use echelon_core_model::JobId;
use echelon_core_model::instance_limit::WantedInstances;
use echelon_core_model::spec::JobSpec;

/// Whether a job may have the instances of a spec that is to be stored.
///
/// # Errors
/// `TooManyInstances` with the limit that it would exceed; `FieldInvalid` for more than any job may have.
pub async fn check<F: Facts>(facts: &F, job: JobId, spec: &JobSpec) -> Result<(), ApiError> {
    let instances = u32::try_from(spec.instances())
        .map_err(|_| ApiError::field("job.spec.groups", "have more instances than a job may have"))?;
    let wanted = WantedInstances {
        job,
        pool: spec.pool.clone(),
        instances,
    };
    match facts.check_instances(wanted).await {
        None | Some(Ok(())) => Ok(()),
        Some(Err(exceeded)) => Err(ApiError::new(
            ErrorReason::TooManyInstances,
            format!(
                "job `{}` cannot have {instances} instances: {exceeded}. Nothing was changed; ask for fewer, or try again once other jobs have ended",
                spec.name
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::create::{CreateJob, create_job};
    use crate::error::Code;
    use crate::resource::JobRef;
    use crate::testing::{Memory, NOW, run, web};
    use crate::update::scale_job;
    use echelon_core_model::instance_limit::{ExceededLimit, LimitScope};
    use echelon_core_model::job_defaults::NamedFields;
    use echelon_core_testkit::build::JobBuilder;

    fn full(pool: &str) -> ExceededLimit {
        ExceededLimit {
            scope: LimitScope::Pool(pool.to_owned()),
            others: 8,
            limit: 9,
        }
    }

    fn create(store: &mut Memory, request_id: &str, instances: u32) -> Result<JobId, ApiError> {
        let request = CreateJob {
            spec: JobBuilder::batch("hello", instances).build(),
            named: NamedFields::default(),
            violations: vec![],
            bytes: 1,
            hash: u64::from(instances),
            request_id: request_id.to_owned(),
            origin: None,
        };
        let made = run(
            store,
            |facts| async move { create_job(&facts, request, 7, NOW).await },
        );
        made.map(|view| view.head.job)
    }

    fn scale(store: &mut Memory, job: JobId, instances: u32) -> Result<u64, ApiError> {
        let change = Change {
            job: JobRef::Id(job),
            etag: String::new(),
        };
        let scaled = run(store, move |facts| async move {
            scale_job(&facts, change, None, instances, NOW).await
        });
        scaled.map(|view| view.head.instances)
    }

    #[test]
    fn a_job_beyond_a_limit_is_refused_and_takes_no_name() {
        let mut store = Memory::new();
        store.limit = Some(full("/default"));
        let refused = create(&mut store, "r1", 3).unwrap_err();
        assert_eq!(
            (refused.code(), refused.reason, refused.to_string()),
            (
                Code::FailedPrecondition,
                ErrorReason::TooManyInstances,
                "job `hello` cannot have 3 instances: the other jobs of pool /default have 8 instances, and all of them \
                 together may have 9. Nothing was changed; ask for fewer, or try again once other jobs have ended"
                    .to_owned()
            )
        );
        assert!(store.heads.is_empty() && store.names.is_empty() && store.specs.is_empty());

        // The same request makes the job later on, under the id that was checked.
        store.limit = None;
        let job = create(&mut store, "r1", 3).unwrap();
        let checked: Vec<_> = store.checked.iter().map(|c| (c.job, c.instances)).collect();
        assert_eq!(checked, [(job, 3), (job, 3)]);
        assert_eq!(store.checked[0].pool, "/default");
        // And finds it, whatever the limit is by then.
        store.limit = Some(full("/default"));
        assert_eq!(create(&mut store, "r1", 3).unwrap(), job);
    }

    #[test]
    fn only_a_change_to_more_instances_is_checked() {
        let (mut store, job) = web();
        store.limit = Some(full("/default"));
        store.checked.clear();
        assert_eq!(scale(&mut store, job, 2).unwrap(), 2);
        assert!(store.checked.is_empty());
        let refused = scale(&mut store, job, 3).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::TooManyInstances);
        assert_eq!(store.heads[&job].instances, 2);
        store.limit = None;
        assert_eq!(scale(&mut store, job, 3).unwrap(), 3);
        assert_eq!(store.checked.last().map(|c| (c.job, c.instances)), Some((job, 3)));
    }

    #[test]
    fn without_an_answer_a_job_is_stored() {
        let mut store = Memory::new();
        store.is_unled = true;
        store.limit = Some(full("/default"));
        create(&mut store, "r1", 3).unwrap();
    }
}
