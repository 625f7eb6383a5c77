//! Plays a recording into a simulated cluster.

use crate::compare::{Seen, anonymous, stand_in};
use crate::recording::{Recording, bytes, text};
use crate::step::{Step, steps};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::Call;
use echelon_proto::mesos::v1::{TaskStatus, executor_info};
use echelon_sim_mesos::{
    AgentId, AgentSpec, Bundle, Cluster, Config, ExecutorRun, Executors, Exit, Launch, Leadership, Output,
    Request, Response, Run, StreamEnd, StreamId, Tasks,
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What came of a run.
pub struct Outcome {
    pub n_compared: usize,
    pub differences: Vec<String>,
}

pub struct Player<'a> {
    pub recording: &'a Recording,
    pub cluster: Cluster,
    pub now: Timestamp,
    pub pool: DescriptorPool,
    /// The ids of the recorded masters.
    pub recorded_masters: Vec<String>,
    /// The ids of those that have led here.
    pub simulated_masters: Vec<String>,
    /// Recorded stream ids and those that stand for them.
    stream_ids: BTreeMap<String, StreamId>,
    /// Who reads which stream.
    readers: BTreeMap<StreamId, String>,
    pub open: BTreeMap<String, StreamId>,
    pub agents: Vec<AgentId>,
    pub runs: BTreeMap<String, Run>,
    /// Executors that run several tasks, by name.
    executors: BTreeMap<String, ExecutorRun>,
    /// Runs of custom executors.
    custom: BTreeSet<Run>,
    /// When tasks that were told to end are killed.
    sigkill_at: BTreeMap<Run, Timestamp>,
    /// Simulated updates that carry a uuid: (task, state) to uuid, the newest.
    uuids: BTreeMap<(String, String), String>,
    recorded: BTreeMap<String, Seen>,
    simulated: BTreeMap<String, Seen>,
    pub outcome: Outcome,
}

/// Plays a recording; `phase` is when batches of offers are due, `interval` the time between them.
pub fn play(recording: &Recording, phase: u64, interval: u64) -> Outcome {
    let masters = recording.masters();
    let first = recording
        .of_kind("note")
        .find(|line| text(&line["text"]).starts_with("master start"))
        .unwrap();
    let flags = text(&first["text"]);
    let seconds = |name, default: u64| {
        Recording::flag(flags, name).map_or(default, |text| text.trim_end_matches("secs").parse().unwrap())
    };
    let config = Config {
        port: port(masters[0]),
        allocation_interval: Span::millis(interval),
        agent_timeout: Span::seconds(
            seconds("agent_ping_timeout", 15) * seconds("max_agent_ping_timeouts", 5),
        ),
        offer_timeout: (seconds("offer_timeout", 0) > 0).then(|| Span::seconds(seconds("offer_timeout", 0))),
        executors: Executors::External,
        ..Config::default()
    };
    let mut player = Player {
        recording,
        cluster: Cluster::new(config, 42, Timestamp(phase)),
        now: Timestamp(0),
        pool: DescriptorPool::decode(echelon_proto::FILE_DESCRIPTOR_SET).unwrap(),
        recorded_masters: masters
            .iter()
            .map(|master| text(&master["id"]).to_owned())
            .collect(),
        simulated_masters: Vec::new(),
        stream_ids: BTreeMap::new(),
        readers: BTreeMap::new(),
        open: BTreeMap::new(),
        agents: Vec::new(),
        runs: BTreeMap::new(),
        executors: BTreeMap::new(),
        custom: BTreeSet::new(),
        sigkill_at: BTreeMap::new(),
        uuids: BTreeMap::new(),
        recorded: BTreeMap::new(),
        simulated: BTreeMap::new(),
        outcome: Outcome {
            n_compared: 0,
            differences: Vec::new(),
        },
    };
    player
        .simulated_masters
        .push(player.cluster.master_id().to_owned());
    let steps = steps(recording, phase);
    if steps.iter().any(|(_, step)| matches!(step, Step::Lead)) {
        let _ = player.cluster.set_leadership(Leadership::Recovering);
    }
    for (at, step) in steps {
        player.advance(Timestamp(at));
        player.perform(&step);
        player.take_outputs();
    }
    let end = recording.lines.last().unwrap()["ms"].as_u64().unwrap();
    player.advance(Timestamp(end + 5));
    player.finish()
}

fn port(master: &Value) -> u16 {
    u16::try_from(master["port"].as_u64().unwrap()).unwrap()
}

/// What an update is about and how far that is, with its uuid, when it has one.
fn identity(event: &Value) -> Option<((String, String), String)> {
    let (of_task, of_operation) = (
        &event["update"]["status"],
        &event["update_operation_status"]["status"],
    );
    let task = of_task["uuid"]
        .as_str()
        .map(|uuid| (of_task, &of_task["task_id"], uuid));
    let operation = of_operation["uuid"]["value"].as_str();
    let operation = operation.map(|uuid| (of_operation, &of_operation["operation_id"], uuid));
    let (status, id, uuid) = task.or(operation)?;
    let key = (text(&id["value"]).to_owned(), text(&status["state"]).to_owned());
    Some((key, uuid.to_owned()))
}

impl Player<'_> {
    fn advance(&mut self, to: Timestamp) {
        while let Some(wake) = self.cluster.next_wake().filter(|wake| *wake <= to) {
            self.now = self.now.max(wake);
            self.cluster.tick(self.now);
            self.take_outputs();
        }
        self.now = self.now.max(to);
    }

    fn perform(&mut self, step: &Step<'_>) {
        match step {
            Step::Http(line) => self.http(line),
            Step::Note(note) => self.note(note),
            Step::AddAgent(note) => {
                let spec = self.agent_spec(note);
                self.agents.push(self.cluster.add_agent(spec, self.now));
            }
            Step::HealAgent(i) => {
                self.cluster.heal_agent(&self.agents[*i].clone(), self.now);
            }
            Step::Lead => {
                let _ = self.cluster.set_leadership(Leadership::Leads);
            }
            Step::FailOver(recovery) => self.fail_over(Span::millis(*recovery)),
            Step::LoseExecutor(status) => {
                let run = self.runs[text(&status["task_id"]["value"])].clone();
                self.cluster.exited(&run, &Exit::Lost, self.now);
            }
            Step::EndExecutor(failure) => {
                let executor = self.executors[text(&failure["executor_id"]["value"])].clone();
                let status = i32::try_from(failure["status"].as_i64().unwrap()).unwrap();
                self.cluster.executor_exited(&executor, status, self.now);
            }
            Step::StartAgent(i) => {
                self.cluster.start_agent(&self.agents[*i].clone(), self.now);
            }
            Step::Hangup(who) => {
                if let Some(stream) = self.open.remove(*who) {
                    self.cluster.close_stream(&stream, self.now);
                }
            }
            Step::Report(status) => self.report(status),
        }
    }

    fn note(&mut self, note: &str) {
        if self.happen(note) {
            return;
        }
        if note.starts_with("agent process and everything") || note.starts_with("agent and leading master") {
            self.cluster
                .stop_agent(&self.agents[0].clone(), Tasks::Die, self.now);
        } else if note.contains("leading master") && note.contains("killed") {
            // Stopped, or not yet aware of the new leader: nothing of it gets through for a time.
            self.cluster.cut_agent(&self.agents[0].clone(), self.now);
        } else if note.contains("agent process killed") {
            self.cluster
                .stop_agent(&self.agents[0].clone(), Tasks::Live, self.now);
        } else if note.starts_with("the other agent is killed") {
            self.cluster
                .stop_agent(&self.agents[1].clone(), Tasks::Live, self.now);
        }
    }

    /// The next of the recorded masters leads.
    fn fail_over(&mut self, recovery: Span) {
        let next = self.recording.masters()[self.simulated_masters.len()];
        self.cluster.fail_over(recovery, self.now);
        self.cluster.move_master(port(next));
        self.simulated_masters.push(self.cluster.master_id().to_owned());
    }

    fn agent_spec(&self, note: &str) -> AgentSpec {
        let flag = Recording::flag(note, "resources").unwrap();
        let parts: BTreeMap<&str, &str> = flag.split(';').filter_map(|part| part.split_once(':')).collect();
        let whole = |name: &str| parts.get(name).map_or(0, |n| n.parse::<u64>().unwrap());
        let mut resources = Bundle::of(whole("cpus"), whole("mem"), whole("disk")).with_gpus(whole("gpus"));
        if parts.contains_key("cpus(ra)") {
            let part = Bundle::of(whole("cpus(ra)"), whole("mem(ra)"), 0);
            resources = resources.with_reserved("ra", &part);
        }
        let ports = parts.get("ports").copied().unwrap_or("[31000-32000]");
        let (first, last) = ports.trim_matches(['[', ']']).split_once('-').unwrap();
        let resources = resources.with_ports(first.parse().unwrap(), last.parse().unwrap());
        let mut spec = AgentSpec::new("127.0.0.1", resources);
        spec.http_command_executor = note.contains("--http_command_executor=true");
        spec.port = self
            .recording
            .agent_port(&format!("-S{}", self.agents.len()))
            .unwrap_or(1);
        for attribute in Recording::flag(note, "attributes")
            .into_iter()
            .flat_map(|all| all.split(';'))
        {
            let (name, value) = attribute.split_once(':').unwrap();
            let mut attribute = echelon_sim_mesos::text_attribute(name, value);
            if let Ok(number) = value.parse::<f64>() {
                attribute.text = None;
                attribute.r#type = echelon_proto::mesos::v1::value::Type::Scalar.into();
                attribute.scalar = Some(echelon_proto::mesos::v1::value::Scalar { value: number });
            }
            spec.attributes.push(attribute);
        }
        spec
    }

    fn report(&mut self, status: &Value) {
        let Some(run) = self.runs.get(text(&status["task_id"]["value"])).cloned() else {
            return;
        };
        let message = text(&status["message"]);
        if self.custom.contains(&run) {
            self.cluster.started(&run, self.pid_of(status), self.now);
            self.cluster.reported(&run, &self.status(status), self.now);
        } else if status["state"] == "TASK_STARTING" {
            self.cluster.started(&run, self.pid_of(status), self.now);
        } else if status["reason"] == "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED" {
            let healthy = status["healthy"].as_bool().unwrap();
            self.cluster.checked(&run, healthy, self.now);
        } else if let Some(code) = message.strip_prefix("Command exited with status ") {
            self.cluster
                .exited(&run, &Exit::Code(code.parse().unwrap()), self.now);
        } else if message.ends_with("signal Killed") {
            self.check_grace(&run);
            self.cluster.exited(&run, &Exit::Signal(9), self.now);
        } else if message.ends_with("signal Terminated") {
            self.cluster.exited(&run, &Exit::Signal(15), self.now);
        }
    }

    /// The process behind a task, which not every update tells.
    fn pid_of(&self, status: &Value) -> u32 {
        let pid = |status: &Value| status["container_status"]["executor_pid"].as_u64();
        let later = || {
            let statuses = self.recording.of_kind("event");
            let mut of_task = statuses
                .map(|line| &line["event"]["update"]["status"])
                .filter(|other| other["task_id"] == status["task_id"]);
            of_task.find_map(pid)
        };
        u32::try_from(pid(status).or_else(later).unwrap()).unwrap()
    }

    fn status(&self, recorded: &Value) -> TaskStatus {
        let descriptor = self.pool.get_message_by_name("mesos.v1.TaskStatus").unwrap();
        let message = DynamicMessage::deserialize(descriptor, recorded.clone()).unwrap();
        TaskStatus::decode(message.encode_to_vec().as_slice()).unwrap()
    }

    /// A task that did not obey SIGTERM dies when its grace is over, give or take the time that this takes.
    fn check_grace(&mut self, run: &Run) {
        let Some(due) = self.sigkill_at.get(run).copied() else {
            return;
        };
        self.outcome.n_compared += 1;
        if self.now < due || self.now.since(due) > Span::millis(500) {
            let at = format!("{} killed at {:?}, grace over at {due:?}", run.task, self.now);
            self.outcome.differences.push(at);
        }
    }

    fn http(&mut self, line: &Value) {
        if text(&line["who"]) == "operator" {
            return self.operate(line);
        }
        let standby = line["answer_headers"]["Location"].as_str().map(|location| {
            // It was asked of a master that follows one that it believes to lead.
            let leader = location.trim_start_matches('/').split('/').next().unwrap();
            self.cluster
                .set_leadership(Leadership::Follows(leader.to_owned()))
        });
        let response = if text(&line["path"]).ends_with("/redirect") {
            self.cluster.redirect()
        } else {
            self.request(line)
        };
        if let Some(before) = standby {
            let _ = self.cluster.set_leadership(before);
        }
        self.subscribed(line, &response);
        self.compare_answer(line, &response);
    }

    fn request(&mut self, line: &Value) -> Response {
        let call = if line["call"].is_object() {
            self.call(&line["call"])
        } else {
            self.call(&self.raw_call(line))
        };
        let recorded_stream = line["headers"]["Mesos-Stream-Id"].as_str();
        let mut request = Request::post(call, None);
        request.stream_id =
            recorded_stream.map(|id| self.stream_ids.get(id).map_or(id, StreamId::as_str).to_owned());
        self.cluster.handle(&request, self.now)
    }

    /// The call in the body of a request that was sent as bytes.
    fn raw_call(&self, line: &Value) -> Value {
        let body = bytes(&line["body_b64"]);
        if line["headers"]["Content-Type"] == "application/json" {
            return serde_json::from_slice(&body).unwrap();
        }
        let descriptor = self.pool.get_message_by_name("mesos.v1.scheduler.Call").unwrap();
        self.readable(&DynamicMessage::decode(descriptor, body.as_slice()).unwrap())
    }

    fn readable(&self, message: &DynamicMessage) -> Value {
        let plain = SerializeOptions::new().use_proto_field_name(true);
        message
            .serialize_with_options(serde_json::value::Serializer, &plain)
            .unwrap()
    }

    fn subscribed(&mut self, line: &Value, response: &Response) {
        if let Some(stream) = &response.stream {
            let who = text(&line["who"]).to_owned();
            self.readers.insert(stream.clone(), who.clone());
            self.open.insert(who, stream.clone());
            if let Some(recorded) = line["answer_headers"]["Mesos-Stream-Id"].as_str() {
                self.stream_ids.insert(recorded.to_owned(), stream.clone());
            }
        }
    }

    /// The recorded call with the ids of the simulated run.
    fn call(&self, recorded: &Value) -> Call {
        let mut call = anonymous(recorded, &self.recorded_masters);
        for part in ["/acknowledge/uuid", "/acknowledge_operation_status/uuid"] {
            if let Some(uuid) = call.pointer_mut(part) {
                *uuid = Value::from(self.simulated_uuid(text(uuid)));
            }
        }
        let call = serde_json::from_str::<Value>(&self.with_simulated_ids(&call.to_string())).unwrap();
        let descriptor = self.pool.get_message_by_name("mesos.v1.scheduler.Call").unwrap();
        let message = DynamicMessage::deserialize(descriptor, call).unwrap();
        Call::decode(message.encode_to_vec().as_slice()).unwrap()
    }

    /// A recorded text with the ids of the simulated masters.
    pub fn with_simulated_ids(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (number, recorded) in self.recorded_masters.iter().enumerate() {
            if let Some(simulated) = self.simulated_masters.get(number) {
                text = text
                    .replace(recorded, simulated)
                    .replace(&stand_in(number), simulated);
            }
        }
        text
    }

    fn simulated_uuid(&self, recorded: &str) -> String {
        let mut identities = self
            .recording
            .of_kind("event")
            .filter_map(|line| identity(&line["event"]));
        let key = identities.find(|(_, uuid)| uuid == recorded).map(|(key, _)| key);
        key.and_then(|key| self.uuids.get(&key).cloned())
            .unwrap_or_else(|| recorded.to_owned())
    }

    /// The uuid of the newest simulated update of this state.
    pub fn simulated_uuid_of(&self, id: &str, state: &str) -> String {
        self.uuids[&(id.to_owned(), state.to_owned())].clone()
    }

    /// Sends a call that is in no recording, on an open stream.
    pub fn send(&mut self, who: &str, call: &Value) -> Response {
        let request = Request::post(self.call(call), self.open.get(who));
        self.cluster.handle(&request, self.now)
    }

    fn compare_answer(&mut self, line: &Value, response: &Response) {
        self.outcome.n_compared += 1;
        let mut body = self.with_simulated_ids(text(&line["answer_text"]));
        for (recorded, simulated) in &self.stream_ids {
            body = body.replace(recorded, simulated.as_str());
        }
        let at = format!("{} {}", line["seq"], line["call"]["type"]);
        if line["status"] != response.status {
            self.outcome.differences.push(format!(
                "{at}: {} recorded, {response:?} simulated",
                line["status"]
            ));
        } else if line["answer_headers"]["Location"] != header(response, "Location") {
            self.outcome.differences.push(format!(
                "{at}: {} recorded, {response:?} simulated",
                line["answer_headers"]
            ));
        } else if line["answer_text"].is_string() && body != response.body {
            self.outcome
                .differences
                .push(format!("{at}: {body:?} recorded, {:?} simulated", response.body));
        }
    }

    fn take_outputs(&mut self) {
        for output in self.cluster.drain() {
            match output {
                Output::Event { stream, event } => {
                    let descriptor = self.pool.get_message_by_name("mesos.v1.scheduler.Event").unwrap();
                    let mut message = DynamicMessage::new(descriptor);
                    message.transcode_from(&*event).unwrap();
                    let value = self.readable(&message);
                    self.see(&stream, &value);
                }
                Output::Close { stream, end } => {
                    let broke = self.cluster.crashed().is_some() || self.now > Timestamp(1000);
                    assert!(end == StreamEnd::Finished || broke);
                    self.open.retain(|_, open| *open != stream);
                }
                Output::Launch(launch) => self.launched(*launch),
                Output::Message { executor, data } => {
                    // The recorded custom executor answers every message like this.
                    let echo = [b"echo:".as_slice(), &data].concat();
                    self.cluster.executor_message(&executor, echo);
                }
                Output::Kill { run, grace } => {
                    self.sigkill_at.insert(run, self.now.plus(grace));
                }
                // Whether it died is compared at the end.
                Output::Crash { .. }
                | Output::Destroy { .. }
                | Output::Shutdown(_)
                | Output::Store { .. } => {}
            }
        }
    }

    fn launched(&mut self, launch: Launch) {
        if let Some((executor, info)) = launch.executor {
            if info.r#type() != executor_info::Type::Default {
                self.custom.insert(launch.run.clone());
            }
            self.executors.insert(executor.executor.to_string(), executor);
        }
        self.runs.insert(launch.run.task.to_string(), launch.run);
    }

    fn see(&mut self, stream: &StreamId, event: &Value) {
        self.uuids.extend(identity(event));
        // A refused subscription speaks before its answer is returned.
        let who = self.readers.get(stream).cloned().unwrap_or_default();
        let seen = self.simulated.entry(who).or_default();
        seen.add(event, self.now.0, &self.simulated_masters);
    }

    fn finish(mut self) -> Outcome {
        for line in self.recording.of_kind("event") {
            let seen = self.recorded.entry(text(&line["who"]).to_owned()).or_default();
            seen.add(
                &line["event"],
                line["ms"].as_u64().unwrap(),
                &self.recorded_masters,
            );
        }
        let died = self
            .recording
            .of_kind("note")
            .any(|line| line["text"] == "master alive: False");
        if died != self.cluster.crashed().is_some() {
            let words = format!(
                "master died: {died} recorded, {:?} simulated",
                self.cluster.crashed()
            );
            self.outcome.differences.push(words);
        }
        let empty = Seen::default();
        let all: std::collections::BTreeSet<&String> =
            self.recorded.keys().chain(self.simulated.keys()).collect();
        for who in all {
            let (a, b) = (self.recorded.get(who), self.simulated.get(who));
            let (n, differences) = Seen::differences(a.unwrap_or(&empty), b.unwrap_or(&empty), who);
            self.outcome.n_compared += n;
            self.outcome.differences.extend(differences);
        }
        self.outcome
    }
}

/// A header of a simulated answer, as a recording would have it.
fn header(response: &Response, name: &str) -> Value {
    let found = response.headers.iter().find(|(known, _)| *known == name);
    found.map_or(Value::Null, |(_, value)| Value::from(value.as_str()))
}
