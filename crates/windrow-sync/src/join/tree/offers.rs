//! The seat of a member: its frames, and the offers that it makes of them.

use std::cell::Cell;
use std::marker::PhantomData;

use super::{Asked, OfferDecision, Tree};
use crate::base::machine;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::base::word::Word;
use crate::join::fuel::Fuel;
use crate::join::{End, Frame, Offered};

/// A member's record.
#[derive(Default)]
pub(crate) struct WorkerSlot {
    pub(super) own: Pad<OwnerState>,
    pub(super) shared: Pad<SharedState>,
}

/// Used by the seat's holder only, except that others drain the fuel.
#[derive(Default)]
pub(super) struct OwnerState {
    pub(super) bottom: Frame,
    pub(super) top: Cell<*const Frame>,
    pub(super) split: Cell<*const Frame>,
    pub(super) fuel: Fuel,
    pub(super) index: Cell<u32>,
    pub(super) tree: Cell<*const Tree>,
    /// Ticks at the last offer and the last wakeup; and how many to wait until the next wakeup.
    pub(super) offered: Cell<u64>,
    pub(super) woke: Cell<u64>,
    pub(super) patience: Cell<u64>,
    /// The offer of the frame in the slot has woken a member.
    pub(super) has_woken: Cell<bool>,
    /// Guests were called, and members that could come may be parked.
    pub(super) called: Cell<bool>,
    /// Ticks when guests were last called [at times](Self::is_due_to_call).
    pub(super) called_at: Cell<u64>,
    /// The lead's question, until it is answered with `Opened`.
    pub(super) question: Cell<*const Question<'static>>,
}

/// The part of a seat that other members use.
#[derive(Default)]
pub(super) struct SharedState {
    pub(super) slot: AtomicPtr<Frame>,
    /// 1 after a member became hungry, until the holder offers a frame.
    pub(super) wanted: AtomicU32,
    /// The number, plus 1, of a member that is parked until work of this seat's holder ends, and that would help with the holder's next
    /// offer. (The latest one, if there are several.)
    pub(super) waiter: AtomicU32,
    /// The invitation of which the holder is a guest, or 0.
    pub(super) guest_of: AtomicU64,
    pub(super) bell: Word,
}

// SAFETY: `own` is used by the holder only, except the atomic in it. The holder is one thread: a seat is handed out once.
unsafe impl Sync for WorkerSlot {}
// SAFETY: the pointers in it are used only while its holder is inside `lead` or `serve`, which borrow the tree.
unsafe impl Send for WorkerSlot {}

/// The function that lets other members in or not, and the time of its next call.
pub(super) struct Question<'a> {
    pub(super) ask: &'a dyn Fn(&Asked<'_>) -> OfferDecision,
    pub(super) began: Cell<u64>,
    pub(super) at: Cell<u64>,
}

impl WorkerSlot {
    /// The youngest frame.
    #[inline]
    pub(crate) fn top(&self) -> *const Frame {
        self.own.0.top.get()
    }

    /// Puts `frame` on top of `below`, the top.
    ///
    /// # Safety
    /// By the holder. `frame` stays alive and where it is until it is popped and, if it is the split then, retrieved.
    #[inline]
    pub(crate) unsafe fn push(&self, below: *const Frame, frame: *const Frame) {
        // SAFETY: the bottom, or a frame that has not been popped.
        unsafe { &*below }.link(frame);
        self.own.0.top.set(frame);
    }

    /// Takes the frame on top of `below` off.
    #[inline]
    pub(crate) fn pop(&self, below: *const Frame) {
        self.own.0.top.set(below);
    }

    /// True if `frame` is the youngest shared frame.
    #[inline]
    pub(crate) fn is_split(&self, frame: &Frame) -> bool {
        std::ptr::eq(self.own.0.split.get(), frame)
    }

    /// After a push: reads the clock if the fuel is used up. (Pushes spend no fuel: to count costs a third of a join.)
    #[inline]
    pub(crate) fn check_fuel(&self) {
        if self.own.0.fuel.is_used_up() {
            self.read_clock();
        }
    }

    /// After a pop: spends fuel, and reads the clock if the fuel is used up.
    #[inline]
    pub(crate) fn spend(&self) {
        if self.own.0.fuel.spend() {
            self.read_clock();
        }
    }

    /// Makes the holder read the clock and offer a frame. Called by other members.
    pub(super) fn want(&self) {
        let wanted = &self.shared.0.wanted;
        // Relaxed: a hint; a late value delays one offer.
        if wanted.load(Ordering::Relaxed) == 0 {
            self.own.0.fuel.set(0);
            // Relaxed: as above.
            wanted.store(1, Ordering::Relaxed);
        }
    }

    /// Notes that guests were called by the holder.
    pub(crate) fn has_called(&self) {
        self.own.0.called.set(true);
    }

    pub(super) fn be_guest_of(&self, invitation: u64) {
        // Relaxed: a member that takes a guest's offer sees what the guest did before, this store included.
        self.shared.0.guest_of.store(invitation, Ordering::Relaxed);
    }

    pub(crate) fn is_guest_of(&self, invitation: u64) -> bool {
        // Relaxed: as above.
        self.shared.0.guest_of.load(Ordering::Relaxed) == invitation
    }

    /// The number of the member that holds the seat.
    pub(crate) fn index(&self) -> usize {
        self.own.0.index.get() as usize
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: set by `occupy`, whose caller borrows the tree for as long as this thread holds the seat.
        unsafe { &*self.own.0.tree.get() }
    }

    /// Offers the oldest unshared frame now, if the slot is empty.
    #[inline]
    pub(crate) fn offer_at_once(&self) {
        // Relaxed: only this member fills the slot.
        if self.shared.0.slot.load(Ordering::Relaxed).is_null() {
            self.offer_now();
        }
    }

    /// True if the holder has a frame in its slot, or one that it could put there.
    #[inline]
    pub(crate) fn has_shareable(&self) -> bool {
        let own = &self.own.0;
        // Relaxed: only this member fills the slot.
        own.top.get() != own.split.get() || !self.shared.0.slot.load(Ordering::Relaxed).is_null()
    }

    #[cold]
    #[inline(never)]
    fn offer_now(&self) {
        let own = &self.own.0;
        let now = machine::tick();
        if self.is_open(now) {
            // Wake a member even if the last wakeups were wasted: the first half may wait for this frame.
            own.patience.set(0);
            self.offer_if_due(now, true);
        }
    }

    /// Reads the clock, and offers a frame if one is due.
    #[cold]
    #[inline(never)]
    fn read_clock(&self) {
        let own = &self.own.0;
        let now = machine::tick();
        let tree = self.tree();
        let may_open = !own.question.get().is_null() && tree.members > 1;
        own.fuel.fill_up(now, tree.timing.look, may_open);
        if self.is_open(now) {
            if own.called.get() && self.is_due_to_wake(now) {
                own.called.set(false);
                self.tree().announce(self, now);
            }
            self.offer_if_due(now, false);
        }
    }

    /// Asks the question if it is due. Returns whether other members may come.
    fn is_open(&self, now: u64) -> bool {
        self.own.0.question.get().is_null() || self.ask(now) || self.tree().others.get().is_some()
    }

    /// Asks whether to let other members in, if the question is due. Returns whether they are let in.
    fn ask(&self, now: u64) -> bool {
        let own = &self.own.0;
        // SAFETY: null, or set by `lead`, which takes it back before it returns.
        let Some(question) = (unsafe { own.question.get().as_ref() }) else { return true };
        if question.began.get() == 0 {
            question.began.set(now.max(1));
        }
        let age = now.saturating_sub(question.began.get());
        if age < question.at.get() {
            return false;
        }
        // Joins that the function makes do not ask it again.
        question.at.set(u64::MAX);
        match (question.ask)(&Asked { tree: self.tree(), age, stays_here: PhantomData }) {
            OfferDecision::Opened => {
                own.question.set(std::ptr::null());
                true
            }
            OfferDecision::Later(at) => {
                question.at.set(at);
                false
            }
            OfferDecision::Never => {
                own.fuel.fill_for_ever();
                false
            }
        }
    }

    /// True once in `pause` heartbeats. The next join, or call of guests, reads the clock.
    pub(crate) fn is_due_to_call(&self, pause: u64) -> bool {
        let (own, now) = (&self.own.0, machine::tick());
        let is_due = now.saturating_sub(own.called_at.get()) >= pause.saturating_mul(self.tree().timing.alone);
        if is_due {
            own.called_at.set(now);
            own.fuel.set(0);
        }
        is_due
    }

    fn is_due_to_wake(&self, now: u64) -> bool {
        let own = &self.own.0;
        now.saturating_sub(own.woke.get()) >= own.patience.get().max(self.tree().timing.alone)
    }

    /// Offers the oldest unshared frame, if the last offer was taken and is long enough ago, or if it should be offered `at_once`.
    fn offer_if_due(&self, now: u64, at_once: bool) {
        let (own, shared, tree) = (&self.own.0, &self.shared.0, self.tree());
        // Relaxed: only this member fills the slot.
        if !shared.slot.load(Ordering::Relaxed).is_null() {
            // No member has taken the last offer: those that could are parked.
            if self.is_due_to_wake(now) {
                tree.announce(self, now);
            }
            return;
        }
        // Relaxed: a hint; a late value delays one offer.
        let wanted = shared.wanted.load(Ordering::Relaxed) != 0;
        let due = match (at_once, wanted) {
            (true, _) => 0,
            (false, true) => tree.timing.hungry,
            (false, false) => tree.timing.alone,
        };
        let nothing = own.split.get() == own.top.get();
        if nothing || now.saturating_sub(own.offered.get()) < due {
            if wanted {
                // A hungry member asks once, so check again soon. If nothing can be offered now, check at the next push.
                match nothing {
                    true => own.fuel.set(0),
                    false => own.fuel.fill_a_quarter(),
                }
            }
            return;
        }
        // SAFETY: the bottom, or a shared frame that has not been popped.
        let split = unsafe { &*own.split.get() };
        // SAFETY: it is not the top, so there is one.
        let frame = unsafe { split.above() };
        // SAFETY: it has not been popped.
        let oldest = unsafe { &*frame };
        // SAFETY: it is above the split, so it was never offered.
        unsafe { oldest.prepare() };
        own.split.set(frame);
        own.offered.set(now);
        own.has_woken.set(false);
        // Relaxed: a hint, as above.
        shared.wanted.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Tree::take`; the frame is visible, and all that this member has done before comes
        // before what the taker does. (A swap, although only this member fills the slot: the models cannot distinguish a plain store
        // from a taker's swap that comes too late for the last offer.)
        let empty = shared.slot.swap(frame.cast_mut(), Ordering::Release);
        debug_assert!(empty.is_null(), "one offer at a time");
        tree.announce(self, now);
        // Release: pairs with the Acquire in `Tree::park`; a member that registers after this sees the offer.
        let waiter = shared.waiter.swap(0, Ordering::Release);
        if waiter != 0 {
            tree.ring(waiter as usize - 1);
        }
    }

    /// Runs a frame that the holder has taken.
    pub(super) fn run(&self, offer: Offered<'_>) {
        let own = &self.own.0;
        // Relaxed: only this member fills the slot.
        if own.top.get() == own.split.get() && self.shared.0.slot.load(Ordering::Relaxed).is_null() {
            offer.mark(self.index());
        }
        offer.run();
    }

    /// Takes back `frame`, the popped split, or waits until its taker has ended it. Then `below` is the split. While this thread
    /// waits, it runs work that is part of the frame.
    #[cold]
    #[inline(never)]
    pub(crate) fn retrieve(&self, frame: &Frame, below: *const Frame) -> End {
        let (own, shared, tree) = (&self.own.0, &self.shared.0, self.tree());
        own.split.set(below);
        // Relaxed: if the frame comes out, no other member has seen it.
        let taken = if shared.slot.swap(std::ptr::null_mut(), Ordering::Relaxed).is_null() {
            own.patience.set(0);
            tree.await_end(self, frame)
        } else {
            if own.has_woken.get() {
                // A wasted wakeup. Doubling the patience keeps a recursion with little to share from paying for such a wakeup
                // again and again.
                let alone = tree.timing.alone;
                own.patience.set(own.patience.get().saturating_mul(2).clamp(alone, alone.saturating_mul(64)));
            }
            End::Returned
        };
        // SAFETY: the frame is out of the slot, and its taker, if any, no longer uses it.
        unsafe { frame.retire() };
        taken
    }
}
