//! Batch: when it pays to collect operations and run them together.
//!
//! ```text
//! fit F and m to the sizes and durations of batches that ran
//! B = the recent mean of operations in a batch
//! alone = F + m + lock, together = F / B + m + h: the cost of an operation
//! alone > 1.1 together: batches; together > 1.1 alone: a lock; else either
//! ```
//!
//! | symbol | meaning |
//! |---|---|
//! | `F` | cost of a batch: a sync to disk, a model's launch, cache misses that a batch can overlap |
//! | `m` | cost of each operation |
//! | `h` | handing one over: submitting it, the reply, waking the caller |
//! | `lock` | taking and releasing a lock |
//!
//! So batching pays if `F (1 - 1/B) > h - lock`. Operations that find the structure free count with the wrapper's own cost instead of
//! `together`. B is never more than the operations in flight: threads that block, tasks, or chunks
//! times workers. A `BatchFit` finds F and m, a [`Law`] their consequences.
//!
//! Departures, each explained where it is defined:
//! 1. **A batch far off the fit** counts as three times off, until eight in a row show that the batches have changed (`BatchFit`).
//! 2. **Callers spin for the reply** while batches are shorter than two fifths of a park (`reply_spin`).
//! 3. **Wakeups are chained** if waking all callers would cost more than F (`direct_wakes`).
//! 4. **Callers retry the lock** before they hand over an operation that is cheaper than a park (`lock_retries`), tasks one that is cheaper than
//!    handing it over.
//! 5. **A runner waits for callers that it has just answered**, up to a twentieth of F (`ReturnWait`).
//! 6. **A blocking caller leads for 8 wakes**, because passing the lock on takes one (`Machine::turn`); no caller leads for others
//!    if that delays its own operations more (`passes_on`).
//!
//! Source of the law: measurements of many structures and peers under blocking, asynchronous and chunked callers. To split a cost into
//! a part per batch and a part per operation is as old as group commit (Gawlick and Kinkade, 1985).

use std::fmt;

mod fit;

#[doc(hidden)]
pub use fit::BatchFit;

use crate::Nanos;
use crate::machine::{Machine, WorkerState};
use crate::spin;

/// The cost of an operation under a lock and in a batch. See the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::Law;
///
/// // A sync to disk takes 350 us, a row 1 us, and a reply 5 us.
/// let (fixed, each, handoff) = (Nanos::micros(350.0), Nanos::micros(1.0), Nanos::micros(5.0));
/// let law = Law { fixed, each, handoff, ..Law::default() };
/// assert!(law.gain(64) > law.gain(4) && law.gain(4) > 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Law {
    /// F: the cost per batch.
    pub fixed: Nanos,
    /// m: the cost per operation.
    pub each: Nanos,
    /// h: the cost of handing an operation over.
    pub handoff: Nanos,
    /// The cost of a lock, for an operation in no batch.
    pub lock: Nanos,
    /// The cost of the wrapper, when an operation finds the structure free.
    pub wrapper: Nanos,
}

impl Law {
    /// Running time of a batch of `b`.
    pub fn batch(&self, b: usize) -> Nanos {
        Nanos(self.fixed.0 + self.each.0 * b as f64)
    }

    /// Cost of an operation in no batch, under a lock.
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
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// let law = Law { fixed: Nanos::micros(350.0), handoff: Nanos::micros(5.0), ..Law::default() };
    /// assert_eq!(law.gain(8), law.alone().0 / law.together(8).0);
    /// assert!(law.gain(usize::MAX) <= 70.0, "an operation never costs less than its hand-over");
    /// ```
    pub fn gain(&self, b: usize) -> f64 {
        self.alone().0 / self.together(b).0
    }

    /// True if batches of `b` beat one operation at a time.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// // F (1 - 1/B) > h - lock: 100 (1 - 1/B) > 60 from B = 3 on.
    /// let (fixed, handoff, lock) = (Nanos(100.0), Nanos(80.0), Nanos(20.0));
    /// let law = Law { fixed, handoff, lock, ..Law::default() };
    /// assert_eq!([1, 2, 3, 64].map(|b| law.pays(b)), [false, false, true, true]);
    /// ```
    pub fn pays(&self, b: usize) -> bool {
        self.gain(b) > 1.0
    }

    /// The better choice with such `traffic`, and advice.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::{Advice, BatchRunner, BatchTraffic, Choice, Law};
    ///
    /// let disk = Law { fixed: Nanos::micros(350.0), handoff: Nanos::micros(5.0), ..Law::default() };
    /// let (batch, in_flight, runner) = (4.0, 64.0, BatchRunner::Callers);
    /// let verdict = disk.verdict(BatchTraffic { batch, in_flight, alone: 0.0, is_limited: true, runner });
    /// assert_eq!((verdict.choice, verdict.advice), (Choice::Batch, Advice::Limit));
    /// ```
    pub fn verdict(&self, traffic: BatchTraffic) -> Verdict {
        let BatchTraffic { batch, in_flight, alone, is_limited, runner } = traffic;
        let gain = |batch: f64| {
            let in_batches = (self.fixed.0 / batch.max(1.0) + self.each.0) + self.handoff.0;
            let at_once = self.fixed.0 + self.each.0 + self.wrapper.0;
            self.alone().0 / (alone * at_once + (1.0 - alone) * in_batches)
        };
        let choice = match gain(batch) {
            gain if gain > SURE => Choice::Batch,
            gain if gain * SURE < 1.0 => Choice::Lock,
            _ => Choice::Either,
        };
        let would_gain = gain(in_flight) > SURE * gain(batch);
        let advice = match choice {
            // The hand-over is the cost, and no batch shares it.
            Choice::Lock if runner == BatchRunner::Separate && batch.round() < 2.0 && self.handoff > self.wrapper => {
                Advice::Callers
            }
            Choice::Lock => Advice::Mutex,
            _ if is_limited && would_gain => Advice::Limit,
            // While handing over takes longer than F, waiting for more operations gains nothing.
            _ if would_gain && alone < 1.0 - alone && self.handoff.0 * batch < self.fixed.0 => Advice::Wait,
            Choice::Batch if runner == BatchRunner::Tasks && self.fixed > self.long_for_a_task() => Advice::Thread,
            _ => Advice::Nothing,
        };
        Verdict { law: *self, choice, advice, batch, in_flight, gain: gain(batch) }
    }

    /// The shortest batch that keeps other tasks of an executor waiting.
    fn long_for_a_task(&self) -> Nanos {
        Nanos(LONG_FOR_A_TASK * self.lock.0)
    }
}

/// The factor by which one choice must beat another: the fit is accurate to a tenth.
///
/// Measure: share of the other cost.
const SURE: f64 = 1.1;
/// A batch that takes longer than this keeps other tasks of an executor waiting, in locks: about 0.2 ms.
///
/// Measure: count of locks.
const LONG_FOR_A_TASK: f64 = 20_000.0;

/// The threads that run batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRunner {
    /// Calling threads, which block.
    Callers,
    /// Calling tasks, on the threads of their executor.
    Tasks,
    /// A separate thread, or spawned closures.
    Separate,
}

/// Averages of recent batches.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{BatchRunner, BatchTraffic, Choice, Law};
///
/// let law = Law { fixed: Nanos(500.0), each: Nanos(50.0), handoff: Nanos(200.0), ..Law::default() };
/// let runner = BatchRunner::Callers;
/// let busy = BatchTraffic { batch: 64.0, in_flight: 64.0, alone: 0.0, is_limited: false, runner };
/// assert_eq!(law.verdict(busy).choice, Choice::Batch);
/// let quiet = BatchTraffic { batch: 1.0, in_flight: 1.0, ..busy };
/// assert_eq!(law.verdict(quiet).choice, Choice::Lock, "each operation pays for F and for its hand-over");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchTraffic {
    /// Operations in a batch, on average.
    pub batch: f64,
    /// Operations in flight when a batch ended, on average: in that batch, queued, or the next one of a caller that ran it for others.
    pub in_flight: f64,
    /// The share of operations that found the structure free, and were in no batch.
    pub alone: f64,
    /// True if most batches left operations to the next one: a limit was reached.
    pub is_limited: bool,
    /// The threads that ran the last batch.
    pub runner: BatchRunner,
}

/// Costs of handing over and locking, until they are measured.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandoffCosts {
    /// A caller hands an operation over: a slot, a push, and one more poll of a task. The runner's time for it is the same.
    pub caller: Nanos,
    /// A blocking caller is parked and woken: the system call that wakes it and the time until it runs. A lock takes that longer if another
    /// caller is parked in front of it.
    pub parked: Nanos,
    /// A lock is taken and released: a claim.
    pub lock: Nanos,
    /// The wrapper finds the structure free, and runs one operation: a lock, and a claim for its counts.
    pub wrapper: Nanos,
}

impl HandoffCosts {
    /// The multiples of this machine's primitives.
    pub fn of(machine: &Machine) -> HandoffCosts {
        let (caller, lock) = (Nanos(HANDOFF * machine.claim.0), machine.claim);
        HandoffCosts { caller, parked: machine.park(), lock, wrapper: Nanos(lock.0 + lock.0) }
    }

    /// Time of both sides for an operation that is handed over.
    pub fn handoff(&self) -> Nanos {
        Nanos(self.caller.0 + self.caller.0)
    }

    /// The cost of a mutex for `traffic`, where an operation takes `one`. To release a mutex wakes a waiter. Until the waiter runs, a park
    /// later, the mutex is free for the others, so with short operations the wakes take a fixed share of the time. With long ones a single
    /// waiter costs a park each time; of many threads, one is awake already. An executor runs other code between the calls of its tasks: half
    /// of the releases find no waiter. An operation that found the structure free would find a mutex free.
    pub fn mutex(&self, traffic: BatchTraffic, one: Nanos) -> Nanos {
        let others = traffic.in_flight - 1.0;
        let (releases, awake) = match traffic.runner {
            BatchRunner::Tasks => (TASKS_WAIT, 1.0),
            BatchRunner::Callers | BatchRunner::Separate => (1.0, others.max(1.0)),
        };
        let contended = others.clamp(0.0, 1.0) * (releases * CALL * one.0).min(self.parked.0) / awake;
        Nanos(self.lock.0 + (1.0 - traffic.alone) * contended)
    }
}

/// Cost of handing an operation over, on either side.
///
/// Measure: 11 claims.
const HANDOFF: f64 = 11.0;
/// The system call that wakes a thread. Callers spin for as long before they park. Releases of a contended mutex make one
/// such call for each park of a waiter.
///
/// Measure: share of a park.
const CALL: f64 = 0.4;
/// Releases of a mutex by tasks that find a waiter.
///
/// Measure: share of releases.
const TASKS_WAIT: f64 = 0.5;
/// Threads that a runner wakes itself at least.
///
/// Measure: count of threads.
const DIRECT: usize = 8;

/// Spinning time of a caller for its reply after handing its operation over, before it parks: two fifths of a park. `batch` is the duration
/// of the last batch.
///
/// To spin for less time than a park takes pays if the reply comes within that time: after one or two batches. With longer batches no
/// caller gets its reply by spinning. 64 callers that spin for 2 us each would take 128 us of CPU time from the threads that prepare
/// the next batch.
#[doc(hidden)]
pub fn reply_spin(batch: Nanos, machine: &Machine) -> Nanos {
    let spin = Nanos(CALL * machine.park().0);
    if batch <= spin { spin } else { Nanos(0.0) }
}

/// Direct wakes: the number of `threads` waiting threads that the runner of a batch wakes itself. Each of these wakes the next of its chain.
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
#[doc(hidden)]
pub fn direct_wakes(threads: usize, fixed: Nanos, machine: &Machine) -> usize {
    if fixed.0 < threads as f64 * CALL * machine.park().0 { threads.isqrt().max(DIRECT) } else { usize::MAX }
}

/// The wait of a runner for the callers that it has just answered. If they call again at once, batches alternate at half size
/// without it: callers that were answered last miss the batch that begins meanwhile.
///
/// ```text
/// wait after the answers: up to F / 20, until as many operations are queued as were in flight
/// gain of a wait = returned - waited / time of a batch * max(queued, half of those in flight)
/// after a wait, while recent ones did not pay on average: none for 4, 8, 16, ... 256 batches
/// ```
///
/// The runner gives up `waited / took` batches for a wait, of the size that they have without it. On average, because with busy processes
/// a wait now and then loses a time slice, many batches long: that one costs more than the others gain. A wait that does not pay costs a
/// twentieth of a batch, so at first one in 5 batches costs 1 %, later less than 0.1 %.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReturnWait {
    trial: Trial,
    /// Operations that recent waits have gained, by those in flight.
    gain: f64,
    /// The trial of yields, and true while a wait yields.
    yields: Trial,
    is_yielding: bool,
}

impl ReturnWait {
    /// The longest wait by default, and so the longest delay of an operation by it.
    ///
    /// Measure: share of F.
    const SHARE: f64 = 0.05;
    /// A longer wait counts as one of this length: it would be remembered for too long.
    ///
    /// Measure: count of batches.
    const SLICE: f64 = 16.0;
    /// The weight of earlier waits by that of the next one.
    ///
    /// Measure: share of the next one.
    const MEMORY: f64 = 0.9;

    /// The longest wait of the next batch for more operations: `most`, by default a twentieth of F. Called once a batch. No waits that are
    /// shorter than to enter a region: no caller returns sooner.
    pub fn longest(&mut self, fixed: Nanos, most: Option<Nanos>, machine: &Machine) -> Nanos {
        let longest = most.unwrap_or(Nanos(Self::SHARE * fixed.0));
        if longest < machine.enter(WorkerState::Idle) || !self.trial.is_due() { Nanos(0.0) } else { longest }
    }

    /// A thread begins a wait.
    pub fn begin(&mut self) {
        self.is_yielding = self.yields.is_due();
    }

    /// The sleep of a waiting thread before it checks its queue again, `left` before the end of the wait. `None`: it yields instead.
    ///
    /// Callers may need its CPU. Yielding while they run is cheaper than a sleep, whose end the system may delay by some 50 us. But a busy
    /// process that gets the CPU keeps it for a time slice, as long as many batches.
    pub fn pause(&self, left: Nanos, machine: &Machine) -> Option<Nanos> {
        let step = machine.turn();
        let sleeps = !self.is_yielding || left.0 > 2.0 * step.0;
        sleeps.then(|| if left < step { left } else { step })
    }

    /// A yield took `time`. After more than a [turn](Machine::turn) the thread has lost its CPU: it sleeps from now on, and in the next waits.
    pub fn yielded(&mut self, time: Nanos, machine: &Machine) {
        if time > machine.turn() {
            self.is_yielding = false;
            self.yields.observe(false);
        }
    }

    /// `queued` of `expected` operations waited for `waited`, until `returned` more had come. A batch takes `took`.
    pub fn observe(&mut self, took: Nanos, (queued, returned, expected): (usize, usize, usize), waited: Nanos) {
        if std::mem::take(&mut self.is_yielding) {
            self.yields.observe(true);
        }
        let [queued, returned, expected] = [queued, returned, expected.max(1)].map(|ops| ops as f64);
        // Without waits a batch holds half of the operations in flight.
        let batches = (waited.0 / took.0).min(Self::SLICE);
        self.gain = Self::MEMORY * self.gain + (returned - queued.max(expected / 2.0) * batches) / expected;
        self.trial.observe(self.gain > 0.0);
    }
}

/// A step that is taken while it pays. After it did not pay it is skipped 4, 8, 16, ... 256 times. Each time that it pays halves the next pause:
/// one success among losses of a time slice would bring the short pauses back.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// Times that it is still skipped.
    skip: u32,
    /// Times that it did not pay, less those that it did.
    failed: u32,
}

impl Trial {
    /// Times that it is skipped after it did not pay for the first time.
    ///
    /// Measure: count of batches.
    const SKIPPED: u32 = 4;
    /// Times that this number is doubled.
    ///
    /// Measure: count of doublings.
    const DOUBLED: u32 = 6;

    /// True if the step is due now.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    /// The step was taken, and `paid` or not.
    pub fn observe(&mut self, paid: bool) {
        if paid {
            self.failed = self.failed.saturating_sub(1);
        } else {
            self.skip = Self::SKIPPED << self.failed;
            self.failed = (self.failed + 1).min(Self::DOUBLED);
        }
    }
}

/// True if a caller passes the lock on as soon as its own operations are answered, instead of running batches for others, a blocking one for a
/// [turn](Machine::turn): `own` of the `in_flight` operations, where a batch costs `fixed` once. If it calls again at once, it is missing from these
/// batches, which costs `own / in_flight` of them; otherwise its own reply comes a batch later. Passing the lock on costs a wake of each.
#[doc(hidden)]
pub fn passes_on(own: usize, in_flight: usize, fixed: Nanos, machine: &Machine) -> bool {
    own as f64 * fixed.0 > in_flight as f64 * machine.wake.0
}

/// Longest time for which a blocking caller that finds the lock held retries before it hands over an operation that costs `one` under a lock.
/// It retries only if `one` is less than a park, which is h for callers that block. Between two retries it yields, because on a busy machine
/// the holder may need the CPU.
///
/// The interval is a park. A lock that moves to another CPU takes the structure's cache lines with it. That costs some
/// hundred nanoseconds, shared by the operations until the next move. The interval leaves time for some hundred cheap operations.
///
/// The whole wait is the longest [spin budget](spin::most). It covers a holder that has lost its CPU: to hand over and be woken costs more than
/// a turn of the other threads.
#[doc(hidden)]
pub fn lock_retries(one: Nanos, machine: &Machine) -> Nanos {
    if one < machine.park() { spin::most(machine) } else { Nanos(0.0) }
}

/// [`lock_retries`] of a task. It retries only if `one` is less than handing over costs both sides. It holds up a thread of its executor, as
/// with a mutex, but for a wake at most.
#[doc(hidden)]
pub fn task_lock_retries(one: Nanos, machine: &Machine) -> Nanos {
    if one < HandoffCosts::of(machine).handoff() { machine.wake } else { Nanos(0.0) }
}

/// The better way to run operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Batches.
    Batch,
    /// One at a time, under a lock.
    Lock,
    /// Neither is better by a tenth.
    Either,
}

/// A change that would be better.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{Advice, BatchRunner, BatchTraffic, Law};
///
/// let (alone, is_limited, runner) = (0.0, false, BatchRunner::Callers);
/// let law = Law { fixed: Nanos::micros(350.0), handoff: Nanos::micros(1.0), ..Law::default() };
/// let advice = |batch| law.verdict(BatchTraffic { batch, in_flight: 64.0, alone, is_limited, runner }).advice;
/// assert_eq!(advice(64.0), Advice::Nothing);
/// assert_eq!(advice(32.0), Advice::Wait, "half of the callers miss each batch");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Nothing.
    Nothing,
    /// Use a mutex instead.
    Mutex,
    /// Raise the limit of a batch.
    Limit,
    /// Let runners wait longer for callers that were just answered: these come in turns.
    Wait,
    /// Let a separate thread run batches: tasks that run them keep a thread of their executor for long.
    Thread,
    /// Let callers run batches: the separate runner gets single operations.
    Callers,
}

/// The conclusion from a [`Law`]: printed, it says what to do and why.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{BatchRunner, BatchTraffic, Law, Verdict};
///
/// let (batch, in_flight, runner) = (64.0, 64.0, BatchRunner::Callers);
/// let law = Law { fixed: Nanos(5.0), each: Nanos(2.0), handoff: Nanos(200.0), ..Law::default() };
/// let verdict = law.verdict(BatchTraffic { batch, in_flight, alone: 0.0, is_limited: false, runner });
/// let Verdict { gain, .. } = verdict;
/// assert!(gain < 1.0 && verdict.to_string().starts_with("use a mutex here: h > F"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The law it follows from.
    pub law: Law,
    /// Batches or a lock.
    pub choice: Choice,
    /// A change that would be better.
    pub advice: Advice,
    /// B: operations in a batch, on average.
    pub batch: f64,
    /// Operations in flight, on average.
    pub in_flight: f64,
    /// Operations per second with this traffic, relative to one at a time under a lock.
    pub gain: f64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { law, batch, in_flight, gain, .. } = self;
        match self.choice {
            Choice::Batch => write!(f, "batching gains {gain:.1}x at B = {batch:.1} of {in_flight:.1} in flight")?,
            Choice::Lock if law.handoff > law.fixed => {
                write!(f, "use a mutex here: h > F, {gain:.2}x at B = {batch:.1}")?
            }
            Choice::Lock => write!(f, "too few callers for batches, {gain:.2}x at B = {batch:.1}")?,
            Choice::Either => write!(f, "batching changes little here, {gain:.2}x at B = {batch:.1}")?,
        }
        f.write_str(match self.advice {
            Advice::Nothing => "",
            Advice::Mutex if law.handoff > law.fixed => "",
            Advice::Mutex => "; use a mutex",
            Advice::Limit => "; the limit bounds B: raise it, or keep it if it is the structure's own maximum",
            Advice::Wait => "; callers arrive in alternate batches: allow a longer wait",
            Advice::Thread => "; tasks block their executor: use a separate thread",
            Advice::Callers => "; let callers run batches",
        })?;
        write!(f, " (F = {}, m = {}, h = {})", law.fixed, law.each, law.handoff)
    }
}

#[cfg(test)]
mod tests;
