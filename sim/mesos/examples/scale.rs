//! How much memory a large simulated cluster takes: `cargo run --release -p echelon-sim-mesos --example scale`.
//!
//! Prints bytes for each task, and fails above 4 GiB. Arguments: agents, tasks for each agent (50000 and 20).
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measurement reads its process' memory and prints"
)]

use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::framework_info::{Capability, capability};
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_proto::mesos::v1::{
    CommandInfo, FrameworkInfo, Offer, Resource, TaskInfo, TaskState, TaskStatus, value,
};
use echelon_sim_mesos::{AgentSpec, Bundle, Cluster, Config, FrameworkId, Output, Request, StreamId, TaskId};
use std::error::Error;

const LIMIT_BYTES: u64 = 4 << 30;

/// Offers used at once.
const WAVE: usize = 500;

struct Driver {
    cluster: Cluster,
    now: Timestamp,
    framework: FrameworkId,
    stream: StreamId,
    tasks_per_agent: u64,
    /// Offers not used yet: a framework launches in waves.
    offers: Vec<Offer>,
    n_launched: u64,
    n_running: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let n_agents = numbers.next().transpose()?.unwrap_or(50_000);
    let tasks_per_agent = numbers.next().transpose()?.unwrap_or(20);
    let empty = resident_bytes()?;
    let mut cluster = Cluster::new(Config::default(), 1, Timestamp(0));
    for n in 0..n_agents {
        let mut spec = AgentSpec::new(
            format!("host-{n}"),
            Bundle::of(tasks_per_agent, tasks_per_agent * 64, 1000),
        );
        spec.ip = format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255);
        cluster.add_agent(spec, Timestamp(0));
    }
    let with_agents = resident_bytes()?;
    println!("{n_agents} agents: {} MiB", with_agents >> 20);

    let mut driver = Driver::subscribe(cluster, tasks_per_agent).ok_or("the subscription was refused")?;
    let n_tasks = n_agents * tasks_per_agent;
    while driver.n_running < n_tasks && driver.now < Timestamp(600_000) {
        driver.advance();
    }
    let full = resident_bytes()?;
    println!("{} tasks run: {} MiB", driver.n_running, full >> 20);
    println!(
        "{} bytes for each agent",
        (with_agents.saturating_sub(empty)) / n_agents
    );
    println!(
        "{} bytes for each task",
        full.saturating_sub(with_agents) / n_tasks
    );
    if driver.n_running < n_tasks {
        return Err("not all tasks run".into());
    }
    if full > LIMIT_BYTES {
        return Err("more than 4 GiB".into());
    }
    Ok(())
}

impl Driver {
    fn subscribe(mut cluster: Cluster, tasks_per_agent: u64) -> Option<Self> {
        let capabilities = [capability::Type::MultiRole, capability::Type::PartitionAware];
        let framework_info = FrameworkInfo {
            user: "u".to_owned(),
            name: "n".to_owned(),
            roles: vec!["r".to_owned()],
            checkpoint: Some(true),
            capabilities: capabilities
                .map(|kind| Capability {
                    r#type: Some(kind.into()),
                })
                .to_vec(),
            ..Default::default()
        };
        let subscribe = Some(call::Subscribe {
            framework_info,
            ..Default::default()
        });
        let call = Call {
            r#type: Some(call::Type::Subscribe.into()),
            subscribe,
            ..Default::default()
        };
        let framework = FrameworkId::new(format!("{}-0000", cluster.master_id()));
        let stream = cluster.handle(&Request::post(call, None), Timestamp(0)).stream?;
        Some(Self {
            cluster,
            now: Timestamp(0),
            framework,
            stream,
            tasks_per_agent,
            offers: Vec::new(),
            n_launched: 0,
            n_running: 0,
        })
    }

    fn advance(&mut self) {
        self.now = self.now.plus(Span::millis(50));
        self.cluster.tick(self.now);
        for offer in self.offers.split_off(self.offers.len().saturating_sub(WAVE)) {
            self.launch(offer);
        }
        loop {
            let outputs = self.cluster.drain();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                let Output::Event { event, .. } = output else {
                    continue;
                };
                self.offers
                    .extend(event.offers.into_iter().flat_map(|offers| offers.offers));
                if let Some(update) = event.update {
                    self.acknowledge(update.status);
                }
            }
        }
    }

    fn launch(&mut self, offer: Offer) {
        let names = self.n_launched..self.n_launched + self.tasks_per_agent;
        self.n_launched = names.end;
        let task_infos = names
            .map(|n| task_info(&format!("task-0123456789-{n:08}"), &offer))
            .collect();
        let launch = Operation {
            r#type: Some(operation::Type::Launch.into()),
            launch: Some(operation::Launch { task_infos }),
            ..Default::default()
        };
        let accept = Some(call::Accept {
            offer_ids: vec![offer.id],
            operations: vec![launch],
            filters: None,
        });
        self.call(
            call::Type::Accept,
            Call {
                accept,
                ..Default::default()
            },
        );
    }

    fn acknowledge(&mut self, status: TaskStatus) {
        self.n_running += u64::from(status.state() == TaskState::TaskRunning);
        let (Some(uuid), Some(agent_id)) = (status.uuid, status.agent_id) else {
            return;
        };
        let acknowledge = Some(call::Acknowledge {
            agent_id,
            task_id: status.task_id,
            uuid,
        });
        self.call(
            call::Type::Acknowledge,
            Call {
                acknowledge,
                ..Default::default()
            },
        );
    }

    fn call(&mut self, kind: call::Type, call: Call) {
        let call = Call {
            r#type: Some(kind.into()),
            framework_id: Some(self.framework.proto()),
            ..call
        };
        self.cluster
            .handle(&Request::post(call, Some(&self.stream)), self.now);
    }
}

fn task_info(name: &str, offer: &Offer) -> TaskInfo {
    let scalar = |name: &str, value: f64| Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value }),
        ..Default::default()
    };
    TaskInfo {
        name: name.to_owned(),
        task_id: TaskId::new(name).proto(),
        agent_id: offer.agent_id.clone(),
        resources: vec![scalar("cpus", 1.0), scalar("mem", 64.0)],
        command: Some(CommandInfo {
            value: Some("sleep infinity".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// The memory that the process holds.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .ok_or("no VmRSS")?;
    Ok(kibibytes.trim().parse::<u64>()? << 10)
}
