use super::*;
use crate::testing::{Memory, run};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::Goal;
use echelon_core_model::job::Head;
use echelon_core_model::resources::Resources;
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{
    AssignedRange, Assignment, Generation, InstanceRange, JobId, RunNumber, TaskId, Timestamp, Version,
};
use echelon_core_testkit::build::{JobBuilder, main_group};
use std::collections::BTreeMap;

fn instance(n: u32) -> InstanceId {
    InstanceId {
        job: JobId(7),
        group: main_group(),
        number: InstanceNumber(n),
    }
}

/// The volume that was made with the first run of an instance.
fn id(n: u32) -> VolumeId {
    VolumeId::of(&TaskId {
        instance: instance(n),
        generation: Generation(1),
        run: RunNumber(1),
    })
}

/// A job of one instance, number 1 having been scaled away: host h has the volumes of both.
fn two() -> Memory {
    let mut store = Memory::new();
    let cluster = store.add_cluster("east");
    let spec = JobBuilder::stateful("db", 1, 100).build();
    let head = Head {
        rollout: None,
        past_rollouts: Vec::new(),
        job: JobId(7),
        version: Version(1),
        void: false,
        goal: Goal::default(),
        spec_version: 1,
        name: "db".to_owned(),
        pool: "/default".to_owned(),
        pool_id: None,
        kind: spec.kind,
        owner: String::new(),
        labels: BTreeMap::new(),
        instances: 1,
        updated_at: Timestamp(1),
        verdict: None,
        schedule: None,
        origin: None,
        restarts: None,
        spec_digest: None,
    };
    store.heads.insert(JobId(7), head);
    store.specs.insert((JobId(7), 1), spec);
    let mut assignment = Assignment::new(JobId(7));
    let range = AssignedRange {
        range: InstanceRange { first: 0, last: 0 },
        cluster: cluster.clone(),
        generation: Generation(1),
        former: None,
        releasing: None,
    };
    assignment.groups.insert(main_group(), vec![range]);
    store.assignments.insert(JobId(7), assignment);
    let volume = |n: u32| HostVolume {
        id: id(n),
        size: 100,
        path: "data".to_owned(),
        seen_at: Timestamp(1),
    };
    let host = Host {
        id: HostId::new("h"),
        hostname: "h.example".to_owned(),
        address: String::new(),
        capacity: Resources::ZERO,
        used: Resources::ZERO,
        tasks: 1,
        attributes: BTreeMap::new(),
        reachable: true,
        seen_at: Timestamp(1),
        maintenance: None,
        volumes: vec![volume(0), volume(1)],
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: echelon_core_model::host_pool::HostPlace::default(),
    };
    store.hosts.insert(cluster.clone(), vec![host]);
    let record = |n: u32| InstanceRecord {
        volume: Some(Box::new(HeldVolume {
            id: id(n),
            host: HostId::new("h"),
            hostname: "h.example".into(),
            size: 100,
            used: true,
        })),
        ..InstanceRecord::default()
    };
    let records = [0, 1].map(|n| (InstanceNumber(n), record(n))).into();
    store.blocks.insert((cluster, JobId(7), main_group()), records);
    store
}

fn destroy(store: &mut Memory, n: u32) -> Result<Option<VolumeWish>, ErrorReason> {
    let done = run(store, move |facts| async move {
        destroy_volume(&facts, "east", &id(n)).await
    });
    done.map(|v| v.wish).map_err(|e| e.reason)
}

fn adopt(store: &mut Memory, n: u32, by: u32) -> Result<Option<VolumeWish>, (ErrorReason, String)> {
    let who = (JobRef::Name("db".to_owned()), main_group(), InstanceNumber(by));
    let who = (JobRef::Id(JobId(7)), who.1, who.2);
    let done = run(store, move |facts| async move {
        adopt_volume(&facts, "east", &id(n), who).await
    });
    done.map(|v| v.wish).map_err(|e| (e.reason, e.message))
}

fn stored(store: &Memory) -> Vec<(VolumeId, VolumeWish)> {
    let row = store.clusters.values().next().unwrap();
    row.volumes.clone().into_iter().collect()
}

#[test]
fn each_volume_is_shown_with_who_holds_it() {
    let mut store = two();
    let page = run(&mut store, |facts| async move {
        list_volumes(&facts, "east", PageRequest::default()).await
    });
    let holders: Vec<_> = page
        .unwrap()
        .items
        .into_iter()
        .map(|v| (v.volume.id, v.holder.map(|h| (h.instance, h.job_name))))
        .collect();
    assert_eq!(
        holders,
        [(id(0), Some((instance(0), "db".to_owned()))), (id(1), None)]
    );
}

#[test]
fn only_what_nobody_holds_is_destroyed() {
    let mut store = two();
    assert_eq!(destroy(&mut store, 0), Err(ErrorReason::VolumeHeld));
    assert_eq!(destroy(&mut store, 2), Err(ErrorReason::VolumeNotFound));
    assert_eq!(stored(&store), []);
    assert_eq!(destroy(&mut store, 1), Ok(Some(VolumeWish::Destroy)));
    assert_eq!(
        destroy(&mut store, 1),
        Ok(Some(VolumeWish::Destroy)),
        "saying it again changes nothing"
    );
    assert_eq!(stored(&store), [(id(1), VolumeWish::Destroy)]);
    // It is gone, and so is the wish with the next one.
    store.hosts.values_mut().next().unwrap()[0].volumes.remove(1);
    store.heads.get_mut(&JobId(7)).unwrap().goal.desired = Desired::Stopped;
    assert_eq!(destroy(&mut store, 0), Ok(Some(VolumeWish::Destroy)));
    assert_eq!(stored(&store), [(id(0), VolumeWish::Destroy)]);
}

#[test]
fn an_instance_adopts_what_fits_it() {
    let mut store = two();
    assert_eq!(adopt(&mut store, 0, 0), Ok(None), "it has it");
    assert_eq!(adopt(&mut store, 0, 1).unwrap_err().0, ErrorReason::VolumeHeld);
    let (reason, said) = adopt(&mut store, 1, 1).unwrap_err();
    assert_eq!(reason, ErrorReason::VolumeUnfit);
    assert!(said.contains("no such instance"), "{said}");
    assert_eq!(adopt(&mut store, 1, 0), Ok(Some(VolumeWish::Adopt(instance(0)))));
    assert_eq!(stored(&store), [(id(1), VolumeWish::Adopt(instance(0)))]);
    store
        .specs
        .insert((JobId(7), 1), JobBuilder::stateful("db", 1, 101).build());
    let (_, said) = adopt(&mut store, 1, 0).unwrap_err();
    assert!(
        said.contains("has 100 MiB and the job asks for 101 MiB"),
        "{said}"
    );
    store.assignments.clear();
    store
        .specs
        .insert((JobId(7), 1), JobBuilder::stateful("db", 1, 100).build());
    let (_, said) = adopt(&mut store, 1, 0).unwrap_err();
    assert!(said.contains("does not belong to cluster `east`"), "{said}");
}

#[test]
fn it_shows_when_the_shard_has_heard_a_wish() {
    let mut store = two();
    let adopted = |store: &mut Memory| {
        let who = (JobRef::Id(JobId(7)), main_group(), InstanceNumber(0));
        run(store, move |facts| async move {
            adopt_volume(&facts, "east", &id(1), who).await.unwrap()
        })
    };
    assert!(!adopted(&mut store).heard);
    let cluster = ClusterId::new("east");
    let wish = VolumeWish::Adopt(instance(0));
    store.shards.entry(cluster.clone()).or_default().volumes = [(id(1), wish)].into();
    assert!(adopted(&mut store).heard);
    // A newer word is shown before the shard has heard it.
    assert_eq!(destroy(&mut store, 1), Ok(Some(VolumeWish::Destroy)));
    let page = run(&mut store, |facts| async move {
        list_volumes(&facts, "east", PageRequest::default()).await
    });
    let shown = page.unwrap().items.pop().unwrap();
    assert_eq!((shown.wish, shown.heard), (Some(VolumeWish::Destroy), false));
}
