//! Two processes of a shard, each with its own way to one simulated master. The way of the leader is cut.

use super::mesos_sim;
use super::shard::plain_mesos;
use crate::process::metrics_of;
use echelon_core_model::ClusterId;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::Decision;
use echelon_io_membership::in_process::Hub;
use echelon_io_membership::{Membership, Role, Sighting, Timeouts};
use echelon_io_process::config::Common;
use echelon_io_process::{Clock, Contacts, Readiness, Shutdown};
use echelon_io_storage::Store;
use echelon_shard::{Config, DriverTiming, Parts, Running, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A leader gives way after ten seconds; a busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Carries connections to a master until it is cut; then it takes none and ends those that there are.
async fn relay(master: SocketAddr, cut: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(cut.clone().run_until_cancelled_owned(async move {
        loop {
            let Ok((mut near, _)) = listener.accept().await else {
                continue;
            };
            tokio::spawn(cut.clone().run_until_cancelled_owned(async move {
                let mut far = TcpStream::connect(master).await?;
                tokio::io::copy_bidirectional(&mut near, &mut far).await
            }));
        }
    }));
    address
}

struct Ground {
    store: Arc<dyn Store>,
    hub: Hub,
    shutdown: Shutdown,
}

impl Ground {
    async fn shard(&self, name: &str, masters: SocketAddr) -> Running {
        let parts = Parts {
            store: self.store.clone(),
            membership: Arc::new(self.hub.connect(name)),
            clock: Clock::new(),
            metrics: metrics_of(&[("role", "shard")]).unwrap(),
            readiness: Readiness::default(),
            contacts: Contacts::default(),
            build: "test".to_owned(),
            shutdown: self.shutdown.clone(),
        };
        let config = Config {
            listen: Common::default().listen,
            advertise: None,
            cluster: "east".to_owned(),
            mesos: plain_mesos(&masters.to_string()).unwrap(),
            holder: name.to_owned(),
            seed: 1,
            timing: DriverTiming::default(),
        };
        let cluster = Cluster::new(ClusterId::new("east"), "east");
        let added = Decision::PutCluster {
            cluster,
            expected: None,
        };
        // Of two shards the first one's is the one that counts.
        let _ = self.store.decide(added).await.unwrap();
        serve(config, parts).await.unwrap()
    }

    async fn until_leads(&self, shard: &Running) {
        let mut seen = self
            .hub
            .connect("test")
            .watch(&Role::Shard(shard.cluster.clone()));
        let address = format!("http://{}", shard.address);
        let leads = |s: &Sighting| s.record().is_some_and(|leader| leader.address == address);
        let waited = tokio::time::timeout(PATIENCE, seen.wait_for(leads)).await;
        waited.expect("it leads in the end").unwrap();
    }

    async fn until_able(&self, shard: &Running, n_able: usize) {
        let membership = self.hub.connect("test");
        let role = Role::Shard(shard.cluster.clone());
        let all_able = async {
            loop {
                let all = membership.candidates(&role).await.unwrap();
                if all.iter().filter(|candidate| candidate.able).count() == n_able {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all_able)
            .await
            .expect("they are able");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_reach_mesos_hands_over_to_a_standby_that_can() {
    let shutdown = Shutdown::new(Duration::from_secs(5));
    let config = mesos_sim::cluster("east".to_owned(), 1, mesos_sim::virtual_tasks());
    let master = echelon_io_mesos_sim::serve(config, &shutdown).await.unwrap();
    let ground = Ground {
        store: echelon_io_storage::open_checked("memory:").await.unwrap(),
        hub: Hub::new(Timeouts::default()),
        shutdown,
    };
    let cuts = [CancellationToken::new(), CancellationToken::new()];
    let first = ground
        .shard("first", relay(master.address, cuts[0].clone()).await)
        .await;
    ground.until_leads(&first).await;
    let second = ground
        .shard("second", relay(master.address, cuts[1].clone()).await)
        .await;
    ground.until_able(&first, 2).await;
    cuts[0].cancel();
    ground.until_leads(&second).await;
    ground.until_able(&second, 1).await;
}
