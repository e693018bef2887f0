//! Nodes: what is linked into the list, on a caller's stack or in a slot.

use std::ptr::NonNull;
use std::task::Waker;

use super::{Address, Spin};
use crate::base::primitives::{AtomicU32, Ordering, Thread, UnsafeCell, current, park};
use crate::base::word::wait_watched;

/// Alignment of a node: frees low bits of its address for the tags of the word. A node lies on the stack of a waiting caller or in a
/// pool, so its size costs nothing.
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
///
/// ```
/// use windrow_sync::submit::Entry;
///
/// let mut entry = Entry::Op("four");
/// entry.answer(str::len);
/// assert!(entry.is_answered());
/// assert_eq!(entry.into_reply(), Some(4));
/// ```
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
            _ => panic!("{GONE_OP}"),
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
                panic!("{GONE_OP}")
            }
        }
    }

    /// Answers. The caller gets the reply once the batch has run; if the batch panics, the reply is dropped. An operation that was not taken is
    /// dropped, too.
    #[inline]
    pub fn reply(&mut self, reply: B) {
        *self = Entry::Reply(reply);
    }

    /// Takes the operation out and answers with what `f` makes of it.
    ///
    /// # Panics
    /// Those of [`take`](Entry::take).
    #[inline]
    pub fn answer(&mut self, f: impl FnOnce(A) -> B) {
        let op = self.take();
        self.reply(f(op));
    }

    /// True if there is a reply.
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

const GONE_OP: &str = "this operation was already taken";

/// The end of a batch: a number that its runner gives to all callers with an operation in it, and that they interpret. 0 if none was
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
/// Work on the data that a future hands in.
pub type TaskJob<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The work that a node hands in.
pub(super) enum NodeWork<T, A, B> {
    /// The node's own entry: a future's.
    Own,
    /// Entries of a caller that waits.
    Entries(*mut [Entry<A, B>]),
    /// Other work on the data, of a caller that waits.
    Job(*mut ExclusiveJob<T>),
    /// Such work of a future, until it is called.
    OwnJob(Option<TaskJob<T>>),
}

impl<T, A, B> NodeWork<T, A, B> {
    pub(super) fn job<'j>(job: &'j mut (dyn FnMut(&mut T) + Send + 'j)) -> Self {
        let job: *mut (dyn FnMut(&mut T) + Send + 'j) = job;
        // SAFETY: only the lifetime changes. The job is called while its caller waits for this node, within `'j`.
        NodeWork::Job(unsafe { std::mem::transmute::<*mut (dyn FnMut(&mut T) + Send + 'j), *mut ExclusiveJob<T>>(job) })
    }
}

pub(super) struct Body<T, A, B> {
    pub(super) work: NodeWork<T, A, B>,
    pub(super) own: Entry<A, B>,
    /// The number of entries that have been cut.
    pub(super) cut: usize,
    pub(super) fate: Fate,
    pub(super) mark: u64,
}

/// Each part has one user at a time: see the [module page](super).
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
    /// A node of a future if it has its `Own` entry, else of a thread.
    pub(super) fn new(work: NodeWork<T, A, B>, mark: u64) -> Self {
        const { assert!(align_of::<Self>() == ALIGN) };
        Node {
            state: AtomicU32::new(QUEUED),
            is_task: matches!(work, NodeWork::Own),
            link: UnsafeCell::new(std::ptr::null_mut()),
            waiter: UnsafeCell::new(None),
            late: UnsafeCell::new(None),
            body: UnsafeCell::new(Body { work, own: Entry::Empty, cut: 0, fate: Fate(0), mark }),
        }
    }

    /// For a thread's node: spins, then parks, until the node is `DONE` or `LEAD`; returns which. If it is `DONE`, wakes the next
    /// thread of the chain.
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
        // Acquire: pairs with the Release in `LockGuard::turn_thread`; the replies are visible, or this thread may use the data.
        let news = || phase(self.state.load(Ordering::Acquire));
        if look.until(|| news() != QUEUED) {
            return news();
        }
        // SAFETY: without `WATCHED` the cell belongs to the owner.
        self.waiter.with_mut(|waiter| unsafe { *waiter = Some(WakeTarget::Thread(current())) });
        // Release: pairs with the Acquire in `LockGuard::turn_thread`; the waiter is visible. Relaxed: `news` loads the state again.
        let _ = self.state.compare_exchange(QUEUED, QUEUED | WATCHED, Ordering::Release, Ordering::Relaxed);
        // After a report the state is loaded again: the wake that ended the timed park is gone, and no second one comes.
        while news() == QUEUED {
            wait_watched(|at_most| match at_most {
                Some(time) => std::thread::park_timeout(time),
                None if news() == QUEUED => park(),
                None => {}
            });
        }
        news()
    }
}

/// A node of the queue or of a batch, as the holder uses it, or a future's slot. The node is alive: its thread waits for the answer, and
/// slots live as long as the list. The holder keeps no thread's node beyond `DONE` or `LEAD`. All methods rely on the tables of the
/// [module page](super), which say which thread may use which part.
pub(super) struct QueuedNode<T, A, B>(NonNull<Node<T, A, B>>);

impl<T, A, B> Clone for QueuedNode<T, A, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, A, B> Copy for QueuedNode<T, A, B> {}

impl<T, A, B> PartialEq for QueuedNode<T, A, B> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T, A, B> QueuedNode<T, A, B> {
    pub(super) fn new(node: NonNull<Node<T, A, B>>) -> Self {
        QueuedNode(node)
    }

    /// The node at an address of the list, if there is one.
    pub(super) fn at(address: Address<T, A, B>) -> Option<Self> {
        NonNull::new(address).map(QueuedNode)
    }

    pub(super) fn slot(self) -> NonNull<Node<T, A, B>> {
        self.0
    }

    pub(super) fn node(&self) -> &Node<T, A, B> {
        // SAFETY: alive.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn is_task(self) -> bool {
        self.node().is_task
    }

    /// The node that is linked after this one.
    pub(super) fn next(self) -> Option<Self> {
        // SAFETY: the link is the holder's.
        self.node().link.with(|link| Self::at(unsafe { *link }))
    }

    pub(super) fn set_next(self, next: Option<Self>) {
        let next = next.map_or(std::ptr::null_mut(), |next| next.0.as_ptr());
        // SAFETY: the link is the holder's.
        self.node().link.with_mut(|link| unsafe { *link = next });
    }

    /// The first of the entries that have not been cut, and their number. `None` for a job.
    pub(super) fn entries(self) -> Option<(*mut Entry<A, B>, usize)> {
        self.node().body.with_mut(|body| {
            // SAFETY: the body is the holder's.
            let body = unsafe { &mut *body };
            match body.work {
                NodeWork::Own => Some((&raw mut body.own, 1)),
                NodeWork::Entries(all) => {
                    Some((all.cast::<Entry<A, B>>().wrapping_add(body.cut), all.len() - body.cut))
                }
                NodeWork::Job(_) | NodeWork::OwnJob(_) => None,
            }
        })
    }

    /// Counts entries as cut. (Without a reference to the body, because pointers to its entries stay in use.)
    pub(super) fn add_cut(self, entries: usize) {
        // SAFETY: the body is the holder's.
        self.node().body.with_mut(|body| unsafe { (*body).cut += entries });
    }

    /// Writes the replies, and the fate if it is not the default. (Both in one access to the cell, which loom checks.)
    pub(super) fn answer_with(self, fate: Fate, replies: impl FnOnce()) {
        self.node().body.with_mut(|body| {
            replies();
            if fate != Fate::default() {
                // SAFETY: the body is the holder's.
                unsafe { (*body).fate = fate };
            }
        });
    }

    pub(super) fn mark(self) -> u64 {
        // SAFETY: the body is the holder's.
        self.node().body.with(|body| unsafe { (*body).mark })
    }

    /// Runs the job of a node without entries.
    pub(super) fn run_job(self, data: &mut T) {
        // SAFETY: the body is the holder's.
        let job = self.node().body.with_mut(|body| match unsafe { &mut (*body).work } {
            NodeWork::Job(job) => Ok(*job),
            NodeWork::OwnJob(job) => Err(job.take()),
            _ => unreachable!("only jobs have no entries"),
        });
        match job {
            // SAFETY: its caller waits for the answer, and no other thread has it.
            Ok(job) => unsafe { (*job)(data) },
            Err(job) => job.into_iter().for_each(|job| job(data)),
        }
    }

    /// Takes a slot's entry and job out. Called for a slot that is the caller's alone, or that is `DONE`.
    pub(super) fn take_own(self) -> (Entry<A, B>, NodeWork<T, A, B>) {
        self.node().body.with_mut(|body| {
            // SAFETY: the slot is the caller's, and so is the body.
            let body = unsafe { &mut *body };
            (std::mem::take(&mut body.own), std::mem::replace(&mut body.work, NodeWork::Own))
        })
    }

    /// Takes the waiter. Called with `WATCHED` seen in the state of a thread, or taken away from that of a future.
    pub(super) fn take_waiter(self) -> Option<WakeTarget> {
        // SAFETY: in both cases the cell is the holder's.
        self.node().waiter.with_mut(|waiter| unsafe { &mut *waiter }.take())
    }

    /// Replaces what is in `late`. Called before a thread is answered, or with `WATCHED` taken away from the state of a future.
    pub(super) fn replace_late(self, late: Option<WakeTarget>) -> Option<WakeTarget> {
        // SAFETY: in both cases the cell is the holder's.
        self.node().late.with_mut(|cell| std::mem::replace(unsafe { &mut *cell }, late))
    }
}
