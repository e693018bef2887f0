#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::time::Duration;

use windrow_plan::listen::{CallKind, Ending, Event, EventKind, Listener, Site};
use windrow_sync::exit::at_exit;
use windrow_sync::fork::PerProcess;
use windrow_sync::relaxed::RelaxedU64;

mod report;
mod sampling;
mod stall;
mod trace;

#[cfg(feature = "tracing")]
mod spans;

/// Without the feature `tracing` no call is a span.
#[cfg(not(feature = "tracing"))]
mod spans {
    use windrow_plan::listen::{CallKind, CallPlace, Event};

    #[inline]
    pub(super) fn are_wanted() -> bool {
        false
    }

    pub(super) fn enter(_: CallKind, _: CallPlace) {}

    pub(super) fn leave(_: CallKind, _: &Event<'_>) {}

    pub(super) fn add(_: CallKind, _: &Event<'_>) {}
}

#[doc(hidden)]
pub use trace::timeline;

/// The listener of this process; `None` if no variable is set. A forked child has another table and another trace.
#[doc(hidden)]
pub fn listener() -> Option<&'static dyn Listener> {
    static IS_WANTED: PerProcess<bool> = PerProcess::new();
    let is_wanted = *IS_WANTED.get(|| cfg!(feature = "tracing") || report::is_wanted() || trace::is_wanted());
    is_wanted.then_some(&Observer as &dyn Listener)
}

/// The value of a variable of the environment, if it asks for an output of this process, which is [written](write_all) at its end.
fn wish(variable: &str) -> Option<OsString> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty() && value != "0")?;
    at_exit(write_all);
    Some(value)
}

/// Writes the outputs of this process. It is registered for each of them, and a forked child inherits that.
extern "C" fn write_all() {
    static WRITTEN: PerProcess<RelaxedU64> = PerProcess::new();
    let written = WRITTEN.get(RelaxedU64::default);
    if written.get() == 0 {
        written.set(1);
        for write in [report::print, trace::write] {
            // A panic would abort the process.
            let _ = catch_unwind(write);
        }
    }
}

/// Passes events on to the report, the trace and the spans of the process.
struct Observer;

impl Observer {
    /// Weight of the call that begins here; `None` if it is skipped.
    fn weight(site: &Site) -> Option<f32> {
        if trace::is_wanted() || spans::are_wanted() {
            return Some(1.0);
        }
        if site.is_wanted && report::is_wanted() { Some(1.0) } else { report::sample(site.place) }
    }

    /// Adds a call that has ended.
    fn add(kind: CallKind, event: &Event<'_>, nests: bool) {
        if nests && kind != CallKind::Rounds {
            spans::leave(kind, event);
        } else {
            spans::add(kind, event);
        }
        if trace::is_wanted() {
            match nests {
                true if kind == CallKind::Rounds => trace::add_rounds(event),
                true => trace::leave(kind, event),
                false => trace::add_aside(kind, event),
            }
        }
        if event.ending != Ending::Left {
            report::add(event, kind);
        }
    }
}

impl Listener for Observer {
    fn begun(&self, site: &Site) -> Option<f32> {
        let Site { kind, place, region, is_wanted } = *site;
        match kind {
            EventKind::Call(kind) => {
                let weight = Self::weight(site);
                if weight.is_some() && spans::are_wanted() {
                    spans::enter(kind, place);
                }
                if weight.is_some() && trace::is_wanted() {
                    trace::enter(kind, place);
                }
                weight
            }
            EventKind::Loose(_) => Self::weight(site),
            EventKind::Spawn => report::sample(place),
            EventKind::Region { name, of } => report::is_wanted().then(|| {
                stall::open(region, name, of, place);
                1.0
            }),
            EventKind::Member | EventKind::Part(_) => {
                let is_watched = region > 0 && report::is_wanted();
                if is_watched {
                    stall::enter(region);
                }
                (is_watched || kind != EventKind::Member && trace::is_wanted()).then_some(1.0)
            }
            EventKind::Claim { .. } => trace::has_claims().then_some(1.0),
            EventKind::Spawned { .. } => (is_wanted || trace::is_wanted()).then_some(1.0),
            EventKind::Rounds { .. } | EventKind::Batch { .. } | EventKind::Width { .. } => {
                trace::is_wanted().then_some(1.0)
            }
        }
    }

    fn ended(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::Call(kind) => {
                Self::add(kind, event, true);
                if let Some(tiles) = event.tiles.filter(|_| trace::is_wanted()) {
                    trace::add_tiles(event.place, event.ticks.0, tiles());
                }
            }
            EventKind::Loose(kind) => Self::add(kind, event, false),
            EventKind::Spawn => report::add_spawn(event),
            EventKind::Region { .. } => stall::close(event.region),
            EventKind::Member | EventKind::Part(_) | EventKind::Spawned { .. } => {
                if event.region > 0 && report::is_wanted() {
                    stall::leave(event.region);
                }
                let is_slice = !matches!(event.kind, EventKind::Spawned { in_scope: true });
                if is_slice && trace::is_wanted() {
                    trace::add(event);
                }
                if matches!(event.kind, EventKind::Spawned { .. }) && event.weight > 0.0 {
                    report::add_spawned(event);
                }
            }
            _ => trace::add(event),
        }
    }

    fn stalled(&self, waited: Duration) {
        if report::is_wanted() {
            stall::report_wait(waited);
        }
    }
}
