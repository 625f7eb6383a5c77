//! Trees that leave out or move pools with jobs.

use super::*;

/// `/default`, and `/a` over `/a/x`, which has a job, and `/a/y`, which has none.
fn with_a_job() -> Memory {
    let mut store = Memory::new();
    let all = [
        pool("/a", 4),
        pool("/a/x", 2),
        pool("/a/y", 1),
        pool("/default", 0),
    ];
    apply(&mut store, tree(all)).unwrap();
    job(&mut store, "/a/x");
    store
}

fn deleting(store: &Memory) -> Vec<(&str, bool)> {
    let all = store.pools.pools.values();
    all.map(|p| (p.path.as_str(), p.deleting)).collect()
}

#[test]
fn a_pool_with_jobs_that_is_not_wanted_goes_later_with_those_above_it() {
    let mut store = with_a_job();
    let x = id(&store, "/a/x");
    let done = apply(&mut store, tree([pool("/default", 0)])).unwrap();
    assert_eq!(told(&done), ["/a /a", "/a/x /a/x", "/a/y -"]);
    assert_eq!(
        deleting(&store),
        [("/a", true), ("/a/x", true), ("/default", false)]
    );
    assert!(store.pools.pools.values().all(|p| p.reservation.is_zero()));
    // The same file again changes nothing, and one that reserves the room is not in its way.
    let before = store.pools.clone();
    apply(&mut store, tree([pool("/default", 0)])).unwrap();
    assert_eq!(store.pools, before);
    // One that names it again keeps it.
    apply(
        &mut store,
        tree([pool("/default", 0), pool("/a", 3), pool("/a/x", 3)]),
    )
    .unwrap();
    assert_eq!(
        deleting(&store),
        [("/a", false), ("/a/x", false), ("/default", false)]
    );
    assert_eq!(id(&store, "/a/x"), x);
}

#[test]
fn what_goes_reserves_nothing_that_others_want() {
    let mut store = with_a_job();
    apply(
        &mut store,
        tree([pool("/default", 0), pool("/a", 4), pool("/a/z", 4)]),
    )
    .unwrap();
    let expected = [
        ("/a", false),
        ("/a/x", true),
        ("/a/z", false),
        ("/default", false),
    ];
    assert_eq!(deleting(&store), expected);
}

#[test]
fn nothing_takes_the_place_of_a_pool_with_jobs() {
    for (wanted, reason) in [
        // Another pool would have its path.
        (
            tree([pool("/default", 0), pool("/a", 0), moved("/a/x", "/a/y")]),
            ErrorReason::FieldInvalid,
        ),
        // What is above it moves away, and it would move along.
        (
            tree([pool("/default", 0), moved("/b", "/a")]),
            ErrorReason::PoolInUse,
        ),
    ] {
        let mut store = with_a_job();
        let before = store.pools.clone();
        let refused = apply(&mut store, wanted).unwrap_err();
        assert_eq!(refused.reason, reason, "{refused}");
        assert_eq!(store.pools, before);
    }
}

#[test]
fn once_its_jobs_have_ended_the_next_file_without_it_removes_it() {
    let mut store = with_a_job();
    apply(&mut store, tree([pool("/default", 0)])).unwrap();
    let jobs: Vec<_> = store.heads.keys().copied().collect();
    store.ended(jobs[0], echelon_core_model::job::JobState::Succeeded);
    apply(&mut store, tree([pool("/default", 0)])).unwrap();
    assert_eq!(deleting(&store), [("/default", false)]);
}

/// A job of `/a/x`, its pool moved to `/b/x`.
fn with_a_moved_job() -> Memory {
    let mut store = with_a_job();
    let wanted = [moved("/b", "/a"), pool("/b/x", 0), pool("/default", 0)];
    apply(&mut store, tree(wanted)).unwrap();
    store
}

fn listed(store: &mut Memory, path: &'static str) -> Vec<String> {
    let filter = JobFilter {
        pool: Some(path.to_owned()),
        ..JobFilter::default()
    };
    let page = run(store, |facts| async move {
        list_jobs(&facts, filter, PageRequest::default()).await
    });
    page.unwrap().items.into_iter().map(|v| v.head.pool).collect()
}

#[test]
fn jobs_are_shown_and_found_where_their_pool_is() {
    let mut store = with_a_moved_job();
    let hello = || JobRef::Name("hello".to_owned());
    let view = run(&mut store, move |facts| async move {
        get_job(&facts, &hello(), NOW).await
    })
    .unwrap();
    assert_eq!(view.head.pool, "/b/x");
    assert_eq!(view.spec.unwrap().pool, "/b/x");
    assert_eq!(listed(&mut store, "/b"), ["/b/x"]);
    // Another pool at the old path has nothing of it, and goes at once.
    let wanted = [
        pool("/a", 0),
        pool("/a/x", 0),
        pool("/b", 0),
        pool("/b/x", 0),
        pool("/default", 0),
    ];
    apply(&mut store, tree(wanted)).unwrap();
    assert_eq!(listed(&mut store, "/a"), Vec::<String>::new());
    let left = run(&mut store, |facts| async move {
        delete_pool(&facts, "/a/x", "").await
    });
    assert_eq!(left.unwrap(), None, "it was empty");
    let left = run(&mut store, |facts| async move {
        delete_pool(&facts, "/b/x", "").await
    });
    assert!(left.unwrap().is_some_and(|p| p.deleting), "it has a job");
}

#[test]
fn a_job_whose_pool_has_moved_is_changed_as_before() {
    let change = || Change {
        job: JobRef::Name("hello".to_owned()),
        etag: String::new(),
    };
    let to = |path: &'static str, priority: u32| {
        move |present: &JobSpec| {
            let mut spec = present.clone();
            path.clone_into(&mut spec.pool);
            spec.priority = priority;
            Ok((spec, 100))
        }
    };
    let mut store = with_a_moved_job();
    let updated = |store: &mut Memory, path, priority| {
        run(store, move |facts| async move {
            update_job(&facts, change(), to(path, priority), NOW).await
        })
    };
    // A file with the old path, and one with the new.
    for (path, priority) in [("/a/x", 2), ("/b/x", 3)] {
        let view = updated(&mut store, path, priority).unwrap();
        assert_eq!(
            (view.head.pool.as_str(), view.spec.unwrap().priority),
            ("/b/x", priority)
        );
    }
    let head = store.heads.values().next().unwrap().clone();
    assert_eq!(store.specs[&(head.job, head.spec_version)].pool, "/b/x");
    let refused = updated(&mut store, "/default", 4).unwrap_err();
    assert_eq!(refused.reason, ErrorReason::FieldImmutable);
    // Where another pool is at the old path, that one is meant, and a job is not moved to it.
    let wanted = [
        pool("/a", 0),
        pool("/a/x", 0),
        pool("/b", 0),
        pool("/b/x", 0),
        pool("/default", 0),
    ];
    apply(&mut store, tree(wanted)).unwrap();
    let refused = updated(&mut store, "/a/x", 5).unwrap_err();
    assert_eq!(refused.reason, ErrorReason::FieldImmutable);
    assert!(
        refused.violations[0].problem.contains("must stay `/b/x`"),
        "{refused}"
    );
}

#[test]
fn jobs_of_older_rows_hold_their_pool_until_they_are_updated() {
    let mut store = with_a_job();
    let job = *store.heads.keys().next().unwrap();
    store.heads.get_mut(&job).unwrap().pool_id = None;
    let wanted = || tree([moved("/b", "/a"), pool("/b/x", 0), pool("/default", 0)]);
    let refused = apply(&mut store, wanted()).unwrap_err();
    assert_eq!(refused.reason, ErrorReason::PoolInUse);
    assert!(refused.to_string().contains("echelon job update"), "{refused}");
    let change = Change {
        job: JobRef::Id(job),
        etag: String::new(),
    };
    let two = run(&mut store, move |facts| async move {
        scale_job(&facts, change, None, 2, NOW).await
    });
    assert_eq!(
        two.unwrap().head.pool_id.map(|id| id.to_string()),
        Some(id(&store, "/a/x"))
    );
    apply(&mut store, wanted()).unwrap();
    assert_eq!(listed(&mut store, "/b/x"), ["/b/x"]);
}
