//! Cassandra and ZooKeeper for a developer: the same servers that the tests start, until Ctrl-C.

use std::thread;

use anyhow::Result;
use echelon_tests::servers::{Cassandra, ZooKeeper};

use crate::setup;

/// Starts both, prints their addresses and never returns: Ctrl-C ends this process, and the servers' watchdog then ends
/// them and removes their files.
///
/// # Errors
/// Something is missing, or a server does not start.
pub fn run(n_nodes: u8) -> Result<()> {
    setup::all()?;
    let (cassandra, zookeeper) = (Cassandra::start(n_nodes)?, ZooKeeper::start(n_nodes)?);
    println!("cassandra://{}/KEYSPACE", cassandra.contact_points());
    println!("zookeeper://{}/PATH", zookeeper.contact_points());
    println!("Ctrl-C ends them and removes their data");
    loop {
        thread::park();
    }
}
