//! The work of an item: a loop of dependent multiplications. Its length gives the cost.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// An input: [`work`] runs `turns` times over `seed`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Item {
    /// The start value.
    pub seed: u64,
    /// The length.
    pub turns: u64,
}

/// The computation for an item, the same in every arm. Each turn needs the previous one, so a compiler can neither skip nor vectorize it.
/// Peers in C and C++ have the same function.
#[inline]
pub fn work(item: Item) -> u64 {
    (0..item.turns).fold(item.seed, |x, _| (x ^ (x >> 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The baseline of loops: a plain loop into a preallocated output.
#[inline(never)]
pub fn serial(items: &[Item], out: &mut [u64]) {
    for (out, item) in out.iter_mut().zip(items) {
        *out = work(*item);
    }
}

/// Spins on the clock.
pub fn spin(time: Duration) {
    if time.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The costs of turns on this machine, in an item of a serial loop. Short items overlap in the processor, so a turn has no fixed cost: the
/// cost is measured at every power of two and interpolated in between.
#[derive(Clone, Debug)]
pub struct TurnCosts {
    /// (turns, nanoseconds), ascending in both.
    points: Vec<(f64, f64)>,
}

impl TurnCosts {
    /// Measures this machine; about 50 ms.
    pub fn measure() -> Self {
        let point = |turns: u64| {
            let items: Vec<Item> = (0..(1 << 16) / turns.max(64)).map(|seed| Item { seed, turns }).collect();
            let mut out = vec![0; items.len()];
            let mut once = || {
                let start = Instant::now();
                serial(black_box(&items), &mut out);
                black_box(&mut out);
                start.elapsed().as_nanos() as f64 / items.len() as f64
            };
            // The fastest of several runs is the one that nothing interrupted.
            (turns as f64, (0..12).map(|_| once()).fold(f64::INFINITY, f64::min))
        };
        Self::from_points((0..=16).map(|power| point(1 << power)).collect())
    }

    /// From points, ascending in turns. Noise that would make more turns cheaper is removed.
    fn from_points(mut points: Vec<(f64, f64)>) -> Self {
        for at in 1..points.len() {
            points[at].1 = points[at].1.max(points[at - 1].1);
        }
        Self { points }
    }

    /// The number of turns that cost `nanos`; at least one.
    pub fn turns(&self, nanos: f64) -> u64 {
        let after = self.points.partition_point(|point| point.1 <= nanos).clamp(1, self.points.len() - 1);
        let ((turns, cost), (more_turns, more_cost)) = (self.points[after - 1], self.points[after]);
        // Beyond the last point, the last slope continues.
        let slope = (more_turns - turns) / (more_cost - cost).max(f64::MIN_POSITIVE);
        (turns + (nanos - cost) * slope).round().clamp(1.0, 1e9) as u64
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): the same seed gives the same numbers in every run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A separate sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Shuffles; every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_interpolated_between_what_was_measured() {
        let calibration = TurnCosts::from_points(vec![(1.0, 2.0), (2.0, 4.0), (4.0, 16.0)]);
        let turns = [0.0, 2.0, 3.9, 4.0, 10.0, 16.0, 28.0].map(|nanos| calibration.turns(nanos));
        assert_eq!(turns, [1, 1, 2, 2, 3, 4, 6]);
    }

    #[test]
    fn a_noisy_point_does_not_make_more_turns_cheaper() {
        let calibration = TurnCosts::from_points(vec![(1.0, 5.0), (2.0, 4.0), (4.0, 16.0)]);
        assert_eq!(calibration.points, [(1.0, 5.0), (2.0, 5.0), (4.0, 16.0)]);
        assert!(calibration.turns(5.0) >= 1);
    }

    #[test]
    fn a_shuffle_keeps_all_values() {
        let mut values: Vec<usize> = (0..100).collect();
        Random::new(1).shuffle(&mut values);
        assert!(!values.is_sorted());
        values.sort_unstable();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
    }
}
