//! What happens outside the scheduler API: operators' calls, agents that come and go, a master that dies.

use crate::compare::anonymous;
use crate::player::Player;
use crate::recording::{bytes, text};
use echelon_proto::mesos::v1::master;
use echelon_sim_mesos::{Bundle, Exit, FrameworkId, Tasks};
use prost::Message;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::{Value, json};

impl Player<'_> {
    /// What a note says that happened to agents or to the master. False when it is none of these.
    pub fn happen(&mut self, note: &str) -> bool {
        if let Some(task) = note.strip_suffix(" ends with 0 while the agent is down") {
            let run = self.runs[task].clone();
            self.cluster.exited(&run, &Exit::Code(0), self.now);
            return true;
        }
        let last = self.agents.last().cloned();
        let (cluster, now) = (&mut self.cluster, self.now);
        match (note, last) {
            (note, Some(agent)) if note.starts_with("agent told to end by SIGUSR1") => {
                cluster.unregister_agent(&agent, now)
            }
            (note, Some(agent)) if note.starts_with("agent killed (SIGKILL)") => {
                cluster.stop_agent(&agent, Tasks::Die, now)
            }
            ("the agent's estimator offers cpus:1 revocable", Some(agent)) => {
                cluster.set_revocable(&agent, &Bundle::of(1, 0, 0), now)
            }
            (note, Some(agent))
                if note.starts_with("ACKNOWLEDGE_OPERATION_STATUS naming the other agent") =>
            {
                // No answer came, so the recording has no call.
                let uuid = self.simulated_uuid_of("op-1", "OPERATION_FINISHED");
                let acknowledge = json!({
                    "operation_id": {"value": "op-1"}, "agent_id": {"value": agent.as_str()}, "uuid": uuid,
                });
                let who = self.open.keys().next().cloned().unwrap_or_default();
                let call = json!({
                    "type": "ACKNOWLEDGE_OPERATION_STATUS",
                    "framework_id": {"value": format!("{}-0000", self.cluster.master_id())},
                    "acknowledge_operation_status": acknowledge,
                });
                self.send(&who, &call);
                true
            }
            (note, Some(agent)) if note.starts_with("LAUNCH_GROUP with one task id twice") => {
                // No answer came, so the recording has no call.
                let framework = format!("{}-0000", self.cluster.master_id());
                let scalar = |name: &str, amount: f64| json!({"name": name, "type": "SCALAR", "scalar": {"value": amount}});
                let resources = json!([scalar("cpus", 0.1), scalar("mem", 32.0), scalar("disk", 16.0)]);
                let task = json!({
                    "name": "twice", "task_id": {"value": "twice"}, "agent_id": {"value": agent.as_str()},
                    "resources": [scalar("cpus", 0.1), scalar("mem", 32.0)], "command": {"value": "sleep 300"},
                });
                let executor = json!({
                    "executor_id": {"value": "e"}, "type": "DEFAULT", "framework_id": {"value": framework},
                    "resources": resources,
                });
                let call = json!({
                    "type": "ACCEPT", "framework_id": {"value": framework},
                    "accept": {"offer_ids": [{"value": format!("{}-O0", self.cluster.master_id())}], "operations": [{
                        "type": "LAUNCH_GROUP",
                        "launch_group": {"executor": executor, "task_group": {"tasks": [task, task]}},
                    }]},
                });
                self.send("fw", &call);
                true
            }
            _ => false,
        }
    }

    pub fn operate(&mut self, line: &Value) {
        let body = String::from_utf8(bytes(&line["body_b64"])).unwrap();
        let body = self.with_simulated_ids(&body);
        self.outcome.n_compared += 1;
        if let Some(framework) = body.strip_prefix("frameworkId=") {
            assert!(self.cluster.teardown(&FrameworkId::new(framework), self.now));
            return;
        }
        let call = self.read_call(&body);
        let shown = match call.r#type() {
            master::call::Type::GetMaintenanceStatus => Some(self.cluster.get_maintenance_status()),
            _ => {
                let response = self.cluster.operator_call(&call, self.now);
                let status = response.map(|response| response.status);
                if status.map(Value::from) != Some(line["status"].clone()) {
                    let words = format!("operator call {body}: {} recorded, {status:?}", line["status"]);
                    self.outcome.differences.push(words);
                }
                None
            }
        };
        if let Some(shown) = shown {
            let recorded: Value = serde_json::from_str(text(&line["answer_text"])).unwrap();
            let recorded = timeless(&anonymous(&recorded, &self.recorded_masters));
            let simulated = timeless(&anonymous(&self.json_of(&shown), &self.simulated_masters));
            if recorded != simulated {
                let words = format!("{} recorded {recorded}\n      simulated {simulated}", line["seq"]);
                self.outcome.differences.push(words);
            }
        }
    }

    fn read_call(&self, body: &str) -> master::Call {
        let mut call: Value = serde_json::from_str(body).unwrap();
        if let Some(grace) = call.pointer_mut("/drain_agent/max_grace_period") {
            // The recorded call names a field that this type lacks; the real master ignored it (rule R6).
            *grace = json!("0s");
        }
        let descriptor = self.pool.get_message_by_name("mesos.v1.master.Call").unwrap();
        let message = DynamicMessage::deserialize(descriptor, call).unwrap();
        master::Call::decode(message.encode_to_vec().as_slice()).unwrap()
    }

    fn json_of(&self, response: &master::Response) -> Value {
        let descriptor = self.pool.get_message_by_name("mesos.v1.master.Response").unwrap();
        let mut message = DynamicMessage::new(descriptor);
        message.transcode_from(response).unwrap();
        let plain = SerializeOptions::new().use_proto_field_name(true);
        message
            .serialize_with_options(serde_json::value::Serializer, &plain)
            .unwrap()
    }
}

/// Moments differ from run to run.
fn timeless(value: &Value) -> Value {
    let mut value = value.clone();
    match &mut value {
        Value::Object(fields) => {
            for (name, field) in fields {
                *field = if name == "timestamp" {
                    json!("some time")
                } else {
                    timeless(field)
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item)),
        _ => {}
    }
    value
}
