//! What others see of leaders and members.

use super::ground::{Ground, member, shard, stand, until, until_leads, until_seen};
use crate::{CandidateRecord, LeaderRecord, Membership, MembershipError, Role, Sighting};
use echelon_core_model::Epoch;
use echelon_core_model::store::Stamp;

const ROLE: Role = Role::ResourceManager;

fn record(name: &str, epoch: u64) -> LeaderRecord {
    LeaderRecord {
        address: member(name).address,
        epoch: Epoch(epoch),
    }
}

/// A leader publishes after it has described itself: that changes its node, not its place.
pub(super) async fn candidates_say_whether_they_are_able(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    assert_eq!(reader.candidates(&ROLE).await.unwrap(), []);
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    let able = CandidateRecord {
        member: member("a"),
        able: true,
        contact_age_ms: Some(7),
    };
    a.describe(able.clone()).await.unwrap();
    assert_eq!(reader.candidates(&ROLE).await.unwrap(), [able]);
    a.publish(Epoch(1)).await.unwrap();
    a.resign().await;
    assert_eq!(reader.candidates(&ROLE).await.unwrap(), []);
}

pub(super) async fn sees_the_newest_leader(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    let seen = reader.watch(&ROLE);
    until_seen(&seen, Sighting::Vacant).await;
    assert_eq!(reader.leader(&ROLE).await.unwrap(), None);

    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    a.publish(Epoch(1)).await.unwrap();
    until_seen(&seen, Sighting::Held(record("a", 1))).await;
    a.publish(Epoch(1)).await.expect("a repetition is allowed");
    a.publish(Epoch(2))
        .await
        .expect("a leader may take a newer epoch");
    until_seen(&seen, Sighting::Held(record("a", 2))).await;
    assert_eq!(reader.leader(&ROLE).await.unwrap(), Some(record("a", 2)));

    // A crash: the record goes with the session, without anybody's doing.
    ground.cut("a").await;
    until_seen(&seen, Sighting::Vacant).await;
    let b = stand(ground, "b", &ROLE).await;
    until_leads(&b).await;
    b.publish(Epoch(7)).await.unwrap();
    until_seen(&seen, Sighting::Held(record("b", 7))).await;
    ground.heal("a").await;

    let late = ground.connect("late").await;
    until_seen(&late.watch(&ROLE), Sighting::Held(record("b", 7))).await;
}

pub(super) async fn only_the_leader_publishes(ground: &dyn Ground) {
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    let b = stand(ground, "b", &ROLE).await;
    assert!(matches!(
        b.publish(Epoch(5)).await,
        Err(MembershipError::NotLeader { .. })
    ));
    ground.cut("a").await;
    until("a acts no more", a.watch(), |s| s.leads().is_none()).await;
    assert!(matches!(
        a.publish(Epoch(6)).await,
        Err(MembershipError::NotLeader { .. })
    ));
    until_leads(&b).await;
    assert_eq!(
        ground.connect("reader").await.highest_epoch(&ROLE).await.unwrap(),
        None,
        "nothing was published"
    );
}

pub(super) async fn the_highest_epoch_outlives_leaders(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    assert_eq!(reader.highest_epoch(&ROLE).await.unwrap(), None);
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    a.publish(Epoch(41)).await.unwrap();
    a.resign().await;
    assert_eq!(reader.highest_epoch(&ROLE).await.unwrap(), Some(Epoch(41)));
    assert_eq!(reader.leader(&ROLE).await.unwrap(), None);

    // The next leader's storage was rolled back: it took an epoch that was used before.
    let b = stand(ground, "b", &ROLE).await;
    until_leads(&b).await;
    for used in [40, 41] {
        match b.publish(Epoch(used)).await {
            Err(MembershipError::EpochBehind {
                published: Epoch(41),
                offered,
                ..
            }) => assert_eq!(offered.0, used),
            other => panic!("epoch {used} was used before, publishing it gave {other:?}"),
        }
    }
    assert_eq!(reader.leader(&ROLE).await.unwrap(), None);
    b.publish(Epoch(42)).await.unwrap();
    assert_eq!(reader.highest_epoch(&ROLE).await.unwrap(), Some(Epoch(42)));
}

pub(super) async fn the_newest_durable_write_outlives_leaders(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    let stamp = |epoch, sequence| Stamp {
        epoch: Epoch(epoch),
        sequence,
    };
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    let early = a.mark(stamp(41, 1)).await;
    assert!(
        matches!(early, Err(MembershipError::NotLeader { .. })),
        "{early:?}"
    );
    a.publish(Epoch(41)).await.unwrap();
    a.mark(stamp(41, 9)).await.unwrap();
    a.mark(stamp(41, 8)).await.expect("an older one changes nothing");
    a.publish(Epoch(41))
        .await
        .expect("a repetition takes nothing back");
    let other = a.mark(stamp(42, 1)).await;
    assert!(
        matches!(other, Err(MembershipError::NotLeader { .. })),
        "{other:?}"
    );
    a.resign().await;
    assert_eq!(reader.newest_stamp(&ROLE).await.unwrap(), Some(stamp(41, 9)));
    let b = stand(ground, "b", &ROLE).await;
    until_leads(&b).await;
    let of_another = b.mark(stamp(41, 10)).await;
    assert!(
        matches!(of_another, Err(MembershipError::NotLeader { .. })),
        "{of_another:?}"
    );
    b.publish(Epoch(42)).await.unwrap();
    assert_eq!(reader.newest_stamp(&ROLE).await.unwrap(), Some(stamp(42, 0)));
}

pub(super) async fn roles_do_not_disturb_each_other(ground: &dyn Ground) {
    let one = ground.connect("a").await;
    let roles = [ROLE, shard("c1"), shard("c1/../c2"), shard("c2")];
    let mut candidates = Vec::new();
    for (epoch, role) in (10..).zip(&roles) {
        let candidate = one
            .campaign(role.clone(), member(&role.to_string()))
            .await
            .unwrap();
        until_leads(&candidate).await;
        candidate.publish(Epoch(epoch)).await.unwrap();
        candidates.push(candidate);
    }
    candidates.remove(1).resign().await;
    for (epoch, role) in (10..).zip(&roles) {
        let led = (role != &roles[1]).then(|| record(&role.to_string(), epoch));
        assert_eq!(one.leader(role).await.unwrap(), led, "{role}");
        assert_eq!(
            one.highest_epoch(role).await.unwrap(),
            Some(Epoch(epoch)),
            "{role}"
        );
    }
    assert!(candidates.iter().all(|c| c.standing().leads().is_some()));
}

pub(super) async fn members_come_and_go(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    assert_eq!(reader.members(&Role::Gateway).await.unwrap(), []);
    let mut held = Vec::new();
    for name in ["b", "a"] {
        let membership = ground.connect(name).await;
        held.push(membership.register(Role::Gateway, member(name)).await.unwrap());
    }
    until_members(&*reader, &["a", "b"]).await;
    assert_eq!(reader.members(&ROLE).await.unwrap(), []);
    // A crash, and a return.
    ground.cut("b").await;
    until_members(&*reader, &["a"]).await;
    ground.heal("b").await;
    until_members(&*reader, &["a", "b"]).await;
    // A leave.
    held.pop();
    until_members(&*reader, &["b"]).await;
    // The same process twice, as after a quick restart.
    let again = ground
        .connect("b2")
        .await
        .register(Role::Gateway, member("b"))
        .await
        .unwrap();
    until_members(&*reader, &["b"]).await;
    held.clear();
    until_members(&*reader, &["b"]).await;
    drop(again);
    until_members(&*reader, &[]).await;
}

/// Members are only read, so this asks again and again; what it waits for is told by no event.
async fn until_members(reader: &dyn Membership, names: &[&str]) {
    let wished: Vec<_> = names.iter().map(|name| member(name)).collect();
    let asking = async {
        while reader.members(&Role::Gateway).await.unwrap() != wished {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, asking)
        .await
        .unwrap_or_else(|_| panic!("the members never became {names:?}"));
}

/// Law: no answer is an error that may be retried, never an empty answer.
pub(super) async fn silence_is_not_absence(ground: &dyn Ground) {
    let reader = ground.connect("reader").await;
    let seen = reader.watch(&ROLE);
    let a = stand(ground, "a", &ROLE).await;
    until_leads(&a).await;
    a.publish(Epoch(3)).await.unwrap();
    until_seen(&seen, Sighting::Held(record("a", 3))).await;
    ground.cut("reader").await;
    let failures = [
        reader.leader(&ROLE).await.map(drop),
        reader.highest_epoch(&ROLE).await.map(drop),
        reader.members(&Role::Gateway).await.map(drop),
    ];
    for failure in failures {
        assert!(
            failure.as_ref().is_err_and(MembershipError::is_retryable),
            "{failure:?}"
        );
    }
    assert_eq!(
        *seen.borrow(),
        Sighting::Held(record("a", 3)),
        "what was seen last stays"
    );
    ground.heal("reader").await;
    a.publish(Epoch(4)).await.unwrap();
    until_seen(&seen, Sighting::Held(record("a", 4))).await;
    assert_eq!(reader.leader(&ROLE).await.unwrap(), Some(record("a", 4)));
}
