//! Join: two closures, the second of which another member may run.
//!
//! Recursions (trees, quicksort) join at every level, mostly with nobody free to help. So a join that is not shared takes no
//! atomic operation, no clock and no allocation: it links a *frame* that lies on its own stack into a list, runs the first
//! half, unlinks the frame and runs the second half. Now and then the member offers its *oldest* frame, which stands for the
//! most work, to members who have none. (Heartbeat scheduling: Acar, Charguéraud and Rainey, PLDI 2018.)
//!
//! # Words
//! A [`Tree`] is a recursion and the members who work on it. A member has a *seat*: its list of frames, its *slot*
//! in which it offers one frame at a time, and its *bell* on which it sleeps while it waits for a frame that another one took.
//!
//! # States
//! Of a frame: *unshared* (only its owner knows it), *offered* (it is in its owner's slot), *taken* (by the one who exchanged the
//! slot for null), *done* (its result is there) or *returned* (taken by mistake, not begun, the owner's again).
//! Of the list, oldest frame first: shared frames up to `split`, then unshared ones up to `top`.
//!
//! # Protocol
//! 1. *Push.* The frame becomes `top`. *Pop*: `top` goes back. If the frame was `split`, it was shared: see 4.
//! 2. *Offer.* When its slot is empty, the owner makes the frame after `split` the new `split` and stores it in the slot.
//! 3. *Take.* Another member exchanges the slot for null. Now the frame is its own: it runs the second half, stores the result (or the
//!    panic) and exchanges the state for done, its last access to the frame. If it finds that the owner waits, it adds to the
//!    owner's bell and wakes it. If the taker's own list is *clean*, without unshared frames and with nothing in the slot, it
//!    first marks the frame with its number.
//! 4. *Take back.* The owner exchanges its slot for null, too. If the frame comes out, it runs it itself. Otherwise the frame
//!    was taken, and the owner waits until it is done or returned: it looks for a bounded time, then marks the frame as
//!    waited for, reads its bell, looks at the state once more and sleeps while the bell is what it was.
//! 5. *Help.* Who waits for a frame that member `m` has marked may take what `m` offers, if the frame waited for is not done *after*
//!    the taking; otherwise it returns what it took. (Leapfrogging: Wagner and Calder, PPoPP 1993.)
//!
//! How members without work look for it, sleep and wake, and how a tree ends, is in [`tree`].
//!
//! # Why it holds
//! * *One runner.* Only the owner stores into a slot, and only when it is empty. Whoever wants what is in it exchanges it for null:
//!   one of them gets it.
//! * *A frame is alive while it is used.* Others get at it through the slot only. The owner leaves the frame's stack by 1 if it
//!   was never in the slot, by 4 otherwise, also if the first half has panicked: its panic is caught, and goes on when the
//!   second half has run. Then either it took the frame out itself, or it has seen
//!   done or returned, the taker's last access. The bell lies in the tree, which outlives every member in it.
//! * *The list is a stack.* Joins nest as calls do. Shared frames are the oldest ones: offers go from old to new, and pops
//!   from new to old.
//! * *Nobody helps strangers.* Whoever marks a frame has nothing older to offer: whatever it offers until the frame is done is part of
//!   the frame. Hence 5: if the frame waited for is not done after the taking, what was taken is part of it. (Were it
//!   done before the taking, the offer that was taken would come after it, and whoever takes an offer sees what came
//!   before.) A lock that is held over a join is therefore asked for by work of that join only, as it would be
//!   serially: rayon's issues 592, 957 and 1251 cannot occur. (An earlier version marked every frame it took. But a host of
//!   [guests] that helps one of them may have older frames to share, and the owner of what it took then ran those.)
//! * *No lost wake.* Waiter and taker both exchange the state: either the taker finds that the owner waits, or the owner finds
//!   the state done. In the first case the bell changes after the state; whoever reads the bell changed sees the state done,
//!   and whoever read it unchanged does not fall asleep.

pub mod guests;
pub mod tree;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::join::tree::{Seat, Taken, Tree};
use crate::primitives::{AtomicU32, Ordering, UnsafeCell, thread_cell};

thread_cell! {
    /// The seat of this thread in the innermost tree it works on, or null.
    HERE: *const Seat = std::ptr::null()
}

/// The seat of this thread.
#[inline]
pub(crate) fn here() -> *const Seat {
    HERE.with(Cell::get)
}

/// Runs `f` as the holder of `seat` (null: of none), then puts back what was.
#[inline]
pub(crate) fn seated<R>(seat: *const Seat, f: impl FnOnce() -> R) -> R {
    struct PutBack(*const Seat);
    impl Drop for PutBack {
        fn drop(&mut self) {
            HERE.with(|here| here.set(self.0));
        }
    }
    let _put_back = PutBack(HERE.with(|here| here.replace(seat)));
    f()
}

/// Runs `f` outside of any tree: a [`join`] in it is an outermost one.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    seated(std::ptr::null(), f)
}

/// Whether this thread works on a tree.
pub fn is_inside() -> bool {
    !here().is_null()
}

type Payload = Box<dyn std::any::Any + Send>;

/// Nobody has marked the frame yet.
const FRESH: u32 = 0;
/// The upper half holds the number of the member that runs it.
const TAKEN: u32 = 1;
const WAITED: u32 = 2;
const DONE: u32 = 4;
const RETURNED: u32 = 8;

/// What others know of the second half of a join.
#[repr(C)]
pub(crate) struct Frame {
    /// The next younger frame, as long as there is one. Not written before that, to save every join a store.
    above: Cell<MaybeUninit<*const Frame>>,
    run: unsafe fn(*const Frame),
    /// Written when it is offered, for the same reason.
    state: UnsafeCell<MaybeUninit<AtomicU32>>,
}

impl Frame {
    /// What lies below the oldest frame.
    pub(crate) fn bottom() -> Self {
        /// # Safety
        /// None: it does not use its argument.
        unsafe fn nothing(_: *const Frame) {}
        Self::new(nothing)
    }

    #[inline]
    fn new(run: unsafe fn(*const Frame)) -> Self {
        Self { above: Cell::new(MaybeUninit::uninit()), run, state: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Links `frame` as the next younger one. By the owner.
    #[inline]
    pub(crate) fn link(&self, frame: *const Frame) {
        self.above.set(MaybeUninit::new(frame));
    }

    /// The next younger frame.
    ///
    /// # Safety
    /// There is one. By the owner.
    pub(crate) unsafe fn above(&self) -> *const Frame {
        // SAFETY: `link` was called.
        unsafe { self.above.get().assume_init() }
    }

    /// Makes the frame ready to be offered. By the owner, once.
    ///
    /// # Safety
    /// Nobody else knows the frame.
    pub(crate) unsafe fn prepare(&self) {
        self.state.with_mut(|state| {
            // SAFETY: the only access.
            unsafe { (*state).write(AtomicU32::new(FRESH)) };
        });
    }

    /// Ends what `prepare` began. By the owner.
    ///
    /// # Safety
    /// Nobody else knows the frame any more.
    pub(crate) unsafe fn retire(&self) {
        self.state.with_mut(|state| {
            // SAFETY: prepared, and the last access.
            unsafe { state.cast::<AtomicU32>().drop_in_place() };
        });
    }

    /// Of a frame that was offered.
    fn state(&self) -> &AtomicU32 {
        // SAFETY: `prepare` came before the offer, and nobody asks for the state before that.
        self.state.with(|state| unsafe { &*state.cast::<AtomicU32>() })
    }

    /// How a taken frame ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        // Acquire: pairs with the Release in `Offered::run` and in `Offered::drop`; the result is there.
        match self.state().load(Ordering::Acquire) {
            state if state & DONE != 0 => Some(End::Done),
            state if state & RETURNED != 0 => Some(End::Returned),
            _ => None,
        }
    }

    /// The member that runs it, as soon as that is known.
    pub(crate) fn runner(&self) -> Option<usize> {
        // Relaxed: a number, complete in itself.
        let state = self.state().load(Ordering::Relaxed);
        (state & TAKEN != 0).then_some((state >> 16) as usize)
    }

    /// From now on the end rings the owner's bell (unless it has come already).
    pub(crate) fn expect_ring(&self) {
        // Relaxed: the exchange itself decides; `end` does the ordering.
        self.state().fetch_or(WAITED, Ordering::Relaxed);
    }
}

/// How a taken frame ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its result is there.
    Done,
    /// Nobody has run it, nobody will but the owner.
    Returned,
}

/// A frame that this thread has taken out of another member's slot. Gives it back when dropped.
pub(crate) struct Offered<'t> {
    frame: *const Frame,
    tree: &'t Tree,
    owner: usize,
}

impl<'t> Offered<'t> {
    /// # Safety
    /// `frame` was exchanged out of the slot of `owner`, another member of `tree`, by this thread.
    pub(crate) unsafe fn new(frame: *const Frame, tree: &'t Tree, owner: usize) -> Self {
        Offered { frame, tree, owner }
    }

    fn frame(&self) -> &Frame {
        // SAFETY: taken; its owner does not leave it before `end` has ended it, which happens once, at the end of `run` or of `drop`.
        unsafe { &*self.frame }
    }

    /// Lets the owner know that it may help this thread, member `runner`. Only if whatever that member offers from now on is part of
    /// the frame.
    pub(crate) fn mark(&self, runner: usize) {
        let mark = TAKEN | (runner as u32) << 16;
        // Relaxed: tells the owner whom to help, nothing more.
        if self.frame().state().fetch_or(mark, Ordering::Relaxed) & WAITED != 0 {
            // It sleeps without knowing whom it could help.
            self.tree.ring(self.owner);
        }
    }

    /// Runs it.
    pub(crate) fn run(self) {
        let run = self.frame().run;
        // SAFETY: it belongs to this frame and is called once: one member takes a frame.
        unsafe { run(self.frame) };
        // Release: pairs with the Acquire in `Frame::end`; the result is there.
        let before = self.frame().state().swap(DONE, Ordering::Release);
        self.ring_if_waited(before);
        std::mem::forget(self);
    }

    /// After the last access to the frame, whose state was `before`.
    fn ring_if_waited(&self, before: u32) {
        if before & WAITED != 0 {
            self.tree.ring(self.owner);
        }
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Frame::end`; our use of the frame comes before what the owner makes of its memory.
        let before = self.frame().state().swap(RETURNED, Ordering::Release);
        self.ring_if_waited(before);
    }
}

/// A frame with what it runs.
#[repr(C)]
struct Job<B, RB> {
    frame: Frame,
    half: UnsafeCell<MaybeUninit<B>>,
    result: UnsafeCell<MaybeUninit<std::thread::Result<RB>>>,
}

impl<B: FnOnce() -> RB, RB> Job<B, RB> {
    #[inline]
    fn new(half: B) -> Self {
        Job {
            frame: Frame::new(Self::run),
            half: UnsafeCell::new(MaybeUninit::new(half)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Runs the half and stores its result.
    ///
    /// # Safety
    /// `frame` is the first field of a `Job<B, RB>` that was taken by this thread, and this is the only call.
    unsafe fn run(frame: *const Frame) {
        // SAFETY: `repr(C)`, so a job begins with its frame; it is alive while it is taken.
        let job = unsafe { &*frame.cast::<Self>() };
        // SAFETY: taken once, by this thread.
        let half = unsafe { job.take_half() };
        let result = catch_unwind(AssertUnwindSafe(half));
        job.result.with_mut(|cell| {
            // SAFETY: the owner reads it after the frame is done.
            unsafe { (*cell).write(result) };
        });
    }

    /// # Safety
    /// Once, by whoever the half belongs to: the taker, or the owner if nobody took it.
    #[inline]
    unsafe fn take_half(&self) -> B {
        self.half.with(|cell| {
            // SAFETY: written in `new`, and read only here, once.
            unsafe { cell.cast::<B>().read() }
        })
    }

    /// # Safety
    /// Once, by the owner, after the frame is done.
    unsafe fn take_result(&self) -> std::thread::Result<RB> {
        self.result.with(|cell| {
            // SAFETY: `run` wrote it before the frame was done, and it is read only here, once.
            unsafe { cell.cast::<std::thread::Result<RB>>().read() }
        })
    }

    /// The second half's result when the frame was shared: from whoever took it, or by running it here.
    #[cold]
    fn finish(&self, seat: &Seat, below: *const Frame) -> RB {
        match seat.retrieve(&self.frame, below) {
            Taken::Back => {
                // SAFETY: nobody else took it.
                let half = unsafe { self.take_half() };
                half()
            }
            // SAFETY: it is done.
            Taken::Done => unsafe { self.take_result() }.unwrap_or_else(|payload| resume_unwind(payload)),
        }
    }

    /// The first half has panicked: runs the second all the same, here or where it was taken, and then goes on with that panic.
    #[cold]
    #[inline(never)]
    fn finish_after_panic(&self, seat: &Seat, below: *const Frame, payload: Payload) -> ! {
        let second = || if seat.is_split(&self.frame) { self.finish(seat, below) } else { self.run_own(seat) };
        // The first half's panic is the one that goes on: results, payloads and whatever their drops throw are discarded.
        match catch_unwind(AssertUnwindSafe(second)) {
            Ok(result) => discard(result),
            Err(payload) => discard(payload),
        }
        resume_unwind(payload)
    }

    /// The second half's result when the frame was not shared. By the owner, once, after the pop.
    #[inline]
    fn run_own(&self, seat: &Seat) -> RB {
        // SAFETY: it was never offered.
        let half = unsafe { self.take_half() };
        seat.burn();
        half()
    }
}

/// Drops what nobody will see. Its drop may panic, even with a payload whose own drop panics; that must not go on while another
/// panic does.
fn discard<T>(value: T) {
    let thrown = |result: std::thread::Result<()>| result.err();
    let second = thrown(catch_unwind(AssertUnwindSafe(|| drop(value))));
    let third = second.and_then(|second| thrown(catch_unwind(AssertUnwindSafe(|| drop(second)))));
    std::mem::forget(third);
}

/// Runs `a` here, and `b` after it or in another member of the tree meanwhile; returns both results.
///
/// A thread that is in no [`Tree`] calls `outermost` instead, which is to start one.
///
/// # Panics
/// With the payload of `a`, else with that of `b`. By then both halves have run.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B, outermost: impl FnOnce(A, B) -> (RA, RB)) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    // SAFETY: null, or the seat that a caller further down this stack holds and does not leave before this call returns.
    let Some(seat) = (unsafe { here().as_ref() }) else { return outermost(a, b) };
    let job = Job::new(b);
    let below = seat.top();
    // SAFETY: `job` stays where it is until it is popped and, if shared, retrieved: below, whatever the halves throw.
    unsafe { seat.push(below, std::ptr::from_ref(&job).cast()) };
    // Inside: a question that is asked here may panic, too.
    let ra = catch_unwind(AssertUnwindSafe(|| {
        seat.glance();
        a()
    }));
    seat.pop(below);
    let ra = match ra {
        Ok(ra) => ra,
        Err(payload) => job.finish_after_panic(seat, below, payload),
    };
    let rb = if seat.is_split(&job.frame) { job.finish(seat, below) } else { job.run_own(seat) };
    (ra, rb)
}
