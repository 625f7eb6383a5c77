//! The office on in-process membership, whose connections the tests cut, heal and expire in paused time.

use super::*;
use crate::in_process::Hub;
use tokio::time::timeout;

const SESSION: Duration = Duration::from_secs(10);
const RECESS: Duration = Duration::from_secs(2);

fn stand(hub: &Hub, name: &str) -> Office {
    let member = Member {
        id: name.into(),
        address: format!("http://{name}"),
    };
    Office::stand(Arc::new(hub.connect(name)), Role::ResourceManager, member, RECESS)
}

async fn verdict(office: &mut Office) -> Verdict {
    timeout(Duration::from_secs(60), office.verdict())
        .await
        .expect("no verdict came")
}

async fn nothing_for(office: &mut Office, span: Duration) {
    assert!(timeout(span, office.verdict()).await.is_err(), "a verdict came");
}

const fn elected(published: u64) -> Verdict {
    Verdict::Elected {
        published: Epoch(published),
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_sees_its_epoch() {
    let hub = Hub::new(SESSION);
    let mut first = stand(&hub, "a");
    assert_eq!(verdict(&mut first).await, elected(0));
    assert!(first.may_act());
    first.publish(Epoch(7));
    let mut second = stand(&hub, "b");
    nothing_for(&mut second, Duration::from_secs(1)).await;
    assert!(!second.may_act());
    first.resign().await;
    assert_eq!(verdict(&mut second).await, elected(7));
}

#[tokio::test(start_paused = true)]
async fn who_is_cut_off_is_deposed_at_once_and_elected_anew() {
    let hub = Hub::new(SESSION);
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    hub.cut("a");
    assert!(!office.may_act(), "before any task has run");
    assert_eq!(verdict(&mut office).await, Verdict::Deposed);
    hub.heal("a");
    assert_eq!(verdict(&mut office).await, elected(0));
    assert!(office.may_act());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_renounced_is_told_that_it_leads_still() {
    let hub = Hub::new(SESSION);
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    office.renounce();
    assert!(!office.may_act());
    assert_eq!(verdict(&mut office).await, elected(0));
    assert!(office.may_act());
    nothing_for(&mut office, Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn who_steps_down_lets_others_come_first() {
    let hub = Hub::new(SESSION);
    let (mut first, mut second) = (stand(&hub, "a"), stand(&hub, "b"));
    let (leader, other) = tokio::select! {
        _ = first.verdict() => (&mut first, &mut second),
        _ = second.verdict() => (&mut second, &mut first),
    };
    leader.step_down();
    assert!(!leader.may_act());
    assert_eq!(verdict(other).await, elected(0));
    nothing_for(leader, RECESS * 2).await;
    other.step_down();
    assert_eq!(verdict(leader).await, elected(0));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_was_published_before_deposes() {
    let hub = Hub::new(SESSION);
    let mut first = stand(&hub, "a");
    verdict(&mut first).await;
    first.publish(Epoch(9));
    nothing_for(&mut first, Duration::from_secs(1)).await;
    first.resign().await;
    let mut second = stand(&hub, "b");
    assert_eq!(verdict(&mut second).await, elected(9));
    second.publish(Epoch(9));
    assert_eq!(verdict(&mut second).await, Verdict::Deposed);
    assert_eq!(
        verdict(&mut second).await,
        elected(9),
        "its driver sees that storage is behind"
    );
}
