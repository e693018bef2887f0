#![doc = include_str!("gate.md")]

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::debug::show_as;
use crate::base::fork::{Process, Stranded};
use crate::base::machine;
use crate::base::mutex::Mutex;
use crate::base::pad::Pad;
use crate::base::primitives::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use crate::base::relaxed::RelaxedU64;
use crate::base::spin::Spin;
use crate::base::unwind::{Finally, Payload, discard};
use crate::base::word::{WideWord, Word};
use crate::region::inside::{self, EnteredGates};
pub use crate::region::inside::{Inside, is_inside_any};

/// A worker that has joined a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedWorker {
    /// The worker's number in its gate: 1 or more. 0 is a caller that waits for the region around this one.
    pub worker: usize,
    /// The worker's number among the members of this region: 1 or more, and below the region's width. The caller is member 0.
    pub member: usize,
}

/// The closure that workers that join run.
type RegionJob = dyn Fn(JoinedWorker) + Sync;

/// The post of a caller for workers that join.
#[derive(Clone, Copy)]
struct Posted {
    job: *const RegionJob,
    /// Seats the region opened with.
    seats: u64,
}

/// The maximum number of members of a region, the caller included.
pub const MOST_MEMBERS: usize = FIELD as usize;

/// Regions that may be open at the same time; further ones run on their callers alone.
pub const LANES: usize = 8;

const MAIN: usize = 0;
const FIELD: u64 = 0x3ff;
const ONE_ACTIVE: u64 = 1;
const ONE_SEAT: u64 = 1 << 10;
const ONE_SLEEPING: u64 = 1 << 20;
const OPEN: u64 = 1 << 30;
const WAITED: u64 = 1 << 31;
const STOP: u64 = 1 << 32;
const DELAYED: u64 = 1 << 33;
const ONE_EPOCH: u64 = 1 << 34;
const EPOCHS: u64 = (1 << 19) - 1;
const ONE_BELL: u64 = 1 << 53;

/// A lane's word, read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LaneView(u64);

impl LaneView {
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
    /// (After the last epoch the carry adds to the bell; then workers check the other lanes once for nothing.)
    fn with_next_epoch(self) -> Self {
        LaneView(self.0.wrapping_add(ONE_EPOCH))
    }
    /// The half that parked workers compare.
    fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// True if a worker that was last in `epoch` can join.
    fn admits(self, epoch: u64) -> bool {
        self.has(OPEN) && self.seats() > 0 && self.epoch() != epoch
    }
}

/// The words and the job of one region at a time. Word and job share cache lines: one miss fetches both.
#[derive(Default)]
struct RegionLane {
    word: WideWord,
    /// While the lane is `DELAYED`: the tick from which on workers may join. A hint: only time depends on it.
    due: RelaxedU64,
    /// The lane, plus 1, inside which the region's caller opened the region; 0 is none.
    around: RelaxedU64,
    job: UnsafeCell<Option<Posted>>,
    /// Counts the times that a holder was woken: by the last member that left, or by a caller that opened a region inside.
    left: Word,
    /// The number of them that holders have waited for.
    waited: RelaxedU64,
    payload: Mutex<Option<Payload>>,
}

impl RegionLane {
    fn word(&self) -> &AtomicU64 {
        self.word.value()
    }

    /// By an active member, at its end.
    fn leave(&self) {
        // Release: pairs with the Acquire in `close`, which sees what all members did: each change of the word after this one is a
        // read-modify-write, so all of them are one release sequence.
        let before = LaneView(self.word().fetch_sub(ONE_ACTIVE, Ordering::Release));
        if before.active() == 1 && before.has(WAITED) {
            self.wake_holder();
        }
    }

    /// By the thread that has taken `WAITED` away.
    fn wake_holder(&self) {
        // Relaxed: a count. The holder reads the lane's word again.
        self.left.value().fetch_add(1, Ordering::Relaxed);
        self.left.wake(1);
    }

    /// Parks until `WAITED` is taken away. By the holder.
    fn await_wake(&self) {
        let before = self.waited.get() as u32;
        // Relaxed: as above.
        while self.left.value().load(Ordering::Relaxed) == before {
            self.left.wait(before);
        }
        self.waited.set(u64::from(before.wrapping_add(1)));
    }
}

/// Workers of a gate that wait elsewhere, for another kind of work too. See [`Gate::elsewhere`].
pub trait WorkersElsewhere: Send + Sync {
    /// Numbers of workers without work: of those that spin, and of those that are parked.
    fn idle(&self) -> (usize, usize);
    /// Calls one of these workers to [visit](Gate::visit) the gate. If none is idle, the next one that becomes idle comes. One worker may answer
    /// several calls at once.
    fn call(&self);
}

/// Memory of a worker between regions. (Or of the caller of a region that waits for its members: the worker 0.)
#[derive(Default)]
pub struct Visitor {
    worker: usize,
    /// Its last epoch in every lane.
    epochs: [u64; LANES],
    /// The bell that it has answered.
    bell: u64,
    /// The tick at which it checks the other lanes again, because one of them was not due.
    later: Option<u64>,
}

show_as!("Visitor": [] Visitor, |it| worker: it.worker);

/// A signal to a waiting worker.
enum Signal {
    /// The gate is stopped.
    Stop,
    /// A lane may admit it.
    Call,
    /// A lane will admit it at this tick.
    Later(u64),
    Nothing,
}

/// Callers open regions at a gate, and workers join them. See the [module page](self).
///
/// ```
/// use std::sync::Mutex;
/// use windrow_sync::{Spin, gate::Gate, latch::Latch};
///
/// let (gate, joined, members) = (Gate::new(1), Latch::new(), Mutex::new(vec![0]));
/// std::thread::scope(|scope| {
///     scope.spawn(|| gate.serve(1, |_| Spin::NONE));
///     let body = |worker: windrow_sync::gate::JoinedWorker| {
///         members.lock().unwrap().push(worker.member);
///         joined.set();
///     };
///     gate.region(&body, Spin::NONE, |door| {
///         assert!(door.open(2));
///         joined.wait(Spin::NONE); // a caller with work to do would not wait
///     });
///     gate.stop();
/// });
/// assert_eq!(members.into_inner().unwrap(), [0, 1]);
/// ```
pub struct Gate {
    lanes: [Pad<RegionLane>; LANES],
    /// A bit for every lane that is taken.
    taken: Pad<AtomicU32>,
    workers: u64,
    elsewhere: Option<Box<dyn WorkersElsewhere>>,
    /// In a forked child the gate has no workers.
    process: Process,
    /// Threads in [`serve`](Gate::serve). Not part of the protocol: the count keeps the word's fields from overflowing, and bounds the
    /// number of idle workers.
    serving: std::sync::atomic::AtomicU64,
}

// SAFETY: a lane's `job` is written only by the holder of its bit while no member is active, and read only by active members
// (module page, "one writer"); the pointer in it points to a `Sync` closure. All other fields are `Sync` themselves.
unsafe impl Sync for Gate {}
// SAFETY: the pointers in the lanes are used only inside `region`, which borrows what they point to.
unsafe impl Send for Gate {}

show_as!("Gate": [] Gate, |it| workers: it.workers, state: it.state());

/// Counts of workers, for the decision to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Every lane is taken: [`Door::open`] would not succeed now.
    pub busy: bool,
    /// Parked workers; waking one is a system call and a scheduling delay.
    pub asleep: usize,
    /// Workers that are awake and in no region, by a snapshot; and callers that wait for a region around this thread.
    pub idle: usize,
    /// Workers that do not serve: their threads have not begun yet, or have ended.
    pub absent: usize,
}

/// A stage of a worker's wait for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The worker begins to spin.
    Begins,
    /// The worker's spin budget is used up, and the worker is about to park. (The budget returned here is ignored.)
    Sleeps,
    /// The worker was parked, and spins again.
    Woken,
}

impl Gate {
    /// A gate for `workers` workers, each of which runs [`serve`](Gate::serve) on a separate thread.
    ///
    /// # Panics
    /// If `workers + 1` exceeds [`MOST_MEMBERS`].
    pub fn new(workers: usize) -> Gate {
        assert!(
            workers < MOST_MEMBERS,
            "a gate seats at most {MOST_MEMBERS} members, not a caller and {workers} workers"
        );
        Gate {
            lanes: Default::default(),
            taken: Pad::default(),
            workers: workers as u64,
            elsewhere: None,
            process: Process::this(),
            serving: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// A gate for `workers` workers that do not [`serve`](Gate::serve) it. They wait elsewhere, and [`visit`](Gate::visit) it when they are
    /// called.
    ///
    /// # Panics
    /// Those of [`new`](Gate::new).
    pub fn elsewhere(workers: usize, elsewhere: Box<dyn WorkersElsewhere>) -> Gate {
        Gate { elsewhere: Some(elsewhere), ..Gate::new(workers) }
    }

    /// Worker `worker`, `1..=workers`. No two workers share a number.
    ///
    /// # Panics
    /// If `worker` is not one of the gate's.
    pub fn visitor(&self, worker: usize) -> Visitor {
        let all = self.workers;
        assert!((1..=all).contains(&(worker as u64)), "{worker} is not a worker of a gate for {all} workers");
        Visitor { worker, ..Visitor::default() }
    }

    /// True if a [`visit`](Gate::visit) may find a region.
    pub fn calls(&self, visitor: &Visitor) -> bool {
        self.process.is_this() && matches!(self.signal(visitor), Signal::Call | Signal::Later(_))
    }

    /// Takes part in the regions that admit the visitor, until none does. The visitor waits for a region that is not due.
    pub fn visit(&self, visitor: &mut Visitor) {
        EnteredGates::enter(self.address());
        let _left = Finally(EnteredGates::leave);
        while self.process.is_this() {
            match self.signal(visitor) {
                Signal::Stop | Signal::Nothing => return,
                Signal::Later(due) => {
                    let left = due.saturating_sub(machine::tick());
                    let wait = Spin { busy: 0, yielding: left };
                    wait.until(|| !matches!(self.signal(visitor), Signal::Later(_)));
                }
                Signal::Call => {
                    if !self.enter(MAIN, visitor) {
                        self.answer(visitor);
                    }
                }
            }
        }
    }

    #[inline]
    fn main(&self) -> &AtomicU64 {
        self.lanes[MAIN].0.word()
    }

    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// True if this thread serves this gate, or has a region open in it. Such a thread must not wait until the workers end: one
    /// of them may be waiting for it. (Also true deep inside regions of many gates, where the outer gates are not known.)
    pub fn is_inside(&self) -> bool {
        EnteredGates::contain(self.address())
    }

    /// A snapshot of the workers' state, for a decision. It may be outdated at once.
    #[inline]
    pub fn state(&self) -> WorkerCounts {
        // Relaxed: a snapshot; a caller that acts on it does so by a compare-exchange.
        let view = LaneView(self.main().load(Ordering::Relaxed));
        // Relaxed: as above.
        let taken = self.taken.0.load(Ordering::Relaxed);
        let busy = taken.trailing_ones() as usize >= LANES;
        if let Some(elsewhere) = &self.elsewhere {
            let (spinning, asleep) = elsewhere.idle();
            return WorkerCounts { busy, asleep, idle: spinning + self.waiting_around(), absent: 0 };
        }
        let asleep = view.sleeping() as usize;
        // Relaxed: as above. A thread that was started may take long until it runs.
        let serving = self.serving.load(Ordering::Relaxed) as usize;
        let absent = (self.workers as usize).saturating_sub(serving);
        let mut idle = serving.saturating_sub(asleep + view.active() as usize);
        if taken > 1 {
            for lane in &self.lanes[1..] {
                // Relaxed: as above.
                idle = idle.saturating_sub(LaneView(lane.0.word().load(Ordering::Relaxed)).active() as usize);
            }
        }
        idle += self.waiting_around();
        WorkerCounts { busy, asleep, idle, absent }
    }

    /// Callers that wait for a region of this gate around this thread: they would join a region that this thread opens.
    fn waiting_around(&self) -> usize {
        let (gate, mut around) = inside::region();
        let mut waiting = 0;
        while gate == self.address()
            && let Some(lane) = (around as usize).checked_sub(1).map(|lane| &self.lanes[lane].0)
        {
            // Relaxed: a snapshot. A lane that is held and not open is closing.
            waiting += usize::from(!LaneView(lane.word().load(Ordering::Relaxed)).has(OPEN));
            around = lane.around.get();
        }
        waiting
    }

    /// Runs `lead` on the caller, with a [`Door`] through which it may let workers in to run `body`.
    ///
    /// Returns when `lead` has returned and every worker that joined has left. `body` gets the worker's numbers. A worker joins each
    /// region once at most. The caller is member 0 and does not run `body` itself. A `lead` that never opens the door touches no atomic. `settle` bounds how long the caller spins, when it closes the
    /// lane, for workers that are still inside.
    ///
    /// # Panics
    /// With the payload of `lead`, else with the first payload of a member. All members have left by then. In a child that was forked
    /// inside `lead`, if a member was inside then.
    #[inline]
    pub fn region<R>(
        &self,
        body: &(dyn Fn(JoinedWorker) + Sync),
        settle: Spin,
        lead: impl FnOnce(&Door<'_>) -> R,
    ) -> R {
        let door = Door { gate: self, body, lane: Cell::new(None), around: inside::region(), settle };
        let result = lead(&door);
        match door.shut() {
            Ok(None) => result,
            Ok(Some(payload)) => resume_unwind(payload),
            Err(stranded) => stranded.raise(),
        }
    }

    /// Takes the lowest free lane.
    fn take(&self) -> Option<usize> {
        // Acquire: pairs with the Release in `give_back`; the last holder's use of the lane comes before ours. Relaxed: validated.
        let taken = self.taken.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let lane = taken.trailing_ones() as usize;
            (lane < LANES).then(|| taken | 1 << lane)
        });
        taken.ok().map(|before| before.trailing_ones() as usize)
    }

    /// taken -> open, `delayed` or not. A delayed lane needs one worker that is awake, another one all that it has seats for.
    fn open(&self, at: usize, seats: u64, delayed: u64) {
        let word = self.lanes[at].0.word();
        // Release: pairs with the Acquire in `join`; a worker that joins sees the job and all it borrows. Relaxed: validated.
        let opened = word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
            Some(LaneView(word).with_next_epoch().0 + OPEN + delayed + seats * ONE_SEAT)
        });
        let mut view = LaneView(opened.unwrap_or_else(|word| word));
        if at != MAIN {
            // Release: pairs with the Acquire in `answer`; a worker that sees this bell sees the lane open.
            view = LaneView(self.main().fetch_add(ONE_BELL, Ordering::Release));
        }
        self.ring_around(at);
        let needed = if delayed == 0 { seats } else { 1 };
        self.wake_for(needed, 0, 1, view);
    }

    /// Wakes callers that are parked until a region around this one ends (step 8 of the protocol).
    fn ring_around(&self, at: usize) {
        let mut around = self.lanes[at].0.around.get();
        while let Some(lane) = (around as usize).checked_sub(1).map(|lane| &self.lanes[lane].0) {
            // Release: pairs with the Acquire of `WAITED` in `close`; a caller that parks after this sees the lane open.
            if LaneView(lane.word().fetch_and(!WAITED, Ordering::Release)).has(WAITED) {
                lane.wake_holder();
            }
            around = lane.around.get();
        }
    }

    /// delayed -> open: workers may join from now on. A parked worker is woken if one is needed.
    fn open_early(&self, at: usize, seats: u64) {
        // Relaxed: the job was published by `open`. Workers that join earlier see no difference.
        let before = LaneView(self.lanes[at].0.word().fetch_and(!DELAYED, Ordering::Relaxed));
        // Release: pairs with the Acquire in `answer`; a worker that sees this bell sees that the lane is not delayed.
        let main = if at == MAIN { before } else { LaneView(self.main().fetch_add(ONE_BELL, Ordering::Release)) };
        self.wake_for(before.seats(), seats - before.seats(), 1, main);
    }

    /// Wakes up to `most` parked workers if `seats` exceed the workers that are awake and will come (steps 2 and 4 of the protocol).
    fn wake_for(&self, seats: u64, joined: u64, most: u32, main: LaneView) {
        if let Some(elsewhere) = &self.elsewhere {
            // One call brings one worker, which calls the next one when it joins.
            return elsewhere.call();
        }
        if main.sleeping() == 0 {
            return;
        }
        // Relaxed: a guess at which workers will come.
        let lone = self.taken.0.load(Ordering::Relaxed) == 1 << MAIN;
        let coming = if lone { self.workers.saturating_sub(joined + main.sleeping()) } else { 0 };
        if seats > coming {
            self.lanes[MAIN].0.word.wake(most.min((seats - coming) as u32));
        }
    }

    /// open -> closing -> taken: no member is inside any more. Meanwhile the caller joins regions inside this one.
    fn close(&self, at: usize, settle: Spin) -> Result<(), Stranded> {
        let lane = &self.lanes[at].0;
        let word = lane.word();
        // Acquire: pairs with the Release in `RegionLane::leave`; the caller sees what members did that have left.
        let before = LaneView(word.fetch_and(!(OPEN | DELAYED | (FIELD * ONE_SEAT)), Ordering::Acquire));
        // Acquire: as above, for members that leave now.
        let all_left = || LaneView(word.load(Ordering::Acquire)).active() == 0;
        if before.active() == 0 {
            return Ok(());
        }
        let (mut seen, mut inner) = (Visitor::default(), None);
        while !all_left() {
            // The caller forked in its own part, or while it helped.
            if !self.process.is_this() {
                return Err(Stranded);
            }
            // Lanes are not scanned unless one may have opened.
            let mut last = None;
            let waited = settle.until(|| {
                // Relaxed: a hint when to scan.
                let now = LaneView(self.main().load(Ordering::Relaxed)).upper();
                if last.replace(now) != Some(now) || seen.later.is_some_and(|due| machine::tick() >= due) {
                    inner = self.join_inside(at, &mut seen);
                }
                inner.is_some() || all_left()
            });
            if !waited {
                // Acquire: pairs with the Release in `ring_around`, the scan below sees the lane open; and with that in `RegionLane::leave`.
                let before = LaneView(word.fetch_or(WAITED, Ordering::Acquire));
                inner = if before.active() > 0 { self.join_inside(at, &mut seen) } else { None };
                let is_to_park = before.active() > 0 && inner.is_none() && seen.later.is_none();
                // Relaxed: to see whether a thread has woken this caller, or is about to.
                if is_to_park || {
                    let now = LaneView(word.fetch_and(!WAITED, Ordering::Relaxed));
                    before.active() > 0 && (!now.has(WAITED) || now.active() == 0)
                } {
                    lane.await_wake();
                    // Relaxed: no thread acts on the flag once it has woken this caller.
                    word.fetch_and(!WAITED, Ordering::Relaxed);
                }
            }
            if let Some((at, joined)) = inner.take() {
                self.attend(at, 0, joined);
            }
        }
        Ok(())
    }

    /// Joins a region that was opened inside the one in lane `around`, if one admits this caller.
    fn join_inside(&self, around: usize, seen: &mut Visitor) -> Option<(usize, LaneView)> {
        seen.later = None;
        let mut others = (0..LANES).filter(|&at| at != around);
        others.find_map(|at| Some((at, self.join_seen(at, seen, Some(around))?)))
    }

    /// Joins the region in a lane that admits this thread; one that was opened inside the one in lane `around`, if that is set. Notes when a
    /// lane is due. (Not for the main lane of a worker, which reads that from the main word.)
    fn join_seen(&self, at: usize, seen: &mut Visitor, around: Option<usize>) -> Option<LaneView> {
        // Relaxed: `join` validates it.
        let view = LaneView(self.lanes[at].0.word().load(Ordering::Relaxed));
        if !view.admits(seen.epochs[at]) || around.is_some_and(|around| !self.is_opened_inside(at, around)) {
            return None;
        }
        if let Some(due) = self.due(at, view) {
            if at != MAIN || around.is_some() {
                seen.later = Some(seen.later.map_or(due, |later| later.min(due)));
            }
            return None;
        }
        let is_same = |now: LaneView| around.is_none() || now.epoch() == view.epoch();
        let joined = self.join(at, |now| now.admits(seen.epochs[at]) && is_same(now))?;
        seen.epochs[at] = joined.epoch();
        Some(joined)
    }

    /// True if the region in lane `at` was opened inside the one in lane `around`, unless lane `at` closes meanwhile.
    fn is_opened_inside(&self, at: usize, around: usize) -> bool {
        let outer = |at: usize| (self.lanes[at].0.around.get() as usize).checked_sub(1);
        std::iter::successors(Some(at), |&at| outer(at)).take(LANES).skip(1).any(|lane| lane == around)
    }

    /// taken -> free.
    fn give_back(&self, at: usize) {
        // Release: pairs with the Acquire in `take`.
        self.taken.0.fetch_and(!(1 << at), Ordering::Release);
    }

    /// A worker's main loop: waits for regions and takes part in them until [`stop`](Gate::stop). Before each wait, `look` returns
    /// the spin budget. It is also called, with [`Wait::Sleeps`], when this worker is about to park.
    ///
    /// `member` is this worker's number, `1..=workers`; no two workers share one.
    ///
    /// # Panics
    /// If `member` is not one of the gate's, or already as many threads serve as the gate has workers.
    pub fn serve(&self, member: usize, mut look: impl FnMut(Wait) -> Spin) {
        let (mut seen, all) = (self.visitor(member), self.workers);
        // Relaxed: a count.
        let before = self.serving.fetch_add(1, Ordering::Relaxed);
        EnteredGates::enter(self.address());
        let _serving = Finally(|| {
            EnteredGates::leave();
            // Relaxed: a count.
            self.serving.fetch_sub(1, Ordering::Relaxed);
        });
        // With more threads than workers, `sleeping` could overflow into the flags.
        assert!(before < all, "more than {all} threads serve a gate for {all} workers");
        while self.await_region(&seen, &mut look) {
            if !self.enter(MAIN, &mut seen) {
                self.answer(&mut seen);
            }
        }
    }

    /// Checks the other lanes after the bell has changed, or when one of them is due.
    fn answer(&self, seen: &mut Visitor) {
        // Acquire: pairs with the Release of the bell in `open`; the lanes it rang for are seen open.
        seen.bell = LaneView(self.main().load(Ordering::Acquire)).bell();
        seen.later = None;
        for at in 1..LANES {
            self.enter(at, seen);
        }
    }

    /// The signal of the main word and the clock to a waiting worker.
    fn signal(&self, seen: &Visitor) -> Signal {
        // Relaxed: `join` validates it by a compare-exchange, `answer` by another load.
        let view = LaneView(self.main().load(Ordering::Relaxed));
        let admits = view.admits(seen.epochs[MAIN]);
        let due = self.due(MAIN, view).filter(|_| admits);
        match due.into_iter().chain(seen.later).min() {
            _ if view.has(STOP) => Signal::Stop,
            _ if view.bell() != seen.bell || admits && due.is_none() => Signal::Call,
            Some(due) if machine::tick() < due => Signal::Later(due),
            Some(_) => Signal::Call,
            None => Signal::Nothing,
        }
    }

    /// The tick from which on workers may join the lane, if that is not past.
    fn due(&self, at: usize, view: LaneView) -> Option<u64> {
        view.has(DELAYED).then(|| self.lanes[at].0.due.get()).filter(|&due| machine::tick() < due)
    }

    /// Takes part in the lane's region, if the lane admits this worker.
    fn enter(&self, at: usize, seen: &mut Visitor) -> bool {
        let Some(joined) = self.join_seen(at, seen, None) else { return false };
        self.attend(at, seen.worker, joined);
        true
    }

    /// Waits until a region may admit this worker (true) or the gate is stopped (false).
    fn await_region(&self, seen: &Visitor, look: &mut impl FnMut(Wait) -> Spin) -> bool {
        let mut wait = Wait::Begins;
        // The callers of a worker that has forked are in the parent.
        while self.process.is_this() {
            let mut signal = Signal::Nothing;
            let poll = |signal: &mut Signal| {
                *signal = self.signal(seen);
                matches!(signal, Signal::Stop | Signal::Call)
            };
            let budget = look(wait);
            budget.until(|| poll(&mut signal));
            // A lane that is not due extends the budget: its caller counts on this worker.
            while let Signal::Later(due) = signal {
                let left = due.saturating_sub(machine::tick());
                let (busy, yielding) = if budget.busy > 0 { (left, 0) } else { (0, left) };
                Spin { busy, yielding }.until(|| poll(&mut signal));
            }
            match signal {
                Signal::Stop => return false,
                Signal::Call => return true,
                Signal::Nothing | Signal::Later(_) => {}
            }
            // The region may be full or over when the woken worker runs. It spins again, because more regions may follow.
            look(Wait::Sleeps);
            self.sleep(seen);
            wait = Wait::Woken;
        }
        false
    }

    /// Counts this worker as sleeping and parks it, unless there is work.
    fn sleep(&self, seen: &Visitor) {
        // Relaxed: a count; what an opener publishes is read after `join`.
        let counted = self.main().fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let is_work = LaneView(word).has(STOP) || seen.misses(LaneView(word)) || seen.later.is_some();
            (!is_work).then(|| word + ONE_SLEEPING)
        });
        let Ok(before) = counted else { return };
        self.lanes[MAIN].0.word.wait(LaneView(before).upper());
        // Relaxed: as above.
        self.main().fetch_sub(ONE_SLEEPING, Ordering::Relaxed);
    }

    /// Takes a seat, if one is left; returns the word as this join left it.
    fn join(&self, at: usize, admits: impl Fn(LaneView) -> bool) -> Option<LaneView> {
        let joined = |word: u64| word + ONE_ACTIVE - ONE_SEAT;
        // Acquire: pairs with the Release in `open`; the job is visible. Relaxed: validated.
        let before = self.lanes[at]
            .0
            .word()
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |word| admits(LaneView(word)).then(|| joined(word)));
        before.ok().map(|word| LaneView(joined(word)))
    }

    /// The part of an active worker: wakes further workers, runs the job, keeps a panic for the caller, and leaves.
    fn attend(&self, at: usize, worker: usize, joined: LaneView) {
        let lane = &self.lanes[at].0;
        let _left = Finally(|| lane.leave());
        let posted = lane.job.with(|job| {
            // SAFETY: this thread is active, so the holder of the lane has stored the job and does not touch it before this
            // thread has left.
            unsafe { *job }
        });
        let Some(posted) = posted else { return };
        let member = posted.seats - joined.seats();
        if joined.seats() > 0 || self.may_owe_call() {
            // Relaxed: a count of parked workers; a worker counted too late is woken by the next member that joins, or not at all.
            let main = if at == MAIN { joined } else { LaneView(self.main().load(Ordering::Relaxed)) };
            self.wake_for(joined.seats(), member, 2, main);
        }
        let before = inside::replace_region((self.address(), at as u64 + 1));
        let _outside = Finally(|| _ = inside::replace_region(before));
        // SAFETY: the caller cannot return from `region`, nor unwind out of it, before this thread has left; until then
        // it borrows the closure.
        let job = unsafe { &*posted.job };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(JoinedWorker { worker, member: member as usize }))) {
            let mut first = lane.payload.lock();
            if first.is_none() {
                *first = Some(payload);
            } else {
                drop(first);
                discard(payload);
            }
        }
    }

    /// Calls of two regions may have brought one worker, which can join only one of them.
    fn may_owe_call(&self) -> bool {
        // Relaxed: the worker has answered the calls, so it sees the lanes of those that called.
        self.elsewhere.is_some() && self.taken.0.load(Ordering::Relaxed).count_ones() > 1
    }

    /// Ends [`serve`](Gate::serve) on every worker: those in a region finish it first. Regions from now on run on their
    /// callers alone.
    pub fn stop(&self) {
        // Relaxed: STOP publishes no data; workers check the word itself.
        self.main().fetch_or(STOP, Ordering::Relaxed);
        self.lanes[MAIN].0.word.wake(u32::MAX);
    }

    /// True after [`stop`](Gate::stop).
    pub fn is_stopped(&self) -> bool {
        // Relaxed: STOP publishes no data.
        LaneView(self.main().load(Ordering::Relaxed)).has(STOP)
    }
}

impl Visitor {
    /// True if the main word holds something that this worker has not seen.
    fn misses(&self, main: LaneView) -> bool {
        main.admits(self.epochs[MAIN]) || main.bell() != self.bell
    }
}

/// The caller's access to the gate during one [`Gate::region`]. Closes the lane when dropped.
pub struct Door<'a> {
    gate: &'a Gate,
    body: &'a (dyn Fn(JoinedWorker) + Sync),
    /// The lane, while it is open, and the seats that it opened with.
    lane: Cell<Option<(usize, u64)>>,
    /// The gate and the lane, plus 1, of the region inside which the caller began its own. (A door may open later, inside a region that ends
    /// before this one.)
    around: (usize, u64),
    settle: Spin,
}

show_as!("Door": [] Door<'_>, |it| lane: it.lane.get());

impl Door<'_> {
    /// Lets up to `width - 1` workers in, and wakes a parked one if those awake are too few. Returns false, without any effect, if the
    /// gate is stopped or belongs to the parent of this process, or every lane is in use. The same if the door is open already, or
    /// `width` or the gate leaves no seat for a worker.
    pub fn open(&self, width: usize) -> bool {
        self.post(width, None)
    }

    /// [`open`](Door::open) for workers that join at the [tick](crate::machine::tick) `due`, or later: those awake spin until then. If
    /// the door [closes](Gate::region) or [opens at once](Door::open_now) before, they do not wait any longer. A parked worker is woken
    /// only if none is awake.
    pub fn open_at(&self, due: u64, width: usize) -> bool {
        // Lanes that open when they are due leave lanes to those that open now.
        // Relaxed: a snapshot.
        let taken = self.gate.taken.0.load(Ordering::Relaxed).count_ones() as usize;
        taken < LANES / 2 && self.post(width, Some(due))
    }

    /// Lets workers in before they are due, and wakes a parked one if those awake are too few. Without effect on a closed door.
    pub fn open_now(&self) {
        if let Some((at, seats)) = self.lane.get() {
            self.gate.open_early(at, seats);
        }
    }

    fn post(&self, width: usize, due: Option<u64>) -> bool {
        let seats = (width.saturating_sub(1) as u64).min(self.gate.workers);
        // If the gate is stopped after this check, the caller runs alone at worst.
        if self.lane.get().is_some() || seats == 0 || self.gate.is_stopped() || !self.gate.process.is_this() {
            return false;
        }
        let Some(at) = self.gate.take() else { return false };
        let job: *const (dyn Fn(JoinedWorker) + Sync + '_) = self.body;
        // SAFETY: only the lifetime changes. The pointer is used by members only, and this door's drop waits for them while
        // `body` is still borrowed.
        let job = unsafe { std::mem::transmute::<*const (dyn Fn(JoinedWorker) + Sync + '_), *const RegionJob>(job) };
        self.gate.lanes[at].0.job.with_mut(|cell| {
            // SAFETY: this caller holds the lane and no member is active, so this is the only access.
            unsafe { *cell = Some(Posted { job, seats }) };
        });
        let (gate, around) = self.around;
        inside::replace_region((self.gate.address(), at as u64 + 1));
        self.lane.set(Some((at, seats)));
        EnteredGates::enter(self.gate.address());
        self.gate.lanes[at].0.around.set(if gate == self.gate.address() { around } else { 0 });
        self.gate.lanes[at].0.due.set(due.unwrap_or(0));
        self.gate.open(at, seats, due.map_or(0, |_| DELAYED));
        true
    }

    /// Closes the lane and gives it back, once; returns the first panic of a member.
    fn shut(&self) -> Result<Option<Payload>, Stranded> {
        let Some((at, _)) = self.lane.take() else { return Ok(None) };
        inside::replace_region(self.around);
        let closed = self.gate.close(at, self.settle);
        let payload = closed.map(|()| self.gate.lanes[at].0.payload.lock().take());
        self.gate.give_back(at);
        EnteredGates::leave();
        payload
    }

    /// Workers that have joined this region and not left it yet. It may be outdated at once.
    pub fn inside(&self) -> usize {
        self.view().map_or(0, |(view, _)| view.active() as usize)
    }

    /// Workers that have joined this region so far. It may be outdated at once.
    pub fn joined(&self) -> usize {
        self.view().map_or(0, |(view, seats)| (seats - view.seats()) as usize)
    }

    fn view(&self) -> Option<(LaneView, u64)> {
        // Relaxed: a snapshot.
        self.lane.get().map(|(at, seats)| (LaneView(self.gate.lanes[at].0.word().load(Ordering::Relaxed)), seats))
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // Still open only while `lead` unwinds: the caller's own panic takes precedence over a member's.
        discard(self.shut());
    }
}
