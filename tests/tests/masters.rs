//! Mesos masters found in a real ZooKeeper. The masters are ports that answer SUBSCRIBE; what they would write into their
//! group's node is written by the test.
#![cfg(test)]

use std::time::Duration;

use echelon_core_hosts::{Call, Event};
use echelon_io_mesos::{Config, Framework, Limits, Timing};
use echelon_tests::proxy::{Mode, Proxy};
use echelon_tests::servers::ZooKeeper;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, CreateMode};

/// Longer than sessions take to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port that takes every subscription in as framework `f`.
struct Master {
    port: u16,
    serving: JoinHandle<()>,
}

impl Master {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut streams = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                streams.spawn(answer(stream));
            }
        });
        Self { port, serving }
    }

    /// Its sockets close with it.
    fn die(&self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream) {
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nMesos-Stream-Id: s\r\nTransfer-Encoding: chunked\r\n\r\n";
    // An Event of type SUBSCRIBED with framework id `f`, as one record in one chunk.
    let chunk = b"b\r\n9\n\x08\x01\x12\x05\x0a\x03\x0a\x01f\r\n";
    let _ = stream.write_all(&[head.as_bytes(), chunk].concat()).await;
    // Until the other side goes.
    while !matches!(stream.read(&mut asked).await, Ok(0) | Err(_)) {}
}

/// Contends as a master does: the node lives as long as the session.
async fn contend(servers: &str, path: &str, port: u16) -> Client {
    let client = Client::connect(servers).await.unwrap();
    let info = format!(
        r#"{{"address":{{"hostname":"localhost","ip":"127.0.0.1","port":{port}}},"id":"m","port":{port}}}"#
    );
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    client
        .create(&format!("{path}/json.info_"), info.as_bytes(), &options)
        .await
        .unwrap();
    client
}

async fn folder(servers: &str) -> (Client, String) {
    let operator = Client::connect(servers).await.unwrap();
    let path = format!("/mesos-{}", uuid::Uuid::new_v4());
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    operator.create(&path, b"", &options).await.unwrap();
    operator
        .create(&format!("{path}/log_replicas"), b"", &options)
        .await
        .unwrap();
    (operator, path)
}

struct Shard {
    calls: mpsc::Sender<Call>,
    events: mpsc::Receiver<Event>,
}

impl Shard {
    fn at(masters: &str) -> Self {
        let (calls, called) = mpsc::channel(10);
        let (told, events) = mpsc::channel(10);
        let config = Config {
            masters: masters.parse().unwrap(),
            framework: Framework::named("test"),
            credential: None,
            operator: None,
            timing: Timing::usual(),
            limits: Limits::usual(),
            seed: 7,
        };
        // It ends when the sender is dropped.
        let _detached = echelon_io_mesos::spawn(config, called, told);
        Self { calls, events }
    }

    async fn hear(&mut self) -> Event {
        let heard = tokio::time::timeout(PATIENCE, self.events.recv()).await;
        heard.expect("nothing was heard").unwrap()
    }

    /// Subscribes until it stands, as a shard does; the sentences on the way.
    async fn subscribe(&mut self) -> Vec<String> {
        let mut whys = Vec::new();
        loop {
            self.calls
                .send(Call::Subscribe { framework: None })
                .await
                .unwrap();
            match self.hear().await {
                Event::Subscribed { framework, .. } => {
                    assert_eq!(framework, "f");
                    return whys;
                }
                Event::Disconnected { why } => whys.push(why),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn hear_disconnected(&mut self) -> String {
        match self.hear().await {
            Event::Disconnected { why } => why,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_leading_master_is_found_and_followed() {
    let servers = ZooKeeper::shared().unwrap().contact_points();
    let (_operator, path) = folder(&servers).await;
    let (one, two) = (Master::start().await, Master::start().await);
    let mut shard = Shard::at(&format!("zk://{servers}{path}"));
    // Asked before anybody leads: the subscription waits for the election.
    let asked = tokio::spawn(async move {
        shard.subscribe().await;
        shard
    });
    let first = contend(&servers, &path, one.port).await;
    let _second = contend(&servers, &path, two.port).await;
    let mut shard = asked.await.unwrap();
    // The leader leaves the election, and its process hangs: only ZooKeeper tells.
    drop(first);
    let why = shard.hear_disconnected().await;
    assert_eq!(
        why,
        format!("another master leads, says ZooKeeper: 127.0.0.1:{}", two.port)
    );
    shard.subscribe().await;
    // The leader's process dies: the stream tells. Nobody is left to lead.
    two.die();
    shard.hear_disconnected().await;
    let third = Master::start().await;
    drop(_second);
    let _third = contend(&servers, &path, third.port).await;
    shard.subscribe().await;
}

#[tokio::test]
async fn a_silent_zookeeper_leaves_the_stream_alone_and_its_return_is_noticed() {
    let real = ZooKeeper::shared().unwrap();
    let servers = real.contact_points();
    let proxy = Proxy::start(real.addresses()[0]).unwrap();
    let (_operator, path) = folder(&servers).await;
    let (one, two) = (Master::start().await, Master::start().await);
    let first = contend(&servers, &path, one.port).await;
    let _second = contend(&servers, &path, two.port).await;
    let mut shard = Shard::at(&format!("zk://{}{path}", proxy.address()));
    shard.subscribe().await;
    proxy.set(Mode::Silence);
    // Longer than our session there lasts.
    let heard = tokio::time::timeout(Duration::from_secs(16), shard.events.recv()).await;
    assert!(heard.is_err(), "{heard:?}");
    drop(first);
    proxy.set(Mode::Pass);
    let why = shard.hear_disconnected().await;
    assert!(why.contains(&two.port.to_string()), "{why}");
    shard.subscribe().await;
}

#[tokio::test]
async fn credentials_open_a_closed_group() {
    let servers = ZooKeeper::shared().unwrap().contact_points();
    let (operator, path) = folder(&servers).await;
    let master = Master::start().await;
    let _leader = contend(&servers, &path, master.port).await;
    operator.auth("digest", b"mesos:s3cret").await.unwrap();
    let acl = zookeeper_client::Acl::new(
        zookeeper_client::Permission::ALL,
        zookeeper_client::AuthId::authed(),
    );
    operator.set_acl(&path, &[acl], None).await.unwrap();
    let mut shard = Shard::at(&format!("zk://mesos:s3cret@{servers}{path}"));
    assert_eq!(shard.subscribe().await, Vec::<String>::new());

    let mut stranger = Shard::at(&format!("zk://{servers}{path}"));
    stranger
        .calls
        .send(Call::Subscribe { framework: None })
        .await
        .unwrap();
    let why = stranger.hear_disconnected().await;
    assert!(why.contains("may not be read; give credentials"), "{why}");
}
