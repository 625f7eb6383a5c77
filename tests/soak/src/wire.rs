//! Messages of protocol buffers as they lie in stored rows, without their schema: fields by number. The numbers are written out
//! where they are used.

use anyhow::{Context, Result, bail};

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of any integer, truth value or enum.
    Number(u64),
    /// Eight bytes of a fixed size.
    Long([u8; 8]),
    /// Bytes, a text, or another message.
    Bytes(Vec<u8>),
    /// Four bytes of a fixed size.
    Short([u8; 4]),
}

/// Fields in the order of being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Number and value of each.
    pub fields: Vec<(u64, Value)>,
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(mut bytes: &[u8]) -> Result<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut bytes)?),
                1 => Value::Long(taken(&mut bytes, 8)?.try_into()?),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)?)?;
                    Value::Bytes(taken(&mut bytes, length)?.to_vec())
                }
                5 => Value::Short(taken(&mut bytes, 4)?.try_into()?),
                kind => bail!("a field of the unknown kind {kind}"),
            };
            fields.push((tag >> 3, value));
        }
        Ok(Self { fields })
    }

    /// The bytes of the message.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (field, value) in &self.fields {
            let kind = match value {
                Value::Number(_) => 0,
                Value::Long(_) => 1,
                Value::Bytes(_) => 2,
                Value::Short(_) => 5,
            };
            put_varint(&mut out, field << 3 | kind);
            match value {
                Value::Number(number) => put_varint(&mut out, *number),
                Value::Long(bytes) => out.extend(bytes),
                Value::Bytes(bytes) => {
                    put_varint(&mut out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                    out.extend(bytes);
                }
                Value::Short(bytes) => out.extend(bytes),
            }
        }
        out
    }

    /// A number; 0 when it is left out.
    #[must_use]
    pub fn number(&self, field: u64) -> u64 {
        let of = |(number, value): &(u64, Value)| match value {
            Value::Number(value) if *number == field => Some(*value),
            _ => None,
        };
        self.fields.iter().rev().find_map(of).unwrap_or(0)
    }

    /// Sets a number.
    pub fn set_number(&mut self, field: u64, value: u64) {
        self.fields.retain(|(number, _)| *number != field);
        self.fields.push((field, Value::Number(value)));
    }

    /// A text; empty when it is left out.
    #[must_use]
    pub fn text(&self, field: u64) -> String {
        let all = self.all(field);
        let last = all.last().copied().unwrap_or_default();
        String::from_utf8_lossy(last).into_owned()
    }

    /// All values of a repeated field of bytes.
    #[must_use]
    pub fn all(&self, field: u64) -> Vec<&[u8]> {
        let of = |(number, value): &'_ (u64, Value)| match value {
            Value::Bytes(_) => *number == field,
            _ => false,
        };
        let found = self.fields.iter().filter(|entry| of(entry));
        found
            .filter_map(|(_, value)| match value {
                Value::Bytes(bytes) => Some(bytes.as_slice()),
                _ => None,
            })
            .collect()
    }

    /// A message in this one; an empty one when it is left out.
    ///
    /// # Errors
    /// Its bytes are none.
    pub fn message(&self, field: u64) -> Result<Self> {
        Self::read(self.all(field).last().copied().unwrap_or_default())
    }

    /// Sets a message in this one.
    pub fn set_message(&mut self, field: u64, message: &Self) {
        self.fields.retain(|(number, _)| *number != field);
        self.fields.push((field, Value::Bytes(message.bytes())));
    }
}

fn taken<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length).context("it breaks off")?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for place in 0..10 {
        let [byte] = taken(bytes, 1)? else { break };
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    bail!("a number of more than ten bytes")
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_it_was_read() {
        // 1: 150, 2: "testing", 3: { 1: 5 }, 4: 8 bytes, 5: 4 bytes
        let mut bytes = vec![0x08, 0x96, 0x01, 0x12, 7];
        bytes.extend(b"testing");
        bytes.extend([0x1a, 2, 0x08, 5, 0x21, 1, 2, 3, 4, 5, 6, 7, 8, 0x2d, 1, 2, 3, 4]);
        let mut message = Message::read(&bytes).unwrap();
        assert_eq!(message.bytes(), bytes);
        assert_eq!((message.number(1), message.number(9)), (150, 0));
        assert_eq!(message.text(2), "testing");
        let mut inner = message.message(3).unwrap();
        assert_eq!(inner.number(1), 5);
        inner.set_number(1, 300);
        message.set_message(3, &inner);
        let again = Message::read(&message.bytes()).unwrap();
        assert_eq!(again.message(3).unwrap().number(1), 300);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [
            &[0x08][..],
            &[0x12, 9, 1],
            &[0xff, 0xff, 0xff, 0xff, 0x07],
            &[0x0b],
        ] {
            assert!(Message::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
