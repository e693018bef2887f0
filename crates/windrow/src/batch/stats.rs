//! Statistics of batches.

use windrow_plan::Nanos;
use windrow_plan::batch::{BatchFit, HandoffCosts, Law, Verdict};

/// The largest size with a separate count if there is no limit.
///
/// Measure: size of the counts.
const EXACT: usize = 1024;
/// The largest size with a separate count if there is a limit: half a megabyte of counts.
///
/// Measure: size of the counts.
const MOST_EXACT: usize = 1 << 16;

/// Counts and times. The holder of the lock updates them.
#[derive(Clone, Debug)]
pub(super) struct BatchCounts {
    /// Batches by size.
    exact: Vec<u64>,
    /// Larger batches by the logarithm of their size.
    larger: [u64; usize::BITS as usize],
    /// Operations that found the lock free.
    pub(super) alone: u64,
    batches: u64,
    ops: u64,
    largest: usize,
    /// Batches that would have been larger without a limit.
    pub(super) limited: u64,
    waits: u64,
    waited: f64,
    longest_wait: Nanos,
    pub(super) fit: BatchFit,
    costs: HandoffCosts,
    /// The runner's time for an operation besides running it: a moving average.
    handoff: Nanos,
    /// The share of operations whose callers were parked: a moving average.
    slept: f64,
    /// Batches still to be run as an experiment, whether or not they pay so far.
    tries: u32,
}

/// Batches of one experiment that measures whether they pay.
///
/// Measure: count of batches.
const TRIES: u32 = 4;

impl BatchCounts {
    pub(super) fn new(limit: usize, costs: HandoffCosts) -> Self {
        BatchCounts {
            exact: vec![0; if limit == usize::MAX { EXACT } else { limit.min(MOST_EXACT) } + 1],
            larger: [0; usize::BITS as usize],
            alone: 0,
            batches: 0,
            ops: 0,
            largest: 1,
            limited: 0,
            waits: 0,
            waited: 0.0,
            longest_wait: Nanos(0.0),
            fit: BatchFit::default(),
            costs,
            handoff: costs.runner,
            slept: 0.0,
            tries: 4 * TRIES,
        }
    }

    pub(super) fn count(&mut self, size: usize) {
        match self.exact.get_mut(size) {
            Some(count) => *count += 1,
            None => self.larger[size.ilog2() as usize] += 1,
        }
        self.batches += 1;
        self.tries = self.tries.saturating_sub(1);
        self.ops += size as u64;
        self.largest = self.largest.max(size);
    }

    pub(super) fn waited(&mut self, wait: Nanos) {
        self.waits += 1;
        self.waited += wait.0;
        if wait > self.longest_wait {
            self.longest_wait = wait;
        }
    }

    /// A batch of `size` was cut and answered in `time`; `sleepers` of its callers were parked threads.
    pub(super) fn handed(&mut self, size: usize, time: Nanos, sleepers: usize) {
        self.slept += (sleepers as f64 / size as f64 - self.slept) / 64.0;
        let one = time.0 / size as f64;
        // An outlier is an interruption of this thread: clamp it.
        let one = one.clamp(self.handoff.0 / 4.0, self.handoff.0 * 4.0);
        self.handoff.0 += (one - self.handoff.0) / 64.0;
    }

    pub(super) fn law(&self) -> Option<Law> {
        let HandoffCosts { caller, parked, lock, .. } = self.costs;
        let handoff = Nanos(self.handoff.0 + caller.0 + self.slept * parked.0);
        self.fit.law().map(|law| Law { handoff, lock, ..law })
    }

    /// Starts another experiment: some batches are run although batching does not pay so far.
    pub(super) fn try_again(&mut self) {
        self.tries = self.tries.max(TRIES);
    }

    /// Whether callers should wait for each other.
    pub(super) fn pays(&self) -> bool {
        self.tries > 0 || self.law().is_some_and(|law| law.pays(self.largest))
    }

    pub(super) fn snapshot(&self) -> Stats {
        Stats { counts: self.clone() }
    }
}

/// Statistics of the batches so far. Counts are exact; times are sampled.
#[derive(Clone, Debug)]
pub struct Stats {
    counts: BatchCounts,
}

impl Stats {
    /// The number of operations that were run, alone or in batches.
    pub fn ops(&self) -> u64 {
        self.counts.ops + self.counts.alone
    }

    /// The number of operations that were not part of a batch: they found the structure free, or the queue full
    /// ([`Overflow::RunInline`](super::Overflow::RunInline)).
    pub fn alone(&self) -> u64 {
        self.counts.alone
    }

    /// The number of batches that were cut from the queue.
    pub fn batches(&self) -> u64 {
        self.counts.batches
    }

    /// Sizes, and the number of batches of each. Sizes are exact up to the limit (at most 65,536; 1024 without a limit). Larger sizes
    /// are rounded down to a power of two.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        let exact = self.counts.exact.iter().copied().enumerate();
        let larger = self.counts.larger.iter().enumerate().map(|(log, &count)| (1_usize << log, count));
        exact.chain(larger).filter(|&(_, count)| count > 0)
    }

    /// The share of operations that were run alone, either at once or as a batch of one: 0 to 1.
    pub fn singletons(&self) -> f64 {
        let ones = self.counts.exact.get(1).copied().unwrap_or(0) + self.counts.alone;
        ones as f64 / self.ops().max(1) as f64
    }

    /// The largest batch.
    pub fn largest(&self) -> usize {
        self.counts.largest
    }

    /// The mean and the longest measured time from handing in an operation until its batch was cut; `None` if none was measured.
    pub fn queue_wait(&self) -> Option<(Nanos, Nanos)> {
        let BatchCounts { waits, waited, longest_wait, .. } = self.counts;
        (waits > 0).then(|| (Nanos(waited / waits as f64), longest_wait))
    }

    /// The cost of an operation alone and in a batch; `None` until there were batches of different sizes.
    pub fn law(&self) -> Option<Law> {
        self.counts.law()
    }

    /// Whether batching paid for the callers so far, and what limits it; `None` as in [`law`](Stats::law).
    pub fn verdict(&self) -> Option<Verdict> {
        let largest = self.largest();
        // If most batches left operations to the next one, more operations were in flight than the limit allows in a batch.
        let in_flight = largest + usize::from(2 * self.counts.limited > self.counts.batches);
        self.law().map(|law| law.verdict(in_flight, largest))
    }
}
