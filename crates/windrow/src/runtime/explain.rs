//! [`explain`]: a listener that collects the calls of one thread.

use std::cell::RefCell;
use std::time::Duration;

use windrow_plan::listen::{Ending, Event, EventKind, Listener, Site};
use windrow_sync::unwind::Finally;

use super::explained::Explained;
use super::listen::{listening, of_process};

thread_local! {
    /// The entries of the innermost [`explain`] of this thread; `None` outside.
    static ENTRIES: RefCell<Option<Vec<Explained>>> = const { RefCell::new(None) };
}

/// Runs `f`, and returns how each call of this thread in it went, and why: loops, joins, sorts, teams and their rounds, batched
/// structures, overlapped lanes, plans. Entries are in the order in which their calls ended. Consecutive calls of batched structures at one
/// place are one entry. A call that a panic ends is an entry without items.
///
/// Without this function, the environment variable `WINDROW_EXPLAIN` has a program print a table of its calls by place when it ends
/// normally: `1` on stderr, another value at the end of the file of that name. The table also has spawned closures:
/// `book/src/explain.md`. The variable is read at the first call of each process. A forked child has its own table. Calls are sampled in
/// proportion to their time, so that reports cost a fixed part of it; numbers with `~` are extrapolated.
///
/// `WINDROW_TRACE=FILE` has the program write when each call ran, and what each thread did in it, for trace viewers: the same page.
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
    // Entries of the outer call are put back, also while unwinding.
    let mut outer = ENTRIES.try_with(|entries| entries.replace(Some(Vec::new()))).unwrap_or_default();
    let _outer = Finally(|| _ = ENTRIES.try_with(|entries| entries.replace(outer.take())));
    let result = listening(&Collector, f);
    let entries = ENTRIES.try_with(RefCell::take).unwrap_or_default();
    (result, entries.unwrap_or_default())
}

/// The listener of a thread inside [`explain`]. It passes all on to that of the process.
struct Collector;

impl Listener for Collector {
    fn begun(&self, site: &Site) -> Option<f32> {
        let process = of_process();
        match site.kind {
            EventKind::Call(_) | EventKind::Loose(_) => {
                let wanted = Site { is_wanted: true, ..*site };
                Some(process.and_then(|process| process.begun(&wanted)).unwrap_or(0.0))
            }
            _ => process?.begun(site),
        }
    }

    fn ended(&self, event: &Event<'_>) {
        if let Some(process) = of_process().filter(|_| event.weight > 0.0) {
            process.ended(event);
        }
        let (EventKind::Call(kind) | EventKind::Loose(kind)) = event.kind else { return };
        if event.ending == Ending::Left {
            return;
        }
        // A call made while the thread ends has no entry, and neither has one that ends on a thread outside `explain`.
        let add = |all: &mut Vec<Explained>| {
            let entry = Explained::of(kind, event);
            let further = match all.last_mut() {
                Some(last) => last.followed_by(entry),
                None => Some(entry),
            };
            all.extend(further);
        };
        let _ = ENTRIES.try_with(|entries| entries.borrow_mut().as_mut().map(add));
    }

    fn stalled(&self, waited: Duration) {
        of_process().into_iter().for_each(|process| process.stalled(waited));
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;
    use std::time::Duration;

    use windrow_plan::Nanos;

    use super::super::listen::{Account, CallKind, call, listens};
    use super::*;

    #[test]
    fn a_call_that_panics_is_reported() {
        let place = Some(Location::caller());
        let ((), entries) = explain(|| {
            let panics = || {
                let _call = call(CallKind::Loop, place);
                panic!("as intended");
            };
            std::panic::catch_unwind(panics).unwrap_err();
            drop(call(CallKind::Loop, place));
        });
        assert_eq!(
            entries.iter().map(|entry| (entry.place(), entry.reason())).collect::<Vec<_>>(),
            [(place, "panicked")]
        );
    }

    #[test]
    fn calls_of_a_batched_structure_at_one_place_are_one_entry() {
        let place = Some(Location::caller());
        let ends = |kind, nanos| {
            let account = Account::default();
            let call = call(kind, place).expect("a collector wants all calls");
            let event = Event { items: 1, took: Nanos(nanos), ..call.event(&account) };
            call.end(&event);
        };
        let call = || ends(CallKind::Batch, 1000.0);
        let ((), entries) = explain(|| {
            call();
            let ((), inner) = explain(call);
            assert_eq!(inner.len(), 1);
            call();
            ends(CallKind::Team, 1.0);
            call();
        });
        assert_eq!(entries.iter().map(Explained::count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(entries[0].took(), Duration::from_micros(2));
        assert!(!listens(None));
    }
}
