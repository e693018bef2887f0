//! Batch: when it pays to collect operations and run them together.
//!
//! ```text
//! fit F and m to the sizes and durations of batches that ran
//! B = min(operations in flight, limit)
//! alone = F + m + lock, together = F / B + m + h: the cost of an operation
//! alone > 1.1 together: batches of B; alone < 0.9 together: a lock; else either
//! ```
//!
//! | symbol | what it is |
//! |---|---|
//! | `F` | what a batch costs once: a sync to disk, a model's launch, cache misses that a batch can overlap |
//! | `m` | what each operation costs |
//! | `h` | handing one over: submitting it, the reply, waking the caller |
//! | `lock` | taking and releasing a lock |
//!
//! So batching pays if `F (1 - 1/B) > h - lock`. B is never more than the operations in flight: threads that block, tasks, or chunks
//! times workers. A [`BatchFit`] finds F and m; a [`Law`] says what follows from them.
//!
//! Departures, each explained where it is defined:
//! 1. **A batch far off the fit** counts as three times off, until eight in a row show that the batches have changed ([`BatchFit`]).
//! 2. **Callers spin for the reply** while batches are shorter than two fifths of a park ([`reply_spin`]).
//! 3. **Wakeups are chained** if waking all callers would cost more than F ([`direct_wakes`]).
//! 4. **Callers retry the lock** before they hand over an operation that is cheaper than a park ([`Patience`]).
//!
//! ```
//! use windrow_plan::Nanos;
//! use windrow_plan::batch::{BatchFit, Law};
//!
//! let mut fit = BatchFit::default();
//! for b in [1, 4, 16].repeat(20) {
//!     fit.observe(b, Nanos(350_000.0 + 700.0 * b as f64));
//! }
//! let law = Law { handoff: Nanos(5_000.0), ..fit.law().unwrap() };
//! assert!((law.together(64).as_micros() - 11.2).abs() < 0.1);
//! assert!(law.verdict(64, 512).to_string().starts_with("batching gains 31.4x; limit B = 64 = callers in flight"));
//! ```
//!
//! Source of the law: measurements of many structures and peers under blocking, asynchronous and chunked callers. To split a cost into
//! a part per batch and a part per operation is as old as group commit (Gawlick and Kinkade, 1985).

use std::fmt;

use crate::Nanos;
use crate::machine::Machine;

/// The cost of an operation, alone and in a batch. See the [module page](self).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Law {
    /// F: the cost per batch.
    pub fixed: Nanos,
    /// m: the cost per operation.
    pub each: Nanos,
    /// h: the cost of handing an operation over.
    pub handoff: Nanos,
    /// The cost of a lock, when an operation runs alone.
    pub lock: Nanos,
}

impl Law {
    /// How long a batch of `b` runs.
    pub fn batch(&self, b: usize) -> Nanos {
        Nanos(self.fixed.0 + self.each.0 * b as f64)
    }

    /// Cost of an operation that runs alone.
    pub fn alone(&self) -> Nanos {
        Nanos(self.fixed.0 + self.each.0 + self.lock.0)
    }

    /// Cost of an operation in batches of `b`.
    pub fn together(&self, b: usize) -> Nanos {
        Nanos(self.batch(b).0 / b.max(1) as f64 + self.handoff.0)
    }

    /// Operations per second in batches of `b`, with a runner that is never idle.
    pub fn per_second(&self, b: usize) -> f64 {
        1e9 / self.together(b).0
    }

    /// Operations per second in batches of `b`, relative to one at a time.
    pub fn gain(&self, b: usize) -> f64 {
        self.alone().0 / self.together(b).0
    }

    /// Whether batches of `b` beat one at a time.
    pub fn pays(&self, b: usize) -> bool {
        self.gain(b) > 1.0
    }

    /// Whether an operation is so cheap that no batch can win, however large: the operation costs less than its hand-over.
    pub fn is_cheap(&self) -> bool {
        self.alone().0 <= self.handoff.0
    }

    /// What to use with `in_flight` callers and batches of up to `limit`.
    pub fn verdict(&self, in_flight: usize, limit: usize) -> Verdict {
        let batch = in_flight.min(limit).max(1);
        let gain = self.gain(batch);
        // The fit is accurate to a tenth.
        let choice = match gain {
            gain if gain > 1.1 => Choice::Batch,
            gain if gain < 0.9 => Choice::Lock,
            _ => Choice::Either,
        };
        Verdict { law: *self, choice, batch, gain, is_limited_by_callers: in_flight <= limit }
    }
}

/// What handing over and locking cost before they are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandoffCosts {
    /// A caller hands an operation over: 11 claims, for a slot, a push, and one more poll of a task.
    pub caller: Nanos,
    /// The runner's time for an operation that is handed over, until it is measured: the same 11 claims.
    pub runner: Nanos,
    /// A blocking caller is parked and woken.
    pub parked: Nanos,
    /// A lock is taken and released: 1.6 claims, since a claim reads the clock too.
    pub lock: Nanos,
}

impl HandoffCosts {
    /// The multiples of this machine's primitives.
    pub fn of(machine: &Machine) -> HandoffCosts {
        let caller = Nanos(11.0 * machine.claim.0);
        HandoffCosts { caller, runner: caller, parked: machine.park(), lock: Nanos(1.6 * machine.claim.0) }
    }
}

/// How long a caller spins for its reply after handing its operation over, before it parks: two fifths of a park. `batch` is the duration
/// of the last batch.
///
/// To spin for less time than a park takes pays if the reply comes within that time: after one or two batches. With longer batches no
/// caller gets its reply by spinning. 64 callers that spin for 2 us each would take 128 us of CPU time from the threads that prepare
/// the next batch.
pub fn reply_spin(batch: Nanos, machine: &Machine) -> Nanos {
    let spin = Nanos(0.4 * machine.park().0);
    if batch <= spin { spin } else { Nanos(0.0) }
}

/// Direct wakes: how many of `threads` waiting threads the runner of a batch wakes itself. Each of these wakes the next of its chain.
/// `fixed` is F. The system call that wakes a thread takes `call`: two fifths of a park.
///
/// ```text
/// F < threads * call: the square root of threads, 8 or more
/// else:               all
/// ```
///
/// A runner that wakes all `b` threads gets one batch: the woken threads hand in their next operations while it wakes the others. That
/// takes `F + b m + b call`. With chains, the runner starts the next batch at once, with about half of these operations queued. That gives
/// two batches of `F + b m / 2`, which is better if `F < b call`.
///
/// With 64 callers of SQLite on 2 cores (F = 45 us), 1, 2, 4, and 8 direct wakes give 1.3 to 1.5 times the rows per second of waking all.
/// The four are within 5 % of each other. With F = 1.2 ms they give 0.8 times as many. RocksDB takes the square root.
pub fn direct_wakes(threads: usize, fixed: Nanos, machine: &Machine) -> usize {
    if fixed.0 < threads as f64 * 0.4 * machine.park().0 { threads.isqrt().max(8) } else { usize::MAX }
}

/// The interval at which a runner that waits for a larger batch checks its queue: 20 parks. Callers do not wake that runner, because each
/// caller would pay for it. The checks take some per cent of a CPU.
pub fn linger_poll(machine: &Machine) -> Nanos {
    Nanos(20.0 * machine.park().0)
}

/// How long a caller that finds the lock held retries before it hands its operation over. Between two retries it yields, because on a
/// busy machine the holder may need the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// From the first try to the last.
    pub longest: Nanos,
    /// From one try to the next.
    pub apart: Nanos,
}

impl Patience {
    /// For operations that cost `one` alone. A caller retries only if `one` is less than a park, which is h for callers that block.
    ///
    /// The interval is four fifths of a park. A lock that moves to another CPU takes the structure's cache lines with it. That costs some
    /// hundred nanoseconds, shared by the operations until the next move. The interval leaves time for some hundred cheap operations.
    ///
    /// The whole wait is 40 parks. It covers a holder that has lost its CPU: to hand over and be woken costs more than a turn of the other
    /// threads.
    pub fn of(one: Nanos, machine: &Machine) -> Patience {
        let park = machine.park();
        if one < park {
            Patience { longest: Nanos(40.0 * park.0), apart: Nanos(0.8 * park.0) }
        } else {
            Patience { longest: Nanos(0.0), apart: Nanos(0.0) }
        }
    }
}

/// Whether batches or a lock are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Batches.
    Batch,
    /// One at a time, under a lock.
    Lock,
    /// Neither is better by a tenth.
    Either,
}

/// The conclusion from a [`Law`]: printed, it says what to do and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The law it follows from.
    pub law: Law,
    /// Whether batches or a lock are better.
    pub choice: Choice,
    /// The largest possible batch.
    pub batch: usize,
    /// Operations per second in batches of that size, relative to one at a time.
    pub gain: f64,
    /// More callers would make larger batches; otherwise the limit bounds them.
    pub is_limited_by_callers: bool,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { law, batch, gain, .. } = self;
        match self.choice {
            Choice::Batch => {
                let limit = if self.is_limited_by_callers { "callers in flight" } else { "the limit that was set" };
                write!(f, "batching gains {gain:.1}x; limit B = {batch} = {limit}")?;
            }
            Choice::Lock if law.handoff > law.fixed => write!(f, "use a mutex here: h > F")?,
            Choice::Lock => write!(f, "use a mutex here: too few callers for batches (B = {batch})")?,
            Choice::Either => write!(f, "batching changes little here ({gain:.2}x at B = {batch})")?,
        }
        write!(f, " (F = {}, m = {}, h = {})", law.fixed, law.each, law.handoff)
    }
}

/// Estimates F and m from sizes and durations of batches. It fits a line by least squares of relative errors, in which older batches
/// weigh less. It keeps a few numbers, and updates them in a few nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchFit {
    seen: u64,
    /// Consecutive batches far from the prediction.
    strayed: u32,
    /// Sums of weight, weight b, weight b^2, weight t, weight b t.
    sums: [f64; 5],
}

/// The weight of a batch halves in about 350 batches.
///
/// Measure: share of the last sum.
const KEEP: f64 = 1.0 - 1.0 / 512.0;
/// After this many batches the fit predicts. A batch that is off by more than a factor of `FARTHEST` was interrupted: it then counts as
/// off by that factor.
///
/// Measure: count of batches.
const TRUSTED: u64 = 16;
/// See [`TRUSTED`].
///
/// Measure: share of the prediction.
const FARTHEST: f64 = 3.0;
/// This many such batches in a row are no interruptions: the batches have changed, and the fit starts again.
///
/// Measure: count of batches.
const CHANGED: u32 = 8;
/// How much sizes must differ (standard deviation over mean) to tell F from m.
///
/// Measure: share of the mean size.
const SPREAD: f64 = 0.05;

impl BatchFit {
    /// A batch of `b` took `time`.
    pub fn observe(&mut self, b: usize, time: Nanos) {
        let b = b.max(1) as f64;
        let mut t = time.0.max(1.0);
        if self.seen >= TRUSTED
            && let Some(law) = self.law()
        {
            let foreseen = law.batch(b as usize).0.max(1.0);
            let believed = t.clamp(foreseen / FARTHEST, foreseen * FARTHEST);
            self.strayed = if believed == t { 0 } else { self.strayed + 1 };
            if self.strayed == CHANGED {
                *self = BatchFit::default();
            } else {
                t = believed;
            }
        }
        let weight = 1.0 / (t * t);
        for (sum, term) in self.sums.iter_mut().zip([1.0, b, b * b, t, b * t]) {
            *sum = *sum * KEEP + weight * term;
        }
        self.seen += 1;
    }

    /// How many batches were observed since the fit began, or began again.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Cost of an operation alone. Before F and m can be told apart: an operation's share of a batch.
    pub fn one(&self) -> Option<Nanos> {
        let [_, wb, _, wt, _] = self.sums;
        self.law().map(|law| law.batch(1)).or_else(|| (self.seen > 0).then(|| Nanos(wt / wb)))
    }

    /// The fitted law, without the costs of handing over and of locks. `None` before two batches of different sizes.
    pub fn law(&self) -> Option<Law> {
        let [w, wb, wbb, wt, wbt] = self.sums;
        if self.seen < 2 {
            return None;
        }
        let (mean, square) = (wb / w, wbb / w);
        let spread = square - mean * mean;
        if spread <= (SPREAD * mean) * (SPREAD * mean) {
            return None;
        }
        let each = (wbt / w - mean * wt / w) / spread;
        let fixed = wt / w - each * mean;
        // Neither can be negative. If one would be, it is taken for 0, and the other is fitted again.
        let (fixed, each) = match (fixed < 0.0, each < 0.0) {
            (true, _) => (0.0, wbt / wbb),
            (_, true) => (wt / w, 0.0),
            _ => (fixed, each),
        };
        Some(Law { fixed: Nanos(fixed), each: Nanos(each), ..Law::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise that is the same in every run: factors around 1.
    fn noise(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (*state >> 11) as f64 / (1_u64 << 53) as f64;
        0.8 + 0.4 * unit
    }

    fn fitted(fixed: f64, each: f64, sizes: &[usize], interrupted: bool) -> Law {
        let (mut fit, mut state) = (BatchFit::default(), 7);
        for round in 0..200 {
            for &b in sizes {
                let mut time = (fixed + each * b as f64) * noise(&mut state);
                if interrupted && round % 20 == 19 {
                    time += 4_000_000.0;
                }
                fit.observe(b, Nanos(time));
            }
        }
        fit.law().expect("sizes differ")
    }

    #[test]
    fn three_sizes_foretell_the_others() {
        for (fixed, each) in [(350_000.0, 700.0), (1_000.0, 150.0), (40.0, 4.0), (1_000_000.0, 0.0), (0.0, 300.0)] {
            let law = fitted(fixed, each, &[1, 4, 16], false);
            let truth = Law { fixed: Nanos(fixed), each: Nanos(each), ..Law::default() };
            for b in [2, 8, 32, 64] {
                let ratio = law.per_second(b) / truth.per_second(b);
                assert!((ratio - 1.0).abs() < 0.2, "F {fixed} m {each} B {b}: {ratio}");
            }
        }
    }

    #[test]
    fn interruptions_are_not_believed() {
        let law = fitted(2_000.0, 100.0, &[1, 4, 16], true);
        let truth = Law { fixed: Nanos(2_000.0), each: Nanos(100.0), ..Law::default() };
        for b in [2, 8, 64] {
            let ratio = law.per_second(b) / truth.per_second(b);
            assert!((ratio - 1.0).abs() < 0.3, "B {b}: {ratio}");
        }
    }

    #[test]
    fn a_change_is_followed() {
        let mut fit = BatchFit::default();
        for (fixed, rounds) in [(1_000.0, 500), (50_000.0, 3_000)] {
            (0..rounds).for_each(|at| fit.observe(1 + at % 8, Nanos(fixed + 10.0 * (1 + at % 8) as f64)));
        }
        assert!((fit.law().unwrap().fixed.0 / 50_000.0 - 1.0).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn one_size_tells_nothing() {
        let mut fit = BatchFit::default();
        (0..100).for_each(|_| fit.observe(8, Nanos(100.0)));
        assert_eq!((fit.law(), fit.seen()), (None, 100));
        assert!((fit.one().unwrap().0 - 12.5).abs() < 1e-6 && BatchFit::default().one().is_none());
    }

    #[test]
    fn the_law_holds_at_its_edge() {
        let law = Law { fixed: Nanos(100.0), each: Nanos(50.0), handoff: Nanos(80.0), lock: Nanos(20.0) };
        // F (1 - 1/B) > h - lock: 100 (1 - 1/B) > 60 from B = 3 on.
        assert_eq!([1, 2, 3, 64].map(|b| law.pays(b)), [false, false, true, true]);
        assert_eq!((law.alone(), law.batch(4)), (Nanos(170.0), Nanos(300.0)));
        assert!(!law.is_cheap() && Law { fixed: Nanos(5.0), each: Nanos(5.0), ..law }.is_cheap());
    }

    #[test]
    fn cheap_operations_are_waited_for() {
        let machine = Machine::example();
        let Patience { longest, apart } = Patience::of(Nanos(50.0), &machine);
        assert!(longest > apart && apart.0 > 0.0);
        assert_eq!(Patience::of(Nanos::micros(300.0), &machine), Patience { longest: Nanos(0.0), apart: Nanos(0.0) });
    }

    #[test]
    fn the_verdict_says_what_to_do() {
        let disk = Law { fixed: Nanos(350_000.0), each: Nanos(700.0), handoff: Nanos(20_000.0), lock: Nanos(20.0) };
        let said = disk.verdict(64, 512).to_string();
        assert!(said.starts_with("batching gains 13.4x; limit B = 64 = callers in flight (F = 350.0 us"), "{said}");
        assert!(disk.verdict(1000, 16).to_string().contains("limit B = 16 = the limit that was set"));
        let counter = Law { fixed: Nanos(5.0), each: Nanos(2.0), handoff: Nanos(200.0), lock: Nanos(10.0) };
        assert!(counter.verdict(8, 512).to_string().starts_with("use a mutex here: h > F"));
        assert!(disk.verdict(1, 512).to_string().contains("changes little"));
    }

    #[test]
    fn a_waiting_caller_spins_only_while_batches_are_short() {
        let machine = Machine::example();
        let spin = |batch| reply_spin(Nanos(batch), &machine);
        assert!(spin(0.0).0 > 0.0 && spin(500.0) < machine.park());
        assert_eq!(spin(100_000.0), Nanos(0.0));
    }

    #[test]
    fn a_runner_wakes_few_of_many() {
        let all = usize::MAX;
        let wakes = |ops, fixed| direct_wakes(ops, Nanos(fixed), &Machine::example());
        assert_eq!([8, 64, 100, 10_000].map(|ops| wakes(ops, 0.0)), [8, 8, 10, 100]);
        assert_eq!([8, 64, 100, 1_000].map(|ops| wakes(ops, 1e6)), [all, all, all, 31]);
    }
}
