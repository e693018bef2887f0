//! Calls that wait long for their members. With `WINDROW_EXPLAIN` set such a call is reported once, with its place and theirs.
//!
//! A [`CallWatch`] knows the threads that are inside a call. When a wait for other threads of a call has lasted for [`LONG`],
//! windrow-sync [calls](report_long_waits) [`report_wait`] on the thread that waits, which reports its innermost watched call. Without the
//! variable nothing is watched: a call tests one flag.

use std::fmt::Write as _;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windrow_sync::fork::lock;
use windrow_sync::word::report_long_waits;

use super::flag::Flag;
use super::report;

/// A call that has waited for so long is reported.
///
/// Measure: chosen, because a program that is stuck should say so before its user gives up.
const LONG: Duration = Duration::from_secs(5);

/// Another duration, in milliseconds, for tests.
const VARIABLE: &str = "WINDROW_STALL_MS";

/// Duration of a wait before it is reported, if waits are.
pub(crate) fn long_wait(watches: bool) -> Option<Duration> {
    watches.then(|| {
        let millis = std::env::var(VARIABLE).ok().and_then(|value| value.parse().ok());
        millis.map_or(LONG, Duration::from_millis)
    })
}

/// Has long waits reported from now on.
pub(super) fn begin() {
    long_wait(true).into_iter().for_each(|long| report_long_waits(long, report_wait));
}

/// The kind of a call over items.
pub(crate) const LOOP: &str = "loop";

/// A call, as a report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallName {
    kind: &'static str,
    at: WatchedPlace,
}

/// Identity of a call among others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchedPlace {
    Unknown,
    Source(&'static Location<'static>),
    /// The type of a batched structure.
    Type(&'static str),
}

/// A watched call.
struct WatchedEntry {
    name: CallName,
    /// The threads that are inside, and since when.
    members: Mutex<Vec<(Arc<ThreadCalls>, Instant)>>,
    is_reported: Flag,
}

/// The watched calls around a thread, outermost first.
struct ThreadCalls {
    thread: String,
    calls: Mutex<Vec<Arc<WatchedEntry>>>,
}

thread_local! {
    static CALLS: Arc<ThreadCalls> = Arc::new(ThreadCalls {
        thread: std::thread::current().name().map_or_else(|| format!("{:?}", std::thread::current().id()), str::to_owned),
        calls: Mutex::default(),
    });
}

/// A call that is watched until this is dropped, if there is a report of the process.
#[must_use = "the call is over when this is dropped"]
#[derive(Default)]
pub(crate) struct CallWatch(Option<MemberWatch>);

impl CallWatch {
    /// `watches`: there is a report of the process. The calling thread is inside the call, a `kind` such as "loop".
    #[inline]
    pub(crate) fn new(watches: bool, kind: &'static str, place: Option<&'static Location<'static>>) -> Self {
        let at = || place.map_or(WatchedPlace::Unknown, WatchedPlace::Source);
        if watches { Self::begin(CallName { kind, at: at() }) } else { CallWatch(None) }
    }

    /// A call of a batched structure of the type `of`.
    #[inline]
    pub(crate) fn of_batch(watches: bool, of: &'static str) -> Self {
        if watches {
            Self::begin(CallName { kind: "call of a batched structure", at: WatchedPlace::Type(of) })
        } else {
            CallWatch(None)
        }
    }

    #[cold]
    fn begin(name: CallName) -> Self {
        let call = WatchedEntry { name, members: Mutex::default(), is_reported: Flag::new() };
        CallWatch(MemberWatch::new(Arc::new(call)))
    }

    /// The calling thread is inside the call until the result is dropped.
    #[inline]
    pub(crate) fn member(&self) -> Option<MemberWatch> {
        self.0.as_ref().and_then(|watch| MemberWatch::new(watch.call.clone()))
    }
}

/// A thread that is inside a watched call until this is dropped.
#[must_use = "the thread leaves the call when this is dropped"]
pub(crate) struct MemberWatch {
    call: Arc<WatchedEntry>,
    thread: Arc<ThreadCalls>,
}

impl MemberWatch {
    /// `None` while the thread ends.
    #[cold]
    fn new(call: Arc<WatchedEntry>) -> Option<Self> {
        let thread = CALLS.try_with(Arc::clone).ok()?;
        lock(&call.members).push((thread.clone(), Instant::now()));
        lock(&thread.calls).push(call.clone());
        Some(MemberWatch { call, thread })
    }
}

impl Drop for MemberWatch {
    fn drop(&mut self) {
        lock(&self.thread.calls).pop();
        let mut members = lock(&self.call.members);
        let own = members.iter().rposition(|(thread, _)| Arc::ptr_eq(thread, &self.thread));
        own.into_iter().for_each(|at| _ = members.remove(at));
    }
}

/// A thread that the call waits for.
#[derive(Debug)]
struct AwaitedMember {
    thread: String,
    since: Duration,
    /// The innermost call around it, if that is another one.
    inside: Option<CallName>,
}

/// Called on a thread that has `waited` for other threads of a call.
pub(crate) fn report_wait(waited: Duration) {
    let Ok(own) = CALLS.try_with(Arc::clone) else { return };
    let Some(call) = lock(&own.calls).last().cloned() else { return };
    if call.is_reported.is_up() {
        return;
    }
    call.is_reported.raise();
    let others: Vec<_> = lock(&call.members).iter().filter(|(thread, _)| !Arc::ptr_eq(thread, &own)).cloned().collect();
    let awaited = |(thread, since): (Arc<ThreadCalls>, Instant)| {
        let inside = lock(&thread.calls).last().filter(|inner| !Arc::ptr_eq(inner, &call)).map(|inner| inner.name);
        AwaitedMember { thread: thread.thread.clone(), since: since.elapsed(), inside }
    };
    let members: Vec<_> = others.into_iter().map(awaited).collect();
    report::add_note(&stalled(call.name, &own.thread, waited, &members));
}

/// Report on a call: thread `thread` has `waited` for `members`.
fn stalled(call: CallName, thread: &str, waited: Duration, members: &[AwaitedMember]) -> String {
    let mut text = format!("windrow: {call} has waited for {waited:.1?} on thread {thread}");
    let _ = match members.len() {
        0 => writeln!(text),
        1 => writeln!(text, ", for another thread:"),
        more => writeln!(text, ", for {more} other threads:"),
    };
    for AwaitedMember { thread, since, inside } in members {
        let _ = write!(text, "  thread {thread} has been inside for {since:.1?}");
        let _ = match inside {
            Some(inside) => writeln!(text, ", and is in {inside} now"),
            None => writeln!(text),
        };
    }
    let parts = if call.kind == LOOP { "items" } else { "parts" };
    let _ = writeln!(
        text,
        "hint: do {parts} of this call wait for something that its caller holds, such as a lock? One that its holder may take again \
         (Python's GIL, a ReentrantMutex) lets no other thread in"
    );
    text
}

impl std::fmt::Display for CallName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            WatchedPlace::Unknown => write!(f, "the {}", self.kind),
            WatchedPlace::Source(place) => write!(f, "the {} at {place}", self.kind),
            WatchedPlace::Type(of) => write!(f, "the {} ({of})", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_call_names_its_place_its_members_and_a_cause() {
        let here = Location::caller();
        let call = CallName { kind: LOOP, at: WatchedPlace::Source(here) };
        let inside = Some(CallName { kind: "join or scope", at: WatchedPlace::Source(here) });
        let seconds = Duration::from_secs;
        let one = |inside| AwaitedMember { thread: "windrow-1".to_owned(), since: seconds(7), inside };
        let text = stalled(call, "main", seconds(5), &[one(None), one(inside)]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            format!("windrow: the loop at {here} has waited for 5.0s on thread main, for 2 other threads:")
        );
        assert_eq!(lines[1], "  thread windrow-1 has been inside for 7.0s");
        assert_eq!(
            lines[2],
            format!("  thread windrow-1 has been inside for 7.0s, and is in the join or scope at {here} now")
        );
        assert!(
            lines[3]
                .starts_with("hint: do items of this call wait for something that its caller holds, such as a lock?")
        );
        assert!(stalled(call, "main", seconds(5), &[]).contains("on thread main\n"), "no member is known");
    }

    #[test]
    fn a_call_knows_the_threads_that_are_inside() {
        let place = Some(Location::caller());
        assert!(CallWatch::new(false, LOOP, place).member().is_none());
        let watch = CallWatch::new(true, LOOP, place);
        let members = || lock(&watch.0.as_ref().unwrap().call.members).len();
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| watch.member().map(|_inside| members()));
            assert_eq!(inside.join().unwrap(), Some(2));
        });
        assert_eq!(members(), 1, "one has left");
        let calls = || CALLS.with(|own| lock(&own.calls).len());
        assert_eq!(calls(), 1);
        drop(watch);
        assert_eq!(calls(), 0);
    }
}
