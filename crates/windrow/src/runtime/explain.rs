//! The sink of decisions: every kind of call reports its decision, and [`explain`] returns the reports.
//!
//! A thread listens while it is inside of `explain`. Each call of a listening thread reports an [`Explained`] when the call ends. A team also
//! reports one for its rounds. Listening reads the clock more often, and changes no decision. A thread that does not listen pays one load of a
//! thread-local flag a call. With `WINDROW_EXPLAIN` set, all threads listen to some of their calls, for the [report](super::report) of the process.
//! With `WINDROW_TRACE` set, they listen to all calls, for the [trace].

use std::cell::{Cell, RefCell};
use std::panic::Location;

use windrow_plan::Nanos;
use windrow_sync::machine::{tick, ticks_per_micro};

use super::explained::{CallKind, Explained};
use super::report::{CountedCall, CountedKind};
use super::trace::CallSpan;
use super::{report, stall, trace};

/// The listeners to the calls of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Listeners {
    /// Whether the variable was looked up.
    is_known: bool,
    /// The report of the process.
    report: bool,
    /// The trace of the process.
    trace: bool,
    /// A caller of [`explain`].
    caller: bool,
}

impl Listeners {
    /// Whether only calls that the report has sampled are reported.
    fn samples(self) -> bool {
        !(self.caller || self.trace || trace::has_subscriber())
    }
}

thread_local! {
    static LISTENERS: Cell<Listeners> =
        const { Cell::new(Listeners { is_known: false, report: false, trace: false, caller: false }) };
    static HEARD: RefCell<Vec<Explained>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f`, and returns how each call of this thread in it went, and why: loops, joins, sorts, teams and their rounds, batched
/// structures, overlapped lanes, plans. Entries are in the order in which their calls ended. Consecutive calls of batched structures at one
/// place are one entry. A call that a panic ends is an entry without items.
///
/// Without this function, the environment variable `WINDROW_EXPLAIN` has a program print a table of its calls by place when it ends
/// normally: `1` on stderr, another value at the end of the file of that name. The table also has spawned closures and calls of task pools:
/// `docs/explain.md`. The variable is read at the first call of each process. A forked child has its own table. Calls are sampled in proportion to their time, to keep the cost of telling in a fixed proportion to it; numbers with `~`
/// are extrapolated.
///
/// `WINDROW_TRACE=FILE` has the program write when each call ran, and what each thread did in it, for trace viewers: `docs/trace.md`.
///
/// ```
/// use windrow::prelude::*;
///
/// let (sum, why) = windrow::explain(|| (0..100u64).into_par_iter().sum::<u64>());
/// assert_eq!(sum, 4950);
/// println!("{}", why[0]); // src/main.rs:4  100 items in 1.1 us on 1 thread ..
/// assert!(why[0].place().is_some_and(|place| place.file().ends_with(".rs")));
/// ```
pub fn explain<R>(f: impl FnOnce() -> R) -> (R, Vec<Explained>) {
    /// Puts the outer listener back, also while unwinding.
    struct Outer(bool, Vec<Explained>);
    impl Drop for Outer {
        fn drop(&mut self) {
            hear(self.0);
            let _ = HEARD.try_with(|heard| heard.replace(std::mem::take(&mut self.1)));
        }
    }
    let before = hear(true);
    let outer = Outer(before, HEARD.try_with(RefCell::take).unwrap_or_default());
    let result = f();
    let heard = HEARD.try_with(RefCell::take).unwrap_or_default();
    drop(outer);
    (result, heard)
}

/// Has the calls of this thread told to a caller of [`explain`], or not. Returns whether they were.
fn hear(caller: bool) -> bool {
    let listeners = listeners();
    let _ = LISTENERS.try_with(|cell| cell.set(Listeners { caller, ..listeners }));
    listeners.caller
}

#[inline]
fn listeners() -> Listeners {
    let none = Listeners { is_known: true, report: false, trace: false, caller: false };
    let listeners = LISTENERS.try_with(Cell::get).unwrap_or(none);
    if listeners.is_known { listeners } else { look_up() }
}

#[cold]
fn look_up() -> Listeners {
    let listeners = Listeners { is_known: true, report: report::is_wanted(), trace: trace::is_wanted(), caller: false };
    if listeners.report {
        stall::begin();
    }
    let _ = LISTENERS.try_with(|cell| cell.set(listeners));
    listeners
}

/// Whether the call that begins at this place is to be told.
#[doc(hidden)]
#[inline]
pub fn listens(place: Option<&'static Location<'static>>) -> bool {
    let Listeners { report, trace, caller, .. } = listeners();
    caller || trace || trace::has_subscriber() || report && report::samples(place)
}

/// The calls for which the call stands to which this thread has just begun to [listen](listens).
pub(crate) fn stands_for(place: Option<&'static Location<'static>>) -> f32 {
    let listeners = listeners();
    if listeners.report && listeners.samples() { report::stands_for(place) } else { 1.0 }
}

/// Whether there is a report of the process.
#[inline]
pub(crate) fn is_reported() -> bool {
    listeners().report
}

/// A call about which nothing is decided, if the report of the process is to count it.
#[inline]
fn counted(place: &'static Location<'static>, kind: CountedKind) -> Option<CountedCall> {
    let listeners = listeners();
    if listeners.report { choose(listeners, place, kind) } else { None }
}

#[inline]
fn choose(listeners: Listeners, place: &'static Location<'static>, kind: CountedKind) -> Option<CountedCall> {
    if !listeners.samples() {
        return Some(CountedCall::new(place, kind, 1.0));
    }
    report::samples(Some(place)).then(|| CountedCall::new(place, kind, report::stands_for(Some(place))))
}

fn since(begun: u64) -> Nanos {
    Nanos(tick().saturating_sub(begun) as f64 * 1000.0 / ticks_per_micro())
}

/// A call that the report of the process counts at its [end](OpenSpan::end).
#[derive(Clone, Copy)]
pub(crate) struct OpenSpan {
    call: CountedCall,
    begun: u64,
}

impl OpenSpan {
    /// `None` if the call is not counted.
    #[inline]
    pub(crate) fn new(place: &'static Location<'static>, kind: CountedKind) -> Option<Self> {
        counted(place, kind).map(|call| OpenSpan { call, begun: tick() })
    }

    #[cold]
    pub(crate) fn end(self) {
        let took = since(self.begun);
        self.call.count(took);
        self.call.took(took);
    }
}

/// A call that the report of the process counts when this is dropped.
#[must_use = "the call ends when this is dropped"]
pub(crate) struct CountedSpan(Option<OpenSpan>);

impl CountedSpan {
    #[inline]
    pub(crate) fn new(place: &'static Location<'static>, kind: CountedKind) -> Self {
        CountedSpan(OpenSpan::new(place, kind))
    }
}

impl Drop for CountedSpan {
    #[inline]
    fn drop(&mut self) {
        self.0.into_iter().for_each(OpenSpan::end);
    }
}

/// A spawned closure. The report of the process counts the spawn, and adds the time of the closure.
#[derive(Clone, Copy)]
pub(crate) struct SpawnedCall(Option<CountedCall>);

impl SpawnedCall {
    /// A closure that is to be spawned, and when that began.
    #[inline]
    pub(crate) fn begin(place: &'static Location<'static>, kind: CountedKind) -> (Self, u64) {
        let call = SpawnedCall(counted(place, kind));
        (call, call.now())
    }

    /// The time, if the spawn is counted.
    #[inline]
    pub(crate) fn now(self) -> u64 {
        if self.0.is_some() { tick() } else { 0 }
    }

    /// Counts the spawn that began at the time `begun`.
    #[inline]
    pub(crate) fn count(self, begun: u64) {
        if let Some(call) = self.0 {
            call.count(since(begun));
        }
    }

    /// Adds the time of the closure that began at the time `begun`.
    #[inline]
    pub(crate) fn took(self, begun: u64) {
        if let Some(call) = self.0 {
            call.took(since(begun));
        }
    }
}

/// Whether this thread records what it does for the [trace] of the process.
#[inline]
pub(crate) fn traces() -> bool {
    listeners().trace
}

/// Whether a reason that takes long to find is wanted: not for a trace, which has each call.
pub(crate) fn wants_reasons() -> bool {
    let Listeners { report, caller, .. } = listeners();
    caller || report
}

/// Adds an entry to the sink. For callers that [listen](listens).
#[doc(hidden)]
pub fn tell(explained: Explained) {
    let listeners = listeners();
    trace::tell(listeners.trace, &explained);
    tell_listeners(listeners, explained);
}

/// Adds an entry to the report of the process, and to what the caller of [`explain`] gets.
fn tell_listeners(listeners: Listeners, explained: Explained) {
    if listeners.report {
        report::add(&explained, listeners.samples());
    }
    if !listeners.caller {
        return;
    }
    // A call made while the thread ends is not reported.
    let _ = HEARD.try_with(|heard| {
        let mut heard = heard.borrow_mut();
        match heard.last_mut() {
            Some(last)
                if explained.kind() == CallKind::Batch
                    && last.kind() == CallKind::Batch
                    && last.place() == explained.place() =>
            {
                *last = last.followed_by(explained);
            }
            Some(last)
                if explained.is_further() && last.kind() == explained.kind() && last.place() == explained.place() =>
            {
                *last = last.continued_by(&explained);
            }
            _ => heard.push(explained),
        }
    });
}

/// A call that this thread is inside of, until this is dropped. A call that a panic ends is told here, since it does not come to its
/// [`tell`].
#[must_use = "the call is left when this is dropped"]
pub(crate) struct ToldCall(Option<WatchedCall>);

struct WatchedCall {
    kind: CallKind,
    place: Option<&'static Location<'static>>,
    begun: u64,
    /// The thread was unwinding before the call.
    unwinds: bool,
    _span: CallSpan,
}

/// Enters a call, if the thread [listens] to it.
#[inline]
pub(crate) fn enter(listens: bool, kind: CallKind, place: Option<&'static Location<'static>>) -> ToldCall {
    ToldCall(if listens { Some(WatchedCall::new(kind, place)) } else { None })
}

impl WatchedCall {
    #[cold]
    fn new(kind: CallKind, place: Option<&'static Location<'static>>) -> Self {
        let _span = trace::enter(kind, place);
        WatchedCall { kind, place, begun: tick(), unwinds: std::thread::panicking(), _span }
    }
}

impl Drop for ToldCall {
    #[inline]
    fn drop(&mut self) {
        if let Some(open) = &self.0 {
            open.leave();
        }
    }
}

impl WatchedCall {
    #[cold]
    fn leave(&self) {
        if !self.unwinds && std::thread::panicking() {
            // The trace has its own mark of a panic.
            let panicked = Explained::new(self.kind, self.place, 0, since(self.begun)).because("panicked");
            tell_listeners(listeners(), panicked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_call_that_panics_is_told() {
        let place = Some(Location::caller());
        let ((), heard) = explain(|| {
            let panics = || {
                let _call = enter(listens(place), CallKind::Loop, place);
                panic!("as intended");
            };
            std::panic::catch_unwind(panics).unwrap_err();
            drop(enter(listens(place), CallKind::Loop, place));
        });
        assert_eq!(heard.iter().map(|told| (told.place(), told.reason())).collect::<Vec<_>>(), [(place, "panicked")]);
    }

    #[test]
    fn calls_of_a_batched_structure_at_one_place_are_one_entry() {
        let place = Some(Location::caller());
        let call = || tell(Explained::new(CallKind::Batch, place, 1, Nanos(1000.0)));
        let ((), heard) = explain(|| {
            call();
            let ((), inner) = explain(call);
            assert_eq!(inner.len(), 1);
            call();
            tell(Explained::new(CallKind::Team, place, 1, Nanos(1.0)));
            call();
        });
        assert_eq!(heard.iter().map(Explained::count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(heard[0].took(), Duration::from_micros(2));
        assert!(!listens(None));
    }
}
