//! Items and their costs.

use windrow_plan::Nanos;

use super::{Draw, Time, nanos, time};

/// Items in order, each with its cost.
#[derive(Clone, Debug)]
pub struct Work {
    /// Running sums: the items `lo..hi` take `sums[hi] - sums[lo]` together.
    sums: Box<[Time]>,
    largest: Time,
}

impl Work {
    /// Items with these costs.
    ///
    /// # Panics
    /// If there are more than `u32::MAX` of them, or a cost is negative or not finite.
    pub fn new(costs: impl Iterator<Item = Nanos>) -> Work {
        let (mut sum, mut largest) = (0, 0);
        let mut sums = vec![0];
        sums.extend(costs.map(|cost| {
            let cost = time(cost);
            largest = largest.max(cost);
            sum += cost;
            sum
        }));
        assert!(u32::try_from(sums.len() - 1).is_ok(), "more items than an index can name");
        Work { sums: sums.into(), largest }
    }

    /// `n` items of the same cost.
    pub fn uniform(n: u32, cost: Nanos) -> Work {
        Work::new((0..n).map(|_| cost))
    }

    /// `n` items of the same cost, except that item `at` costs `factor` times as much.
    pub fn one_large(n: u32, cost: Nanos, at: u32, factor: f64) -> Work {
        Work::new((0..n).map(|i| if i == at { Nanos(cost.0 * factor) } else { cost }))
    }

    /// `n` items with this mean cost, spread log-uniformly over three decades, in random order.
    pub fn log_uniform(n: u32, mean: Nanos, seed: u64) -> Work {
        // The mean of 10^u for u uniform in 0..3.
        let unit = 999.0 / 1000.0f64.ln();
        let mut draw = Draw(seed);
        Work::new((0..n).map(|_| Nanos(mean.0 / unit * 1000.0f64.powf(draw.unit()))))
    }

    /// Number of items.
    pub fn len(&self) -> u32 {
        (self.sums.len() - 1) as u32
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Time on one thread, without any claim.
    pub fn total(&self) -> Nanos {
        nanos(self.sums[self.sums.len() - 1])
    }

    /// The costliest item.
    pub fn largest(&self) -> Nanos {
        nanos(self.largest)
    }

    /// A lower bound for `members` members: an equal share for each, or the largest item.
    ///
    /// # Panics
    /// If `members` is 0.
    pub fn ideal(&self, members: usize) -> Nanos {
        let total = self.sums[self.sums.len() - 1];
        nanos(total.div_ceil(members as Time).max(self.largest))
    }

    pub(super) fn between(&self, lo: u32, hi: u32) -> Time {
        self.sums[hi as usize] - self.sums[lo as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up() {
        let work = Work::one_large(10, Nanos(2.0), 3, 100.0);
        assert_eq!((work.len(), work.total(), work.largest()), (10, Nanos(218.0), Nanos(200.0)));
        assert_eq!((work.between(2, 4), work.between(4, 10)), (202_000, 12_000));
        assert_eq!((work.ideal(1), work.ideal(4)), (Nanos(218.0), Nanos(200.0)));
        assert!(Work::uniform(0, Nanos(1.0)).is_empty());
    }

    #[test]
    fn log_uniform_costs_have_their_mean_and_span_three_decades() {
        let work = Work::log_uniform(100_000, Nanos(1000.0), 7);
        let mean = work.total().0 / 100_000.0;
        assert!((970.0..1030.0).contains(&mean), "{mean}");
        let costs = || (0..100_000).map(|i| work.between(i, i + 1));
        let spread = costs().max().unwrap() as f64 / costs().min().unwrap() as f64;
        assert!((950.0..=1000.1).contains(&spread), "{spread}");
    }
}
