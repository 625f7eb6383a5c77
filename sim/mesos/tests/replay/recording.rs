//! One recording as a list of things that happen at a time, and what was seen.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::path::PathBuf;

/// One recorded scenario.
pub struct Recording {
    pub lines: Vec<Value>,
}

/// Where recordings lie.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

impl Recording {
    /// All recordings, by scenario and encoding.
    pub fn names() -> Vec<String> {
        let files = std::fs::read_dir(folder()).unwrap();
        let names = files.filter_map(|file| {
            let name = file.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".jsonl").map(str::to_owned)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // Another master with other flags is started to show what these do; they are not simulated.
        let starts = (0..lines.len()).filter(|i| self::text(&lines[*i]["text"]).starts_with("master start"));
        let starts: Vec<usize> = starts.collect();
        let other = starts
            .iter()
            .find(|i| lines[**i]["text"] != lines[starts[0]]["text"]);
        if let Some(other) = other {
            lines.truncate(*other);
        }
        for i in 0..lines.len() {
            order_offers(&mut lines, i);
        }
        Self { lines }
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["kind"] == kind)
    }

    /// The recorded masters' ids, hosts and ports, in the order in which they led, from SUBSCRIBED.
    pub fn masters(&self) -> Vec<&Value> {
        let mut masters: Vec<&Value> = Vec::new();
        for line in self.of_kind("event").filter(|line| line["type"] == "SUBSCRIBED") {
            let master = &line["event"]["subscribed"]["master_info"];
            if masters.iter().all(|known| known["id"] != master["id"]) {
                masters.push(master);
            }
        }
        masters
    }

    /// The port of an agent, from the offers that name it by the end of its id.
    pub fn agent_port(&self, suffix: &str) -> Option<u16> {
        let mut offers = self
            .of_kind("event")
            .flat_map(|line| array(&line["event"]["offers"]["offers"]));
        let offer = offers.find(|offer| text(&offer["agent_id"]["value"]).ends_with(suffix))?;
        u16::try_from(offer["url"]["address"]["port"].as_u64()?).ok()
    }

    /// The milliseconds since the epoch at which the recording began, as close as its updates tell.
    pub fn began_at(&self) -> f64 {
        let of_updates = self.of_kind("event").filter_map(|line| {
            let at = line["event"]["update"]["status"]["timestamp"].as_f64()?;
            Some(at * 1000.0 - line["ms"].as_f64()?)
        });
        of_updates.fold(0.0, f64::max)
    }

    /// The flags of the last `master start` or `agent start` in a note.
    pub fn flag<'a>(note: &'a str, name: &str) -> Option<&'a str> {
        let (_, rest) = note.split_once(&format!("--{name}="))?;
        rest.split(" --").next()
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(text(value)).unwrap()
}

/// An allocation goes over the agents in a random order, so that the order of the offers of one event and their numbers
/// mean nothing: they are brought into the order of the agents, here and wherever they are named.
fn order_offers(lines: &mut [Value], i: usize) {
    let offers = lines[i].pointer_mut("/event/offers/offers");
    let Some(offers) = offers.and_then(Value::as_array_mut) else {
        return;
    };
    let ids = |offers: &[Value]| -> Vec<String> {
        offers
            .iter()
            .map(|offer| text(&offer["id"]["value"]).to_owned())
            .collect()
    };
    let numbered = ids(offers);
    offers.sort_by_key(|offer| text(&offer["agent_id"]["value"]).to_owned());
    let ordered = ids(offers);
    if numbered == ordered {
        return;
    }
    for line in &mut lines[i..] {
        let mut words = line.to_string();
        for (number, id) in ordered.iter().enumerate() {
            words = words.replace(&format!("\"{id}\""), &format!("\"offer {number} of this event\""));
        }
        for (number, id) in numbered.iter().enumerate() {
            words = words.replace(&format!("\"offer {number} of this event\""), &format!("\"{id}\""));
        }
        *line = serde_json::from_str(&words).unwrap();
    }
}
