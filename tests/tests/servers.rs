//! The servers that other suites stand on: each one starts, answers, and survives what a test may do to it.
#![cfg(test)]

use std::net::SocketAddr;
use std::time::Duration;

use echelon_tests::http;
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::servers::{Cassandra, Prometheus, ZooKeeper, promtool};
use echelon_tests::work::WorkFolder;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use zookeeper_client::{Acls, Client, CreateMode};

async fn session(address: SocketAddr) -> Session {
    SessionBuilder::new()
        .known_node_addr(address)
        .build()
        .await
        .unwrap()
}

async fn release(session: &Session) -> String {
    let rows = session
        .query_unpaged("SELECT release_version FROM system.local", &[])
        .await
        .unwrap();
    rows.into_rows_result()
        .unwrap()
        .single_row::<(String,)>()
        .unwrap()
        .0
}

#[tokio::test]
async fn cassandra_answers_cql() {
    let cassandra = Cassandra::shared().unwrap();
    let session = session(cassandra.addresses()[0]).await;
    assert!(release(&session).await.starts_with("5.0"));
}

#[tokio::test]
async fn a_killed_cassandra_keeps_its_rows() {
    let mut cassandra = Cassandra::start(1).unwrap();
    let address = cassandra.addresses()[0];
    let first = session(address).await;
    let keyspace =
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    for statement in [
        keyspace,
        "CREATE TABLE k.t (id int PRIMARY KEY)",
        "INSERT INTO k.t (id) VALUES (7)",
    ] {
        first.query_unpaged(statement, &[]).await.unwrap();
    }
    cassandra.node(0).unwrap().kill().unwrap();
    assert!(first.query_unpaged("SELECT id FROM k.t", &[]).await.is_err());
    cassandra.start_again(0).unwrap();
    let rows = session(address)
        .await
        .query_unpaged("SELECT id FROM k.t", &[])
        .await
        .unwrap();
    assert_eq!(
        rows.into_rows_result().unwrap().single_row::<(i32,)>().unwrap(),
        (7,)
    );
}

#[tokio::test]
async fn two_tests_share_one_zookeeper() {
    let [one, two] = [ZooKeeper::shared().unwrap(), ZooKeeper::shared().unwrap()];
    assert_eq!(one.contact_points(), two.contact_points());
    let client = Client::connect(&one.contact_points()).await.unwrap();
    client
        .create(
            "/shared",
            b"yes",
            &CreateMode::Persistent.with_acls(Acls::anyone_all()),
        )
        .await
        .unwrap();
    assert_eq!(client.get_data("/shared").await.unwrap().0, b"yes");
}

#[tokio::test]
async fn three_zookeepers_elect_again_when_the_leader_is_killed() {
    let mut zookeeper = ZooKeeper::start(3).unwrap();
    let client = Client::connect(&zookeeper.contact_points()).await.unwrap();
    client
        .create(
            "/kept",
            b"",
            &CreateMode::Persistent.with_acls(Acls::anyone_all()),
        )
        .await
        .unwrap();
    let leader = zookeeper.leader().unwrap();
    zookeeper.member(leader).unwrap().kill().unwrap();
    let next = echelon_tests::wait::until("another leader", Duration::from_secs(30), || {
        Ok(zookeeper.leader().ok())
    });
    assert_ne!(next.unwrap(), leader);
    zookeeper.start_again(leader).unwrap();
    let client = Client::connect(&zookeeper.contact_points()).await.unwrap();
    assert!(client.check_stat("/kept").await.unwrap().is_some());
}

#[test]
fn prometheus_scrapes_and_evaluates() {
    let work = WorkFolder::new("rules").unwrap();
    let rules = work.path().join("rules.yml");
    let rule = "groups: [{name: g, rules: [{record: 'twice:up', expr: 'sum(up) * 2'}]}]";
    std::fs::write(&rules, rule).unwrap();
    promtool(&["check", "rules", "rules.yml"], work.path()).unwrap();
    let first = Prometheus::start(&[], &[]).unwrap();
    let second = Prometheus::start(&[("itself", &first.address().to_string())], &[&rules]).unwrap();
    let up = second.query_until_answered("up{job=\"itself\"} == 1").unwrap();
    assert!(
        up[0].labels.contains(&("job".to_owned(), "itself".to_owned())),
        "{up:?}"
    );
    assert_eq!(
        second.query_until_answered("twice:up == 2").unwrap()[0].value,
        2.0
    );
    let error = second.query("up{{").unwrap_err().to_string();
    assert!(error.contains("parse error"), "{error}");
    assert_eq!(second.query("no_such_series").unwrap(), []);
}

#[test]
fn a_faulty_rule_is_told_in_promtools_words() {
    let work = WorkFolder::new("rules").unwrap();
    std::fs::write(
        work.path().join("bad.yml"),
        "groups: [{name: g, rules: [{record: r, expr: 'sum('}]}]",
    )
    .unwrap();
    let error = promtool(&["check", "rules", "bad.yml"], work.path())
        .unwrap_err()
        .to_string();
    assert!(error.contains("could not parse expression"), "{error}");
}

#[test]
fn a_proxy_stands_before_a_real_server() {
    let prometheus = Prometheus::start(&[], &[]).unwrap();
    let proxy = Proxy::start(prometheus.address()).unwrap();
    assert_eq!(http::get(proxy.address(), "/-/ready").unwrap().0, 200);
    proxy.set(Mode::Cut);
    assert!(http::get(proxy.address(), "/-/ready").is_err());
    proxy.set(Mode::Pass);
    assert_eq!(http::get(proxy.address(), "/-/ready").unwrap().0, 200);
}
