//! Nodes: what is linked into the list, on a caller's stack or in a slot.
//!
//! | part | which thread may use it |
//! |---|---|
//! | `link`, `body` | the owner before the push and after `DONE`; between them the holder of the lock |
//! | `waiter` | while `QUEUED`: the owner until it sets `WATCHED`, then the holder once it has taken `WATCHED` away |
//! | `late`, of a future | as `waiter`, but while `TAKEN`: a poll may bring another waker after the holder has taken the first |
//! | `late`, of a thread | the holder until `DONE`, then the owner |

use std::task::Waker;

use super::{Address, Spin};
use crate::primitives::{AtomicU32, Ordering, Thread, UnsafeCell, current, park};

/// Alignment of a node: frees low bits of its address for the tags of the word. A node is made where a caller waits, so its size
/// costs nothing.
pub(super) const ALIGN: usize = 256;

/// Queued, or about to be.
pub(super) const QUEUED: u32 = 0;
/// A future's: in a batch.
pub(super) const TAKEN: u32 = 1;
/// Answered.
pub(super) const DONE: u32 = 2;
/// A thread's: it is granted the lock.
pub(super) const LEAD: u32 = 3;
/// A future's: dropped.
pub(super) const GONE: u32 = 4;
/// A future's: the holder is using its waker.
pub(super) const BUSY: u32 = 5;
const PHASE: u32 = 7;
/// There is a waiter.
pub(super) const WATCHED: u32 = 8;
/// Invited to come and run.
pub(super) const INVITED: u32 = 16;

pub(super) fn phase(state: u32) -> u32 {
    state & PHASE
}

/// An operation's place in a batch: holds the operation, then the reply.
#[derive(Debug, Default)]
pub enum Entry<A, B> {
    /// Neither: the operation has been taken and not answered yet.
    #[default]
    Empty,
    /// The operation.
    Op(A),
    /// The reply.
    Reply(B),
}

impl<A, B> Entry<A, B> {
    /// The operation.
    ///
    /// # Panics
    /// If it was taken or answered.
    #[inline]
    pub fn op(&self) -> &A {
        match self {
            Entry::Op(op) => op,
            _ => gone(),
        }
    }

    /// Takes the operation out.
    ///
    /// # Panics
    /// If it was taken or answered.
    #[inline]
    pub fn take(&mut self) -> A {
        match std::mem::take(self) {
            Entry::Op(op) => op,
            other => {
                *self = other;
                gone()
            }
        }
    }

    /// Answers. An operation that was not taken is dropped.
    #[inline]
    pub fn reply(&mut self, reply: B) {
        *self = Entry::Reply(reply);
    }

    /// Takes the operation out and answers with what `f` makes of it.
    ///
    /// # Panics
    /// As [`take`](Entry::take).
    #[inline]
    pub fn answer(&mut self, f: impl FnOnce(A) -> B) {
        let op = self.take();
        self.reply(f(op));
    }

    /// Whether there is a reply.
    pub fn is_answered(&self) -> bool {
        matches!(self, Entry::Reply(_))
    }

    /// The reply, if there is one.
    pub fn into_reply(self) -> Option<B> {
        match self {
            Entry::Reply(reply) => Some(reply),
            _ => None,
        }
    }
}

#[cold]
fn gone() -> ! {
    panic!("this operation was taken before")
}

/// How a batch ended, as its runner tells all callers that had an operation in it: a number that they interpret. 0 if none was
/// set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate(pub u32);

/// The thread or task to wake.
pub(super) enum WakeTarget {
    Thread(Thread),
    Task(Waker),
}

impl WakeTarget {
    pub(super) fn wake(self) {
        match self {
            WakeTarget::Thread(thread) => thread.unpark(),
            WakeTarget::Task(waker) => waker.wake(),
        }
    }
}

type ExclusiveJob<T> = dyn FnMut(&mut T) + Send;

/// The node's own entry.
pub(super) enum NodeWork<T, A, B> {
    /// Entries of a caller that waits.
    Own,
    /// Other work on the data, of a caller that waits.
    Entries(*mut [Entry<A, B>]),
    /// Something else to do with the data, of a caller that waits.
    Job(*mut ExclusiveJob<T>),
}

impl<T, A, B> NodeWork<T, A, B> {
    pub(super) fn job<'j>(job: &'j mut (dyn FnMut(&mut T) + Send + 'j)) -> Self {
        let job: *mut (dyn FnMut(&mut T) + Send + 'j) = job;
        // SAFETY: only the lifetime changes. It is called while its caller waits for this node, within `'j`.
        NodeWork::Job(unsafe { std::mem::transmute::<*mut (dyn FnMut(&mut T) + Send + 'j), *mut ExclusiveJob<T>>(job) })
    }
}

pub(super) struct Body<T, A, B> {
    pub(super) work: NodeWork<T, A, B>,
    pub(super) own: Entry<A, B>,
    /// How many of the entries have been cut.
    pub(super) cut: usize,
    pub(super) fate: Fate,
    pub(super) mark: u64,
}

/// See the [module page](self).
#[repr(align(256))]
pub(super) struct Node<T, A, B> {
    pub(super) state: AtomicU32,
    pub(super) is_task: bool,
    pub(super) link: UnsafeCell<Address<T, A, B>>,
    pub(super) waiter: UnsafeCell<Option<WakeTarget>>,
    pub(super) late: UnsafeCell<Option<WakeTarget>>,
    pub(super) body: UnsafeCell<Body<T, A, B>>,
}

impl<T, A, B> Node<T, A, B> {
    fn new(work: NodeWork<T, A, B>, mark: u64, is_task: bool) -> Self {
        const { assert!(align_of::<Self>() == ALIGN) };
        Node {
            state: AtomicU32::new(QUEUED),
            is_task,
            link: UnsafeCell::new(std::ptr::null_mut()),
            waiter: UnsafeCell::new(None),
            late: UnsafeCell::new(None),
            body: UnsafeCell::new(Body { work, own: Entry::Empty, cut: 0, fate: Fate(0), mark }),
        }
    }

    pub(super) fn of_thread(work: NodeWork<T, A, B>, mark: u64) -> Self {
        Self::new(work, mark, false)
    }

    pub(super) fn of_task() -> Self {
        Self::new(NodeWork::Own, 0, true)
    }

    /// A thread's: spins, then parks, until the node is `DONE` or `LEAD`; returns which. If it is `DONE`, wakes the next of its
    /// chain.
    pub(super) fn wait_and_pass_on(&self, look: Spin) -> u32 {
        let phase = self.wait(look);
        if phase == DONE {
            // SAFETY: `DONE` was seen with Acquire: the node belongs to its owner again.
            if let Some(next) = self.late.with_mut(|late| unsafe { (*late).take() }) {
                next.wake();
            }
        }
        phase
    }

    /// Spins, then parks.
    fn wait(&self, look: Spin) -> u32 {
        // Acquire: pairs with the Release in `Held::turn_thread`; the replies are there, or this thread may use the data.
        let news = || phase(self.state.load(Ordering::Acquire));
        if look.until(|| news() != QUEUED) {
            return news();
        }
        // SAFETY: without `WATCHED` the cell belongs to the owner.
        self.waiter.with_mut(|waiter| unsafe { *waiter = Some(WakeTarget::Thread(current())) });
        // Release: pairs with the Acquire in `Held::turn_thread`; the waiter is there. Relaxed: `news` loads the state again.
        let _ = self.state.compare_exchange(QUEUED, QUEUED | WATCHED, Ordering::Release, Ordering::Relaxed);
        while news() == QUEUED {
            park();
        }
        news()
    }
}
