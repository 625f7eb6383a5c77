//! What an operator does for the maintenance of a machine: the plan, its begin, its end. The machine comes back as a new agent.

use crate::mesos::hostname;
use crate::world::{Item, World};
use echelon_core_model::Span;
use echelon_proto::mesos::v1::master::{Schedule, Window};
use echelon_proto::mesos::v1::{DurationInfo, MachineId, TimeInfo, Unavailability};

impl World {
    /// Plans the maintenance of the n-th machine, unless it is planned already.
    pub(crate) fn plan_maintenance(&mut self, cluster: usize, n: usize, (notice, away): (Span, Span)) {
        let from = self.now.plus(notice);
        let Some(c) = self.clusters.get_mut(cluster) else {
            return;
        };
        let hostname = hostname(&c.id, n);
        if c.windows.contains_key(&hostname) {
            return;
        }
        let nanoseconds = |ms: u64| i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let window = Unavailability {
            start: TimeInfo {
                nanoseconds: nanoseconds(from.0),
            },
            duration: Some(DurationInfo {
                nanoseconds: nanoseconds(away.0),
            }),
        };
        c.windows.insert(hostname.clone(), window);
        self.post_schedule(cluster);
        self.queue.plan(
            from,
            Item::BeginMaintenance {
                cluster,
                hostname,
                away,
            },
        );
    }

    fn post_schedule(&mut self, cluster: usize) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            let windows = c.windows.iter().map(|(hostname, window)| Window {
                machine_ids: vec![machine(hostname)],
                unavailability: *window,
            });
            let schedule = Schedule {
                windows: windows.collect(),
            };
            c.mesos.schedule_maintenance(&schedule, now);
        }
        self.flush_mesos(cluster);
    }

    /// The machine goes away with all that runs on it.
    pub(crate) fn begin_maintenance(&mut self, cluster: usize, hostname: String, away: Span) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            let as_it_is = c.mesos.agent_spec(&hostname).cloned();
            c.parked.extend(as_it_is.map(|spec| (hostname.clone(), spec)));
            c.mesos.start_maintenance(&[machine(&hostname)], now);
        }
        self.flush_mesos(cluster);
        self.queue
            .plan(now.plus(away), Item::EndMaintenance { cluster, hostname });
    }

    /// It is back.
    pub(crate) fn end_maintenance(&mut self, cluster: usize, hostname: &str) {
        let now = self.now;
        if let Some(c) = self.clusters.get_mut(cluster) {
            c.mesos.stop_maintenance(&[machine(hostname)]);
            c.windows.remove(hostname);
            // What is on its disks outlives its agent.
            if let Some(spec) = c.parked.remove(hostname) {
                c.mesos.add_agent(spec, now);
            }
        }
        self.flush_mesos(cluster);
    }
}

fn machine(hostname: &str) -> MachineId {
    MachineId {
        hostname: Some(hostname.to_owned()),
        ip: Some("127.0.0.1".to_owned()),
    }
}
