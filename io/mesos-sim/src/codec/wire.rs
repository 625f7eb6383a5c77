//! Which protobuf bytes lack a required field, seen without building a message of them: a master judges every call so.

use super::POOL;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{Cardinality, Kind};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What matters of a message's description here.
#[derive(Debug, Default)]
struct Shape {
    /// Numbers of its required fields.
    required: Vec<u32>,
    /// Numbers of its fields that are messages, and where their shapes are.
    messages: HashMap<u32, usize>,
}

static SHAPES: LazyLock<(HashMap<String, usize>, Vec<Shape>)> = LazyLock::new(|| {
    let all: Vec<_> = POOL.iter().flat_map(|pool| pool.all_messages()).collect();
    let places: HashMap<String, usize> = all
        .iter()
        .enumerate()
        .map(|(place, message)| (message.full_name().to_owned(), place))
        .collect();
    let shapes = all.iter().map(|message| {
        let mut shape = Shape::default();
        for field in message.fields() {
            if field.cardinality() == Cardinality::Required {
                shape.required.push(field.number());
            }
            if let Kind::Message(inner) = field.kind()
                && let Some(place) = places.get(inner.full_name())
            {
                shape.messages.insert(field.number(), *place);
            }
        }
        shape
    });
    let shapes = shapes.collect();
    (places, shapes)
});

/// Whether all that a message requires is there. `None`: these bytes are no message, or nobody described it.
pub(super) fn is_complete(body: &[u8], name: &str) -> Option<bool> {
    let place = SHAPES.0.get(name)?;
    complete(body, *place)
}

fn complete(mut body: &[u8], place: usize) -> Option<bool> {
    let shape = SHAPES.1.get(place)?;
    let mut missing = shape.required.clone();
    while body.has_remaining() {
        let (number, kind) = decode_key(&mut body).ok()?;
        missing.retain(|required| *required != number);
        match shape.messages.get(&number) {
            Some(inner) if kind == WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut body).ok()?).ok()?;
                let (message, rest) = body.split_at_checked(length)?;
                if !complete(message, *inner)? {
                    return Some(false);
                }
                body = rest;
            }
            _ => skip_field(kind, number, &mut body, DecodeContext::default()).ok()?,
        }
    }
    Some(missing.is_empty())
}
