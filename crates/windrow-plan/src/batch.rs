//! Batch: when it pays to collect operations and run them together.
//!
//! ```text
//! fit F and m to the sizes and durations of batches that ran
//! B = the recent mean of operations in a batch
//! alone = F + m + lock, together = F / B + m + h: the cost of an operation
//! alone > 1.1 together: batches; alone < 0.9 together: a lock; else either
//! ```
//!
//! | symbol | what it is |
//! |---|---|
//! | `F` | what a batch costs once: a sync to disk, a model's launch, cache misses that a batch can overlap |
//! | `m` | what each operation costs |
//! | `h` | handing one over: submitting it, the reply, waking the caller |
//! | `lock` | taking and releasing a lock |
//!
//! So batching pays if `F (1 - 1/B) > h - lock`. Operations that find the structure free count with the wrapper's own cost instead of
//! `together`. B is never more than the operations in flight: threads that block, tasks, or chunks
//! times workers. A [`BatchFit`] finds F and m; a [`Law`] says what follows from them.
//!
//! Departures, each explained where it is defined:
//! 1. **A batch far off the fit** counts as three times off, until eight in a row show that the batches have changed ([`BatchFit`]).
//! 2. **Callers spin for the reply** while batches are shorter than two fifths of a park ([`reply_spin`]).
//! 3. **Wakeups are chained** if waking all callers would cost more than F ([`direct_wakes`]).
//! 4. **Callers retry the lock** before they hand over an operation that is cheaper than a park ([`Patience`]), tasks one that is cheaper than handing
//!    it over.
//! 5. **A runner waits for callers that it has just answered**, up to a twentieth of F ([`ReturnWait`]).
//! 6. **A blocking caller leads for 8 wakes**, because passing the lock on takes one ([`lead_turn`]); it does not if its own operations are
//!    missed more ([`passes_on`]).
//!
//! ```
//! use windrow_plan::Nanos;
//! use windrow_plan::batch::{BatchFit, BatchRunner, BatchTraffic, Law};
//!
//! let mut fit = BatchFit::default();
//! for b in [1, 4, 16].repeat(20) {
//!     fit.observe(b, Nanos(350_000.0 + 700.0 * b as f64));
//! }
//! let law = Law { handoff: Nanos(5_000.0), ..fit.law().unwrap() };
//! assert!((law.together(64).as_micros() - 11.2).abs() < 0.1);
//! let traffic = BatchTraffic { batch: 64.0, in_flight: 64.0, alone: 0.0, is_limited: false, runner: BatchRunner::Callers };
//! assert!(law.verdict(traffic).to_string().starts_with("batching gains 31.4x at B = 64.0 of 64.0 in flight"));
//! ```
//!
//! Source of the law: measurements of many structures and peers under blocking, asynchronous and chunked callers. To split a cost into
//! a part per batch and a part per operation is as old as group commit (Gawlick and Kinkade, 1985).

use std::fmt;

mod fit;

pub use fit::BatchFit;

use crate::Nanos;
use crate::machine::Machine;

/// The cost of an operation, alone and in a batch. See the [module page](self).
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
    /// The cost of a lock, when an operation runs alone.
    pub lock: Nanos,
    /// The cost of the wrapper, when an operation finds the structure free.
    pub wrapper: Nanos,
}

impl Law {
    /// How long a batch of `b` runs.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// let law = Law { fixed: Nanos(100.0), each: Nanos(50.0), ..Law::default() };
    /// assert_eq!([1, 4].map(|b| law.batch(b)), [Nanos(150.0), Nanos(300.0)]);
    /// ```
    pub fn batch(&self, b: usize) -> Nanos {
        Nanos(self.fixed.0 + self.each.0 * b as f64)
    }

    /// Cost of an operation that runs alone.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// let law = Law { fixed: Nanos(100.0), each: Nanos(50.0), lock: Nanos(20.0), ..Law::default() };
    /// assert_eq!(law.alone(), Nanos(170.0));
    /// ```
    pub fn alone(&self) -> Nanos {
        Nanos(self.fixed.0 + self.each.0 + self.lock.0)
    }

    /// Cost of an operation in batches of `b`.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// let law = Law { fixed: Nanos(100.0), each: Nanos(50.0), handoff: Nanos(80.0), ..Law::default() };
    /// assert_eq!(law.together(4), Nanos(100.0 / 4.0 + 50.0 + 80.0));
    /// ```
    pub fn together(&self, b: usize) -> Nanos {
        Nanos(self.batch(b).0 / b.max(1) as f64 + self.handoff.0)
    }

    /// Operations per second in batches of `b`, with a runner that is never idle.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// // Two batches of 50 operations take 1 ms.
    /// let law = Law { fixed: Nanos::micros(500.0), ..Law::default() };
    /// assert!((law.per_second(50) - 100_000.0).abs() < 1.0);
    /// ```
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

    /// Whether batches of `b` beat one at a time.
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

    /// Whether an operation is so cheap that no batch can win, however large: what a batch saves costs less than the hand-over.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Law;
    ///
    /// // A counter: an addition costs less than to hand it over.
    /// let counter = Law { each: Nanos(2.0), handoff: Nanos(200.0), lock: Nanos(20.0), ..Law::default() };
    /// assert!(counter.is_cheap() && !counter.pays(usize::MAX));
    /// assert!(!Law { fixed: Nanos::micros(350.0), ..counter }.is_cheap());
    /// ```
    pub fn is_cheap(&self) -> bool {
        self.fixed.0 + self.lock.0 <= self.handoff.0
    }

    /// What to use, and what to change, with such `traffic`.
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
        // The fit is accurate to a tenth.
        let choice = match gain(batch) {
            gain if gain > 1.1 => Choice::Batch,
            gain if gain < 0.9 => Choice::Lock,
            _ => Choice::Either,
        };
        let would_gain = gain(in_flight) > 1.1 * gain(batch);
        let advice = match choice {
            // The hand-over is the cost, and no batch shares it.
            Choice::Lock if runner == BatchRunner::Separate && batch < 1.5 && self.handoff.0 > 2.0 * self.wrapper.0 => {
                Advice::Callers
            }
            Choice::Lock => Advice::Mutex,
            _ if is_limited && would_gain => Advice::Limit,
            // While handing over takes longer than half of F, waiting for more operations gains nothing.
            _ if would_gain && alone < 0.5 && self.handoff.0 * batch < 0.5 * self.fixed.0 => Advice::Wait,
            Choice::Batch if runner == BatchRunner::Tasks && self.fixed > self.long_for_a_task() => Advice::Thread,
            _ => Advice::Nothing,
        };
        Verdict { law: *self, choice, advice, batch, in_flight, gain: gain(batch) }
    }

    /// A batch that takes longer than this keeps other tasks of an executor waiting: 20,000 locks (0.2 to 0.3 ms where measured).
    fn long_for_a_task(&self) -> Nanos {
        Nanos(20_000.0 * self.lock.0)
    }
}

/// Which threads run batches.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{Advice, BatchRunner, BatchTraffic, Law};
///
/// // A batch of 50 ms keeps the other tasks of its executor waiting, if a task runs it.
/// let law = Law { fixed: Nanos::micros(50_000.0), lock: Nanos(15.0), ..Law::default() };
/// let advice = |runner| {
///     law.verdict(BatchTraffic { batch: 64.0, in_flight: 64.0, alone: 0.0, is_limited: false, runner }).advice
/// };
/// assert_eq!(advice(BatchRunner::Tasks), Advice::Thread);
/// assert_eq!(advice(BatchRunner::Separate), Advice::Nothing);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRunner {
    /// Calling threads, which block.
    Callers,
    /// Calling tasks, on the threads of their executor.
    Tasks,
    /// A separate thread, or spawned closures.
    Separate,
}

/// What batches were like recently.
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
    /// Operations in flight when a batch ended, on average: in that batch, or queued.
    pub in_flight: f64,
    /// The share of operations that found the structure free, and were in no batch.
    pub alone: f64,
    /// Most batches left operations to the next one: a limit was reached.
    pub is_limited: bool,
    /// Which threads ran the last batch.
    pub runner: BatchRunner,
}

/// What handing over and locking cost before they are measured.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{HandoffCosts, Law};
/// use windrow_plan::machine::Machine;
///
/// let costs = HandoffCosts::of(&Machine::example());
/// let law = Law { fixed: Nanos::micros(1.0), handoff: costs.caller, lock: costs.lock, ..Law::default() };
/// assert!(law.pays(4));
/// assert!(!Law { handoff: costs.parked, ..law }.pays(4), "callers that park need a larger F");
/// ```
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
    /// What that takes longer if another caller is parked in front of the lock: a park, for the system call that wakes it and the time
    /// until it runs.
    pub contended: Nanos,
    /// The wrapper finds the structure free, and runs one operation: 1.3 locks.
    pub wrapper: Nanos,
}

impl HandoffCosts {
    /// The multiples of this machine's primitives.
    ///
    /// ```
    /// use windrow_plan::batch::HandoffCosts;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// let costs = HandoffCosts::of(&machine);
    /// assert!(machine.claim < costs.lock && costs.lock < costs.wrapper);
    /// assert!(costs.wrapper < costs.caller && costs.caller < costs.parked);
    /// ```
    pub fn of(machine: &Machine) -> HandoffCosts {
        let caller = Nanos(11.0 * machine.claim.0);
        let lock = Nanos(1.6 * machine.claim.0);
        let parked = machine.park();
        HandoffCosts { caller, runner: caller, parked, lock, contended: parked, wrapper: Nanos(1.3 * lock.0) }
    }

    /// The cost of a mutex for `traffic`, where an operation takes `one`. Callers spin for a mutex that is free soon. A single thread that waits
    /// is woken each time. Of many, one is awake already more often: the cost is divided by their number.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::{BatchRunner, BatchTraffic, HandoffCosts};
    /// use windrow_plan::machine::Machine;
    ///
    /// let costs = HandoffCosts::of(&Machine::example());
    /// let mutex = |in_flight, one| {
    ///     let runner = BatchRunner::Callers;
    ///     costs.mutex(BatchTraffic { batch: 1.0, in_flight, alone: 0.0, is_limited: false, runner }, one)
    /// };
    /// assert_eq!(mutex(8.0, Nanos(10.0)), costs.lock, "callers spin while an operation runs");
    /// assert!(mutex(2.0, Nanos::micros(100.0)) > mutex(8.0, Nanos::micros(100.0)), "one of many is awake already");
    /// ```
    pub fn mutex(&self, traffic: BatchTraffic, one: Nanos) -> Nanos {
        let waiting = traffic.in_flight - 1.0;
        let contended = match traffic.runner {
            _ if waiting < 0.5 || one.0 <= Self::SPIN * self.parked.0 => 0.0,
            BatchRunner::Tasks => self.contended.0,
            BatchRunner::Callers | BatchRunner::Separate => self.contended.0 / waiting.max(1.0),
        };
        Nanos(self.lock.0 + contended)
    }

    /// How long callers spin before they park.
    ///
    /// Measure: share of a park.
    const SPIN: f64 = 0.4;
}

/// How long a caller spins for its reply after handing its operation over, before it parks: two fifths of a park. `batch` is the duration
/// of the last batch.
///
/// To spin for less time than a park takes pays if the reply comes within that time: after one or two batches. With longer batches no
/// caller gets its reply by spinning. 64 callers that spin for 2 us each would take 128 us of CPU time from the threads that prepare
/// the next batch.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::reply_spin;
/// use windrow_plan::machine::Machine;
///
/// let machine = Machine::example();
/// assert!(reply_spin(Nanos(500.0), &machine) > Nanos(500.0), "the reply comes within the spin");
/// assert_eq!(reply_spin(Nanos::micros(100.0), &machine), Nanos(0.0), "park at once");
/// ```
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
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::direct_wakes;
/// use windrow_plan::machine::Machine;
///
/// let wakes = |threads, fixed| direct_wakes(threads, Nanos::micros(fixed), &Machine::example());
/// assert_eq!(wakes(100, 1.0), 10, "chains: to wake all would take longer than F");
/// assert_eq!(wakes(100, 10_000.0), usize::MAX, "all");
/// ```
pub fn direct_wakes(threads: usize, fixed: Nanos, machine: &Machine) -> usize {
    if fixed.0 < threads as f64 * 0.4 * machine.park().0 { threads.isqrt().max(8) } else { usize::MAX }
}

/// Whether a runner waits for the callers that it has just answered, and how long. If they call again at once, a runner that does not wait
/// gets two half batches in turn: callers that were answered last miss the batch that begins meanwhile.
///
/// ```text
/// wait after the answers: up to F / 20, until as many operations are queued as were in flight
/// the wait paid if returned * F > queued * waited
/// after a wait that did not pay: none for 4, 8, 16, ... 256 batches
/// ```
///
/// A wait of `waited` with `queued` operations that brings `returned` more raises the throughput `q / (F + q m)` in exactly this case. A
/// wait that does not pay costs a twentieth of a batch, so at first one in 5 batches costs 1 %, later less than 0.1 %.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::ReturnWait;
/// use windrow_plan::machine::Machine;
///
/// // 32 callers are queued, and 32 more come back within 50 us: each batch waits for them.
/// let (machine, fixed, mut wait) = (Machine::example(), Nanos::micros(2000.0), ReturnWait::default());
/// for _ in 0..100 {
///     assert!(wait.longest(fixed, None, &machine) >= Nanos::micros(50.0));
///     wait.observe(fixed, 32, 32, Nanos::micros(50.0));
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReturnWait {
    trial: Trial,
}

impl ReturnWait {
    /// The longest wait by default, and so the longest delay of an operation by it.
    ///
    /// Measure: share of F.
    const SHARE: f64 = 0.05;

    /// How long the next batch may wait for more operations: at most for `most`, by default for a twentieth of F. Called once a batch. No
    /// shorter waits than a tenth of a park: no caller returns sooner.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::ReturnWait;
    /// use windrow_plan::machine::Machine;
    ///
    /// let (machine, mut wait) = (Machine::example(), ReturnWait::default());
    /// let fixed = Nanos::micros(2000.0);
    /// let longest = wait.longest(fixed, None, &machine);
    /// assert!(longest > Nanos(0.0) && longest.0 < 0.1 * fixed.0);
    /// assert_eq!(wait.longest(Nanos::micros(5.0), None, &machine), Nanos(0.0), "no caller returns in so short a time");
    /// assert_eq!(wait.longest(fixed, Some(fixed), &machine), fixed);
    /// ```
    pub fn longest(&mut self, fixed: Nanos, most: Option<Nanos>, machine: &Machine) -> Nanos {
        let longest = most.unwrap_or(Nanos(Self::SHARE * fixed.0));
        if longest.0 < 0.1 * machine.park().0 || !self.trial.is_due() { Nanos(0.0) } else { longest }
    }

    /// `queued` operations waited for `waited`, until `returned` more had come.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::ReturnWait;
    /// use windrow_plan::machine::Machine;
    ///
    /// let (machine, fixed, mut wait) = (Machine::example(), Nanos::micros(2000.0), ReturnWait::default());
    /// wait.observe(fixed, 32, 0, Nanos::micros(100.0));
    /// assert_eq!(wait.longest(fixed, None, &machine), Nanos(0.0), "no caller came back: the next batches do not wait");
    /// assert!((0..10).any(|_| wait.longest(fixed, None, &machine) > Nanos(0.0)), "later ones try again");
    /// ```
    pub fn observe(&mut self, fixed: Nanos, queued: usize, returned: usize, waited: Nanos) {
        self.trial.observe(returned > 0 && returned as f64 * fixed.0 > queued as f64 * waited.0);
    }
}

/// Something that is done as long as it pays. After it did not pay it is left out 4, 8, 16, ... 256 times.
///
/// ```
/// use windrow_plan::batch::Trial;
///
/// // A trial that never pays runs less and less often.
/// let (mut trial, mut done) = (Trial::default(), 0);
/// for _ in 0..1000 {
///     if trial.is_due() {
///         trial.observe(false);
///         done += 1;
///     }
/// }
/// assert!((2..20).contains(&done));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// How often it is still left out.
    skip: u32,
    /// How often in a row it did not pay.
    failed: u32,
}

impl Trial {
    /// How often it is left out after it did not pay for the first time.
    ///
    /// Measure: count of batches.
    const SKIPPED: u32 = 4;
    /// How often that number is doubled.
    ///
    /// Measure: count of doublings.
    const DOUBLED: u32 = 6;

    /// Whether to do it now.
    ///
    /// ```
    /// use windrow_plan::batch::Trial;
    ///
    /// let mut trial = Trial::default();
    /// assert!(trial.is_due());
    /// trial.observe(false);
    /// assert!(!trial.is_due());
    /// ```
    pub fn is_due(&mut self) -> bool {
        let is_due = self.skip == 0;
        self.skip = self.skip.saturating_sub(1);
        is_due
    }

    /// It was done, and `paid` or not.
    ///
    /// ```
    /// use windrow_plan::batch::Trial;
    ///
    /// let pause = |trial: &mut Trial| (0..).take_while(|_| !trial.is_due()).count();
    /// let mut trial = Trial::default();
    /// trial.observe(false);
    /// let first = pause(&mut trial);
    /// trial.observe(false);
    /// assert_eq!(pause(&mut trial), 2 * first, "each failure doubles the pause");
    /// trial.observe(true);
    /// assert_eq!(pause(&mut trial), 0);
    /// ```
    pub fn observe(&mut self, paid: bool) {
        if paid {
            self.failed = 0;
        } else {
            self.skip = Self::SKIPPED << self.failed.min(Self::DOUBLED);
            self.failed += 1;
        }
    }
}

/// How long a blocking caller goes on running batches of other callers after its own operation is answered, at least one batch: 8 wakes.
///
/// To pass the lock on takes a wake, in which no batch runs, and on a busy machine the woken thread waits for a CPU as well. With 8 and 64
/// threads and F = 20 us, turns of 4 to 20 wakes give 1.7 and 1.4 times the operations per second of a turn of one batch, and a tenth to a
/// quarter of its 99th percentile.
///
/// ```
/// use windrow_plan::batch::lead_turn;
/// use windrow_plan::machine::Machine;
///
/// let machine = Machine::example();
/// assert!(machine.wake.0 < 0.2 * lead_turn(&machine).0, "passing the lock on costs little of a turn");
/// ```
pub fn lead_turn(machine: &Machine) -> Nanos {
    Nanos(8.0 * machine.wake.0)
}

/// Whether a blocking caller passes the lock on as soon as its own operations are answered, instead of leading for [`lead_turn`]: `own` of the
/// `in_flight` operations, where a batch costs `fixed` once. A leader is missing from the batches that it runs for others, which costs
/// `own / in_flight` of them; passing the lock on costs a wake of each. If the leader does not call again before the next one has woken, passing on
/// gains nothing: see [`Trial`].
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::passes_on;
/// use windrow_plan::machine::Machine;
///
/// let passes = |own, fixed| passes_on(own, 64, Nanos::micros(fixed), &Machine::example());
/// assert!(passes(16, 500.0), "a quarter of each batch is missing without the leader");
/// assert!(!passes(1, 500.0) && !passes(16, 20.0), "the missing leader costs less than a wake");
/// ```
pub fn passes_on(own: usize, in_flight: usize, fixed: Nanos, machine: &Machine) -> bool {
    own as f64 * fixed.0 > in_flight as f64 * machine.wake.0
}

/// The interval at which a runner that waits for a larger batch checks its queue: 20 parks. Callers do not wake that runner, because each
/// caller would pay for it. The checks take some per cent of a CPU.
///
/// ```
/// use windrow_plan::batch::wait_poll;
/// use windrow_plan::machine::Machine;
///
/// let machine = Machine::example();
/// assert!(machine.park().0 < 0.1 * wait_poll(&machine).0);
/// ```
pub fn wait_poll(machine: &Machine) -> Nanos {
    Nanos(20.0 * machine.park().0)
}

/// How long a caller that finds the lock held retries before it hands its operation over. Between two retries it yields, because on a
/// busy machine the holder may need the CPU.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::Patience;
/// use windrow_plan::machine::Machine;
///
/// let Patience { longest, apart } = Patience::of(Nanos(50.0), &Machine::example());
/// assert!(longest.0 > 10.0 * apart.0, "a cheap operation is tried many times");
/// ```
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
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Patience;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(Patience::of(Nanos(50.0), &machine).longest > machine.park());
    /// assert_eq!(Patience::of(Nanos::micros(300.0), &machine).longest, Nanos(0.0), "hand it over at once");
    /// ```
    pub fn of(one: Nanos, machine: &Machine) -> Patience {
        let park = machine.park();
        if one < park {
            Patience { longest: Nanos(40.0 * park.0), apart: Nanos(0.8 * park.0) }
        } else {
            Patience { longest: Nanos(0.0), apart: Nanos(0.0) }
        }
    }

    /// For tasks whose operations cost `one` alone. A task retries only if `one` is less than handing over costs it: 22 claims. It
    /// holds up a thread of its executor, as with a mutex, but for two parks at most.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::Patience;
    /// use windrow_plan::machine::Machine;
    ///
    /// let (one, machine) = (Nanos(50.0), Machine::example());
    /// let (task, caller) = (Patience::of_task(one, &machine), Patience::of(one, &machine));
    /// assert!(Nanos(0.0) < task.longest && task.longest < caller.longest, "a task holds up its executor");
    /// ```
    pub fn of_task(one: Nanos, machine: &Machine) -> Patience {
        let park = machine.park();
        if one.0 < 22.0 * machine.claim.0 {
            Patience { longest: Nanos(2.0 * park.0), apart: Nanos(0.8 * park.0) }
        } else {
            Patience { longest: Nanos(0.0), apart: Nanos(0.0) }
        }
    }
}

/// Whether batches or a lock are better.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::batch::{BatchRunner, BatchTraffic, Choice, Law};
///
/// let (alone, is_limited, runner) = (0.0, false, BatchRunner::Callers);
/// let full = BatchTraffic { batch: 64.0, in_flight: 64.0, alone, is_limited, runner };
/// let choice = |fixed| Law { fixed: Nanos(fixed), handoff: Nanos(200.0), ..Law::default() }.verdict(full).choice;
/// assert_eq!([10.0, 200.0, 5000.0].map(choice), [Choice::Lock, Choice::Either, Choice::Batch]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Batches.
    Batch,
    /// One at a time, under a lock.
    Lock,
    /// Neither is better by a tenth.
    Either,
}

/// What to change, if anything would be better.
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
    /// Whether batches or a lock are better.
    pub choice: Choice,
    /// What to change.
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
            Advice::Limit => "; the limit bounds B: raise it",
            Advice::Wait => "; callers come in turns: allow a longer wait",
            Advice::Thread => "; tasks block their executor: use a separate thread",
            Advice::Callers => "; let callers run it",
        })?;
        write!(f, " (F = {}, m = {}, h = {})", law.fixed, law.each, law.handoff)
    }
}

#[cfg(test)]
mod tests;
