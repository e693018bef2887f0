//! Calls as spans of the crate `tracing`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use windrow::Pool;
use windrow::batch::Batched;
use windrow::prelude::*;
use windrow_testkit::{Sum, block_on};

#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    /// The index of the span around it.
    around: Option<usize>,
    is_event: bool,
    is_entered: bool,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps the spans of one thread.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<(Vec<Seen>, Vec<usize>)>>);

impl Keeps {
    fn add(&self, mut seen: Seen) -> usize {
        let mut state = self.0.lock().unwrap();
        seen.around = state.1.last().copied();
        state.0.push(seen);
        state.0.len()
    }
}

impl Subscriber for Keeps {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "windrow"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = Seen { name: span.metadata().name(), ..Seen::default() };
        span.record(&mut seen);
        Id::from_u64(self.add(seen) as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().unwrap().0[span.into_u64() as usize - 1]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut seen = Seen { name: "event", is_event: true, ..Seen::default() };
        event.record(&mut seen);
        self.add(seen);
    }

    fn enter(&self, span: &Id) {
        let index = span.into_u64() as usize - 1;
        let mut state = self.0.lock().unwrap();
        state.0[index].is_entered = true;
        state.1.push(index);
    }

    fn exit(&self, span: &Id) {
        assert_eq!(self.0.lock().unwrap().1.pop(), Some(span.into_u64() as usize - 1));
    }
}

/// The spans that a subscriber sees of the calls of this thread.
fn seen(calls: impl FnOnce()) -> Vec<Seen> {
    let keeps = Keeps::default();
    tracing::subscriber::with_default(keeps.clone(), calls);
    let (seen, open) = keeps.0.lock().unwrap().clone();
    assert_eq!(open, []);
    seen
}

#[test]
fn calls_are_spans_with_what_was_decided() {
    let line = line!() + 3;
    let all = seen(|| {
        Pool::new(1).install(|| {
            (0..3u32).into_par_iter().for_each(|_| {
                windrow::join(|| (), || ());
            });
        });
    });
    assert_eq!(all.iter().map(|one| one.name).collect::<Vec<_>>(), ["loop", "join", "join", "join"]);
    let [outer, inner, ..] = &all[..] else { panic!("{all:?}") };
    let field = |name: &str| outer.fields.get(name).map(String::as_str);
    assert_eq!(field("place"), Some(&*format!("{}:{line}", file!())));
    assert_eq!((field("kind"), field("items"), field("threads")), (Some("\"loop\""), Some("3"), Some("1")));
    assert_eq!(field("decision"), Some("\"serial: nothing to decide\""));
    assert!(outer.is_entered && outer.around.is_none());
    assert_eq!(inner.around, Some(0));
}

#[test]
fn a_panic_leaves_the_span() {
    let all = seen(|| {
        let panics = || Pool::new(1).install(|| (0..3u32).into_par_iter().for_each(|i| assert!(i > 3, "as intended")));
        std::panic::catch_unwind(panics).unwrap_err();
        windrow::join(|| (), || ());
    });
    assert_eq!(all.iter().map(|one| (one.name, one.around)).collect::<Vec<_>>(), [("loop", None), ("join", None)]);
    assert_eq!(all[0].fields.get("decision"), None);
}

#[test]
fn a_future_is_an_event() {
    let all = seen(|| {
        let batched = Batched::new(Sum(0));
        block_on(batched.call_async(3)).unwrap();
    });
    let [event] = &all[..] else { panic!("{all:?}") };
    assert!(event.is_event);
    assert_eq!(event.fields["items"], "1");
    assert_eq!(event.fields["kind"], "\"batch\"");
}

#[test]
fn without_a_subscriber_calls_are_not_reported() {
    let place = Some(std::panic::Location::caller());
    assert!(!windrow::listens(place));
    seen(|| assert!(windrow::listens(place)));
    assert!(!windrow::listens(place));
}
