use super::*;
use crate::testing::{Memory, NOW, run};
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::{Goal, Head};
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{Generation, HostId, InstanceRange, JobId, Span, Version};
use echelon_core_testkit::build::{JobBuilder, main_group};
use std::collections::BTreeMap;

const JOB: JobId = JobId(7);

/// `db`, whose only instance holds volume `v` and has a run in this state.
fn db(state: RunState) -> Memory {
    let mut store = Memory::new();
    let cluster = store.add_cluster("east");
    let spec = JobBuilder::stateful("db", 1, 100).build();
    let head = Head {
        job: JOB,
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: "db".into(),
        pool: spec.pool.clone(),
        pool_id: None,
        kind: spec.kind,
        owner: String::new(),
        labels: BTreeMap::new(),
        instances: 1,
        updated_at: NOW,
        rollout: None,
        past_rollouts: Vec::new(),
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
        spec_digest: None,
    };
    store.heads.insert(JOB, head);
    store.specs.insert((JOB, 1), spec);
    let range = AssignedRange {
        range: InstanceRange { first: 0, last: 0 },
        cluster: cluster.clone(),
        generation: Generation(1),
        former: None,
        releasing: None,
    };
    let mut assignment = Assignment::new(JOB);
    assignment.groups.insert(main_group(), vec![range]);
    store.assignments.insert(JOB, assignment);
    let record = InstanceRecord {
        generation: Generation(1),
        run: Some(Run::first(state, HostId::new("h"), "h.example", NOW)),
        volume: Some(Box::new(HeldVolume {
            id: VolumeId::new("v"),
            host: HostId::new("h"),
            hostname: "h.example".into(),
            size: 100,
            used: true,
        })),
        ..InstanceRecord::default()
    };
    let records = [(InstanceNumber(0), record)].into();
    store.blocks.insert((cluster, JOB, main_group()), records);
    store
}

fn replace(store: &mut Memory, number: u32, volume: &str) -> Result<(), ApiError> {
    replace_at(store, number, volume, NOW)
}

fn replace_at(store: &mut Memory, number: u32, volume: &str, now: Timestamp) -> Result<(), ApiError> {
    let volume = VolumeId::new(volume);
    let done = run(store, move |facts| async move {
        let of = (&JobRef::Id(JOB), &main_group(), InstanceNumber(number));
        replace_instance(&facts, of, &volume, now).await
    });
    done.map(drop)
}

fn wish(job: JobId, number: u32, asked_at: u64) -> VolumeWish {
    let instance = InstanceId {
        job,
        group: main_group(),
        number: InstanceNumber(number),
    };
    VolumeWish::GiveUp {
        instance,
        asked_at: Timestamp(asked_at),
    }
}

/// The shard has taken in all that was asked up to then.
fn heard(store: &mut Memory, at: u64) {
    let cluster = store.clusters.keys().next().unwrap().clone();
    store.shards.entry(cluster).or_default().wishes_heard = Timestamp(at);
}

fn wishes(store: &Memory) -> Vec<(VolumeId, VolumeWish)> {
    let row = store.clusters.values().next().unwrap();
    row.volumes.clone().into_iter().collect()
}

#[test]
fn who_names_the_volume_that_is_lost_has_it_given_up() {
    let mut store = db(RunState::Unreachable);
    replace(&mut store, 0, "v").unwrap();
    let asked = [(VolumeId::new("v"), wish(JOB, 0, NOW.0))];
    assert_eq!(wishes(&store), asked);
    replace_at(&mut store, 0, "v", NOW.plus(Span::seconds(1))).unwrap();
    assert_eq!(wishes(&store), asked, "saying it again changes nothing");
}

#[test]
fn what_the_shard_has_heard_is_void_and_may_be_asked_anew() {
    let mut store = db(RunState::Unreachable);
    replace(&mut store, 0, "v").unwrap();
    heard(&mut store, NOW.0);
    // It is not carried out yet: no instance has found room.
    let own = store.shards.values_mut().next().unwrap();
    own.volumes.insert(VolumeId::new("v"), wish(JOB, 0, NOW.0));
    replace_at(&mut store, 0, "v", NOW.plus(Span::seconds(1))).unwrap();
    assert_eq!(wishes(&store), [(VolumeId::new("v"), wish(JOB, 0, NOW.0))]);
    // The host was back, and is away again. This gateway's clock is behind that of the other one.
    store.shards.values_mut().next().unwrap().volumes.clear();
    replace_at(&mut store, 0, "v", Timestamp(3)).unwrap();
    assert_eq!(wishes(&store), [(VolumeId::new("v"), wish(JOB, 0, NOW.0 + 1))]);
}

#[test]
fn a_wish_of_an_older_gateway_is_asked_anew_with_its_time() {
    let mut store = db(RunState::Unreachable);
    let row = store.clusters.values_mut().next().unwrap();
    row.volumes.insert(VolumeId::new("v"), wish(JOB, 0, 0));
    replace(&mut store, 0, "v").unwrap();
    assert_eq!(wishes(&store), [(VolumeId::new("v"), wish(JOB, 0, NOW.0))]);
}

#[test]
fn nothing_is_given_up_by_mistake() {
    let told = |store: &mut Memory, number, volume| {
        let error = replace(store, number, volume).unwrap_err();
        assert_eq!(wishes(store), []);
        error.message
    };
    let mut lost = db(RunState::Unreachable);
    let other = told(&mut lost, 0, "w");
    assert!(
        other.contains("it holds volume `v` on host h.example, and not `w`"),
        "{other}"
    );
    let none = told(&mut lost, 1, "v");
    assert!(none.contains("has no instance 1"), "{none}");
    for state in [
        RunState::Running,
        RunState::Starting,
        RunState::Launching,
        RunState::Stopping,
    ] {
        let heard = told(&mut db(state), 0, "v");
        assert!(
            heard.contains(&format!("its run on host h.example is {state}")),
            "{heard}"
        );
    }
    let mut bare = db(RunState::Unreachable);
    for records in bare.blocks.values_mut() {
        records.values_mut().for_each(|r| r.volume = None);
    }
    assert!(told(&mut bare, 0, "v").contains("it holds no volume"));
}

#[test]
fn a_full_row_refuses_and_loses_nothing_and_what_was_heard_leaves_it() {
    let mut store = db(RunState::Lost);
    let row = store.clusters.values_mut().next().unwrap();
    for n in 0..267u32 {
        let id = VolumeId::new(format!("a{n:031}"));
        row.volumes.insert(id, wish(JobId(1), n, u64::from(n) + 1));
    }
    let before = wishes(&store);
    let refused = replace(&mut store, 0, "v").unwrap_err();
    assert_eq!(refused.reason, ErrorReason::TooManyWishes);
    assert!(
        refused
            .message
            .contains("267 wishes about volumes of cluster `east`")
            && refused.message.contains("nothing was changed"),
        "{}",
        refused.message
    );
    assert_eq!(wishes(&store), before);
    heard(&mut store, 200);
    replace(&mut store, 0, "v").unwrap();
    let left = wishes(&store);
    assert_eq!(left.len(), 68, "those that nobody has heard, and the new one");
    assert_eq!(left[0].1, wish(JobId(1), 200, 201));
    // All are heard: the latest stays, so that every later one is later.
    heard(&mut store, NOW.0);
    store.shards.values_mut().next().unwrap().volumes.clear();
    replace_at(&mut store, 0, "v", Timestamp(3)).unwrap();
    assert_eq!(wishes(&store), [(VolumeId::new("v"), wish(JOB, 0, NOW.0 + 1))]);
}
