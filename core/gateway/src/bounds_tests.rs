use super::*;
use crate::change::Change;
use crate::create::{CreateJob, create_job};
use crate::error::{ApiError, ErrorReason};
use crate::resource::JobRef;
use crate::testing::{Memory, NOW, Running, run};
use crate::update::{Edit, scale_job, update_job};
use crate::view::JobView;
use crate::{pools, validate};
use echelon_core_model::job_defaults::{JobDefaults, NamedFields};
use echelon_core_model::pool::PriorityBounds;
use echelon_core_model::spec::{OnSilence, defaults};
use echelon_core_model::{PoolId, Span};
use echelon_core_testkit::build::JobBuilder;

const PATH: &str = "/ml/train";

/// `/ml` allows 4 cores an instance and priorities from 2 to 9, `/ml/train` 1 GiB and up to 5.
fn tree() -> Memory {
    let mut store = Memory::new();
    let bounds = |min, max, default| PriorityBounds { min, max, default };
    let ml = Pool {
        max_instance: Resources::MAX.with(Kind::Cpus, 4000),
        priority: bounds(2, 9, None),
        ..Pool::new(PoolId::new("ml"), "/ml")
    };
    let train = Pool {
        max_instance: Resources::MAX.with(Kind::Memory, 1024),
        priority: bounds(0, 5, None),
        ..Pool::new(PoolId::new("train"), PATH)
    };
    for pool in [ml, train] {
        store.pools.pools.insert(pool.path.clone(), pool);
    }
    store
}

fn with(store: &mut Memory, path: &str, change: impl FnOnce(&mut Pool)) {
    change(store.pools.pools.get_mut(path).unwrap());
}

fn job() -> JobBuilder {
    JobBuilder::service("web", 2).pool(PATH)
}

fn request(spec: JobSpec, priority: Option<u32>) -> CreateJob {
    CreateJob {
        hash: 1,
        bytes: 100,
        named: NamedFields {
            priority,
            ..NamedFields::default()
        },
        violations: vec![],
        request_id: "r".into(),
        origin: None,
        spec,
    }
}

fn create(store: &mut Memory, spec: JobSpec, priority: Option<u32>) -> Result<JobView, ApiError> {
    let request = request(spec, priority);
    run(store, move |facts| async move {
        create_job(&facts, request, 1, NOW).await
    })
}

fn sized(cpus: u64, memory: u64) -> JobSpec {
    let mut spec = job().build();
    spec.groups[0].resources = Resources {
        cpus,
        memory,
        ..Resources::ZERO
    };
    spec
}

/// Field and problem of each violation.
fn told<T: std::fmt::Debug>(refused: Result<T, ApiError>) -> Vec<(String, String)> {
    let violations = refused.unwrap_err().violations;
    violations.into_iter().map(|v| (v.field, v.problem)).collect()
}

#[test]
fn an_instance_that_is_larger_than_its_pools_allow_is_refused_with_the_shortfall() {
    let mut store = tree();
    let refused = told(create(&mut store, sized(4001, 1025), Some(3)));
    assert_eq!(
        refused,
        [
            (
                "job.spec.groups[0].resources.cpus_milli".to_owned(),
                "an instance, sidecars included, asks for 4.001 cpus; pool `/ml` allows at most 4 (`max_instance`)"
                    .to_owned()
            ),
            (
                "job.spec.groups[0].resources.memory_mib".to_owned(),
                "an instance, sidecars included, asks for 1025MiB memory; pool `/ml/train` allows at most 1024MiB (`max_instance`)"
                    .to_owned()
            ),
        ]
    );
    assert!(store.heads.is_empty() && store.requests.is_empty());
    // Exactly as large as allowed.
    create(&mut store, sized(4000, 1024), Some(3)).unwrap();
}

#[test]
fn a_limit_of_any_pool_above_counts_too_but_not_for_what_runs_on_lent_room() {
    let mut store = tree();
    with(&mut store, "/ml", |p| p.limit = p.limit.with(Kind::Cpus, 500));
    let refused = told(create(&mut store, sized(501, 1), Some(3)));
    assert!(
        refused[0].1.contains("pool `/ml` allows at most 0.5 (`limit`)"),
        "{refused:?}"
    );
    let mut lent = JobBuilder::service("web", 2).pool(PATH).revocable().build();
    lent.groups[0].resources = sized(501, 1).groups[0].resources;
    create(&mut store, lent.clone(), Some(3)).unwrap();
    let mut other = tree();
    lent.groups[0].resources.cpus = 4001;
    assert!(
        told(create(&mut other, lent, Some(3)))[0]
            .1
            .contains("(`max_instance`)")
    );
}

#[test]
fn an_instance_that_is_not_preemptible_must_fit_every_reservation_above_it() {
    let mut store = tree();
    let reserve = |store: &mut Memory, path: &str, cpus: u64| {
        with(store, path, |p| {
            p.reservation = Resources::MAX.with(Kind::Cpus, cpus);
        });
    };
    reserve(&mut store, "/ml", 800);
    reserve(&mut store, PATH, 500);
    let mut spec = sized(501, 1);
    spec.preemptible = false;
    let refused = told(create(&mut store, spec.clone(), Some(3)));
    assert_eq!(
        refused,
        [(
            "job.spec.groups[0].resources.cpus_milli".to_owned(),
            "an instance, sidecars included, asks for 0.501 cpus; pool `/ml/train` allows at most 0.5 (`reservation`)"
                .to_owned()
        )]
    );
    spec.groups[0].resources.cpus = 500;
    create(&mut store, spec, Some(3)).unwrap();
    create(&mut tree(), sized(501, 1), Some(3)).unwrap();
}

#[test]
fn a_controller_must_fit_what_every_pool_above_allows_controllers() {
    let mut store = tree();
    with(&mut store, "/ml", |p| {
        p.controller_limit = Resources::MAX.with(Kind::Cpus, 500);
    });
    let mut spec = sized(501, 1);
    create(&mut store, spec.clone(), Some(3)).unwrap();
    let mut store = tree();
    with(&mut store, "/ml", |p| {
        p.controller_limit = Resources::MAX.with(Kind::Cpus, 500);
    });
    spec.controller = true;
    let refused = told(create(&mut store, spec, Some(3)));
    assert!(
        refused[0]
            .1
            .contains("pool `/ml` allows at most 0.5 (`controller_limit`)"),
        "{refused:?}"
    );
}

#[test]
fn a_revocable_instance_must_fit_what_every_pool_above_allows_of_lent_room() {
    let bounded = || {
        let mut store = tree();
        with(&mut store, "/ml", |p| {
            p.revocable_limit = Resources::MAX.with(Kind::Cpus, 500).with(Kind::Memory, 1);
        });
        store
    };
    let mut spec = sized(501, 1000);
    create(&mut bounded(), spec.clone(), Some(3)).unwrap();
    spec.revocable = true;
    let refused = told(create(&mut bounded(), spec.clone(), Some(3)));
    assert!(
        refused[0]
            .1
            .contains("pool `/ml` allows at most 0.5 (`revocable_limit`)"),
        "{refused:?}"
    );
    // Memory is lent by few hosts: it is ordinary where none lends any.
    spec.groups[0].resources.cpus = 500;
    create(&mut bounded(), spec, Some(3)).unwrap();
}

#[test]
fn sidecars_count() {
    let mut store = tree();
    let mut spec = sized(3000, 1);
    let sidecar = echelon_core_model::pod::Sidecar {
        name: echelon_core_model::SidecarName::new("log"),
        runtime: spec.groups[0].runtime.clone(),
        resources: Resources::ZERO.with(Kind::Cpus, 1001),
    };
    spec.groups[0].sidecars.push(sidecar);
    let refused = told(create(&mut store, spec, Some(3)));
    // A tenth of a core is for the executor of its pod.
    assert!(refused[0].1.contains("asks for 4.101 cpus"), "{refused:?}");
}

#[test]
fn a_priority_outside_the_bounds_is_refused_with_them() {
    let mut store = tree();
    for (priority, problem) in [
        (1, "1 is below 2, the least that pool `/ml` allows"),
        (6, "6 is above 5, the most that pool `/ml/train` allows"),
    ] {
        let refused = told(create(&mut store, job().build(), Some(priority)));
        assert_eq!(refused, [("job.spec.priority".to_owned(), problem.to_owned())]);
    }
    let view = create(&mut store, job().build(), Some(5)).unwrap();
    assert_eq!(view.spec.unwrap().priority, 5);
}

#[test]
fn a_job_without_a_priority_takes_that_of_the_nearest_pool_which_has_one() {
    let usual = |change: &dyn Fn(&mut Memory)| {
        let mut store = tree();
        change(&mut store);
        let view = create(&mut store, job().build(), None).unwrap();
        view.spec.unwrap().priority
    };
    let default =
        |path: &'static str, n| move |s: &mut Memory| with(s, path, |p| p.priority.default = Some(n));
    assert_eq!(usual(&|_| {}), 2, "0, as far as the bounds allow");
    assert_eq!(usual(&default("/ml", 4)), 4);
    assert_eq!(usual(&default("/ml", 8)), 5, "as far as the lower bounds allow");
    assert_eq!(usual(&default(PATH, 3)), 3);
    // In a pool without any bounds nothing is as it was not before.
    let mut store = Memory::new();
    let view = create(&mut store, JobBuilder::service("web", 1).build(), None).unwrap();
    assert_eq!(view.spec.unwrap().priority, 0);
}

#[test]
fn a_retry_makes_the_job_that_it_began_although_the_default_has_changed() {
    let mut store = tree();
    let first = request(job().build(), None);
    let again = first.clone();
    let mut dies = Running::start(move |facts| async move { create_job(&facts, first, 1, NOW).await });
    while store.specs.is_empty() {
        dies.step(&mut store, false);
    }
    drop(dies);
    with(&mut store, PATH, |p| {
        p.priority.default = Some(5);
        p.on_cluster_loss = Some(OnSilence::Wait);
    });
    let view = run(&mut store, move |facts| async move {
        create_job(&facts, again, 9, NOW).await
    });
    let spec = view.unwrap().spec.unwrap();
    assert_eq!((spec.priority, spec.on_cluster_loss), (2, defaults::CLUSTER_LOSS));
    assert_eq!(store.heads.len(), 1);
}

fn change() -> Change {
    Change {
        job: JobRef::Name("web".into()),
        etag: String::new(),
    }
}

fn update(store: &mut Memory, edit: fn(&mut JobSpec)) -> Result<JobView, ApiError> {
    run(store, move |facts| async move {
        let edit = move |present: &JobSpec| {
            let mut spec = present.clone();
            edit(&mut spec);
            Ok((spec, 1))
        };
        update_job(&facts, change(), edit, NOW).await
    })
}

#[test]
fn a_change_is_judged_and_what_it_leaves_alone_is_not() {
    let mut store = tree();
    create(&mut store, sized(4000, 1024), Some(5)).unwrap();
    assert_eq!(
        told(update(&mut store, |s| s.groups[0].resources.cpus = 5000))[0].0,
        "job.spec.groups[0].resources.cpus_milli"
    );
    assert_eq!(
        told(update(&mut store, |s| s.priority = 6))[0].0,
        "job.spec.priority"
    );
    // Bounds that were lowered later forbid nothing that was there before.
    with(&mut store, "/ml", |p| {
        p.max_instance = p.max_instance.with(Kind::Cpus, 1000);
        p.priority.max = 3;
    });
    update(&mut store, |s| s.owner = "ann".to_owned()).unwrap();
    let scaled = run(&mut store, |facts| async move {
        scale_job(&facts, change(), None, 7, NOW).await
    });
    assert_eq!(scaled.unwrap().head.instances, 7);
    update(&mut store, |s| s.groups[0].resources.cpus = 1000).unwrap();
    assert!(update(&mut store, |s| s.groups[0].resources.cpus = 1001).is_err());
    update(&mut store, |s| s.priority = 3).unwrap();
    assert!(update(&mut store, |s| s.priority = 4).is_err());
}

#[test]
fn a_plan_says_what_a_submit_would() {
    let mut store = tree();
    let plan = |store: &mut Memory, spec: JobSpec, priority| {
        run(store, move |facts| async move {
            let named = NamedFields {
                priority,
                ..NamedFields::default()
            };
            validate::planned(&facts, spec, named, Vec::new(), 1).await
        })
    };
    let refused = told(plan(&mut store, sized(4001, 1), Some(9)));
    let fields: Vec<&str> = refused.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["spec.priority", "spec.groups[0].resources.cpus_milli"]);
    assert_eq!(plan(&mut store, sized(1, 1), None).unwrap().priority, 2);
    with(&mut store, "/ml", |p| p.on_cluster_loss = Some(OnSilence::Wait));
    let planned = plan(&mut store, sized(1, 1), None).unwrap();
    assert_eq!(planned.on_cluster_loss, OnSilence::Wait);
}

#[test]
fn a_job_that_says_nothing_of_silent_clusters_takes_it_from_its_pool() {
    let day = OnSilence::Replace(Span::minutes(24 * 60));
    let of = |spec: JobSpec, named: NamedFields| {
        let mut store = tree();
        with(&mut store, "/ml", |p| p.on_cluster_loss = Some(day));
        let request = CreateJob {
            named,
            ..request(spec, None)
        };
        let view = run(&mut store, move |facts| async move {
            create_job(&facts, request, 1, NOW).await
        });
        let view = view.unwrap();
        let stored = &store.specs[&(view.head.job, 1)];
        assert_eq!(view.spec.as_ref(), Some(stored));
        stored.on_cluster_loss
    };
    assert_eq!(of(job().build(), NamedFields::default()), day);
    let says = OnSilence::Replace(Span::minutes(15));
    let named = NamedFields {
        on_cluster_loss: Some(says),
        ..NamedFields::default()
    };
    assert_eq!(
        of(job().build(), named),
        says,
        "also where that is the default of its kind"
    );
    let stateful = JobBuilder::stateful("web", 2, 64).pool(PATH).build();
    assert_eq!(of(stateful, NamedFields::default()), OnSilence::Wait);
}

#[test]
fn a_change_gets_the_defaults_of_the_jobs_pool() {
    struct Asked;
    impl Edit for Asked {
        fn apply(&self, present: &JobSpec, defaults: JobDefaults) -> Result<(JobSpec, usize), ApiError> {
            let mut spec = present.clone();
            spec.on_cluster_loss = defaults.on_loss_of(spec.kind);
            Ok((spec, 1))
        }
    }
    let mut store = tree();
    create(&mut store, job().build(), None).unwrap();
    with(&mut store, PATH, |p| p.on_cluster_loss = Some(OnSilence::Wait));
    let view = run(&mut store, |facts| async move {
        update_job(&facts, change(), Asked, NOW).await
    });
    assert_eq!(view.unwrap().spec.unwrap().on_cluster_loss, OnSilence::Wait);
}

#[test]
fn settings_of_a_pool_that_cannot_hold_are_refused_with_their_field() {
    let mut store = tree();
    let set = |store: &mut Memory, path: &'static str, min, max, default| {
        run(store, move |facts| async move {
            let change = pools::PoolChange {
                priority: Some(PriorityBounds { min, max, default }),
                ..pools::PoolChange::default()
            };
            pools::update_pool(&facts, path, change).await
        })
    };
    let soon = run(&mut store, |facts| async move {
        let change = pools::PoolChange {
            on_cluster_loss: Some(Some(OnSilence::Replace(Span::seconds(119)))),
            ..pools::PoolChange::default()
        };
        pools::update_pool(&facts, PATH, change).await
    });
    assert_eq!(soon.unwrap_err().violations[0].field, "pool.on_cluster_loss");
    for (path, min, max, default) in [
        (PATH, 4, 3, None),
        (PATH, 2, 5, Some(6)),
        (PATH, 0, 1, None),
        // The one below is left without any.
        ("/ml", 6, 9, None),
    ] {
        let refused = set(&mut store, path, min, max, default).unwrap_err();
        assert_eq!(refused.reason, ErrorReason::FieldInvalid);
        assert_eq!(refused.violations[0].field, "pool.priority", "{path} {min} {max}");
    }
    let below = set(&mut store, "/ml", 6, 9, None).unwrap_err();
    assert!(below.message.contains("`/ml/train`"), "{below}");
    set(&mut store, "/ml", 5, 5, Some(5)).unwrap();
    let view = create(&mut store, job().build(), None).unwrap();
    assert_eq!(view.spec.unwrap().priority, 5);
}
