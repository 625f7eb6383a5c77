//! Instances with persistent volumes: where their volume is, there they run; nothing is destroyed without a stored wish.

use crate::daemons::{on_hosts, start_batch};
use crate::world::{World, config, job, marked, range, seconds, task};
use echelon_core_hosts::{Call, TaskState, TaskVolume};
use echelon_core_model::bucket::{BLOCK_SIZE, BLOCKS_A_RUN, block_bucket};
use echelon_core_model::directive::Order;
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::job::Desired;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::volume::VolumeWish;
use echelon_core_model::{
    HostId, InstanceId, InstanceNumber, JobId, ReasonCode, Resources, RunState, VolumeId,
};
use echelon_core_shard::{Config, Mode, Shard};
use echelon_core_testkit::build::{JobBuilder, main_group};

const GIB: u64 = 1024;

pub fn database() -> JobBuilder {
    JobBuilder::stateful("db", 1, GIB)
}

/// A shard over three hosts with disk, whose one instance runs with its volume.
pub fn one(spec: &JobSpec) -> World {
    let mut w = with_disk();
    w.store_job(spec);
    w.order(
        &[range(0, spec.groups[0].instances - 1)],
        u64::from(spec.groups[0].instances),
    );
    w.run(seconds(3));
    w
}

fn with_disk() -> World {
    let mut w = World::new();
    for room in w.cluster.hosts.values_mut() {
        *room = Resources {
            disk: 4 * GIB,
            ..*room
        };
    }
    w.elect();
    w.run(seconds(1));
    w.connect();
    w
}

fn record(w: &World, n: u32) -> InstanceRecord {
    w.stored(n).unwrap()
}

pub fn volume(w: &World, n: u32) -> (VolumeId, HostId) {
    let held = record(w, n).volume.unwrap();
    (held.id, held.host)
}

pub fn wishes(w: &World) -> Vec<(VolumeId, VolumeWish)> {
    match w.store.read(&Query::Shard(crate::world::c1())) {
        Answer::Shard(row) => row.volumes.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn discards(w: &World) -> usize {
    w.calls
        .iter()
        .filter(|c| matches!(c, Call::Discard { .. }))
        .count()
}

#[test]
fn what_has_a_volume_waits_for_its_host_between_two_runs() {
    let mut w = one(&database().build());
    w.cluster.hosts.clear();
    w.cluster.set(&task(0, 1, 1), TaskState::Gone);
    w.run(seconds(5));
    let slice = w.slice(1).unwrap();
    assert_eq!((slice.active, slice.live, slice.between_runs), (1, 0, 0));
    assert!(slice.returnable.is_empty());
}

#[test]
fn a_volume_is_made_with_the_first_run_and_kept_over_restarts() {
    let mut w = one(&database().build());
    let (id, host) = volume(&w, 0);
    assert_eq!(id.as_str(), task(0, 1, 1));
    assert_eq!(w.cluster.volumes(&host), std::slice::from_ref(&id));
    w.wish(&database().build(), Desired::Running, 1);
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.run(seconds(5));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_eq!(volume(&w, 0), (id.clone(), host.clone()));
    assert_eq!(w.cluster.volumes(&host), [id], "the same one, and no other");
}

#[test]
fn a_run_that_fails_comes_back_to_its_volume_whatever_room_others_have() {
    let mut w = one(&database().build());
    let (id, host) = volume(&w, 0);
    for n in 1..6 {
        w.cluster.set(&task(0, 1, n), TaskState::Failed);
        w.drain();
        w.cluster.offer();
        w.run(seconds(60));
        assert_eq!(
            w.cluster.live(),
            [task(0, 1, n + 1)],
            "a stateful instance is restarted for ever"
        );
        assert_eq!(record(&w, 0).run.unwrap().host, host);
    }
    let all: usize = w.cluster.hosts.keys().map(|h| w.cluster.volumes(h).len()).sum();
    assert_eq!((all, volume(&w, 0).0), (1, id));
}

#[test]
fn an_instance_that_is_granted_no_more_keeps_no_capacity_where_its_volume_is() {
    for granted in [0, 1] {
        let mut w = one(&database().build());
        let (id, host) = volume(&w, 0);
        w.cluster.silent.push(host.clone());
        w.order(&[range(0, 0)], granted);
        w.cluster.set(&task(0, 1, 1), TaskState::Failed);
        w.drain();
        let crunch = JobId(201);
        start_batch(&mut w, crunch, 40);
        w.cluster.silent.clear();
        w.cluster.offer();
        w.run(seconds(60));
        let cores = w.cluster.hosts[&host].cpus / 1000;
        let there = u64::from(on_hosts(&w, crunch)[host.as_str()]);
        assert_eq!(there, cores - granted, "granted: {granted}");
        assert_eq!(u64::try_from(on_hosts(&w, job()).len()), Ok(granted));
        assert_eq!(w.cluster.volumes(&host), [id]);
    }
}

#[test]
fn an_instance_waits_for_the_host_of_its_volume_and_says_so() {
    let mut w = one(&database().build());
    let (_, host) = volume(&w, 0);
    w.cluster.silent.push(host.clone());
    w.cluster.say(&task(0, 1, 1), TaskState::Unreachable);
    w.drain();
    w.run(seconds(3600));
    assert_eq!(
        w.cluster.tasks.len(),
        1,
        "there is no second run beside a silent one"
    );
    // The agent is back without the task.
    w.cluster.silent.clear();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    let room = w.cluster.hosts[&host];
    w.cluster
        .hosts
        .insert(host.clone(), Resources { cpus: 500, ..room });
    w.drain();
    w.run(seconds(120));
    let waiting = w.slice(1).unwrap().waiting;
    let of_volume = waiting
        .iter()
        .find(|(reason, ..)| reason.code == ReasonCode::HostVolume);
    let detail = of_volume.and_then(|(reason, ..)| reason.detail.as_deref());
    assert!(detail.is_some_and(|d| d.contains("too little")), "{waiting:?}");
    assert_eq!(
        w.slice(1).unwrap().unstarted,
        0,
        "no other cluster is to be looked for"
    );
    w.cluster.hosts.insert(host.clone(), room);
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(record(&w, 0).run.unwrap().host, host);
    assert_eq!(w.states(1), [RunState::Running]);
}

#[test]
fn a_volume_that_another_agent_offers_proves_its_run_dead() {
    let mut w = one(&database().build());
    let (id, host) = volume(&w, 0);
    // The machine comes back as a new agent; of the old one Mesos knows nothing any more.
    let again = HostId::new("host-again");
    let room = w.cluster.hosts.remove(&host).unwrap();
    let disks = w.cluster.reserved.remove(&host).unwrap();
    w.cluster.tasks.clear();
    w.hear(&task(0, 1, 1), TaskState::Unknown, host.as_str());
    w.run(seconds(600));
    assert_eq!(
        w.states(1),
        [RunState::Unreachable],
        "it waits as long as nothing is known"
    );
    w.cluster.hosts.insert(again.clone(), room);
    w.cluster.reserved.insert(again.clone(), disks);
    w.cluster.suppressed = false;
    w.cluster.offer();
    w.drain();
    w.run(seconds(60));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_eq!(volume(&w, 0), (id, again));
}

#[test]
fn a_volume_that_is_offered_before_its_group_is_served_changes_nothing_yet() {
    let far = BLOCK_SIZE * BLOCKS_A_RUN;
    let ranges = [range(0, 0), range(far, far)];
    let mut w = with_disk();
    w.store_job(&JobBuilder::stateful("db", far + 1, 64).build());
    w.order(&ranges, 2);
    w.run(seconds(3));
    let (id, host) = volume(&w, 0);
    // Machine and leader go away. The new leader knows one block of the group and waits for the other when the machine is back.
    w.crash();
    let again = HostId::new("host-again");
    let room = w.cluster.hosts.remove(&host).unwrap();
    let disks = w.cluster.reserved.remove(&host).unwrap();
    w.cluster.tasks.clear();
    w.cluster.hosts.insert(again.clone(), room);
    w.cluster.reserved.insert(again.clone(), disks);
    w.slow_bucket = Some(block_bucket(job(), &main_group(), BLOCKS_A_RUN));
    w.elect();
    w.run(seconds(2));
    w.connect();
    w.cluster.suppressed = false;
    w.cluster.offer();
    w.drain();
    assert_eq!(w.shard.mode(), Mode::Recovering);
    w.unstall();
    w.send_order(&ranges, &[(1, 2)], 1);
    w.run(seconds(900));
    assert!(
        w.cluster.live().contains(&task(0, 1, 2)),
        "{:?}",
        w.cluster.live()
    );
    assert_eq!(volume(&w, 0), (id, again));
}

#[test]
fn a_role_for_which_nothing_can_be_reserved_is_said() {
    let mut w = with_disk();
    w.shard = Shard::new(Config {
        reserves: false,
        ..config("two")
    });
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&database().build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(10));
    let waiting = w.slice(1).unwrap().waiting;
    let codes: Vec<_> = waiting.iter().map(|(reason, n, _)| (reason.code, *n)).collect();
    assert_eq!(codes, [(ReasonCode::NoVolumes, 1)]);
    assert_eq!(w.cluster.live(), Vec::<String>::new());
}

#[test]
fn a_refused_reservation_binds_nobody() {
    let mut w = with_disk();
    w.cluster.reserves_nothing = true;
    w.store_job(&database().build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    assert_eq!(record(&w, 0).volume.map(|v| v.used), Some(false));
    w.cluster.reserves_nothing = false;
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(w.states(1), [RunState::Running]);
    let (id, host) = volume(&w, 0);
    assert_eq!(w.cluster.volumes(&host), [id]);
}

#[test]
fn a_launch_that_was_lost_binds_nobody_to_its_host() {
    let mut w = with_disk();
    w.cluster.drops_accepts = true;
    w.store_job(&database().build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let host = record(&w, 0).volume.unwrap().host;
    // The machine goes away, and its agent never knew the task.
    w.cluster.hosts.remove(&host);
    w.hear(&task(0, 1, 1), TaskState::Gone, host.as_str());
    assert_eq!(record(&w, 0).volume.map(|v| v.used), Some(false));
    w.cluster.drops_accepts = false;
    w.cluster.offer();
    w.run(seconds(60));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_ne!(volume(&w, 0).1, host);
}

#[test]
fn a_new_leader_goes_on_with_the_same_volume() {
    let mut w = one(&database().build());
    let held = volume(&w, 0);
    w.crash();
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.run(seconds(60));
    assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    assert_eq!(volume(&w, 0), held);
}

#[test]
fn an_end_for_good_keeps_a_volume_unless_its_job_says_otherwise() {
    let cases = [
        (database(), Desired::Deleted, 1),
        (database(), Desired::Stopped, 1),
        (database().reclaimed(), Desired::Deleted, 0),
        (database().reclaimed(), Desired::Stopped, 0),
    ];
    for (spec, desired, left) in cases {
        let spec = spec.build();
        let mut w = one(&spec);
        let (id, host) = volume(&w, 0);
        w.wish(&spec, desired, 0);
        w.send_order(&[range(0, 0)], &[(1, 1)], 1);
        w.run(seconds(5));
        w.cluster.offer();
        w.run(seconds(600));
        assert_eq!(w.cluster.live(), Vec::<String>::new());
        assert_eq!(
            w.cluster.volumes(&host).len(),
            left,
            "{}",
            spec.groups[0].volume.as_ref().unwrap().reclaim
        );
        assert_eq!(wishes(&w), [], "what is done is forgotten");
        let acknowledged = w
            .cluster
            .acknowledged_operations
            .iter()
            .filter(|o| o.starts_with(id.as_str()));
        assert_eq!(acknowledged.count(), 1 - left);
    }
}

#[test]
fn a_group_with_a_volume_waits_for_its_newest_spec_before_it_goes_to_the_archive() {
    let spec = database().reclaimed().build();
    let mut w = with_disk();
    w.cluster.drops_accepts = true;
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let (_, host) = volume(&w, 0);
    w.hear(&task(0, 1, 1), TaskState::Gone, host.as_str());
    w.wish(&spec, Desired::Stopped, 0);
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.run(seconds(5));
    // It has ended, no host has offered its volume, and a newer spec is not read yet.
    w.slow_specs = true;
    w.wish(&spec, Desired::Deleted, 0);
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.direct(Order::Archive(job()));
    w.run(seconds(5));
    assert_eq!(
        w.shard.slices().count(),
        1,
        "the spec says what becomes of the volume"
    );
    w.unstall();
    w.run(seconds(5));
    assert_eq!(w.shard.slices().count(), 0);
    assert_eq!(wishes(&w).len(), 1, "it is to be destroyed where it shows up");
}

#[test]
fn a_volume_that_shows_up_after_its_job_went_to_the_archive_is_reclaimed() {
    let spec = database().reclaimed().build();
    let mut w = with_disk();
    w.cluster.drops_accepts = true;
    w.store_job(&spec);
    w.order(&[range(0, 0)], 1);
    w.run(seconds(2));
    let (id, host) = volume(&w, 0);
    w.hear(&task(0, 1, 1), TaskState::Gone, host.as_str());
    w.wish(&spec, Desired::Stopped, 0);
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.run(seconds(5));
    w.direct(Order::Archive(job()));
    w.run(seconds(2));
    assert_eq!(w.shard.slices().count(), 0);
    // The launch was lost after the volume was made.
    w.cluster.drops_accepts = false;
    let made = TaskVolume {
        id,
        path: "data".to_owned(),
        size: GIB,
        used: false,
        offered: None,
    };
    w.cluster.make(&host, &made);
    w.cluster.offer();
    w.run(seconds(600));
    assert_eq!((w.cluster.volumes(&host), wishes(&w)), (vec![], vec![]));
}

#[test]
fn a_volume_that_a_lost_launch_made_after_all_goes_where_its_job_says_so() {
    for (spec, left) in [(database().reclaimed(), 0), (database(), 1)] {
        let spec = spec.build();
        let mut w = with_disk();
        w.cluster.drops_accepts = true;
        w.store_job(&spec);
        w.order(&[range(0, 0)], 1);
        w.run(seconds(2));
        let (id, host) = volume(&w, 0);
        w.cluster.drops_accepts = false;
        w.hear(&task(0, 1, 1), TaskState::Gone, host.as_str());
        w.cluster.offer();
        w.run(seconds(60));
        assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
        let (second, _) = volume(&w, 0);
        assert_ne!(
            second, id,
            "a new one, and no run is known to have reached the first"
        );
        let made = TaskVolume {
            id: id.clone(),
            path: "data".to_owned(),
            size: GIB,
            used: false,
            offered: None,
        };
        w.cluster.make(&host, &made);
        w.cluster.offer();
        w.run(seconds(600));
        let there = w.cluster.volumes(&host);
        assert_eq!(there.iter().filter(|v| **v == id).count(), left);
        assert_eq!(volume(&w, 0).0, second);
        assert_eq!(w.cluster.live(), [task(0, 1, 2)]);
    }
}

#[test]
fn scaling_away_reclaims_what_its_job_says() {
    let spec = JobBuilder::stateful("db", 2, GIB).reclaimed().build();
    let mut w = one(&spec);
    let ((zero, at), (_, host)) = (volume(&w, 0), volume(&w, 1));
    let leaving = marked(range(1, 1), None, None);
    w.order(&[range(0, 0), leaving], 2);
    w.run(seconds(5));
    w.cluster.offer();
    w.run(seconds(600));
    assert_eq!(w.cluster.live(), [task(0, 1, 1)]);
    let expected = if host == at {
        vec![zero.clone()]
    } else {
        Vec::new()
    };
    assert_eq!(w.cluster.volumes(&host), expected);
    assert_eq!(volume(&w, 0).0, zero);
}

#[test]
fn an_operator_destroys_only_what_nobody_holds() {
    let spec = database().build();
    let mut w = one(&spec);
    let (id, host) = volume(&w, 0);
    let destroy = || Order::Volumes([(id.clone(), VolumeWish::Destroy)].into());
    w.direct(destroy());
    w.run(seconds(60));
    assert_eq!(wishes(&w), [], "an instance holds it");
    w.wish(&spec, Desired::Deleted, 0);
    w.send_order(&[range(0, 0)], &[(1, 1)], 1);
    w.run(seconds(60));
    w.direct(destroy());
    w.direct(destroy());
    w.run(seconds(1));
    assert_eq!(wishes(&w), [(id.clone(), VolumeWish::Destroy)]);
    // The wish outlives the process that heard it.
    w.crash();
    w.elect();
    w.run(seconds(2));
    w.cluster.offer();
    w.run(seconds(600));
    assert_eq!(w.cluster.volumes(&host), []);
    assert_eq!(wishes(&w), []);
}

#[test]
fn an_instance_adopts_what_nobody_holds_with_its_next_run() {
    let spec = JobBuilder::stateful("db", 2, GIB).build();
    let mut w = one(&spec);
    let ((zero, _), (one, place)) = (volume(&w, 0), volume(&w, 1));
    let adopt = || {
        let zero = InstanceId {
            job: crate::world::job(),
            group: main_group(),
            number: InstanceNumber(0),
        };
        Order::Volumes([(one.clone(), VolumeWish::Adopt(zero))].into())
    };
    w.direct(adopt());
    w.run(seconds(1));
    assert_eq!(wishes(&w), [], "instance 1 holds it");
    // Instance 1 is scaled away and leaves its volume behind.
    let leaving = marked(range(1, 1), None, None);
    w.order(&[range(0, 0), leaving.clone()], 2);
    w.run(seconds(60));
    w.direct(adopt());
    w.run(seconds(60));
    assert_eq!(volume(&w, 0).0, zero, "what runs goes on with its own");
    w.crash();
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.wish(&spec, Desired::Running, 1);
    w.send_order(&[range(0, 0), leaving], &[(1, 2)], 1);
    w.cluster.offer();
    w.run(seconds(60));
    let run = record(&w, 0).run.unwrap();
    assert_eq!((run.state, run.host, run.restarts), (RunState::Running, place, 1));
    assert_eq!(volume(&w, 0).0, one);
    assert_eq!(discards(&w), 0, "its own one stays");
}

#[test]
fn a_pod_has_its_volume_with_its_main_task_and_finds_it_again() {
    let log = echelon_core_model::runtime::Runtime::shell("log");
    let mut w = one(&database().sidecar("log", log).build());
    let (id, host) = volume(&w, 0);
    let sidecar = |n| format!("{}.log", task(0, 1, n));
    assert_eq!(w.cluster.live(), [task(0, 1, 1), sidecar(1)]);
    assert_eq!(w.cluster.volumes(&host), std::slice::from_ref(&id));
    let disk = w.shard.capacity().used.disk;
    assert_eq!(disk, GIB + echelon_core_model::pod::EXECUTOR.disk);
    w.cluster.set(&task(0, 1, 1), TaskState::Failed);
    w.run(seconds(60));
    assert_eq!(w.cluster.live(), [task(0, 1, 2), sidecar(2)]);
    assert_eq!(volume(&w, 0), (id.clone(), host.clone()));
    assert_eq!(w.cluster.volumes(&host), [id], "the same one, and no other");
}

#[test]
fn a_pod_whose_reservation_is_refused_binds_nobody() {
    let mut w = with_disk();
    w.cluster.reserves_nothing = true;
    let log = echelon_core_model::runtime::Runtime::shell("log");
    w.store_job(&database().sidecar("log", log).build());
    w.order(&[range(0, 0)], 1);
    w.run(seconds(3));
    w.cluster.reserves_nothing = false;
    w.run(seconds(120));
    assert_eq!(w.state(0), RunState::Running);
    let all: usize = w.cluster.hosts.keys().map(|h| w.cluster.volumes(h).len()).sum();
    assert_eq!(all, 1);
}
