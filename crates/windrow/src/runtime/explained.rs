//! How a call went, and why.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use windrow_plan::Nanos;

/// What was decided about.
///
/// ```
/// use windrow::CallKind;
/// use windrow::prelude::*;
///
/// let mut numbers: Vec<u32> = (0..1000).rev().collect();
/// let (sum, calls) = windrow::explain(|| {
///     numbers.par_sort();
///     numbers.par_iter().sum::<u32>()
/// });
/// let kinds: Vec<CallKind> = calls.iter().map(|call| call.kind()).collect();
/// assert_eq!((sum, &kinds[..]), (499_500, &[CallKind::Sort, CallKind::Loop][..]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// A consumer of a parallel iterator: serial or shared, and on how many threads.
    Loop,
    /// The outermost `join` or `scope` of a recursion: when to let workers in. Also a `scope` inside of one.
    Join,
    /// A parallel sort.
    Sort,
    /// A team: how many members.
    Team,
    /// The rounds of a team: how many members take part in each. Barriers and reductions are rounds, too.
    Rounds,
    /// Calls of a batched structure: whether batching pays. Exclusive and shared access are calls without operations.
    Batch,
    /// Overlapped lanes: which one limits the run.
    Overlap,
    /// A product with a collective: into which tiles it is cut.
    Plan,
}

/// How a call went, and why: an entry of [`explain`](crate::explain()). It prints itself.
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
    place: Option<&'static Location<'static>>,
    kind: CallKind,
    count: u64,
    threads: usize,
    took: Duration,
    predicted: Option<Duration>,
    alternatives: Vec<(&'static str, Duration)>,
    reason: Cow<'static, str>,
    from_memory: bool,
    is_further: bool,
    stands_for: Option<f32>,
    telling: Nanos,
}

/// A predicted or measured time.
fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0.max(0.0) as u64)
}

impl Explained {
    /// A call of `count` items, rounds, operations or tiles. For crates that are built on this one.
    #[doc(hidden)]
    pub fn new(kind: CallKind, place: Option<&'static Location<'static>>, count: u64, took: Nanos) -> Self {
        Explained {
            place,
            kind,
            count,
            threads: 1,
            took: duration(took),
            predicted: None,
            alternatives: Vec::new(),
            reason: Cow::Borrowed(""),
            from_memory: false,
            is_further: false,
            stands_for: None,
            telling: Nanos::default(),
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn on(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn predicted_to_take(mut self, time: Option<Nanos>) -> Self {
        self.predicted = time.map(duration);
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn or(mut self, name: &'static str, time: Option<Nanos>) -> Self {
        self.alternatives.extend(time.map(|time| (name, duration(time))));
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub fn because(mut self, reason: impl Into<Cow<'static, str>>) -> Self {
        self.reason = reason.into();
        self
    }

    #[must_use]
    pub(crate) fn remembered(mut self, is_so: bool) -> Self {
        self.from_memory = is_so;
        self
    }

    /// Makes it a further pass of a call whose first pass was told.
    #[must_use]
    pub(crate) fn further(mut self, is_so: bool) -> Self {
        self.is_further = is_so;
        self
    }

    /// Whether it is a further pass of a call whose first pass was told.
    pub(super) fn is_further(&self) -> bool {
        self.is_further
    }

    /// Notes for how many calls this one stands in the report. For a call that is told on another thread than the one that has chosen it.
    #[must_use]
    pub(crate) fn standing_for(mut self, calls: Option<f32>) -> Self {
        self.stands_for = calls;
        self
    }

    /// For how many calls this one stands, if that was noted.
    pub(super) fn stands_for(&self) -> Option<f32> {
        self.stands_for
    }

    /// Notes how long it took to find out what is told.
    #[must_use]
    pub(crate) fn told_for(mut self, time: Nanos) -> Self {
        self.telling = time;
        self
    }

    /// How long it took to find out what is told, if that was long.
    pub(super) fn telling(&self) -> Nanos {
        self.telling
    }

    /// Adds the time before what was told.
    #[must_use]
    pub(crate) fn after(mut self, before: Nanos) -> Self {
        let before = duration(before);
        self.took += before;
        self.predicted = self.predicted.map(|time| time + before);
        self.alternatives.iter_mut().for_each(|(_, time)| *time += before);
        self
    }

    /// This one and `other`, which followed at the same place, as one call.
    #[must_use]
    pub(super) fn followed_by(&self, other: Explained) -> Explained {
        let (count, took) = (self.count + other.count, self.took + other.took);
        Explained { count, took, ..other }
    }

    /// This one with its further pass `other`. What was predicted for one pass alone says nothing about both.
    #[must_use]
    pub(super) fn continued_by(&self, other: &Explained) -> Explained {
        let (took, threads) = (self.took + other.took, self.threads.max(other.threads));
        Explained { took, threads, predicted: None, alternatives: Vec::new(), ..self.clone() }
    }

    /// Where the call was made.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.place
    }

    /// What was decided about.
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
        self.predicted
    }

    /// The predicted times of other choices, with their names.
    pub fn alternatives(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        self.alternatives.iter().copied()
    }

    /// What was chosen, and the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether the costs of the call's items were known from earlier calls at this place.
    pub fn from_memory(&self) -> bool {
        self.from_memory
    }
}

/// A number with commas.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The number of items of an iterator that does not say it.
///
/// Measure: count of items.
const UNKNOWN: u64 = usize::MAX as u64;

/// The name of a file of the source, without what a terminal would obey or not show.
pub(super) fn visible(file: &str) -> String {
    let escaped = |c: char| if matches!(c, '\\' | '\'' | '"') { c.to_string() } else { c.escape_debug().to_string() };
    file.chars().map(escaped).collect()
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
            CallKind::Sort => write!(f, "sort of {count} item{plural}")?,
            CallKind::Team => f.write_str("team")?,
            CallKind::Rounds => write!(f, "{count} round{plural}")?,
            CallKind::Batch => write!(f, "{count} call{plural}")?,
            CallKind::Overlap => write!(f, "{count} tile{plural} through lanes")?,
            CallKind::Plan => write!(f, "product in {count} tile{plural}")?,
        }
        let plural = if self.threads == 1 { "" } else { "s" };
        let nanos = |time: Duration| Nanos(time.as_nanos() as f64);
        write!(f, " in {} on {} thread{plural}", nanos(self.took), self.threads)?;
        let predicted = self.predicted.map(|time| ("predicted", time));
        let mut before = " (";
        for (name, time) in predicted.into_iter().chain(self.alternatives()) {
            write!(f, "{before}{name} {}", nanos(time))?;
            before = ", ";
        }
        if before == ", " {
            f.write_str(")")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl CallKind {
    /// A word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Join => "join",
            Self::Sort => "sort",
            Self::Team => "team",
            Self::Rounds => "rounds",
            Self::Batch => "batch",
            Self::Overlap => "overlap",
            Self::Plan => "plan",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_have_nothing_that_a_terminal_obeys() {
        assert_eq!(visible("src/\u{1b}[2J\u{9b}\u{202e}\u{200b}\n.rs"), r"src/\u{1b}[2J\u{9b}\u{202e}\u{200b}\n.rs");
        assert_eq!(visible(r"src\it's 日本.rs"), r"src\it's 日本.rs");
    }

    #[test]
    fn an_entry_reads_as_one_line() {
        let place = Location::caller();
        let explained = Explained::new(CallKind::Loop, Some(place), 1_000_000, Nanos(12_700_000.0))
            .on(2)
            .predicted_to_take(Some(Nanos(13_500_000.0)))
            .or("serial", Some(Nanos(27_200_000.0)))
            .or("shared", None)
            .because("shared after 7,813 items took 212.0 us");
        let line = format!("{}:{}  ", place.file(), place.line());
        assert_eq!(
            explained.to_string(),
            line + "1,000,000 items in 12.7 ms on 2 threads (predicted 13.5 ms, serial 27.2 ms): \
                    shared after 7,813 items took 212.0 us"
        );
        let one = Explained::new(CallKind::Sort, None, 1, Nanos(40.0)).because("serial: nothing to decide");
        assert_eq!(one.to_string(), "sort of 1 item in 40 ns on 1 thread: serial: nothing to decide");
        assert_eq!(
            ["0", "12", "123", "1,234", "123,456"],
            [0, 12, 123, 1234, 123_456].map(grouped).each_ref().map(|it| it.as_str())
        );
    }
}
