//! Seeded randomness, one stream for each purpose, so that one more draw for a delay does not change which process
//! crashes.

use echelon_core_model::Span;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The streams of a run.
#[derive(Debug)]
pub struct Dice {
    /// Delays of messages and operations.
    pub delays: Die,
    /// Losses.
    pub losses: Die,
    /// Which faults happen when.
    pub faults: Die,
    /// What users ask for.
    pub users: Die,
    /// Seeds of drivers and clusters.
    pub seeds: Die,
    /// What operators do to the tree of pools.
    pub trees: Die,
    /// What happens to the logs of ended runs.
    pub logs: Die,
    /// When processes lose their connections to the membership servers.
    pub blips: Die,
    /// Which reads of specs come late.
    pub specs: Die,
    /// When shards are cut off, and what becomes of what they say then.
    pub silences: Die,
    /// What a world of many clusters is made of, and what goes wrong in it.
    pub federation: Die,
    /// How wrong the clocks of processes are.
    pub clocks: Die,
    /// How far apart the reports of shards are.
    pub reports: Die,
}

/// One stream.
#[derive(Debug)]
pub struct Die(SmallRng);

impl Dice {
    /// The streams of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let die = |purpose: u64| {
            Die(SmallRng::seed_from_u64(
                seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose,
            ))
        };
        Self {
            delays: die(1),
            losses: die(2),
            faults: die(3),
            users: die(4),
            seeds: die(5),
            trees: die(6),
            logs: die(7),
            blips: die(8),
            specs: die(9),
            silences: die(10),
            federation: die(11),
            clocks: die(12),
            reports: die(13),
        }
    }
}

impl Die {
    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.0.random_range(0..bound)
        }
    }

    /// An index into something of that length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or_default()
    }

    /// Whether something with this chance in a thousand happens.
    pub fn chance(&mut self, in_a_thousand: u32) -> bool {
        self.below(1000) < u64::from(in_a_thousand)
    }

    /// A span from `least` to below `most`.
    pub fn span(&mut self, least: Span, most: Span) -> Span {
        Span(least.0 + self.below(most.0.saturating_sub(least.0)))
    }

    /// Any 128 bits.
    pub fn bits(&mut self) -> u128 {
        self.0.random()
    }
}
