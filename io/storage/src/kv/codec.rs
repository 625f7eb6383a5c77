//! Keys as bytes that order as their cells do, and rows as bytes.

use crate::StoreError;
use crate::error::stored_stamp;
use crate::layout::{CellKind, Column};
use crate::rows::Cell;
use echelon_core_model::store::Stamp;

/// Ends a text or bytes. A zero byte inside is written as `00 ff`, which is above the end of a shorter one.
const END: [u8; 2] = [0, 0];

/// The bytes of some cells. Of two lists of cells of the same columns the smaller one has the smaller bytes, and a prefix
/// of the cells has a prefix of the bytes.
pub(super) fn key(cells: &[Cell]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    for cell in cells {
        match cell {
            // With the sign bit turned round, signed numbers order as unsigned ones.
            Cell::Number(n) => out.extend((n.cast_unsigned() ^ (1 << 63)).to_be_bytes()),
            Cell::Text(text) => escaped(&mut out, text.as_bytes()),
            Cell::Bytes(bytes) => escaped(&mut out, bytes),
        }
    }
    out
}

fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend(END);
}

/// Reads cells back; `None` when the bytes are not such a key.
pub(super) fn cells(columns: &[Column], mut bytes: &[u8]) -> Option<Vec<Cell>> {
    let mut out = Vec::with_capacity(columns.len());
    for column in columns {
        let (cell, rest) = match column.kind {
            CellKind::Number => {
                let (number, rest) = bytes.split_at_checked(8)?;
                let number = u64::from_be_bytes(number.try_into().ok()?) ^ (1 << 63);
                (Cell::Number(number.cast_signed()), rest)
            }
            CellKind::Text => {
                let (text, rest) = plain(bytes)?;
                (Cell::Text(String::from_utf8(text).ok()?), rest)
            }
            CellKind::Bytes => {
                let (plain, rest) = plain(bytes)?;
                (Cell::Bytes(plain), rest)
            }
        };
        out.push(cell);
        bytes = rest;
    }
    bytes.is_empty().then_some(out)
}

fn plain(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    loop {
        match bytes {
            [0, 0, rest @ ..] => return Some((out, rest)),
            [0, 0xff, rest @ ..] => {
                out.push(0);
                bytes = rest;
            }
            [0, ..] | [] => return None,
            [byte, rest @ ..] => {
                out.push(*byte);
                bytes = rest;
            }
        }
    }
}

/// A stored row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// Guard or stamp.
    pub number: i64,
    /// `None`: it was deleted.
    pub value: Option<Vec<u8>>,
}

impl Stored {
    pub fn to_bytes(&self) -> Vec<u8> {
        let value = self.value.as_deref();
        let mut out = Vec::with_capacity(9 + value.map_or(0, <[u8]>::len));
        out.extend(self.number.to_be_bytes());
        out.push(value.is_some().into());
        out.extend(value.unwrap_or_default());
        out
    }

    pub fn of_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let parsed = bytes.split_at_checked(8).and_then(|(number, rest)| {
            let (flag, value) = rest.split_first()?;
            Some(Self {
                number: i64::from_be_bytes(number.try_into().ok()?),
                value: (*flag != 0).then(|| value.to_vec()),
            })
        });
        parsed.ok_or_else(|| StoreError::undone("reading a row", "it is shorter than its head"))
    }
}

/// The stamp of a partition of assignments: its epoch is the number of the partition's own row, and the value says which write of that
/// epoch was the last; nothing says that none was.
pub(super) fn last_write(partition: u16, row: &Stored) -> Result<Stamp, StoreError> {
    let sequence = match row.value.as_deref() {
        None | Some([]) => 0,
        // Bytes of another length are no number: they are told as one that is out of range.
        Some(value) => value.try_into().map_or(-1, i64::from_be_bytes),
    };
    stored_stamp(partition, row.number, sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: [Column; 3] = [
        Column {
            name: "a",
            kind: CellKind::Text,
        },
        Column {
            name: "b",
            kind: CellKind::Number,
        },
        Column {
            name: "c",
            kind: CellKind::Bytes,
        },
    ];

    fn three() -> impl Strategy<Value = Vec<Cell>> {
        let text = prop_oneof![".{0,4}", "[\\x00a]{0,4}"];
        let bytes = proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..5);
        (text, any::<i64>(), bytes)
            .prop_map(|(text, n, bytes)| vec![Cell::Text(text), Cell::Number(n), Cell::Bytes(bytes)])
    }

    #[test]
    fn a_stamp_that_no_leader_can_have_is_no_stamp() {
        let read = |number: i64, value: &[u8]| {
            let row = Stored {
                number,
                value: Some(value.to_vec()),
            };
            last_write(3, &row)
                .map(|stamp| (stamp.epoch.0, stamp.sequence))
                .ok()
        };
        let (first, last) = (1_i64.to_be_bytes(), ((1_i64 << 40) - 1).to_be_bytes());
        assert_eq!(read(0, &[]), Some((0, 0)));
        assert_eq!(read((1 << 23) - 1, &last), Some(((1 << 23) - 1, (1 << 40) - 1)));
        for number in [-1, 1 << 23, i64::MAX, i64::MIN] {
            assert_eq!(read(number, &first), None, "{number}");
        }
        for value in [&(1_i64 << 40).to_be_bytes()[..], &(-1_i64).to_be_bytes(), &[7]] {
            assert_eq!(read(1, value), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_order_as_their_cells(a in three(), b in three()) {
            prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
        }

        #[test]
        fn keys_read_back(a in three()) {
            prop_assert_eq!(cells(&COLUMNS, &key(&a)), Some(a.clone()));
            prop_assert!(key(&a).starts_with(&key(&a[..2])));
        }

        #[test]
        fn broken_keys_are_told(bytes in proptest::collection::vec(0u8..3, 0..20)) {
            if let Some(read) = cells(&COLUMNS, &bytes) {
                prop_assert_eq!(key(&read), bytes);
            }
        }

        #[test]
        fn rows_read_back(number: i64, value: Option<Vec<u8>>) {
            let stored = Stored { number, value };
            prop_assert_eq!(Stored::of_bytes(&stored.to_bytes()).unwrap(), stored);
        }
    }
}
