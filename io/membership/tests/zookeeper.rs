//! The contract on a real ZooKeeper, whose address the variable `ECHELON_TEST_ZOOKEEPER` tells (`127.0.0.1:2181`).

use echelon_io_membership::contract::CASES;
use echelon_io_membership::contract::proxy::ZooKeeperGround;
use std::net::SocketAddr;
use std::time::Duration;

/// Long enough for a busy machine to answer within two fifths of it, short enough to wait for its end many times.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

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
