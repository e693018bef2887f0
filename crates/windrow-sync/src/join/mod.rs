#![doc = include_str!("README.md")]

mod entries;
mod fuel;
pub mod guests;
pub mod lend;
mod timing;
pub mod tree;
mod view;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::fork::Stranded;
use crate::base::primitives::{AtomicU32, Ordering, UnsafeCell, thread_cell};
use crate::base::unwind::{Finally, Payload, discard};
use crate::join::tree::{Tree, WorkerSlot};

thread_cell! {
    /// The seat of this thread in the innermost tree it works on, or null.
    HERE: *const WorkerSlot = std::ptr::null()
}

/// The seat of this thread, or null.
#[inline]
pub(crate) fn here() -> *const WorkerSlot {
    HERE.with(Cell::get)
}

/// Calls `f` with the seat of this thread, if it has one.
#[inline]
pub(crate) fn with_here<R>(f: impl FnOnce(Option<&WorkerSlot>) -> R) -> R {
    // SAFETY: null, or the seat that a caller further down this stack holds and does not leave before this call returns.
    f(unsafe { here().as_ref() })
}

/// Runs `f` with `seat` as this thread's seat (null: none), then restores the previous one.
#[inline]
pub(crate) fn seated<R>(seat: *const WorkerSlot, f: impl FnOnce() -> R) -> R {
    let before = HERE.with(|here| here.replace(seat));
    let _put_back = Finally(|| HERE.with(|here| here.set(before)));
    f()
}

/// Runs `f` outside any tree: a [`join`] in it is an outermost one.
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    seated(std::ptr::null(), f)
}

/// Number of the calling thread among the members of the tree that it works on.
#[inline]
pub fn member() -> Option<usize> {
    with_here(|seat| seat.map(WorkerSlot::index))
}

/// Counts as a join that was not shared: reads the clock at times, and offers a frame.
#[inline]
pub fn spend() {
    with_here(|seat| seat.into_iter().for_each(WorkerSlot::spend));
}

/// True if this thread works on a tree.
pub fn is_inside() -> bool {
    !here().is_null()
}

/// Offers this thread's oldest half, if nothing is on offer and the tree is open. In the first half of an outermost [`join`] that is the second
/// half: the first one may wait for it, as long as another member is idle or becomes idle.
///
/// # Panics
/// If the lead's question panics.
#[inline]
pub fn offer_at_once() {
    with_here(|seat| seat.into_iter().for_each(WorkerSlot::offer_at_once));
}

/// True if the second half of a [`join`] would wait for an older half, although the first one begins with [`offer_at_once`]. False outside a
/// tree.
///
/// A caller whose thread may block can then hand the half over in another way, so that it begins soon.
#[inline]
pub fn would_queue() -> bool {
    with_here(|seat| seat.is_some_and(WorkerSlot::has_shareable))
}

/// No member has marked the frame yet.
const FRESH: u32 = 0;
/// The upper half holds the number of the member that runs it.
const TAKEN: u32 = 1;
const WAITED: u32 = 2;
const DONE: u32 = 4;
const RETURNED: u32 = 8;

/// The second half of a join, as far as other members use it.
#[repr(C)]
pub(crate) struct Frame {
    /// The next younger frame, once there is one. Not written before that, to save every join a store.
    above: Cell<MaybeUninit<*const Frame>>,
    run: unsafe fn(*const Frame),
    /// Written when the frame is offered, for the same reason.
    state: UnsafeCell<MaybeUninit<AtomicU32>>,
}

impl Default for Frame {
    /// The frame below the oldest one: never run.
    #[inline]
    fn default() -> Self {
        Self::new(JoinJob::<fn(), ()>::run)
    }
}

impl Frame {
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
        // SAFETY: there is one (caller), so `link` was called.
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

    /// The end of a taken frame, if it has ended.
    pub(crate) fn end(&self) -> Option<End> {
        // Acquire: pairs with the Release in `Offered::run` and in `Offered::drop`; the result is visible.
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

/// The end of a taken frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its result is stored.
    Done,
    /// No member has run it; only the owner will.
    Returned,
    /// Its taker is a thread of the parent of this forked process.
    Stranded,
}

/// A frame that this thread has taken out of another member's slot. Dropping it returns the frame to its owner.
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
        // SAFETY: taken; its owner does not leave it before the taker ends it, which happens once, at the end of `run` or of `drop`.
        unsafe { &*self.frame }
    }

    /// Allows the owner to take what this thread, member `runner`, offers. Call it only if whatever that member offers from now on is
    /// part of the frame.
    pub(crate) fn mark(&self, runner: usize) {
        let mark = TAKEN | (runner as u32) << 16;
        // Relaxed: the number of the member to help, nothing more.
        if self.frame().state().fetch_or(mark, Ordering::Relaxed) & WAITED != 0 {
            // The owner has parked without knowing whose offers it may take.
            self.tree.ring(self.owner);
        }
    }

    /// Runs the frame.
    pub(crate) fn run(self) {
        let run = self.frame().run;
        // SAFETY: it belongs to this frame and is called once: one member takes a frame.
        unsafe { run(self.frame) };
        // Release: pairs with the Acquire in `Frame::end`; the result is visible.
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
        // Release: pairs with the Acquire in `Frame::end`; our use of the frame comes before the owner reuses its memory.
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
            // SAFETY: the owner neither reads it nor leaves its frame before the frame is done: see `finish`.
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
        // First, and by code that does not unwind: until then another member may be using this frame, and the split is one that was
        // popped.
        match seat.retrieve(&self.frame, below) {
            End::Returned => {
                // SAFETY: no other member took it.
                let half = unsafe { self.take_half() };
                half()
            }
            End::Stranded => Stranded.raise(),
            // SAFETY: it is done.
            End::Done => unsafe { self.take_result() }.unwrap_or_else(|payload| resume_unwind(payload)),
        }
    }

    /// The first half has panicked: runs the second half all the same, or waits for its taker, and then resumes the first half's panic.
    #[cold]
    #[inline(never)]
    fn finish_after_panic(&self, seat: &WorkerSlot, below: *const Frame, payload: Payload) -> ! {
        let second = || if seat.is_split(&self.frame) { self.finish(seat, below) } else { self.run_own(seat) };
        // Only the first half's panic is resumed: a result, another payload and panics of their drops are discarded.
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
        seat.spend();
        half()
    }
}

/// Runs `a` here, and `b` after it, or at the same time on another member of the tree; returns both results.
///
/// A thread that is in no [`Tree`] calls `outermost` instead, which starts one.
///
/// ```
/// use windrow_sync::join::join;
/// # use windrow_sync::{Spin, join::tree::{JoinTiming, OfferDecision, Tree}};
/// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
///
/// fn sum(items: &[u64]) -> u64 {
///     if items.len() < 2 {
///         return items.iter().sum();
///     }
///     let (left, right) = items.split_at(items.len() / 2);
///     let (left, right) = join(|| sum(left), || sum(right), |left, right| (left(), right()));
///     left + right
/// }
/// assert_eq!(sum(&[1, 2, 3, 4]), 10); // serially
/// let mut tree = Tree::new(1, timing);
/// assert_eq!(tree.lead().0.grow(0, &|_| OfferDecision::Never, || sum(&[1, 2, 3, 4])), 10);
/// ```
///
/// # Panics
/// With the payload of `a`, else with that of `b`. By then both halves have run. If the lead's question panics in this join, that
/// panic counts as one of the half that was about to begin, which does not run.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B, outermost: impl FnOnce(A, B) -> (RA, RB)) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB + Send,
    RB: Send,
{
    // SAFETY: null, or the seat that a caller further down this stack holds and does not leave before this call returns.
    let Some(seat) = (unsafe { here().as_ref() }) else { return outermost(a, b) };
    let job = JoinJob::new(b);
    let below = seat.top();
    // SAFETY: `job` stays where it is until it is popped and, if shared, retrieved: below, even if the halves panic. Between the pop and
    // the retrieval runs nothing that could unwind.
    unsafe { seat.push(below, std::ptr::from_ref(&job).cast()) };
    // `check_fuel` is inside the `catch_unwind`, because it may ask the lead's question, which may panic.
    let ra = catch_unwind(AssertUnwindSafe(|| {
        seat.check_fuel();
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
