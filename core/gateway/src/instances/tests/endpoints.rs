//! Which runs are endpoints, how old each is, and that what has left the list for good does not return.

use super::*;

const fn page() -> PageRequest {
    PageRequest {
        size: 100,
        token: String::new(),
    }
}

fn listed(case: &mut Case, cluster: &str) -> Result<InstancePage, ApiError> {
    case.store.assignments.insert(JOB, case.assignment.clone());
    let filter = InstanceFilter {
        cluster: cluster.to_owned(),
        ..InstanceFilter::default()
    };
    run(&mut case.store, move |facts| async move {
        list_endpoints(&facts, &JobRef::Id(JOB), filter, page(), NOW).await
    })
}

/// Indexes with clusters, `?` where they are marked: `0 a?`.
fn shown(case: &mut Case) -> Vec<String> {
    let show = |v: &InstanceView| {
        let part = &v.endpoint().unwrap().1.part;
        let mark = if part.is_stale() { "?" } else { "" };
        format!("{} {}{mark}", v.number, part.name)
    };
    listed(case, "").unwrap().page.items.iter().map(show).collect()
}

/// A run of a generation that was seen well at a moment.
fn well(generation: u32, at: Timestamp) -> InstanceRecord {
    let mut record = in_state(RunState::Running, generation);
    let run = record.run.as_mut().unwrap();
    (run.since, run.available_at) = (at, Some(at));
    record
}

fn taken_over(case: &mut Case, cluster: &str, generation: u32) {
    let mut row = SliceRow::new(JOB, main_group());
    let zero = InstanceRange { first: 0, last: 0 };
    row.taken_over
        .insert(Generation(generation), std::iter::once(zero).collect());
    let place = (ClusterId::new(cluster), JOB, main_group());
    case.store.rows.insert(place, row);
}

#[test]
fn endpoints_are_those_that_others_can_rely_on_and_an_unread_part_is_an_error() {
    let with = |change: fn(&mut Run)| {
        let mut record = well(1, NOW);
        change(record.run.as_mut().unwrap());
        record
    };
    let mut case = Case::new(5)
        .held((0, 4), "a", 1, None)
        .record("a", 0, with(|_| {}))
        .record("a", 1, with(|r| r.ready = Some(false)))
        .record("a", 2, with(|r| r.probes.readiness = true))
        .record("a", 3, with(|r| r.state = RunState::Stopping))
        .record("a", 4, with(|r| r.state = RunState::Unreachable));
    assert_eq!(shown(&mut case), ["0 a"]);
    case.store.broken.insert(ClusterId::new("a"));
    let unread = listed(&mut case, "").map(drop).unwrap_err();
    assert_eq!(unread.reason, ErrorReason::StorageUnavailable);
    assert!(unread.message.contains("main 0-4"), "{unread}");
}

#[test]
fn endpoints_of_a_silent_cluster_stay_marked_with_the_reason() {
    let mut case = Case::new(2)
        .held((0, 0), "a", 1, None)
        .held((1, 1), "b", 1, None)
        .record("a", 0, well(1, Timestamp(1)))
        .record("b", 1, well(1, Timestamp(1)));
    assert_eq!(shown(&mut case), ["0 a", "1 b"]);
    let a = ClusterId::new("a");
    let heard = Timestamp(NOW.0 - 75_000);
    for (health, marked) in [
        (Health::CutOff, true),
        (Health::WithoutMesos, true),
        (Health::Lost, true),
    ] {
        case.store.health(&a, health, heard);
        assert_eq!(shown(&mut case), ["0 a?", "1 b"], "{health}");
        let found = listed(&mut case, "a").unwrap().page.items.remove(0);
        let part = &found.endpoint().unwrap().1.part;
        assert_eq!(
            part.stale_reason(),
            marked.then(|| format!("its cluster a is {health}"))
        );
        assert_eq!(found.age(), Some(Span::seconds(75)));
    }
    case.store.health(&a, Health::Healthy, heard);
    let found = listed(&mut case, "a").unwrap().page.items.remove(0);
    assert_eq!(
        found.endpoint().unwrap().1.part.stale_reason().unwrap(),
        "Mesos has confirmed nothing at its cluster a for 30s"
    );
}

#[test]
fn a_record_is_as_old_as_the_later_of_its_own_change_and_what_mesos_confirmed() {
    let a = ClusterId::new("a");
    let heard = Timestamp(NOW.0 - 75_000);
    for (changed, age) in [
        (1, 75),
        (NOW.0 - 90_000, 75),
        (NOW.0 - 70_000, 70),
        (NOW.0 + 5_000, 0),
    ] {
        let record = well(1, Timestamp(changed));
        let mut case = Case::new(1).held((0, 0), "a", 1, None).record("a", 0, record);
        case.store.health(&a, Health::CutOff, heard);
        let found = listed(&mut case, "").unwrap().page.items.remove(0);
        assert_eq!(found.age(), Some(Span::seconds(age)), "{changed}");
    }
    let mut case = Case::new(1)
        .held((0, 0), "a", 1, None)
        .record("a", 0, well(1, heard));
    case.store.heartbeats.clear();
    let found = listed(&mut case, "").unwrap().page.items.remove(0);
    assert_eq!(found.age(), None, "nothing is known of its shard");
    assert!(found.is_stale());
}

#[test]
fn an_endpoint_is_at_the_former_holder_until_the_instance_is_taken_over() {
    let former = Some(("a", 1));
    let mut case = Case::new(1)
        .held((0, 0), "b", 2, former)
        .record("a", 0, well(1, NOW));
    case.store.health(&ClusterId::new("a"), Health::Lost, NOW);
    assert_eq!(shown(&mut case), ["0 a?"]);
    assert_eq!(listed(&mut case, "a").unwrap().page.items.len(), 1);
    assert_eq!(listed(&mut case, "b").unwrap().page.items.len(), 0);
    taken_over(&mut case, "b", 2);
    assert!(shown(&mut case).is_empty());
    let mut case = case.record("b", 0, well(2, NOW));
    assert_eq!(shown(&mut case), ["0 b"]);
}

#[test]
fn what_another_generation_has_replaced_does_not_return() {
    // It was at `a`, which fell silent, then at `b`, which has stored nothing of it, and goes back to `a`.
    let former = Some(("b", 2));
    let mut case = Case::new(1)
        .held((0, 0), "a", 3, former)
        .record("a", 0, well(1, NOW));
    assert!(shown(&mut case).is_empty(), "its run is older than that of `b`");
    taken_over(&mut case, "a", 3);
    let old_run = InstanceRecord {
        generation: Generation(3),
        ..well(1, NOW)
    };
    let mut case = case.record("a", 0, old_run);
    assert!(shown(&mut case).is_empty(), "taken over, it is the same run");
    let mut case = case.record("a", 0, well(3, NOW));
    assert_eq!(shown(&mut case), ["0 a"], "a fresh run");
}

#[test]
fn what_a_lost_cluster_has_stays_until_another_one_has_taken_it_over() {
    let mut case = Case::new(1).record("a", 0, well(1, NOW));
    case.store.health(&ClusterId::new("a"), Health::Lost, NOW);
    let holder = LastHolder {
        generation: Generation(1),
        cluster: Some(ClusterId::new("a")),
    };
    let released = std::iter::once(InstanceNumber(0)).collect();
    let sets = std::iter::once((holder, released)).collect();
    case.assignment.released.insert(main_group(), sets);
    assert_eq!(shown(&mut case), ["0 a?"], "it is bound nowhere yet");
    // It goes back to where its run has gone on all the time: it never left the list.
    case.assignment.released.clear();
    let kept = InstanceRecord {
        generation: Generation(2),
        ..well(1, NOW)
    };
    let mut case = case.held((0, 0), "a", 2, Some(("a", 1))).record("a", 0, kept);
    taken_over(&mut case, "a", 2);
    assert_eq!(shown(&mut case), ["0 a?"]);
}

#[test]
fn an_adopted_run_is_listed_when_an_update_has_shown_it_well() {
    let mut adopted = well(1, NOW);
    adopted.run.as_mut().unwrap().forget_availability();
    let mut case = Case::new(1).held((0, 0), "a", 1, None).record("a", 0, adopted);
    assert!(shown(&mut case).is_empty());
    let mut case = case.record("a", 0, well(1, NOW));
    assert_eq!(shown(&mut case), ["0 a"]);
}
