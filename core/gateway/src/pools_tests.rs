use super::*;
use crate::create::{CreateJob, create_job};
use crate::testing::{Memory, NOW, Running, run};
use crate::view::JobView;
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_testkit::build::JobBuilder;

fn create(store: &mut Memory, name: &str, pool: &str) -> Result<JobView, ApiError> {
    let request = CreateJob {
        hash: 1,
        bytes: 100,
        named: NamedFields::default(),
        violations: vec![],
        request_id: name.to_owned(),
        origin: None,
        spec: JobBuilder::batch(name, 1).pool(pool).build(),
    };
    let chance = u128::try_from(store.heads.len()).unwrap() + 1;
    run(store, move |facts| async move {
        create_job(&facts, request, chance, NOW).await
    })
}

fn delete(store: &mut Memory, path: &'static str, etag: &'static str) -> Result<Option<Pool>, ApiError> {
    run(store, move |facts| async move {
        delete_pool(&facts, path, etag).await
    })
}

fn undelete(store: &mut Memory, path: &'static str) -> Result<Pool, ApiError> {
    run(store, move |facts| async move {
        undelete_pool(&facts, path, "").await
    })
}

fn used() -> Memory {
    let mut store = Memory::new();
    store.add_pool("/x");
    create(&mut store, "first", "/x").unwrap();
    store
}

#[test]
fn an_empty_pool_goes_at_once_and_one_with_jobs_is_marked() {
    let mut store = used();
    store.add_pool("/empty");
    assert_eq!(delete(&mut store, "/empty", "").unwrap(), None);
    let goes = delete(&mut store, "/x", "1").unwrap().unwrap();
    assert!(goes.deleting && goes.version == Version(2));
    // Said again it is the same, and an old etag is one.
    let version = store.pools.version;
    assert_eq!(delete(&mut store, "/x", "").unwrap(), Some(goes));
    assert_eq!(store.pools.version, version);
    assert_eq!(
        delete(&mut store, "/x", "1").unwrap_err().reason,
        ErrorReason::EtagStale
    );
    // Once its job has ended it goes with the next wish, if the resource manager was not faster.
    let job = *store.heads.keys().next().unwrap();
    store.ended(job, JobState::Stopped);
    assert_eq!(delete(&mut store, "/x", "").unwrap(), None);
    assert_eq!(
        delete(&mut store, "/x", "").unwrap_err().reason,
        ErrorReason::PoolNotFound
    );
}

#[test]
fn a_pool_that_goes_takes_no_job_and_no_pool_until_it_is_kept() {
    let mut store = used();
    delete(&mut store, "/x", "").unwrap();
    let refused = create(&mut store, "second", "/x").unwrap_err();
    assert_eq!(refused.violations[0].field, "job.spec.pool");
    assert!(refused.message.contains("echelon pool undelete /x"), "{refused}");
    let new = Pool::new(PoolId::new(""), "/x/y");
    let below = run(
        &mut store,
        |facts| async move { create_pool(&facts, new, 1).await },
    );
    assert_eq!(below.unwrap_err().reason, ErrorReason::PoolDeleting);
    // The retry of what was made before is still answered.
    create(&mut store, "first", "/x").unwrap();
    let kept = undelete(&mut store, "/x").unwrap();
    assert!(!kept.deleting);
    assert_eq!(undelete(&mut store, "/x").unwrap(), kept);
    create(&mut store, "second", "/x").unwrap();
    assert_eq!(
        undelete(&mut store, "/gone").unwrap_err().reason,
        ErrorReason::PoolNotFound
    );
}

#[test]
fn of_a_delete_and_its_undo_at_once_the_later_stands() {
    for first_steps in 0..5 {
        let mut store = used();
        let mut goes = Running::start(|facts| async move { delete_pool(&facts, "/x", "").await.map(|_| ()) });
        let mut kept =
            Running::start(|facts| async move { undelete_pool(&facts, "/x", "").await.map(|_| ()) });
        for _ in 0..first_steps {
            goes.step(&mut store, false);
        }
        while !kept.is_done() {
            kept.step(&mut store, false);
        }
        while !goes.is_done() {
            goes.step(&mut store, false);
        }
        goes.answer().unwrap().unwrap();
        kept.answer().unwrap().unwrap();
        // The undo found a mark only where the delete had written it by then.
        let pool = &store.pools.pools["/x"];
        assert_eq!(
            pool.deleting,
            pool.version == Version(2),
            "after {first_steps} steps"
        );
    }
}
