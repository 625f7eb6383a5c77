//! Membership on a real ZooKeeper: its contract, and what only a server shows.
#![cfg(test)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use echelon_core_model::Epoch;
use echelon_io_membership::contract::{CASES, Ground, PATIENCE};
use echelon_io_membership::{
    Candidacy, Member, Membership, MembershipError, Office, Role, Standing, Term, Timeouts, Verdict, open,
};
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::servers::ZooKeeper;
use zookeeper_client::Client;

/// Long enough for a busy machine to answer within two fifths of it, short enough to wait for its end many times.
fn timeouts() -> Timeouts {
    Timeouts::new(Duration::from_secs(4), None).unwrap()
}

/// One case's node on the server; each named process reaches it through a proxy of its own.
struct Node {
    server: SocketAddr,
    path: String,
    proxies: Mutex<BTreeMap<String, Proxy>>,
}

impl Node {
    fn new() -> Self {
        let server = ZooKeeper::shared().unwrap().addresses()[0];
        let path = format!("contract-{}", uuid::Uuid::new_v4());
        Self {
            server,
            path,
            proxies: Mutex::default(),
        }
    }

    fn set(&self, name: &str, mode: Mode) {
        self.proxies.lock().unwrap()[name].set(mode);
    }
}

#[async_trait]
impl Ground for Node {
    async fn connect(&self, name: &str) -> Arc<dyn Membership> {
        let mut proxies = self.proxies.lock().unwrap();
        let proxy = proxies
            .entry(name.to_owned())
            .or_insert_with(|| Proxy::start(self.server).unwrap());
        open(
            &format!("zookeeper://{}/{}", proxy.address(), self.path),
            timeouts(),
        )
        .unwrap()
    }

    async fn cut(&self, name: &str) {
        self.set(name, Mode::Silence);
    }

    async fn heal(&self, name: &str) {
        self.set(name, Mode::Pass);
    }
}

/// Side by side, since most of each case is waiting for sessions to end; on one thread, as the contract asks.
#[tokio::test]
async fn the_contract_holds() {
    let cases = CASES.iter().map(|(name, case)| async move {
        case(&Node::new()).await;
        println!("holds: {name}");
    });
    futures::future::join_all(cases).await;
}

const ROLE: Role = Role::ResourceManager;

/// A leader at a fresh path, and an operator's client beside it.
async fn leader_and_operator() -> (Arc<dyn Membership>, Candidacy, Client, String) {
    let server = ZooKeeper::shared().unwrap().addresses()[0];
    let root = format!("/operator-{}", uuid::Uuid::new_v4());
    let membership = open(&format!("zookeeper://{server}{root}"), timeouts()).unwrap();
    let member = Member {
        id: "a".into(),
        address: "http://a:1".into(),
    };
    let candidacy = membership.campaign(ROLE, member).await.unwrap();
    until_leads_after(&candidacy, None).await;
    (
        membership,
        candidacy,
        Client::connect(&server.to_string()).await.unwrap(),
        root,
    )
}

async fn until_leads_after(candidacy: &Candidacy, past: Option<Term>) {
    let mut standing = candidacy.watch();
    let leading = standing.wait_for(|s| s.leads() > past);
    tokio::time::timeout(PATIENCE, leading)
        .await
        .expect("it leads in the end")
        .unwrap();
}

/// The transaction that publishes proves the leader's place, however late the leader hears of its loss.
#[tokio::test]
async fn a_leader_without_its_place_publishes_nothing() {
    let (membership, candidacy, operator, root) = leader_and_operator().await;
    let term = candidacy.standing().leads();
    let queue = format!("{root}/resource-manager/candidates");
    for name in operator.list_children(&queue).await.unwrap() {
        operator.delete(&format!("{queue}/{name}"), None).await.unwrap();
    }
    let refused = candidacy.publish(Epoch(1)).await;
    assert!(
        matches!(refused, Err(MembershipError::NotLeader { .. })),
        "{refused:?}"
    );
    assert_eq!(membership.highest_epoch(&ROLE).await.unwrap(), None);
    until_leads_after(&candidacy, term).await;
    candidacy.publish(Epoch(1)).await.unwrap();
}

#[tokio::test]
async fn foreign_content_is_an_error_and_not_an_absence() {
    let (membership, candidacy, operator, root) = leader_and_operator().await;
    candidacy.publish(Epoch(1)).await.unwrap();
    for node in ["leader", "epoch"] {
        operator
            .set_data(&format!("{root}/resource-manager/{node}"), b"hello", None)
            .await
            .unwrap();
    }
    for error in [
        membership.leader(&ROLE).await.err(),
        membership.highest_epoch(&ROLE).await.err(),
    ] {
        assert!(
            matches!(error, Some(MembershipError::Unreadable { .. })),
            "{error:?}"
        );
    }
    assert!(matches!(
        candidacy.publish(Epoch(2)).await,
        Err(MembershipError::Unreadable { .. })
    ));
}

/// A leader's server dies and comes back within the session: the term goes on, and nobody else led.
#[tokio::test]
async fn a_restarted_server_keeps_the_term() {
    let mut zookeeper = ZooKeeper::start(1).unwrap();
    // Longer than a server takes to start on a busy machine: what is tested is the return, not the loss.
    let url = format!("zookeeper://{}/echelon", zookeeper.contact_points());
    let membership = open(&url, Timeouts::new(Duration::from_secs(40), None).unwrap()).unwrap();
    let member = |id: &str| Member {
        id: id.into(),
        address: format!("http://{id}:1"),
    };
    let a = membership.campaign(ROLE, member("a")).await.unwrap();
    until_leads_after(&a, None).await;
    let term = a.standing().leads();
    let b = membership.campaign(ROLE, member("b")).await.unwrap();
    let (mut a_standing, b_standing) = (a.watch(), b.watch());
    a_standing.mark_unchanged();
    zookeeper.member(0).unwrap().kill().unwrap();
    tokio::time::timeout(PATIENCE, a_standing.changed())
        .await
        .expect("it hears of the loss")
        .unwrap();
    assert_eq!(a.standing().leads(), None);
    zookeeper.start_again(0).unwrap();
    let back = a_standing.wait_for(|s| !matches!(s, Standing::Suspended(_)));
    let back = *tokio::time::timeout(PATIENCE, back)
        .await
        .expect("its fate is known")
        .unwrap();
    assert_eq!(back.leads(), term);
    assert!(!b_standing.has_changed().unwrap());
    a.publish(Epoch(1)).await.unwrap();
}

/// What an office was told so far.
#[derive(Default)]
struct Told {
    elected: u32,
    suspended: u32,
    deposed: u32,
    acts: bool,
}

/// Holds an office as a role's loop does, and counts.
fn hold(mut office: Office) -> tokio::sync::watch::Receiver<Told> {
    let (tell, told) = tokio::sync::watch::channel(Told::default());
    tokio::spawn(async move {
        loop {
            let verdict = office.verdict().await;
            tell.send_modify(|told| {
                match verdict {
                    Verdict::Elected { .. } => told.elected += 1,
                    Verdict::Suspended => told.suspended += 1,
                    Verdict::Deposed => told.deposed += 1,
                    Verdict::Resumed => {}
                }
                told.acts = matches!(verdict, Verdict::Elected { .. } | Verdict::Resumed);
            });
        }
    });
    told
}

/// Every server is restarted in turn, the leading one among them: whoever leads stands still meanwhile and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_of_the_servers_costs_no_leadership() {
    let mut zookeeper = ZooKeeper::start(3).unwrap();
    let url = format!("zookeeper://{}/echelon", zookeeper.contact_points());
    // Longer than servers take to elect among themselves on a busy machine.
    let timeouts = Timeouts::new(Duration::from_secs(40), None).unwrap();
    let stand = |id: &str| {
        let member = Member {
            id: id.into(),
            address: format!("http://{id}:1"),
        };
        let membership = open(&url, timeouts).unwrap();
        hold(Office::stand(membership, ROLE, member, Duration::from_secs(1)))
    };
    let mut leader = stand("a");
    leader.wait_for(|told| told.acts).await.unwrap();
    let standby = stand("b");
    for server in 0..3 {
        zookeeper.member(server).unwrap().kill().unwrap();
        zookeeper.start_again(server).unwrap();
        let goes_on = leader.wait_for(|told| told.acts);
        tokio::time::timeout(PATIENCE, goes_on)
            .await
            .expect("the leader goes on")
            .unwrap();
    }
    let told = leader.borrow();
    assert_eq!((told.elected, told.deposed), (1, 0));
    assert!(told.suspended > 0, "its own server was among them");
    assert_eq!(standby.borrow().elected, 0);
}

/// A process can tell what it was granted; what is said of a longer session is tested beside the code.
#[tokio::test]
async fn the_granted_session_is_told() {
    let server = ZooKeeper::shared().unwrap().addresses()[0];
    let membership = open(&format!("zookeeper://{server}/granted"), timeouts()).unwrap();
    assert_eq!(membership.granted_session().await.unwrap(), timeouts().session());
}
