//! Reads JSON against a message's description and names every wrong field by its path, with the nearest known name for one
//! that does not exist. Short words for enums (`batch`) are spelt out, so that people may write them.

use super::routes::decode;
use super::scalar;
use super::violation;
use echelon_core_gateway::Violation;
use echelon_core_model::nearest;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

/// Checks an object against its message.
pub(super) fn message(value: &mut Value, desc: &MessageDescriptor, path: &str, out: &mut Vec<Violation>) {
    if desc.full_name().starts_with("google.protobuf.") {
        scalar::well_known(value, desc, path, out);
        return;
    }
    let Value::Object(fields) = value else {
        out.push(violation(name(path), "must be a JSON object"));
        return;
    };
    for (key, inner) in fields.iter_mut() {
        match find(desc, key) {
            Some(field) => self::field(inner, &field, &at(path, field.name()), out),
            None => out.push(violation(at(path, key), unknown(desc, key))),
        }
    }
}

fn field(value: &mut Value, field: &FieldDescriptor, path: &str, out: &mut Vec<Violation>) {
    if value.is_null() {
        return;
    }
    if field.is_map() {
        map(value, field, path, out);
    } else if field.is_list() {
        let Value::Array(items) = value else {
            out.push(violation(path, "must be a list"));
            return;
        };
        for (i, item) in items.iter_mut().enumerate() {
            one(item, &field.kind(), &format!("{path}[{i}]"), out);
        }
    } else {
        one(value, &field.kind(), path, out);
    }
}

fn map(value: &mut Value, field: &FieldDescriptor, path: &str, out: &mut Vec<Violation>) {
    let (Value::Object(entries), Kind::Message(entry)) = (value, field.kind()) else {
        out.push(violation(path, "must be a JSON object of keys and values"));
        return;
    };
    let kind = entry.map_entry_value_field().kind();
    for (key, inner) in entries.iter_mut() {
        one(inner, &kind, &format!("{path}[{key}]"), out);
    }
}

fn one(value: &mut Value, kind: &Kind, path: &str, out: &mut Vec<Violation>) {
    match kind {
        Kind::Message(desc) => message(value, desc, path, out),
        Kind::Enum(desc) => scalar::word(value, desc, path, out),
        other => {
            if let Some(wanted) = scalar::wrong(value, other) {
                out.push(violation(path, format!("{wanted}, not {}", scalar::shown(value))));
            }
        }
    }
}

/// Adds the fields in a query string.
pub(super) fn query(
    desc: &MessageDescriptor,
    text: &str,
    into: &mut Map<String, Value>,
    out: &mut Vec<Violation>,
) {
    for pair in text.split('&').filter(|p| !p.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |t: &str| decode(&t.replace('+', " "));
        let (Some(key), Some(value)) = (plain(key), plain(value)) else {
            out.push(violation(key, "is not percent-encoded UTF-8"));
            continue;
        };
        let Some(field) = find(desc, &key) else {
            out.push(violation(key.clone(), unknown(desc, &key)));
            continue;
        };
        let value = match field.kind() {
            Kind::Bool if value == "true" || value.is_empty() => Value::Bool(true),
            Kind::Bool if value == "false" => Value::Bool(false),
            _ => Value::String(value),
        };
        if field.is_list() {
            if let Value::Array(items) = into
                .entry(field.name())
                .or_insert_with(|| Value::Array(Vec::new()))
            {
                items.push(value);
            }
        } else {
            into.insert(field.name().to_owned(), value);
        }
    }
}

fn find(desc: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
    desc.get_field_by_json_name(key)
        .or_else(|| desc.get_field_by_name(key))
}

fn unknown(desc: &MessageDescriptor, key: &str) -> String {
    let names: Vec<String> = desc.fields().map(|f| f.json_name().to_owned()).collect();
    match nearest(key, names.iter().map(String::as_str)) {
        Some(near) => format!("there is no such field; did you mean `{near}`?"),
        None => format!("there is no such field; known ones are {}", names.join(", ")),
    }
}

fn at(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

fn name(path: &str) -> &str {
    if path.is_empty() { "body" } else { path }
}
