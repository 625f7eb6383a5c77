//! Every number of every message has a range, and is accepted or refused by it as it stands in the bytes,
//! however long it is.

use crate::strategies as any_of;
use echelon_core_model::Epoch;
use echelon_core_model::store::Leadership;
use echelon_proto::FILE_DESCRIPTOR_SET;
use echelon_proto::convert::ranges::{Number, check, check_named, numbers, without_range};
use echelon_proto::convert::{FieldProblem, Wire, decode, encode};
use echelon_proto::echelon::shard::v1::DirectRequest;
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, Value};
use std::collections::BTreeSet;
use std::fmt::Debug;

#[test]
fn every_number_of_rows_and_streams_has_a_range() {
    assert_eq!(without_range(), Vec::<String>::new());
    // The walk reaches what it is about.
    let of = |m: &str| numbers().iter().filter(|n| n.message.starts_with(m)).count();
    assert!(of("echelon.storage.v1.") > 100 && of("echelon.shard.v1.") > 40 && of("echelon.v1.") > 80);
}

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap());
}

/// The bytes of a message that has one number; `None`: no bytes can say it.
fn bytes(of: &Number, kind: &Kind, n: i128) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let key = u64::from(of.tag) << 3;
    match kind {
        Kind::Fixed64 => {
            varint(key | 1, &mut out);
            out.extend(u64::try_from(n).ok()?.to_le_bytes());
        }
        Kind::Sint32 | Kind::Sint64 => {
            let n = i64::try_from(n).ok()?;
            varint(key, &mut out);
            varint((n << 1 ^ n >> 63).cast_unsigned(), &mut out);
        }
        Kind::Int32 | Kind::Int64 | Kind::Enum(_) => {
            varint(key, &mut out);
            varint(i64::try_from(n).ok()?.cast_unsigned(), &mut out);
        }
        _ => {
            varint(key, &mut out);
            varint(u64::try_from(n).ok()?, &mut out);
        }
    }
    Some(out)
}

fn number(value: &Value) -> Option<i128> {
    Some(match value {
        Value::Bool(b) => i128::from(*b),
        Value::I32(n) | Value::EnumNumber(n) => (*n).into(),
        Value::I64(n) => (*n).into(),
        Value::U32(n) => (*n).into(),
        Value::U64(n) => (*n).into(),
        Value::List(items) => number(items.first()?)?,
        _ => return None,
    })
}

#[test]
fn each_number_is_accepted_as_it_is_or_refused_by_its_name_at_every_end() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut judged = 0;
    for of in numbers() {
        let message = pool.get_message_by_name(&of.message).unwrap();
        let field = message.get_field(of.tag).unwrap();
        let ends = [of.range.first, of.range.last, of.of_type.first, of.of_type.last];
        let beside = ends.into_iter().flat_map(|n| [n - 1, n, n + 1]);
        let far = [
            0,
            1,
            1 << 32,
            (1 << 32) + 5,
            i64::MIN.into(),
            i64::MAX.into(),
            u64::MAX.into(),
        ];
        for n in beside.chain(far).collect::<BTreeSet<i128>>() {
            let Some(sent) = bytes(of, &field.kind(), n) else {
                continue;
            };
            judged += 1;
            let refusal = check_named(&of.message, &sent)
                .err()
                .filter(|e| e.path == of.field);
            if of.range.holds(n) {
                assert_eq!(refusal, None, "{of:?} {n}");
                let read = DynamicMessage::decode(message.clone(), sent.as_slice()).unwrap();
                assert_eq!(number(&read.get_field(&field)), Some(n), "{of:?}");
            } else {
                let refusal = refusal.unwrap_or_else(|| panic!("{of:?} takes {n}"));
                let (first, last) = (of.range.first, of.range.last);
                let problem = FieldProblem::OutOfRange {
                    number: n,
                    first,
                    last,
                };
                assert_eq!(refusal.problem, problem);
                let said = format!(
                    "field `{}` has the value {n}, outside {first} to {last}",
                    of.field
                );
                assert_eq!(refusal.to_string(), said);
            }
        }
    }
    assert!(judged > 3_000, "{judged}");
}

#[test]
fn an_epoch_that_no_leader_can_have_is_no_directive() {
    let taken = Leadership::taken(Epoch(1), "rm", 1);
    let sent = |epoch, sequence| DirectRequest {
        epoch,
        sequence,
        order: Some(echelon_proto::echelon::shard::v1::direct_request::Order::Hello(
            taken.to_wire(),
        )),
    };
    let wrong = |m: DirectRequest| check::<DirectRequest>(&m.encode_to_vec()).map_err(|e| e.path);
    for (epoch, sequence) in [(1, 0), (Epoch::END - 1, (1 << 40) - 1)] {
        assert_eq!(wrong(sent(epoch, sequence)), Ok(()));
    }
    for epoch in [0, Epoch::END, u64::MAX] {
        assert_eq!(wrong(sent(epoch, 1)), Err("epoch".to_owned()), "{epoch}");
    }
    for sequence in [1 << 40, u64::MAX] {
        assert_eq!(wrong(sent(1, sequence)), Err("sequence".to_owned()));
    }
    let mut inner = sent(1, 1);
    if let Some(echelon_proto::echelon::shard::v1::direct_request::Order::Hello(hello)) = &mut inner.order {
        hello.epoch = Epoch::END;
    }
    assert_eq!(wrong(inner), Err("hello.epoch".to_owned()));
}

/// Counts the numbers of a message, those of inner messages included, and sets one of them.
fn set(message: &mut DynamicMessage, left: &mut usize, to: u64) -> bool {
    let fields: Vec<_> = message.fields().map(|(f, v)| (f, v.clone())).collect();
    for (field, mut value) in fields {
        if set_value(&mut value, left, to) {
            message.set_field(&field, value);
            return true;
        }
    }
    false
}

fn low(n: u64) -> u32 {
    u32::try_from(n & u64::from(u32::MAX)).unwrap()
}

fn set_value(value: &mut Value, left: &mut usize, to: u64) -> bool {
    match value {
        Value::Message(inner) => return set(inner, left, to),
        Value::List(items) => return items.iter_mut().any(|v| set_value(v, left, to)),
        Value::Map(items) => return items.values_mut().any(|v| set_value(v, left, to)),
        Value::U32(_) | Value::U64(_) | Value::I32(_) | Value::I64(_) if *left > 0 => *left -= 1,
        Value::U32(n) => {
            *n = low(to);
            return true;
        }
        Value::U64(n) => {
            *n = to;
            return true;
        }
        Value::I32(n) => {
            *n = low(to).cast_signed();
            return true;
        }
        Value::I64(n) => {
            *n = to.cast_signed();
            return true;
        }
        _ => {}
    }
    false
}

/// A row of which one number is another is read and returns, or is refused; nothing else comes of it.
fn bears<T: Wire + Clone + PartialEq + Debug>(
    pool: &DescriptorPool,
    row: &T,
    mut at: usize,
    to: u64,
) -> Result<(), TestCaseError> {
    let name = <T::Message as prost::Name>::full_name();
    let of = pool.get_message_by_name(&name).unwrap();
    let mut message = DynamicMessage::decode(of, encode(row).as_slice()).unwrap();
    if !set(&mut message, &mut at, to) {
        return Ok(());
    }
    match decode::<T>(&message.encode_to_vec()) {
        Ok(read) => prop_assert_eq!(decode::<T>(&encode(&read)).unwrap(), read),
        Err(error) => prop_assert!(error.to_string().starts_with("field `"), "{}", error),
    }
    Ok(())
}

proptest! {
    #[test]
    fn rows_bear_any_number_in_any_place(
        decided in (any_of::head(), any_of::pools(), any_of::cluster(), any_of::leadership(), any_of::assignment()),
        owned in (any_of::progress(), any_of::heartbeat(), any_of::host(), any_of::shard_row(), any_of::slice_row()),
        block in any_of::block(),
        at in 0..40usize,
        to in prop_oneof![
            Just(0), Just(u64::MAX), Just(1 << 23), Just(1 << 40), Just(1 << 31), Just(1 << 63), any::<u64>(),
        ],
    ) {
        let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
        bears(&pool, &decided.0, at, to)?;
        bears(&pool, &decided.1, at, to)?;
        bears(&pool, &decided.2, at, to)?;
        bears(&pool, &decided.3, at, to)?;
        bears(&pool, &decided.4, at, to)?;
        bears(&pool, &owned.0, at, to)?;
        bears(&pool, &owned.1, at, to)?;
        bears(&pool, &owned.2, at, to)?;
        bears(&pool, &owned.3, at, to)?;
        bears(&pool, &owned.4, at, to)?;
        bears(&pool, &block, at, to)?;
    }
}
