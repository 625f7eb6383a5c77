//! Bytes to messages and back, as a Mesos master reads and writes them: protobuf, or JSON with its rules (R2, R6, R7).

mod json;
mod required;
mod wire;

use echelon_proto::mesos::v1::scheduler::Call;
use prost::Message;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use std::sync::LazyLock;
use thiserror::Error;

static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(echelon_proto::FILE_DESCRIPTOR_SET).ok());

/// A body that is no message; the text is the master's answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub String);

/// The two encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// Reads a header's value to the letter: upper case or a parameter is something else (rule R2).
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type {
            "application/x-protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// Reads a scheduler call.
pub(crate) fn read_call(body: &[u8], encoding: Encoding) -> Result<Call, Malformed> {
    read(body, encoding, "mesos.v1.scheduler.Call")
}

/// Reads a message of a type, with all that it requires.
pub(crate) fn read<M: Message + Default>(
    body: &[u8],
    encoding: Encoding,
    name: &str,
) -> Result<M, Malformed> {
    match encoding {
        Encoding::Protobuf => {
            let wrong = || Malformed("Failed to parse body into Call protobuf".to_owned());
            let message = M::decode(body).map_err(|_| wrong())?;
            let complete = wire::is_complete(body, name) == Some(true);
            complete.then_some(message).ok_or_else(wrong)
        }
        Encoding::Json => {
            let wrong = |why: String| Malformed(format!("Failed to convert JSON into Call protobuf: {why}"));
            let value = serde_json::from_slice(body)
                .map_err(|error| Malformed(format!("Failed to parse body into JSON: {error}")))?;
            let described = || wrong(format!("the message {name} is not described"));
            let message = json::read(value, &descriptor(name).ok_or_else(described)?).map_err(wrong)?;
            let missing = required::missing(&message);
            if !missing.is_empty() {
                return Err(wrong(format!("Missing required fields: {}", missing.join(", "))));
            }
            message.transcode_to().map_err(|error| wrong(error.to_string()))
        }
    }
}

/// Writes a message of a type. In JSON it has the defaults that a master writes (rule R7).
pub(crate) fn write<M: Message>(message: &M, encoding: Encoding, name: &str) -> Vec<u8> {
    match encoding {
        Encoding::Protobuf => message.encode_to_vec(),
        Encoding::Json => descriptor(name)
            .map(|d| json::write(message, d))
            .unwrap_or_default(),
    }
}

fn descriptor(name: &str) -> Option<MessageDescriptor> {
    POOL.as_ref()?.get_message_by_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_proto::mesos::v1::scheduler::{Event, event};
    use echelon_proto::mesos::v1::{NetworkInfo, TaskId, TaskStatus, network_info};

    fn call(text: &str) -> Result<Call, String> {
        read_call(text.as_bytes(), Encoding::Json).map_err(|wrong| wrong.0)
    }

    #[test]
    fn json_follows_the_rules_of_a_master() {
        let with_kill = |inside: &str| format!(r#"{{"type":"KILL","kill":{inside}}}"#);
        let good = call(&with_kill(
            r#"{"task_id":{"value":"t"},"agent_id":null,"extra":[1]}"#,
        ))
        .unwrap();
        assert_eq!(
            good.kill.unwrap().task_id,
            TaskId {
                value: "t".to_owned()
            }
        );
        let grace = r#"{"task_id":{"value":"t"},"kill_policy":{"grace_period":{"nanoseconds":"5"}}}"#;
        assert!(call(&with_kill(grace)).is_ok(), "a 64-bit integer may be a text");
        assert_eq!(call(r#"{"type":"FLY"}"#).unwrap().r#type, None);
        let refused = [
            (
                "[1]",
                "Failed to convert JSON into Call protobuf: Expecting a JSON object",
            ),
            (
                r#"{"type":1}"#,
                "Failed to convert JSON into Call protobuf: Not expecting a JSON number for field 'type'",
            ),
            (
                r#"{"type":"KILL","kill":{"taskId":{"value":"t"}}}"#,
                "Failed to convert JSON into Call protobuf: Missing required fields: kill.task_id",
            ),
        ];
        for (text, words) in refused {
            assert_eq!(call(text).unwrap_err(), words);
        }
        assert!(
            call("{")
                .unwrap_err()
                .starts_with("Failed to parse body into JSON")
        );
        let deep = "[".repeat(100_000);
        assert!(call(&deep).is_err());
    }

    #[test]
    fn protobuf_without_a_required_part_is_no_call() {
        let no_name = [
            0x10, 0x01, 0x1a, 0x08, 0x0a, 0x06, 0x0a, 0x04, b'r', b'o', b'o', b't',
        ];
        assert!(read_call(&no_name, Encoding::Protobuf).is_err());
        assert!(read_call(&[0xff, 0xfe], Encoding::Protobuf).is_err());
        assert_eq!(read_call(&[], Encoding::Protobuf), Ok(Call::default()));
    }

    #[test]
    fn json_has_declared_defaults_but_not_deprecated_ones() {
        let address = network_info::IpAddress {
            ip_address: Some("127.0.0.1".to_owned()),
            protocol: None,
        };
        let network = NetworkInfo {
            ip_addresses: vec![address],
            ..Default::default()
        };
        let container = echelon_proto::mesos::v1::ContainerStatus {
            network_infos: vec![network],
            ..Default::default()
        };
        let status = TaskStatus {
            container_status: Some(container),
            timestamp: Some(15.0),
            ..Default::default()
        };
        let event = Event {
            update: Some(event::Update { status }),
            ..Default::default()
        };
        let text = String::from_utf8(write(&event, Encoding::Json, "mesos.v1.scheduler.Event")).unwrap();
        assert!(text.contains(r#""protocol":"IPv4""#), "{text}");
        assert!(text.contains(r#""timestamp":15.0"#), "{text}");
        assert!(!text.contains("taskId"), "{text}");
    }
}
