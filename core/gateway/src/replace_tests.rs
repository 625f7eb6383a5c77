use super::*;
use crate::testing::{Memory, NOW, run};
use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::{Goal, Head};
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{Generation, HostId, InstanceRange, JobId, Version};
use echelon_core_testkit::build::{JobBuilder, main_group};

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
    let volume = VolumeId::new(volume);
    let done = run(store, move |facts| async move {
        let of = (&JobRef::Id(JOB), &main_group(), InstanceNumber(number));
        replace_instance(&facts, of, &volume, NOW).await
    });
    done.map(drop)
}

fn wishes(store: &Memory) -> Vec<(VolumeId, VolumeWish)> {
    let row = store.clusters.values().next().unwrap();
    row.volumes.clone().into_iter().collect()
}

#[test]
fn who_names_the_volume_that_is_lost_has_it_given_up() {
    let mut store = db(RunState::Unreachable);
    replace(&mut store, 0, "v").unwrap();
    let instance = InstanceId {
        job: JOB,
        group: main_group(),
        number: InstanceNumber(0),
    };
    let wish = (VolumeId::new("v"), VolumeWish::GiveUp(instance));
    assert_eq!(wishes(&store), std::slice::from_ref(&wish));
    replace(&mut store, 0, "v").unwrap();
    assert_eq!(wishes(&store), [wish], "saying it again changes nothing");
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
fn the_row_of_a_cluster_stays_small() {
    let mut store = db(RunState::Lost);
    let row = store.clusters.values_mut().next().unwrap();
    for n in 0..1000u32 {
        let instance = InstanceId {
            job: JobId(1),
            group: main_group(),
            number: InstanceNumber(n),
        };
        row.volumes
            .insert(VolumeId::new(format!("a{n:04}")), VolumeWish::GiveUp(instance));
    }
    replace(&mut store, 0, "v").unwrap();
    let left = wishes(&store);
    assert_eq!((left.len(), left[0].0.as_str()), (1000, "a0001"));
}
