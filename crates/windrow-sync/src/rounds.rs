//! Rounds: a barrier that owns access to data, and lends it out until the next round.
//!
//! # Glossary
//! * *Team*: the members of one barrier. *Member*: a thread or task that has taken a slot of the team.
//! * *Slot* (type [`MemberSlot`]): a member's place in the team; its number is the member's number. *Width*: the number of members.
//! * *Form*: to end the joining; from then on the width is fixed.
//! * *Arrive*: to report that a member has finished with what it was lent. *Round*: one turn of the barrier: all members arrive.
//! * *Leader*: the last member to arrive in a round. It has the data to itself until it has written the messages.
//! * *Message* (type `Letter`): what the leader writes for one member: a copy of what is shared, and the part that is this
//!   member's alone.
//! * *Contribution* (`bring`): a value that a member leaves for the next leader.
//! * *Tag*: the `TypeId` of a message's types. *Mailbox*: a member's word and message.
//! * *Family*: a type with one lifetime left open (see [`Family`]). *Lend*: to give out data until the borrower arrives again.
//!
//! In a round every member arrives. The leader decides how many members the round gets, and writes each of them a message. What
//! is lent stays valid until its borrower arrives again.
//!
//! # States
//! * `seats` (one word): how many members have joined, and whether the team has *formed*; from then on the number is the width.
//! * `arrived` (one word, or one for every 16 slots and one for these groups): how many have arrived for the next round.
//! * A *mailbox* for each slot: `round:29 | panicked:1 | left:1 | sleeps:1` beside its message. The round counts messages written
//!   to this slot by others.
//!
//! # Protocol
//! 1. *Form.* Members join while the team forms: a compare-exchange adds one. The caller forms the team: one fetch-or sets
//!    `formed`, and returns how many have joined. No member joins later, and no member waits for a slot that is not taken. Race
//!    prevented: a thread joins a team whose width is already in use.
//! 2. *Arrive.* A member reads the round in its mailbox and adds one to `arrived` (in its group of 16; the member that completes
//!    a group adds one to the word of groups). The member that completes it leads. The others wait until the round in their
//!    mailboxes changes. Race prevented: two leaders, or none.
//! 3. *Lead.* No other member runs. The leader splits the data and writes the messages of the members that take part. It sets
//!    `arrived` to the number of those that do not: they stay where they are, for they have arrived for the next round already.
//!    It marks the mailboxes of those that do as `coming` (if that is more than one besides itself), and then adds one to the
//!    round in each of them. If it finds `sleeps` there, it wakes the owner. In between, a leader may run any number of rounds
//!    alone: no other thread is concerned. Race prevented: a member reads a message before it is complete.
//! 4. *Wait.* A member spins for a bounded time. If it knows of a teammate on its CPU, it yields. Then it sets `sleeps` in its
//!    mailbox, checks again, and parks while the word is that. Awake, it clears `sleeps`. (A task puts its waker beside the word
//!    before it sets `sleeps`.) Race prevented: the message comes while the member parks.
//! 5. *Leave.* A member that goes without the others (returns, panics) sets `left` or `panicked` in all other mailboxes, and
//!    wakes parked members. A member that finds such a flag, and no round that has come or is `coming`, gets an error; so do its
//!    later arrivals. Race prevented: a member waits for one that will not arrive, or misses a round that took place.
//!
//! # Why it holds
//! * *Exclusive.* The leader is the last to arrive. A member arrives by `&mut self`, and what it was lent borrows the slot. So
//!   all that was lent is dead by then. Members that do not take part in a round have arrived and wait.
//! * *No foreign borrow.* The leader's closure is `for<'x> FnOnce(&'x mut T, ..) -> Of<'x>`, and families are `'static`. A value
//!   of `Of<'x>` for *every* `'x` can come from the data or from statics, never from the leader's own stack. Nor can a member put
//!   a value of a shorter lifetime into what it shares with slower ones ([`Family`]: what is lent can be shortened). Slots are
//!   invariant in `T`, so all members agree on its lifetimes.
//! * *No part outlives its round.* A part that no member took may read the data when it is dropped. So its owner drops it before
//!   it arrives again. A leader whose `split` panics drops the parts that it has dealt. What is left when no member is goes
//!   before the data.
//! * *Same types.* Members may stand at different calls. A message bears the tag of its families; a member that expects others
//!   breaks the team instead of reading the message.
//! * *Ordering.* Arrivals release what members did; the leader's own, the last, acquires all of it. Additions to one word form a
//!   chain, and the member that completes a group passes the group's on. The addition to the round releases the message and what
//!   it lends; the wait acquires it. A plain store of `arrived` is enough: the next member to add to it has seen its own round
//!   change.
//! * *No lost wakeup.* `sleeps` and the round are in one word. If `sleeps` comes first, the leader's addition finds it and wakes.
//!   If the addition comes first, the second check sees it, or the word is not what the parking member compares.
//! * *A round that took place counts*, even if a member that got its message sooner has left already. The leader *adds* to
//!   mailboxes, so it does not erase a `left` that such a member has set in a later mailbox. A member that finds this `left`
//!   finds `coming`, too: the leader set it before the other could leave. (An earlier version lacked `coming`: the last round of
//!   a team of four came to an error in one member of a hundred.)
//! * *No member leads a broken team.* The member that breaks it does not arrive again, so `arrived` is never complete. (A task
//!   may leave while it waits, that is after its arrival. Then one more round may take place that the task knows nothing of: its
//!   message is dropped unread. No later arrival takes its place.)
//! * *The round may wrap.* It has 29 bits, and a member waits for the next one only.
//!
//! # Timeline: a message against its reader's park
//! ```text
//! member (waits)                            leader
//! reads its word: round r; spins
//!                                           writes the message, round + 1; finds no sleeps
//! sets sleeps
//! checks: round r + 1, clears sleeps, reads the message
//!
//! member (waits)                            leader
//! sets sleeps: the word is w
//! checks: still round r
//!                                           writes the message, round + 1; finds sleeps
//!                                           wakes no thread yet
//! parks while the word is w: returns at once
//! ```
//!
//! Sarah El Kazdadi had the idea of a barrier that owns the data and hands out parts (`syncthreads`). There, what the leader
//! lends is bound to a lifetime that its own locals can have; here it is not.

use std::task::Waker;

use crate::machine;
use crate::primitives::{AtomicU32, GROUP, Mutex, Ordering, UnsafeCell, lock};
use crate::relaxed::RelaxedU64;
use crate::word::Word;
use crate::{Pad, Spin};

mod family;
mod letter;
mod seat;
mod task;

pub use family::{Family, GridOf, GridRefOf, Lend, Lent, Mut, Own, Ref};
pub use seat::{Deal, Follow, Given, LeaderGuard, MemberSlot, Rounds, Sent, Turn};
pub use task::{Finish, TaskRounds, TaskSeat, Waited};

use letter::{Brought, Letter};

/// Why no further round can take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A member has left the team.
    Left,
    /// A member has panicked.
    Panicked,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ended::Left => "a member has left the team: no further round can take place",
            Ended::Panicked => "a member of the team has panicked: no further round can take place",
        })
    }
}

impl std::error::Error for Ended {}

/// The maximum number of members of a team.
pub const MOST_SEATS: usize = 1 << 12;

const SLEEPS: u32 = 1;
const LEFT: u32 = 1 << 1;
const PANICKED: u32 = 1 << 2;
const ONE_ROUND: u32 = 1 << 3;

const FORMED: u32 = 1 << 31;
const AWAITED: u32 = 1 << 30;
const SEATED: u32 = AWAITED - 1;

/// Word and message share cache lines: one miss brings both.
#[repr(C, align(128))]
struct Mailbox {
    word: Word,
    /// The leader is about to add to the round.
    coming: AtomicU32,
    letter: UnsafeCell<Letter>,
    brought: UnsafeCell<Brought>,
    waker: Mutex<Option<Waker>>,
    /// The CPU of its owner when it last read that, plus one.
    place: RelaxedU64,
    /// The CPU, plus one, on which another member has found itself beside the owner; the owner had better move.
    give_way: RelaxedU64,
}

impl Mailbox {
    fn new() -> Self {
        Self {
            word: Word::new(0),
            coming: AtomicU32::new(0),
            letter: UnsafeCell::new(Letter::new()),
            brought: UnsafeCell::new(Brought::new()),
            waker: Mutex::new(None),
            place: RelaxedU64::new(0),
            give_way: RelaxedU64::new(0),
        }
    }

    /// Wakes the owner if it is parked; `before` is what the caller found in the word. Returns whether the owner was parked.
    #[inline]
    fn wake(&self, before: u32) -> bool {
        let sleeps = before & SLEEPS != 0;
        if sleeps {
            self.wake_owner();
        }
        sleeps
    }

    #[cold]
    fn wake_owner(&self) {
        let waker = lock(&self.waker).take();
        match waker {
            Some(waker) => waker.wake(),
            None => self.word.wake(1),
        }
    }
}

fn ended(word: u32) -> Option<Ended> {
    match word {
        _ if word & PANICKED != 0 => Some(Ended::Panicked),
        _ if word & LEFT != 0 => Some(Ended::Left),
        _ => None,
    }
}

/// Whether a member shares its CPU with others of its team. To spin would then keep them from running.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    shares: bool,
    /// It has published its CPU.
    told: bool,
    /// It has just woken a member.
    woke: bool,
}

/// The words of a team: everything but the data. See the [module page](self).
struct Core {
    arrived: Pad<AtomicU32>,
    /// Arrivals in each group of slots, if there is more than one.
    groups: Box<[Pad<AtomicU32>]>,
    boxes: Box<[Mailbox]>,
    seats: Word,
    /// A member has told the others that no round will take place any more.
    over: AtomicU32,
}

// SAFETY: a message is written by the leader alone, while its owner waits, and read by its owner outside of that time. A
// contribution is written by its owner before it arrives and read by the leader. The words order all of it (module page). The
// values are `Send`, as `Family::Of` and `MemberSlot::bring` demand.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}

impl Core {
    fn new(most: usize) -> Self {
        assert!((1..=MOST_SEATS).contains(&most), "a team has 1 to {MOST_SEATS} seats, not {most}");
        let groups = if most > GROUP { most.div_ceil(GROUP) } else { 0 };
        Core {
            arrived: Pad(AtomicU32::new(0)),
            groups: (0..groups).map(|_| Pad(AtomicU32::new(0))).collect(),
            boxes: (0..most).map(|_| Mailbox::new()).collect(),
            seats: Word::new(0),
            over: AtomicU32::new(0),
        }
    }

    fn sole() -> Self {
        Core { seats: Word::new(FORMED | 1), ..Core::new(1) }
    }

    /// Takes the next slot, while the team forms.
    fn sit(&self) -> Option<usize> {
        // Relaxed: the compare-exchange below validates it.
        let mut seats = self.seats.value().load(Ordering::Relaxed);
        loop {
            let taken = seats & SEATED;
            if seats & FORMED != 0 || taken as usize == self.boxes.len() {
                return None;
            }
            // Relaxed: a number; the team's memory reached this thread in another way.
            match self.seats.value().compare_exchange_weak(seats, seats + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(taken as usize),
                Err(now) => seats = now,
            }
        }
    }

    /// Ends the forming; returns the width.
    fn form(&self) -> usize {
        // Relaxed: a number, as above.
        let before = self.seats.value().fetch_or(FORMED, Ordering::Relaxed);
        if before & AWAITED != 0 {
            self.seats.wake(u32::MAX);
        }
        (before & SEATED) as usize
    }

    fn seated(&self) -> u32 {
        // Relaxed: a number, as above.
        self.seats.value().load(Ordering::Relaxed)
    }

    /// Waits until the team has formed; returns the width.
    fn formed(&self, spin: Spin) -> usize {
        if !spin.until(|| self.seated() & FORMED != 0) {
            // Relaxed: a number, as above.
            let mut seats = self.seats.value().fetch_or(AWAITED, Ordering::Relaxed) | AWAITED;
            while seats & FORMED == 0 {
                self.seats.wait(seats);
                seats = self.seated();
            }
        }
        (self.seated() & SEATED) as usize
    }

    /// Counts the arrival of `seat`; returns whether it is the last.
    #[inline]
    fn arrive(&self, seat: usize, width: usize) -> bool {
        if width <= GROUP {
            // Release: pairs with the Acquire here of the last to arrive, which sees what the others did.
            // Acquire: pairs with the Release here of all before.
            return self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width;
        }
        let group = seat / GROUP;
        // Release: pairs with the Acquire here of the last of the group, which passes it on.
        // Acquire: pairs with the Release here of those before.
        if self.groups[group].0.fetch_add(1, Ordering::AcqRel) as usize + 1 < group_size(group, width) {
            return false;
        }
        // Release: pairs with the Acquire here of the last group, whose last member sees what all did.
        // Acquire: pairs with the Release here of the groups before.
        self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width.div_ceil(GROUP)
    }

    /// Prepares the next arrivals: all of `width` slots, except those that take no part in a round of `members` that `leader`
    /// leads.
    #[inline]
    fn expect(&self, leader: usize, members: usize, width: usize) {
        if width <= GROUP {
            // Relaxed: a member that adds to it has seen its own round change.
            return self.arrived.0.store((width - members) as u32, Ordering::Relaxed);
        }
        let mut complete = 0;
        for (group, arrived) in self.groups[..width.div_ceil(GROUP)].iter().enumerate() {
            let size = group_size(group, width);
            let seats = group * GROUP..group * GROUP + size;
            let part = seats.clone().filter(|&seat| takes_part(seat, leader, members)).count();
            complete += u32::from(part == 0);
            // Relaxed: as above.
            arrived.0.store(if part == 0 { 0 } else { (size - part) as u32 }, Ordering::Relaxed);
        }
        // Relaxed: as above.
        self.arrived.0.store(complete, Ordering::Relaxed);
    }

    /// What `seat` finds in its mailbox when it is about to arrive: the round it knows, or that there will be none.
    #[inline]
    fn begin(&self, seat: usize) -> Result<u32, Ended> {
        // Relaxed: the round is the one that this thread has seen, and the flags publish no data.
        let before = self.boxes[seat].word.value().load(Ordering::Relaxed);
        match ended(before) {
            Some(why) => Err(why),
            None => Ok(before),
        }
    }

    /// Whether there is news for `seat`, which found `before` when it arrived: a round, or that none will come.
    #[inline]
    fn news(&self, seat: usize, before: u32) -> Option<Result<(), Ended>> {
        let mailbox = &self.boxes[seat];
        // Acquire: pairs with the Release in `deliver`; the message is there, and what it lends. Also with the Release in `end`:
        // a round that came before the leave is seen to be coming.
        let now = mailbox.word.value().load(Ordering::Acquire);
        if (now ^ before) / ONE_ROUND != 0 {
            // Relaxed: the leader sets it again after this member's next arrival.
            mailbox.coming.store(0, Ordering::Relaxed);
            return Some(Ok(()));
        }
        let why = ended(now)?;
        // Relaxed: see above.
        (mailbox.coming.load(Ordering::Relaxed) == 0).then_some(Err(why))
    }

    /// Blocks this thread until there is news.
    #[inline]
    fn wait(&self, seat: usize, before: u32, spin: Spin, near: &mut Near) -> Result<(), Ended> {
        let mut news = None;
        let mut look = || {
            news = self.news(seat, before);
            news.is_some()
        };
        let busy = match std::mem::take(&mut near.woke) {
            // A member that was woken will arrive soon; a yield meanwhile may cost a time slice.
            true if spin.busy > 0 => spin.busy.saturating_add(spin.yielding),
            _ if near.shares => 0,
            _ => spin.busy,
        };
        let at_once = Spin { busy, yielding: 0 };
        if !at_once.until(&mut look) {
            // A yield helps only a thread that waits for this CPU; if that is no teammate, the yield may cost a time slice.
            let yields = spin.busy == 0 || self.look_around(seat, near);
            let (busy, yielding) = if yields { (0, spin.yielding) } else { (spin.yielding, 0) };
            Spin { busy, yielding }.until(look);
        }
        news.unwrap_or_else(|| self.sleep(seat, before))
    }

    /// Publishes this member's CPU. Returns whether a teammate is known to be on it (true if the CPU is unknown).
    #[cold]
    fn look_around(&self, seat: usize, near: &mut Near) -> bool {
        let Some(cpu) = machine::cpu() else { return true };
        let cpu = u64::from(cpu) + 1;
        self.boxes[seat].place.set(cpu);
        near.told = true;
        let group = seat / GROUP * GROUP;
        near.shares = false;
        for other in (group..self.boxes.len().min(group + GROUP)).filter(|other| *other != seat) {
            if self.boxes[other].place.get() == cpu {
                near.shares = true;
                self.boxes[seat.max(other)].give_way.set(cpu);
            }
        }
        near.shares
    }

    #[cold]
    fn sleep(&self, seat: usize, before: u32) -> Result<(), Ended> {
        loop {
            let seen = self.announce_sleep(seat);
            if let Some(news) = self.news(seat, before) {
                self.awake(seat);
                return news;
            }
            self.boxes[seat].word.wait(seen);
        }
    }

    /// Sets `sleeps`; returns the word with it.
    fn announce_sleep(&self, seat: usize) -> u32 {
        // Relaxed: the check for news that follows does the ordering.
        self.boxes[seat].word.value().fetch_or(SLEEPS, Ordering::Relaxed) | SLEEPS
    }

    /// Clears `sleeps`.
    fn awake(&self, seat: usize) {
        // Relaxed: only the owner sets it.
        self.boxes[seat].word.value().fetch_and(!SLEEPS, Ordering::Relaxed);
    }

    /// Marks that `seat` will get a message, even if another member leaves meanwhile.
    #[inline]
    fn announce(&self, seat: usize) {
        // Relaxed: the Release in `deliver`, to any member that could leave, comes after it.
        self.boxes[seat].coming.store(1, Ordering::Relaxed);
    }

    /// Tells `seat` that its message is there; returns whether its owner had to be woken.
    #[inline]
    fn deliver(&self, seat: usize) -> bool {
        let mailbox = &self.boxes[seat];
        // Release: pairs with the Acquire in `news`; publishes the message and what it lends.
        mailbox.wake(mailbox.word.value().fetch_add(ONE_ROUND, Ordering::Release))
    }

    /// Tells all others that no round will take place any more.
    fn end(&self, from: usize, why: Ended) {
        // Relaxed: a member that comes second has nothing to add.
        if self.over.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let flag = match why {
            Ended::Left => LEFT,
            Ended::Panicked => PANICKED,
        };
        for_all((0..self.boxes.len()).filter(|seat| *seat != from), |seat| {
            let mailbox = &self.boxes[seat];
            // Release: pairs with the Acquire in `news`; a member that sees this flag sees that the round before it is coming.
            mailbox.wake(mailbox.word.value().fetch_or(flag, Ordering::Release));
        });
    }

    /// Drops what `seat` was lent and has not taken.
    ///
    /// # Safety
    /// The caller may use this message: it is its owner, or leads, or there are no members any more.
    unsafe fn clear(&self, seat: usize) {
        self.boxes[seat].letter.with_mut(|letter| {
            // SAFETY: promised by the caller.
            unsafe { &mut *letter }.clear();
        });
    }

    /// Drops what all slots were lent and have not taken: after this nothing here borrows the data.
    ///
    /// # Safety
    /// No member is left.
    unsafe fn clear_all(&self) {
        for seat in 0..self.boxes.len() {
            // SAFETY: promised by the caller.
            unsafe { self.clear(seat) };
        }
    }
}

/// Runs `tell` for each of the slots, even if the waker of a task panics at one of them: no other member may wait for ever.
#[inline]
fn for_all(seats: impl Iterator<Item = usize>, tell: impl FnMut(usize)) {
    struct Rest<I: Iterator<Item = usize>, F: FnMut(usize)>(I, F);
    impl<I: Iterator<Item = usize>, F: FnMut(usize)> Drop for Rest<I, F> {
        fn drop(&mut self) {
            self.0.by_ref().for_each(&mut self.1);
        }
    }
    let mut rest = Rest(seats, tell);
    rest.0.by_ref().for_each(&mut rest.1);
    std::mem::forget(rest);
}

fn group_size(group: usize, width: usize) -> usize {
    (width - group * GROUP).min(GROUP)
}

/// Whether `seat` is one of the `members` of a round: the first ones, and the leader in place of the last.
#[inline]
fn takes_part(seat: usize, leader: usize, members: usize) -> bool {
    seat == leader || seat < members - usize::from(leader >= members)
}

/// The slot of member `at` of a round of `members`.
#[inline]
fn seat_of(at: usize, leader: usize, members: usize) -> usize {
    if at + 1 == members && leader >= members { leader } else { at }
}
