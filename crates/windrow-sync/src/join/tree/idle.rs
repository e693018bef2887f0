//! Members without work: how they find offers, wait for one another, and park.

use std::cell::Cell;

use super::{Tree, WorkerSlot};
use crate::base::primitives::Ordering;
use crate::base::unwind::Finally;
use crate::join::view::{ONE_ASLEEP, ONE_LOOKING, ONE_TURN, TreeView};
use crate::join::{End, Frame, Offered};

/// Work for an idle member.
pub(super) enum IdleWork<'a> {
    Frame(Offered<'a>),
    /// An invitation that this member has entered, by its number, and what a guest runs.
    Guest(u64, *const (dyn Fn() + Sync)),
}

impl Tree {
    /// Takes the offer of another member, number `owner`, out of its `seat`.
    fn take(&self, owner: usize, seat: &WorkerSlot) -> Option<Offered<'_>> {
        let slot = &seat.shared.0.slot;
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
        // Release: pairs with the Acquire in `park`; a member that reads this value sees the state that the ring was for.
        seat.shared.0.bell.value().fetch_add(1, Ordering::Release);
        seat.shared.0.bell.wake(1);
    }

    /// Waits until `frame`, which another member has taken, has ended.
    pub(super) fn await_end(&self, seat: &WorkerSlot, frame: &Frame) -> End {
        let end = Cell::new(None);
        let ended = || {
            end.set(frame.end().or_else(|| (!self.process.is_this()).then_some(End::Stranded)));
            end.get().is_some()
        };
        let help = || self.help_with(seat, frame);
        loop {
            let waited = self.timing.settle.until(|| ended() || help());
            if let Some(end) = end.get() {
                return end;
            }
            if !waited {
                frame.expect_ring();
                let runner = frame.runner().and_then(|runner| self.seat(runner));
                self.park(seat, &ended, runner, help);
            }
        }
    }

    /// Waits until `done` returns true. Meanwhile runs `help`, which returns whether it has helped. The thread that makes `done`
    /// true must ring. Returns false in a forked child in which `done` has not returned true.
    pub(crate) fn wait_until(&self, seat: &WorkerSlot, done: &dyn Fn() -> bool, help: impl Fn() -> bool) -> bool {
        while self.process.is_this() {
            let mut over = false;
            let waited = self.timing.settle.until(|| {
                over = done();
                over || help()
            });
            if over {
                return true;
            }
            if !waited {
                self.park(seat, done, self.seats(), &help);
            }
        }
        done()
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
    fn park<'a>(
        &self,
        seat: &WorkerSlot,
        done: &dyn Fn() -> bool,
        helpable: impl IntoIterator<Item = &'a WorkerSlot>,
        help: impl Fn() -> bool,
    ) {
        let bell = &seat.shared.0.bell;
        // Acquire: pairs with the Release in `ring`; `done` below sees what the ring was for.
        let seen = bell.value().load(Ordering::Acquire);
        if done() {
            return;
        }
        for other in helpable {
            // Acquire: pairs with the Release in `WorkerSlot::offer_if_due`; `help` below sees an offer that did not find us here.
            other.shared.0.waiter.swap(seat.index() as u32 + 1, Ordering::Acquire);
        }
        if !help() {
            bell.wait(seen);
        }
    }

    /// Announces an offer, and wakes a parked member if no spinning member will find the offer.
    pub(super) fn announce(&self, seat: &WorkerSlot, now: u64) {
        // Release: pairs with the Acquire in `idle`; a member that parks after this sees the offer.
        let before = TreeView(self.word().fetch_add(ONE_TURN, Ordering::Release));
        let own = &seat.own.0;
        if before.looking() == 0 && before.asleep() > 0 && now.saturating_sub(own.woke.get()) >= own.patience.get() {
            own.woke.set(now);
            own.has_woken.set(true);
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

    /// Spins for work, and parks if there is none. `None` when the tree is over.
    pub(super) fn idle(&self, seat: &WorkerSlot) -> Option<IdleWork<'_>> {
        let mut next = seat.index();
        // The turn at which this member last checked the invitations: each call adds a turn.
        let mut turn = None;
        // Relaxed: a count. An announcer that finds this member spinning wakes no other; this member checks again before it parks.
        self.word().fetch_add(ONE_LOOKING, Ordering::Relaxed);
        loop {
            let (mut over, mut found) = (false, None);
            self.timing.idle.until(|| {
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
    fn find(&self, seat: &WorkerSlot, called: bool) -> Option<IdleWork<'_>> {
        let me = seat.index();
        let others = self.seats().enumerate().skip(me + 1).chain(self.seats().enumerate().take(me));
        let frame = others.into_iter().find_map(|(index, other)| Some(IdleWork::Frame(self.take(index, other)?)));
        frame.or_else(|| if called { self.enter(seat) } else { None })
    }

    /// Enters an invitation that is `ready`. `seat` is this thread's; the thread has no other work.
    fn enter(&self, seat: &WorkerSlot) -> Option<IdleWork<'_>> {
        let mut entries = self.entries();
        let (id, help) = entries.enter()?;
        seat.be_guest_of(id);
        Some(IdleWork::Guest(id, help))
    }

    /// Runs the part of a guest that has entered the invitation `id`, and leaves.
    pub(super) fn be_guest(&self, seat: &WorkerSlot, id: u64, help: *const (dyn Fn() + Sync)) {
        let _left = Finally(|| {
            seat.be_guest_of(0);
            let host = self.entries().leave(id);
            host.into_iter().for_each(|host| self.ring(host));
        });
        // SAFETY: the host waits until this guest has left.
        (unsafe { &*help })();
    }
}
