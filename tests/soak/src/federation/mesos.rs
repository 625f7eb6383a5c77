//! Real masters and agents in the place of the simulated ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use echelon_tests::servers::{Mesos, MesosMember, MesosPrograms, ZooKeeper};

use super::{CLUSTERS, Federation, sample};

/// Agents of each cluster.
const N_AGENTS: u8 = 3;

/// Starts each cluster with these programs, elected in the soak's ZooKeeper; none without programs.
pub(super) fn start(
    programs: Option<&MesosPrograms>,
    zookeeper: &ZooKeeper,
) -> Result<BTreeMap<String, Mesos>> {
    let Some(programs) = programs else {
        return Ok(BTreeMap::new());
    };
    let shard = sample("shard")?;
    let role = shard.get("mesos_role").and_then(toml::Value::as_str);
    let role = role.context("the sample of a shard names no mesos_role")?;
    let points = zookeeper.contact_points();
    let started = CLUSTERS.map(|cluster| {
        let mesos = Mesos::start(programs, &points, cluster, role, N_AGENTS)?;
        Ok((cluster.to_owned(), mesos))
    });
    started.into_iter().collect()
}

impl Federation {
    /// How a shard finds its master: real ones as in production, the simulated one through a link of its own.
    pub(super) fn masters_for(&mut self, shard: &str, cluster: &str) -> Result<String> {
        if let Some(mesos) = self.mesos.get(cluster) {
            return Ok(mesos.zk().to_owned());
        }
        let master = self.master(cluster)?;
        Ok(self.link(&format!("{shard}-master"), master)?.to_string())
    }

    /// Where the master of a cluster that leads now is reached past any proxy.
    pub(super) fn leading_master(&self, cluster: &str) -> Result<SocketAddr> {
        match self.mesos.get(cluster) {
            Some(mesos) => Ok(mesos.leader()?.1),
            None => self.master(cluster),
        }
    }

    /// The name of the master that a fault hits.
    pub(super) fn master_name(&self, cluster: &str) -> Result<String> {
        let Some(mesos) = self.mesos.get(cluster) else {
            return Ok(format!("master-{cluster}"));
        };
        Ok(name_of(cluster, mesos.leader()?.0))
    }

    /// The name of an agent: each time the next one.
    pub(super) fn agent_name(&self, cluster: &str, turn: u32) -> Result<String> {
        // both clusters take turns
        let place = usize::try_from(turn / 2)? % usize::from(N_AGENTS);
        Ok(match self.mesos.get(cluster) {
            Some(_) => name_of(cluster, MesosMember::Agent(place)),
            None => format!("{cluster}-host-{place}"),
        })
    }

    /// The process of a real cluster that has this name; none when it is a process of another kind.
    pub(super) fn mesos_member(&self, name: &str) -> Result<Option<(&Mesos, MesosMember)>> {
        let Some(name) = name.strip_prefix("mesos ") else {
            return Ok(None);
        };
        let words: Vec<&str> = name.split(' ').collect();
        let [cluster, kind, place] = words.as_slice() else {
            bail!("no process mesos {name}");
        };
        let place: usize = place.parse()?;
        let which = match *kind {
            "master" => MesosMember::Master(place),
            "agent" => MesosMember::Agent(place),
            _ => bail!("no process mesos {name}"),
        };
        let mesos = self
            .mesos
            .get(*cluster)
            .with_context(|| format!("no cluster {cluster}"))?;
        Ok(Some((mesos, which)))
    }
}

fn name_of(cluster: &str, which: MesosMember) -> String {
    match which {
        MesosMember::Master(place) => format!("mesos {cluster} master {place}"),
        MesosMember::Agent(place) => format!("mesos {cluster} agent {place}"),
    }
}
