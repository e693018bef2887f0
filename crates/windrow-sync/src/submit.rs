//! Submit: many callers hand in operations; the caller that holds the lock runs all that are queued.
//!
//! # Glossary
//! * *Caller*: a thread that blocks, or a future that a task polls. *Runner*: a separate thread or task that runs all operations.
//! * *Holder*: the thread that has the lock, be it a blocked caller, a task that is polled, or the runner.
//! * *Guard* (type [`LockGuard`]): the holder's access to the list. *Lead*: to run operations as the holder.
//! * *Node*: one caller's entry in the list. A *thread's* node lies on its stack, a *future's* in a pool slot.
//! * *Queue*: the nodes that a holder has moved out of the word, oldest first. It belongs to the holder.
//! * *Batch*: the operations that a holder runs at once. *Cut*: to move operations from the front of the queue into a batch.
//! * *Granted*: a thread was given the lock while it waited.
//! * *Invited*: a future was told to come and take the lock if it is free. It stays invited until it is polled (`INVITED`).
//! * *Call*: to set `CALLED` beside a free lock: a future or the runner is to come. *Nudge*: to set it beside `HELD`: the holder
//!   is to check again before it lets go.
//! * *Fresh*: a node of the queue that no holder has met on letting go.
//! * *Kept*: a future that is alive and is not polled although its waker was woken. `select!`, `timeout(&mut f)` and `buffered`
//!   keep futures so.
//!
//! # Protocol
//! One word holds the lock and the list of what was handed in, newest first: `node | READER * readers | CLOSED | CALLED | HELD`,
//! where `node` is an address whose low bits are free.
//!
//! 1. *Push.* A caller pushes its node by one compare-exchange. If that finds the lock free, the caller takes the lock, too, or
//!    calls: no node is ever queued beside a free lock without a call. Otherwise the holder will see the node, since it can only
//!    let go by a compare-exchange that finds the list empty. Race prevented: the holder lets go beside a new node.
//! 2. *Pull and cut.* The holder *pulls*: it takes the list out of the word and appends it, oldest first, to the queue. Then it
//!    cuts the first operations of the queue, up to a limit, into a batch. It cuts as late as possible: whatever has arrived
//!    before is included.
//! 3. *Answer.* The holder writes the replies first; then the node's state becomes `DONE`. From then on a node on a caller's
//!    stack may be gone, so the holder takes the waiter out before. After [`BatchGuard::set_heads`] it wakes only a few of many parked
//!    threads. Each of these finds in its node (`late`) the next one to wake. So a holder can finish the next batch while the
//!    callers of this one wake up. Race prevented: the holder reads a node that its caller has freed.
//! 4. *Let go.* If the queue is not empty, the holder hands the duty to run on:
//!    * There is a runner (a thread, a spawner): the word becomes `CALLED`, and the runner is signalled.
//!    * Otherwise, if a thread is queued, the oldest thread is *granted* the lock (state `LEAD`; the word stays `HELD`), even if
//!      futures are ahead of it. A thread can be relied on: it waits for nothing else.
//!    * Otherwise only futures are queued. None can be relied on, for any of them may be kept. So the holder invites every fresh
//!      one, and the oldest that has given an earlier invitation back. The word changes from `HELD` to `CALLED`, then their
//!      wakers are woken. The first to be polled takes the lock. An invited future that is dropped takes the lock, too, and hands
//!      it on.
//! 5. *Defer.* A future that finds the lock free may have to leave it free, so that other tasks come first
//!    ([`Launch::Deferred`]). Then it invites itself: it sets `CALLED` and wakes its own waker. It does so even if `CALLED` is
//!    set already. Race prevented: the future that set `CALLED` is kept, and each task that comes later waits for it beside a
//!    free lock.
//! 6. *Nudge.* An invited future that finds the lock held gives the invitation back, registers its waker, and then nudges the
//!    holder. Race prevented: the holder invites, the future comes while the lock is still held and waits, the holder lets go, no
//!    task runs. Both update the word by a compare-exchange. Either the future finds it free, or the holder's compare-exchange
//!    fails and it reads the future's new state.
//! 7. *Read.* Readers count themselves in the word while nothing is queued and the lock is free. The last one out acts as a
//!    holder that lets go. Race prevented: the holder writes while a reader reads.
//!
//! # Why it holds
//! * *A kept future blocks no other caller.* A thread that queues is granted the lock, or finds it free. A future that queues
//!   beside a free lock invites itself; one that queues beside a holder is invited when that holder lets go. So each caller is
//!   woken at least once after it has queued, and finds the lock free, or held by a caller that runs. One case is left. A limit
//!   leaves futures in the queue that were invited and found the lock held; on letting go, the holder invites only the oldest of
//!   them. If exactly that one is kept from then on, those behind it wait for the next caller. (Inviting all of them each time
//!   would cost `n * n` polls.)
//! * *The invited futures are known without a walk.* `fresh` is where the fresh part of the queue begins; `asks` says that an
//!   invitation may have been given back. A future gives one back only before it nudges (step 6) or when it takes the lock, and
//!   holders see both.
//! * *A forgotten future leaves nothing dangling.* Its node lies in a slot of a pool that the list owns. The states of that node:
//!
//! | from | by | to |
//! |---|---|---|
//! | `QUEUED` | holder cuts it, and takes its waker | `TAKEN` |
//! | `TAKEN` | holder answers | `DONE` |
//! | `TAKEN` with a new waker | holder takes that waker | `BUSY`, then `DONE` |
//! | `QUEUED` with a waker | holder invites, and takes the waker | `BUSY`, then `QUEUED` and invited |
//! | `QUEUED` with a waker | its future invites itself | the same and invited |
//! | any | the future is dropped | `GONE` |
//!
//! A dropped future makes one swap, and the state that it finds decides which thread frees the slot. `QUEUED`: the operation
//! never runs; the holder that reaches the node in the queue frees the slot. `TAKEN` or `BUSY`: the operation runs; the holder
//! that would have answered frees the slot. `DONE`: the future frees it at once.
//!
//! A node has one address at a time in the list, and a push needs only the address of the node that it finds: no ABA problem.
//!
//! # Timeline: nudge against letting go
//! ```text
//! invited future (polled)                   holder
//!                                           finds the future still invited
//! gives the invitation back, registers
//! sets CALLED beside HELD; Pending
//!                                           CAS HELD -> CALLED: fails
//!                                           pulls, invites the future again
//!                                           CAS HELD -> CALLED; wakes the future
//! polled: finds the lock free, takes it
//!
//! invited future (polled)                   holder
//!                                           finds the future still invited
//! gives the invitation back, registers
//!                                           CAS HELD -> CALLED: succeeds
//! finds the lock free, takes it
//! ```
//!
//! Sources: write groups of LevelDB and RocksDB (nodes on callers' stacks, a leader that runs them), flat combining (Hendler,
//! Incze, Shavit, Tzafrir, SPAA 2010), implicit batching (Agrawal et al., SPAA 2014). Threads that wake threads: RocksDB's
//! parallel groups, from 20 writers on.

use std::ptr::{self, NonNull};

use crate::primitives::{AtomicPtr, Mutex, Ordering, UnsafeCell, lock};
use crate::{Pad, Spin};

mod held;
mod home;
mod node;
mod task;

pub use held::{BatchGuard, Limit, LockGuard, WeighOp};
pub use home::Home;
pub use node::{Entry, Fate};
pub use task::{Launch, TaskOp, TaskPoll};

use held::HolderState;
use node::{DONE, LEAD, Node, NodeWork};

/// The lock is held.
const HELD: usize = 1;
/// Without `HELD`: futures or the runner have been called to come and run. With it: the holder must check again before it lets
/// go.
const CALLED: usize = 2;
/// No operation is accepted any more.
const CLOSED: usize = 4;
/// One reader; as many as fit below the address.
const READER: usize = 8;
const TAGS: usize = node::ALIGN - 1;
const READERS: usize = TAGS & !(READER - 1);

type Address<T, A, B> = *mut Node<T, A, B>;

/// Tells a separate runner that there is work.
pub type Notify = Box<dyn Fn() + Send + Sync>;

/// Data, its lock, and the list of operations that callers have handed in. See the [module page](self).
///
/// `A` is an operation, `B` the reply to it.
pub struct Submit<T, A, B> {
    word: Pad<AtomicPtr<Node<T, A, B>>>,
    inside: Pad<UnsafeCell<HolderState<T, A, B>>>,
    /// One free slot: if few tasks are polled at a time, it is the only one in use.
    spare: Pad<AtomicPtr<Node<T, A, B>>>,
    slots: Mutex<TaskSlots<T, A, B>>,
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
// SAFETY: as above; pointers in it lead to slots it owns, since callers with nodes on their stacks borrow it.
unsafe impl<T: Send, A: Send, B: Send> Send for Submit<T, A, B> {}

impl<T, A, B> std::fmt::Debug for Submit<T, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submit").finish_non_exhaustive()
    }
}

/// The list was closed by [`Submit::close`]: the operation was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// What a push does with a lock that it finds free.
#[derive(Clone, Copy, PartialEq)]
enum Push {
    /// Takes it.
    Take,
    /// Leaves it, and calls: this node's future invites itself, or the runner is signalled.
    Call,
}

enum Pushed {
    Queued,
    /// The caller holds the lock.
    Lead,
    /// The lock was free, and this is the first call.
    Called,
    /// The lock was free, and other futures have been called, which may not come.
    CalledToo,
    Closed,
}

impl<T: Send, A: Send, B: Send> Submit<T, A, B> {
    /// An open, empty list around `data`. With `signal`, a separate runner is signalled when there is work, and comes with
    /// [`run`](Submit::run).
    pub fn new(data: T, signal: Option<Notify>) -> Self {
        Submit {
            word: Pad(AtomicPtr::new(ptr::null_mut())),
            inside: Pad(UnsafeCell::new(HolderState::new(data))),
            spare: Pad(AtomicPtr::new(ptr::null_mut())),
            slots: Mutex::new(TaskSlots { all: Vec::new(), free: Vec::new() }),
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
        // Acquire: pairs with the Release in `LockGuard::let_go`; what the last holder did to the data is seen.
        // Relaxed: a failure tells nothing.
        word.compare_exchange(ptr::null_mut(), held, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(LockGuard::new(self, None))
    }

    /// The data, shared with other readers, if the lock is free, nothing is queued and the word can count one more reader (it
    /// counts 31). Also after [`close`](Submit::close).
    #[inline]
    pub fn try_read(&self) -> Option<Reading<'_, T, A, B>>
    where
        T: Sync,
    {
        // Relaxed: the compare-exchange below validates it.
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            let tags = word.addr();
            if tags & !(READERS | CLOSED) != 0 || tags & READERS == READERS {
                return None;
            }
            // Acquire: pairs with the Release in `LockGuard::let_go`; what holders did to the data is seen.
            match self.exchange(word, word.map_addr(|word| word + READER), Ordering::Acquire) {
                Ok(()) => return Some(Reading { submit: self }),
                Err(now) => word = now,
            }
        }
    }

    /// Hands in `entries`, which hold operations, and blocks until they are answered. `lead` is called whenever this caller gets
    /// the lock; it should cut and answer at least until [`LockGuard::is_mine_answered`]. `mark` is a number that `lead` finds with
    /// the entries.
    ///
    /// Returns the fate that the batch was given, if any. Entries without a reply were taken and not answered.
    ///
    /// # Errors
    /// After [`close`](Submit::close): nothing was taken.
    ///
    /// # Panics
    /// If an entry holds no operation; nothing was taken then. If `lead` panics; the entries that were not run by then stay
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
        // Checked here, where the panic reaches the caller that handed them in; later it would reach the holder that runs them.
        assert!(
            entries.iter().all(|entry| matches!(entry, Entry::Op(_))),
            "an entry was handed in without an operation"
        );
        self.block_on(&Node::of_thread(NodeWork::Entries(entries), mark), 0, look, &mut lead)
    }

    /// Runs `job` on the data once all that was handed in before is answered, on the thread that holds the lock then.
    ///
    /// # Errors
    /// After [`close`](Submit::close): it was not run.
    ///
    /// # Panics
    /// If `lead` does. A panic of `job` unwinds through the holder that runs it: catch it inside.
    pub fn job(
        &self,
        job: &mut (dyn FnMut(&mut T) + Send),
        look: Spin,
        mut lead: impl FnMut(&mut LockGuard<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        self.block_on(&Node::of_thread(NodeWork::job(job), 0), 0, look, &mut lead)
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
        self.block_on(&Node::of_thread(NodeWork::job(&mut nothing), 0), CLOSED, look, &mut lead).map(|_| ())
    }

    /// Accepts nothing from now on, as [`close`](Submit::close), but does not wait: for the holder, which would wait for itself.
    pub fn shut(&self) {
        // Relaxed: the compare-exchange below validates it.
        let mut word = self.word.0.load(Ordering::Relaxed);
        // Relaxed: the flag publishes no data.
        while let Err(now) = self.exchange(word, word.map_addr(|word| word | CLOSED), Ordering::Relaxed) {
            word = now;
        }
    }

    /// Whether the list was closed.
    pub fn is_closed(&self) -> bool {
        // Relaxed: the flag publishes no data.
        self.word.0.load(Ordering::Relaxed).addr() & CLOSED != 0
    }

    /// Whether the list was closed and all that was handed in is answered. There may be readers.
    pub fn is_over(&self) -> bool {
        // Relaxed: nothing is pushed after `CLOSED`, and a holder that lets go to this value has answered all.
        self.word.0.load(Ordering::Relaxed).addr() & !READERS == CLOSED
    }

    /// For the runner: takes the lock and leads. False if another thread has it; the runner will be signalled again then.
    pub fn run(&self, lead: impl FnOnce(&mut LockGuard<'_, T, A, B>)) -> bool {
        if !self.take_or_nudge() {
            return false;
        }
        lead(&mut LockGuard::new(self, None));
        true
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
        let answered = Answered { submit: self, node };
        let mut leads = matches!(pushed, Pushed::Lead);
        if matches!(pushed, Pushed::Called) {
            self.signal();
        }
        loop {
            if leads {
                // Dropped also while unwinding: that takes the node out of the queue if it is not answered.
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
        // Relaxed: the compare-exchange below validates it.
        let mut word = self.word.0.load(Ordering::Relaxed);
        // SAFETY: the caller's own node, not yet published.
        let link = unsafe { &(*node).link };
        loop {
            let tags = word.addr() & TAGS;
            if tags & CLOSED != 0 {
                return Pushed::Closed;
            }
            // SAFETY: not published yet, so this is the only access.
            link.with_mut(|link| unsafe { *link = word.map_addr(|word| word & !TAGS) });
            let is_free = tags & (HELD | READERS) == 0;
            let (tags, pushed) = match how {
                Push::Take if is_free => (tags & !CALLED | HELD, Pushed::Lead),
                Push::Call if is_free && tags & CALLED == 0 => (tags | CALLED, Pushed::Called),
                Push::Call if is_free => (tags, Pushed::CalledToo),
                _ => (tags, Pushed::Queued),
            };
            let new = node.map_addr(|node| node | tags | closing);
            // Release: pairs with the Acquire in `LockGuard::pull`; the node is complete when it is found.
            // Acquire: pairs with the Release in `LockGuard::let_go` and in `Reading::drop`; if this takes the lock, what was done to
            // the data is seen.
            match self.exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return pushed,
                Err(now) => word = now,
            }
        }
    }

    /// Whether a future could take the lock now: not if there is a runner.
    fn is_free_to_tasks(&self) -> bool {
        // Relaxed: a compare-exchange validates it before it is relied on.
        self.signal.is_none() && self.word.0.load(Ordering::Relaxed).addr() & (HELD | READERS) == 0
    }

    /// Takes the lock if it is free, or makes the holder check again before it lets go.
    fn take_or_nudge(&self) -> bool {
        // Relaxed: the compare-exchange below validates it.
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            let is_free = word.addr() & (HELD | READERS) == 0;
            let new = word.map_addr(|word| if is_free { word & !CALLED | HELD } else { word | CALLED });
            // Acquire: as in `push`.
            // Release: pairs with the Acquire in `LockGuard::pull`; the holder sees a state that was changed before the nudge. That is
            // why the compare-exchange is made even if the bit is set.
            match self.exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return is_free,
                Err(now) => word = now,
            }
        }
    }

    /// Replaces the word `old`; if it fails, returns the word found instead.
    #[inline]
    fn exchange(&self, old: Address<T, A, B>, new: Address<T, A, B>, order: Ordering) -> Result<(), Address<T, A, B>> {
        // Relaxed: a failure is retried.
        self.word.0.compare_exchange_weak(old, new, order, Ordering::Relaxed).map(|_| ())
    }

    fn signal(&self) {
        if let Some(signal) = &self.signal {
            signal();
        }
    }

    /// Takes a free slot, or makes one.
    fn slot(&self) -> NonNull<Node<T, A, B>> {
        // Acquire: pairs with the Release in `give_back`; the slot's last use comes before ours.
        if let Some(slot) = NonNull::new(self.spare.0.swap(ptr::null_mut(), Ordering::Acquire)) {
            return slot;
        }
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.free.pop() {
            return slot;
        }
        // Initialized by `Node::of_task`; from here on the list owns it.
        let slot = NonNull::from(Box::leak(Box::new(Node::of_task())));
        slots.all.push(slot);
        // Capacity for all of them: giving back never allocates.
        let room = slots.all.capacity();
        let free = &mut slots.free;
        free.reserve(room - free.len());
        slot
    }

    /// Makes the slot free again.
    fn give_back(&self, slot: NonNull<Node<T, A, B>>) {
        // Release: pairs with the Acquire in `slot`. Relaxed: a failure tells nothing.
        let spare = self.spare.0.compare_exchange(ptr::null_mut(), slot.as_ptr(), Ordering::Release, Ordering::Relaxed);
        if spare.is_err() {
            lock(&self.slots).free.push(slot);
        }
    }
}

impl<T, A, B> Drop for Submit<T, A, B> {
    fn drop(&mut self) {
        for slot in lock(&self.slots).all.drain(..) {
            // SAFETY: made by `slot` from a box, and listed once. No other user is left: futures and holders borrow the list.
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}

/// Keeps a caller from returning or unwinding while other threads can reach the node on its stack.
struct Answered<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
    node: &'s Node<T, A, B>,
}

impl<T: Send, A: Send, B: Send> Drop for Answered<'_, T, A, B> {
    fn drop(&mut self) {
        while self.node.wait_and_pass_on(Spin::NONE) == LEAD {
            // `lead` has panicked once: no operation is run, and the node leaves the queue.
            drop(LockGuard::new(self.submit, Some(NonNull::from(self.node))));
        }
    }
}

/// The data, shared with other readers.
pub struct Reading<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
}

impl<T: Send, A: Send, B: Send> std::fmt::Debug for Reading<'_, T, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").finish_non_exhaustive()
    }
}

impl<T: Send + Sync, A: Send, B: Send> std::ops::Deref for Reading<'_, T, A, B> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: no thread takes the lock while readers are counted.
        self.submit.inside.0.with(|inside| unsafe { &(*inside).data })
    }
}

impl<T: Send, A: Send, B: Send> Drop for Reading<'_, T, A, B> {
    fn drop(&mut self) {
        let submit = self.submit;
        // Relaxed: the compare-exchange below validates it.
        let mut word = submit.word.0.load(Ordering::Relaxed);
        loop {
            let rest = word.map_addr(|word| word - READER);
            let is_wanted = rest.addr() & READERS == 0 && rest.addr() & !CLOSED != 0;
            let new = if is_wanted { rest.map_addr(|rest| rest & !CALLED | HELD) } else { rest };
            // Release: pairs with the Acquire in `Submit::try_lock`, `push`, `take_or_nudge` and in this compare-exchange of the
            // last reader; what was read was read before the next holder writes.
            // Acquire: as there.
            match submit.exchange(word, new, Ordering::AcqRel) {
                Ok(()) if is_wanted => return drop(LockGuard::new(submit, None)),
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }
}
