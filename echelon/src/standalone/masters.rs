//! The simulated masters of a federation in one process. Each ends by itself and is started again by
//! itself: one whose journal could not be written, on a full disk for example, takes no other with it.

use super::config::Tasks;
use super::folder::Folder;
use crate::roles::mesos_sim;
use anyhow::{Context, Result};
use echelon_io_mesos_sim as sim;
use echelon_io_process::health::Condition;
use echelon_io_process::{Readiness, Shutdown};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Nothing listens to a simulated master any more when it ends.
const GRACE: Duration = Duration::from_secs(2);

/// How long it waits between two tries to start one again.
const AGAIN: Duration = Duration::from_millis(500);

/// A simulated cluster.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    pub name: String,
    pub hosts: usize,
    pub tasks: Tasks,
}

/// The simulated masters; they hold their work folders.
pub(super) struct Masters {
    folder: Arc<Folder>,
    readiness: Readiness,
    all: Vec<Master>,
}

struct Master {
    cluster: Simulated,
    address: SocketAddr,
    /// `None` while it is started again.
    running: Arc<Mutex<Option<sim::Running>>>,
    /// Its end, which its own starts and ends are within.
    end: Shutdown,
}

impl Masters {
    pub(super) fn new(folder: Arc<Folder>, readiness: Readiness) -> Self {
        Self {
            folder,
            readiness,
            all: Vec::new(),
        }
    }

    /// Serves a cluster until [`Masters::end`], at its last address if that is free.
    pub(super) async fn serve(&mut self, cluster: Simulated) -> Result<SocketAddr> {
        let master = self.begin(cluster).await?;
        let address = master.address;
        self.all.push(master);
        Ok(address)
    }

    /// Ends a master, and kills all that its hosts run: a site that loses its power. Returns how many runs
    /// lived.
    pub(super) async fn power_off(&self, cluster: &str) -> Result<usize> {
        let master = self.all.iter().find(|master| master.cluster.name == cluster);
        let master = master.with_context(|| format!("there is no simulated cluster {cluster}"))?;
        master.end.begin();
        master.end.finished().await;
        match master.cluster.tasks {
            Tasks::Processes => Ok(sim::power_off(&self.folder.mesos(cluster)).await?),
            // They lived in the master.
            Tasks::Virtual => Ok(0),
        }
    }

    /// Serves a cluster again whose power was off.
    pub(super) async fn power_on(&mut self, cluster: &str) -> Result<SocketAddr> {
        let master = self.all.iter().find(|master| master.cluster.name == cluster);
        let former = master.with_context(|| format!("there is no simulated cluster {cluster}"))?;
        let again = self.begin(former.cluster.clone()).await?;
        let address = again.address;
        let mut all = self.all.iter_mut();
        if let Some(master) = all.find(|master| master.cluster.name == cluster) {
            *master = again;
        }
        Ok(address)
    }

    async fn begin(&self, cluster: Simulated) -> Result<Master> {
        let shutdown = Shutdown::new(GRACE);
        let served = serve(&self.folder, &cluster, &shutdown).await?;
        let condition = self
            .readiness
            .condition(&format!("mesos-sim-{}", cluster.name), "is started");
        condition.ready();
        let master = Master {
            cluster: cluster.clone(),
            address: served.address,
            running: Arc::new(Mutex::new(Some(served))),
            // Its own grace is within this one.
            end: Shutdown::new(2 * GRACE),
        };
        let keeper = Keeper {
            folder: self.folder.clone(),
            cluster,
            condition,
            running: master.running.clone(),
            end: master.end.clone(),
        };
        master.end.spawn(keeper.keep(shutdown));
        Ok(master)
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|master| master.address).collect()
    }

    /// Breaks every subscription, as a network would.
    pub(super) fn cut_streams(&self) {
        self.each(sim::Running::cut_streams);
    }

    /// How many tasks they track: those that live, and those whose end is not acknowledged.
    pub(super) fn n_tracked(&self) -> usize {
        self.each(sim::Running::n_tracked).into_iter().sum()
    }

    /// Ends all of them.
    pub(super) async fn end(&self) {
        self.all.iter().for_each(|master| master.end.begin());
        for master in &self.all {
            master.end.finished().await;
        }
    }

    /// Kills all that their hosts run, once they have ended.
    pub(super) async fn power_all_off(&self) -> Result<()> {
        for master in &self.all {
            self.power_off(&master.cluster.name).await?;
        }
        Ok(())
    }

    fn each<R>(&self, look: impl Fn(&sim::Running) -> R) -> Vec<R> {
        let look = |master: &Master| locked(&master.running).as_ref().map(&look);
        self.all.iter().filter_map(look).collect()
    }
}

fn locked(running: &Mutex<Option<sim::Running>>) -> std::sync::MutexGuard<'_, Option<sim::Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What looks after one master.
struct Keeper {
    folder: Arc<Folder>,
    cluster: Simulated,
    condition: Condition,
    running: Arc<Mutex<Option<sim::Running>>>,
    end: Shutdown,
}

impl Keeper {
    async fn keep(self, mut shutdown: Shutdown) {
        let end = self.end.token();
        loop {
            let has_ended = end.run_until_cancelled(shutdown.token().cancelled_owned()).await;
            shutdown.begin();
            shutdown.finished().await;
            *locked(&self.running) = None;
            if has_ended.is_none() {
                return;
            }
            let name = &self.cluster.name;
            tracing::error!(
                cluster = name,
                "the simulated master has ended by itself; starting it again"
            );
            self.condition
                .not_ready("the simulated master has ended by itself; it is being started again");
            let Some(again) = end.run_until_cancelled(self.start()).await else {
                return;
            };
            shutdown = again;
            self.condition.ready();
        }
    }

    /// Tries to start it until that succeeds.
    async fn start(&self) -> Shutdown {
        loop {
            tokio::time::sleep(AGAIN).await;
            let shutdown = Shutdown::new(GRACE);
            match serve(&self.folder, &self.cluster, &shutdown).await {
                Ok(served) => {
                    *locked(&self.running) = Some(served);
                    return shutdown;
                }
                Err(error) => {
                    let why = format!("the simulated master does not start: {error:#}");
                    self.condition.not_ready(&why);
                }
            }
        }
    }
}

/// Serves a simulated cluster, at its last address if that is free.
async fn serve(folder: &Folder, cluster: &Simulated, shutdown: &Shutdown) -> Result<sim::Running> {
    let Simulated { name, hosts, tasks } = cluster;
    let mode = match tasks {
        Tasks::Processes => mesos_sim::exec(folder.mesos(name), None)?,
        Tasks::Virtual => mesos_sim::virtual_tasks(),
    };
    let free = mesos_sim::cluster(name.clone(), *hosts, mode);
    let failed = || format!("serve the simulated cluster {name}");
    if let Some(listen) = folder.last_address(name) {
        let again = sim::Config {
            listen,
            ..free.clone()
        };
        match sim::serve(again, shutdown).await {
            Err(sim::ServeError::Listen { .. }) => {}
            served => return served.with_context(failed),
        }
    }
    let running = sim::serve(free, shutdown).await.with_context(failed)?;
    folder.keep_address(name, running.address)?;
    Ok(running)
}
