//! The trace of a process: with `WINDROW_TRACE=FILE`, a program writes at its end what each thread has done, for trace viewers.
//!
//! # Slices
//! The slices of a thread nest. A call is [entered](enter) and [left](leave), also by a panic. A future, or a call of another crate, does not
//! nest: it is an interval next to the slices of the thread.
//!
//! # Memory
//! Each thread has a separate buffer. Its lock is never waited for: the thread takes the lock for one event, and the end of the process
//! takes it once. A full buffer drops its oldest event for each new one. The number of dropped events is in the file and on stderr.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{Instant, SystemTime};

use windrow_plan::Nanos;
use windrow_sync::Mutex;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::{fork_generation, tick, ticks_per_micro};
use windrow_sync::relaxed::RelaxedU64;

use windrow_plan::listen::{
    Account, CallKind, CallPlace, Decided, Ending, Event, EventKind as Ended, LaneTile, PartClaims,
};

use crate::wish;

mod events;
mod file;
mod tiles;

use tiles::TraceTile;
pub use tiles::timeline;

/// The file of the trace.
const VARIABLE: &str = "WINDROW_TRACE";

/// With `1`, single claims are slices, too.
const CLAIMS_VARIABLE: &str = "WINDROW_TRACE_CLAIMS";

/// Events that are kept of a thread.
///
/// Measure: size of the buffer of a thread.
const PER_THREAD: usize = 1 << 16;

/// Events that eight threads keep together. From the eighth on, the n-th thread keeps an n-th of them.
///
/// Measure: size of the buffers of eight threads.
const PER_PROCESS: usize = 1 << 19;

/// A recorded event, in ticks.
#[derive(Debug)]
struct TraceEvent {
    begin: u64,
    end: u64,
    /// A panic has ended the event.
    is_panic: bool,
    kind: EventKind,
}

#[derive(Debug)]
enum EventKind {
    /// A call: a slice of its thread.
    Call {
        kind: CallKind,
        place: CallPlace,
        summary: Option<Box<Summary>>,
        /// Account of the rounds of a team.
        rounds: Option<Box<Summary>>,
        /// The process ended before the call.
        is_open: bool,
    },
    /// A call without a slice.
    Aside { kind: CallKind, place: CallPlace, summary: Box<Summary> },
    /// The part of one member in a call.
    Part { kind: CallKind, place: CallPlace, claims: PartClaims },
    /// One claim of a member.
    Claim { lo: usize, hi: usize },
    /// One member's part in the rounds of a team.
    Rounds { rounds: usize, member: usize },
    /// A batch of the structure number `id`, of this type, at whose end `left` operations were queued.
    Batch { structure: &'static str, id: usize, ops: usize, left: usize },
    /// A spawned closure.
    Spawned,
    /// A tile in a lane. Its times are in nanoseconds since the trace began.
    Tile(Box<TraceTile>),
    /// The number of members that rounds of a team from this place have from `begin` on.
    Width { place: &'static Location<'static>, team: usize, members: u64 },
}

impl EventKind {
    /// True for a slice of its thread.
    fn is_slice(&self) -> bool {
        !matches!(self, EventKind::Aside { .. } | EventKind::Tile(_) | EventKind::Width { .. })
    }
}

/// Summary of a call.
#[derive(Debug)]
struct Summary {
    items: u64,
    threads: usize,
    took: Nanos,
    account: Account,
}

impl Summary {
    #[cold]
    fn of(event: &Event<'_>) -> Box<Self> {
        let account = match event.decision {
            Decided::Now(account) => account.clone(),
            // It may take long, and a trace has each call.
            Decided::Later(_) => Account::default(),
        };
        Box::new(Summary { items: event.known_items(), threads: event.threads, took: event.took, account })
    }
}

/// The records of a process.
struct ProcessTrace {
    path: PathBuf,
    /// Single claims are recorded.
    claims: bool,
    /// The start of the trace, by three clocks.
    begun: u64,
    zero: Instant,
    started: SystemTime,
    threads: Mutex<Vec<Arc<Mutex<ThreadTrace>>>>,
    /// Events of threads that were about to end, and had no buffer any more.
    lost: RelaxedU64,
}

/// The records of a thread.
#[derive(Default)]
struct ThreadTrace {
    name: Option<String>,
    events: VecDeque<TraceEvent>,
    /// Events that the buffer may hold.
    space: usize,
    dropped: u64,
    /// Open calls of the thread, outermost first.
    open: Vec<TraceEvent>,
    /// The end of the last slice.
    last: u64,
}

/// A thread's hold on its buffer.
struct OwnTrace {
    generation: u32,
    trace: Arc<Mutex<ThreadTrace>>,
}

static PROCESS: PerProcess<Option<ProcessTrace>> = PerProcess::new();

thread_local! {
    static OWN: RefCell<Option<OwnTrace>> = const { RefCell::new(None) };
}

/// The trace of this process, if one is wanted.
fn process() -> Option<&'static ProcessTrace> {
    let build = || {
        let path = wish(VARIABLE)?;
        let (begun, zero) = both_clocks();
        Some(ProcessTrace {
            path: path.into(),
            claims: std::env::var_os(CLAIMS_VARIABLE).is_some_and(|value| value == "1"),
            begun,
            zero,
            started: SystemTime::now(),
            threads: Mutex::default(),
            lost: RelaxedU64::new(0),
        })
    };
    PROCESS.get(build).as_ref()
}

/// A tick and an instant of the same moment: the closest of a few pairs, as the thread may be interrupted in between.
fn both_clocks() -> (u64, Instant) {
    let pair = |_| {
        let (before, time, after) = (tick(), Instant::now(), tick());
        (after.saturating_sub(before), before, time)
    };
    // Measure: count of pairs.
    const PAIRS: usize = 8;
    let closest = (1..PAIRS).map(pair).min_by_key(|&(apart, ..)| apart).unwrap_or_else(|| pair(0));
    (closest.1, closest.2)
}

/// True if a trace of this process is wanted.
#[inline]
pub(super) fn is_wanted() -> bool {
    process().is_some()
}

/// True if single claims are slices.
pub(super) fn has_claims() -> bool {
    process().is_some_and(|process| process.claims)
}

impl ProcessTrace {
    /// A buffer for this thread.
    fn register(&self) -> OwnTrace {
        let name = std::thread::current().name().map(str::to_owned);
        let mut threads = self.threads.lock();
        let space = PER_THREAD.min(PER_PROCESS / (threads.len() + 1)).max(1);
        let trace = Arc::new(Mutex::new(ThreadTrace { name, space, ..ThreadTrace::default() }));
        threads.push(trace.clone());
        OwnTrace { generation: fork_generation(), trace }
    }
}

/// Gives `f` what is recorded of this thread. `None` without a trace, or if the thread is about to end.
fn with_own<R>(f: impl FnOnce(&mut ThreadTrace) -> R) -> Option<R> {
    let process = process()?;
    let given = OWN.try_with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        // A forked child has a new trace.
        if own.as_ref().is_none_or(|own| own.generation != fork_generation()) {
            *own = Some(process.register());
        }
        let mut trace = own.as_ref()?.trace.try_lock()?;
        Some(f(&mut trace))
    });
    let given = given.ok().flatten();
    if given.is_none() {
        process.lost.add(1);
    }
    given
}

impl ThreadTrace {
    fn push(&mut self, event: TraceEvent) {
        if self.events.len() >= self.space {
            self.dropped += 1;
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Adds a slice, which ends now.
    fn push_slice(&mut self, event: TraceEvent) {
        self.last = self.last.max(event.end);
        self.push(event);
    }
}

/// Enters a call.
pub(super) fn enter(kind: CallKind, place: CallPlace) {
    let kind = EventKind::Call { kind, place, summary: None, rounds: None, is_open: true };
    with_own(|own| own.open.push(TraceEvent { begin: tick(), end: 0, is_panic: false, kind }));
}

/// Leaves a call that was entered on this thread. In a child that was forked inside the call, it becomes an interval.
pub(super) fn leave(kind: CallKind, event: &Event<'_>) {
    let (now, took) = (tick(), ticks(event.took));
    let is_panic = event.ending == Ending::Panicked;
    let summary = (event.ending == Ending::Returned).then(|| Summary::of(event));
    with_own(|own| {
        let place = event.place;
        let is_it = |open: &TraceEvent| matches!(open.kind, EventKind::Call { kind: of, place: at, .. } if of == kind && at == place);
        let Some(index) = own.open.iter().rposition(is_it) else {
            return summary.into_iter().for_each(|summary| own.aside((kind, place), summary, now, took));
        };
        own.open.truncate(index + 1);
        if let Some(TraceEvent { begin, .. }) = own.open.pop() {
            // Without the time of reporting; but not before the end of a slice inside it.
            let end = if summary.is_some() { now.min(begin + took).max(own.last) } else { now };
            let kind = EventKind::Call { kind, place, summary, rounds: None, is_open: false };
            own.push_slice(TraceEvent { begin, end, is_panic, kind });
        }
    });
}

/// Adds the rounds of the team that was left last.
pub(super) fn add_rounds(event: &Event<'_>) {
    let summary = Summary::of(event);
    let (now, took) = (tick(), ticks(event.took));
    with_own(|own| match own.events.back_mut().map(|last| &mut last.kind) {
        Some(EventKind::Call { kind: CallKind::Team, place, rounds, .. }) if *place == event.place => {
            *rounds = Some(summary)
        }
        _ => own.aside((CallKind::Rounds, event.place), summary, now, took),
    });
}

/// Adds a call that is no slice of its thread.
pub(super) fn add_aside(kind: CallKind, event: &Event<'_>) {
    let (summary, now, took) = (Summary::of(event), tick(), ticks(event.took));
    with_own(|own| own.aside((kind, event.place), summary, now, took));
}

fn ticks(time: Nanos) -> u64 {
    (time.0.max(0.0) * ticks_per_micro() / 1000.0) as u64
}

impl ThreadTrace {
    fn aside(&mut self, (kind, place): (CallKind, CallPlace), summary: Box<Summary>, now: u64, took: u64) {
        let kind = EventKind::Aside { kind, place, summary };
        self.push(TraceEvent { begin: now.saturating_sub(took), end: now, is_panic: false, kind });
    }
}

/// Adds a slice of this thread, or the width of rounds: all that is no call.
pub(super) fn add(event: &Event<'_>) {
    let ((begin, end), place, items) = (event.ticks, event.place, event.items as usize);
    let is_panic = event.ending == Ending::Panicked;
    let kind = match (event.kind, place) {
        (Ended::Part(kind), _) => EventKind::Part { kind, place, claims: event.claims },
        (Ended::Claim { lo, hi }, _) => EventKind::Claim { lo, hi },
        (Ended::Rounds { member }, _) => EventKind::Rounds { rounds: items, member },
        (Ended::Spawned { .. }, _) => EventKind::Spawned,
        (Ended::Batch { structure, id, left }, _) => EventKind::Batch { structure, id, ops: items, left },
        (Ended::Width { team }, Some(place)) => EventKind::Width { place, team, members: event.items },
        _ => return,
    };
    with_own(|own| own.push_slice(TraceEvent { begin, end, is_panic, kind }));
}

/// Adds the tiles of a run, whose times are those since the tick `zero`.
pub(super) fn add_tiles(place: CallPlace, zero: u64, tiles: Vec<LaneTile>) {
    let Some(process) = process() else { return };
    with_own(|own| {
        let since = (zero.saturating_sub(process.begun) as f64 * 1000.0 / ticks_per_micro()) as u64;
        let run = tick();
        for of in tiles {
            let (begin, end) = (since + of.begin, since + of.end);
            let kind = EventKind::Tile(Box::new(TraceTile { of: LaneTile { begin, end, ..of }, run, place }));
            own.push(TraceEvent { begin, end, is_panic: false, kind });
        }
    });
}

/// Writes the trace of this process, if it has one.
pub(super) fn write() {
    let Some(Some(process)) = PROCESS.peek() else { return };
    let now = tick();
    file::write(process, gather(process, now), now);
}

/// The records of each thread. Other threads may still run, and calls of theirs may be open.
fn gather(process: &ProcessTrace, now: u64) -> Vec<ThreadTrace> {
    /// A lock is held for less than a yield, unless its thread is gone.
    ///
    /// Measure: count of yields.
    const YIELDS: usize = 1000;
    fn patiently<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        (0..YIELDS).find_map(|_| {
            let guard = lock.try_lock();
            if guard.is_none() {
                std::thread::yield_now();
            }
            guard
        })
    }
    let Some(threads) = patiently(&process.threads) else { return Vec::new() };
    let take = |trace: &Arc<Mutex<ThreadTrace>>| {
        let mut taken = std::mem::take(&mut *patiently(trace)?);
        let open = taken.open.drain(..).map(|open| TraceEvent { end: now, ..open });
        taken.events.extend(open);
        Some(taken)
    };
    threads.iter().filter_map(take).collect()
}
