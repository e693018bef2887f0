//! The doors to listeners: what begins, what ended, and who waits.
//!
//! A thread has one listener or none: that of the process (the crate `windrow-observe`, if a variable is set), or inside
//! [`explain`](super::explain::explain) the one that collects entries. Without a listener each door is one thread-local load and a branch.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windrow_plan::Nanos;
pub(crate) use windrow_plan::listen::{Account, CallKind, CallPlace, Decided, Event, EventKind, LaneTile};
use windrow_plan::listen::{Ending, Listener, PartClaims, Site};
use windrow_sync::machine::{tick, ticks_per_micro};
use windrow_sync::unwind::Finally;
use windrow_sync::word::report_long_waits;

thread_local! {
    /// The listener of the thread, if it has one; `None` until that of the process was looked up.
    static LISTENING: Cell<Option<Option<&'static dyn Listener>>> = const { Cell::new(None) };
}

/// A wait of a caller for its members is reported after this time.
///
/// Measure: chosen, because a program that is stuck should say so before its user gives up.
const LONG: Duration = Duration::from_secs(5);

/// Another duration, in milliseconds, for tests.
const STALL_VARIABLE: &str = "WINDROW_STALL_MS";

/// The listener of this thread.
#[inline]
fn listener() -> Option<&'static dyn Listener> {
    LISTENING.with(|listening| listening.get().unwrap_or_else(look_up))
}

#[cold]
fn look_up() -> Option<&'static dyn Listener> {
    let process = of_process();
    if process.is_some() {
        report_long_waits(long(), stalled);
    }
    LISTENING.set(Some(process));
    process
}

/// The listener of the process.
#[cfg(feature = "observe")]
pub(super) fn of_process() -> Option<&'static dyn Listener> {
    windrow_observe::listener()
}

/// The listener of the process: none.
#[cfg(not(feature = "observe"))]
pub(super) fn of_process() -> Option<&'static dyn Listener> {
    None
}

/// Runs `f` with this listener of the thread.
pub(super) fn listening<R>(to: &'static dyn Listener, f: impl FnOnce() -> R) -> R {
    listener();
    let before = LISTENING.replace(Some(Some(to)));
    // The listener before is put back, also while unwinding.
    let _before = Finally(|| LISTENING.set(before));
    f()
}

fn long() -> Duration {
    let millis = std::env::var(STALL_VARIABLE).ok().and_then(|value| value.parse().ok());
    millis.map_or(LONG, Duration::from_millis)
}

/// Duration of a wait before it is reported, if a listener waits for that.
pub(crate) fn long_wait() -> Option<Duration> {
    listener().map(|_| long())
}

/// This thread has `waited` for other threads of its innermost region.
pub(crate) fn stalled(waited: Duration) {
    if let Some(listener) = listener() {
        listener.stalled(waited);
    }
}

fn nanos(ticks: u64) -> Nanos {
    Nanos(ticks as f64 * 1000.0 / ticks_per_micro())
}

/// A reported call, or part of one, that has begun. Its end follows by [`end`](Reported::end) or by its drop, which a panic may cause.
/// In a box, so that a call without one moves a null pointer, and not 128 bytes.
#[must_use = "dropping it reports the end of the call"]
pub(crate) struct Reported {
    listener: &'static dyn Listener,
    site: Site,
    weight: f32,
    begun: u64,
    /// The thread was unwinding before.
    unwinds: bool,
    claims: PartClaims,
}

/// Begins something at a place. `None` if no listener wants its end.
#[inline]
pub(crate) fn begun(kind: EventKind, place: CallPlace) -> Option<Box<Reported>> {
    begun_in(kind, place, 0)
}

/// Begins a call.
#[inline]
pub(crate) fn call(kind: CallKind, place: CallPlace) -> Option<Box<Reported>> {
    begun(EventKind::Call(kind), place)
}

#[inline]
fn begun_in(kind: EventKind, place: CallPlace, region: usize) -> Option<Box<Reported>> {
    let listener = listener()?;
    Reported::new(listener, Site { kind, place, region, is_wanted: false })
}

impl Reported {
    #[cold]
    fn new(listener: &'static dyn Listener, site: Site) -> Option<Box<Self>> {
        let weight = listener.begun(&site)?;
        let unwinds = std::thread::panicking();
        Some(Box::new(Reported { listener, site, weight, begun: tick(), unwinds, claims: PartClaims::default() }))
    }

    /// Time since it began.
    pub(crate) fn took(&self) -> Nanos {
        nanos(tick().saturating_sub(self.begun))
    }

    /// The same, of this number of items. For a part.
    pub(crate) fn of(mut self: Box<Self>, items: usize) -> Box<Self> {
        self.claims.items = items as u64;
        self
    }

    /// The event of its end now, with this account: of one thread and no items.
    pub(crate) fn event<'e>(&self, account: &'e Account) -> Event<'e> {
        let (ticks, took) = ((self.begun, tick()), self.took());
        Event { ticks, took, claims: self.claims, ..Event::new(&self.site, self.weight, account) }
    }

    /// The call ends by this [event](Self::event).
    #[cold]
    pub(crate) fn end(self, event: &Event<'_>) {
        self.listener.ended(event);
        std::mem::forget(self);
    }

    /// The call, of no items, ends for this reason.
    #[cold]
    pub(crate) fn end_because(self, reason: &'static str) {
        let account = Account::because(reason);
        let event = self.event(&account);
        self.end(&event);
    }

    /// A team ends, and so do its rounds.
    #[cold]
    pub(crate) fn end_team(self, team: &Event<'_>, rounds: &Event<'_>) {
        let listener = self.listener;
        self.end(team);
        let kind = match rounds.kind {
            EventKind::Loose(_) => EventKind::Loose(CallKind::Rounds),
            _ => EventKind::Call(CallKind::Rounds),
        };
        listener.ended(&Event { kind, ..*rounds });
    }

    #[cold]
    fn leave(&self) {
        if let EventKind::Loose(_) = self.site.kind {
            // A future that was not polled to its end.
            return;
        }
        let ending = match !self.unwinds && std::thread::panicking() {
            true => Ending::Panicked,
            false => Ending::Left,
        };
        self.listener.ended(&Event { items: self.claims.items, ending, ..self.event(&Account::default()) });
    }
}

impl Drop for Reported {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Reported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reported").field("site", &self.site).finish_non_exhaustive()
    }
}

/// Reports `items` of something that ran between these ticks, if a listener wants that.
#[inline]
pub(crate) fn ran(kind: EventKind, place: CallPlace, items: u64, ticks: (u64, u64), panicked: bool) {
    if let Some(reported) = begun(kind, place) {
        let ending = if panicked { Ending::Panicked } else { Ending::Returned };
        let took = nanos(ticks.1.saturating_sub(ticks.0));
        let account = Account::default();
        let event = Event { ticks, took, items, ending, ..reported.event(&account) };
        reported.end(&event);
    }
}

/// The work of a thread in a loop, which counts its claims for a listener.
pub(crate) struct LoopPart {
    reported: Box<Reported>,
    /// Single claims are reported.
    each: bool,
    /// Ticks at the last claim, and its items.
    since: u64,
    lo: usize,
    hi: usize,
}

impl LoopPart {
    /// The part that begins here; `None` if no listener wants its end.
    #[inline]
    pub(crate) fn begin(place: CallPlace) -> Option<Box<Self>> {
        begun(EventKind::Part(CallKind::Loop), place).map(Self::of)
    }

    #[cold]
    fn of(reported: Box<Reported>) -> Box<Self> {
        let claim = Site { kind: EventKind::Claim { lo: 0, hi: 0 }, ..reported.site };
        let each = reported.listener.begun(&claim).is_some();
        Box::new(LoopPart { reported, each, since: 0, lo: 0, hi: 0 })
    }

    /// The member has claimed the items `lo..hi` at the tick `since`.
    #[cold]
    pub(crate) fn claimed(&mut self, lo: usize, hi: usize, since: u64) {
        let since = since.max(self.reported.begun);
        self.end_claim(since);
        let all = &mut self.reported.claims;
        all.steals += u64::from(all.claims > 0 && lo != self.hi);
        all.claims += 1;
        all.items += (hi - lo) as u64;
        (self.since, self.lo, self.hi) = (since, lo, hi);
    }

    /// The last claim, if there was one, has ended.
    fn end_claim(&mut self, now: u64) {
        let &mut LoopPart { each, since, lo, hi, .. } = self;
        let all = &mut self.reported.claims;
        if all.claims == 0 {
            return;
        }
        all.longest = all.longest.max(now.saturating_sub(since));
        if each {
            ran(EventKind::Claim { lo, hi }, self.reported.site.place, (hi - lo) as u64, (since, now), false);
        }
    }
}

impl Drop for LoopPart {
    fn drop(&mut self) {
        self.end_claim(tick());
    }
}

/// A region of a call, from its start to its end. `None` in it if no listener wants to know who is inside.
pub(crate) struct Region {
    kind: CallKind,
    place: CallPlace,
    number: usize,
    _caller: Option<Box<Reported>>,
}

impl Region {
    /// The region of a call, named as in "the loop at". `of`: the type of a batched structure.
    #[inline]
    pub(crate) fn new(kind: CallKind, place: CallPlace, of: Option<&'static str>) -> Self {
        let name = match kind {
            CallKind::Join => "join or scope",
            CallKind::Overlap => "overlapped run",
            CallKind::Batch => "call of a batched structure",
            kind => kind.name(),
        };
        let number = if listener().is_some() { next_region() } else { 0 };
        let caller = if number > 0 { begun_in(EventKind::Region { name, of }, place, number) } else { None };
        Region { kind, place, number, _caller: caller }
    }

    /// This thread is inside the region until the result is dropped.
    #[inline]
    pub(crate) fn member(&self) -> Option<Box<Reported>> {
        if self.number > 0 { begun_in(EventKind::Member, self.place, self.number) } else { None }
    }

    /// As [`member`](Self::member), for a worker. Its work is a part of the call. (Members of loops and teams report their parts.)
    #[inline]
    pub(crate) fn worker(&self) -> Option<Box<Reported>> {
        match self.kind {
            CallKind::Loop | CallKind::Team => self.member(),
            kind => begun_in(EventKind::Part(kind), self.place, self.number),
        }
    }
}

/// The number of the next region that is reported.
#[cold]
fn next_region() -> usize {
    static REGIONS: AtomicUsize = AtomicUsize::new(1);
    // Relaxed: only the number must be unique; it orders no other memory.
    REGIONS.fetch_add(1, Ordering::Relaxed)
}

/// A closure that is spawned. Its run is reported if its spawn is.
#[derive(Clone, Copy)]
pub(crate) struct SpawnedCall {
    place: &'static Location<'static>,
    /// Weight of the spawn; 0 if it is skipped.
    weight: f32,
    in_scope: bool,
}

impl SpawnedCall {
    /// A closure that is to be spawned, and its spawn, which ends when the closure is handed over.
    #[inline]
    pub(crate) fn begin(place: &'static Location<'static>, in_scope: bool) -> (Self, Option<Box<Reported>>) {
        let spawn = begun(EventKind::Spawn, Some(place));
        let weight = spawn.as_ref().map_or(0.0, |spawn| spawn.weight);
        (SpawnedCall { place, weight, in_scope }, spawn)
    }

    /// The closure runs until the result is dropped.
    #[inline]
    pub(crate) fn run(self) -> Option<Box<Reported>> {
        let SpawnedCall { place, weight, in_scope } = self;
        if in_scope && weight == 0.0 {
            return None;
        }
        let (kind, is_wanted) = (EventKind::Spawned { in_scope }, weight > 0.0);
        let mut run = Reported::new(listener()?, Site { kind, place: Some(place), region: 0, is_wanted })?;
        run.weight = weight;
        Some(run)
    }
}

/// True if a listener wants a call at this place.
#[doc(hidden)]
pub fn listens(place: CallPlace) -> bool {
    let site = Site { kind: EventKind::Loose(CallKind::Plan), place, region: 0, is_wanted: false };
    listener().is_some_and(|listener| listener.begun(&site).is_some())
}

/// Reports a plan of `tiles` tiles that ran for `took`. For windrow-collective.
#[doc(hidden)]
pub fn report_plan(place: &'static Location<'static>, tiles: u64, took: Nanos, account: impl FnOnce() -> Account) {
    if let Some(call) = begun(EventKind::Loose(CallKind::Plan), Some(place)) {
        let account = account();
        let event = Event { items: tiles, took, threads: 2, ..call.event(&account) };
        call.end(&event);
    }
}
