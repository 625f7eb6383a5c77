//! The shard's own client at the simulated master, over HTTP: the list of all agents, who may ask for it, and the fault `lent`.

use crate::client::{config, send};
use bytes::Bytes;
use echelon_core_hosts::{Agent, Call, Event, Launch, Offer, TaskState, TaskStatus};
use echelon_core_model::runtime::Runtime;
use echelon_core_model::sharing::AgentState;
use echelon_core_model::{
    Generation, GroupName, InstanceId, InstanceNumber, JobId, Resources, RunNumber, TaskId,
};
use echelon_io_mesos::{Config, Credential, Framework, Limits, Timing, spawn};
use echelon_io_mesos_sim::{AgentShape, Mode, Running, Span, Virtual, serve};
use echelon_io_process::Shutdown;
use http_body_util::Full;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Far above what anything here takes; only a hanging test sees it.
const PATIENCE: Duration = Duration::from_secs(30);

struct Client {
    running: Running,
    calls: mpsc::Sender<Call>,
    events: mpsc::Receiver<Event>,
    /// The newest offers.
    offers: Vec<Offer>,
    _shutdown: Shutdown,
}

impl Client {
    /// Subscribed at a cluster of two agents that lets one operator in; it says this secret.
    async fn with_secret(secret: &str) -> Self {
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let mut cluster = config(Mode::Virtual(Virtual::default()));
        cluster.agents = vec![AgentShape::small(); 2];
        cluster.operators = vec![("watcher".to_owned(), "right".to_owned())];
        let running = serve(cluster, &shutdown).await.unwrap();
        let config = Config {
            masters: running.address.to_string().parse().unwrap(),
            framework: Framework::named("test"),
            credential: None,
            operator: Some(Credential {
                principal: "watcher".to_owned(),
                secret: secret.to_owned(),
            }),
            timing: Timing::usual(),
            limits: Limits::usual(),
            seed: 1,
        };
        let (calls, called) = mpsc::channel(100);
        let (told, events) = mpsc::channel(1000);
        spawn(config, called, told);
        let mut client = Self {
            running,
            calls,
            events,
            offers: Vec::new(),
            _shutdown: shutdown,
        };
        client.say(Call::Subscribe { framework: None }).await;
        client
            .until(|e| matches!(e, Event::Subscribed { .. }).then_some(()))
            .await;
        client
    }

    async fn say(&self, call: Call) {
        self.calls.send(call).await.unwrap();
    }

    /// The first event of which something is found; offers are kept.
    async fn until<T>(&mut self, find: impl Fn(&Event) -> Option<T>) -> T {
        tokio::time::timeout(PATIENCE, self.found(find)).await.unwrap()
    }

    async fn found<T>(&mut self, find: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.events.recv().await.unwrap();
            if let Event::CallFailed { call, why, .. } = &event {
                panic!("{call:?}: {why}");
            }
            if let Event::Offers(offers) = &event {
                self.offers.extend(offers.iter().cloned());
            }
            if let Some(found) = find(&event) {
                return found;
            }
        }
    }

    async fn list(&mut self) -> Vec<Agent> {
        self.say(Call::ListAgents).await;
        self.until(|e| match e {
            Event::Agents { agents, .. } => Some(agents.clone()),
            _ => None,
        })
        .await
    }

    async fn update(&mut self, state: TaskState) -> TaskStatus {
        let status = self.until(|e| match e {
            Event::Update(status) if status.state == state => Some(status.clone()),
            _ => None,
        });
        let status = status.await;
        if let (Some(host), Some(uuid)) = (status.host.clone(), status.uuid) {
            let task = status.task.clone();
            self.say(Call::Acknowledge { task, host, uuid }).await;
        }
        status
    }

    /// A host lends so many cores from now on.
    async fn lend(&self, host: &str, cpus: u64) {
        let body = format!(r#"{{"fault":"lent","agent":"{host}","cpus":{cpus},"memory_mib":0}}"#);
        let request = http::Request::post("/sim/v1/faults")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        assert_eq!(send(self.running.address, request).await.status(), 200);
    }
}

/// A task that runs on lent cores and ordinary memory.
fn revocable(cores: u64) -> Launch {
    let task = TaskId {
        instance: InstanceId {
            job: JobId(1),
            group: GroupName::new(GroupName::DEFAULT),
            number: InstanceNumber(0),
        },
        generation: Generation(1),
        run: RunNumber(1),
    };
    let lent = Resources {
        cpus: cores * 1000,
        ..Resources::ZERO
    };
    Launch {
        name: "lent".to_owned(),
        discovery: "lent".to_owned(),
        task,
        runtime: Runtime::shell("true"),
        ports: Vec::new(),
        resources: Resources { memory: 64, ..lent },
        revocable: lent,
        reserved: Vec::new(),
        volume: None,
        grace: Span::seconds(1),
        max_run: None,
        labels: BTreeMap::new(),
        sidecars: Vec::new(),
    }
}

#[tokio::test]
async fn agents_are_listed_to_operators_only() {
    let mut client = Client::with_secret("right").await;
    let mut agents = client.list().await;
    agents.sort_by(|a, b| a.hostname.cmp(&b.hostname));
    let names: Vec<&str> = agents.iter().map(|a| &*a.hostname).collect();
    assert_eq!(names, ["alpha-host-0", "alpha-host-1"]);
    assert!(
        agents
            .iter()
            .all(|a| a.state == AgentState::Active && a.total.cpus == 4000)
    );
    let mut stranger = Client::with_secret("wrong").await;
    stranger.say(Call::ListAgents).await;
    let unlisted = stranger.until(|e| match e {
        Event::Unlisted { why } => Some(why.clone()),
        _ => None,
    });
    assert!(unlisted.await.contains("401"));
    // The subscription stands.
    let tasks = vec![("nobody".to_owned(), None)];
    stranger.say(Call::Reconcile { tasks }).await;
    stranger.update(TaskState::Unknown).await;
}

#[tokio::test]
async fn a_host_lends_as_much_as_is_asked_for_and_ends_what_runs_on_more() {
    let mut client = Client::with_secret("right").await;
    client.lend("alpha-host-0", 3).await;
    let lent = |agents: &[Agent]| -> Vec<(String, u64)> {
        let lending = agents.iter().filter(|a| !a.lent.is_zero());
        lending.map(|a| (a.hostname.to_string(), a.lent.cpus)).collect()
    };
    let agents = client.list().await;
    assert_eq!(lent(&agents), [("alpha-host-0".to_owned(), 3000)]);
    let host = agents.iter().find(|a| !a.lent.is_zero()).unwrap().host.clone();
    // Its ordinary room is out already, so that what it lends comes alone (R91).
    while !client.offers.iter().any(|o| o.revocable.cpus == 3000) {
        client
            .until(|e| matches!(e, Event::Offers(_)).then_some(()))
            .await;
    }
    let offers: Vec<Offer> = client.offers.drain(..).filter(|o| o.host == host).collect();
    assert_eq!(offers.len(), 2);
    let accept = Call::Accept {
        offers: offers.into_iter().map(|o| o.id).collect(),
        host: host.clone(),
        launches: vec![revocable(2)],
        refuse: Span::ZERO,
    };
    client.say(accept).await;
    client.update(TaskState::Starting).await;
    client.update(TaskState::Running).await;
    let agents = client.list().await;
    let agent = agents.iter().find(|a| a.host == host).unwrap();
    assert_eq!(
        (agent.lent.cpus, agent.of_role.cpus, agent.of_role.memory),
        (3000, 0, 64)
    );
    client.lend("alpha-host-0", 1).await;
    let ended = client.update(TaskState::Gone).await;
    assert_eq!(ended.reason, "CONTAINER_PREEMPTED");
    client.lend("alpha-host-0", 0).await;
    assert_eq!(lent(&client.list().await), []);
}
