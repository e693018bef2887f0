//! The builder, and the separate runners.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::batch::HandoffCosts;
use windrow_sync::latch::Latch;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::submit::{Notify, Submit};
use windrow_sync::{ThreadBound, machine};

use super::gauges::Seen;
use super::lead::{BatchedInner, StructureState};
use super::options::{OnPanic, Options, Overflow};
use super::regroup::Regroup;
use super::stats::BatchCounts;
use super::{BatchOps, Batched};
use crate::runtime::state::Timing;
use windrow_sync::submit::room::Capacity;
use windrow_sync::unwind::discard;

/// Makes a [`Batched`].
///
/// ```
/// use windrow::batch::{Batch, BatchOps, Batched, Overflow};
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
/// let sum = Batched::builder().limit(512).queue(4096, Overflow::Reject).build(Sum(0));
/// assert_eq!(sum.call(5).unwrap(), 5);
/// assert_eq!(sum.into_inner().unwrap().0, 5);
/// ```
pub struct Builder<S> {
    pub(super) options: Options<S>,
    queue: Option<usize>,
}

impl<S> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { limit, weight, full, longest_wait, .. } = &self.options;
        let mut shown = f.debug_struct("Builder");
        shown.field("limit", limit).field("weight", weight).field("longest_wait", longest_wait);
        shown.field("queue", &self.queue).field("full", full).finish_non_exhaustive()
    }
}

impl<S: BatchOps> Builder<S> {
    pub(super) fn new() -> Self {
        let options = Options {
            limit: usize::MAX,
            weight: None,
            full: Overflow::Block,
            longest_wait: None,
            on_panic: OnPanic::Poison,
            is_elsewhere: false,
            is_shared: false,
            is_async: false,
            timing: Timing::of_process(),
        };
        Builder { options, queue: None }
    }

    /// The maximum number of operations in a batch (at least 1).
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
    /// # use windrow::batch::Chunk;
    /// let sum = Batched::builder().limit(10).build(Sum(0));
    /// let mut chunk = Chunk::new();
    /// chunk.extend(1..=100);
    /// sum.call_chunk(&mut chunk).unwrap();
    /// assert!(sum.stats().unwrap().largest() <= 10);
    /// ```
    pub fn limit(mut self, ops: usize) -> Self {
        self.options.limit = ops.max(1);
        self
    }

    /// The maximum [weight](BatchOps::weight) of a batch. A heavier operation runs in a separate batch.
    pub fn weight_limit(mut self, weight: usize) -> Self {
        self.options.weight = Some(weight);
        self
    }

    /// Bounds the queue: at most `ops` operations (at least 1) are handed in and not answered. `full` says what happens to a call that finds
    /// no room. A chunk with more operations than `ops` is handed in when the queue is empty. An operation that finds the structure free
    /// needs no room: it runs at once. A future keeps its room until it is dropped, or polled after the answer.
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
    /// # use windrow::batch::Overflow;
    /// // Four operations wait at most; further callers wait for room.
    /// let sum = Batched::builder().queue(4, Overflow::Block).build(Sum(0));
    /// std::thread::scope(|scope| {
    ///     for _ in 0..8 {
    ///         scope.spawn(|| sum.call(1).unwrap());
    ///     }
    /// });
    /// assert_eq!(sum.call(0).unwrap(), 8);
    /// ```
    pub fn queue(mut self, ops: usize, full: Overflow) -> Self {
        self.queue = Some(ops);
        self.options.full = full;
        self
    }

    /// The longest time that a runner waits for callers that it has just answered; by default 5 % of a batch's fixed cost. Worth it if callers
    /// return later than that ([`Stats::verdict`](super::Stats::verdict) says so). A runner stops waiting while it does not pay, for a job
    /// such as [`exclusive`](Batched::exclusive), and for [`close`](Batched::close).
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
    /// # use std::time::Duration;
    /// let sum = Batched::builder().longest_wait(Duration::from_millis(2)).build(Sum(0));
    /// // A caller that is alone waits for nobody.
    /// assert_eq!(sum.call(5).unwrap(), 5);
    /// ```
    pub fn longest_wait(mut self, longest: Duration) -> Self {
        self.options.longest_wait = Some(Nanos(longest.as_nanos() as f64));
        self
    }

    /// The fate of the structure after a panic in `run`, or in a closure of [`exclusive`](Batched::exclusive). The callers of the batch get
    /// [`BatchError::Panicked`](super::BatchError::Panicked) in any case.
    ///
    /// [`OnPanic::Poison`] by default: a batch that stopped halfway may have broken what later batches rely on, and their callers would get
    /// replies from that. A program that knows better says so in a word.
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
    /// use windrow::batch::{BatchError, OnPanic};
    ///
    /// // `Sum` is whole after each operation.
    /// let sum = Batched::builder().on_panic(OnPanic::Keep).build(Sum(u64::MAX - 1));
    /// assert_eq!(sum.call(5).unwrap_err().kind(), BatchError::Panicked);
    /// assert_eq!(sum.call(1), Ok(u64::MAX));
    /// ```
    pub fn on_panic(mut self, fate: OnPanic<S>) -> Self {
        self.options.on_panic = fate;
        self
    }

    /// [`OnPanic::Recover`]: calls `recover` after a panic in the structure, to repair it.
    ///
    /// ```
    /// use windrow::batch::{Batch, BatchError, BatchOps, Batched};
    ///
    /// #[derive(Default)]
    /// struct Total {
    ///     sum: u8,
    ///     repaired: u32,
    /// }
    ///
    /// impl BatchOps for Total {
    ///     type Op = u8;
    ///     type Reply = u8;
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, u8, u8>) {
    ///         for entry in batch.iter_mut() {
    ///             self.sum = self.sum.checked_add(entry.take()).expect("too large");
    ///             entry.reply(self.sum);
    ///         }
    ///     }
    /// }
    ///
    /// let total = Batched::builder().recover(|total: &mut Total| total.repaired += 1).build(Total::default());
    /// assert_eq!(total.call(200).unwrap(), 200);
    /// assert_eq!(total.call(100).unwrap_err().kind(), BatchError::Panicked);
    /// assert_eq!(total.call(50).unwrap(), 250);
    /// assert_eq!(total.into_inner().unwrap().repaired, 1);
    /// ```
    pub fn recover(self, recover: impl Fn(&mut S) + Send + Sync + 'static) -> Self {
        self.on_panic(OnPanic::Recover(Box::new(recover)))
    }

    fn shared(mut self, structure: Option<ThreadBound<S>>, signal: Option<Notify>) -> BatchedInner<S> {
        self.options.is_elsewhere = signal.is_some();
        let counts = BatchCounts::new(self.options.limit, HandoffCosts::of(&self.options.timing.machine));
        let regroup = Regroup::default();
        let state = StructureState { structure, is_poisoned: false, counts, regroup, order: Vec::new() };
        BatchedInner {
            submit: Submit::new(state, signal),
            room: self.queue.map(Capacity::new),
            options: self.options,
            runner: RelaxedU64::new(0),
            last_ops: RelaxedU64::new(0),
            defers: RelaxedU64::new(1),
            alone: RelaxedU64::new(0),
            batch: RelaxedU64::new(0),
            turns: RelaxedU64::new(0),
            seen: Seen::default(),
            regroup_until: RelaxedU64::new(0),
            regroup_turns: RelaxedU64::new(0),
            regroup_from: RelaxedU64::new(0),
            generation: machine::fork_generation(),
        }
    }

    /// Wraps `structure`. Callers run its batches.
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
    /// let sum = Batched::builder().limit(512).build(Sum(100));
    /// assert_eq!(sum.call(5).unwrap(), 105);
    /// ```
    pub fn build(self, structure: S) -> Batched<S>
    where
        S: Send,
    {
        Batched { shared: Arc::new(self.shared(Some(ThreadBound::new(structure)), None)), thread: None }
    }

    /// Wraps the structure of a separate runner: a thread, or closures that a function spawns, run its batches.
    ///
    /// ```
    /// # use windrow::batch::{Batch, BatchOps, Batched, Runner};
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
    /// let sum = Batched::builder().limit(512).build_on(Runner::thread(|| Sum(100)))?;
    /// assert_eq!(sum.call(5).unwrap(), 105);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn build_on(mut self, runner: Runner<S>) -> std::io::Result<Batched<S>>
    where
        S: 'static,
    {
        match runner.0 {
            RunnerKind::Thread(make) => self.on_thread(None, || Some(ThreadBound::confined(make()))),
            RunnerKind::BesideCallers(structure) => {
                self.options.is_shared = true;
                self.on_thread(Some(structure), || None)
            }
            RunnerKind::Spawned(structure, spawn) => Ok(self.spawning(structure, move |shared| {
                let duty = Duty(shared);
                spawn(Box::new(move || drop(duty)));
            })),
        }
    }

    fn on_thread(
        self,
        structure: Option<ThreadBound<S>>,
        make: impl FnOnce() -> Option<ThreadBound<S>> + Send + 'static,
    ) -> std::io::Result<Batched<S>>
    where
        S: 'static,
    {
        let bell = Arc::new(Latch::new());
        let signal = bell.clone();
        let shared = Arc::new(self.shared(structure, Some(Box::new(move || signal.set()))));
        let mine = shared.clone();
        let runner = std::thread::Builder::new().name("windrow-batch".to_owned());
        let thread = runner.spawn(move || mine.live(make, &bell))?;
        Ok(Batched { shared, thread: Some(thread) })
    }

    pub(super) fn spawning(
        self,
        structure: ThreadBound<S>,
        spawn: impl Fn(Arc<BatchedInner<S>>) + Send + Sync + 'static,
    ) -> Batched<S>
    where
        S: 'static,
    {
        let shared = Arc::new_cyclic(|shared: &Weak<BatchedInner<S>>| {
            let shared = shared.clone();
            let signal = Box::new(move || {
                // Without callers there is nothing to run.
                if let Some(shared) = shared.upgrade() {
                    match catch_unwind(AssertUnwindSafe(|| spawn(shared))) {
                        Ok(()) => {}
                        // An earlier panic of `spawn` drops a closure on this thread, and reaches the caller.
                        Err(payload) if std::thread::panicking() => discard(payload),
                        Err(payload) => resume_unwind(payload),
                    }
                }
            });
            self.shared(Some(structure), Some(signal))
        });
        Batched { shared, thread: None }
    }
}

/// A function that runs closures elsewhere.
type Spawn = Box<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// A separate runner of batches, with its structure: see [`Builder::build_on`].
pub struct Runner<S>(RunnerKind<S>);

enum RunnerKind<S> {
    Thread(Box<dyn FnOnce() -> S + Send>),
    BesideCallers(ThreadBound<S>),
    Spawned(ThreadBound<S>, Spawn),
}

impl<S> fmt::Debug for Runner<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            RunnerKind::Thread(_) => "Thread",
            RunnerKind::BesideCallers(_) => "BesideCallers",
            RunnerKind::Spawned(..) => "Spawned",
        })
    }
}

impl<S> Runner<S> {
    /// A separate thread, which makes the structure, keeps it and drops it: for operations that block, and for structures that are not `Send`. If `make` panics, all operations get [`BatchError::Poisoned`](super::BatchError::Poisoned).
    ///
    /// ```
    /// use std::rc::Rc;
    /// use windrow::batch::{Batch, BatchOps, Batched, Runner};
    ///
    /// /// Cannot leave its thread.
    /// struct Names(Vec<Rc<str>>);
    ///
    /// impl BatchOps for Names {
    ///     type Op = &'static str;
    ///     type Reply = usize;
    ///
    ///     fn run(&mut self, batch: &mut Batch<'_, &'static str, usize>) {
    ///         for entry in batch.iter_mut() {
    ///             self.0.push(entry.take().into());
    ///             entry.reply(self.0.len());
    ///         }
    ///     }
    /// }
    ///
    /// let names = Batched::builder().build_on(Runner::thread(|| Names(Vec::new())))?;
    /// assert_eq!((names.call("Ada").unwrap(), names.call("Bob").unwrap()), (1, 2));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thread(make: impl FnOnce() -> S + Send + 'static) -> Self {
        Runner(RunnerKind::Thread(Box::new(make)))
    }

    /// A separate thread beside lone callers: a calling thread runs its own operation if the structure is free and the last batch had one
    /// operation. So a single caller wakes no thread. Tasks never run operations.
    ///
    /// ```
    /// # use windrow::batch::{Batch, BatchOps, Batched, Runner};
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
    /// let sum = Batched::builder().build_on(Runner::beside_callers(Sum(0)))?;
    /// assert_eq!((sum.call(5).unwrap(), sum.call(7).unwrap()), (5, 12));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn beside_callers(structure: S) -> Self
    where
        S: Send,
    {
        Runner(RunnerKind::BesideCallers(ThreadBound::new(structure)))
    }

    /// Spawned closures. `spawn` gets a closure whenever operations are queued and no closure is pending: pass an executor's `spawn_blocking`, or a thread pool's `spawn`.
    ///
    /// A closure that is dropped instead of run runs its batches in its drop. A closure that is neither run nor dropped (leaked, or kept
    /// by an executor that was stopped) leaves callers waiting: no other closure is spawned before it has ended.
    ///
    /// If `spawn` panics, the panic reaches the caller whose operation needed the closure, after that operation has been answered. Dropping
    /// the structure does not panic.
    ///
    /// ```
    /// # use windrow::batch::{Batch, BatchOps, Batched, Runner};
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
    /// let spawned = Runner::spawned(Sum(0), |run| {
    ///     // An executor's `spawn_blocking`, say.
    ///     std::thread::spawn(run);
    /// });
    /// let sum = Batched::builder().build_on(spawned)?;
    /// assert_eq!((sum.call(5).unwrap(), sum.call(7).unwrap()), (5, 12));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawned(structure: S, spawn: impl Fn(Box<dyn FnOnce() + Send>) + Send + Sync + 'static) -> Self
    where
        S: Send,
    {
        Runner(RunnerKind::Spawned(ThreadBound::new(structure), Box::new(spawn)))
    }
}

/// A closure that was spawned to run batches.
struct Duty<S: BatchOps>(Arc<BatchedInner<S>>);

impl<S: BatchOps> Drop for Duty<S> {
    fn drop(&mut self) {
        let shared = &*self.0;
        // If the lock is held, another signal follows.
        shared.submit.run(|held| shared.lead_all(held));
    }
}

impl<S: BatchOps> BatchedInner<S> {
    /// The life of a runner's thread.
    fn live(&self, make: impl FnOnce() -> Option<ThreadBound<S>>, bell: &Latch) {
        // The hook has reported a panic of `make`; operations then get `Poisoned`.
        let mut structure = catch_unwind(AssertUnwindSafe(make)).ok().flatten();
        while !self.submit.is_over() {
            let lead = || {
                self.submit.run(|held| {
                    if let Some(structure) = structure.take() {
                        held.data().structure = Some(structure);
                    }
                    self.lead_all(held);
                })
            };
            // Panics of the structure are caught where it is called. Other panics must not end the runner either, or callers would wait for
            // ever.
            let ran = catch_unwind(AssertUnwindSafe(lead)).unwrap_or_else(|payload| {
                discard(payload);
                true
            });
            if self.is_forked() {
                // The structure and its callers belong to the parent.
                std::mem::forget(structure);
                return;
            }
            // If operations were left, the bell has been rung, and the wait returns at once.
            if !(ran && self.submit.is_over()) {
                bell.wait_for(None);
            }
        }
        if self.options.is_shared {
            return;
        }
        // The structure is dropped on the thread that made it.
        let mut last = None;
        while !self.submit.run(|held| last = held.data().structure.take()) {
            std::thread::yield_now();
        }
        discard(last);
    }
}
