//! A real Cassandra of one to three nodes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::{filled, jars, share};
use crate::java;
use crate::net::LoopbackNet;
use crate::server::{Launch, Server};
use crate::work::WorkFolder;

const CQL_PORT: u16 = 9042;
const STORAGE_PORT: u16 = 7000;

/// A node serves 4 s after its start on an idle machine; three beside a build have taken half a minute.
const SERVES_WITHIN: Duration = Duration::from_secs(180);

/// Nodes 0 to 2, each with its own address on one loopback network. Dropping it ends them.
pub struct Cassandra {
    nodes: Vec<Node>,
    _net: LoopbackNet,
    // last, so that the nodes are gone before their files
    _work: WorkFolder,
}

struct Node {
    server: Server,
    address: SocketAddrV4,
}

impl Cassandra {
    /// Starts `n_nodes` (1 to 3) side by side and waits until each serves CQL.
    ///
    /// # Errors
    /// No Java, no jars, or a node does not serve; the error carries the end of its log.
    pub fn start(n_nodes: u8) -> Result<Self> {
        Self::start_in(n_nodes, |_, _| Ok(()))
    }

    /// As [`Cassandra::start`]; `prepare` is shown each node's index and empty folder before anything is written
    /// there.
    ///
    /// # Errors
    /// As [`Cassandra::start`], or those of `prepare`.
    pub fn start_in(n_nodes: u8, mut prepare: impl FnMut(u8, &Path) -> Result<()>) -> Result<Self> {
        ensure!(
            (1..=3).contains(&n_nodes),
            "a test's Cassandra has one to three nodes, not {n_nodes}"
        );
        let (work, net) = (WorkFolder::new("cassandra")?, LoopbackNet::take()?);
        let (java, class_path) = (java::find()?, jars::CASSANDRA.class_path()?);
        let mut nodes = Vec::new();
        for number in 1..=n_nodes {
            prepare(number - 1, &work.folder(&format!("n{number}"))?)?;
            let folder = configure(&work, &net, number, n_nodes)?;
            let launch = Launch {
                name: format!("cassandra-{number}"),
                program: java.clone(),
                args: vec![
                    format!("@{}", folder.join("java.options").display()).into(),
                    "-cp".into(),
                    class_path.clone().into(),
                    "org.apache.cassandra.service.CassandraDaemon".into(),
                ],
                env: Vec::new(),
                folder,
            };
            nodes.push(Node {
                server: Server::start(launch)?,
                address: net.socket(number, CQL_PORT),
            });
        }
        for node in &mut nodes {
            node.wait_until_served()?;
        }
        Ok(Self {
            nodes,
            _net: net,
            _work: work,
        })
    }

    /// The one node that all tests of this binary share; each uses a keyspace of its own and must not disturb it.
    ///
    /// # Errors
    /// As [`Cassandra::start`], told to every caller.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Cassandra, String>> = OnceLock::new();
        share(&SHARED, || Self::start(1))
    }

    /// Where the nodes serve CQL.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address.into()).collect()
    }

    /// The nodes as they stand in a storage URL: `127.9.3.1:9042,127.9.3.2:9042`.
    #[must_use]
    pub fn contact_points(&self) -> String {
        let points: Vec<String> = self.nodes.iter().map(|node| node.address.to_string()).collect();
        points.join(",")
    }

    /// Node `node_idx`'s process, to pause, resume or kill it.
    ///
    /// # Errors
    /// There is no such node.
    pub fn node(&mut self, node_idx: usize) -> Result<&mut Server> {
        Ok(&mut self
            .nodes
            .get_mut(node_idx)
            .with_context(|| format!("no node {node_idx}"))?
            .server)
    }

    /// Copies what all nodes have on their disks into an empty folder, as of one moment: all of them stand still meanwhile.
    ///
    /// # Errors
    /// A node does not run, or the file system's.
    pub fn back_up(&mut self, to: &Path) -> Result<()> {
        for node in &mut self.nodes {
            node.server.pause()?;
        }
        let copied = self.nodes.iter().enumerate().try_for_each(|(place, node)| {
            let to = to.join(place.to_string());
            fs::create_dir(&to)?;
            copy(&node.server.launch().folder, &to)
        });
        for node in &mut self.nodes {
            node.server.resume()?;
        }
        copied
    }

    /// Kills all nodes and puts such a copy in the place of what they have.
    ///
    /// # Errors
    /// There is no such copy, or the file system's.
    pub fn put_back(&mut self, from: &Path) -> Result<()> {
        for node in &mut self.nodes {
            node.server.kill()?;
        }
        for (place, node) in self.nodes.iter().enumerate() {
            let folder = &node.server.launch().folder;
            for name in KEPT {
                let old = folder.join(name);
                if old.exists() {
                    fs::remove_dir_all(&old)?;
                }
            }
            copy(&from.join(place.to_string()), folder)?;
        }
        Ok(())
    }

    /// Starts all killed nodes again, side by side, and waits until they serve.
    ///
    /// # Errors
    /// A node runs, or does not serve in time.
    pub fn start_all_again(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.server.start_again()?;
        }
        self.nodes.iter_mut().try_for_each(Node::wait_until_served)
    }

    /// Starts a killed node again from its data and waits until it serves.
    ///
    /// # Errors
    /// There is no such node, it runs, or it does not serve in time.
    pub fn start_again(&mut self, node_idx: usize) -> Result<()> {
        let node = self
            .nodes
            .get_mut(node_idx)
            .with_context(|| format!("no node {node_idx}"))?;
        node.server.start_again()?;
        node.wait_until_served()
    }
}

/// The folders in which a node keeps all that it has.
const KEPT: [&str; 4] = ["sstables", "commitlog", "hints", "saved_caches"];

/// Copies these folders, as far as they are there.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for name in KEPT.iter().filter(|name| from.join(name).exists()) {
        let copied = Command::new("cp")
            .arg("-a")
            .args([from.join(name), to.join(name)])
            .status()
            .context("run cp")?;
        ensure!(copied.success(), "cp of {name} ended with {copied}");
    }
    Ok(())
}

impl Node {
    fn wait_until_served(&mut self) -> Result<()> {
        let address = self.address.into();
        self.server
            .wait_until("CQL", SERVES_WITHIN, || Ok(answers_cql(address).ok()))
    }
}

/// Sends CQL's OPTIONS, which needs no log-in, and looks for SUPPORTED.
fn answers_cql(address: SocketAddr) -> Result<()> {
    const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
    const SUPPORTED: u8 = 6;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&OPTIONS)?;
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [_, _, _, _, opcode, ..] = head;
    if opcode != SUPPORTED {
        bail!("{address} answered OPTIONS with opcode {opcode}");
    }
    Ok(())
}

/// Writes the configuration of node `number` of `n_nodes` into its folder.
fn configure(work: &WorkFolder, net: &LoopbackNet, number: u8, n_nodes: u8) -> Result<PathBuf> {
    let folder = work.folder(&format!("n{number}"))?;
    work.folder(&format!("n{number}/tmp"))?;
    let seeds: Vec<String> = (1..=n_nodes)
        .map(|n| net.socket(n, STORAGE_PORT).to_string())
        .collect();
    let (seeds, address, token) = (seeds.join(","), net.address(number), token(number, n_nodes));
    let shown = folder.display();
    let words: [(&str, &dyn std::fmt::Display); 4] = [
        ("TOKEN", &token),
        ("SEEDS", &seeds),
        ("ADDRESS", &address),
        ("FOLDER", &shown),
    ];
    for (name, template) in [
        (
            "cassandra.yaml",
            include_str!("../../servers/cassandra/cassandra.yaml"),
        ),
        (
            "java.options",
            include_str!("../../servers/cassandra/java.options"),
        ),
        ("logback.xml", include_str!("../../servers/logback.xml")),
    ] {
        fs::write(folder.join(name), filled(template, &words))?;
    }
    Ok(folder)
}

/// Tokens spread evenly over the ring of 64-bit numbers.
fn token(number: u8, n_nodes: u8) -> i64 {
    (-i64::MAX).wrapping_add_unsigned(u64::MAX / u64::from(n_nodes) * u64::from(number - 1))
}

#[cfg(test)]
mod tests {
    use super::token;

    #[test]
    fn tokens_are_spread_evenly() {
        assert_eq!(token(1, 1), -i64::MAX);
        let ring: Vec<i128> = (1..=3).map(|n| i128::from(token(n, 3))).collect();
        let third = i128::from(u64::MAX) / 3;
        assert!((ring[1] - ring[0] - third).abs() < 8, "{ring:?}");
        assert!((ring[2] - ring[1] - third).abs() < 8, "{ring:?}");
    }
}
