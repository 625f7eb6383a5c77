//! What was seen on one stream, brought to a form in which two runs can be compared.

use crate::recording::{array, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that one framework instance saw, sorted by what has an order.
#[derive(Default)]
pub struct Seen {
    /// Updates by task, in order.
    updates: BTreeMap<String, Vec<Value>>,
    /// Offers in order, whichever event brought them.
    offers: Vec<Value>,
    /// All other events but heartbeats, in order.
    others: Vec<Value>,
    n_heartbeats: usize,
    /// Stand-ins for random ids, by the order of their first appearance.
    names: BTreeMap<String, String>,
    /// When an update was last seen, by uuid.
    last: BTreeMap<String, u64>,
}

/// Deliveries of one update within this time count once: whether a returning agent sends it once or twice is a race.
const TWICE_WITHIN_MS: u64 = 100;

/// Where an update names containers.
const CONTAINERS: [&str; 2] = [
    "/container_status/container_id/value",
    "/container_status/container_id/parent/value",
];

/// Around the start of a container inside another, and around its end, an agent may or may not know its process at the
/// moment when it passes an update on; recordings of one scenario differ.
fn forget_race(status: &mut Value) {
    let races = status["state"] == "TASK_STARTING" || status["state"] == "TASK_KILLING";
    let inside = status.pointer("/container_status/container_id/parent").is_some();
    if let Some(container) = status
        .pointer_mut("/container_status")
        .and_then(Value::as_object_mut)
        .filter(|_| races && inside)
    {
        container.remove("network_infos");
        container.remove("executor_pid");
    }
}

impl Seen {
    /// Adds an event. `masters` are the ids of all masters that have led.
    pub fn add(&mut self, event: &Value, at_ms: u64, masters: &[String]) {
        match text(&event["type"]) {
            "HEARTBEAT" => self.n_heartbeats += 1,
            "UPDATE" => self.add_update(&event["update"]["status"], at_ms, masters),
            "OFFERS" => {
                let offers =
                    array(&event["offers"]["offers"]).map(|offer| anonymous(&sorted(offer), masters));
                self.offers.extend(offers);
            }
            _ => {
                let mut event = anonymous(event, masters);
                if let Some(uuid) = event.pointer_mut("/update_operation_status/status/uuid/value") {
                    *uuid = json!(self.name(text(uuid), "uuid"));
                }
                self.others.push(event);
            }
        }
    }

    fn add_update(&mut self, status: &Value, at_ms: u64, masters: &[String]) {
        if let Some(uuid) = status["uuid"].as_str() {
            let before = self.last.insert(uuid.to_owned(), at_ms);
            if before.is_some_and(|before| at_ms - before < TWICE_WITHIN_MS) {
                return;
            }
        }
        let task = text(&status["task_id"]["value"]).to_owned();
        let mut status = anonymous(status, masters);
        let fields = status.as_object_mut().unwrap();
        assert!(
            fields.remove("timestamp").is_some(),
            "an update without a time: {task}"
        );
        if let Some(time) = fields.get_mut("unreachable_time") {
            *time = json!("some time");
        }
        if let Some(uuid) = fields.get_mut("uuid") {
            *uuid = json!(self.name(text(uuid), "uuid"));
        }
        for container in CONTAINERS {
            if let Some(container) = status.pointer_mut(container) {
                *container = json!(self.name(text(container), "container"));
            }
        }
        forget_race(&mut status);
        self.updates.entry(task).or_default().push(status);
    }

    fn name(&mut self, id: &str, kind: &str) -> String {
        let next = format!("{kind} {}", self.names.len());
        self.names.entry(id.to_owned()).or_insert(next).clone()
    }

    /// What differs between the recorded and the simulated run, with the number of things compared.
    pub fn differences(recorded: &Self, simulated: &Self, who: &str) -> (usize, Vec<String>) {
        let mut found = Vec::new();
        let mut n_compared = 0;
        let mut compare = |what: &str, a: &[Value], b: &[Value]| {
            n_compared += a.len().max(b.len());
            if let Some(i) = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i)) {
                let say = |side: &[Value]| side.get(i).map_or("nothing".to_owned(), ToString::to_string);
                found.push(format!(
                    "{who}, {what} {i}: recorded {}\n      simulated {}",
                    say(a),
                    say(b)
                ));
            }
        };
        compare("offer", &recorded.offers, &simulated.offers);
        compare("event", &recorded.others, &simulated.others);
        let tasks: BTreeSet<&String> = recorded.updates.keys().chain(simulated.updates.keys()).collect();
        for task in tasks {
            // Names depend on the order over tasks, which is free: number them for each task anew.
            let of = |side: &Self| renamed(side.updates.get(task).cloned().unwrap_or_default());
            compare(&format!("update of {task}"), &of(recorded), &of(simulated));
        }
        if recorded.n_heartbeats.abs_diff(simulated.n_heartbeats) > 1 {
            found.push(format!(
                "{who}: {} heartbeats recorded, {} simulated",
                recorded.n_heartbeats, simulated.n_heartbeats
            ));
        }
        (n_compared, found)
    }
}

fn renamed(updates: Vec<Value>) -> Vec<Value> {
    let mut names: Vec<String> = Vec::new();
    let mut number = |name: &str| {
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        json!(at)
    };
    let mut updates = updates;
    for update in &mut updates {
        if let Some(uuid) = update.get_mut("uuid") {
            *uuid = number(text(uuid));
        }
        for container in CONTAINERS {
            if let Some(container) = update.pointer_mut(container) {
                *container = number(text(container));
            }
        }
    }
    updates
}

/// A master's id stands in many texts; the recorded and the simulated one get the same name.
///
/// A master writes defaults into JSON (rule R7), here that of an address's protocol; they are not part of the event.
pub fn anonymous(value: &Value, masters: &[String]) -> Value {
    let mut text = value.to_string().replace(r#","protocol":"IPv4""#, "");
    for (number, master) in masters.iter().enumerate() {
        text = text.replace(master, &stand_in(number));
    }
    serde_json::from_str(&text).unwrap()
}

/// What stands for the id of a master.
pub fn stand_in(number: usize) -> String {
    format!("MASTER{number}")
}

/// An offer's resources come in no fixed order.
fn sorted(offer: &Value) -> Value {
    let mut offer = offer.clone();
    if let Some(resources) = offer["resources"].as_array_mut() {
        resources.sort_by_key(ToString::to_string);
    }
    offer
}
