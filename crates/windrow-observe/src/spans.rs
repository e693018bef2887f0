//! Calls as spans of the crate `tracing`: target `windrow`, level trace.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{Level, Span};

use windrow_plan::listen::{CallKind, CallPlace, Decided, Ending, Event};

thread_local! {
    /// Spans of the open calls of this thread.
    static SPANS: RefCell<Vec<(CallKind, CallPlace, EnteredSpan)>> = const { RefCell::new(Vec::new()) };
}

/// True if a subscriber wants them.
#[inline]
pub(super) fn are_wanted() -> bool {
    tracing::enabled!(target: "windrow", Level::TRACE)
}

/// `file:line`.
struct PlaceText(CallPlace);

impl fmt::Display for PlaceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |place: &Location<'_>| write!(f, "{}:{}", place.file(), place.line()))
    }
}

/// A span whose name is a constant, as `tracing` wants it.
macro_rules! call_span {
    ($name:literal, $place:expr) => {
        tracing::span!(
            target: "windrow",
            Level::TRACE,
            $name,
            place = %PlaceText($place),
            kind = $name,
            items = Empty,
            threads = Empty,
            decision = Empty,
        )
    };
}

/// Enters the span of a call.
pub(super) fn enter(kind: CallKind, place: CallPlace) {
    let span = match kind {
        CallKind::Loop => call_span!("loop", place),
        CallKind::Join => call_span!("join", place),
        CallKind::Sort => call_span!("sort", place),
        CallKind::Team => call_span!("team", place),
        CallKind::Rounds => call_span!("rounds", place),
        CallKind::Batch => call_span!("batch", place),
        CallKind::Overlap => call_span!("overlap", place),
        _ => call_span!("plan", place),
    };
    // The subscriber runs here, and may make calls of windrow itself.
    let span = span.entered();
    let _ = SPANS.try_with(|spans| spans.borrow_mut().push((kind, place, span)));
}

/// Leaves the span of a call, and says how the call went if it has returned.
pub(super) fn leave(kind: CallKind, event: &Event<'_>) {
    let find = |spans: &RefCell<Vec<(CallKind, CallPlace, EnteredSpan)>>| {
        let mut spans = spans.borrow_mut();
        let index = spans.iter().rposition(|(of, at, _)| *of == kind && *at == event.place)?;
        Some(spans.split_off(index))
    };
    let Some(mut left) = SPANS.try_with(find).ok().flatten() else { return };
    if let Some((.., span)) = left.first().filter(|_| event.ending == Ending::Returned) {
        let span = Span::clone(span);
        span.record("items", event.known_items()).record("threads", event.threads).record("decision", reason(event));
    }
    // The innermost first, and after the borrow, as the subscriber runs.
    while let Some(span) = left.pop() {
        drop(span);
    }
}

fn reason<'e>(event: &Event<'e>) -> &'e str {
    match event.decision {
        Decided::Now(account) => &account.reason,
        Decided::Later(_) => "",
    }
}

/// Adds a call without a span as an event.
pub(super) fn add(kind: CallKind, event: &Event<'_>) {
    tracing::event!(
        target: "windrow",
        Level::TRACE,
        place = %PlaceText(event.place),
        kind = kind.name(),
        items = event.known_items(),
        threads = event.threads,
        decision = reason(event),
    );
}
