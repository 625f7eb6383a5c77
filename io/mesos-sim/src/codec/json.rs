//! JSON as Mesos' own parser and writer treat it, which is not quite the usual JSON form of protobuf.

use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, SerializeOptions,
};
use serde_json::{Map, Value};

/// Reads an object: names as in the proto file only, null is unset, enums by name only (rule R6).
pub(super) fn read(value: Value, descriptor: &MessageDescriptor) -> Result<DynamicMessage, String> {
    let Value::Object(fields) = value else {
        return Err("Expecting a JSON object".to_owned());
    };
    let plain = Value::Object(plain_object(fields, descriptor)?);
    DynamicMessage::deserialize(descriptor.clone(), plain).map_err(|error| error.to_string())
}

/// The same object as the usual JSON form would have it.
fn plain_object(
    fields: Map<String, Value>,
    descriptor: &MessageDescriptor,
) -> Result<Map<String, Value>, String> {
    let mut plain = Map::new();
    for (name, value) in fields {
        let Some(field) = descriptor.get_field_by_name(&name) else {
            continue;
        };
        if let Some(value) = plain_value(value, &field)? {
            plain.insert(name, value);
        }
    }
    Ok(plain)
}

fn plain_value(value: Value, field: &FieldDescriptor) -> Result<Option<Value>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Array(items) if field.is_list() => {
            let items: Result<Vec<Option<Value>>, String> =
                items.into_iter().map(|item| plain_item(item, field)).collect();
            Ok(Some(Value::Array(items?.into_iter().flatten().collect())))
        }
        Value::Object(_) if field.is_map() => Ok(Some(value)),
        value => plain_item(value, field),
    }
}

fn plain_item(value: Value, field: &FieldDescriptor) -> Result<Option<Value>, String> {
    match (field.kind(), value) {
        (Kind::Message(inner), Value::Object(fields)) => {
            plain_object(fields, &inner).map(Value::Object).map(Some)
        }
        (Kind::Message(_), _) => Err(format!("Expecting a JSON object for field '{}'", field.name())),
        (Kind::Enum(_), Value::Number(_)) => Err(format!(
            "Not expecting a JSON number for field '{}'",
            field.name()
        )),
        (Kind::Enum(names), Value::String(name)) => Ok(names
            .get_value_by_name(&name)
            .is_some()
            .then_some(Value::String(name))),
        (_, value) => Ok(Some(value)),
    }
}

/// Writes a message with the defaults that a master writes, 64-bit integers as numbers, names as in the proto file.
pub(super) fn write<M: Message>(message: &M, descriptor: MessageDescriptor) -> Vec<u8> {
    let mut dynamic = DynamicMessage::new(descriptor);
    if dynamic.transcode_from(message).is_err() {
        return Vec::new();
    }
    fill_defaults(&mut dynamic);
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false);
    let mut body = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut body);
    // A message that serde cannot write does not exist; an empty body shows that it does.
    if dynamic.serialize_with_options(&mut serializer, &options).is_err() {
        body.clear();
    }
    body
}

/// Sets what is unset, has a default in the proto file and is not deprecated (rule R7).
fn fill_defaults(message: &mut DynamicMessage) {
    let descriptor = message.descriptor();
    for field in descriptor.fields() {
        let proto = field.field_descriptor_proto();
        let deprecated = proto.options.as_ref().is_some_and(|options| options.deprecated());
        if proto.default_value.is_some() && !deprecated && !message.has_field(&field) {
            message.set_field(&field, field.default_value());
        } else if message.has_field(&field) && matches!(field.kind(), Kind::Message(_)) && !field.is_map() {
            fill_inside(message.get_field_mut(&field));
        }
    }
}

fn fill_inside(value: &mut prost_reflect::Value) {
    match value {
        prost_reflect::Value::Message(message) => fill_defaults(message),
        prost_reflect::Value::List(items) => items.iter_mut().for_each(fill_inside),
        _ => {}
    }
}
