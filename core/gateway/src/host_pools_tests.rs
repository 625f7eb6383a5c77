use super::*;
use crate::testing::{Memory, run};
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::{HostId, Timestamp};

/// A cluster with so many hosts: `h0.example`, `h1.example`, ...
pub(crate) fn hosts(n: u32) -> Memory {
    let mut store = Memory::new();
    let cluster = store.add_cluster("east");
    let host = |n: u32| Host {
        id: HostId::new(format!("h{n}")),
        hostname: format!("h{n}.example"),
        address: String::new(),
        capacity: Resources {
            cpus: 4_000,
            ..Resources::ZERO
        },
        used: Resources {
            cpus: 1_000 * u64::from(n),
            ..Resources::ZERO
        },
        tasks: n,
        attributes: [("rack".to_owned(), format!("r{}", n % 2))].into(),
        reachable: true,
        seen_at: Timestamp(1),
        maintenance: None,
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: echelon_core_model::host_pool::HostPlace::default(),
    };
    store.hosts.insert(cluster, (0..n).map(host).collect());
    store
}

/// The shard has stored that a host is in a host pool.
pub(crate) fn put_in(store: &mut Memory, host: &str, pool: &str) {
    let cluster = store.clusters.keys().next().unwrap().clone();
    let row = store.shards.entry(cluster).or_default();
    row.host_pools.insert(host.to_owned(), HostPoolName::new(pool));
}

pub(crate) fn create(store: &mut Memory, name: &'static str) -> Result<HostPoolView, ApiError> {
    run(store, move |facts| async move {
        create_host_pool(&facts, "east", name).await
    })
}

fn delete(store: &mut Memory, name: &'static str) -> Result<(), String> {
    let done = run(store, move |facts| async move {
        delete_host_pool(&facts, "east", name).await
    });
    done.map_err(|e| format!("{}: {e}", e.reason.word()))
}

fn list(store: &mut Memory) -> Vec<(String, u32, u32, u32, u32)> {
    let all = run(store, move |facts| async move {
        list_host_pools(&facts, "east").await
    });
    let row = |p: HostPoolView| (p.name.to_string(), p.hosts, p.leaving, p.coming, p.tasks);
    all.unwrap().into_iter().map(row).collect()
}

#[test]
fn all_hosts_are_in_default_until_they_are_moved() {
    let mut store = hosts(3);
    assert_eq!(list(&mut store), [("default".to_owned(), 3, 0, 0, 3)]);
    assert_eq!(create(&mut store, "gpu").unwrap().hosts, 0);
    put_in(&mut store, "h2.example", "gpu");
    assert_eq!(
        list(&mut store),
        [("default".to_owned(), 2, 0, 0, 1), ("gpu".to_owned(), 1, 0, 0, 2)]
    );
}

#[test]
fn a_host_of_which_the_host_pool_cannot_be_read_counts_in_none_and_keeps_all() {
    let mut store = hosts(3);
    create(&mut store, "gpu").unwrap();
    store.unread_hosts = ["h1.example".to_owned()].into();
    let row = |name: &str, hosts, tasks| (name.to_owned(), hosts, 0, 0, tasks);
    assert_eq!(list(&mut store), [row("default", 2, 2), row("gpu", 0, 0)]);
    let told = delete(&mut store, "gpu").unwrap_err();
    assert!(
        told.starts_with("HOST_POOL_IN_USE") && told.contains("h1.example"),
        "{told}"
    );
}

#[test]
fn a_host_pool_is_made_once_and_has_a_name_that_can_be_written() {
    let mut store = hosts(1);
    create(&mut store, "gpu").unwrap();
    let version = store.clusters.values().next().unwrap().version;
    create(&mut store, "gpu").unwrap();
    create(&mut store, "default").unwrap();
    assert_eq!(store.clusters.values().next().unwrap().version, version);
    for wrong in ["", "GPU", "a b", "*"] {
        let told = create(&mut store, wrong).unwrap_err();
        assert_eq!(
            (told.reason, told.violations[0].field.as_str()),
            (ErrorReason::FieldInvalid, "host_pool")
        );
    }
}

#[test]
fn there_are_so_many_host_pools_and_no_more() {
    let mut store = hosts(1);
    let cluster = store.clusters.values_mut().next().unwrap();
    let names = (0..MOST).map(|n| HostPoolName::new(format!("p{n}")));
    cluster.host_pools.names = names.collect();
    let told = create(&mut store, "one-more").unwrap_err();
    assert_eq!(told.reason, ErrorReason::TooManyHostPools);
    assert!(create(&mut store, "p7").is_ok(), "it is there");
}

#[test]
fn a_host_pool_with_hosts_that_come_or_are_away_is_not_deleted() {
    let mut store = hosts(2);
    assert!(
        delete(&mut store, "default")
            .unwrap_err()
            .starts_with("HOST_POOL_IN_USE")
    );
    assert!(
        delete(&mut store, "gpu")
            .unwrap_err()
            .starts_with("HOST_POOL_NOT_FOUND")
    );
    create(&mut store, "gpu").unwrap();
    put_in(&mut store, "away.example", "gpu");
    let told = delete(&mut store, "gpu").unwrap_err();
    assert!(told.contains("has 1 hosts, and 0 are on their way"), "{told}");
    store.shards.clear();
    let wish = HostMove {
        to: HostPoolName::new("gpu"),
        batch_until: Timestamp(0),
    };
    let cluster = store.clusters.values_mut().next().unwrap();
    cluster
        .host_pools
        .moves
        .hosts
        .insert("h0.example".to_owned(), wish);
    assert_eq!(
        list(&mut store),
        [("default".to_owned(), 2, 1, 0, 1), ("gpu".to_owned(), 0, 0, 1, 0)]
    );
    let told = delete(&mut store, "gpu").unwrap_err();
    assert!(told.contains("has 0 hosts, and 1 are on their way"), "{told}");
    let cluster = store.clusters.values_mut().next().unwrap();
    cluster.host_pools.moves.hosts.clear();
    assert_eq!(delete(&mut store, "gpu"), Ok(()));
}

#[test]
fn an_agent_that_was_replaced_is_the_same_host() {
    let mut store = hosts(1);
    let rows = store.hosts.values_mut().next().unwrap();
    let mut old = rows[0].clone();
    (old.id, old.reachable, old.tasks) = (HostId::new("before"), false, 2);
    rows.push(old);
    assert_eq!(list(&mut store), [("default".to_owned(), 1, 0, 0, 2)]);
}
