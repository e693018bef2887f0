//! How batches have come out.

use windrow_plan::Nanos;
use windrow_plan::batch::{Fit, Law, Verdict};

/// Sizes up to this are counted one by one if there is no limit; and if there is one, up to the limit, or so many: half a megabyte of counts.
const EXACT: usize = 1024;
const MOST_EXACT: usize = 1 << 16;

/// What is counted, by the holder of the lock.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Batches by size.
    exact: Vec<u64>,
    /// Larger ones by the logarithm of their size.
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
    pub(super) fit: Fit,
    /// What the runner does for an operation beside running it, lately.
    handoff: Nanos,
    /// The share of operations whose callers had to be woken from their sleep, lately.
    slept: f64,
    /// So many batches are run to see what they are like, whatever is known.
    tries: u32,
}

/// What a caller does itself for an operation that it hands over: about 100 ns for a task with a slot, a push and one more poll, on the
/// 2-core x86-64 machine of the recorded measurements. The runner's part is measured.
const CALLERS_PART: Nanos = Nanos(100.0);
/// What going to sleep and waking up costs the CPU, of a caller that blocks, there.
const SLEEPERS_PART: Nanos = Nanos(5_000.0);
/// An exchange to take a lock and one to release it, there.
const LOCK: Nanos = Nanos(15.0);
/// Batches that are tried when it is tried again whether they pay.
const TRIES: u32 = 4;
/// The runner's part before it is measured, there.
const RUNNERS_PART: Nanos = Nanos(100.0);

impl Counts {
    pub(super) fn new(limit: usize) -> Self {
        Counts {
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
            fit: Fit::default(),
            handoff: RUNNERS_PART,
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

    /// A batch of `size` was cut and answered in `time`; so many of its callers were threads that slept.
    pub(super) fn handed(&mut self, size: usize, time: Nanos, sleepers: usize) {
        self.slept += (sleepers as f64 / size as f64 - self.slept) / 64.0;
        let one = time.0 / size as f64;
        // Far away is an interruption.
        let one = one.clamp(self.handoff.0 / 4.0, self.handoff.0 * 4.0);
        self.handoff.0 += (one - self.handoff.0) / 64.0;
    }

    pub(super) fn law(&self) -> Option<Law> {
        let handoff = Nanos(self.handoff.0 + CALLERS_PART.0 + self.slept * SLEEPERS_PART.0);
        self.fit.law().map(|law| Law { handoff, lock: LOCK, ..law })
    }

    /// Forgets for some batches that they do not pay.
    pub(super) fn try_again(&mut self) {
        self.tries = self.tries.max(TRIES);
    }

    /// Whether it pays that callers wait for each other.
    pub(super) fn pays(&self) -> bool {
        self.tries > 0 || self.law().is_some_and(|law| law.pays(self.largest))
    }

    pub(super) fn snapshot(&self) -> Stats {
        Stats { counts: self.clone() }
    }
}

/// How batches have come out so far. Counts are exact; times are sampled.
#[derive(Clone, Debug)]
pub struct Stats {
    counts: Counts,
}

impl Stats {
    /// How many operations were run, alone or in batches.
    pub fn ops(&self) -> u64 {
        self.counts.ops + self.counts.alone
    }

    /// How many operations were run on their own, without being part of a batch: they found the structure free, or the queue full
    /// ([`Full::RunInline`](super::Full::RunInline)).
    pub fn alone(&self) -> u64 {
        self.counts.alone
    }

    /// How many batches were cut from the queue.
    pub fn batches(&self) -> u64 {
        self.counts.batches
    }

    /// Sizes and how many batches had them: exact up to the limit (at most 65,536; 1024 without one); above that, sizes of the same power of two together, as
    /// the smallest of them.
    pub fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        let exact = self.counts.exact.iter().copied().enumerate();
        let larger = self.counts.larger.iter().enumerate().map(|(log, &count)| (1_usize << log, count));
        exact.chain(larger).filter(|&(_, count)| count > 0)
    }

    /// The share of operations that were run alone, at once or as a batch of one: 0 to 1.
    pub fn singletons(&self) -> f64 {
        let ones = self.counts.exact.get(1).copied().unwrap_or(0) + self.counts.alone;
        ones as f64 / self.ops().max(1) as f64
    }

    /// The largest batch.
    pub fn largest(&self) -> usize {
        self.counts.largest
    }

    /// From handing in until a batch was cut: the mean and the longest of those that were measured; `None` if none was.
    pub fn queue_wait(&self) -> Option<(Nanos, Nanos)> {
        let Counts { waits, waited, longest_wait, .. } = self.counts;
        (waits > 0).then(|| (Nanos(waited / waits as f64), longest_wait))
    }

    /// What an operation costs alone and in company; `None` before there were batches of different sizes.
    pub fn law(&self) -> Option<Law> {
        self.counts.law()
    }

    /// Whether batching pays for the callers there were, and what limits it; `None` as [`law`](Stats::law).
    pub fn verdict(&self) -> Option<Verdict> {
        let largest = self.largest();
        // Where most batches left something to the next, more operations were in flight than the limit lets into one.
        let in_flight = largest + usize::from(2 * self.counts.limited > self.counts.batches);
        self.law().map(|law| law.verdict(in_flight, largest))
    }
}
