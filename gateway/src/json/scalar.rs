//! What a single JSON value may be.

use echelon_core_gateway::validate::Violations;
use prost_reflect::{EnumDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

/// What the value must be, when it is not.
pub(super) fn wrong(value: &Value, kind: &Kind) -> Option<String> {
    match kind {
        Kind::Uint32 | Kind::Fixed32 => whole(value, 0, u32::MAX.into()),
        Kind::Uint64 | Kind::Fixed64 => whole(value, 0, u64::MAX.into()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => whole(value, i32::MIN.into(), i32::MAX.into()),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => whole(value, i64::MIN.into(), i64::MAX.into()),
        Kind::Bool => (!value.is_boolean()).then(|| "must be true or false".to_owned()),
        Kind::String => (!value.is_string()).then(|| "must be a text in quotes".to_owned()),
        Kind::Bytes => (!value.is_string()).then(|| "must be base64 in quotes".to_owned()),
        Kind::Double | Kind::Float => (!value.is_number()).then(|| "must be a number".to_owned()),
        Kind::Message(_) | Kind::Enum(_) => None,
    }
}

fn whole(value: &Value, least: i128, most: i128) -> Option<String> {
    let number = match value {
        Value::Number(n) => n.to_string().parse::<i128>().ok(),
        Value::String(text) => text.parse::<i128>().ok(),
        _ => None,
    };
    let good = number.is_some_and(|n| (least..=most).contains(&n));
    (!good).then(|| format!("must be a whole number from {least} to {most}"))
}

/// A value as an error shows it: short.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => {
            let text: String = other.to_string().chars().take(60).collect();
            format!("`{text}`")
        }
    }
}

/// Spells a short word of an enum out: `batch` is `JOB_KIND_BATCH`.
pub(super) fn word(value: &mut Value, desc: &EnumDescriptor, path: &str, out: &mut Violations) {
    let prefix = desc
        .values()
        .find(|v| v.number() == 0)
        .map(|v| v.name().trim_end_matches("UNSPECIFIED").to_owned())
        .unwrap_or_default();
    let known = |name: &str| desc.get_value_by_name(name).is_some();
    let spelt = match value {
        Value::String(text) if known(text) => return,
        Value::String(text) => format!("{prefix}{}", text.to_ascii_uppercase().replace('-', "_")),
        Value::Number(n)
            if n.as_i64()
                .is_some_and(|n| desc.values().any(|v| i64::from(v.number()) == n)) =>
        {
            return;
        }
        _ => String::new(),
    };
    if known(&spelt) {
        *value = Value::String(spelt);
        return;
    }
    let words: Vec<String> = desc
        .values()
        .filter(|v| v.number() != 0)
        .map(|v| v.name().trim_start_matches(&prefix).to_ascii_lowercase())
        .collect();
    out.add(
        path,
        format!("must be one of {}, not {}", words.join(", "), shown(value)),
    );
}

/// Checks a well-known type, which JSON writes as a text (a duration, a time, a field mask) or an empty object.
pub(super) fn well_known(value: &mut Value, desc: &MessageDescriptor, path: &str, out: &mut Violations) {
    if let (Value::String(mask), "FieldMask") = (&mut *value, desc.name()) {
        *mask = camel(mask);
    }
    let wanted = match desc.name() {
        "Duration" if !is_duration(value) => "must be a time like \"10s\" or \"0.500s\"",
        "Timestamp" if !value.is_string() => "must be a time like \"2026-01-31T12:00:00Z\"",
        "FieldMask" if !value.is_string() => "must be field names with commas between them, in quotes",
        "Empty" if value.as_object().is_none_or(|o| !o.is_empty()) => "must be {}",
        _ => return,
    };
    out.add(path, format!("{wanted}, not {}", shown(value)));
}

/// `limit.cpus_milli` as `limit.cpusMilli`, which is how JSON writes a field mask; people may write either.
fn camel(mask: &str) -> String {
    let mut out = String::with_capacity(mask.len());
    let mut up = false;
    for c in mask.chars() {
        if c == '_' {
            up = true;
        } else {
            out.push(if up { c.to_ascii_uppercase() } else { c });
            up = false;
        }
    }
    out
}

fn is_duration(value: &Value) -> bool {
    let Some(number) = value.as_str().and_then(|t| t.strip_suffix('s')) else {
        return false;
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |t: &str| !t.is_empty() && t.len() <= 12 && t.bytes().all(|b| b.is_ascii_digit());
    // A negative one is well formed; that it makes no sense is said with the field's own rule.
    digits(whole.trim_start_matches('-')) && digits(part) && part.len() <= 9
}
