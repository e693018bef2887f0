//! Rounds: a barrier that owns access to data, and lends it out until the next round.
//!
//! A team has *seats*. In a round every seat *arrives*; the last to arrive is the *leader* of this round. It has the data to itself,
//! decides how many members the round gets, and writes each of them a *letter*: a copy of what is shared, and the part that is
//! this member's alone. What is lent stays valid until its borrower arrives again.
//!
//! # States
//! `seats` (one word): how many sit, and whether the team has *formed*; from then on the number is the width.
//! `arrived` (one word, or one for every 16 seats and one for these): how many have arrived for the next round.
//! A *mailbox* for each seat: `round:29 | panicked:1 | left:1 | sleeps:1` beside its letter. The round counts letters written
//! to this seat by others.
//!
//! # Protocol
//! 1. *Form.* Members sit down while the team forms: an exchange adds one. The caller forms it: one exchange sets `formed`, and
//!    reads how many sit. Nobody sits down later, nobody is waited for who did not sit.
//! 2. *Arrive.* A member reads the round in its mailbox and adds one to `arrived` (in its group of 16; who completes a group adds
//!    one to the word of groups). Who makes it complete leads; the others wait until the round in their mailboxes changes.
//! 3. *Lead.* Nobody else runs. The leader splits the data, writes the letters of those who take part, sets `arrived` to the number of
//!    those who do not (they stay where they are: they have arrived for the next round already), marks the mailboxes of those who do
//!    as `coming`, and then adds one to the round in each of them. If it finds `sleeps` there it wakes the owner. A leader may run any number of rounds alone in between: no
//!    other thread is concerned.
//! 4. *Wait.* A member looks for a while (not if it has met another one that waits on the same CPU), then sets `sleeps` in its mailbox, looks again, and sleeps while the word is that; awake it
//!    takes `sleeps` back. (A task puts its waker beside the word before it sets `sleeps`.)
//! 5. *Leave.* Who goes without the others (returns, panics) sets `left` or `panicked` in all other mailboxes, and wakes sleepers. Who finds
//!    that, and no round that has come or is `coming`, gets an error; and so at its next arrival.
//!
//! # Why it holds
//! * *Exclusive.* The leader is the last to arrive. A seat arrives by `&mut self`, and what it was lent borrows the seat, so all that
//!   was lent is dead by then. Members who do not take part in a round have arrived and wait.
//! * *Nothing else slips in.* The leader's closure is `for<'x> FnOnce(&'x mut T, ..) -> Of<'x>`, and families are `'static`: a value of
//!   `Of<'x>` for *every* `'x` can come from the data or from statics, never from the leader's own stack. Nor can a member put anything
//!   of its own into what it shares with slower ones ([`Family`]: what is lent can be shortened). Seats are invariant in `T`, so all
//!   members agree on its lifetimes.
//! * *Nothing is left behind.* A part that nobody took may look at the data when it is dropped. So its owner drops it before it arrives
//!   again, a leader whose `split` panics drops what it has dealt, and what is left when no seat is goes before the data does.
//! * *Same types.* Members may stand at different calls. A letter bears the `TypeId` of its families; who expects others breaks
//!   the team instead of reading it.
//! * *Ordering.* Arrivals release what members did and the leader's, the last, acquires all of it: additions to one word form a chain, and
//!   who completes a group passes the group's on. The addition to the round releases the letter and what it lends, the wait
//!   acquires it. That `arrived` is set plainly is enough, since who adds to it next has seen its own round change.
//! * *No lost wake.* `sleeps` and the round are in one word. If `sleeps` comes first the leader's addition finds it and wakes; if the
//!   addition comes first the second look sees it, or the word is not what the sleeper compares.
//! * *A round that took place counts*, even if a member that got its letter sooner has left already. The leader *adds* to mailboxes, so it
//!   does not wipe out `left` that such a member has set in one that comes later; and whoever finds `left` set by it finds `coming`
//!   too, which the leader has set before that member could leave. (An earlier version lacked `coming`: the last round of a team
//!   of four came to an error in one member of a hundred.)
//! * *Nobody leads a team that is broken.* Who breaks it does not arrive again, so `arrived` is never complete. (A task may leave while it
//!   waits, that is after its arrival. Then one more round may take place, of which it knows nothing: its letter is dropped
//!   unread. It is never arrived for again.)
//! * The round has 29 bits. A member waits for the next one only, so that it wraps does not matter.
//!
//! The idea of a barrier that owns the data and hands out parts is Sarah El Kazdadi's (`syncthreads`); there, what the leader lends is
//! bound to a lifetime that its own locals can have, here it is not.

use std::task::Waker;

use crate::hint::Hint;
use crate::machine;
use crate::primitives::{AtomicU32, GROUP, Mutex, Ordering, UnsafeCell, lock};
use crate::word::Word;
use crate::{Pad, Spin};

mod family;
mod letter;
mod seat;
mod task;

pub use family::{Family, GridOf, GridRefOf, Lend, Lent, Mut, Own, Ref};
pub use seat::{Deal, Follow, Given, Lead, Rounds, Seat, Turn};
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

/// Most seats of a team.
pub const MOST_SEATS: usize = 1 << 12;

const SLEEPS: u32 = 1;
const LEFT: u32 = 1 << 1;
const PANICKED: u32 = 1 << 2;
const ONE_ROUND: u32 = 1 << 3;

const FORMED: u32 = 1 << 31;
const AWAITED: u32 = 1 << 30;
const SEATED: u32 = AWAITED - 1;

/// Word and letter share cache lines: who sees the round change has the letter.
#[repr(C, align(128))]
struct Mailbox {
    word: Word,
    /// The leader is about to add to the round.
    coming: AtomicU32,
    letter: UnsafeCell<Letter>,
    brought: UnsafeCell<Brought>,
    waker: Mutex<Option<Waker>>,
    /// The CPU on which its owner waited when it had to wait long, plus one.
    cpu: Hint,
}

impl Mailbox {
    fn new() -> Self {
        Self {
            word: Word::new(0),
            coming: AtomicU32::new(0),
            letter: UnsafeCell::new(Letter::new()),
            brought: UnsafeCell::new(Brought::new()),
            waker: Mutex::new(None),
            cpu: Hint::new(0),
        }
    }

    /// Wakes whoever sleeps at this mailbox; `before` is what the waker found in the word. Whether there is somebody.
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

/// Whether a member has to share its CPU with others of its team. To look at full speed is to keep them from coming then.
#[derive(Clone, Copy, Debug, Default)]
struct Near {
    shares: bool,
    /// One of the others has a lower number: this one had better go elsewhere.
    gives_way: bool,
    /// It has said where it is.
    told: bool,
    /// It has just woken somebody.
    woke: bool,
}

/// The words of a team: everything but the data. See the [module page](self).
struct Core {
    arrived: Pad<AtomicU32>,
    /// Arrivals in each group of seats, if there is more than one.
    groups: Box<[Pad<AtomicU32>]>,
    boxes: Box<[Mailbox]>,
    seats: Word,
    /// Somebody has told the others that no round will take place any more.
    over: AtomicU32,
}

// SAFETY: a letter is written by the leader alone, while its owner waits, and read by its owner outside of that time; what is
// brought is written by its owner before it arrives and read by the leader. The words order all of it (module page). What is in
// them is `Send`, as `Family::Of` and `Seat::bring` demand.
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

    /// The next seat, while the team forms.
    fn sit(&self) -> Option<usize> {
        // Relaxed: the exchange below confirms it.
        let mut seats = self.seats.value().load(Ordering::Relaxed);
        loop {
            let taken = seats & SEATED;
            if seats & FORMED != 0 || taken as usize == self.boxes.len() {
                return None;
            }
            // Relaxed: a number; the team's memory reached this thread by another way.
            match self.seats.value().compare_exchange_weak(seats, seats + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(taken as usize),
                Err(now) => seats = now,
            }
        }
    }

    /// Ends the forming; the width.
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

    /// Waits until the team has formed; the width.
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

    /// Counts one more arrival, of `seat`; whether it is the last.
    #[inline]
    fn arrive(&self, seat: usize, width: usize) -> bool {
        if width <= GROUP {
            // Release: pairs with the Acquire here of the last to arrive, who sees what the others did.
            // Acquire: pairs with the Release here of all before.
            return self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width;
        }
        let group = seat / GROUP;
        // Release: pairs with the Acquire here of the last of the group, who passes it on.
        // Acquire: pairs with the Release here of those before.
        if self.groups[group].0.fetch_add(1, Ordering::AcqRel) as usize + 1 < group_size(group, width) {
            return false;
        }
        // Release: pairs with the Acquire here of the last group, whose last member sees what all did.
        // Acquire: pairs with the Release here of the groups before.
        self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width.div_ceil(GROUP)
    }

    /// Prepares the next arrivals: all of `width` seats, but for those who do not take part in a round of `members` that `leader` leads.
    #[inline]
    fn expect(&self, leader: usize, members: usize, width: usize) {
        if width <= GROUP {
            // Relaxed: whoever adds to it has seen its own round change.
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

    /// What `seat` finds in its mailbox when it comes to arrive: the round it knows, or that there will be none.
    #[inline]
    fn begin(&self, seat: usize) -> Result<u32, Ended> {
        // Relaxed: the round is the one this thread has seen, and the flags carry nothing.
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
        // Acquire: pairs with the Release in `deliver`; the letter is there, and what it lends. And with the Release in `end`: a round
        // that came before it is seen to be coming.
        let now = mailbox.word.value().load(Ordering::Acquire);
        if (now ^ before) / ONE_ROUND != 0 {
            // Relaxed: the leader sets it again after this seat's next arrival.
            mailbox.coming.store(0, Ordering::Relaxed);
            return Some(Ok(()));
        }
        let why = ended(now)?;
        // Relaxed: see above.
        (mailbox.coming.load(Ordering::Relaxed) == 0).then_some(Err(why))
    }

    /// Waits on this thread for news.
    #[inline]
    fn wait(&self, seat: usize, before: u32, spin: Spin, near: &mut Near) -> Result<(), Ended> {
        let mut news = None;
        let mut look = || {
            news = self.news(seat, before);
            news.is_some()
        };
        let busy = match std::mem::take(&mut near.woke) {
            // Who has been woken is on its way; to yield meanwhile may cost a time slice.
            true if spin.busy > 0 => spin.busy.saturating_add(spin.yielding),
            _ if near.shares => 0,
            _ => spin.busy,
        };
        let at_once = Spin { busy, yielding: 0 };
        if at_once.until(&mut look) {
            if near.told && !near.shares {
                near.told = false;
                self.boxes[seat].cpu.set(0);
            }
        } else {
            if spin.busy > 0 {
                self.look_around(seat, near);
            }
            Spin { busy: 0, ..spin }.until(look);
        }
        news.unwrap_or_else(|| self.sleep(seat, before))
    }

    /// Finds out whether another member waits on this CPU.
    #[cold]
    fn look_around(&self, seat: usize, near: &mut Near) {
        let Some(cpu) = machine::cpu() else { return };
        let cpu = u64::from(cpu) + 1;
        self.boxes[seat].cpu.set(cpu);
        near.told = true;
        let group = seat / GROUP * GROUP;
        let is_here = |at: usize| self.boxes[at].cpu.get() == cpu;
        near.gives_way = (group..seat).any(is_here);
        near.shares = near.gives_way || (seat + 1..self.boxes.len().min(group + GROUP)).any(is_here);
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

    /// Sets `sleeps`; the word with it.
    fn announce_sleep(&self, seat: usize) -> u32 {
        // Relaxed: the look at the news that follows does the ordering.
        self.boxes[seat].word.value().fetch_or(SLEEPS, Ordering::Relaxed) | SLEEPS
    }

    /// Takes `sleeps` back.
    fn awake(&self, seat: usize) {
        // Relaxed: only the owner sets it.
        self.boxes[seat].word.value().fetch_and(!SLEEPS, Ordering::Relaxed);
    }

    /// Says that `seat` will get a letter, whoever leaves meanwhile.
    #[inline]
    fn announce(&self, seat: usize) {
        // Relaxed: the Release in `deliver`, to whoever could leave, comes after it.
        self.boxes[seat].coming.store(1, Ordering::Relaxed);
    }

    /// Tells `seat` that its letter is there; whether it had to be woken.
    #[inline]
    fn deliver(&self, seat: usize) -> bool {
        let mailbox = &self.boxes[seat];
        // Release: pairs with the Acquire in `news`; publishes the letter and what it lends.
        mailbox.wake(mailbox.word.value().fetch_add(ONE_ROUND, Ordering::Release))
    }

    /// Tells all others that no round will take place any more.
    fn end(&self, from: usize, why: Ended) {
        // Relaxed: who comes second has nothing to add.
        if self.over.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let flag = match why {
            Ended::Left => LEFT,
            Ended::Panicked => PANICKED,
        };
        for_all((0..self.boxes.len()).filter(|seat| *seat != from), |seat| {
            let mailbox = &self.boxes[seat];
            // Release: pairs with the Acquire in `news`; who sees this sees that the round before it is coming.
            mailbox.wake(mailbox.word.value().fetch_or(flag, Ordering::Release));
        });
    }

    /// Drops what `seat` has been lent and not taken.
    ///
    /// # Safety
    /// The caller may use this letter: it is its owner, or leads, or there are no seats any more.
    unsafe fn clear(&self, seat: usize) {
        self.boxes[seat].letter.with_mut(|letter| {
            // SAFETY: promised by the caller.
            unsafe { &mut *letter }.clear();
        });
    }

    /// The same for all seats: after this nothing here borrows the data.
    ///
    /// # Safety
    /// No seat is left.
    unsafe fn clear_all(&self) {
        for seat in 0..self.boxes.len() {
            // SAFETY: promised by the caller.
            unsafe { self.clear(seat) };
        }
    }
}

/// Runs `tell` for each of the seats, also if the waker of a task panics at one of them: nobody else may wait for ever.
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

/// The seat of member `at` of a round of `members`.
#[inline]
fn seat_of(at: usize, leader: usize, members: usize) -> usize {
    if at + 1 == members && leader >= members { leader } else { at }
}
