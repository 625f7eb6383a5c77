//! Numbers from a seed (splitmix64).

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The stream of a seed for one purpose, so that one that draws more does not change what another one
    /// draws.
    pub const fn new(seed: u64, purpose: u64) -> Self {
        Self(seed.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ purpose.wrapping_mul(0xa24b_aed4_963e_e407))
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number().checked_rem(end).unwrap_or_default()
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// The same as a number of instances.
    pub fn count(&mut self, least: u32, most: u32) -> u32 {
        let n = self.between(least.into(), most.into());
        u32::try_from(n).unwrap_or(most)
    }

    /// One of them; the default value where there are none.
    pub fn of<T: Copy + Default>(&mut self, all: &[T]) -> T {
        let at = usize::try_from(self.below(all.len() as u64)).unwrap_or_default();
        all.get(at).copied().unwrap_or_default()
    }

    /// Whether something that happens `n` times in a hundred does.
    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}
