//! Recorded streams, damaged at random and cut anywhere: they are read without a panic, into the same events however they are
//! cut, and without holding more than the bound. `ECHELON_FUZZ_CASES` says how many; the nightly run takes a million.

use super::replay::{folder, streams};
use crate::reader::{ReadError, Reader};
use echelon_core_hosts::Event;
use echelon_proto::recordio;
use proptest::prelude::*;
use std::sync::OnceLock;

/// Longest record that is taken.
const BOUND: usize = 4_096;

/// Records of a stream that are damaged together.
const WINDOW: usize = 5;

/// What happens to bytes. Places are parts of 65,536 of their length.
#[derive(Debug, Clone)]
enum Damage {
    Flip(u16, u8),
    Overwrite(u16, Vec<u8>),
    Insert(u16, Vec<u8>),
    Remove(u16, u16),
    Repeat(u16, u16),
    Truncate(u16),
}

/// A piece of a recorded stream and what becomes of it.
#[derive(Debug, Clone)]
struct Case {
    stream: prop::sample::Index,
    first: prop::sample::Index,
    /// To one record before it is framed, and to the framed stream.
    inside: Vec<(prop::sample::Index, Damage)>,
    outside: Vec<Damage>,
    /// One length line says this.
    line: Option<(prop::sample::Index, &'static str)>,
    /// The stream begins with SUBSCRIBED.
    begins: bool,
    cuts: Vec<u16>,
}

const LINES: [&str; 8] = [
    "",
    "0",
    "1",
    "4097",
    "18446744073709551615",
    "99999999999999999999",
    "+5",
    "five",
];

/// The records of every recorded stream.
fn recorded() -> &'static [Vec<Vec<u8>>] {
    static ALL: OnceLock<Vec<Vec<Vec<u8>>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let names = std::fs::read_dir(folder()).unwrap();
        let names = names.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".protobuf.jsonl")).collect();
        names.sort();
        names
            .iter()
            .flat_map(|name| streams(name).into_values())
            .collect()
    })
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || {
        prop_oneof![
            3 => prop::collection::vec(any::<u8>(), 1..12),
            // What is special to length lines and to protobuf's numbers.
            1 => Just(b"99999999999999999999999999999999\n".to_vec()),
            1 => Just(b"\n".to_vec()),
            1 => Just(b"0\n".to_vec()),
            1 => Just(b"4097\n".to_vec()),
            1 => Just(vec![0xff; 11]),
        ]
    };
    prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        (any::<u16>(), bytes()).prop_map(|(at, by)| Damage::Overwrite(at, by)),
        (any::<u16>(), bytes()).prop_map(|(at, by)| Damage::Insert(at, by)),
        (any::<u16>(), any::<u16>()).prop_map(|(at, n)| Damage::Remove(at, n)),
        (any::<u16>(), any::<u16>()).prop_map(|(at, n)| Damage::Repeat(at, n)),
        any::<u16>().prop_map(Damage::Truncate),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let inside = prop::collection::vec((any::<prop::sample::Index>(), damage()), 0..3);
    let parts = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        inside,
        prop::collection::vec(damage(), 0..3),
        prop::option::weighted(
            0.2,
            (any::<prop::sample::Index>(), prop::sample::select(&LINES[..])),
        ),
        prop::bool::weighted(0.9),
        prop::collection::vec(any::<u16>(), 0..6),
    );
    parts.prop_map(|(stream, first, inside, outside, line, begins, cuts)| Case {
        stream,
        first,
        inside,
        outside,
        line,
        begins,
        cuts,
    })
}

fn place(part: u16, bytes: &[u8]) -> usize {
    usize::from(part) * bytes.len() / 65_536
}

impl Damage {
    fn to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Flip(at, bits) => {
                let at = place(*at, bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Self::Overwrite(at, by) => {
                let at = place(*at, bytes);
                let end = bytes.len().min(at + by.len());
                bytes.splice(at..end, by.iter().copied());
            }
            Self::Insert(at, by) => {
                let at = place(*at, bytes);
                bytes.splice(at..at, by.iter().copied());
            }
            Self::Remove(at, n) => {
                let at = place(*at, bytes);
                let end = at + place(*n, &bytes[at..]);
                bytes.drain(at..end);
            }
            Self::Repeat(at, n) => {
                let at = place(*at, bytes);
                let end = at + place(*n, &bytes[at..]);
                let again = bytes[at..end].to_vec();
                bytes.splice(end..end, again);
            }
            Self::Truncate(at) => bytes.truncate(place(*at, bytes)),
        }
    }
}

impl Case {
    fn stream(&self) -> Vec<u8> {
        let stream = self.stream.get(recorded());
        let first = self.first.index(stream.len());
        let window = stream.iter().skip(first.max(1)).take(WINDOW);
        let head = stream.iter().take(usize::from(self.begins));
        let mut records: Vec<Vec<u8>> = head.chain(window).cloned().collect();
        // The shortest stream is an ERROR alone.
        if records.is_empty() {
            records.push(stream[0].clone());
        }
        for (which, damage) in &self.inside {
            let n = which.index(records.len());
            damage.to(&mut records[n]);
        }
        let mut frames: Vec<Vec<u8>> = records.iter().map(|r| recordio::encode(r)).collect();
        if let Some((which, said)) = &self.line {
            let n = which.index(frames.len());
            frames[n] = [said.as_bytes(), b"\n", &records[n]].concat();
        }
        let mut framed = frames.concat();
        self.outside.iter().for_each(|damage| damage.to(&mut framed));
        framed
    }

    fn pieces<'a>(&self, stream: &'a [u8]) -> Vec<&'a [u8]> {
        let mut at: Vec<usize> = self.cuts.iter().map(|cut| place(*cut, stream)).collect();
        at.sort_unstable();
        let ends = at.iter().copied().chain([stream.len()]);
        let begins = [0].into_iter().chain(at.iter().copied());
        begins.zip(ends).map(|(from, to)| &stream[from..to]).collect()
    }
}

/// The events, and how it ended: with an error, or whether between two records.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Event>, Result<bool, ReadError>) {
    let (mut reader, mut events, mut done) = (Reader::new(BOUND), Vec::new(), Ok(()));
    for piece in pieces {
        done = reader.push(piece, &mut events);
        assert!(reader.buffered() <= BOUND, "{} bytes are held", reader.buffered());
    }
    (events, done.map(|()| reader.at_boundary()))
}

fn check(case: &Case) {
    let stream = case.stream();
    let whole = read([&stream[..]]);
    assert_eq!(read(case.pieces(&stream)), whole);
    assert_eq!(read(stream.chunks(1)), whole, "byte by byte");
    let offers = whole.0.iter().map(|event| match event {
        Event::Offers(offers) => offers.len(),
        _ => 1,
    });
    assert!(
        offers.sum::<usize>() <= stream.len(),
        "more than one thing a byte"
    );
}

fn cases() -> u32 {
    let asked = std::env::var("ECHELON_FUZZ_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn damaged_streams_are_read_the_same_however_they_are_cut(case in case()) {
        check(&case);
    }
}

/// The damage is worth something: it lets some streams through, and meets every way in which a stream ends.
#[test]
fn damage_reaches_every_end() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..2_000 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let stream = case.stream();
        let end = match read([&stream[..]]) {
            (_, Err(error)) => {
                let text = error.to_string();
                text.split(' ').take(3).collect::<Vec<_>>().join(" ")
            }
            (_, Ok(true)) => "whole".to_owned(),
            (_, Ok(false)) => "cut".to_owned(),
        };
        *seen.entry(end).or_insert(0) += 1;
    }
    let known = [
        "a record of",
        "an event cannot",
        "cut",
        "expected a record's",
        "the first event",
        "whole",
    ];
    assert_eq!(
        seen.keys().map(String::as_str).collect::<Vec<_>>(),
        known,
        "{seen:?}"
    );
    assert!(seen.values().all(|n| *n >= 5), "{seen:?}");
}
