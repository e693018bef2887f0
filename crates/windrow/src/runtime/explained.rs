//! The account of a call, as an entry of a report.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::listen::{Account, CallKind, CallPlace, Event, UNKNOWN, grouped, visible};

/// The account of a call: an entry of [`explain`](crate::explain()). It prints itself.
///
/// ```
/// use windrow::prelude::*;
///
/// let ((), calls) = windrow::explain(|| (0..100).into_par_iter().for_each(drop));
/// let call = &calls[0];
/// assert_eq!(call.count(), 100);
/// // "src/main.rs:4  100 items in 1.1 us on 1 thread: ..."
/// assert!(call.to_string().contains("100 items in ") && call.to_string().contains(call.reason()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    place: CallPlace,
    kind: CallKind,
    count: u64,
    threads: usize,
    took: Duration,
    account: Account,
    is_further: bool,
}

/// A predicted or measured time.
fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0.max(0.0) as u64)
}

impl Explained {
    /// The entry of a call of this kind that has ended.
    pub(super) fn of(kind: CallKind, event: &Event<'_>) -> Self {
        let account = event.account().into_owned();
        let &Event { place, items: count, threads, took, is_further, .. } = event;
        Explained { place, kind, count, threads, took: duration(took), account, is_further }
    }

    /// Adds a call that followed at the same place, if both are one entry. Returns it otherwise.
    pub(super) fn followed_by(&mut self, next: Explained) -> Option<Explained> {
        let is_same = self.kind == next.kind && self.place == next.place;
        if !is_same || !(next.is_further || self.kind == CallKind::Batch) {
            return Some(next);
        }
        self.took += next.took;
        if next.is_further {
            // What was predicted for one pass alone says nothing about both.
            (self.account.predicted, self.account.alternatives) = (None, [None; 2]);
            self.threads = self.threads.max(next.threads);
        } else {
            self.count += next.count;
            (self.threads, self.account) = (next.threads, next.account);
        }
        None
    }

    /// The place of the call.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.place
    }

    /// The kind of the call.
    pub fn kind(&self) -> CallKind {
        self.kind
    }

    /// Items of a loop or a sort, rounds of a team, operations of a batched structure, tiles of a plan or of lanes. 0 for a recursion, for
    /// a team, and for a loop over an iterator that does not say how many items it has.
    pub fn count(&self) -> u64 {
        if self.count == UNKNOWN { 0 } else { self.count }
    }

    /// Threads that entered the call, the caller's included. A worker that came too late to get work counts. For a team of tasks, its members.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The time of the call.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The time that was predicted for the choice; `None` if it was not predicted.
    pub fn predicted(&self) -> Option<Duration> {
        self.account.predicted.map(duration)
    }

    /// The predicted times of other choices, with their names.
    pub fn alternatives(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        self.account.alternatives.iter().flatten().map(|&(name, time)| (name, duration(time)))
    }

    /// The choice, and the reason for it.
    pub fn reason(&self) -> &str {
        &self.account.reason
    }

    /// True if the costs of the call's items were known from earlier calls at this place.
    pub fn from_memory(&self) -> bool {
        self.account.from_memory
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{}:{}  ", visible(place.file()), place.line())?;
        }
        let plural = if self.count == 1 { "" } else { "s" };
        let count = grouped(self.count);
        match self.kind {
            CallKind::Loop if self.count == UNKNOWN => f.write_str("items of an iterator")?,
            CallKind::Loop => write!(f, "{count} item{plural}")?,
            CallKind::Join => f.write_str("recursion")?,
            CallKind::Sort => write!(f, "sorting {count} item{plural}")?,
            CallKind::Team => f.write_str("team")?,
            CallKind::Rounds => write!(f, "{count} round{plural}")?,
            CallKind::Batch => write!(f, "{count} call{plural}")?,
            CallKind::Overlap => write!(f, "{count} tile{plural} through lanes")?,
            CallKind::Plan => write!(f, "product in {count} tile{plural}")?,
            _ => write!(f, "{count}")?,
        }
        let plural = if self.threads == 1 { "" } else { "s" };
        let nanos = |time: Duration| Nanos(time.as_nanos() as f64);
        write!(f, " in {} on {} thread{plural}", nanos(self.took), self.threads)?;
        let predicted = self.predicted().map(|time| ("predicted", time));
        let mut before = " (";
        for (name, time) in predicted.into_iter().chain(self.alternatives()) {
            write!(f, "{before}{name} {}", nanos(time))?;
            before = ", ";
        }
        if before == ", " {
            f.write_str(")")?;
        }
        write!(f, ": {}", self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_as_one_line() {
        let place = Location::caller();
        let explained = Explained {
            place: Some(place),
            kind: CallKind::Loop,
            count: 1_000_000,
            threads: 2,
            took: Duration::from_micros(12_700),
            account: Account {
                reason: "shared after 7,813 items took 212.0 us".into(),
                predicted: Some(Nanos(13_500_000.0)),
                alternatives: [Some(("serial", Nanos(27_200_000.0))), None],
                from_memory: false,
            },
            is_further: false,
        };
        let line = format!("{}:{}  ", place.file(), place.line());
        assert_eq!(
            explained.to_string(),
            line + "1,000,000 items in 12.7 ms on 2 threads (predicted 13.5 ms, serial 27.2 ms): \
                    shared after 7,813 items took 212.0 us"
        );
        let account = Account { reason: "serial: nothing to decide".into(), ..Account::default() };
        let (kind, took) = (CallKind::Sort, Duration::from_nanos(40));
        let one = Explained { place: None, kind, count: 1, threads: 1, took, account, is_further: false };
        assert_eq!(one.to_string(), "sorting 1 item in 40 ns on 1 thread: serial: nothing to decide");
    }
}
