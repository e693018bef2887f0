//! The sink of decisions: every kind of call reports its decision, and [`explain`] returns the reports.
//!
//! A thread listens while it is inside of `explain`. Each call of a listening thread reports an [`Explained`] when the call ends. A team also
//! reports one for its rounds. Listening reads the clock more often, and changes no decision. A thread that does not listen pays one load of a
//! thread-local flag a call. With `WINDROW_EXPLAIN` set, all threads listen to some of their calls, for the [report](super::report) of the process,
//! which has a few of them run the other way than decided. With `WINDROW_TRACE` set, they listen to all calls, for the [trace].

use std::cell::{Cell, RefCell};
use std::panic::Location;

use windrow_plan::explore::Budget;

use super::explained::{CallKind, Explained};
use super::{report, trace};

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
    /// Whether only calls that the report has chosen are told. (It chooses none to run the other way where all are.)
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
/// place are one entry.
///
/// Without this function, the environment variable `WINDROW_EXPLAIN` has a program print a table of its calls by place when it ends
/// normally: `1` on stderr, another value at the end of the file of that name. It is read at the first call of each process. A forked child
/// has its own table. Calls are sampled in proportion to their time, to keep the cost of telling in a fixed proportion to it; numbers with `~`
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

/// What the call that begins here may lose by running the other way than decided, if the report of the process wants that.
pub(super) fn contrary(place: Option<&'static Location<'static>>) -> Option<Budget> {
    let listeners = listeners();
    if listeners.report && listeners.samples() { report::contrary(place) } else { None }
}

/// Adds an entry to the sink. For callers that [listen](listens).
#[doc(hidden)]
pub fn tell(explained: Explained) {
    let listeners = listeners();
    let Listeners { report, trace, caller, .. } = listeners;
    trace::tell(trace, &explained);
    if report {
        report::add(&explained, listeners.samples());
    }
    if !caller {
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
            _ => heard.push(explained),
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use windrow_plan::Nanos;

    use super::*;

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
