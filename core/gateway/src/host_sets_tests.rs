use super::*;
use crate::drains::MOST;
use crate::testing::{Memory, run};
use echelon_core_model::{HostId, Resources, Span, Timestamp};

fn host(id: &str, rack: &str) -> Host {
    Host {
        id: HostId::new(id),
        hostname: format!("{id}.example"),
        address: String::new(),
        capacity: Resources::ZERO,
        used: Resources::ZERO,
        tasks: 1,
        attributes: [
            ("rack".to_owned(), rack.to_owned()),
            ("os".to_owned(), "9".to_owned()),
        ]
        .into(),
        reachable: true,
        seen_at: Timestamp(1),
        maintenance: None,
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: echelon_core_model::host_pool::HostPlace::default(),
    }
}

/// Two hosts of rack a, one of rack b.
fn three() -> Memory {
    let mut store = Memory::new();
    let cluster = store.add_cluster("east");
    let hosts = vec![host("h1", "a"), host("h2", "a"), host("h3", "b")];
    store.hosts.insert(cluster, hosts);
    store
}

fn set(hosts: &[&str], attributes: &[(&str, &str)]) -> HostSet {
    let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    HostSet {
        hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
        attributes: attributes.iter().map(pair).collect(),
    }
}

fn names(told: Result<Vec<HostView>, ApiError>) -> Result<Vec<String>, String> {
    let told = told.map_err(|e| e.to_string())?;
    Ok(told.into_iter().map(|v| v.host.id.to_string()).collect())
}

fn drain(store: &mut Memory, set: HostSet, keep: bool) -> Result<Vec<String>, String> {
    let leave = Leave {
        batch_for: Span::seconds(60),
        agent: true,
        now: Timestamp(1_000),
    };
    names(run(store, move |facts| async move {
        drain_hosts(&facts, "east", &set, (leave, keep)).await
    }))
}

fn undrain(store: &mut Memory, set: HostSet) -> Result<Vec<String>, String> {
    names(run(store, move |facts| async move {
        undrain_hosts(&facts, "east", &set).await
    }))
}

fn wished(store: &Memory) -> (u64, Vec<&str>) {
    let drains = &store.clusters.values().next().unwrap().drains;
    (drains.version, drains.hosts.keys().map(String::as_str).collect())
}

#[test]
fn a_set_is_wished_in_one_write_by_names_ids_and_attributes() {
    let mut store = three();
    let told = drain(&mut store, set(&["h1", "h3.example", "h1"], &[]), true);
    assert_eq!(told.unwrap(), ["h1", "h3"]);
    assert_eq!(wished(&store), (1, vec!["h1.example", "h3.example"]));
    let told = drain(&mut store, set(&[], &[("rack", "a"), ("os", "9")]), true);
    assert_eq!(told.unwrap(), ["h1", "h2"]);
    assert_eq!(wished(&store).0, 2);
    // Said again, nothing changes.
    drain(&mut store, set(&["h2"], &[("rack", "a")]), true).unwrap();
    assert_eq!(wished(&store).0, 2);
    assert_eq!(
        undrain(&mut store, set(&[], &[("rack", "a")])).unwrap(),
        ["h1", "h2"]
    );
    assert_eq!(wished(&store), (3, vec!["h3.example"]));
    undrain(&mut store, set(&["h1"], &[])).unwrap();
    assert_eq!(wished(&store).0, 3);
}

#[test]
fn who_only_looks_changes_nothing() {
    let mut store = three();
    let told = drain(&mut store, set(&[], &[("rack", "a")]), false);
    assert_eq!(told.unwrap(), ["h1", "h2"]);
    assert_eq!(wished(&store), (0, vec![]));
}

#[test]
fn a_set_with_a_wrong_name_or_without_hosts_changes_nothing() {
    let mut store = three();
    for (wrong, expected) in [
        (set(&[], &[]), "an empty set is never all hosts"),
        (set(&["h1", "h9", "h8"], &[]), "no host `h9`, `h8`"),
        (set(&[], &[("rack", "a"), ("os", "8")]), "has os=8 and rack=a"),
    ] {
        let why = drain(&mut store, wrong.clone(), true).unwrap_err();
        assert!(why.contains(expected), "{why}");
        let why = undrain(&mut store, wrong).unwrap_err();
        assert!(why.contains(expected), "{why}");
    }
    let many: Vec<String> = (0..30).map(|n| format!("x{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let why = drain(&mut store, set(&many, &[]), true).unwrap_err();
    assert!(why.contains("`x9`, and 20 more"), "{why}");
    assert_eq!(wished(&store), (0, vec![]));
}

#[test]
fn a_host_that_has_vanished_is_taken_back_by_its_name() {
    let mut store = three();
    drain(&mut store, set(&["h1", "h2"], &[]), true).unwrap();
    store.hosts.values_mut().for_each(|hosts| {
        hosts.remove(0);
    });
    assert_eq!(undrain(&mut store, set(&["h1.example"], &[])).unwrap(), [""; 0]);
    assert_eq!(wished(&store), (2, vec!["h2.example"]));
}

#[test]
fn more_than_the_most_at_a_time_are_refused_whole() {
    let mut store = three();
    let hosts: Vec<Host> = (0..=MOST).map(|n| host(&format!("n{n:04}"), "a")).collect();
    store.hosts.values_mut().for_each(|all| all.clone_from(&hosts));
    let why = drain(&mut store, set(&[], &[("rack", "a")]), true).unwrap_err();
    assert!(why.contains("at a time"), "{why}");
    assert_eq!(wished(&store), (0, vec![]));
    let but_one: Vec<String> = hosts.iter().skip(1).map(|h| h.hostname.clone()).collect();
    let but_one: Vec<&str> = but_one.iter().map(String::as_str).collect();
    assert_eq!(drain(&mut store, set(&but_one, &[]), true).unwrap().len(), MOST);
}
