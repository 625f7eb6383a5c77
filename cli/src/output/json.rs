//! Messages of the API as JSON for scripts: field names as in the proto files, enum values as their lower-case words
//! (`succeeded`, not `RUN_STATE_SUCCEEDED`), times as RFC 3339, spans in seconds, bytes as text. Unset enums and messages
//! are left out, everything else is there.

use prost_reflect::{DynamicMessage, EnumDescriptor, Kind, MapKey, ReflectMessage, Value};

/// A JSON value.
pub type Json = serde_json::Value;

/// A message as JSON.
#[must_use]
pub fn json(message: &DynamicMessage) -> Json {
    match message.descriptor().full_name() {
        "google.protobuf.Timestamp" => return Json::String(moment(message)),
        "google.protobuf.Duration" => return Json::String(span(message)),
        _ => {}
    }
    let mut object = serde_json::Map::new();
    for field in message.descriptor().fields() {
        if field.supports_presence() && !message.has_field(&field) {
            continue;
        }
        let value = message.get_field(&field);
        if let (Value::EnumNumber(0), Kind::Enum(_)) = (value.as_ref(), field.kind()) {
            continue;
        }
        object.insert(field.name().to_owned(), of_value(&value, &field.kind()));
    }
    Json::Object(object)
}

fn of_value(value: &Value, kind: &Kind) -> Json {
    match value {
        Value::Bool(b) => Json::Bool(*b),
        Value::I32(n) => Json::from(*n),
        Value::I64(n) => Json::from(*n),
        Value::U32(n) => Json::from(*n),
        Value::U64(n) => Json::from(*n),
        Value::F32(n) => Json::from(*n),
        Value::F64(n) => Json::from(*n),
        Value::String(s) => Json::String(s.clone()),
        Value::Bytes(b) => Json::String(String::from_utf8_lossy(b).into_owned()),
        Value::EnumNumber(n) => match kind {
            Kind::Enum(descriptor) => Json::String(word(descriptor, *n)),
            _ => Json::from(*n),
        },
        Value::Message(m) => json(m),
        Value::List(all) => all.iter().map(|v| of_value(v, kind)).collect(),
        Value::Map(map) => {
            let mut sorted: Vec<(String, Json)> =
                map.iter().map(|(k, v)| (key(k), of_value(v, kind))).collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(sorted.into_iter().collect())
        }
    }
}

fn key(key: &MapKey) -> String {
    match key {
        MapKey::String(s) => s.clone(),
        MapKey::Bool(b) => b.to_string(),
        MapKey::I32(n) => n.to_string(),
        MapKey::I64(n) => n.to_string(),
        MapKey::U32(n) => n.to_string(),
        MapKey::U64(n) => n.to_string(),
    }
}

/// `RUN_STATE_SUCCEEDED` of `RunState` is `succeeded`. A value that this build does not know is its number.
fn word(descriptor: &EnumDescriptor, number: i32) -> String {
    let Some(value) = descriptor.get_value(number) else {
        return number.to_string();
    };
    let prefix = descriptor
        .get_value(0)
        .map(|v| v.name().trim_end_matches("UNSPECIFIED").to_owned())
        .unwrap_or_default();
    value
        .name()
        .strip_prefix(prefix.as_str())
        .unwrap_or(value.name())
        .to_lowercase()
}

fn parts(message: &DynamicMessage) -> (i64, i32) {
    let number = |name: &str| message.get_field_by_name(name).map(|v| v.into_owned());
    let seconds = number("seconds").and_then(|v| v.as_i64()).unwrap_or_default();
    let nanos = number("nanos").and_then(|v| v.as_i32()).unwrap_or_default();
    (seconds, nanos)
}

fn moment(message: &DynamicMessage) -> String {
    let (seconds, nanos) = parts(message);
    jiff::Timestamp::new(seconds, nanos)
        .map(|t| format!("{t:.3}"))
        .unwrap_or_default()
}

fn span(message: &DynamicMessage) -> String {
    let (seconds, nanos) = parts(message);
    let text = format!("{seconds}.{:03}", nanos.unsigned_abs() / 1_000_000);
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use crate::output::message;
    use echelon_clients_rust::v1;

    #[test]
    fn states_are_words_and_times_are_text() {
        let instance = v1::Instance {
            number: 3,
            state: i32::from(v1::RunState::Succeeded),
            since: Some(prost_types::Timestamp {
                seconds: 1_795_246_364,
                nanos: 718_000_000,
            }),
            ..v1::Instance::default()
        };
        let json = message("Instance", &instance);
        assert_eq!(json["state"], "succeeded");
        assert_eq!(json["number"], 3);
        assert_eq!(json["since"], "2026-11-21T07:32:44.718Z");
        assert!(json.get("run").is_none());
        let spec = v1::GroupSpec {
            grace: Some(prost_types::Duration {
                seconds: 1,
                nanos: 500_000_000,
            }),
            ..v1::GroupSpec::default()
        };
        assert_eq!(message("GroupSpec", &spec)["grace"], "1.5s");
    }
}
