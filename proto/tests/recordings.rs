//! Every call and event that was recorded at a real Mesos master decodes, says what its readable form says, and loses
//! nothing when it is written again.
#![cfg(test)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use echelon_proto::mesos::v1::scheduler::{Call, Event};
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;
use std::path::PathBuf;

/// One recorded message: what it is, where it was found, its bytes and its readable form.
struct Recorded {
    at: String,
    type_name: &'static str,
    bytes: Vec<u8>,
    readable: Value,
}

#[test]
fn every_recorded_message_decodes_and_loses_nothing() {
    let pool = DescriptorPool::decode(echelon_proto::FILE_DESCRIPTOR_SET).unwrap();
    let files = recordings();
    let mut n_messages = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let json = name.ends_with(".json.jsonl");
        for recorded in messages(&name, &text) {
            let descriptor = pool.get_message_by_name(recorded.type_name).unwrap();
            if json {
                check_json(&recorded, &descriptor)
            } else {
                check_protobuf(&recorded, &descriptor)
            }
            n_messages += 1;
        }
    }
    println!("{} recordings, {n_messages} messages", files.len());
    assert!(files.len() >= 95, "recordings are missing: {}", files.len());
    assert!(n_messages >= 2000, "messages are missing: {n_messages}");
}

fn check_protobuf(recorded: &Recorded, descriptor: &MessageDescriptor) {
    let Recorded {
        at,
        bytes,
        readable,
        type_name,
    } = recorded;
    let again = if *type_name == "mesos.v1.scheduler.Call" {
        Call::decode(bytes.as_slice()).unwrap().encode_to_vec()
    } else {
        Event::decode(bytes.as_slice()).unwrap().encode_to_vec()
    };
    // Both encoders write fields by number, so a lost, unknown or misread field changes the bytes.
    assert_eq!(&again, bytes, "{at}: {readable}");
    let seen = DynamicMessage::decode(descriptor.clone(), bytes.as_slice()).unwrap();
    check_same(at, &seen, &from_json(readable, descriptor, at));
}

fn check_json(recorded: &Recorded, descriptor: &MessageDescriptor) {
    let Recorded {
        at, bytes, readable, ..
    } = recorded;
    let sent: Value = serde_json::from_slice(bytes).unwrap();
    check_same(
        at,
        &from_json(&sent, descriptor, at),
        &from_json(readable, descriptor, at),
    );
}

/// The same value with numbers to the ten thousandth: two texts of one time differ in their last digits.
fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(n) if n.is_f64() => Value::from((n.as_f64().unwrap() * 1e4).round() / 1e4),
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), rounded(v))).collect(),
        other => other.clone(),
    }
}

/// Compares what the messages say. (`assert_eq` on them would overflow the stack: their debug form follows descriptors
/// round in circles.)
fn check_same(at: &str, one: &DynamicMessage, other: &DynamicMessage) {
    let say = |message: &DynamicMessage| rounded(&serde_json::to_value(message).unwrap());
    assert_eq!(say(one), say(other), "{at}");
}

fn from_json(value: &Value, descriptor: &MessageDescriptor, at: &str) -> DynamicMessage {
    let strict = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(descriptor.clone(), value, &strict)
        .unwrap_or_else(|error| panic!("{at}: {error} in {value}"))
}

fn messages(name: &str, text: &str) -> Vec<Recorded> {
    text.lines()
        .filter_map(|line| message(name, &serde_json::from_str(line).unwrap()))
        .collect()
}

fn message(name: &str, line: &Value) -> Option<Recorded> {
    let (type_name, bytes, readable) = match line["kind"].as_str()? {
        "event" => ("mesos.v1.scheduler.Event", &line["record_b64"], &line["event"]),
        // Requests sent byte for byte are there to be refused; they have no readable form.
        "http" if line["call"].is_object() => ("mesos.v1.scheduler.Call", &line["body_b64"], &line["call"]),
        _ => return None,
    };
    Some(Recorded {
        at: format!("{name}:{}", line["seq"]),
        type_name,
        bytes: STANDARD.decode(bytes.as_str()?).unwrap(),
        readable: readable.clone(),
    })
}

fn recordings() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/recordings");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    files.sort();
    files
}
