use super::*;
use crate::testing::{Memory, run};
use echelon_core_model::cluster::Host;
use echelon_core_model::{HostId, Resources};
use std::collections::BTreeMap;

/// A cluster with one host.
fn one() -> Memory {
    let mut store = Memory::new();
    let cluster = store.add_cluster("east");
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
        volumes: Vec::new(),
        drain: None,
        left_out: echelon_core_model::cluster::LeftOut::default(),
        others: echelon_core_model::sharing::Others::default(),
        agent: echelon_core_model::sharing::AgentState::Active,
        place: echelon_core_model::host_pool::HostPlace::default(),
    };
    store.hosts.insert(cluster, vec![host]);
    store
}

fn drain(store: &mut Memory, host: &'static str, batch_for: Span, now: u64) -> Result<HostView, ApiError> {
    let leave = Leave {
        batch_for,
        agent: false,
        now: Timestamp(now),
    };
    run(store, move |facts| async move {
        drain_host(&facts, "east", host, leave).await
    })
}

fn undrain(store: &mut Memory, host: &'static str) -> Result<HostView, ApiError> {
    run(store, move |facts| async move {
        undrain_host(&facts, "east", host).await
    })
}

/// The version, and until when batch instances may go on.
fn stored(store: &Memory) -> (u64, Option<u64>) {
    let drains = &store.clusters.values().next().unwrap().drains;
    let wish = drains.hosts.get("h.example");
    (drains.version, wish.map(|w| w.batch_until.0))
}

#[test]
fn a_wish_is_stored_by_the_hosts_name_and_taken_back() {
    let mut store = one();
    let shown = drain(&mut store, "h", Span::minutes(1), 1000).unwrap();
    assert_eq!(shown.drain.unwrap().batch_until, Timestamp(61_000));
    assert_eq!(stored(&store), (1, Some(61_000)));
    let shown = undrain(&mut store, "h.example").unwrap();
    assert_eq!(shown.drain, None);
    assert_eq!(stored(&store), (2, None));
}

#[test]
fn saying_it_again_changes_nothing_and_a_newer_wish_counts() {
    let mut store = one();
    drain(&mut store, "h", Span::ZERO, 1000).unwrap();
    drain(&mut store, "h", Span::ZERO, 2000).unwrap();
    assert_eq!(stored(&store), (1, Some(1000)));
    drain(&mut store, "h", Span::minutes(1), 2000).unwrap();
    assert_eq!(stored(&store), (2, Some(62_000)));
    drain(&mut store, "h", Span::ZERO, 3000).unwrap();
    assert_eq!(stored(&store), (3, Some(3000)));
    undrain(&mut store, "h").unwrap();
    undrain(&mut store, "h").unwrap();
    assert_eq!(stored(&store), (4, None));
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_stored() {
    let mut store = one();
    let reason = |done: Result<HostView, ApiError>| done.unwrap_err().reason;
    assert_eq!(
        reason(drain(&mut store, "x", Span::ZERO, 1)),
        ErrorReason::HostNotFound
    );
    assert_eq!(reason(undrain(&mut store, "x")), ErrorReason::HostNotFound);
    let long = Span(LONGEST.0 + 1);
    assert_eq!(reason(drain(&mut store, "h", long, 1)), ErrorReason::FieldInvalid);
    let wish = HostDrain {
        batch_until: Timestamp(1),
        agent: false,
    };
    let cluster = store.clusters.values_mut().next().unwrap();
    cluster.drains.hosts = (0..MOST).map(|n| (format!("h{n}"), wish.clone())).collect();
    assert_eq!(
        reason(drain(&mut store, "h", Span::ZERO, 1)),
        ErrorReason::TooManyDrains
    );
    assert_eq!(stored(&store), (0, None));
}
