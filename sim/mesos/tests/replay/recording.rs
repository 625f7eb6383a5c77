//! One recording as a list of things that happen at a time, and what was seen.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::path::PathBuf;

/// One recorded scenario.
pub struct Recording {
    pub lines: Vec<Value>,
}

impl Recording {
    pub fn read(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings");
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // A second master is started to show flags that are not simulated.
        let is_start = |line: &Value| self::text(&line["text"]).starts_with("master start");
        if let Some(second) = (0..lines.len()).filter(|i| is_start(&lines[*i])).nth(1) {
            lines.truncate(second);
        }
        Self { lines }
    }

    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.lines.iter().filter(move |line| line["kind"] == kind)
    }

    /// The recorded master's id, host and port, from its first SUBSCRIBED.
    pub fn master_info(&self) -> &Value {
        let first = self
            .of_kind("event")
            .find(|line| line["type"] == "SUBSCRIBED")
            .unwrap();
        &first["event"]["subscribed"]["master_info"]
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
