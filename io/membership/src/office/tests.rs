//! The office on in-process membership, whose connections the tests cut, heal and expire in paused time.

use super::*;
use crate::Timeouts;
use crate::in_process::Hub;
use tokio::time::timeout;

fn hub() -> Hub {
    Hub::new(Timeouts::new(Duration::from_secs(10), None).unwrap())
}
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
        published: Stamp {
            epoch: Epoch(published),
            sequence: 0,
        },
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_next_sees_its_epoch() {
    let hub = hub();
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
async fn the_next_leader_hears_of_the_newest_durable_write_of_the_published_epoch() {
    let hub = hub();
    let stamp = |epoch, sequence| Stamp {
        epoch: Epoch(epoch),
        sequence,
    };
    let mut first = stand(&hub, "a");
    verdict(&mut first).await;
    first.publish(Epoch(7));
    first.mark(stamp(7, 20));
    first.mark(stamp(7, 40));
    nothing_for(&mut first, Duration::from_secs(1)).await;
    first.publish(Epoch(7));
    // An epoch that is not published tells nothing.
    first.mark(stamp(8, 90));
    nothing_for(&mut first, Duration::from_secs(1)).await;
    first.resign().await;
    let mut second = stand(&hub, "b");
    let published = stamp(7, 40);
    assert_eq!(verdict(&mut second).await, Verdict::Elected { published });
    second.publish(Epoch(8));
    nothing_for(&mut second, Duration::from_secs(1)).await;
    second.resign().await;
    assert_eq!(verdict(&mut stand(&hub, "c")).await, elected(8));
}

#[tokio::test(start_paused = true)]
async fn a_blip_suspends_and_the_same_term_goes_on() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    let mut other = stand(&hub, "b");
    verdict(&mut office).await;
    office.publish(Epoch(7));
    hub.cut("a");
    assert!(!office.may_act(), "before any task has run");
    assert_eq!(verdict(&mut office).await, Verdict::Suspended);
    hub.heal("a");
    assert!(!office.may_act(), "before it is told that it leads on");
    assert_eq!(verdict(&mut office).await, Verdict::Resumed);
    assert!(office.may_act());
    nothing_for(&mut other, Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_silent_for_its_lease_is_deposed() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    hub.cut("a");
    assert_eq!(verdict(&mut office).await, Verdict::Suspended);
    assert_eq!(verdict(&mut office).await, Verdict::Deposed);
    hub.heal("a");
    assert_eq!(verdict(&mut office).await, elected(0));
}

/// What every time-out promises: the next leader acts within the session and two seconds.
#[tokio::test(start_paused = true)]
async fn a_standby_leads_within_the_session_and_two_seconds() {
    for session in [1, 3, 4, 10, 50].map(Duration::from_secs) {
        let hub = Hub::new(Timeouts::new(session, None).unwrap());
        let mut office = stand(&hub, "a");
        verdict(&mut office).await;
        let mut other = stand(&hub, "b");
        let silent = tokio::time::Instant::now();
        hub.cut("a");
        assert_eq!(verdict(&mut other).await, elected(0));
        assert!(silent.elapsed() < session + Duration::from_secs(2), "{session:?}");
        assert!(!office.may_act());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_in_doubt_is_told_that_it_leads_on() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    office.doubt();
    assert!(!office.may_act());
    assert_eq!(verdict(&mut office).await, Verdict::Resumed);
    assert!(office.may_act());
    nothing_for(&mut office, Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn an_epoch_is_published_after_a_blip() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    hub.cut("a");
    office.publish(Epoch(7));
    assert_eq!(verdict(&mut office).await, Verdict::Suspended);
    hub.heal("a");
    assert_eq!(verdict(&mut office).await, Verdict::Resumed);
    let mut seen = hub.connect("c").watch(&Role::ResourceManager);
    let published = seen.wait_for(|s| s.record().is_some_and(|r| r.epoch == Epoch(7)));
    timeout(Duration::from_secs(60), published)
        .await
        .expect("in the end")
        .unwrap();
    nothing_for(&mut office, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn who_steps_down_lets_others_come_first() {
    let hub = hub();
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
    let hub = hub();
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

/// Says again and again that it has contact, until the answer is dropped.
fn keep_contact(office: Office) -> (tokio::task::JoinHandle<()>, mpsc::Receiver<Verdict>) {
    let (tell, told) = mpsc::channel(8);
    let keeping = tokio::spawn(async move {
        let mut office = office;
        loop {
            office.has_contact();
            tokio::select! {
                verdict = office.verdict() => tell.send(verdict).await.unwrap(),
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    });
    (keeping, told)
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_contact_gives_way_once_to_one_that_has_it() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    office.need_contact();
    verdict(&mut office).await;
    let other = stand(&hub, "b");
    other.need_contact();
    // The other one has no contact either: nothing is won.
    nothing_for(&mut office, Duration::from_secs(60)).await;
    let (keeping, mut told) = keep_contact(other);
    assert_eq!(verdict(&mut office).await, Verdict::Deposed);
    assert_eq!(told.recv().await, Some(elected(0)));
    // The first one is back in the queue and leads when the other is gone. It gives way again only after its recess.
    keeping.abort();
    assert_eq!(verdict(&mut office).await, elected(0));
    let (_keeping, mut told) = keep_contact(stand(&hub, "c"));
    nothing_for(&mut office, Duration::from_secs(30)).await;
    assert_eq!(verdict(&mut office).await, Verdict::Deposed);
    assert_eq!(told.recv().await, Some(elected(0)));
}

#[tokio::test(start_paused = true)]
async fn a_role_that_needs_no_contact_never_gives_way() {
    let hub = hub();
    let mut office = stand(&hub, "a");
    verdict(&mut office).await;
    let (_keeping, _told) = keep_contact(stand(&hub, "b"));
    nothing_for(&mut office, Duration::from_secs(300)).await;
}
