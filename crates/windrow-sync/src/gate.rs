//! Gate: one word through which members enter a region.
//!
//! # States of the word
//! `epoch:31 | stop:1 || busy:1 | open:1 | sleeping:10 | seats:10 | active:10`
//!
//! * *idle*: neither busy nor open. *taken*: busy, the caller stores its job. *open*: busy and open, workers may join
//!   while there are seats. *closing*: busy, no longer open, `active` members still inside. Then idle again.
//! * `sleeping` counts workers that sleep on the upper half, are about to, or have not yet noticed that they are awake. It is
//!   never too small.
//!
//! # Protocol
//! 1. *Take.* A caller that wants help exchanges idle for taken. If the gate is busy it does not wait: it goes on alone.
//! 2. *Open.* It stores the job and exchanges taken for open with a new epoch and `seats = width - 1`. If more seats are
//!    free than workers awake, it wakes one sleeper.
//! 3. *Join.* A worker that sees an open gate of an epoch it has not been in exchanges `active + 1, seats - 1`, reads the
//!    job and runs it. If more seats are left than workers awake who have not been inside yet, it wakes one more sleeper: the
//!    wake spreads as a chain and the caller pays for one.
//! 4. *Leave.* It subtracts its `active`. Who leaves a gate that is no longer open as the last one sets the latch.
//! 5. *Close.* The caller, when it is through (also while unwinding), clears `open` and `seats`. If `active` was not 0 it
//!    waits for the latch. It never waits for a worker that has not joined. Then it gives up `busy`.
//! 6. *Sleep.* A worker that has looked long enough exchanges `sleeping + 1`, on condition that the word is still one that
//!    gives it no work, then sleeps while the upper half is what it was in that exchange. Awake, it subtracts its `sleeping`.
//!
//! # Why it holds
//! * *No lost wake.* Sleep and open are exchanges on one word. If the sleep comes first the opener sees it counted and wakes;
//!   if it wakes too early the epoch has changed and the worker does not fall asleep. If the open comes first the sleep's
//!   exchange fails and the worker looks again.
//! * *No stolen wake.* A worker that has left this epoch and sleeps again stands behind those that slept before (Linux wakes in
//!   order; elsewhere all are woken). An earlier version handed out anonymous permits, and exactly that worker took the
//!   permit meant for another; the model `the_wake_reaches_every_sleeper` found it. Another version counted a worker that had
//!   left this epoch among those about to come, so that the chain broke; the stress test of the same name found that.
//! * *The job is alive while it is used.* It is read only between a join and the leave that follows; close clears `open`,
//!   so no join comes after it, and waits until every join before it has left.
//! * *One writer of the job.* It is stored between take and open, when nobody is active: the previous close saw to that.
//! * *The latch is set exactly once a close that found members inside*: after `open` is cleared `active` only falls, and one
//!   subtraction takes it from 1 to 0.
//! * The epoch tells a worker "you were in this one". It has 31 bits; a worker that misses exactly 2^31 regions in a row
//!   takes the next one for its own last one and stays out. Nobody waits for it, so that costs nothing but its help.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use crate::latch::Latch;
use crate::primitives::{AtomicU64, Ordering, UnsafeCell};
use crate::word::WideWord;
use crate::{Pad, Spin};

/// What members run; the argument is the member's number.
type Job = dyn Fn(usize) + Sync;
type Payload = Box<dyn Any + Send>;

/// What the caller posts for those who join.
#[derive(Clone, Copy)]
struct Posted {
    job: *const Job,
    /// Seats the region opened with.
    seats: u64,
}

/// Most members a gate can seat, the caller included.
pub const MOST_MEMBERS: usize = FIELD as usize;

const FIELD: u64 = 0x3ff;
const ONE_ACTIVE: u64 = 1;
const ONE_SEAT: u64 = 1 << 10;
const ONE_SLEEPING: u64 = 1 << 20;
const OPEN: u64 = 1 << 30;
const BUSY: u64 = 1 << 31;
const STOP: u64 = 1 << 32;
const ONE_EPOCH: u64 = 1 << 33;

/// The gate word, read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct View(u64);

impl View {
    fn active(self) -> u64 {
        self.0 & FIELD
    }
    fn seats(self) -> u64 {
        (self.0 / ONE_SEAT) & FIELD
    }
    fn sleeping(self) -> u64 {
        (self.0 / ONE_SLEEPING) & FIELD
    }
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
    fn epoch(self) -> u64 {
        self.0 / ONE_EPOCH
    }
    fn with_next_epoch(self) -> Self {
        View(self.0.wrapping_add(ONE_EPOCH))
    }
    /// The half that sleepers compare.
    fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// A worker that was last in `epoch` can enter.
    fn admits(self, epoch: u64) -> bool {
        self.has(OPEN) && self.seats() > 0 && self.epoch() != epoch
    }
}

/// Where callers open regions and workers join them. See the [module page](self).
pub struct Gate {
    word: Pad<WideWord>,
    job: Pad<UnsafeCell<Option<Posted>>>,
    left: Latch,
    payload: Mutex<Option<Payload>>,
    workers: u64,
    /// Threads in [`serve`](Gate::serve). No part of the protocol: it keeps the fields of the word from overflowing.
    serving: std::sync::atomic::AtomicU64,
}

// SAFETY: `job` is written only by the holder of `busy` while nobody is active, and read only by active members (module
// page, "one writer"); the pointer in it points to a `Sync` closure. All other fields are `Sync` themselves.
unsafe impl Sync for Gate {}
// SAFETY: the pointer in `job` is used only inside `region`, which borrows what it points to.
unsafe impl Send for Gate {}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Gate").field("workers", &self.workers).field("state", &state).finish()
    }
}

/// What a caller can know about the workers before it decides to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Somebody else's region is running: [`Door::open`] would not succeed now.
    pub busy: bool,
    /// Workers asleep; waking one is a system call and a scheduling delay.
    pub asleep: usize,
    /// Workers that are awake: looking for work, or in a region.
    pub awake: usize,
}

impl Gate {
    /// A gate for `workers` workers, each of which runs [`serve`](Gate::serve) on a thread of its own.
    ///
    /// # Panics
    /// If `workers + 1` exceeds [`MOST_MEMBERS`].
    pub fn new(workers: usize) -> Gate {
        assert!(
            workers < MOST_MEMBERS,
            "a gate seats at most {MOST_MEMBERS} members, not {workers} workers and a caller"
        );
        Gate {
            word: Pad(WideWord::new(0)),
            job: Pad(UnsafeCell::new(None)),
            left: Latch::new(),
            payload: Mutex::new(None),
            workers: workers as u64,
            serving: std::sync::atomic::AtomicU64::new(0),
        }
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        self.word.0.value()
    }

    /// The workers' state, for a decision. It may be outdated when it arrives.
    pub fn state(&self) -> State {
        // Relaxed: a hint; whoever acts on it does so by an exchange.
        let view = View(self.word().load(Ordering::Relaxed));
        let asleep = view.sleeping() as usize;
        State { busy: view.has(BUSY), asleep, awake: (self.workers as usize).saturating_sub(asleep) }
    }

    /// Runs `lead` on the caller, with a [`Door`] through which it may let workers in to run `body`.
    ///
    /// Returns when `lead` has returned and every worker that joined has left. `body` gets the member's number, `1..=workers`
    /// (a worker has the same number in every region); the caller is member 0 and does not run `body` itself. `lead` that
    /// never opens the door touches no atomic.
    ///
    /// # Panics
    /// With the payload of `lead`, else with the first payload of a member. All members have left by then.
    #[inline]
    pub fn region<R>(&self, body: &(dyn Fn(usize) + Sync), settle: Spin, lead: impl FnOnce(&Door<'_>) -> R) -> R {
        let door = Door { gate: self, body, opened: Cell::new(false), settle };
        let result = lead(&door);
        match door.shut() {
            Some(payload) => resume_unwind(payload),
            None => result,
        }
    }

    /// idle -> taken.
    fn take(&self) -> bool {
        // Relaxed: the exchange below confirms it.
        let mut view = View(self.word().load(Ordering::Relaxed));
        loop {
            if view.has(BUSY | STOP) {
                return false;
            }
            // Acquire: pairs with the Release in `give_up`; the last caller's use of `job` comes before ours.
            match self.word().compare_exchange_weak(view.0, view.0 | BUSY, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => view = View(now),
            }
        }
    }

    /// taken -> open.
    fn open(&self, seats: u64) {
        // Relaxed: the exchange below confirms it.
        let mut view = View(self.word().load(Ordering::Relaxed));
        loop {
            let next = View(view.with_next_epoch().0 + OPEN + seats * ONE_SEAT);
            // Release: pairs with the Acquire in `join`; who joins sees the job and all it borrows.
            match self.word().compare_exchange_weak(view.0, next.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return self.wake_for(seats, 0, view.sleeping()),
                Err(now) => view = View(now),
            }
        }
    }

    /// Wakes one sleeper if `seats` are more than will be taken without: by workers awake who are not among the `joined` of this
    /// region. (One who has joined, left and sleeps again is subtracted twice. Then a wake too many is paid, none is missing.)
    fn wake_for(&self, seats: u64, joined: u64, sleeping: u64) {
        let coming = self.workers.saturating_sub(joined + sleeping);
        if seats > coming && sleeping > 0 {
            self.word.0.wake(1);
        }
    }

    /// open -> closing -> taken: nobody is inside any more.
    fn close(&self, settle: Spin) {
        // Acquire: pairs with the Release in `leave`; what members did who have left is seen by the caller.
        let before = View(self.word().fetch_and(!(OPEN | (FIELD * ONE_SEAT)), Ordering::Acquire));
        if before.active() > 0 {
            self.left.wait(settle);
        }
    }

    /// taken -> idle.
    fn give_up(&self) {
        // Release: pairs with the Acquire in `take`.
        self.word().fetch_and(!BUSY, Ordering::Release);
    }

    /// The life of a worker: waits for regions and takes part in them until [`stop`](Gate::stop). `look` says before each
    /// wait how long to look before sleeping.
    ///
    /// `member` is this worker's number, `1..=workers`; every worker needs its own.
    ///
    /// # Panics
    /// If as many threads serve already as the gate has workers.
    pub fn serve(&self, member: usize, mut look: impl FnMut() -> Spin) {
        let _serving = Serving::new(self);
        let mut epoch = 0;
        while self.await_region(epoch, look()) {
            if let Some(joined) = self.join(epoch) {
                epoch = joined.epoch();
                self.attend(member, joined);
            }
        }
    }

    /// Waits until a region admits this worker (true) or the gate is stopped (false).
    fn await_region(&self, epoch: u64, mut spin: Spin) -> bool {
        loop {
            let mut stopped = false;
            let found = spin.until(|| {
                // Relaxed: `join` confirms it by an exchange.
                let view = View(self.word().load(Ordering::Relaxed));
                stopped = view.has(STOP);
                stopped || view.admits(epoch)
            });
            if found {
                return !stopped;
            }
            self.sleep(epoch);
            // Woken for a region that others have filled or ended: no reason to look long again.
            spin = Spin::NONE;
        }
    }

    /// Counts this worker as sleeping and sleeps, unless there is something to do.
    fn sleep(&self, epoch: u64) {
        // Relaxed: the exchange below confirms it.
        let mut view = View(self.word().load(Ordering::Relaxed));
        loop {
            if view.has(STOP) || view.admits(epoch) {
                return;
            }
            let next = view.0 + ONE_SLEEPING;
            // Relaxed: a count; what an opener publishes is read after `join`.
            match self.word().compare_exchange_weak(view.0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => view = View(now),
            }
        }
        self.word.0.wait(view.upper());
        // Relaxed: as above.
        self.word().fetch_sub(ONE_SLEEPING, Ordering::Relaxed);
    }

    /// Takes a seat, if there is still one: the epoch, and how many seats and sleepers that leaves.
    fn join(&self, epoch: u64) -> Option<View> {
        // Relaxed: the exchange below confirms it.
        let mut view = View(self.word().load(Ordering::Relaxed));
        loop {
            if !view.admits(epoch) {
                return None;
            }
            let next = View(view.0 + ONE_ACTIVE - ONE_SEAT);
            // Acquire: pairs with the Release in `open`; the job is there.
            match self.word().compare_exchange_weak(view.0, next.0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => view = View(now),
            }
        }
    }

    /// As an active member: passes the wake on, runs the job, keeps a panic for the caller, and leaves.
    fn attend(&self, member: usize, joined: View) {
        let _leave = Leave(self);
        let posted = self.job.0.with(|job| {
            // SAFETY: this thread is active, so the holder of `busy` has stored the job and does not touch it before
            // this thread has left.
            unsafe { *job }
        });
        let Some(posted) = posted else { return };
        self.wake_for(joined.seats(), posted.seats - joined.seats(), joined.sleeping());
        // SAFETY: the caller cannot return from `region`, nor unwind out of it, before this thread has left; until then
        // it borrows the closure.
        let job = unsafe { &*posted.job };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(member))) {
            let mut first = self.payload.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() {
                *first = Some(payload);
            } else {
                drop(first);
                discard(payload);
            }
        }
    }

    fn leave(&self) {
        // Release: pairs with the Acquire in `close`, and with the Acquire here of a member that leaves later.
        // Acquire: pairs with the Release here of members that left before; the last one passes all of it on to the
        // caller through the latch.
        let before = View(self.word().fetch_sub(ONE_ACTIVE, Ordering::AcqRel));
        if before.active() == 1 && !before.has(OPEN) {
            self.left.set();
        }
    }

    /// Ends [`serve`](Gate::serve) on every worker: those in a region finish it first. Regions from now on run on their
    /// callers alone.
    pub fn stop(&self) {
        // Relaxed: STOP carries nothing; workers look at the word itself.
        self.word().fetch_or(STOP, Ordering::Relaxed);
        self.word.0.wake(u32::MAX);
    }
}

struct Leave<'a>(&'a Gate);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// One of the threads in `serve`. More of them than workers could make `sleeping` overflow into the flags.
struct Serving<'a>(&'a Gate);

impl<'a> Serving<'a> {
    fn new(gate: &'a Gate) -> Self {
        // Relaxed: a count.
        let before = gate.serving.fetch_add(1, Ordering::Relaxed);
        let serving = Self(gate);
        assert!(before < gate.workers, "a gate for {} workers is served by more threads", gate.workers);
        serving
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        // Relaxed: a count.
        self.0.serving.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Drops a payload nobody will see. Its own drop may panic; that must not end a worker.
fn discard(payload: Payload) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

/// The caller's hand on the gate during one [`Gate::region`]. Closes it when dropped.
pub struct Door<'a> {
    gate: &'a Gate,
    body: &'a (dyn Fn(usize) + Sync),
    opened: Cell<bool>,
    settle: Spin,
}

impl std::fmt::Debug for Door<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("opened", &self.opened.get()).finish_non_exhaustive()
    }
}

impl Door<'_> {
    /// Lets up to `width - 1` workers in, waking sleepers if those awake are too few. False, without any effect, if the
    /// gate is in use by another region (or open already).
    pub fn open(&self, width: usize) -> bool {
        let seats = (width.saturating_sub(1) as u64).min(self.gate.workers);
        if self.opened.get() || seats == 0 || !self.gate.take() {
            return false;
        }
        let job: *const (dyn Fn(usize) + Sync + '_) = self.body;
        // SAFETY: only the lifetime changes. The pointer is used by members only, and this door's drop waits for them
        // while `body` is still borrowed.
        let job = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job) };
        self.gate.job.0.with_mut(|cell| {
            // SAFETY: `busy` is ours and nobody is active, so this is the only access.
            unsafe { *cell = Some(Posted { job, seats }) };
        });
        self.opened.set(true);
        self.gate.open(seats);
        true
    }

    /// Closes the gate and gives it up, once; the first panic of a member.
    fn shut(&self) -> Option<Payload> {
        if !self.opened.replace(false) {
            return None;
        }
        self.gate.close(self.settle);
        let payload = self.gate.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.gate.give_up();
        payload
    }

    /// What the workers are doing now.
    pub fn state(&self) -> State {
        self.gate.state()
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // Still open only while `lead` unwinds: the caller's own panic wins over a member's.
        if let Some(payload) = self.shut() {
            discard(payload);
        }
    }
}
