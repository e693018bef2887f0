//! ep: pairs of Gaussian deviates by Marsaglia's polar method, in batches of 2^16 that share nothing. One loop of long items.

use std::iter::Sum;

use super::{Class, Form, Loops, Random, near};

const SEED: u64 = 271_828_183;
/// Pairs of a batch.
const BATCH: usize = 1 << 16;

/// Sums of the deviates, and the numbers of pairs in each square ring of width 1.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    x: f64,
    y: f64,
    rings: [u64; 10],
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |mut sum, tally| {
            sum.x += tally.x;
            sum.y += tally.y;
            sum.rings.iter_mut().zip(tally.rings).for_each(|(sum, ring)| *sum += ring);
            sum
        })
    }
}

fn batch(at: usize) -> Tally {
    let mut random = Random::after(SEED, 2 * BATCH * at);
    let mut tally = Tally::default();
    for _ in 0..BATCH {
        let (x, y) = (2.0 * random.next() - 1.0, 2.0 * random.next() - 1.0);
        let square = x * x + y * y;
        if square <= 1.0 {
            let scale = (-2.0 * square.ln() / square).sqrt();
            let (x, y) = (x * scale, y * scale);
            tally.x += x;
            tally.y += y;
            tally.rings[x.abs().max(y.abs()) as usize] += 1;
        }
    }
    tally
}

#[derive(Debug)]
pub(super) struct Ep {
    class: Class,
    tally: Tally,
}

impl Ep {
    pub(super) fn new(class: Class) -> Self {
        Self { class, tally: Tally::default() }
    }
}

impl Loops for Ep {
    fn run<F: Form>(&mut self) {
        let batches = match self.class {
            Class::S => (1 << 24) / BATCH,
            Class::W => (1 << 25) / BATCH,
        };
        self.tally = F::sum(batches, batch);
    }

    fn check(&self) -> Result<(), String> {
        let (x, y, pairs) = match self.class {
            Class::S => (-3.24783465203474e3, -6.958407078382297e3, 13_176_389),
            Class::W => (-2.863319731645753e3, -6.320053679109499e3, 26_354_769),
        };
        near("sum of x", self.tally.x, x, 1e-8)?;
        near("sum of y", self.tally.y, y, 1e-8)?;
        near("number of pairs", self.tally.rings.iter().sum::<u64>() as f64, f64::from(pairs), 0.0)
    }
}
