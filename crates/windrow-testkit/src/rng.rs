//! Random numbers from a seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(
    /// The state; any seed will do.
    pub u64,
);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// An index below `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number below `n` whose logarithm is evenly distributed, from 0 on.
    pub fn log_below(&mut self, n: u64) -> u64 {
        let bits = self.below(64 - u64::from(n.leading_zeros()));
        self.below(2 << bits).min(n - 1)
    }
}

/// Scatters the bits of a number.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
