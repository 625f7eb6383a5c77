//! Random numbers from a seed (SplitMix64), so that the same inputs give the same ids, byte for byte.

use std::fmt::Write as _;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream that belongs to a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 when there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or_default()
    }

    /// The bytes of a version 4 UUID.
    pub fn uuid(&mut self) -> [u8; 16] {
        let number = (u128::from(self.number()) << 64) | u128::from(self.number());
        let version = 0x4u128 << 76;
        let variant = 0x2u128 << 62;
        ((number & !(0xfu128 << 76) & !(0x3u128 << 62)) | version | variant).to_be_bytes()
    }
}

/// The usual text of a UUID.
#[must_use]
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_stream_of_version_4_uuids() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        for _ in 0..100 {
            let text = uuid_text(&a.uuid());
            assert_eq!(text, uuid_text(&b.uuid()));
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "4");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
        assert_ne!(Random::new(1).uuid(), Random::new(2).uuid());
    }
}
