//! Slots of threads, and the operations of a round.

use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::family::{Family, Lend, LendCopy, Lent, Own};
use super::message::Message;
use super::{AWAITED, Core, Ended, FORMED, JOINED, Neighbors, ended, slot_of};
use crate::base::debug::show_as;
use crate::base::machine;
use crate::base::primitives::Ordering;
use crate::base::spin::Spin;
use crate::base::word::Word;

/// The barrier of one team, with access to a `T`. See the [module page](super).
pub struct Rounds<'d, T: Send> {
    core: Core,
    data: NonNull<T>,
    _data: PhantomData<&'d mut T>,
}

// SAFETY: `data` is used by one leader at a time (module page, "exclusive"), on any thread: `T: Send`. The rest is `Sync`.
unsafe impl<T: Send> Sync for Rounds<'_, T> {}

impl<'d, T: Send> Rounds<'d, T> {
    /// A team that forms: up to `most` members may join, until [`form`](Rounds::form).
    ///
    /// # Panics
    /// If `most` is 0 or more than [`MAX_MEMBERS`](super::MAX_MEMBERS).
    pub fn new(data: &'d mut T, most: usize) -> Self {
        Rounds { core: Core::new(most), data: NonNull::from(data), _data: PhantomData }
    }

    /// A team of a single member. Its rounds use no atomics.
    pub fn single(data: &'d mut T) -> Self {
        let core = Core { slots: Word::new(FORMED | 1), ..Core::new(1) };
        Rounds { core, data: NonNull::from(data), _data: PhantomData }
    }

    /// The slot of a single member. If an earlier slot was forgotten with a part that was not taken, that part is dropped now.
    pub fn slot(&mut self) -> MemberSlot<'_, T> {
        assert!(self.core.boxes.len() == 1, "`slot` needs a team of one member");
        // SAFETY: `&mut self`, which slots borrow: none is left. The data has not been used since it was lent.
        unsafe { self.core.clear_all() };
        MemberSlot { core: &self.core, data: self.data, place: MemberPosition::new(0, 1), _data: PhantomData }
    }

    /// Takes the next slot, while the team forms and one is free.
    pub fn join(&self) -> Option<MemberSlot<'_, T>> {
        let Core { slots, boxes, .. } = &self.core;
        // Relaxed: a number; the reference to the team came to this thread in a way that orders the team's memory.
        let before = slots.value().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |slots| {
            let is_full = (slots & JOINED) as usize == boxes.len();
            (slots & FORMED == 0 && !is_full).then(|| slots + 1)
        });
        let at = (before.ok()? & JOINED) as usize;
        Some(MemberSlot { core: &self.core, data: self.data, place: MemberPosition::new(at, 0), _data: PhantomData })
    }

    /// Ends the forming: the team's width is the number of slots taken so far.
    pub fn form(&self) -> usize {
        // Relaxed: a number, as above.
        let before = self.core.slots.value().fetch_or(FORMED, Ordering::Relaxed);
        if before & AWAITED != 0 {
            self.core.slots.wake(u32::MAX);
        }
        (before & JOINED) as usize
    }

    /// Slots taken so far.
    pub fn joined(&self) -> usize {
        (self.core.joined() & JOINED) as usize
    }
}

// Spelled out so that the compiler wants `'d` alive here: parts that no member took may read the data when they are dropped.
impl<T: Send> Drop for Rounds<'_, T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`, which slots borrow.
        unsafe { self.core.clear_all() };
    }
}

show_as!("Rounds": [T: Send] Rounds<'_, T>, |it| joined: it.joined());

/// A member's number, and what it knows of its team.
#[derive(Debug)]
pub(super) struct MemberPosition {
    pub(super) at: usize,
    /// 0: this member has not seen the team formed yet.
    pub(super) width: usize,
    /// This member must not arrive again.
    pub(super) ended: Option<Ended>,
    /// A message has come and has not been opened.
    unread: bool,
    neighbors: Neighbors,
}

/// One member's place in a team. Dropping it leaves the team: no further round takes place, and members that wait get [`Ended`].
pub struct MemberSlot<'r, T: Send> {
    core: &'r Core,
    data: NonNull<T>,
    place: MemberPosition,
    /// Invariant in `T`: a value of a shorter lifetime, put in by one member, would be found in the data by another.
    _data: PhantomData<&'r mut T>,
}

// SAFETY: `data` is used only while this member leads; `T: Send`.
unsafe impl<T: Send> Send for MemberSlot<'_, T> {}

show_as!("MemberSlot": [T: Send] MemberSlot<'_, T>, |it| place: it.place);

impl<T: Send> Drop for MemberSlot<'_, T> {
    fn drop(&mut self) {
        self.place.leave(self.core);
    }
}

impl MemberPosition {
    pub(super) fn new(at: usize, width: usize) -> Self {
        MemberPosition { at, width, ended: None, unread: false, neighbors: Neighbors::default() }
    }

    /// Leaves a value for the leader of the next round. Drops it if no further round can take place.
    #[inline]
    pub(super) fn contribute<C: Send + 'static>(&mut self, core: &Core, value: C) {
        if self.ended.is_some() {
            return;
        }
        core.boxes[self.at].contribution.with_mut(|contribution| {
            // SAFETY: only the owner uses its contribution, except a leader while all members wait. The owner calls this, so it does not
            // wait; an owner that has arrived and given up waiting has `ended`.
            unsafe { &mut *contribution }.put_contribution(value);
        });
    }

    /// Prepares an arrival: drops the part of a message that was not opened. Returns the word of the mailbox, with this member's last
    /// round.
    ///
    /// # Errors
    /// If the member must not arrive.
    #[inline]
    pub(super) fn ready(&mut self, core: &Core) -> Result<u32, Ended> {
        if let Some(why) = self.ended {
            return Err(why);
        }
        if std::mem::take(&mut self.unread) {
            // SAFETY: except while a leader is at work, a message belongs to its owner, which calls this (see `contribute`).
            unsafe { core.with_message(self.at, Message::clear) };
        }
        // Relaxed: the round is the one that this thread has seen, and the flags publish no data.
        let before = core.boxes[self.at].word.value().load(Ordering::Relaxed);
        ended(before).map_or(Ok(before), |why| self.end(why))
    }

    #[inline]
    pub(super) fn end<R>(&mut self, why: Ended) -> Result<R, Ended> {
        self.ended = Some(why);
        Err(why)
    }

    pub(super) fn leave(&self, core: &Core) {
        // (It may be dropped before the team has formed.)
        if self.width != 1 {
            let why = if std::thread::panicking() { Ended::Panicked } else { Ended::Left };
            core.end(self.at, why);
        }
    }
}

/// The outcome of an arrival.
#[derive(Debug)]
pub enum Turn<'m, T: Send> {
    /// This member was the last to arrive: it leads the round.
    Lead(LeaderGuard<'m, T>),
    /// Another member has led the round, and this is its message.
    Follow(Follow<'m>),
}

impl<T: Send> MemberSlot<'_, T> {
    /// This member's number, `0..width`.
    pub fn index(&self) -> usize {
        self.place.at
    }

    /// The number of members. Waits until the team has formed; `spin` is the spin budget.
    pub fn width(&mut self, spin: Spin) -> usize {
        if self.place.width == 0 {
            self.place.width = self.core.formed(spin);
        }
        self.place.width
    }

    /// True if this member shares its CPU with a member of a lower number, and so should move. (As far as is known: a member reads its
    /// CPU at its first arrival, and when a wait exceeds `spin.busy`.) The call resets the answer.
    #[inline]
    pub fn should_move(&mut self) -> bool {
        self.core.boxes[self.place.at].move_away.get() != 0 && self.should_still_move()
    }

    #[cold]
    fn should_still_move(&mut self) -> bool {
        let mailbox = &self.core.boxes[self.place.at];
        let other = mailbox.move_away.get();
        mailbox.move_away.set(0);
        let now = machine::cpu().map_or(0, |cpu| u64::from(cpu) + 1);
        mailbox.place.set(now);
        now == other
    }

    /// Leaves a value for the leader of the next round.
    #[inline]
    pub fn contribute<C: Send + 'static>(&mut self, value: C) {
        self.place.contribute(self.core, value);
    }

    /// Arrives, and waits for all others; spins for as long as `spin` allows before it parks.
    ///
    /// # Errors
    /// If a member has left or panicked.
    #[inline]
    pub fn arrive(&mut self, spin: Spin) -> Result<Turn<'_, T>, Ended> {
        let width = self.width(spin);
        let before = self.place.ready(self.core)?;
        if width == 1 {
            return Ok(Turn::Lead(LeaderGuard::new(self.core, self.data, &mut self.place)));
        }
        let at = self.place.at;
        if !self.place.neighbors.published && spin.busy > 0 {
            self.core.check_neighbors(at, &mut self.place.neighbors);
        }
        if self.core.arrive(at, width) {
            return Ok(Turn::Lead(LeaderGuard::new(self.core, self.data, &mut self.place)));
        }
        match self.core.wait(at, before, spin, &mut self.place.neighbors) {
            Ok(()) => Ok(Turn::Follow(Follow::new(self.core, &mut self.place))),
            Err(why) => self.place.end(why),
        }
    }
}

/// Exclusive access to the data while all others wait. If it is dropped without a round, the team ends.
pub struct LeaderGuard<'m, T: Send> {
    core: &'m Core,
    data: NonNull<T>,
    place: &'m mut MemberPosition,
    _data: PhantomData<&'m mut T>,
}

// SAFETY: this is `&mut T` and numbers.
unsafe impl<T: Send> Send for LeaderGuard<'_, T> {}

show_as!("LeaderGuard": [T: Send] LeaderGuard<'_, T>, |it| place: it.place);

impl<T: Send> Drop for LeaderGuard<'_, T> {
    fn drop(&mut self) {
        // `split` has panicked, or no round was led. This member has arrived and must not arrive again.
        self.place.ended = Some(if std::thread::panicking() { Ended::Panicked } else { Ended::Left });
        self.place.leave(self.core);
    }
}

impl<'m, T: Send> LeaderGuard<'m, T> {
    #[inline]
    pub(super) fn new(core: &'m Core, data: NonNull<T>, place: &'m mut MemberPosition) -> Self {
        // If the guard is forgotten, this member must not arrive again.
        place.ended = Some(Ended::Left);
        LeaderGuard { core, data, place, _data: PhantomData }
    }

    /// The data.
    #[inline]
    pub fn data(&mut self) -> &mut T {
        // SAFETY: all other members wait and what was lent to them is dead (module page, "exclusive"); what was lent to us is,
        // too, since `self` borrows our slot mutably.
        unsafe { self.data.as_mut() }
    }

    /// The team's width.
    pub fn width(&self) -> usize {
        self.place.width
    }

    /// Gives `f` the data, and the contributions that members have left and no leader has taken, in the order of the members. Contributions of
    /// other types are dropped.
    #[inline]
    pub fn with_contributions<C: Send + 'static, R>(
        &mut self,
        f: impl FnOnce(&mut T, &mut dyn Iterator<Item = C>) -> R,
    ) -> R {
        let (core, width) = (self.core, self.width());
        let mut left = (0..width).filter_map(|at| {
            core.boxes[at].contribution.with_mut(|contribution| {
                // SAFETY: all other members wait: the leader is alone with all contributions while this borrows its guard.
                unsafe { &mut *contribution }.take_contribution::<C>()
            })
        });
        f(self.data(), &mut left)
    }

    /// Leaves a value for the leader of the next round, which may be this member.
    #[inline]
    pub fn contribute<C: Send + 'static>(&mut self, value: C) {
        self.core.boxes[self.place.at].contribution.with_mut(|contribution| {
            // SAFETY: as in `with_contributions`.
            unsafe { &mut *contribution }.put_contribution(value);
        });
    }

    /// Runs a round for all members: `split` has the data to itself, deals one part to each, and returns what all of them share.
    ///
    /// # Panics
    /// If `split` does, or deals fewer or more parts than there are members.
    #[inline]
    pub fn round<S: LendCopy, P: Lend>(
        self,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> (Lent<'m, S>, Lent<'m, P>) {
        let width = self.width();
        self.round_of::<S, P>(width, 0, split)
    }

    /// Runs a round for `members` members: the first ones by number, this one in place of the last if it is not among them. The others keep
    /// waiting. All that take part can read `note`.
    ///
    /// # Panics
    /// As [`round`](LeaderGuard::round), or if `members` is not in `1..=width`.
    #[inline]
    pub fn round_of<S: LendCopy, P: Lend>(
        self,
        members: usize,
        note: u64,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> (Lent<'m, S>, Lent<'m, P>) {
        let tag = TypeId::of::<(S::Family, P::Family)>();
        self.lead::<S, P>(members, note, tag, |data, _, deal| split(data, deal))
    }

    /// A [`round_of`](LeaderGuard::round_of) whose leader opens its own message later.
    ///
    /// # Panics
    /// As `round_of`.
    #[inline]
    pub fn send<S: LendCopy, P: Lend>(
        mut self,
        members: usize,
        note: u64,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Sent<'m, T, S, P> {
        let tag = TypeId::of::<(S::Family, P::Family)>();
        self.write::<S, P>(members, note, tag, |data, _, deal| split(data, deal));
        self.deliver(members);
        let woke = std::mem::take(&mut self.place.neighbors.woke);
        Sent { lead: Some(self), tag, woke, _types: PhantomData }
    }

    /// A [`round`](LeaderGuard::round) whose `split` also gets each member's contribution.
    ///
    /// # Panics
    /// As `round`, or if a member has contributed no `C`.
    #[inline]
    pub fn round_with<S: LendCopy, P: Lend, C: Send + 'static>(
        self,
        split: impl for<'x> FnOnce(&'x mut T, Contributions<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> (Lent<'m, S>, Lent<'m, P>) {
        let tag = TypeId::of::<(S::Family, P::Family, Own<C>)>();
        let width = self.width();
        self.lead::<S, P>(width, 0, tag, |data, core, deal| {
            split(data, Contributions { core, next: 0, width, _contributions: PhantomData }, deal)
        })
    }

    /// Splits, delivers and opens the leader's own message.
    #[inline]
    fn lead<S: LendCopy, P: Lend>(
        mut self,
        members: usize,
        note: u64,
        tag: TypeId,
        split: impl for<'x> FnOnce(&'x mut T, &'x Core, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> (Lent<'m, S>, Lent<'m, P>) {
        self.write::<S, P>(members, note, tag, split);
        self.deliver(members);
        // SAFETY: sealed under this tag just now, with the same types; `'m` ends before this member's next arrival.
        unsafe { self.open::<S, P>(tag) }
    }

    /// Runs a round for this member alone. This member still leads afterwards.
    ///
    /// # Panics
    /// As [`round`](LeaderGuard::round).
    #[inline]
    pub fn alone<'l, S: LendCopy, P: Lend>(
        &'l mut self,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> (Lent<'l, S>, Lent<'l, P>) {
        let (core, leader) = (self.core, self.place.at);
        let mut deal = Deal::<P::Family> { core, leader, members: 1, next: 0, put: None, own: None };
        let shared = split(self.data(), &mut deal);
        let Some(part) = deal.own.take() else { panic!("0 parts for 1 member: `split` must deal one to each") };
        (shared, part)
    }

    /// Splits the data, and writes the messages of all members that take part.
    #[inline]
    fn write<S: LendCopy, P: Lend>(
        &mut self,
        members: usize,
        note: u64,
        tag: TypeId,
        split: impl for<'x> FnOnce(&'x mut T, &'x Core, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) {
        let (core, leader) = (self.core, self.place.at);
        assert!((1..=self.width()).contains(&members), "a round has 1 to {} members, not {members}", self.width());
        let put = Some(Deal::<P::Family>::put_part::<Lent<'_, S>> as fn(&_, _, _));
        let mut deal = Deal { core, leader, members, next: 0, put, own: None };
        let shared = split(self.data(), core, &mut deal);
        let dealt = deal.next;
        assert!(dealt == members, "{dealt} parts for {members} members: `split` must deal one to each");
        std::mem::forget(deal);
        for at in 0..members {
            // SAFETY: `deal` put a part with these types. The tag names their families; what they borrow is the data, which no member uses
            // exclusively until this message's reader has arrived again.
            let seal = |message: &mut Message| unsafe { message.seal::<Lent<'_, P>, Lent<'_, S>>(tag, note, shared) };
            // SAFETY: the leader is alone with all messages.
            unsafe { core.with_message(slot_of(at, leader, members), seal) };
        }
    }

    /// Delivers the messages.
    #[inline]
    fn deliver(&mut self, members: usize) {
        let (leader, width) = (self.place.at, self.width());
        if width == 1 {
            return;
        }
        self.core.expect(leader, members, width);
        let others = || (0..members).map(|at| slot_of(at, leader, members)).filter(|slot| *slot != leader);
        if members > 2 {
            others().for_each(|slot| self.core.announce(slot));
        }
        others().for_each(|slot| self.place.neighbors.woke |= self.core.deliver(slot));
    }

    /// Ends the lead after a round, and opens the leader's message.
    ///
    /// # Safety
    /// The message was sealed under `tag`, with these types, and has not been opened; what it lends lives for `'m`.
    #[inline]
    unsafe fn open<S: LendCopy, P: Lend>(self, tag: TypeId) -> (Lent<'m, S>, Lent<'m, P>) {
        let mut lead = ManuallyDrop::new(self);
        lead.place.ended = None;
        // SAFETY: its own message, which no other member uses until this one has arrived again; the rest is promised by the caller.
        let opened = unsafe { lead.core.open::<S, P>(lead.place.at, tag) };
        opened.unwrap_or_else(|| unreachable!("a leader's message to itself carries its own tag"))
    }
}

/// A round whose messages are delivered, and the leader's own message. Dropping it leaves the team.
pub struct Sent<'m, T: Send, S: LendCopy, P: Lend> {
    /// None once the message is opened.
    lead: Option<LeaderGuard<'m, T>>,
    tag: TypeId,
    woke: bool,
    _types: PhantomData<fn() -> (S, P)>,
}

show_as!("Sent": [T: Send, S: LendCopy, P: Lend] Sent<'_, T, S, P>, |it| lead: it.lead, woke: it.woke);

impl<T: Send, S: LendCopy, P: Lend> Drop for Sent<'_, T, S, P> {
    fn drop(&mut self) {
        if let Some(lead) = &self.lead {
            // SAFETY: its own message; no other member uses it until this one has arrived again.
            unsafe { lead.core.with_message(lead.place.at, Message::clear) };
        }
    }
}

impl<'m, T: Send, S: LendCopy, P: Lend> Sent<'m, T, S, P> {
    /// True if a member had to be woken.
    pub fn woke(&self) -> bool {
        self.woke
    }

    /// The shared value, and this member's part.
    #[inline]
    pub fn open(mut self) -> (Lent<'m, S>, Lent<'m, P>) {
        let Some(lead) = self.lead.take() else { unreachable!("taken only here") };
        // SAFETY: sealed under this tag by `send`, with the same types, and `self` is gone; `'m` ends before this member's next
        // arrival.
        unsafe { lead.open::<S, P>(self.tag) }
    }
}

/// The parts of a round, from its leader: exactly one for each member of the round, in their order.
pub struct Deal<'x, P: Family> {
    core: &'x Core,
    leader: usize,
    members: usize,
    next: usize,
    /// Puts a part into a message. `None`: the leader is alone, and needs no message.
    put: Option<fn(&Self, P::Of<'x>, usize)>,
    /// The part of a leader that is alone.
    own: Option<P::Of<'x>>,
}

show_as!("Deal": [P: Family] Deal<'_, P>, |it| width: it.members, dealt: it.next);

/// A panic has ended the round: the parts are dropped before the leader can use the data again.
impl<P: Family> Drop for Deal<'_, P> {
    #[inline]
    fn drop(&mut self) {
        if self.put.is_none() {
            return;
        }
        for at in 0..self.next {
            // SAFETY: as in `put_part`.
            unsafe { self.core.with_message(slot_of(at, self.leader, self.members), Message::clear) };
        }
    }
}

impl<'x, P: Family> Deal<'x, P> {
    /// The number of parts to deal: one for each member of this round.
    #[inline]
    pub fn width(&self) -> usize {
        self.members
    }

    /// Deals the next member's part.
    ///
    /// # Panics
    /// If every member has one.
    #[inline]
    pub fn part(&mut self, part: P::Of<'x>) {
        assert!(self.next < self.members, "more than {0} parts for {0} members", self.members);
        match self.put {
            Some(put) => put(self, part, slot_of(self.next, self.leader, self.members)),
            None => self.own = Some(part),
        }
        self.next += 1;
    }

    /// Deals the parts of all members that have none yet.
    ///
    /// # Panics
    /// If there are too many. (If there are too few, the round panics.)
    #[inline]
    pub fn parts(&mut self, parts: impl IntoIterator<Item = P::Of<'x>>) {
        parts.into_iter().for_each(|part| self.part(part));
    }

    /// `S` is what is shared; it decides where the part lies.
    #[inline]
    fn put_part<S>(&self, part: P::Of<'x>, slot: usize) {
        // SAFETY: a `Deal` lives only inside `LeaderGuard::write`: all other members wait, the leader is alone with all messages.
        unsafe { self.core.with_message(slot, |message| message.put::<P::Of<'x>, S>(part)) };
    }
}

impl Deal<'_, Own<()>> {
    /// Deals nothing to each member.
    #[inline]
    pub fn none(&mut self) {
        (self.next..self.members).for_each(|_| self.part(()));
    }
}

/// The members' contributions to a round, in their order.
pub struct Contributions<'x, C> {
    core: &'x Core,
    next: usize,
    width: usize,
    /// Not `Send`, so that it cannot be lent: only the leader may use it.
    _contributions: PhantomData<*mut C>,
}

show_as!("Contributions": [C] Contributions<'_, C>, |it| left: it.width - it.next);

impl<C: 'static> Iterator for Contributions<'_, C> {
    type Item = C;

    fn next(&mut self) -> Option<C> {
        if self.next == self.width {
            return None;
        }
        let contribution = self.core.boxes[self.next].contribution.with_mut(|contribution| {
            // SAFETY: a `Contributions` lives only inside `LeaderGuard::write`: all other members wait, the leader is alone with all
            // contributions.
            unsafe { &mut *contribution }.take_contribution::<C>()
        });
        let Some(contribution) = contribution else { panic!("{}", DIFFERENT) };
        self.next += 1;
        Some(contribution)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.width - self.next, Some(self.width - self.next))
    }
}

impl<C: 'static> ExactSizeIterator for Contributions<'_, C> {}

const DIFFERENT: &str = "the members of a team are at rounds of different types";

/// The outcome of a round for a member that did not lead it.
pub struct Follow<'m> {
    core: &'m Core,
    place: &'m mut MemberPosition,
}

show_as!("Follow": [] Follow<'_>, |it| place: it.place);

impl<'m> Follow<'m> {
    #[inline]
    pub(super) fn new(core: &'m Core, place: &'m mut MemberPosition) -> Self {
        place.unread = true;
        Follow { core, place }
    }

    /// The leader's note.
    #[inline]
    pub fn note(&self) -> u64 {
        // SAFETY: except while a leader is at work, only the owner changes a message; the wait has acquired it. Several threads may
        // share this `Follow`, so they only read.
        self.core.boxes[self.place.at].message.with(|message| unsafe { (*message).note() })
    }

    /// The shared value, and this member's part.
    ///
    /// # Panics
    /// If the leader's round was one of other types. Then the team has ended.
    #[inline]
    pub fn open<S: LendCopy, P: Lend>(self) -> (Lent<'m, S>, Lent<'m, P>) {
        self.read::<S, P>(TypeId::of::<(S::Family, P::Family)>())
    }

    /// Opens the message of a round to which each member has contributed a `C`.
    ///
    /// # Panics
    /// As [`open`](Follow::open).
    #[inline]
    pub fn open_with<S: LendCopy, P: Lend, C: 'static + Send>(self) -> (Lent<'m, S>, Lent<'m, P>) {
        self.read::<S, P>(TypeId::of::<(S::Family, P::Family, Own<C>)>())
    }

    #[inline]
    fn read<S: LendCopy, P: Lend>(self, tag: TypeId) -> (Lent<'m, S>, Lent<'m, P>) {
        // SAFETY: except while a leader is at work, a message belongs to its owner; the wait has acquired it. A message with this tag was
        // sealed with the same families; what it lends lives until this member arrives again, which `'m` forbids. `self` is gone, so the
        // message is opened once a round. It cannot be opened twice without a round in between: there is no second `Follow` of one round.
        let opened = unsafe { self.core.open::<S, P>(self.place.at, tag) };
        let Some(lent) = opened else {
            self.core.end(self.place.at, Ended::Panicked);
            self.place.ended = Some(Ended::Panicked);
            panic!("{}", DIFFERENT)
        };
        self.place.unread = false;
        lent
    }
}
