//! The trace of a process: with `WINDROW_TRACE=FILE`, a program writes at its end what each thread has done, for trace viewers.
//!
//! # Slices
//! The slices of a thread nest. A call is entered by [`enter`] and left when the [`CallSpan`] is dropped, also by a panic. What the call
//! [tells](tell) belongs to the innermost call of the thread, if kind and place are the same. Otherwise the call was a future, or a call of
//! another crate. Then the entry is an interval beside the slices of the thread.
//!
//! # Memory
//! Each thread has a separate buffer. Its lock is never waited for: the thread takes the lock for one event, and the end of the process
//! takes it once. A full buffer drops its oldest event for each new one. The number of dropped events is in the file and on stderr.
//!
//! With the feature `tracing`, each call is also a span of that crate.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Instant, SystemTime};

use windrow_sync::exit::at_exit;
use windrow_sync::fork::{PerProcess, lock};
use windrow_sync::machine::{fork_generation, tick, ticks_per_micro};
use windrow_sync::relaxed::RelaxedU64;

use super::explained::{CallKind, Explained};
use super::flag::Flag;

mod counted;
mod events;
mod file;
#[cfg(feature = "tracing")]
mod spans;
mod tiles;

use counted::Counted;
pub(crate) use tiles::{TraceTile, timeline};

/// Without the feature `tracing` no call is a span.
#[cfg(not(feature = "tracing"))]
mod spans {
    pub(super) struct SpanGuard;

    #[inline]
    pub(super) fn are_wanted() -> bool {
        false
    }

    pub(super) fn enter(_: super::CallKind, _: super::CallPlace) -> SpanGuard {
        SpanGuard
    }

    pub(super) fn tell(_: &super::Explained) {}
}

/// The file of the trace.
const VARIABLE: &str = "WINDROW_TRACE";

/// With `1`, single claims are slices, too.
const CLAIMS_VARIABLE: &str = "WINDROW_TRACE_CLAIMS";

/// Events that are kept of a thread.
///
/// Measure: size of the buffer of a thread.
const PER_THREAD: usize = 1 << 16;

/// About as many events are kept of all threads together.
///
/// Measure: size of all buffers.
const PER_PROCESS: usize = 1 << 19;

/// Events by which a buffer grows.
///
/// Measure: size of a part of a buffer.
const BLOCK: usize = 1 << 8;

type CallPlace = Option<&'static Location<'static>>;

/// A call, to be named in the parts of its members.
pub(crate) type TracedCall = (CallKind, CallPlace);

/// What was recorded, in ticks.
#[derive(Debug)]
struct TraceEvent {
    begin: u64,
    end: u64,
    /// A panic has ended it.
    is_panic: bool,
    kind: EventKind,
}

#[derive(Debug)]
enum EventKind {
    /// A call: a slice of its thread.
    Call {
        kind: CallKind,
        place: CallPlace,
        told: Option<Box<Explained>>,
        /// What a team told about its rounds.
        rounds: Option<Box<Explained>>,
        /// The process ended before it.
        is_open: bool,
    },
    /// A call without a slice.
    Told(Box<Explained>),
    /// What one member did in a call.
    Part { kind: CallKind, place: CallPlace, claims: Claimed },
    /// One claim of a member.
    Claim { lo: usize, hi: usize },
    /// One member's part in the rounds of a team.
    Rounds { rounds: usize, member: usize },
    /// A batch of a structure of this type.
    Batch { structure: &'static str, ops: usize, left: usize },
    /// A spawned closure.
    Spawned,
    /// A tile in a lane. Its times are in nanoseconds since the trace began.
    Tile(Box<TraceTile>),
    /// The value of a counter from `begin` on. Counters of one name differ by `id`.
    Counter { counted: Counted, id: usize, value: u64 },
}

impl EventKind {
    /// Whether it is a slice of its thread.
    fn is_slice(&self) -> bool {
        !matches!(self, EventKind::Told(_) | EventKind::Tile(_) | EventKind::Counter { .. })
    }
}

/// The claims of a member in a loop.
#[derive(Clone, Copy, Debug, Default)]
struct Claimed {
    claims: u64,
    /// Claims that did not begin where the one before ended: the member has stolen them.
    steals: u64,
    items: u64,
    /// The ticks of the longest claim.
    longest: u64,
}

/// What is recorded of a process.
struct ProcessTrace {
    path: PathBuf,
    /// Single claims are recorded.
    claims: bool,
    /// The begin of the trace, by three clocks.
    begun: u64,
    zero: Instant,
    started: SystemTime,
    threads: Mutex<Vec<Arc<Mutex<ThreadTrace>>>>,
    /// Events for which buffers have space.
    space: AtomicUsize,
    /// Events of threads that were about to end, and had no buffer any more.
    lost: RelaxedU64,
    written: Flag,
}

/// A thread that ends leaves the rest of its space to others.
impl Drop for OwnTrace {
    fn drop(&mut self) {
        let process = process().filter(|_| self.generation == fork_generation());
        let Some((process, mut trace)) = process.zip(try_lock(&self.trace)) else { return };
        let kept = trace.events.len();
        // Relaxed: as in `grows`.
        process.space.fetch_sub(trace.space - kept, Ordering::Relaxed);
        trace.space = kept;
        trace.events.shrink_to_fit();
    }
}

/// What is recorded of a thread.
#[derive(Default)]
struct ThreadTrace {
    name: Option<String>,
    events: VecDeque<TraceEvent>,
    /// Events that the buffer may hold.
    space: usize,
    dropped: u64,
    /// The calls that the thread is inside of.
    open: Vec<OpenCall>,
    /// The end of the last slice.
    last: u64,
}

struct OpenCall {
    kind: CallKind,
    place: CallPlace,
    begin: u64,
    /// The end, once the call has told how it went.
    end: Option<u64>,
    told: Option<Box<Explained>>,
    rounds: Option<Box<Explained>>,
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
        let path = std::env::var_os(VARIABLE).filter(|value| !value.is_empty() && value != "0")?;
        at_exit(end);
        let (begun, zero) = both_clocks();
        Some(ProcessTrace {
            path: path.into(),
            claims: std::env::var_os(CLAIMS_VARIABLE).is_some_and(|value| value == "1"),
            begun,
            zero,
            started: SystemTime::now(),
            threads: Mutex::default(),
            space: AtomicUsize::new(0),
            lost: RelaxedU64::new(0),
            written: Flag::new(),
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

/// Whether a trace of this process is wanted.
pub(super) fn is_wanted() -> bool {
    process().is_some()
}

/// Whether a subscriber of the crate `tracing` wants spans of calls.
#[inline]
pub(super) fn has_subscriber() -> bool {
    spans::are_wanted()
}

impl ProcessTrace {
    /// A buffer for this thread.
    fn register(&self) -> OwnTrace {
        let name = std::thread::current().name().map(str::to_owned);
        let trace = Arc::new(Mutex::new(ThreadTrace { name, ..ThreadTrace::default() }));
        lock(&self.threads).push(trace.clone());
        OwnTrace { generation: fork_generation(), trace }
    }
}

/// The content of a lock, unless another thread has it.
fn try_lock<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Gives `f` what is recorded of this thread. `None` without a trace, or if the thread is about to end.
fn with_own<R>(f: impl FnOnce(&ProcessTrace, &mut ThreadTrace) -> R) -> Option<R> {
    let process = process()?;
    let given = OWN.try_with(|own| {
        let mut own = own.try_borrow_mut().ok()?;
        // A forked child has a new trace.
        if own.as_ref().is_none_or(|own| own.generation != fork_generation()) {
            *own = Some(process.register());
        }
        let mut trace = try_lock(&own.as_ref()?.trace)?;
        Some(f(process, &mut trace))
    });
    let given = given.ok().flatten();
    if given.is_none() {
        process.lost.add(1);
    }
    given
}

impl ThreadTrace {
    fn push(&mut self, process: &ProcessTrace, event: TraceEvent) {
        if self.events.len() >= self.space && !self.grows(process) {
            self.dropped += 1;
            if self.events.pop_front().is_none() {
                return;
            }
        }
        self.events.push_back(event);
    }

    /// Adds a slice, which ends now.
    fn push_slice(&mut self, process: &ProcessTrace, event: TraceEvent) {
        self.last = self.last.max(event.end);
        self.push(process, event);
    }

    /// Gets space for more events, if the limits allow it.
    fn grows(&mut self, process: &ProcessTrace) -> bool {
        // Relaxed: a number that orders nothing. Several threads may exceed the limit by a block each.
        let may_grow = self.space < PER_THREAD && process.space.load(Ordering::Relaxed) < PER_PROCESS;
        if may_grow {
            self.space += BLOCK;
            // Relaxed: as above.
            process.space.fetch_add(BLOCK, Ordering::Relaxed);
        }
        may_grow
    }
}

/// A call that this thread is inside of, until this is dropped.
#[must_use = "the call is left when this is dropped"]
pub(super) struct CallSpan(Option<Box<EnteredCall>>);

struct EnteredCall {
    /// The fork generation, and the index among the open calls of this thread.
    traced: Option<(u32, usize)>,
    _span: spans::SpanGuard,
}

/// Enters a call to which the thread listens ([`listens`](super::explain::listens)).
pub(super) fn enter(kind: CallKind, place: CallPlace) -> CallSpan {
    if !is_wanted() && !spans::are_wanted() {
        return CallSpan(None);
    }
    let span = spans::enter(kind, place);
    let traced = with_own(|_, own| {
        own.open.push(OpenCall { kind, place, begin: tick(), end: None, told: None, rounds: None });
        (fork_generation(), own.open.len() - 1)
    });
    CallSpan(Some(Box::new(EnteredCall { traced, _span: span })))
}

impl Drop for CallSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(entered) = self.0.take() {
            leave(*entered);
        }
    }
}

#[cold]
fn leave(entered: EnteredCall) {
    let Some((generation, index)) = entered.traced else { return };
    let now = tick();
    // A child that was forked inside of the call is not inside of it.
    if generation != fork_generation() {
        return;
    }
    with_own(|process, own| {
        own.open.truncate(index + 1);
        if let Some(open) = own.open.pop() {
            let is_panic = open.told.is_none() && std::thread::panicking();
            own.push_slice(process, open.event(now, is_panic, false));
        }
    });
}

impl OpenCall {
    fn event(self, now: u64, is_panic: bool, is_open: bool) -> TraceEvent {
        let OpenCall { kind, place, begin, end, told, rounds } = self;
        TraceEvent {
            begin,
            end: end.unwrap_or(now),
            is_panic,
            kind: EventKind::Call { kind, place, told, rounds, is_open },
        }
    }
}

/// Adds how a call went, if a trace `is_on`, and to its span.
pub(super) fn tell(is_on: bool, explained: &Explained) {
    spans::tell(explained);
    if !is_on {
        return;
    }
    let now = tick();
    let took = (explained.took().as_nanos() as f64 * ticks_per_micro() / 1000.0) as u64;
    with_own(|process, own| {
        let is_of_rounds = explained.kind() == CallKind::Rounds;
        let kind = if is_of_rounds { CallKind::Team } else { explained.kind() };
        let told = Box::new(explained.clone());
        match own.open.last_mut().filter(|open| open.kind == kind && open.place == explained.place()) {
            Some(open) if is_of_rounds => open.rounds = Some(told),
            Some(open) => {
                // Without the time of telling; but not before the end of a slice inside of it.
                open.end = Some(now.min(open.begin + took).max(own.last));
                open.told = Some(told);
            }
            None => {
                let begin = now.saturating_sub(took);
                own.push(process, TraceEvent { begin, end: now, is_panic: false, kind: EventKind::Told(told) });
            }
        }
    });
}

/// The innermost call of this thread, if a trace `is_on`: for the parts of other members.
#[inline]
pub(crate) fn around(is_on: bool) -> Option<TracedCall> {
    if is_on { innermost() } else { None }
}

#[cold]
fn innermost() -> Option<TracedCall> {
    with_own(|_, own| own.open.last().map(|open| (open.kind, open.place))).flatten()
}

/// A part of a call on this thread, until this is dropped.
#[must_use = "the part ends when this is dropped"]
pub(crate) struct PartSpan(Option<Box<OpenPart>>);

struct OpenPart {
    begin: u64,
    kind: EventKind,
    /// When the last claim was made, and where it lies.
    since: u64,
    lo: usize,
    hi: usize,
}

impl PartSpan {
    #[cold]
    fn new(kind: EventKind) -> Self {
        PartSpan(Some(Box::new(OpenPart { begin: tick(), kind, since: 0, lo: 0, hi: 0 })))
    }

    /// The member has claimed the items `lo..hi`, at the time `since`.
    #[inline]
    pub(crate) fn claimed(&mut self, lo: usize, hi: usize, since: u64) {
        if let Some(part) = &mut self.0 {
            part.claimed(lo, hi, since);
        }
    }
}

impl OpenPart {
    #[cold]
    fn claimed(&mut self, lo: usize, hi: usize, since: u64) {
        let since = since.max(self.begin);
        self.end_claim(since);
        if let EventKind::Part { claims: all, .. } = &mut self.kind {
            all.steals += u64::from(all.claims > 0 && lo != self.hi);
            all.claims += 1;
            all.items += (hi - lo) as u64;
        }
        (self.since, self.lo, self.hi) = (since, lo, hi);
    }

    /// The last claim, if there was one, has ended.
    fn end_claim(&mut self, now: u64) {
        let &mut OpenPart { since, lo, hi, .. } = self;
        if let EventKind::Part { claims: all, .. } = &mut self.kind
            && all.claims > 0
        {
            all.longest = all.longest.max(now.saturating_sub(since));
            if process().is_some_and(|process| process.claims) {
                let kind = EventKind::Claim { lo, hi };
                let event = TraceEvent { begin: since, end: now, is_panic: false, kind };
                with_own(|process, own| own.push_slice(process, event));
            }
        }
    }
}

impl Drop for PartSpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(part) = self.0.take() {
            end_part(*part);
        }
    }
}

#[cold]
fn end_part(mut part: OpenPart) {
    let end = tick();
    part.end_claim(end);
    let OpenPart { begin, kind, .. } = part;
    let event = TraceEvent { begin, end, is_panic: std::thread::panicking(), kind };
    with_own(|process, own| own.push_slice(process, event));
}

/// What this thread does in a call of that kind at that place, if a trace `is_on`.
#[inline]
pub(crate) fn part(is_on: bool, kind: CallKind, place: CallPlace) -> PartSpan {
    part_of(if is_on { Some((kind, place)) } else { None })
}

/// What this thread does in a call.
#[inline]
pub(crate) fn part_of(call: Option<TracedCall>) -> PartSpan {
    match call {
        Some((kind, place)) => PartSpan::new(EventKind::Part { kind, place, claims: Claimed::default() }),
        None => PartSpan(None),
    }
}

/// What `member` does in `rounds` rounds of a team, if a trace `is_on`.
#[inline]
pub(crate) fn rounds(is_on: bool, rounds: usize, member: usize) -> PartSpan {
    if is_on { PartSpan::new(EventKind::Rounds { rounds, member }) } else { PartSpan(None) }
}

/// A spawned closure on this thread, if a trace `is_on`.
#[inline]
pub(crate) fn spawned(is_on: bool) -> PartSpan {
    if is_on { PartSpan::new(EventKind::Spawned) } else { PartSpan(None) }
}

/// The rounds of a team from `place` have `members` members from the time `at` on, if a trace `is_on` and the team is told. `team` tells
/// teams apart.
#[inline]
pub(crate) fn width(is_on: bool, place: CallPlace, team: usize, members: usize, at: u64) {
    if is_on && let Some(place) = place {
        with_own(|process, own| own.count(process, Counted::Width(place), team, members as u64, at));
    }
}

impl ThreadTrace {
    fn count(&mut self, process: &ProcessTrace, counted: Counted, id: usize, value: u64, at: u64) {
        let kind = EventKind::Counter { counted, id, value };
        self.push(process, TraceEvent { begin: at, end: at, is_panic: false, kind });
    }
}

/// A batch that ran on this thread.
pub(crate) struct RanBatch {
    /// The type of the structure.
    pub(crate) structure: &'static str,
    /// Tells structures apart.
    pub(crate) id: usize,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) ops: usize,
    /// Operations that were queued at its end.
    pub(crate) left: usize,
    pub(crate) is_panic: bool,
}

/// Adds a batch.
#[cold]
pub(crate) fn batch(RanBatch { structure, id, begin, end, ops, left, is_panic }: RanBatch) {
    with_own(|process, own| {
        own.push_slice(process, TraceEvent { begin, end, is_panic, kind: EventKind::Batch { structure, ops, left } });
        own.count(process, Counted::Size(structure), id, ops as u64, begin);
        own.count(process, Counted::Size(structure), id, 0, end);
        own.count(process, Counted::Queue(structure), id, left as u64, end);
    });
}

/// The tiles of a run that began at `zero`, if a trace `is_on`. Their times are those since then.
pub(crate) fn lanes(is_on: bool, zero: Instant, tiles: impl FnOnce() -> Vec<TraceTile>) {
    if !is_on {
        return;
    }
    with_own(|process, own| {
        let (since, run) = (zero.saturating_duration_since(process.zero).as_nanos() as u64, tick());
        for tile in tiles() {
            let (begin, end) = (since + tile.begin, since + tile.end);
            let kind = EventKind::Tile(Box::new(TraceTile { begin, end, run, ..tile }));
            own.push(process, TraceEvent { begin, end, is_panic: false, kind });
        }
    });
}

extern "C" fn end() {
    // A panic would abort the process.
    let _ = std::panic::catch_unwind(|| {
        let Some(Some(process)) = PROCESS.peek() else { return };
        if process.written.is_up() {
            return;
        }
        process.written.raise();
        let now = tick();
        let threads = gather(process, now);
        file::write(process, threads, now);
    });
}

/// What is recorded of each thread. Other threads may still run, and calls of theirs may be open.
fn gather(process: &ProcessTrace, now: u64) -> Vec<ThreadTrace> {
    /// A lock is held for less than a yield, unless its thread is gone.
    ///
    /// Measure: count of yields.
    const YIELDS: usize = 1000;
    fn patiently<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        (0..YIELDS).find_map(|_| {
            let guard = try_lock(lock);
            if guard.is_none() {
                std::thread::yield_now();
            }
            guard
        })
    }
    let Some(threads) = patiently(&process.threads) else { return Vec::new() };
    let take = |trace: &Arc<Mutex<ThreadTrace>>| {
        let mut taken = std::mem::take(&mut *patiently(trace)?);
        for open in std::mem::take(&mut taken.open) {
            taken.events.push_back(open.event(now, false, true));
        }
        Some(taken)
    };
    threads.iter().filter_map(take).collect()
}
