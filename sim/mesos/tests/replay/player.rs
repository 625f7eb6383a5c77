//! Plays a recording into a simulated cluster.

use crate::compare::{Seen, anonymous};
use crate::recording::{Recording, text};
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::Call;
use echelon_sim_mesos::{
    AgentId, AgentSpec, Bundle, Cluster, Config, Executors, Exit, Output, Request, Response, Run, StreamEnd,
    StreamId, Tasks,
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;
use std::collections::BTreeMap;

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
    /// The recorded master's id.
    pub recorded_master: String,
    /// Recorded stream ids and those that stand for them.
    stream_ids: BTreeMap<String, StreamId>,
    /// Who reads which stream.
    readers: BTreeMap<StreamId, String>,
    pub open: BTreeMap<String, StreamId>,
    pub agents: Vec<AgentId>,
    runs: BTreeMap<String, Run>,
    /// Simulated updates that carry a uuid: (task, state) to uuid, the newest.
    uuids: BTreeMap<(String, String), String>,
    recorded: BTreeMap<String, Seen>,
    simulated: BTreeMap<String, Seen>,
    pub outcome: Outcome,
}

/// Plays a recording; `phase` is when batches of offers are due.
pub fn play(recording: &Recording, phase: u64) -> Outcome {
    let info = recording.master_info();
    let first = recording
        .of_kind("note")
        .find(|line| text(&line["text"]).starts_with("master start"))
        .unwrap();
    let flags = text(&first["text"]);
    let seconds = |name, default: u64| {
        Recording::flag(flags, name).map_or(default, |text| text.trim_end_matches("secs").parse().unwrap())
    };
    let config = Config {
        port: u16::try_from(info["port"].as_u64().unwrap()).unwrap(),
        allocation_interval: Span::millis(250),
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
        recorded_master: text(&info["id"]).to_owned(),
        stream_ids: BTreeMap::new(),
        readers: BTreeMap::new(),
        open: BTreeMap::new(),
        agents: Vec::new(),
        runs: BTreeMap::new(),
        uuids: BTreeMap::new(),
        recorded: BTreeMap::new(),
        simulated: BTreeMap::new(),
        outcome: Outcome {
            n_compared: 0,
            differences: Vec::new(),
        },
    };
    for (at, step) in steps(recording) {
        player.advance(Timestamp(at));
        player.perform(&step);
        player.take_outputs();
    }
    let end = recording.lines.last().unwrap()["ms"].as_u64().unwrap();
    player.advance(Timestamp(end + 5));
    player.finish()
}

/// One thing to do to the simulated cluster.
enum Step<'a> {
    Http(&'a Value),
    Note(&'a str),
    StartAgent(usize),
    Hangup(&'a str),
    /// An executor says what a recorded update tells.
    Report(&'a Value),
}

fn steps(recording: &Recording) -> Vec<(u64, Step<'_>)> {
    let mut steps = Vec::new();
    let began = recording.began_at();
    let mut reported: Vec<&str> = Vec::new();
    for (i, line) in recording.lines.iter().enumerate() {
        let at = line["ms"].as_u64().unwrap();
        match text(&line["kind"]) {
            "http" => steps.push((at, Step::Http(line))),
            "note" => match text(&line["text"]).strip_prefix("agent start again (agent") {
                // An agent takes seconds to recover, which the recording does not tell: it is back with its first sign.
                Some(rest) => steps.push((
                    sign_of_life(recording, i),
                    Step::StartAgent(rest[..1].parse().unwrap()),
                )),
                None if text(&line["text"]).starts_with("the agent's estimator") => {
                    steps.push((first_revocable(recording), Step::Note(text(&line["text"]))));
                }
                None => steps.push((at, Step::Note(text(&line["text"])))),
            },
            "closed" if text(&line["why"]).starts_with("IncompleteRead") => {
                steps.push((at, Step::Hangup(text(&line["who"]))));
            }
            "event" => {
                let status = &line["event"]["update"]["status"];
                let uuid = text(&status["uuid"]);
                if text(&status["source"]) == "SOURCE_EXECUTOR" && !reported.contains(&uuid) {
                    reported.push(uuid);
                    let ms = (status["timestamp"].as_f64().unwrap() * 1000.0 - began).max(0.0);
                    steps.push((ms as u64, Step::Report(status)));
                }
            }
            _ => {}
        }
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

/// Just before the next event that only a connected agent can cause.
fn sign_of_life(recording: &Recording, note: usize) -> u64 {
    let mut later = recording.lines[note..]
        .iter()
        .filter(|line| line["kind"] == "event");
    let sign = later.find(|line| {
        let status = &line["event"]["update"]["status"];
        line["type"] == "OFFERS"
            || status["reason"] == "REASON_AGENT_REREGISTERED"
            || status["uuid"].is_string()
    });
    sign.unwrap()["ms"].as_u64().unwrap() - 1
}

/// Just before the first offer of revocable resources: an agent makes its estimates at moments of its own.
fn first_revocable(recording: &Recording) -> u64 {
    let mut offers = recording.of_kind("event").filter(|line| line["type"] == "OFFERS");
    let first = offers.find(|line| line["event"].to_string().contains("revocable"));
    first.unwrap()["ms"].as_u64().unwrap() - 1
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
        if note.starts_with("agent start (agent") {
            let spec = self.agent_spec(note);
            self.agents.push(self.cluster.add_agent(spec, self.now));
        } else if note.starts_with("agent process and everything") {
            self.cluster
                .stop_agent(&self.agents[0].clone(), Tasks::Die, self.now);
        } else if note.contains("agent process killed") {
            self.cluster
                .stop_agent(&self.agents[0].clone(), Tasks::Live, self.now);
        } else if note.starts_with("the other agent is killed") {
            self.cluster
                .stop_agent(&self.agents[1].clone(), Tasks::Live, self.now);
        }
    }

    fn agent_spec(&self, note: &str) -> AgentSpec {
        let flag = Recording::flag(note, "resources").unwrap();
        let parts: BTreeMap<&str, &str> = flag.split(';').filter_map(|part| part.split_once(':')).collect();
        let whole = |name| parts.get(name).map_or(0, |n| n.parse::<u64>().unwrap());
        let mut resources = Bundle::of(whole("cpus"), whole("mem"), whole("disk")).with_gpus(whole("gpus"));
        if let Some((first, last)) = parts
            .get("ports")
            .and_then(|ports| ports.trim_matches(['[', ']']).split_once('-'))
        {
            resources = resources.with_ports(first.parse().unwrap(), last.parse().unwrap());
        }
        let mut spec = AgentSpec::new("127.0.0.1", resources);
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
        let pid = status["container_status"]["executor_pid"].as_u64().unwrap();
        let message = text(&status["message"]);
        if status["state"] == "TASK_STARTING" {
            self.cluster.started(&run, u32::try_from(pid).unwrap(), self.now);
        } else if let Some(code) = message.strip_prefix("Command exited with status ") {
            self.cluster
                .exited(&run, &Exit::Code(code.parse().unwrap()), self.now);
        } else if message.ends_with("signal Killed") {
            self.cluster.exited(&run, &Exit::Signal(9), self.now);
        } else if message.ends_with("signal Terminated") {
            self.cluster.exited(&run, &Exit::Signal(15), self.now);
        }
    }

    fn http(&mut self, line: &Value) {
        if text(&line["who"]) == "operator" {
            return self.operate(line);
        }
        let call = if line["call"].is_object() {
            self.call(&line["call"])
        } else {
            return;
        };
        let recorded_stream = line["headers"]["Mesos-Stream-Id"].as_str();
        let mut request = Request::post(call, None);
        request.stream_id =
            recorded_stream.map(|id| self.stream_ids.get(id).map_or(id, StreamId::as_str).to_owned());
        let response = self.cluster.handle(&request, self.now);
        self.subscribed(line, &response);
        self.compare_answer(line, &response);
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
        let mut call = anonymous(recorded, &self.recorded_master);
        for part in ["/acknowledge/uuid", "/acknowledge_operation_status/uuid"] {
            if let Some(uuid) = call.pointer_mut(part) {
                *uuid = Value::from(self.simulated_uuid(text(uuid)));
            }
        }
        let call =
            serde_json::from_str::<Value>(&call.to_string().replace("MASTER", self.cluster.master_id()))
                .unwrap();
        let descriptor = self.pool.get_message_by_name("mesos.v1.scheduler.Call").unwrap();
        let message = DynamicMessage::deserialize(descriptor, call).unwrap();
        Call::decode(message.encode_to_vec().as_slice()).unwrap()
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
        let mut body = text(&line["answer_text"]).replace(&self.recorded_master, self.cluster.master_id());
        for (recorded, simulated) in &self.stream_ids {
            body = body.replace(recorded, simulated.as_str());
        }
        let at = format!("{} {}", line["seq"], line["call"]["type"]);
        if line["status"] != response.status {
            self.outcome.differences.push(format!(
                "{at}: {} recorded, {response:?} simulated",
                line["status"]
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
                    let plain = SerializeOptions::new().use_proto_field_name(true);
                    let value = message
                        .serialize_with_options(serde_json::value::Serializer, &plain)
                        .unwrap();
                    self.see(&stream, &value);
                }
                Output::Close { stream, end } => {
                    let broke = self.cluster.crashed().is_some() || self.now > Timestamp(1000);
                    assert!(end == StreamEnd::Finished || broke);
                    self.open.retain(|_, open| *open != stream);
                }
                Output::Launch(launch) => {
                    self.runs.insert(launch.run.task.to_string(), launch.run);
                }
                // Whether it died is compared at the end.
                Output::Crash { .. } | Output::Kill { .. } | Output::Store { .. } => {}
            }
        }
    }

    fn see(&mut self, stream: &StreamId, event: &Value) {
        self.uuids.extend(identity(event));
        // A refused subscription speaks before its answer is returned.
        let who = self.readers.get(stream).cloned().unwrap_or_default();
        let seen = self.simulated.entry(who).or_default();
        seen.add(event, self.now.0, self.cluster.master_id());
    }

    fn finish(mut self) -> Outcome {
        for line in self.recording.of_kind("event") {
            let seen = self.recorded.entry(text(&line["who"]).to_owned()).or_default();
            seen.add(
                &line["event"],
                line["ms"].as_u64().unwrap(),
                &self.recorded_master,
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
