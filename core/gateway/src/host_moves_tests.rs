use super::*;
use crate::drains::{Leave, drain_host};
use crate::host_pools::tests::{create, hosts, put_in};
use crate::testing::{Memory, run};
use echelon_core_model::cluster::Maintenance;
use echelon_core_model::host_pool::HostPoolWishes;
use echelon_core_model::volume::HostVolume;
use echelon_core_model::{HostId, VolumeId};

fn set(hosts: &[&str], attributes: &[(&str, &str)]) -> HostSet {
    let pair = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    HostSet {
        hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
        attributes: attributes.iter().map(pair).collect(),
    }
}

fn wanted(from: &str, to: &str, hosts: &[&str], n: (u32, u32)) -> Wanted {
    Wanted::new(from, to, set(hosts, &[]), n).unwrap()
}

fn told(error: ApiError) -> String {
    format!("{}: {error}", error.reason.word())
}

fn planned(store: &mut Memory, wanted: Wanted) -> Result<Vec<(String, String)>, String> {
    let plan = run(store, move |facts| async move {
        plan_host_moves(&facts, "east", &wanted).await
    });
    let row = |c: Chosen| (c.host.id.to_string(), c.why.to_string());
    Ok(plan.map_err(told)?.1.chosen.into_iter().map(row).collect())
}

fn moved(store: &mut Memory, wanted: Wanted) -> Result<Vec<String>, String> {
    let done = run(store, move |facts| async move {
        move_hosts(&facts, "east", &wanted, (Span::seconds(60), Timestamp(1_000))).await
    });
    let names = |all: Vec<HostView>| all.into_iter().map(|v| v.host.id.to_string()).collect();
    done.map(names).map_err(told)
}

fn undone(store: &mut Memory, hosts: &[&str], to: &'static str) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = hosts.iter().map(|h| (*h).to_owned()).collect();
    let done = run(store, move |facts| async move {
        undo_host_moves(&facts, "east", (&hosts, to)).await
    });
    let names = |all: Vec<HostView>| all.into_iter().map(|v| v.host.id.to_string()).collect();
    done.map(names).map_err(told)
}

/// The version, and who is to go where.
fn stored(store: &Memory) -> (u64, Vec<String>) {
    let moves = &store.clusters.values().next().unwrap().host_pools.moves;
    let of = |(name, wish): (&String, &HostMove)| format!("{name} to {}", wish.to);
    (moves.version, moves.hosts.iter().map(of).collect())
}

fn four() -> Memory {
    let mut store = hosts(4);
    create(&mut store, "gpu").unwrap();
    store
}

#[test]
fn those_on_which_the_fewest_tasks_run_go_first_and_the_plan_says_why() {
    let mut store = four();
    let plan = planned(&mut store, wanted("default", "gpu", &[], (2, 0))).unwrap();
    let row = |id: &str, why: &str| (id.to_owned(), why.to_owned());
    assert_eq!(
        plan,
        [
            row("h0", "nothing runs there"),
            row("h1", "1 task runs there, no fewer on those that stay")
        ]
    );
    assert_eq!(stored(&store), (0, vec![]), "a plan changes nothing");
    let racked = Wanted::new("default", "gpu", set(&[], &[("rack", "r1")]), (1, 0)).unwrap();
    assert_eq!(planned(&mut store, racked).unwrap()[0].0, "h1");
}

#[test]
fn attributes_of_a_host_pool_mean_those_of_its_hosts_that_have_them() {
    let mut store = four();
    put_in(&mut store, "h3.example", "gpu");
    create(&mut store, "web").unwrap();
    let racked = |from| Wanted::new(from, "web", set(&[], &[("rack", "r1")]), (0, 0)).unwrap();
    let hosts = |plan: Vec<(String, String)>| plan.into_iter().map(|p| p.0).collect::<Vec<_>>();
    assert_eq!(
        planned(&mut store, racked("default")).map(hosts),
        Ok(vec!["h1".into()])
    );
    assert_eq!(
        planned(&mut store, racked("")).map(hosts),
        Ok(vec!["h1".into(), "h3".into()])
    );
}

#[test]
fn who_is_busy_with_something_else_is_left_out_of_a_number() {
    let mut store = four();
    let rows = store.hosts.values_mut().next().unwrap();
    rows[0].maintenance = Some(Maintenance {
        from: Timestamp(1),
        until: None,
    });
    rows[1].reachable = false;
    rows[2].volumes = vec![HostVolume {
        id: VolumeId::new("v"),
        size: 1,
        path: "data".to_owned(),
        seen_at: Timestamp(1),
    }];
    let plan = planned(&mut store, wanted("default", "gpu", &[], (1, 0))).unwrap();
    assert_eq!(plan[0].0, "h3");
    let told = planned(&mut store, wanted("default", "gpu", &[], (2, 0))).unwrap_err();
    assert_eq!(
        told,
        "HOST_POOL_TOO_SMALL: host pool `default` of cluster `east` has 1 hosts that could go, and 2 are asked for; nothing was changed\
         ; 1 have planned maintenance; 1 cannot be reached; 1 have persistent volumes; name them to move them"
    );
    // Whoever names one means it.
    assert_eq!(
        moved(&mut store, wanted("", "gpu", &["h2.example"], (0, 0))),
        Ok(vec!["h2".into()])
    );
}

#[test]
fn a_move_that_is_repeated_moves_no_more() {
    let mut store = four();
    let hosts = ["h0.example", "h3"];
    for _ in 0..2 {
        let done = moved(&mut store, wanted("default", "gpu", &hosts, (0, 0)));
        assert_eq!(done.map(|all| all.len()), Ok(2));
        let expected = vec!["h0.example to gpu".to_owned(), "h3.example to gpu".to_owned()];
        assert_eq!(stored(&store), (1, expected));
    }
    // Also when the first of them is there by then.
    put_in(&mut store, "h0.example", "gpu");
    assert!(moved(&mut store, wanted("default", "gpu", &hosts, (0, 0))).is_ok());
    // And a size counts those that are on their way.
    let plan = planned(&mut store, wanted("default", "gpu", &[], (0, 3))).unwrap();
    assert_eq!(plan.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["h1"]);
    assert_eq!(
        planned(&mut store, wanted("default", "gpu", &[], (0, 2))),
        Ok(vec![])
    );
}

#[test]
fn what_is_done_is_forgotten_with_the_next_move() {
    let mut store = four();
    moved(&mut store, wanted("", "gpu", &["h0"], (0, 0))).unwrap();
    put_in(&mut store, "h0.example", "gpu");
    moved(&mut store, wanted("", "gpu", &["h1"], (0, 0))).unwrap();
    assert_eq!(stored(&store), (2, vec!["h1.example to gpu".to_owned()]));
    // Back again.
    moved(&mut store, wanted("gpu", "default", &["h0"], (0, 0))).unwrap();
    assert_eq!(stored(&store).1, ["h0.example to default", "h1.example to gpu"]);
}

#[test]
fn what_cannot_be_moved_is_refused_whole_with_what_to_do() {
    let mut store = four();
    create(&mut store, "web").unwrap();
    moved(&mut store, wanted("", "gpu", &["h0"], (0, 0))).unwrap();
    let leave = Leave {
        batch_for: Span::ZERO,
        agent: false,
        now: Timestamp(1),
    };
    run(&mut store, move |facts| async move {
        drain_host(&facts, "east", "h1", leave).await
    })
    .unwrap();
    let before = stored(&store);
    for (from, to, hosts, n, expected) in [
        (
            "",
            "none",
            &["h2"][..],
            (0, 0),
            "HOST_POOL_NOT_FOUND: cluster `east` has no host pool `none`",
        ),
        (
            "none",
            "gpu",
            &[],
            (1, 0),
            "HOST_POOL_NOT_FOUND: cluster `east` has no host pool `none`",
        ),
        (
            "",
            "web",
            &["h2", "h0"],
            (0, 0),
            "HOST_NOT_MOVABLE: host `h0.example` of cluster `east` is on its way to host pool `gpu`",
        ),
        (
            "",
            "gpu",
            &["h2", "h1"],
            (0, 0),
            "HOST_NOT_MOVABLE: host `h1.example` of cluster `east` is being drained",
        ),
        (
            "web",
            "gpu",
            &["h2"],
            (0, 0),
            "HOST_NOT_MOVABLE: host `h2.example` of cluster `east` is in host pool `default`, not in `web`",
        ),
        ("", "gpu", &["h2", "nobody"], (0, 0), "HOST_NOT_FOUND"),
        ("", "gpu", &[], (0, 0), "FIELD_INVALID: hosts: name hosts"),
        ("", "gpu", &[], (1, 0), "FIELD_INVALID: from: say which host pool"),
        (
            "default",
            "gpu",
            &[],
            (3, 0),
            "HOST_POOL_TOO_SMALL: host pool `default` of cluster `east` has 2 hosts that could go, and 3 are asked for; nothing was changed; 1 are there or on their way already; 1 are being drained",
        ),
    ] {
        let told = moved(&mut store, wanted(from, to, hosts, n)).unwrap_err();
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(stored(&store), before);
    }
    for (from, to, hosts, n) in [
        ("gpu", "gpu", &[][..], (1, 0)),
        ("default", "GPU", &[], (1, 0)),
        ("default", "gpu", &["h2"], (1, 0)),
        ("default", "gpu", &[], (1, 1)),
    ] {
        let told = Wanted::new(from, to, set(hosts, &[]), n).unwrap_err();
        assert_eq!(told.reason, ErrorReason::FieldInvalid);
    }
}

#[test]
fn so_many_hosts_are_on_their_way_and_no_more() {
    let mut store = four();
    let moves = &mut store.clusters.values_mut().next().unwrap().host_pools.moves;
    let wish = HostMove {
        to: HostPoolName::new("gpu"),
        batch_until: Timestamp(0),
    };
    moves.hosts = (0..MOST).map(|n| (format!("x{n}"), wish.clone())).collect();
    let told = moved(&mut store, wanted("", "gpu", &["h0"], (0, 0))).unwrap_err();
    assert!(told.starts_with("TOO_MANY_HOST_MOVES"), "{told}");
    // Those that are there by now do not count.
    put_in(&mut store, "x0", "gpu");
    assert!(moved(&mut store, wanted("", "gpu", &["h0"], (0, 0))).is_ok());
}

#[test]
fn undo_takes_back_what_is_on_its_way_and_nothing_else() {
    let mut store = four();
    create(&mut store, "web").unwrap();
    moved(&mut store, wanted("", "gpu", &["h0", "h1"], (0, 0))).unwrap();
    moved(&mut store, wanted("", "web", &["h2"], (0, 0))).unwrap();
    assert_eq!(undone(&mut store, &["h0.example"], ""), Ok(vec!["h0".into()]));
    assert_eq!(
        stored(&store),
        (3, vec!["h1.example to gpu".into(), "h2.example to web".into()])
    );
    // Nothing moves it: nothing changes.
    assert_eq!(undone(&mut store, &["h3"], ""), Ok(vec!["h3".into()]));
    assert_eq!(undone(&mut store, &["h0"], ""), Ok(vec!["h0".into()]));
    assert_eq!(stored(&store).0, 3);
    assert_eq!(undone(&mut store, &[], "gpu"), Ok(vec!["h1".into()]));
    assert_eq!(stored(&store), (4, vec!["h2.example to web".into()]));
    // A host that has vanished meanwhile.
    store
        .hosts
        .values_mut()
        .next()
        .unwrap()
        .retain(|h| h.id != HostId::new("h2"));
    assert_eq!(undone(&mut store, &["h2.example"], ""), Ok(vec![]));
    assert_eq!(stored(&store), (5, vec![]));
    assert!(
        undone(&mut store, &["nobody"], "")
            .unwrap_err()
            .starts_with("HOST_NOT_FOUND")
    );
    assert!(
        undone(&mut store, &[], "none")
            .unwrap_err()
            .starts_with("HOST_POOL_NOT_FOUND")
    );
    assert!(
        undone(&mut store, &[], "")
            .unwrap_err()
            .starts_with("FIELD_INVALID")
    );
}

#[test]
fn a_wish_is_newer_than_what_the_shard_has_heard_though_an_older_gateway_forgot_the_count() {
    let mut store = four();
    moved(&mut store, wanted("", "gpu", &["h0"], (0, 0))).unwrap();
    let cluster = store.clusters.keys().next().unwrap().clone();
    store.shards.entry(cluster).or_default().moves.version = 7;
    // It wrote the row as it knows it.
    store.clusters.values_mut().next().unwrap().host_pools = HostPoolWishes::default();
    create(&mut store, "gpu").unwrap();
    moved(&mut store, wanted("", "gpu", &["h1"], (0, 0))).unwrap();
    assert_eq!(stored(&store), (8, vec!["h1.example to gpu".to_owned()]));
}

#[test]
fn a_host_of_which_the_host_pool_cannot_be_read_is_in_none_and_can_be_moved_to_any() {
    let mut store = four();
    store.unread_hosts = ["h1.example".to_owned()].into();
    for to in ["default", "gpu"] {
        let mut store = store.clone();
        // It is not among those that may be chosen of a host pool.
        let plan = planned(&mut store, wanted("default", "gpu", &[], (3, 0))).unwrap();
        assert!(
            plan.len() == 3 && plan.iter().all(|(id, _)| id != "h1"),
            "{plan:?}"
        );
        let named = wanted("", to, &["h1"], (0, 0));
        assert_eq!(moved(&mut store, named).unwrap(), ["h1"]);
        assert_eq!(stored(&store).1, [format!("h1.example to {to}")]);
        // The wish stays until the shard says that the host is there.
        moved(&mut store, wanted("", "gpu", &["h2"], (0, 0))).unwrap();
        assert_eq!(stored(&store).1.len(), 2);
    }
}
