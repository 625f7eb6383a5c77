//! What happened, line by line: a running hash over all of it, so that two runs can be compared, and its last lines for
//! whoever reads a failure.

use echelon_core_model::Timestamp;
use echelon_core_model::bucket::fnv1a;
use std::collections::VecDeque;

/// A trace.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    lines: VecDeque<String>,
    keep: usize,
}

impl Trace {
    /// One that keeps the last `keep` lines.
    pub const fn new(keep: usize) -> Self {
        Self {
            hash: 0,
            lines: VecDeque::new(),
            keep,
        }
    }

    /// Adds a line.
    pub fn line(&mut self, now: Timestamp, text: &str) {
        self.hash = self.hash.rotate_left(5) ^ fnv1a(text.as_bytes()) ^ now.0;
        if self.keep == 0 {
            return;
        }
        if self.lines.len() == self.keep {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>9.3}s {text}", Seconds(now)));
    }

    /// Forgets the lines so far.
    pub fn forget(&mut self) {
        self.lines.clear();
    }

    /// The hash of all lines.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

/// Milliseconds since the world began, shown as seconds.
struct Seconds(Timestamp);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = self.0.since(crate::world::BEGIN).0;
        f.pad_integral(true, "", &format!("{}.{:03}", ms / 1000, ms % 1000))
    }
}
