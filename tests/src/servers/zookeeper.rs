//! A real ZooKeeper of one or three servers.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{filled, jars, share};
use crate::java;
use crate::net::LoopbackNet;
use crate::server::{Launch, Server};
use crate::work::WorkFolder;

const CLIENT_PORT: u16 = 2181;

/// Three servers elect within 2 s on an idle machine.
const SERVES_WITHIN: Duration = Duration::from_secs(90);

/// Servers 0 to 2, each with its own address on one loopback network. Dropping it ends them.
pub struct ZooKeeper {
    members: Vec<Member>,
    _net: LoopbackNet,
    // last, so that the servers are gone before their files
    _work: WorkFolder,
}

struct Member {
    server: Server,
    address: SocketAddrV4,
}

impl ZooKeeper {
    /// Starts `n_servers` (1 or 3) and waits until each follows or leads.
    ///
    /// # Errors
    /// No Java, no jars, or a server does not serve; the error carries the end of its log.
    pub fn start(n_servers: u8) -> Result<Self> {
        if !matches!(n_servers, 1 | 3) {
            bail!("a test's ZooKeeper has one or three servers, not {n_servers}");
        }
        let (work, net) = (WorkFolder::new("zookeeper")?, LoopbackNet::take()?);
        let (java, class_path) = (java::find()?, jars::ZOOKEEPER.class_path()?);
        let mut members = Vec::new();
        for number in 1..=n_servers {
            let folder = configure(&work, &net, number, n_servers)?;
            let logging = format!(
                "-Dlogback.configurationFile=file://{}/logback.xml",
                folder.display()
            );
            let options = [
                "-Xmx96m",
                "-Xss256k",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ];
            let properties = [
                "-Djava.net.preferIPv4Stack=true",
                "-Dzookeeper.jmx.log4j.disable=true",
                &logging,
            ];
            let main = [
                "-cp",
                &class_path,
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                "zoo.cfg",
            ];
            let launch = Launch {
                name: format!("zookeeper-{number}"),
                program: java.clone(),
                args: options
                    .into_iter()
                    .chain(properties)
                    .chain(main)
                    .map(Into::into)
                    .collect(),
                env: Vec::new(),
                folder,
            };
            members.push(Member {
                server: Server::start(launch)?,
                address: net.socket(number, CLIENT_PORT),
            });
        }
        for member in &mut members {
            member.wait_until_served()?;
        }
        Ok(Self {
            members,
            _net: net,
            _work: work,
        })
    }

    /// The one server that all tests of this binary share; each uses a path of its own and must not disturb it.
    ///
    /// # Errors
    /// As [`ZooKeeper::start`], told to every caller.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ZooKeeper, String>> = OnceLock::new();
        share(&SHARED, || Self::start(1))
    }

    /// Where the servers serve clients.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address.into()).collect()
    }

    /// The servers as clients name them: `127.9.3.1:2181,127.9.3.2:2181`.
    #[must_use]
    pub fn contact_points(&self) -> String {
        let points: Vec<String> = self
            .members
            .iter()
            .map(|member| member.address.to_string())
            .collect();
        points.join(",")
    }

    /// Index of the server that leads, or of the only one.
    ///
    /// # Errors
    /// None leads at this moment.
    pub fn leader(&self) -> Result<usize> {
        let leads = |member: &Member| {
            matches!(
                mode(member.address.into()).as_deref(),
                Ok("leader" | "standalone")
            )
        };
        self.members
            .iter()
            .position(leads)
            .context("no ZooKeeper server leads")
    }

    /// Server `server_idx`'s process, to pause, resume or kill it.
    ///
    /// # Errors
    /// There is no such server.
    pub fn member(&mut self, server_idx: usize) -> Result<&mut Server> {
        Ok(&mut self
            .members
            .get_mut(server_idx)
            .with_context(|| format!("no server {server_idx}"))?
            .server)
    }

    /// Starts a killed server again from its data and waits until it serves.
    ///
    /// # Errors
    /// There is no such server, it runs, or it does not serve in time.
    pub fn start_again(&mut self, server_idx: usize) -> Result<()> {
        let member = self
            .members
            .get_mut(server_idx)
            .with_context(|| format!("no server {server_idx}"))?;
        member.server.start_again()?;
        member.wait_until_served()
    }
}

impl Member {
    fn wait_until_served(&mut self) -> Result<()> {
        let address = self.address.into();
        self.server
            .wait_until("service", SERVES_WITHIN, || Ok(mode(address).ok().map(|_| ())))
    }
}

/// What the server is: `standalone`, `leader` or `follower`. One outside a quorum answers without a mode.
fn mode(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned)
        .with_context(|| format!("{address} does not serve: {answer}"))
}

/// Writes the configuration of server `number` of `n_servers` into its folder.
fn configure(work: &WorkFolder, net: &LoopbackNet, number: u8, n_servers: u8) -> Result<PathBuf> {
    let folder = work.folder(&format!("n{number}"))?;
    let (address, shown) = (net.address(number), folder.display());
    let template = include_str!("../../servers/zookeeper/zoo.cfg");
    let mut configuration = filled(template, &[("ADDRESS", &address), ("FOLDER", &shown)]);
    if n_servers > 1 {
        for n in 1..=n_servers {
            configuration.push_str(&format!("server.{n}={}:2888:3888\n", net.address(n)));
        }
    }
    fs::write(folder.join("zoo.cfg"), configuration)?;
    fs::write(
        folder.join("logback.xml"),
        include_str!("../../servers/logback.xml"),
    )?;
    fs::write(
        work.folder(&format!("n{number}/data"))?.join("myid"),
        number.to_string(),
    )?;
    Ok(folder)
}
