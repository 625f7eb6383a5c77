//! Waiting for the simulated clusters of this process. Instances are divided over the clusters that are known when they are
//! admitted: a job that comes as soon as one may be taken would be given to the first cluster alone, and to its first hosts.

use crate::standalone::Config;
use anyhow::{Context, Result};
use echelon_clients_rust::{self as client, Client, v1};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is to be heard.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    clusters: usize,
    hosts: usize,
}

impl Wanted {
    /// All simulated clusters with all their hosts.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let hosts = config.simulated_hosts();
        Self {
            clusters: hosts.len(),
            hosts: hosts.iter().sum(),
        }
    }

    /// Waits until the resource manager has heard of all that.
    ///
    /// # Errors
    /// When it has not within a minute, or the gateway cannot be asked.
    pub async fn wait(self, gateway: &Client) -> Result<()> {
        let all_heard = async {
            loop {
                let all = client::clusters(gateway, v1::ListClustersRequest::default(), usize::MAX)
                    .await?
                    .rows;
                let healthy = all.iter().filter(|c| c.health() == v1::Health::Healthy);
                let (clusters, hosts) = healthy.fold((0, 0), |(n, hosts), c| (n + 1, hosts + c.hosts));
                if clusters >= self.clusters && usize::try_from(hosts).unwrap_or(usize::MAX) >= self.hosts {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(DEADLINE, all_heard)
            .await
            .context("not every cluster was heard within a minute")?
    }
}
