//! Calls as spans of the crate `tracing`: target `windrow`, level trace.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use tracing::field::Empty;
use tracing::span::EnteredSpan;
use tracing::{Level, Span};

use super::CallPlace;
use crate::runtime::explained::{CallKind, Explained};

thread_local! {
    /// The spans of the calls that this thread is inside of.
    static SPANS: RefCell<Vec<(CallKind, CallPlace, EnteredSpan)>> = const { RefCell::new(Vec::new()) };
}

/// Whether a subscriber wants them.
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

/// Leaves the innermost span of this thread when it is dropped, if it was entered.
pub(super) struct SpanGuard {
    is_entered: bool,
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

pub(super) fn enter(kind: CallKind, place: CallPlace) -> SpanGuard {
    if !are_wanted() {
        return SpanGuard { is_entered: false };
    }
    let span = match kind {
        CallKind::Loop => call_span!("loop", place),
        CallKind::Join => call_span!("join", place),
        CallKind::Sort => call_span!("sort", place),
        CallKind::Team => call_span!("team", place),
        CallKind::Rounds => call_span!("rounds", place),
        CallKind::Batch => call_span!("batch", place),
        CallKind::Overlap => call_span!("overlap", place),
        CallKind::Plan => call_span!("plan", place),
    };
    // The subscriber runs here, and may make calls of windrow itself.
    let span = span.entered();
    let is_entered = SPANS.try_with(|spans| spans.borrow_mut().push((kind, place, span))).is_ok();
    SpanGuard { is_entered }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        if self.is_entered {
            // Dropped behind the borrow, as the subscriber runs.
            let span = SPANS.try_with(|spans| spans.borrow_mut().pop());
            drop(span);
        }
    }
}

/// Adds how a call went to its span. A call without a span is an event.
pub(super) fn tell(explained: &Explained) {
    if !are_wanted() {
        return;
    }
    let (kind, place) = (explained.kind(), explained.place());
    let find = |spans: &RefCell<Vec<(CallKind, CallPlace, EnteredSpan)>>| -> Option<Span> {
        let spans = spans.borrow();
        let (of, at, span) = spans.last()?;
        (*of == kind && *at == place).then(|| Span::clone(span))
    };
    let (items, threads) = (explained.count(), explained.threads());
    match SPANS.try_with(find).ok().flatten() {
        Some(span) => {
            span.record("items", items).record("threads", threads).record("decision", explained.reason());
        }
        None => tracing::event!(
            target: "windrow",
            Level::TRACE,
            place = %PlaceText(place),
            kind = kind.name(),
            items,
            threads,
            decision = explained.reason(),
        ),
    }
}
