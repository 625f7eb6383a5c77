use super::*;
use crate::error::Code;
use crate::testing::{Memory, NOW, Running, run};
use echelon_core_model::job::JobState;
use echelon_core_model::rules::{After, Condition};
use echelon_core_testkit::build::JobBuilder;
use proptest::prelude::*;

type Answered = Result<JobView, ApiError>;

fn request(id: &str, instances: u32) -> CreateJob {
    let spec = JobBuilder::batch("hello", instances).build();
    CreateJob {
        hash: u64::from(instances),
        bytes: 100,
        named: NamedFields::default(),
        violations: vec![],
        request_id: id.into(),
        origin: None,
        spec,
    }
}

fn creating(id: &'static str, instances: u32, chance: u128) -> Running<Answered> {
    let request = request(id, instances);
    Running::start(move |facts| async move { create_job(&facts, request, chance, NOW).await })
}

fn create(store: &mut Memory, id: &str, instances: u32, chance: u128) -> Answered {
    let request = request(id, instances);
    run(store, move |facts| async move {
        create_job(&facts, request, chance, NOW).await
    })
}

#[test]
fn a_request_makes_one_job_however_often_it_comes() {
    let mut store = Memory::new();
    let first = create(&mut store, "r1", 3, 1).unwrap();
    let again = create(&mut store, "r1", 3, 2).unwrap();
    assert_eq!(first.head, again.head);
    assert_eq!(store.heads.len(), 1);
    assert_eq!(store.names["hello"].job, first.head.job);
    let stored = &store.specs[&(first.head.job, 1)];
    assert_eq!(first.head.spec_digest, Some(SpecDigest::of(1, stored)));

    let other = create(&mut store, "r1", 4, 3).unwrap_err();
    assert_eq!(
        (other.code(), other.reason),
        (Code::InvalidArgument, ErrorReason::RequestIdReused)
    );
    let taken = create(&mut store, "r2", 3, 4).unwrap_err();
    assert_eq!(
        (taken.code(), taken.reason),
        (Code::AlreadyExists, ErrorReason::JobNameTaken)
    );
}

#[test]
fn a_retry_finds_its_job_even_when_the_pool_is_gone() {
    let mut store = Memory::new();
    let first = create(&mut store, "r1", 3, 1).unwrap();
    store.pools.pools.clear();
    assert_eq!(create(&mut store, "r1", 3, 2).unwrap().head, first.head);
    let new = create(&mut store, "r2", 3, 2).unwrap_err();
    assert_eq!(new.violations[0].field, "job.spec.pool");
    assert_eq!(store.requests.len(), 1);
}

#[test]
fn a_name_is_free_once_its_job_has_ended_or_is_deleted() {
    let mut store = Memory::new();
    let first = create(&mut store, "r1", 3, 1).unwrap().head.job;
    for state in [JobState::Waiting, JobState::Running, JobState::Stopping] {
        store.ended(first, state);
        assert!(create(&mut store, "no", 3, 9).is_err(), "{state}");
    }
    store.ended(first, JobState::Failed);
    let second = create(&mut store, "r2", 3, 2).unwrap().head.job;
    assert_ne!(first, second);
    store.heads.get_mut(&second).unwrap().goal.desired = Desired::Deleted;
    let third = create(&mut store, "r3", 3, 3).unwrap().head.job;
    assert_eq!(store.names["hello"].job, third);
    assert_eq!(store.names["hello"].version, Version(3));
}

#[test]
fn a_create_that_is_repeated_after_the_delete_answers_the_deleted_job() {
    let mut store = Memory::new();
    let first = create(&mut store, "r1", 3, 1).unwrap().head.job;
    store.heads.get_mut(&first).unwrap().goal.desired = Desired::Deleted;
    store.ended(first, JobState::Deleted);
    let again = create(&mut store, "r1", 3, 2).unwrap();
    assert_eq!((again.head.job, again.state()), (first, JobState::Deleted));
    assert!(again.spec.is_some());
    // The name is free, and the repetition takes it from nobody.
    let second = create(&mut store, "r2", 3, 3).unwrap().head.job;
    let again = create(&mut store, "r1", 3, 4).unwrap();
    assert_eq!(again.head.job, first);
    assert_eq!(store.names["hello"].job, second);
    assert_eq!(store.heads.len(), 2);
}

#[test]
fn an_unknown_cluster_is_refused_unless_the_job_is_made_already() {
    let mut store = Memory::new();
    store.add_cluster("east");
    let only = |id: &str, name: &str| {
        let mut request = request(id, 1);
        request.spec.clusters.only = vec![name.to_owned()];
        request
    };
    let create = |store: &mut Memory, r: CreateJob| {
        run(
            store,
            move |facts| async move { create_job(&facts, r, 1, NOW).await },
        )
    };
    let wrong = create(&mut store, only("r1", "eats")).unwrap_err();
    assert_eq!(
        (wrong.code(), wrong.violations[0].field.as_str()),
        (Code::InvalidArgument, "job.spec.clusters.only[0]")
    );
    assert!(wrong.violations[0].problem.contains("did you mean `east`?"));
    let made = create(&mut store, only("r1", "east")).unwrap().head.job;
    store.clusters.clear();
    assert_eq!(create(&mut store, only("r1", "east")).unwrap().head.job, made);
}

#[test]
fn nothing_is_stored_of_a_wrong_request() {
    let mut store = Memory::new();
    let mut wrong = request("r 1", 0);
    wrong.spec.pool = "/nowhere".into();
    let error = run(&mut store, move |facts| async move {
        create_job(&facts, wrong, 1, NOW).await
    })
    .unwrap_err();
    let fields: Vec<&str> = error.violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(
        fields,
        ["request_id", "job.spec.groups[0].instances", "job.spec.pool"]
    );
    assert!(store.requests.is_empty() && store.names.is_empty() && store.specs.is_empty());
}

/// What must hold whatever happened: one live job a name, what was answered is stored, one job a request.
fn check(store: &Memory, answers: &[(&str, Answered)]) {
    assert!(store.alive("hello").len() <= 1, "two live jobs of one name");
    for (id, answer) in answers {
        match answer {
            Ok(view) => {
                assert_eq!(store.heads.get(&view.head.job), Some(&view.head), "{id} was lost");
                assert!(store.specs.contains_key(&(view.head.job, 1)));
                assert_eq!(store.names["hello"].job, view.head.job, "{id} lost its name");
            }
            Err(error) => assert!(
                matches!(
                    error.reason,
                    ErrorReason::JobNameTaken | ErrorReason::CreateOvertaken
                ),
                "{id}: {error}"
            ),
        }
    }
    let jobs = |wanted: &str| {
        let mut ids: Vec<JobId> = answers
            .iter()
            .filter(|(id, _)| *id == wanted)
            .filter_map(|(_, a)| a.as_ref().ok().map(|v| v.head.job))
            .collect();
        ids.dedup();
        ids.len()
    };
    for (id, _) in answers {
        assert!(jobs(id) <= 1, "{id} made two jobs");
    }
    assert!(
        answers.iter().any(|(_, a)| a.is_ok()),
        "somebody must get the name"
    );
}

/// Plays every order of the steps of two calls with at most five changes between them, by counting up the list of
/// choices. More changes find nothing that five do not, and two calls can bar each other for long.
fn every_order(start: impl Fn() -> [(&'static str, Running<Answered>); 2], store: &Memory) -> u32 {
    let mut choices: Vec<bool> = Vec::new();
    let mut played = 0;
    loop {
        let mut store = store.clone();
        let mut calls = start();
        let (mut at, mut who, mut changes) = (0, 0, 0);
        while calls.iter().any(|(_, c)| !c.is_done()) {
            if calls[who].1.is_done() {
                who = 1 - who;
            } else if !calls[1 - who].1.is_done() && changes < 5 {
                if at == choices.len() {
                    choices.push(false);
                }
                if choices[at] {
                    who = 1 - who;
                    changes += 1;
                }
                at += 1;
            }
            calls[who].1.step(&mut store, false);
        }
        choices.truncate(at);
        let answers: Vec<(&str, Answered)> = calls
            .into_iter()
            .map(|(id, mut c)| (id, c.answer().unwrap()))
            .collect();
        check(&store, &answers);
        played += 1;
        while choices.last() == Some(&true) {
            choices.pop();
        }
        match choices.last_mut() {
            Some(last) => *last = true,
            None => return played,
        }
    }
}

#[test]
fn two_gateways_may_create_in_any_order() {
    let same_name = || [("a", creating("a", 1, 1)), ("b", creating("b", 2, 2))];
    let same_request = || [("a", creating("a", 1, 1)), ("a", creating("a", 1, 2))];
    assert!(every_order(same_name, &Memory::new()) > 1000);
    assert!(every_order(same_request, &Memory::new()) > 100);
}

#[test]
fn a_create_that_died_anywhere_is_finished_or_overtaken_in_any_order() {
    for died_after in 0..7 {
        let mut store = Memory::new();
        let mut dying = creating("a", 1, 1);
        for _ in 0..died_after {
            dying.step(&mut store, false);
        }
        drop(dying);
        let retry_and_rival = || [("a", creating("a", 1, 3)), ("b", creating("b", 2, 2))];
        assert!(every_order(retry_and_rival, &store) > 100, "{died_after}");
    }
}

proptest! {
    /// Three callers, two of them with the same request; any step may lose its answer, any caller may die and start again.
    #[test]
    fn races_crashes_and_lost_answers_break_nothing(steps in proptest::collection::vec((0usize..3, 0u8..10), 0..120)) {
        let mut store = Memory::new();
        let mut chance = 10u128;
        let mut fresh = |who: usize| {
            chance += 1;
            match who {
                0 => ("a", creating("a", 1, chance)),
                1 => ("b", creating("b", 2, chance)),
                _ => ("a", creating("a", 1, chance)),
            }
        };
        let mut calls: Vec<_> = (0..3).map(&mut fresh).collect();
        for (who, luck) in steps {
            if luck == 0 && !calls[who].1.is_done() {
                calls[who] = fresh(who);
            } else if !calls[who].1.is_done() {
                calls[who].1.step(&mut store, luck == 1);
            }
        }
        let mut answers = Vec::new();
        for (who, (id, mut call)) in calls.into_iter().enumerate() {
            let answer = loop {
                match call.answer() {
                    // A caller that was told "unavailable" asks again.
                    Some(Err(e)) if e.is_retryable() => call = fresh(who).1,
                    Some(answer) => break answer,
                    None => call.step(&mut store, false),
                }
            };
            answers.push((id, answer));
        }
        check(&store, &answers);
    }
}

fn waiting_for(job: &'static str) -> CreateJob {
    let mut request = request("later", 1);
    "later".clone_into(&mut request.spec.name);
    request.spec.rules.after.push(After {
        job: job.to_owned(),
        id: None,
        condition: Condition::Ended,
    });
    request
}

#[test]
fn a_job_that_is_to_be_waited_for_is_found_at_the_submit_or_refused() {
    let mut store = Memory::new();
    let submit = |store: &mut Memory, job: &'static str, chance| {
        let request = waiting_for(job);
        run(store, move |facts| async move {
            create_job(&facts, request, chance, NOW).await
        })
    };
    let early = submit(&mut store, "hello", 1).unwrap_err();
    assert_eq!(early.violations[0].field, "job.spec.after[0].job");
    let told = &early.violations[0].problem;
    assert!(told.contains("there is no job `hello`"), "{told}");
    let wrong = submit(&mut store, "Hello!", 1).unwrap_err();
    assert_eq!(wrong.violations[0].field, "job.spec.after[0].job");

    let hello = create(&mut store, "r1", 1, 2).unwrap().head.job;
    let later = submit(&mut store, "hello", 3).unwrap();
    assert_eq!(later.spec.unwrap().rules.after[0].id, Some(hello));

    // The name means another job by now; a repeated request still means the first one.
    store.ended(hello, JobState::Succeeded);
    create(&mut store, "r2", 1, 4).unwrap();
    assert_eq!(submit(&mut store, "hello", 5).unwrap().head, later.head);
}

#[test]
fn a_plan_of_a_job_that_waits_for_one_that_is_not_there_is_refused_as_a_submit_is() {
    let mut store = Memory::new();
    let plan = |store: &mut Memory| {
        let CreateJob { spec, .. } = waiting_for("hello");
        run(store, move |facts| async move {
            validate::planned(&facts, spec, NamedFields::default(), Vec::new(), 1).await
        })
    };
    let early = plan(&mut store).unwrap_err();
    assert_eq!(early.violations[0].field, "spec.after[0].job");
    let hello = create(&mut store, "r1", 1, 2).unwrap().head.job;
    assert_eq!(plan(&mut store).unwrap().rules.after[0].id, Some(hello));
}
