//! Which required fields a message lacks. The generated types cannot tell: to them a missing text is an empty one.

use prost_reflect::{Cardinality, DynamicMessage, ReflectMessage, Value};

/// The paths of all required fields that are not set, as Mesos lists them: `subscribe.framework_info.name`.
pub(super) fn missing(message: &DynamicMessage) -> Vec<String> {
    let mut paths = Vec::new();
    collect(message, "", &mut paths);
    paths
}

fn collect(message: &DynamicMessage, prefix: &str, paths: &mut Vec<String>) {
    for field in message.descriptor().fields() {
        if field.cardinality() == Cardinality::Required && !message.has_field(&field) {
            paths.push(format!("{prefix}{}", field.name()));
        }
    }
    for (field, value) in message.fields() {
        let path = format!("{prefix}{}", field.name());
        match value {
            Value::Message(inner) => collect(inner, &format!("{path}."), paths),
            Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    if let Value::Message(inner) = item {
                        collect(inner, &format!("{path}[{i}]."), paths);
                    }
                }
            }
            _ => {}
        }
    }
}
