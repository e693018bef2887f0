//! Join: two closures, the second of which another member may run.
//!
//! # Glossary
//! * *Member*: a thread that works on a recursion. *Tree*: the shared words of its members (module [`tree`]).
//! * *Frame*: the second half of a join; it lies on the stack of its *owner*, the member that called [`join`].
//! * *Seat*: a member's record in the tree: its list of frames, its slot and its bell.
//! * *Slot*: the word in which a member offers one frame at a time. *Taker*: a member that took a frame out of another's slot.
//! * *Split*: the youngest shared frame of a list. *Top*: the youngest frame. *Shared*: offered at least once.
//! * *Bell*: the word on which a member parks while it waits for a frame that another one took. To *ring* is to change it and
//!   wake.
//! * *Mark*: the taker's number in a frame; it lets the owner take what the taker offers.
//!
//! Recursions (trees, quicksort) join at every level, mostly with no other member free to help. So a join that is not shared
//! takes no atomic operation, no clock and no allocation. It links a frame into a list, runs the first half, unlinks the frame
//! and runs the second half. At intervals the member offers its *oldest* frame, which stands for the most work, to members
//! without work. (Heartbeat scheduling: Acar, Charguéraud and Rainey, PLDI 2018.)
//!
//! # States
//! Of a frame: *unshared* (only its owner knows it), *offered* (it is in its owner's slot), *taken* (by the member that swapped
//! the slot for null), *done* (its result is there) or *returned* (taken by mistake, not begun, the owner's again). Of the list,
//! oldest frame first: shared frames up to `split`, then unshared ones up to `top`.
//!
//! # Protocol
//! 1. *Push.* The frame becomes `top`. *Pop*: `top` goes back. If the frame was `split`, it was shared: see 4.
//! 2. *Offer.* When its slot is empty, the owner makes the frame after `split` the new `split` and stores it in the slot. Race
//!    prevented: a taker reads a frame before its owner has prepared it. [`join`] does so at intervals, [`join_at_once`] after each
//!    push that finds the slot empty.
//! 3. *Take.* Another member swaps the slot for null. Now the frame is its own. It runs the second half, stores the result (or
//!    the panic) and swaps the state for done, its last access to the frame. If it finds that the owner waits, it adds to the
//!    owner's bell and wakes it. If the taker's own list is *clean*, without unshared frames and with nothing in the slot, it
//!    first marks the frame with its number. Race prevented: two members run one frame.
//! 4. *Take back.* The owner swaps its slot for null, too. If the frame comes out, the owner runs it. Otherwise the frame was
//!    taken, and the owner waits until it is done or returned. It spins for a bounded time. Then it sets the frame's `WAITED`,
//!    reads its bell and checks the state once more. It parks while the bell is what it was. Race prevented: the frame ends while
//!    the owner parks.
//! 5. *Help.* An owner waits for a frame that member `m` has marked. It may take what `m` offers, if the frame that it waits for
//!    is not done *after* the taking; otherwise it returns what it took. (Leapfrogging: Wagner and Calder, PPoPP 1993.) Race
//!    prevented: the frame ends, and `m` offers unrelated work, before the taking.
//!
//! How members without work spin, park and wake, and how a tree ends, is in [`tree`].
//!
//! # Why it holds
//! * *One runner.* Only the owner stores into a slot, and only when it is empty. A member that wants what is in it swaps it for
//!   null: one of them gets it.
//! * *A frame is alive while it is used.* Others reach it through the slot only. The owner leaves the frame's stack by 1 if the
//!   frame was never in the slot, by 4 otherwise. It does so also if the first half has panicked: that panic is caught, and
//!   resumes when the second half has run. Then either the owner took the frame out itself, or it has seen done or returned, the
//!   taker's last access. The bell lies in the tree, which outlives every member in it.
//! * *The list is a stack.* Joins nest as calls do. Shared frames are the oldest ones: offers go from old to new, and pops from
//!   new to old.
//! * *No member helps strangers.* A taker that marks a frame has nothing older to offer. Until the frame is done, whatever it
//!   offers is part of the frame. Hence 5: if the frame waited for is not done after the taking, what was taken is part of it.
//!   (Had the frame been done before the taking, the offer that was taken would come after it; and a member that takes an offer
//!   sees what came before the offer.) So a lock that is held over a join is requested by work of that join only, as it would be
//!   serially: rayon's issues 592, 957 and 1251 cannot occur. (An earlier version marked every frame it took. But a host of
//!   [guests] that helps one of them may have older frames to share, and the owner of what it took then ran those.)
//! * *No lost wakeup.* Owner and taker both write the state by a read-modify-write: either the taker finds that the owner waits,
//!   or the owner finds the state done. In the first case the bell changes after the state. An owner that reads the changed bell
//!   sees the state done; an owner that read it unchanged does not park.
//!
//! # Timeline: the end of a frame against its owner's park
//! ```text
//! owner (takes back)                        taker
//! swaps its slot for null: finds null
//! spins: the frame has not ended
//!                                           state = DONE; finds no WAITED, does not ring
//! state |= WAITED
//! reads its bell
//! checks the state: DONE, takes the result
//!
//! owner (takes back)                        taker
//! state |= WAITED
//! reads its bell: b
//! checks the state: not ended
//!                                           state = DONE; finds WAITED
//!                                           bell + 1; wakes no thread yet
//! parks while the bell is b: returns at once
//! ```

pub mod guests;
pub mod tree;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::join::tree::{FrameState, Tree, WorkerSlot};
use crate::primitives::{AtomicU32, Ordering, UnsafeCell, thread_cell};
use crate::unwind::{Payload, discard};

thread_cell! {
    /// The seat of this thread in the innermost tree it works on, or null.
    HERE: *const WorkerSlot = std::ptr::null()
}

/// The seat of this thread.
#[inline]
pub(crate) fn here() -> *const WorkerSlot {
    HERE.with(Cell::get)
}

/// Runs `f` with `seat` as this thread's seat (null: none), then restores the previous one.
#[inline]
pub(crate) fn seated<R>(seat: *const WorkerSlot, f: impl FnOnce() -> R) -> R {
    struct PutBack(*const WorkerSlot);
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

/// Whether the second half of this thread's next [`join_at_once`] would wait behind an older half. False outside of a tree.
///
/// A caller that wants the half to begin although its thread may block can hand it over in another way.
#[inline]
pub fn would_queue() -> bool {
    // SAFETY: null, or the seat that a caller further down this stack holds.
    unsafe { here().as_ref() }.is_some_and(WorkerSlot::has_shareable)
}

/// No member has marked the frame yet.
const FRESH: u32 = 0;
/// The upper half holds the number of the member that runs it.
const TAKEN: u32 = 1;
const WAITED: u32 = 2;
const DONE: u32 = 4;
const RETURNED: u32 = 8;

/// What other members use of the second half of a join.
#[repr(C)]
pub(crate) struct Frame {
    /// The next younger frame, once there is one. Not written before that, to save every join a store.
    above: Cell<MaybeUninit<*const Frame>>,
    run: unsafe fn(*const Frame),
    /// Written when it is offered, for the same reason.
    state: UnsafeCell<MaybeUninit<AtomicU32>>,
}

impl Frame {
    /// The frame below the oldest one: never run.
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

    /// Links `frame` as the next younger one. Called by the owner.
    #[inline]
    pub(crate) fn link(&self, frame: *const Frame) {
        self.above.set(MaybeUninit::new(frame));
    }

    /// The next younger frame.
    ///
    /// # Safety
    /// There is one. Called by the owner.
    pub(crate) unsafe fn above(&self) -> *const Frame {
        // SAFETY: `link` was called.
        unsafe { self.above.get().assume_init() }
    }

    /// Makes the frame ready to be offered. Called by the owner, once.
    ///
    /// # Safety
    /// No other member knows the frame.
    pub(crate) unsafe fn prepare(&self) {
        self.state.with_mut(|state| {
            // SAFETY: the only access.
            unsafe { (*state).write(AtomicU32::new(FRESH)) };
        });
    }

    /// Ends what `prepare` began. Called by the owner.
    ///
    /// # Safety
    /// No other member knows the frame any more.
    pub(crate) unsafe fn retire(&self) {
        self.state.with_mut(|state| {
            // SAFETY: prepared, and the last access.
            unsafe { state.cast::<AtomicU32>().drop_in_place() };
        });
    }

    /// The state of a frame that was offered.
    fn state(&self) -> &AtomicU32 {
        // SAFETY: `prepare` came before the offer, and no member asks for the state before that.
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

    /// The member that runs the frame, as soon as that is known.
    pub(crate) fn runner(&self) -> Option<usize> {
        // Relaxed: only a number; it publishes no other data.
        let state = self.state().load(Ordering::Relaxed);
        (state & TAKEN != 0).then_some((state >> 16) as usize)
    }

    /// From now on the taker rings the owner's bell when the frame ends (unless it has ended already).
    pub(crate) fn expect_ring(&self) {
        // Relaxed: the read-modify-write decides; `end` does the ordering.
        self.state().fetch_or(WAITED, Ordering::Relaxed);
    }
}

/// How a taken frame ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its result is there.
    Done,
    /// No member has run it; only the owner will.
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
    /// `frame` was swapped out of the slot of `owner`, another member of `tree`, by this thread.
    pub(crate) unsafe fn new(frame: *const Frame, tree: &'t Tree, owner: usize) -> Self {
        Offered { frame, tree, owner }
    }

    fn frame(&self) -> &Frame {
        // SAFETY: taken; its owner does not leave it before the taker ends it, once, at the end of `run` or of `drop`.
        unsafe { &*self.frame }
    }

    /// Tells the owner that it may help this thread, member `runner`. Call it only if whatever that member offers from now on is
    /// part of the frame.
    pub(crate) fn mark(&self, runner: usize) {
        let mark = TAKEN | (runner as u32) << 16;
        // Relaxed: tells the owner which member to help, nothing more.
        if self.frame().state().fetch_or(mark, Ordering::Relaxed) & WAITED != 0 {
            // The owner parks without knowing which member it could help.
            self.tree.ring(self.owner);
        }
    }

    /// Runs the frame.
    pub(crate) fn run(self) {
        let run = self.frame().run;
        // SAFETY: it belongs to this frame and is called once: one member takes a frame.
        unsafe { run(self.frame) };
        // Release: pairs with the Acquire in `Frame::end`; the result is there.
        let before = self.frame().state().swap(DONE, Ordering::Release);
        self.ring_if_waited(before);
        std::mem::forget(self);
    }

    /// Rings for a waiting owner. Called after the last access to the frame, whose state was `before`.
    fn ring_if_waited(&self, before: u32) {
        if before & WAITED != 0 {
            self.tree.ring(self.owner);
        }
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Frame::end`; our use of the frame comes before the owner uses its memory again.
        let before = self.frame().state().swap(RETURNED, Ordering::Release);
        self.ring_if_waited(before);
    }
}

/// A frame with what it runs.
#[repr(C)]
struct JoinJob<B, RB> {
    frame: Frame,
    half: UnsafeCell<MaybeUninit<B>>,
    result: UnsafeCell<MaybeUninit<std::thread::Result<RB>>>,
}

impl<B: FnOnce() -> RB, RB> JoinJob<B, RB> {
    #[inline]
    fn new(half: B) -> Self {
        JoinJob {
            frame: Frame::new(Self::run),
            half: UnsafeCell::new(MaybeUninit::new(half)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Runs the half and stores its result.
    ///
    /// # Safety
    /// `frame` is the first field of a `JoinJob<B, RB>` that was taken by this thread, and this is the only call.
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
    /// Called once, by the member that has the half: the taker, or the owner if no member took it.
    #[inline]
    unsafe fn take_half(&self) -> B {
        self.half.with(|cell| {
            // SAFETY: written in `new`, and read only here, once.
            unsafe { cell.cast::<B>().read() }
        })
    }

    /// # Safety
    /// Called once, by the owner, after the frame is done.
    unsafe fn take_result(&self) -> std::thread::Result<RB> {
        self.result.with(|cell| {
            // SAFETY: `run` wrote it before the frame was done, and it is read only here, once.
            unsafe { cell.cast::<std::thread::Result<RB>>().read() }
        })
    }

    /// The second half's result when the frame was shared: from its taker, or by running it here.
    #[cold]
    fn finish(&self, seat: &WorkerSlot, below: *const Frame) -> RB {
        match seat.retrieve(&self.frame, below) {
            FrameState::Back => {
                // SAFETY: no other member took it.
                let half = unsafe { self.take_half() };
                half()
            }
            // SAFETY: it is done.
            FrameState::Done => unsafe { self.take_result() }.unwrap_or_else(|payload| resume_unwind(payload)),
        }
    }

    /// The first half has panicked: runs the second all the same, here or where it was taken, and then resumes that panic.
    #[cold]
    #[inline(never)]
    fn finish_after_panic(&self, seat: &WorkerSlot, below: *const Frame, payload: Payload) -> ! {
        let second = || if seat.is_split(&self.frame) { self.finish(seat, below) } else { self.run_own(seat) };
        // The first half's panic is resumed: results, other payloads and panics of their drops are discarded.
        match catch_unwind(AssertUnwindSafe(second)) {
            Ok(result) => discard(result),
            Err(payload) => discard(payload),
        }
        resume_unwind(payload)
    }

    /// The second half's result when the frame was not shared. Called by the owner, once, after the pop.
    #[inline]
    fn run_own(&self, seat: &WorkerSlot) -> RB {
        // SAFETY: it was never offered.
        let half = unsafe { self.take_half() };
        seat.burn();
        half()
    }
}

/// Runs `a` here, and `b` after it, or meanwhile on another member of the tree; returns both results.
///
/// A thread that is in no [`Tree`] calls `outermost` instead, which starts one.
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
    join_on::<false, _, _, _, _>(a, b, outermost)
}

/// [`join`], but if this thread has nothing on offer, it offers the oldest half that it has before `a` begins: `b`, if there is no older
/// one. So `a` may wait for `b` in a join that is no part of another one, if another member is idle or becomes idle.
///
/// # Panics
/// As [`join`].
#[inline]
pub fn join_at_once<A, B, RA, RB>(a: A, b: B, outermost: impl FnOnce(A, B) -> (RA, RB)) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    join_on::<true, _, _, _, _>(a, b, outermost)
}

#[inline]
fn join_on<const AT_ONCE: bool, A, B, RA, RB>(a: A, b: B, outermost: impl FnOnce(A, B) -> (RA, RB)) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    // SAFETY: null, or the seat that a caller further down this stack holds and does not leave before this call returns.
    let Some(seat) = (unsafe { here().as_ref() }) else { return outermost(a, b) };
    let job = JoinJob::new(b);
    let below = seat.top();
    // SAFETY: `job` stays where it is until it is popped and, if shared, retrieved: below, even if the halves panic.
    unsafe { seat.push(below, std::ptr::from_ref(&job).cast()) };
    // Inside the `catch_unwind`: the lead's question, asked here, may panic, too.
    let ra = catch_unwind(AssertUnwindSafe(|| {
        seat.glance();
        if AT_ONCE {
            seat.offer_at_once();
        }
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
