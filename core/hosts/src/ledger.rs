//! Our tasks and the room that they take: launched, or told by storage, and not known to have ended.

use echelon_core_model::runtime::Port;
use echelon_core_model::{GroupName, HostId, JobId, PortSet, Resources, TaskId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
struct Taken {
    host: HostId,
    need: Need,
}

/// What one run takes of its host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// Ordinary room.
    pub resources: Resources,
    /// Room that the host only lends.
    pub revocable: Resources,
    /// Ports.
    pub ports: PortSet,
    /// It is of several tasks: that its main task is dead does not mean that all of it is.
    pub pod: bool,
}

impl Need {
    /// Of a task with these ports; `revocable` is the part of its room that the host only lends.
    #[must_use]
    pub fn new(room: Resources, revocable: Resources, ports: &[Port]) -> Self {
        Self {
            resources: room.minus(revocable),
            revocable,
            ports: ports.iter().map(|p| p.number).collect(),
            pod: false,
        }
    }

    /// The same of a pod.
    #[must_use]
    pub fn of_pod(self) -> Self {
        Self { pod: true, ..self }
    }
}

/// What our tasks take on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Ordinary room of all tasks.
    pub resources: Resources,
    /// Room of all tasks that the host only lends.
    pub revocable: Resources,
    /// How many.
    pub tasks: u32,
}

/// Tasks with their hosts.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    tasks: BTreeMap<TaskId, Taken>,
    hosts: BTreeMap<HostId, Used>,
    groups: BTreeMap<(JobId, GroupName), BTreeMap<HostId, u32>>,
    /// How many tasks have each port; only hosts where a task has any. An ended task may be told after its port was used again
    /// (R97), so there may be two.
    ports: BTreeMap<HostId, BTreeMap<u16, u32>>,
}

impl Ledger {
    /// Whether a task is counted.
    pub fn holds(&self, task: &TaskId) -> bool {
        self.tasks.contains_key(task)
    }

    /// Whether a task is counted with just this.
    pub fn is_counted(&self, task: &TaskId, host: &HostId, need: &Need) -> bool {
        self.tasks
            .get(task)
            .is_some_and(|taken| taken.host == *host && taken.need == *need)
    }

    /// Whether a task is counted as the main one of a pod.
    pub fn is_pod(&self, task: &TaskId) -> bool {
        self.tasks.get(task).is_some_and(|taken| taken.need.pod)
    }

    /// Counts a task; false when it is counted already.
    pub fn add(&mut self, task: &TaskId, host: &HostId, need: &Need) -> bool {
        if self.holds(task) {
            return false;
        }
        let taken = Taken {
            host: host.clone(),
            need: need.clone(),
        };
        self.tasks.insert(task.clone(), taken);
        let used = self.hosts.entry(host.clone()).or_default();
        used.resources = used.resources.plus(need.resources);
        used.revocable = used.revocable.plus(need.revocable);
        used.tasks = used.tasks.saturating_add(1);
        let count = self.groups.entry(group_of(task)).or_default();
        *count.entry(host.clone()).or_default() += 1;
        if !need.ports.is_empty() {
            let held = self.ports.entry(host.clone()).or_default();
            need.ports
                .iter()
                .for_each(|port| *held.entry(port).or_default() += 1);
        }
        true
    }

    /// Stops counting a task; its host and its ordinary room, if it was counted.
    pub fn remove(&mut self, task: &TaskId) -> Option<(HostId, Resources)> {
        let Taken { host, need } = self.tasks.remove(task)?;
        if !need.ports.is_empty()
            && let Some(held) = self.ports.get_mut(&host)
        {
            for port in need.ports.iter() {
                if let Some(n) = held.get_mut(&port) {
                    *n = n.saturating_sub(1);
                }
            }
            held.retain(|_, n| *n > 0);
            if held.is_empty() {
                self.ports.remove(&host);
            }
        }
        if let Some(used) = self.hosts.get_mut(&host) {
            used.resources = used.resources.minus(need.resources);
            used.revocable = used.revocable.minus(need.revocable);
            used.tasks = used.tasks.saturating_sub(1);
            if used.tasks == 0 {
                self.hosts.remove(&host);
            }
        }
        let key = group_of(task);
        if let Some(counts) = self.groups.get_mut(&key) {
            if let Some(n) = counts.get_mut(&host) {
                *n = n.saturating_sub(1);
            }
            counts.retain(|_, n| *n > 0);
            if counts.is_empty() {
                self.groups.remove(&key);
            }
        }
        Some((host, need.resources))
    }

    /// What our tasks take on a host.
    pub fn used(&self, host: &HostId) -> Used {
        self.hosts.get(host).copied().unwrap_or_default()
    }

    /// Our tasks on some hosts. `O(tasks)`.
    pub fn tasks_on(&self, hosts: &BTreeSet<HostId>) -> Vec<TaskId> {
        let there = self.tasks.iter().filter(|(_, taken)| hosts.contains(&taken.host));
        there.map(|(task, _)| task.clone()).collect()
    }

    /// The ports that our tasks have on a host.
    pub fn ports(&self, host: &HostId) -> PortSet {
        self.ports
            .get(host)
            .into_iter()
            .flatten()
            .map(|(p, _)| *p)
            .collect()
    }

    /// How many tasks of a group each host has.
    pub fn of_group(&self, job: JobId, group: &GroupName) -> BTreeMap<HostId, u32> {
        self.groups
            .get(&(job, group.clone()))
            .cloned()
            .unwrap_or_default()
    }
}

fn group_of(task: &TaskId) -> (JobId, GroupName) {
    (task.instance.job, task.instance.group.clone())
}
