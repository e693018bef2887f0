//! Listeners: what a runtime reports about its calls, and to whom.
//!
//! A [`Listener`] has three doors. [`begun`](Listener::begun) is called where a call, or a part of one, begins. If the listener wants its end,
//! [`ended`](Listener::ended) follows with an [`Event`]. [`stalled`](Listener::stalled) is called on a thread that has waited long for the
//! other threads of its call. Events are values, and this crate only names them: the runtime makes them, and listeners read clocks and
//! write files.

use std::borrow::Cow;
use std::fmt;
use std::panic::{Location, RefUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use crate::Nanos;

/// Place of a call in the source; `None` if it is unknown.
pub type CallPlace = Option<&'static Location<'static>>;

/// Kind of a call about which something is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// A consumer of a parallel iterator: serial or shared, and on how many threads.
    Loop,
    /// The outermost `join` or `scope` of a recursion: when to let workers in. Also a `scope` inside one.
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

impl CallKind {
    /// A word for it.
    pub fn name(self) -> &'static str {
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

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A call that begins and ends on one thread.
    Call(CallKind),
    /// A call that may end on another thread: a future, or a team of tasks.
    Loose(CallKind),
    /// A region that workers may join, named as in "the loop at". `of`: the type of a batched structure.
    Region { name: &'static str, of: Option<&'static str> },
    /// A thread is inside a region.
    Member,
    /// Work of one thread in a region of such a call.
    Part(CallKind),
    /// One claim of a part, of the items `lo..hi`.
    Claim { lo: usize, hi: usize },
    /// Work of one member in rounds of a team.
    Rounds { member: usize },
    /// A batch of the structure number `id`, of this type, at whose end `left` operations were queued.
    Batch { structure: &'static str, id: usize, left: usize },
    /// A closure is spawned.
    Spawn,
    /// A spawned closure runs. A task of a scope is a part of the call around it.
    Spawned { in_scope: bool },
    /// The rounds of the team number `team` get another number of members.
    Width { team: usize },
}

/// Place where something begins.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub kind: EventKind,
    pub place: CallPlace,
    /// Number of the region among those that are open; 0 without one.
    pub region: usize,
    /// Another listener wants the event, so the call is not sampled.
    pub is_wanted: bool,
}

/// End of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The call has returned.
    Returned,
    /// A panic has ended the call. The event has neither items nor a decision.
    Panicked,
    /// The call was left without an account.
    Left,
}

/// Claims of one part.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartClaims {
    pub claims: u64,
    /// Claims that did not begin where the one before ended: the member has stolen them.
    pub steals: u64,
    pub items: u64,
    /// Ticks of the longest claim.
    pub longest: u64,
}

/// One tile in one lane. Times are in nanoseconds since the run began.
#[derive(Clone, Debug)]
pub struct LaneTile {
    pub begin: u64,
    pub end: u64,
    /// Time that the lane waited before it: for a tile, and for room in the queue after it.
    pub waits: (u64, u64),
    pub lane: usize,
    pub name: Arc<str>,
    pub tile: usize,
}

/// Decision about a call, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    pub reason: Cow<'static, str>,
    /// Predicted time of the choice.
    pub predicted: Option<Nanos>,
    /// Predicted times of other choices.
    pub alternatives: [Option<(&'static str, Nanos)>; 2],
    /// The costs of items were known from earlier calls.
    pub from_memory: bool,
}

impl Account {
    /// A decision for this reason, of which nothing was predicted.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Account { reason: reason.into(), ..Account::default() }
    }
}

/// An [`Account`], or the function that makes it: that of a batched structure may have to wait for its turn.
#[derive(Clone, Copy)]
pub enum Decided<'e> {
    Now(&'e Account),
    Later(&'e dyn Fn() -> Account),
}

impl fmt::Debug for Decided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(account) => account.fmt(f),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// End of a call or of a part of one.
#[derive(Clone, Copy)]
pub struct Event<'e> {
    pub kind: EventKind,
    pub place: CallPlace,
    pub region: usize,
    /// Calls for which this one stands, as [`Listener::begun`] has said; 0 if the listener does not want the event.
    pub weight: f32,
    /// Items, rounds, operations or tiles; [`UNKNOWN`] for an iterator that does not say it.
    pub items: u64,
    /// Threads that entered it, the caller included.
    pub threads: usize,
    pub took: Nanos,
    /// Ticks at its start and at its end.
    pub ticks: (u64, u64),
    pub ending: Ending,
    /// A further pass of a call whose first pass was reported: its time counts, and it is no call.
    pub is_further: bool,
    pub decision: Decided<'e>,
    pub claims: PartClaims,
    /// Tiles of an overlapped run that began at the first of the `ticks`.
    pub tiles: Option<&'e dyn Fn() -> Vec<LaneTile>>,
}

impl<'e> Event<'e> {
    /// A call of one thread that has returned, of no items.
    pub fn new(site: &Site, weight: f32, account: &'e Account) -> Self {
        let &Site { kind, place, region, .. } = site;
        let (took, claims) = (Nanos(0.0), PartClaims::default());
        Event {
            kind,
            place,
            region,
            weight,
            items: 0,
            threads: 1,
            took,
            ticks: (0, 0),
            ending: Ending::Returned,
            is_further: false,
            decision: Decided::Now(account),
            claims,
            tiles: None,
        }
    }

    /// The number of items; 0 if it is unknown.
    pub fn known_items(&self) -> u64 {
        if self.items == UNKNOWN { 0 } else { self.items }
    }

    /// The account of the call. That of a call that a panic has ended says so.
    pub fn account(&self) -> Cow<'e, Account> {
        match (self.ending, self.decision) {
            (Ending::Panicked, _) => Cow::Owned(Account::because("panicked")),
            (_, Decided::Now(account)) => Cow::Borrowed(account),
            (_, Decided::Later(account)) => Cow::Owned(account()),
        }
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Event");
        fields.field("kind", &self.kind).field("place", &self.place).field("items", &self.items);
        fields.field("took", &self.took).field("decision", &self.decision).finish_non_exhaustive()
    }
}

/// Number of items of an iterator that does not say it.
///
/// Measure: count of items.
pub const UNKNOWN: u64 = usize::MAX as u64;

/// A receiver of events.
pub trait Listener: Sync + RefUnwindSafe {
    /// A call, or a part of one, begins on this thread. Returns the sampling weight of its event; `None` if [`ended`](Self::ended) is not
    /// to be called for it.
    fn begun(&self, site: &Site) -> Option<f32>;

    /// A call, or a part of one, has ended: on this thread if it nests in one.
    fn ended(&self, event: &Event<'_>);

    /// This thread has `waited` for other threads of its innermost region. The listener knows the region and its members:
    /// each has begun, and has not ended.
    fn stalled(&self, waited: Duration);
}

/// A number with commas.
pub fn grouped(number: u64) -> String {
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

/// The name of a file of the source, without what a terminal would obey or not show.
pub fn visible(file: &str) -> String {
    let escaped = |c: char| if matches!(c, '\\' | '\'' | '"') { c.to_string() } else { c.escape_debug().to_string() };
    file.chars().map(escaped).collect()
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
    fn numbers_have_commas() {
        assert_eq!(
            ["0", "12", "123", "1,234", "123,456"],
            [0, 12, 123, 1234, 123_456].map(grouped).each_ref().map(|it| it.as_str())
        );
    }
}
