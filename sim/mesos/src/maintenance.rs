//! Planned maintenance of machines: a schedule, its start, its end (rules R129, R130, S22b, S23).

use crate::cluster::Cluster;
use crate::config::AgentSpec;
use crate::id::AgentId;
use crate::reconcile::time_info;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::master::{ClusterStatus, InverseOfferStatus, Schedule, Window, cluster_status};
use echelon_proto::mesos::v1::{MachineId, Unavailability};
use std::collections::{BTreeMap, BTreeSet};

/// A machine as operators name it; its agents have the same host name and address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Machine {
    hostname: String,
    ip: String,
}

/// The schedule, and which of its machines are down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Maintenance {
    windows: BTreeMap<Machine, Unavailability>,
    down: BTreeSet<Machine>,
}

impl Maintenance {
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }
}

impl Cluster {
    /// An operator posts a schedule, which replaces the one before. Offers of machines whose window changes are rescinded
    /// and come again with `unavailability`. False when it leaves out a machine that is down.
    pub fn schedule_maintenance(&mut self, schedule: &Schedule, now: Timestamp) -> bool {
        let mut windows = BTreeMap::new();
        for window in &schedule.windows {
            let machines = window.machine_ids.iter().map(Machine::from);
            windows.extend(machines.map(|machine| (machine, window.unavailability)));
        }
        let maintenance = &mut self.master.decrees.maintenance;
        if !maintenance
            .down
            .iter()
            .all(|machine| windows.contains_key(machine))
        {
            return false;
        }
        let before = std::mem::replace(&mut maintenance.windows, windows.clone());
        let machines: BTreeSet<&Machine> = before.keys().chain(windows.keys()).collect();
        for machine in machines
            .into_iter()
            .filter(|machine| before.get(machine) != windows.get(machine))
        {
            for agent in self.agents_of(machine) {
                self.rescind_agent(&agent);
                self.rescind_inverse_of(&agent);
                if let Some(member) = self.master.members.get_mut(&agent) {
                    member.answers.clear();
                }
            }
        }
        self.allocate(now);
        true
    }

    /// Maintenance begins: the agents of these machines are removed, and none of them may register. False when one is
    /// not scheduled.
    pub fn start_maintenance(&mut self, machines: &[MachineId], now: Timestamp) -> bool {
        let machines: Vec<Machine> = machines.iter().map(Machine::from).collect();
        let maintenance = &mut self.master.decrees.maintenance;
        if !machines
            .iter()
            .all(|machine| maintenance.windows.contains_key(machine))
        {
            return false;
        }
        maintenance.down.extend(machines.iter().cloned());
        for agent in machines
            .iter()
            .flat_map(|machine| self.agents_of(machine))
            .collect::<Vec<_>>()
        {
            self.remove_agent(&agent, "Operator initiated 'Machine DOWN'", now);
        }
        true
    }

    /// Maintenance is over; the machines leave the schedule. False when one is not down.
    pub fn stop_maintenance(&mut self, machines: &[MachineId]) -> bool {
        let machines: Vec<Machine> = machines.iter().map(Machine::from).collect();
        let maintenance = &mut self.master.decrees.maintenance;
        if !machines.iter().all(|machine| maintenance.down.contains(machine)) {
            return false;
        }
        for machine in &machines {
            maintenance.down.remove(machine);
            maintenance.windows.remove(machine);
        }
        true
    }

    /// The windows of all machines, one each.
    #[must_use]
    pub fn maintenance_schedule(&self) -> Schedule {
        let windows = self.master.decrees.maintenance.windows.iter();
        let windows = windows.map(|(machine, unavailability)| Window {
            machine_ids: vec![MachineId::from(machine)],
            unavailability: *unavailability,
        });
        Schedule {
            windows: windows.collect(),
        }
    }

    /// The machines that are scheduled, with what frameworks answered about them, and those that are down.
    #[must_use]
    pub fn maintenance_status(&self) -> ClusterStatus {
        let Maintenance { windows, down } = &self.master.decrees.maintenance;
        let draining = windows.keys().filter(|machine| !down.contains(*machine));
        ClusterStatus {
            draining_machines: draining
                .map(|machine| cluster_status::DrainingMachine {
                    id: MachineId::from(machine),
                    statuses: self.answers_about(machine),
                })
                .collect(),
            down_machines: down.iter().map(MachineId::from).collect(),
        }
    }

    fn answers_about(&self, machine: &Machine) -> Vec<InverseOfferStatus> {
        let agents = self.agents_of(machine);
        let members = agents.iter().filter_map(|id| self.master.members.get(id));
        let answers = members.flat_map(|member| &member.answers);
        answers
            .map(|(framework, said)| InverseOfferStatus {
                status: said.answer.into(),
                framework_id: framework.proto(),
                timestamp: time_info(said.at),
            })
            .collect()
    }

    /// When an agent's machine will be away.
    pub(crate) fn unavailability(&self, spec: &AgentSpec) -> Option<Unavailability> {
        let windows = &self.master.decrees.maintenance.windows;
        windows
            .iter()
            .find(|(machine, _)| machine.is_of(spec))
            .map(|(_, window)| *window)
    }

    /// Whether an agent's machine is down for maintenance: it may not register.
    pub(crate) fn is_down(&self, spec: &AgentSpec) -> bool {
        self.master
            .decrees
            .maintenance
            .down
            .iter()
            .any(|machine| machine.is_of(spec))
    }

    fn agents_of(&self, machine: &Machine) -> Vec<AgentId> {
        let here = self.agents.iter().filter(|(_, agent)| machine.is_of(&agent.spec));
        here.map(|(id, _)| id.clone()).collect()
    }
}

impl Machine {
    fn is_of(&self, spec: &AgentSpec) -> bool {
        self.hostname == spec.hostname && self.ip == spec.ip
    }
}

impl From<&MachineId> for Machine {
    fn from(id: &MachineId) -> Self {
        Self {
            hostname: id.hostname().to_owned(),
            ip: id.ip().to_owned(),
        }
    }
}

impl From<&Machine> for MachineId {
    fn from(machine: &Machine) -> Self {
        Self {
            hostname: Some(machine.hostname.clone()),
            ip: Some(machine.ip.clone()),
        }
    }
}
