//! The contract on a real ZooKeeper, whose address the variable `ECHELON_TEST_ZOOKEEPER` tells (`127.0.0.1:2181`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use echelon_core_model::Epoch;
use echelon_io_membership::contract::CASES;
use echelon_io_membership::contract::proxy::ZooKeeperGround;
use echelon_io_membership::{Candidacy, Member, Membership, MembershipError, Role, Term, open};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::Client;

/// Long enough for a busy machine to answer within two fifths of it, short enough to wait for its end many times.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

fn server() -> SocketAddr {
    let server = std::env::var("ECHELON_TEST_ZOOKEEPER")
        .expect("set ECHELON_TEST_ZOOKEEPER to a ZooKeeper's HOST:PORT");
    server
        .parse()
        .expect("ECHELON_TEST_ZOOKEEPER is an IP address with a port")
}

/// Side by side, since most of each case is waiting for sessions to end; on one thread, as the contract asks.
#[tokio::test]
async fn the_contract_holds() {
    let server = std::env::var("ECHELON_TEST_ZOOKEEPER")
        .expect("set ECHELON_TEST_ZOOKEEPER to a ZooKeeper's HOST:PORT");
    let server: SocketAddr = server
        .parse()
        .expect("ECHELON_TEST_ZOOKEEPER is an IP address with a port");
    let run = uuid::Uuid::new_v4();
    let cases = CASES.iter().enumerate().map(|(n, (name, case))| async move {
        let ground = ZooKeeperGround::new(server, &format!("contract-{run}/{n}"), SESSION_TIMEOUT);
        case(&ground).await;
        println!("holds: {name}");
    });
    futures::future::join_all(cases).await;
}

const ROLE: Role = Role::ResourceManager;

/// A leader at a fresh path, and an operator's client beside it.
async fn leader_and_operator() -> (Arc<dyn Membership>, Candidacy, Client, String) {
    let (server, root) = (server(), format!("/operator-{}", uuid::Uuid::new_v4()));
    let membership = open(&format!("zookeeper://{server}{root}"), SESSION_TIMEOUT).unwrap();
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
    tokio::time::timeout(Duration::from_secs(60), leading)
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
