//! Trees: the members who work on one recursion, how they find work, sleep and end. The protocol of a frame is in
//! [`join`](super).
//!
//! # States of the tree's word
//! `turn:31 | over:1 || looking:16 | asleep:16`. `looking` and `asleep` count members without work; `turn` counts offers.
//!
//! # Protocol
//! 1. *Lead.* Whoever owns the tree takes the first seat. Every so often its joins look at the clock and ask the given function
//!    whether to let others in.
//! 2. *Serve.* Who comes takes the next seat, if there is one, and then frames out of any slot until the tree is over.
//! 3. *Look.* A member without work adds itself to `looking`, and looks at all slots for a bounded time. It also says that it is
//!    hungry: it marks the seats of others as `wanted` and makes their next join look up at once. These are hints, written
//!    without order; one that is lost is written again.
//! 4. *Sleep.* It moves from `looking` to `asleep` in one exchange, looks at all slots once more, and sleeps while `turn` is what it
//!    was in that exchange.
//! 5. *Announce.* Who has filled its slot adds to `turn`. If that exchange finds sleepers and nobody looking, it wakes one, unless it
//!    did so in vain a short while ago. Then it exchanges its `waiter` for nobody and rings for the member it finds there.
//! 6. *Doze.* A member that waits for something another one runs looks for a bounded time, reads its own bell, exchanges that
//!    one's `waiter` for itself, looks once more for the end and for an offer it may help with, and sleeps while its bell is what
//!    it was.
//! 7. *Over.* When the lead's work is done, or unwinds, it sets `over` and wakes all sleepers. No frame is in any slot then, for
//!    every join retrieves its own before it ends.
//!
//! # Why it holds
//! * *No lost wake.* Announce and sleep are exchanges on one word. If the sleep comes first, the announcer finds a sleeper and
//!   wakes it, or somebody who looks and will look again before falling asleep; if it wakes too early, `turn` has changed and the
//!   sleeper does not fall asleep. If the announce comes first, the sleeper's second look sees what is in the slot.
//!   In the same way an offer and a `waiter` that comes too late for it are exchanges on one word: one of them sees the other.
//! * *Nobody waits for a sleeper.* An offer that nobody takes is run by its owner. All that a missed wake can cost is time.
//! * *A seat has one holder.* The first one is the lead's, which borrows the tree exclusively to become it; the others are handed out
//!   by one counter and never twice. So what only the holder uses needs no atomic.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::join::guests::{Guest, Guests};
use crate::join::{End, Frame, Offered, seated};
use crate::machine;
use crate::primitives::{AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::word::{WideWord, Word};
use crate::{Pad, Spin};

/// How often members look up from their work, in [ticks](machine::tick). All decided elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Between two looks at the clock.
    pub look: u64,
    /// Between two offers of a member while somebody is hungry.
    pub hungry: u64,
    /// Between two offers of a member, or two wakes, while nobody is.
    pub alone: u64,
    /// How long a member without work looks for some before it sleeps.
    pub idle: Spin,
    /// How long a member looks at a frame that another one runs before it sleeps.
    pub settle: Spin,
}

/// Whether others are to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// They are, from now on.
    Opened,
    /// Not now: ask again when the tree is this many ticks old.
    Later(u64),
    /// Not in this tree.
    Never,
}

const ONE_ASLEEP: u64 = 1;
const ONE_LOOKING: u64 = 1 << 16;
const COUNT: u64 = 0xffff;
const OVER: u64 = 1 << 32;
const ONE_TURN: u64 = 1 << 33;

/// The tree's word, read.
#[derive(Clone, Copy)]
struct View(u64);

impl View {
    fn asleep(self) -> u64 {
        self.0 & COUNT
    }
    fn looking(self) -> u64 {
        (self.0 / ONE_LOOKING) & COUNT
    }
    fn is_over(self) -> bool {
        self.0 & OVER != 0
    }
    /// The half that sleepers compare.
    fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Most members of a tree.
const MOST_MEMBERS: usize = COUNT as usize;

/// A recursion and the members who work on it. See the [module page](self).
pub struct Tree {
    word: Pad<WideWord>,
    lead: Seat,
    /// The seats of the others, and how many of them were handed out.
    others: OnceLock<Box<[Seat]>>,
    handed_out: AtomicU32,
    guests: Mutex<Guests>,
    members: usize,
    rhythm: Rhythm,
}

/// A member's place.
pub(crate) struct Seat {
    own: Pad<Own>,
    shown: Pad<Shown>,
}

/// What only the holder of the seat uses, but for `fuel`.
struct Own {
    bottom: Frame,
    top: Cell<*const Frame>,
    split: Cell<*const Frame>,
    /// Pops until the holder looks up; at 0 it does so at every push and pop. Others set it to 0, without order.
    fuel: AtomicU32,
    /// What `fuel` was filled up to.
    filled: Cell<u32>,
    index: Cell<u32>,
    tree: Cell<*const Tree>,
    /// Ticks: the last look at the clock, offer, wake; and how long to wait until the next wake.
    looked: Cell<u64>,
    offered: Cell<u64>,
    woke: Cell<u64>,
    patience: Cell<u64>,
    /// The frame in the slot cost a wake.
    paid: Cell<bool>,
    /// Guests were called, and those who could come may be asleep.
    called: Cell<bool>,
    /// The lead's question, until it is answered.
    question: Cell<*const Question<'static>>,
}

/// What others see of a seat.
struct Shown {
    slot: AtomicPtr<Frame>,
    /// Somebody is hungry.
    wanted: AtomicU32,
    /// The member, plus 1, that sleeps because of something this one runs, and would rather help. (The last one, if several do.)
    waiter: AtomicU32,
    /// The invitation it came to without other work, or 0.
    guest_of: AtomicU64,
    bell: Word,
}

// SAFETY: `own` is used by the holder only, but for the atomic in it. The holder is one thread: a seat is handed out once.
unsafe impl Sync for Seat {}
// SAFETY: the pointers in it are used only while its holder is inside `lead` or `serve`, which borrow the tree.
unsafe impl Send for Seat {}

/// When the lead asks, and whom.
struct Question<'a> {
    ask: &'a dyn Fn(&Asked<'_>) -> Answer,
    began: Cell<u64>,
    at: Cell<u64>,
}

/// What became of a shared frame.
pub(crate) enum Taken {
    /// It is the owner's again, not begun.
    Back,
    /// Another member has run it.
    Done,
}

/// Something to do for a member that has nothing to do.
enum Work<'a> {
    Frame(Offered<'a>),
    Guest(Guest<'a>),
}

/// Fuel while a tree is not open: a member whose joins become slow must notice soon.
const CLOSED_FUEL: u32 = 256;
/// Fuel when it is: those who are hungry empty the tank.
const OPEN_FUEL: u32 = 4096;
const NO_QUESTIONS: u32 = i32::MAX as u32;

impl Seat {
    fn new() -> Self {
        Seat {
            own: Pad(Own {
                bottom: Frame::bottom(),
                top: Cell::new(std::ptr::null()),
                split: Cell::new(std::ptr::null()),
                fuel: AtomicU32::new(0),
                filled: Cell::new(0),
                index: Cell::new(0),
                tree: Cell::new(std::ptr::null()),
                looked: Cell::new(0),
                offered: Cell::new(0),
                woke: Cell::new(0),
                patience: Cell::new(0),
                paid: Cell::new(false),
                called: Cell::new(false),
                question: Cell::new(std::ptr::null()),
            }),
            shown: Pad(Shown {
                slot: AtomicPtr::new(std::ptr::null_mut()),
                wanted: AtomicU32::new(0),
                waiter: AtomicU32::new(0),
                guest_of: AtomicU64::new(0),
                bell: Word::new(0),
            }),
        }
    }

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

    /// Takes what is on top of `below` off.
    #[inline]
    pub(crate) fn pop(&self, below: *const Frame) {
        self.own.0.top.set(below);
    }

    /// Whether `frame` is the youngest shared one.
    #[inline]
    pub(crate) fn is_split(&self, frame: &Frame) -> bool {
        std::ptr::eq(self.own.0.split.get(), frame)
    }

    /// After a push: looks up if the fuel is used up. (Pushes burn none: one counter is a third of what a join costs.)
    #[inline]
    pub(crate) fn glance(&self) {
        // Relaxed: a count.
        if self.own.0.fuel.load(Ordering::Relaxed) as i32 <= 0 {
            self.look_up();
        }
    }

    /// After a pop: burns fuel, and looks up if it is used up.
    #[inline]
    pub(crate) fn burn(&self) {
        let own = &self.own.0;
        // Relaxed: a count. What others write in between is lost; they write again.
        let fuel = own.fuel.load(Ordering::Relaxed).wrapping_sub(1);
        // Relaxed: as above.
        own.fuel.store(fuel, Ordering::Relaxed);
        if fuel as i32 <= 0 {
            self.look_up();
        }
    }

    /// Makes the holder look up, and offer something. By others.
    fn want(&self) {
        let wanted = &self.shown.0.wanted;
        // Relaxed: a hint.
        if wanted.load(Ordering::Relaxed) == 0 {
            // Relaxed: a hint.
            wanted.store(1, Ordering::Relaxed);
            // Relaxed: a hint.
            self.own.0.fuel.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that guests were called by the holder.
    pub(crate) fn has_called(&self) {
        self.own.0.called.set(true);
    }

    pub(crate) fn be_guest_of(&self, invitation: u64) {
        // Relaxed: who takes what a guest offers sees what it did before, this included.
        self.shown.0.guest_of.store(invitation, Ordering::Relaxed);
    }

    pub(crate) fn is_guest_of(&self, invitation: u64) -> bool {
        // Relaxed: as above.
        self.shown.0.guest_of.load(Ordering::Relaxed) == invitation
    }

    /// The number of the member who holds it.
    pub(crate) fn index(&self) -> usize {
        self.own.0.index.get() as usize
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: set by `sit`, whose caller borrows the tree for as long as this thread holds the seat.
        unsafe { &*self.own.0.tree.get() }
    }

    /// Looks at the clock, and offers a frame if one is due.
    #[cold]
    #[inline(never)]
    fn look_up(&self) {
        let own = &self.own.0;
        let now = machine::tick();
        self.fill_up(now);
        if own.question.get().is_null() || self.ask(now) {
            if own.called.get() && self.is_due_to_wake(now) {
                own.called.set(false);
                self.tree().announce(self, now);
            }
            self.offer_if_due(now);
        }
    }

    /// Fuel for about `look` ticks, going by how long the last filling lasted.
    fn fill_up(&self, now: u64) {
        let own = &self.own.0;
        let lasted = now.saturating_sub(own.looked.replace(now));
        let look = self.tree().rhythm.look;
        let most = if own.question.get().is_null() { OPEN_FUEL } else { CLOSED_FUEL };
        let fuel = own.filled.get();
        let fuel = if lasted > 4 * look {
            0
        } else if lasted > look {
            fuel / 2
        } else if lasted < look / 2 {
            (fuel * 2).clamp(1, most)
        } else {
            fuel
        };
        own.filled.set(fuel);
        // Relaxed: a count.
        own.fuel.store(fuel, Ordering::Relaxed);
    }

    /// Asks whether to let others in, if it is time to. Whether they are.
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
        match (question.ask)(&Asked { tree: self.tree(), age, stays_here: PhantomData }) {
            Answer::Opened => {
                own.question.set(std::ptr::null());
                true
            }
            Answer::Later(at) => {
                question.at.set(at);
                false
            }
            Answer::Never => {
                question.at.set(u64::MAX);
                own.filled.set(NO_QUESTIONS);
                // Relaxed: a count.
                own.fuel.store(NO_QUESTIONS, Ordering::Relaxed);
                false
            }
        }
    }

    fn is_due_to_wake(&self, now: u64) -> bool {
        let own = &self.own.0;
        now.saturating_sub(own.woke.get()) >= own.patience.get().max(self.tree().rhythm.alone)
    }

    /// Offers the oldest unshared frame, if the last offer was taken and is long enough ago.
    fn offer_if_due(&self, now: u64) {
        let (own, shown, tree) = (&self.own.0, &self.shown.0, self.tree());
        // Relaxed: only this member fills the slot.
        if !shown.slot.load(Ordering::Relaxed).is_null() {
            // Nobody took it: those who could are asleep.
            if self.is_due_to_wake(now) {
                tree.announce(self, now);
            }
            return;
        }
        // Relaxed: a hint.
        let wanted = shown.wanted.load(Ordering::Relaxed) != 0;
        let due = if wanted { tree.rhythm.hungry } else { tree.rhythm.alone };
        let nothing = own.split.get() == own.top.get();
        if nothing || now.saturating_sub(own.offered.get()) < due {
            if wanted {
                // Whoever is hungry says so once. Look up soon: at the next push, if there is nothing to offer before that.
                let soon = if nothing { 0 } else { own.filled.get() / 4 };
                // Relaxed: a count.
                own.fuel.store(soon, Ordering::Relaxed);
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
        // Relaxed: a hint.
        shown.wanted.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Tree::take`; the frame is there, and all that this member has done before it
        // comes before what the taker does. (An exchange, though only this member fills the slot: one that comes too late
        // for the last offer and a plain store cannot be told apart by the models.)
        let empty = shown.slot.swap(frame.cast_mut(), Ordering::Release);
        debug_assert!(empty.is_null(), "an offer at a time");
        tree.announce(self, now);
        // Release: pairs with the Acquire in `Tree::doze`; who registers after this sees the offer.
        let waiter = shown.waiter.swap(0, Ordering::Release);
        if waiter != 0 {
            tree.ring(waiter as usize - 1);
        }
    }

    /// Runs what the holder has taken.
    fn run(&self, offer: Offered<'_>) {
        let own = &self.own.0;
        // Relaxed: only this member fills the slot.
        if own.top.get() == own.split.get() && self.shown.0.slot.load(Ordering::Relaxed).is_null() {
            offer.mark(self.index());
        }
        offer.run();
    }

    /// Takes back `frame`, the split, which has been popped, or waits until whoever took it is done; then `below` is the split.
    /// Meanwhile this thread runs what is part of the frame.
    #[cold]
    #[inline(never)]
    pub(crate) fn retrieve(&self, frame: &Frame, below: *const Frame) -> Taken {
        let (own, shown, tree) = (&self.own.0, &self.shown.0, self.tree());
        own.split.set(below);
        // Relaxed: if it comes out, nobody else has seen it.
        let taken = if shown.slot.swap(std::ptr::null_mut(), Ordering::Relaxed).is_null() {
            own.patience.set(0);
            match tree.wait_for(self, frame) {
                End::Done => Taken::Done,
                End::Returned => Taken::Back,
            }
        } else {
            if own.paid.get() {
                // Woken in vain. Twice the patience the next time, so that a recursion with little to share does not pay
                // for it again and again.
                own.patience.set(
                    own.patience
                        .get()
                        .saturating_mul(2)
                        .max(tree.rhythm.alone)
                        .min(tree.rhythm.alone.saturating_mul(64)),
                );
            }
            Taken::Back
        };
        // SAFETY: it is out of the slot, and whoever took it is through with it.
        unsafe { frame.retire() };
        taken
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Relaxed: for people.
        let view = View(self.word().load(Ordering::Relaxed));
        let (looking, asleep) = (view.looking(), view.asleep());
        let members = self.members;
        f.debug_struct("Tree").field("members", &members).field("looking", &looking).field("asleep", &asleep).finish()
    }
}

impl Tree {
    /// A tree for up to `members` members, the lead included.
    #[inline]
    pub fn new(members: usize, rhythm: Rhythm) -> Tree {
        Tree {
            word: Pad(WideWord::new(0)),
            lead: Seat::new(),
            others: OnceLock::new(),
            handed_out: AtomicU32::new(0),
            guests: Mutex::new(Guests::default()),
            members: members.min(MOST_MEMBERS),
            rhythm,
        }
    }

    fn word(&self) -> &AtomicU64 {
        self.word.0.value()
    }

    /// The right to lead, and the tree for others to [`serve`](Tree::serve).
    #[inline]
    pub fn lead(&mut self) -> (Lead<'_>, &Tree) {
        // Who served the last lead is gone, as this borrow is the only one.
        self.word = Pad(WideWord::new(0));
        self.others = OnceLock::new();
        self.handed_out = AtomicU32::new(0);
        let tree = &*self;
        (Lead { tree }, tree)
    }

    /// Works on what members of the tree offer, until it is over. Returns at once if there is no seat: see
    /// [`furnish`](Asked::furnish).
    ///
    /// # Panics
    /// Never with what a join throws: that goes to the caller of the join.
    pub fn serve(&self) {
        let Some(seat) = self.sit_down() else { return };
        seated(seat, || {
            while let Some(work) = self.idle(seat) {
                match work {
                    Work::Frame(offer) => seat.run(offer),
                    Work::Guest(guest) => guest.help(),
                }
            }
        });
    }

    /// Takes the next seat that nobody had.
    fn sit_down(&self) -> Option<&Seat> {
        let others = self.others.get()?;
        // Relaxed: each number comes out once, that is all.
        let index = self.handed_out.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(seat) = others.get(index) else {
            // Relaxed: as above. So that it does not overflow, however many come.
            self.handed_out.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        Some(self.sit(index + 1, seat))
    }

    /// Prepares a seat that was just handed out.
    fn sit<'a>(&self, index: usize, seat: &'a Seat) -> &'a Seat {
        let own = &seat.own.0;
        own.top.set(&own.bottom);
        own.split.set(&own.bottom);
        own.index.set(index as u32);
        own.tree.set(self);
        seat
    }

    fn seat(&self, index: usize) -> Option<&Seat> {
        match index.checked_sub(1) {
            None => Some(&self.lead),
            Some(other) => self.others.get()?.get(other),
        }
    }

    pub(crate) fn seats(&self) -> impl Iterator<Item = &Seat> {
        std::iter::once(&self.lead).chain(self.others.get().into_iter().flatten())
    }

    /// Takes what another member, number `owner`, offers in its `seat`.
    fn take(&self, owner: usize, seat: &Seat) -> Option<Offered<'_>> {
        let slot = &seat.shown.0.slot;
        // Relaxed: the exchange confirms it.
        if slot.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: pairs with the Release in `Seat::offer_if_due`; the frame is there, and so is what its owner did before.
        let frame = slot.swap(std::ptr::null_mut(), Ordering::Acquire);
        // SAFETY: it came out of the slot; this thread is not its owner, which would take it back by `retrieve`.
        (!frame.is_null()).then(|| unsafe { Offered::new(frame, self, owner) })
    }

    /// Wakes the member from its sleep over something it waits for.
    pub(crate) fn ring(&self, member: usize) {
        let Some(seat) = self.seat(member) else { return };
        // Release: pairs with the Acquire in `wait_for`; who reads this sees the state that made us ring.
        seat.shown.0.bell.value().fetch_add(1, Ordering::Release);
        seat.shown.0.bell.wake(1);
    }

    /// Waits until `frame`, which another member has taken, has ended.
    fn wait_for(&self, seat: &Seat, frame: &Frame) -> End {
        let end = Cell::new(None);
        let ended = || {
            end.set(frame.end());
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

    /// Waits until `done` says so, and runs `help` meanwhile, which says whether it has helped. Who makes it so rings.
    pub(crate) fn wait_until(&self, seat: &Seat, done: &dyn Fn() -> bool, help: impl Fn() -> bool) {
        loop {
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

    /// Runs a part of `frame` that its runner offers, if there is one. Whether there was.
    fn help_with(&self, seat: &Seat, frame: &Frame) -> bool {
        let Some(runner) = frame.runner() else { return false };
        self.seat(runner).is_some_and(|other| self.help(seat, runner, other, || frame.end().is_none()))
    }

    /// Runs what `other`, the seat of member `index`, offers, if that `is_part` of what is waited for: asked after the taking.
    pub(crate) fn help(&self, seat: &Seat, index: usize, other: &Seat, is_part: impl Fn() -> bool) -> bool {
        let offer = self.take(index, other);
        if offer.is_none() {
            other.want();
        }
        // What is no part goes back.
        let part = offer.filter(|_| is_part());
        let helped = part.is_some();
        part.into_iter().for_each(|part| seat.run(part));
        helped
    }

    /// Sleeps until the bell rings, unless `done` or there is something to help with. The members in `helpable` ring when they offer
    /// something. May return for no reason.
    fn doze<'a>(
        &self,
        seat: &Seat,
        done: &dyn Fn() -> bool,
        helpable: impl IntoIterator<Item = &'a Seat>,
        help: impl Fn() -> bool,
    ) {
        let bell = &seat.shown.0.bell;
        // Acquire: pairs with the Release in `ring`; `done` below sees what the ring was for.
        let seen = bell.value().load(Ordering::Acquire);
        if done() {
            return;
        }
        for other in helpable {
            // Acquire: pairs with the Release in `Seat::offer_if_due`; `help` below sees an offer that did not find us here.
            other.shown.0.waiter.swap(seat.index() as u32 + 1, Ordering::Acquire);
        }
        if !help() {
            bell.wait(seen);
        }
    }

    /// Says that there is an offer, and wakes a sleeper if nobody else will find it.
    fn announce(&self, seat: &Seat, now: u64) {
        // Release: pairs with the Acquire in `idle`; who falls asleep after this sees the offer.
        let before = View(self.word().fetch_add(ONE_TURN, Ordering::Release));
        let own = &seat.own.0;
        if before.looking() == 0 && before.asleep() > 0 && now.saturating_sub(own.woke.get()) >= own.patience.get() {
            own.woke.set(now);
            own.paid.set(true);
            self.word.0.wake(1);
        }
    }

    /// The same for a call of guests, from any thread.
    pub(crate) fn announce_call(&self) {
        // Release: pairs with the Acquire in `idle`, as in `announce`.
        let before = View(self.word().fetch_add(ONE_TURN, Ordering::Release));
        if before.looking() == 0 && before.asleep() > 0 {
            self.word.0.wake(1);
        }
    }

    /// The list of invitations, locked.
    pub(crate) fn guests(&self) -> MutexGuard<'_, Guests> {
        lock(&self.guests)
    }

    /// Looks for work, and sleeps if there is none. `None` when the tree is over.
    fn idle<'a>(&'a self, seat: &'a Seat) -> Option<Work<'a>> {
        let mut next = seat.index();
        // The turn at which we looked for invitations: they come with a turn.
        let mut turn = None;
        // Relaxed: a count; who announces and finds it leaves the offer to us, and we look again before we sleep.
        self.word().fetch_add(ONE_LOOKING, Ordering::Relaxed);
        loop {
            let (mut over, mut found) = (false, None);
            self.rhythm.idle.until(|| {
                // Relaxed: it carries nothing.
                let now = View(self.word().load(Ordering::Relaxed));
                over = now.is_over();
                if !over {
                    let called = turn.replace(now.upper()) != Some(now.upper());
                    found = self.find(seat, called);
                }
                if !over && found.is_none() {
                    next = (next + 1) % self.members;
                    self.seat(next).into_iter().for_each(Seat::want);
                }
                over || found.is_some()
            });
            if over || found.is_some() {
                // Relaxed: a count.
                self.word().fetch_sub(ONE_LOOKING, Ordering::Relaxed);
                return found;
            }
            // Acquire: pairs with the Release in `announce`; we see the offer of whoever announced before.
            let before = View(self.word().fetch_add(ONE_ASLEEP.wrapping_sub(ONE_LOOKING), Ordering::Acquire));
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

    /// Takes an offer, whosever it is: the seats after one's own first. Or, if they may have `called`, enters an invitation.
    fn find<'a>(&'a self, seat: &'a Seat, called: bool) -> Option<Work<'a>> {
        let me = seat.index();
        let others = self.seats().enumerate().skip(me + 1).chain(self.seats().enumerate().take(me));
        let frame = others.into_iter().find_map(|(index, other)| Some(Work::Frame(self.take(index, other)?)));
        frame.or_else(|| if called { Guest::come(self, seat).map(Work::Guest) } else { None })
    }

    /// Ends the tree.
    fn end(&self) {
        if self.others.get().is_none() {
            // Nobody came, and nobody can any more: only the lead lets others in.
            return;
        }
        // Relaxed: OVER carries nothing; sleepers look at the word itself.
        let before = View(self.word().fetch_or(OVER, Ordering::Relaxed));
        if before.asleep() > 0 {
            self.word.0.wake(u32::MAX);
        }
    }
}

/// The right to lead a tree, once.
#[derive(Debug)]
pub struct Lead<'t> {
    tree: &'t Tree,
}

impl Lead<'_> {
    /// Runs `f`; joins in it belong to the tree. After `patience` of them, and every so often then, they ask `ask` whether to let
    /// others in.
    ///
    /// The tree is over when this returns: members leave [`serve`](Tree::serve).
    #[inline]
    pub fn grow<R>(self, patience: u32, ask: &dyn Fn(&Asked<'_>) -> Answer, f: impl FnOnce() -> R) -> R {
        struct Over<'a>(&'a Tree);
        impl Drop for Over<'_> {
            #[inline]
            fn drop(&mut self) {
                self.0.lead.own.0.question.set(std::ptr::null());
                self.0.end();
            }
        }
        let seat = self.tree.sit(0, &self.tree.lead);
        let question = Question { ask, began: Cell::new(0), at: Cell::new(0) };
        // SAFETY: only the lifetime changes. Used by this thread alone, until `over` takes it back.
        let erased =
            unsafe { std::mem::transmute::<*const Question<'_>, *const Question<'static>>(&raw const question) };
        seat.own.0.question.set(erased);
        // Relaxed: a count.
        seat.own.0.fuel.store(patience, Ordering::Relaxed);
        let _over = Over(self.tree);
        seated(seat, f)
    }
}

/// A question whether to let others in.
#[derive(Debug)]
pub struct Asked<'a> {
    tree: &'a Tree,
    age: u64,
    /// Only the lead lets others in.
    stays_here: PhantomData<*const ()>,
}

impl Asked<'_> {
    /// How long ago the lead first looked at the clock, in ticks.
    pub fn age(&self) -> u64 {
        self.age
    }

    /// Makes room for others. To be called before they come, and only then, as it allocates.
    pub fn furnish(&self) {
        self.tree.others.get_or_init(|| (1..self.tree.members).map(|_| Seat::new()).collect());
    }
}
