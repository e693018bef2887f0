#![doc = include_str!("README.md")]

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

use crate::base::debug::show_as;
use crate::base::mutex::Mutex;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicPtr, Ordering, UnsafeCell};
use crate::base::relaxed::RelaxedU64;
use crate::base::spin::Spin;
use crate::base::unwind::{Finally, discard};

mod held;
mod node;
#[doc(hidden)]
pub mod room;
mod task;

#[doc(hidden)]
pub use held::{BatchGuard, Limit, LockGuard, WeighOp};
pub use node::Entry;
#[doc(hidden)]
pub use node::Fate;
#[doc(hidden)]
pub use node::TaskJob;
#[doc(hidden)]
pub use task::{Launch, TaskOp, TaskPoll};

use held::HolderState;
use node::{DONE, LEAD, Node, NodeWork, QueuedNode};

/// The lock is held.
const HELD: usize = 1;
/// Without `HELD`: a future or the runner has been called. With `HELD`: the holder was nudged, and checks again before it lets
/// go.
const CALLED: usize = 2;
/// No operation is accepted any more.
const CLOSED: usize = 4;
/// One reader. The bits below the address count up to 31.
const READER: usize = 8;
const TAGS: usize = node::ALIGN - 1;
const READERS: usize = TAGS & !(READER - 1);

type Address<T, A, B> = *mut Node<T, A, B>;

/// Signals a separate runner: an operation is queued.
#[doc(hidden)]
pub type Notify = Box<dyn Fn() + Send + Sync>;

/// Data, its lock, and the list of operations that callers have handed in. See the [module page](self).
///
/// `A` is an operation, `B` the reply to it.
///
/// ```
/// use windrow_sync::Spin;
/// use windrow_sync::submit::{Entry, Limit, LockGuard, Submit};
///
/// // Each operation adds a number; the reply is the sum so far.
/// fn lead(guard: &mut LockGuard<'_, u64, u64, u64>) {
///     while let Some(mut batch) = guard.cut(&Limit { ops: 64, weight: None }) {
///         let (sum, entries) = batch.parts();
///         for entry in entries {
///             *sum += entry.take();
///             entry.reply(*sum);
///         }
///     }
/// }
/// let sums = Submit::new(0, None);
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| sums.call(&mut [Entry::Op(3)], 0, Spin::NONE, lead).unwrap());
///     }
/// });
/// assert_eq!(*sums.try_read().expect("the lock is free"), 6);
/// ```
#[doc(hidden)]
pub struct Submit<T, A, B> {
    word: Pad<AtomicPtr<Node<T, A, B>>>,
    inside: Pad<UnsafeCell<HolderState<T, A, B>>>,
    /// One free slot: if one task at a time waits for a reply, it is the only slot in use.
    spare: Pad<AtomicPtr<Node<T, A, B>>>,
    slots: Mutex<TaskSlots<T, A, B>>,
    /// Number of operations whose futures were dropped before a batch had them.
    cancelled: RelaxedU64,
    signal: Option<Notify>,
}

/// Slots for futures' nodes.
struct TaskSlots<T, A, B> {
    all: Vec<NonNull<Node<T, A, B>>>,
    free: Vec<NonNull<Node<T, A, B>>>,
}

// SAFETY: `inside` is used by the holder of the lock, or shared by readers (for which `T: Sync` is asked). Operations move to the
// holder and replies back. The list's drop frees the slots, when no other user is left.
unsafe impl<T: Send, A: Send, B: Send> Sync for Submit<T, A, B> {}
// SAFETY: as above; pointers in the list lead to slots that it owns, because callers with nodes on their stacks borrow the list.
unsafe impl<T: Send, A: Send, B: Send> Send for Submit<T, A, B> {}

show_as!("Submit": [T, A, B] Submit<T, A, B>);

/// The list was closed by [`Submit::close`]: the operation was not accepted.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// The choice of a push that finds the lock free.
#[derive(Clone, Copy, PartialEq)]
enum Push {
    /// Takes the lock.
    Take,
    /// Leaves the lock free, and calls: this node's future invites itself, or the runner is signalled.
    Call,
}

enum Pushed {
    Queued,
    /// The caller holds the lock.
    Lead,
    /// The lock was free, and this is the first call.
    Called,
    /// The lock was free, and other futures have been called, which may be kept.
    CalledToo,
    Closed,
}

impl<T: Send, A: Send, B: Send> Submit<T, A, B> {
    /// An open, empty list around `data`. With `signal`, a separate runner is signalled when operations are queued; it then calls
    /// [`take`](Submit::take).
    pub fn new(data: T, signal: Option<Notify>) -> Self {
        Submit {
            word: Pad(AtomicPtr::new(ptr::null_mut())),
            inside: Pad(UnsafeCell::new(HolderState::new(data))),
            spare: Pad(AtomicPtr::new(ptr::null_mut())),
            slots: Mutex::new(TaskSlots { all: Vec::new(), free: Vec::new() }),
            cancelled: RelaxedU64::new(0),
            signal,
        }
    }

    /// The lock, if it is free and nothing is queued: one compare-exchange, and one more to let go.
    #[inline]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T, A, B>> {
        let word = &self.word.0;
        let held = ptr::without_provenance_mut(HELD);
        // Relaxed: read before the compare-exchange, so that a caller that waits for the lock leaves the cache line with the
        // holder.
        if !word.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the Release in `LockGuard::let_go`, `LockGuard::hand_on` and `Reading::drop`; what the last holder did to
        // the data is seen. Relaxed: nothing is read after a failure.
        word.compare_exchange(ptr::null_mut(), held, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(LockGuard::new(self, None))
    }

    /// Runs `f` on the data and `with`, if the lock is free and nothing is queued; else returns `with`. Calls `more` with the lock's guard
    /// if an operation was queued meanwhile. (Without a guard in the results: to move one costs as much as a compare-exchange.)
    #[inline(always)]
    pub fn try_with<P, R>(
        &self,
        with: P,
        f: impl FnOnce(&mut T, P) -> R,
        more: impl FnOnce(LockGuard<'_, T, A, B>),
    ) -> Result<R, P> {
        let Some(held) = self.try_lock() else { return Err(with) };
        let mut held = ManuallyDrop::new(held);
        let ran = catch_unwind(AssertUnwindSafe(|| f(held.data(), with)));
        if !held.let_go() {
            more(ManuallyDrop::into_inner(held));
        }
        Ok(ran.unwrap_or_else(|payload| resume_unwind(payload)))
    }

    /// The data, shared with other readers, if the lock is free, nothing is queued and the word can count one more reader (it
    /// counts 31). Also after [`close`](Submit::close).
    #[inline]
    pub fn try_read(&self) -> Option<Reading<'_, T, A, B>>
    where
        T: Sync,
    {
        // Acquire: pairs with the Release in `LockGuard::let_go` and `LockGuard::hand_on`; what holders did to the data is seen.
        // Relaxed: validated.
        let counted = self.word.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| {
            let tags = word.addr();
            let is_open = tags & !(READERS | CLOSED) == 0 && tags & READERS != READERS;
            is_open.then(|| word.map_addr(|word| word + READER))
        });
        counted.ok().map(|_| Reading { submit: self })
    }

    /// Hands in `entries`, which hold operations, and blocks until they are answered. `look` is the spin budget. `lead` is called
    /// whenever this caller gets the lock; it should cut and answer at least until [`LockGuard::is_leader_answered`]. `mark` is a number
    /// that a holder finds with the entries.
    ///
    /// Returns the fate that the batch was given, if any. Entries without a reply were taken and not answered.
    ///
    /// # Errors
    /// After [`close`](Submit::close): nothing was taken.
    ///
    /// # Panics
    /// If an entry holds no operation: nothing was taken then. If `lead` panics: the entries that were not run by then stay
    /// unanswered.
    pub fn call(
        &self,
        entries: &mut [Entry<A, B>],
        mark: u64,
        look: Spin,
        mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        if entries.is_empty() {
            return Ok(Fate::default());
        }
        // Checked here, where the panic reaches the caller that hands the entries in; later it would reach the holder that runs them.
        assert!(
            entries.iter().all(|entry| matches!(entry, Entry::Op(_))),
            "an entry was handed in without an operation"
        );
        self.block_on(&Node::new(NodeWork::Entries(entries), mark), 0, look, &mut lead)
    }

    /// Runs `job` on the data, on the thread that holds the lock once all that was handed in before is answered.
    ///
    /// # Errors
    /// After [`close`](Submit::close): the job was not run.
    ///
    /// # Panics
    /// If `lead` does. A panic of `job` unwinds through the holder that runs it: `job` should catch its panics.
    pub fn job(
        &self,
        job: &mut (dyn FnMut(&mut T) + Send),
        look: Spin,
        mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        self.block_on(&Node::new(NodeWork::job(job), 0), 0, look, &mut lead)
    }

    /// Accepts nothing from now on, and returns when all that was handed in before is answered.
    ///
    /// # Errors
    /// The list was closed before; that other call may still be waiting.
    ///
    /// # Panics
    /// If `lead` does.
    pub fn close(&self, look: Spin, mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>)) -> Result<(), Closed> {
        let mut nothing = |_: &mut T| ();
        self.block_on(&Node::new(NodeWork::job(&mut nothing), 0), CLOSED, look, &mut lead).map(|_| ())
    }

    /// Accepts nothing from now on, as [`close`](Submit::close), but does not wait. To be used by the holder, which would wait for itself.
    pub fn shut(&self) {
        // Relaxed: the flag publishes no data.
        let _ = self
            .word
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(word.map_addr(|word| word | CLOSED)));
    }

    /// True if the list was closed.
    pub fn is_closed(&self) -> bool {
        // Relaxed: the flag publishes no data.
        self.word.0.load(Ordering::Relaxed).addr() & CLOSED != 0
    }

    /// The number of operations whose [`TaskOp`] was dropped while they were queued: they are never run.
    pub fn cancelled(&self) -> u64 {
        self.cancelled.get()
    }

    /// True if the list was closed and all that was handed in is answered. Readers may be left.
    pub fn is_over(&self) -> bool {
        // Relaxed: nothing is pushed after `CLOSED`, and a holder that lets go to this value has answered all.
        self.word.0.load(Ordering::Relaxed).addr() & !READERS == CLOSED
    }

    /// For the runner: takes the lock. `None` if another thread has it; then the runner will be signalled again.
    pub fn take(&self) -> Option<LockGuard<'_, T, A, B>> {
        self.take_or_nudge().then(|| LockGuard::new(self, None))
    }

    /// Takes the lock and leads; false as [`take`](Submit::take).
    pub fn run(&self, lead: impl FnOnce(&mut LockGuard<'_, T, A, B>)) -> bool {
        self.take().map(|mut held| lead(&mut held)).is_some()
    }

    /// The data, when no other thread can have it.
    pub fn data_mut(&mut self) -> &mut T {
        // SAFETY: exclusive by `&mut self`: no thread holds the lock, for a `LockGuard` borrows the list.
        self.inside.0.with_mut(|inside| unsafe { &mut (*inside).data })
    }

    fn block_on(
        &self,
        node: &Node<T, A, B>,
        closing: usize,
        look: Spin,
        lead: &mut dyn FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        let at = ptr::from_ref(node).cast_mut();
        let how = if self.signal.is_some() { Push::Call } else { Push::Take };
        let pushed = self.push(at, how, closing);
        if matches!(pushed, Pushed::Closed) {
            return Err(Closed);
        }
        // Keeps this caller from unwinding while other threads can reach the node on its stack.
        let answered = Finally(|| {
            while node.wait_and_pass_on(Spin::NONE) == LEAD {
                // `lead` has panicked before: this caller runs no operation, and its node leaves the queue.
                drop(LockGuard::new(self, Some(NonNull::from(node))));
            }
        });
        let mut leads = matches!(pushed, Pushed::Lead);
        if matches!(pushed, Pushed::Called) {
            self.signal();
        }
        loop {
            if leads {
                // Dropped also while unwinding: the drop takes the node out of the queue if it is not answered.
                let mut held = LockGuard::new(self, Some(NonNull::from(node)));
                lead(&mut held);
            }
            match node.wait_and_pass_on(look) {
                DONE => break,
                phase => leads = phase == LEAD,
            }
        }
        std::mem::forget(answered);
        // SAFETY: `DONE` was seen with Acquire: the node belongs to its owner again.
        Ok(node.body.with(|body| unsafe { (*body).fate }))
    }

    fn push(&self, node: Address<T, A, B>, how: Push, closing: usize) -> Pushed {
        // SAFETY: the caller's own node, not yet published.
        let link = unsafe { &(*node).link };
        let mut pushed = Pushed::Closed;
        // Release: pairs with the Acquire in `LockGuard::pull`; the node is complete when it is found. Relaxed: validated.
        // Acquire: pairs with the Release in `LockGuard::let_go`, `LockGuard::hand_on` and `Reading::drop`; if this takes the lock, what
        // was done to the data is seen.
        let done = self.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            let tags = word.addr() & TAGS;
            if tags & CLOSED != 0 {
                return None;
            }
            // SAFETY: not published yet, so this is the only access.
            link.with_mut(|link| unsafe { *link = word.map_addr(|word| word & !TAGS) });
            let is_free = tags & (HELD | READERS) == 0;
            let tags = match how {
                Push::Take if is_free => (tags & !CALLED | HELD, Pushed::Lead),
                Push::Call if is_free && tags & CALLED == 0 => (tags | CALLED, Pushed::Called),
                Push::Call if is_free => (tags, Pushed::CalledToo),
                _ => (tags, Pushed::Queued),
            };
            pushed = tags.1;
            Some(node.map_addr(|node| node | tags.0 | closing))
        });
        done.map_or(Pushed::Closed, |_| pushed)
    }

    /// True if a future could take the lock now: never if a separate runner exists.
    fn is_free_to_tasks(&self) -> bool {
        // Relaxed: a compare-exchange validates it before it is relied on.
        self.signal.is_none() && self.word.0.load(Ordering::Relaxed).addr() & (HELD | READERS) == 0
    }

    /// Takes the lock if it is free, or makes the holder check again before it lets go.
    fn take_or_nudge(&self) -> bool {
        let is_free = |word: Address<T, A, B>| word.addr() & (HELD | READERS) == 0;
        // Acquire: as in `push`. Relaxed: validated.
        // Release: pairs with the Acquire in `LockGuard::pull`; the holder sees a state that was changed before the nudge. So the
        // compare-exchange is made even if `CALLED` is set already.
        let before = self.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |at| {
            Some(at.map_addr(|word| if is_free(at) { word & !CALLED | HELD } else { word | CALLED }))
        });
        before.is_ok_and(is_free)
    }

    fn signal(&self) {
        if let Some(signal) = &self.signal {
            signal();
        }
    }

    /// Takes a free slot, or makes one.
    fn slot(&self) -> NonNull<Node<T, A, B>> {
        // Acquire: pairs with the Release in `free`; the slot's last use comes before this one.
        if let Some(slot) = NonNull::new(self.spare.0.swap(ptr::null_mut(), Ordering::Acquire)) {
            return slot;
        }
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.free.pop() {
            return slot;
        }
        // From here on the list owns it.
        let slot = NonNull::from(Box::leak(Box::new(Node::new(NodeWork::Own, 0))));
        slots.all.push(slot);
        // Capacity for all slots: giving one back never allocates.
        let room = slots.all.capacity();
        let free = &mut slots.free;
        free.reserve(room - free.len());
        slot
    }

    /// Drops the values in a slot that is the caller's alone, and makes the slot free again.
    fn free(&self, slot: QueuedNode<T, A, B>) {
        discard((slot.take_own(), slot.take_waiter(), slot.replace_late(None)));
        let slot = slot.slot();
        // Release: pairs with the Acquire in `slot`. Relaxed: a failure says nothing.
        let spare = self.spare.0.compare_exchange(ptr::null_mut(), slot.as_ptr(), Ordering::Release, Ordering::Relaxed);
        if spare.is_err() {
            self.slots.lock().free.push(slot);
        }
    }
}

impl<T, A, B> Drop for Submit<T, A, B> {
    fn drop(&mut self) {
        for slot in self.slots.lock().all.drain(..) {
            // SAFETY: made by `slot` from a box, and listed once. No other user is left: futures and holders borrow the list.
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}

/// The data, shared with other readers.
#[doc(hidden)]
pub struct Reading<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
}

show_as!("Reading": [T: Send, A: Send, B: Send] Reading<'_, T, A, B>);

impl<T: Send + Sync, A: Send, B: Send> std::ops::Deref for Reading<'_, T, A, B> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: no thread takes the lock while the word counts readers.
        self.submit.inside.0.with(|inside| unsafe { &(*inside).data })
    }
}

impl<T: Send, A: Send, B: Send> Drop for Reading<'_, T, A, B> {
    fn drop(&mut self) {
        let submit = self.submit;
        let rest = |word: Address<T, A, B>| word.map_addr(|word| word - READER);
        let is_wanted = |rest: Address<T, A, B>| rest.addr() & READERS == 0 && rest.addr() & !CLOSED != 0;
        // Release: pairs with the Acquire in `Submit::try_lock`, `push`, `take_or_nudge` and in this compare-exchange of the last
        // reader; what was read was read before the next holder writes. Relaxed: validated.
        // Acquire: pairs with the Release here of readers that left before, if this last one takes the lock.
        let before = submit.word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            let rest = rest(word);
            Some(if is_wanted(rest) { rest.map_addr(|rest| rest & !CALLED | HELD) } else { rest })
        });
        if before.is_ok_and(|word| is_wanted(rest(word))) {
            drop(LockGuard::new(submit, None));
        }
    }
}
