//! Statistics of batches.

use windrow_plan::Nanos;
use windrow_plan::batch::{BatchFit, BatchRunner, BatchTraffic, HandoffCosts, Law, Verdict};
use windrow_plan::estimate::Smoothing;

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
    recent: Recent,
    /// The threads that ran the last batch.
    pub(super) runner: BatchRunner,
    waits: u64,
    waited: f64,
    longest_wait: Nanos,
    pub(super) fit: BatchFit,
    costs: HandoffCosts,
    /// The time of a batch apart from its run, in nanoseconds, and its operations: moving averages. h is their ratio.
    handing: (f64, f64),
    /// The tick at which the last batch ended, its time, and the number of operations that had run alone by then.
    ended: (u64, Nanos, u64),
    /// The share of operations whose callers were parked: a moving average.
    slept: f64,
    /// Batches still to be run as an experiment, paying or not.
    tries: u32,
}

/// Sums over recent batches: halved now and then, so that older ones weigh less.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    batches: f64,
    ops: f64,
    in_flight: f64,
    /// Batches that would have been larger without a limit.
    limited: f64,
    /// Operations that ran alone.
    alone: f64,
    /// The number of all such operations when `alone` was last updated.
    seen_alone: u64,
}

impl Recent {
    /// Batches beyond which sums are halved.
    ///
    /// Measure: count of batches.
    const BATCHES: f64 = 256.0;
    /// Operations that ran alone beyond which sums are halved.
    ///
    /// Measure: count of operations.
    const ALONE: f64 = 16_384.0;

    fn update(&mut self, alone: u64) {
        self.alone += (alone - self.seen_alone) as f64;
        self.seen_alone = alone;
        if self.batches > Self::BATCHES || self.alone > Self::ALONE {
            for sum in [&mut self.batches, &mut self.ops, &mut self.in_flight, &mut self.limited, &mut self.alone] {
                *sum /= 2.0;
            }
        }
    }

    fn traffic(mut self, alone: u64, runner: BatchRunner) -> BatchTraffic {
        self.update(alone);
        let Recent { batches, ops, in_flight, limited, alone, .. } = self;
        BatchTraffic {
            batch: if batches > 0.0 { ops / batches } else { 1.0 },
            in_flight: if batches > 0.0 { in_flight / batches } else { 1.0 },
            alone: if alone > 0.0 { alone / (alone + ops) } else { 0.0 },
            is_limited: 2.0 * limited > batches,
            runner,
        }
    }
}

/// Batches of one experiment that measures whether they pay, and of the first one.
///
/// Measure: count of batches.
const TRIES: u32 = 4;
const FIRST_TRIES: u32 = 16;

/// The factor by which a pause may exceed the guessed cost of handing over before the structure counts as idle, and handing over may exceed it.
///
/// Measure: share of the guess.
const BUSY: f64 = 4.0;

impl BatchCounts {
    pub(super) fn new(limit: usize, costs: HandoffCosts) -> Self {
        BatchCounts {
            exact: vec![0; if limit == usize::MAX { EXACT } else { limit.min(MOST_EXACT) } + 1],
            larger: [0; usize::BITS as usize],
            alone: 0,
            batches: 0,
            ops: 0,
            largest: 0,
            recent: Recent::default(),
            runner: BatchRunner::Callers,
            waits: 0,
            waited: 0.0,
            longest_wait: Nanos(0.0),
            fit: BatchFit::default(),
            costs,
            handing: (costs.handoff().0, 1.0),
            ended: (0, Nanos(0.0), 0),
            slept: 0.0,
            tries: FIRST_TRIES,
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

    /// A batch of `size` is answered; `in_flight` operations are queued or were in it, or in the caller that ran it for others.
    pub(super) fn answered(&mut self, size: usize, in_flight: usize, is_limited: bool) {
        self.recent.update(self.alone);
        self.recent.batches += 1.0;
        self.recent.ops += size as f64;
        self.recent.in_flight += in_flight as f64;
        self.recent.limited += f64::from(u8::from(is_limited));
    }

    /// A batch of `size` began at tick `start` and ended at `end`. It took `ran`, and `around` for the rest; `gap` lay between the
    /// last batch and this one. `sleepers` of its callers were parked threads.
    ///
    /// If callers came back without delay, the gap is part of what handing over costs: waking them, their calls, and waking the
    /// runner. Otherwise the structure was idle, and these costs are guessed.
    pub(super) fn handed(&mut self, size: usize, (ran, around, gap): (Nanos, Nanos, Nanos), end: u64, sleepers: usize) {
        let HandoffCosts { caller, parked, .. } = self.costs;
        self.slept = Smoothing::BATCHES.follow(self.slept, sleepers as f64 / size as f64);
        let (ended, last_ran, alone) = std::mem::replace(&mut self.ended, (end, ran, self.alone));
        let guess = size as f64 * (caller.0 + self.slept * parked.0);
        let most = self.fit.law().map_or(last_ran, |law| law.batch(size)).0.max(BUSY * guess);
        let is_busy = ended != 0 && alone == self.alone && gap.0 <= most;
        // Beyond that a busy process had the CPU, which it would take from callers of a mutex, too.
        let took = (around.0 + if is_busy { gap.0 } else { guess }).min(most);
        let (time, ops) = &mut self.handing;
        *time = Smoothing::BATCHES.follow(*time, took);
        *ops = Smoothing::BATCHES.follow(*ops, size as f64);
    }

    /// The ticks since the last batch, at tick `now`.
    pub(super) fn gap(&self, now: u64) -> u64 {
        now.saturating_sub(self.ended.0)
    }

    /// F. Until it is known, the whole time of the last batch stands for it.
    pub(super) fn fixed(&self, took: Nanos) -> Nanos {
        self.fit.law().map_or(took, |law| law.fixed)
    }

    pub(super) fn law(&self) -> Option<Law> {
        // If all batches held one operation, how F and m share its cost does not matter.
        let singly = || Some(Law { each: self.fit.one().filter(|_| self.largest <= 1)?, ..Law::default() });
        let law = self.fit.law().or_else(singly)?;
        let lock = self.costs.mutex(self.traffic(), law.batch(1));
        let (time, ops) = self.handing;
        Some(Law { handoff: Nanos(time / ops), lock, wrapper: self.costs.wrapper, ..law })
    }

    fn traffic(&self) -> BatchTraffic {
        self.recent.traffic(self.alone, self.runner)
    }

    /// Starts another experiment: some batches are run although batching does not pay so far.
    pub(super) fn try_again(&mut self) {
        self.tries = self.tries.max(TRIES);
    }

    /// True if callers should wait for each other.
    pub(super) fn pays(&self) -> bool {
        self.tries > 0 || self.law().is_some_and(|law| law.pays(self.largest))
    }

    pub(super) fn snapshot(&self) -> Stats {
        Stats { counts: self.clone() }
    }
}

/// Statistics of the batches so far. Counts are exact; times are sampled.
///
/// ```
/// # use windrow::batch::{Batch, BatchOps, Batched};
/// # struct Sum(u64);
/// # impl BatchOps for Sum {
/// #     type Op = u64;
/// #     type Reply = u64;
/// #     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
/// #         for entry in batch.iter_mut() {
/// #             self.0 += entry.take();
/// #             entry.reply(self.0);
/// #         }
/// #     }
/// # }
/// use windrow::batch::Chunk;
///
/// # let sum = Batched::new(Sum(0));
/// let mut chunk = Chunk::new();
/// chunk.extend(1..=100);
/// sum.call_chunk(&mut chunk).unwrap();
/// let stats = sum.stats().unwrap();
/// let in_batches: u64 = stats.sizes().map(|(size, batches)| size as u64 * batches).sum();
/// assert_eq!((stats.ops(), in_batches + stats.alone()), (100, 100));
/// ```
#[derive(Clone, Debug)]
pub struct Stats {
    counts: BatchCounts,
}

impl Stats {
    /// The number of operations that were run, alone or in batches.
    pub fn ops(&self) -> u64 {
        self.counts.ops + self.counts.alone
    }

    /// The number of operations that were not part of a batch: they found the structure free.
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

    /// The largest batch; 0 before there was one.
    pub fn largest(&self) -> usize {
        self.counts.largest
    }

    /// The mean and the longest measured time from handing in an operation until its batch was cut; `None` if none was measured.
    pub fn queue_wait(&self) -> Option<(Nanos, Nanos)> {
        let BatchCounts { waits, waited, longest_wait, .. } = self.counts;
        (waits > 0).then(|| (Nanos(waited / waits as f64), longest_wait))
    }

    /// The mean size of recent batches, the operations in flight, and the share of operations that ran alone.
    pub fn traffic(&self) -> BatchTraffic {
        self.counts.traffic()
    }

    /// The cost of an operation alone and in a batch; `None` until there were batches of different sizes, or operations that ran alone.
    pub fn law(&self) -> Option<Law> {
        self.counts.law()
    }

    /// The recent gain of batching for the callers, and the change to make; `None` as in [`law`](Stats::law), and with batches of two and
    /// more until 64 were measured since costs last changed, and while a quarter of them is interrupted: that would look like costs.
    pub fn verdict(&self) -> Option<Verdict> {
        let traffic = self.traffic();
        let is_known = traffic.batch < 2.0 || self.counts.fit.is_settled();
        self.law().filter(|_| is_known).map(|law| law.verdict(traffic))
    }
}
