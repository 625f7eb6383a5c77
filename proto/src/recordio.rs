//! RecordIO, the framing of Mesos' event streams (rules R9, R10): a decimal length, one newline, that many bytes.
//! Records and reads have nothing to do with each other: a record may come in many pieces, a piece may hold many.
//!
//! Pure: bytes in, records out. Used by the Mesos client and by the simulated master.

use thiserror::Error;

/// A length has at most this many digits; more cannot be a sensible record and would let a broken stream grow unseen.
const MAX_DIGITS: usize = 20;

/// Why a stream cannot be read any further. The stream has lost its framing: close it and subscribe again (rule R10).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The line where a length should stand is something else.
    #[error("expected a record's length in the event stream, found `{0}`; subscribe again")]
    NotALength(String),
    /// The record is longer than the reader allows.
    #[error(
        "a record of {length} bytes in the event stream exceeds the bound of {bound} bytes; raise the bound or subscribe again"
    )]
    TooLong {
        /// What the length line says.
        length: u64,
        /// The bound given to [`Decoder::new`].
        bound: usize,
    },
}

/// Frames one record.
#[must_use]
pub fn encode(record: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(record.len().saturating_add(MAX_DIGITS));
    framed.extend_from_slice(record.len().to_string().as_bytes());
    framed.push(b'\n');
    framed.extend_from_slice(record);
    framed
}

/// Takes a stream apart, piece by piece. After the first error every further piece gets the same error.
#[derive(Debug, Clone)]
pub struct Decoder {
    bound: usize,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Length(Vec<u8>),
    Record { missing: usize, bytes: Vec<u8> },
    Poisoned(RecordError),
}

impl Decoder {
    /// A decoder that refuses records longer than `bound` bytes. An OFFERS event grows with the number of agents, so
    /// the bound belongs to the size of the cluster.
    #[must_use]
    pub const fn new(bound: usize) -> Self {
        Self {
            bound,
            state: State::Length(Vec::new()),
        }
    }

    /// Takes the next piece of the stream and appends every record that it completes to `records`. Empty records are
    /// dropped (rule R9).
    ///
    /// # Errors
    /// `RecordError` when the framing is lost; records completed before that stand in `records`.
    pub fn push(&mut self, piece: &[u8], records: &mut Vec<Vec<u8>>) -> Result<(), RecordError> {
        let mut rest = piece;
        loop {
            match &mut self.state {
                State::Poisoned(error) => return Err(error.clone()),
                State::Record { missing, bytes } => {
                    let (taken, left) = rest.split_at(rest.len().min(*missing));
                    bytes.extend_from_slice(taken);
                    *missing -= taken.len();
                    rest = left;
                    if *missing > 0 {
                        return Ok(());
                    }
                    if !bytes.is_empty() {
                        records.push(std::mem::take(bytes));
                    }
                    self.state = State::Length(Vec::new());
                }
                State::Length(line) => {
                    let Some((byte, left)) = rest.split_first() else {
                        return Ok(());
                    };
                    rest = left;
                    match Self::length_byte(line, *byte, self.bound) {
                        Ok(None) => {}
                        // Memory is taken as bytes arrive, not on the word of a length line.
                        Ok(Some(missing)) => {
                            self.state = State::Record {
                                missing,
                                bytes: Vec::new(),
                            }
                        }
                        Err(error) => self.state = State::Poisoned(error),
                    }
                }
            }
        }
    }

    /// Whether the stream stands between two records, so that its end here loses nothing.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        matches!(&self.state, State::Length(line) if line.is_empty())
    }

    /// Bytes of the record or length line that is not complete yet: never more than the bound, or a line's digits.
    #[must_use]
    pub fn buffered(&self) -> usize {
        match &self.state {
            State::Length(line) => line.len(),
            State::Record { bytes, .. } => bytes.len(),
            State::Poisoned(_) => 0,
        }
    }

    fn length_byte(line: &mut Vec<u8>, byte: u8, bound: usize) -> Result<Option<usize>, RecordError> {
        let not_a_length = |line: &[u8]| RecordError::NotALength(String::from_utf8_lossy(line).into_owned());
        if byte.is_ascii_digit() && line.len() < MAX_DIGITS {
            line.push(byte);
            return Ok(None);
        }
        if byte != b'\n' || line.is_empty() {
            line.push(byte);
            return Err(not_a_length(line));
        }
        let length = str::from_utf8(line)
            .ok()
            .and_then(|digits| digits.parse::<u64>().ok());
        let length = length.ok_or_else(|| not_a_length(line))?;
        match usize::try_from(length) {
            Ok(missing) if missing <= bound => Ok(Some(missing)),
            _ => Err(RecordError::TooLong { length, bound }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Option<RecordError>) {
        let mut decoder = Decoder::new(1000);
        let mut records = Vec::new();
        let error = pieces
            .iter()
            .find_map(|piece| decoder.push(piece, &mut records).err());
        (records, error)
    }

    proptest! {
        #[test]
        fn records_survive_any_cutting_of_the_stream(
            records in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8),
            cuts in prop::collection::vec(1usize..7, 1..200),
        ) {
            let stream: Vec<u8> = records.iter().flat_map(|r| encode(r)).collect();
            let mut decoder = Decoder::new(40);
            let mut out = Vec::new();
            let mut rest = stream.as_slice();
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at(rest.len().min(*cut));
                decoder.push(piece, &mut out).unwrap();
                rest = left;
                if rest.is_empty() { break }
            }
            prop_assert!(decoder.at_boundary());
            prop_assert_eq!(out, records);
        }

        #[test]
        fn no_bytes_make_it_panic_or_hold_more_than_it_was_given(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (records, _) = decode(&[&bytes]);
            prop_assert!(records.iter().map(Vec::len).sum::<usize>() <= bytes.len());
        }
    }

    #[test]
    fn an_empty_record_is_nothing() {
        assert_eq!(decode(&[b"0\n2\nab"]), (vec![b"ab".to_vec()], None));
    }

    #[test]
    fn half_a_record_is_not_a_boundary() {
        for (stream, boundary) in [
            (&b""[..], true),
            (b"1", false),
            (b"3\n", false),
            (b"3\nab", false),
            (b"3\nabc", true),
        ] {
            let mut decoder = Decoder::new(10);
            decoder.push(stream, &mut Vec::new()).unwrap();
            assert_eq!(decoder.at_boundary(), boundary, "{stream:?}");
        }
    }

    #[test]
    fn a_line_that_is_no_length_poisons_the_rest() {
        for line in ["x", "-", " ", "\n", "1 ", "1\r", "0x", "123456789012345678901"] {
            let stream = format!("2\nab{line}\n2\ncd");
            let (records, error) = decode(&[stream.as_bytes()]);
            assert_eq!(records, [b"ab"], "{line:?}");
            assert!(matches!(error, Some(RecordError::NotALength(_))), "{line:?}");
        }
        let mut decoder = Decoder::new(10);
        let mut records = Vec::new();
        let first = decoder.push(b"oops\n", &mut records).unwrap_err();
        assert_eq!(decoder.push(b"2\nab", &mut records).unwrap_err(), first);
        assert!(records.is_empty());
    }

    #[test]
    fn a_record_above_the_bound_is_refused_before_its_bytes_come() {
        assert_eq!(
            decode(&[b"1001\n"]).1,
            Some(RecordError::TooLong {
                length: 1001,
                bound: 1000
            })
        );
        assert_eq!(
            decode(&[b"18446744073709551615\n"]).1,
            Some(RecordError::TooLong {
                length: u64::MAX,
                bound: 1000
            })
        );
        assert!(matches!(
            decode(&[b"18446744073709551616\n"]).1,
            Some(RecordError::NotALength(_))
        ));
        assert_eq!(decode(&[b"1000\n"]).1, None);
    }
}
