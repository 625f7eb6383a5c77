//! Turns JSON into the bytes of a message while it is read, and names every wrong field by its path, with the nearest known
//! name for one that does not exist. Short words for enums (`batch`) are spelt out, so that people may write them.
//!
//! One value is looked at after the other: a tree of all of them would take many times the size of its text.

use super::routes::decode;
use super::scalar;
use echelon_core_gateway::validate::Violations;
use echelon_core_model::nearest;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Ends the reading when no more problems are named.
const ENOUGH: &str = "too many problems";

/// The bytes of the message that a text is; `None` for `null`. Problems are noted at `path`.
///
/// # Errors
/// It is not JSON.
pub(super) fn text(
    text: &str,
    desc: &MessageDescriptor,
    path: &str,
    out: &mut Violations,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut bytes = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Reader {
        place: Place::Message(desc),
        path,
        out,
        bytes: &mut bytes,
    };
    let read = seed.deserialize(&mut reader).and_then(|found| {
        reader.end()?;
        Ok(found)
    });
    match read {
        Err(_) if out.is_full() => Ok(None),
        Ok(Found::Nothing) => Ok(None),
        Ok(Found::Value) => Ok(Some(bytes)),
        Err(error) => Err(error),
    }
}

/// Writes a message into the field of another one.
pub(super) fn put_message(field: &FieldDescriptor, message: &[u8], into: &mut Vec<u8>) {
    encode_key(field.number(), WireType::LengthDelimited, into);
    encode_varint(message.len() as u64, into);
    into.extend_from_slice(message);
}

/// What is read.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// A message, whose fields are written one after the other.
    Message(&'a MessageDescriptor),
    /// All that a field has.
    Field(&'a FieldDescriptor),
    /// One value of a field.
    One(&'a FieldDescriptor),
    /// The value of a map's entry.
    Entry(&'a FieldDescriptor, &'a str),
}

/// Whether there was anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Value,
}

struct Reader<'a> {
    place: Place<'a>,
    path: &'a str,
    out: &'a mut Violations,
    bytes: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Found, D::Error> {
        from.deserialize_any(self)
    }
}

impl Reader<'_> {
    fn within<'b>(&'b mut self, place: Place<'b>, path: &'b str) -> Reader<'b> {
        Reader {
            place,
            path,
            out: self.out,
            bytes: self.bytes,
        }
    }

    fn go_on<E: Error>(&self) -> Result<(), E> {
        if self.out.is_full() {
            Err(E::custom(ENOUGH))
        } else {
            Ok(())
        }
    }

    fn wrong(self, problem: impl Into<String>) {
        let path = if self.path.is_empty() { "body" } else { self.path };
        self.out.add(path, problem);
    }

    /// A value that is no list and no object, or stands for one that was passed over.
    fn scalar(self, mut value: Value) -> Found {
        let (field, key, kind) = match self.place {
            Place::Message(_) => {
                self.wrong("must be a JSON object");
                return Found::Value;
            }
            Place::Field(field) if field.is_map() => {
                self.wrong("must be a JSON object of keys and values");
                return Found::Value;
            }
            Place::Field(field) if field.is_list() => {
                self.wrong("must be a list");
                return Found::Value;
            }
            Place::Field(field) | Place::One(field) => (field, None, field.kind()),
            Place::Entry(field, key) => (field, Some(key), entry_kind(field)),
        };
        let before = self.out.kept.len();
        match &kind {
            Kind::Message(desc) if is_foreign(desc) => {
                scalar::well_known(&mut value, desc, self.path, self.out)
            }
            Kind::Message(_) => self.out.add(self.path, "must be a JSON object"),
            Kind::Enum(desc) => scalar::word(&mut value, desc, self.path, self.out),
            other => {
                if let Some(wanted) = scalar::wrong(&value, other) {
                    self.out
                        .add(self.path, format!("{wanted}, not {}", scalar::shown(&value)));
                }
            }
        }
        if self.out.kept.len() == before {
            self.put(field, key, value);
        }
        Found::Value
    }

    /// Writes one value of a field, or one entry of a map; or notes what is wrong with it.
    fn put(self, field: &FieldDescriptor, key: Option<&str>, value: Value) {
        let value = match key {
            Some(key) => Value::Object(Map::from_iter([(key.to_owned(), value)])),
            None if field.is_list() => Value::Array(vec![value]),
            None => value,
        };
        let object = Value::Object(Map::from_iter([(field.json_name().to_owned(), value)]));
        match DynamicMessage::deserialize(field.parent_message().clone(), object) {
            Ok(message) => self.bytes.extend_from_slice(&message.encode_to_vec()),
            Err(error) => self.out.add(self.path, error.to_string()),
        }
    }

    /// The message that an object has to be here.
    fn message(&self) -> Option<MessageDescriptor> {
        let kind = match self.place {
            Place::Message(desc) => return Some(desc.clone()),
            Place::Field(field) if field.is_map() || field.is_list() => return None,
            Place::Field(field) | Place::One(field) => field.kind(),
            Place::Entry(field, _) => entry_kind(field),
        };
        match kind {
            Kind::Message(desc) if !is_foreign(&desc) => Some(desc),
            _ => None,
        }
    }

    fn fields<'de, A: MapAccess<'de>>(
        &mut self,
        desc: &MessageDescriptor,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let (mut seen, mut chosen) = (BTreeSet::new(), BTreeSet::new());
        while let Some(key) = map.next_key::<String>()? {
            self.go_on()?;
            let Some(field) = find(desc, &key) else {
                self.out.add(at(self.path, &key), unknown(desc, &key));
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let path = at(self.path, field.name());
            if !seen.insert(field.number()) {
                self.out.add(path, "is given twice");
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let found = map.next_value_seed(self.within(Place::Field(&field), &path))?;
            let one_of = field.containing_oneof().filter(|one| one.fields().len() > 1);
            if let Some(one_of) = one_of.filter(|_| found == Found::Value)
                && !chosen.insert(one_of.name().to_owned())
            {
                let names: Vec<String> = one_of.fields().map(|f| f.name().to_owned()).collect();
                self.out
                    .add(path, format!("only one of {} can be given", names.join(", ")));
            }
        }
        Ok(())
    }

    fn entries<'de, A: MapAccess<'de>>(
        &mut self,
        field: &FieldDescriptor,
        map: &mut A,
    ) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.go_on()?;
            let path = format!("{}[{key}]", self.path);
            if let Kind::Message(desc) = entry_kind(field)
                && !is_foreign(&desc)
            {
                // An entry is a message of a key, which is 1, and a value, which is 2.
                let mut value = Vec::new();
                let reader = Reader {
                    place: Place::Entry(field, &key),
                    path: &path,
                    out: self.out,
                    bytes: &mut value,
                };
                map.next_value_seed(reader)?;
                let mut entry = Vec::new();
                prost::encoding::string::encode(1, &key, &mut entry);
                encode_key(2, WireType::LengthDelimited, &mut entry);
                encode_varint(value.len() as u64, &mut entry);
                entry.extend_from_slice(&value);
                put_message(field, &entry, self.bytes);
            } else {
                map.next_value_seed(self.within(Place::Entry(field, &key), &path))?;
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Found, E> {
        Ok(match self.place {
            Place::Message(_) if self.path.is_empty() => self.scalar(Value::Null),
            Place::Message(_) | Place::Field(_) => Found::Nothing,
            Place::One(_) | Place::Entry(..) => self.scalar(Value::Null),
        })
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Found, E> {
        Ok(self.scalar(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Found, E> {
        Ok(self.scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Found, E> {
        Ok(self.scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Found, E> {
        Ok(self.scalar(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Found, E> {
        Ok(self.scalar(Value::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Found, A::Error> {
        let Place::Field(field) = self.place else {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(self.scalar(Value::Array(Vec::new())));
        };
        if !field.is_list() {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(self.scalar(Value::Array(Vec::new())));
        }
        for i in 0.. {
            self.go_on()?;
            let path = format!("{}[{i}]", self.path);
            let seed = self.within(Place::One(field), &path);
            if list.next_element_seed(seed)?.is_none() {
                break;
            }
        }
        Ok(Found::Value)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Found, A::Error> {
        match (self.place, self.message()) {
            (Place::Field(field), _) if field.is_map() => self.entries(field, &mut map)?,
            (Place::Message(_) | Place::Entry(..), Some(desc)) => self.fields(&desc, &mut map)?,
            (Place::Field(field) | Place::One(field), Some(desc)) => {
                let mut inner = Vec::new();
                let mut reader = Reader {
                    place: Place::Message(&desc),
                    path: self.path,
                    out: self.out,
                    bytes: &mut inner,
                };
                reader.fields(&desc, &mut map)?;
                put_message(field, &inner, self.bytes);
            }
            (_, None) => {
                let mut object = Map::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    object.clear();
                    object.insert(key, Value::Null);
                }
                return Ok(self.scalar(Value::Object(object)));
            }
        }
        Ok(Found::Value)
    }
}

/// The bytes of the fields in a query string.
pub(super) fn query(desc: &MessageDescriptor, text: &str, out: &mut Violations) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for pair in text.split('&').filter(|p| !p.is_empty()) {
        if out.is_full() {
            break;
        }
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |t: &str| decode(&t.replace('+', " "));
        let (Some(key), Some(value)) = (plain(key), plain(value)) else {
            out.add(key, "is not percent-encoded UTF-8");
            continue;
        };
        let Some(field) = find(desc, &key) else {
            out.add(key.clone(), unknown(desc, &key));
            continue;
        };
        let value = match field.kind() {
            Kind::Bool if value == "true" || value.is_empty() => Value::Bool(true),
            Kind::Bool if value == "false" => Value::Bool(false),
            _ => Value::String(value),
        };
        let path = if field.is_list() {
            let count = counts.entry(field.number()).or_default();
            *count += 1;
            format!("{}[{}]", field.name(), *count - 1)
        } else {
            field.name().to_owned()
        };
        let place = if field.is_list() {
            Place::One(&field)
        } else {
            Place::Field(&field)
        };
        let reader = Reader {
            place,
            path: &path,
            out,
            bytes: &mut bytes,
        };
        reader.scalar(value);
    }
    bytes
}

fn is_foreign(desc: &MessageDescriptor) -> bool {
    desc.full_name().starts_with("google.protobuf.")
}

/// What the values of a map are.
fn entry_kind(field: &FieldDescriptor) -> Kind {
    match field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
        kind => kind,
    }
}

/// The field of a name, as JSON writes it or as the message does.
pub(super) fn find(desc: &MessageDescriptor, key: &str) -> Option<FieldDescriptor> {
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
