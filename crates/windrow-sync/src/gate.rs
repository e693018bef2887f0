//! Gate: words through which members enter regions.
//!
//! A gate has several *lanes*, each of which carries one region at a time: so regions of several callers, and regions inside
//! regions, run side by side. Lane 0 is the main one. Its word is what idle workers look at and sleep on; a lone region
//! touches no other shared word but the table of lanes, which workers never read.
//!
//! # States of a lane's word
//! `bell:11 | epoch:20 | stop:1 || waited:1 | open:1 | sleeping:10 | seats:10 | active:10`
//! (`bell`, `stop` and `sleeping` are used in the main word only.)
//!
//! * *free*: nobody's. *taken*: the caller that exchanged the lane's bit in the table stores its job. *open*: workers may join
//!   while there are seats. *closing*: no longer open, `active` members still inside. Then free again.
//! * `sleeping` counts workers that sleep on the upper half, are about to, or have not yet noticed that they are awake. It is
//!   never too small. `bell` counts regions that opened in other lanes.
//!
//! # Protocol
//! 1. *Take.* A caller that wants help exchanges the bit of the lowest free lane. If all are taken it does not wait: it goes on
//!    alone.
//! 2. *Open.* It stores the job and exchanges the lane's word for one that is open, with a new epoch and `seats = width - 1`. In a
//!    lane other than the main one it then adds to the bell. If more seats are free than idle workers, it wakes one sleeper.
//! 3. *Join.* A worker that sees an open lane whose epoch it has not been in exchanges `active + 1, seats - 1`, reads the job
//!    and runs it. If more seats are left than workers awake who have not been inside yet, it wakes two more sleepers: the
//!    wake spreads as a tree and the caller pays for one. A worker looks at the main word, and at the other lanes whenever
//!    the bell has changed.
//! 4. *Leave.* It subtracts its `active`. Who leaves a lane that is `waited` for as the last one sets the latch.
//! 5. *Close.* The caller, when it is through (also while unwinding), clears `open` and `seats`, and looks at the word until
//!    `active` is 0. When it has looked long enough it sets `waited`; if somebody is still inside then, it waits for the latch. It
//!    never waits for a worker that has not joined. Then it gives the lane back.
//! 6. *Sleep.* A worker that has looked long enough exchanges `sleeping + 1`, on condition that the main word is still one that
//!    gives it no work and that the bell is the one it has answered, then sleeps while the upper half is what it was in that
//!    exchange. Awake, it subtracts its `sleeping`.
//!
//! # Why it holds
//! * *No lost wake.* Sleep, open and bell are exchanges on one word. If the sleep comes first the opener sees it counted and
//!   wakes; if it wakes too early the upper half has changed and the worker does not fall asleep. If the open (or the bell) comes
//!   first the sleep's exchange fails and the worker looks again.
//! * *No stolen wake.* A worker that has left this epoch and sleeps again stands behind those that slept before (Linux wakes in
//!   order; elsewhere all are woken). An earlier version handed out anonymous permits, and exactly that worker took the
//!   permit meant for another; the model `the_wake_reaches_every_sleeper` found it. Another version counted a worker that had
//!   left this epoch among those about to come, so that the chain broke; the stress test of the same name found that.
//! * *The job is alive while it is used.* It is read only between a join and the leave that follows; close clears `open`,
//!   so no join comes after it, and waits until every join before it has left.
//! * *One writer of the job.* It is stored between take and open, when nobody is active: the previous close saw to that.
//! * *The latch is set exactly once a close that waits for it*: after `open` is cleared `active` only falls, one subtraction
//!   takes it from 1 to 0, and it finds `waited` exactly if the caller found somebody inside when it set it.
//! * The epoch tells a worker "you were in this one", the bell "you have looked". They have 20 and 11 bits; a worker that misses
//!   exactly 2^20 regions, or 2^11 bells, stays out of one region. Nobody waits for it, so that costs nothing but its help.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use crate::hint::Hint;
use crate::latch::Latch;
use crate::primitives::{AtomicU32, AtomicU64, Ordering, UnsafeCell, thread_cell};
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

/// Regions that may be open at the same time; more of them run on their callers alone.
pub const LANES: usize = 8;

const MAIN: usize = 0;
const FIELD: u64 = 0x3ff;
const ONE_ACTIVE: u64 = 1;
const ONE_SEAT: u64 = 1 << 10;
const ONE_SLEEPING: u64 = 1 << 20;
const OPEN: u64 = 1 << 30;
const WAITED: u64 = 1 << 31;
const STOP: u64 = 1 << 32;
const ONE_EPOCH: u64 = 1 << 33;
const EPOCHS: u64 = (1 << 20) - 1;
const ONE_BELL: u64 = 1 << 53;

/// A lane's word, read.
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
        (self.0 / ONE_EPOCH) & EPOCHS
    }
    fn bell(self) -> u64 {
        self.0 / ONE_BELL
    }
    /// (Past the last epoch this adds to the bell: a look in vain.)
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

/// What one region at a time uses. The word and the job share cache lines: who sees the one has the other.
struct Lane {
    word: WideWord,
    job: UnsafeCell<Option<Posted>>,
    left: Latch,
    payload: Mutex<Option<Payload>>,
}

impl Lane {
    fn new() -> Self {
        Lane { word: WideWord::new(0), job: UnsafeCell::new(None), left: Latch::new(), payload: Mutex::new(None) }
    }

    fn word(&self) -> &AtomicU64 {
        self.word.value()
    }
}

/// What a worker remembers between regions: the epoch it was last in, for every lane, and the bell it has answered.
struct Seen {
    epochs: [u64; LANES],
    bell: u64,
}

/// Where callers open regions and workers join them. See the [module page](self).
pub struct Gate {
    lanes: [Pad<Lane>; LANES],
    /// A bit for every lane that is taken.
    taken: Pad<AtomicU32>,
    workers: u64,
    /// Threads in [`serve`](Gate::serve). No part of the protocol: it keeps the fields of the word from overflowing, and says who
    /// can be idle.
    serving: std::sync::atomic::AtomicU64,
    /// What callers did in each lane (only its holder writes), and what each worker did (only it writes).
    callers: [Pad<Tally>; LANES],
    members: Box<[Pad<Tally>]>,
}

// SAFETY: a lane's `job` is written only by the holder of its bit while nobody is active, and read only by active members
// (module page, "one writer"); the pointer in it points to a `Sync` closure. All other fields are `Sync` themselves.
unsafe impl Sync for Gate {}
// SAFETY: the pointers in the lanes are used only inside `region`, which borrows what they point to.
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
    /// Every lane is taken: [`Door::open`] would not succeed now.
    pub busy: bool,
    /// Workers asleep; waking one is a system call and a scheduling delay.
    pub asleep: usize,
    /// Workers that are awake and in no region, as far as can be seen.
    pub idle: usize,
    /// Workers that do not serve: their threads have not begun yet, or have ended.
    pub absent: usize,
}

/// How often things happened since the gate was made. Exact when nothing is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Regions that opened.
    pub opened: u64,
    /// Times a worker joined a region.
    pub joined: u64,
    /// System calls that woke somebody, or tried to.
    pub wakes: u64,
    /// Times a worker went to sleep, which is a system call too.
    pub sleeps: u64,
}

/// Where a worker stands in its wait for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It begins to look.
    Begins,
    /// It has looked long enough and is about to sleep. (How long to look is not asked.)
    Sleeps,
    /// It has slept, and looks again.
    Woken,
}

thread_cell! {
    /// The gates that this thread is inside of. No part of the protocol.
    INSIDE: Inside = Inside::NONE
}

/// Gates that a thread is inside of, the outermost first: it serves them, or has a region open in them.
#[derive(Clone, Copy)]
struct Inside {
    gates: [usize; Inside::KNOWN],
    depth: usize,
}

impl Inside {
    /// Regions are rarely open in more gates than this at once. Deeper, every gate counts as one of them.
    const KNOWN: usize = 4;
    const NONE: Inside = Inside { gates: [0; Inside::KNOWN], depth: 0 };

    fn enter(gate: &Gate) {
        INSIDE.with(|cell| {
            let mut inside = cell.get();
            if let Some(free) = inside.gates.get_mut(inside.depth) {
                *free = gate.address();
            }
            inside.depth += 1;
            cell.set(inside);
        });
    }

    fn leave() {
        INSIDE.with(|cell| cell.set(Inside { depth: cell.get().depth - 1, ..cell.get() }));
    }
}

/// Whether this thread serves a gate, or has a region open in one.
pub fn is_inside_any() -> bool {
    INSIDE.with(|cell| cell.get().depth > 0)
}

/// Counters with one writer at a time.
#[derive(Debug, Default)]
struct Tally {
    entered: Hint,
    wakes: Hint,
    sleeps: Hint,
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
            lanes: std::array::from_fn(|_| Pad(Lane::new())),
            taken: Pad(AtomicU32::new(0)),
            workers: workers as u64,
            serving: std::sync::atomic::AtomicU64::new(0),
            callers: std::array::from_fn(|_| Pad::default()),
            members: (0..workers).map(|_| Pad::default()).collect(),
        }
    }

    #[inline]
    fn main(&self) -> &AtomicU64 {
        self.lanes[MAIN].0.word()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether this thread serves this gate, or has a region open in it. Such a thread must not wait until the workers end: one of
    /// them may be waiting for it. (True, too, deep inside regions of many gates, where the outer ones are no longer told apart.)
    pub fn is_inside(&self) -> bool {
        let Inside { gates, depth } = INSIDE.with(std::cell::Cell::get);
        depth > gates.len() || gates[..depth].contains(&self.address())
    }

    /// The workers' state, for a decision. It may be outdated when it arrives.
    #[inline]
    pub fn state(&self) -> State {
        // Relaxed: a hint; whoever acts on it does so by an exchange.
        let view = View(self.main().load(Ordering::Relaxed));
        // Relaxed: as above.
        let taken = self.taken.0.load(Ordering::Relaxed);
        let asleep = view.sleeping() as usize;
        // Relaxed: as above. A thread that has been started may take long until it runs.
        let serving = self.serving.load(Ordering::Relaxed) as usize;
        let absent = (self.workers as usize).saturating_sub(serving);
        let mut idle = serving.saturating_sub(asleep + view.active() as usize);
        if taken > 1 {
            for lane in &self.lanes[1..] {
                // Relaxed: as above.
                idle = idle.saturating_sub(View(lane.0.word().load(Ordering::Relaxed)).active() as usize);
            }
        }
        State { busy: taken.trailing_ones() as usize >= LANES, asleep, idle, absent }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for caller in &self.callers {
            counts.opened += caller.0.entered.get();
            counts.wakes += caller.0.wakes.get();
        }
        for member in &self.members {
            counts.joined += member.0.entered.get();
            counts.wakes += member.0.wakes.get();
            counts.sleeps += member.0.sleeps.get();
        }
        counts
    }

    /// Runs `lead` on the caller, with a [`Door`] through which it may let workers in to run `body`.
    ///
    /// Returns when `lead` has returned and every worker that joined has left. `body` gets the member's number, `1..=workers`
    /// (a worker has the same number in every region, and is in it once at most); the caller is member 0 and does not run
    /// `body` itself. `lead` that never opens the door touches no atomic.
    ///
    /// # Panics
    /// With the payload of `lead`, else with the first payload of a member. All members have left by then.
    #[inline]
    pub fn region<R>(&self, body: &(dyn Fn(usize) + Sync), settle: Spin, lead: impl FnOnce(&Door<'_>) -> R) -> R {
        let door = Door { gate: self, body, lane: Cell::new(None), settle };
        let result = lead(&door);
        match door.shut() {
            Some(payload) => resume_unwind(payload),
            None => result,
        }
    }

    /// The lowest free lane, now taken.
    fn take(&self) -> Option<usize> {
        // Relaxed: the exchange below confirms it.
        let mut taken = self.taken.0.load(Ordering::Relaxed);
        loop {
            let lane = taken.trailing_ones() as usize;
            if lane >= LANES {
                return None;
            }
            let next = taken | 1 << lane;
            // Acquire: pairs with the Release in `give_back`; the last holder's use of the lane comes before ours.
            match self.taken.0.compare_exchange_weak(taken, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(lane),
                Err(now) => taken = now,
            }
        }
    }

    /// taken -> open.
    fn open(&self, at: usize, seats: u64) {
        let word = self.lanes[at].0.word();
        // Relaxed: the exchange below confirms it.
        let mut view = View(word.load(Ordering::Relaxed));
        loop {
            let next = View(view.with_next_epoch().0 + OPEN + seats * ONE_SEAT);
            // Release: pairs with the Acquire in `join`; who joins sees the job and all it borrows.
            match word.compare_exchange_weak(view.0, next.0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => view = View(now),
            }
        }
        if at != MAIN {
            // Release: pairs with the Acquire in `answer`; who hears this bell sees the lane open.
            view = View(self.main().fetch_add(ONE_BELL, Ordering::Release));
        }
        self.callers[at].0.entered.add(1);
        self.wake_for(seats, 0, 1, view, &self.callers[at].0);
    }

    /// Wakes up to `most` sleepers if `seats` are more than will be taken without: by workers awake who are not among the `joined` of this
    /// region. (One who has joined, left and sleeps again is subtracted twice. Then a wake too many is paid, none is missing.
    /// Beside another region nobody can say who will come: there, a sleeper is woken.)
    fn wake_for(&self, seats: u64, joined: u64, most: u32, main: View, tally: &Tally) {
        if main.sleeping() == 0 {
            return;
        }
        // Relaxed: a guess at who will come.
        let lone = self.taken.0.load(Ordering::Relaxed) == 1 << MAIN;
        let coming = if lone { self.workers.saturating_sub(joined + main.sleeping()) } else { 0 };
        if seats > coming {
            tally.wakes.add(1);
            self.lanes[MAIN].0.word.wake(most.min((seats - coming) as u32));
        }
    }

    /// open -> closing -> taken: nobody is inside any more.
    fn close(&self, at: usize, settle: Spin) {
        let lane = &self.lanes[at].0;
        let word = lane.word();
        // Acquire: pairs with the Release in `leave`; what members did who have left is seen by the caller.
        let before = View(word.fetch_and(!(OPEN | (FIELD * ONE_SEAT)), Ordering::Acquire));
        // Acquire: as above, for those who leave now.
        let all_left = || View(word.load(Ordering::Acquire)).active() == 0;
        if before.active() == 0 || settle.until(all_left) {
            return;
        }
        // Acquire: as above.
        let before = View(word.fetch_or(WAITED, Ordering::Acquire));
        if before.active() > 0 {
            lane.left.wait(Spin::NONE);
        }
        // Relaxed: nobody is inside, so nobody looks at it.
        word.fetch_and(!WAITED, Ordering::Relaxed);
    }

    /// taken -> free.
    fn give_back(&self, at: usize) {
        // Release: pairs with the Acquire in `take`.
        self.taken.0.fetch_and(!(1 << at), Ordering::Release);
    }

    /// The life of a worker: waits for regions and takes part in them until [`stop`](Gate::stop). `look` says before each
    /// wait how long to look before sleeping, and hears when this worker is about to sleep.
    ///
    /// `member` is this worker's number, `1..=workers`; every worker needs its own.
    ///
    /// # Panics
    /// If `member` is not one of the gate's, or as many threads serve already as it has workers.
    pub fn serve(&self, member: usize, mut look: impl FnMut(Wait) -> Spin) {
        assert!(
            (1..=self.workers).contains(&(member as u64)),
            "{member} is not a worker of a gate for {} workers",
            self.workers
        );
        let _serving = Serving::new(self);
        let mut seen = Seen { epochs: [0; LANES], bell: 0 };
        while self.await_region(&seen, &mut look, member) {
            if !self.enter(MAIN, &mut seen, member) {
                self.answer(&mut seen, member);
            }
        }
    }

    /// Looks at the other lanes if the bell has changed.
    fn answer(&self, seen: &mut Seen, member: usize) {
        // Acquire: pairs with the Release of the bell in `open`; the lanes it rang for are seen open.
        seen.bell = View(self.main().load(Ordering::Acquire)).bell();
        for at in 1..LANES {
            self.enter(at, seen, member);
        }
    }

    /// Takes part in the lane's region, if it admits this worker.
    fn enter(&self, at: usize, seen: &mut Seen, member: usize) -> bool {
        let Some(joined) = self.join(at, seen.epochs[at]) else { return false };
        seen.epochs[at] = joined.epoch();
        self.attend(at, member, joined);
        true
    }

    /// Waits until a region may admit this worker (true) or the gate is stopped (false).
    fn await_region(&self, seen: &Seen, look: &mut impl FnMut(Wait) -> Spin, member: usize) -> bool {
        let mut wait = Wait::Begins;
        loop {
            let mut stopped = false;
            let found = look(wait).until(|| {
                // Relaxed: `join` confirms it by an exchange, `answer` by another load.
                let view = View(self.main().load(Ordering::Relaxed));
                stopped = view.has(STOP);
                stopped || seen.misses(view)
            });
            if found {
                return !stopped;
            }
            // Woken for a region that others have filled or ended, it looks again: more may follow.
            look(Wait::Sleeps);
            self.sleep(seen, member);
            wait = Wait::Woken;
        }
    }

    /// Counts this worker as sleeping and sleeps, unless there is something to do.
    fn sleep(&self, seen: &Seen, member: usize) {
        // Relaxed: the exchange below confirms it.
        let mut view = View(self.main().load(Ordering::Relaxed));
        loop {
            if view.has(STOP) || seen.misses(view) {
                return;
            }
            let next = view.0 + ONE_SLEEPING;
            // Relaxed: a count; what an opener publishes is read after `join`.
            match self.main().compare_exchange_weak(view.0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => view = View(now),
            }
        }
        self.members[member - 1].0.sleeps.add(1);
        self.lanes[MAIN].0.word.wait(view.upper());
        // Relaxed: as above.
        self.main().fetch_sub(ONE_SLEEPING, Ordering::Relaxed);
    }

    /// Takes a seat, if there is still one: the epoch, and how many seats that leaves.
    fn join(&self, at: usize, epoch: u64) -> Option<View> {
        let word = self.lanes[at].0.word();
        // Relaxed: the exchange below confirms it.
        let mut view = View(word.load(Ordering::Relaxed));
        loop {
            if !view.admits(epoch) {
                return None;
            }
            let next = View(view.0 + ONE_ACTIVE - ONE_SEAT);
            // Acquire: pairs with the Release in `open`; the job is there.
            match word.compare_exchange_weak(view.0, next.0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => view = View(now),
            }
        }
    }

    /// As an active member: passes the wake on, runs the job, keeps a panic for the caller, and leaves.
    fn attend(&self, at: usize, member: usize, joined: View) {
        let lane = &self.lanes[at].0;
        let _leave = Leave(lane);
        let posted = lane.job.with(|job| {
            // SAFETY: this thread is active, so the holder of the lane has stored the job and does not touch it before
            // this thread has left.
            unsafe { *job }
        });
        let Some(posted) = posted else { return };
        let tally = &self.members[member - 1].0;
        tally.entered.add(1);
        if joined.seats() > 0 {
            // Relaxed: a count of sleepers; whoever is counted too late is woken by the next to join, or not at all.
            let main = if at == MAIN { joined } else { View(self.main().load(Ordering::Relaxed)) };
            self.wake_for(joined.seats(), posted.seats - joined.seats(), 2, main, tally);
        }
        // SAFETY: the caller cannot return from `region`, nor unwind out of it, before this thread has left; until then
        // it borrows the closure.
        let job = unsafe { &*posted.job };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(member))) {
            let mut first = lane.payload.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() {
                *first = Some(payload);
            } else {
                drop(first);
                discard(payload);
            }
        }
    }

    /// Ends [`serve`](Gate::serve) on every worker: those in a region finish it first. Regions from now on run on their
    /// callers alone.
    pub fn stop(&self) {
        // Relaxed: STOP carries nothing; workers look at the word itself.
        self.main().fetch_or(STOP, Ordering::Relaxed);
        self.lanes[MAIN].0.word.wake(u32::MAX);
    }

    /// Whether it was [stopped](Gate::stop).
    pub fn is_stopped(&self) -> bool {
        // Relaxed: STOP carries nothing.
        View(self.main().load(Ordering::Relaxed)).has(STOP)
    }
}

impl Seen {
    /// There is something in the main word that this worker has not seen.
    fn misses(&self, main: View) -> bool {
        main.admits(self.epochs[MAIN]) || main.bell() != self.bell
    }
}

struct Leave<'a>(&'a Lane);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `close`, and with the Acquire here of a member that leaves later.
        // Acquire: pairs with the Release here of members that left before; the last one passes all of it on to the
        // caller through the latch.
        let before = View(self.0.word().fetch_sub(ONE_ACTIVE, Ordering::AcqRel));
        if before.active() == 1 && before.has(WAITED) {
            self.0.left.set();
        }
    }
}

/// One of the threads in `serve`. More of them than workers could make `sleeping` overflow into the flags.
struct Serving<'a>(&'a Gate);

impl<'a> Serving<'a> {
    fn new(gate: &'a Gate) -> Self {
        // Relaxed: a count.
        let before = gate.serving.fetch_add(1, Ordering::Relaxed);
        let serving = Self(gate);
        Inside::enter(gate);
        assert!(before < gate.workers, "a gate for {} workers is served by more threads", gate.workers);
        serving
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        Inside::leave();
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
    /// The lane, while it is open.
    lane: Cell<Option<usize>>,
    settle: Spin,
}

impl std::fmt::Debug for Door<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("lane", &self.lane.get()).finish_non_exhaustive()
    }
}

impl Door<'_> {
    /// Lets up to `width - 1` workers in, waking sleepers if those awake are too few. False, without any effect, if every
    /// lane of the gate is in use, or the gate is stopped (or the door is open already).
    pub fn open(&self, width: usize) -> bool {
        let seats = (width.saturating_sub(1) as u64).min(self.gate.workers);
        // A caller that opens a gate while it is being stopped stays alone, no more.
        if self.lane.get().is_some() || seats == 0 || self.gate.is_stopped() {
            return false;
        }
        let Some(at) = self.gate.take() else { return false };
        let job: *const (dyn Fn(usize) + Sync + '_) = self.body;
        // SAFETY: only the lifetime changes. The pointer is used by members only, and this door's drop waits for them
        // while `body` is still borrowed.
        let job = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job) };
        self.gate.lanes[at].0.job.with_mut(|cell| {
            // SAFETY: the lane is ours and nobody is active, so this is the only access.
            unsafe { *cell = Some(Posted { job, seats }) };
        });
        self.lane.set(Some(at));
        Inside::enter(self.gate);
        self.gate.open(at, seats);
        true
    }

    /// Closes the lane and gives it back, once; the first panic of a member.
    fn shut(&self) -> Option<Payload> {
        let at = self.lane.take()?;
        self.gate.close(at, self.settle);
        let payload = self.gate.lanes[at].0.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.gate.give_back(at);
        Inside::leave();
        payload
    }

    /// What the workers are doing now.
    pub fn state(&self) -> State {
        self.gate.state()
    }

    /// Workers that have joined this region and not left it yet. It may be outdated when it arrives.
    pub fn inside(&self) -> usize {
        // Relaxed: a hint.
        self.lane.get().map_or(0, |at| View(self.gate.lanes[at].0.word().load(Ordering::Relaxed)).active() as usize)
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
