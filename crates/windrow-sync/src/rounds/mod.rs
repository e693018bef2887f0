#![doc = include_str!("README.md")]

use std::any::TypeId;
use std::task::Waker;

use crate::base::fork::Process;
use crate::base::machine;
use crate::base::mutex::Mutex;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicU32, GROUP, Ordering, UnsafeCell};
use crate::base::relaxed::RelaxedU64;
use crate::base::spin::Spin;
use crate::base::unwind::quietly;
use crate::base::word::Word;

mod family;
mod message;
mod slot;
mod task;

#[doc(hidden)]
pub use self::{
    slot::{Follow, LeaderGuard, MemberSlot, Rounds, Sent, Turn},
    task::{TaskRounds, TaskSlot, Waited},
};
pub use family::{Family, Lend, LendCopy, Lent, Mut, Own, Ref};
pub use slot::{Contributions, Deal};

use message::Message;

/// The reason that no further round can take place.
///
/// ```
/// use windrow_sync::Spin;
/// use windrow_sync::rounds::{Ended, Rounds};
///
/// let mut data = 0;
/// let team = Rounds::new(&mut data, 2);
/// let (mut first, second) = (team.join().unwrap(), team.join().unwrap());
/// team.form();
/// drop(second);
/// assert_eq!(first.arrive(Spin::NONE).err(), Some(Ended::Left));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A member has left the team.
    Left,
    /// A member has panicked.
    Panicked,
    /// This process was forked, and the other members stayed in the parent.
    Forked,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Ended::Left => "a member has left the team: no further round can take place",
            Ended::Panicked => "a member of the team has panicked: no further round can take place",
            Ended::Forked => "the other members of the team stayed in the parent of this forked process: no further round can take place",
        })
    }
}

impl std::error::Error for Ended {}

/// The maximum number of members of a team.
pub const MAX_MEMBERS: usize = 1 << 12;

const SLEEPS: u32 = 1;
const LEFT: u32 = 1 << 1;
const PANICKED: u32 = 1 << 2;
const ONE_ROUND: u32 = 1 << 3;

const FORMED: u32 = 1 << 31;
const AWAITED: u32 = 1 << 30;
const JOINED: u32 = AWAITED - 1;

/// The words that the leader writes for one member, and what that member contributes. Word and message share cache lines: one miss fetches both.
#[derive(Default)]
#[repr(C, align(128))]
struct Mailbox {
    word: Word,
    /// The leader will add to the round, even if another member leaves before that.
    coming: AtomicU32,
    message: UnsafeCell<Message>,
    contribution: UnsafeCell<Message>,
    waker: Mutex<Option<Waker>>,
    /// The CPU, plus one, on which the owner last found itself.
    place: RelaxedU64,
    /// The CPU, plus one, on which another member has found itself together with the owner: the owner should move.
    move_away: RelaxedU64,
}

impl Mailbox {
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
        let waker = self.waker.lock().take();
        match waker {
            // Foreign code: its panic must neither reach the leader nor meet that of a member that leaves.
            Some(waker) => quietly(|| waker.wake()),
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

/// A member's knowledge of the CPUs of its teammates. If it shares its CPU, its spinning would keep the teammate from running.
#[derive(Clone, Copy, Debug, Default)]
struct Neighbors {
    shares: bool,
    /// The member has published its CPU.
    published: bool,
    /// The member has just woken another one.
    woke: bool,
}

/// The words of a team: everything but the data. See the [module page](self).
struct Core {
    arrived: Pad<AtomicU32>,
    /// Arrivals in each group of slots, if there is more than one.
    groups: Box<[Pad<AtomicU32>]>,
    boxes: Box<[Mailbox]>,
    slots: Word,
    /// A member sets `left` or `panicked` in the mailboxes of all others, or has done so.
    over: AtomicU32,
    process: Process,
}

// SAFETY: a message is written by the leader alone, while its owner waits, and read by its owner at other times. A
// contribution is written by its owner before it arrives and read by the leader. The words order all of it (module page). The
// values are `Send`, as `Family::Of` and `MemberSlot::contribute` demand.
unsafe impl Sync for Core {}
// SAFETY: as above.
unsafe impl Send for Core {}

impl Core {
    fn new(most: usize) -> Self {
        assert!((1..=MAX_MEMBERS).contains(&most), "a team has 1 to {MAX_MEMBERS} slots, not {most}");
        let groups = if most > GROUP { most.div_ceil(GROUP) } else { 0 };
        Core {
            arrived: Pad::default(),
            groups: (0..groups).map(|_| Pad::default()).collect(),
            boxes: (0..most).map(|_| Mailbox::default()).collect(),
            slots: Word::default(),
            over: AtomicU32::default(),
            process: Process::this(),
        }
    }

    /// The word of the forming.
    fn joined(&self) -> u32 {
        // Relaxed: a number; the reference to the team came to this thread in a way that orders the team's memory.
        self.slots.value().load(Ordering::Relaxed)
    }

    /// Waits until the team has formed; returns the width.
    fn formed(&self, spin: Spin) -> usize {
        if !spin.until(|| self.joined() & FORMED != 0) {
            // Relaxed: a number, as above.
            let mut slots = self.slots.value().fetch_or(AWAITED, Ordering::Relaxed) | AWAITED;
            while slots & FORMED == 0 {
                self.slots.wait(slots);
                slots = self.joined();
            }
        }
        (self.joined() & JOINED) as usize
    }

    /// Counts the arrival of `slot`; returns whether it is the last.
    #[inline]
    fn arrive(&self, slot: usize, width: usize) -> bool {
        if width <= GROUP {
            // Release: pairs with the Acquire here of the last to arrive, which sees what the others did.
            // Acquire: pairs with the Release here of all that arrived before.
            return self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width;
        }
        let group = slot / GROUP;
        // Release: pairs with the Acquire here of the last of the group, which passes on what its group did.
        // Acquire: pairs with the Release here of those that arrived before.
        if self.groups[group].0.fetch_add(1, Ordering::AcqRel) as usize + 1 < group_size(group, width) {
            return false;
        }
        // Release: pairs with the Acquire here of the last group, whose last member sees what all did.
        // Acquire: pairs with the Release here of the groups that were complete before.
        self.arrived.0.fetch_add(1, Ordering::AcqRel) as usize + 1 == width.div_ceil(GROUP)
    }

    /// Prepares the count of the next arrivals. The slots that take no part in a round of `members`, led by `leader`, count as
    /// arrived already.
    #[inline]
    fn expect(&self, leader: usize, members: usize, width: usize) {
        if width <= GROUP {
            // Relaxed: a member that adds to it has seen its own round change.
            return self.arrived.0.store((width - members) as u32, Ordering::Relaxed);
        }
        let mut complete = 0;
        for (group, arrived) in self.groups[..width.div_ceil(GROUP)].iter().enumerate() {
            let size = group_size(group, width);
            let slots = group * GROUP..group * GROUP + size;
            let part = slots.clone().filter(|&slot| takes_part(slot, leader, members)).count();
            complete += u32::from(part == 0);
            // Relaxed: as above.
            arrived.0.store(if part == 0 { 0 } else { (size - part) as u32 }, Ordering::Relaxed);
        }
        // Relaxed: as above.
        self.arrived.0.store(complete, Ordering::Relaxed);
    }

    /// The news for `slot`, which found `before` when it arrived: its round has come, or none will come. `None`: no news yet.
    #[inline]
    fn poll_round(&self, slot: usize, before: u32) -> Option<Result<(), Ended>> {
        let mailbox = &self.boxes[slot];
        // Acquire: pairs with the Release in `deliver`; the message is visible, and what it lends. Also with the Release in `end`:
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

    /// Blocks this thread until its round has come, or none will come.
    #[inline]
    fn wait(&self, slot: usize, before: u32, spin: Spin, neighbors: &mut Neighbors) -> Result<(), Ended> {
        let mut found = None;
        let mut look = || {
            found = self.poll_round(slot, before);
            found.is_some()
        };
        let busy = match std::mem::take(&mut neighbors.woke) {
            // The member that this one woke will arrive soon; a yield before that may cost a time slice.
            true if spin.busy > 0 => spin.busy.saturating_add(spin.yielding),
            _ if neighbors.shares => 0,
            _ => spin.busy,
        };
        let at_once = Spin { busy, yielding: 0 };
        if !at_once.until(&mut look) {
            // A yield helps only a thread that waits for this CPU; if that is no teammate, the yield may cost a time slice.
            let yields = spin.busy == 0 || self.check_neighbors(slot, neighbors);
            let (busy, yielding) = if yields { (0, spin.yielding) } else { (spin.yielding, 0) };
            Spin { busy, yielding }.until(look);
        }
        found.unwrap_or_else(|| self.sleep(slot, before))
    }

    /// Publishes this member's CPU. Returns whether a teammate is known to be on it (true if the CPU is unknown).
    #[cold]
    fn check_neighbors(&self, slot: usize, neighbors: &mut Neighbors) -> bool {
        let Some(cpu) = machine::cpu() else { return true };
        let cpu = u64::from(cpu) + 1;
        self.boxes[slot].place.set(cpu);
        neighbors.published = true;
        let group = slot / GROUP * GROUP;
        neighbors.shares = false;
        for other in (group..self.boxes.len().min(group + GROUP)).filter(|other| *other != slot) {
            if self.boxes[other].place.get() == cpu {
                neighbors.shares = true;
                self.boxes[slot.max(other)].move_away.set(cpu);
            }
        }
        neighbors.shares
    }

    #[cold]
    fn sleep(&self, slot: usize, before: u32) -> Result<(), Ended> {
        loop {
            let seen = self.announce_sleep(slot);
            if let Some(found) = self.poll_round(slot, before) {
                self.awake(slot);
                return found;
            }
            if !self.process.is_this() {
                return Err(Ended::Forked);
            }
            self.boxes[slot].word.wait(seen);
        }
    }

    /// Sets `sleeps`; returns the word with it.
    fn announce_sleep(&self, slot: usize) -> u32 {
        // Relaxed: the check of the mailbox that follows does the ordering.
        self.boxes[slot].word.value().fetch_or(SLEEPS, Ordering::Relaxed) | SLEEPS
    }

    /// Clears `sleeps`.
    fn awake(&self, slot: usize) {
        // Relaxed: only the owner sets it.
        self.boxes[slot].word.value().fetch_and(!SLEEPS, Ordering::Relaxed);
    }

    /// Marks that `slot` will get a message, even if another member leaves meanwhile.
    #[inline]
    fn announce(&self, slot: usize) {
        // Relaxed: the Release in `deliver`, to any member that could leave, comes after it.
        self.boxes[slot].coming.store(1, Ordering::Relaxed);
    }

    /// Adds one to the round of `slot`: its message is complete. Returns whether the owner had to be woken.
    #[inline]
    fn deliver(&self, slot: usize) -> bool {
        let mailbox = &self.boxes[slot];
        // Release: pairs with the Acquire in `poll_round`; publishes the message and what it lends.
        mailbox.wake(mailbox.word.value().fetch_add(ONE_ROUND, Ordering::Release))
    }

    /// Publishes to all other slots that no further round will take place.
    fn end(&self, from: usize, why: Ended) {
        // Relaxed: the first member to leave publishes it; a second one has nothing to add.
        if self.over.swap(1, Ordering::Relaxed) != 0 {
            return;
        }
        let flag = match why {
            Ended::Left | Ended::Forked => LEFT,
            Ended::Panicked => PANICKED,
        };
        (0..self.boxes.len()).filter(|slot| *slot != from).for_each(|slot| {
            let mailbox = &self.boxes[slot];
            // Release: pairs with the Acquire in `poll_round`; a member that sees this flag sees that the round before it is coming.
            mailbox.wake(mailbox.word.value().fetch_or(flag, Ordering::Release));
        });
    }

    /// Calls `f` with the message in the mailbox of `slot`.
    ///
    /// # Safety
    /// The caller may use this message: it is the message's owner, or leads, or no member is left.
    #[inline]
    unsafe fn with_message<R>(&self, slot: usize, f: impl FnOnce(&mut Message) -> R) -> R {
        // SAFETY: promised by the caller.
        self.boxes[slot].message.with_mut(|message| f(unsafe { &mut *message }))
    }

    /// Opens the message in the mailbox of `slot`, if it bears this tag.
    ///
    /// # Safety
    /// The caller owns the message. It was sealed with these types if under this tag, and has not been opened; what it lends lives for `'l`.
    #[inline]
    unsafe fn open<'l, S: LendCopy, P: Lend>(&self, slot: usize, tag: TypeId) -> Option<(Lent<'l, S>, Lent<'l, P>)> {
        // SAFETY: promised by the caller.
        let open = |message: &mut Message| unsafe { message.open::<Lent<'l, P>, Lent<'l, S>>(tag) };
        // SAFETY: promised by the caller.
        let (shared, part) = unsafe { self.with_message(slot, open) }?;
        // See [`Family`]. (The longer lifetime has no name here; `shorten` compiles for all.)
        Some((<S::Family as Family>::shorten(shared), <P::Family as Family>::shorten(part)))
    }

    /// Drops all parts that members have not taken. After this nothing in the mailboxes borrows the data.
    ///
    /// # Safety
    /// No member is left.
    unsafe fn clear_all(&self) {
        for slot in 0..self.boxes.len() {
            // SAFETY: promised by the caller.
            unsafe { self.with_message(slot, Message::clear) };
        }
    }
}

fn group_size(group: usize, width: usize) -> usize {
    (width - group * GROUP).min(GROUP)
}

/// True if `slot` is one of the `members` of a round: the first ones, and the leader in place of the last.
#[inline]
fn takes_part(slot: usize, leader: usize, members: usize) -> bool {
    slot == leader || slot < members - usize::from(leader >= members)
}

/// The slot of member `at` of a round of `members`.
#[inline]
fn slot_of(at: usize, leader: usize, members: usize) -> usize {
    if at + 1 == members && leader >= members { leader } else { at }
}
