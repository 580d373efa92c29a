//! What several tests of this folder share.

/// Random numbers that are the same in every run: SplitMix64.
pub struct Random(u64);

impl Random {
    /// A separate stream for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        u32::try_from(bits % u64::from(limit)).expect("a remainder is below its divisor")
    }

    /// Yes in `percent` of the calls.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}
