//! Several frameworks at once: shares converge to what is fair, and nobody starves.

use crate::framework::{amount, task_info};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::framework_info::{Capability, capability};
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use echelon_proto::mesos::v1::{Filters, FrameworkInfo, Offer, TaskStatus};
use echelon_sim_mesos::{AgentSpec, Bundle, Cluster, Config, FrameworkId, Output, Request, StreamId};
use std::collections::BTreeMap;

/// A framework that takes all it is offered, for tasks of one CPU.
struct Greedy {
    id: FrameworkId,
    role: &'static str,
    offers: Vec<Offer>,
    n_launched: u64,
    n_offers: u64,
}

/// A cluster of agents with 4 CPUs each, and its frameworks by stream.
struct Crowd {
    cluster: Cluster,
    now: Timestamp,
    frameworks: BTreeMap<StreamId, Greedy>,
}

impl Crowd {
    fn new(n_agents: usize, roles: &[&'static str]) -> Self {
        let mut crowd = Self {
            cluster: Cluster::new(Config::default(), 3, Timestamp(0)),
            now: Timestamp(0),
            frameworks: BTreeMap::new(),
        };
        for role in roles {
            crowd.subscribe(role);
        }
        for n in 0..n_agents {
            let spec = AgentSpec::new(format!("host-{n}"), Bundle::of(4, 4096, 0));
            crowd.cluster.add_agent(spec, crowd.now);
        }
        crowd
    }

    fn subscribe(&mut self, role: &'static str) {
        let capabilities = [capability::Type::MultiRole, capability::Type::PartitionAware];
        let framework_info = FrameworkInfo {
            user: "u".to_owned(),
            name: role.to_owned(),
            roles: vec![role.to_owned()],
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
        let id = FrameworkId::new(format!(
            "{}-{:04}",
            self.cluster.master_id(),
            self.frameworks.len()
        ));
        let stream = self
            .cluster
            .handle(&Request::post(call, None), self.now)
            .stream
            .unwrap();
        let greedy = Greedy {
            id,
            role,
            offers: Vec::new(),
            n_launched: 0,
            n_offers: 0,
        };
        self.frameworks.insert(stream, greedy);
    }

    /// Lets time pass; whoever is offered something uses it at once.
    fn pass(&mut self, span: Span) {
        let end = self.now.plus(span);
        while let Some(wake) = self.cluster.next_wake().filter(|wake| *wake <= end) {
            self.now = wake;
            self.cluster.tick(self.now);
            while self.answer() {}
        }
        self.now = end;
    }

    fn answer(&mut self) -> bool {
        let outputs = self.cluster.drain();
        let any = !outputs.is_empty();
        for output in outputs {
            let Output::Event { stream, event } = output else {
                continue;
            };
            let Some(greedy) = self.frameworks.get_mut(&stream) else {
                continue;
            };
            if let Some(offers) = event.offers {
                greedy.n_offers += offers.offers.len() as u64;
                greedy.offers.extend(offers.offers);
            }
            if let Some(status) = event.update.map(|update| update.status) {
                self.acknowledge(&stream, &status);
            }
        }
        let streams: Vec<StreamId> = self.frameworks.keys().cloned().collect();
        streams.iter().for_each(|stream| self.launch(stream));
        any
    }

    /// A task for each offered CPU; they live 20 s to 40 s, each framework's alike.
    fn launch(&mut self, stream: &StreamId) {
        let greedy = self.frameworks.get_mut(stream).unwrap();
        for offer in std::mem::take(&mut greedy.offers) {
            let greedy = self.frameworks.get_mut(stream).unwrap();
            let n_tasks = amount(&offer.resources, "cpus") / 1000;
            let names = (0..n_tasks).map(|n| format!("t{}", greedy.n_launched + n));
            let runtime = |n: u64| Span(20_000 + (greedy.n_launched + n) * 7919 % 20_000);
            let task_infos = names
                .zip(0..)
                .map(|(name, n)| task_info(&name, &offer, runtime(n)))
                .collect();
            greedy.n_launched += n_tasks;
            let launch = Operation {
                r#type: Some(operation::Type::Launch.into()),
                launch: Some(operation::Launch { task_infos }),
                ..Default::default()
            };
            let accept = Some(call::Accept {
                offer_ids: vec![offer.id.clone()],
                operations: vec![launch],
                filters: Some(Filters {
                    refuse_seconds: Some(0.0),
                }),
            });
            let call = Call {
                r#type: Some(call::Type::Accept.into()),
                accept,
                ..Default::default()
            };
            self.call(stream, call);
        }
    }

    fn acknowledge(&mut self, stream: &StreamId, status: &TaskStatus) {
        let Some(uuid) = status.uuid.clone() else { return };
        let acknowledge = Some(call::Acknowledge {
            agent_id: status.agent_id.clone().unwrap(),
            task_id: status.task_id.clone(),
            uuid,
        });
        let call = Call {
            r#type: Some(call::Type::Acknowledge.into()),
            acknowledge,
            ..Default::default()
        };
        self.call(stream, call);
    }

    fn call(&mut self, stream: &StreamId, call: Call) {
        let framework_id = Some(self.frameworks[stream].id.proto());
        let call = Call { framework_id, ..call };
        let answer = self.cluster.handle(&Request::post(call, Some(stream)), self.now);
        assert_eq!(answer.status, 202, "{answer:?}");
    }

    /// How many tasks each role runs, averaged over a time.
    fn shares(&mut self, span: Span) -> BTreeMap<&'static str, f64> {
        let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
        let n_samples = span.0 / 1000;
        for _ in 0..n_samples {
            self.pass(Span::seconds(1));
            for greedy in self.frameworks.values() {
                *sums.entry(greedy.role).or_default() += self.cluster.n_tasks(&greedy.id) as f64;
            }
        }
        sums.into_iter()
            .map(|(role, sum)| (role, sum / n_samples as f64))
            .collect()
    }
}

/// Every role has the part of all tasks that is fair, within a tenth.
fn check(crowd: &mut Crowd, fair: &[(&str, f64)]) {
    let shares = crowd.shares(Span::minutes(5));
    let all: f64 = shares.values().sum();
    for (role, fair) in fair {
        let part = shares[role] / all;
        assert!(
            (part / fair - 1.0).abs() < 0.1,
            "{role} has {part}, fair is {fair}: {shares:?}"
        );
    }
}

#[test]
fn equal_roles_come_to_equal_shares() {
    let mut crowd = Crowd::new(50, &["a", "b", "c", "d"]);
    // The first is alone for a while and takes everything.
    crowd.pass(Span::minutes(2));
    check(&mut crowd, &[("a", 0.25), ("b", 0.25), ("c", 0.25), ("d", 0.25)]);
    crowd.subscribe("e");
    crowd.pass(Span::minutes(2));
    check(
        &mut crowd,
        &[("a", 0.2), ("b", 0.2), ("c", 0.2), ("d", 0.2), ("e", 0.2)],
    );
}

#[test]
fn a_role_shares_with_its_siblings_not_with_their_children() {
    let mut crowd = Crowd::new(50, &["a", "b/x", "b/y"]);
    crowd.pass(Span::minutes(2));
    check(&mut crowd, &[("a", 0.5), ("b/x", 0.25), ("b/y", 0.25)]);
}

#[test]
fn nobody_starves_among_fifty_frameworks() {
    let roles: Vec<&'static str> = (0..50).map(|n| &*format!("r{n}").leak()).collect();
    let mut crowd = Crowd::new(50, &roles);
    crowd.pass(Span::minutes(2));
    let before: Vec<u64> = crowd.frameworks.values().map(|greedy| greedy.n_offers).collect();
    crowd.pass(Span::minutes(2));
    for (greedy, before) in crowd.frameworks.values().zip(before) {
        assert!(
            greedy.n_offers > before,
            "{} was offered nothing for two minutes",
            greedy.role
        );
    }
    let shares = crowd.shares(Span::minutes(2));
    let (least, most) = shares.values().fold((f64::MAX, 0.0_f64), |(a, b), share| {
        (a.min(*share), b.max(*share))
    });
    assert!(most < 2.0 * least, "{shares:?}");
}
