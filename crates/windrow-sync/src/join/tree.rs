#![doc = include_str!("tree.md")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::base::debug::show_as;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::base::unwind::Finally;
use crate::base::word::{WideWord, Word};
use crate::base::{fork::Process, machine};
use crate::join::entries::Entries;
use crate::join::fuel::Fuel;
pub use crate::join::timing::{JoinTiming, OfferDecision};
use crate::join::view::{COUNT, ONE_ASLEEP, ONE_LOOKING, ONE_TURN, OVER, TreeView};
use crate::join::{End, Frame, Offered, seated};

const MOST_MEMBERS: usize = COUNT as usize;

/// A recursion and its members. See the [module page](self).
///
/// ```
/// use windrow_sync::{Spin, join::{join, tree::{JoinTiming, OfferDecision, Tree}}};
///
/// let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// let mut tree = Tree::new(2, timing);
/// let (lead, tree) = tree.lead();
/// lead.furnish();
/// let both = std::thread::scope(|scope| {
///     scope.spawn(|| tree.serve()); // runs the second half, unless the lead gets to it first
///     lead.grow(0, &|_| OfferDecision::Opened, || join(|| 1, || 2, |_, _| unreachable!("inside a tree")))
/// });
/// assert_eq!(both, (1, 2));
/// ```
pub struct Tree {
    word: Pad<WideWord>,
    lead: WorkerSlot,
    /// The seats of the other members, and how many of them were handed out.
    others: OnceLock<Box<[WorkerSlot]>>,
    handed_out: AtomicU32,
    entries: Mutex<Entries>,
    members: usize,
    rhythm: JoinTiming,
    process: Process,
}

/// A member's record.
#[derive(Default)]
pub(crate) struct WorkerSlot {
    own: Pad<OwnerState>,
    shown: Pad<Shown>,
}

/// Used by the seat's holder only, except that others take the fuel away.
#[derive(Default)]
struct OwnerState {
    bottom: Frame,
    top: Cell<*const Frame>,
    split: Cell<*const Frame>,
    fuel: Fuel,
    index: Cell<u32>,
    tree: Cell<*const Tree>,
    /// Ticks at the last offer and the last wakeup; and how many to wait until the next wakeup.
    offered: Cell<u64>,
    woke: Cell<u64>,
    patience: Cell<u64>,
    /// The offer of the frame in the slot has woken a member.
    paid: Cell<bool>,
    /// Guests were called, and members that could come may be parked.
    called: Cell<bool>,
    /// The lead's question, until it is answered with `Opened`.
    question: Cell<*const Question<'static>>,
}

/// The part of a seat that other members use.
#[derive(Default)]
struct Shown {
    slot: AtomicPtr<Frame>,
    /// 1 after a member became hungry, until the holder offers a frame.
    wanted: AtomicU32,
    /// The number, plus 1, of a member that is parked until work of this seat's holder ends, and that would help with the holder's next
    /// offer. (The latest one, if there are several.)
    waiter: AtomicU32,
    /// The invitation of which the holder is a guest, or 0.
    guest_of: AtomicU64,
    bell: Word,
}

// SAFETY: `own` is used by the holder only, except the atomic in it. The holder is one thread: a seat is handed out once.
unsafe impl Sync for WorkerSlot {}
// SAFETY: the pointers in it are used only while its holder is inside `lead` or `serve`, which borrow the tree.
unsafe impl Send for WorkerSlot {}

/// The function that decides whether to let other members in, and when to call it next.
struct Question<'a> {
    ask: &'a dyn Fn(&Asked<'_>) -> OfferDecision,
    began: Cell<u64>,
    at: Cell<u64>,
}

/// Work for an idle member.
enum IdleWork<'a> {
    Frame(Offered<'a>),
    Guest(Guest<'a>),
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

    /// Whether `frame` is the youngest shared frame.
    #[inline]
    pub(crate) fn is_split(&self, frame: &Frame) -> bool {
        std::ptr::eq(self.own.0.split.get(), frame)
    }

    /// After a push: reads the clock if the fuel is used up. (Pushes burn no fuel: to count costs a third of a join.)
    #[inline]
    pub(crate) fn glance(&self) {
        if self.own.0.fuel.is_used_up() {
            self.look_up();
        }
    }

    /// After a pop: burns fuel, and reads the clock if the fuel is used up.
    #[inline]
    pub(crate) fn burn(&self) {
        if self.own.0.fuel.burn() {
            self.look_up();
        }
    }

    /// Makes the holder read the clock and offer a frame. Called by other members.
    fn want(&self) {
        let wanted = &self.shown.0.wanted;
        // Relaxed: a hint; a late value delays one offer.
        if wanted.load(Ordering::Relaxed) == 0 {
            self.own.0.fuel.take_away();
            // Relaxed: as above.
            wanted.store(1, Ordering::Relaxed);
        }
    }

    /// Notes that guests were called by the holder.
    pub(crate) fn has_called(&self) {
        self.own.0.called.set(true);
    }

    fn be_guest_of(&self, invitation: u64) {
        // Relaxed: a member that takes a guest's offer sees what the guest did before, this store included.
        self.shown.0.guest_of.store(invitation, Ordering::Relaxed);
    }

    pub(crate) fn is_guest_of(&self, invitation: u64) -> bool {
        // Relaxed: as above.
        self.shown.0.guest_of.load(Ordering::Relaxed) == invitation
    }

    /// The number of the member that holds the seat.
    pub(crate) fn index(&self) -> usize {
        self.own.0.index.get() as usize
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: set by `sit`, whose caller borrows the tree for as long as this thread holds the seat.
        unsafe { &*self.own.0.tree.get() }
    }

    /// After a push: offers the oldest unshared frame now, if the slot is empty.
    #[inline]
    pub(crate) fn offer_at_once(&self) {
        // Relaxed: only this member fills the slot.
        if self.shown.0.slot.load(Ordering::Relaxed).is_null() {
            self.offer_now();
        }
    }

    /// Whether the holder has a frame in its slot, or one that it could put there.
    #[inline]
    pub(crate) fn has_shareable(&self) -> bool {
        let own = &self.own.0;
        // Relaxed: only this member fills the slot.
        own.top.get() != own.split.get() || !self.shown.0.slot.load(Ordering::Relaxed).is_null()
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
    fn look_up(&self) {
        let own = &self.own.0;
        let now = machine::tick();
        let tree = self.tree();
        let may_open = !own.question.get().is_null() && tree.members > 1;
        own.fuel.fill_up(now, tree.rhythm.look, may_open);
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

    fn is_due_to_wake(&self, now: u64) -> bool {
        let own = &self.own.0;
        now.saturating_sub(own.woke.get()) >= own.patience.get().max(self.tree().rhythm.alone)
    }

    /// Offers the oldest unshared frame, if the last offer was taken and is long enough ago, or if it should be offered `at_once`.
    fn offer_if_due(&self, now: u64, at_once: bool) {
        let (own, shown, tree) = (&self.own.0, &self.shown.0, self.tree());
        // Relaxed: only this member fills the slot.
        if !shown.slot.load(Ordering::Relaxed).is_null() {
            // No member has taken the last offer: those that could are parked.
            if self.is_due_to_wake(now) {
                tree.announce(self, now);
            }
            return;
        }
        // Relaxed: a hint; a late value delays one offer.
        let wanted = shown.wanted.load(Ordering::Relaxed) != 0;
        let due = match (at_once, wanted) {
            (true, _) => 0,
            (false, true) => tree.rhythm.hungry,
            (false, false) => tree.rhythm.alone,
        };
        let nothing = own.split.get() == own.top.get();
        if nothing || now.saturating_sub(own.offered.get()) < due {
            if wanted {
                // A hungry member asks once, so check again soon. If nothing can be offered now, check at the next push.
                match nothing {
                    true => own.fuel.pour(0),
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
        own.paid.set(false);
        // Relaxed: a hint, as above.
        shown.wanted.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Tree::take`; the frame is visible, and all that this member has done before comes
        // before what the taker does. (A swap, although only this member fills the slot: the models cannot tell a plain store
        // from a taker's swap that comes too late for the last offer.)
        let empty = shown.slot.swap(frame.cast_mut(), Ordering::Release);
        debug_assert!(empty.is_null(), "an offer at a time");
        tree.announce(self, now);
        // Release: pairs with the Acquire in `Tree::doze`; a member that registers after this sees the offer.
        let waiter = shown.waiter.swap(0, Ordering::Release);
        if waiter != 0 {
            tree.ring(waiter as usize - 1);
        }
    }

    /// Runs a frame that the holder has taken.
    fn run(&self, offer: Offered<'_>) {
        let own = &self.own.0;
        // Relaxed: only this member fills the slot.
        if own.top.get() == own.split.get() && self.shown.0.slot.load(Ordering::Relaxed).is_null() {
            offer.mark(self.index());
        }
        offer.run();
    }

    /// Takes back `frame`, the popped split, or waits until its taker has ended it. Then `below` is the split. While this thread
    /// waits, it runs work that is part of the frame.
    #[cold]
    #[inline(never)]
    pub(crate) fn retrieve(&self, frame: &Frame, below: *const Frame) -> End {
        let (own, shown, tree) = (&self.own.0, &self.shown.0, self.tree());
        own.split.set(below);
        // Relaxed: if the frame comes out, no other member has seen it.
        let taken = if shown.slot.swap(std::ptr::null_mut(), Ordering::Relaxed).is_null() {
            own.patience.set(0);
            tree.wait_for(self, frame)
        } else {
            if own.paid.get() {
                // A wasted wakeup. Doubling the patience keeps a recursion with little to share from paying for such a wakeup
                // again and again.
                let alone = tree.rhythm.alone;
                own.patience.set(own.patience.get().saturating_mul(2).clamp(alone, alone.saturating_mul(64)));
            }
            End::Returned
        };
        // SAFETY: the frame is out of the slot, and its taker, if any, no longer uses it.
        unsafe { frame.retire() };
        taken
    }
}

show_as!("Tree": [] Tree, |it| members: it.members, looking: it.snapshot().looking(), asleep: it.snapshot().asleep());

impl Tree {
    /// A tree for up to `members` members, the lead included.
    ///
    /// ```
    /// # use windrow_sync::{Spin, join::tree::{JoinTiming, OfferDecision, Tree}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let mut tree = Tree::new(1, timing); // the lead alone
    /// assert_eq!(tree.lead().0.grow(0, &|_| OfferDecision::Never, || 7), 7);
    /// ```
    #[inline]
    pub fn new(members: usize, rhythm: JoinTiming) -> Tree {
        Tree {
            word: Pad::default(),
            lead: WorkerSlot::default(),
            others: OnceLock::new(),
            handed_out: AtomicU32::new(0),
            entries: Mutex::default(),
            members: members.min(MOST_MEMBERS),
            rhythm,
            process: Process::this(),
        }
    }

    /// By the lead.
    fn furnish(&self) {
        self.others.get_or_init(|| (1..self.members).map(|_| WorkerSlot::default()).collect());
    }

    fn snapshot(&self) -> TreeView {
        // Relaxed: debug output only.
        TreeView(self.word().load(Ordering::Relaxed))
    }

    /// Numbers of idle members: of those that spin, and of those that are parked.
    pub(crate) fn idle_members(&self) -> (usize, usize) {
        // Relaxed: a snapshot.
        let now = TreeView(self.word().load(Ordering::Relaxed));
        (now.looking() as usize, now.asleep() as usize)
    }

    fn word(&self) -> &AtomicU64 {
        self.word.0.value()
    }

    /// The right to lead, and the tree for others to [`serve`](Tree::serve).
    ///
    /// ```
    /// # use windrow_sync::{Spin, join::tree::{JoinTiming, OfferDecision, Tree}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let mut tree = Tree::new(1, timing);
    /// // One recursion after the other.
    /// let results = [1, 2].map(|n| tree.lead().0.grow(0, &|_| OfferDecision::Never, || n));
    /// assert_eq!(results, [1, 2]);
    /// ```
    #[inline]
    pub fn lead(&mut self) -> (TreeLead<'_>, &Tree) {
        // Members that served the last lead are gone, because `self` is borrowed exclusively.
        self.word = Pad::default();
        self.others = OnceLock::new();
        self.handed_out = AtomicU32::new(0);
        let tree = &*self;
        (TreeLead { tree }, tree)
    }

    /// Runs what members of the tree offer, until the tree is over. Returns at once if no seat is free: see
    /// [`furnish`](Asked::furnish).
    ///
    /// ```
    /// # use windrow_sync::{Spin, join::tree::{JoinTiming, OfferDecision, Tree}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let mut tree = Tree::new(2, timing);
    /// let (lead, tree) = tree.lead();
    /// tree.serve(); // no seat was made: returns at once
    /// assert_eq!(lead.grow(0, &|_| OfferDecision::Never, || 7), 7);
    /// ```
    ///
    /// # Panics
    /// If the function of an [`Invitation`](super::guests::Invitation) panics. A panic in a join goes to the caller of that join.
    pub fn serve(&self) {
        let Some(seat) = self.sit_down() else { return };
        seated(seat, || {
            while let Some(work) = self.idle(seat) {
                match work {
                    IdleWork::Frame(offer) => seat.run(offer),
                    IdleWork::Guest(guest) => guest.help(),
                }
            }
        });
    }

    /// Takes the next seat that was never handed out.
    fn sit_down(&self) -> Option<&WorkerSlot> {
        let others = self.others.get()?;
        // Relaxed: each number comes out once; no data is published.
        let index = self.handed_out.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(seat) = others.get(index) else {
            // Relaxed: as above. Counting back keeps the counter from overflowing, however many threads come.
            self.handed_out.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(self.sit(index + 1, seat))
    }

    /// Prepares a seat that was just handed out.
    fn sit<'a>(&self, index: usize, seat: &'a WorkerSlot) -> &'a WorkerSlot {
        let own = &seat.own.0;
        own.top.set(&own.bottom);
        own.split.set(&own.bottom);
        own.index.set(index as u32);
        own.tree.set(self);
        seat
    }

    fn seat(&self, index: usize) -> Option<&WorkerSlot> {
        match index.checked_sub(1) {
            None => Some(&self.lead),
            Some(other) => self.others.get()?.get(other),
        }
    }

    pub(crate) fn seats(&self) -> impl Iterator<Item = &WorkerSlot> {
        std::iter::once(&self.lead).chain(self.others.get().into_iter().flatten())
    }

    /// Takes the offer of another member, number `owner`, out of its `seat`.
    fn take(&self, owner: usize, seat: &WorkerSlot) -> Option<Offered<'_>> {
        let slot = &seat.shown.0.slot;
        // Relaxed: the swap below validates it.
        if slot.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the Release in `WorkerSlot::offer_if_due`; the frame is visible, and so is what its owner did before.
        let frame = slot.swap(std::ptr::null_mut(), Ordering::Acquire);
        // SAFETY: it came out of the slot; this thread is not its owner, which would take it back by `retrieve`.
        (!frame.is_null()).then(|| unsafe { Offered::new(frame, self, owner) })
    }

    /// Wakes a member that is parked on its bell.
    pub(crate) fn ring(&self, member: usize) {
        let Some(seat) = self.seat(member) else { return };
        // Release: pairs with the Acquire in `doze`; a member that reads this value sees the state that made us ring.
        seat.shown.0.bell.value().fetch_add(1, Ordering::Release);
        seat.shown.0.bell.wake(1);
    }

    /// Waits until `frame`, which another member has taken, has ended.
    fn wait_for(&self, seat: &WorkerSlot, frame: &Frame) -> End {
        let end = Cell::new(None);
        let ended = || {
            end.set(frame.end().or_else(|| (!self.process.is_this()).then_some(End::Stranded)));
            end.get().is_some()
        };
        let help = || self.help_with(seat, frame);
        loop {
            let waited = self.rhythm.settle.until(|| ended() || help());
            if let Some(end) = end.get() {
                return end;
            }
            if !waited {
                frame.expect_ring();
                let runner = frame.runner().and_then(|runner| self.seat(runner));
                self.doze(seat, &ended, runner, help);
            }
        }
    }

    /// Waits until `done` returns true. Meanwhile runs `help`, which returns whether it has helped. The thread that makes `done`
    /// true must ring. In a forked child `done` may be false afterwards.
    pub(crate) fn wait_until(&self, seat: &WorkerSlot, done: &dyn Fn() -> bool, help: impl Fn() -> bool) {
        while self.process.is_this() {
            let mut over = false;
            let waited = self.rhythm.settle.until(|| {
                over = done();
                over || help()
            });
            if over {
                return;
            }
            if !waited {
                self.doze(seat, done, self.seats(), &help);
            }
        }
    }

    /// Runs what the runner of `frame` offers, if that is part of the frame. Returns whether this thread ran an offer.
    fn help_with(&self, seat: &WorkerSlot, frame: &Frame) -> bool {
        let Some(runner) = frame.runner() else { return false };
        self.seat(runner).is_some_and(|other| self.help(seat, runner, other, || frame.end().is_none()))
    }

    /// Runs the offer of `other`, the seat of member `index`, if it is part of what is waited for. `is_part` is asked after the offer
    /// was taken. Returns whether this thread ran an offer.
    pub(crate) fn help(&self, seat: &WorkerSlot, index: usize, other: &WorkerSlot, is_part: impl Fn() -> bool) -> bool {
        let offer = self.take(index, other);
        if offer.is_none() {
            other.want();
        }
        // An offer that is no part is returned to its owner.
        let part = offer.filter(|_| is_part());
        let helped = part.is_some();
        part.into_iter().for_each(|part| seat.run(part));
        helped
    }

    /// Parks until the bell rings, unless `done` returns true or `help` finds work. The members in `helpable` ring when they make an
    /// offer. May return spuriously.
    fn doze<'a>(
        &self,
        seat: &WorkerSlot,
        done: &dyn Fn() -> bool,
        helpable: impl IntoIterator<Item = &'a WorkerSlot>,
        help: impl Fn() -> bool,
    ) {
        let bell = &seat.shown.0.bell;
        // Acquire: pairs with the Release in `ring`; `done` below sees what the ring was for.
        let seen = bell.value().load(Ordering::Acquire);
        if done() {
            return;
        }
        for other in helpable {
            // Acquire: pairs with the Release in `WorkerSlot::offer_if_due`; `help` below sees an offer that did not find us here.
            other.shown.0.waiter.swap(seat.index() as u32 + 1, Ordering::Acquire);
        }
        if !help() {
            bell.wait(seen);
        }
    }

    /// Announces an offer, and wakes a parked member if no spinning member will find the offer.
    fn announce(&self, seat: &WorkerSlot, now: u64) {
        // Release: pairs with the Acquire in `idle`; a member that parks after this sees the offer.
        let before = TreeView(self.word().fetch_add(ONE_TURN, Ordering::Release));
        let own = &seat.own.0;
        if before.looking() == 0 && before.asleep() > 0 && now.saturating_sub(own.woke.get()) >= own.patience.get() {
            own.woke.set(now);
            own.paid.set(true);
            self.word.0.wake(1);
        }
    }

    /// Announces a call of guests, from any thread.
    pub(crate) fn announce_call(&self) {
        // Release: pairs with the Acquire in `idle`, as in `announce`.
        let before = TreeView(self.word().fetch_add(ONE_TURN, Ordering::Release));
        if before.looking() == 0 && before.asleep() > 0 {
            self.word.0.wake(1);
        }
    }

    /// The list of invitations, locked.
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.entries)
    }

    /// Spins for work, and parks if there is none. `None` when the tree is over.
    fn idle<'a>(&'a self, seat: &'a WorkerSlot) -> Option<IdleWork<'a>> {
        let mut next = seat.index();
        // The turn at which this member last checked the invitations: each call adds a turn.
        let mut turn = None;
        // Relaxed: a count. An announcer that finds this member spinning wakes no other; this member checks again before it parks.
        self.word().fetch_add(ONE_LOOKING, Ordering::Relaxed);
        loop {
            let (mut over, mut found) = (false, None);
            self.rhythm.idle.until(|| {
                // Relaxed: OVER publishes no data.
                let now = TreeView(self.word().load(Ordering::Relaxed));
                over = now.is_over() || !self.process.is_this();
                if !over {
                    let called = turn.replace(now.upper()) != Some(now.upper());
                    found = self.find(seat, called);
                }
                if !over && found.is_none() {
                    next = (next + 1) % self.members;
                    self.seat(next).into_iter().for_each(|seat| seat.want());
                }
                over || found.is_some()
            });
            if over || found.is_some() {
                // Relaxed: a count.
                self.word().fetch_sub(ONE_LOOKING, Ordering::Relaxed);
                return found;
            }
            // Acquire: pairs with the Release in `announce`; we see the offer of every member that announced before.
            let before = TreeView(self.word().fetch_add(ONE_ASLEEP.wrapping_sub(ONE_LOOKING), Ordering::Acquire));
            if !before.is_over() {
                found = self.find(seat, true);
                if found.is_none() {
                    self.word.0.wait(before.upper());
                }
            }
            if found.is_some() || before.is_over() {
                // Relaxed: a count.
                self.word().fetch_sub(ONE_ASLEEP, Ordering::Relaxed);
                return found;
            }
            // Relaxed: a count, as above.
            self.word().fetch_add(ONE_LOOKING.wrapping_sub(ONE_ASLEEP), Ordering::Relaxed);
        }
    }

    /// Takes any member's offer, beginning with the seats after this member's. If no seat has an offer and guests may have been
    /// `called`, enters an invitation.
    fn find<'a>(&'a self, seat: &'a WorkerSlot, called: bool) -> Option<IdleWork<'a>> {
        let me = seat.index();
        let others = self.seats().enumerate().skip(me + 1).chain(self.seats().enumerate().take(me));
        let frame = others.into_iter().find_map(|(index, other)| Some(IdleWork::Frame(self.take(index, other)?)));
        frame.or_else(|| if called { Guest::new(self, seat).map(IdleWork::Guest) } else { None })
    }

    /// Ends the tree.
    fn end(&self) {
        if self.others.get().is_none() {
            // No other member has come, and none can come any more: only the lead makes seats.
            return;
        }
        // Relaxed: OVER publishes no data; parked members check the word itself.
        let before = TreeView(self.word().fetch_or(OVER, Ordering::Relaxed));
        if before.asleep() > 0 {
            self.word.0.wake(u32::MAX);
        }
    }
}

/// A member that is inside an invitation.
struct Guest<'a> {
    tree: &'a Tree,
    seat: &'a WorkerSlot,
    id: u64,
    help: *const (dyn Fn() + Sync),
}

impl<'a> Guest<'a> {
    /// Enters an invitation that is `ready`. `seat` is this thread's; the thread has no other work.
    fn new(tree: &'a Tree, seat: &'a WorkerSlot) -> Option<Self> {
        let mut entries = tree.entries();
        let (id, help) = entries.enter()?;
        seat.be_guest_of(id);
        Some(Self { tree, seat, id, help })
    }

    /// Runs the guest's part.
    fn help(self) {
        // SAFETY: the host waits until this guest has left.
        (unsafe { &*self.help })();
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.seat.be_guest_of(0);
        let host = self.tree.entries().leave(self.id);
        host.into_iter().for_each(|host| self.tree.ring(host));
    }
}

/// The right to lead a tree, once.
///
/// ```
/// # use windrow_sync::{Spin, join::{is_inside, tree::{JoinTiming, OfferDecision, Tree}}};
/// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// let mut tree = Tree::new(1, timing);
/// let (lead, _) = tree.lead();
/// assert!(!is_inside());
/// assert!(lead.grow(0, &|_| OfferDecision::Never, is_inside));
/// ```
#[derive(Debug)]
pub struct TreeLead<'t> {
    tree: &'t Tree,
}

impl TreeLead<'_> {
    /// Makes seats for the other members, before the lead is asked whether to let them in: offers begin at once.
    ///
    /// ```
    /// # use windrow_sync::{Spin, latch::Latch, join::{join_at_once, tree::{JoinTiming, OfferDecision, Tree}}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// # let latch = Latch::new();
    /// let mut tree = Tree::new(2, timing);
    /// let (lead, tree) = tree.lead();
    /// lead.furnish();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| tree.serve());
    ///     // The first half ends only because the other member runs the second one.
    ///     let halves = || join_at_once(|| latch.wait(Spin::NONE), || latch.set(), |_, _| unreachable!("inside a tree"));
    ///     lead.grow(0, &|_| OfferDecision::Opened, halves);
    /// });
    /// assert!(!latch.is_set());
    /// ```
    pub fn furnish(&self) {
        self.tree.furnish();
    }

    /// Runs `f`; joins in it belong to the tree. After `patience` joins, and at intervals from then on, a join calls `ask` to decide
    /// whether to let other members in.
    ///
    /// The tree is over when this returns: members leave [`serve`](Tree::serve).
    ///
    /// ```
    /// # use std::cell::Cell;
    /// # use windrow_sync::{Spin, join::{join, tree::{Asked, JoinTiming, OfferDecision, Tree}}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let asked = Cell::new(0);
    /// let ask = |_: &Asked<'_>| {
    ///     asked.set(asked.get() + 1);
    ///     OfferDecision::Never
    /// };
    /// let recursion = || join(|| 1, || 2, |_, _| unreachable!("inside a tree"));
    /// assert_eq!(Tree::new(2, timing).lead().0.grow(0, &ask, recursion), (1, 2));
    /// assert_eq!(asked.get(), 1);
    /// ```
    #[inline]
    pub fn grow<R>(self, patience: u32, ask: &dyn Fn(&Asked<'_>) -> OfferDecision, f: impl FnOnce() -> R) -> R {
        let seat = self.tree.sit(0, &self.tree.lead);
        let question = Question { ask, began: Cell::new(0), at: Cell::new(0) };
        // SAFETY: only the lifetime changes. Used by this thread alone, until `_over` takes it back.
        let erased =
            unsafe { std::mem::transmute::<*const Question<'_>, *const Question<'static>>(&raw const question) };
        seat.own.0.question.set(erased);
        seat.own.0.fuel.pour(patience);
        let _over = Finally(|| {
            seat.own.0.question.set(std::ptr::null());
            self.tree.end();
        });
        seated(seat, f)
    }
}

/// The argument of the question whether to let other members in.
///
/// ```
/// # use windrow_sync::{Spin, join::{join, tree::{Asked, JoinTiming, OfferDecision, Tree}}};
/// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
/// let ask = |asked: &Asked<'_>| if asked.age() > u64::MAX / 2 { OfferDecision::Opened } else { OfferDecision::Never };
/// let recursion = || join(|| 1, || 2, |_, _| unreachable!("inside a tree"));
/// assert_eq!(Tree::new(2, timing).lead().0.grow(0, &ask, recursion), (1, 2));
/// ```
#[derive(Debug)]
pub struct Asked<'a> {
    tree: &'a Tree,
    age: u64,
    /// Not `Send`: only the lead lets other members in.
    stays_here: PhantomData<*const ()>,
}

impl Asked<'_> {
    /// How long ago the lead first read the clock, in ticks.
    ///
    /// ```
    /// # use windrow_sync::{Spin, join::{join, tree::{Asked, JoinTiming, OfferDecision, Tree}}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let ages = std::cell::RefCell::new(Vec::new());
    /// let ask = |asked: &Asked<'_>| {
    ///     ages.borrow_mut().push(asked.age());
    ///     OfferDecision::Later(0)
    /// };
    /// let recursion = || (0..3).for_each(|_| drop(join(|| 1, || 2, |_, _| unreachable!("inside a tree"))));
    /// Tree::new(2, timing).lead().0.grow(0, &ask, recursion);
    /// assert!(ages.borrow().len() > 1 && ages.borrow().is_sorted());
    /// ```
    pub fn age(&self) -> u64 {
        self.age
    }

    /// Makes seats for the other members. Call it when they are about to come, and not before, because it allocates.
    ///
    /// ```
    /// # use windrow_sync::{Spin, join::{join, tree::{Asked, JoinTiming, OfferDecision, Tree}}};
    /// # let timing = JoinTiming { look: 0, hungry: 0, alone: 0, idle: Spin::NONE, settle: Spin::NONE };
    /// let mut tree = Tree::new(2, timing);
    /// let (lead, tree) = tree.lead();
    /// let both = std::thread::scope(|scope| {
    ///     let ask = |asked: &Asked<'_>| {
    ///         asked.furnish();
    ///         scope.spawn(|| tree.serve());
    ///         OfferDecision::Opened
    ///     };
    ///     lead.grow(0, &ask, || join(|| 1, || 2, |_, _| unreachable!("inside a tree")))
    /// });
    /// assert_eq!(both, (1, 2));
    /// ```
    pub fn furnish(&self) {
        self.tree.furnish();
    }
}
