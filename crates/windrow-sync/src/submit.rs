//! Submit: many callers hand in operations; the caller that holds the lock runs all that are queued.
//!
//! # Glossary
//! * *holder*: the thread that has the lock, be it a caller that blocks, a task that is polled, or the runner.
//! * *node*: one caller's entry in the list. A *thread's* node lies on its stack, a *future's* in a slot.
//! * *queue*: the nodes that a holder has taken out of the word, oldest first. It belongs to the holder.
//! * *granted*: a thread was given the lock while it waited.
//! * *invited*: a future was told to come and take the lock if it is free. It is so until it is polled (`INVITED`).
//! * *fresh*: a node of the queue that no holder has met on letting go.
//! * *kept*: a future that is alive and is not polled although its waker was woken. `select!`, `timeout(&mut f)` and `buffered` keep
//!   futures so.
//!
//! # Protocol
//! One word holds the lock and the list of what was handed in, newest first:
//! `node | READER * readers | CLOSED | CALLED | HELD`, `node` being an address of which the low bits are free.
//!
//! 1. A caller pushes its node by one exchange. If that exchange finds the lock free it takes it too, or calls: no node is ever queued
//!    beside a free lock without a call. Otherwise the holder will see the node, since it can only let go by an exchange
//!    that finds the list empty.
//! 2. The holder *pulls* (takes the list out of the word and appends it, oldest first, to the queue) and
//!    *cuts*: the first operations of the queue, up to a limit, become a batch. Cutting is late: what arrives before it is in.
//! 3. The holder answers: replies first, then the node's state becomes `DONE`. From then on a node on a caller's stack may be gone, so
//!    its waiter is taken out before. If it is told to ([`Cut::set_heads`]), it wakes only a few of many threads that sleep; each finds in
//!    its node (`late`) the next to be woken. So a holder can be through with the next batch while those of this one wake up.
//! 4. The holder lets go. If the queue is not empty, the duty to run is handed on:
//!    * If a thread is queued, the oldest thread is *granted* the lock (state `LEAD`; the word stays `HELD`), also if futures are ahead of
//!      it. A thread can be relied on: it waits for nothing else.
//!    * Otherwise only futures are queued. None can be relied on, for any of them may be kept. So the holder invites every fresh one, and
//!      the oldest that has given an earlier invitation back. The word changes from `HELD` to `CALLED`, then their wakers are
//!      woken. The first to be polled takes the lock. An invited future that is dropped takes the lock too, and hands it on.
//!    * With a runner elsewhere (a thread, a spawner) the word becomes `CALLED`, and the runner is signalled.
//! 5. A future that finds the lock free may have to leave it so, for other tasks to come before ([`Launch::Deferred`]). Then it invites
//!    itself: it sets `CALLED` and wakes its own waker. It does that also if `CALLED` is set already. Race prevented: the future that
//!    set `CALLED` is kept, and each task that comes later waits for it beside a free lock.
//! 6. `CALLED` beside `HELD` asks the holder to look again before it lets go. An invited future that finds the lock held gives the
//!    invitation back, registers its waker, and then sets it. Race prevented: the holder invites, the future comes while the lock
//!    is still held and goes to sleep, the holder lets go, no task runs. Both exchange the word: either the future finds it free, or the holder's
//!    exchange fails and it looks at the future's new state.
//! 7. Readers count themselves in the word while nothing is queued and the lock is free. The last one out acts as a holder that lets go.
//!
//! Why a kept future stops no other caller: a thread that queues is granted the lock, or finds it free. A future that queues
//! beside a free lock invites itself, and one that queues beside a holder is invited when that holder lets go. So each caller is woken
//! at least once after it has queued, and finds the lock free, or held by a caller that runs. One case is left. A limit leaves
//! futures in the queue that were invited and found the lock held; on letting go, the holder invites the oldest of them only. If just that
//! one is kept from then on, those behind it wait for the next caller. (Inviting all of them each time would cost `n * n` polls.)
//!
//! What is invited is known without a walk: `fresh` is where the fresh part of the queue begins, and `asks` says that an
//! invitation may have been given back. A future gives one back only before it nudges (step 6) or when it takes the lock, and
//! holders see both.
//!
//! A future's node lives in a slot of a pool that the list owns, so a future that is forgotten leaves nothing dangling. Its states:
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
//! A dropped future makes one exchange: what it finds says who frees the slot. `QUEUED`: never run, freed by whoever reaches it in the
//! queue. `TAKEN` or `BUSY`: it runs, and who would have answered frees it. `DONE`: freed at once.
//!
//! A node has one address at a time in the list, and pushing needs nothing of the node it finds but its address: no ABA problem.
//!
//! Sources: write groups of LevelDB and RocksDB (nodes on callers' stacks, a leader that runs them), flat combining (Hendler, Incze,
//! Shavit, Tzafrir, SPAA 2010), implicit batching (Agrawal et al., SPAA 2014). Threads that wake threads: RocksDB's parallel groups, from 20
//! writers on.

use std::ptr::{self, NonNull};

use crate::primitives::{AtomicPtr, Mutex, Ordering, UnsafeCell, lock};
use crate::{Pad, Spin};

mod held;
mod home;
mod node;
mod task;

pub use held::{Cut, Held, Limit, Weigh};
pub use home::Home;
pub use node::{Entry, Fate};
pub use task::{Answer, Launch, Task};

use held::Inside;
use node::{DONE, LEAD, Node, Work};

/// The lock is held.
const HELD: usize = 1;
/// Without `HELD`: futures or the runner have been called to come and run. With it: the holder is to look again before it lets go.
const CALLED: usize = 2;
/// Nothing is taken in any more.
const CLOSED: usize = 4;
/// One reader; as many as fit below the address.
const READER: usize = 8;
const TAGS: usize = node::ALIGN - 1;
const READERS: usize = TAGS & !(READER - 1);

type Address<T, A, B> = *mut Node<T, A, B>;

/// Tells the runner, if it is none of the callers, that there is something to do.
pub type Signal = Box<dyn Fn() + Send + Sync>;

/// Data, its lock, and the list of what callers want done with it. See the [module page](self).
///
/// `A` is an operation, `B` the reply to it.
pub struct Submit<T, A, B> {
    word: Pad<AtomicPtr<Node<T, A, B>>>,
    inside: Pad<UnsafeCell<Inside<T, A, B>>>,
    /// One slot that is free: where few tasks are polled at a time it is the only one that moves.
    spare: Pad<AtomicPtr<Node<T, A, B>>>,
    slots: Mutex<Slots<T, A, B>>,
    signal: Option<Signal>,
}

/// Slots for futures' nodes.
struct Slots<T, A, B> {
    all: Vec<NonNull<Node<T, A, B>>>,
    free: Vec<NonNull<Node<T, A, B>>>,
}

// SAFETY: `inside` is used by the holder of the lock, or shared by readers (for which `T: Sync` is asked). Operations move to the
// holder and replies back. Slots are freed by the list's drop, when nobody else is left.
unsafe impl<T: Send, A: Send, B: Send> Sync for Submit<T, A, B> {}
// SAFETY: as above; pointers in it lead to slots it owns, since callers with nodes on their stacks borrow it.
unsafe impl<T: Send, A: Send, B: Send> Send for Submit<T, A, B> {}

impl<T, A, B> std::fmt::Debug for Submit<T, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Submit").finish_non_exhaustive()
    }
}

/// What was handed in after [`Submit::close`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// What a push does with a lock that it finds free.
#[derive(Clone, Copy, PartialEq)]
enum Push {
    /// Takes it.
    Take,
    /// Leaves it, and calls: this node's future is invited, or the runner signalled.
    Call,
}

enum Pushed {
    Queued,
    /// The lock is ours.
    Lead,
    /// It was free, and this is the first call.
    Called,
    /// It was free, and others have been called, which may not come.
    CalledToo,
    Closed,
}

impl<T: Send, A: Send, B: Send> Submit<T, A, B> {
    /// An open, empty list around `data`. With `signal`, the runner is not a caller: it is signalled when there is something to
    /// do, and comes with [`run`](Submit::run).
    pub fn new(data: T, signal: Option<Signal>) -> Self {
        Submit {
            word: Pad(AtomicPtr::new(ptr::null_mut())),
            inside: Pad(UnsafeCell::new(Inside::new(data))),
            spare: Pad(AtomicPtr::new(ptr::null_mut())),
            slots: Mutex::new(Slots { all: Vec::new(), free: Vec::new() }),
            signal,
        }
    }

    /// The lock, if it is free and nothing is queued: one exchange, and one more to let go.
    #[inline]
    pub fn try_lock(&self) -> Option<Held<'_, T, A, B>> {
        let word = &self.word.0;
        let held = ptr::without_provenance_mut(HELD);
        // Relaxed: looked at before it is exchanged, so that who waits for the lock does not take the line from who has it.
        if !word.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the Release in `Held::let_go`; what the last holder did to the data is seen. Relaxed: a failure is no news.
        word.compare_exchange(ptr::null_mut(), held, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Held::new(self, None))
    }

    /// The data, shared with other readers, if nobody holds the lock, nothing is queued and the word has room for one more reader (it
    /// counts 31). Also after [`close`](Submit::close).
    #[inline]
    pub fn try_read(&self) -> Option<Reading<'_, T, A, B>>
    where
        T: Sync,
    {
        // Relaxed: exchanged below.
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            let tags = word.addr();
            if tags & !(READERS | CLOSED) != 0 || tags & READERS == READERS {
                return None;
            }
            // Acquire: pairs with the Release in `Held::let_go`; what holders did to the data is seen.
            match self.exchange(word, word.map_addr(|word| word + READER), Ordering::Acquire) {
                Ok(()) => return Some(Reading { submit: self }),
                Err(now) => word = now,
            }
        }
    }

    /// Hands in `entries`, which hold operations, and blocks until they are answered. Whenever the lock falls to this caller `lead` is
    /// called with it; it should cut and answer at least until [`Held::is_mine_answered`]. `mark` is a number that it finds with them.
    ///
    /// Says how it went: the fate that the batch was given, if any. Entries without a reply were taken and not answered.
    ///
    /// # Errors
    /// After [`close`](Submit::close): nothing was taken.
    ///
    /// # Panics
    /// If an entry holds no operation; nothing was taken then. If `lead` does; the entries that were not run by then stay unanswered.
    pub fn call(
        &self,
        entries: &mut [Entry<A, B>],
        mark: u64,
        look: Spin,
        mut lead: impl FnMut(&mut Held<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        if entries.is_empty() {
            return Ok(Fate::default());
        }
        // Here, where it concerns the caller that hands them in: further on it would be another that runs them.
        assert!(
            entries.iter().all(|entry| matches!(entry, Entry::Op(_))),
            "an entry was handed in without an operation"
        );
        self.block_on(&Node::of_thread(Work::Entries(entries), mark), 0, look, &mut lead)
    }

    /// Runs `job` on the data as soon as what was handed in before is answered, on whichever thread holds the lock then.
    ///
    /// # Errors
    /// After [`close`](Submit::close): it was not run.
    ///
    /// # Panics
    /// If `lead` does. A panic of `job` unwinds through whoever runs it: catch it inside.
    pub fn job(
        &self,
        job: &mut (dyn FnMut(&mut T) + Send),
        look: Spin,
        mut lead: impl FnMut(&mut Held<'_, T, A, B>),
    ) -> Result<Fate, Closed> {
        self.block_on(&Node::of_thread(Work::job(job), 0), 0, look, &mut lead)
    }

    /// Takes nothing in from now on, and returns when all that was handed in before is answered.
    ///
    /// # Errors
    /// It was closed before; that other call may still be waiting.
    ///
    /// # Panics
    /// If `lead` does.
    pub fn close(&self, look: Spin, mut lead: impl FnMut(&mut Held<'_, T, A, B>)) -> Result<(), Closed> {
        let mut nothing = |_: &mut T| ();
        self.block_on(&Node::of_thread(Work::job(&mut nothing), 0), CLOSED, look, &mut lead).map(|_| ())
    }

    /// Takes nothing in from now on, as [`close`](Submit::close), but waits for nothing: for the holder, which would wait for itself.
    pub fn shut(&self) {
        // Relaxed: exchanged below.
        let mut word = self.word.0.load(Ordering::Relaxed);
        // Relaxed: the flag carries nothing.
        while let Err(now) = self.exchange(word, word.map_addr(|word| word | CLOSED), Ordering::Relaxed) {
            word = now;
        }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        // Relaxed: the flag carries nothing.
        self.word.0.load(Ordering::Relaxed).addr() & CLOSED != 0
    }

    /// Whether it was closed and all that was handed in is answered. There may be readers.
    pub fn is_over(&self) -> bool {
        // Relaxed: nothing is pushed after `CLOSED`, and who lets go to this value has answered all.
        self.word.0.load(Ordering::Relaxed).addr() & !READERS == CLOSED
    }

    /// For the runner: takes the lock and leads. False if somebody else has it; the runner will be signalled again then.
    pub fn run(&self, lead: impl FnOnce(&mut Held<'_, T, A, B>)) -> bool {
        if !self.take_or_nudge() {
            return false;
        }
        lead(&mut Held::new(self, None));
        true
    }

    /// The data, when nobody else can have it.
    pub fn data_mut(&mut self) -> &mut T {
        // SAFETY: exclusive by `&mut self`: nobody holds the lock, for a `Held` borrows the list.
        self.inside.0.with_mut(|inside| unsafe { &mut (*inside).data })
    }

    fn block_on(
        &self,
        node: &Node<T, A, B>,
        closing: usize,
        look: Spin,
        lead: &mut dyn FnMut(&mut Held<'_, T, A, B>),
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
                // Dropped, also while unwinding: the node is taken out of the queue if it is not answered.
                let mut held = Held::new(self, Some(NonNull::from(node)));
                lead(&mut held);
            }
            match node.wait_and_pass_on(look) {
                DONE => break,
                phase => leads = phase == LEAD,
            }
        }
        std::mem::forget(answered);
        // SAFETY: `DONE` was seen with Acquire: the node is its owner's again.
        Ok(node.body.with(|body| unsafe { (*body).fate }))
    }

    fn push(&self, node: Address<T, A, B>, how: Push, closing: usize) -> Pushed {
        // Relaxed: exchanged below.
        let mut word = self.word.0.load(Ordering::Relaxed);
        // SAFETY: the caller's own, not yet published.
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
            // Release: pairs with the Acquire in `Held::pull`; the node is complete when it is found. Acquire: pairs with the Release in
            // `Held::let_go` and in `Reading::drop`; if this takes the lock, what was done to the data is seen.
            match self.exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return pushed,
                Err(now) => word = now,
            }
        }
    }

    /// Whether the lock could be taken now, by a future: not if there is a runner.
    fn is_free_to_tasks(&self) -> bool {
        // Relaxed: it is exchanged before it is relied on.
        self.signal.is_none() && self.word.0.load(Ordering::Relaxed).addr() & (HELD | READERS) == 0
    }

    /// Takes the lock if it is free, or makes sure that the holder looks again before it lets go.
    fn take_or_nudge(&self) -> bool {
        // Relaxed: exchanged below.
        let mut word = self.word.0.load(Ordering::Relaxed);
        loop {
            let is_free = word.addr() & (HELD | READERS) == 0;
            let new = word.map_addr(|word| if is_free { word & !CALLED | HELD } else { word | CALLED });
            // Acquire: as in `push`. Release: pairs with the Acquire in `Held::pull`; the holder sees a state that was changed before the
            // nudge. That is why an exchange is made even if the bit is set.
            match self.exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return is_free,
                Err(now) => word = now,
            }
        }
    }

    /// Replaces the word `old`; the word that is there instead if it fails.
    #[inline]
    fn exchange(&self, old: Address<T, A, B>, new: Address<T, A, B>, order: Ordering) -> Result<(), Address<T, A, B>> {
        // Relaxed: a failure is tried again.
        self.word.0.compare_exchange_weak(old, new, order, Ordering::Relaxed).map(|_| ())
    }

    fn signal(&self) {
        if let Some(signal) = &self.signal {
            signal();
        }
    }

    /// A free slot, made if there is none.
    fn slot(&self) -> NonNull<Node<T, A, B>> {
        // Acquire: pairs with the Release in `give_back`; the slot's last use comes before ours.
        if let Some(slot) = NonNull::new(self.spare.0.swap(ptr::null_mut(), Ordering::Acquire)) {
            return slot;
        }
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.free.pop() {
            return slot;
        }
        // Written by `Node::of_task`; from here on the list owns it.
        let slot = NonNull::from(Box::leak(Box::new(Node::of_task())));
        slots.all.push(slot);
        // There is room for all of them: giving back never allocates.
        let room = slots.all.capacity();
        let free = &mut slots.free;
        free.reserve(room - free.len());
        slot
    }

    /// The slot is free.
    fn give_back(&self, slot: NonNull<Node<T, A, B>>) {
        // Release: pairs with the Acquire in `slot`. Relaxed: a failure is no news.
        let spare = self.spare.0.compare_exchange(ptr::null_mut(), slot.as_ptr(), Ordering::Release, Ordering::Relaxed);
        if spare.is_err() {
            lock(&self.slots).free.push(slot);
        }
    }
}

impl<T, A, B> Drop for Submit<T, A, B> {
    fn drop(&mut self) {
        for slot in lock(&self.slots).all.drain(..) {
            // SAFETY: made by `slot` from a box, and listed once. Nobody is left who could use it: futures and holders borrow the list.
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        }
    }
}

/// A caller's node is on its stack: while it may be reached from elsewhere the caller neither returns nor unwinds.
struct Answered<'s, T: Send, A: Send, B: Send> {
    submit: &'s Submit<T, A, B>,
    node: &'s Node<T, A, B>,
}

impl<T: Send, A: Send, B: Send> Drop for Answered<'_, T, A, B> {
    fn drop(&mut self) {
        while self.node.wait_and_pass_on(Spin::NONE) == LEAD {
            // `lead` has panicked once: no operation is run, and the node leaves the queue.
            drop(Held::new(self.submit, Some(NonNull::from(self.node))));
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
        // SAFETY: nobody takes the lock while readers are counted.
        self.submit.inside.0.with(|inside| unsafe { &(*inside).data })
    }
}

impl<T: Send, A: Send, B: Send> Drop for Reading<'_, T, A, B> {
    fn drop(&mut self) {
        let submit = self.submit;
        // Relaxed: exchanged below.
        let mut word = submit.word.0.load(Ordering::Relaxed);
        loop {
            let rest = word.map_addr(|word| word - READER);
            let is_wanted = rest.addr() & READERS == 0 && rest.addr() & !CLOSED != 0;
            let new = if is_wanted { rest.map_addr(|rest| rest & !CALLED | HELD) } else { rest };
            // Release: pairs with the Acquire in `Submit::try_lock`, `push`, `take_or_nudge` and in this exchange of the last reader; what
            // was read was read before the next holder writes. Acquire: as there.
            match submit.exchange(word, new, Ordering::AcqRel) {
                Ok(()) if is_wanted => return drop(Held::new(submit, None)),
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }
}
