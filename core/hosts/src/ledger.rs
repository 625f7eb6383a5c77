//! Our tasks and the room that they take: launched, or told by storage, and not known to have ended.

use echelon_core_model::runtime::Port;
use echelon_core_model::{
    Generation, GroupName, HostId, InstanceId, InstanceNumber, JobId, PortSet, Resources, RunNumber, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a task takes, and where. Most tasks of a group take the same, which is there once.
#[derive(Debug, Clone)]
struct Taken {
    host: HostId,
    need: Arc<Need>,
}

/// A task within its group.
type Member = (InstanceNumber, Generation, RunNumber);

/// The tasks of a group.
#[derive(Debug, Clone, Default)]
struct OfGroup {
    tasks: BTreeMap<Member, Taken>,
    hosts: BTreeMap<HostId, u32>,
    /// What the task takes that was counted last.
    need: Arc<Need>,
}

impl OfGroup {
    fn count(&mut self, member: Member, host: HostId, need: &Need) {
        if *self.need != *need {
            self.need = Arc::new(need.clone());
        }
        *self.hosts.entry(host.clone()).or_default() += 1;
        let need = Arc::clone(&self.need);
        self.tasks.insert(member, Taken { host, need });
    }

    fn discount(&mut self, member: Member) -> Option<Taken> {
        let taken = self.tasks.remove(&member)?;
        if let Some(n) = self.hosts.get_mut(&taken.host) {
            *n = n.saturating_sub(1);
            if *n == 0 {
                self.hosts.remove(&taken.host);
            }
        }
        Some(taken)
    }
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

/// How much of a list is made at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Tasks that are found.
    pub tasks: usize,
    /// Tasks and groups that are looked at.
    pub looks: usize,
}

/// A part of a list of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskPage {
    /// Those that were found.
    pub tasks: Vec<TaskId>,
    /// Where to go on; `None`: that was all.
    pub next: Option<TaskId>,
}

/// Tasks with their hosts.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    groups: BTreeMap<(JobId, GroupName), OfGroup>,
    hosts: BTreeMap<HostId, Used>,
    /// How many tasks have each port; only hosts where a task has any. An ended task may be told after its port was used again
    /// (R97), so there may be two.
    ports: BTreeMap<HostId, BTreeMap<u16, u32>>,
}

impl Ledger {
    fn find(&self, task: &TaskId) -> Option<&Taken> {
        self.groups.get(&group_of(task))?.tasks.get(&member_of(task))
    }

    /// Whether a task is counted.
    pub fn holds(&self, task: &TaskId) -> bool {
        self.find(task).is_some()
    }

    /// Whether a task is counted with just this.
    pub fn is_counted(&self, task: &TaskId, host: &HostId, need: &Need) -> bool {
        self.find(task)
            .is_some_and(|taken| taken.host == *host && *taken.need == *need)
    }

    /// Whether a task is counted as the main one of a pod.
    pub fn is_pod(&self, task: &TaskId) -> bool {
        self.find(task).is_some_and(|taken| taken.need.pod)
    }

    /// Counts a task; false when it is counted already.
    pub fn add(&mut self, task: &TaskId, host: &HostId, need: &Need) -> bool {
        let group = self.groups.entry(group_of(task)).or_default();
        if group.tasks.contains_key(&member_of(task)) {
            return false;
        }
        group.count(member_of(task), host.clone(), need);
        let used = self.hosts.entry(host.clone()).or_default();
        used.resources = used.resources.plus(need.resources);
        used.revocable = used.revocable.plus(need.revocable);
        used.tasks = used.tasks.saturating_add(1);
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
        let key = group_of(task);
        let group = self.groups.get_mut(&key)?;
        let Taken { host, need } = group.discount(member_of(task))?;
        if group.tasks.is_empty() {
            self.groups.remove(&key);
        }
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
        Some((host, need.resources))
    }

    /// What our tasks take on a host.
    pub fn used(&self, host: &HostId) -> Used {
        self.hosts.get(host).copied().unwrap_or_default()
    }

    /// Our tasks on some hosts. `O(tasks)`.
    pub fn tasks_on(&self, hosts: &BTreeSet<HostId>) -> Vec<TaskId> {
        let all = self
            .groups
            .iter()
            .flat_map(|(group, of)| of.tasks.iter().map(move |(member, taken)| (group, member, taken)));
        let there = all.filter(|(_, _, taken)| hosts.contains(&taken.host));
        there.map(|(group, member, _)| task_of(group, *member)).collect()
    }

    /// Our tasks on some hosts in order of job, group and instance, from this one on. It looks at so many
    /// tasks and groups at most.
    pub fn tasks_from(&self, hosts: &BTreeSet<HostId>, from: Option<&TaskId>, most: Most) -> TaskPage {
        let mut page = TaskPage::default();
        let mut looks = most.looks;
        let first = from.map(group_of);
        let groups = match &first {
            Some(key) => self.groups.range(key..),
            None => self.groups.range(..),
        };
        for (key, of) in groups {
            let within = from.filter(|_| first.as_ref() == Some(key)).map(member_of);
            let tasks = match within {
                Some(member) => of.tasks.range(member..),
                None => of.tasks.range(..),
            };
            // Of most groups nothing is there.
            let is_there = hosts.iter().any(|host| of.hosts.contains_key(host));
            for (member, taken) in tasks {
                if looks == 0 || page.tasks.len() >= most.tasks {
                    page.next = Some(task_of(key, *member));
                    return page;
                }
                looks -= 1;
                if !is_there {
                    break;
                }
                if hosts.contains(&taken.host) {
                    page.tasks.push(task_of(key, *member));
                }
            }
        }
        page
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
        let of = self.groups.get(&(job, group.clone()));
        of.map(|of| of.hosts.clone()).unwrap_or_default()
    }
}

fn group_of(task: &TaskId) -> (JobId, GroupName) {
    (task.instance.job, task.instance.group.clone())
}

const fn member_of(task: &TaskId) -> Member {
    (task.instance.number, task.generation, task.run)
}

fn task_of((job, group): &(JobId, GroupName), (number, generation, run): Member) -> TaskId {
    TaskId {
        instance: InstanceId {
            job: *job,
            group: group.clone(),
            number,
        },
        generation,
        run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: u128, number: u32) -> TaskId {
        let group = GroupName::parse("main").unwrap();
        task_of(
            &(JobId(job), group),
            (InstanceNumber(number), Generation(1), RunNumber(1)),
        )
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for job in 1..=3 {
            for number in 0..4 {
                // The second job is elsewhere.
                let host = if job == 2 || number == 3 { "other" } else { "one" };
                ledger.add(&task(job, number), &HostId::new(host), &Need::default());
            }
        }
        ledger
    }

    fn all_on(host: &str, most: Most) -> (Vec<TaskId>, usize) {
        let (ledger, hosts) = (ledger(), BTreeSet::from([HostId::new(host)]));
        let (mut found, mut from, mut pages) = (Vec::new(), None, 0);
        loop {
            let page = ledger.tasks_from(&hosts, from.as_ref(), most);
            assert!(page.tasks.len() <= most.tasks);
            found.extend(page.tasks);
            pages += 1;
            match page.next {
                Some(next) => from = Some(next),
                None => return (found, pages),
            }
        }
    }

    #[test]
    fn what_is_on_a_host_is_listed_in_parts_and_each_task_once() {
        let wanted: Vec<TaskId> = [1, 3]
            .into_iter()
            .flat_map(|job| (0..3).map(move |n| task(job, n)))
            .collect();
        for (tasks, looks) in [(100, 100), (1, 100), (2, 100), (100, 1), (100, 3), (1, 1)] {
            let (found, pages) = all_on("one", Most { tasks, looks });
            assert_eq!(found, wanted, "{tasks} {looks}");
            assert_eq!(pages == 1, tasks == 100 && looks == 100);
        }
        assert_eq!(all_on("nowhere", Most { tasks: 9, looks: 9 }), (Vec::new(), 1));
    }

    #[test]
    fn a_task_that_ended_between_two_parts_is_passed_over() {
        let (mut ledger, hosts) = (ledger(), BTreeSet::from([HostId::new("one")]));
        let most = Most { tasks: 2, looks: 100 };
        let next = ledger.tasks_from(&hosts, None, most).next.unwrap();
        assert_eq!(next, task(1, 2));
        ledger.remove(&next);
        let rest = ledger.tasks_from(&hosts, Some(&next), Most { tasks: 1, looks: 100 });
        assert_eq!(rest.tasks, [task(3, 0)]);
    }
}
