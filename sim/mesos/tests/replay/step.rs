//! What a recording does to a cluster, as a list of steps in time.

use crate::recording::{Recording, array, text};
use serde_json::Value;

/// One thing to do to the simulated cluster.
pub enum Step<'a> {
    Http(&'a Value),
    Note(&'a str),
    /// A new agent registers, with the flags in this note.
    AddAgent(&'a str),
    /// An agent's process starts again.
    StartAgent(usize),
    /// An agent's messages get through again.
    HealAgent(usize),
    /// The first leader has read its registry.
    Lead,
    /// The leader dies; the next one has read its registry after so many milliseconds.
    FailOver(u64),
    Hangup(&'a str),
    /// An executor says what a recorded update tells.
    Report(&'a Value),
    /// An executor of several tasks ends on its own account, of which this FAILURE tells.
    EndExecutor(&'a Value),
    /// The process of a task's executor ends, of which this update tells.
    LoseExecutor(&'a Value),
}

/// The steps of a recording in the order of their time, in milliseconds.
pub fn steps(recording: &Recording, phase: u64) -> Vec<(u64, Step<'_>)> {
    let mut steps = Vec::new();
    let began = recording.began_at();
    let mut reported: Vec<&str> = Vec::new();
    for (i, line) in recording.lines.iter().enumerate() {
        let at = ms(line);
        match text(&line["kind"]) {
            "http" => steps.push((at, Step::Http(line))),
            "note" => notes(recording, i, phase, &mut steps),
            "closed" if text(&line["why"]).starts_with("IncompleteRead") => {
                steps.push((at, Step::Hangup(text(&line["who"]))));
            }
            "event" => {
                let status = &line["event"]["update"]["status"];
                let uuid = text(&status["uuid"]);
                if text(&status["source"]) == "SOURCE_EXECUTOR" && !reported.contains(&uuid) {
                    reported.push(uuid);
                    steps.push((said_at(status, began), Step::Report(status)));
                }
                let failure = &line["event"]["failure"];
                if failure["status"].as_i64().is_some_and(|status| status != 0) {
                    // What ended it is not recorded, only the end itself.
                    steps.push((at - 1, Step::EndExecutor(failure)));
                }
            }
            _ => {}
        }
    }
    if let Some(first) = first_answer(recording, 0).filter(|_| waits_for_leader(recording)) {
        steps.push((first - 1, Step::Lead));
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

fn notes<'a>(recording: &'a Recording, i: usize, phase: u64, steps: &mut Vec<(u64, Step<'a>)>) {
    let line = &recording.lines[i];
    let (at, note) = (ms(line), text(&line["text"]));
    let dies = note.contains("leading master") && note.contains("killed");
    if let Some(rest) = note.strip_prefix("agent start again (agent") {
        // An agent takes seconds to recover, which the recording does not tell: it is back with its first sign.
        let agent = rest[..1].parse().unwrap();
        steps.push((sign_of_life(recording, i), Step::StartAgent(agent)));
    } else if note.starts_with("agent start (") {
        // It registers after a wait that the recording does not tell: with its first offer, as far as there is one.
        let number = recording.lines[..i]
            .iter()
            .filter(|line| text(&line["text"]).starts_with("agent start ("));
        let suffix = format!("-S{}", number.count());
        let seen = first_offer(recording, &suffix).map_or(at, |seen| seen - 1);
        steps.push((seen, Step::AddAgent(note)));
    } else if note.starts_with("the command executor is killed") {
        let status = recording.lines[i..]
            .iter()
            .map(|line| &line["event"]["update"]["status"])
            .find(|status| status["reason"] == "REASON_EXECUTOR_TERMINATED")
            .unwrap();
        steps.push((said_at(status, recording.began_at()), Step::LoseExecutor(status)));
    } else if note.starts_with("the agent's estimator") {
        steps.push((first_revocable(recording), Step::Note(note)));
    } else {
        steps.push((at, Step::Note(note)));
    }
    if dies {
        // The new leader counts its batches from when it begins.
        let begins = at + phase;
        let led = first_answer(recording, i).unwrap() - 2;
        steps.push((begins, Step::FailOver(led - begins)));
        if !note.starts_with("agent and") {
            steps.push((sign_of_life(recording, i), Step::HealAgent(0)));
        }
    }
}

/// Whether the first SUBSCRIBE comes before the first leader has read its registry.
fn waits_for_leader(recording: &Recording) -> bool {
    recording
        .of_kind("http")
        .find(|line| line["call"]["type"] == "SUBSCRIBE")
        .is_some_and(|line| line["status"] == 503)
}

/// When a leader first answers as one, after a line.
fn first_answer(recording: &Recording, after: usize) -> Option<u64> {
    let mut later = recording.lines[after..].iter();
    later
        .find(|line| line["kind"] == "http" && line["status"] != 503 && line["status"] != 307)
        .map(ms)
}

/// When an agent was first offered, by the end of its id.
fn first_offer(recording: &Recording, agent: &str) -> Option<u64> {
    let mut offers = recording.of_kind("event");
    offers
        .find(|line| {
            array(&line["event"]["offers"]["offers"])
                .any(|offer| text(&offer["agent_id"]["value"]).ends_with(agent))
        })
        .map(ms)
}

/// Just before the next thing that only a connected agent can cause: an event, or that a new master knows a framework.
fn sign_of_life(recording: &Recording, note: usize) -> u64 {
    let mut later = recording.lines[note..].iter();
    let sign = later.find(|line| {
        let status = &line["event"]["update"]["status"];
        line["type"] == "OFFERS"
            || line["status"] == 403
            || status["reason"] == "REASON_AGENT_REREGISTERED"
            || status["uuid"].is_string()
    });
    ms(sign.unwrap()) - 1
}

/// Just before the first offer of revocable resources: an agent makes its estimates at moments of its own.
fn first_revocable(recording: &Recording) -> u64 {
    let mut offers = recording.of_kind("event").filter(|line| line["type"] == "OFFERS");
    let first = offers.find(|line| line["event"].to_string().contains("revocable"));
    first.unwrap()["ms"].as_u64().unwrap() - 1
}

/// When the sender of an update made it.
fn said_at(status: &Value, began: f64) -> u64 {
    (status["timestamp"].as_f64().unwrap() * 1000.0 - began).max(0.0) as u64
}

fn ms(line: &Value) -> u64 {
    line["ms"].as_u64().unwrap()
}
