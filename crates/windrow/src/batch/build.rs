//! Choices: limits, a bounded queue, who runs.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::batch::Patience;
use windrow_sync::hint::Hint;
use windrow_sync::submit::{Home, Signal, Submit};
use windrow_sync::{Spin, machine};

use super::lead::{Shared, State};
use super::room::Room;
use super::stats::Counts;
use super::{BatchOps, Batched};

/// What a caller gets that finds the queue full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It waits: a thread blocks, a future is pending.
    Wait,
    /// [`Why::Full`](super::Why::Full), and its operation back.
    Reject,
    /// It waits for its turn with the structure and runs its operation alone, past the bound.
    ///
    /// For threads. A future *blocks the thread of its executor* for that, until the batch that runs is through and its turn has come. A
    /// full queue so stops as many of the executor's threads as there are tasks that call: give tasks `Wait` or `Reject`.
    RunInline,
}

type Recover<S> = Box<dyn Fn(&mut S) + Send + Sync>;

/// What was chosen.
pub(super) struct Options<S> {
    pub(super) limit: usize,
    pub(super) weight: Option<usize>,
    pub(super) full: Full,
    pub(super) linger: Option<(usize, Duration)>,
    pub(super) recover: Option<Recover<S>>,
    /// Callers never run.
    pub(super) is_elsewhere: bool,
    /// But a thread that finds itself alone does.
    pub(super) is_shared: bool,
    ticks_per_nano: f64,
}

impl<S> Options<S> {
    pub(super) fn nanos(&self, ticks: u64) -> Nanos {
        Nanos(ticks as f64 / self.ticks_per_nano)
    }

    pub(super) fn since(&self, start: u64) -> Nanos {
        self.nanos(machine::tick().saturating_sub(start))
    }

    /// How long, and the ticks from one look to the next.
    pub(super) fn patience(&self, one: Nanos) -> (Spin, u64) {
        let Patience { longest, apart } = Patience::of(one);
        (Spin { busy: 0, yielding: self.ticks(longest) }, self.ticks(apart))
    }

    /// How long who has handed in looks before it sleeps.
    pub(super) fn look(&self, batch: Nanos) -> Spin {
        Spin { busy: self.ticks(windrow_plan::batch::look(batch)), yielding: 0 }
    }

    fn ticks(&self, time: Nanos) -> u64 {
        (time.0 * self.ticks_per_nano) as u64
    }
}

/// Makes a [`Batched`].
///
/// ```
/// use windrow::batch::{Batch, BatchOps, Batched, Full};
///
/// struct Sum(u64);
///
/// impl BatchOps for Sum {
///     type Op = u64;
///     type Reply = u64;
///
///     fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
///         for entry in batch.iter_mut() {
///             self.0 += entry.take();
///             entry.reply(self.0);
///         }
///     }
/// }
///
/// let sum = Batched::builder().limit(512).queue(4096, Full::Reject).build(Sum(0));
/// assert_eq!(sum.call(5).unwrap(), 5);
/// assert_eq!(sum.into_inner().unwrap().0, 5);
/// ```
pub struct Builder<S> {
    options: Options<S>,
    queue: Option<usize>,
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { limit, weight, full, linger, .. } = &self.options;
        let mut shown = f.debug_struct("Builder");
        shown.field("limit", limit).field("weight", weight).field("linger", linger);
        shown.field("queue", &self.queue).field("full", full).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Builder<S> {
    pub(super) fn new() -> Self {
        let ticks_per_nano = machine::ticks_per_micro() / 1000.0;
        let options = Options {
            limit: usize::MAX,
            weight: None,
            full: Full::Wait,
            linger: None,
            recover: None,
            is_elsewhere: false,
            is_shared: false,
            ticks_per_nano,
        };
        Builder { options, queue: None }
    }

    /// At most so many operations a batch (at least 1).
    pub fn limit(mut self, ops: usize) -> Self {
        self.options.limit = ops.max(1);
        self
    }

    /// At most so much [weight](BatchOps::weight) a batch. One operation that is heavier makes a batch of its own.
    pub fn weight_limit(mut self, weight: usize) -> Self {
        self.options.weight = Some(weight);
        self
    }

    /// At most so many operations (at least 1) handed in and not answered; and what becomes of more. A chunk of more goes when nothing
    /// else is there. What finds the structure free is not counted: it is run at once. A future has its room until it is polled after the
    /// answer, or dropped.
    pub fn queue(mut self, ops: usize, full: Full) -> Self {
        self.queue = Some(ops);
        self.options.full = full;
        self
    }

    /// Lets the runner wait until `ops` operations are there, at most `longest` from the moment at which the oldest was handed in, and no
    /// longer than until [`close`](Batched::close) or [`exclusive`](Batched::exclusive) is called. Off by default, since it costs every
    /// caller time that only a known pattern of arrivals gives back. The runner looks for arrivals every 100 us.
    ///
    /// Threads that run batches wait so. These do not:
    /// * a task that runs a batch, for it has no timer;
    /// * a thread whose [`call`](Batched::call) finds the structure free, which runs its operation at once and alone. With a
    ///   [runner that is no caller](Builder::build_on_thread) no call does that.
    pub fn linger(mut self, ops: usize, longest: Duration) -> Self {
        self.options.linger = Some((ops, longest));
        self
    }

    /// What repairs the structure after a panic in it. Without, it is poisoned: all later operations get
    /// [`Why::Poisoned`](super::Why::Poisoned). If `recover` panics it is poisoned too.
    pub fn recover(mut self, recover: impl Fn(&mut S) + Send + Sync + 'static) -> Self {
        self.options.recover = Some(Box::new(recover));
        self
    }

    fn shared(mut self, home: Option<Home<S>>, signal: Option<Signal>) -> Shared<S> {
        self.options.is_elsewhere = signal.is_some();
        let counts = Counts::new(self.options.limit);
        let state = State { home, is_poisoned: false, counts, order: Vec::new() };
        Shared {
            submit: Submit::new(state, signal),
            room: self.queue.map(Room::new),
            options: self.options,
            runner: Hint::new(0),
            company: Hint::new(0),
            defers: Hint::new(1),
            alone: Hint::new(0),
            batch: Hint::new(0),
            turns: Hint::new(0),
            generation: machine::fork_generation(),
        }
    }

    /// Batches are run by callers.
    pub fn build(self, structure: S) -> Batched<S>
    where
        S: Send,
    {
        Batched { shared: Arc::new(self.shared(Some(Home::new(structure)), None)), thread: None }
    }

    /// Batches are run by a thread of their own, which makes the structure, keeps it and drops it: for operations that block, and for
    /// structures that are not `Send`. Should `make` panic, all operations get [`Why::Poisoned`](super::Why::Poisoned).
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn build_on_thread(self, make: impl FnOnce() -> S + Send + 'static) -> std::io::Result<Batched<S>>
    where
        S: 'static,
    {
        self.on_thread(None, || Some(Home::confined(make())))
    }

    /// Batches are run by a thread of their own, but a thread that calls when the structure is free, and the last batch was of one, runs its
    /// operation itself: with a single caller nobody is woken. Tasks never run anything.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn build_beside_thread(mut self, structure: S) -> std::io::Result<Batched<S>>
    where
        S: Send + 'static,
    {
        self.options.is_shared = true;
        self.on_thread(Some(Home::new(structure)), || None)
    }

    fn on_thread(
        self,
        home: Option<Home<S>>,
        make: impl FnOnce() -> Option<Home<S>> + Send + 'static,
    ) -> std::io::Result<Batched<S>>
    where
        S: 'static,
    {
        let runner: Arc<OnceLock<std::thread::Thread>> = Arc::default();
        let signal = {
            let runner = runner.clone();
            // Before the thread is known it has not looked yet.
            Box::new(move || {
                if let Some(runner) = runner.get() {
                    runner.unpark();
                }
            })
        };
        let shared = Arc::new(self.shared(home, Some(signal)));
        let mine = shared.clone();
        let thread = std::thread::Builder::new().name("windrow-batch".to_owned()).spawn(move || {
            // From here on signals arrive; what came before is found below.
            let _ = runner.set(std::thread::current());
            mine.live(make);
        })?;
        Ok(Batched { shared, thread: Some(thread) })
    }

    /// Batches are run by whoever runs the closures that `spawn` is given: one whenever there is something to do and none is running. An
    /// executor's `spawn_blocking`, or a thread pool.
    ///
    /// A closure that is dropped instead of run does its duty where it is dropped. One that is neither run nor dropped (leaked, or kept
    /// by an executor that was stopped) leaves its callers waiting: no other is started before it has ended.
    ///
    /// If `spawn` panics, the panic goes to the caller on whose behalf it was called, after its operation has been answered. Dropping
    /// the structure does not panic.
    pub fn build_spawned(
        self,
        structure: S,
        spawn: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static,
    ) -> Batched<S>
    where
        S: Send + 'static,
    {
        let shared = Arc::new_cyclic(|shared: &Weak<Shared<S>>| {
            let shared = shared.clone();
            let signal = Box::new(move || {
                // Without callers there is nothing to run.
                if let Some(shared) = shared.upgrade() {
                    let duty = Duty(shared);
                    let spawned = catch_unwind(AssertUnwindSafe(|| spawn(Box::new(move || drop(duty)))));
                    match spawned {
                        Ok(()) => {}
                        // This is the duty of a closure that was dropped by such a panic: its caller is told by that one.
                        Err(payload) if std::thread::panicking() => super::lead::discard(payload),
                        Err(payload) => resume_unwind(payload),
                    }
                }
            });
            self.shared(Some(Home::new(structure)), Some(signal))
        });
        Batched { shared, thread: None }
    }
}

/// Somebody has been called to run.
struct Duty<S: BatchOps>(Arc<Shared<S>>);

impl<S: BatchOps> Drop for Duty<S> {
    fn drop(&mut self) {
        let shared = &*self.0;
        // If somebody has the lock, there will be another signal.
        shared.submit.run(|held| shared.lead_all(held));
    }
}

impl<S: BatchOps> Shared<S> {
    /// The life of a runner's thread.
    fn live(&self, make: impl FnOnce() -> Option<Home<S>>) {
        // The hook has reported a panic; callers are told that there is no structure.
        let mut home = catch_unwind(AssertUnwindSafe(make)).ok().flatten();
        while !self.submit.is_over() {
            let lead = || {
                self.submit.run(|held| {
                    if let Some(home) = home.take() {
                        held.data().home = Some(home);
                    }
                    self.lead_all(held);
                })
            };
            // What is the structure's own is caught where it is called. Whatever else panics, callers must not be left without a runner.
            let ran = catch_unwind(AssertUnwindSafe(lead)).unwrap_or_else(|payload| {
                super::lead::discard(payload);
                true
            });
            // What was left, if it was not all, has been signalled.
            if !(ran && self.submit.is_over()) {
                std::thread::park();
            }
        }
        if self.options.is_shared {
            return;
        }
        // Dropped here, where it was made.
        let mut last = None;
        while !self.submit.run(|held| last = held.data().home.take()) {
            std::thread::yield_now();
        }
        super::lead::quietly(|| drop(last));
    }
}
