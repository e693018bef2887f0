//! Calls that wait long for their members. With `WINDROW_EXPLAIN` set such a call is reported once, with its place and theirs.
//!
//! Threads [enter](enter) and [leave](leave) regions. When a thread has waited long for the other threads of its innermost region, the runtime
//! says so ([`report_wait`]). A region without the report is not entered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windrow_plan::listen::CallPlace;
use windrow_sync::Mutex;
use windrow_sync::fork::PerProcess;

use crate::report;

/// The kind of a call over items.
const LOOP: &str = "loop";

/// A call, as a report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallName {
    kind: &'static str,
    /// The type of a batched structure.
    of: Option<&'static str>,
    place: CallPlace,
}

/// A region, and the threads inside.
struct Watched {
    name: CallName,
    members: Vec<(Arc<ThreadRegions>, Instant)>,
    is_reported: bool,
}

/// The numbers of the regions that a thread is in, outermost first.
struct ThreadRegions {
    thread: String,
    regions: Mutex<Vec<usize>>,
}

thread_local! {
    static REGIONS: Arc<ThreadRegions> = Arc::new(ThreadRegions {
        thread: std::thread::current().name().map_or_else(|| format!("{:?}", std::thread::current().id()), str::to_owned),
        regions: Mutex::default(),
    });
}

/// Measure: count of tables, so that threads seldom meet at one.
const TABLES: usize = 64;

type Table = Mutex<HashMap<usize, Watched>>;

/// The table with the region of this number. A forked child has none of the regions of its parent.
fn table(region: usize) -> &'static Table {
    static TABLES_OF_PROCESS: PerProcess<Vec<Table>> = PerProcess::new();
    &TABLES_OF_PROCESS.get(|| (0..TABLES).map(|_| Table::default()).collect())[region % TABLES]
}

/// The caller of a region enters it.
pub(super) fn open(region: usize, kind: &'static str, of: Option<&'static str>, place: CallPlace) {
    let watched = Watched { name: CallName { kind, of, place }, members: Vec::new(), is_reported: false };
    table(region).lock().insert(region, watched);
    enter(region);
}

/// This thread enters a region. Nothing while the thread ends.
pub(super) fn enter(region: usize) {
    let Ok(own) = REGIONS.try_with(Arc::clone) else { return };
    own.regions.lock().push(region);
    if let Some(watched) = table(region).lock().get_mut(&region) {
        watched.members.push((own, Instant::now()));
    }
}

/// This thread leaves the region that it has entered last.
pub(super) fn leave(region: usize) {
    let Ok(own) = REGIONS.try_with(Arc::clone) else { return };
    let mut regions = own.regions.lock();
    if let Some(at) = regions.iter().rposition(|of| *of == region) {
        regions.truncate(at);
    }
    drop(regions);
    if let Some(watched) = table(region).lock().get_mut(&region) {
        let at = watched.members.iter().rposition(|(thread, _)| Arc::ptr_eq(thread, &own));
        at.into_iter().for_each(|at| _ = watched.members.remove(at));
    }
}

/// The caller of a region leaves it, after all others.
pub(super) fn close(region: usize) {
    leave(region);
    table(region).lock().remove(&region);
}

fn name_of(region: usize) -> Option<CallName> {
    table(region).lock().get(&region).map(|watched| watched.name)
}

/// A thread that the call waits for.
#[derive(Debug)]
struct AwaitedMember {
    thread: String,
    since: Duration,
    /// The innermost call around it, if that is another one.
    inside: Option<CallName>,
}

/// Called on a thread that has `waited` for other threads of a region.
pub(super) fn report_wait(waited: Duration) {
    let Ok(own) = REGIONS.try_with(Arc::clone) else { return };
    let Some(region) = own.regions.lock().last().copied() else { return };
    let (name, others) = {
        let mut table = table(region).lock();
        let Some(watched) = table.get_mut(&region).filter(|watched| !watched.is_reported) else { return };
        watched.is_reported = true;
        let others = watched.members.iter().filter(|(thread, _)| !Arc::ptr_eq(thread, &own));
        (watched.name, others.cloned().collect::<Vec<_>>())
    };
    let awaited = |(thread, since): (Arc<ThreadRegions>, Instant)| {
        let inner = thread.regions.lock().last().copied().filter(|inner| *inner != region);
        AwaitedMember { thread: thread.thread.clone(), since: since.elapsed(), inside: inner.and_then(name_of) }
    };
    let members: Vec<_> = others.into_iter().map(awaited).collect();
    report::add_note(&stalled(name, &own.thread, waited, &members));
}

/// Report on a call: thread `thread` has `waited` for `members`.
fn stalled(call: CallName, thread: &str, waited: Duration, members: &[AwaitedMember]) -> String {
    let mut text = format!("windrow: {call} on thread {thread} has waited {waited:.1?}");
    let _ = match members.len() {
        0 => writeln!(text),
        1 => writeln!(text, " for another thread:"),
        more => writeln!(text, " for {more} other threads:"),
    };
    for AwaitedMember { thread, since, inside } in members {
        let _ = write!(text, "  thread {thread} has been in it for {since:.1?}");
        let _ = match inside {
            Some(inside) => writeln!(text, " and is now in {inside}"),
            None => writeln!(text),
        };
    }
    let parts = if call.kind == LOOP { "items" } else { "parts" };
    let _ = writeln!(
        text,
        "hint: do {parts} of this call wait for something that its caller holds, such as a lock? Even a reentrant \
         lock (Python's GIL, a ReentrantMutex) keeps other threads out"
    );
    text
}

impl std::fmt::Display for CallName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.of, self.place) {
            (Some(of), _) => write!(f, "the {} ({of})", self.kind),
            (None, Some(place)) => write!(f, "the {} at {place}", self.kind),
            (None, None) => write!(f, "the {}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_call_names_its_place_its_members_and_a_cause() {
        let here = std::panic::Location::caller();
        let name = |kind| CallName { kind, of: None, place: Some(here) };
        let (call, inside) = (name(LOOP), Some(name("join or scope")));
        let seconds = Duration::from_secs;
        let one = |inside| AwaitedMember { thread: "windrow-1".to_owned(), since: seconds(7), inside };
        let text = stalled(call, "main", seconds(5), &[one(None), one(inside)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            format!("windrow: the loop at {here} on thread main has waited 5.0s for 2 other threads:")
        );
        assert_eq!(lines[1], "  thread windrow-1 has been in it for 7.0s");
        assert_eq!(
            lines[2],
            format!("  thread windrow-1 has been in it for 7.0s and is now in the join or scope at {here}")
        );
        assert!(
            lines[3]
                .starts_with("hint: do items of this call wait for something that its caller holds, such as a lock?")
        );
        assert!(stalled(call, "main", seconds(5), &[]).contains("has waited 5.0s\n"), "no member is known");
    }

    #[test]
    fn a_region_knows_the_threads_that_are_inside() {
        let region = usize::MAX;
        let members = || table(region).lock().get(&region).map_or(0, |watched| watched.members.len());
        open(region, LOOP, None, None);
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(region);
                let inside = members();
                leave(region);
                inside
            });
            assert_eq!(inside.join().unwrap(), 2);
        });
        assert_eq!(members(), 1, "one has left");
        let regions = || REGIONS.with(|own| own.regions.lock().len());
        assert_eq!(regions(), 1);
        close(region);
        assert_eq!((members(), regions()), (0, 0));
    }
}
