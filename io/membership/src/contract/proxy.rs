//! A ground for servers reached over TCP: each named process has a proxy of its own before the server, which can fall
//! silent without resetting anything, as a broken network does.

use super::Ground;
use crate::Membership;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A ZooKeeper server behind proxies, and a node of its own for one case.
pub struct ZooKeeperGround {
    server: SocketAddr,
    path: String,
    session_timeout: Duration,
    proxies: Mutex<BTreeMap<String, Proxy>>,
}

#[derive(Clone)]
struct Proxy {
    address: SocketAddr,
    silent: watch::Sender<bool>,
}

impl ZooKeeperGround {
    /// A ground below `path` (one or more names, no slash in front), which must not have been used before.
    #[must_use]
    pub fn new(server: SocketAddr, path: &str, session_timeout: Duration) -> Self {
        Self {
            server,
            path: path.to_owned(),
            session_timeout,
            proxies: Mutex::default(),
        }
    }

    async fn proxy(&self, name: &str) -> Proxy {
        if let Some(known) = self.proxies.lock().unwrap().get(name) {
            return known.clone();
        }
        let made = Proxy::start(self.server).await;
        self.proxies
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_insert(made)
            .clone()
    }
}

#[async_trait]
impl Ground for ZooKeeperGround {
    async fn connect(&self, name: &str) -> Arc<dyn Membership> {
        let url = format!("zookeeper://{}/{}", self.proxy(name).await.address, self.path);
        crate::open(&url, self.session_timeout).unwrap()
    }

    async fn cut(&self, name: &str) {
        self.proxy(name).await.silent.send_replace(true);
    }

    async fn heal(&self, name: &str) {
        self.proxy(name).await.silent.send_replace(false);
    }
}

impl Proxy {
    async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (silent, listen) = watch::channel(false);
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, server, listen.clone()));
            }
        });
        Self { address, silent }
    }
}

/// A connection made during silence gets no answer, and is reset when the silence ends: were it passed on late, the
/// server would take a client that has given up for a living one.
async fn pass(client: TcpStream, server: SocketAddr, mut silent: watch::Receiver<bool>) {
    if *silent.borrow() {
        let _ = silent.wait_for(|silent| !silent).await;
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = copy(from_client, to_server, silent.clone()) => {}
        () = copy(from_server, to_client, silent) => {}
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut silent: watch::Receiver<bool>) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes).await {
        if silent.wait_for(|silent| !silent).await.is_err() || to.write_all(&bytes[..n]).await.is_err() {
            return;
        }
    }
    // An end is not heard during silence either.
    let _ = silent.wait_for(|silent| !silent).await;
}
