#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::panic::catch_unwind;
use std::time::Duration;

use windrow_plan::listen::{CallKind, CallPlace, Ending, Event, EventKind, Listener, Site};
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

    pub(super) fn leave(_: CallKind, _: &Event<'_>, _: bool) {}

    pub(super) fn add(_: CallKind, _: &Event<'_>) {}
}

#[doc(hidden)]
pub use trace::timeline;

/// The listener of this process; `None` if no variable is set. A forked child has another table and another trace.
#[doc(hidden)]
pub fn listener() -> Option<&'static dyn Listener> {
    let outputs = OUTPUTS.get(|| {
        let are_wanted = [report::is_wanted(), trace::is_wanted()].contains(&true);
        if are_wanted {
            at_exit(end);
        }
        Outputs { are_wanted, written: RelaxedU64::new(0) }
    });
    (cfg!(feature = "tracing") || outputs.are_wanted).then_some(&Observer as &dyn Listener)
}

/// The report and the trace of a process.
struct Outputs {
    are_wanted: bool,
    /// 1 once they were written: a forked child inherits the function that runs at its end, and registers it once more.
    written: RelaxedU64,
}

static OUTPUTS: PerProcess<Outputs> = PerProcess::new();

/// Writes the outputs at the end of the process.
extern "C" fn end() {
    let Some(outputs) = OUTPUTS.peek().filter(|outputs| outputs.written.get() == 0) else { return };
    outputs.written.set(1);
    for write in [report::print, trace::write] {
        // A panic would abort the process.
        let _ = catch_unwind(write);
    }
}

/// The value of a variable of the environment that asks for an output.
fn wish(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty() && value != "0")
}

/// Passes events on to the report, the trace and the spans of the process.
struct Observer;

impl Observer {
    /// Weight of the call that begins here; `None` if it is skipped.
    fn weight(site: &Site) -> Option<f32> {
        if trace::is_wanted() || spans::are_wanted() {
            return Some(1.0);
        }
        match report::is_wanted() {
            true if site.is_wanted => Some(1.0),
            true => report::sample(site.place),
            false => None,
        }
    }

    fn enter(kind: CallKind, place: CallPlace) {
        if spans::are_wanted() {
            spans::enter(kind, place);
        }
        if trace::is_wanted() {
            trace::enter(kind, place);
        }
    }

    /// Adds a call that has ended.
    fn add(kind: CallKind, event: &Event<'_>, nests: bool) {
        let has_returned = event.ending == Ending::Returned;
        if nests && kind != CallKind::Rounds {
            spans::leave(kind, event, has_returned);
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
                if weight.is_some() {
                    Self::enter(kind, place);
                }
                weight
            }
            EventKind::Loose(_) => Self::weight(site),
            EventKind::Spawn => {
                if report::is_wanted() {
                    report::sample(place)
                } else {
                    None
                }
            }
            EventKind::Region { name, of } => report::is_wanted().then(|| {
                stall::open(region, name, of, place);
                1.0
            }),
            EventKind::Member => (region > 0 && report::is_wanted()).then(|| {
                stall::enter(region);
                1.0
            }),
            EventKind::Part(_) => {
                let is_watched = region > 0 && report::is_wanted();
                if is_watched {
                    stall::enter(region);
                }
                (is_watched || trace::is_wanted()).then_some(1.0)
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
            EventKind::Member => stall::leave(event.region),
            EventKind::Part(_) | EventKind::Spawned { .. } => {
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
