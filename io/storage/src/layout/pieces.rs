//! A decided value that may be larger than a row: its bytes are cut, and each row says of how many it is one, and of which
//! version of the whole. Rows behind those of a value that has become smaller may stay: nothing reads them.

use crate::rows::RowKey;

/// Most bytes of a value in one row.
pub(crate) const PIECE_BYTES: usize = 48 * 1024;
/// What stands before them: how many rows there are, and the version.
const HEADER: usize = 4 + 8;

/// A value in rows, compared and set by the version of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// What names all of its rows.
    pub all: RowKey,
    /// The version that is replaced; `None`: insert if absent.
    pub expected: Option<i64>,
    pub version: i64,
    /// One at least. The first is the one that is compared.
    pub rows: Vec<(RowKey, Vec<u8>)>,
}

impl Pieces {
    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(|(_, value)| value.len() + 64).sum()
    }
}

/// Cuts a value into what its rows hold.
pub(crate) fn cut(value: &[u8], version: i64) -> Vec<Vec<u8>> {
    let empty: &[u8] = &[];
    let parts: Vec<&[u8]> = if value.is_empty() {
        vec![empty]
    } else {
        value.chunks(PIECE_BYTES).collect()
    };
    let many = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let header = [many.to_be_bytes().as_slice(), &version.to_be_bytes()].concat();
    parts.iter().map(|part| [&header, *part].concat()).collect()
}

/// What the rows of a value say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Joined {
    Whole(Vec<u8>),
    /// Rows of two versions: it was written while it was read.
    Torn,
    /// Why they are not a value.
    Broken(&'static str),
}

/// Puts rows together, given by place.
pub(crate) fn join<'a>(rows: impl Iterator<Item = (i64, &'a [u8])>) -> Joined {
    let mut whole = Vec::new();
    let mut first: Option<&[u8]> = None;
    let mut next = 0_u32;
    let many = |header: &[u8]| {
        let many = header.first_chunk().copied().map(u32::from_be_bytes);
        many.unwrap_or_default()
    };
    for (place, row) in rows {
        if first.is_some_and(|header| next >= many(header)) {
            break;
        }
        if place != i64::from(next) {
            return Joined::Broken("a row of it is not there");
        }
        let Some((header, part)) = row.split_at_checked(HEADER) else {
            return Joined::Broken("a row of it is too short");
        };
        match first {
            None if many(header) == 0 => return Joined::Broken("it says that it has no rows"),
            None => first = Some(header),
            Some(first) if first != header => return Joined::Torn,
            Some(_) => {}
        }
        whole.extend_from_slice(part);
        next += 1;
    }
    match first {
        Some(header) if next >= many(header) => Joined::Whole(whole),
        Some(_) => Joined::Broken("a row of it is not there"),
        None => Joined::Broken("it has no rows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(rows: &[Vec<u8>]) -> Joined {
        join((0..).zip(rows.iter().map(Vec::as_slice)))
    }

    #[test]
    fn what_is_cut_is_joined_and_what_is_not_whole_is_said() {
        for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let value: Vec<u8> = (0..=250).cycle().take(bytes).collect();
            let mut rows = cut(&value, 7);
            assert!(rows.iter().all(|row| row.len() <= PIECE_BYTES + HEADER));
            assert_eq!(joined(&rows), Joined::Whole(value.clone()));
            // One is left of a value that was larger.
            rows.push(cut(&[1], 6).remove(0));
            assert_eq!(joined(&rows), Joined::Whole(value));
        }
        let (old, new) = (cut(&[1; 100_000], 1), cut(&[2; 100_000], 2));
        let torn = [new[0].clone(), old[1].clone(), old[2].clone()];
        assert_eq!(joined(&torn), Joined::Torn);
        assert!(matches!(joined(&new[..2]), Joined::Broken(_)));
        assert!(matches!(joined(&new[1..]), Joined::Torn | Joined::Broken(_)));
        assert!(matches!(joined(&[vec![1, 2]]), Joined::Broken(_)));
        assert!(matches!(joined(&[]), Joined::Broken(_)));
    }
}
