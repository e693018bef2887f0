//! The driver of one loop: it begins unmeasured or measured. A measured one runs serially first, is published when the rest pays, and is then
//! claimed in chunks.

use std::ops::ControlFlow;

use windrow_plan::listen::grouped;
use windrow_plan::machine::WorkerState;
use windrow_plan::share::{self, Extra, Grain, Progress, ShareChoice, StandBy};
use windrow_plan::{Items, Nanos};
use windrow_sync::divide::{Claims, Divide, Division, Lead, Span};
use windrow_sync::gate::JoinedWorker;
use windrow_sync::machine::tick;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::Finally;

use super::ablation::Mechanism;
use super::call::{CallDoor, Entered, LastChoice, RegionEnd, at_depth, region};
use super::hints::{CallPart, Hints};
use super::listen::{Account, CallKind, Event, Region, Reported};
use super::pace::{Call, Pace};
use super::poll::PollInterval;
use super::sites::{LongItem, SiteStats};
use super::state::PoolState;
use super::unmeasured::unmeasured;

/// A call of which it is known how it begins.
pub(crate) struct BegunCall<'c> {
    entered: Entered,
    pool: &'c PoolState,
    pub(crate) hints: &'c Hints,
    items: usize,
    /// True if the call could be shared.
    decides: bool,
    site: usize,
    weight: u64,
    /// The weight of the first items that run without a read of the clock.
    unmeasured: u64,
}

impl<'c> BegunCall<'c> {
    /// A call of `items` items. `code`: the address of code that no call of other items runs.
    #[inline]
    pub(crate) fn new(pool: &'c PoolState, hints: &'c Hints, items: usize, code: usize) -> Self {
        let entered = match hints.part {
            CallPart::Silent => Entered::silent(hints.place),
            _ => Entered::new(CallKind::Loop, hints.place),
        };
        let decides = pool.members > 1 && items > 1;
        let site = if decides { entered.site(code, items) } else { 0 };
        let weight = hints.weight(0, items);
        let may = decides && entered.reported.is_none() && hints.cancellation().is_none() && hints.chunk().is_none();
        let unmeasured = if may { unmeasured(pool, site, weight) } else { 0 };
        BegunCall { entered, pool, hints, items, decides, site, weight, unmeasured }
    }

    /// True if all items run as one chunk, and the call is not reported: the plain loop.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        (self.unmeasured == self.weight || !self.decides) && self.entered.reported.is_none() && self.hints.are_plain()
    }

    /// Runs the items of a call that [is plain](Self::is_plain).
    #[inline]
    pub(crate) fn run_plain<R>(&self, f: impl FnOnce() -> R) -> R {
        let _depth = self.decides.then(|| at_depth(self.entered.depth + 1));
        f()
    }
}

/// Drives a call: every chunk of the division goes to `each`, on the caller, and on workers if that pays. Together the chunks cover
/// the division, unless a member breaks off or panics, or the call is cancelled.
///
/// A member keeps a value from chunk to chunk: `begin` makes the value before the first chunk, `end` gets it after the last one. A member
/// whose `each` breaks claims no more, and leaves.
///
/// (`'s` is the borrow of *this* division and not any lifetime: a closure over chunks of every lifetime would force the
/// source to be `'static`.)
#[inline]
pub(crate) fn drive<'s, S, L, B, E, F>(
    begun: BegunCall<'_>,
    lead: &mut Lead<'s, S>,
    division: &'s Division<S>,
    begin: B,
    each: E,
    end: F,
) where
    S: Divide,
    B: Fn() -> L + Sync,
    E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()> + Sync,
    F: Fn(L) + Sync,
{
    let BegunCall { entered, pool, hints, items, decides, site, weight, unmeasured } = begun;
    if decides && unmeasured < weight {
        let mut local = None;
        if unmeasured > 0 {
            // Most calls of the site end here.
            let _depth = at_depth(entered.depth + 1);
            let mut first = begin();
            let chunk = lead.take(hints.weighing(0, items, unmeasured));
            if chunk.is_some_and(|(at, chunk)| each(&mut first, at, chunk).is_break()) {
                return end(first);
            }
            local = Some(first);
        }
        let call = Call { pool, hints, per_weight: RelaxedU64::new(0), polls: !hints.whole };
        let mut caller = Caller::new(&call, site, items);
        let end = decided(&mut caller, &entered, lead, division, local, (begin, each, end));
        if let Some(reported) = entered.reported {
            caller.report(*reported, end.entered);
        }
        return;
    }
    let _depth = at_depth(entered.depth + usize::from(decides));
    let mut local = begin();
    run_alone(pool, hints, lead, &mut local, &each);
    end(local);
    if let Some(reported) = entered.reported {
        end_loop(*reported, hints, items, 1, &Account::because("serial: nothing to decide"));
    }
}

/// The end of a loop that is reported.
#[cold]
fn end_loop(reported: Reported, hints: &Hints, items: usize, threads: usize, account: &Account) {
    let (items, is_further) = (hints.items_before(items), hints.part == CallPart::Further);
    let event = Event { items, threads, is_further, ..reported.event(account) };
    reported.end(&event);
}

/// Drives a call that may be shared.
#[inline(never)]
fn decided<'s, S, L, B, E, F>(
    caller: &mut Caller<'_>,
    entered: &Entered,
    lead: &mut Lead<'s, S>,
    division: &'s Division<S>,
    local: Option<L>,
    (begin, each, end): (B, E, F),
) -> RegionEnd
where
    S: Divide,
    B: Fn() -> L + Sync,
    E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()> + Sync,
    F: Fn(L) + Sync,
{
    let call = caller.call;
    let _depth = at_depth(entered.depth + 1);
    // A panic in one member ends the others at their next poll. A member that returns forgets the guard. (A check of `panicking()` instead
    // would stop a region that a destructor runs during a panic.)
    let stop_on_unwind = || Finally(|| division.stop());
    let work = |JoinedWorker { member, .. }, now| {
        let stop = stop_on_unwind();
        let mut local = begin();
        take_part(call, division.claims(member), now, &mut local, &each);
        end(local);
        std::mem::forget(stop);
    };
    let reported = Region::new(CallKind::Loop, call.hints.place, None);
    let ((), ended) = region(call.pool, &reported, work, |door| {
        let stop = stop_on_unwind();
        let mut local = local.unwrap_or_else(&begin);
        run_caller(caller, door, lead, division, &mut local, &each);
        end(local);
        std::mem::forget(stop);
    });
    if let (Some(published), Some(now)) = (caller.published, ended.at) {
        // Of a part of the items, no more is known than that.
        match division.is_incomplete() || call.hints.has_cut() {
            true => call.pool.lasted(now),
            false => caller.learn(published, division, now),
        }
    }
    ended
}

/// Runs a call that cannot be shared: as one chunk, or in pieces of about a heartbeat if the call can be cancelled.
#[inline]
fn run_alone<'s, S: Divide, L>(
    pool: &PoolState,
    hints: &Hints,
    lead: &mut Lead<'s, S>,
    local: &mut L,
    each: &impl Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>,
) {
    let mut pieces = PollInterval::new(hints.cancellation().map(|_| pool));
    loop {
        let want = hints.chunk().unwrap_or_else(|| pieces.next(usize::MAX));
        let Some((at, chunk)) = lead.take(want) else { return };
        if hints.cuts() || each(local, at, chunk).is_break() {
            return;
        }
    }
}

/// The caller's part: pieces alone, until all items are done or sharing the rest pays. Then the caller claims, as any member.
fn run_caller<'s, S: Divide, L, E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>>(
    caller: &mut Caller<'_>,
    door: &CallDoor<'_>,
    lead: &mut Lead<'s, S>,
    division: &Division<S>,
    local: &mut L,
    each: &E,
) {
    let (call, hints) = (caller.call, caller.call.hints);
    caller.begin();
    caller.begun = caller.start;
    (caller.first, caller.at) = (lead.rest().start, lead.rest().start);
    // The claims of this caller while workers stand by, and whether they were parked before.
    let (mut own, mut woke): (Option<Claims<'s, S>>, bool) = (None, false);
    // The caller polls if others can stop it.
    let polls = call.polls.then_some(call.pool);
    let mut pieces = PollInterval::new(polls.filter(|_| hints.cancellation().is_some()));
    loop {
        let rest = own.as_ref().map_or_else(|| lead.rest(), Claims::at_hand);
        if own.is_some() && door.members() > 1 {
            caller.joined(rest.start, door.members());
            return take_part(call, lead.claims(0), tick(), local, each);
        }
        match caller.step(rest.start, rest.end) {
            CallerStep::Run { items } => {
                if rest.start == caller.first
                    && let Some(by) = caller.stands_by(rest.end)
                {
                    // All items are in the caller's part. If no lane is free, no worker stands by.
                    lead.share(by.width, 0, |part| if part == 0 { rest.start } else { rest.end });
                    door.stand_by(by);
                    (own, woke) = (Some(lead.claims(0)), by.wakes);
                    caller.begin();
                    pieces = PollInterval::new(polls);
                }
                let mut left = items;
                while left > 0 {
                    let piece = pieces.next(left);
                    let chunk = match &mut own {
                        Some(claims) => {
                            let claim = claims.claim(|_, _| left, |lo, hi| hints.middle(lo, hi));
                            claim.and_then(|_| claims.take(piece))
                        }
                        None => lead.take(piece),
                    };
                    let Some((at, chunk)) = chunk else { return };
                    left -= at.len();
                    if hints.cuts() {
                        return;
                    }
                    if each(local, at, chunk).is_break() {
                        // Otherwise a token or a panic may have ended it.
                        if !hints.has_cut() && door.members() == 1 {
                            caller.ended_early(at.hi);
                        }
                        return;
                    }
                }
            }
            CallerStep::Share { width, found, per_weight } => {
                if own.is_none() {
                    caller.divide(lead, width);
                }
                // Workers that were woken before are neither idle nor parked: the time does not show what entering costs.
                caller.publish(door, Published { width, found, stood_by: woke }, per_weight);
                return take_part(call, lead.claims(0), tick(), local, each);
            }
            CallerStep::Done if division.is_incomplete() => {
                if door.members() == 1 {
                    // Some items were skipped, it is not known which.
                    caller.ended_early(caller.first);
                }
                return;
            }
            CallerStep::Done => return caller.through(rest.end),
        }
    }
}

/// A member's part, from the time `now` on: claims, until nothing is left to claim.
#[inline(never)]
fn take_part<'s, S: Divide, L, E: Fn(&mut L, Span, S::Chunk<'s>) -> ControlFlow<()>>(
    call: &Call<'_>,
    mut claims: Claims<'s, S>,
    now: u64,
    local: &mut L,
    each: &E,
) {
    let mut pace = Pace::new(call, now);
    while let Some((at, chunk)) = pace.next(&mut claims) {
        if call.hints.cuts() || each(local, at, chunk).is_break() {
            return;
        }
    }
}

/// A long item takes more than one part in this number of the call.
///
/// Measure: share of the call.
const LONG: u64 = 4;

/// The items of a shared call take at least one in this number of its time, and copies the rest.
///
/// Measure: share of the call.
const COPIED: f64 = 4.0;

/// The caller's side of a call: what it measures while it is alone, and what it decides.
struct Caller<'c> {
    call: &'c Call<'c>,
    site: usize,
    items: usize,
    memory: SiteStats,
    /// The measurement contradicts what the site remembers.
    doubts: bool,
    begun: u64,
    /// The measurement begins at this time, and with this item.
    start: u64,
    first: usize,
    /// When the last piece was handed out, and its first item.
    since: u64,
    at: usize,
    /// Ticks of the longest piece, and its first item.
    longest: u64,
    longest_at: usize,
    /// Pieces so far.
    pieces: u32,
    /// The last decision.
    decided: Option<LastChoice>,
    /// How the call was shared at `since`, when the caller came to item `at`.
    published: Option<Published>,
}

/// How a region was opened.
#[derive(Clone, Copy)]
struct Published {
    width: usize,
    found: WorkerState,
    /// Workers that stood by have joined by themselves, or were woken before: the time does not show what entering costs.
    stood_by: bool,
}

impl<'c> Caller<'c> {
    fn new(call: &'c Call<'c>, site: usize, items: usize) -> Self {
        let is_off = call.pool.off.contains(Mechanism::Sites);
        let memory = if is_off { SiteStats::default() } else { call.pool.sites.recall(site) };
        Self {
            call,
            site,
            items,
            memory,
            doubts: false,
            begun: 0,
            start: 0,
            first: 0,
            since: 0,
            at: 0,
            longest: 0,
            longest_at: 0,
            pieces: 0,
            decided: None,
            published: None,
        }
    }

    /// Begins the measurement: what was done before the first item is not a part of its cost.
    fn begin(&mut self) {
        self.start = tick();
        self.since = self.start;
    }

    /// Notes a decision of the time `now`.
    fn decide(&mut self, why: &'static str, progress: &Progress, shared: Option<Nanos>, now: u64) {
        let since = self.call.pool.nanos(now.saturating_sub(self.begun));
        let (serial, is_known) = (Some(progress.rest()), progress.known.is_some());
        self.decided = Some(LastChoice { why, serial, shared, is_known, since });
    }

    /// Divides the rest among members.
    #[inline(never)]
    fn divide<S: Divide>(&self, lead: &mut Lead<'_, S>, width: usize) {
        let (hints, rest) = (self.call.hints, lead.rest());
        // An item that took a large part of the last call comes first: the caller's part begins with it.
        let long = self.memory.long.filter(|long| long.of as usize == self.items).map(|long| long.at as usize);
        let long = long.filter(|_| !self.call.pool.off.contains(Mechanism::LongItems));
        match long.filter(|&long| long > rest.start && long < rest.end) {
            Some(long) => {
                let before = ((long - rest.start) as f64 / rest.len() as f64 * width as f64).round();
                let before = (before as usize).clamp(1, width - 1);
                lead.share(width, before, |part| match part.checked_sub(before) {
                    None => hints.part(rest.start, long, part, before),
                    Some(part) => hints.part(long, rest.end, part, width - before),
                });
            }
            None => lead.share(width, 0, |part| hints.part(rest.start, rest.end, part, width)),
        }
    }

    /// Lets workers in, those that stand by included.
    #[inline(never)]
    fn publish(&mut self, door: &CallDoor<'_>, published: Published, per_weight: Nanos) {
        self.call.per_weight.set_f64(per_weight.0);
        if door.open(published.width, published.found != WorkerState::Idle) {
            self.published = Some(published);
        } else if let Some(decided) = &mut self.decided {
            // This caller goes on alone, and claims all of the rest itself.
            decided.why = "no lane is free, or the pool has ended";
        }
    }

    /// The item at `at`, if its `longest` ticks were a large part of a call of `wall` ticks: then it is worth a place at the front. An item that
    /// takes no longer than first touches of code and data is not.
    fn long(&self, longest: u64, at: usize, wall: u64) -> Option<LongItem> {
        let pool = self.call.pool;
        let is_long = longest > wall / LONG && pool.nanos(longest) > pool.guess().cold();
        let (at, of) = (u32::try_from(at).ok()?, u32::try_from(self.items).ok()?);
        is_long.then_some(LongItem { at, of })
    }

    /// Reports how the call went, and why. `entered`: its members.
    #[cold]
    fn report(&self, reported: Reported, entered: usize) {
        let hints = self.call.hints;
        let Some(choice) = self.decided else { return };
        let shared = self.published.map(|_| match hints.items_before(self.at) {
            0 => "shared at once".to_owned(),
            1 => format!("shared after 1 item took {}", choice.since),
            items => format!("shared after {} items took {}", grouped(items), choice.since),
        });
        let threads = if shared.is_some() { entered } else { 1 };
        let account = match self.items {
            // Nothing is predicted of an iterator that does not say how many items it has.
            usize::MAX => LastChoice { serial: None, shared: None, ..choice },
            _ => choice,
        };
        end_loop(reported, hints, self.items, threads, &account.account(shared, Nanos(0.0)));
    }

    /// Updates the statistics of the site and the pool after a region, which ended `now`.
    #[inline(never)]
    fn learn<S: Divide>(&self, published: Published, division: &Division<S>, now: u64) {
        let pool = self.call.pool;
        let wall = now.saturating_sub(self.since);
        let (mut members, mut claims) = (0, 0);
        let (mut busy, mut weight, mut longest, mut longest_at) = (0, 0, 0, 0);
        for report in division.reports() {
            members += usize::from(report.claims > 0);
            claims += report.claims;
            busy += report.busy;
            weight += report.weight;
            if report.longest > longest {
                (longest, longest_at) = (report.longest, report.longest_at);
            }
        }
        let nanos = |ticks| pool.nanos(ticks);
        // What the caller has done alone.
        let (before, alone) = (self.call.hints.weight(self.first, self.at), self.since.saturating_sub(self.start));
        if weight == 0 {
            // The region was stopped before any member had reported, or workers that stood by have come too late.
            if published.stood_by && before > 0 {
                let known = self.memory.known.after_alone(Nanos(nanos(alone).0 / before as f64), true);
                pool.remember(self.site, SiteStats { known, long: None });
            }
            return;
        }
        // The region takes at least as long as its longest item.
        let at_best = nanos(busy / published.width as u64).0.max(nanos(longest).0);
        let entering = (members > 1).then(|| Nanos((nanos(wall).0 - at_best).max(0.0)));
        match published.stood_by {
            true => pool.lasted(now),
            false => pool.learn(now, published.found, entering, nanos(wall + alone)),
        }
        let in_items = (nanos(busy + alone).0 - claims as f64 * pool.machine().contended_claim().0).max(1.0);
        // A first shared call may be far slower than calls that ran alone. A memory that this call has contradicted says nothing.
        let known = if self.doubts { self.memory.known.forgotten() } else { self.memory.known };
        let shared = in_items / (weight + before) as f64;
        // Copies that only a shared call makes are no part of what an item costs.
        let copied = if let Extra::Copy(item) = self.call.hints.extra.time(pool.guess()) { item.0 } else { 0.0 };
        let known = known.after_shared(Nanos((shared - copied).max(shared / COPIED)));
        if self.longest > longest {
            (longest, longest_at) = (self.longest, self.longest_at as u64);
        }
        let long = self.long(longest, longest_at as usize, wall + alone);
        pool.remember(self.site, SiteStats { known, long });
    }

    /// What to do next at item `at` of `end`.
    #[inline(never)]
    fn step(&mut self, at: usize, end: usize) -> CallerStep {
        if at == end {
            return CallerStep::Done;
        }
        let (progress, now) = self.progress(at, end);
        let pool = self.call.pool;
        let workers = pool.workers();
        let ShareChoice { choice, why, shared } = share::choose(&progress, &workers, &pool.costs(now));
        // The decision about the last item is trivial.
        if progress.left.0 > 1 || self.decided.is_none() {
            self.decide(why, &progress, shared, now);
        }
        match choice {
            Grain::Serial { piece } => CallerStep::Run { items: self.call.hints.items(at, end, piece.0) },
            Grain::Publish { width } => {
                let width = pool.seats(end - at, width);
                let found = pool.found(now, width > workers.idle + 1);
                CallerStep::Share { width, found, per_weight: progress.per_item().unwrap_or_default() }
            }
        }
    }

    /// Which workers stand by for this call, of `end` items, which begins serially.
    #[inline]
    fn stands_by(&self, end: usize) -> Option<StandBy> {
        let Caller { call: &Call { pool, hints, .. }, memory, .. } = *self;
        // A claim of more than 2^32 items is claimed as a whole.
        if end > u32::MAX as usize || pool.off.contains(Mechanism::StandBy) {
            return None;
        }
        if pool.sites.unmeasured(self.site).1 > 0 {
            // A call has ended early on its caller alone: its items did not wait for others.
            return None;
        }
        let known = if self.doubts { memory.known.forgotten() } else { memory.known };
        let by = share::stands_by(known, hints.weight(0, end), end, || (pool.workers(), pool.machine()))?;
        Some(StandBy { width: pool.seats(end, by.width), ..by })
    }

    /// Records that workers that stood by have joined, when the caller comes to item `at`.
    #[inline(never)]
    fn joined(&mut self, at: usize, width: usize) {
        let (progress, now) = self.progress(at, self.items);
        self.published = Some(Published { width, found: WorkerState::Idle, stood_by: true });
        let shared = Nanos(progress.rest().0 / width as f64);
        self.decide("long enough for workers on standby to join", &progress, Some(shared), now);
        self.call.per_weight.set_f64(progress.per_item().unwrap_or_default().0);
    }

    /// Records that the piece before item `at` is done. Returns the time.
    fn look(&mut self, at: usize) -> u64 {
        let now = tick();
        let took = now.saturating_sub(self.since);
        if took > self.longest {
            (self.longest, self.longest_at) = (took, self.at);
        }
        (self.since, self.at) = (now, at);
        self.pieces += 1;
        now
    }

    /// The time of the items of all pieces up to `now`.
    fn spent(&self, now: u64) -> Nanos {
        let pool = self.call.pool;
        Nanos((pool.nanos(now.saturating_sub(self.start)).0 - f64::from(self.pieces) * pool.guess().piece().0).max(0.0))
    }

    /// What the caller has done alone when it comes to item `at` of `end`, and the time.
    #[inline(never)]
    fn progress(&mut self, at: usize, end: usize) -> (Progress, u64) {
        let Caller { call, memory, .. } = *self;
        let machine = call.pool.guess();
        let now = if at == self.first { self.start } else { self.look(at) };
        let mut progress = Progress {
            done: Items(call.hints.weight(self.first, at)),
            spent: self.spent(now),
            left: Items(call.hints.weight(at, end)),
            ripe: false,
            known: memory.known.trusted().filter(|_| !self.doubts),
            eager: call.hints.chunk().is_some(),
            only_shared: !self.doubts && memory.known.shared.is_known() && !memory.known.alone.is_known(),
            extra: call.hints.extra.time(machine),
        };
        let contradicted = progress.known.is_some_and(|known| progress.contradicts(known.per_item, machine));
        self.doubts |= contradicted;
        progress.known = progress.known.filter(|_| !contradicted);
        progress.ripe = progress.done.0 > 0 && progress.spent >= machine.sample();
        (progress, now)
    }

    /// Records that a call has ended early on its caller alone, before item `at` or there. That says nothing about the cost of a full call.
    #[inline(never)]
    fn ended_early(&self, at: usize) {
        let Call { pool, hints, .. } = self.call;
        pool.ended_early(self.site, hints.weight(self.first, at), self.spent(tick()));
    }

    /// Updates the statistics of the site after all `end` items ran alone.
    #[inline(never)]
    fn through(&mut self, end: usize) {
        let Caller { call, site, memory, .. } = *self;
        let pool = call.pool;
        let weight = call.hints.weight(self.first, end);
        if weight == 0 {
            return;
        }
        let now = self.look(end);
        let spent = pool.nanos(now.saturating_sub(self.start));
        let expected = Nanos(memory.known.per_item().0 * weight as f64);
        let contradicted = self.doubts || share::contradicts(spent, expected, pool.guess());
        let known = share::after_serial(memory.known, weight, spent, contradicted, pool.members, &pool.machine());
        let long = self.long(self.longest, self.longest_at, now.saturating_sub(self.start));
        pool.remember(site, SiteStats { known, long });
        match spent > pool.guess().enter(WorkerState::Idle) {
            // Awake workers would have saved nothing.
            true if call.hints.extra.time(pool.guess()).forbids_wakes(spent, weight) => pool.lasted(now),
            true => pool.stayed_serial(now, spent),
            false => {}
        }
    }
}

/// What the caller does next.
enum CallerStep {
    /// Run this number of items alone, then ask again.
    Run { items: usize },
    /// Share the rest. A unit of weight takes `per_weight`.
    Share { width: usize, found: WorkerState, per_weight: Nanos },
    /// Nothing is left.
    Done,
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    use proptest::prelude::*;
    use windrow_plan::site::ItemCost;

    use super::*;
    use crate::prelude::*;
    use crate::runtime::cancel::CancelToken;

    #[test]
    fn the_first_piece_is_a_sample() {
        let pool = crate::Pool::new(2);
        pool.install(|| {
            crate::runtime::pool::with_current(|pool| {
                let hints = Hints::default();
                let call = Call { pool, hints: &hints, per_weight: RelaxedU64::new(0), polls: true };
                let caller = |start| Caller { start, ..Caller::new(&call, 0, 10) };
                // A start in the future reads as "no time has passed", whatever interrupts this thread.
                let mut alone = caller(u64::MAX);
                let (progress, _) = alone.progress(1, 10);
                assert_eq!((progress.done.0, progress.left.0, progress.ripe), (1, 9, false));
                while pool.nanos(tick()) < pool.guess().sample() {}
                let (progress, _) = caller(0).progress(1, 10);
                assert_eq!((progress.done.0, progress.ripe), (1, true));
                // Where the site is known, the first item counts, and may contradict what is known.
                let known = (0..3).fold(ItemCost::default(), |known, _| known.after_alone(Nanos(10.0), true));
                let caller = |start| Caller { memory: SiteStats { known, long: None }, ..caller(start) };
                let (progress, _) = caller(u64::MAX).progress(1, 10);
                assert_eq!((progress.done.0, progress.known.is_some()), (1, true));
                let (progress, _) = caller(0).progress(1, 10);
                assert_eq!((progress.done.0, progress.known), (1, None));
            });
        });
    }

    /// One call of a site for each `consumer`, of 64 items, which panics, is cancelled or ends early at item `at`. True if it ran to its end.
    fn call(consumer: usize, at: usize, nanos: u64) -> bool {
        let numbers = || (0..64usize).into_par_iter();
        let work = |item: &usize| {
            let start = std::time::Instant::now();
            while start.elapsed().as_nanos() < u128::from(nanos) {}
            *item == at
        };
        let ends = |item: usize| if work(&item) { None } else { Some(item) };
        let panics = |item: usize| if work(&item) { resume_unwind(Box::new(())) } else { item };
        let token = CancelToken::new();
        match consumer {
            0 => drop(numbers().find_any(work)),
            1 => drop(numbers().find_first(work)),
            2 => drop(numbers().try_for_each(|item| ends(item).map(drop))),
            3 => drop(numbers().map(ends).try_reduce(|| 0, |a, b| Some(a + b))),
            4 => drop(numbers().map(ends).collect::<Option<Vec<_>>>()),
            5 => drop(numbers().take_any_while(|item| !work(item)).count()),
            6 => drop(catch_unwind(AssertUnwindSafe(|| numbers().for_each(|item| assert!(panics(item) < 64))))),
            7 => drop(catch_unwind(AssertUnwindSafe(|| numbers().map(panics).sum::<usize>()))),
            _ => {
                let cancels = |item| {
                    if work(&item) {
                        token.cancel()
                    }
                };
                return numbers().with_cancel(&token).for_each(cancels).is_ok();
            }
        }
        at >= 64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(24)))]

        /// Whatever a site has learned of full calls: calls that panic, are cancelled or end early leave that as it is. So the site decides about full
        /// calls as a twin does that had no others.
        #[test]
        fn calls_that_do_not_run_to_their_end_teach_a_site_nothing(
            calls in prop::collection::vec((0..9usize, 0..128usize, prop_oneof![Just(0u64), Just(200), Just(4000)]), 1..60),
        ) {
            let pool = crate::Pool::new(2);
            pool.install(|| {
                for (consumer, at, nanos) in calls {
                    let before = pool.state.sites.costs();
                    if !call(consumer, at, nanos) {
                        for (before, after) in before.into_iter().zip(pool.state.sites.costs()) {
                            // Two sites may share an entry.
                            prop_assert!(before[0] != after[0] || before == after, "{consumer} at {at} of items of {nanos} ns");
                        }
                    }
                }
                Ok(())
            })?;
        }
    }
}
